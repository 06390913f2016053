/* The log-likelihood of a Gaussian mixture and its gradients: lanes are sixteen points, eight rows of a factor stay in
 * registers. Three sweeps: terms, cluster by cluster; weights, point by point; gradients, cluster by cluster, so that
 * each thread owns the gradients it sums. What the second sweep keeps is a number for each point and cluster; the scaled
 * points are computed twice, which is cheaper than 8 n K d bytes there and back.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { lanes = 16, group = 8, most = 64, clusters = 128 };

typedef double vector __attribute__((vector_size(64)));
typedef vector pair[2];

#pragma omp declare simd notinbranch
double exp(double);

/* One cluster: its factor with the diagonal in place, padded by zeros; its mean. */
struct cluster {
    double factor[most][most], mean[most];
    int64_t rows; /* the dimension, rounded up to an even number */
};

static void load(struct cluster *c, const double *mean, const double *log_diagonal, const double *lower, int64_t d)
{
    memset(c, 0, sizeof *c);
    c->rows = (d + 1) / 2 * 2;
    memcpy(c->mean, mean, (size_t)d * sizeof(double));
    for (int64_t i = 0; i < d; ++i) {
        memcpy(c->factor[i], lower + i * d, (size_t)i * sizeof(double));
        c->factor[i][i] = exp(log_diagonal[i]);
    }
}

/* Centre a tile of points: by lanes, and (for the gradient) by rows. */
static void centre(const struct cluster *c, const double *x, int64_t count, int64_t d, pair *by_lanes,
                   double (*by_rows)[most])
{
    double (*turned)[lanes] = (double (*)[lanes])by_lanes;
    memset(turned, 0, (size_t)c->rows * sizeof *turned);
    memset(by_rows, 0, lanes * sizeof *by_rows);
    for (int64_t p = 0; p < count; ++p) {
        for (int64_t j = 0; j < d; ++j) {
            by_rows[p][j] = x[p * d + j] - c->mean[j];
            turned[j][p] = by_rows[p][j];
        }
    }
}

/* A few rows of the factor times the centred points; their squares are added lane by lane. */
static inline __attribute__((always_inline)) void scale_rows(const struct cluster *c, const pair *centred, pair *scaled,
                                                             vector *squares, int64_t i, const int rows)
{
    pair sums[group] = { 0 };
    for (int64_t j = 0; j < i + rows; ++j) {
        #pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) {
            sums[r][0] += c->factor[i + r][j] * centred[j][0];
            sums[r][1] += c->factor[i + r][j] * centred[j][1];
        }
    }
    #pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
        squares[0] += sums[r][0] * sums[r][0];
        squares[1] += sums[r][1] * sums[r][1];
        scaled[i + r][0] = sums[r][0];
        scaled[i + r][1] = sums[r][1];
    }
}

/* The factor times the centred points, and the sum of squares, lane by lane. */
static void scale(const struct cluster *c, const pair *centred, pair *scaled, vector *squares)
{
    vector sums[2] = { { 0 } };
    int64_t i = 0;
    for (; i + group <= c->rows; i += group) {
        scale_rows(c, centred, scaled, sums, i, group);
    }
    for (; i < c->rows; i += 2) {
        scale_rows(c, centred, scaled, sums, i, 2);
    }
    squares[0] = sums[0];
    squares[1] = sums[1];
}

/* A few rows of factor_bar[i][j] += sum over the points of pull[i] * centred[j]. */
static inline __attribute__((always_inline)) void outer_rows(const pair *pull, double (*centred)[most],
                                                             double (*factor_bar)[most], int64_t i, const int rows)
{
    const double (*pulls)[lanes] = (const double (*)[lanes])(pull + i);
    for (int64_t j = 0; j < i + rows; j += group) {
        vector sums[group];
        #pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) {
            sums[r] = *(vector *)&factor_bar[i + r][j];
        }
        for (int p = 0; p < lanes; ++p) {
            const vector x = *(const vector *)&centred[p][j];
            #pragma GCC unroll 8
            for (int r = 0; r < rows; ++r) {
                sums[r] += pulls[r][p] * x;
            }
        }
        #pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) {
            *(vector *)&factor_bar[i + r][j] = sums[r];
        }
    }
}

static void outer(const struct cluster *c, const pair *pull, double (*centred)[most], double (*factor_bar)[most])
{
    int64_t i = 0;
    for (; i + group <= c->rows; i += group) {
        outer_rows(pull, centred, factor_bar, i, group);
    }
    for (; i < c->rows; i += 2) {
        outer_rows(pull, centred, factor_bar, i, 2);
    }
}

static double sum_of(const pair x)
{
    double total = 0.0;
    for (int l = 0; l < 8; ++l) {
        total += x[0][l] + x[1][l];
    }
    return total;
}

/* Turn terms[tile][k] into the clusters' weights; return the sum of the logarithms. */
static double weigh(pair *terms, int64_t count, int64_t K)
{
    double (*t)[lanes] = (double (*)[lanes])terms, top[lanes], sum[lanes] = { 0.0 }, total = 0.0;
    memcpy(top, t[0], sizeof top);
    for (int64_t k = 1; k < K; ++k) {
        for (int l = 0; l < lanes; ++l) {
            top[l] = t[k][l] > top[l] ? t[k][l] : top[l];
        }
    }
    for (int64_t k = 0; k < K; ++k) {
        #pragma omp simd
        for (int l = 0; l < lanes; ++l) {
            t[k][l] = exp(t[k][l] - top[l]);
            sum[l] += t[k][l];
        }
    }
    for (int l = 0; l < count; ++l) {
        total += top[l] + log(sum[l]);
    }
    for (int64_t k = 0; k < K; ++k) {
        for (int l = 0; l < lanes; ++l) {
            t[k][l] = l < count ? t[k][l] / sum[l] : 0.0;
        }
    }
    return total;
}

