"""`safer`: formula before, formula after, the same numbers; where it must not fire, and what it costs."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import symgrad as sg
from symgrad.ir.evaluate import evaluate
from symgrad.ir.node import Graph
from symgrad.ir.program import rebuild
from symgrad.ir.text import expression
from symgrad.ir.verify import verify
from symgrad.transforms.rewrite import logarithms
from symgrad.transforms.rewrite.engine import Run
from symgrad.transforms.rewrite.safer import SAFER, safer

X = np.array([0.1, 0.25, 0.75])
M = np.array([[0.1, 0.25, 0.75], [2.0, -1.0, 0.5]])
LABELS = np.array([0, 2])


def stages(function, *arguments):
    kept = sg.jit(function).lower(*arguments).stages.kept
    return kept["traced"], kept["stable"]


def formula(program):
    """Print a program as one expression; scalar constants as plain numbers, arrays of integers as `i`."""
    names = {node: node.param("name") for node in program.inputs}
    for node in program.nodes():
        if node in names:
            continue
        if node.op.name == "constant":
            array = node.params[0].array
            names[node] = f"{array:.12g}" if not node.shape else "i" if node.dtype.kind == "i" else "w"
            continue
        outer = is_infix(node)
        names[node] = expression(node, [f"({names[i]})" if outer and is_infix(i) else names[i] for i in node.inputs])
    return ", ".join(names[o] for o in program.outputs).replace("scipy.special.", "")


def is_infix(node):
    return getattr(node.op, "infix", None) is not None


def softmax_entropy(X, y):
    e = np.exp(X)
    p = e / e.sum(axis=1, keepdims=True)
    return np.log(p[np.arange(y.shape[0]), y])


def by_hand(M):
    m = np.max(M, axis=1, keepdims=True)
    return m[:, 0] + np.log(np.sum(np.exp(M - m), axis=1))


def masked_softmax(x):
    e = np.where(x > 0.2, np.exp(x), 0)
    return e / e.sum()


def weighted_softmax(x):
    e = np.array([0.5, 0.25, 0.0]) * np.exp(x)
    return e / e.sum()


def mixture(M):
    return np.log(0.25 * np.exp(M[0]) + 0.75 * np.exp(M[1]))


REWRITTEN = {
    # log(1 + u), exp(u) - 1
    "log(1 + x)": (lambda x: np.log(1 + x), X, "np.log1p(x)"),
    "log(x + 1)": (lambda x: np.log(x + 1), X, "np.log1p(x)"),
    "log(ones + x)": (lambda x: np.log(np.ones(3) + x), X, "np.log1p(x)"),
    "log(ones_like + x)": (lambda x: np.log(np.ones_like(x) + x), X, "np.log1p(x)"),
    "log(1 - x)": (lambda x: np.log(1 - x), X, "np.log1p(-x)"),
    "log(1 - -x)": (lambda x: np.log(1 - -x), X, "np.log1p(x)"),
    "log2(1 + x)": (lambda x: np.log2(1 + x), X, "1.44269504089 * np.log1p(x)"),
    "log10(1 + x)": (lambda x: np.log10(1 + x), X, "0.434294481903 * np.log1p(x)"),
    "log of a view of 1 + x": (lambda x: np.log((1 + x)[::-1, None]), X,
                               "np.expand_dims(np.log1p(x)[2::-1], (1,))"),
    "exp(x) - 1": (lambda x: np.exp(x) - 1, X, "np.expm1(x)"),
    "exp(x) - ones": (lambda x: np.exp(x) - np.ones(3), X, "np.expm1(x)"),
    "-1 + exp(x)": (lambda x: -1 + np.exp(x), X, "np.expm1(x)"),
    "1 - exp(x)": (lambda x: 1 - np.exp(x), X, "-np.expm1(x)"),
    "log(exp(x))": (lambda x: np.log(np.exp(x)), X, "x"),
    "log(1 - exp(-x))": (lambda x: np.log(1 - np.exp(-x)), X, "ops.log1mexp(-x)"),
    "log1p(-exp(-x))": (lambda x: np.log1p(-np.exp(-x)), X, "ops.log1mexp(-x)"),
    "log1p(expm1(x))": (lambda x: np.log1p(np.exp(x) - 1), X, "x"),
    "log(x**2)": (lambda x: np.log(x**2), X, "2 * np.log(np.absolute(x))"),
    "log2(x**2)": (lambda x: np.log2(x**2), X, "2 * np.log2(np.absolute(x))"),
    "log(x**3)": (lambda x: np.log(x**3), X, "3 * np.log(x)"),
    "log(x * x)": (lambda x: np.log(x * x), X, "2 * np.log(np.absolute(x))"),
    # softplus, the logistic function and its kin
    "log(1 + exp(x))": (lambda x: np.log(1 + np.exp(x)), X, "np.logaddexp(0, x)"),
    "log1p(exp(x))": (lambda x: np.log1p(np.exp(x)), X, "np.logaddexp(0, x)"),
    "max(x, 0) + log1p(exp(-|x|))": (lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))), X,
                                     "np.logaddexp(0, x)"),
    "log(exp(x) + exp(-x))": (lambda x: np.log(np.exp(x) + np.exp(-x)), X, "np.logaddexp(x, -x)"),
    "1 / (1 + exp(-x))": (lambda x: 1 / (1 + np.exp(-x)), X, "expit(x)"),
    "1 / (exp(-x) + 1)": (lambda x: 1.0 / (np.exp(-x) + 1.0), X, "expit(x)"),
    "1 / (1 + exp(-3x))": (lambda x: 1 / (1 + np.exp(-3 * x)), X, "expit(3 * x)"),
    "1 / (1 + exp(x))": (lambda x: 1 / (1 + np.exp(x)), X, "expit(-x)"),
    "(1 + exp(-x))**-1": (lambda x: (1 + np.exp(-x)) ** -1, X, "expit(x)"),
    "exp(x) / (1 + exp(x))": (lambda x: np.exp(x) / (1 + np.exp(x)), X, "expit(x)"),
    "k / (1 + exp(-x))": (lambda x: x / (1 + np.exp(-x)), X, "x * expit(x)"),
    "exp(x) / (exp(x) + exp(-x))": (lambda x: np.exp(x) / (np.exp(x) + np.exp(-x)), X, "expit(x - (-x))"),
    "exp(x) / (1 + exp(x))**2": (lambda x: np.exp(x) / (1 + np.exp(x)) ** 2, X, "ops.expit_slope(x)"),
    "1 - expit(x)": (lambda x: 1 - scipy.special.expit(x), X, "expit(-x)"),
    "log(expit(x))": (lambda x: np.log(scipy.special.expit(x)), X, "log_expit(x)"),
    "log(1 / (1 + exp(-x)))": (lambda x: np.log(1 / (1 + np.exp(-x))), X, "log_expit(x)"),
    "log(1 - expit(x))": (lambda x: np.log(1 - scipy.special.expit(x)), X, "log_expit(-x)"),
    "log1p(-expit(x))": (lambda x: np.log1p(-scipy.special.expit(x)), X, "log_expit(-x)"),
    "log(x / (1 - x))": (lambda x: np.log(x / (1 - x)), X, "logit(x)"),
    "log((1 + x) / (1 - x))": (lambda x: np.log((1 + x) / (1 - x)), X, "2 * np.arctanh(x)"),
    # what cancels
    "(e - 1/e) / 2": (lambda x: (np.exp(x) - np.exp(-x)) / 2, X, "(2 * np.sinh(x)) / 2"),
    "(e - 1/e) / (e + 1/e)": (lambda x: (np.exp(x) - np.exp(-x)) / (np.exp(x) + np.exp(-x)), X, "np.tanh(x)"),
    "(e - 1) / (e + 1)": (lambda x: (np.exp(x) - 1) / (np.exp(x) + 1), X, "np.tanh(0.5 * x)"),
    "(1 - e) / (1 + e)": (lambda x: (1 - np.exp(x)) / (1 + np.exp(x)), X, "np.tanh(-0.5 * x)"),
    "1 - tanh(x)": (lambda x: 1 - np.tanh(x), X, "2 * expit(-2 * x)"),
    "1 + tanh(x)": (lambda x: 1 + np.tanh(x), X, "2 * expit(2 * x)"),
    "1 - tanh(x)**2": (lambda x: 1 - np.tanh(x) ** 2, X, "4 * ops.expit_slope(2 * x)"),
    "1 - x**2": (lambda x: 1 - x**2, X, "ops.one_minus_square(x)"),
    "1 - cos(x)**2": (lambda x: 1 - np.cos(x) ** 2, X, "np.square(np.sin(x))"),
    "1 - sin(x)**2": (lambda x: 1 - np.sin(x) ** 2, X, "np.square(np.cos(x))"),
    "1 + erf(x)": (lambda x: 1 + scipy.special.erf(x), X, "erfc(-x)"),
    "1 - erf(x)": (lambda x: 1 - scipy.special.erf(x), X, "erfc(x)"),
    "1 - ndtr(x)": (lambda x: 1 - scipy.special.ndtr(x), X, "ndtr(-x)"),
    "erf(x) - 1": (lambda x: scipy.special.erf(x) - 1, X, "-erfc(x)"),
    # sums of exponentials
    "log(sum(exp(x)))": (lambda x: np.log(np.sum(np.exp(x))), X, "ops.logsumexp(x, axes=(0,))"),
    "log2(sum(exp(x)))": (lambda x: np.log2(np.sum(np.exp(x))), X, "1.44269504089 * ops.logsumexp(x, axes=(0,))"),
    "keepdims": (lambda M: np.log(np.exp(M).sum(axis=1, keepdims=True)), M,
                 "np.expand_dims(ops.logsumexp(M, axes=(1,)), (1,))"),
    "[:, None]": (lambda M: np.log(np.exp(M).sum(axis=1)[:, None]), M,
                  "np.expand_dims(ops.logsumexp(M, axes=(1,)), (1,))"),
    "reshape": (lambda M: np.log(np.exp(M).sum(axis=1).reshape(1, 2)), M,
                "np.reshape(ops.logsumexp(M, axes=(1,)), (1, 2))"),
    "log(mean(exp(x)))": (lambda x: np.log(np.mean(np.exp(x))), X, "ops.logsumexp(x, axes=(0,)) - 1.09861228867"),
    "log(1 + sum(exp(x)))": (lambda x: np.log(1 + np.sum(np.exp(x))), X,
                             "np.logaddexp(0, ops.logsumexp(x, axes=(0,)))"),
    "sum of a list": (lambda x: np.log(sum([np.exp(x), np.exp(2 * x)])), X, "np.logaddexp(x, 2 * x)"),
    "weights that are numbers": (lambda x: np.log(np.sum(np.array([0.5, 0.25, 0.25]) * np.exp(x))), X,
                                 "ops.logsumexp(w + x, axes=(0,))"),
    "a mixture": (mixture, M, "np.logaddexp(-1.38629436112 + M[0, 0:3], -0.287682072452 + M[1, 0:3])"),
    "masked": (lambda x: np.log(np.sum(np.where(x > 0.2, np.exp(x), 0))), X,
               "ops.logsumexp(np.where(x > 0.2, x, -inf), axes=(0,))"),
    "times a mask": (lambda x: np.log(np.sum((x > 0.2) * np.exp(x))), X,
                     "ops.logsumexp(np.where(x > 0.2, 0, -inf) + x, axes=(0,))"),
    "log(prod(expit(x)))": (lambda x: np.log(np.prod(scipy.special.expit(x))), X, "np.sum(log_expit(x), axis=(0,))"),
    "log(max(exp(x)))": (lambda x: np.log(np.max(np.exp(x))), X, "np.max(x, axis=(0,))"),
    "log(cosh(x))": (lambda x: np.log(np.cosh(x)), X, "ops.log_cosh(x)"),
    "log(exp(x) / y)": (lambda x: np.log(np.exp(x) / x), X, "x - np.log(x)"),
    "log(exp(x) y)": (lambda x: np.log(np.exp(x) * (1 + x)), X, "x + np.log1p(x)"),
    "a shift by hand": (by_hand, M, "ops.logsumexp(M, axes=(1,))"),
    # softmax
    "softmax": (lambda x: np.exp(x) / np.sum(np.exp(x)), X, "ops.softmax(x, axes=(0,))"),
    "softmax of rows": (lambda M: np.exp(M) / np.exp(M).sum(axis=1, keepdims=True), M, "ops.softmax(M, axes=(1,))"),
    "softmax of columns": (lambda M: np.exp(M) / np.exp(M).sum(axis=0), M, "ops.softmax(M, axes=(0,))"),
    "softmax, masked": (masked_softmax, X, "ops.softmax(np.where(x > 0.2, x, -inf), axes=(0,))"),
    "softmax, weighted": (weighted_softmax, X, "ops.softmax(w + x, axes=(0,))"),
    "softmax by reshape": (lambda M: np.exp(M) / np.exp(M).sum(1).reshape(-1, 1), M, "ops.softmax(M, axes=(1,))"),
    "softmax, transposed": (lambda M: (np.exp(M).T / np.exp(M).sum(axis=1)).T, M,
                            "np.transpose(np.exp(np.transpose(M, (1, 0)) - ops.logsumexp(M, axes=(1,))), (1, 0))"),
    "softmax, shifted": (lambda M: np.exp(M - M.max(1)[:, None]) / np.exp(M - M.max(1)[:, None]).sum(1)[:, None], M,
                         "ops.softmax(M, axes=(1,))"),
    "softmax, divided after a product": (lambda M: np.exp(M) @ M.T / np.exp(M).sum(axis=1)[:, None], M,
                                         "ops.softmax(M, axes=(1,)) @ np.transpose(M, (1, 0))"),
    "softmax of columns, divided after a product": (
        lambda M: np.exp(M - M.max(axis=0)).T @ M / np.exp(M - M.max(axis=0)).sum(axis=0)[:, None], M,
        "np.transpose(ops.softmax(M, axes=(0,)), (1, 0)) @ M"),
    "softmax, a weighted mean": (lambda M: np.average(M, weights=np.exp(M), axis=1), M,
                                 "np.sum(M * ops.softmax(M, axes=(1,)), axis=(1,))"),
    "softmax, a weighted mean of rows": (
        lambda M: np.sum(np.exp(M)[:, :, None] * M.T, axis=1) / np.exp(M).sum(axis=1)[:, None], M,
        "np.sum(np.expand_dims(ops.softmax(M, axes=(1,)), (2,)) * np.transpose(M, (1, 0)), axis=(1,))"),
    "log-softmax": (lambda x: np.log(np.exp(x) / np.sum(np.exp(x))), X, "ops.log_softmax(x, axes=(0,))"),
    "x - log(sum(exp(x)))": (lambda M: M - np.log(np.exp(M).sum(1, keepdims=True)), M, "ops.log_softmax(M, axes=(1,))"),
    "another denominator": (lambda M: np.exp(M[0]) / np.exp(M[1]).sum(), M,
                            "np.exp(M[0, 0:3] - ops.logsumexp(M[1, 0:3], axes=(0,)))"),
    "picked": (lambda M: softmax_entropy(M, LABELS), M, "ops.log_softmax(M, axes=(1,))[i, i]"),
    # powers and roots
    "x**0": (lambda x: x**0, X, "np.broadcast_to(1, (3,))"),
    "x**1": (lambda x: x**1.0, X, "x"),
    "x**2": (lambda x: x**2, X, "np.square(x)"),
    "power(x, 2)": (lambda x: np.power(x, 2), X, "np.square(x)"),
    "float_power(x, 2)": (lambda x: np.float_power(x, 2), X, "np.square(x)"),
    "x**3": (lambda x: x**3, X, "ops.power_int(x, exponent=3)"),
    "x**-2": (lambda x: x**-2, X, "ops.power_int(x, exponent=-2)"),
    "x**-1": (lambda x: x**-1, X, "np.reciprocal(x)"),
    "s**0.5": (lambda x: (x @ x) ** 0.5, X, "np.sqrt(x @ x)"),
    "s**-0.5": (lambda x: (1 + x * x) ** -0.5, X, "np.reciprocal(np.sqrt(1 + (x * x)))"),
    "x**-0.5": (lambda x: x**-0.5, X,
                "np.reciprocal(np.where(x == -inf, inf, np.sqrt(x + 0)))"),
    "2**x": (lambda x: 2**x, X, "np.exp2(x)"),
    "sqrt(x**2)": (lambda x: np.sqrt(x**2), X, "np.absolute(x)"),
    "sqrt(x * x)": (lambda x: np.sqrt(x * x), X, "np.absolute(x)"),
    "maximum(x, 0)": (lambda x: np.maximum(x, 0), X, "ops.relu(x)"),
    "maximum(0, x)": (lambda x: np.maximum(0.0, x), X, "ops.relu(x)"),
    "clip(x, 0, None)": (lambda x: np.clip(x, 0, None), X, "ops.relu(x)"),
    "abs(x)**2": (lambda x: np.abs(x) ** 2, X, "np.square(x)"),
    "norm(x)**2": (lambda x: np.linalg.norm(x) ** 2, X, "np.sum(x * x, axis=(0,))"),
}

KEPT = {
    "log(2 + x)": lambda x: np.log(2 + x),
    "log(1 + x) with other ones": lambda x: np.log(np.array([1.0, 1.0, 2.0]) + x),
    "log(x - 1)": lambda x: np.log(x - 1),
    "log(x)": np.log,
    "log(3 x)": lambda x: np.log(3 * x),
    "log(-exp(x))": lambda x: np.log(-np.exp(x)),
    "log(x y)": lambda x: np.log(x * np.sin(x)),
    "log(sum(x))": lambda x: np.log(np.sum(x)),
    "log(sum(w exp(x)))": lambda x: np.log(np.sum(x * np.exp(x))),
    "log(exp(x) - exp(y))": lambda x: np.log(np.exp(x) - np.exp(x * x)),
    "log1p(exp(-|x|))": lambda x: np.log1p(np.exp(-np.abs(x))),
    "exp(x) - 2": lambda x: np.exp(x) - 2,
    "exp(x) + 1": lambda x: np.exp(x) + 1,
    "exp(x) - w": lambda x: np.exp(x) - np.array([1.0, 1.0, 0.0]),
    "exp2(x) - 1": lambda x: np.exp2(x) - 1,
    "1 - x": lambda x: 1 - x,
    "2 - x * x": lambda x: 2 - x * x,
    "x * x - 1 of two": lambda x: 1 - x * (x + 1),
    "2 - expit(x)": lambda x: 2 - scipy.special.expit(x),
    "1 / (2 + exp(-x))": lambda x: 1 / (2 + np.exp(-x)),
    "1 / (1 - exp2(-x))": lambda x: 1 / (1 - np.exp2(-x)),
    "exp(x) / sum": lambda x: np.exp(x) / np.sum(x),
    "exp(x) / x": lambda x: np.exp(x) / x,
    "exp(log(x))": lambda x: np.exp(np.log(x)),
    "sqrt(x)**2 where x may be negative": lambda x: np.sqrt(np.sin(x)) * np.sqrt(np.sin(x)),
    "sqrt(x y)": lambda x: np.sqrt(x * np.sin(x)),
    "x**1.5": lambda x: x**1.5,
    "x**65": lambda x: x**65.0,
    "x**y": lambda x: x**x,
    "3**x": lambda x: 3**x,
    "integers": lambda x: (x > 0).astype(np.int64) + 1 - (x > 0).astype(np.int64) * (x > 0.5).astype(np.int64),
    "x - logsumexp(y)": lambda x: x - scipy.special.logsumexp(2 * x),
    "m + logsumexp(x - k)": lambda x: np.max(x) + scipy.special.logsumexp(x - np.min(x)),
    "max(x, 1)": lambda x: np.maximum(x, 1),
    "max(x, y)": lambda x: np.maximum(x, x * x),
    "min(x, 0)": lambda x: np.minimum(x, 0),
    "max(x, 1) + log1p(exp(-|x|))": lambda x: np.maximum(x, 1) + np.log1p(np.exp(-np.abs(x))),
}


@pytest.mark.parametrize("name", REWRITTEN)
def test_formula_after(name):
    function, argument, after = REWRITTEN[name]
    traced, stable = stages(function, argument)
    assert formula(stable) == after
    assert formula(traced) != formula(stable)
    verify(stable)
    expected, found = evaluate(traced, [argument]), evaluate(stable, [argument])
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-14, atol=1e-15)
    assert found[0].dtype == expected[0].dtype
    assert found[0].shape == expected[0].shape


@pytest.mark.parametrize("name", KEPT)
def test_never_fires_on_what_is_merely_similar(name):
    traced, stable = stages(KEPT[name], X)
    assert formula(stable) == formula(traced)


@pytest.mark.parametrize("name", REWRITTEN)
def test_once_is_enough(name):
    function, argument, _ = REWRITTEN[name]
    _, stable = stages(function, argument)
    assert formula(safer(stable)) == formula(stable)


@pytest.mark.parametrize("name", ["log(1 + exp(x))", "log(mean(exp(x)))", "1 - tanh(x)**2", "x**-2", "softmax of rows"])
def test_single_precision_stays_single(name):
    function, argument, _ = REWRITTEN[name]
    _, stable = stages(function, argument.astype(np.float32))
    assert {node.dtype.name for node in stable.nodes()} == {"float32"}


def test_sums_over_other_axes_are_no_softmax():
    square = np.arange(9.0).reshape(3, 3)
    _, stable = stages(lambda S: np.exp(S) / np.exp(S).sum(axis=1), square)  # divides columns by the sums of rows
    assert formula(stable) == "np.exp(S - ops.logsumexp(S, axes=(1,)))"
    for function in (
        lambda S: np.exp(S) @ S / np.exp(S).sum(axis=0)[:, None],
        lambda S: np.exp(S) @ S / np.exp(S).sum(axis=1),
        lambda S: np.exp(S).T @ S / np.exp(S).sum(axis=1)[:, None],
        lambda S: np.sum(np.exp(S) * S, axis=1) / np.exp(S).sum(axis=0),
    ):
        traced, stable = stages(function, square)
        assert formula(stable) == formula(traced)
    _, stable = stages(lambda S: S - np.log(np.exp(S).sum(axis=1)), square)
    assert formula(stable) == "S - ops.logsumexp(S, axes=(1,))"
    _, stable = stages(lambda S: S.max(axis=0) + np.log(np.exp(S - S.max(axis=1)[:, None]).sum(axis=1)), square)
    assert "logsumexp(S -" in formula(stable)  # another shift than the one that was taken off


def test_extents_that_are_not_known():
    lowered = sg.jit(softmax_entropy).lower(sg.spec("f64[n,d]"), sg.spec("i64[n]"))
    assert "log_softmax(X, axes=(1,))" in formula(lowered.stages.kept["stable"])
    lowered = sg.jit(lambda x: np.log(np.mean(np.exp(x)))).lower(sg.spec("f32[n]"))
    assert "logsumexp(x, axes=(0,)) - " in formula(lowered.stages.kept["stable"])


def test_a_nested_derivative_is_taken_of_the_stable_formula():
    def outer(x):
        return x * sg.grad(lambda y: np.log(1 + np.exp(y)))(x)

    traced, _ = stages(outer, 2.0)
    assert "expit" in formula(traced)
    assert "/" not in formula(traced)
    assert float(sg.grad(outer)(800.0)) == 1.0


def test_new_nodes_keep_the_users_line():
    _, stable = stages(REWRITTEN["log(mean(exp(x)))"][0], X)
    for node in stable.nodes():
        if node.inputs:
            assert node.line is not None
            assert node.line.file.endswith("test_stabilize.py")


def test_time_is_linear(monkeypatch):
    looked_at = []
    factors = logarithms._log_parts

    def counted(node):
        looked_at.append(node)
        return factors(node)

    monkeypatch.setattr(logarithms, "_log_parts", counted)

    def chain(x, count):
        y = x
        for _ in range(count):
            y = np.log(1 + np.exp(y)) / (1 + np.exp(-y)) + y
        return y

    def logs_of_sums(x, count):
        total, y = np.exp(x), 0.0
        for k in range(count):
            total = total + np.exp(k * x)
            y = y + np.log(total)
        return y

    for function in (chain, logs_of_sums):
        work = []
        for count in (500, 1000):
            traced = sg.jit(function, static_argnums=1).lower(0.5, count).stages.kept["traced"]
            graph = Graph()
            looked_at.clear()
            stable = rebuild(traced, Run(SAFER).rewritten, into=graph)
            work.append((len(looked_at), len(graph), len(stable.nodes())))
        assert all(twice < 2.1 * once for once, twice in zip(*work, strict=True))


def test_ten_thousand_exponentials_under_one_logarithm():
    def function(x):
        total = np.exp(x)
        for k in range(10_000):
            total = total + np.exp(x - k)
        return np.log(total)

    f = sg.jit(function)
    program = f.lower(0.5).stages.kept["stable"]
    assert len(program.nodes()) < 10
    *_, scan = [node for node in program.nodes() if node.op.name == "scan"]
    assert [node.op.name for node in scan.param("body").nodes() if node.inputs] == ["logaddexp"]
    np.testing.assert_allclose(f(1000.0), 1000.0 - np.log1p(-np.exp(-1.0)) + np.log1p(1 - np.exp(-1.0)), rtol=1e-15)
