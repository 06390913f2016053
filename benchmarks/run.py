"""Measures one workload: compile each peer, compare their results, time them in turn."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import drjit_programs, limits, peers
from benchmarks.measure import cold, interleaved
from benchmarks.workload import Workload

PEERS = ("symgrad", "jax", "torch", "drjit", "c")


@dataclass
class Row:
    """What was found out about one workload.

    Attributes:
        seconds: the median of a call, by peer.
        cold: the median of a call after a pause, by peer.
        compile_seconds: the first call, from a cold cache, by peer.
        error: the largest distance from JAX's results (from NumPy's value where JAX is not there), relative to the
            largest number of the array; None when symgrad failed.
        against: what `error` was taken against.
        notes: how a peer was compiled, or why it is not there.
        others: how many cores other programs used, on average, while calls were timed.
    """

    name: str
    seconds: dict[str, float] = field(default_factory=dict)
    cold: dict[str, float] = field(default_factory=dict)
    compile_seconds: dict[str, float] = field(default_factory=dict)
    workspace: int | None = None
    c_lines: int | None = None
    error: float | None = None
    against: str = ""
    tolerance: float = 0.0
    least: float | None = None
    notes: dict[str, str] = field(default_factory=dict)
    others: float = 0.0

    def ratio(self, above: str, below: str) -> float | None:
        """Divide two medians; None where one is not there."""
        if above not in self.seconds or below not in self.seconds:
            return None
        return self.seconds[above] / self.seconds[below]

    @property
    def agrees(self) -> bool:
        """Whether symgrad ran and its results are right."""
        return self.error is not None and self.error <= self.tolerance


def measured(work: Workload, wanted: frozenset[str], seconds: float) -> Row:
    """Measure one workload beside the peers that are wanted and installed."""
    arguments = work.arguments()
    row = Row(work.name, tolerance=work.tolerance, least=work.least)
    calls: dict[str, Callable[[], Any]] = {}
    found: dict[str, Any] = {}

    def add(name: str, make: Callable[[], peers.Peer]) -> bool:
        try:
            peer = make()
            start = time.perf_counter()
            result = peer.call()
            row.compile_seconds[name] = time.perf_counter() - start
            found[name] = peer.results(result)
        except Exception as error:  # noqa: BLE001 - a peer that cannot do it is one of the findings
            row.notes[name] = f"{type(error).__name__}: {error}".splitlines()[0][:300]
            return False
        calls[name] = peer.call
        row.notes[name] = peer.note
        return True

    def mine() -> peers.Peer:
        peer, found["function"] = peers.symgrad(work, arguments)
        return peer

    add("symgrad", mine)
    for name, make in others(work, arguments, wanted).items():
        added = add(name, make)
        if name == "torch" and not added:
            reason = row.notes[name]
            if add(name, lambda: peers.torch(work, arguments, compiled=False)):
                row.notes[name] = f"eager, as compile fails: {reason}"
    if "symgrad" in calls:
        inspect(row, found["function"])
        compare(row, found, work, arguments)
    start, before = time.perf_counter(), used_by_others()
    row.seconds = interleaved(calls, seconds)
    row.cold = cold(calls, seconds / 2)
    row.others = (used_by_others() - before) / (time.perf_counter() - start)
    return row


def used_by_others() -> float:
    """Return the seconds of all cores that other programs have used so far; 0 where the system does not tell."""
    try:
        cores = Path("/proc/stat").read_text(encoding="ascii").split("\n")[0].split()[1:9]
    except OSError:
        return 0.0
    user, nice, system, _idle, _wait, *interrupts = [int(ticks) / os.sysconf("SC_CLK_TCK") for ticks in cores]
    return user + nice + system + sum(interrupts) - time.process_time()


def others(work: Workload, arguments: Any, wanted: frozenset[str]) -> dict[str, Callable[[], peers.Peer]]:
    """Say how to make each of the other peers."""
    by = (work.by,) if isinstance(work.by, int) else work.by or ()
    makers: dict[str, Callable[[], peers.Peer]] = {}
    if "jax" in wanted and peers.there("jax"):
        makers["jax"] = lambda: peers.jax(work, arguments)
    if "torch" in wanted and peers.there("torch"):
        makers["torch"] = lambda: peers.torch(work, arguments, compiled=True)
    if "drjit" in wanted and work.drjit and peers.there("drjit"):
        makers["drjit"] = lambda: peers.Peer(*drjit_programs.make(work.function.__name__, arguments, by))
    if "c" in wanted and work.limit is not None:
        limit = work.limit
        limits.compiled(limit)  # its compile time is nobody's
        makers["c"] = lambda: peers.Peer(limits.make(limit, arguments, peers.sg_threads()), peers.leaves)
    return makers


def inspect(row: Row, function: Any) -> None:
    """Read off the generated C: its lines, and the workspace a call needs."""
    from symgrad.ir.evaluate import concrete
    from symgrad.ir.index.shapes import symbol

    row.c_lines = len(function.c_source.splitlines())
    loops = function._ran().built.loops  # noqa: SLF001 - the workspace of what ran
    if loops is not None:
        row.workspace = concrete(loops.workspace, {symbol("threads"): peers.sg_threads() if loops.threaded else 1})


def compare(row: Row, found: dict[str, Any], work: Workload, arguments: Any) -> None:
    """Compare symgrad's results with JAX's, else its value with NumPy's; and every other peer's with symgrad's."""
    row.against = "jax" if "jax" in found else "numpy"
    mine = found["symgrad"]
    row.error = distance(mine, found["jax"] if "jax" in found else peers.leaves(work.function(*arguments)))
    for name in ("torch", "drjit", "c"):
        if name in found:
            apart = distance(mine, found[name])
            if apart > max(work.tolerance, 1e-9):
                row.notes[name] = f"{row.notes[name]} (differs by {apart:.1e})".strip()


def distance(ours: list[Any], theirs: list[Any]) -> float:
    """Return the largest difference relative to the largest number of its array; infinite where one is not a number."""
    worst = 0.0
    for a, b in zip(ours, theirs, strict=False):  # NumPy has the value alone
        if a.size != b.size:
            return float("inf")
        scale = float(np.max(np.abs(b), initial=0.0)) or 1.0
        apart = float(np.max(np.abs(a.reshape(b.shape) - b), initial=0.0)) / scale
        worst = max(worst, apart if np.isfinite(apart) else float("inf"))
    return worst
