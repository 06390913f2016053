"""Functions that compute in place, as text: random programs call them between their other lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.growth import Growth, Unfit, clear

TEXT = """

def row_by_row(a):
    out = np.zeros(a.shape)
    for k in range(len(a)):
        out[k] = 0.5 * a[k] * (k + 1)
        if k:
            out[k] += 0.3 * out[k - 1]
    return out


def element_by_element(a):
    out = np.empty(a.shape)
    flat = out.reshape(-1)
    for k, value in enumerate(a.reshape(-1)):
        flat[k] = np.sin(value) + (0.4 * flat[k - 1] if k else 0)
    return out


def through_views(a, b):
    out = np.ones(a.shape[::-1])
    turned, tail = out.T, out[1:]
    turned[...] = a
    tail *= 0.5
    out[::-1] += b.T
    turned[-1:] -= tail.T[:1].sum()
    return out + np.sum(turned)


def by_masks(a, b):
    out = np.array(a)
    out[a > 0.2] = 0.7
    out[b < -0.1] *= 0.5
    mask = a < b
    out[mask] += a[mask] * np.cos(b[mask])
    np.multiply(out, 2, out=out, where=b > -0.1)
    return out + np.mean(a[a > -9])


def by_indices(a, i):
    out = np.zeros((len(i) + len(a), *a.shape[1:]))
    out[i] = a[i] * 2
    np.add.at(out, i, a[:1])
    out[[0, -1, 0]] += 0.25
    out[i[:1]] *= 0.5
    return out


def place_by_place(a, i):
    out = np.full((len(a) + 1, *a.shape[1:]), 0.5)
    for k in range(len(i)):
        out[i[k]] += a[k % len(a)]
    for k in range(len(i)):
        out[i[k] + 1] = 0.3 * a[k % len(a)]
        if k % 2:
            out[i[k]] -= out[-1] * a[0]
    for k in range(len(i)):
        out[i[-1 - k]] *= 0.9
    return out


def shifted(a):
    out = np.array(a)
    out[1:] += 0.5 * out[:-1]
    out[::2] *= out[-1]
    out[:1], out[-1:] = out[-1:].copy(), out[:1].copy()
    return out


def put_and_filled(a):
    out = np.full(a.size + 2, 0.1)
    np.put(out, np.arange(a.size), np.ravel(a))
    square = np.zeros((2, 2))
    np.fill_diagonal(square, out[:1] + out[-1])
    np.copyto(square[1:], out[:2])
    return out[:2] @ square + np.sum(out * np.arange(len(out)) * 0.1)
"""

NAMES: dict[str, Any] = {"np": np}
exec(TEXT, NAMES)


def rows(g: Growth) -> None:
    a = g.pick(ndim=1)
    name = g.rng.choice(["row_by_row", "element_by_element", "shifted", "put_and_filled"])
    g.line(f"{name}({a})")


def views(g: Growth) -> None:
    a = g.pick(ndim=2)
    b = g.pick(ndim=2)
    if g.values[a].ndim != 2 or g.shape(a) != g.shape(b) or 0 in g.shape(a):
        raise Unfit
    g.line(f"through_views({a}, {b})")


def masks(g: Growth) -> None:
    a = g.pick()
    b = g.partner(a)
    if g.shape(a) != g.shape(b) or not g.values[a].ndim or not g.values[a].size:
        raise Unfit
    one, other = g.values[a], g.values[b]
    clear(one - 0.2, other + 0.1, one - other if a != b else 1.0)
    g.line(f"by_masks({a}, {b})")


def indices(g: Growth) -> None:
    a = g.pick(ndim=1)
    extent = g.shape(a)[0]
    if not extent:
        raise Unfit
    known = [g.rng.randrange(extent) for _ in range(g.rng.randrange(1, 5))]
    whole = [n for n, v in g.values.items() if v.dtype == np.int64 and v.ndim == 1 and v.size]
    whole = [n for n in whole if g.values[n].min() >= 0 and g.values[n].max() < extent]
    name = g.rng.choice(["by_indices", "place_by_place"])
    g.line(f"{name}({a}, {g.rng.choice([*whole, *whole, f'np.array({known})'])})")


KINDS: list[tuple[Callable[[Growth], None], int]] = [(rows, 14), (views, 12), (masks, 14), (indices, 14)]
