"""Every declared op in every mode, from the generated table: forward against reverse, batches against loops."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests import table as t

SMOOTH = t.groups("smooth")


def rows(group: list[t.Row]) -> Any:
    return pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in group])


@cache
def module(kind: str, start: int) -> list[Any]:
    many = t.Many(SMOOTH[start : start + t.MODULE], np.dtype(np.float64))
    return list({"products": products, "curvatures": curvatures}[kind](many))


def computed(kind: str, row: t.Row) -> Any:
    position = SMOOTH.index(row)
    return module(kind, position // t.MODULE * t.MODULE)[position % t.MODULE]


def products(many: t.Many) -> Any:
    """Compute <J v, w> and <v, J' w> of every row, and the size of what is added."""

    def both(floats: Any, others: Any, weights: Any, directions: Any) -> Any:
        found = []
        for k, row in enumerate(many.rows):

            def call(*given: Any, k: int = k, row: t.Row = row) -> Any:
                return row.call(*many.merged([given if n == k else f for n, f in enumerate(floats)], others, k))

            _, pushed = sg.jvp(call, tuple(floats[k]), tuple(directions[k]))
            _, pull = sg.vjp(call, *floats[k])
            pulled = [g * v for g, v in zip(pull(weights[k]), directions[k], strict=True)]
            size = np.sum(np.abs(pushed * weights[k])) + sum([np.sum(np.abs(p)) for p in pulled], start=0.0)
            found.append((np.sum(pushed * weights[k]), sum([np.sum(p) for p in pulled], start=0.0), size))
        return found

    return sg.jit(both, options=t.GENTLY)(many.floats, many.others, many.weights, many.directions)


def curvatures(many: t.Many) -> Any:
    """Compute the Hessian along a direction: forward over reverse, reverse over forward, reverse over reverse.

    The fourth is what differences of gradients say.
    """

    def all_three(floats: Any, others: Any, weights: Any, directions: Any) -> Any:
        def gradient(floats: Any) -> Any:
            return sg.grad(many.loss)(floats, others, weights)

        def slope(floats: Any) -> Any:
            return sg.jvp(lambda f: many.loss(f, others, weights), (floats,), (directions,))[1]

        def contracted(floats: Any) -> Any:
            pairs = zip(gradient(floats), directions, strict=True)
            return sum([np.sum(g * d) for one, along in pairs for g, d in zip(one, along, strict=True)], start=0.0)

        first, forward_over_reverse = sg.jvp(gradient, (floats,), (directions,))
        return first, list(zip(forward_over_reverse, sg.grad(slope)(floats), sg.grad(contracted)(floats), strict=True))

    # One compilation for all: differences are those of the gradient that comes with the three ways.
    made = sg.jit(all_three, options=t.GENTLY)
    _, found = made(many.floats, many.others, many.weights, many.directions)
    numbers = many.differences(lambda floats: made(floats, many.others, many.weights, many.directions)[0])
    return [(*ways, differences) for ways, differences in zip(found, numbers, strict=True)]


@rows(SMOOTH)
def test_forward_is_the_transpose_of_reverse(row: t.Row) -> None:
    pushed, pulled, size = computed("products", row)
    assert abs(pushed - pulled) <= 1e-13 * size


@rows(SMOOTH)
def test_second_order_in_three_ways(row: t.Row) -> None:
    """They agree, and with differences of the gradient."""
    one, two, three, numbers = computed("curvatures", row)
    largest = max([1.0, *[float(np.max(np.abs(n), initial=0.0)) for n in numbers]])
    for a, b, c, d in zip(one, two, three, numbers, strict=True):
        scale = max(1.0, float(np.max(np.abs(c), initial=0.0)))
        np.testing.assert_allclose(a, c, rtol=1e-11, atol=1e-11 * scale)
        np.testing.assert_allclose(b, c, rtol=1e-11, atol=1e-11 * scale)
        assert c.shape == d.shape
        np.testing.assert_allclose(c, d, rtol=2e-8, atol=2e-8 * largest)


# -- vmap against a loop

ALL = t.groups("samples") + t.groups("edges")


def many(row: t.Row, count: int, dtype: Any = np.float64) -> list[list[t.Array]]:
    """Draw a row's arrays so many times; special values are turned around, so that each example has its own."""
    rng = np.random.default_rng(7)
    drawn = [row.draw(rng, np.dtype(dtype)) for _ in range(count)]
    return [[np.roll(a, k, -1) if a.ndim and not t.floating(a) else a for a in one] for k, one in enumerate(drawn)]


PATTERNS: dict[str, Any] = {
    "all": lambda _k, _count: True, "first": lambda k, _count: k == 0, "last": lambda k, count: k == count - 1,
}


