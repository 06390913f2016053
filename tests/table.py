"""The table of every declared op: what is called, with what arrays, and how many rows are compiled at once.

A row is one call of one op. Rows are compiled about twenty to a module, for one compiler run each would take
minutes; when a module fails, its rows are compiled one by one, so that only the broken ones fail.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

import symgrad as sg
from symgrad.errors import NoGradient
from symgrad.ir.op import Elementwise, Leaf, Op
from symgrad.ops import OPS, load
from symgrad.ops.declare.domains import Case, Domain

load()
Array = np.ndarray[Any, Any]
Call = Callable[..., Any]

INTERPRETED = sg.Options(compiler="none")
GENTLY = sg.Options(flags=() if os.environ.get("SYMGRAD_TESTS_OPTIMIZED") else ("-O0",))
"""For large modules that compare derivatives with each other: what the transforms say, compiled in half the time.

Values, gradients and random programs are compiled as users' functions are; with `--optimized` these are, too.
"""

MODULE = 20
"""So many rows stand in one module."""

PARAMS: dict[str, list[dict[str, Any]]] = {
    "power_int": [{"exponent": n} for n in (3, 2, -2, 1, 0)],
    "polygamma": [{"order": 1}, {"order": 3}],
    "astype": [{"dtype": np.dtype(np.float64)}],
}
"""What ops with parameters and without a NumPy function are tested with."""


class Row(NamedTuple):
    """One call of an op.

    Attributes:
        op: the op it is there for.
        call: a function of arrays, in plain NumPy.
        draw: arrays from its domain: ``draw(rng, dtype)``.
    """

    name: str
    op: Op
    call: Call
    draw: Callable[[np.random.Generator, Any], list[Array]]

    def arrays(self, dtype: Any = np.float64) -> list[Array]:
        """Draw the row's own arrays, the same in every process; the seed is one that meets no kink."""
        return self.draw(np.random.default_rng(crc32(self.name.encode()) + 3), dtype)


def calls(op: Elementwise) -> list[tuple[str, Call]]:
    """List what calls an elementwise op: its NumPy function, or the op with each of its parameters."""
    if op.name in {"direction", "inversion"}:  # their third argument is the length of the first two, not one of its own
        return [(op.name, lambda a, b, _h: op(a, b, np.hypot(a, b)))]
    if op.name in PARAMS:
        return [(f"{op.name}-{'-'.join(map(str, p.values()))}", _with(op, p)) for p in PARAMS[op.name]]
    public = isinstance(op.numpy, np.ufunc) or op.numpy is np.where
    return [(op.name, op.numpy if public else op)]


def _with(op: Op, params: dict[str, Any]) -> Call:
    return lambda *arrays: op(*arrays, **params)


def domains_of(op: Elementwise) -> tuple[Domain, ...]:
    """Return one domain for each argument."""
    return op.sample if type(op.sample) is tuple else (op.sample,) * op.arity


def _elementwise(op: Elementwise) -> list[Row]:
    domains = domains_of(op)

    def draw(rng: np.random.Generator, dtype: Any) -> list[Array]:
        return [domain.draw(rng, (2, 3), dtype) for domain in domains]

    return [Row(name, op, call, draw) for name, call in calls(op)]


def _edges(op: Elementwise) -> list[Row]:
    columns = np.array([np.atleast_1d(edge) for edge in op.edges], float).T
    domains = domains_of(op)

    def draw(rng: np.random.Generator, dtype: Any) -> list[Array]:
        kinds = [{"bool": bool, "int": np.int64}.get(domain.dtype, dtype) for domain in domains]
        with np.errstate(all="ignore"):
            return [np.asarray(column, kind) for column, kind in zip(columns, kinds, strict=True)]

    return [Row(name, op, call, draw) for name, call in calls(op)]


def _case(op: Op, kind: str, number: int, case: Case) -> Row:
    return Row(f"{op.name}-{kind}{number}", op, case.call, case.draw)


