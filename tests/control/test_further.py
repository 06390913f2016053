"""A `while` that a first call leaves after no or few rounds is one loop, where a few rounds more show it."""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.table import richardson

TABLE = np.array([0.5, 0.25, 2.0, 1.5, 0.75])


def newton(x: Any) -> Any:
    y = x
    while abs(y * y - x) > 1e-2 * x:
        y = 0.5 * (y + x / y)
    return y


def halved(x: Any) -> Any:
    n = 0
    while x > 1.0:
        x, n = 0.5 * x, n + 1
    return x + n


def either_end(x: Any) -> Any:
    y, k = x, 0
    while y > 1.0 and k < 40:
        y, k = y - 0.7, k + 1
    return y * x


def broken(x: Any) -> Any:
    y = x
    while True:
        z = np.cos(y)
        if abs(z - y) < 0.3 * x:
            break
        y = z
    return y + z


def negated(x: Any) -> Any:
    while not x < 1.0:
        x = np.sqrt(x) * 0.999
    return x


def in_rounds(x: Any) -> Any:
    total = 0.0
    for k in range(4):
        y = x * (k + 1)
        while y > 6.0:
            y = 0.5 * y
        total = total + y
    return total


def reads_a_table(x: Any) -> Any:
    while np.sum(TABLE * x) > 5.0:
        x = x * TABLE[1] + TABLE[0]
    return x


def twice(x: Any) -> Any:
    y = x
    while y > 1.0:
        y = 0.5 * y
    z = x + 1.0
    while z > 2.0:
        z = 0.75 * z
    return y * z


def branches_in_it(x: Any) -> Any:
    y = x
    while y > 1.0:
        y = y / 7.0 if y > 10.0 else y - 0.9
    return y


ONE = [newton, halved, broken, negated, reads_a_table, twice]
MORE = [in_rounds, branches_in_it, either_end]
FIRST = [(1.0,), (0.2, 1.6), (1.6, 0.9), (3.1,), (1.0, 1.2, 2.1)]


def shifted(fun: Any, x: float, by: float) -> Any:
    return fun(x + by)


@pytest.mark.parametrize("first", FIRST, ids=str)
@pytest.mark.parametrize("fun", ONE + MORE, ids=lambda f: f.__name__)
def test_one_path_whatever_comes_first(fun: Any, first: tuple[float, ...]) -> None:
    compiled = sg.value_and_grad(fun, options=sg.Options(compiler="none"))
    for x in (*first, 0.93, 1.0, 1.31, 2.23, 7.71, 55.3, 1000.0):
        value, slope = compiled(x)
        np.testing.assert_allclose(value, fun(x), rtol=1e-12)
        if x != round(x, 1):  # where it may jump
            expected = richardson(functools.partial(shifted, fun, x), 1e-6)
            np.testing.assert_allclose(slope, expected, rtol=1e-4, atol=1e-7)
    assert compiled.cache_info().compilations <= (1 if fun in ONE else 5)


def test_in_c() -> None:
    compiled = sg.jit(halved)
    assert [compiled(x) for x in (1.0, 0.5, 1.5, 1e6)] == [halved(x) for x in (1.0, 0.5, 1.5, 1e6)]
    assert compiled.cache_info().compilations == 1


def indexed(x: Any) -> Any:
    """Rounds that the call has not would be beyond the end."""
    k, total = 0, 0.0
    while x[k] > 0.0:
        total = total + x[k]
        k = k + 1
    return total


def raises(x: Any) -> Any:
    while x > 1.0:
        if x < 50.0:
            raise ValueError("too small")
        x = x / 100
    return x


def asks_behind(x: Any) -> Any:
    y = x
    while y > 1.0:
        y = y * 0.5
    return y * 2 if y > 0.6 else y


def never_ends(x: Any) -> Any:
    """As soon as it goes round, for ever."""
    while x > 1.0:
        x = x + 1.0
        if x > 300.0:
            break
    return x


def notes(x: Any) -> Any:
    """Strings are no state of a loop."""
    said = ""
    while x > 1.0:
        x, said = x - 1.0, said + "."
    return x * len(said)


