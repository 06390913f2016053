"""`schedule`: statements to a loop program; the passes stand in `symgrad.loops.passes`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from symgrad.ir.shapes import simplified
from symgrad.loops.align import align
from symgrad.loops.assume import assume
from symgrad.loops.memory import larger
from symgrad.loops.passes import each
from symgrad.loops.unroll import unroll

if TYPE_CHECKING:
    from symgrad.ir.shapes import Dim
    from symgrad.loops.program import LoopProgram
    from symgrad.options import Options


def schedule(lowered: LoopProgram, options: Options) -> LoopProgram:
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
    loops, small = scheduled(replace(aligned, least=large[1]), options), scheduled(lowered, alone)
    loops.small = small
    loops.arrays += [a for a in small.constants if a not in loops.arrays]
    loops.workspace = larger([loops.workspace, *[below(small.workspace, *each) for each in large[1].items()]])
    loops.threaded, loops.polled = loops.threaded or small.threaded, loops.polled or small.polled
    return loops


def scheduled(lowered: LoopProgram, options: Options) -> LoopProgram:
    """Take statements through all passes."""
    *_, (_, loops) = each(lowered, options)
    return loops


def below(size: Dim, symbol: Any, least: int) -> Dim:
    """Say what a size is where an extent is less than a number, and no more than that elsewhere."""
    from sympy import Min

    found: Any = size
    return found if type(found) is int else simplified(found.subs(symbol, Min(symbol, least - 1)))
