"""Steps of training in C: for each batch one function (a gradient), then another one (the update), in one call.

The memory between the two, and what is scratch to them, is there once for all calls. Nothing of a batch is written
before the first function has ended without a failed check; see `templates/step.c.jinja`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from symgrad.build import load
from symgrad.build.call import CONTIGUOUS_AND_ALIGNED, LONG, Arrays, Call, Plan, allocator, interruptible
from symgrad.build.load import ffi
from symgrad.build.threads import changes
from symgrad.build.toolchain.find import find
from symgrad.errors import Missed
from symgrad.ir.saved.dims import evaluated
from symgrad.options import Options
from symgrad.render.source import ADDRESSES, OTHER, UPDATE

WRITEABLE = 0x400
"""NumPy's flag bit."""

LINE = 64
"""Arrays in the memory between the functions begin at multiples of so many bytes."""

_HALF = "int32_t(*)(void **, int64_t *, int32_t, char *, int32_t *)"


def _struct(names: str) -> np.dtype[Any]:
    return np.dtype([(name, np.intp) for name in names.split()])


_OBJECT = _struct("dtype rank flags written bytes first second shape last")
_MOVING = _struct("begin bytes place")
_FLOATS = _struct("place count width")
_STEP = _struct(
    "array count written floats_count moving_count batches objects "
    + " ".join([f"{field}{half}" for half in (0, 1) for field in ("run", "arrays", "extents", "threads", "workspace")])
    + " moving floats",
)
"""The structs of `templates/step.c.jinja`."""


