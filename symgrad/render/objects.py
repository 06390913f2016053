"""The call from Python in C: arrays as CPython and NumPy hold them in memory, each checked exactly."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from symgrad.render.render import environment
from symgrad.render.source import OTHER, called_with_objects

if TYPE_CHECKING:
    from collections.abc import Sequence

    from symgrad.render.source import Source

READY = 0x101
"""NumPy's flag bits C_CONTIGUOUS and ALIGNED."""


@dataclass(frozen=True)
class ObjectView:
    """An array of the arguments or of the results: its place among them, the extents found in it, what it must be."""

    name: str
    ctype: str
    place: int
    known: int
    rank: int
    extents: tuple[str, ...]
    conditions: tuple[str, ...]


@dataclass(frozen=True)
class ManyView:
    """So many arrays that each is looked at in a loop: their ranks, and where what is known of the shapes begins."""

    ranks: tuple[int, ...]
    shapes: int
    outputs: int
    data: int


@dataclass(frozen=True)
class ObjectsView:
    """What the template prints."""

    name: str
    entry: str
    other: int
    flags: int
    count: int
    inputs: tuple[ObjectView, ...]
    outputs: tuple[ObjectView, ...]
    data: tuple[ObjectView, ...]
    last: tuple[str, ...]
    workspace: int
    many: ManyView | None


def with_call(
    source: Source, inputs: Sequence[Any], outputs: Sequence[Any], data: Sequence[Any], dims: Sequence[str],
    workspace: int, *, polled: bool,
) -> Source:
    """Let a function be called with a tuple of NumPy's arrays.

    Args:
        source: the program's C.
        inputs, outputs, data: the shapes of its arrays, in the order of its parameters.
        dims: the names of its open extents, which follow them.
        workspace: bytes of its workspace.
        polled: its last parameter is a flag.
    """
    ctypes = [word.rpartition("*")[0].strip() for word in source.prototype.partition("(")[2].split(",")]
    count, both = len(inputs), len(inputs) + len(outputs)
    more = ("(char *)workspace" if workspace else "0", *["0"] * polled)
    name, rows, first = called_with_objects(source.entry), -(-workspace // 8), 1 + count + len(data)
    if ctypes[0] == "void *const":
        last = (*[f"known[{first + 1 + k}]" for k in range(len(dims))], f"(int32_t)known[{first}]", *more)
        many = ManyView(tuple(map(len, inputs)), first + 1 + len(dims), len(outputs), len(data))
        view = ObjectsView(name, source.entry, OTHER, READY, count, (), (), (), last, rows, many)
        return replace(source, objects=environment().get_template("objects.c.jinja").render(call=view))
    taken = _views("a", inputs, ctypes)
    constants = [replace(c, known=count + c.known) for c in _views("c", data, ctypes[both:])]
    last = (*[f"n{k}" for k in range(len(dims))], f"(int32_t)known[{first}]", *more)
    view = ObjectsView(
        name, source.entry, OTHER, READY, count, _checked(taken, inputs, dims, first + 1),
        tuple(_views("r", outputs, ctypes[count:])), tuple(constants), last, rows, None,
    )
    return replace(source, objects=environment().get_template("objects.c.jinja").render(call=view))


def _views(letter: str, shapes: Sequence[Any], ctypes: list[str]) -> list[ObjectView]:
    """Name arrays, and say of which C types they are."""
    pairs = enumerate(zip(shapes, ctypes))  # noqa: B905 - other parameters follow
    return [ObjectView(f"{letter}{k}", kind, k, k + 1, len(shape), (), ()) for k, (shape, kind) in pairs]


def _checked(
    arrays: list[ObjectView], shapes: Sequence[Any], dims: Sequence[str], first: int,
) -> tuple[ObjectView, ...]:
    """Say where each open extent is found first, and what it and all others must be."""
    found: set[str] = set()
    views = []
    for array, shape in zip(arrays, shapes, strict=True):
        extents, conditions = [], []
        for axis, dim in enumerate(shape):
            have = f"{array.name}->shape[{axis}]"
            word, _, more = str(dim).partition(" + ")
            name = word if type(dim) is int else f"n{dims.index(word)}"
            if type(dim) is int or more or word in found:
                conditions.append(f"{have} != {name}{' + ' if more else ''}{more}")
            else:
                found.add(word)
                extents.append(f"{name} = {have}")
                conditions.append(f"{name} != known[{first + dims.index(word)}]")
        views.append(replace(array, extents=tuple(extents), conditions=tuple(conditions)))
    return tuple(views)
