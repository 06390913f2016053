"""Every declared op in every mode, from the generated table: forward against reverse, batches against loops."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import optree
import pytest

import symgrad as sg
from tests import table as t

SMOOTH = t.groups("smooth")


def rows(group: list[t.Row]) -> Any:
    return pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in group])


def by_turns(
    group: list[t.Row], ways: Sequence[str], *, more: Sequence[str] = (), of: int = 1, first: int = 0,
) -> Any:
    """Try each row of a group in each way; by day one `of` so many modules takes the ways in turn, `more` at night."""
    return pytest.mark.parametrize(("row", "way"), [
        pytest.param(row, way, id=f"{way}-{row.name}", marks=[pytest.mark.nightly] * bool(
            way in more or (place // t.MODULE + turn + first) % (of * len(ways))))
        for turn, way in enumerate([*ways, *more]) for place, row in enumerate(group)
    ])


Rows = tuple[t.Row, ...]


@cache
def module(rows: Rows, way: str = "") -> list[Any]:
    many = t.Many(rows, np.dtype(np.float64))
    return list(curvatures(many, way) if way else products(many))


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


def forward_over_reverse(gradient: Any, floats: Any, directions: Any) -> Any:
    return sg.jvp(gradient, (floats,), (directions,))[1]


def reverse_over_reverse(gradient: Any, floats: Any, directions: Any) -> Any:
    def contracted(floats: Any) -> Any:
        pairs = zip(gradient(floats), directions, strict=True)
        return sum([np.sum(g * d) for one, along in pairs for g, d in zip(one, along, strict=True)], start=0.0)

    return sg.grad(contracted)(floats)


ORDERS = "forward over reverse", "reverse over forward", "reverse over reverse"


def curvatures(many: t.Many, way: str) -> Any:
    """Compute the Hessian along a direction, in one of the orders or in all of them.

    The last is what differences of gradients say.
    """

    def every(floats: Any, others: Any, weights: Any, directions: Any) -> Any:
        def loss(floats: Any) -> Any:
            return many.loss(floats, others, weights)

        def slope(floats: Any) -> Any:
            return sg.jvp(loss, (floats,), (directions,))[1]

        orders = {
            "forward over reverse": lambda: forward_over_reverse(sg.grad(loss), floats, directions),
            "reverse over forward": lambda: sg.grad(slope)(floats),
            "reverse over reverse": lambda: reverse_over_reverse(sg.grad(loss), floats, directions),
        }
        return sg.grad(loss)(floats), [orders[name]() for name in (ORDERS if way == "all" else (way,))]

    # One compilation for all: differences are those of the gradient that comes with them.
    made = sg.jit(every, options=t.GENTLY)
    _, found = made(many.floats, many.others, many.weights, many.directions)
    numbers = many.differences(lambda floats: made(floats, many.others, many.weights, many.directions)[0])
    return [(ways, differences) for *ways, differences in zip(*found, numbers, strict=True)]


@rows(SMOOTH)
def test_forward_is_the_transpose_of_reverse(row: t.Row, together: Rows) -> None:
    pushed, pulled, size = module(together)[together.index(row)]
    assert abs(pushed - pulled) <= 1e-13 * size


@by_turns(SMOOTH, ORDERS, more=["all"], of=2)
def test_second_order(row: t.Row, way: str, together: Rows) -> None:
    """It is what differences of the gradient say; all orders of derivatives agree."""
    found, numbers = module(together, way)[together.index(row)]
    largest = max([1.0, *[float(np.max(np.abs(n), initial=0.0)) for n in numbers]])
    for *ways, d in zip(*found, numbers, strict=True):
        c = ways[-1]
        for other in ways[:-1]:
            scale = max(1.0, float(np.max(np.abs(c), initial=0.0)))
            np.testing.assert_allclose(other, c, rtol=1e-11, atol=1e-11 * scale)
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
def one_by_one(rows: Rows) -> Any:
    """Compile rows for one example, whatever is mapped."""
    return sg.jit(
        lambda examples: [row.call(*one) for row, one in zip(rows, examples, strict=True)], options=t.GENTLY)


@cache
def in_batches(rows: Rows, pattern: str) -> list[Any]:
    """Map rows at once, and call each of their examples."""
    given = [batched(row, pattern) for row in rows]

    def mapped(stacked: Any) -> Any:
        pairs = zip(rows, given, stacked, strict=True)
        return [sg.vmap(row.call, tuple(axes))(*arrays) for row, (axes, _, _), arrays in pairs]

    found = sg.jit(mapped, options=t.GENTLY)([stacked for _, stacked, _ in given])
    each = one_by_one(rows)
    expected = [each(list(examples)) for examples in zip(*[own for *_, own in given], strict=True)]
    return list(zip(found, zip(*expected, strict=True), strict=True))


@by_turns(ALL, list(PATTERNS))
def test_vmap_is_a_loop(row: t.Row, way: str, together: Rows) -> None:
    """Values for each example are those of a call for it, special values included."""
    found, expected = in_batches(together, way)[together.index(row)]
    for one, other in zip(found, expected, strict=True):
        assert np.asarray(one).dtype == np.asarray(other).dtype
        assert np.shape(one) == np.shape(other)
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-14)


@cache
def slopes_in_batches(rows: Rows, way: str) -> list[Any]:
    """Compute gradients of examples, in a loop and mapped: gradients that are mapped, or of what is mapped."""
    examples = [many(row, 3) for row in rows]
    stacked = [[np.stack(arrays) for arrays in zip(*own, strict=True)] for own in examples]

    def total(row: t.Row, arrays: Any) -> Any:
        result = row.call(*arrays)
        return np.sum(result * np.sin(np.arange(result.size, dtype=np.float64)).reshape(result.shape))

    def floats(arrays: Any) -> list[int]:
        return [k for k, a in enumerate(arrays) if t.floating(a)]

    def gradient(row: t.Row, arrays: Any) -> Any:
        return sg.grad(lambda *a: total(row, a), argnums=tuple(floats(arrays)))(*arrays)

    def looped(examples: Any) -> Any:
        return [gradient(row, one) for row, one in zip(rows, examples, strict=True)]

    def mapped(stacked: Any) -> Any:
        found = []
        for row, arrays in zip(rows, stacked, strict=True):

            def one_of(*a: Any, row: t.Row = row) -> Any:
                return total(row, a)

            def summed(*a: Any, one: Any = one_of) -> Any:
                return np.sum(sg.vmap(one)(*a))

            by = tuple(floats(arrays))
            inside = way == "a gradient that is mapped"
            found.append((sg.vmap(sg.grad(one_of, argnums=by)) if inside else sg.grad(summed, argnums=by))(*arrays))
        return found

    each = sg.jit(looped, options=t.GENTLY)
    expected = zip(*[each(list(one)) for one in zip(*examples, strict=True)], strict=True)
    return list(zip(expected, sg.jit(mapped, options=t.GENTLY)(stacked), strict=True))


@by_turns(SMOOTH, ["a gradient that is mapped", "the gradient of what is mapped"], of=2, first=2)
def test_gradients_of_batches(row: t.Row, way: str, together: Rows) -> None:
    """They are those of examples in a loop."""
    looped, found = slopes_in_batches(together, way)[together.index(row)]
    for k in range(len(found)):
        expected = np.stack([one[k] for one in looped])
        scale = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
        np.testing.assert_allclose(found[k], expected, rtol=1e-12, atol=1e-13 * scale)


@pytest.mark.parametrize("row", [
    pytest.param(row, id=row.name, marks=[pytest.mark.nightly] * (place % 2 > 0)) for place, row in enumerate(SMOOTH)
])
def test_jacobians_of_a_row_and_its_hessian(row: t.Row) -> None:
    """By columns and by rows, which batch tangents or cotangents alone, beside operands that have no such axis."""
    arrays = row.arrays()
    by = tuple([k for k, array in enumerate(arrays) if t.floating(array)])

    def total(*given: Any) -> Any:
        y = row.call(*given)
        return np.sum(np.sin(y) + 0.3 * y)

    def twice(outer: Any) -> Any:
        return outer(sg.grad(total, argnums=by), argnums=by, options=t.INTERPRETED)(*arrays)

    with np.errstate(all="ignore"):
        pairs = [[mode(row.call, argnums=by, options=t.INTERPRETED)(*arrays) for mode in (sg.jacfwd, sg.jacrev)]]
        if sum(np.size(arrays[k]) for k in by) <= 40:
            pairs.append([twice(sg.jacfwd), twice(sg.jacrev)])
    for columns, by_rows in pairs:
        for one, other in zip(optree.tree_leaves(columns), optree.tree_leaves(by_rows), strict=True):
            scale = max(1.0, float(np.max(np.abs(other), initial=0.0)))
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7 * scale)
