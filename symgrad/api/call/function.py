"""`Function`: what jit, grad and value_and_grad return; and `Lowered`, one that is not compiled yet."""

from __future__ import annotations

import copy
import functools
import math
import re
import sys
import threading
import types
import weakref
from collections import Counter
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, ParamSpec, TypeVar

import numpy as np

from symgrad.api.call.arguments import Arguments, Leaves, describe_change, has_structure_of, show_signature, told_apart
from symgrad.api.call.captures import Captured, captured_rng
from symgrad.api.call.sizes import Extents, Pattern, Sizes, pattern_of
from symgrad.build.call import MISS, Call
from symgrad.build.progress import shown_progress
from symgrad.errors import (
    ArgumentError,
    ArgumentValueError,
    ConcretizationError,
    IndexOutOfBounds,
    LeftBehindError,
    Missed,
    MutationError,
    PathsError,
    ShapeError,
    SymgradError,
    ToolchainError,
    interrupts,
    warn,
)
from symgrad.ir.evaluate import evaluate
from symgrad.ir.index.shapes import is_static
from symgrad.ir.names import identifier
from symgrad.ir.node import Node
from symgrad.ir.program import Program
from symgrad.ops.declare.forms import ALSO, is_traced
from symgrad.options import Options
from symgrad.pipeline import NAMES, Built, Stages, build, optimized, uncollected
from symgrad.trace import optree
from symgrad.trace.control.branches import Branch, Branches, branches_of
from symgrad.trace.control.forks import ASKED, Enough
from symgrad.trace.control.further import further, serves
from symgrad.trace.control.lengths import Lengths, TraceAgain
from symgrad.trace.lines import shortened
from symgrad.trace.numpy.replaced import kept_by_caches, standing_for
from symgrad.trace.outside import constants_for
from symgrad.trace.signature import Signature, Spec, signature_of, spec
from symgrad.trace.state import Trace, active, again, current, public, shows_frames
from symgrad.trace.structures import Met, behind
from symgrad.trace.trace import argument, returned, trace

if TYPE_CHECKING:
    from pathlib import Path

    from symgrad.api.report import Cost, Memory

ALSO += [f"symgrad.api.answers.{name}" for name in (
    "distances", "distributions", "initial_values", "matrix_functions", "sums", "unknown_extents")]

Short = Callable[[tuple[Any, ...]], Any]

AT_HAND = 4
"""So many compilations are tried, the last one first, before a call looks for the one that serves it."""

MANY = 8
"""A function compiled so often warns, once, with the argument that keeps changing."""

AGAIN = 100
"""A function of which so many modes were made and compiled warns, once."""


class Entry(NamedTuple):
    """One compilation of a function.

    Attributes:
        tree: the structure of what the function returned.
        call: how it is called.
        short: the short call, while the function reads what it read.
        taken: what Python's conditions on traced values came to, by the numbers of their guards.
        paths: all compilations for the same arguments, where conditions come to something else; the last one that
            served a call is the first. None are listed where it is the only one, which so does not hold itself.
    """

    signature: Signature
    built: Built
    tree: Any
    call: Call
    short: Short | None
    taken: dict[int, Branch]
    paths: list[Entry]

    @property
    def ways(self) -> list[Entry]:
        """All paths, itself among them."""
        return self.paths or [self]

    def known(self, number: int, tried: Sequence[Entry]) -> tuple[Entry | None, list[Branch]]:
        """Return the path of a call in which guard `number` comes to something else, and what is known of that."""
        told = [branch for k, branch in self.taken.items() if k < number]
        missed = self.taken[number]
        if type(missed.outcome) is bool:
            told.append(missed._replace(outcome=not missed.outcome))
        for path in self.ways:
            if not any(path is one for one in tried) and [*path.taken.values()][: len(told)] == told:
                return path, told
        return None, told


