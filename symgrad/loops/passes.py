"""The passes that make loops of statements, in order: each takes a loop program and returns one.

`each_pass` stops after every pass, so that the program can be printed (`symgrad.loops.text`) and run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

from symgrad.ir.index.notation import symbolic
from symgrad.ir.index.shapes import Dim, simplified
from symgrad.loops.fusion.fuse import fuse
from symgrad.loops.fusion.interchange import interchange
from symgrad.loops.fusion.merge import merge
from symgrad.loops.fusion.parallelize import parallelize
from symgrad.loops.fusion.tile import arrange, compensate, fit
from symgrad.loops.held import deep, embed, result_of
from symgrad.loops.machine import SOONER
from symgrad.loops.nest.interrupts import interrupts
from symgrad.loops.nest.layout import layout
from symgrad.loops.nest.ordered import order
from symgrad.loops.nest.outline import distribute, outline
from symgrad.loops.nest.peel import peel
from symgrad.loops.nest.vectorize import blas, fp_contract, jam, promote, vectorize
from symgrad.loops.program import LoopProgram
from symgrad.loops.statements.align import align
from symgrad.loops.statements.coalesce import coalesce
from symgrad.loops.statements.flatten import flatten
from symgrad.loops.statements.orient import orient
from symgrad.loops.statements.products import collapse, ungather
from symgrad.loops.statements.rematerialize import rematerialize
from symgrad.loops.statements.triangles import triangles
from symgrad.loops.statements.unroll import unroll
from symgrad.loops.statements.versioning import versioning
from symgrad.loops.storage.allocate import allocate, larger
from symgrad.loops.storage.contract import adopt, contract, elide
from symgrad.loops.storage.donate import donate
from symgrad.options import Options, Pass, Purpose, Target

FLATTEN = Pass(flatten, Purpose.TIME)
UNROLL = Pass(deep(unroll), Purpose.TIME)
VERSIONING = Pass(versioning, Purpose.TIME)
ALIGN = Pass(deep(align), Purpose.TIME)
PASSES: tuple[Pass[LoopProgram], ...] = (
    Pass(deep(orient), Purpose.TIME),
    Pass(deep(coalesce), Purpose.TIME),
    Pass(deep(rematerialize), Purpose.TIME),
    Pass(deep(triangles), Purpose.TIME),
    Pass(deep(fuse), Purpose.NECESSITY),
    Pass(embed, Purpose.NECESSITY),
    Pass(merge, Purpose.TIME),
    Pass(interchange, Purpose.TIME, lambda options, _: options.threads != 1 and not options.portable),
    Pass(
        parallelize, Purpose.TIME, lambda options, _: options.threads != 1 and not options.portable,
        lambda options, _: {"sooner": SOONER} if options.awake else {},
    ),
    Pass(layout, Purpose.TIME, settings=lambda options, target: {"target": target.aimed(options)}),
    Pass(compensate, Purpose.DIGITS),
    Pass(arrange, Purpose.TIME),
    Pass(ungather, Purpose.TIME, settings=lambda options, target: {"target": target.aimed(options)}),
    Pass(distribute, Purpose.COMPILE_TIME),
    Pass(contract, Purpose.TIME),
    Pass(elide, Purpose.MEMORY),
    Pass(fit, Purpose.TIME),
    Pass(adopt, Purpose.MEMORY),
    Pass(collapse, Purpose.TIME),
    Pass(blas, Purpose.TIME, lambda options, _: options.blas),
    Pass(promote, Purpose.TIME),
    Pass(peel, Purpose.TIME),
    Pass(vectorize, Purpose.TIME),
    Pass(interrupts, Purpose.NECESSITY),
    Pass(outline, Purpose.COMPILE_TIME),
    Pass(jam, Purpose.TIME),
    Pass(fp_contract, Purpose.TIME, lambda options, target: target.fma and not options.portable),
    Pass(order, Purpose.NECESSITY),
    Pass(donate, Purpose.NECESSITY),
    Pass(allocate, Purpose.NECESSITY),
)
"""What each does is said where it is defined; the order is part of the meaning."""

EVERY: tuple[Pass[Any], ...] = (FLATTEN, UNROLL, VERSIONING, ALIGN, *PASSES)
"""Those too that are run once before: `schedule` makes loops of what they give, once or twice."""


Check: TypeAlias = Callable[[LoopProgram, str], LoopProgram]
"""Looks at what a pass made, given its name, and returns it."""


def each_pass(
    program: LoopProgram, options: Options, target: Target, check: Check = lambda program, _: program,
) -> Iterator[tuple[str, LoopProgram]]:
    """Run the passes on statements, check after each, and stop there, with its name and what it made."""
    for one in PASSES:
        if one.runs(options, target):
            program = check(one.apply(program, **one.settings(options, target)), one.name)
            yield one.name, program


def schedule(lowered: LoopProgram, options: Options, target: Target) -> LoopProgram:
    """Turn statements into loops with a place for every array, for a machine.

    Where slices depend on unknown extents, what is made for large ones comes with what is made for all others. Where
    options say so, the program is verified before the first pass and after each.

    Returns:
        The loop program `render` prints.
    """
    if not options.verifies:
        return _scheduled(lowered, options, target, lambda program, _: program)
    from symgrad.loops.verify import Verifier  # SymPy comes with it

    verifier = Verifier()
    holds = any(map(result_of, lowered.body))
    known: dict[Any, Any] = {}

    def check(program: LoopProgram, stage: str) -> LoopProgram:
        verifier.check(embed(program, known) if holds else program, stage)
        return program

    loops = _scheduled(lowered, options, target, check)
    return replace(loops, undecided=tuple([f"{where}: {what}" for what, where in verifier.close().items()]))


def _scheduled(lowered: LoopProgram, options: Options, target: Target, check: Check) -> LoopProgram:
    def run(program: LoopProgram, options: Options) -> LoopProgram:
        *_, (_, loops) = each_pass(program, options, target, check)
        return loops

    def once(one: Pass[LoopProgram], program: LoopProgram) -> LoopProgram:
        return check(one.apply(program), one.name) if one.runs(options, target) else program

    lowered = once(UNROLL, once(FLATTEN, check(lowered, "lower")))
    large = lowered if any(map(result_of, lowered.body)) else once(VERSIONING, lowered)
    aligned = once(ALIGN, large)
    if large is lowered:
        return run(aligned, options)
    if aligned is large:
        return run(lowered, options)
    extents: list[Any] = [d for array in lowered.arrays for d in array.shape if type(d) is not int]
    open_ones = {symbol for d in extents for symbol in d.free_symbols}
    alone = replace(options, threads=1) if open_ones <= {*large.least} else options  # all is small: nothing to share
    loops, small = run(aligned, options), run(lowered, alone)
    sizes = [below(small.workspace, *each) for each in large.least.items()]
    return replace(
        loops, small=small, arrays=(*loops.arrays, *[a for a in small.constants if a not in loops.arrays]),
        workspace=larger([loops.workspace, *sizes]), polled=loops.polled or small.polled,
    )


def below(size: Dim, symbol: Any, least: int) -> Dim:
    """Say what a size is where an extent is less than a number, and no more than that elsewhere."""
    from sympy import Min

    found: Any = size
    return found if type(found) is int else simplified(symbolic(found).subs(symbol, Min(symbol, least - 1)))
