"""`inverses`: an inverse that nothing shares is a quotient again: ``a * (1 / b)`` is ``a / b``, in one rounding.

Rules of quotients and roots multiply by inverses, so that all that is divided by one value shares one division.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from symgrad.ir.program import copied, rebuild
from symgrad.transforms.build import make

if TYPE_CHECKING:
    from symgrad.ir.node import Graph, Node
    from symgrad.ir.program import Program


def inverses(program: Program) -> Program:
    """Divide where an inverse would be made for one product of its own shape.

    >>> import numpy as np, symgrad as sg
    >>> text = sg.grad(np.sqrt).lower(2.0).as_text("optimized")
    >>> "np.reciprocal" in text, " / " in text
    (False, True)
    """
    nodes = program.nodes()
    if not any(node.op.name == "reciprocal" for node in nodes):
        return program
    uses = Counter([i for node in nodes for i in node.inputs] + [*program.outputs])

    def rewrite(graph: Graph, old: Node, inputs: tuple[Node, ...]) -> Node:
        for k in (0, 1) if old.op.name == "multiply" and old.dtype.kind == "f" else ():
            alone = old.inputs[k].op.name == "reciprocal" and uses[old.inputs[k]] == 1
            if alone and old.inputs[k].shape == old.shape and inputs[k].op.name == "reciprocal":
                return make(graph, "divide", inputs[1 - k], inputs[k].inputs[0])
        return copied(graph, old, inputs)

    return rebuild(program, rewrite)
