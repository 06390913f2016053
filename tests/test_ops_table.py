"""Every declared op, from one generated table: value, derivatives, edges, memory layouts, dtypes."""

from __future__ import annotations

import contextlib
from functools import cache
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.ops import OPS
from symgrad.ops.declare.forms import COMPILED
from tests import table as t
from tests.night import some

SAMPLES, EDGES = t.groups("samples"), t.groups("edges")
SMOOTH = t.groups("smooth")
DTYPES = ["float64", "float32"]

ULP = {
    "gammaln": 128, "polygamma": 16, "ndtr": 1024, "log_ndtr": 300, "ndtri": 40, "gamma": 20, "gammainc": 300,
    "gammaincc": 300, "betainc": 400, "betaincc": 400, "stdtr": 400, "i0": 40, "i1": 40,
    "j0": 250, "dawsn": 120, "erfcx": 8, "expi": 60, "exp1": 60,
}
"""Where SciPy itself is further off: near a zero, by its series, in the tail (one ULP of 37 is 1400 of ndtr(-37))."""


def rows(group: list[t.Row]) -> Any:
    return pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in group])


Rows = tuple[t.Row, ...]


def given(kind: str, rows: Rows, row: t.Row, dtype: str = "float64", options: sg.Options | None = None) -> Any:
    found = t.module(kind, rows, dtype, options)[rows.index(row)]
    if isinstance(found, Exception):
        raise found
    return found


def close(found: Any, expected: Any, tolerance: float) -> None:
    """Compare a row's arrays, with a tolerance relative to 1 or the largest number among them."""
    scale = max([1.0, *[float(np.max(np.abs(e), initial=0.0)) for e in expected]])
    for f, e in zip(found, expected, strict=True):
        assert f.shape == e.shape
        np.testing.assert_allclose(np.asarray(f, float), np.asarray(e, float), rtol=tolerance, atol=tolerance * scale)


def numpys(row: t.Row, dtype: str) -> np.ndarray[Any, Any]:
    with np.errstate(all="ignore"):
        return np.asarray(row.call(*row.arrays(np.dtype(dtype))))


def same(found: Any, expected: Any, row: t.Row) -> None:
    """Compare with NumPy's value: elementwise within 4 ULP, special values exactly."""
    found = np.asarray(found)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if found.dtype.kind != "f":
        assert np.array_equal(found, expected)
    elif row.op.kind == "elementwise":
        wrong = t.ulps(found, expected) > ULP.get(row.op.name, 4)
        arguments = [np.broadcast_to(a, expected.shape)[wrong] for a in row.arrays(found.dtype)]
        assert not wrong.any(), f"{row.name}{arguments} is {found[wrong]}, in NumPy {expected[wrong]}"
    else:
        tolerance = 1e-13 if found.dtype == np.float64 else 1e-5
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_every_op_has_rows() -> None:
    for name, op in OPS.items():
        # tests/control has the programs of those that hold some, and of guards.
        if op.kind not in {"leaf", "control"} and not op.decides:
            assert [row for row in SAMPLES if row.op is op], name
            assert [row for row in EDGES if row.op is op], name


@pytest.mark.parametrize("dtype", DTYPES)
@rows(SAMPLES)
def test_value(row: t.Row, dtype: str, together: Rows) -> None:
    same(given("values", together, row, dtype), numpys(row, dtype), row)


@pytest.mark.parametrize("dtype", DTYPES)
@rows(EDGES)
def test_value_at_edges(row: t.Row, dtype: str, together: Rows) -> None:
    same(given("values", together, row, dtype), numpys(row, dtype), row)


@rows(SAMPLES + EDGES)
def test_interpreter_agrees(row: t.Row, together: Rows) -> None:
    interpreted = given("values", together, row, options=t.INTERPRETED)
    same(given("values", together, row), np.asarray(interpreted), row)


@rows(SMOOTH)
def test_gradient(row: t.Row, together: Rows) -> None:
    """The gradient of a weighted sum against differences of plain NumPy, element by element."""
    weights = many_of(together).weights[together.index(row)]
    expected = t.numerical(lambda *arrays: np.sum(row.call(*arrays) * weights), row.arrays())
    close(given("gradients", together, row), expected, 1e-9)
    close(given("gradients", together, row, options=t.INTERPRETED), expected, 1e-9)


@cache
def many_of(rows: Rows) -> t.Many:
    return t.Many(rows, np.dtype(np.float64))


@rows(SMOOTH)
def test_gradient_in_float32(row: t.Row, together: Rows) -> None:
    """float32 throughout, against the same gradient in float64."""
    found = given("gradients", together, row, "float32")
    assert all(g.dtype == np.float32 for g in found)
    close(found, given("gradients", together, row), 1e-4)


