"""First calls: what Python, the C compiler and JAX take of them, each in a process with a program cache of its own."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import click
import numpy as np

import symgrad as sg
from benchmarks import peers
from benchmarks.workload import Workload

STAGES = ("traced", "stable", "derived", "optimized", "loops", "c")

PROBE = "from symgrad.build.toolchain.find import find; from symgrad.options import Options; find(Options())"
"""A program that asks the compiler what it can do, and keeps the answers."""


@dataclass(frozen=True)
class First:
    """Seconds of processors that first calls take, the least of some.

    Attributes:
        python: symgrad without the compiler.
        stages: of these, what each stage takes after the one before it.
        compiler: the C compiler, all its processes.
        jax: JAX, all its threads; nothing where it is not installed, or refuses the program.
        began: what a first call of a process takes more, in which the compiler was not asked anything before.
    """

    name: str
    python: float
    stages: dict[str, float]
    compiler: float
    jax: float | None
    began: float

    @property
    def misses(self) -> tuple[float, float]:
        """How many times longer Python takes than JAX, and all takes than the larger of JAX and 1.5 compilers."""
        jax = float("inf") if self.jax is None else self.jax
        return self.python / jax, (self.python + self.compiler) / max(jax, 1.5 * self.compiler)


def used() -> tuple[float, float]:
    """Return the seconds of processors that this process has used, and its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time(), children.ru_utime + children.ru_stime


def here(work: Workload, way: str) -> dict[str, Any]:
    """Make a first call in this process: by JAX, by symgrad that compiled another function before, or did not."""
    arguments = work.arguments()
    if way == "jax":
        import jax

        jax.config.update("jax_enable_x64", True)
        jax.block_until_ready(jax.jit(lambda x: x + 1.0)(np.ones(3)))
        peer, function = peers.jax(work, arguments), None
    else:
        peer, function = peers.symgrad(work, arguments)
        if way == "symgrad":
            sg.grad(lambda x: np.sin(x) + 1.0)(1.5)
    begin = used()
    peer.call()
    python, compiler = [after - before for after, before in zip(used(), begin, strict=True)]
    stages = {} if function is None else function._ran().built.stages.seconds  # noqa: SLF001 - the ones of this call
    return {"python": python, "compiler": compiler, "stages": stages}


def first_calls(works: Iterable[Workload], repeats: int, step: Callable[[str], None]) -> list[First]:
    """Measure workloads in turn, those first that miss their bounds most."""
    ways = ("symgrad", "alone", *(["jax"] if peers.there("jax") else []))
    found = []
    for work in works:
        step(work.name)
        taken: dict[str, list[Any]] = {way: [] for way in ways}
        for _ in range(repeats):
            for way in ways:
                taken[way] += apart(work, way)
        mine = min(taken["symgrad"], key=lambda one: float(one["python"]))
        alone, jax = [min([one["python"] for one in taken.get(way, [])], default=None) for way in ("alone", "jax")]
        compiler = min(one["compiler"] for one in taken["symgrad"])
        found.append(First(work.name, mine["python"], mine["stages"], compiler, jax, alone - mine["python"]))
    return sorted(found, key=lambda one: max(one.misses), reverse=True)


def apart(work: Workload, way: str) -> list[Any]:
    """Make a first call in a process of its own, which knows the compiler and has no program in its cache.

    Returns:
        What was found; nothing of a program that JAX refuses.
    """
    with tempfile.TemporaryDirectory(prefix="symgrad-bench-") as cache:
        argv = (sys.executable, "-m", "benchmarks.first", way, work.name)
        own = {**os.environ, "SYMGRAD_CACHE_DIR": cache}
        if way == "alone":  # the probe's answers are in the cache, no program is
            subprocess.run((sys.executable, "-c", PROBE), env=own, check=True)
        refused = subprocess.DEVNULL if way == "jax" else None
        done = subprocess.run(argv, env=own, check=way != "jax", stdout=subprocess.PIPE, stderr=refused)
    return [json.loads(done.stdout)] if done.returncode == 0 else []


def table(found: list[First]) -> str:
    """Print what was found, in milliseconds; a star marks what misses."""
    titles = ("python", "JAX", "", "gcc", "all", "bound", "", "alone", *STAGES)
    lines = [" " * 32 + " ".join(f"{title:>{len(title) and 6}}" for title in titles)]
    for one in found:
        jax = 0.0 if one.jax is None else one.jax
        stars = ["*" if miss > 1 else " " for miss in one.misses]
        stages = [one.stages.get(stage, 0.0) for stage in STAGES]
        figures = [[one.python, jax], [one.compiler, one.python + one.compiler, max(jax, 1.5 * one.compiler)],
                   [one.began, *stages]]
        texts = [" ".join(f"{1e3 * t:6.0f}" for t in part) for part in figures]
        lines.append(f"{one.name:32}{texts[0]} {stars[0]}{texts[1]} {stars[1]}{texts[2]}")
    many = [sum(one.misses[k] > 1 for one in found) for k in (0, 1)]
    return "\n".join([*lines, f"{many[0]} and {many[1]} of {len(found)} miss their bounds"])


if __name__ == "__main__":
    from benchmarks.workloads import OTHERS, PROMISED

    named = {work.name: work for work in (*PROMISED, *OTHERS)}
    click.echo(json.dumps(here(named[sys.argv[2]], sys.argv[1])))
