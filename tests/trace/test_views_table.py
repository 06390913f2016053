"""Every function that may give a view, each written on either side: what NumPy has then, or a refusal with the line."""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import pytest
import scipy.special

from symgrad.errors import SymgradError
from tests.night import some
from tests.trace.programs import run
from tests.trace.test_aliasing import VIEWS, M, V

MORE = """
np.einsum("ij->ji", {a})|np.einsum("ij", {a})|np.einsum("ij->ij", {a})|np.einsum("ji", {a})|np.einsum("ii->i", {a})
np.einsum("...j->...j", {a})|np.einsum("i...->...i", {a})|np.einsum("ii", {a})|np.einsum("ij->i", {a})
np.einsum("ij->ji", {a}, optimize=True)|np.einsum("ii->i", {a})[1:]|np.einsum("ij,ij->ij", {a}, {a})
np.array({a}, ndmin=3, copy=False)|np.array({a}, ndmin=3, copy=None)|np.array({a}, ndmin=3)|np.array({a}, copy=False)
np.array({a}, copy=None, order="F")|np.array({a}, dtype=float, copy=None)|np.array({a}, dtype=np.float32, copy=None)
np.asarray({a}, order="F")|np.asarray({a}, order="C")|np.asarray({a}, order="K")|np.asarray({a}, None, "F")
np.asarray({a}, float)|np.asarray({a}, np.float32)|np.asarray({a}, copy=True)|np.asarray({a}, copy=False)
np.asanyarray({a}, order="F")|np.asarray({a}.T, order="F")|np.asarray({a}.T, order="C")|np.asfortranarray({a})
np.asfortranarray({a}.T)|np.ascontiguousarray({a}.T)|np.linalg.matrix_power({a}, 1)|np.linalg.matrix_power({a}, 2)
np.linalg.matrix_power({a}, 0)|np.broadcast_to({a}, {a}.shape)|np.broadcast_to({a}, (2, *{a}.shape))
np.broadcast_to({a}[0], {a}.shape)|np.broadcast_to({a}[0, 0], (3,))|np.broadcast_to({a}[0, 0], ())
np.broadcast_arrays({a}, {a}[0])[1]|np.linalg.diagonal({a})|np.diag({a})|np.diag({a}, 1)|np.diagonal({a}, 1)
np.diagflat({a})
{a}.diagonal()|np.matrix_transpose({a})|np.linalg.matrix_transpose({a})|np.permute_dims({a}, (1, 0))|np.atleast_3d({a})
np.reshape({a}, (9,), copy=True)|np.reshape({a}, -1, order="F")|{a}.reshape(3, 3)|{a}.reshape(9, copy=True)
{a}.ravel("F")|np.ravel({a}.T)|np.vsplit({a}, 3)[0]|np.dsplit({a}[None], 3)[1]|np.split({a}, 3, axis=1)[2]
np.triu({a})|np.tril({a})|np.trim_zeros({a}[0])|np.take_along_axis({a}, np.array([[0], [1], [2]]), 1)
np.compress([True, False, True], {a}, axis=0)|np.extract({a} > 0, {a})|np.delete({a}, 0, 0)|np.append({a}, {a})
np.sort({a})|np.flip({a}, 1)|np.roll({a}, 3)|np.tile({a}, (1, 1))|np.repeat({a}, 1, axis=0)|np.resize({a}, (3, 3))
{a}.astype(float, copy=False)|{a}.astype(np.float32)|np.astype({a}, float, copy=False)|{a}.conjugate()|np.imag({a})
np.nan_to_num({a}, copy=False)|np.squeeze({a}[None], 0)|np.expand_dims({a}, (0, 3))|{a}.flat[:]|np.unstack({a})[0]
np.fmax({a}, {a})|np.abs({a})|np.fix({a})|{a}.round(9)|{a}.clip(0, 9)|{a}.cumsum(0)|{a}.take([0, 1], 0)|{a}.repeat(1)
"""

