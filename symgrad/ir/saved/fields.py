"""The fields of a saved program: what each may be, with the place of one that is wrong in the error."""

from __future__ import annotations

import base64
import binascii
import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.errors import Line, SerializationError
from symgrad.ir import shapes
from symgrad.ir.names import identifier
from symgrad.ir.node import Constant
from symgrad.ir.saved.dims import dim_from_json

if TYPE_CHECKING:
    from collections.abc import Callable

NODES, RANK, WORDS, ELEMENTS = 1 << 21, 64, 4096, 1 << 60
"""Bounds of what is read: nodes, axes, the length of a string, the elements of an array."""

DTYPES = ("bool", *[f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)], "float32", "float64")


def wrong(path: str, what: str) -> SerializationError:
    """Make the error: the place and what is wrong there."""
    return SerializationError(f"{path}: {what}")


def record(value: Any, path: str) -> dict[str, Any]:
    """Read an object."""
    if not isinstance(value, dict):
        raise wrong(path, "an object is expected")
    return value


def only(given: dict[str, Any], path: str, *names: str) -> None:
    """Refuse fields that are not known."""
    for name in given:
        if name not in names:
            raise wrong(f"{path}.{name:.60}", f"not expected here (known: {', '.join(names) or 'none'})")


def items(data: dict[str, Any], name: str, most: int, path: str = "") -> list[Any]:
    """Read a list, empty where there is none."""
    value = data.get(name, [])
    if not isinstance(value, list) or len(value) > most:
        raise wrong(f"{path}.{name}" if path else name, f"a list of at most {most} is expected")
    return value


def position(value: Any, path: str, count: int) -> int:
    """Read a number of something that stands before."""
    if type(value) is not int or not 0 <= value < count:
        raise wrong(path, f"{value!r:.40} is no place among the {count} before it")
    return value


def word(value: Any, path: str) -> str:
    """Read a line of printable text."""
    if not isinstance(value, str) or len(value) > WORDS or not value.isprintable():
        raise wrong(path, "a line of printable text is expected")
    return value


def name(value: Any, path: str) -> str:
    """Read a name: what the filter for names would leave as it is."""
    text = word(value, path)
    if identifier(text) != text:
        raise wrong(path, f"{text!r:.60} is no name that symgrad gives")
    return text


def line(value: Any, path: str) -> Line:
    """Read a line of the user's code."""
    if not isinstance(value, list) or len(value) != 3 or type(value[1]) is not int:  # file, number, text
        raise wrong(path, "[file, number, text] is expected")
    return Line(word(value[0], path), value[1], word(value[2], path))


# -- parameters: what each name stands for


def integer(value: Any, path: str) -> int:
    """Read an integer."""
    if type(value) is not int or abs(value) >= ELEMENTS:
        raise wrong(path, f"an integer is expected, not {value!r:.40}")
    return value


def axis(value: Any, path: str) -> int:
    """Read an axis, counted from the front."""
    if not 0 <= integer(value, path) < RANK:
        raise wrong(path, f"{value} is no axis")
    return int(value)


def boolean(value: Any, path: str) -> bool:
    """Read true or false."""
    if type(value) is not bool:
        raise wrong(path, f"true or false is expected, not {value!r:.40}")
    return value


def dim(value: Any, path: str) -> Any:
    """Read an extent or an index of extents."""
    try:
        return dim_from_json(value)
    except (ValueError, TypeError, ZeroDivisionError, OverflowError) as error:
        raise wrong(path, str(error)) from None


def extent(value: Any, path: str) -> Any:
    """Read an extent."""
    found = dim(value, path)
    if type(found) is int and not 0 <= found < ELEMENTS:
        raise wrong(path, f"{found} is no extent")
    return found


def dtype(value: Any, path: str) -> np.dtype[Any]:
    """Read a dtype."""
    if not isinstance(value, str) or value not in DTYPES:
        raise wrong(path, f"no dtype {value!r:.40}; one of {', '.join(DTYPES)}")
    return np.dtype(value)


def _tuple(kind: Callable[[Any, str], Any], most: int = RANK) -> Callable[[Any, str], tuple[Any, ...]]:
    def read(value: Any, path: str) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) > most:
            raise wrong(path, f"a list of at most {most} is expected")
        return tuple([kind(item, f"{path}[{k}]") for k, item in enumerate(value)])

    return read


def axes(value: Any, path: str) -> tuple[int, ...]:
    """Read axes, each once."""
    found = _tuple(axis)(value, path)
    if len(set(found)) != len(found):
        raise wrong(path, "an axis is named twice")
    return found


def interval(value: Any, path: str) -> tuple[Any, ...]:
    """Read one axis of a slice: ``[start, count, step]`` or ``[position]``."""
    entry = _tuple(dim, 3)(value, path)
    if len(entry) == 3:  # start, count, step
        extent(value[1], f"{path}[1]")
        step(value[2], f"{path}[2]")
    elif len(entry) != 1:
        raise wrong(path, "[start, count, step] or [position] is expected")
    return entry


def step(value: Any, path: str) -> int:
    """Read a step."""
    if integer(value, path) == 0:
        raise wrong(path, "a step of 0")
    return int(value)


_CONTRACTION = re.compile(r"[A-Za-z]*(,[A-Za-z]*)*->[A-Za-z]*")


def subscripts(value: Any, path: str) -> str:
    """Read the labels of a contraction."""
    if not isinstance(value, str) or len(value) > WORDS or not _CONTRACTION.fullmatch(value):
        raise wrong(path, f"{value!r:.60} is no contraction, such as 'ij,jk->ik'")
    terms, result = value.split("->")
    if any(len(set(labels)) != len(labels) for labels in [*terms.split(","), result]):
        raise wrong(path, f"a label stands twice in one term of {value!r:.60}")
    return value


def constant(value: Any, path: str) -> Constant:
    """Read an array."""
    data = record(value, path)
    only(data, path, "dtype", "shape", "data")
    kind = dtype(data.get("dtype"), f"{path}.dtype")
    shape = _tuple(integer)(data.get("shape"), f"{path}.shape")
    text = data.get("data")
    try:
        content = base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        raise wrong(f"{path}.data", "it is not base64") from None
    if min(shape, default=0) < 0 or len(content) != math.prod(shape) * kind.itemsize:
        raise wrong(f"{path}.data", f"{len(content)} bytes for {kind}{shapes.show(shape)}")
    if kind.kind == "b" and content.strip(b"\0\1"):
        raise wrong(f"{path}.data", "a boolean is neither 0 nor 1")
    return Constant(np.frombuffer(content, kind.newbyteorder("<")).astype(kind).reshape(shape))


def inner(value: Any, path: str) -> tuple[Any, ...]:
    """Read the parameters of an op inside of another one: as many as it has, each read as its own kind says."""
    if not isinstance(value, list):
        raise wrong(path, "a list of parameters is expected")
    return tuple(value)


KINDS: dict[str, Callable[[Any, str], Any]] = {
    "name": name, "shape": _tuple(extent), "dtype": dtype, "value": constant, "dim": dim, "axes": axes,
    "axis": axis, "offset": integer, "index": _tuple(interval), "indices": _tuple(_tuple(interval), NODES),
    "subscripts": subscripts, "extent": extent, "count": extent, "step": step, "upper": boolean, "k": integer,
    "exponent": integer, "order": integer, "unique": boolean,
    "of": word, "wrt": integer, "mapped": _tuple(boolean, NODES), "params": inner,
    "lower": boolean, "unit": boolean, "trans": boolean, "checked": boolean,
}
"""What an op's parameter of each name may be."""
