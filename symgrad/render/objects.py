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
    """An array of the arguments or of the results: its place among them, and what it must be."""

    name: str
    ctype: str
    place: int
    known: int
    rank: int
    conditions: tuple[str, ...]


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
    workspace: int


def with_call(
    source: Source, inputs: Sequence[Any], outputs: Sequence[Any], data: Sequence[Any], workspace: int,
) -> Source:
    """Let a function of one thread be called with a tuple of NumPy's arrays.

    Args:
        source: the program's C.
        inputs, outputs, data: the shapes of its arrays, in the order of its parameters.
        workspace: bytes of its workspace.
    """
    ctypes = [word.rpartition("*")[0].strip() for word in source.prototype.partition("(")[2].split(",")]

    def views(letter: str, shapes: Sequence[Any], kinds: list[str]) -> tuple[ObjectView, ...]:
        return tuple([
            ObjectView(
                f"{letter}{k}", kind, k, k + 1, len(shape),
                tuple([f"{letter}{k}->shape[{d}] != {dim}" for d, dim in enumerate(shape)]),
            )
            for k, (shape, kind) in enumerate(zip(shapes, kinds, strict=True))
        ])

    count, both = len(inputs), len(inputs) + len(outputs)
    constants = views("c", data, ctypes[both : both + len(data)])
    view = ObjectsView(
        called_with_objects(source.entry), source.entry, OTHER, READY, count, views("a", inputs, ctypes[:count]),
        views("r", outputs, ctypes[count:both]), tuple([replace(c, known=count + c.known) for c in constants]),
        -(-workspace // 8),
    )
    return replace(source, objects=environment().get_template("objects.c.jinja").render(call=view))
