/* The energy of all pairs as its user wrote it, i against all j as lanes. The forces on i and j are opposite, so the
 * gradient of x[i] is the sum over its own row. Coordinates stand in a column each: (3, n). */
#include <math.h>
#include <stdint.h>

void n_body(const double *restrict x, const double *restrict masses, double *restrict value, double *restrict x_bar,
            double *restrict columns, int64_t n, int32_t threads)
{
    double *const restrict a = columns, *const restrict b = columns + n, *const restrict c = columns + 2 * n;
    for (int64_t i = 0; i < n; ++i) {
        a[i] = x[3 * i];
        b[i] = x[3 * i + 1];
        c[i] = x[3 * i + 2];
    }
    double total = 0.0;
    #pragma omp parallel for reduction(+:total) num_threads(threads)
    for (int64_t i = 0; i < n; ++i) {
        double energy = 0.0, fa = 0.0, fb = 0.0, fc = 0.0;
        #pragma omp simd reduction(+:energy, fa, fb, fc)
        for (int64_t j = 0; j < n; ++j) {
            const double da = a[i] - a[j], db = b[i] - b[j], dc = c[i] - c[j];
            const double square = da * da + db * db + dc * dc + 0.01;
            const double term = masses[j] / sqrt(square), pull = term / square;
            energy += term;
            fa += pull * da;
            fb += pull * db;
            fc += pull * dc;
        }
        total -= 0.5 * masses[i] * energy;
        x_bar[3 * i] = masses[i] * fa;
        x_bar[3 * i + 1] = masses[i] * fb;
        x_bar[3 * i + 2] = masses[i] * fc;
    }
    *value = total;
}