struct gradients {
    double *alpha, *mean, *log_diagonal, *lower;
};

/* Write one cluster's gradients from the sums over all points. A point's pull on the mean is the factor, transposed,
 * times its pull on the scaled point: linear, so the pulls are summed first. */
static void store(const struct cluster *c, double (*factor_bar)[most], const pair *pulls, double weight,
                  struct gradients to, int64_t d)
{
    *to.alpha += weight;
    for (int64_t j = 0; j < d; ++j) {
        to.mean[j] = 0.0;
        to.log_diagonal[j] = weight + c->factor[j][j] * factor_bar[j][j];
    }
    for (int64_t i = 0; i < d; ++i) {
        const double pull = sum_of(pulls[i]);
        for (int64_t j = 0; j <= i; ++j) {
            to.mean[j] -= c->factor[i][j] * pull;
        }
        for (int64_t j = 0; j < d; ++j) {
            to.lower[i * d + j] = j < i ? factor_bar[i][j] : 0.0;
        }
    }
}

static void terms_of(const struct cluster *c, double alpha, const double *x, pair *terms, int64_t n, int64_t K,
                     int64_t d)
{
    pair centred[most], scaled[most], squares;
    double rows[lanes][most] __attribute__((aligned(64))), determinant = alpha;
    for (int64_t i = 0; i < d; ++i) {
        determinant += log(c->factor[i][i]);
    }
    for (int64_t first = 0, tile = 0; first < n; first += lanes, ++tile) {
        centre(c, x + first * d, n - first < lanes ? n - first : lanes, d, centred, rows);
        scale(c, centred, scaled, squares);
        terms[tile * K][0] = determinant - 0.5 * squares[0];
        terms[tile * K][1] = determinant - 0.5 * squares[1];
    }
}

static void gradients_of(const struct cluster *c, const double *x, const pair *weights, struct gradients to, int64_t n,
                         int64_t K, int64_t d)
{
    pair centred[most], pull[most], pulls[most], squares, weight = { 0 };
    double rows[lanes][most] __attribute__((aligned(64))), factor_bar[most][most] __attribute__((aligned(64)));
    memset(factor_bar, 0, sizeof factor_bar);
    memset(pulls, 0, sizeof pulls);
    for (int64_t first = 0, tile = 0; first < n; first += lanes, ++tile) {
        centre(c, x + first * d, n - first < lanes ? n - first : lanes, d, centred, rows);
        scale(c, centred, pull, squares);
        for (int64_t i = 0; i < c->rows; ++i) {
            for (int half = 0; half < 2; ++half) {
                pull[i][half] *= -weights[tile * K][half];
                pulls[i][half] += pull[i][half];
            }
        }
        weight[0] += weights[tile * K][0];
        weight[1] += weights[tile * K][1];
        outer(c, pull, rows, factor_bar);
    }
    store(c, factor_bar, pulls, sum_of(weight), to, d);
}

/* d is at most 64, K at most 128; scratch holds a number for each point (their number rounded up to 16) and cluster. */
void gmm(const double *restrict alphas, const double *restrict means, const double *restrict log_diagonals,
         const double *restrict lower, const double *restrict x, double *restrict value, double *restrict alphas_bar,
         double *restrict means_bar, double *restrict log_diagonals_bar, double *restrict lower_bar,
         double *restrict scratch, int64_t n, int64_t K, int64_t d, int32_t threads)
{
    pair *const terms = (pair *)(void *)scratch;
    double total = 0.0, top = alphas[0], sum = 0.0;
    #pragma omp parallel for num_threads(threads)
    for (int64_t k = 0; k < K; ++k) {
        struct cluster c;
        load(&c, means + k * d, log_diagonals + k * d, lower + k * d * d, d);
        terms_of(&c, alphas[k], x, terms + k, n, K, d);
    }
    #pragma omp parallel for reduction(+:total) num_threads(threads)
    for (int64_t first = 0; first < n; first += lanes) {
        total += weigh(terms + first / lanes * K, n - first < lanes ? n - first : lanes, K);
    }
    for (int64_t k = 0; k < K; ++k) {
        top = alphas[k] > top ? alphas[k] : top;
    }
    for (int64_t k = 0; k < K; ++k) {
        sum += exp(alphas[k] - top);
    }
    #pragma omp parallel for num_threads(threads)
    for (int64_t k = 0; k < K; ++k) {
        struct cluster c;
        load(&c, means + k * d, log_diagonals + k * d, lower + k * d * d, d);
        alphas_bar[k] = -(double)n * exp(alphas[k] - top) / sum;
        const struct gradients to = { alphas_bar + k, means_bar + k * d, log_diagonals_bar + k * d, lower_bar + k * d * d };
        gradients_of(&c, x, terms + k, to, n, K, d);
    }
    *value = total - (double)n * (top + log(sum)) - 0.5 * (double)n * (double)d * 1.8378770664093455;
}
