"""The adjoint of a slice of windows: each is added to its places, with no zeros for those that were left out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import symgrad as sg

RNG = np.random.default_rng(19)


class Taken(NamedTuple):
    """A slice of windows.

    Attributes:
        shape: the array's.
        sizes, axes, index: which windows, along which axes, and which of them.
        no_zeros: whether the zeros for the others go away.
        any_extent: whether the slice can be said of an unknown extent.
    """

    shape: tuple[int, ...]
    sizes: tuple[int, ...]
    axes: tuple[int, ...]
    index: Any
    no_zeros: bool = True
    any_extent: bool = True

    def of(self, x: Any) -> Any:
        return sliding_window_view(x, self.sizes, self.axes)[self.index]

    def loss(self, x: Any) -> Any:
        return np.sum(self.of(x) ** 3 * self.weights)

    def loss_of_any(self, x: Any) -> Any:
        """Return that of equal weights, for all extents."""
        return np.sum(self.of(x) ** 3)

    @property
    def places(self) -> Any:
        return self.of(np.arange(np.prod(self.shape)).reshape(self.shape))

    @property
    def weights(self) -> Any:
        return np.cos(np.arange(self.places.size).reshape(self.places.shape))

    def added(self, values: Any) -> Any:
        """Add values for all elements of the windows to where they come from, one after the other."""
        sums = np.zeros(self.shape)
        np.add.at(sums.reshape(-1), self.places, values)
        return sums


S = np.s_
TAKEN: dict[str, Taken] = {
    "all": Taken((7,), (3,), (0,), S[:]),
    "every second": Taken((11,), (3,), (0,), S[::2]),
    "apart": Taken((11,), (2,), (0,), S[1::3]),
    "backwards": Taken((9,), (3,), (0,), S[::-1]),
    "backwards by twos": Taken((10,), (3,), (0,), S[6:0:-2], any_extent=False),
    "a slice of a slice": Taken((23,), (3,), (0,), S[::-2]),
    "one": Taken((9,), (4,), (0,), S[2:3]),
    "none": Taken((9,), (4,), (0,), S[3:3]),
    "of one element": Taken((9,), (1,), (0,), S[::4]),
    "all of an axis": Taken((6,), (6,), (0,), S[::2]),
    "two axes": Taken((7, 8), (3, 2), (0, 1), S[::2, ::-3]),
    "an axis behind": Taken((3, 9), (3,), (1,), S[:, ::2]),
    "an axis beside it": Taken((6, 9), (3,), (1,), S[::-2, 1::2]),
    "the other order": Taken((7, 8), (2, 3), (1, 0), S[::3, ::2]),
    "twice along an axis": Taken((2, 11), (3, 2), (1, 1), S[:, ::2]),
    "images": Taken((2, 9, 7, 3), (3, 2), (1, 2), S[:, ::2, ::2]),
    "at a place": Taken((7, 8), (3, 2), (0, 1), S[2, ::2], no_zeros=False),
    "part of each": Taken((11,), (4,), (0,), S[::2, ::3], no_zeros=False),
    "each turned": Taken((11,), (4,), (0,), S[::2, ::-1], no_zeros=False),
    "by a new axis": Taken((11,), (4,), (0,), S[None, ::2]),
}


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", TAKEN)
def test_derivatives(name: str) -> None:
    r"""With w(x) the windows: grad sum c w^3 = A (3 c w^2) and its derivative along v is A (6 c w w(v)), A adds up."""
    taken = TAKEN[name]
    x, v = RNG.normal(size=(2, *taken.shape))
    w, c = taken.of(x), taken.weights
    first, second = taken.added(3 * c * w**2), taken.added(6 * c * w * taken.of(v))
    gradient = sg.grad(taken.loss)

    def every(x: Any, v: Any) -> Any:
        turned = sg.grad(lambda x: np.sum(gradient(x) * v))(x)
        return (
            gradient(x), sg.jvp(taken.loss, (x,), (v,))[1], sg.jvp(gradient, (x,), (v,))[1], turned,
            sg.vmap(gradient)(np.stack([v, x])),
        )

    wanted = first, np.sum(first * v), second, second, [taken.added(3 * c * taken.of(v) ** 2), first]
    for compiled in (sg.jit(every), sg.jit(every, options=sg.Options(compiler="none"))):
        for found, value in zip(compiled(x, v), wanted, strict=True):
            close(found, value)
    assert not taken.no_zeros or "place(" not in sg.jit(every).lower(x, v).as_text("optimized")
    if taken.any_extent:
        close(sg.grad(taken.loss_of_any, dynamic={"x": ",".join("nmkl"[: x.ndim])})(x), taken.added(3 * w**2))


def padded(x, w):
    seen = sliding_window_view(np.pad(x, ((0, 0), (1, 2), (2, 0))), (3, 2), (1, 2))[:, ::2, ::-2]
    return np.sum(np.tanh(np.einsum("nijab,ab->nij", seen, w)) ** 2)


def dilated(x, w):
    seen = sliding_window_view(x, (5, 3), (1, 2))[:, ::2, 1::3, ::2, ::2]
    return np.sum(np.tanh(np.einsum("nijab,ab->nij", seen, w[:3, :2])) ** 2)


def pooled(x, w):
    seen = sliding_window_view(np.pad(x, ((0, 0), (1, 1), (0, 0)), constant_values=-np.inf), (2, 2), (1, 2))
    return np.sum(np.max(seen[:, ::2, ::2], axis=(-2, -1)) ** 2) * w[0, 0]


def several_uses(x, w):
    seen = sliding_window_view(x, (3, 2), (1, 2))
    odd = seen[:, 1::2]
    return np.sum(np.sin(seen[:, ::2, ::2] * w)) + np.sum(odd[:, :2] * odd[:, -1:] ** 2) + np.sum(seen[:, :, 3] ** 3)


def of_windows(x, w):
    seen = np.sum(sliding_window_view(np.sin(x), (3, 2), (1, 2))[:, ::2, ::-1] * w, axis=(3, 4))
    return np.sum(sliding_window_view(seen**2, 2, axis=2)[..., ::2, :] * w[0, 1])


@pytest.mark.parametrize("f", [padded, dilated, pooled, several_uses, of_windows])
def test_layers_of_windows(f: Any) -> None:
    """To second order, by differences and forward against reverse; the value is NumPy's."""
    x, w = RNG.normal(size=(2, 8, 7)), RNG.normal(size=(3, 2))
    close(sg.jit(f)(x, w), f(x, w))
    sg.check_grads(f, (x, w), order=2)
    found = sg.grad(f, (0, 1))(x, w)
    for one, other in zip(found, sg.grad(f, (0, 1), options=sg.Options(compiler="none"))(x, w), strict=True):
        close(one, other)
    many = np.stack([x, 2 * x])
    each = sg.vmap(sg.grad(f), in_axes=(0, None))(many, w)
    close(each, [sg.grad(f)(one, w) for one in many])


def test_a_slice_of_the_wrong_extent_is_refused() -> None:
    with pytest.raises(sg.errors.ShapeError, match="cannot add windows"):
        sg.jit(lambda g: sg.ops.OPS["sum_windows"](g, axes=(0,), shape=(9,), index=((0, 4, 2),)))(np.ones((3, 3)))
