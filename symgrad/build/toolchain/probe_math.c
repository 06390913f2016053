/* Which functions of the C library have vector variants? The caller defines FUNCTIONS as a list of UNARY and BINARY;
 * the variants that were called stand in the library's symbols (_ZGV...), and it loads if they exist. */
#define PRAGMA(text) _Pragma(#text)

#define UNARY(type, f)                                 \
    PRAGMA(omp declare simd notinbranch)               \
    type f(type);                                      \
    void symgrad_##f(const type *restrict x, type *restrict y) \
    {                                                  \
        PRAGMA(omp simd)                               \
        for (int i = 0; i < 64; ++i) {                 \
            y[i] = f(x[i]);                            \
        }                                              \
    }

#define BINARY(type, f)                                \
    PRAGMA(omp declare simd notinbranch)               \
    type f(type, type);                                \
    void symgrad_##f(const type *restrict x, type *restrict y) \
    {                                                  \
        PRAGMA(omp simd)                               \
        for (int i = 0; i < 64; ++i) {                 \
            y[i] = f(x[i], y[i]);                      \
        }                                              \
    }

FUNCTIONS

/* The same loop at two vector widths, for the caller to time. */
#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__) && defined(TIMED)
#define LOOP(width)                                                          \
    __attribute__((target("prefer-vector-width=" #width)))                   \
    void symgrad_width_##width(const double *restrict x, double *restrict y, \
                               const int rounds)                             \
    {                                                                        \
        for (int round = 0; round < rounds; ++round) {                       \
            PRAGMA(omp simd)                                                 \
            for (int i = 0; i < 1024; ++i) {                                 \
                y[i] = exp(x[i]) + (0.5 * y[i] + x[i]) * x[i];               \
            }                                                                \
        }                                                                    \
    }

LOOP(256)
LOOP(512)
#endif
