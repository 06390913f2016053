"""Guards of cotangents: what `where` does not choose has no gradient, whatever its slope is there."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import scipy.special

import symgrad as sg
from symgrad.ir.node import Graph
from symgrad.ops.declare.forms import OPS
from symgrad.trace.numpy import protocols  # noqa: F401 - what traced values answer
from symgrad.trace.state import Trace, tracing
from symgrad.transforms.build import literal, make
from symgrad.transforms.derive.guards import conditions, either, negation

V = np.array([-1.0, 0.0, 4.0])
Z = np.zeros(2)
X = np.array([[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]])
W = np.arange(6.0).reshape(3, 2)
OF_LOG = 1 / X[1]
"""The gradient of the sum of log(X), row 1; row 0 is where it is infinite."""
OF_ROOT = 0.5 / np.sqrt(X[1])


def below(row, zeros=None):
    """Put a row below one of zeros: the gradient of what takes only row 1."""
    return np.stack([np.zeros_like(row) if zeros is None else zeros, row])


def unit(x):
    n = np.sqrt(np.sum(x * x))
    return np.where(n > 0, x / n, 0)


def unit_of_norm(x):
    n = np.linalg.norm(x)
    return np.where(n > 0, x / n, 0)


def shared_root(x):
    r = np.sqrt(x)
    return np.where(x > 0, r, 0) + np.where(x > 2, r * r * r, 0)


def complementary(x):
    r = np.sqrt(x)
    return np.where(x > 0, np.where(x > 2, r, 2 * r), 0)


def of_each_other(x):
    logarithm = np.log(x)
    return np.where(x > 0, np.where(logarithm > 0, np.sqrt(logarithm), 0), 0)


def written(x):
    y = np.zeros_like(x)
    y[0] = np.sqrt(x)[0]
    y[1] = np.log(x)[1]
    return np.where(x > 0, y, 0)


def masked_by_elements(x):
    n = np.sqrt(np.sum(x * x))
    return np.where(x != 0, x / n, 0)


def rows(x):
    return np.all(x > 0, axis=1)


CASES = {
    "root": (lambda x: np.where(x > 0, np.sqrt(x), 0), V, [0, 0, 0.25], [0, 0, -1 / 32]),
    "root by power": (lambda x: np.where(x > 0, x**0.5, 0), V, [0, 0, 0.25], [0, 0, -1 / 32]),
    "logarithm": (lambda x: np.where(x > 0, np.log(x), 0), np.array([-1.0, 0.0, 2.0]), [0, 0, 0.5], [0, 0, -0.25]),
    "chosen by not": (lambda x: np.where(x <= 0, 0, np.log(x)), V, [0, 0, 0.25], [0, 0, -1 / 16]),
    "reciprocal": (lambda x: np.where(x != 0, 1 / x, 0), V, [-1, 0, -1 / 16], [-2, 0, 2 / 64]),
    "x log x": (lambda x: np.where(x > 0, x * np.log(x), 0), V, [0, 0, 1 + np.log(4)], [0, 0, 0.25]),
    "sin(x) / x": (lambda x: np.where(x == 0, 1, np.sin(x) / x), np.zeros(1), [0], [0]),
    "overflow": (lambda x: np.where(x < 700, np.exp(x), 0), np.array([0.0, 800.0]), [1, 0], [1, 0]),
    "both ends": (lambda x: np.where((x > 0) & (x < 4), np.sqrt(x) * np.sqrt(4 - x), 0), np.array([-1.0, 0, 2, 4, 5]),
                  [0, 0, 0, 0, 0], [0, 0, -0.5, 0, 0]),
    "neither end": (lambda x: np.where((x <= 0) | (x >= 4), 0, np.sqrt(x) * np.sqrt(4 - x)),
                    np.array([-1.0, 0, 2, 4, 5]), [0, 0, 0, 0, 0], [0, 0, -0.5, 0, 0]),
    "two sides": (lambda x: np.where(x < 0, -np.sqrt(-x), np.where(x > 0, np.sqrt(x), 0)), np.array([-4.0, 0, 4]),
                  [0.25, 0, 0.25], [1 / 32, 0, -1 / 32]),
    "nested": (complementary, V, [0, 0, 0.25], [0, 0, -1 / 32]),
    "a guard that needs a guard": (of_each_other, np.array([-1.0, 0, 0.5, 1, np.e]), [0, 0, 0, 0, 0.5 / np.e],
                                   [0, 0, 0, 0, -0.75 / np.e**2]),
    "two guards meet": (shared_root, np.array([0.0, 1, 4]), [0, 0.5, 3.25], [0, -0.25, -1 / 32 + 3 / 8]),
    "direction": (unit, Z, Z, Z),
    "direction by norm": (unit_of_norm, Z, Z, Z),
    "direction elsewhere": (unit, np.array([3.0, 4.0]), [4 / 125, -3 / 125], None),
    "norm": (np.linalg.norm, Z, Z, Z),
    "norm squared": (lambda x: np.linalg.norm(x) ** 2, Z, Z, Z + 2),
    "deviation": (lambda x: np.where(np.std(x) > 0, 1 / np.std(x), 0), Z + 1, Z, Z),
    "mask of elements": (masked_by_elements, Z, Z, Z),
    "norms of rows": (lambda x: np.where(rows(x), np.sqrt(np.sum(x * x, axis=1)), 0), X,
                      below(X[1] / np.sqrt(14)), below((14 - 6 * X[1]) / 14**1.5)),
    # through what moves, adds and multiplies elements
    "sum": (lambda x: np.where(rows(x), np.sum(np.log(x), axis=1), 0), X, below(OF_LOG), below(-(OF_LOG**2))),
    "max": (lambda x: np.where(rows(x), np.max(np.log(x), axis=1), 0), X, below(np.array([0, 0, 1 / 3])), None),
    "prod": (lambda x: np.where(rows(x), np.prod(np.sqrt(x), axis=1), 0), X, below(np.sqrt(6) * 0.5 / X[1]), None),
    "logsumexp": (lambda x: np.where(rows(x), scipy.special.logsumexp(np.log(x), axis=1), 0), X,
                  below(np.full(3, 1 / 6)), None),
    "softmax": (lambda x: np.where(rows(x)[:, None], scipy.special.softmax(np.log(x), axis=1) ** 2, 0), X,
                below(2 * X[1] / 36 - 2 * 14 / 216), None),
    "cumsum": (lambda x: np.where(rows(x)[:, None], np.cumsum(np.log(x), axis=1), 0), X,
               below(OF_LOG * [3, 2, 1]), None),
    "reshape": (lambda x: np.where((x > 0).ravel(), np.sqrt(x).ravel(), 0)[1:], X, below(OF_ROOT), None),
    "transpose": (lambda x: np.where((x > 0).T, np.sqrt(x).T, 0)[::-1], X, below(OF_ROOT), None),
    "slice": (lambda x: np.where(x[:, 1:] > 0, np.sqrt(x)[:, 1:], 0), X, below(OF_ROOT * [0, 1, 1]), None),
    "gather": (lambda x: np.where(x[[0, 1, 1]] > 0, np.sqrt(x)[[0, 1, 1]], 0), X, below(2 * OF_ROOT), None),
    "broadcast": (lambda x: np.where(x > 0, np.broadcast_to(np.sqrt(x), (4, 2, 3)), 0), X, below(4 * OF_ROOT), None),
    "concatenate": (lambda x: np.where(np.concatenate([x, x]) > 0, np.concatenate([np.sqrt(x), np.log(x)]), 0), X,
                    below(OF_ROOT + OF_LOG), None),
    "diagonal": (lambda x: np.where(np.diag(x) > 0, np.diag(np.sqrt(x)), 0), X, below(OF_ROOT * [0, 1, 0]), None),
    "triangle": (lambda x: np.where(x > 0, np.tril(np.sqrt(x)), 0), X, below(OF_ROOT * [1, 1, 0]), None),
    "writes": (written, X, below(OF_LOG), below(-(OF_LOG**2))),
    "matmul of rows": (lambda x: np.where(rows(x)[:, None], np.log(x) @ W, 0), X, below(OF_LOG * [1, 5, 9]), None),
    "matmul of elements": (lambda x: np.where(x @ np.ones((3, 2)) > 0, np.log(x) @ W, 0), X,
                           below(OF_LOG * [1, 5, 9]), None),
    "einsum": (lambda x: np.where(rows(x), np.einsum("ij,ij->i", np.log(x), np.sqrt(x)), 0), X,
               below(OF_LOG * np.sqrt(X[1]) + np.log(X[1]) * OF_ROOT), None),
}


@cache
def found():
    def every(arguments):
        results = {}
        for name, (function, *_) in CASES.items():
            first = sg.grad(lambda x, f=function: np.sum(f(x)))
            second = sg.grad(lambda x, f=first: np.sum(f(x)))
            results[name] = first(arguments[name]), second(arguments[name])
        return results

    return sg.jit(every)({name: np.asarray(case[1], float) for name, case in CASES.items()})


@pytest.mark.parametrize("name", CASES)
def test_gradient(name):
    np.testing.assert_allclose(found()[name][0], np.asarray(CASES[name][2], float), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("name", CASES)
def test_second_derivative(name):
    """Of the sum of the gradient; where no numbers stand in the table, it is finite."""
    expected = CASES[name][3]
    if expected is None:
        assert np.all(np.isfinite(found()[name][1]))
    else:
        np.testing.assert_allclose(found()[name][1], np.asarray(expected, float), rtol=1e-14, atol=1e-15)


# -- conjunctions and disjunctions


@pytest.fixture
def trace():
    with tracing(Trace(Graph(), "guards")) as active:
        yield active


@pytest.fixture
def conditions_abc(trace):
    x = trace.graph.node(OPS["input"], (), ("x", (), np.dtype(np.float64)), (), np.dtype(np.float64))
    return [make(trace.graph, "greater", x, literal(trace.graph, float(k), np.float64)) for k in range(3)]


def test_conjunctions_are_taken_apart(trace, conditions_abc):
    a, b, c = conditions_abc
    graph = trace.graph
    assert conditions(graph, make(graph, "logical_and", a, make(graph, "bitwise_and", b, c))) == (a, b, c)
    assert negation(graph, negation(graph, a)) is a
    neither = make(graph, "logical_not", make(graph, "bitwise_or", a, b))
    assert conditions(graph, neither) == (negation(graph, a), negation(graph, b))
    assert conditions(graph, make(graph, "logical_or", a, b)) == (make(graph, "logical_or", a, b),)


def test_what_constants_decide_guards_nothing(trace, conditions_abc):
    a, graph = conditions_abc[0], trace.graph
    zero = literal(graph, 0.0, np.float64)
    never = make(graph, "isinf", zero)
    assert conditions(graph, negation(graph, never)) == ()
    assert conditions(graph, negation(graph, make(graph, "bitwise_and", never, a))) == ()
    assert conditions(graph, make(graph, "logical_and", a, make(graph, "equal", zero, zero))) == (a,)
    assert conditions(graph, never) == (never,)


def test_where_cotangents_meet_one_of_the_guards_holds(trace, conditions_abc):
    a, b, c = conditions_abc
    graph = trace.graph
    not_b = negation(graph, b)
    assert either(trace, [(a, b), (a, b)]) == (a, b)
    assert either(trace, [(a,), ()]) == ()
    assert either(trace, [(a, b), (a,)]) == (a,)
    assert either(trace, [(a, b), (a, not_b)]) == (a,)
    assert either(trace, [(b,), (not_b,)]) == ()
    assert either(trace, [(a,), (negation(graph, a), b), (negation(graph, a), not_b)]) == ()
    assert either(trace, [(a, b), (a, c)]) == (a, make(graph, "logical_or", b, c))


def test_an_unguarded_function_has_no_selects():
    text = sg.grad(lambda x: np.sum(np.sqrt(x) * np.exp(x))).lower(V).as_text("optimized")
    assert "where" not in text


def test_a_guard_costs_a_select():
    text = sg.grad(lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0))).lower(V).as_text("optimized")
    assert text.count("np.where") == 1  # after the infinite slope: that of where's own rule says no more


def test_guards_of_unknown_extents():
    def loss(x, w):
        n = np.sqrt(np.sum(x * x, axis=1, keepdims=True))
        return np.sum(np.where(n > 0, x / n, 0) @ w)

    gradient = sg.grad(loss, specs=("f64[n,d]", "f64[d]"))
    for n in (0, 1, 5):
        x = np.arange(3.0 * n).reshape(n, 3) * (np.arange(n) % 2)[:, None]
        found = gradient(x, np.array([1.0, 2.0, 3.0]))
        assert np.array_equal(found[::2], np.zeros_like(found[::2]))
        assert np.all(np.isfinite(found))
