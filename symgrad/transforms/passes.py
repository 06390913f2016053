"""The passes of programs, in their order: before any derivative, and after all of them."""

from __future__ import annotations

from symgrad.ir.program import Program
from symgrad.options import UNKNOWN, Options, Pass, Purpose
from symgrad.transforms.build import inline
from symgrad.transforms.control.forks import forks
from symgrad.transforms.control.roll import roll
from symgrad.transforms.control.scans import (
    accumulate,
    hoist,
    holds,
    invariants,
    join_scans,
    late_products,
    trim_scans,
    within,
)
from symgrad.transforms.control.whiles import whiles
from symgrad.transforms.factor_sums import factor_sums
from symgrad.transforms.inplace.diagonals import diagonals
from symgrad.transforms.inplace.writes import gather_writes
from symgrad.transforms.rewrite.cheaper import cheaper, signs
from symgrad.transforms.rewrite.safer import safer
from symgrad.transforms.sink import sink
from symgrad.transforms.softmax import divide_exponentials
from symgrad.transforms.spreads import spreads
from symgrad.transforms.symmetric_sums import symmetric_sums

STABILIZE: tuple[Pass[Program], ...] = (
    Pass(forks, Purpose.COMPILE_TIME, lambda o, _: o.roll > 0, lambda o, _: {"change": lambda one: stabilize(one, o)}),
    Pass(whiles, Purpose.COMPILE_TIME, lambda o, _: o.roll > 0, lambda o, _: {"change": lambda one: stabilize(one, o)}),
    Pass(gather_writes, Purpose.TIME),
    Pass(diagonals, Purpose.TIME),
    Pass(sink, Purpose.TIME),
    Pass(safer, Purpose.DIGITS),
    Pass(roll, Purpose.COMPILE_TIME, lambda o, _: o.roll > 0, lambda o, _: {"least": o.roll, "memory": o.memory}),
    Pass(invariants, Purpose.TIME),
)
"""Before any derivative, and once more before what was traced is compiled."""

INLINE = Pass(inline, Purpose.NECESSITY)
TRIM = Pass(trim_scans, Purpose.TIME)
LOOPS: tuple[Pass[Program], ...] = (
    Pass(join_scans, Purpose.TIME),
    Pass(hoist, Purpose.TIME),
    Pass(late_products, Purpose.TIME),
    Pass(accumulate, Purpose.TIME),
    TRIM,
)
"""Of programs with loops, before what is in these is optimized."""

OPTIMIZE: tuple[Pass[Program], ...] = (
    INLINE,
    Pass(cheaper, Purpose.TIME),
    Pass(factor_sums, Purpose.TIME),
    Pass(spreads, Purpose.TIME),
    Pass(symmetric_sums, Purpose.TIME),
    Pass(signs, Purpose.TIME),
    Pass(divide_exponentials, Purpose.TIME),
)
"""After all derivatives. What each does is said where it is defined; the order is part of the meaning."""


def stabilize(program: Program, options: Options) -> Program:
    """Rewrite what was traced to what is derived, and compiled: the same numbers, by operations that lose no digits."""
    return _run_passes(STABILIZE, program, options)


def optimize(program: Program, options: Options) -> Program:
    """Inline composites and simplify; equal expressions are one node and dead ones are not there.

    Loops are made one, trimmed and emptied before their bodies are simplified: what leaves them is simplified, too.
    They are trimmed once more of what simpler bodies no longer read.
    """
    program = _run_passes((INLINE,), program, options)
    if holds(program):
        program = within(_run_passes(LOOPS, program, options), lambda body: optimize(body, options))
        program = _run_passes((TRIM,), program, options)
    return _run_passes(OPTIMIZE, program, options)


def _run_passes(listed: tuple[Pass[Program], ...], program: Program, options: Options) -> Program:
    for one in listed:
        if one.runs(options, UNKNOWN):
            program = one.apply(program, **one.settings(options, UNKNOWN))
    return program