# -- memory layouts: the same numbers, however they lie in memory


def reversed_view(a: Any) -> Any:
    return np.ascontiguousarray(a[tuple([slice(None, None, -1)] * a.ndim)])[tuple([slice(None, None, -1)] * a.ndim)]


def strided_view(a: Any) -> Any:
    wide = np.full([2 * n + 1 for n in a.shape], 7, a.dtype)
    view = wide[tuple([slice(0, 2 * n, 2) for n in a.shape])]
    view[...] = a
    return view


LAYOUTS: dict[str, Any] = {"fortran": np.asfortranarray, "strided": strided_view, "reversed": reversed_view}


@pytest.mark.parametrize("start", some(range(0, len(SMOOTH), t.MODULE)))
def test_layouts(start: int) -> None:
    """Every row's value and gradient are the same bits whatever the strides of its arguments."""
    many = many_of(tuple(SMOOTH[start : start + t.MODULE]))
    gradient = sg.value_and_grad(many.loss)
    value, grads = gradient(many.floats, many.others, many.weights)
    for layout, lay_out in LAYOUTS.items():
        moved = [[lay_out(a) if a.ndim else a for a in row] for row in many.floats]
        other, others = gradient(moved, many.others, many.weights)
        assert value == other, layout
        for row, one, two in zip(many.rows, grads, others, strict=True):
            for a, b in zip(one, two, strict=True):
                assert np.array_equal(a, b, equal_nan=True), (layout, row.name)
    assert gradient.cache_info().compilations == 1


# -- integers and booleans, where an op takes them

WHOLE = ["bool", "int8", "uint8", "int32", "int64", "uint64"]


def whole_rows(dtype: str) -> list[t.Row]:
    """List the rows an integer type has a meaning for: NumPy computes in it and symgrad compiles the result."""
    found = []
    for row in SAMPLES:
        if isinstance(row.op.numpy, np.ufunc) or row.op.name in {"where", "astype"}:
            made = _whole(row, np.dtype(dtype))
            with np.errstate(all="ignore"), contextlib.suppress(TypeError, ValueError):
                if not _taken(row, made) or np.asarray(row.call(*made)).dtype not in COMPILED:
                    continue
                found.append(row._replace(draw=_always(made)))
    return found


def _always(made: list[Any]) -> Any:
    return lambda _rng, _dtype: made


def _whole(row: t.Row, dtype: Any) -> list[Any]:
    rng = np.random.default_rng(5)
    low, high = (-5 if dtype.kind == "i" else 0), (2 if dtype.kind == "b" else 7)
    arrays = [np.resize(a, 12) for a in row.arrays()]
    return [a if a.dtype.kind == "b" else rng.integers(low, high, 12).astype(dtype) for a in arrays]


def _taken(row: t.Row, made: list[Any]) -> bool:
    """Whether the op has a loop for dtypes, and not one in half precision."""
    try:
        sg.jit(row.call, options=t.INTERPRETED)(*made)
    except sg.SymgradError:
        return False
    return True


@pytest.mark.parametrize("dtype", WHOLE)
def test_integers_and_booleans(dtype: str) -> None:
    found = whole_rows(dtype)
    assert len(found) > 30
    arrays = [row.arrays() for row in found]
    results = sg.jit(lambda arrays: [row.call(*a) for row, a in zip(found, arrays, strict=True)])(arrays)
    for row, given_, result in zip(found, arrays, results, strict=True):
        with np.errstate(all="ignore"):
            same(result, np.asarray(row.call(*given_)), row)


REDUCED = [row for row in SAMPLES if row.op.kind == "structured" and row.op.name != "adjoint"]  # of floats alone


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "bool"])
def test_structured_ops_of_integers(dtype: str) -> None:
    """Sums, products, views and indexing of integers are exact."""
    found, arrays = [], []
    for row in REDUCED:
        made = [np.asarray(a * 3).astype(dtype) if a.dtype.kind == "f" else a for a in row.arrays()]
        try:
            expected = np.asarray(row.call(*made))
        except (TypeError, np.linalg.LinAlgError):  # np.negative of bool and the like; a singular matrix
            continue
        if not _taken(row, made):
            continue
        if expected.dtype.kind in "biu":
            found.append((row, expected))
            arrays.append(made)
    assert len(found) > 15
    results = sg.jit(lambda arrays: [row.call(*a) for (row, _), a in zip(found, arrays, strict=True)])(arrays)
    for (row, expected), result in zip(found, results, strict=True):
        assert result.dtype == expected.dtype, row.name
        assert np.array_equal(result, expected), row.name
