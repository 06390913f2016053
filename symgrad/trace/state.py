"""The trace that is active in this thread."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import combinations
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from symgrad.ir.evaluate import evaluate
from symgrad.ir.index.extents import meeting
from symgrad.ir.index.shapes import Dim, Shape, simplified, smaller
from symgrad.ir.node import Graph, Node
from symgrad.ir.program import Program
from symgrad.ops.declare import leaves
from symgrad.ops.declare.forms import OPS
from symgrad.options import Options
from symgrad.trace.lines import in_scipy, is_user_code, passes_on, shortened, user_line

if TYPE_CHECKING:
    from symgrad.trace.control.branches import Branches

_F = TypeVar("_F", bound="Callable[..., Any]")
P = ParamSpec("P")
R = TypeVar("R")


class Trace:
    """One run of a user's function on tracers: its table of nodes, its thread, whether it still runs."""

    __slots__ = (
        "__weakref__", "alive", "branches", "differentiated", "function", "graph", "labels", "options", "signs",
        "thread",
    )

    def __init__(
        self, graph: Graph, function: str, options: Options = Options(),  # noqa: B008 - frozen
        branches: Branches | None = None,
    ) -> None:
        self.graph, self.function, self.options = graph, function, options
        self.branches = branches
        self.thread = threading.get_ident()
        self.alive = True
        self.differentiated: tuple[Program, Program] | None = None  # what was first, as traced and as stable
        self.labels: dict[tuple[Node, ...], tuple[str, ...]] = {}  # names for what a derivative gave
        self.signs: dict[Node, frozenset[str]] = {}  # of values that somebody asked for, see transforms/derive/poles.py

    def require(self, index: Any, extent: Any, otherwise: str = "", axis: int = 0) -> None:
        """Note that ``0 <= index < extent`` must hold when the program is called, and the user's line that needs it."""
        self.graph.require(index, extent, axis, self.graph.line or user_line(), otherwise)

    def outcome(self, node: Node) -> bool | int | None:
        """Return what a boolean or an integer comes to at the call's arguments, guarded; None where there are none."""
        return None if self.branches is None else self.branches.outcome(self, node)

    def seek_loop(self, frame: FrameType) -> None:
        """Trace again where a `for` in a frame asks `range` for plain numbers, and may count by a traced one."""
        if self.branches is not None and self.branches.lengths is not None and self.options.roll:
            self.branches.lengths.seek(frame)

    def known(self, node: Node) -> Any:
        """Return the value of what is computed of arrays from outside alone, which are compared as a whole from now on.

        None of anything else: it has no value while tracing.
        """
        reads = self.graph.outside
        if reads is None:
            return None
        values, seen, stack = reads.values(), {node}, [node]
        while stack:
            each = stack.pop()
            if each.op in _UNKNOWN and each not in values:
                return None
            new = [i for i in each.inputs if i not in seen]
            seen.update(new)
            stack += new
        inputs = tuple([n for n in values if n in seen])
        reads.compare(inputs)
        return evaluate(Program(inputs, (node,)), [values[n] for n in inputs])[0]

    def greater(
        self, one: Dim, other: Dim, asks: str, *, strictly: bool = True, unless: bool | None = None
    ) -> bool | None:
        """Whether an extent is greater than another, which something `asks`, where all open ones are large.

        Calls where it is otherwise are compiled apart; where they are equal, too, if it is to be `strictly` greater.
        Where it depends on which of them is larger, it is as in `unless`; None if that is not said.
        """
        difference: Any = one - other
        at = dict.fromkeys(difference.free_symbols, _LARGE)
        value, *more = [difference.subs(at | one_more) for one_more in ({}, *[{s: 2 * _LARGE} for s in at])]
        depends = value == 0 or any((each - value) * value < 0 for each in more)
        if depends and unless is None:
            return None
        large: bool = bool(unless if depends else value > 0)
        left = difference if large else -difference
        taken = f"{one} {('>' if strictly else '>=') if large else ('<=' if strictly else '<')} {other}"
        otherwise = f"{asks} goes another way unless {taken}: {_APART}"
        self.require(0, simplified(left + int(strictly != large)), otherwise)
        return large

    def fits(self, extent: Any) -> None:
        """Require that an extent fits in 64 bits, where that is not certain: elsewhere it is a number of Python's."""
        import sympy

        powers, products, numbers = [extent.expand().atoms(kind) for kind in (sympy.Pow, sympy.Mul, sympy.Integer)]
        if (
            any(power.exp > 1 for power in powers) or any(len(product.free_symbols) > len("nm") for product in products)
            or any(abs(number) >= 1 << 20 for number in numbers)
        ):
            self.require(simplified(extent + _LONG // 2), _LONG - 1, f"{extent} does not fit in 64 bits: {_APART}")

    def equal(self, one: Dim, other: Dim, otherwise: str) -> bool:
        """Whether two extents are equal. Where calls differ in that they are taken not to be, which each call checks.

        Calls where they are equal are compiled apart; `otherwise` is what to say of one that cannot be.
        """
        difference = simplified(one - other)
        if type(difference) is int:
            return difference == 0
        if not getattr(difference, "is_nonzero", False):
            import sympy

            apart = f"{otherwise}: {_APART}"
            self.require(0, sympy.Max(difference, -difference), apart)
        return False

    def meet(self, one: Dim, other: Dim) -> Dim | None:
        """Return the smaller one of two extents that are equal in all calls but few, which are compiled apart.

        None where they are not.
        """
        found = None if type(one) is type(other) is int else meeting(one, other)
        if found is None:
            return None
        for symbol, least in found.least.items():
            if least:
                unless = f"the extents {one} and {other} differ unless {symbol} >= {least}: {_APART}"
                self.require(0, simplified(symbol - least + 1), unless)
        if found.rest is not None:
            of, by = [part if part.is_Atom else f"({part})" for part in found.rest.args]
            self.require(found.rest, 1, f"the extents {one} and {other} differ unless {of} % {by} == 0: {_APART}")
        return smaller(one, other)

    def agreed(self, nodes: tuple[Node, ...]) -> tuple[Node, ...] | None:
        """Cut arrays so that extents which are equal in all calls but few are the same; None where there are none."""
        cut: dict[Any, Any] = {}
        for one, other in combinations(dict.fromkeys([dim for node in nodes for dim in node.shape]), 2):
            low = None if one in cut or other in cut else self.meet(one, other)
            cut |= {dim: low for dim in (one, other) if low is not None and dim != low and smaller(dim, low) == low}
        return tuple([self.cut(node, tuple([cut.get(d, d) for d in node.shape])) for node in nodes]) if cut else None

    def cut(self, node: Node, shape: Shape) -> Node:
        """Take the first elements of an array along each axis, so many as a shape says."""
        if node.shape == shape:
            return node
        index = tuple([(0, dim, 1) for dim in shape])
        return self.graph.node(OPS["slice"], (node,), (index,), shape, node.dtype, self.graph.line or user_line())


_APART = "it needs a compilation of its own"
_LARGE = 2**40
_LONG = 2**63

MARK = "__symgrad_conditions__"
"""A name that NumPy's Python sees while it runs on traced arrays: of what says to what a condition on them comes."""

_UNKNOWN = frozenset({leaves.input_, leaves.extent})


class _Stack(threading.local):
    def __init__(self) -> None:
        self.traces: list[Trace] = []
        self.overrides: list[Any] = []
        self.scopes: list[str] = []
        self.functions: dict[Any, Any] = {}
        self.outside: list[Any] = []
        self.entered = 0
        self.heeded: list[tuple[dict[str, None], bool]] = []
        self.scipy = 0
        self.given: dict[int, Any] = {}
        self.kept: list[Any] = []


active = _Stack()
"""The traces of this thread, the innermost last; the overrides of rules and the named scopes in force, and what stands
for functions with an overridden rule; what tells the blocks of overrides apart that stand outside of any trace; how
many traces and such blocks there are, how many calls of SciPy's Python run on traced values; what is given for
arrays from outside, by the identities of their stand-ins; and what caches gave."""


def is_traced_code(filename: str) -> bool:
    """Whether code of a file is traced: the user's, and SciPy's Python while it runs on traced values."""
    return is_user_code(filename) or (active.scipy > 0 and in_scipy(filename))


class Watch:
    """A trace function of Python's that looks where rounds of the user's loops begin."""

    def __init__(self, called: Callable[[FrameType, str, Any], Any]) -> None:
        self.called = called
        self.idle: dict[int, CodeType] = {}  # of which nothing is asked, by their identity

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        """Look at a frame that begins."""
        code = frame.f_code
        if id(code) in self.idle:
            return None
        found = self.called(frame, event, arg)
        if found is None:
            self.idle[id(code)] = code
        return found


def unwatched(function: _F) -> _F:
    """Run a function of symgrad's that calls none of the user's without Python's tracing, which takes as long again."""
    if sys.version_info >= (3, 12):
        return function  # Python instruments code anew whenever it is switched

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        watch: Any = sys.gettrace()
        if type(watch) is not Watch:
            return function(*args, **kwargs)
        sys.settrace(None)
        try:
            return function(*args, **kwargs)
        finally:
            sys.settrace(watch)

    return called  # type: ignore[return-value]


def current() -> Trace | None:
    """Return the trace that runs in this thread, or None."""
    return active.traces[-1] if active.traces else None


def shows_frames(options: Options) -> bool:
    """Whether an error keeps symgrad's frames: in a trace, which is in a call that will leave them out; to verify."""
    return bool(active.traces) or options.verifies


def public(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a function that users call: what it raises ends in their line, with one frame of symgrad's before."""
    return functools.wraps(function)(trimmed(function))


def trimmed(function: Callable[P, R]) -> Callable[P, R]:
    """Do what `public` does for a function that is made at each call, which needs no name: that takes as long again."""

    @passes_on
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            if shows_frames(Options()):
                raise
            __tracebackhide__ = True  # IPython and pytest go past this frame
            raise shortened(error)  # noqa: B904 - it is the same

    return call  # type: ignore[no-any-return]


@contextmanager
def during(held: Any, **values: Any) -> Iterator[None]:
    """Let attributes have other values for the while."""
    before = {name: getattr(held, name) for name in values}
    try:
        for name, value in values.items():
            setattr(held, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(held, name, value)


def beside() -> AbstractContextManager[None]:
    """Run Python beside the traces of this thread, as if there were none."""
    return during(active, traces=[])


@contextmanager
def tracing(trace: Trace, *, ends: bool = False) -> Iterator[Trace]:
    """Make a trace this thread's active one; with `ends`, its tracers are dead afterwards."""
    active.traces.append(trace)
    active.entered += 1
    try:
        yield trace
    finally:
        active.traces.pop()
        active.entered -= 1
        if ends:
            trace.alive = False


@contextmanager
def passing(trace: Trace) -> Iterator[Trace]:
    """Make a trace the active one for what a pass records, where no override holds: that is of the user's ops."""
    with during(active, overrides=[], functions={}), tracing(trace):
        yield trace


@contextmanager
def outside(block: Any) -> Iterator[None]:
    """Keep what is compiled and called meanwhile apart from what was before: a block of overrides is in force."""
    active.outside.append(block)
    active.entered += 1
    try:
        yield
    finally:
        active.outside.pop()
        active.entered -= 1


@contextmanager
def again(blocks: Sequence[Any], scopes: Sequence[str]) -> Iterator[None]:
    """Let the blocks and scopes be in force that were in force outside of traces at another time, and no others."""
    if active.outside == blocks and active.scopes == scopes:
        yield
        return
    with ExitStack() as stack:
        stack.enter_context(during(active, overrides=[], functions={}, scopes=[*scopes], outside=[]))
        for block in blocks:
            stack.enter_context(block.again())
        yield


def active_on(graph: Graph, function: str) -> Trace:
    """Return the trace whose table this is when it is the active one, or a new trace on it."""
    outer = current()
    return outer if outer is not None and outer.graph is graph else Trace(graph, function)
