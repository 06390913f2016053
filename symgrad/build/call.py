"""The call: from the arguments of a Python call to C and back.

A call of a `Function` is in one of seven states; each steps aside for the next where it cannot serve the arguments:

1. *traced through* (`Function._inline`): inside of another trace nothing is called; the function is traced there.
2. *in C* (`Call.short`): plain arrays that C can read as they lie. C checks them and calls; Python makes the results.
3. *in Python* (`Call.in_python`): the same checks in Python: of numbers among the arguments, or of much workspace.
4. *converted* (`Call.flat`): a compilation was looked for; what C cannot read is copied.
5. *interpreted* (`Call.interpreted`): there is no compiler; NumPy evaluates the program.
6. *bound* (`bound.bound`): arrays were checked once, and are passed by address.
7. *callback* (`bound.callback`): SciPy calls C, without Python.

What C is called with at some extents is a `Plan`, which all states but the first and the fifth share: the shapes that
the arguments must have, those of the results, the workspace, and the words that C compares arguments with. An
`Interface` is what a call must know of a compiled function; its loops and its C may be gone by then, or never made.
"""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from symgrad.build.integers import Integers
from symgrad.build.load import Library, ffi
from symgrad.build.pool import BLOCK_LEAST, pooled
from symgrad.build.threads import changes, threads
from symgrad.errors import FAILED, IndexOutOfBounds, LinAlgError, Line, Missed, SymgradError
from symgrad.ir.evaluate import evaluate, in_time, stray_index, until
from symgrad.ir.index.shapes import Shape, bare, is_static
from symgrad.ir.program import Program
from symgrad.ir.requirements import REMEMBERED, require, unmet
from symgrad.ir.saved.dims import dim_to_json, evaluated
from symgrad.ops.declare.spelling import stored
from symgrad.options import Options
from symgrad.render.source import OBJECTS, OTHER, Source
from symgrad.trace import optree
from symgrad.trace.outside import plain
from symgrad.trace.signature import Signature, leaf_spec
from symgrad.trace.structures import NAMESPACE, key_orders

if TYPE_CHECKING:
    from queue import SimpleQueue

    from symgrad.loops.program import LoopProgram

Arrays = list[np.ndarray[Any, Any]]


# -- what is called


class Port(NamedTuple):
    """An array that is passed: an input or an output."""

    dtype: np.dtype[Any]
    shape: Shape
    fortran: bool = False


class FailedCheck(NamedTuple):
    """What a failed check is about: an index of an extent, as `dim_to_json` writes it, or `what`; the user's line.

    Of a guard `what` is its number.
    """

    extent: Any
    line: Line | None
    what: str | int = ""


@dataclass(frozen=True)
class Interface:
    """How a compiled function is called.

    Attributes:
        entry: its name in C.
        prototype: its declaration, as cffi's cdef wants it.
        inputs, outputs: the arrays, in the order of its parameters.
        data: constants that are passed, after the outputs.
        dims: the names of the unknown extents that are passed, after the constants.
        workspace: bytes of scratch memory, as `ir.dims.evaluated` reads it, of the extents and of ``threads``.
        threaded: some loop shares its iterations out among threads.
        checks: what it says when it returns 1, 2, ...
        work: the operations of a call, as `workspace` is written.
        polled: its last parameter points to a flag that makes it return early.
    """

    entry: str
    prototype: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    data: tuple[np.ndarray[Any, Any], ...]
    dims: tuple[str, ...]
    workspace: Any
    threaded: bool
    checks: tuple[FailedCheck, ...]
    work: Any
    polled: bool


def interface(program: Program, loops: LoopProgram, source: Source) -> Interface:
    """Describe a function that was rendered."""
    from symgrad.render.render import passed_constants

    return Interface(
        source.entry, source.prototype, *ports(program), tuple(passed_constants(loops)), open_extents(program),
        dim_to_json(loops.workspace), loops.threaded,
        tuple([FailedCheck(dim_to_json(check.extent), check.line, check.what) for check in loops.checks]),
        dim_to_json(loops.work), loops.polled,
    )


