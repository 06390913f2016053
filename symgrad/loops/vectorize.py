"""`vectorize`: which innermost loops run as lanes, and what they accumulate apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from symgrad.ir.notation import Axis, Statement, parts, substitute
from symgrad.loops.products import looked_up_along
from symgrad.loops.program import Array, Loop
from symgrad.loops.recompute import checks
from symgrad.loops.store import touched

if TYPE_CHECKING:
    from symgrad.loops.program import Item

FEW = 4
"""A loop of so few iterations gets no simd pragma."""

SUMS = {"+=": "+", "max=": "maximum", "min=": "minimum"}
"""What lanes accumulate apart, each by the name of its reduction."""

SHORT = 16
"""A maximum of fewer numbers is found sooner one by one than by lanes, which are combined at the end."""


def vectorize(items: list[Item]) -> None:
    """Mark the innermost loops whose iterations may run as lanes."""
    stack = [item for item in items if isinstance(item, Loop)]
    while stack:
        loop = stack.pop()
        if loop.product is not None:
            continue
        inner = [item for item in loop.body if isinstance(item, Loop)]
        stack.extend(inner)
        few = loop.part == "borders" or (type(loop.extent) is int and loop.extent <= FEW)
        if not inner and loop.axis.name != "t" and not few:
            sums = lanes(loop, [item for item in loop.body if isinstance(item, Statement)])
            if sums is not None:
                loop.simd, loop.sums = True, sums


def lanes(loop: Loop, body: list[Statement]) -> tuple[tuple[str, Array], ...] | None:
    """Return the scalar sums of a loop whose iterations are otherwise independent, None when they are not."""
    inside = {s.target.array for s in body if s.how == "=" and s.target.array.place == "register"}
    sums: dict[Array, str] = {}
    for statement in body:
        target = statement.target
        looked_up = any(looked_up_along(p, loop) for i in target.indices for p in parts(i))
        if statement.prefix or looked_up or statement.routine is not None:
            return None
        partly = any(axis in loop.members for axis, _, _ in statement.ranges)
        if partly or checks(statement):
            return None
        if target.array.place == "register" and not _own(target, loop):
            if target.array in inside:
                continue
            alone = statement.how not in SUMS or (statement.how != "+=" and is_short(loop))
            if alone or target.array.dtype.kind == "b":
                return None
            sums[target.array] = SUMS[statement.how]
        elif not any(axis in loop.members for i in target.indices for axis in parts(i)):
            return None
    read = {access.array for s in body for access in touched(s)[1:]}
    if any(array in read for array in sums) or meet(loop, body):
        return None
    return tuple((how, array) for array, how in sums.items())


def meet(loop: Loop, body: list[Statement]) -> bool:
    """Whether iterations may touch what others write: an array that is written at `i + 1` and, say, at `i + 2`."""
    written = {s.target.array for s in body if s.target.array.place != "register"}
    walked: dict[Array, set[Any]] = {}
    for access in [access for s in body for access in touched(s) if access.array in written]:
        own = {
            (d, index if isinstance(index, Axis) else substitute(index, dict.fromkeys(loop.members, loop.axis)))
            for d, index in enumerate(access.indices) if any(axis in loop.members for axis in parts(index))
        }
        own = {(d, loop.axis if index in loop.members else index) for d, index in own}
        walked[access.array] = walked.get(access.array, own) & own
    return not all(walked.values())


def is_short(loop: Loop) -> bool:
    """Tell a loop of so few iterations that lanes of a maximum do not pay."""
    return type(loop.extent) is int and loop.extent < SHORT


def _own(target: Any, loop: Loop) -> bool:
    """Tell a register that belongs to one iteration: an axis of it is this loop's."""
    return any(index in loop.members for index in target.indices)
