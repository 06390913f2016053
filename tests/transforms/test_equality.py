"""Numbers of values: what has one number is equal element by element, zeros, infinities and NaNs included."""

from __future__ import annotations

from collections import defaultdict
from itertools import permutations

import numpy as np
import pytest

import symgrad as sg
from symgrad.ir.evaluate import evaluate
from symgrad.ir.program import Program
from symgrad.transforms.equality import Equality

N = 6
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 1.0, 0.5, -2.0, 3.0, np.inf, -np.inf, np.nan, 1e-3])


UNARY = [
    np.exp, np.sqrt, np.reciprocal, np.floor, np.sign, lambda a: 2.0 * a, lambda a: a * -0.5, lambda a: a * 3.0,
    lambda a: a**3, lambda a: a**-3, lambda a: a**-2, lambda a: a.astype(np.float32).astype(np.float64), np.transpose,
    lambda a: a.astype(bool).astype(np.float64),
    lambda a: np.where(a == 0, 0.0, a), lambda a: np.where(a > 0, -a, -0.0), lambda a: np.where(a == 0, 1.0, a),
    lambda a: np.where(a > 1, 0.0, -a), lambda a: np.where(a != -1, a, a * 2.0), lambda a: np.where(a > 1, -a, a),
    lambda a: np.arctan2(a, -1.0), lambda a: np.copysign(1.0, a), lambda a: np.maximum(a, -0.0), lambda a: 1.0 / a,
    lambda a: np.clip(a, -1.0, 1.0), lambda a: np.einsum("ij,ji->ij", a, a), lambda a: np.einsum("ij,ij->ij", a, a),
]
ODD_ONES = [np.sin, np.tanh, np.sign, np.cbrt, lambda a: a**-3, np.reciprocal]
EVEN_ONES = [np.square, np.abs, np.cos, lambda a: a * a]
BINARY = [
    np.divide, np.copysign, lambda a, b: np.where(a > b, a, -b), lambda a, b: np.where(a > b, a, b),
    lambda a, b: np.where(a != -b, 0.0, a * b), lambda a, b: np.where((a > 0) & (b > 0), a, np.minimum(a, b)),
    lambda a, b: np.where(a == b, a, -b), lambda a, b: np.where(np.equal(a, -b), a, b),
    lambda a, b: np.where(a == b, a, b),
]
EITHER = [np.add, np.multiply, np.maximum, np.minimum, np.hypot, lambda a, b: np.einsum("ij,ij->ij", a, b)]
PRODUCTS = [lambda a, b: (-b) * (-a), lambda a, b: -(a * -b), lambda a, b: (2.0 * b) * (0.5 * a)]


def twins(rng, a, b):
    """Return a value and, of other forms of its operands, another form of it."""
    (a, x), (b, y) = a, b

    def one(forms):
        return forms[rng.integers(len(forms))]

    kind = rng.integers(7)
    if kind == 0:
        return a - b, -(y - x)
    if kind == 1:
        return a * b, one(PRODUCTS)(x, y)
    if kind == 2:
        f = one(EITHER)
        return f(a, b), f(y, x)
    if kind == 3:
        odd, even = one(ODD_ONES), one(EVEN_ONES)
        return (odd(a), -odd(-x)) if rng.random() < 0.5 else (even(a), even(-x))
    if kind == 6:
        return np.where(b > 0, 0.0, a), -np.where(y > 0, 0.0, -x)
    f = one(UNARY if kind == 4 else BINARY)
    return (f(a), f(x)) if kind == 4 else (f(a, b), f(x, y))


def random_values(seed, x, y, w, constant):
    """Return arrays of pairs, made of one another: many are equal to others that are made otherwise."""
    rng = np.random.default_rng(seed)
    leaves = [x[:, None], x[None, :], y[:, None], y[None, :], x[:, None], x[None, :], w, w.T, constant, np.eye(N)]
    made = [(leaf, leaf) for leaf in [np.broadcast_to(leaf, (N, N)) for leaf in leaves]]
    for _ in range(50):
        a, b = (made[int(k)] for k in rng.integers(max(0, len(made) - 16), len(made), size=2))
        made.append(twins(rng, a, b if rng.random() < 0.8 else (a[0].T, a[1].T)))
        if len(made) % 16 == 0:
            made += made[:12]
    return tuple([form for pair in made for form in pair])


