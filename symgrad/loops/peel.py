"""`peel`: a loop whose statements run over different ranges becomes its borders, with conditions, and its interior.

The interior is what all ranges that reach from one end to the other have in common: there every statement runs or
none of it does, and the iterations are lanes again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from symgrad.ir.notation import Statement
from symgrad.ir.shapes import simplified
from symgrad.loops.program import Array, Loop
from symgrad.loops.store import paths, rename, touched

if TYPE_CHECKING:
    from symgrad.ir.notation import Axis
    from symgrad.loops.program import Item


def peel(items: list[Item], least: dict[Any, int] | None = None) -> list[Item]:
    """Cut the loops of a tree at the ends of their statements' ranges; `least` says how large extents are."""
    if not any(statement.ranges for statement, _ in paths(items)):
        return items
    return _peeled(items, touches(items), least or {})


def _peeled(items: list[Item], uses: Counter[Array], least: dict[Any, int]) -> list[Item]:
    made: list[Item] = []
    for item in items:
        if not isinstance(item, Loop):
            made.append(item)
            continue
        ends = interior(item)
        if ends is not None:
            body = inside(item.body, item.members, ends)
            inner = replace(item, body=body, part="interior", ends=ends)
            here = touches([item])
            fresh_registers(inner, {a for a, count in here.items() if uses[a] == count}, uses)
            item.part, item.ends = "borders", beyond(*ends, least)
        item.body = _peeled(item.body, uses, least)
        made.append(item)
        if ends is not None and body:
            inner.body = _peeled(inner.body, uses, least)
            made.append(inner)
    return made


def interior(loop: Loop) -> tuple[Any, Any] | None:
    """Return where the interior of a loop begins and ends, None where all of its statements run everywhere."""
    low, high = 0, loop.extent
    found = False
    if loop.tile or loop.threads:
        return None
    for statement, around in paths([loop]):
        if statement.prefix or any(one.tile for one in around):  # windows of a tile belong to one loop
            return None
        for axis, *bounds in statement.ranges:
            if axis in loop.members:
                found = True
                for bound in bounds:
                    if left(bound, loop.extent):
                        low = max(low, bound)
                    elif simplified(bound - high) < 0:
                        high = bound
    return (low, high) if found else None


def beyond(low: int, high: Any, least: dict[Any, int]) -> tuple[Any, Any]:
    """Return where borders leave off and go on: an interior that ends before it begins is no step back."""
    import sympy

    size: Any = simplified(high - low)
    sure = size >= 0 if type(size) is int else size.subs({s: s + k for s, k in least.items()}).is_nonnegative
    return low, high if sure else sympy.Max(low, high)


def left(bound: Any, extent: Any) -> bool:
    """Tell a bound that belongs to the beginning; with unknown extents that is a number."""
    return type(bound) is int and (type(extent) is not int or 2 * bound < extent)


def inside(items: list[Item], members: frozenset[Axis], ends: tuple[Any, Any]) -> list[Item]:
    """Keep what runs in the interior, where its range along the axis says nothing more."""
    made: list[Item] = []
    for item in items:
        if isinstance(item, Loop):
            body = inside(item.body, members, ends)
            if body:
                made.append(replace(item, body=body))
            continue
        here = [r for r in item.ranges if r[0] in members]
        if all(covers(first, end, ends) for _, first, end in here):
            made.append(replace(item, ranges=tuple([r for r in item.ranges if r[0] not in members])))
    return overwritten(made)


def covers(first: Any, end: Any, ends: tuple[Any, Any]) -> bool:
    """Tell a range that holds the interior; one that does not is outside of it."""
    low, high = ends
    return type(first) is int and first <= low and not (type(end) is int and end <= low) and simplified(end - high) >= 0


def overwritten(items: list[Item]) -> list[Item]:
    """Leave out a value that the next statement of the same place replaces, unread."""
    made: list[Item] = []
    replaced: list[Any] = []
    for item in reversed(items):
        if isinstance(item, Statement):
            place = (item.target.array, item.target.indices, item.ranges)
            if item.how == "=" and not item.ranges and place in replaced:
                continue
            read = {access.array for access in touched(item)[1:]}
            replaced = [p for p in replaced if p[0] not in read]
            if item.how == "=" and not item.ranges:
                replaced.append(place)
            else:
                replaced = [p for p in replaced if p[0] is not item.target.array]
        else:
            replaced = []
        made.append(item)
    return made[::-1]


def fresh_registers(loop: Loop, own: set[Array], uses: Counter[Array]) -> None:
    """Give a copied loop registers in the place of the original's own ones."""
    inside = touches([loop])
    named = {
        array: replace(array, windows=dict(array.windows)) for array in inside
        if array in own and array.place == "register" and array.kind == "temporary"
    }
    uses.update({fresh: inside[array] for array, fresh in named.items()})
    stack = [loop]
    while stack:
        one = stack.pop()
        one.body = [item if isinstance(item, Loop) else rename(item, named) for item in one.body]
        stack.extend(item for item in one.body if isinstance(item, Loop))


def touches(items: list[Item]) -> Counter[Array]:
    """Count the accesses of each array."""
    return Counter([access.array for statement, _ in paths(items) for access in touched(statement)])
