"""Where slopes are infinite or missing: operations at the ends of their domains, and the `where` that guards them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from symgrad.ir.op import Elementwise
from symgrad.ops.declare import leaves
from symgrad.ops.elementwise.selection import where
from symgrad.transforms.derive.poles import Ranges

if TYPE_CHECKING:
    from symgrad.ir.node import Node
    from symgrad.ir.program import Program


def slopes(program: Program) -> list[str]:
    """Name each operation whose slope is infinite or missing somewhere, and what guards it there."""
    users: dict[Node, list[tuple[Node, int]]] = {}
    nodes = program.nodes()
    for node in nodes:
        for position, source in enumerate(node.inputs):
            users.setdefault(source, []).append((node, position))
    outputs = set(program.outputs)
    signs = Ranges({}, near=True)
    said: dict[str, None] = {}
    for node in nodes:
        steep = node.op.steep if isinstance(node.op, Elementwise) else None
        if steep is None or node.dtype.kind != "f":
            continue
        argument, words, at_zero = steep
        x = node.inputs[argument]
        fixed = not x.inputs and x.op is not leaves.input_
        if fixed or (at_zero and signs.of(x) <= {"+", "!"}):
            continue
        lines, open_ = guards(node, users, outputs)
        place = f"{node.op.name} at {node.line}" if node.line is not None else node.op.name
        if lines and not open_:
            said.setdefault(f"{place} has {words}, guarded by where at {' and '.join(lines)}")
        elif open_:
            said.setdefault(f"{place} has {words}, and nothing guards it")
    return list(said)


def guards(node: Node, users: dict[Node, list[tuple[Node, int]]], outputs: set[Node]) -> tuple[list[str], bool]:
    """Follow a value to the results: the lines of every `where` that chooses it, and whether a way avoids them."""
    lines: dict[str, None] = {}
    open_ = False
    seen = {node}
    stack = [node]
    while stack:
        one = stack.pop()
        open_ |= one in outputs
        for user, position in users.get(one, []):
            if user.op is where and position > 0:
                lines.setdefault(str(user.line))
            elif not user.op.nondiff and user.dtype.kind == "f" and user not in seen:
                seen.add(user)
                stack.append(user)
    return sorted(lines), open_
