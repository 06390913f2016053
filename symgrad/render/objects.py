"""The call from Python in C: arrays as CPython and NumPy hold them in memory, each compared with what it must be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from symgrad.render.render import environment
from symgrad.render.source import KNOWN, OTHER, called_with_objects

if TYPE_CHECKING:
    from collections.abc import Sequence

    from symgrad.render.source import Source

READY = 0x101
"""NumPy's flag bits C_CONTIGUOUS and ALIGNED."""


@dataclass(frozen=True)
class ObjectsView:
    """What the template prints: numbers of arrays, the inputs' ranks, and where dtypes, constants, extents are known.

    Of many arrays the addresses are `gathered`, in memory that the caller gives.
    """

    name: str
    entry: str
    other: int
    flags: int
    inputs: int
    outputs: int
    count: int
    ranks: tuple[int, ...]
    dtypes: int
    data: int
    extents: int
    workspace: int
    gathered: bool
    arguments: tuple[str, ...]


def with_call(
    source: Source, ranks: Sequence[int], outputs: int, data: int, dims: int, workspace: int, *, polled: bool,
) -> Source:
    """Let a function be called with a tuple of NumPy's arrays, compared with the words of `build.call.Plan`.

    Args:
        source: the program's C.
        ranks: of its inputs.
        outputs: how many they are.
        data: how many constants it is passed.
        dims: how many open extents follow them.
        workspace: bytes of its workspace.
        polled: its last parameter is a flag.
    """
    gathered = source.prototype.partition("(")[2].startswith("void *const")
    inputs, dtypes = len(ranks), KNOWN + dims
    count = inputs + outputs + data
    arguments = (
        *(["arrays"] if gathered else [f"arrays[{k}]" for k in range(count)]),
        *[f"known[{KNOWN + k}]" for k in range(dims)], f"(int32_t)known[{KNOWN - 1}]",
        "(char *)workspace" if workspace else "0", *["0"] * polled,
    )
    view = ObjectsView(
        called_with_objects(source.entry), source.entry, OTHER, READY, inputs, outputs, count, tuple(ranks),
        dtypes, dtypes + inputs, dtypes + inputs + data, -(-workspace // 8), gathered, arguments,
    )
    return replace(source, objects=environment().get_template("objects.c.jinja").render(call=view))
