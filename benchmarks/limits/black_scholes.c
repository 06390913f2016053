/* Call prices with delta and vega by their closed forms: two erf, one log and one exp for each option. */
#include <math.h>
#include <stdint.h>

#pragma omp declare simd notinbranch
double exp(double);
#pragma omp declare simd notinbranch
double log(double);
#pragma omp declare simd notinbranch
double erf(double);

void black_scholes(const double *restrict spot, const double *restrict sigma, double *restrict value,
                   double *restrict spot_bar, double *restrict sigma_bar, int64_t n, int32_t threads)
{
    const double strike = 100.0, rate = 0.03, discounted = strike * exp(-rate);
    double total = 0.0;
    #pragma omp parallel for simd reduction(+:total) num_threads(threads)
    for (int64_t i = 0; i < n; ++i) {
        const double s = sigma[i];
        const double up = (log(spot[i] * (1.0 / strike)) + (rate + 0.5 * s * s)) / s, down = up - s;
        const double delta = 0.5 + 0.5 * erf(up * 0.70710678118654752);
        total += spot[i] * delta - discounted * (0.5 + 0.5 * erf(down * 0.70710678118654752));
        spot_bar[i] = delta;
        sigma_bar[i] = spot[i] * 0.39894228040143268 * exp(-0.5 * up * up);
    }
    *value = total;
}