def ports(program: Program) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
    """List a program's inputs and outputs, without those that stand in the memory of inputs."""
    inputs = tuple([Port(n.dtype, n.shape, n.param("name") in program.fortran) for n in program.inputs])
    donated = {place for _, place in program.donated}
    return inputs, tuple([Port(n.dtype, n.shape) for k, n in enumerate(program.results) if k not in donated])


def open_extents(program: Program) -> tuple[str, ...]:
    """Name the unknown extents, in the order of the inputs that have them."""
    return tuple([dim.name for dim in bare([node.shape for node in program.inputs])])


PATIENCE = 0.1
"""Seconds after which a wait is begun anew: some systems interrupt no wait."""

_jobs: SimpleQueue[WorkerCall] | None = None  # what the worker takes; None: there is no worker yet
_latest: WorkerCall | None = None


class WorkerCall:
    """One call of a C function, done by the worker or by nobody."""

    def __init__(self, function: Callable[..., int], arguments: tuple[Any, ...]) -> None:
        self.function, self.arguments = function, arguments
        self.stop = ffi.new("int32_t *")
        self.claim, self.done = threading.Lock(), threading.Lock()
        self.done.acquire()
        self.finished = False
        self.code = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        """Make the call, unless it was given up before."""
        if not self.claim.acquire(blocking=False):
            return
        try:
            self.code = self.function(*self.arguments, self.stop)
        except BaseException as error:  # noqa: BLE001 - it goes on in the thread that waits
            self.error = error
        self.finished = True
        self.done.release()

    def end(self) -> None:
        """Stop it, and wait until the worker has left the function: it writes into the caller's arrays."""
        self.stop[0] = 1
        if self.claim.acquire(blocking=False):  # the worker had not begun, and will not
            self.finished = True
        while not self.finished:
            with suppress(KeyboardInterrupt):  # of an impatient user: what must end is ending
                self.done.acquire(timeout=PATIENCE)

    def result(self) -> int:
        """Wait for it; what a signal's handler raises, such as KeyboardInterrupt, ends the wait, as `within` does."""
        while not self.done.acquire(timeout=PATIENCE):
            in_time()
        if self.error is not None:
            raise self.error
        return self.code


def interruptible(function: Callable[..., int], *arguments: Any) -> int:
    """Call a C function whose last parameter, which is not among `arguments`, points to the flag that stops it.

    From other threads than the main one, which no signal interrupts, and while the worker is busy (a signal's handler
    may call functions too) it is called directly.
    """
    global _jobs, _latest  # noqa: PLW0603 - the worker is the process's
    main = threading.get_ident() == threading.main_thread().ident
    if not (main or until.get() < math.inf) or sys.is_finalizing():
        return function(*arguments, ffi.NULL)
    if _jobs is None:
        from queue import SimpleQueue

        jobs: SimpleQueue[WorkerCall] = SimpleQueue()
        try:
            threading.Thread(target=_run_jobs, args=(jobs,), name="symgrad", daemon=True).start()
        except RuntimeError:  # the interpreter is shutting down, or the system has no thread left
            return function(*arguments, ffi.NULL)
        _jobs = jobs
    if _latest is not None and not _latest.finished:
        return function(*arguments, ffi.NULL)
    job = WorkerCall(function, arguments)
    try:
        _latest = job
        _jobs.put(job)
        return job.result()
    except BaseException:
        job.end()
        raise
    finally:
        job.arguments = ()  # the worker may hold the job until the next one


def _run_jobs(jobs: SimpleQueue[WorkerCall]) -> None:
    while True:
        jobs.get().run()


def _after_fork() -> None:
    global _jobs, _latest  # noqa: PLW0603 - see above: threads do not live on in a child
    _jobs = _latest = None


os.register_at_fork(after_in_child=_after_fork)


SHORT_WORKSPACE = 1 << 14
"""Bytes of workspace that the call may put on the stack."""

WORD = 8
"""Bytes of a pointer: places in an array object are counted in them."""

TYPE, DATA, RANK, SHAPE, DTYPE, FLAGS = 1, 2, 3, 4, 7, 8
COUNT, ITEMS = 2, 3

STILL = np.zeros(1, np.intp)
"""A counter that never moves."""


