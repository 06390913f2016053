/* Fits a logistic regression by gradient descent, with value and gradient from loss_grad: no Python at run time. */
#include "loss_grad.h"

#include <stdio.h>
#include <stdlib.h>

enum { N = 400, D = 3, STEPS = 300 };

/* numbers between -1 and 1, the same everywhere */
static double drawn(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (double)(*state >> 8) / 8388608.0 - 1.0;
}

int main(void)
{
    static double X[N * D], y[N];
    double w[D] = { 0.0 }, w_bar[D], value = 0.0, first = 0.0;
    const int64_t bytes = loss_grad_workspace_bytes(D, N);
    uint32_t state = 1;
    int right = 0;
    if (bytes < 0) {
        puts(loss_grad_error((int32_t)bytes));
        return 1;
    }
    void *const workspace = malloc((size_t)bytes + 1);
    if (workspace == NULL) return 1;
    for (int i = 0; i < N; ++i) {
        for (int j = 0; j < D; ++j) X[i * D + j] = drawn(&state);
        y[i] = 2.0 * X[i * D] - X[i * D + 1] + 0.2 * drawn(&state) > 0.0 ? 1.0 : -1.0;
    }
    for (int step = 0; step < STEPS; ++step) {
        const int32_t status = loss_grad(w, X, y, &value, w_bar, D, N, workspace);
        if (status != 0) {
            puts(loss_grad_error(status));
            return 1;
        }
        if (step == 0) first = value;
        for (int j = 0; j < D; ++j) w[j] -= 2.0 * w_bar[j];
    }
    for (int i = 0; i < N; ++i) {
        double z = 0.0;
        for (int j = 0; j < D; ++j) z += X[i * D + j] * w[j];
        right += z * y[i] > 0.0;
    }
    free(workspace);
    printf("loss %.4f -> %.4f, w = %.3f %.3f %.3f, %d of %d right\n", first, value, w[0], w[1], w[2], right, N);
    return value < 0.5 * first && right > 95 * N / 100 ? 0 : 1;
}
