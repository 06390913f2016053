"""``python -m benchmarks --ablate``: what each pass is worth, by leaving it out, one at a time, of every program.

Every program is tried as it is, in single precision, where `benchmarks.named` knows names for its extents with
those, and as it is rewritten in `benchmarks.programs.rewritten`; in one thread, but for passes about threads, and with
a BLAS for the one about that. Calls with and without a pass take turns, and minima are compared, so that other programs
on the machine matter little. A pass says what it is for; one for time has to show it here: on some program it gains at
least five per cent.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import optree

import symgrad as sg
from benchmarks.measure import interleaved
from benchmarks.named import NAMES
from benchmarks.peers import leaves
from benchmarks.programs.rewritten import REWRITTEN
from benchmarks.run import distance
from benchmarks.workload import Workload
from symgrad.build.toolchain.find import find
from symgrad.ir.text import as_text
from symgrad.options import Pass, Purpose, Target
from symgrad.pipeline import Stages, loops_and_c, passes
from symgrad.transforms.passes import LOOPS, OPTIMIZE, STABILIZE

WORTH = 1.05
"""A pass for time gains this much on one program at least."""

CHOICES = (
    sg.Options(cache=False, threads=1), sg.Options(cache=False), sg.Options(cache=False, threads=1, blas=True),
)
"""The options that programs are compiled with: for each pass the first of them that run it."""


class Loss(NamedTuple):
    """What happens to one program where a pass is left out, as ratios of without over with.

    Attributes:
        seconds: of a call.
        compile_seconds: of the first call.
        workspace: bytes; infinite where there were none.
        lines: by how many lines of C the program grows.
        digits: how far results are from those with the pass, relative to the largest number of an array.
    """

    seconds: float
    compile_seconds: float
    workspace: float
    lines: int
    digits: float

    def of(self, purpose: Purpose) -> float:
        """Return what a pass of this purpose gains."""
        if purpose is Purpose.DIGITS:
            return self.digits
        return {Purpose.MEMORY: self.workspace, Purpose.COMPILE_TIME: self.compile_seconds}.get(purpose, self.seconds)


@dataclass
class Worth:
    """What a pass is worth: by program, what happens without it, of those alone whose C is another one then."""

    found: Pass[Any]
    losses: dict[str, Loss] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def best(self) -> tuple[str, Loss]:
        """The program it gains most on; no program, and nothing gained, where it changes none."""
        purpose = self.found.purpose
        return max(self.losses.items(), key=lambda pair: pair[1].of(purpose), default=("", Loss(1, 1, 1, 0, 0)))

    @property
    def mean(self) -> float:
        """The geometric mean of the ratios of time over the programs it changes."""
        ratios = [loss.seconds for loss in self.losses.values()]
        return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else 1.0

    @property
    def earns_its_place(self) -> bool:
        """Whether a pass for time gains enough on one program; of the others tests say it."""
        return self.found.purpose is not Purpose.TIME or self.best[1].seconds >= WORTH


class Variant(NamedTuple):
    """A program in one of its forms: how it is made with options, and its arguments."""

    name: str
    make: Callable[[sg.Options], Any]
    arguments: tuple[Any, ...]


def variants(work: Workload) -> Iterator[Variant]:
    """Give a workload's forms: as it is, in single precision, with names for its extents, rewritten."""
    arguments = work.arguments()

    def make(options: sg.Options, names: Any = False, function: Any = work.function) -> Any:
        if work.by is None:
            return sg.jit(function, options=options, dynamic=names)
        return sg.value_and_grad(function, argnums=work.by, options=options, dynamic=names)

    yield Variant(work.name, make, arguments)
    found, tree = optree.tree_flatten(arguments)  # type: ignore[arg-type, var-annotated]  # arrays, in dicts some
    numbers = [*map(np.asarray, found)]
    if any(a.dtype == np.float64 for a in numbers):
        single = [a.astype(np.float32) if a.dtype == np.float64 else a for a in numbers]
        yield Variant(f"{work.name}, f32", make, optree.tree_unflatten(tree, single))  # type: ignore[arg-type]
    for names in NAMES.get(work.name, ())[-1:]:
        yield Variant(f"{work.name}, named", partial(make, names=names), arguments)
    for function in REWRITTEN.get(work.function, ()):
        yield Variant(f"{work.name}, {function.__name__}", partial(make, function=function), arguments)


