"""Which index it was that is out of bounds: looked for when a call has failed, for its message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.ir.evaluate import computed, concrete, extents
from symgrad.ir.index.notation import IndexValue, Lookup, parts
from symgrad.ir.node import SEVERAL, Node
from symgrad.ir.op import Elementwise
from symgrad.ir.program import Program

Found = tuple[int, tuple[int, ...]]


def stray_index(program: Program, arrays: Sequence[Any], line: Any) -> tuple[Found, tuple[Node, Found] | None] | None:
    """Find an index out of bounds that is used at a line: the integer, and its place among those it stands with.

    Beside it, where it is made of an element of an argument, that argument, and the element likewise. None where it is
    not among the arguments' integers, and what is made of them and no other numbers.
    """
    dims = extents(program, arrays)
    known = {node: array for node, array in zip(program.inputs, arrays, strict=True) if array.dtype.kind in "iu"}
    given = dict(known)
    origins = {node: (node, np.arange(array.size).reshape(array.shape)) for node, array in known.items()}
    for node in program.nodes():
        for operand, extent in _lookups(node) if node.line == line else ():
            if (integers := known.get(operand)) is not None:
                most = concrete(extent, dims)
                if (stray := np.argwhere((integers < -most) | (integers >= most))).size:
                    first = tuple(stray[0])
                    found = int(integers[first]), tuple(map(int, first))
                    argument, places = origins.get(operand, (operand, None))
                    if argument is operand or places is None:
                        return found, None
                    at = np.unravel_index(places[first], given[argument].shape)
                    return found, (argument, (int(given[argument][at]), tuple(map(int, at))))
        inner = any(isinstance(param, Program) for param in node.params)
        whole = node.dtype is not SEVERAL and node.dtype.kind in "iub" and not inner
        if node not in known and whole and all(i in known for i in node.inputs):
            try:
                known[node] = computed(node, [known[i] for i in node.inputs], dims)
                of = [origins[i] for i in node.inputs if not i.is_constant and i in origins]
                if node.op.view and of:
                    origins[node] = of[0][0], np.asarray(computed(node, [of[0][1]], dims))
                elif isinstance(node.op, Elementwise) and of and len(of) == sum(not i.is_constant for i in node.inputs):
                    same = all(one is of[0][0] and np.array_equal(places, of[0][1]) for one, places in of)
                    if same and of[0][1].shape == known[node].shape:
                        origins[node] = of[0]
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
