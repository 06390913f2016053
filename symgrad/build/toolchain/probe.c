/* Compiled and loaded once per compiler: does it work, has it OpenMP, has the machine fused multiply-add? */
#include <stdint.h>

#if defined(__GNUC__) && !defined(__clang__) && defined(__AVX512F__)
typedef double eight_doubles __attribute__((vector_size(64)));
typedef int64_t eight_places __attribute__((vector_size(64)));

/* gcc 12.2 takes this permutation, of which one element crosses its lane, for one within lanes. */
static __attribute__((noinline, noclone)) void permuted(const eight_doubles *x, eight_doubles *y)
{
    *y = __builtin_shuffle(*x, (eight_places){0, 1, 2, 6, 4, 5, 6, 7});
}

static int permutes(const double *x)
{
    eight_doubles of = {x[0], 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0};
    permuted(&of, &of);
    return of[3] == 6.0;
}
#else
static int permutes(const double *x)
{
    (void)x;
    return 1;
}
#endif

enum { TERMS = 512 };

#if defined(__GNUC__)
__attribute__((noinline))
#endif
static double chosen_sum(const double *restrict scale, const double *restrict x, const uint8_t *restrict taken,
                         const double *restrict slope, double *restrict out)
{
    const _Bool positive = scale[0] > 0.0;
    double total = 0.0;
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < TERMS; ++i) {
        const _Bool used = x[i] != 0.0 || (double)taken[i] - 0.5 > 0.0;
        const double term = x[i] * slope[i];
        const double scaled = x[i] * scale[0];
        total += used ? term : 0.0;
        const double kept = (used || positive ? scaled : 0.0) * slope[i];
        out[i] = used ? kept : 0.0;
    }
    return total;
}

/* gcc 12.2 with AVX-512 loses terms here, where it threads the jumps of equal conditions through the sum. */
static int adds_up(const double *x)
{
    static double terms[TERMS], slopes[TERMS], out[TERMS];
    static uint8_t taken[TERMS];
    double whole = 0.0;
    for (int32_t i = 0; i < TERMS; ++i) {
        const int32_t turn = (i * 37 + 11) % 101;
        terms[i] = turn % 3 == 0 ? x[0] * turn : 0.0;
        slopes[i] = x[1] * (turn % 7);
        taken[i] = (uint8_t)(turn % 5 == 0);
        whole += terms[i] * slopes[i];
    }
    return chosen_sum(x, terms, taken, slopes, out) == whole;
}

#ifdef _OPENMP
int omp_get_max_threads(void);
#endif

/* Sums n numbers; returns 1, plus 2 with fused multiply-add, plus 4 with OpenMP, plus 8 where eight doubles are
 * permuted right, or 0 when the runtime fails, or sums are wrong. */
int32_t symgrad_probe(const double *x, double *sum, const int64_t n, const int32_t threads)
{
    int32_t answer = permutes(x) ? 9 : 1;
    double total = 0.0;
#pragma omp parallel for simd reduction(+ : total) num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < n; ++i) {
        total += x[i];
    }
    *sum = total;
#if defined(__FMA__) || defined(__FP_FAST_FMA) || defined(__aarch64__)
    answer += 2;
#endif
#ifdef _OPENMP
    if (omp_get_max_threads() < 1) {
        return 0;
    }
    answer += 4;
#endif
    return adds_up(x) ? answer : 0;
}
