"""Texts of traced values: what code goes on with is the value's, guarded; what people are told needs no value."""

# ruff: noqa: T201 - what is printed is what is tested

from __future__ import annotations

import logging
import string
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ConcretizationError, SymgradWarning

X = np.array([1.0, 2.0, 3.0])
NONE = sg.Options(compiler="none")
TABLE = {"W1": 2.0, "W2": 5.0, "WTrue": 3.0, "1": 7.0, "W01": 11.0, "Settings(k=1)": 13.0}
OUTSIDE = np.array([1, 2])
log: Any = logging.getLogger("test_texts_of_values")


@dataclass
class Settings:
    k: Any


class Shown:
    def __init__(self, k: Any) -> None:
        self.k = k

    def __repr__(self) -> str:
        return f"W{self.k}"


READ: dict[str, Any] = {
    "f-string": lambda x, k: x * TABLE.get(f"W{k}", 0.0),
    "a key": lambda x, k: x * TABLE.get(f"{k}", 0.0),
    "an item": lambda x, k: x * TABLE[f"W{k}"],
    "its repr": lambda x, k: x * TABLE.get(f"W{k!r}", 1.5),
    "a format": lambda x, k: x * TABLE.get(f"W{k:02}", 0.0),
    "str": lambda x, k: x if str(k) == "1" else -x,
    "repr": lambda x, k: x * len(repr(k)),
    "%": lambda x, k: x * TABLE.get("W%s" % k, 0.0),  # noqa: UP031 - one of the ways
    "format": lambda x, k: x * TABLE.get("W{}".format(k), 0.0),  # noqa: UP032 - as above
    "its length": lambda x, k: x * len(f"{k}{k}"),
    "join": lambda x, k: x * len(",".join(map(str, [k, k]))),
    "in a list": lambda x, k: x * len(str([k])),
    "a Template": lambda x, k: x * TABLE.get(string.Template("W$k").substitute(k=k), 0.0),
    "a dataclass": lambda x, k: x * TABLE.get(repr(Settings(k)), 0.0),
    "a class of the user's": lambda x, k: x * TABLE.get(f"{Shown(k)}", 0.0),
    "in a message, and beside it": lambda x, k: (print(k), x * TABLE.get(f"W{k}", 0.0))[1],
    "a number of it": lambda x, k: x * np.log(TABLE.get(f"W{k}", 1.0)),
    "a comparison that is told": lambda x, k: x * (1.0 if print(f"{k}" == "1") is None and str(k) == "1" else 2.0),
}


@pytest.mark.parametrize("k", [1, np.int64(1), np.array(1), 2], ids=repr)
@pytest.mark.parametrize("name", READ)
def test_the_text_of_an_integer_is_its_value_guarded(name: str, k: Any) -> None:
    if name == "a format" and isinstance(k, np.ndarray):
        pytest.skip("NumPy formats no array")
    compiled = sg.jit(READ[name], options=NONE)
    for each in (k, k * 0 + 1, k):
        np.testing.assert_array_equal(compiled(X, each), READ[name](X, each))


@pytest.mark.parametrize("flag", [True, False])
def test_the_text_of_a_boolean(flag: bool) -> None:
    read = lambda x, b: x * TABLE.get(f"W{b}", 1.0)  # noqa: E731 - as those of the table
    np.testing.assert_array_equal(sg.jit(read, options=NONE)(X, flag), read(X, flag))


def test_the_text_of_an_array_from_outside() -> None:
    compiled = sg.jit(lambda x: x * TABLE.get(f"W{OUTSIDE[0]}", 0.0) * len(f"{OUTSIDE * 2.0}"), options=NONE)
    try:
        for first in (1, 2):
            OUTSIDE[0] = first
            np.testing.assert_array_equal(compiled(X), X * TABLE[f"W{first}"] * len(f"{OUTSIDE * 2.0}"))
    finally:
        OUTSIDE[0] = 1


def raises(x: Any, k: Any) -> Any:
    if x.ndim > 1:
        raise ValueError(f"of {k}: {x}")
    assert x.ndim == 1, f"of {k}: {x}"
    return x


SAID: dict[str, Any] = {
    "print": lambda x, k: (print(k, x, f"{k} {x}", str(x) + repr(k), f"{k}"), x)[1],
    "print of a list": lambda x, k: (print([x, k], ", ".join(f"{v}" for v in (x, k))), x)[1],
    "print of an object": lambda x, k: (print(Settings(k), Shown(x), f"{Shown(k)}"), x)[1],
    "a logger": lambda x, k: [log.warning("%s %s", x, k), log.error(f"{x} {k}"), x][2],  # noqa: G004 - as people do
    "warnings": lambda x, k: (warnings.warn(f"{x} {k}", UserWarning, stacklevel=1), x)[1],
    "a message of an error": raises,
}


@pytest.mark.filterwarnings("ignore::UserWarning", "error::symgrad.errors.SymgradWarning")
@pytest.mark.parametrize("name", SAID)
def test_what_people_are_told_is_no_reason_to_compile_again(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    compiled = sg.jit(SAID[name], options=NONE)
    for k in range(3):
        np.testing.assert_array_equal(compiled(X, k), X)
    assert len(compiled.cache_info().paths) == 1
    if name == "print":
        assert "Tracer(int64[]) Tracer(float64[3])" in capsys.readouterr().out


def test_messages_of_errors_may_have_texts() -> None:
    with pytest.raises(ValueError, match=r"^of Tracer\(int64\[\]\): Tracer\(float64\[1,3\]\)$"):
        sg.jit(raises, options=NONE)(X[None], 1)


def test_the_text_of_what_has_no_value_is_warned_of() -> None:
    compiled = sg.jit(lambda x, rate: x * TABLE.get(f"W{rate}", 2.0), options=NONE)
    match = r"the text of a traced array is 'Tracer\(float64\[\]\)': it has no value while (.|\n)*instead: print\(x\)"
    with pytest.warns(SymgradWarning, match=match):
        compiled(X, 0.5)
    for step in (lambda c, k: (c * TABLE.get(f"W{k}", 1.0), c), lambda c, k: (c if str(k) == "1" else -c, c)):
        with pytest.raises(ConcretizationError, match=r"a text \(str\(\), repr\(\), a format\) needs the value"):
            sg.jit(lambda x, step=step: sg.scan(step, x, np.arange(2))[0], options=NONE)(X)


EXTENTS: dict[str, Any] = {
    "repr": lambda x: x * len(repr(x.shape[0])), "a shape": lambda x: x if f"{x.shape}" == "(50,)" else -x,
    "str": lambda x: x * len(str(x.shape[0])),
}


@pytest.mark.parametrize("name", EXTENTS)
def test_the_text_of_an_extent_is_its_number(name: str) -> None:
    compiled = sg.jit(EXTENTS[name], options=NONE)
    for n in (3, 4, 50, 12, 50):
        np.testing.assert_array_equal(compiled(np.ones(n)), EXTENTS[name](np.ones(n)))


def test_a_shape_that_is_printed_stays_open(capsys: pytest.CaptureFixture[str]) -> None:
    compiled = sg.jit(lambda x: (print(x.shape), x)[1], options=NONE)
    for n in (3, 4, 50, 12):
        compiled(np.ones(n))
    assert compiled.cache_info().compilations == 2
    assert "(n,)" in capsys.readouterr().out
