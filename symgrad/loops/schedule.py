"""`schedule`: statements to a loop program: fuse, contract, place, mark lanes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from symgrad.ir.notation import Apply, Statement, parts
from symgrad.ir.shapes import simplified
from symgrad.loops.adopt import adopt_outputs
from symgrad.loops.align import align
from symgrad.loops.assume import assume
from symgrad.loops.compensate import compensate
from symgrad.loops.copies import renamed_copies
from symgrad.loops.fuse import fuse
from symgrad.loops.memory import larger, plan
from symgrad.loops.peel import peel
from symgrad.loops.poll import poll, work
from symgrad.loops.products import looked_up_along
from symgrad.loops.program import Array, Loop, LoopProgram
from symgrad.loops.recompute import checks, recompute
from symgrad.loops.split import distribute, split
from symgrad.loops.store import contract, paths, touched
from symgrad.loops.threads import private, share
from symgrad.loops.tile import arrange, fit, promote, tile
from symgrad.loops.triangles import triangles
from symgrad.loops.turn import turn
from symgrad.loops.unroll import unroll
from symgrad.loops.whole import whole

if TYPE_CHECKING:
    from symgrad.ir.notation import Axis
    from symgrad.ir.shapes import Dim
    from symgrad.loops.program import Item, Lowered
    from symgrad.options import Options

FEW = 4
"""A loop of so few iterations gets no simd pragma."""

SUMS = {"+=": "+", "max=": "maximum", "min=": "minimum"}
"""What lanes accumulate apart, each by the name of its reduction."""

SHORT = 16
"""A maximum of fewer numbers is found sooner one by one than by lanes, which are combined at the end."""


def schedule(lowered: Lowered, options: Options) -> LoopProgram:
    """Turn statements into loops with a place for every array.

    Where slices depend on unknown extents, what is made for large ones comes with what is made for all others.

    Returns:
        The loop program `render` prints.
    """
    lowered = unroll(lowered)
    large = assume(lowered)
    aligned = align(lowered if large is None else large[0])
    if large is None or aligned is large[0]:
        return scheduled(aligned if large is None else lowered, options)
    extents: list[Any] = [d for array in lowered.arrays for d in array.shape if type(d) is not int]
    open_ones = {symbol for d in extents for symbol in d.free_symbols}
    alone = replace(options, threads=1) if open_ones <= {*large[1]} else options  # all is small: nothing to share
    loops, small = scheduled(aligned, options, large[1]), scheduled(lowered, alone)
    loops.small, loops.least = small, large[1]
    loops.constants += [a for a in small.constants if a not in loops.constants]
    loops.workspace = larger([loops.workspace, *[below(small.workspace, *each) for each in large[1].items()]])
    loops.threaded, loops.polled = loops.threaded or small.threaded, loops.polled or small.polled
    return loops


def below(size: Dim, symbol: Any, least: int) -> Dim:
    """Say what a size is where an extent is less than a number, and no more than that elsewhere."""
    from sympy import Min

    found: Any = size
    return found if type(found) is int else simplified(found.subs(symbol, Min(symbol, least - 1)))


def scheduled(lowered: Lowered, options: Options, least: dict[Any, int] | None = None) -> LoopProgram:
    """Turn statements in their frames into loops, for extents that are so large."""
    lowered, notes = recompute(renamed_copies(lowered))
    lowered = replace(lowered, statements=triangles(lowered.statements))
    tree = tile(fuse(lowered), lowered.arrays)
    if options.threads != 1 and not options.portable:
        tree = share(tree, lowered.arrays)
    tree = distribute(arrange(compensate(turn(tree, lowered.arrays), lowered.arrays)))
    contract(tree)
    tree = adopt_outputs(tree)
    used = {access.array for statement, _ in paths(tree) for access in touched(statement)}
    arrays = [a for a in lowered.arrays if a in used or a.kind == "input"]
    fit(tree, arrays)
    tree = whole(tree, arrays) if options.blas else tree
    tree = peel(promote(tree, arrays), least)
    mark(tree)
    polled, total = poll(tree), work(tree)
    tree = split(tree)
    private(tree)
    workspace = plan(tree, arrays)
    return LoopProgram(
        lowered.name, lowered.inputs, lowered.outputs, [a for a in arrays if a.kind == "constant"],
        [a for a in arrays if a.kind == "temporary"], tree, lowered.checks, workspace,
        threaded=any(isinstance(item, Loop) and item.threads for item in tree), notes=notes, work=total,
        polled=polled, rules=lowered.rules,
    )


def mark(items: list[Item]) -> None:
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
    if any(array in read for array in sums):
        return None
    return tuple((how, array) for array, how in sums.items())


def is_short(loop: Loop) -> bool:
    """Tell a loop of so few iterations that lanes of a maximum do not pay."""
    return type(loop.extent) is int and loop.extent < SHORT


def _own(target: Any, loop: Loop) -> bool:
    """Tell a register that belongs to one iteration: an axis of it is this loop's."""
    return any(index in loop.members for index in target.indices)


def uses(value: Any) -> list[Axis]:
    """List the axes whose values a statement's value prints."""
    found: list[Axis] = []
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, Apply):
            stack.extend(item.args)
        elif hasattr(item, "index"):
            found.extend(parts(item.index))
    return found