def _stack_workspace(interface: Interface) -> int | None:
    """Return the most bytes of workspace that C puts on the stack; None for a function that is not called by objects.

    Its arrays lie row by row, and where the workspace does not depend on the call, there is little of it.
    """
    if any(port.fortran for port in (*interface.inputs, *interface.outputs)) or not is_readable():
        return None
    if interface.dims or interface.threaded or interface.polled:
        return 0 if interface.workspace == 0 else SHORT_WORKSPACE
    size = evaluated(interface.workspace, {"threads": 1})
    return size if size <= SHORT_WORKSPACE else None


def with_checker(source: Source, interface: Interface) -> Source:
    """Let a function be called with addresses of arrays, and with Python's objects where that can be."""
    # With Jinja, which a process does without that compiles nothing.
    from symgrad.render.callers import with_addresses, with_call

    ranks, outputs, data = [len(p.shape) for p in interface.inputs], len(interface.outputs), len(interface.data)
    source = with_addresses(source, len(ranks) + outputs + data, len(interface.dims), polled=interface.polled)
    workspace = _stack_workspace(interface)
    if workspace is None:
        return source
    return with_call(source, ranks, outputs, data, len(interface.dims), workspace, polled=interface.polled)


def checker(interface: Interface, library: Library) -> Callable[[int, int, Any], int] | None:
    """Find the call whose checks are compiled; None where there is none.

    It is ``check(id(arguments), id(results), words)``, see templates/objects.c.jinja.
    """
    if _stack_workspace(interface) is None:
        return None
    many = library.function is not library.entry
    kind = ffi.typeof(f"int32_t(*)(intptr_t, intptr_t, intptr_t *{', void **' * many})")
    try:
        function: Any = library.handle.load_function(kind, interface.entry + OBJECTS)
    except AttributeError:
        return None
    if not many:
        return function  # type: ignore[no-any-return]
    count = len(interface.inputs) + len(interface.outputs) + len(interface.data)
    place, addresses = ffi.new_allocator(should_clear_after_alloc=False), ffi.typeof(f"void *[{count}]")
    return lambda arguments, results, words: function(arguments, results, words, place(addresses))


@cache
def is_readable() -> bool:
    """Whether this Python and this NumPy hold arrays in memory as the generated C reads them."""
    if sys.implementation.name != "cpython" or not sys.maxsize > 1 << 32:
        return False
    items = (is_readable, 1.5, "x")
    words = ffi.cast("intptr_t *", id(items))
    if words[TYPE] != id(tuple) or words[COUNT] != 3 or [words[ITEMS + k] for k in range(3)] != [*map(id, items)]:
        return False
    words = ffi.cast("intptr_t *", id(listed := [*items]))
    if words[TYPE] != id(list) or words[COUNT] != 3 or words[ITEMS] == id(items):
        return False
    held = ffi.cast("intptr_t *", words[ITEMS])
    if [held[k] for k in range(3)] != [*map(id, listed)]:
        return False
    samples: list[Any] = [np.zeros(()), np.arange(6.0).reshape(2, 3), np.arange(8, dtype=np.int32)[::2]]
    for x in (*samples, np.asfortranarray(np.ones((4, 5), np.float32))):
        words = ffi.cast("intptr_t *", id(x))
        known = {TYPE: id(np.ndarray), DATA: x.__array_interface__["data"][0], DTYPE: id(x.dtype)}
        rank, flags = [ffi.cast("int32_t *", id(x) + WORD * place)[0] for place in (RANK, FLAGS)]
        if any(words[at] != word for at, word in known.items()) or rank != x.ndim or (flags ^ x.flags.num) & 0xFFFF:
            return False
        shape = ffi.cast("intptr_t *", words[SHAPE])
        if any(shape[d] != dim for d, dim in enumerate(x.shape)):
            return False
    return True


# -- the call


MISS: Any = object()
"""What a call answers, and has called nothing, where its arguments are not what it was made for."""

CONTIGUOUS_AND_ALIGNED = 0x101
"""NumPy's flag bits C_CONTIGUOUS and ALIGNED."""

LONG = 200_000_000
"""Operations of a call that may take 0.2 s, and so runs where Ctrl-C can end it. Chosen: products do as
many in 5 ms, and a thread with a team of its own costs a step of a convolutional net, 1.7 ms, 7 % more."""



