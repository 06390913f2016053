// Fits a curve by Newton's method in C++, with value, gradient and Hessian from the module that CMake found.
#include <curve.h>

#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <vector>

namespace {

void require(int64_t status)
{
    if (status < 0) throw std::runtime_error(curve_error(static_cast<int32_t>(status)));
}

// solves the 2 by 2 system H s = g
void solve(const double *H, const double *g, double *s)
{
    const double determinant = H[0] * H[3] - H[1] * H[2];
    s[0] = (H[3] * g[0] - H[1] * g[1]) / determinant;
    s[1] = (H[0] * g[1] - H[2] * g[0]) / determinant;
}

}  // namespace

int main()
{
    const int64_t n = 50;
    std::vector<double> t(n), y(n);
    for (int64_t i = 0; i < n; ++i) {
        t[i] = 0.1 * static_cast<double>(i);
        y[i] = 3.0 * std::exp(-0.7 * t[i]);
    }
    const int64_t gradient_bytes = curve_value_and_grad_workspace_bytes(n), hessian_bytes = curve_hessian_workspace_bytes(n);
    require(gradient_bytes);
    require(hessian_bytes);
    std::vector<char> workspace(static_cast<size_t>(1 + (gradient_bytes > hessian_bytes ? gradient_bytes : hessian_bytes)));
    double p[2] = {2.5, 0.6}, gradient[2], hessian[4], step[2], value = 1.0;
    int steps = 0;
    for (; steps < 20 && value > 1e-20; ++steps) {
        if (const int32_t status = curve_value_and_grad(p, t.data(), y.data(), &value, gradient, n, workspace.data()))
            throw std::runtime_error(curve_error(status));
        if (const int32_t status = curve_hessian(p, t.data(), y.data(), hessian, n, workspace.data()))
            throw std::runtime_error(curve_error(status));
        solve(hessian, gradient, step);
        p[0] -= step[0];
        p[1] -= step[1];
    }
    std::printf("%.6f exp(-%.6f t) after %d steps of Newton's method\n", p[0], p[1], steps);
    return std::abs(p[0] - 3.0) < 1e-9 && std::abs(p[1] - 0.7) < 1e-9 ? 0 : 1;
}
