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

    return sg.jit(both)(many.floats, many.others, many.weights, many.directions)


def curvatures(many: t.Many) -> Any:
    """Compute the Hessian along a direction: forward over reverse, reverse over forward, reverse over reverse."""

    def all_three(floats: Any, others: Any, weights: Any, directions: Any) -> Any:
        def gradient(floats: Any) -> Any:
            return sg.grad(many.loss)(floats, others, weights)

        def slope(floats: Any) -> Any:
            return sg.jvp(lambda f: many.loss(f, others, weights), (floats,), (directions,))[1]

        def contracted(floats: Any) -> Any:
            pairs = zip(gradient(floats), directions, strict=True)
            return sum([np.sum(g * d) for one, along in pairs for g, d in zip(one, along, strict=True)], start=0.0)

        forward_over_reverse = sg.jvp(gradient, (floats,), (directions,))[1]
        return list(zip(forward_over_reverse, sg.grad(slope)(floats), sg.grad(contracted)(floats), strict=True))

    return sg.jit(all_three)(many.floats, many.others, many.weights, many.directions)


@rows(SMOOTH)
def test_forward_is_the_transpose_of_reverse(row: t.Row) -> None:
    pushed, pulled, size = computed("products", row)
    assert abs(pushed - pulled) <= 1e-13 * size


@rows(SMOOTH)
def test_second_order_in_three_ways(row: t.Row) -> None:
    one, two, three = computed("curvatures", row)
    for a, b, c in zip(one, two, three, strict=True):
        scale = max(1.0, float(np.max(np.abs(c), initial=0.0)))
        np.testing.assert_allclose(a, c, rtol=1e-11, atol=1e-11 * scale)
        np.testing.assert_allclose(b, c, rtol=1e-11, atol=1e-11 * scale)