SOURCES = {
    "computed": "m + 0",
    "copied": "np.array(m)",
    "own": "np.arange(9.0).reshape(3, 3) / 4",
    "own, written": "np.zeros((3, 3))\n    a[1] = v",
    "view of a computed one": "(m + 0)[::-1]",
    "argument": "m",
}

WRITES = {
    "the view": "b[...] = v[0]",
    "an element of the view": "b[(0,) * b.ndim] = v[1]",
    "the view in place": "b *= v[2]",
    "the view by a number": "b[...] = 7.0",
    "the array": "a[...] = v[0] * 2",
    "an element of the array": "a[0, 0] = v[1]",
    "nothing": "pass",
}

ALL = sorted({*VIEWS, *[entry for line in MORE.strip().splitlines() for entry in line.split("|")]})


def program(source: str, view: str, write: str) -> tuple[Any, str]:
    """Make the function, with its source where lines are looked up."""
    text = f"def program(v, m, i, k):\n    a = {source}\n    b = {view.format(a='a')}\n    {write}\n    return a, b\n"
    name = f"<{source} {view} {write}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names: dict[str, Any] = {"np": np, "scipy": scipy}
    exec(compile(text, name, "exec"), names)
    return names["program"], text


def outcome(call: Any) -> Any:
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - NumPy's own refusals are an outcome
        return error


def check(source: str, view: str, write: str) -> str:
    """Compare one program: the same values, or an error where NumPy raises, or a refusal with the line."""
    fun, text = program(source, view, write)
    m = M.copy()
    want = outcome(lambda: fun(V.copy(), m, 1, np.array(1)))
    got = outcome(lambda: run(fun, V, M, 1, np.array(1)))
    if isinstance(got, SymgradError):
        assert got.line is not None, f"{got}\n{text}"
        return "refused"
    if isinstance(want, Exception):
        assert isinstance(got, Exception), f"NumPy raises {want!r}\n{text}"
        return "raises"
    assert not isinstance(got, Exception), f"{got!r}\n{text}"
    assert np.array_equal(m, M), f"an argument was written\n{text}"
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-6, err_msg=text)
        assert g.shape == np.shape(w), text
    return "ok"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("source", some(SOURCES.values()), ids=SOURCES)
def test_views_and_writes(source):
    found = [check(source, view, write) for view in ALL for write in WRITES.values()]
    least = 0.3 if source == "m" else 0.75
    assert found.count("ok") + found.count("raises") > least * len(found), {k: found.count(k) for k in set(found)}


def test_the_table_is_long():
    assert len(ALL) > 170


def test_views_of_einsum_are_written_through():
    for view in ('np.einsum("ij->ji", {a})', 'np.einsum("...j->...j", {a})', "np.array({a}, ndmin=3, copy=False)"):
        for source in SOURCES.values():
            for write in WRITES.values():
                if source != "m":
                    assert check(source, view, write) == "ok"
    assert check("np.zeros((3, 3))", 'np.einsum("ii->i", {a})', "b[...] = 7.0") == "ok"
    assert check("m + 0", 'np.einsum("ii->i", {a})', "a[...] = v[0] * 2") == "ok"


def test_a_diagonals_write_says_what_to_write():
    fun, _ = program("m + 0", 'np.einsum("ii->i", {a})', "b[...] = v[0]")
    with pytest.raises(SymgradError, match=r"a write into a diagonal(?s:.*)np.fill_diagonal\(x, value\)"):
        run(fun, V, M, 1, np.array(1))


def test_the_check_can_fail(monkeypatch):
    from symgrad.trace.numpy import indexing

    real = indexing.getitem
    monkeypatch.setattr("symgrad.trace.tracer.Tracer.__getitem__", lambda self, index: np.copy(real(self, index)))
    with pytest.raises(AssertionError):
        check("m + 0", "{a}[1:]", "b[...] = v[0]")
