/* Softmax regression of ten classes, padded to sixteen lanes: logits, probabilities and the gradient of a tile of rows
 * while it is in the cache. */
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { classes = 10, lanes = 16, tile = 32, group = 4, most = 128 };

typedef double vector __attribute__((vector_size(64)));

#pragma omp declare simd notinbranch
double exp(double);

static void logits_of(const double *X, const vector (*W)[2], const vector *b, vector (*z)[2], int64_t d)
{
    for (int64_t i = 0; i < tile; i += group) {
        vector sums[group][2];
        for (int r = 0; r < group; ++r) {
            sums[r][0] = b[0];
            sums[r][1] = b[1];
        }
        for (int64_t p = 0; p < d; ++p) {
            for (int r = 0; r < group; ++r) {
                sums[r][0] += X[(i + r) * d + p] * W[p][0];
                sums[r][1] += X[(i + r) * d + p] * W[p][1];
            }
        }
        memcpy(z[i], sums, sizeof sums);
    }
}

static void gradient_of(const double *X, const vector (*z)[2], vector (*W_bar)[2], int64_t d)
{
    for (int64_t p = 0; p < d; p += group) {
        vector sums[group][2];
        memcpy(sums, W_bar[p], sizeof sums);
        for (int64_t i = 0; i < tile; ++i) {
            for (int q = 0; q < group; ++q) {
                sums[q][0] += X[i * d + p + q] * z[i][0];
                sums[q][1] += X[i * d + p + q] * z[i][1];
            }
        }
        memcpy(W_bar[p], sums, sizeof sums);
    }
}

/* Turn logits into the losses' slopes; return the sum of the losses. */
static double slopes_of(double (*z)[lanes], const int64_t *labels, int64_t count)
{
    double e[tile][lanes], total = 0.0;
    for (int64_t i = 0; i < tile; ++i) {
        double top = z[i][0];
        for (int c = 1; c < classes; ++c) {
            top = z[i][c] > top ? z[i][c] : top;
        }
        #pragma omp simd
        for (int c = 0; c < lanes; ++c) {
            e[i][c] = exp(z[i][c] - top);
        }
        double sum = 0.0;
        for (int c = 0; c < classes; ++c) {
            sum += e[i][c];
        }
        if (i < count) {
            total += top + log(sum) - z[i][labels[i]];
        }
        const double scale = i < count ? 1.0 / sum : 0.0;
        for (int c = 0; c < lanes; ++c) {
            z[i][c] = c < classes ? e[i][c] * scale : 0.0;
        }
        if (i < count) {
            z[i][labels[i]] -= 1.0;
        }
    }
    return total;
}

static void add_up(double (*total)[lanes], double (*part)[lanes], int64_t rows)
{
    #pragma omp critical
    for (int64_t p = 0; p < rows; ++p) {
        for (int c = 0; c < lanes; ++c) {
            total[p][c] += part[p][c];
        }
    }
}

/* d is at most 128 and divisible by 4. */
void softmax(const double *restrict W, const double *restrict b, const double *restrict X,
             const int64_t *restrict labels, double *restrict value, double *restrict W_bar, double *restrict b_bar,
             int64_t n, int64_t d, int32_t threads)
{
    vector wide[most][2] = { 0 }, shift[2] = { 0 };
    static double sums[most + 1][lanes];
    double total = 0.0;
    memset(sums, 0, sizeof sums);
    for (int64_t p = 0; p < d; ++p) {
        memcpy(wide[p], W + p * classes, classes * sizeof(double));
    }
    memcpy(shift, b, classes * sizeof(double));
    #pragma omp parallel reduction(+:total) num_threads(threads)
    {
        double own[most + 1][lanes] __attribute__((aligned(64))) = { 0 };
        #pragma omp for nowait
        for (int64_t first = 0; first < n; first += tile) {
            const int64_t count = n - first < tile ? n - first : tile;
            double z[tile][lanes] __attribute__((aligned(64))), padded[tile * most];
            const double *rows = X + first * d;
            if (count < tile) {
                memset(padded, 0, sizeof padded);
                memcpy(padded, rows, (size_t)(count * d) * sizeof(double));
                rows = padded;
            }
            logits_of(rows, wide, shift, (vector (*)[2])z, d);
            total += slopes_of(z, labels + first, count);
            gradient_of(rows, (vector (*)[2])z, (vector (*)[2])own, d);
            for (int64_t i = 0; i < tile; ++i) {
                for (int c = 0; c < lanes; ++c) {
                    own[most][c] += z[i][c];
                }
            }
        }
        add_up(sums, own, most + 1);
    }
    double square = 0.0;
    for (int64_t p = 0; p < d; ++p) {
        for (int c = 0; c < classes; ++c) {
            square += W[p * classes + c] * W[p * classes + c];
            W_bar[p * classes + c] = sums[p][c] / (double)n + 2e-4 * W[p * classes + c];
        }
    }
    for (int c = 0; c < classes; ++c) {
        b_bar[c] = sums[most][c] / (double)n;
    }
    *value = total / (double)n + 1e-4 * square;
}