@pytest.mark.parametrize("seed", range(60))
def test_random_values_with_one_number_are_equal(seed):
    rng = np.random.default_rng(seed)
    points = SPECIAL if seed % 3 == 0 else SPECIAL[:8]
    x, y, w = (rng.choice(points, size=shape) for shape in ((N,), (N,), (N, N)))
    constant = rng.choice([-1.0, 0.0, 1.0], size=(N, N))
    constant = constant + constant.T if seed % 2 else constant
    numbers = constant.tolist()  # an array from outside would be an input
    with np.errstate(all="ignore"):
        lowered = sg.jit(lambda x, y, w: random_values(seed, x, y, w, np.array(numbers))).lower(x, y, w)
    program = lowered.stages.of("optimized" if seed % 4 < 2 else "derived")
    nodes = [node for node in program.nodes() if node.shape == (N, N)]
    arrays = evaluate(Program(program.inputs, tuple(nodes)), [x, y, w])
    equality, parts = Equality(), defaultdict(list)
    for node, array in zip(nodes, arrays, strict=True):
        for order in permutations(range(2)):
            value = equality.value(node, order)
            parts[value.number].append((value, array.transpose(order).astype(float) / value.scale))
    joined = 0
    for (value, first), *others in parts.values():
        for other, array in others:
            joined += 1
            np.testing.assert_array_equal(array, first)
            if value.exact and other.exact:
                zeros = first == 0
                np.testing.assert_array_equal(np.signbit(array[zeros]), np.signbit(first[zeros]))
    assert joined > 30


def number(f, *args):
    """Return the values of what a function returns, in order of axes and in the other."""
    program = sg.jit(f).lower(*args).stages.of("optimized")
    equality = Equality()
    return [equality.value(program.outputs[0], order) for order in permutations(range(2))]


X = np.arange(4.0)
SYMMETRIC = {
    "a product": (lambda x: x[:, None] * x, 1),
    "a difference": (lambda x: x[:, None] - x, -1),
    "its odd function": (lambda x: np.tanh(3 * (x[:, None] - x)) ** 5, -1),
    "its even function": (lambda x: 1 / np.cosh(x[:, None] - x), 1),
    "a product with one scaled": (lambda x: (2 * x[:, None]) @ x[None, :], 1),
    "an inner product": (lambda x: np.outer(x, x) @ np.outer(x, x), 1),
    "a masked quotient": (lambda x: np.where(np.eye(4, dtype=bool), 0, (x[:, None] - x) / (x[:, None] + x)), -1),
    "counted places": (lambda x: np.where(np.arange(4)[:, None] != np.arange(4), x[:, None] + x, 1.0), 1),
    "a diagonal added": (lambda x: np.square(x[:, None] - x) + np.diag(x), 1),
}


@pytest.mark.parametrize("name", SYMMETRIC)
def test_symmetric_and_antisymmetric_arrays(name):
    f, parity = SYMMETRIC[name]
    one, other = number(f, X)
    assert one.number == other.number
    assert one.scale * parity == other.scale


NEITHER = {
    "a quotient": lambda x: x[:, None] / x,
    "the inverse of a difference, which sees the sign of 0": lambda x: 1 / (x[:, None] - x),
    "a function that is neither odd nor even": lambda x: np.exp(x[:, None] - x),
    "what is before": lambda x: np.where(np.arange(4)[:, None] < np.arange(4), np.square(x[:, None] - x), 0),
    "places apart": lambda x: np.where(np.arange(4)[:, None] == np.arange(4) + 1, np.square(x[:, None] - x), 0),
    "a constant that is not symmetric": lambda x: np.arange(16.0).reshape(4, 4) * np.square(x[:, None] - x),
    "a triangle": lambda x: np.triu(np.square(x[:, None] - x)),
    "another function of the second": lambda x: np.square(x[:, None] - np.sin(x)),
    "a third more": lambda x: (3 * x[:, None]) @ np.square(x[None, :]),
}


@pytest.mark.parametrize("name", NEITHER)
def test_what_is_neither(name):
    one, other = number(NEITHER[name], X)
    assert one.number != other.number


APART = {
    "a branch's sign": (lambda x: np.where(x > 1, x, x + 2), lambda x: np.where(x > 1, x, -(x + 2))),
    "a term's sign": (lambda x: x + np.sin(x), lambda x: x - np.sin(x)),
    "a factor": (lambda x: 2 * x + 1, lambda x: 4 * x + 1),
    "a factor of a divisor": (lambda x: 1 / (2 * x), lambda x: 1 / (4 * x)),
    "the operands' order": (lambda x: x > np.sin(x), lambda x: np.sin(x) > x),
    "extents of sums": (lambda x: np.broadcast_to(x, (3, 4)).sum(0), lambda x: np.broadcast_to(x, (5, 4)).sum(0)),
    "a param": (lambda x: x**3, lambda x: x**5),
}


@pytest.mark.parametrize("name", APART)
def test_what_is_apart(name):
    f, g = APART[name]
    program = sg.jit(lambda x: (f(x), g(x))).lower(X).stages.of("optimized")
    equality = Equality()
    one, other = [equality.value(node, (0,)) for node in program.outputs]
    assert one.scaled != other.scaled
