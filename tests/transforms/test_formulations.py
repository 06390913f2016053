"""What people write in several ways is one program: sums of products, slices of slices, lookups of each example."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.ops.arrays.running import cumsum
from symgrad.ops.arrays.views import place
from tests.table import INTERPRETED

RNG = np.random.default_rng(7)
A, B, U, T = RNG.normal(size=(5, 4)), RNG.normal(size=(4, 6)), RNG.normal(size=(9, 8)), RNG.normal(size=(7, 3, 4))
ROWS, J = RNG.integers(-7, 7, size=(6, 2)), RNG.integers(0, 4, size=2)
LONG, WIDE = RNG.normal(size=40), RNG.normal(size=(40, 47))
PARTS, TURNED = (((0, 9, 1),), ((9,),), ((10, 30, 1),)), (((0, 39, 1),), ((39,),))
TABLES = (
    np.eye(40, 47, dtype=bool), np.eye(40, 47) == 0, np.eye(40, 47, k=-3, dtype=bool), np.tri(40, 47, dtype=bool),
    np.tri(40, 47, 5) == 0, np.tri(40, 47, 4) != np.tri(40, 47, -2), np.tri(40, 47, 8) == np.tri(40, 47, 1),
)
TWO, SOME = np.eye(40) + np.eye(40, k=3) > 0, np.arange(1600).reshape(40, 40) % 41 % 7 > 2


def each(f: Any, *axes: int | None) -> Any:
    return lambda table, *indices: sg.vmap(lambda *one: f(table, *one), in_axes=axes)(*indices)


SAME: dict[str, tuple[Any, tuple[Any, ...], str, int]] = {
    "a broadcast product": (lambda a, b: np.sum(a[:, :, None] * b, axis=1), (A, B), "np.sum", 0),
    "in another order": (lambda a, b: np.sum(b.T[:, None] * a, axis=-1), (A, B), "np.sum", 0),
    "an outer product": (lambda a, b: np.sum(a[:, 0, None] * b[0], axis=1), (A, B), "np.sum", 1),
    "scaled rows": (lambda a, b: np.sum(a * b[:, 0], axis=1), (A, B), "np.sum", 1),
    "a turned product": (lambda a, b: (b.T @ a.T).T, (A, B), "np.transpose", 2),
    "rows": (each(lambda t, i: t[i], 0), (T, ROWS), "each", 0),
    "and columns": (each(lambda t, i, j: t[i, :, j], 0, None), (T, ROWS, J), "each", 0),
    "the last axis": (each(lambda t, j: t[..., j], 0), (T, J), "each", 0),
    "of each example": (lambda t: sg.vmap(lambda a, k: a[:, k])(t, np.arange(7) % 4), (T,), "each", 1),
    "a short convolution": (lambda x: np.convolve(x, [1.0, -2.0, 0.5]), (LONG,), "convolve", 0),
    "with a short one": (lambda x, w: np.convolve(w, x), (LONG, B[0]), "convolve", 0),
    "the valid part": (lambda x, w: np.convolve(x, w, "valid"), (LONG, B[0]), "slide", 0),
    "a long one": (lambda x: np.convolve(x, x), (LONG,), "convolve", 1),
    "slices put back": (lambda x: place(x[:9], x[9], x[10:], indices=PARTS, shape=(40,)), (LONG,), "place", 0),
    "slices put elsewhere": (lambda x: place(x[1:], x[0], indices=TURNED, shape=(40,)), (LONG,), "place", 1),
    "one joined to itself": (lambda x: np.stack([x, x, x]) * 2, (LONG,), "concatenate", 0),
    "and none but once": (lambda x: np.concatenate([x, x]), (LONG,), "concatenate", 1),
    "slices joined": (lambda u: np.concatenate([u[:, :3], u[:, 3:4], u[:, 4:]], 1), (U,), "concatenate", 0),
    "joined along another axis": (lambda u: np.concatenate([u[:, :4], u[:, 4:]]), (U,), "concatenate", 1),
    "with some left out": (lambda u: np.concatenate([u[:3], u[4:]]), (U,), "concatenate", 1),
    "in another order than they are": (lambda u: np.stack([u[1], u[0], u[2]]), (U,), "concatenate", 1),
    "elements stacked": (lambda x: np.array([x[k] for k in range(39, 3, -3)]), (LONG,), "concatenate", 0),
    "columns stacked": (lambda t: np.stack([t[:, k, 1:] for k in range(3)], axis=2), (T,), "concatenate", 0),
    "rows stacked behind": (lambda t: np.stack([t[k] for k in range(6, 1, -2)], axis=2), (T,), "concatenate", 0),
    "anywhere": (lambda x: np.any((x > 1) | (x < 0) | (x > 1)[::-1]), (LONG,), "logical_or", 1),
    "from somewhere on": (lambda x: np.any(cumsum((x > 1)[::-1], axis=0)[::-1] | (x > 1)), (LONG,), "cumsum", 0),
    "in rows": (lambda x: np.any(cumsum(x > 1, axis=0) | (x > 1), axis=1), (WIDE,), "cumsum", 1),
    **{f"a table, {k}": (lambda x, table=table: np.where(table, x, 0.5), (WIDE,), "np.array(", 0)
       for k, table in enumerate(TABLES)},
    "a table of two diagonals": (lambda x: np.where(TWO, x[:, :40], 0), (WIDE,), "np.array(", 1),
    "a table of other places": (lambda x: np.where(SOME, x[:, :40], 0), (WIDE,), "np.array(", 1),
}


@pytest.mark.parametrize("name", SAME)
def test_one_program(name):
    f, args, word, count = SAME[name]
    assert sg.jit(f).lower(*args).as_text("optimized").count(word) == count
    plain = sg.jit(f, options=sg.Options(compiler="none", without=("cheaper",)))
    np.testing.assert_allclose(sg.jit(f, options=INTERPRETED)(*args), plain(*args), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(("f", "count"), [
    (lambda u: np.sum(np.sin(np.diff(u, 2, axis=0)[:, 1:-1] + np.diff(u, 2, axis=1)[1:-1])), 1),
    (lambda u: np.sum(np.sin(np.roll(u, 1, 0) + np.roll(u, -1, 1) - 2 * u)[1:-1, 1:-1]), 2),  # one is scaled
    (lambda u: np.sum(np.diff(u, 4, axis=0) ** 3), 1),
])
def test_slices_of_slices_have_one_adjoint(f, count):
    g = sg.grad(f)
    assert g.lower(U).as_text("optimized").count("ops.place") == count
    plain = sg.grad(f, options=sg.Options(compiler="none", without=("cheaper",)))
    np.testing.assert_allclose(sg.grad(f, options=INTERPRETED)(U), plain(U), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("few", ["f64[m]", "f64[3]"])
def test_convolutions_of_open_extents(few):
    def loss(x, w):
        return np.sum(np.sin(np.convolve(x, w)))

    f = sg.grad(loss, argnums=(0, 1), options=INTERPRETED)
    assert ("ops.convolve" in f.lower(sg.spec("f64[n]"), sg.spec(few)).as_text("optimized")) == (few == "f64[m]")
    plain = sg.grad(loss, argnums=(0, 1), options=sg.Options(compiler="none", without=("cheaper",)))
    for found, expected in zip(f(LONG, B[0, :3]), plain(LONG, B[0, :3]), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


def _written(u: Any) -> Any:
    u = u.copy()
    for _ in range(3):
        u[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return np.sum(u**3)


def _joined(u: Any) -> Any:
    for _ in range(3):
        u = np.concatenate([u[:1], u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2]), u[-1:]])
    return np.sum(u**3)


def test_an_interior_that_is_written_derives_as_one_that_is_joined() -> None:
    """Each step's cotangent is one array: with the edges, the value's own and both neighbours' added up in it."""
    slopes = [sg.grad(f, options=INTERPRETED) for f in (_written, _joined)]
    np.testing.assert_allclose(slopes[0](LONG), slopes[1](LONG), rtol=1e-13)
    texts = [f.lower(LONG).as_text("optimized") for f in slopes]
    assert [text.count("ops.place(") for text in texts] == [3, 3]
    assert [text.count("ops.assemble(") for text in texts] == [3, 0]  # of the value
