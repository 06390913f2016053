/* Rosenbrock's function of n variables and its gradient, each element's gradient gathered from its neighbours. */
#include <stdint.h>

static inline double slope(const double *x, int64_t i)
{
    return -400.0 * x[i] * (x[i + 1] - x[i] * x[i]) - 2.0 * (1.0 - x[i]);
}

static inline double pull(const double *x, int64_t i)
{
    return 200.0 * (x[i] - x[i - 1] * x[i - 1]);
}

void rosenbrock(const double *restrict x, double *restrict value, double *restrict x_bar, int64_t n, int32_t threads)
{
    double total = 0.0;
    {
        const double step = x[1] - x[0] * x[0], rest = 1.0 - x[0];
        total += 100.0 * step * step + rest * rest;
        x_bar[0] = slope(x, 0);
    }
    #pragma omp parallel for simd reduction(+:total) num_threads(threads) if(n > 50000)
    for (int64_t i = 1; i < n - 1; ++i) {
        const double step = x[i + 1] - x[i] * x[i], rest = 1.0 - x[i];
        total += 100.0 * step * step + rest * rest;
        x_bar[i] = slope(x, i) + pull(x, i);
    }
    x_bar[n - 1] = pull(x, n - 1);
    *value = total;
}
