"""Functions that compute in place, as text: random programs call them between their other lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.growth import Growth, Unfit, clear, executed

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

OPEN_TEXT = """

def place(a, i):
    out = np.array(a)
    out[i] = 0.5 * a
    return out


def place_pairs(a, i):
    out = np.zeros((a.shape[0], a.shape[0], *a.shape[1:]))
    out[np.arange(a.shape[0]), i] = a
    return np.sum(out, axis=0)


def add_at_places(a, i):
    out = np.zeros_like(a)
    np.add.at(out, i, a)
    return out
"""
"""Functions whose text holds no extent."""

OPEN_NAMES: dict[str, Any] = {"np": np}
exec(OPEN_TEXT, OPEN_NAMES)


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


# -- rows and columns by integers, known or not: views, and writes on either side of them

MADE = ("np.array({a})", "{a} + 0", "{a}.copy()", "{a}[::-1] * 0.5", "np.zeros_like({a})", "np.ones({a}.shape)")
LOOKS = (
    "{r}[{i}]", "{r}[{i}]", "{r}[..., {j}]", "{r}[{i}, ...]", "{r}[{i}, 1:]", "{r}[{i}][::-1]", "{r}.T[{j}]",
    "{r}[1:][{i}]", "{r}[::-1][{i}]", "{r}[{i}, None]", "{r}[None, ..., {j}]", "np.swapaxes({r}, 0, -1)[{j}]",
    "{r}[{i}].T", "np.expand_dims({r}[{i}], 0)", "{r}[{i}][..., ::2]", "np.flip({r})[{i}]",
    "(lambda m, n: m[n])({r}, {i})", "np.squeeze({r}[{i}, None], 0)", "np.moveaxis({r}, -1, 0)[{j}]",
    "np.einsum('ij->ji', {r})[{j}]", "{r}[{i}][{k}, ...]", "[{r}[n] for n in {q}][-1]", "np.take({r}, {i}, axis=0)",
    "{r}.take({j}, -1)", "{r}[np.array({i})]", "{r}[[{i}]]", "{r}[{q}]", "{r}[{i}].copy()", "{r}[{i}, {q}]",
    "{r}[np.array({i}), 1:]",
)
"""Views of an array, and copies of parts of it."""
WRITES = (
    "{w} += {x}", "{w} *= 0.5", "{w}[...] = {x}", "{w}[:1] = {s}", "{w}[-1:] -= {w}[:1]", "{w}.fill({s})",
    "{w}[{k}] = {s}", "np.add({w}, {x}, out={w})", "np.copyto({w}, {x})", "{w}[{k}, ...] *= 3", "{w}[::-1] += {w}",
    "{w} = {w} * 2", "{r}[{i}] += {x}", "{r}[{i}] = {x}", "{r}[{i}][0] = {s}", "{r}[..., {j}][-1] = {s}",
    "{r}[{i}, {k}] -= {s}", "{r} *= 0.5", "np.multiply({r}[{i}], 0.5, out={r}[{i}])", "np.copyto({r}[{i}], {x})",
    "{r}[{i}].fill({s})", "{r}[...] = {x}", "{r}[..., {j}] *= 0.7", "{r}[0] = {s}", "{r}[:-1] = {r}[1:]",
    "{r}[{i}], {r}[0] = {r}[0], {r}[{i}]", "{r}[{q}] = {x}", "for n in {q}: {r}[n] *= 0.8",
    "for n in {q}: {r}[n][0] += {s}", "for n in {q}: {r}[n, ..., -1:] = {r}[n - 1, ..., :1]",
    "{r}[np.array({i})] += {s}", "{r}[np.array({i})][0] = {s}", "np.put({r}[{i}], [0], {s})", "{r}.T[{j}] -= {w}",
    "{w} -= {r}[{i}]", "{r}[{i}] = {r}[{m}]", "{r}[{i}] = {w}",
    "{r}[:, None] = {x}", "{r}[..., None] = {r}[..., :1]", "{w}[None, ..., None] -= {s}", "{r}[{i}, None] = {x}",
    "{r}[{q}] = np.arange(1.0, len({q}) + 1).reshape(-1, *[1] * ({r}.ndim - 1)) * {s}",
)
"""Writes into an array `r` and into a part `w` of it."""


def integer(g: Growth, extent: int) -> str:
    """Write an integer that is an index: a known one, an argument, an element of one, or the place of the largest."""
    whole = {n: v for n, v in g.values.items() if v.dtype.kind == "i"}
    found = [n for n, v in whole.items() if not v.ndim and -extent <= v < extent]
    found += [f"{n}[{k}]" for n, v in whole.items() if v.ndim == 1 for k in range(v.size) if -extent <= v[k] < extent]
    a = g.pick(ndim=1)
    if g.values[a].ndim == 1 and 1 < g.values[a].size <= extent and g.rng.random() < 0.5:
        clear(np.diff(np.sort(g.values[a])))
        found.append(f"np.argmax({a})")
    chosen = g.rng.choice(found) if found and g.rng.random() < 0.8 else str(g.rng.randrange(-extent, extent))
    alone = [f"np.array({chosen}).copy()", f"np.array({chosen}).astype(np.int32)"]  # arrays without axes, which copy
    return g.rng.choice([*alone, *[chosen] * 12])


def integers(g: Growth, extent: int) -> str:
    """Write several integers that are indices, some of them twice."""
    found = [n for n, v in g.values.items() if v.dtype.kind == "i" and v.ndim == 1 and v.size]
    found = [n for n in found if g.values[n].min() >= -extent and g.values[n].max() < extent]
    known = f"np.array({[g.rng.randrange(-extent, extent) for _ in range(g.rng.randrange(1, 4))]})"
    return g.rng.choice([*found, *found, known])


def parts(g: Growth) -> None:
    """Make an array, look at parts of it, write on either side."""
    a = g.pick(ndim=1)
    first, last = g.shape(a)[0], g.shape(a)[-1]
    if not first or not last:
        raise Unfit
    r, w = f"r{len(g.values)}", f"w{len(g.values)}"
    alone = [n for n, v in g.values.items() if v.dtype.kind == "f" and not v.ndim]

    def filled(text: str) -> str:
        words = {"r": r, "w": w, "a": a, "i": integer(g, first), "j": integer(g, last), "k": integer(g, last)}
        words["m"] = integer(g, first)
        own = f"{r}[{integer(g, first)}]" + ("" if "+=" in text else " * 1.0")  # NumPy stores crossing rows wrongly
        x = g.rng.choice([g.pick(), g.rng.choice([0.5, -1.25]), f"{w} * 0.3", own])
        s = g.rng.choice([*alone, 0.75, f"np.sum({a}) * 0.1"])
        return text.format(q=integers(g, first), x=x, s=s, **words)

    lines = [f"{r} = {g.rng.choice(MADE).format(a=a)}"]
    looks = [look for look in LOOKS if g.values[a].ndim > 1 or "expand_dims" not in look]  # no array made of a number
    for _ in range(g.rng.randrange(1, 3)):
        lines.append(f"{w} = {filled(g.rng.choice(looks))}")
        for _ in range(g.rng.randrange(1, 4)):
            text = g.rng.choice(WRITES)
            line = filled(text)
            try:
                names = executed(lines, {**g.functions, **g.values})
                executed([line], names)
            except Unfit:
                continue
            number = {"w": isinstance(names[w], np.generic), "r": g.values[a].ndim == 1}
            ignored = ("fill" in text or "np.put" in text) and number[text.split("{")[1][0]]  # by NumPy, of a number
            lines += [] if ignored else [line]
    g.block(lines, [r, w])


KINDS: list[tuple[Callable[[Growth], None], int]] = [
    (rows, 14),
    (views, 12),
    (masks, 14),
    (indices, 14),
    (parts, 24),
]
