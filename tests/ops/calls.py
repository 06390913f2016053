"""The tables of calls in `calls.txt` and `refused.txt`."""

from __future__ import annotations

import re
import warnings
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.special

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(__file__).parent
SHAPES = {"V": (4,), "M": (3, 4), "T": (2, 3, 4), "S": (3, 3), "()": ()}
VERSION = tuple([int(part) for part in np.__version__.split(".")[:2]])


class Call(NamedTuple):
    """A call ``call(*arrays)`` of a function: its text, its arrays' shapes, the dtypes it is tried with."""

    name: str
    text: str
    call: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    kinds: str
    known: bool


def with_nan(a: Any) -> Any:
    """Put NaN where an array is small."""
    return np.where(a < -1, np.nan, a)


def read(file: str) -> list[Call]:
    """Read a table."""
    found: list[Call] = []
    name, kinds, runs = "", "d", True
    for line in (FOLDER / file).read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            name, *marks = line.strip("[]").split()
            needs = [tuple(map(int, mark[7:].split("."))) for mark in marks if mark.startswith("numpy>=")]
            kinds = next((mark for mark in marks if not mark.startswith("numpy")), "dfi")
            runs = all(need <= VERSION for need in needs)
        elif runs and line and not line.startswith("#"):
            shapes, text = line.removeprefix("! ").split(" : ", 1)
            found.append(Call(name, text, function(text), _shapes(shapes), kinds, line.startswith("! ")))
    return found


def _shapes(text: str) -> tuple[tuple[int, ...], ...]:
    return tuple([SHAPES[word] if word in SHAPES else tuple(map(int, word.split("x"))) for word in text.split()])


def function(text: str) -> Callable[..., Any]:
    """Make a function of a call's text."""
    names = [name for name in "abc" if re.search(rf"\b{name}\b", text)]
    known = {"np": np, "scipy": scipy, "with_nan": with_nan, "deque": deque}
    made: Callable[..., Any] = eval(f"lambda {', '.join(names)}: {text}", known)  # noqa: S307 - the table is this project's
    return made


def quiet(call: Any, *arrays: Any) -> Any:
    """Call NumPy without its warnings."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*arrays)
