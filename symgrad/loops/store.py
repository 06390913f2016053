"""`store`: where every array lives, by array contraction.

A value lives at the innermost loop around all that touches it, and drops the axes of the loops around that
point: a register, a small array on the stack, or a part of the workspace.
"""

from __future__ import annotations

from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from symgrad.ir.notation import Access, Apply, IndexValue, Lookup, Statement, parts
from symgrad.loops.program import Array, Loop, Team

if TYPE_CHECKING:
    from collections.abc import Iterable

    from symgrad.loops.program import Item


def paths(items: list[Item], parts: bool = True) -> list[tuple[Statement, tuple[Loop, ...]]]:
    """List the statements of a tree in order, each with the loops around it; those of `parts` too, or not."""
    found: list[tuple[Statement, tuple[Loop, ...]]] = []
    stack: list[tuple[Any, tuple[Loop, ...]]] = [(item, ()) for item in reversed(items)]
    while stack:
        item, around = stack.pop()
        if isinstance(item, Statement):
            found.append((item, around))
        elif parts or isinstance(item, Loop):
            around = (*around, item) if isinstance(item, Loop) else around
            stack.extend((inner, around) for inner in reversed(item.body))
    return found


def looped(items: Iterable[Item]) -> list[Item]:
    """Put loops over their axes around statements that have none yet; those of one running value share theirs."""
    made: list[Item] = []
    rows = list(items)
    place = 0
    while place < len(rows):
        first = rows[place]
        run = [first]
        if isinstance(first, Statement) and first.axes:
            run += takewhile(partial(goes_on, first), rows[place + 1 :])
        place += len(run)
        body: list[Item] = run
        for axis in reversed(first.axes if isinstance(first, Statement) else ()):
            body = [Loop(axis, frozenset([axis]), body)]
        made += body
    return made


def goes_on(first: Item, other: Item) -> bool:
    """Whether a statement without loops reads what another one of the same axes has added up so far."""
    if not isinstance(first, Statement) or not isinstance(other, Statement) or first.axes != other.axes:
        return False
    return bool((first.prefix | {first.target.array}) & other.prefix)


def touched(statement: Statement) -> list[Access]:
    """List every access of a statement, its target first."""
    return [statement.target, *statement.reads]


def teams(items: list[Item]) -> list[Team]:
    """List the teams of threads that have copies of sums, each once, by name."""
    found = {str(e): e for _, around in paths(items) for loop in around if isinstance(e := loop.extent, Team)}
    return [team for name, team in sorted(found.items()) if team.count is not None and name.isidentifier()]


def contract(items: list[Item]) -> None:
    """Drop, from every temporary, the dimensions that loops around all its uses have taken."""
    uses: dict[Array, list[tuple[Access, tuple[Loop, ...]]]] = {}
    passed: set[Array] = set()
    for statement, around in paths(items):
        passed |= {access.array for access in touched(statement)} if statement.routine is not None else set()
        for access in touched(statement):
            uses.setdefault(access.array, []).append((access, around))
    for array, found in uses.items():
        if array.kind == "temporary":
            common = common_loops([around for _, around in found])
            reads = [access for access, _ in found]
            kept = []
            for d, dim in enumerate(array.shape):
                if type(dim) is int and dim == 1 and not any(access.flat for access in reads):
                    continue
                taking = [loop for loop in common if _taken(reads, d, loop)]
                if not all(loop.tile > 1 for loop in taking):
                    continue
                kept.append(d)
                if taking:
                    array.windows[d] = taking[0]
            array.kept = tuple(kept)
            array.place = "workspace" if array.stored or array in passed else "register"


def common_loops(all_paths: list[tuple[Loop, ...]]) -> tuple[Loop, ...]:
    """Return the loops around all of some places in a tree."""
    first = all_paths[0]
    depth = len(first)
    for path in all_paths[1:]:
        depth = min(depth, len(path))
        while depth and path[depth - 1] is not first[depth - 1]:
            depth -= 1
    return first[:depth]


def _taken(found: list[Access], dimension: int, loop: Loop) -> bool:
    return all(not access.flat and access.indices[dimension] in loop.members for access in found if access.indices)


def whole(array: Array) -> bool:
    """Tell an array that is stored in full, or at least for a tile."""
    dims = tuple([d for d, dim in enumerate(array.shape) if dim != 1])
    return array.kept == dims != ()


def rename(statement: Statement, named: dict[Array, Array]) -> Statement:
    """Put other arrays in the place of some."""
    if not any(access.array in named for access in touched(statement)):
        return statement
    from dataclasses import replace

    def value(v: Any) -> Any:
        if isinstance(v, Access):
            return Access(named.get(v.array, v.array), tuple([index(i) for i in v.indices]), v.flat)
        if isinstance(v, Apply):
            return replace(v, args=tuple([value(a) for a in v.args]))
        return IndexValue(index(v.index), v.dtype) if isinstance(v, IndexValue) else v

    def index(i: Any) -> Any:
        lookups = {p: p for p in parts(i) if isinstance(p, Lookup) and p.access.array in named}
        if not lookups:
            return i
        if isinstance(i, Lookup):
            return Lookup(value(i.access), i.extent, i.check)
        from symgrad.ir.notation import as_index

        return as_index(i.subs({p.symbol: Lookup(value(p.access), p.extent, p.check).symbol for p in lookups}))

    return replace(
        statement, target=value(statement.target), value=value(statement.value),
        prefix=frozenset([named.get(a, a) for a in statement.prefix]),
    )
