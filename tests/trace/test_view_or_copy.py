"""Whether what a function gives is a view or a copy: the table is NumPy's, and writes on either side show it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special

from symgrad.ops.declare.forms import ANSWERS, answer_scipy
from symgrad.trace.trace import prepare
from symgrad.trace.tracer import Tracer
from tests.trace.test_aliasing import M
from tests.trace.test_views_table import SOURCES, WRITES, check
from tests.trace.view_or_copy import TABLE, of, ufunc_call

prepare()
answer_scipy()
UFUNCS = [function for function in ANSWERS if isinstance(function, np.ufunc) and function.nout == 1]
VALUES = {"item", "tolist", "choose"}  # the last is of integers
"""Methods that ask a traced array for its values, and are refused."""

SIDES = ("the view", "an element of the view", "the array", "an element of the array")


def numpys(call: str) -> str:
    """Say what NumPy gives: a view, a copy, or no array."""
    a = M.copy()
    names = {"np": np, "scipy": scipy, "a": a, "i": 1, "k": np.array(1)}
    found = eval(call.format(a="a"), names)  # noqa: S307 - text of the table
    arrays = [part for part in (found if isinstance(found, (list, tuple)) else [found]) if isinstance(part, np.ndarray)]
    if not arrays:
        return "number"
    return "view" if any(np.shares_memory(part, a) for part in arrays) else "copy"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["view", "copy", "number"])
def test_the_table_is_numpys(kind: str) -> None:
    assert {call: numpys(call) for call in TABLE[kind]} == dict.fromkeys(TABLE[kind], kind)


def test_a_view_where_possible_is_a_copy_elsewhere() -> None:
    found: dict[Any, set[str]] = {}
    for call in TABLE["either"]:
        found.setdefault(of(call), set()).add(numpys(call))
    assert found == {function: {"view", "copy"} for function in found}


def test_all_that_is_answered_has_a_row() -> None:
    rows = {of(call) for calls in TABLE.values() for call in calls}
    functions = {function for function in ANSWERS if callable(function)} - set(UFUNCS)
    methods = {name for name in dir(Tracer) if hasattr(np.ndarray, name) and name[0] != "_"} - {"base", "device"}
    assert functions - rows == set()
    assert methods - rows == VALUES


def followed(source: str, calls: list[str], sides: Any = SIDES) -> float:
    """Check calls, and return how many of them are followed and not refused."""
    found = [check(source, call, WRITES[side]) for call in calls for side in sides]
    return 1 - found.count("refused") / len(found)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "least"), [("view", 0.75), ("copy", 0.92), ("either", 0.5)])
@pytest.mark.parametrize("source", ["computed", "own"])
def test_writes_on_either_side(kind: str, least: float, source: str) -> None:
    assert followed(SOURCES[source], TABLE[kind]) > least


@pytest.mark.filterwarnings("ignore")
def test_ufuncs_give_copies() -> None:
    calls = [ufunc_call(ufunc) for ufunc in UFUNCS]
    assert {numpys(call) for call in calls} == {"copy"}
    assert followed("m + 0", calls, ["the view", "the array"]) == 1