def c_of(program: Any, options: sg.Options) -> str:
    """Return the C of an optimized program."""
    toolchain = find(options)
    return loops_and_c(Stages(options) if toolchain is None else Stages(options, toolchain.target), program)[1].text


class Whole(NamedTuple):
    """A variant with all passes: its function, program, text, C and results, and the seconds of its first call."""

    function: Any
    program: Any
    text: str
    code: str
    results: list[Any]
    seconds: float

    @classmethod
    def of(cls, variant: Variant, options: sg.Options) -> Whole:
        """Compile it."""
        function = variant.make(options)
        program = function.lower(*variant.arguments).program
        return cls(function, program, as_text(program), c_of(program, options), *first(function, variant.arguments))


def ablate(works: Iterable[Workload], seconds: float, step: Callable[[str], None]) -> list[Worth]:
    """Leave out each pass of each program, where it may be left out; compare results and times, calls interleaved."""
    target = Target() if (tools := find(sg.Options())) is None else tools.target
    worths = [Worth(one) for one in passes() if one.purpose is not Purpose.NECESSITY]
    before = {one.name for one in (*STABILIZE, *LOOPS, *OPTIMIZE)}
    chosen = {w.found.name: next((o for o in CHOICES if w.found.runs(o, target)), CHOICES[0]) for w in worths}
    for work in works:
        step(work.name)
        for variant in variants(work):
            wholes = {options: Whole.of(variant, options) for options in dict.fromkeys(chosen.values())}
            for worth in worths:
                options = chosen[worth.found.name]
                without, whole = replace(options, without=(worth.found.name,)), wholes[options]
                try:
                    less, other = variant.make(without), whole.program
                    if worth.found.name in before:
                        other = less.lower(*variant.arguments).program
                        if as_text(other) == whole.text:
                            continue
                    changed = c_of(other, without)
                    if changed == whole.code:
                        continue
                    results, longer = first(less, variant.arguments)
                except sg.SymgradError as error:
                    worth.failed[variant.name] = str(error).splitlines()[0]
                    continue
                calls = {
                    name: partial(f, *variant.arguments) for name, f in (("with", whole.function), ("without", less))
                }
                times = interleaved(calls, seconds, of=min)
                space, more = [each.memory(*variant.arguments).peak for each in (whole.function, less)]
                worth.losses[variant.name] = Loss(
                    times["without"] / times["with"], longer / whole.seconds,
                    more / space if space else float("inf") if more else 1.0,
                    changed.count("\n") - whole.code.count("\n"), distance(results, whole.results),
                )
    return worths


def first(function: Any, arguments: tuple[Any, ...]) -> tuple[list[Any], float]:
    """Call a function for the first time: its results, and the seconds it took."""
    start = time.perf_counter()
    results = function(*arguments)
    return leaves(results), time.perf_counter() - start


def table(found: list[Worth]) -> str:
    """Write the table of docs/performance.md: ratios of without over with, each the largest of all programs."""
    rows = [
        "| pass | for | programs | time, mean | largest | gains most on | C lines | workspace | first call | digits |",
        "|---" * 10 + "|",
    ]
    for worth in found:
        name, best = worth.best
        losses = [*worth.losses.values()] or [best]
        rows.append(
            f"| {worth.found.name}{'' if worth.earns_its_place else ' *'} | {worth.found.purpose.value} "
            f"| {len(worth.losses)} | {worth.mean:.2f} | {max(x.seconds for x in losses):.2f} | {name} "
            f"| {max([x.lines for x in losses], key=abs):+d} | {max(x.workspace for x in losses):.3g} "
            f"| {max(x.compile_seconds for x in losses):.2f} | {max(x.digits for x in losses):.0e} |"
        )
    rows += [f"{w.found.name} failed on {name}: {why}" for w in found for name, why in w.failed.items()]
    return "\n".join(rows)
