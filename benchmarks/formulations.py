"""``python -m benchmarks --formulations``: each workload beside three rewritings; how far apart are their speeds?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import symgrad as sg
from benchmarks.measure import interleaved
from benchmarks.peers import leaves
from benchmarks.programs.rewritten import REWRITTEN
from benchmarks.run import distance
from benchmarks.table import time_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.workload import Workload


@dataclass(frozen=True)
class Formulations:
    """What was found out about one workload.

    Attributes:
        seconds: the least of a call, by the name of the function; the benchmark's own is the first.
        error: the largest distance of a rewriting's results from the benchmark's, relative to the largest number.
    """

    name: str
    seconds: dict[str, float]
    error: float
    tolerance: float

    @property
    def agrees(self) -> bool:
        """Whether all have the same results."""
        return self.error <= self.tolerance

    @property
    def worst(self) -> float:
        """The speed of the slowest as a part of the fastest one's."""
        return min(self.seconds.values()) / max(self.seconds.values())


def measured(work: Workload, seconds: float) -> Formulations:
    """Time a workload and its rewritings in turn: minima, which other programs do not change."""
    arguments = work.arguments()
    calls: dict[str, Callable[[], Any]] = {}
    results = []
    functions: tuple[Callable[..., Any], ...] = (work.function, *REWRITTEN[work.function])
    for function in functions:
        made: Any = sg.jit(function) if work.by is None else sg.value_and_grad(function, argnums=work.by)
        calls[function.__name__] = partial(made, *arguments)
        results.append(leaves(made(*arguments)))
    error = max(distance(found, results[0]) for found in results[1:])
    return Formulations(work.name, interleaved(calls, seconds, of=min), error, work.tolerance)


LEAST = 0.7
"""What the slowest formulation's speed should be of the fastest one's; a star stands where it is less."""


def markdown(found: list[Formulations]) -> str:
    """Print a table: the fastest call, and the speed of each formulation as a part of its."""
    lines = ["| workload | fastest | as it is | rewritten | | |", "| --- | ---: | ---: | ---: | ---: | ---: |"]
    for row in found:
        best = min(row.seconds.values())
        speeds = [
            f"{best / each:.2f}{'*' if best / each < LEAST else ''} {'' if k == 0 else name}".strip()
            for k, (name, each) in enumerate(row.seconds.items())
        ]
        wrong = "" if row.agrees else " WRONG"
        lines.append(f"| {row.name}{wrong} | {time_of(best)} | {' | '.join(speeds)} |")
    return "\n".join(lines)
