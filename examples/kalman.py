"""The Nile's flow as a level that drifts, observed with noise: both variances, by a Kalman filter's likelihood.

The filter is a plain Python loop over a hundred years. symgrad finds the loop in the trace, so that value and gradient
are one C loop there and one back, however many years there are. SciPy maximizes. It ends with an error when the
variances are not those of J. Durbin and S. J. Koopman, "Time Series Analysis by State Space Methods" (2012), 2.10.
With a file name it draws the level (matplotlib).
"""

from __future__ import annotations

import sys

import numpy as np
from scipy.optimize import minimize

import symgrad as sg

FLOW = np.array([
    1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994, 1020, 960, 1180, 799, 958, 1140,
    1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774, 840, 874, 694, 940, 833, 701, 916, 692, 1020, 1050, 969,
    831, 726, 456, 824, 702, 1120, 1100, 832, 764, 821, 768, 845, 864, 862, 698, 845, 744, 796, 1040, 759,
    781, 865, 845, 944, 984, 897, 822, 1010, 771, 676, 649, 846, 812, 742, 801, 1040, 860, 874, 848, 890,
    744, 749, 838, 1050, 918, 986, 797, 923, 975, 815, 1020, 906, 901, 1170, 912, 746, 919, 718, 714, 740,
], dtype=float)
"""Annual flow at Aswan from 1871 to 1970, in 10^8 cubic metres."""


def filtered(logs, flow):
    """Minus the log-likelihood, of the logarithms of both variances, and each year's level with its variance.

    The first year tells where the level begins.
    """
    noise, drift = np.exp(logs)
    level, variance, total = flow[0], noise, 0.0
    levels = [np.stack([level, variance])]
    for t in range(1, len(flow)):
        variance = variance + drift
        surprise, spread = flow[t] - level, variance + noise
        total = total + np.log(2 * np.pi * spread) + surprise**2 / spread
        gain = variance / spread
        level, variance = level + gain * surprise, variance * (1 - gain)
        levels.append(np.stack([level, variance]))
    return total / 2, np.stack(levels)


def loss(logs, flow):
    """Minus the log-likelihood."""
    return filtered(logs, flow)[0]


def plot(path, logs):
    """Draw the flow, and the level with twice its standard deviation."""
    import matplotlib.pyplot as plt

    level, variance = filtered(logs, FLOW)[1].T
    years, width = 1871 + np.arange(len(FLOW)), 2 * np.sqrt(variance)
    figure, axes = plt.subplots(figsize=(8, 3.2), layout="constrained")
    axes.plot(years, FLOW, ".", color="0.4", label="flow")
    axes.plot(years, level, color="C0", label="level, given the years before")
    axes.fill_between(years, level - width, level + width, color="C0", alpha=0.2, linewidth=0)
    axes.set(ylabel="$10^8$ m$^3$")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=100)


def main(path=None) -> None:
    """Fit, and print what was found."""
    start = np.log([10_000.0, 1_000.0])
    print("gradient check:", sg.check_grads(lambda logs: loss(logs, FLOW), (start,), order=2))

    gradient = sg.value_and_grad(loss)
    found = minimize(gradient, start, args=(FLOW,), jac=True, method="BFGS", options={"gtol": 1e-8})
    noise, drift = np.exp(found.x)
    errors = np.sqrt(np.diag(np.linalg.inv(sg.hessian(loss)(found.x, FLOW))))
    print(f"\nlog-likelihood {-found.fun:.3f} after {found.nfev} evaluations")
    print(f"  variance of the observations  {noise:8.1f}   (a factor of {np.exp(errors[0]):.2f} either way)")
    print(f"  variance of the level's steps {drift:8.1f}   (a factor of {np.exp(errors[1]):.2f} either way)")
    lines = gradient.lower(start, FLOW).as_text("c").count("\n")
    print(f"\n{lines} lines of C for value and gradient of {len(FLOW)} years")
    if not np.allclose([noise, drift], [15_099.0, 1_469.1], rtol=1e-3):
        sys.exit("these are not the variances of the book")
    if path:
        plot(path, found.x)


if __name__ == "__main__":
    main(*sys.argv[1:2])
