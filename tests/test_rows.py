"""One test for each promise, by its row number: rows R01 to R11, what is derived."""

from __future__ import annotations

import re
import time
from typing import Any

import numpy as np
import pytest
import scipy.optimize

import symgrad as sg
from symgrad.ir.op import Elementwise
from symgrad.ir.verify import verify
from symgrad.ops import OPS
from tests.looking import code, loops, slowness, sweeps
from tests.table import INTERPRETED, numerical

X17 = np.array(
    [3.3, 4.4, 5.5, 6.71, 6.93, 4.168, 9.779, 6.182, 7.59, 2.167, 7.042, 10.791, 5.313, 7.997, 5.654, 9.27, 3.1]
)
Y17 = np.array(
    [1.7, 2.76, 2.09, 3.19, 1.694, 1.573, 3.366, 2.596, 2.53, 1.221, 2.827, 3.465, 1.65, 2.904, 2.42, 2.94, 1.3]
)


# -- R01, R02: the chain rule


def test_r01_no_gradient_names_op_argument_and_line_only_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any, **__: Any) -> Any:
        raise sg.NoGradient("cumsum has no derivative")

    monkeypatch.setattr(OPS["cumsum"], "vjp", missing)

    def loss(x, y):
        return np.sum(np.cumsum(y)) + np.sum(x * x)

    assert np.array_equal(sg.grad(loss, options=INTERPRETED)(np.ones(2), np.ones(3)), [2.0, 2.0])
    with pytest.raises(sg.NoGradient, match="cumsum"):
        sg.grad(loss, argnums=1, options=INTERPRETED)(np.ones(2), np.ones(3))


BY_THE_LAST = {"gammainc", "gammaincc", "betainc", "betaincc", "stdtr", "zeta"}
"""By their parameters, which come first, there is no derivative."""


NOT_ANALYTIC = {"maximum", "minimum", "fmax", "fmin", "expi", "zeta"}
"""They take complex numbers, and compare them, or have a branch cut where the points are."""


def test_r01_every_ufunc_passes_check_grads_at_20_points_to_order_2() -> None:
    """A dozen in one check, each of arguments of its own: those of complex numbers by the complex step."""
    groups: dict[str, list[Any]] = {"complex step": [], "central differences": []}
    for op in OPS.values():
        if not isinstance(op, Elementwise) or not isinstance(op.numpy, np.ufunc) or op.nondiff:
            continue
        domains = op.sample if hasattr(op.sample[0], "draw") else (op.sample,) * op.arity
        args = [domain.draw(np.random.default_rng(1), (20,)) for domain in domains]
        if all(a.dtype == np.float64 for a in args):
            alone = args[-1:] if op.name in BY_THE_LAST else args
            is_complex = any(kind.endswith("->D") for kind in op.numpy.types) and op.name not in NOT_ANALYTIC
            method = "complex step" if is_complex else "central differences"
            groups[method].append((op, args[: len(args) - len(alone)], list(alone)))
    for method, rows in groups.items():
        for some in (rows[k : k + 12] for k in range(0, len(rows), 12)):
            report = sg.check_grads(lambda every, some=some: [
                op.numpy(*settings, *x) for (op, settings, _), x in zip(some, every, strict=True)
            ], ([x for _, _, x in some],), order=2)
            assert report.method == method, " ".join([op.name for op, _, _ in some])
    assert sum(map(len, groups.values())) >= 60


def test_r01_a_rule_of_wrong_count_or_shape_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def loss(x):
        return np.sum(np.tanh(x) * x)

    monkeypatch.setattr(OPS["tanh"], "vjp", lambda g, _y, _x: (g, g))
    with pytest.raises(sg.SymgradError, match="tanh"):
        sg.grad(loss, options=INTERPRETED)(np.ones(2))
    monkeypatch.setattr(OPS["tanh"], "vjp", lambda g, _y, _x: np.sum(g) * np.ones(5))
    with pytest.raises(ValueError, match=r"shape|broadcast"):
        sg.grad(loss, options=INTERPRETED)(np.ones(2))


