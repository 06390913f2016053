"""`adopt`: temporaries live in an output's memory where they can."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from symgrad.ir.notation import Access, Axis, Statement
from symgrad.loops.program import Array, Loop
from symgrad.loops.store import paths, rename, touched, whole

if TYPE_CHECKING:
    from symgrad.loops.program import Item


def adopt_outputs(items: list[Item]) -> list[Item]:
    """Let a temporary be an output: one it is copied to or, stored in full, one that is made of it at the end."""
    writers: dict[Array, list[Statement]] = {}
    for statement, _ in paths(items):
        if statement.target.array.kind == "output":
            writers.setdefault(statement.target.array, []).append(statement)
    named: dict[Array, Array] = {}
    copied: set[int] = set()
    for output, copies in writers.items():
        source = copies[0].value
        if (
            isinstance(source, Access) and source.array.kept and _alike(source.array, output)
            and source.array not in named
            and all(_copies(statement, source.array) for statement in copies)  # unrolled, one for each element
        ):
            named[source.array] = output
            copied |= {id(s) for s in copies}
    taken = set(named.values())
    named |= {t: output for t, output in _overwritten(items, writers).items() if t not in named and output not in taken}
    for array in {access.array for statement, _ in paths(items) for access in touched(statement)}:
        array.parts = tuple([named.get(part, part) for part in array.parts])
    return _renamed(items, copied, named) if named else items


def _alike(source: Array, output: Array) -> bool:
    """Tell a temporary that could be kept where an output is."""
    return source.kind == "temporary" and source.shape == output.shape and source.dtype == output.dtype


def _copies(statement: Statement, source: Array) -> bool:
    """Tell whether a statement copies elements of an array to their own places."""
    value = statement.value
    same = isinstance(value, Access) and value.array is source and value.indices == statement.target.indices
    return same and statement.how == "=" and not value.flat  # type: ignore[union-attr]  # an access


class _End(NamedTuple):
    """Where an output is written, each element once.

    Attributes:
        top: the number of the item of the program that it is in.
        order: the number of the statement.
        around: the loops around it.
        place: the loops its indices are the variables of.
    """

    top: int
    order: int
    around: tuple[Loop, ...]
    place: tuple[int, ...]


def _overwritten(items: list[Item], writers: dict[Array, list[Statement]]) -> dict[Array, Array]:
    """Find temporaries that are read for the last time, each element by itself, where an output's element is written.

    Where two could be the same output it is the one that is read first.
    """
    tops = [(top, *found) for top, item in enumerate(items) for found in paths([item])]
    single = {id(found[0]): output for output, found in writers.items() if len(found) == 1 and _once(found[0])}
    ends: dict[Array, _End] = {}
    for order, (top, s, around) in enumerate(tops):
        place = _place(s.target, around) if id(s) in single else None
        if place is not None:
            ends[single[id(s)]] = _End(top, order, around, place)
    wanted: dict[Array, Array] = {}
    for output, end in ends.items():
        body = [s for s in end.around[-1].body if isinstance(s, Statement)] if end.around else []
        read = [a.array for s in body for a in s.reads if _alike(a.array, output) and whole(a.array)]
        wanted |= {array: output for array in read[:1] if array not in wanted}
    for order, (top, s, around) in enumerate(tops):
        for access in touched(s):
            if access.array not in wanted:
                continue
            end = ends[wanted[access.array]]
            if top < end.top:
                continue
            own = around == end.around and order <= end.order and _place(access, around) == end.place
            if not own or s.routine is not None:
                del wanted[access.array]
    return wanted


def _once(statement: Statement) -> bool:
    """Tell a statement that writes each element of its array once, by itself."""
    partly = statement.ranges or statement.prefix or statement.routine is not None or statement.target.flat
    return statement.how == "=" and not partly


def _place(access: Access, around: tuple[Loop, ...]) -> tuple[int, ...] | None:
    """Return which loops an access's indices are the variables of; None for any other kind of index."""
    walked = {axis: k for k, loop in enumerate(around) if loop.tile <= 1 for axis in loop.members}
    found = [walked.get(i, -1) if isinstance(i, Axis) else -1 for i in access.indices]
    return None if access.flat or -1 in found else tuple(found)


def _renamed(items: list[Item], dropped: set[int], named: dict[Array, Array]) -> list[Item]:
    kept: list[Item] = []
    for item in items:
        if isinstance(item, Loop):
            item.body = _renamed(item.body, dropped, named)
            if item.body:
                kept.append(item)
        elif id(item) not in dropped:
            kept.append(rename(item, named))
    return kept


