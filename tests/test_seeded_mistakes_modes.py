"""Mistakes put into the modes themselves are found: by transposes that differ, by loops, by checks of shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.api.modes import derivatives, vmap
from symgrad.ops import OPS, batched, load
from symgrad.transforms.derive import batch, guards, jvp
from symgrad.transforms.rewrite import contractions

load()
X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.5]])
INDEX = np.array([[0, 2], [1, 1]])


def examples(x: Any, i: Any, w: Any) -> Any:
    """Go through every kind of op that is batched."""
    y = np.cumsum(np.tanh(x), axis=0) * x[i][0] + np.max(x) * w
    return np.where(x > 0, np.sqrt(np.where(x > 0, x, 1.0)), y) @ np.outer(x, w), y.reshape(1, 3).T


def a_loop_differs() -> bool:
    w = np.array([1.0, -2.0, 0.5])
    one = sg.jit(examples)
    found = sg.vmap(examples, (0, 0, None))(X, INDEX, w)
    expected = [one(x, i, w) for x, i in zip(X, INDEX, strict=True)]
    pairs = zip(found, zip(*expected, strict=True), strict=True)
    return not all(f.shape == np.shape(e) and np.allclose(f, np.stack(e), rtol=1e-12) for f, e in pairs)


def transposes_differ() -> bool:
    def f(x: Any) -> Any:
        return np.stack([x[0] * x[1], np.sum(np.exp(x) * x), x[2] + x[2]]), x[0] * x[1]

    v, w = np.array([1.0, 2.0, 3.0]), (np.array([0.5, -1.0, 2.0]), 0.25)
    _, pushed = sg.jvp(f, (X[0],), (v,))
    _, pull = sg.vjp(f, X[0])
    return not np.isclose(pushed[0] @ w[0] + pushed[1] * w[1], pull(w)[0] @ v, rtol=1e-12)


def jacobians_differ() -> bool:
    a = np.array([[1.0, 2.0, -1.0], [0.5, 3.0, 1.0]])

    def f(x: Any) -> Any:
        return np.tanh(a @ x) * np.where(x[0] > 0, np.sqrt(np.where(x[0] > 0, x[0], 1.0)), 0.0)

    one, two = sg.jacfwd(f)(X[0]), sg.jacrev(f)(X[0])
    direct = np.stack([sg.jvp(f, (X[0],), (e,))[1] for e in np.eye(3)], axis=-1)
    return not (np.allclose(one, two, rtol=1e-12) and np.allclose(one, direct, rtol=1e-12))


def a_guard_is_lost() -> bool:
    x = np.array([0.0, 4.0])
    found = sg.vmap(sg.grad(lambda x: np.where(x > 0, np.sqrt(x), 0.0)))(x)
    return not np.array_equal(found, [0, 0.25])


def unshifted(_size: Any, **params: Any) -> Any:
    return params


def turned(program: Any, wrt: Any, of: Any, names: Any = ()) -> Any:
    return RIGHT(program, wrt, [*reversed(of)], names)


RIGHT = jvp.pullback

MISTAKES: dict[str, tuple[Any, Any, str, Any]] = {
    "axes stay where they are": (a_loop_differs, OPS["max"], "batched", unshifted),
    "an axis stays where it is": (a_loop_differs, OPS["cumsum"], "batched", unshifted),
    "operands are not aligned": (a_loop_differs, batch, "_with_ones", lambda _trace, _node, xs, _mapped: xs),
    "no index is batched": (a_loop_differs, batched, "stand_in", lambda x, **_: x),
    "axes are counted backwards": (a_loop_differs, vmap, "_from_front", lambda axis, rank, *_: rank - 1 - axis),
    "cotangents go to the wrong results": (transposes_differ, jvp, "pullback", turned),
    "factors of a unit matrix are not turned": (
        jacobians_differ, contractions, "make", lambda _graph, _op, *xs, **_: xs[0],
    ),
    "rows are columns": (jacobians_differ, derivatives, "_reshaped", lambda x, shape: OPS["reshape"](x.T, shape=shape)),
    "guards are forgotten": (a_guard_is_lost, guards, "conditions", lambda _graph, _condition: ()),
}


def finds(check: Any) -> bool:
    """Whether a check says no, or symgrad itself does."""
    try:
        return bool(check())
    except (sg.SymgradError, ValueError, TypeError):
        return True


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_in_the_modes_are_found(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check, where, name, wrong = MISTAKES[mistake]
    assert not check(), "what is right passes"
    if isinstance(where, dict):
        monkeypatch.setitem(where, name, wrong)
    else:
        monkeypatch.setattr(where, name, wrong)
    assert finds(check)