def test_r02_cotangents_of_all_paths_are_added() -> None:
    dx, dy = sg.grad(lambda x, y: 10 * (x + 2 * y), argnums=(0, 1))(3.0, 4.0)
    assert (dx, dy) == (10.0, 20.0)
    assert sg.grad(lambda x: x**2 + x**4)(2.0) == 36.0
    assert sg.grad(lambda x: x**2 + x**8)(2.0) == 1028.0
    gradient = sg.grad(lambda X: np.sum(X @ X))(np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert np.array_equal(gradient, [[7.0, 11.0], [9.0, 13.0]])


def test_r02_sixty_doublings() -> None:
    def doubled(y):
        for _ in range(60):
            y = y + y
        return y

    function = sg.value_and_grad(doubled)
    assert function(1.0) == (2.0**60, 2.0**60)
    assert len(re.findall(r" \+ | \+= ", code(function))) <= 70


@pytest.mark.slow
def test_r02_a_chain_of_100_000_ops_traces_differentiates_and_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    def chain(x):
        for k in range(40_000):
            x = np.sin(x) * 1.0001 if k % 2 else x + 0.5
        for _ in range(20_000):
            x = x * x - 0.1
        return x

    monkeypatch.delenv("SYMGRAD_VERIFY", raising=False)  # what is timed is a user's; it is verified below
    unrolled = sg.Options(compiler="none", without=("roll",))  # as loops, the chain has ten nodes
    for _ in range(3):  # the least is its own: tests beside it take memory's bandwidth, which no clock leaves out
        before, began = slowness(), time.process_time()
        lowered = sg.value_and_grad(chain, options=unrolled).lower(0.3)
        text, optimized = lowered.as_text("traced"), lowered.as_text("optimized")
        seconds, slow = time.process_time() - began, max(before, slowness())
        if seconds < 10 * slow:
            break
    assert text.count("\n") > 100_000
    assert optimized.count("\n") > 200_000
    for stage in ("traced", "optimized"):
        verify(lowered.stages.of(stage), stage)
    assert seconds < 10 * slow, f"{seconds:.1f} s, on a machine {slow:.1f} times slower than usual"


# -- R07: the linear regression program


def cost(W, b, X, Y):
    return np.sum(np.power(X * W + b - Y, 2)) / (2 * X.shape[0])


def test_r07_linear_regression() -> None:
    function = sg.value_and_grad(cost, argnums=(0, 1))
    value, (dW, db) = function(0.5, -0.25, X17, Y17)
    assert value == pytest.approx(0.3701340661764706, rel=1e-12)
    assert dW == pytest.approx(4.4651655588235295, rel=1e-12)
    assert db == pytest.approx(0.498264705882353, rel=1e-12)
    assert loops(function).workspace == 0
    assert sweeps(function, 17) == 1
    assert "pow" not in code(function)
    assert not re.search(r"double \w+\[", code(function)), "no array but the arguments"


def test_r07_descent_ends_at_least_squares() -> None:
    function = sg.value_and_grad(cost, argnums=(0, 1))
    W, b = 0.5, -0.25
    for _ in range(20_000):
        _, (dW, db) = function(W, b, X17, Y17)
        W, b = W - 0.01 * dW, b - 0.01 * db
    assert pytest.approx(0.251634944, abs=1e-8) == W
    assert b == pytest.approx(0.798801226, abs=1e-8)
    assert function(0.251634944283554, 0.7988012261753885, X17, Y17)[0] == pytest.approx(0.07692883702095546, rel=1e-12)


# -- R08, R09: neither symbolic swell nor differences


def statements(text: str) -> int:
    return len(re.findall(r"^    \w+ = ", text, re.MULTILINE))


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def helmholtz(x, A, b):
    n = x.shape[0]
    bx = b @ x
    root = np.sqrt(2.0)
    return (
        np.sum(x * np.log(x / (1 - bx)))
        - (x @ (A @ x)) / (np.sqrt(8.0) * bx) * np.log((1 + (1 + root) * bx) / (1 + (1 - root) * bx)) / n
    )


def perceptron(params, x):
    for W, b in params:
        x = np.tanh(x @ W + b)
    return np.sum(x * x)


def test_r08_no_expression_swell() -> None:
    def shared(y):
        for _ in range(14):
            y = np.sin(y) * y
        return y

    lowered = sg.value_and_grad(shared).lower(1.1)
    forward = statements(lowered.as_text("traced"))
    assert forward == 28
    assert statements(lowered.as_text("optimized")) <= 5 * forward
    rng = np.random.default_rng(0)
    layers = [(rng.normal(size=(4, 4)), rng.normal(size=4)) for _ in range(3)]
    for function, args in (
        (rosenbrock, (rng.normal(size=1000),)),
        (helmholtz, (rng.uniform(0.01, 0.1, 5), rng.normal(size=(5, 5)), rng.uniform(0.1, 1, 5))),
        (perceptron, (layers, rng.normal(size=(3, 4)))),
    ):
        lowered = sg.value_and_grad(function).lower(*args)
        assert statements(lowered.as_text("optimized")) <= 5 * statements(lowered.as_text("traced")), function.__name__


def test_r08_the_chain_of_14_is_right() -> None:
    def shared(y):
        for _ in range(14):
            y = np.sin(y) * y
        return y

    found = sg.grad(shared)(1.1)
    expected = np.imag(shared(np.complex128(1.1 + 1e-30j))) / 1e-30
    assert found == pytest.approx(expected, rel=1e-12)


def test_r09_a_right_gradient_agrees_with_the_complex_step_and_the_c_holds_no_difference() -> None:
    def loss(x):
        return np.sum(np.exp(x) * np.sin(x)) / (1.0 + np.sum(x * x))

    x = np.linspace(-1.0, 1.3, 7)
    function = sg.value_and_grad(loss)
    _, gradient = function(x)
    for k in range(7):
        step = np.zeros(7, complex)
        step[k] = 1e-30j
        assert gradient[k] == pytest.approx(np.imag(loss(x + step)) / 1e-30, rel=1e-10)
    assert not re.search(r"\de-\d", code(function)), "no small step"


def test_r09_a_rule_wrong_by_1e_6_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OPS["sin"], "vjp", lambda g, _y, x: g * (np.cos(x) * (1 + 1e-6)))
    x = np.linspace(-1.0, 1.0, 5)
    found = sg.grad(lambda x: np.sum(np.sin(x)), options=INTERPRETED)(x)
    [expected] = numerical(lambda x: np.sum(np.sin(x)), [x])
    gap = np.max(np.abs(found - expected) / np.abs(expected))
    assert 5e-7 < gap < 2e-6


