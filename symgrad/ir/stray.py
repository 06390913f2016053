"""Which index it was that is out of bounds: looked for when a call has failed, for its message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.ir.evaluate import computed, concrete, extents
from symgrad.ir.node import SEVERAL, Node
from symgrad.ir.notation import IndexValue, Lookup, parts
from symgrad.ir.program import Program


def stray_index(program: Program, arrays: Sequence[Any], line: Any) -> tuple[int, tuple[int, ...]] | None:
    """Find an index out of bounds that is used at a line: the integer, and its place among those it stands with.

    None where it is not among the arguments' integers, and what is made of them and no other numbers.
    """
    dims = extents(program, arrays)
    known = {node: array for node, array in zip(program.inputs, arrays, strict=True) if array.dtype.kind in "iu"}
    for node in program.nodes():
        for operand, extent in _lookups(node) if node.line == line else ():
            if (integers := known.get(operand)) is not None:
                most = concrete(extent, dims)
                if (stray := np.argwhere((integers < -most) | (integers >= most))).size:
                    return int(integers[tuple(stray[0])]), tuple(map(int, stray[0]))
        inner = any(isinstance(param, Program) for param in node.params)
        whole = node.dtype is not SEVERAL and node.dtype.kind in "iub" and not inner
        if node not in known and whole and all(i in known for i in node.inputs):
            try:
                known[node] = computed(node, [known[i] for i in node.inputs], dims)
            except IndexError:
                continue
    return None


def _lookups(node: Node) -> list[tuple[Node, Any]]:
    """List the operands that are indices in a node's body, each with the extent that it indexes."""
    body = getattr(node.op, "body", None)
    found: list[tuple[Node, Any]] = []
    for s in body(node).statements if body else ():
        indices = [i for access in s.touched for i in access.indices]
        indices += [s.value.index] if isinstance(s.value, IndexValue) else []
        read = [(part.access.array, part.extent) for i in indices for part in parts(i) if isinstance(part, Lookup)]
        found += [(node.inputs[k], extent) for k, extent in read if 0 <= k < len(node.inputs)]
    return found
