/* A product of matrices in blocks: panels of B are packed, eight rows by sixteen columns stay in registers.
 * Extents are divisible by 16. */
#include <stdint.h>
#include <string.h>

enum { rows = 8, columns = 16, depth = 256 };

typedef double vector __attribute__((vector_size(64)));

static void block(const double *A, const vector (*panel)[2], double *C, int64_t count, int64_t k, int64_t n)
{
    vector c[rows][2];
    for (int r = 0; r < rows; ++r) {
        memcpy(c[r], C + r * n, sizeof c[r]);
    }
    for (int64_t p = 0; p < count; ++p) {
        #pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) {
            c[r][0] += A[r * k + p] * panel[p][0];
            c[r][1] += A[r * k + p] * panel[p][1];
        }
    }
    for (int r = 0; r < rows; ++r) {
        memcpy(C + r * n, c[r], sizeof c[r]);
    }
}

void product(const double *restrict A, const double *restrict B, double *restrict C, int64_t m, int64_t k, int64_t n,
             int32_t threads)
{
    memset(C, 0, (size_t)(m * n) * sizeof(double));
    #pragma omp parallel for num_threads(threads)
    for (int64_t j = 0; j < n; j += columns) {
        for (int64_t first = 0; first < k; first += depth) {
            const int64_t count = k - first < depth ? k - first : depth;
            vector panel[depth][2];
            for (int64_t p = 0; p < count; ++p) {
                memcpy(panel[p], B + (first + p) * n + j, sizeof panel[p]);
            }
            for (int64_t i = 0; i < m; i += rows) {
                block(A + i * k + first, panel, C + i * n + j, count, k, n);
            }
        }
    }
}
