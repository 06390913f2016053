/* Logistic regression: one pass over X. A tile's margins, then its losses and residuals as lanes, then its gradient. */
#include <math.h>
#include <stdint.h>

enum { tile = 64, most = 512 };

#pragma omp declare simd notinbranch
double exp(double);
#pragma omp declare simd notinbranch
double log1p(double);

void logistic(const double *restrict w, const double *restrict X, const double *restrict y, double *restrict value,
              double *restrict w_bar, int64_t n, int64_t d, int32_t threads)
{
    double total = 0.0, sums[most] = { 0.0 };
    #pragma omp parallel for reduction(+:total, sums[:d]) num_threads(threads)
    for (int64_t first = 0; first < n; first += tile) {
        const int64_t count = n - first < tile ? n - first : tile;
        double z[tile], r[tile], part = 0.0;
        for (int64_t i = 0; i < count; ++i) {
            double dot = 0.0;
            #pragma omp simd reduction(+:dot)
            for (int64_t j = 0; j < d; ++j) {
                dot = fma(X[(first + i) * d + j], w[j], dot);
            }
            z[i] = dot;
        }
        #pragma omp simd reduction(+:part)
        for (int64_t i = 0; i < count; ++i) {
            const double t = -y[first + i] * z[i], small = exp(-fabs(t));
            part += (t > 0.0 ? t : 0.0) + log1p(small);
            r[i] = -y[first + i] * ((t >= 0.0 ? 1.0 : small) / (1.0 + small));
        }
        total += part;
        for (int64_t i = 0; i < count; ++i) {
            #pragma omp simd
            for (int64_t j = 0; j < d; ++j) {
                sums[j] = fma(X[(first + i) * d + j], r[i], sums[j]);
            }
        }
    }
    *value = total / (double)n;
    for (int64_t j = 0; j < d; ++j) {
        w_bar[j] = sums[j] / (double)n;
    }
}
