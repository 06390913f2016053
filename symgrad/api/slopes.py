"""Where slopes are infinite or missing: operations at the ends of their domains, and the `where` that guards them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from symgrad.ir.op import Elementwise

if TYPE_CHECKING:
    from symgrad.ir.node import Node
    from symgrad.ir.program import Program

DEPTH = 12
"""So far up a value's sign is looked for."""

POSITIVE, NONNEGATIVE, ANY = 2, 1, 0

_POSITIVE = frozenset({"exp", "exp2", "cosh", "expit", "extent"})
_NONNEGATIVE = frozenset({"square", "absolute", "fabs", "hypot", "relu"})
_KEPT = frozenset({"sum", "sqrt", "cbrt", "astype", "broadcast_to", "max", "min", "mean", "prod", "positive"})


def slopes(program: Program) -> list[str]:
    """Name each operation whose slope is infinite or missing somewhere, and what guards it there."""
    users: dict[Node, list[tuple[Node, int]]] = {}
    nodes = program.nodes()
    for node in nodes:
        for position, source in enumerate(node.inputs):
            users.setdefault(source, []).append((node, position))
    outputs = set(program.outputs)
    said: dict[str, None] = {}
    for node in nodes:
        steep = node.op.steep if isinstance(node.op, Elementwise) else None
        if steep is None or node.dtype.kind != "f":
            continue
        argument, words, at_zero = steep
        if not _varies(node.inputs[argument]) or (at_zero and sign(node.inputs[argument]) == POSITIVE):
            continue
        lines, open_ = guards(node, users, outputs)
        where = f"{node.op.name} at {node.line}" if node.line is not None else node.op.name
        if lines and not open_:
            said.setdefault(f"{where} has {words}, guarded by where at {' and '.join(lines)}")
        elif open_:
            said.setdefault(f"{where} has {words}, and nothing guards it")
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
            if user.op.name == "where" and position > 0:
                lines.setdefault(str(user.line))
            elif not user.op.nondiff and user.dtype.kind == "f" and user not in seen:
                seen.add(user)
                stack.append(user)
    return sorted(lines), open_


def _varies(node: Node) -> bool:
    return node.op.name not in {"constant", "extent"}


def sign(node: Node, depth: int = DEPTH) -> int:
    """Tell a value that is certain to be positive, or not negative, from how it is made."""
    name, inputs = node.op.name, node.inputs
    if name == "constant":
        data: Any = node.params[0].array
        return POSITIVE if (data > 0).all() else NONNEGATIVE if (data >= 0).all() else ANY
    if name in _POSITIVE or depth == 0 or not inputs:
        return POSITIVE if name in _POSITIVE else ANY
    if name in _NONNEGATIVE or (name == "multiply" and inputs[0] is inputs[1]):
        return NONNEGATIVE
    kept = name in _KEPT or getattr(node.op, "view", False)
    return sign(inputs[0], depth - 1) if kept else _joined(name, [sign(i, depth - 1) for i in inputs[-2:]])


def _joined(name: str, signs: list[int]) -> int:
    """Tell the sign of a value of two others."""
    if name == "maximum" or (name == "add" and min(signs) >= NONNEGATIVE):
        return max(signs)
    return min(signs) if name in {"add", "multiply", "divide", "minimum", "where"} else ANY
