"""A double pendulum from its Lagrangian: SymPy derives the equations of motion, symgrad compiles and derives them.

The accelerations solve the Euler-Lagrange equations. They are compiled twice: from SymPy's formulas of them, and from
the Lagrangian alone, by symgrad's own derivatives; both must agree. A trajectory of 2,000 Runge-Kutta steps is one C
loop, and the program ends with an error when its energy is not that of the start, or the derivative of its end by the
start is not what differences say. With a file name it draws the trajectory (matplotlib).
"""

from __future__ import annotations

import sys
import time

import numpy as np
import sympy as sp

import symgrad as sg

STEP, STEPS = 0.005, 2_000
START = np.array([2.0, 2.2, 0.0, 0.0])
"""Two angles in radians from below, and their speeds."""

MASSES = 1.0, 0.7
LENGTHS = 1.0, 0.8
GRAVITY = 9.81

t = sp.Symbol("t")
ANGLES = [sp.Function(name)(t) for name in ("a", "b")]
SPEEDS = [angle.diff(t) for angle in ANGLES]


def energies():
    """Write kinetic and potential energy in SymPy."""
    (a, b), (l1, l2), (m1, m2) = ANGLES, *[[sp.Rational(str(v)) for v in pair] for pair in (LENGTHS, MASSES)]
    x1, y1 = l1 * sp.sin(a), -l1 * sp.cos(a)
    x2, y2 = x1 + l2 * sp.sin(b), y1 - l2 * sp.cos(b)
    kinetic = m1 * (x1.diff(t) ** 2 + y1.diff(t) ** 2) / 2 + m2 * (x2.diff(t) ** 2 + y2.diff(t) ** 2) / 2
    return kinetic, sp.Float(GRAVITY) * (m1 * y1 + m2 * y2)


def motion(lagrangian):
    """Solve the Euler-Lagrange equations for the accelerations: formulas in angles and speeds."""
    momenta = sp.Matrix([lagrangian.diff(speed) for speed in SPEEDS])
    mass = momenta.jacobian(SPEEDS)
    force = sp.Matrix([lagrangian.diff(angle) for angle in ANGLES]) - momenta.jacobian(ANGLES) * sp.Matrix(SPEEDS)
    return mass.LUsolve(force)


def by_symgrad(lagrangian):
    """Make the same of the Lagrangian alone, a compiled function of angles and speeds."""
    momenta = sg.grad(lagrangian, 1)

    def accelerations(angles, speeds):
        mass, drift = sg.jacfwd(momenta, 1)(angles, speeds), sg.jacfwd(momenta, 0)(angles, speeds)
        return np.linalg.solve(mass, sg.grad(lagrangian)(angles, speeds) - drift @ speeds)

    return sg.jit(accelerations)


def trajectory(accelerations, start, steps=STEPS):
    """Follow the pendulum by the classical Runge-Kutta method; a row for each step."""

    def slope(state):
        return np.concatenate([state[2:], np.ravel(accelerations(state[:2], state[2:]))])

    def step(state, _):
        k1 = slope(state)
        k2 = slope(state + STEP / 2 * k1)
        k3 = slope(state + STEP / 2 * k2)
        k4 = slope(state + STEP * k3)
        state = state + STEP / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return state, state

    return sg.scan(step, start, None, length=steps)[1]  # traced once: the formulas are long


def plot(path, states, energy):
    """Draw the way of the second mass, both angles, and how far the energy is off."""
    import matplotlib.pyplot as plt

    figure, (way, angles, off) = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    seconds = STEP * np.arange(1, STEPS + 1)
    x1, y1 = LENGTHS[0] * np.sin(states[:, 0]), -LENGTHS[0] * np.cos(states[:, 0])
    way.plot(x1, y1, color="0.8")
    way.plot(x1 + LENGTHS[1] * np.sin(states[:, 1]), y1 - LENGTHS[1] * np.cos(states[:, 1]), color="C0", linewidth=0.8)
    way.set(xlabel="metres", aspect="equal", title="the two masses")
    angles.plot(seconds, states[:, :2], label=["first", "second"])
    angles.set(xlabel="seconds", title="angles in radians")
    angles.legend(frameon=False)
    off.plot(seconds, energy, color="C2")
    off.set(xlabel="seconds", title="energy lost, relative")
    figure.savefig(path, dpi=100)


def main(path=None) -> None:
    """Derive, compile, follow, and compare."""
    kinetic, potential = energies()
    formulas = motion(kinetic - potential)
    accelerations = sg.from_sympy(formulas, (ANGLES, SPEEDS))
    lagrangian = sg.from_sympy(kinetic - potential, (ANGLES, SPEEDS))
    other = by_symgrad(lagrangian)
    q, v = START[:2], np.array([0.3, -0.4])
    print(f"{sp.count_ops(formulas)} operations in SymPy's accelerations, compiled to")
    lines = accelerations.lower(q, v).as_text("c").count("\n")
    print(f"{lines} lines of C, which give {accelerations(q, v).ravel()}")
    if not np.allclose(accelerations(q, v).ravel(), other(q, v), rtol=1e-12):
        sys.exit("the accelerations differ from those of the Lagrangian's derivatives")

    follow = sg.jit(lambda start: trajectory(accelerations, start))
    since = time.perf_counter()
    states = follow(START)
    first, since = time.perf_counter() - since, time.perf_counter()
    follow(START)
    print(f"{STEPS} steps: first call {first:.1f} s, then {(time.perf_counter() - since) * 1e3:.2f} ms")

    energy = sg.from_sympy(kinetic + potential, (ANGLES, SPEEDS))
    total = sg.vmap(energy)(states[:, :2], states[:, 2:])
    lost = np.abs(total / energy(START[:2], START[2:]) - 1)
    print(f"energy lost over {STEP * STEPS:.0f} seconds: {lost.max():.1e}")
    if lost.max() > 1e-5:
        sys.exit("the energy is not that of the start")

    end = sg.jit(lambda start: trajectory(accelerations, start, 200)[-1, 1])  # after a second
    slope, small = sg.grad(end)(START), 1e-6 * np.eye(4)
    differences = [(end(START + d) - end(START - d)) / 2e-6 for d in small]
    print(f"the second angle after a second, by the start: {slope}")
    if not np.allclose(slope, differences, rtol=1e-6, atol=1e-7):
        sys.exit("the derivatives differ from differences")
    if path:
        plot(path, states, lost)


if __name__ == "__main__":
    main(*sys.argv[1:2])