def samples() -> list[Row]:
    """List the rows of every op, in the inside of its domain."""
    rows: list[Row] = []
    for op in OPS.values():
        if isinstance(op, Elementwise):
            rows += _elementwise(op)
        elif not isinstance(op, Leaf):
            rows += [_case(op, "sample", k, case) for k, case in enumerate(op.sample)]
    return rows


def edges() -> list[Row]:
    """List the rows of every op, at its special arguments."""
    rows: list[Row] = []
    for op in OPS.values():
        if isinstance(op, Elementwise):
            rows += _edges(op)
        elif not isinstance(op, Leaf):
            rows += [_case(op, "edge", k, case) for k, case in enumerate(op.edges)]
    return rows


def smooth(row: Row) -> bool:
    """Whether a row has a derivative, by each of its arguments."""
    arrays = row.arrays()
    with np.errstate(all="ignore"):
        result = np.asarray(row.call(*arrays))
        partials: Any = getattr(row.op, "partials", None)
        slopes = partials(*arrays, result) if partials is not None and not row.op.params else None
    whole = not any(isinstance(slope, NoGradient) for slope in (slopes if isinstance(slopes, tuple) else ()))
    return floating(result) and result.size > 0 and any(floating(a) and a.size for a in arrays) and whole


def floating(array: Array) -> bool:
    """Whether an array can be differentiated by."""
    return bool(array.dtype.kind == "f")


# -- many rows in one module


class Many:
    """Functions of many rows at once: arguments are lists, one entry a row."""

    def __init__(self, rows: Sequence[Row], dtype: Any, options: sg.Options | None = None) -> None:
        """Draw every row's arrays, and cotangents and directions of their results and arguments."""
        self.rows, self.options = rows, options
        self.arrays = [row.arrays(dtype) for row in rows]
        rng = np.random.default_rng(11)
        with np.errstate(all="ignore"):
            results = [np.asarray(row.call(*a)) for row, a in zip(rows, self.arrays, strict=True)]
        self.weights = [
            np.asarray(rng.uniform(0.5, 1.5, r.shape), r.dtype if r.dtype.kind == "f" else dtype) for r in results
        ]
        self.directions = [[np.asarray(rng.uniform(-1, 1, a.shape), a.dtype) for a in row] for row in self.floats]

    @property
    def floats(self) -> list[list[Array]]:
        """The arrays to differentiate by."""
        return [[a for a in row if floating(a)] for row in self.arrays]

    @property
    def others(self) -> list[list[Array]]:
        """Indices, conditions and the like."""
        return [[a for a in row if not floating(a)] for row in self.arrays]

    def merged(self, floats: Sequence[Sequence[Any]], others: Sequence[Sequence[Any]], k: int) -> list[Any]:
        """Put a row's arguments back into their order."""
        one, two = iter(floats[k]), iter(others[k])
        return [next(one) if floating(a) else next(two) for a in self.arrays[k]]

    def values(self) -> list[Any]:
        """Compute every row."""
        rows = self.rows

        def table(arrays: Any) -> Any:
            return [row.call(*a) for row, a in zip(rows, arrays, strict=True)]

        return list(sg.jit(table, options=self.options)(self.arrays))

    def loss(self, floats: Any, others: Any, weights: Any) -> Any:
        """Weigh and add all rows' results."""
        total: Any = 0.0
        for k, row in enumerate(self.rows):
            total = total + np.sum(row.call(*self.merged(floats, others, k)) * weights[k])
        return total

    def gradients(self) -> list[Any]:
        """Derive every row's weighted sum by its arrays."""
        return list(sg.grad(self.loss, options=self.options)(self.floats, self.others, self.weights))

    def differences(self, gradient: Callable[[list[list[Array]]], Any]) -> list[list[Array]]:
        """Differentiate the contracted gradients of all rows at once, element by element."""
        found = [[np.zeros_like(a) for a in row] for row in self.floats]
        for k, place in self.places():

            def contracted(h: float, k: int = k, place: int = place) -> Array:
                moved = [[_moved(a, place, h) if n == k else a for n, a in enumerate(row)] for row in self.floats]
                gradients = gradient(moved)
                return np.array([
                    sum(float(np.sum(g * d)) for g, d in zip(row, along, strict=True))
                    for row, along in zip(gradients, self.directions, strict=True)
                ])

            for row, slope in zip(found, richardson(contracted, 2e-3), strict=True):
                if k < len(row) and place < row[k].size:
                    row[k].flat[place] = slope
        return found

    def places(self) -> list[tuple[int, int]]:
        """List the positions of elements that any row has."""
        rows = self.floats
        arguments = max(len(row) for row in rows)
        return [(k, p) for k in range(arguments) for p in range(max(row[k].size for row in rows if k < len(row)))]


