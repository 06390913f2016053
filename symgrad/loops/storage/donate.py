"""`donate`: outputs in the memory of inputs that the caller gives up.

An element may be written where it stood once nobody reads what stood there. So an output takes the memory of its input
where each element is read for the last time before it is written, or where it is: both at the place that the loops
around both are at. Else it is made in the workspace, and copied when all is done. Nothing is written before all that
may fail is behind: what a call refuses stays as it was. What shares its memory is not copied to where it is: of a table
of which some rows are written, the others are not touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from symgrad.ir.index.notation import Access, Axis, How, Statement
from symgrad.loops.program import Kind, Loop, Outlined, Walk, While, common, over_all, pruned, temporary, touched, walk

if TYPE_CHECKING:
    from symgrad.loops.program import Array, Item, LoopProgram


class _Seen(NamedTuple):
    """An access, or (None) what may fail: the number of its item, and what is around it."""

    number: int
    around: tuple[Item, ...]
    access: Access | None


def donate(program: LoopProgram) -> LoopProgram:
    """Give each donated output the memory of its input."""
    if not program.donated:
        return program
    pairs = program.donated
    given = {source: source.with_(kind=Kind.DONATED) for source, _ in pairs}
    program = program.renamed(given)
    same = {given[source]: target for source, target in pairs}
    fails: list[_Seen] = []
    touches: dict[Array, list[_Seen]] = {}
    for number, (item, around) in enumerate(walk(program.body)):
        if isinstance(item, Statement) and item.may_fail:
            fails.append(_Seen(number, around, None))
        for access in touched(item)[_copies_back(item, same) :]:  # what is written where it stands is not written
            plain = not (isinstance(item, Statement) and item.routine is not None)
            inside = (*around, item) if isinstance(item, While) else around  # a test is asked again
            touches.setdefault(access.array, []).append(_Seen(number, inside, access if plain else None))
    shares = {array for loop in program.loops for share in loop.shares for array in share}
    copied = [
        target for source, target in program.donated if target in shares or not all(
            _comes_first(read, write)
            for write in touches.get(target, ()) for read in (*touches.get(source, ()), *fails)
        )
    ]
    made = {target: temporary(f"{target.name}_new", target.shape, target) for target in copied}
    program = program.renamed(made)
    outputs = {new: old for old, new in made.items()}
    copies = [item for new, old in outputs.items() for item in over_all(old, How.SET, new, old.line)]
    there = {source: target for source, target in same.items() if target not in copied}
    back = {s: s.target.array for s, _ in program.paths if _copies_back(s, there)}
    cut = any(isinstance(item, Outlined) for item in program.body)  # a register is one function's
    memory = {new: new.whole._replace(is_memory=True) for new in outputs if cut and not new.shape}
    return program.with_storage(memory).with_(
        kept=frozenset(back.values()), body=(*pruned(program.body, back), *copies), arrays=(*program.arrays, *copied),
        outputs=tuple([outputs.get(a, a) for a in program.outputs]),
        donated=tuple([(source, outputs.get(target, target)) for source, target in program.donated]),
    )


def _copies_back(item: Item, same: dict[Array, Array]) -> bool:
    """Whether a statement sets elements of an output to those that stand there, if it has the memory of its input."""
    if not isinstance(item, Statement) or item.how is not How.SET or not isinstance(item.value, Access):
        return False
    read, target = item.value, item.target
    return same.get(read.array) is target.array and (read.indices, read.flat) == (target.indices, target.flat)


def _comes_first(read: _Seen, write: _Seen) -> bool:
    """Whether what is read, or may fail, comes before a write, in all iterations of the loops around both."""
    one, other = read.access, write.access
    if one is not None and other is not None and one.flat == other.flat:
        numbers = [(a, b) for a, b in zip(one.indices, other.indices, strict=True) if type(a) is type(b) is int]
        if any(a != b for a, b in numbers):
            return True  # other elements
    if read.number > write.number:
        return False
    shared = common([read.around, write.around])
    loops = [item for item in shared if isinstance(item, Loop)]
    if any(isinstance(item, While) for item in shared):
        return False
    if loops and (one is None or other is None or one.flat != other.flat):
        return False
    apart = [] if one is None or other is None else [
        x for x in loops if _dimensions_walked(one, read.around, x) & _dimensions_walked(other, write.around, x)
    ]
    return all(
        loop in apart or (loop.walk is Walk.THREADS and any(tiles.team is loop.axis for tiles in apart))
        for loop in loops
    )


def _dimensions_walked(access: Access, around: tuple[Item, ...], loop: Loop) -> set[int]:
    """Return the dimensions along which an access walks with a loop, or in the loop's present tile."""
    axes = {
        axis for one in around if isinstance(one, Loop) and one.is_walked
        and (one is loop or (loop.tile is not None and one.window == loop.tile)) for axis in one.members
    }
    return {d for d, index in enumerate(access.indices) if isinstance(index, Axis) and index in axes}
