"""Nodes without inputs: arguments, constants, extents, counting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.ir.shapes import simplified
from symgrad.ir.text import constant_text
from symgrad.ops.declare.forms import INT, leaf

if TYPE_CHECKING:
    from symgrad.ir.node import Constant
    from symgrad.ir.shapes import Dim, Shape


def _input_value(**_: Any) -> Any:
    raise AssertionError("an input has no value of its own")


input_ = leaf("input", ("name", "shape", "dtype"), lambda name, shape, dtype: (shape, dtype), _input_value)

constant = leaf(
    "constant", ("value",),
    infer=lambda value: (value.array.shape, value.array.dtype),
    evaluate=lambda value: value.array,
    text=lambda node, names: constant_text(node.params[0].array),
)


def _extent_value(dim: int) -> Any:
    return np.int64(dim)


extent = leaf(
    "extent", ("dim",),
    infer=lambda dim: ((), INT),
    evaluate=_extent_value,
    text=lambda node, names: f"np.int64({node.params[0]})",
)


def constant_args(value: Constant) -> tuple[tuple[Any, ...], Shape, np.dtype[Any]]:
    """Return params, shape and dtype of a constant's node."""
    return (value,), value.array.shape, value.array.dtype


def extent_params(dim: Dim) -> tuple[Any, ...]:
    """Return the params of an extent's node."""
    return (simplified(dim),)
