"""Where every array lives: array contraction, and outputs as the memory of temporaries.

A value lives at the innermost loop around all that touches it, and drops the axes of the loops around that point: a
register, a small array on the stack, or a part of the workspace (`symgrad.loops.storage.allocate` says which part).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from symgrad.ir.index.notation import Access, Axis, How, Role, Statement
from symgrad.ir.index.shapes import size
from symgrad.loops.program import Kind, Loop, StorageMap, common, pruned, touched, walk

if TYPE_CHECKING:
    from symgrad.loops.program import Around, Array, Item, LoopProgram, Storage, Tile


# -- array contraction


def contract(program: LoopProgram) -> LoopProgram:
    """Drop, from every temporary, the dimensions that loops around all its uses have taken."""
    uses: dict[Array, list[tuple[Access, Around]]] = {}
    passed: set[Array] = set()
    previous: tuple[Item, ...] = ()
    loops: Around = ()
    for item, around in walk(program.body):
        if around is not previous:  # what stands in one block has the same around it
            previous, loops = around, tuple([one for one in around if isinstance(one, Loop)])
        accesses = touched(item)
        for access in accesses:
            uses.setdefault(access.array, []).append((access, loops))
        if isinstance(item, Statement) and item.routine is not None:
            passed |= {access.array for access in accesses}
    storage: dict[Array, Storage] = {}
    for array, found in [(array, found) for array, found in uses.items() if array.is_temporary]:
        flat = any(access.flat for access, _ in found)
        shared: Around = () if flat or array.shape == () else common([around for _, around in found])
        kept: dict[int, Tile | None] = {}
        for d, dim in enumerate(array.shape):
            if type(dim) is int and dim == 1 and not flat:
                continue
            indices = {access.indices[d] for access, _ in found if access.indices} if shared else set()
            taking = [loop for loop in shared if loop.members.issuperset(indices)]
            if all(loop.rows > 1 for loop in taking):
                kept[d] = taking[0].tile if taking else None
        storage[array] = array.stored(kept, kept != {} or array in passed)
    return program.with_storage(storage)


# -- outputs as the memory of temporaries


def elide(program: LoopProgram) -> LoopProgram:
    """Let a temporary that is copied to an output be that output: no copy is made."""
    named: dict[Array, Array] = {}
    copied: set[Statement] = set()
    for output, copies in _writes_of_outputs(program).items():
        source = copies[0].value
        if (
            isinstance(source, Access) and program.storage[source.array].kept and _fits_output(source.array, output)
            and source.array not in named
            and all(_copies(statement, source.array) for statement in copies)  # unrolled, one for each element
        ):
            named[source.array] = output
            copied.update(copies)

    return _with_outputs(program.with_body(pruned(program.body, copied)), named) if copied else program


def adopt(program: LoopProgram) -> LoopProgram:
    """Let a temporary, stored in full or for a tile, live in the memory of an output that is made of it at the end."""
    return _with_outputs(program, _last_reads(program, _writes_of_outputs(program)))


def _writes_of_outputs(program: LoopProgram) -> dict[Array, list[Statement]]:
    """Collect the statements that write each output, but for those that are copied past the caches."""
    writers: dict[Array, list[Statement]] = {}
    for statement, _ in program.paths:
        if statement.target.array.kind is Kind.OUTPUT and statement.role is not Role.SPREAD:
            writers.setdefault(statement.target.array, []).append(statement)
    return writers


def _with_outputs(program: LoopProgram, named: dict[Array, Array]) -> LoopProgram:
    """Put outputs in the place of temporaries."""
    arrays = tuple([a for a in program.arrays if a not in named])
    storage = StorageMap({a: stored for a, stored in program.storage.items() if a not in named})
    return program.with_(arrays=arrays, storage=storage).renamed(named) if named else program


def _fits_output(source: Array, output: Array) -> bool:
    if not source.is_temporary or source.dtype != output.dtype:
        return False
    return source.shape == output.shape or source.shape == (size(output.shape),)  # which is walked flat then


def _copies(statement: Statement, source: Array) -> bool:
    """Whether a statement copies elements of an array to their own places."""
    value = statement.value
    same = isinstance(value, Access) and value.array is source and value.indices == statement.target.indices
    return same and statement.how == How.SET and not value.flat  # type: ignore[union-attr]  # an access


class _End(NamedTuple):
    """Where an output is written, each element once.

    Attributes:
        order: the number of the statement.
        around: what is around it.
        place: the loops its indices are the variables of.
    """

    order: int
    around: tuple[Item, ...]
    place: tuple[Item, ...]


def _last_reads(program: LoopProgram, writers: dict[Array, list[Statement]]) -> dict[Array, Array]:
    """Find temporaries that are read for the last time, each element by itself, where an output's element is written.

    Where two could be the same output it is the one that is read first.
    """
    single: dict[Item, Array] = {  # each element is written once, by itself
        s: output for output, (s, *more) in writers.items() if not more and s.how == How.SET
        and not (s.ranges or s.prefix or s.routine is not None)
    }
    if not single:
        return {}
    ends: dict[Array, _End] = {}
    begins: dict[Item, int] = {}
    touches: list[tuple[int, Item, tuple[Item, ...]]] = []
    for order, (item, around) in enumerate(walk(program.body)):
        begins[item] = order
        touches.append((order, item, around))
        place = _at_own(item.target, around) if isinstance(item, Statement) and item in single else None
        if place is not None:
            ends[single[item]] = _End(order, around, place)
    wanted: dict[Array, tuple[_End, int, Array]] = {}
    storage = program.storage
    for output, end in ends.items():
        inside = end.around[-1].body if end.around and isinstance(end.around[-1], Loop) else ()
        read = [access.array for s in inside if isinstance(s, Statement) for access in s.reads]
        wide = {a: [d for d, dim in enumerate(a.shape) if dim != 1] for a in read if _fits_output(a, output)}
        for array in [a for a, dims in wide.items() if [*storage[a].kept] == dims != []][:1]:  # whole, or for a tile
            tiles = {tile for tile in storage[array].kept.values() if tile}  # each has elements of its own
            depth = max([k for k, one in enumerate(end.around, 1) if getattr(one, "tile", None) in tiles], default=0)
            wanted.setdefault(array, (end, begins[(*end.around, writers[output][0])[depth]], output))
    for order, item, around in touches:
        for access in touched(item):
            if access.array not in wanted:
                continue
            end, begin, _ = wanted[access.array]
            if order < begin:
                continue
            own = around == end.around and order <= end.order and _at_own(access, around) == end.place
            if not own or not isinstance(item, Statement) or item.routine is not None:
                del wanted[access.array]
    return {array: output for array, (*_, output) in wanted.items()}


def _at_own(access: Access, around: tuple[Item, ...]) -> tuple[Item, ...] | None:
    """Return which loops an access's indices are the variables of; None for any other kind of index."""
    walked = {axis: loop for loop in around if isinstance(loop, Loop) and loop.is_walked for axis in loop.members}
    found = [walked[i] for i in access.indices if isinstance(i, Axis) and i in walked]
    return None if len(found) < len(access.indices) else tuple(found)