# -- R10: SciPy's minimizers


def test_r10_minimize_rosenbrock_100_with_a_supplied_gradient() -> None:
    x0 = np.tile([-1.2, 1.0], 50)
    calls = {"with": 0, "without": 0}
    function = sg.value_and_grad(rosenbrock)

    def counted(x):
        calls["with"] += 1
        return function(x)

    def plain(x):
        calls["without"] += 1
        return rosenbrock(x)

    found = scipy.optimize.minimize(
        counted, x0, jac=True, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-9}
    )
    assert found.fun < 1e-10
    scipy.optimize.minimize(plain, x0, method="L-BFGS-B", options={"maxiter": 5000, "maxfun": 10**6})
    assert calls["without"] >= 20 * calls["with"]


def test_r10_newton_methods_converge_with_hessian_vector_products() -> None:
    gradient = sg.grad(rosenbrock)
    product_ = sg.grad(lambda x, p: np.sum(sg.grad(rosenbrock)(x) * p))
    value = sg.jit(rosenbrock)
    x0 = np.linspace(0.5, 1.5, 10)

    def hessian(x):
        return np.stack([product_(x, e) for e in np.eye(len(x))])

    for method, options in (
        ("trust-ncg", {"hessp": product_}),
        ("Newton-CG", {"hessp": product_, "options": {"xtol": 1e-10}}),
        ("trust-exact", {"hess": hessian}),
    ):
        found = scipy.optimize.minimize(value, x0, jac=gradient, method=method, **options)
        assert found.success, method
        assert found.fun < 1e-8, method
    # A forward difference is off by epsilon * f'' / 2; at the minimum f is 0, so that a small epsilon costs no digits.
    assert scipy.optimize.check_grad(value, gradient, np.ones(10), epsilon=1e-9) < 1e-5
    assert np.allclose(hessian(x0), hessian(x0).T, rtol=1e-12)


def test_r10_further_arguments_are_passed() -> None:
    found = scipy.optimize.minimize(
        sg.value_and_grad(lambda x, target, weight: np.sum(weight * (x - target) ** 2)),
        np.zeros(3),
        jac=True,
        args=(np.array([1.0, -2.0, 3.0]), np.array([1.0, 2.0, 0.5])),
        method="BFGS",
    )
    assert np.allclose(found.x, [1.0, -2.0, 3.0], atol=1e-6)


# -- R11: what a gradient reads


def reads(function: sg.Function) -> set[str]:
    """Name the arguments whose elements the C reads."""
    return {a.name for a in loops(function).inputs if re.search(rf"\b{a.name}\[", code(function))}


V, U = np.linspace(0.5, 2.0, 6), np.linspace(1.0, 3.0, 6)
NEEDS = {
    "a + c": (lambda a, c: np.sum(a + c), set()),
    "a - c": (lambda a, c: np.sum(a - c), set()),
    "a + 2*c": (lambda a, c: np.sum(a + 2 * c), set()),
    "-a": (lambda a, _: np.sum(-a), set()),
    "3*a": (lambda a, _: np.sum(3 * a), set()),
    "sum": (lambda a, _: np.sum(a), set()),
    "reshape": (lambda a, _: np.sum(np.reshape(a, (2, 3))), set()),
    "broadcast": (lambda a, _: np.sum(a[:, None] + np.zeros((6, 2))), set()),
    "log": (lambda a, _: np.sum(np.log(a)), {"a"}),
    "square": (lambda a, _: np.sum(np.square(a)), {"a"}),
    "a*c by a": (lambda a, c: np.sum(a * c), {"c"}),
    "a*c*7 by a": (lambda a, c: np.sum(a * (c * 7)), {"c"}),
}


@pytest.mark.parametrize("name", NEEDS)
def test_r11_a_gradient_reads_what_its_rule_mentions(name: str) -> None:
    loss, needed = NEEDS[name]
    function = sg.grad(loss)
    function(V, U)
    assert reads(function) == needed


def test_r11_nothing_is_kept_in_memory() -> None:
    for loss in (
        lambda a: np.sum(np.exp(a)),
        lambda a: np.sum(np.tanh(a)),
        lambda a: np.sum(np.sqrt(a)),
        lambda a: np.sum(np.log1p(a)),
    ):
        function = sg.value_and_grad(loss)
        function(np.linspace(0.1, 1.0, 1000))
        assert loops(function).workspace == 0
        assert sweeps(function, 1000) == 1