@dataclass(slots=True)
class Plan:
    """How C is called at some extents, with some number of threads.

    Attributes:
        inputs, outputs: the shapes of arguments and results.
        words: what C compares arguments with; None where it cannot check them: much workspace, a long call.
        function: what is called: a long call runs where Ctrl-C can end it.
        passed: constants, extents and the number of threads, which follow the arrays.
        workspace: bytes of scratch memory, whose pointer follows those.
        last: what follows that.
        large: whether results are so large that their memory is used again.
        empty: makes results, as `np.empty` does.
    """

    inputs: list[tuple[int, ...]]
    outputs: list[tuple[int, ...]]
    words: Any
    function: Callable[..., int] = int
    passed: tuple[Any, ...] = ()
    workspace: int = 0
    last: tuple[Any, ...] = ()
    large: bool = False
    empty: Any = np.empty

    def stand_ins(self) -> Arrays:
        """Return arrays of the arguments' shapes, of zeros that take no memory."""
        return [np.broadcast_to(0, shape) for shape in self.inputs]


class Call:
    """How one compilation is called.

    Attributes:
        unmet: lists the open extents, among some, that the program cannot be called with.
        is_compiled: whether there is C.
        interface, library: what C is passed, and where it is.
    """

    interface: Interface
    library: Library

    def __init__(
        self, program: Program, interface: Interface | None, library: Library | None, signature: Signature,
        options: Options, finish: Callable[[Any], Any], alone: Container[tuple[int, ...]] = (),
        outside: Callable[[], list[Any]] | None = None,
    ) -> None:
        """Make the call of a compiled function, or without a compiler of a program.

        `finish` makes what is returned of new arrays; what is `alone`, extents that have a compilation of their own,
        is not called with here; `outside` reads the arrays that follow the arguments.
        """
        self.outside = outside
        if outside is not None:
            signature = signature.followed_by(program.inputs[len(signature.specs) :], program.fortran)
        self.program, self.signature, self.options, self.finish = program, signature, options, finish
        self.unmet, self.is_compiled, self.alone = unmet(program), False, alone
        self.integers = Integers(program, signature)
        self._arguments = len(signature.positions)
        if interface is None or library is None:
            return
        self.is_compiled, self.interface, self.library = True, interface, library
        self._memory = allocator(options)
        self._inputs, self._outputs = [
            [ffi.typeof(f"{stored(port.dtype)}[]") for port in ports] for ports in (interface.inputs, interface.outputs)
        ]
        numbers = [spec.weak or (None if spec.shape or spec.array else np.float64) for spec in signature.specs]
        self._wanted: list[tuple[Any, Any, Any]] = [
            (number or np.ndarray, port.dtype, None if number else kind)
            for port, number, kind in zip(interface.inputs, numbers, self._inputs, strict=True)
        ]
        self._dtypes = [port.dtype for port in interface.outputs]
        self._constants = [ffi.from_buffer(f"{stored(d.dtype)}[]", d) for d in interface.data]
        axes = [(str(d), k, axis) for k, port in enumerate(interface.inputs) for axis, d in enumerate(port.shape)]
        self._places = [next((k, axis) for d, k, axis in axes if d == name) for name in interface.dims]
        self._shapes = [
            [p.shape if is_static(p.shape) else [dim_to_json(d) for d in p.shape] for p in ports]
            for ports in (interface.inputs, interface.outputs)
        ]
        self._plans: dict[tuple[int, ...], Plan | None] = {}
        self._large: Plan | None = None
        self._check, self._flatten = checker(interface, library), flattening(signature.tree, outside)
        self._known = [*[id(port.dtype) for port in interface.inputs], *[d.ctypes.data for d in interface.data]]
        self._only = None
        if not interface.dims and not interface.threaded:
            self._only = plan = self._planned((0,))
            plan.empty = pooled(plan.outputs, self._dtypes)

    def short(self) -> Callable[[tuple[Any, ...]], Any] | None:
        """Return the call of a tuple of positional arguments, in C or in Python, or None where there is none.

        It answers `MISS` where it needs a conversion, or another compilation. It holds the call, and is not held by it.
        """
        signature = self.signature
        # Where there are positional arguments alone, whose arrays lie row by row.
        if not self.is_compiled or signature.statics or signature.tree.children()[1].num_leaves or any(
            s.fortran or not (s.shape or s.weak or s.array or s.dtype == np.float64) for s in signature.specs
        ):
            return None
        numbers = any(kind is None for *_, kind in self._wanted)
        if self._check is None or numbers or (self._only is not None and self._only.words is None):
            return self.in_python
        return self._in_c(self._check)

    # -- in C

    def _in_c(self, check: Callable[[int, int, Any], int]) -> Callable[[tuple[Any, ...]], Any]:
        """Make the call with arrays that C checks: at the last call's size first, then at its own."""
        last = self._only or Plan([], [], ffi.new("intptr_t[]", [STILL.ctypes.data, -1]))  # which no arguments fit
        flatten, finish, dtypes = self._flatten, self.finish, self._dtypes
        misses = {OTHER, *[code for code, check in enumerate(self.interface.checks, 1) if type(check.what) is int]}

        def in_c(args: tuple[Any, ...]) -> Any:
            nonlocal last
            leaves = args if flatten is None else flatten(args)
            if leaves is None:
                return MISS
            plan = last
            while True:
                results = [*map(plan.empty, plan.outputs, dtypes)]
                code = check(id(leaves), id(results), plan.words)
                if not code:
                    last = plan  # not before there is memory for its results: or each later call would fail, too
                    return finish(results)
                if code not in misses:
                    raise self.failure(code, leaves)
                found = None if self._only or code != OTHER else self._plan(leaves)
                if found is None or found is plan:
                    return MISS
                if found.words is None:
                    return self.in_python(args)
                plan = found

        return in_c

    # -- in Python

    def in_python(self, args: tuple[Any, ...]) -> Any:
        """Call with arrays and numbers that C can read as they are, each checked exactly."""
        leaves = args if self._flatten is None else self._flatten(args)
        if leaves is None or len(leaves) != len(self._wanted):
            return MISS
        plan = self._only or self._plan(leaves)
        if plan is None:
            return MISS
        pointers, from_buffer, least, most = [], ffi.from_buffer, self.integers.least, self.integers.most
        for leaf, shape, (of, dtype, kind) in zip(leaves, plan.inputs, self._wanted):  # noqa: B905 - strict costs time
            if type(leaf) is not of:
                return MISS
            if kind is None:
                if of is int and not least <= leaf <= most:
                    return MISS
                pointers.append((leaf,))  # cffi copies a number to where C can read it
            elif (
                leaf.dtype is not dtype or leaf.shape != shape
                or leaf.flags.num & CONTIGUOUS_AND_ALIGNED != CONTIGUOUS_AND_ALIGNED
            ):
                return MISS
            else:
                pointers.append(from_buffer(kind, leaf))
        try:
            return self.finish(self._called(plan, pointers, leaves))
        except Missed:
            return MISS

    def _called(self, plan: Plan, pointers: Sequence[Any], leaves: Sequence[Any]) -> Arrays:
        from_buffer = ffi.from_buffer
        memory = self._memory(plan.workspace) if plan.workspace else None
        scratch = ffi.NULL if memory is None else from_buffer("char[]", memory)
        results = [*map(plan.empty, plan.outputs, self._dtypes)]
        code = plan.function(*pointers, *map(from_buffer, self._outputs, results), *plan.passed, scratch, *plan.last)
        if code:
            raise self.failure(code, leaves)
        if SPARE_LEAST <= plan.workspace <= SPARE_MOST:
            SPARE[:] = [memory]
        return results

    def failure(self, code: int, leaves: Sequence[Any]) -> SymgradError | Missed:
        """Return the error of a failed check: which index, or which matrix, failed; what is NaN; which guard."""
        check = self.interface.checks[code - 1]
        if type(check.what) is int:
            return Missed(check.what)
        if check.what:
            return FAILED.get(str(check.what), LinAlgError)(str(check.what), line=check.line)
        pairs = [zip(p.shape, np.shape(a), strict=True) for p, a in zip(self.interface.inputs, leaves, strict=True)]
        extent = evaluated(check.extent, {str(dim): size for each in pairs for dim, size in each})
        found = stray_index(self.program, [np.asarray(leaf) for leaf in leaves], check.line)
        what = ""
        if found is not None:
            (index, place), origin = found
            what = f": {index}" + f" at {[*place]}" * bool(place)
            if origin is not None:
                node, (own, place) = origin
                name = f"{self.signature.paths[self.program.inputs.index(node)]}{[*place] if place else ''}"
                what += f", which is {name}" if own == index else f", made of {name}, which is {own}"
        return IndexOutOfBounds(f"an index is out of bounds for an axis with size {extent}{what}", line=check.line)

    # -- converted, or interpreted

    def flat(self, leaves: Sequence[Any]) -> Arrays:
        """Call with whatever fits the signature, which C reads copies of where it must: without a structure."""
        arrays = self.arrays(leaves)
        if not self.is_compiled:
            return self.interpreted(arrays)
        plan = self.planned(arrays)
        if until.get() < math.inf and self.interface.polled:
            plan = replace(plan, function=partial(interruptible, self.library.function), last=())
        pointers = [
            ffi.from_buffer(kind, np.asarray(array, order="F").T if port.fortran else np.asarray(array, order="C"))
            for array, kind, port in zip(arrays, self._inputs, self.interface.inputs, strict=True)
        ]
        return self._called(plan, pointers, arrays)

    def in_place(self, leaves: Sequence[Any]) -> Arrays:
        """Call with arrays that C may write into, to the end: return them all, numbers as arrays of their own."""
        arrays = self.arrays(leaves)
        plan = self.planned(arrays)
        plan = replace(plan, function=self.library.function, last=(ffi.NULL,) * self.interface.polled)
        self._called(plan, [*map(ffi.from_buffer, self._inputs, arrays)], arrays)
        return arrays

    def arrays(self, leaves: Sequence[Any]) -> Arrays:
        """Return what C reads, the arguments and the arrays from outside as they are now: never a view to write to.

        They are contiguous, aligned, native arrays of the signature's dtypes; those it says lie column by column do so.
        """
        arrays, least, most, large = [], self.integers.least, self.integers.most, False
        for leaf, want, path in zip([*leaves, *self.read()], self.signature.specs, self.signature.paths, strict=True):
            if want.weak is int and not least <= leaf <= most:
                large = bool(leaf_spec(leaf, path))  # which refuses what 64 bits do not hold
            array = np.asarray(leaf, want.dtype)
            flags = array.flags
            if not ((flags.fnc if want.fortran else flags.c_contiguous) and flags.aligned):
                array = np.array(array, want.dtype, order="C")
            arrays.append(array)
        if large:
            self.integers.check(leaves)
        return arrays

    def read(self) -> Arrays:
        """Return the arrays from outside, as they are now."""
        return [] if self.outside is None else [*map(plain, self.outside())]

    def copies(self) -> bool:
        """Whether C reads a copy of some array from outside, which lies otherwise."""
        wanted = self.signature.specs[self._arguments :]
        return any(
            a.dtype is not one.dtype or not a.flags.aligned
            or not (a.flags.fnc if one.fortran else a.flags.c_contiguous)
            for a, one in zip(self.read(), wanted, strict=True)
        )

    def interpreted(self, arrays: Sequence[np.ndarray[Any, Any]]) -> Arrays:
        """Evaluate the program by NumPy."""
        require(self.program, arrays)
        found = zip(self.program.outputs, evaluate(self.program, arrays), strict=True)
        return [value for node, value in found if not node.op.decides]

    # -- plans

    def planned(self, arrays: Sequence[np.ndarray[Any, Any]]) -> Plan:
        """Return how C is called with arrays of the inputs' dtypes and ranks; the program may refuse their extents."""
        plan = self._only or self._plan(arrays)
        if plan is None or plan.inputs != [a.shape for a in arrays]:
            require(self.program, arrays)
            plan = self._planned(self._key(arrays) or ())
        return plan

    def _key(self, leaves: Sequence[Any]) -> tuple[int, ...] | None:
        """Return how often the number of threads has changed, and the open extents; None where no array has them."""
        key = [changes.item() if self.interface.threaded else 0]
        for k, axis in self._places:
            leaf = leaves[k] if k < len(leaves) else None
            if type(leaf) is not np.ndarray or leaf.ndim <= axis:
                return None
            key.append(leaf.shape[axis])
        return tuple(key)

    def _plan(self, leaves: Sequence[Any]) -> Plan | None:
        """Return how C is called with arguments that are what the plan says; None for extents that are not served."""
        key = self._key(leaves)
        if key is None:
            return None
        plan: Plan | None = self._plans.get(key)
        if plan is None and key not in self._plans:
            plan = self._planned(key)
            extents = tuple([d for shape in plan.inputs[: self._arguments] for d in shape])
            if self._places and (extents in self.alone or self.unmet(self._sizes(key))):
                plan = None
            if len(self._plans) > REMEMBERED:
                self._plans.clear()
            self._plans[key] = plan
        if plan is None:
            return None
        if plan.large and plan is not self._large:  # of the last size alone: more memory would be missed elsewhere
            if self._large is not None:
                self._large.empty = np.empty
            plan.empty, self._large = pooled(plan.outputs, self._dtypes), plan
        return plan

    def _sizes(self, key: tuple[int, ...]) -> dict[str, int]:
        return dict(zip(self.interface.dims, key[1:], strict=True))

    def _planned(self, key: tuple[int, ...]) -> Plan:
        """Plan the call at some extents, with the threads that it may use now."""
        interface, sizes = self.interface, self._sizes(key)
        inputs, outputs = [
            [s if type(s) is tuple else tuple([evaluated(d, sizes) for d in s]) for s in shapes]
            for shapes in self._shapes
        ]
        sizes["threads"] = count = threads(self.options) if interface.threaded else 1
        workspace = evaluated(interface.workspace, sizes)
        long = interface.polled and evaluated(interface.work, sizes) >= LONG
        words = None
        if self._check is not None and not long and workspace <= (0 if self.options.verifies else SHORT_WORKSPACE):
            counter = changes if interface.threaded else STILL
            first = [counter.ctypes.data, key[0], id(np.ndarray), count, *key[1:]]
            words = ffi.new("intptr_t[]", [*first, *self._known, *[d for shape in inputs for d in shape]])
        return Plan(
            inputs, outputs, words,
            partial(interruptible, self.library.function) if long else self.library.function,
            (*self._constants, *key[1:], count), workspace, (ffi.NULL,) * (interface.polled and not long),
            any(prod(s) * dtype.itemsize >= BLOCK_LEAST for s, dtype in zip(outputs, self._dtypes, strict=True)),
        )


