"""Sums of what was read of one array in pieces: n reads of elements of a vector cost n, not n squared.

Cotangents and the conditions that guard them are joined in the same way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ir import shapes
from symgrad.ir.shapes import is_static
from symgrad.ops.arrays.indexing import first_axis, scatter_add
from symgrad.ops.arrays.views import place
from symgrad.trace.tracer import Tracer


def joined(values: list[Any]) -> list[Any]:
    """Join the pieces among values that are to be added."""
    return placed(scattered(values))


def _is_slot(value: Any) -> bool:
    """Tell one slice in zeros; what was joined already stays as it is, or a long chain would carry all of it along."""
    return value.node.op is place and len(value.node.inputs) == 1


def placed(values: list[Any]) -> list[Any]:
    """Join what was placed into zeros to one array of zeros."""
    slots = [v for v in values if _is_slot(v)]
    if len(slots) < 2:
        return values
    pieces = [Tracer(piece, v.owner) for v in slots for piece in v.node.inputs]
    indices = tuple([index for v in slots for index in v.node.param("indices")])
    whole = place(*pieces, indices=indices, shape=slots[0].node.param("shape"))
    return [*[v for v in values if not _is_slot(v)], whole]


def scattered(values: list[Any]) -> list[Any]:
    """Join what was added into zeros at a few traced places."""
    groups: dict[Any, list[Any]] = {}
    for k, value in enumerate(values):
        node = value.node
        few = node.op is scatter_add and is_static(node.shape) and is_static(node.inputs[0].shape)
        few = few and 2 * shapes.size(node.inputs[0].shape) <= shapes.size(node.shape)
        few = few and len({index.shape for index in node.inputs[1:]}) == 1
        kind = (node.params, *[i.shape for i in node.inputs], *[i.dtype for i in node.inputs]) if few else k
        groups.setdefault(kind, []).append(value)
    return [_together(group) if len(group) > 1 else group[0] for group in groups.values()]


def _together(values: list[Any]) -> Any:
    """Add at all places at once, in order."""
    axes, shape = values[0].node.params
    columns = list(zip(*[[Tracer(i, v.owner) for i in v.node.inputs] for v in values], strict=True))
    whole = np.stack(columns[0], axis=first_axis(axes))
    return scatter_add(whole, *[np.stack(column) for column in columns[1:]], axes=axes, shape=shape)