def _moved(array: Array, place: int, h: float) -> Array:
    """Add to one element, where there is one."""
    if place >= array.size:
        return array
    moved: Array = array.copy()
    moved.flat[place] += h
    return moved


@cache
def module(kind: str, rows: tuple[Row, ...], dtype: str, options: sg.Options | None = None) -> list[Any]:
    """Compute some rows at once: a result, or an exception, for each."""
    return _attempted(kind, rows, np.dtype(dtype), options)


@cache
def groups(group: str) -> list[Row]:
    """List the rows of a group: ``samples``, ``edges``, ``smooth``."""
    if group == "smooth":
        return [row for row in samples() if smooth(row)]
    return {"samples": samples, "edges": edges}[group]()


def _attempted(kind: str, rows: Sequence[Row], dtype: Any, options: sg.Options | None) -> list[Any]:
    try:
        return list(getattr(Many(rows, dtype, options), kind)())
    except Exception as error:  # noqa: BLE001 - whose fault it was is found out by halves
        if len(rows) == 1:
            return [error]
        half = len(rows) // 2
        return _attempted(kind, rows[:half], dtype, options) + _attempted(kind, rows[half:], dtype, options)


# -- references


def richardson(function: Callable[[float], Any], step: float) -> Any:
    """Differentiate at 0 by central differences at three steps, extrapolated: the error is of sixth order."""
    one, two, three = [(function(h) - function(-h)) / (2 * h) for h in (step, step / 2, step / 4)]
    first, second = (4 * two - one) / 3, (4 * three - two) / 3
    return (16 * second - first) / 15


def numerical(call: Call, arrays: Sequence[Array]) -> list[Any]:
    """Differentiate a scalar NumPy function by each floating-point array, element by element.

    In long double where the function computes in it, which leaves about 1e-13 of error; else about 1e-10.
    """
    wide = [a.astype(np.longdouble) if floating(a) else a for a in arrays]
    with np.errstate(all="ignore"):
        try:
            fine = np.asarray(call(*wide)).dtype == np.longdouble
        except (TypeError, ValueError):
            fine = False
        chosen = wide if fine else [a.astype(np.float64) if floating(a) else a for a in arrays]
        step = 2e-4 if fine else 2e-3
        return [_by_elements(call, chosen, k, step) for k, a in enumerate(chosen) if floating(a)]


def _by_elements(call: Call, arrays: Sequence[Array], k: int, step: float) -> Array:
    found = np.zeros(arrays[k].shape, arrays[k].dtype)
    for place in np.ndindex(found.shape):

        def moved(h: float, place: tuple[int, ...] = place) -> Any:
            shifted = arrays[k].copy()
            shifted[place] += h
            return call(*arrays[:k], shifted, *arrays[k + 1 :])

        found[place] = richardson(moved, arrays[k].dtype.type(step))
    return found


def ulps(found: Any, expected: Any) -> Array:
    """Count the floating-point numbers between two arrays; NaN, infinities and the sign of zero must agree."""
    found, expected = np.asarray(found), np.asarray(expected)
    with np.errstate(all="ignore"):
        same = (found == expected) & (np.signbit(found) == np.signbit(expected)) | np.isnan(found) & np.isnan(expected)
        apart = np.abs(found - expected) / np.spacing(np.maximum(np.abs(found), np.abs(expected)))
    return np.asarray(np.where(same, 0.0, np.where(np.isnan(apart) | (found == expected), np.inf, apart)))