def flattening(tree: Any, outside: Callable[[], list[Any]] | None) -> Any:
    """Make what flattens positional arguments of one structure, and adds the arrays from outside; None for nothing."""
    if all(child.is_leaf() for child in tree.children()[0].children()):
        return None if outside is None else lambda args: (*args, *outside())
    flatten: Any = optree.tree_flatten
    nothing: dict[str, Any] = {}
    orders = key_orders(tree)
    order = orders(optree.tree_unflatten(tree, range(tree.num_leaves))) if orders else ()

    def flat(args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        leaves, found = flatten((args, nothing), namespace=NAMESPACE)
        if found != tree or (orders and orders((args, nothing)) != order):
            return None
        return tuple(leaves) if outside is None else (*leaves, *outside())

    return flat


def allocator(options: Options) -> Callable[[int], np.ndarray[Any, Any]]:
    """Return what makes a workspace of so many bytes: uninitialized, or all ones, which is NaN, where one verifies."""
    return partial(np.full, fill_value=255, dtype=np.uint8) if options.verifies else _uninitialized


SPARE: list[Any] = []
"""The workspace of the last long call, for the next one, whichever it is: new pages are cleared by the system first,
which takes a fifth of the time of an LSTM's gradient. One at a time."""

SPARE_LEAST, SPARE_MOST = 1 << 20, 1 << 28
"""Bytes of a workspace that is kept. Chosen."""


def _uninitialized(size: int) -> np.ndarray[Any, Any]:
    try:
        last = SPARE.pop() if size >= SPARE_LEAST else None
    except IndexError:
        last = None
    return last if last is not None and size <= last.size <= 4 * size else np.empty(size, np.uint8)
