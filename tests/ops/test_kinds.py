"""Every answered function with every kind of argument gives NumPy's result, NumPy's exception,
    or an error with a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import optree
import pytest

import symgrad as sg
from symgrad.ops.declare.forms import ANSWERS
from symgrad.trace.numpy.protocols import METHODS
from tests.night import some
from tests.ops.kinds import FAMILIES, Row, arguments, comparable, faults, name_of, numpys, symgrads, takes, tame, ways

USUAL = 16
"""One row in so many is tried at each run, the whole table at night."""

IN_A_MODULE = 40
"""So many rows are compiled together."""


def rows(family: str, parts: int) -> Iterator[Row]:
    """Return the rows of a family, each once; of each function the first two, and of the others one in `parts`."""
    seen: dict[str, int] = {}
    texts: set[str] = set()
    for one in FAMILIES[family]():
        if one.text not in texts:
            texts.add(one.text)
            name = one.text.partition("(")[0]
            seen[name] = seen.get(name, 0) + 1
            if seen[name] <= 2 or seen[name] % parts == 0:
                yield one


def check(family: str, parts: int) -> None:
    found = {one.text: (ways(one), words) for one, words in faults(rows(family, parts))}
    assert not found, "\n".join(f"{text} {what}" for text, what in list(found.items())[:20])


@pytest.mark.parametrize("family", some(FAMILIES))
def test_some_rows(family: str) -> None:
    check(family, USUAL)


@pytest.mark.nightly
@pytest.mark.parametrize("family", FAMILIES)
def test_every_row(family: str) -> None:
    check(family, 1)


def test_the_table_is_made_of_what_is_answered() -> None:
    """Nothing that is answered is left out, and nothing need be added by hand."""
    tried = {one.text.partition("(")[0] for family in FAMILIES for one in rows(family, 10**9)}
    assert {name_of(f) for f in ANSWERS if callable(f)} <= tried
    assert {f"a.{f.__name__}" for f in METHODS} <= tried


def test_rows_in_c() -> None:
    """What is answered gives in C what NumPy gives: the first rows of each function, many to a module."""
    every = [one for family in FAMILIES for one in rows(family, 10**9) if compiles(one)]
    assert len({one.text.partition("(")[0] for one in every}) > len(ANSWERS) * 3 // 4
    for start in range(0, len(every), IN_A_MODULE):
        some = every[start : start + IN_A_MODULE]

        def program(given: Any, some: Any = some) -> Any:
            return [one.function(*args) for one, args in zip(some, given, strict=True)]

        found = sg.jit(program, options=sg.Options(flags=("-O1",)))([one.args for one in some])
        for one, got in zip(some, found, strict=True):
            leaves, expected = optree.tree_leaves(got), optree.tree_leaves(numpys(one))
            for x, y in zip(leaves, expected, strict=True):
                assert x.dtype == np.asarray(y).dtype, one.text
                np.testing.assert_allclose(
                    comparable(one, x), comparable(one, y), rtol=1e-5, atol=1e-9, err_msg=one.text)


def compiles(one: Row) -> bool:
    """Whether a row is answered, all its arguments being traced ones."""
    given = arguments(one)
    if one.kwargs or not all(map(takes, given)) or not all(map(tame, given)) or "empty_like" in one.text:
        return False
    chosen = ["traced"] * len(given)
    return not isinstance(numpys(one), Exception) and not isinstance(symgrads(one, chosen), Exception)


CASES = {
    "uint8 == -1": lambda x: [x["B"] == -1, x["B"] > -1, x["B"] < 2**70, x["B"] != 300, x["b"] > -1, x["L"] > -1,
        x["l"] < 2**63],
    "clip beyond the dtype": lambda x: [np.clip(x["B"], -3, 300), np.clip(x["b"], -200, 1), x["B"].clip(-3, 7)],
    "power by a bool": lambda x: [np.power(x["b"], True), np.power(x["b"], np.False_), x["b"] ** True],
    "a reduction of a number along an axis": lambda x: [
        f(x["d0"], axis=axis) for f in (np.sum, np.prod, np.max, np.min, np.any, np.all) for axis in (0, -1)],
    "keepdims of a number": lambda x: [np.sum(x["d0"], keepdims=True), np.max(x["d0"], axis=0, keepdims=True)],
    "mean in integers": lambda x: [np.mean(x["b"], dtype=np.int32), x["d"].mean(dtype="l")],
    "what a reduction starts from": lambda x: [np.max(x["b"], initial=2.5), np.sum(x["B"], initial=3)],
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("options", [sg.Options(), sg.Options(compiler="none")], ids=["C", "interpreted"])
def test_named_cases(name: str, options: sg.Options) -> None:
    """What once raised, or was refused, or was wrong."""
    args = {t: np.array([3, 0, 5], t) for t in "bBlLd"} | {"d0": np.array(2.5)}
    for got, want in zip(sg.jit(CASES[name], options=options)(args), CASES[name](args), strict=True):
        assert got.dtype == np.asarray(want).dtype
        np.testing.assert_array_equal(got, want)


def test_python_integers_that_are_arguments_compare_as_numbers() -> None:
    compare = sg.jit(lambda x, n: [x == n, x > n, x < n, n <= x])
    for n in (-1, 300, 5, 2**40):
        x = np.array([3, 5, 255], np.uint8)
        for got, want in zip(compare(x, n), (x == n, x > n, x < n, n <= x), strict=True):
            np.testing.assert_array_equal(got, want, err_msg=str(n))


def test_writes_of_several_index_lists() -> None:
    def program(x: np.ndarray) -> list[np.ndarray]:
        v, w, z = x.copy(), x.copy(), np.array(x[0, 0])
        v[[0, 0, 1], [0]] = 5.0
        w.flat = np.array([1.0, 2.0])
        y = z.copy()
        same = y
        y += 1
        return [v, w, same]

    x = np.arange(6.0).reshape(2, 3)
    for got, want in zip(sg.jit(program)(x), program(x), strict=True):
        np.testing.assert_array_equal(got, want)
