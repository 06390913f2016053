"""The verifier: what must hold of every program between two passes."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import SymgradError, VerifyError
from symgrad.ir.index.shapes import Shape
from symgrad.ir.node import SEVERAL, Node
from symgrad.ir.op import Elementwise, Result
from symgrad.ir.program import Program, bodies


def verify(program: Program, stage: str = "program") -> Program:
    """Check names, definitions, order, shapes and dtypes of a program and return it.

    Raises:
        VerifyError: naming the stage and the node.
    """
    seen = set(program.inputs)
    for node in program.inputs:
        if not node.is_input:
            raise VerifyError(f"{stage}: {node!r} stands among the inputs and is no input")
    names = [node.param("name") for node in program.inputs]
    if len(set(names)) < len(names):
        raise VerifyError(f"{stage}: two inputs have one name, of {', '.join(names)}")
    for node in program.inputs:
        if node.dtype is SEVERAL:
            raise VerifyError(f"{stage}: the input {node!r} has several results")
    if not program.fortran <= set(names):
        raise VerifyError(f"{stage}: {', '.join(sorted(program.fortran - set(names)))} lies by columns and is no input")
    if program.labels and len(program.labels) != len(program.outputs):
        raise VerifyError(f"{stage}: {len(program.labels)} names for {len(program.outputs)} outputs")
    known: dict[Any, tuple[Shape, np.dtype[Any]]] = {}
    for node in program.nodes():
        if node.is_input:
            if node not in seen:
                raise VerifyError(f"{stage}: {node!r} is read and is no argument of the program")
            continue
        for read in node.inputs:
            if read.op.decides:
                raise VerifyError(f"{stage}: {node!r} reads {read!r}, which is no value")
            if read not in seen:
                raise VerifyError(f"{stage}: {node!r} reads {read!r}, which is not defined before it")
        seen.add(node)
        _verify_node(node, stage, known)
    return program


def _verify_node(node: Node, stage: str, known: dict[Any, tuple[Shape, np.dtype[Any]]]) -> None:
    """Check a node's parameters, shape and dtype; what an elementwise op makes is asked once for the same inputs."""
    key = (node.op, node.params, *[(i.shape, i.dtype) for i in node.inputs]) if type(node.op) is Elementwise else None
    if known.get(key) == (node.shape, node.dtype):
        return
    if len(node.params) != len(node.op.params):
        raise VerifyError(f"{stage}: {node!r} has {len(node.params)} parameters for {node.op.params}")
    if not isinstance(node.op, Result) and any(i.dtype is SEVERAL for i in node.inputs):
        raise VerifyError(f"{stage}: {node!r} reads what has several results, and not one of them")
    try:
        shape, dtype = node.op.infer(*node.inputs, **node.named)
    except SymgradError as error:
        raise VerifyError(f"{stage}: {node!r} cannot be: {error}") from error
    if tuple(shape) != node.shape or dtype != node.dtype:
        raise VerifyError(f"{stage}: {node!r} should be {dtype}{list(shape)}")
    if key is not None:
        known[key] = node.shape, node.dtype
    for body in bodies(node):
        if body.scope is not None or body.start:
            raise VerifyError(f"{stage}: {node!r} has a body that reads what is no argument of it")
        verify(body, f"{stage}, in {node.op.name}")
