"""C functions of the user's in one program: two different ones cannot have one name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from symgrad.errors import ArgumentError
from symgrad.ir.op import Elementwise

if TYPE_CHECKING:
    from symgrad.ir.program import Program

_DEFINED = re.compile(r"\b\w+[\s*]+([A-Za-z_]\w*)\s*\([^(){};]*\)\s*\{")


def refuse_two_of_a_name(program: Program) -> None:
    """Look at the texts of `extern` that a program calls.

    Raises:
        ArgumentError: two different texts define a function of one name.
    """
    found: dict[str, str] = {}
    for node in program.nodes():
        if not isinstance(node.op, Elementwise) or not node.op.source:
            continue
        for name in set(_DEFINED.findall(node.op.source)) - {"if"}:  # as in `else if (...) {`
            if found.setdefault(name, node.op.source) != node.op.source:
                raise ArgumentError(
                    f"two different C texts define {name}(), and {program.name}() calls both", line=node.line,
                    instead="another name in one of them, in its text and for sg.extern",
                )
