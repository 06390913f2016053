"""Nodes without inputs: arguments, constants, extents, counting."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import Line
from symgrad.ir.index.shapes import Shape
from symgrad.ir.node import Constant, Graph, Node
from symgrad.ir.text import constant_text
from symgrad.ops.declare.forms import INT, leaf

input_ = leaf("input", ("name", "shape", "dtype"), lambda name, shape, dtype: (shape, dtype), None)

constant = leaf(
    "constant", ("value",),
    infer=lambda value: (value.array.shape, value.array.dtype),
    evaluate=lambda value: value.array,
    text=lambda node, names: constant_text(node.params[0].array),
)


extent = leaf(
    "extent", ("dim",),
    infer=lambda dim: ((), INT),
    evaluate=lambda dim: np.int64(dim),  # noqa: PLW0108 - its argument has another name
    text=lambda node, names: f"np.int64({node.params[0]})",
)


def make_input(graph: Graph, name: str, shape: Shape, dtype: np.dtype[Any], line: Line | None = None) -> Node:
    """Make an input of a program."""
    return graph.node(input_, (), (name, shape, dtype), shape, dtype, line)


def make_constant(
    graph: Graph, array: np.ndarray[Any, Any], line: Line | None = None, name: str = "", path: str = "",
) -> Node:
    """Make a constant of a program; the array is copied."""
    return graph.node(constant, (), (Constant(array, name, path),), array.shape, array.dtype, line)
