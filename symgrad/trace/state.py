"""The trace that is active in this thread."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from symgrad.ir.node import Graph

if TYPE_CHECKING:
    from collections.abc import Iterator


class Trace:
    """One run of a user's function on tracers: its table of nodes, its thread, whether it still runs."""

    __slots__ = ("alive", "function", "graph", "thread")

    def __init__(self, graph: Graph, function: str) -> None:
        """Belong to the thread that makes it."""
        self.graph, self.function = graph, function
        self.thread = threading.get_ident()
        self.alive = True


class _Stack(threading.local):
    def __init__(self) -> None:
        self.traces: list[Trace] = []


_stack = _Stack()


def current() -> Trace | None:
    """Return the trace that runs in this thread, or None."""
    return _stack.traces[-1] if _stack.traces else None


@contextmanager
def tracing(function: str, *, share: bool = True, graph: Graph | None = None) -> Iterator[Trace]:
    """Open a trace in this thread; its tracers are dead when it closes.

    A trace inside of another one with the caller's `graph` shares the table, and the caller's trace object.
    """
    outer = current()
    trace = outer if outer is not None and graph is outer.graph else Trace(graph or Graph(share=share), function)
    _stack.traces.append(trace)
    try:
        yield trace
    finally:
        _stack.traces.pop()
        if trace is not outer:
            trace.alive = False