def batched(row: t.Row, pattern: str) -> tuple[list[Any], list[t.Array], list[list[t.Array]]]:
    """Return in_axes (from the front and from the end), stacked arguments and each example's own."""
    examples = many(row, 3)
    axes: list[Any] = []
    stacked = []
    for k, a in enumerate(examples[0]):
        mapped = PATTERNS[pattern](k, len(examples[0]))
        axis = None if not mapped else (0, -1, a.ndim // 2)[k % 3]
        axes.append(axis)
        stacked.append(a if axis is None else np.stack([one[k] for one in examples], axis=axis))
    own = [[a if axis is not None else examples[0][k] for k, (a, axis) in enumerate(zip(one, axes, strict=True))]
           for one in examples]
    return axes, stacked, own


@cache
def one_by_one(start: int) -> Any:
    """Compile twenty rows for one example, whatever is mapped."""
    return sg.jit(lambda examples: [
        row.call(*one) for row, one in zip(ALL[start : start + t.MODULE], examples, strict=True)
    ], options=t.GENTLY)


@cache
def in_batches(start: int, pattern: str) -> list[Any]:
    """Map twenty rows at once, and call each of their examples."""
    rows_here = ALL[start : start + t.MODULE]
    given = [batched(row, pattern) for row in rows_here]

    def mapped(stacked: Any) -> Any:
        pairs = zip(rows_here, given, stacked, strict=True)
        return [sg.vmap(row.call, tuple(axes))(*arrays) for row, (axes, _, _), arrays in pairs]

    found = sg.jit(mapped, options=t.GENTLY)([stacked for _, stacked, _ in given])
    each = one_by_one(start)
    expected = [each(list(examples)) for examples in zip(*[own for *_, own in given], strict=True)]
    return list(zip(found, zip(*expected, strict=True), strict=True))


def by_turns() -> list[Any]:
    """List each row with each pattern; by day the modules of rows take the patterns in turn."""
    return [
        pytest.param(row, pattern, id=f"{pattern}-{row.name}", marks=[pytest.mark.nightly] * bool(
            (place // t.MODULE + turn) % len(PATTERNS)))
        for turn, pattern in enumerate(PATTERNS) for place, row in enumerate(ALL)
    ]


@pytest.mark.parametrize(("row", "pattern"), by_turns())
def test_vmap_is_a_loop(row: t.Row, pattern: str) -> None:
    """Values for each example are those of a call for it, special values included."""
    position = ALL.index(row)
    found, expected = in_batches(position // t.MODULE * t.MODULE, pattern)[position % t.MODULE]
    for one, other in zip(found, expected, strict=True):
        assert np.asarray(one).dtype == np.asarray(other).dtype
        assert np.shape(one) == np.shape(other)
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-14)


@cache
def slopes_in_batches(start: int) -> list[Any]:
    """Compute gradients of examples: of a loop, of what is mapped, and mapped ones."""
    rows_here = SMOOTH[start : start + t.MODULE]
    examples = [many(row, 3) for row in rows_here]
    stacked = [[np.stack(arrays) for arrays in zip(*own, strict=True)] for own in examples]

    def total(row: t.Row, arrays: Any) -> Any:
        result = row.call(*arrays)
        return np.sum(result * np.sin(np.arange(result.size, dtype=np.float64)).reshape(result.shape))

    def floats(arrays: Any) -> list[int]:
        return [k for k, a in enumerate(arrays) if t.floating(a)]

    def gradient(row: t.Row, arrays: Any) -> Any:
        return sg.grad(lambda *a: total(row, a), argnums=tuple(floats(arrays)))(*arrays)

    def looped(examples: Any) -> Any:
        return [gradient(row, one) for row, one in zip(rows_here, examples, strict=True)]

    def mapped(stacked: Any) -> Any:
        found = []
        for row, arrays in zip(rows_here, stacked, strict=True):
            inside = sg.vmap(lambda *a, row=row: gradient(row, a))(*arrays)

            def one_of(*a: Any, row: t.Row = row) -> Any:
                return total(row, a)

            def summed(*a: Any, one: Any = one_of) -> Any:
                return np.sum(sg.vmap(one)(*a))

            outside = sg.grad(summed, argnums=tuple(floats(arrays)))(*arrays)
            found.append((inside, outside))
        return found

    each = sg.jit(looped, options=t.GENTLY)
    expected = zip(*[each(list(one)) for one in zip(*examples, strict=True)], strict=True)
    return [(loop, *both) for loop, both in zip(expected, sg.jit(mapped, options=t.GENTLY)(stacked), strict=True)]


@rows(SMOOTH)
def test_gradients_of_batches(row: t.Row) -> None:
    """A mapped gradient, the gradient of a mapped function and gradients in a loop are the same."""
    position = SMOOTH.index(row)
    looped, inside, outside = slopes_in_batches(position // t.MODULE * t.MODULE)[position % t.MODULE]
    for k in range(len(inside)):
        expected = np.stack([one[k] for one in looped])
        scale = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
        np.testing.assert_allclose(inside[k], expected, rtol=1e-12, atol=1e-13 * scale)
        np.testing.assert_allclose(outside[k], expected, rtol=1e-12, atol=1e-13 * scale)
