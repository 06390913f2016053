"""The whole compiler on one page: every arrow is a function from one immutable value to the next."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from symgrad.build.call import Interface
from symgrad.build.load import Library
from symgrad.build.progress import reached
from symgrad.errors import ArgumentValueError
from symgrad.ir.program import Program
from symgrad.ir.text import as_text
from symgrad.ir.verify import verify
from symgrad.options import Options, Pass, Purpose, Target
from symgrad.render.source import Source
from symgrad.trace.trace import Traced

if TYPE_CHECKING:
    from symgrad.build.toolchain.find import Toolchain
    from symgrad.loops.program import LoopProgram

NAMES = ("traced", "stable", "derived", "optimized", "loops", "c")


@dataclass
class Stages:
    """What every stage made of one program, kept for `as_text`, each verified and timed.

    Attributes:
        target: what the C is made for.
        seconds: how long it took to get to each stage from the one before.
    """

    options: Options
    target: Target = field(default_factory=Target)
    kept: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    _since: float = field(default_factory=perf_counter)

    def __post_init__(self) -> None:
        """Refuse options that leave out what is no pass, or what cannot be left out."""
        if self.options.without:
            known = {one.name: one.purpose for one in passes()}
            able = ", ".join(name for name, purpose in known.items() if purpose is not Purpose.NECESSITY)
            for name in self.options.without:
                if name not in known:
                    raise ArgumentValueError(f"Options(without=...): no pass {name!r}", instead=f"some of {able}")
                if known[name] is Purpose.NECESSITY:
                    raise ArgumentValueError(
                        f"Options(without=...): there is no C without the pass {name!r}", instead=f"some of {able}"
                    )

    def keep(self, name: str, value: Any) -> Any:
        """Keep a stage's result, and return it."""
        now = perf_counter()
        self.seconds[name] = now - self._since
        known = any(value is before for before in self.kept.values())  # and verified: nothing was left to do
        if name in NAMES[:4] and self.options.verifies and not known:
            verify(value, name)
        if name == NAMES[0] and (value.moments or value.forks):  # for `whiles` alone: they hold frames of the user's
            self.kept[name] = replace(value, moments={}, forks=())
        else:
            self.kept[name] = value
        reached(name)
        folder = os.environ.get("SYMGRAD_DUMP")
        if folder:
            from pathlib import Path

            path = Path(folder)
            path.mkdir(parents=True, exist_ok=True)
            number = NAMES.index(name)
            (path / f"{self.kept['traced'].name}.{number}.{name}.txt").write_text(self.as_text(name))
        self._since = perf_counter()
        return value

    def of(self, stage: str) -> Any:
        """Return a stage's result; loops and C are made when first asked for, if they were not needed to compile."""
        if stage not in self.kept:
            loops_and_c(self, self.kept["optimized"])
        return self.kept[stage]

    def as_text(self, stage: str = "optimized") -> str:
        """Print a stage: Python for programs, a picture for loops, C.

        Raises:
            ArgumentValueError: for a stage that does not exist.
        """
        if stage not in NAMES:
            raise ArgumentValueError(f"no stage {stage!r}", instead=f"one of {', '.join(NAMES)}")
        value = self.of(stage)
        if stage == "c":
            return value.text  # type: ignore[no-any-return]
        if stage == "loops":
            from symgrad.loops.text import loops_as_text

            return loops_as_text(value)
        return as_text(value)


@contextmanager
def uncollected() -> Iterator[None]:
    """Let Python's cyclic collector rest: nodes make no cycles, and scanning them over and over doubles the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def passes() -> tuple[Pass[Any], ...]:
    """List all passes in their order: those of programs, the two tables of rewrites among them, and those of loops.

    >>> from symgrad.pipeline import passes
    >>> [one.name for one in passes() if one.purpose.value == "digits"]
    ['safer', 'compensate']
    """
    from symgrad.loops.passes import EVERY
    from symgrad.transforms.passes import INLINE, LOOPS, OPTIMIZE, STABILIZE

    return tuple(dict.fromkeys([*STABILIZE, INLINE, *LOOPS, *OPTIMIZE, *EVERY]))


def optimized(traced: Traced, stages: Stages, check: Callable[[Program], None] | None = None) -> Program:
    """Take a trace to the program that is compiled; `check` may raise before it is optimized.

    A derivative was made while it was traced, of a program that is stable: the first stages show the innermost one.
    """
    from symgrad.transforms.passes import optimize, stabilize

    if traced.differentiated is None:
        stable = stages.keep("stable", stabilize(stages.keep("traced", traced.program), stages.options))
        derived = stages.keep("derived", stable)
    else:
        for name, program in zip(NAMES, traced.differentiated, strict=False):
            stages.keep(name, program.closed())
        derived = stages.keep("derived", stabilize(traced.program, stages.options))
    if check is not None:
        check(derived)
    return stages.keep("optimized", optimize(derived, stages.options))  # type: ignore[no-any-return]


def loops_and_c(stages: Stages, optimized: Program) -> tuple[LoopProgram, Source]:
    """Take an optimized program through lower, schedule and render."""
    from symgrad.loops.passes import schedule
    from symgrad.loops.statements.lower import lower
    from symgrad.render.render import render

    with uncollected():
        loops = stages.keep("loops", schedule(lower(optimized), stages.options, stages.target))
        return loops, stages.keep("c", render(loops, stages.options, stages.target))


@dataclass(frozen=True)
class Built:
    """A program ready to run: compiled and loaded, or (without a compiler) to be interpreted."""

    program: Program
    stages: Stages
    interface: Interface | None
    library: Library | None

    @property
    def loops(self) -> LoopProgram | None:
        """Its loops, None when it is interpreted."""
        return None if self.library is None else self.stages.of("loops")


def build(stages: Stages, optimized: Program, toolchain: Toolchain | None) -> Built:
    """Compile an optimized program, or keep it for the interpreter when there is no compiler."""
    if toolchain is None:
        return Built(optimized, stages, None, None)
    from symgrad.build.cache.artifacts import keep, keep_templates, program_key, recall

    stages.target = toolchain.target
    key = None if os.environ.get("SYMGRAD_DUMP") else program_key(optimized, toolchain, stages.options)
    found = None if key is None else recall(key, optimized)
    if found is not None:
        return Built(optimized, stages, *found)
    from symgrad.build.call import interface, with_checker
    from symgrad.build.limits import announce
    from symgrad.build.load import build as compile_and_load
    from symgrad.loops.cost import at_least, expected, program_sizes

    if stages.options.cache:
        keep_templates()
    said = announce(optimized, at_least(len(optimized.nodes())), stages.options)
    loops, source = loops_and_c(stages, optimized)
    described = interface(optimized, loops, source)
    library = compile_and_load(
        with_checker(source, described), toolchain, stages.options,
        lambda: announce(optimized, expected(program_sizes(loops)), stages.options, said=said),
    )
    if key is not None:
        keep(key, optimized, described, library)
    return Built(optimized, stages, described, library)