class Given(NamedTuple):
    """An array or a number that a step is passed.

    Attributes:
        dtype, shape: what it must be.
        first, second: its place among the arrays of the gradient and of the update, -1 for none.
        number: the types it may have, where it is a number and no array.
        written: the update writes it.
        by_rows: a batch of its rows is what the gradient reads.
        moves: by so many bytes it goes on with each batch.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    first: int = -1
    second: int = -1
    number: tuple[type, ...] = ()
    written: bool = False
    by_rows: bool = False
    moves: int = 0

    @property
    def bytes(self) -> int:
        """How many bytes it has."""
        return prod(self.shape) * self.dtype.itemsize


class Half(NamedTuple):
    """One of the two functions, and how it is called at some extents."""

    call: Call
    plan: Plan

    @property
    def extents(self) -> list[int]:
        """The unknown extents."""
        return [*self.plan.passed[len(self.call.interface.data) : -1]]

    @property
    def work(self) -> int:
        """How many operations a call has."""
        sizes = dict(zip(self.call.interface.dims, self.extents, strict=True))
        return int(evaluated(self.call.interface.work, {**sizes, "threads": 1}))


@cache
def _taking_steps() -> Any:
    """Compile what takes steps: it is the same for all."""
    from symgrad.render.callers import steps

    toolchain = find(Options())
    assert toolchain is not None  # noqa: S101 - it compiled the functions
    return load.build(steps(), toolchain, Options()).function


class Steps:
    """How C takes steps with arrays of some shapes, and the memory that it works in.

    Attributes:
        bytes: how much memory is between the functions, with their workspace.
        done: how many batches the last call has taken.
    """

    def __init__(
        self, gradient: Half, update: Half, given: Sequence[Given], results: Sequence[Given],
        between: Sequence[tuple[int, int]], *, finite: bool, rows: int = 0,
    ) -> None:
        """Plan steps.

        Args:
            gradient, update: the two functions.
            given: what a call is passed; what is written comes first.
            results: what it gives: those of the gradient that are not gradients, with their places there.
            between: the places of gradients in both functions' arrays; -1 in the second where it reads none.
            finite: values and gradients must be so, else nothing is written.
            rows: how many of the rows of what is taken by rows are a batch; 0 where nothing is.
        """
        self.halves, self.given, self.results, self.done = (gradient, update), given, results, 0
        self._function, self._lock, self._count = _taking_steps(), threading.Lock(), ffi.new("int64_t *")
        threaded = any(half.call.interface.threaded for half in self.halves)
        self._changes = changes.item() if threaded else -1
        self._work = gradient.work
        # The memory: gradients, and behind them the workspace, in which the functions take turns.
        ports = gradient.call.interface.outputs
        first = len(gradient.call.interface.inputs)
        slopes = [(place, gradient.plan.outputs[place - first], ports[place - first].dtype) for place, _ in between]
        ends = [0]
        for size in [prod(shape) * dtype.itemsize for _, shape, dtype in slopes]:
            ends.append(ends[-1] + -(-size // LINE) * LINE)
        self.bytes = ends[-1] + max([half.plan.workspace for half in self.halves])
        self._memory = allocator(gradient.call.options)(self.bytes + LINE)
        begin = -(-self._memory.ctypes.data // LINE) * LINE
        # The addresses of both functions' arrays: what moves is put there by each call.
        self._addresses = [np.zeros(_arrays(half.call) + 1, np.intp) for half in self.halves]
        for half, addresses in zip(self.halves, self._addresses, strict=True):
            data = [each.ctypes.data for each in half.call.interface.data]
            addresses[_arrays(half.call) - len(data) : _arrays(half.call)] = data
        for (place, other), at in zip(between, ends, strict=False):
            self._addresses[0][place] = begin + at
            if other >= 0:
                self._addresses[1][other] = begin + at
        # What is passed: numbers by an array of their own, as results without axes are.
        self._numbers = [(k, one.number, np.zeros((), one.dtype)) for k, one in enumerate(given) if one.number]
        self._fixed = [None if one.shape or rows else np.zeros((), one.dtype) for one in results]
        for one, array in zip(results, self._fixed, strict=True):
            if array is not None:
                self._addresses[0][one.first] = array.ctypes.data
        made = [] if rows else [one for one in results if one.shape]
        self._made = [(one.shape, one.dtype) for one in made]
        self._kept: list[Any] = []
        objects = np.zeros(len(given) + len(made), _OBJECT)
        for k, one in enumerate((*given, *made)):
            flags = CONTIGUOUS_AND_ALIGNED | WRITEABLE * one.written
            first = -1 if one.moves else one.first
            shape = self._words(np.array(one.shape, np.intp))
            objects[k] = (id(one.dtype), len(one.shape), flags, one.written, one.bytes, first, one.second, shape, 0)
        moving = [(0, one.moves, one.first) for one in given if one.moves]
        self._moving = np.array([*moving, *[(0, one.bytes, one.first) for one in results if rows]], _MOVING)
        self._size = rows
        floats = [(place, prod(shape), dtype.itemsize) for place, shape, dtype in slopes if dtype.kind == "f"]
        floats += [(one.first, 1, one.dtype.itemsize) for one in results[:1] if one.dtype.kind == "f"]
        self._step = np.zeros(1, _STEP)
        fields = {
            "array": id(np.ndarray), "count": len(objects), "moving_count": len(self._moving),
            "written": max([k for k, one in enumerate(given, 1) if one.written], default=0),
            "floats_count": len(floats) if finite else 0,
            "objects": self._words(objects), "moving": self._words(self._moving),
            "floats": self._words(np.array(floats, _FLOATS)),
        }
        team = max([half.plan.passed[-1] for half in self.halves])  # what writes alone asks whether many have read
        for k, (half, addresses) in enumerate(zip(self.halves, self._addresses, strict=True)):
            entry = half.call.interface.entry + ADDRESSES
            run = int(ffi.cast("intptr_t", half.call.library.handle.load_function(ffi.typeof(_HALF), entry)))
            fields |= {
                f"run{k}": run, f"arrays{k}": self._words(addresses), f"threads{k}": team,
                f"extents{k}": self._words(np.array([*half.extents, 0], np.int64)), f"workspace{k}": begin + ends[-1],
            }
        for name, value in fields.items():
            self._step[name] = value
        self._words(self._step)
        self._passed = ffi.cast("intptr_t *", self._step.ctypes.data), self._count
        self._batches = ffi.cast("intptr_t *", self._step.ctypes.data + _STEP.fields["batches"][1])  # type: ignore[index]

    def _words(self, words: np.ndarray[Any, Any]) -> int:
        """Keep what C reads, and return where it is."""
        self._kept.append(words)
        return int(words.ctypes.data)

    @property
    def is_current(self) -> bool:
        """Whether calls use as many threads as when this was planned."""
        return self._changes < 0 or self._changes == changes.item()

    def integer(self, place: int) -> int:
        """Return an integer among the gradients, by its place among the arrays of the first function."""
        return int(ffi.cast("int64_t *", self._addresses[0][place].item())[0])

    def one(self, leaves: list[Any]) -> tuple[int, Arrays] | None:
        """Take one step with what it is given; None where that is not what was planned, and nothing was done.

        Returns:
            0, or where nothing was written `MEET` or `NOT_FINITE` of `symgrad.render.source`; and the results. Numbers
            that were written stand in the list of leaves.
        """
        if not self._lock.acquire(blocking=False):
            return None
        try:
            results = [np.empty(*each) for each in self._made]
            code = self._called(leaves, results, 0, 1)
            if code is None:
                return None
            made = iter(results)
            return code, [next(made) if one is None else one[()] for one in self._fixed]
        finally:
            self._lock.release()

    def many(self, leaves: list[Any], results: Arrays, begin: int, batches: int, on: Any) -> int | None:
        """Take a step for each of some batches of rows, the first of which begins at a row.

        How many were taken is added to `on.done`. Epochs in several threads wait for each other.
        """
        with self._lock:
            moving = [leaf[begin:] for leaf, one in zip(leaves, self.given, strict=False) if one.moves]
            self._moving["begin"] = [array.ctypes.data for array in (*moving, *results)]
            self.done = 0
            try:
                return self._called(leaves, [], begin, batches)
            finally:
                on.done += self.done

    def _batch(self, leaves: list[Any], begin: int) -> dict[int, Any]:
        """Return what the gradient reads for the batch that failed, by place."""
        at = begin + self.done * self._size
        of = slice(at, at + self._size)
        given = [(leaf, one) for leaf, one in zip(leaves, self.given, strict=False) if one.first >= 0]
        orders = [leaf for leaf, one in given if one.moves and not one.by_rows]
        found = {}
        for leaf, one in given:
            found[one.first] = leaf[orders[0][of] if orders else of] if one.by_rows else np.asarray(leaf)
            if one.moves and not one.by_rows:  # whose rows are side by side here
                found[one.first] = np.arange(self.halves[0].plan.inputs[one.first][0]) % self._size
        return found

    def _called(self, leaves: list[Any], results: Arrays, begin: int, batches: int) -> int | None:
        """Call C for batches: its code, or None where something is not what was planned; checks that fail raise."""
        for k, kind, array in self._numbers:
            if type(leaves[k]) not in kind:
                return None
            array[()] = leaves[k]
        given = [*leaves, *results]
        for k, _, array in self._numbers:
            given[k] = array
        objects = tuple(given)
        self._count[0] = 0
        arguments = (id(objects), *self._passed)
        each = LONG // max(1, self._work)
        try:
            for last in range(each, batches + each, each) if each else (batches,):  # Ctrl-C is seen between calls
                self._batches[0] = min(last, batches)
                if each:
                    code = self._function(*arguments, ffi.NULL)
                else:
                    load.end_team()
                    code = interruptible(self._alone, *arguments)
                if code:
                    break
        finally:
            self.done = self._count[0]
            for k, _, array in self._numbers:
                if self.given[k].written:
                    leaves[k] = array[()]
        if code == OTHER:
            return None
        if code > 0:
            half, number = self.halves[code > UPDATE], code % UPDATE
            read = [np.broadcast_to(0, shape) for shape in half.plan.inputs]
            for place, array in self._batch(leaves, begin).items() if half is self.halves[0] else ():
                read[place] = array
            error = half.call.failure(number, read)
            if isinstance(error, Missed):
                return None
            raise error
        return int(code)

    def _alone(self, *arguments: Any) -> int:
        """Call C in a thread that has no team before and after."""
        try:
            return int(self._function(*arguments))
        finally:
            load.end_team()


def _arrays(call: Call) -> int:
    """Count what a function is passed the addresses of."""
    return len(call.interface.inputs) + len(call.interface.outputs) + len(call.interface.data)
