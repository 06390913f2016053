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
from symgrad.loops.verify import Verifier

if TYPE_CHECKING:
    from collections.abc import Callable

    from symgrad.ir.shapes import Dim
    from symgrad.loops.program import LoopProgram
    from symgrad.options import Options

    Check = Callable[[LoopProgram, str], LoopProgram]


def schedule(lowered: LoopProgram, options: Options) -> LoopProgram:
    """Turn statements into loops with a place for every array.

    Where slices depend on unknown extents, what is made for large ones comes with what is made for all others. Where
    options say so, the program is verified before the first pass and after each.

    Returns:
        The loop program `render` prints.
    """
    verifier = Verifier() if options.verifies else None
    check = _unchecked if verifier is None else verifier.check
    lowered = check(unroll(check(lowered, "lower")), "unroll")
    large = assume(lowered)
    assumed = lowered if large is None else check(replace(large[0], least=large[1]), "assume")
    aligned = check(align(assumed), "align")
    if large is None or aligned is assumed:
        loops = scheduled(aligned if large is None else lowered, options, check)
    else:
        loops = _both(aligned, lowered, options, check)
    return loops if verifier is None else replace(loops, undecided=tuple(
        f"{where}: {what}" for what, where in verifier.undecided.items()
    ))


def _unchecked(program: LoopProgram, _: str) -> LoopProgram:
    return program


def _both(large: LoopProgram, lowered: LoopProgram, options: Options, check: Check) -> LoopProgram:
    """Schedule a program for large extents, and for all others."""
    extents: list[Any] = [d for array in lowered.arrays for d in array.shape if type(d) is not int]
    open_ones = {symbol for d in extents for symbol in d.free_symbols}
    alone = replace(options, threads=1) if open_ones <= {*large.least} else options  # all is small: nothing to share
    loops, small = scheduled(large, options, check), scheduled(lowered, alone, check)
    loops.small = small
    loops.arrays += [a for a in small.constants if a not in loops.arrays]
    loops.workspace = larger([loops.workspace, *[below(small.workspace, *each) for each in large.least.items()]])
    loops.threaded, loops.polled = loops.threaded or small.threaded, loops.polled or small.polled
    return loops


def scheduled(lowered: LoopProgram, options: Options, check: Check) -> LoopProgram:
    """Take statements through all passes."""
    *_, (_, loops) = each(lowered, options, check)
    return loops


def below(size: Dim, symbol: Any, least: int) -> Dim:
    """Say what a size is where an extent is less than a number, and no more than that elsewhere."""
    from sympy import Min

    found: Any = size
    return found if type(found) is int else simplified(found.subs(symbol, Min(symbol, least - 1)))