@pytest.mark.parametrize("fun", [asks_behind, never_ends, notes], ids=lambda f: f.__name__)
def test_what_more_rounds_do_not_show_is_a_path_for_each_call(fun: Any) -> None:
    compiled = sg.jit(fun, options=sg.Options(compiler="none", paths=99))
    for x in (0.9, 0.3, 1.1, 1.9, 2.5, 4.0, 4.7, 0.5):
        assert compiled(x) == fun(x)


def test_what_more_rounds_raise_nobody_sees() -> None:
    compiled = sg.jit(indexed, options=sg.Options(compiler="none", paths=99))
    for x in ([-1.0, 2.0], [1.0, -2.0], [3.0, 0.0]):
        assert compiled(np.array(x)) == indexed(x)
    compiled = sg.jit(raises, options=sg.Options(compiler="none", paths=99))
    assert compiled(0.5) == 0.5
    with pytest.raises(ValueError, match="too small"):
        compiled(7.0)
    assert compiled(99.0) == 0.99


def test_a_table_that_is_written_is_read_as_it_is() -> None:
    compiled = sg.jit(reads_a_table, options=sg.Options(compiler="none"))
    before = TABLE.copy()
    try:
        for scale in (1.0, 0.7, 0.3):
            TABLE[:] = before * scale
            for x in (0.1, 1.2, 9.0):
                np.testing.assert_allclose(compiled(x), reads_a_table(x), rtol=1e-12)
    finally:
        TABLE[:] = before
    assert compiled.cache_info().compilations == 1


def settles_behind(x: Any) -> Any:
    """Behind rounds that the call has not, the second loop would never end: negative numbers have no root."""
    y = x
    while y > 1.0:
        y = y - 1.0
    z = y
    while abs(z * z - y) > 1e-9:
        z = 0.5 * (z + y / z)
    return z


def reads_in_rounds(x: Any) -> Any:
    y = x
    while y > 1.0:
        y = y * TABLE[0] + 0.1 * TABLE[1]
    return y


def sets_a_flag(x: Any) -> Any:
    y, found, last = x, False, None
    while y > 1.0:
        y, found, last = 0.5 * y, True, y
    return (y if last is None else y + last), found


@pytest.mark.parametrize("first", [0.5, 1.5])
@pytest.mark.parametrize(("fun", "paths"), [
    (settles_behind, 1), (reads_in_rounds, 1), (asks_behind, 2), (sets_a_flag, 2),
], ids=lambda f: getattr(f, "__name__", f))
def test_what_stands_around_is_as_in_the_call(fun: Any, paths: int, first: float) -> None:
    compiled = sg.jit(fun, options=sg.Options(compiler="none"))
    for x in (first, 1.5, 0.5, 2.2, 9.7, 1.0, 30.0):
        np.testing.assert_allclose(compiled(x), fun(x), rtol=1e-12)
    assert compiled.cache_info().compilations <= paths


def test_flags_of_debug_nans_are_no_results() -> None:
    compiled = sg.jit(halved, options=sg.Options(compiler="none", debug_nans=True))
    assert [compiled(x) for x in (1.0, 1.5, 1e6)] == [halved(x) for x in (1.0, 1.5, 1e6)]


DRAWS = np.random.default_rng(5)
NOTED: list[float] = []


def draws(x: Any) -> Any:
    while x > 1.0:
        x = 0.5 * x + 0.01 * DRAWS.normal()
    return x


def draws_from_all(x: Any) -> Any:
    while x > 1.0:
        x = 0.5 * x + 0.01 * np.random.normal()  # noqa: NPY002 - it is what people write
    return x


def notes_rounds(x: Any) -> Any:
    while x > 1.0:
        x = 0.5 * x
        NOTED.append(1.0)
    return x


def gives_up(x: Any) -> Any:
    k = 0
    while x > 1.0:
        x, k = 0.5 * x, k + 1
        if k > 2:
            sys.exit("no convergence")
    return x


def test_rounds_that_the_call_has_not_leave_nothing_behind() -> None:
    before = DRAWS.bit_generator.state, str(np.random.get_state())  # noqa: NPY002 - as above
    for fun in (draws, draws_from_all, notes_rounds, gives_up):
        assert sg.jit(fun, options=sg.Options(compiler="none"))(0.5) == 0.5
    assert (DRAWS.bit_generator.state, str(np.random.get_state())) == before  # noqa: NPY002 - as above
    assert not NOTED
