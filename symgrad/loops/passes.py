"""The passes that make loops of statements, in order: each takes a loop program and returns one.

A pass works on the tree it is given and leaves nothing of the old one; `each` stops after every pass, so that it can
be printed (`symgrad.loops.text`) and run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from symgrad.loops.adopt import adopt_outputs
from symgrad.loops.compensate import compensate
from symgrad.loops.copies import renamed_copies
from symgrad.loops.fuse import fuse
from symgrad.loops.memory import plan
from symgrad.loops.peel import peel
from symgrad.loops.poll import poll, work
from symgrad.loops.program import Loop, LoopProgram
from symgrad.loops.recompute import recompute
from symgrad.loops.split import distribute, split
from symgrad.loops.store import contract, paths, touched
from symgrad.loops.threads import private, share
from symgrad.loops.tile import arrange, fit, promote, tile
from symgrad.loops.triangles import triangles
from symgrad.loops.turn import turn
from symgrad.loops.vectorize import vectorize
from symgrad.loops.whole import whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from symgrad.options import Options

Step: TypeAlias = "Callable[[LoopProgram, Options], LoopProgram]"


def _computed_again(program: LoopProgram, _: Options) -> LoopProgram:
    program, notes = recompute(program)
    return replace(program, notes=notes)


def _shared(program: LoopProgram, options: Options) -> LoopProgram:
    serial = options.threads == 1 or options.portable
    return program if serial else replace(program, body=share(program.body, program.arrays))


def _contracted(program: LoopProgram, _: Options) -> LoopProgram:
    contract(program.body)
    return program


def _adopted(program: LoopProgram, _: Options) -> LoopProgram:
    body = adopt_outputs(program.body)
    used = {access.array for statement, _ in paths(body) for access in touched(statement)}
    return replace(program, body=body, arrays=[a for a in program.arrays if a in used or a.kind == "input"])


def _fitted(program: LoopProgram, _: Options) -> LoopProgram:
    fit(program.body, program.arrays)
    return program


def _for_a_blas(program: LoopProgram, options: Options) -> LoopProgram:
    return replace(program, body=whole(program.body, program.arrays)) if options.blas else program


def _peeled(program: LoopProgram, _: Options) -> LoopProgram:
    body = peel(program.body, program.least)
    here = dict.fromkeys([access.array for statement, _ in paths(body) for access in touched(statement)])
    return replace(program, body=body, arrays=[*dict.fromkeys([*program.arrays, *here])])


def _in_lanes(program: LoopProgram, _: Options) -> LoopProgram:
    vectorize(program.body)
    return program


def _polled(program: LoopProgram, _: Options) -> LoopProgram:
    return replace(program, polled=poll(program.body), work=work(program.body))


def _placed(program: LoopProgram, _: Options) -> LoopProgram:
    private(program.body)
    workspace = plan(program.body, program.arrays)
    threaded = any(isinstance(item, Loop) and item.threads for item in program.body)
    return replace(program, workspace=workspace, threaded=threaded)


PASSES: tuple[tuple[str, Step], ...] = (
    ("copies", lambda p, _: renamed_copies(p)),
    ("recompute", _computed_again),
    ("triangles", lambda p, _: replace(p, body=[*triangles(p.statements)])),
    ("fuse", lambda p, _: replace(p, body=tile(fuse(p), p.arrays))),
    ("share", _shared),
    ("turn", lambda p, _: replace(p, body=turn(p.body, p.arrays))),
    ("compensate", lambda p, _: replace(p, body=compensate(p.body, p.arrays))),
    ("arrange", lambda p, _: replace(p, body=arrange(p.body))),
    ("distribute", lambda p, _: replace(p, body=distribute(p.body))),
    ("contract", _contracted),
    ("adopt", _adopted),
    ("fit", _fitted),
    ("whole", _for_a_blas),
    ("promote", lambda p, _: replace(p, body=promote(p.body, p.arrays))),
    ("peel", _peeled),
    ("vectorize", _in_lanes),
    ("poll", _polled),
    ("split", lambda p, _: replace(p, body=split(p.body))),
    ("plan", _placed),
)
"""What each does is said where it is defined; the order is part of the meaning."""


def each(
    program: LoopProgram, options: Options, check: Callable[[LoopProgram, str], LoopProgram] | None = None,
) -> Iterator[tuple[str, LoopProgram]]:
    """Run the passes on statements, check after each, and stop there, with its name and what it made."""
    for name, apply in PASSES:
        program = apply(program, options)
        yield name, program if check is None else check(program, name)
