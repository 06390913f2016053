"""vmap: axes, trees, unknown extents, writes and views; what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.ir.saved.programs import dumps, loads
from symgrad.ops import OPS

RNG = np.random.default_rng(3)
X, V = RNG.normal(size=4), RNG.normal(size=4)


def close(one: Any, other: Any, tolerance: float = 1e-12) -> None:
    np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def test_vmap_of_vmap_is_an_outer_product_in_any_order():
    product = sg.vmap(sg.vmap(lambda a, b: a * b, (0, None)), (None, 0))
    close(product(X, V), np.outer(V, X))
    one = sg.vmap(lambda a, b, c: a - b * c, (0, None, None))
    three = sg.vmap(sg.vmap(one, (None, 0, None), 1), (None, None, 0), 2)
    a, b, c = X, V[:3], V[:2]
    close(three(a, b, c), a[:, None, None] - b[None, :, None] * c[None, None, :])


def test_vmap_axes_and_trees():
    def f(p: Any, k: Any, *, scale: Any) -> Any:
        return {"y": p["w"] @ p["x"] * scale, "k": k}

    w, x, scale = RNG.normal(size=(3, 5, 4)), RNG.normal(size=(4, 5)), RNG.normal(size=5)
    found = sg.vmap(f, ({"w": 1, "x": -1}, None), {"y": -1, "k": None})({"w": w, "x": x}, 7, scale=scale)
    close(found["y"], np.stack([w[:, k] @ x[:, k] * scale[k] for k in range(5)], axis=-1))
    assert found["k"] == 7
    close(sg.vmap(f, ({"w": 1, "x": 1}, None), 0)({"w": w, "x": x}, 7, scale=scale)["k"], [7] * 5)
    assert sg.vmap(lambda x: x * 0 + 1, None, axis_size=3)(2.0).tolist() == [1, 1, 1]
    assert sg.vmap(lambda x: x * 2)(np.zeros((0, 3))).shape == (0, 3)


def test_a_batch_is_one_loop_nest():
    f = sg.vmap(lambda x, w: np.sum(np.tanh(x * w)), (0, None))
    f(RNG.normal(size=(50, 4)), V)
    assert f.c_source.count("tanh") >= 1
    assert f.c_source.count("for (") <= 3


def test_vmap_of_unknown_extents():
    f = sg.vmap(sg.grad(lambda x, w: np.sum(np.sin(x * w))), (0, None), specs=("f64[b,n]", "f64[n]"))
    for b, n in ((3, 4), (1, 4), (0, 4), (5, 1)):
        x, w = RNG.normal(size=(b, n)), RNG.normal(size=n)
        close(f(x, w), np.cos(x * w) * w)
    assert f.cache_info().compilations == 1
    hessian = sg.hessian(lambda x: np.sum(np.sin(x) * x[0]), specs=("f64[n]",))
    for n in (1, 2, 5):
        x = RNG.normal(size=n)
        expected = np.diag(-np.sin(x) * x[0])
        expected[0] += np.cos(x)
        expected[:, 0] += np.cos(x)
        close(hessian(x), expected)
    assert hessian.cache_info().compilations == 1
    push = sg.jit(lambda x, v: sg.jvp(lambda x: np.cumsum(x) * x[::-1], (x,), (v,)), specs=("f64[n]", "f64[n]"))
    for n in (0, 1, 6):
        x, v = RNG.normal(size=n), RNG.normal(size=n)
        close(push(x, v)[1], np.cumsum(v) * x[::-1] + np.cumsum(x) * v[::-1])


def test_writes_views_and_choices_are_batched():
    def f(x: Any, k: Any) -> Any:
        out = np.zeros(4)
        out[1:3] = x[::-1][:2] * 2
        out[0] += x[k]
        tail = out[2:]
        return np.where(x[0] > 0, out, -out), tail.sum()

    xs, ks = RNG.normal(size=(5, 3)), np.array([0, 1, 2, -1, -3])
    found = sg.vmap(f)(xs, ks)
    for k in range(5):
        for one, other in zip(found, f(xs[k], ks[k]), strict=True):
            close(one[k], other)


REFUSED: dict[str, tuple[Any, str]] = {
    "lengths": (lambda: sg.vmap(lambda x, y: x + y)(X, V[:2]), r"x of shape \(4,\): axis 0 has length 4\n  y of shape"),
    "axis": (lambda: sg.vmap(lambda x: x, 1)(X), r"vmap over axis 1 of argument .*, which has shape \(4,\): no such"),
    "entries": (lambda: sg.vmap(lambda x, y: x + y, (0,))(X, V), r"in_axes=\(0,\) has 1 entries, for 2 arguments"),
    "nothing": (lambda: sg.vmap(lambda x: x, None)(X), "vmap maps no argument: all of in_axes is None"),
    "size": (lambda: sg.vmap(lambda x: x, axis_size=3)(X), "different lengths:\n  x of shape .*\n  axis_size=3"),
    "in_axes": (lambda: sg.vmap(np.sin, "x"), "in_axes='x'"),
    "in_axes tree": (lambda: sg.vmap(lambda p: p["a"], ({"b": 0},))({"a": X}), "does not have the structure of what"),
    "in_axes entry": (lambda: sg.vmap(lambda x: x, (0.5,))(X), "in_axes holds 0.5"),
    "out_axes": (lambda: sg.vmap(lambda x: x, out_axes=None)(X), "out_axes is None for result 0, which depends on"),
    "out axis": (lambda: sg.vmap(lambda x: x, out_axes=2)(X), "vmap over axis 2 of result 0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str):
    call, message = REFUSED[case]
    with pytest.raises(sg.SymgradError, match=message):
        call()


def test_pickled_with_and_without_a_name():
    """A mode of a function with a name is made again; of a lambda, the programs are kept, `each` among their ops."""
    index = np.array([[0, 1], [2, -1]])
    xs = RNG.normal(size=(2, 4))
    named = pickle.loads(pickle.dumps(sg.vmap(np_like)))
    close(named(xs), np.sum(np.sin(xs), axis=1))
    unnamed = sg.vmap(lambda x, i: x[i] * 2)
    expected = unnamed(xs, index)
    close(pickle.loads(pickle.dumps(unnamed))(xs, index), expected)
    hessian = sg.hessian(lambda x: np.sum(x**3))
    close(hessian(X), np.diag(6 * X))
    again = pickle.loads(pickle.dumps(hessian))
    close(again(X), np.diag(6 * X))


def np_like(x: Any) -> Any:
    return np.sum(np.sin(x))


def test_a_saved_program_names_the_op_that_is_applied_to_each():
    text = dumps(sg.vmap(lambda x, i: x[i]).lower(np.ones((2, 4)), np.zeros((2, 3), int)).program)
    assert '"of": "gather"' in text
    assert loads(text, OPS).outputs[0].shape == (2, 3)
    for wrong in ('"of": "input"', '"of": "nothing"', '"of": "cumsum"'):
        with pytest.raises(sg.SymgradError, match="nodes"):
            loads(text.replace('"of": "gather"', wrong), OPS)


def test_an_op_defined_by_its_index_notation_in_every_mode():
    distance = sg.define_op("distance_in_batches", lambda a, b: (a - b) ** 2, "ik,jk->ij")
    a, b = RNG.normal(size=(4, 3, 2)), RNG.normal(size=(5, 2))
    close(sg.vmap(distance, (0, None))(a, b), np.sum((a[:, :, None] - b) ** 2, axis=-1))

    def energy(a: Any, b: Any) -> Any:
        return np.sum(np.sin(distance(a, b)))

    looped = np.stack([sg.grad(energy)(one, b) for one in a])
    close(sg.vmap(sg.grad(energy), (0, None))(a, b), looped)
    close(sg.grad(lambda a: np.sum(sg.vmap(lambda one: energy(one, b))(a)))(a), looped)
    forward, reverse = [mode(distance, argnums=(0, 1))(a[0], b) for mode in (sg.jacfwd, sg.jacrev)]
    close(forward[0], reverse[0])
    close(forward[1], reverse[1])
    pushed = sg.jvp(distance, (a[0], b), (a[1], b))[1]
    close(pushed, np.tensordot(forward[0], a[1], 2) + np.tensordot(forward[1], b, 2))
