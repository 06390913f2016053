"""How large arrays may be: what NumPy has no memory for is refused, though C might never store it.

``np.repeat(x, 2**62).sum()`` is a loop without an end where nothing is stored, and `MemoryError` in NumPy.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.errors import Line, SizeError
from symgrad.ir.index import shapes
from symgrad.ir.index.shapes import Shape
from symgrad.ir.node import Node
from symgrad.ir.saved.dims import dim_to_json, evaluated

if TYPE_CHECKING:
    from symgrad.ir.program import Program

MOST = 1 << 47
"""The bytes of an address space: no process has more. What is smaller and fused may be computed, if slowly."""

MOST_SEEN = (1 << 63) - 1
"""NumPy has views of so many bytes, whose elements stand in less memory."""

LONGEST = 8
"""Bytes of the longest element."""


def refuse_huge(program: Program) -> None:
    """Refuse a program with an array of known extents that cannot be.

    Raises:
        SizeError: it has more bytes than there can be, or, of a view that no loop goes through, than can be counted.
    """
    every = {node.shape for node in program.nodes()}  # few, where nodes are many
    if all(_bytes_of_shape(shape, LONGEST) <= MOST for shape in every):
        return
    through = {*_gone_through(program)}
    for node in program.nodes():
        count = _bytes_of_shape(node.shape, node.dtype.itemsize)
        if count > MOST and (count > MOST_SEEN or (node in through and 0 not in node.shape)):
            raise too_large(node.shape, node.dtype, node.line)


def _bytes_of_shape(shape: Shape, itemsize: int) -> int:
    """Count the bytes of an array: 0 where extents are open; NumPy leaves out extents of 0 where it looks for that."""
    return prod([dim or 1 for dim in shape]) * itemsize if shapes.is_static(shape) else 0


def _gone_through(program: Program) -> list[Node]:
    """List the nodes whose elements a loop goes through: all but views that nothing but views read."""
    stored = [node for node in program.nodes() if not node.op.view or node.op.copies]
    return [*dict.fromkeys([*[read for node in stored for read in node.inputs], *program.outputs, *stored])]


def too_large(shape: Shape, dtype: np.dtype[Any], line: Line | None) -> SizeError:
    """Compose the refusal."""
    what = f"array is too big: one of shape {shapes.show(shape)} and dtype {dtype} fits into no memory"
    return SizeError(what, line=line)


class Largest:
    """The arrays of a program that are the largest for some open extents."""

    def __init__(self, program: Program) -> None:
        """Find them: of all shapes those that are not smaller than another one, whatever the extents."""
        found: dict[Any, tuple[Any, Node]] = {}
        for node in _gone_through(program):
            bytes_ = shapes.size(node.shape) * node.dtype.itemsize
            if type(bytes_) is not int and node not in program.inputs:
                found.setdefault(bytes_, (dim_to_json(bytes_), node))
        growth: dict[Any, dict[str, int]] = {}  # how large each is where one extent is large, and where all are
        for bytes_, (tree, _) in found.items():
            names = sorted([str(s) for s in bytes_.free_symbols])
            own = {name: evaluated(tree, dict.fromkeys(names, 64) | {name: 1 << 40}) for name in names}
            growth[bytes_] = own | {"": evaluated(tree, dict.fromkeys(names, 1 << 40))}
        kept: dict[Any, None] = {}
        for bytes_, own in sorted(growth.items(), key=lambda pair: -max(pair[1].values())):
            others = [growth[other] for other in kept if own.keys() == growth[other].keys()]
            if not any(all(own[name] <= other[name] for name in own) for other in others):
                kept[bytes_] = None
        self._sizes = [found[bytes_] for bytes_ in kept]

    def beyond(self, sizes: Any) -> Node | None:
        """Return a node whose array fits into no memory at some extents."""
        return next((node for tree, node in self._sizes if evaluated(tree, sizes) > MOST), None)