class _Staged(NamedTuple):
    """A traced and optimized function.

    Attributes:
        stages: what it was on the way.
        program: what it is.
        unflatten: hands out its results.
        tree: their structure.
        taken: what Python's conditions came to.
        outside: reads the arrays from outside.
    """

    stages: Stages
    program: Program
    unflatten: Callable[[list[Any]], Any]
    tree: Any
    taken: dict[int, Branch]
    outside: Callable[[], list[Any]] | None

    def arrays(self, leaves: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        """Return what the program reads in a call: arrays of its dtypes, and those from outside."""
        values = [*leaves, *([] if self.outside is None else self.outside())]
        return [np.asarray(value, node.dtype) for value, node in zip(values, self.program.inputs, strict=True)]


class CacheInfo(NamedTuple):
    """What a function was compiled for: signatures, how often, why each was needed, and why no extents were left open.

    Attributes:
        refusals: what could not be compiled with open extents, and why: such sizes are compiled one by one.
        paths: for each compilation what Python's conditions on traced values came to in it.
    """

    signatures: tuple[str, ...]
    compilations: int
    reasons: tuple[str, ...]
    hits: int
    refusals: tuple[str, ...] = ()
    paths: tuple[tuple[str, ...], ...] = ()


class Key(NamedTuple):
    """What tells compilations apart."""

    tree: Any
    kinds: tuple[Any, ...]
    statics: Any
    captured: tuple[Any, ...]

    def extents(self) -> Extents | None:
        """List the extents of all arrays, one after the other; None where one is a spec or unknown."""
        found: list[int] = []
        for kind in self.kinds:
            if type(kind) is Spec:
                return None
            if type(kind) is tuple and kind[1]:
                found += kind[1]
        return tuple(found)

    def ranks(self) -> Key:
        """Leave the extents out."""
        kinds = [(kind[0], len(kind[1]), *kind[2:]) if type(kind) is tuple and kind[1] else kind for kind in self.kinds]
        return self._replace(kinds=tuple(kinds))

    def opened(self, pattern: Pattern) -> Key:
        """Put a pattern in the place of the extents."""
        extents = iter(pattern)
        kinds = [
            (kind[0], tuple([next(extents) for _ in kind[1]]), *kind[2:]) if type(kind) is tuple and kind[1] else kind
            for kind in self.kinds
        ]
        return self._replace(kinds=tuple(kinds))


_made: weakref.WeakSet[Function[..., Any]] = weakref.WeakSet()
_wrapped: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()  # how often each function was compiled anew


def forget() -> None:
    """Have every function compiled anew."""
    for function in list(_made):
        function.forget()


P = ParamSpec("P")
R = TypeVar("R")


class Function(Generic[P, R]):
    """A compiled function: traced, derived, fused and compiled at its first call of each signature.

    Made by `jit`, `grad` and every other mode. Calling it gives NumPy arrays and numbers; called with traced arrays
    it is traced through, so modes compose. It has the name, docstring and signature of the function, also for type
    checkers: `P` are its parameters, `R` what a call returns.
    """

    __name__: str

    def __init__(
        self, fun: Callable[P, Any], arguments: Arguments, options: Options, *, constants: bool = False,
    ) -> None:
        """Wrap a function, or a mode of one; nothing is compiled yet.

        With `constants`, arrays that it reads from outside are those of the moment in what is compiled.
        """
        if not isinstance(options, Options):
            raise ArgumentError(f"options={options!r:.60}", instead="options=sg.Options(threads=2)")
        self._fun: Any = fun
        self._arguments, self._options, self._constants = arguments, options, constants
        self._drawn: dict[int, Any] = {}  # where random generators stood that the first trace drew from
        self._mode = getattr(fun, "symgrad_mode", "jit")
        self._captured, self._lock = Captured(fun), threading.RLock()
        self._entries: dict[Key, Entry] = {}
        self._sizes: dict[Key, Sizes] = {}
        self._last: Entry | None = None
        self._shorts: tuple[Short, ...] = ()
        self._hits, self._warned, self._lengths = 0, False, Lengths()
        self._reasons: list[str] = []
        self._blocks: tuple[Any, ...] = ()
        self.__name__ = arguments.name
        functools.update_wrapper(self, fun, updated=())  # not the attributes: fun may be a Function
        _made.add(self)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run on arrays and numbers; compile first when the signature is new.

        Raises:
            ArgumentError: an argument is no array or number, naming it.
            IndexOutOfBounds: an array of indices points outside of its axis.
        """
        result: R
        shorts = () if kwargs or active.entered else self._shorts
        try:
            if shorts and (result := shorts[0](args)) is not MISS:
                return result
            for short in shorts[1:]:
                if (result := short(args)) is not MISS:
                    self._next_by(short)
                    return result
            call = self._arguments.split(args, kwargs)
            outer = current()
            if outer is not None:
                return self._inline(outer, call)  # type: ignore[no-any-return]
            for leaf in call.leaves:
                if type(leaf) is Spec:
                    raise ArgumentError(  # noqa: TRY301 - it is shortened, too
                        f"{self.__name__}() was called with the spec {leaf}, which has no values",
                        instead=".lower(...) of specs, to look at what is compiled; specs=(...) where "
                        f"{self.__name__} is made, to compile for them; arrays in calls",
                    )
            entry, result = self._taken(self._find(call), call, _converted)
        except Exception as error:
            if shows_frames(self._options):  # as `public`, without its call
                raise
            __tracebackhide__ = True
            raise shortened(error)  # noqa: B904 - it is the same
        if not active.outside and entry.short is not None:
            self._next_by(entry.short)
        return result

    def _next_by(self, short: Short) -> None:
        """Let the next calls try a short way first, then those before: of other conditions, or of other sizes."""
        self._shorts = (short, *[one for one in self._shorts if one is not short][: AT_HAND - 1])

    @public
    def bind(self, *args: Any, out: Any = None, **kwargs: Any) -> Callable[[], Any]:
        """Bind the function to arrays: a function of nothing that runs it on what the arrays hold then.

        Of arguments, nothing is checked or allocated at a call: it takes little longer than the C. Write into the
        arrays to change them; numbers and static arguments are fixed. What the function reads from outside is looked
        at as in any call, and where it is something else, the arrays are bound anew. A condition on a
        traced value that comes to something else leads to another path, which is compiled where it is new; all of them
        have results of the same shapes.

        Args:
            args: arguments as for a call; their arrays must need no conversion, and are kept alive.
            out: arrays to write into, in the structure of the result, an array of no axes for a number. Without it
                they are made once: every call writes into the same ones, as long as the result has their shapes. (A
                parameter of the function that is called ``out`` itself is given by position.)
            kwargs: arguments by name.

        Returns:
            A function that writes and returns the arrays. Where it has a workspace, or threads, one thread at a time
            may call it.

        Raises:
            ArgumentError: an array would have to be converted, or `out` does not fit the result.
            ArgumentValueError: a shape of `out` differs, or its memory is shared.
            BusyError: by the function, when it is running already.

        >>> import numpy as np, symgrad as sg
        >>> x = np.array([3.0, 4.0])
        >>> step = sg.value_and_grad(lambda x: np.sum(x * x)).bind(x, out=(np.empty(()), np.empty(2)))
        >>> step()
        (array(25.), array([6., 8.]))
        >>> x[0] = 0.0
        >>> float(step()[0])
        16.0
        """
        call = self._arguments.split(args, kwargs)
        for leaf in call.leaves:
            if is_traced(leaf):
                what, instead = "a traced value", "call the function itself"
            elif isinstance(leaf, Spec):
                what, instead = f"the spec {leaf}", "np.empty of that shape"
            else:
                continue
            raise ArgumentError(f"bind needs arrays, and was given {what}", instead=instead)
        given = out is not None
        blocks, scopes = [*active.outside], [*active.scopes]
        served, run = self._bound(call, out, (blocks, scopes), given=given)
        if served is _served:
            return run

        def as_it_is_now() -> Any:
            """Run what was bound, which is bound anew where what it reads from outside is something else."""
            nonlocal out, served, run
            if served(()) is MISS:
                with again(blocks, scopes):
                    served, run = self._bound(call, out, (blocks, scopes), given=given)
            out = run()
            return out

        return as_it_is_now

    def _bound(
        self, call: Leaves, out: Any, around: tuple[list[Any], list[str]], *, given: bool,
    ) -> tuple[Short, Callable[[], Any]]:
        """Bind what serves a call now; return what answers `MISS` once it does no longer, too.

        Paths that are found later are of the blocks and scopes that are `around` it, whatever is in force then.
        """
        from symgrad.build.bound import as_it_lies, refreshed

        entry = self._find(call)
        if not entry.taken:
            run = refreshed(entry.call, call.leaves, out, given=given)
            return self._captured.watched(_served, MISS, arrays=True), run
        for each in zip(call.leaves, entry.signature.specs, entry.signature.paths, strict=True):
            as_it_lies(*each)
        made: dict[int, Callable[[], Any]] = {}

        def along(path: Entry, _: Any) -> Any:
            """Run a path, the first of which makes the arrays of the result."""
            nonlocal out
            if id(path) not in made:
                made[id(path)] = refreshed(path.call, call.leaves, out, given=given, first=not made)
            out = made[id(path)]()
            return out

        entry, _ = self._taken(entry, call, along)

        def on_its_path() -> Any:
            nonlocal entry
            try:
                return made[id(entry)]()
            except Missed:
                pass
            with again(*around):
                entry, result = self._taken(entry, call, along)
            return result

        return self._captured.watched(_served, MISS, arrays=True), on_its_path

    # -- which compilation serves a call

    def _taken(self, entry: Entry, call: Leaves, run: Callable[[Entry, list[Any]], Any]) -> tuple[Entry, Any]:
        """Run a call on the path that its conditions take; the first that is tried is the last one that was taken."""
        tried: list[Entry] = []
        entry = entry.ways[0]
        while True:
            missed = None
            try:
                result = run(entry, call.leaves)
            except Missed as error:
                missed = error.number
            except (IndexOutOfBounds, ArgumentValueError):  # extents that another path may be fit for
                missed = _missed(entry, call)
                if missed is None:
                    raise
            if missed is None:
                break
            tried.append(entry)
            with self._lock:
                entry = self._path(entry, missed, tried, call)
        if entry.ways[0] is not entry:
            with self._lock:
                entry.paths[:] = [entry, *[one for one in entry.paths if one is not entry]]
        self._last = entry
        return entry, result

    def _path(self, entry: Entry, number: int, tried: Sequence[Entry], call: Leaves) -> Entry:
        """Return the path of a call that left another one at a condition, traced anew where it is not known."""
        path, told = entry.known(number, tried)
        if path is not None:
            return path
        if len(entry.ways) >= self._options.paths:
            raise self._too_many(entry, number)
        try:
            made = self._compile(entry.signature, entry.call.alone, call.leaves, told)
        except Exception as error:
            if interrupts(error):
                raise
            key = self._key(call, call.kinds)
            sizes, extents = self._sizes.get(key.ranks()), key.extents()
            if sizes is None or extents is None or all(is_static(one.shape) for one in entry.signature.specs):
                raise
            # Extents that were left open are no fault of the call's: it is compiled for its own.
            alone = self._made(key, self._arguments.checked(call)[0], sizes, call.leaves, extents)
            sizes.alone[extents] = None
            return alone
        if not entry.paths:
            entry.paths.append(entry)
        entry.paths.append(made := made._replace(paths=entry.paths))
        at = entry.taken[number]
        where = f" at {at.line}: {at.line.text}" if at.line else ""
        self._reasons.append(f"a condition came to something else than {at.outcome}{where}")
        return made

    def _too_many(self, entry: Entry, number: int) -> PathsError:
        """Compose the error of a call beyond the paths that are allowed."""
        place = entry.taken[number].place
        every = [branch for path in entry.ways for branch in path.taken.values()]
        found = Counter([branch.outcome for branch in every if branch.place == place])
        ways = " and ".join([f"to {outcome} in {count}" for outcome, count in found.most_common(3)])
        plain = " and ".join(self._lengths.differ(place[0]))
        why = f"; {plain} in this loop, which Python itself computes, may differ on each path" if plain else ""
        return PathsError(
            f"{self.__name__}() has {len(entry.ways)} paths by Python's conditions on traced values, as many as "
            f"Options(paths={self._options.paths}) allows; this condition came {ways} of them, and now to something "
            f"else{why}", line=place[0],
            instead=(
                "arrays made by np.zeros(...), np.array(...) in the place of lists and dicts, with a count where only "
                "some steps append; of such a list of numbers no more than its sum, len, max, min and last item; "
                if plain else "")
            + ("a for statement over range(n) that sums into variables, in the place of comprehensions, generators and "
               "lists that grow: one loop for every n; " if type(entry.taken[number].outcome) is int else "")
            + "np.where for a choice by values; a `for` statement in the place of a comprehension or of `map`, "
            "which is one loop; sg.cond or sg.while_loop, which are compiled with both ways",
        )

    def _find(self, call: Leaves) -> Entry:
        """Return the compilation for a call, making it once."""
        fixed = self._arguments.fixed_to is not None
        kinds = self._arguments.check(call).specs if fixed else call.kinds
        key = self._key(call, kinds)
        extents = None if fixed else key.extents()
        entry = self._known(key, extents)
        if entry is not None:
            self._hits += 1
        else:
            with self._lock:
                self._captured.given(behind(call.tree, call.leaves, [value for _, value in call.statics]))
                key = self._key(call, kinds)
                entry = self._known(key, extents) or self._new(call, key, extents)
        self._last = entry
        return entry

    def serving(self, *args: Any, along: bool = False) -> tuple[Entry, list[Any], Short]:
        """Find or make the compilation that serves a call, for who calls its C by another way.

        Of several paths it is the one that was found last; `along` the call, which is then run, the one that it takes.

        Returns:
            The compilation; the leaves of the arguments; and what answers `MISS` once it serves them no longer.
        """
        call = self._arguments.split(args, {})
        entry = self._find(call).ways[0]
        if along and entry.taken and entry.call.is_compiled:
            entry, _ = self._taken(entry, call, _converted)
        return entry, call.leaves, self._captured.watched(_served, MISS)

    def variant(self, change: Callable[[Program, Any], Program], *args: Any) -> tuple[Entry, Short]:
        """Compile what is made of the optimized program for a call, given its results' structure; see `serving`."""
        with self._lock:
            call = self._arguments.split(args, {})
            signature, _ = self._arguments.checked(call)
            staged = self._staged(signature, call.leaves)
            program = staged.stages.keep("optimized", change(staged.program, staged.tree))
            made = self._built(staged._replace(program=program, unflatten=tuple), signature)
            return made, self._captured.watched(_served, MISS)

    def _state(self) -> tuple[Any, ...]:
        """Return what a compilation depends on beside its arguments: what is captured, and the overrides around."""
        blocks = active.outside
        return (*self._captured.identity(), *blocks, *active.scopes) if blocks else self._captured.identity()

    def _key(self, call: Leaves, kinds: tuple[Any, ...]) -> Key:
        """Return what tells the compilation for a call apart."""
        return Key(call.tree, kinds, call.statics and told_apart(call.statics), (*self._state(), *call.order))

    def _known(self, key: Key, extents: Extents | None) -> Entry | None:
        """Return what serves a call: what was compiled for its very extents, or with open ones."""
        entry = self._entries.get(key)
        if entry is not None or extents is None:
            return entry
        sizes = self._sizes.get(key.ranks())
        return None if sizes is None else sizes.serving(extents)

    def _new(self, call: Leaves, key: Key, extents: Extents | None) -> Entry:
        """Compile for a call: with the extents open that are named, or change, where that can be done."""
        if extents is None:
            return self._made(key, self._signature(call), None, call.leaves)
        signature, said = self._arguments.checked(call)
        sizes = self._sizes.get(key.ranks())
        if sizes is None:
            sizes = Sizes(said, self._arguments.dynamic, (*signature.names, *signature.paths))
            for saved in self._fun.opened() if isinstance(self._fun, Absent) else ():
                if has_structure_of(call, saved) and _forms(saved) == _forms(signature):
                    pattern = pattern_of([one.shape for one in saved.specs])
                    sizes.add(pattern, self._made(key.opened(pattern), saved, sizes, call.leaves))
            self._sizes[key.ranks()] = sizes
        if (entry := sizes.serving(extents)) is not None:
            return entry
        before, count = {*self._entries}, len(self._reasons)
        try:
            with sizes.learning():
                while (wanted := sizes.proposed(extents)) is not None:
                    try:
                        described = self._arguments.describe(call, wanted)
                        entry = self._made(key.opened(wanted), described, sizes, call.leaves, extents)
                    except (OSError, ToolchainError):  # no fault of the pattern's: the next size tries it again
                        break
                    except Exception as error:  # the numbers' compilation raises what is the user's
                        if interrupts(error):
                            raise
                        sizes.refuse(wanted, error)
                        continue
                    sizes.add(wanted, entry)
                    if sizes.serving(extents) is entry:
                        return entry
                entry = self._made(key, signature, sizes, call.leaves, extents)
                sizes.alone[extents] = None
                return entry
        except BaseException:
            for made in self._entries.keys() - before:
                del self._entries[made]
            del self._reasons[count:]
            raise

    def _made(
        self, key: Key, signature: Signature, sizes: Sizes | None, leaves: Sequence[Any], extents: Extents = (),
    ) -> Entry:
        """Compile, remember why, and warn, once, about a function that compiles again and again."""
        previous = [entry.signature for entry in self._entries.values()]
        if not previous:
            self._count()
        blocks, self._blocks = self._blocks, tuple(active.outside)
        if previous and blocks != self._blocks:
            reason = "the rules of override_gradient around the call are others"
        else:
            captured = self._captured.changed() if previous else None
            reason = describe_change(previous, signature, extents, captured=captured, label=self._arguments.label)
        entry = self._entries[key] = self._compile(signature, () if sizes is None else sizes.alone, leaves)
        self._reasons.append(reason)
        if len(self._entries) >= MANY and not self._warned:
            self._warned = True
            refused = [] if sizes is None else sizes.told()
            why = f" Its extents are not left open: {refused[-1]}." if refused else ""
            warn(
                f"{self.__name__}() was compiled {len(self._reasons)} times; the last time because {reason}.{why} "
                "Name the changing extent, dynamic=..., or mark a changing setting static."
            )
        return entry

    def _count(self) -> None:
        """Warn, once for a function, that is wrapped anew again and again: each time it is traced and compiled."""
        fun = getattr(self._fun, "__wrapped__", None)
        if type(fun) is types.FunctionType:
            count = _wrapped[fun] = _wrapped.get(fun, 0) + 1
            if count == AGAIN:
                made = f"sg.{self._mode}({self.__name__})"
                warn(
                    f"{made} was made anew, and compiled, {count} times: each one is traced by itself. Make it once, "
                    f"f = {made} outside of the loop, and call f."
                )

    def _signature(self, call: Leaves) -> Signature:
        """Describe a call as it would be compiled for if it came first."""
        if self._arguments.fixed_to is not None:
            return self._arguments.fixed_to
        signature, said = self._arguments.checked(call)
        extents = Key(call.tree, call.kinds, (), ()).extents()
        if self._arguments.dynamic is False or extents is None or not any(isinstance(word, str) for word in said):
            return signature
        named = [word if isinstance(word, str) else e for word, e in zip(said, extents, strict=True)]
        return self._arguments.describe(call, named)

    def forget(self) -> None:
        """Compile anew from now on: a rule that may stand in what was compiled is another one."""
        with self._lock:
            self._entries, self._sizes = {}, {}
        self._shorts = ()

    # -- compiling

    def _compile(
        self, signature: Signature, alone: Container[Extents], leaves: Sequence[Any], told: Sequence[Branch] = (),
    ) -> Entry:
        """Compile for a signature: the path that the conditions take at the leaves, the first of which are told."""
        with shown_progress(f"{self.__name__}()"):
            entry = self._built(self._staged(signature, leaves, told), signature, alone)
        short = entry.call.short()
        return entry._replace(short=short and self._captured.watched(short, MISS))

    def _built(self, staged: _Staged, signature: Signature, alone: Container[Extents] = ()) -> Entry:
        """Compile what was optimized."""
        from symgrad.build.toolchain.find import find

        stages, program, finish, tree, taken, outside = staged
        built = build(stages, program, find(self._options))
        call = Call(program, built.interface, built.library, signature, self._options, finish, alone, outside)
        return Entry(signature, built, tree, call, None, taken, [])

    def _staged(self, signature: Signature, leaves: Sequence[Any], told: Sequence[Branch] = ()) -> _Staged:
        """Trace, derive and optimize; where a `while` is left too soon to be known, try whether a longer one serves."""
        known = None if any(type(leaf) is Spec for leaf in leaves) else leaves
        plain, branches = self._settled(signature, known, told)
        more = [] if known is None or isinstance(self._fun, Absent) else further(branches, plain.program)
        if known is None or not more:
            return plain
        before, read = self._lengths.copied(), self._captured.read
        most = 2 * (len(branches.taken) + len(more)) + ASKED
        try:
            tried, _ = self._settled(signature, known, (*told, *more), most)
            if tried.tree == plain.tree and serves(
                tried.program, plain.program, plain.tree.num_leaves, tried.arrays(known), plain.arrays(known),
            ):
                before, read, plain = self._lengths, self._captured.read, tried
        except (Exception, Enough, SystemExit) as error:  # rounds that the call has not may raise anything
            if interrupts(error):
                raise
        finally:
            self._lengths, self._captured.read = before, read
        return plain

    def _settled(
        self, signature: Signature, known: Sequence[Any] | None, told: Sequence[Branch], most: float = math.inf,
    ) -> tuple[_Staged, Branches]:
        """Trace, derive and optimize until it is known how loops are taken.

        Python's conditions come to what they do at the `known` leaves, the first to what is told.
        """
        lengths, ways = self._lengths, self._captured.ways(constants=self._constants)
        lengths.begin()
        by_value = next(ways)
        first: list[Exception] = []  # emptied at the end: its traceback has this frame, and all that was traced
        looked = False

        def check(program: Program) -> None:
            """Raise where it is to be traced again, which its guards say before it is optimized."""
            nonlocal looked, ways, by_value
            if self._captured.found_more and not looked:  # arrays that the trace itself led to, which now are inputs
                looked, ways = True, self._captured.ways(constants=self._constants)
                by_value = next(ways)
                raise TraceAgain
            if changes != lengths.changes or lengths.are_wrong(branches, program):
                raise TraceAgain

        while True:
            stages, branches, changes = Stages(self._options), Branches(known, told, lengths, most), lengths.changes
            try:
                with uncollected(), lengths.counting():
                    staged = self._passed(signature, stages, branches, by_value, check)
                break
            except TraceAgain:
                continue
            except Exception as error:
                if interrupts(error):
                    raise
                if isinstance(error, ShapeError):  # of open extents, a loop by plain numbers is refused for less
                    first = first or [error]
                if lengths.are_why(branches):
                    continue
                first = first or [error]
                way: Any = next(ways, False) if isinstance(error, _REFUSED) else False
                written = isinstance(first[0], MutationError)
                if way is None and (written or not _READS_MEMORY.search(str(error))):
                    way = False
                if way is False and (written or isinstance(error, ConcretizationError)):
                    raise first.pop() from None  # of constants it says less
                if way is False:
                    first.clear()
                    raise
                by_value = way
        first.clear()
        branches.refuse_draws()
        taken = branches_of(staged.program)
        if not isinstance(self._fun, Absent):  # of a loop's guard it is not known what came to something else, or where
            every = {k: branch for k, branch in enumerate(branches.taken) if k not in branches.counts}
            taken = {k: every.get(k, found._replace(outcome=0, place=(found.line, -1))) for k, found in taken.items()}
        return staged._replace(taken=taken), branches

    def _passed(
        self, signature: Signature, stages: Stages, branches: Branches, by_value: Callable[[Spec], bool] | None,
        check: Callable[[Program], None],
    ) -> _Staged:
        """Trace, derive and optimize once.

        Arrays from outside are inputs, or constants by what is said of them. What is optimized is checked before.
        """
        outside = None
        if isinstance(self._fun, Absent):
            program, tree = self._fun.recalled(signature, stages, branches.told)
            check(program)
        else:
            captured, name = self._captured.named(), identifier(self._arguments.name)
            taken = [*signature.names, *[str(d) for one in signature.specs for d in one.shape]]
            drawing = captured_rng(self._fun, captured, self._drawn, branches if branches.is_longer else None)
            with self._captured.stand_ins(taken, by_value) as readings, drawing, kept_by_caches() as kept:
                traced = trace(
                    self._fun, signature, functools.partial(self._on, signature), name=name, options=self._options,
                    creation=self._options.creation, branches=branches, outside=readings,
                )
            reads = traced.outside
            read, known = ([], []) if reads is None else (reads.numbers(traced.program), reads.known())
            known = known if by_value else self._captured.every()
            outside = self._captured.outside(self._captured.traced(read, known, kept))
            program = optimized(traced if self._mode != "jit" else traced._replace(differentiated=None), stages, check)
            tree = traced.tree
        unflatten = handed_out(tree, program.results)
        if self._options.debug_nans:
            from symgrad.transforms.debug_nans import watched

            program, unflatten = watched(program, unflatten)
            stages.keep("optimized", program)
        return _Staged(stages, program, unflatten, tree, {}, outside)

    # -- composing

    def _inline(self, outer: Trace, call: Leaves) -> Any:
        signature, _ = self._arguments.checked(call)
        leaves = [argument(outer, *each) for each in zip(call.leaves, signature.specs, signature.paths, strict=True)]
        with captured_rng(self._fun, self._captured.named(), {}, outer.branches):
            return returned(outer, self._on(signature, leaves), self._fun)

    def _on(self, signature: Signature, leaves: list[Any]) -> Any:
        """Call the function, or derive it, at traced leaves."""
        if self._mode != "jit":
            return self._fun(signature, leaves)
        return signature.called(standing_for(self._fun), leaves, self._fun)

    # -- looking at it

    @public
    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Trace, derive and optimize for arguments or specs, without compiling.

        Returns:
            An object with ``as_text(stage)`` and ``compile()``.
        """
        call = self._arguments.split(args, kwargs)
        signature = self._signature(call)
        stages, program, _, tree, *_ = self._staged(signature, call.leaves)
        return Lowered(self, signature, stages, program, tree, call.leaves)

    @public
    def to_sympy(self, *args: Any, **kwargs: Any) -> Any:
        """Write the function as SymPy expressions, of which ``sympy.latex`` makes formulas: of one with few numbers.

        Args:
            args: SymPy symbols or expressions, each for a float64; matrices and arrays of them for arrays. Or
                arguments or specs as for `lower`: then there is a real symbol for each number, ``x_0_1`` for
                ``x[0, 1]``.
            kwargs: arguments by name.

        Returns:
            An expression, a SymPy array of them where the result is an array, in the result's structure.

        Raises:
            UnsupportedError: it computes too many numbers, its extents are open, or an operation has no formula, as
                loops that were not unrolled and decompositions.

        >>> import numpy as np, sympy, symgrad as sg
        >>> f = sg.jit(lambda x, k: np.exp(-k * x) * np.sin(x))
        >>> x, k = sympy.symbols("x k")
        >>> f.to_sympy(x, k), sg.grad(lambda x: np.sum(x**3)).to_sympy(np.ones(2))
        (exp(-k*x)*sin(x), [3*x_0**2, 3*x_1**2])
        """
        from symgrad.ops.written import in_sympy, shape_given

        given: dict[int, Any] = {}

        def described(leaf: Any) -> Any:
            shape = shape_given(leaf)
            if shape is None:
                return leaf
            made = Spec(shape, np.dtype(np.float64))
            given[id(made)] = leaf, made
            return made

        whole: Any = (args, kwargs)
        specs, named = optree.tree_map(described, whole)
        lowered = self.of_constants().lower(*specs, **named)
        leaves = [given.get(id(leaf), (None,))[0] for leaf in lowered.leaves]
        return optree.tree_unflatten(lowered.tree, in_sympy(lowered.program, leaves))

    def lower_paths(
        self, specs: tuple[tuple[Any, ...], dict[str, Any]], calls: Sequence[tuple[tuple[Any, ...], dict[str, Any]]],
    ) -> tuple[list[Lowered], list[list[Any]]]:
        """Compile for specs the paths that conditions take in some calls, each once.

        Returns:
            The paths in the order in which calls need them, and the arrays of each call as C reads them.
        """
        signature = self._signature(self._arguments.split(*specs))
        arguments = self._arguments.fixed(signature)
        made: Function[..., Any] = Function(self._fun, arguments, self._options, constants=self._constants)
        found: dict[int, Lowered] = {}
        arrays = []
        for each in calls:
            call = made._arguments.split(*each)
            entry, _ = made._taken(made._find(call), call, lambda path, leaves: path.call.flat(leaves))
            built = entry.built
            found.setdefault(id(entry), Lowered(
                made, signature, built.stages, built.program, entry.tree, call.leaves, entry))
            arrays.append(entry.call.arrays(call.leaves))
        entry.paths[:] = [path.entry for path in found.values() if path.entry is not None]
        return [*found.values()], arrays

    def fixed(self, signature: Signature, leaves: Sequence[Any] = ()) -> Function[..., Any]:
        """Compile for one signature alone, which every call must fit: at leaves, where conditions ask for values."""
        arguments = self._arguments.fixed(signature)
        made: Function[..., Any] = Function(self._fun, arguments, self._options, constants=self._constants)
        made._find(Leaves([*(leaves or signature.specs)], signature.tree, signature.specs, signature.statics))
        return made

    @property
    @public
    def c_source(self) -> str:
        """The C that ran last.

        Raises:
            ArgumentError: nothing was compiled yet.
        """
        return self._ran().built.stages.as_text("c")

    @property
    @public
    def c_path(self) -> Path | None:
        """The file the C that ran last was compiled from; None when it is interpreted."""
        library = self._ran().built.library
        return None if library is None else library.c_path

    @property
    @public
    def machine(self) -> dict[str, str]:
        """What decides about the last bits of what is computed here: compiler, flags, processor, threads and versions.

        Where all of it is equal, the function gives the same bits: `symgrad.dask` compares its workers by it.

        >>> import numpy as np, symgrad as sg
        >>> sg.jit(np.sin, options=sg.Options(threads=1)).machine["threads"]
        '1'
        """
        from symgrad.build.toolchain.find import machine

        return machine(self._options)

    def _ran(self) -> Entry:
        if self._last is None:
            raise ArgumentError(
                f"{self.__name__}() has not been compiled yet", instead="call it first, or use .lower(*args)"
            )
        return self._last

    @property
    @public
    def address(self) -> int:
        """The address of the C function that ran last, whose declaration is `prototype`. It stays for the process.

        Arrays that the function reads from outside are constants in it, as they are now.

        Raises:
            ArgumentError: nothing was compiled yet, or NumPy interprets the function.
        """
        return self._compiled(self._of_constants(self._ran())).library.address

    @property
    @public
    def prototype(self) -> str:
        """The declaration of the C function that ran last.

        >>> import numpy as np, symgrad as sg
        >>> f = sg.jit(np.exp)
        >>> _ = f(1.0)
        >>> f.prototype
        'int32_t sg_exp_(const double *x, double *out0, const int32_t threads, char *workspace)'

        Raises:
            ArgumentError: nothing was compiled yet, or NumPy interprets the function.
        """
        return self._compiled(self._of_constants(self._ran())).interface.prototype

    @public
    def low_level_callable(self, *extra: Any, size: int | None = None, signature: str | None = None) -> Any:
        """Make a `scipy.LowLevelCallable`, which SciPy's integrators and filters call without Python.

        The function takes one number (``double (double)``) or several (``double (int, double *)``), or one array of
        `size` numbers, and returns one number. It runs in one thread; a failed check gives NaN, and so do numbers for
        which a condition comes to something else than in the last call, whose path it is.

        Args:
            extra: the function's arguments after those, arrays or numbers: they are passed as user data (``void *``),
                kept alive, and read at each call, so that new values can be written into the arrays.
            size: the numbers come as one array of so many.
            signature: another one of SciPy's; ``"int (double *, intptr_t, double *, void *)"`` is that of
                `scipy.ndimage.generic_filter`, with the footprint's number of elements as `size`.

        Raises:
            ArgumentError: there is no compiler, the function returns no float64 number, or an array of `extra` would
                have to be converted.
            ArgumentValueError: the signature does not fit the function, or it needs too much workspace.

        >>> import numpy as np, scipy.integrate, symgrad as sg
        >>> f = sg.jit(lambda x, a: np.exp(-a * x) * np.sin(x))
        >>> round(scipy.integrate.quad(f.low_level_callable(2.0), 0, np.inf)[0], 9)
        0.2
        """
        from symgrad.build.bound import callback

        leading = self._arguments.leading(len(extra)) if size is None else 1
        numbers = [spec("f64[]")] * leading if size is None else [spec(f"f64[{size}]")]
        arrays = [np.asarray(value) for value in extra]
        wanted = self._arguments.split((*numbers, *arrays), {})
        last = self._last
        if last is not None and last.taken and _shapes(last.signature) == _shapes(self._arguments.describe(wanted)):
            entry = last  # whose conditions were asked of the numbers of a call
        else:
            entry = self._find(wanted)
        entry = self._of_constants(entry)
        call, source = self._compiled(entry), entry.built.stages.of("c")
        return callback(call, source, self.__name__, arrays, signature, vector=size is not None)

    def _of_constants(self, entry: Entry) -> Entry:
        """Return a compilation in which arrays that are read from outside are the constants that they are now."""
        if entry.call.outside is None:
            return entry
        stages, program = Stages(self._options), constants_for(entry.built.program, entry.call.read())
        stages.kept.update(dict.fromkeys(NAMES[:3], program))
        program = stages.keep("optimized", program)
        return self._built(_Staged(stages, program, entry.call.finish, entry.tree, entry.taken, None), entry.signature)

    def of_constants(self) -> Function[..., Any]:
        """Return the function with the arrays that it reads from outside as constants, as they are now."""
        return Function(self._fun, self._arguments, self._options, constants=True)

    def watching(self) -> Function[P, R]:
        """Return the function that raises where a NaN or an infinity begins, see `Options(debug_nans=True)`."""
        return Function(self._fun, self._arguments, replace(self._options, debug_nans=True), constants=self._constants)

    def taking_arrays(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Callable[..., Any], dict[str, Any]]:
        """Return the function with the arrays from outside as arguments that it reads for some; and the arrays."""
        self.lower(*args, **kwargs)
        return self._captured.taking({*self._arguments.parameters})

    def _compiled(self, entry: Entry) -> Call:
        if not entry.call.is_compiled:
            raise ArgumentError(
                f"{self.__name__}() is interpreted by NumPy: there is no C function", instead="a C compiler"
            )
        return entry.call

    @public
    def cost(self, *args: Any, **sizes: int) -> Cost:
        """Count what a call does: flops by kind, calls, bytes, loops, lines of C; of the signature that ran last.

        Args:
            args: arguments of a call: counts for these, compiling first when their signature is new.
            sizes: numbers for open extents. Without either, counts are expressions of the open extents.

        Raises:
            ArgumentError: nothing was compiled yet and there are no arguments; or there is no such extent.

        >>> import numpy as np, symgrad as sg
        >>> f = sg.jit(lambda A, B: A @ B, specs=("f64[m,k]", "f64[k,n]"))
        >>> f.cost(np.ones((3, 4)), np.ones((4, 5))).flops
        120
        >>> f.cost().flops
        2*k*m*n
        """
        return self._reported("cost_of", args, sizes)  # type: ignore[no-any-return]

    @public
    def memory(self, *args: Any, **sizes: int) -> Memory:
        """List what a call needs besides its arguments and results, buffer by buffer, and the peak of it.

        Args:
            args: arguments of a call, as for `cost`.
            sizes: numbers for open extents. Without either, bytes are expressions of the open extents.

        Raises:
            ArgumentError: nothing was compiled yet and there are no arguments; or there is no such extent.

        >>> import numpy as np, symgrad as sg
        >>> sg.jit(lambda x: np.sin(x[::-1])).memory(np.ones(1000)).peak
        0
        """
        return self._reported("memory_of", args, sizes)  # type: ignore[no-any-return]

    @public
    def report(self) -> str:
        """Say in words what became of the signature that ran last.

        What each loop computes, what stands between loops and why, what is computed again, memory, threads,
        vectorized functions, where slopes are infinite and what guards them there, and why sizes are compiled one
        by one.

        Raises:
            ArgumentError: nothing was compiled yet.

        >>> import numpy as np, symgrad as sg
        >>> f = sg.grad(lambda x: np.sum(np.sqrt(x)))
        >>> _ = f(np.ones(3))
        >>> "infinite slope at 0, and nothing guards it" in f.report()
        True
        """
        from symgrad.api.report import report

        return report(self._ran().built.stages, self._refusals())

    def _reported(self, made: str, args: tuple[Any, ...], sizes: dict[str, int]) -> Any:
        """Make a report of a compilation, with numbers where arguments or sizes are given."""
        from symgrad.api import report
        from symgrad.build.threads import threads

        call = self._arguments.split(args, {}) if args else None
        entry = self._ran() if call is None else self._find(call)
        arrays = [] if call is None else entry.call.arrays(call.leaves)
        count = threads(self._options) if entry.built.stages.of("loops").threaded else 1
        return report.with_extents(getattr(report, made)(entry.built.stages), entry.built.program, arrays, sizes, count)

    def cache_info(self) -> CacheInfo:
        """Return for which signatures this function was compiled, why each was needed, and why extents stay numbers."""
        with self._lock:
            shown = tuple([show_signature(e.signature, self._arguments.label) for e in self._entries.values()])
            paths = tuple([
                tuple([f"{one.line} came to {one.outcome}" for one in path.taken.values()])
                for entry in self._entries.values() for path in entry.ways
            ])
            reasons = tuple(self._reasons)
            return CacheInfo(shown, len(reasons), reasons, self._hits, tuple(self._refusals()), paths)

    def _refusals(self) -> list[str]:
        return [line for sizes in self._sizes.values() for line in sizes.told()]

    def __repr__(self) -> str:
        return f"<symgrad {self._mode} of {self.__name__}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickle by name where Python can import the function, else as the printable programs; never code.

        A function that has a name (defined in a module, as for pickling any Python function) is found again by it, and
        traced again where it is unpickled, unless it reads arrays from outside: these may hold other values there. Of
        such a function, a lambda or a closure the compiled signatures are kept, each as a program in the JSON of
        `symgrad.ir.saved.programs`, with the arrays as they are now, which is verified when it is read: see `Absent`.
        """
        plain = self._plain()
        is_python = isinstance(plain, types.FunctionType)
        if is_python and self._captured.reads_arrays():
            return self.as_programs()
        if _found_by_name(self) is self:
            return str(getattr(self, "__qualname__", ""))  # a decorated function: found where it stands
        if not (is_python or isinstance(plain, Absent)) or _found_by_name(plain) is plain:
            return unpickled, (self._fun, *self._settings(fixed=self._arguments.fixed_to))
        return self.as_programs()

    def __copy__(self) -> Function[P, R]:
        """Return itself, as Python does with functions."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Return itself, as Python does with functions; of a method of an object, that of the object's copy."""
        if isinstance(self._plain(), types.FunctionType):
            return self
        made = self.__reduce__()
        return self if isinstance(made, str) else made[0](*copy.deepcopy(made[1], memo))

    def _plain(self) -> Any:
        """Return what is compiled, or what a mode that is compiled was made of, or what stands for it."""
        plain: Any = self._fun
        while type(plain) is Function or hasattr(plain, "symgrad_mode"):  # a function compiled, or a mode of one
            if isinstance(plain, Absent) or isinstance(plain.__wrapped__, Absent):
                break
            plain = plain.__wrapped__
        return plain

    def as_programs(self) -> tuple[Callable[..., Function[..., Any]], tuple[Any, ...]]:
        """Return what makes the function again without its Python code, and what of: the signatures it is compiled for.

        Raises:
            ArgumentError: there are none.
        """
        from symgrad.ir.saved.programs import dumps

        fun, arguments = self._fun, self._arguments
        state = self._state()
        entries = [path for key, entry in self._entries.items() if key.captured == state for path in entry.ways]
        saved = tuple([
            Saved(dumps(constants_for(e.built.program, e.call.read())), e.signature, e.tree) for e in entries
        ])
        if isinstance(fun, Absent):
            compiled = [(one.signature, one.text) for one in saved]
            saved += tuple([one for one in fun.saved if (one.signature, one.text) not in compiled])
        if not saved:
            named = _found_by_name(self) is self or _found_by_name(self._plain()) is self._plain()
            why = "it reads arrays from outside, whose values go along" if named else "it has no name in its module"
            other = "pass the arrays as arguments" if named else "define it with def at the top of a module"
            raise ArgumentError(
                f"{arguments.name}() cannot be pickled: {why}, and was not compiled yet",
                instead=f"{other}, or call it once before",
            )
        return unpickled, (Absent(fun, saved), *self._settings(fixed=arguments.fixed_to is not None))

    def _settings(self, fixed: Signature | bool | None) -> tuple[Any, ...]:
        return self._options, tuple(sorted(self._arguments.static, key=str)), fixed, self._arguments.dynamic

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Bind as a method, so that a decorated method works."""
        return self if instance is None else functools.partial(self, instance)


_READS_MEMORY = re.compile(r"\bOutside\b|bytes-like|buffer|__array__ method|cannot be interpreted as an integer")
_REFUSED = (SymgradError, TypeError, ValueError, AttributeError, LookupError, BufferError)
"""What arrays from outside may be the reason of, where they are traced."""


def _served(_: tuple[Any, ...]) -> None:
    """Say that a compilation serves, still."""


def _converted(path: Entry, leaves: list[Any]) -> Any:
    """Call a compilation with what it may have to convert."""
    return path.call.finish(path.call.flat(leaves))


def _missed(path: Entry, call: Leaves) -> int | None:
    """Return the first guard that a call does not take a path for, as NumPy says; None where there is none."""
    program, arrays = path.built.program, path.call.arrays(call.leaves)
    for guard in program.guards:  # one by one: another may need what holds behind this one alone
        try:
            evaluate(replace(program, outputs=(guard,)), arrays)
        except Missed as error:  # noqa: PERF203 - a guard that raises is not the last
            return error.number
        except (IndexError, SymgradError):
            continue
    return None


def _shapes(signature: Signature) -> list[tuple[Any, ...]]:
    return [(one.shape, one.dtype) for one in signature.specs]


def _forms(signature: Signature) -> list[tuple[Any, ...]]:
    return [(len(one.shape), one.dtype, one.weak) for one in signature.specs]


# -- what a call returns


def handed_out(tree: Any, outputs: Sequence[Node]) -> Callable[[list[Any]], Any]:
    """Return how a list of results gets the structure of what was traced; the fewer steps, the faster is a call."""
    if tree.is_leaf():
        return lambda results: _as_scalar(results[0])
    children = tree.children()
    if tree.type is tuple and len(children) == 2 and children[0].is_leaf():
        if children[1].is_leaf():
            if not outputs[0].shape and outputs[1].shape:  # a loss and its gradient
                return lambda results: (results[0][()], results[1])
            return lambda results: (_as_scalar(results[0]), _as_scalar(results[1]))
        if children[1].type is tuple and all(child.is_leaf() for child in children[1].children()):
            return lambda results: (_as_scalar(results[0]), tuple([r if r.ndim else r[()] for r in results[1:]]))
    return lambda results: optree.tree_unflatten(tree, [_as_scalar(r) for r in results])


def _as_scalar(result: Any) -> Any:
    """Give numbers as NumPy's scalars, as NumPy's functions do."""
    return result if result.ndim else result[()]


# -- pickled, and not compiled yet


def _saved(_: Met, *fields: Any) -> Saved:
    return Saved(*fields)


class Saved(NamedTuple):
    """One compiled signature: its program as text, what its arguments were, and the structure of its results."""

    text: str
    signature: Signature
    results: Any

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it behind objects of the classes that are in its structures."""
        return _saved, (Met(self.signature.tree, self.results), *self)

    def program(self) -> Program:
        """Read the program with symgrad's ops."""
        from symgrad.ir.saved.programs import loads
        from symgrad.ops import LIBRARY, OPS, load

        load()
        specs = zip(self.signature.names, self.signature.specs, strict=True)
        fortran = frozenset([name for name, spec in specs if spec.fortran])
        return replace(loads(self.text, OPS | LIBRARY), fortran=fortran)


class Absent:
    """Stands for a Python function that stayed behind: its name, its parameters, and the programs it was compiled to.

    A `Function` of it serves the signatures of these, and closed-over values are the constants they were when it was
    traced. The programs are read and verified when they are needed.
    """

    def __init__(self, fun: Any, saved: tuple[Saved, ...]) -> None:
        self.saved = saved
        self.__name__, self.__qualname__, self.__module__ = fun.__name__, fun.__qualname__, fun.__module__
        self.__doc__, self.symgrad_mode = fun.__doc__, getattr(fun, "symgrad_mode", "jit")
        signature = signature_of(fun)
        if signature is not None:
            plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
            self.__signature__ = signature.replace(parameters=plain, return_annotation=signature.empty)

    def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        """Refuse."""
        raise self.behind("it is called inside of another traced function")

    def opened(self) -> list[Signature]:
        """List the signatures with open extents that it was compiled for."""
        every = [saved.signature for saved in self.saved]
        return [one for one in every if not all(is_static(spec.shape) for spec in one.specs)]

    def recalled(self, signature: Signature, stages: Stages, told: Sequence[Branch]) -> tuple[Program, Any]:
        """Return what tracing and optimizing made of it, and the structure of its result, where so much is told."""
        if active.outside:
            raise self.behind("it is called inside of a block of override_gradient")
        saved = [(one, one.program()) for one in self.saved if one.signature == signature]
        if not saved:
            raise self.behind(f"it is called with {show_signature(signature)}")
        fits = [pair for pair in saved if [*branches_of(pair[1]).values()][: len(told)] == [*told]]
        if not fits:
            raise self.behind(f"the condition at {told[-1].line} comes to {told[-1].outcome!r}")
        (one, program), *_ = fits
        if stages.options.debug_nans:
            program = replace(program, outputs=program.outputs[:-1], labels=program.labels[:-1])
        stages.kept.update(dict.fromkeys(NAMES[:3], program))  # the stages before stayed behind
        return stages.keep("optimized", program), one.results

    def behind(self, what: str) -> LeftBehindError:
        """Compose the error of a call that needs the Python function."""
        kept = "; ".join([show_signature(saved.signature) for saved in self.saved])
        return LeftBehindError(
            f"{self.__name__}() was unpickled without its Python code: it serves ({kept}) only, and {what}",
            instead="define it with def at the top of a module, which is then imported where it is unpickled",
        )


def unpickled(
    fun: Any, options: Options, static: tuple[int | str, ...], fixed: Signature | bool | None, dynamic: Any,
) -> Function[..., Any]:
    """Make the function that was pickled: traced where its Python is found by its name, else of its programs."""
    arguments = Arguments(fun, static, dynamic=dynamic)
    signature = fun.saved[0].signature if fixed is True else fixed
    return Function(fun, arguments.fixed(signature) if isinstance(signature, Signature) else arguments, options)


def _found_by_name(value: Any) -> Any:
    found = sys.modules.get(getattr(value, "__module__", None) or "")
    for part in str(getattr(value, "__qualname__", "")).split("."):
        found = getattr(found, part, None)
    return found


@dataclass(eq=False, repr=False)
class Lowered:
    """A function traced and derived for one signature, not compiled yet.

    Attributes:
        signature: what it was lowered for.
        tree: the structure of what the function returned while it was traced.
        leaves: what it was lowered for: arrays, numbers and specs.
        entry: its compilation, where it is compiled.
    """

    _function: Function[..., Any]
    signature: Signature
    stages: Stages
    program: Any
    tree: Any
    leaves: list[Any]
    entry: Entry | None = None

    def as_text(self, stage: str = "optimized") -> str:
        """Print a stage: ``traced``, ``stable``, ``derived``, ``optimized`` (Python), ``loops``, ``c``."""
        return self.stages.as_text(stage)

    @public
    def report(self) -> str:
        """Say in words what the program becomes; see `Function.report`."""
        from symgrad.api.report import report

        return report(self.stages)

    def compile(self) -> Function[..., Any]:
        """Compile for this signature alone: every call must fit it."""
        return self._function.fixed(self.signature, self.leaves)
