"""`order`: loops around others whose iterations meet stay in order, whatever gcc makes of them.

gcc 12 at -O3 vectorizes a loop around another one although a row that is read was written in the iteration before:

    for (i = 0; i < 5; ++i)
        for (j = 0; j < 5; ++j) { A[(i + 2)*40 + j] += v[i*5 + j]; A[(i + 1)*40 + j] += w[i*5 + j]; }

loses sums, with or without restrict. Of 2,800 random nests 5 in 100 came out wrong: none where the inner loop is lanes
(``omp simd``), none of loops without others inside, and none with an ``asm`` statement in the outer loop, which is
what `Walk.ORDERED` prints.
"""

from __future__ import annotations

from typing import Any

from symgrad.ir.index.notation import Statement
from symgrad.loops.nest.vectorize import innermost
from symgrad.loops.program import Array, Loop, LoopProgram, Walk, rebuild


def order(program: LoopProgram) -> LoopProgram:
    """Mark loops around loops that are no lanes, where an array is written and is touched at several places."""
    inside: dict[Loop, list[Statement]] = {}
    for s, around in program.paths:
        for loop in around[-2:]:
            inside.setdefault(loop, []).append(s)

    def change(old: Loop, loop: Loop) -> Loop:
        serial = [one for one in old.body if isinstance(one, Loop) and one.walk is not Walk.LANES and innermost(one)]
        if not serial or loop.walk not in {Walk.FREE, Walk.SEQUENTIAL}:
            return loop
        written = {s.target.array for s in inside[old] if program.storage[s.target.array].is_memory}
        places: dict[Array, Any] = {}
        touches = [access for s in inside[old] for access in s.touched if access.array in written]
        meet = any(places.setdefault(access.array, access.indices) != access.indices for access in touches)
        return loop.with_(walk=Walk.ORDERED) if meet else loop

    return program.with_body(rebuild(program.body, change, Loop))
