/* Compiled and loaded once per compiler: does it work, has it OpenMP, has the machine fused multiply-add? */
#include <stdint.h>

#ifdef _OPENMP
int omp_get_max_threads(void);
#endif

/* Sums n numbers; returns 1, plus 2 with fused multiply-add, plus 4 with OpenMP, or 0 when the runtime fails. */
int32_t symgrad_probe(const double *x, double *sum, const int64_t n, const int32_t threads)
{
    int32_t answer = 1;
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
    return answer;
}
