"""What a compilation is at, said from its first second on: on a terminal and in a notebook, in a line that goes away.

Elsewhere nothing is written; the logger ``symgrad`` has a line for each compilation of more than a second.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

FIRST, AGAIN = 1.0, 0.2
"""After so many seconds it is said what is done, and again after each so many."""

_WIDTH = 79
_STAGES = {
    "": "tracing", "traced": "simplifying", "stable": "deriving", "derived": "simplifying",
    "optimized": "scheduling loops", "loops": "printing C", "c": "the C compiler",
}
"""What is done after a stage was reached."""


class Progress:
    """A compilation under way.

    Attributes:
        name: what is compiled.
        stage: what is done at the moment.
        expected: the seconds that all of it is expected to take, once that is known.
        times: the seconds of each stage that is over.
    """

    def __init__(self, name: str) -> None:
        """Begin with the trace."""
        self.name, self.start, self.expected = name, perf_counter(), 0.0
        self.times: dict[str, float] = {}
        self.stage, self._since = _STAGES[""], self.start

    def reached(self, stage: str) -> None:
        """Note that a stage was reached."""
        now = perf_counter()
        self.times[self.stage] = self.times.get(self.stage, 0.0) + now - self._since
        self.stage, self._since = _STAGES[stage], now

    def line(self) -> str:
        """Say what is done, for how long, and how long all of it may take."""
        passed = perf_counter() - self.start
        about = f" of about {self.expected:.0f} s" if self.expected > passed + 0.5 else ""
        return f"symgrad: compiling {self.name}: {self.stage}, {passed:.1f} s{about}"[:_WIDTH]

    def summary(self) -> str:
        """Say what it took, and the stages that took most."""
        self.reached("c")
        parts = sorted(self.times.items(), key=lambda each: -each[1])[:3]
        took = ", ".join([f"{stage} {seconds:.1f} s" for stage, seconds in parts])
        return f"compiled {self.name} in {perf_counter() - self.start:.1f} s: {took}"


class _Active(threading.local):
    now: Progress | None = None


_active = _Active()


@contextmanager
def shown_progress(name: str) -> Iterator[None]:
    """Show how a compilation goes on; one inside of another one is a part of it."""
    if _active.now is not None:
        yield
        return
    progress = _active.now = Progress(name)
    over, stream = threading.Event(), sys.stderr
    if _is_looked_at(stream):
        threading.Thread(target=_draw, args=(progress, stream, over), daemon=True).start()
    try:
        yield
    finally:
        over.set()
        _active.now = None
        if perf_counter() - progress.start >= FIRST:
            import logging  # which takes longer than all of this

            logging.getLogger("symgrad").info(progress.summary())


def reached(stage: str) -> None:
    """Note that the compilation of this thread has reached a stage, if one is under way."""
    if _active.now is not None:
        _active.now.reached(stage)


def expect(seconds: float) -> None:
    """Note how many seconds the compilation of this thread may take from now on."""
    if _active.now is not None:
        _active.now.expected = perf_counter() - _active.now.start + seconds


def _is_looked_at(stream: Any) -> bool:
    """Whether a stream is a terminal or a notebook's."""
    try:
        return stream is not None and (stream.isatty() or type(stream).__module__.startswith("ipykernel"))
    except (AttributeError, ValueError):  # it has no such method, or is closed
        return False


def _draw(progress: Progress, stream: Any, over: threading.Event) -> None:
    wait = FIRST
    while not over.wait(wait):
        stream.write("\r" + progress.line().ljust(_WIDTH))
        stream.flush()
        wait = AGAIN
    if wait != FIRST:
        stream.write("\r" + " " * _WIDTH + "\r")
        stream.flush()
