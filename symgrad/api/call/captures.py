"""What a function reads that is no argument: globals, closed-over values, attributes, defaults, what is in containers.

Arrays are inputs of what is compiled, read anew at each call. Other values are constants when it is traced, and each
call looks whether they are what they were; while it is traced, a draw from a random generator is noticed, which would
happen once and not at each call.
"""

from __future__ import annotations

import builtins
import dis
import importlib.util
import inspect
import itertools
import linecache
import math
import random
import re
import sys
import types
import weakref
from array import array
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, UserString, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property, partial, wraps
from io import IOBase
from operator import attrgetter, methodcaller
from types import MappingProxyType
from typing import Any

import numpy as np

from symgrad.api.call.reads import EVERY, SHOWN, WHOLE, Import, Paths, code_reads, names_of
from symgrad.errors import Line, SymgradError, interrupts, warn_once
from symgrad.ops.declare.forms import COMPILED, is_traced
from symgrad.trace.constants import means_more
from symgrad.trace.control.branches import Branches
from symgrad.trace.inplace.local import LocalArray
from symgrad.trace.lines import definition, is_generated, is_user_code, of_the_user
from symgrad.trace.numpy.indexing import FEW
from symgrad.trace.numpy.replaced import stood_for
from symgrad.trace.outside import Reading, Slot, given, plain, standing
from symgrad.trace.signature import Spec, by_columns, leaf_names, signature_of
from symgrad.trace.structures import attributes_of, is_sparse

Item = tuple[Callable[[Any], Any], Any, Any]
Place = tuple[Slot, tuple[int, ...], str]

LONG, SEEN, DEEP, FLAT = 1000, 10_000, 20, 4
"""So many elements of one container are looked at, so many values in all, tuples in so many others, and what is
compared as a whole."""

_NUMBERS = (type(None), bool, int, float, complex, str, bytes)
_CONTAINERS = (list, tuple, dict, deque)
_DICTS = frozenset({dict, OrderedDict, defaultdict, Counter})
_CALLED = frozenset({
    "__call__", "__getitem__", "__len__", "__iter__", "__getattr__", "__add__", "__radd__", "__sub__", "__rsub__",
    "__mul__", "__rmul__", "__matmul__", "__rmatmul__", "__truediv__", "__pow__", "__neg__",
})
"""Methods that are called without their names, and are often set anew."""
_MAKES = frozenset({"__init__", "__new__", "__post_init__"})
"""Methods that are called where a class is."""
_COMPARES = frozenset({"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__"})
_UNASKED = frozenset({"__del__", "__init_subclass__", "__set_name__", *SHOWN})
"""Methods that are not called while values are computed, or where a text is made alone."""
_KEEP = {UserDict: "data", UserList: "data", UserString: "data", ChainMap: "maps"}
"""Containers of Python's own that are written in Python, and the attribute that has what they hold."""

_GONE = (AttributeError, LookupError, ValueError, ReferenceError)
"""What reading a place raises that is gone, as a deleted variable."""

UNNOTICED = "changes in it are not noticed by compiled functions"
"""What is true of what is not looked at in each call."""


@dataclass
class State:
    """What stood in the places that a function reads when they were last looked at.

    Attributes:
        items: how each value is read, what it was (the same object, as long as nothing has changed), and its name.
        lengths: containers, and how many elements they had.
        arrays: the slots of arrays, where in tuples in these they are, their names and what compilations know of them.
        reads: how each of them is read.
        functions: the slots of functions of libraries, likewise, which may have stand-ins.
        compared: how arrays are read whose values compilations may know, and these.
        facts: all of it by what it says, equal where compilations serve.
        key: what stands for the facts; None where nothing was looked at.
    """

    items: list[tuple[Callable[[Any], Any], Any, Any, str]] = field(default_factory=list)
    lengths: list[tuple[Any, int]] = field(default_factory=list)
    arrays: list[tuple[Slot, tuple[int, ...], str, Spec]] = field(default_factory=list)
    functions: list[Place] = field(default_factory=list)
    reads: list[tuple[Callable[[Any], Any], Any]] = field(default_factory=list)
    compared: list[Item] = field(default_factory=list)
    facts: list[Any] = field(default_factory=list)
    key: Any = None

    @cached_property
    def looked_into(self) -> bool:
        """Whether containers, or what arrays hold, are compared."""
        return bool(self.lengths or self.compared)

    def same(self) -> bool:
        """Whether containers have as many elements as they had, and arrays hold what they held."""
        return (
            all(len(container) == count for container, count in self.lengths)
            and all(_holding(_itself(get(name))) == content for get, name, content in self.compared)
        )

    def holds(self) -> bool:
        """Whether everything but the values of arrays is as it was."""
        try:
            return (
                self.same() and all(_itself(get(name)) is value for get, name, value, _ in self.items)
                and all(_compiled_as(self.array(k)) == known for k, (_, _, _, known) in enumerate(self.arrays))
            )
        except _GONE:
            return False

    def places(self, numbers: Iterable[int]) -> list[Place]:
        """List where some of the arrays stand, and all of the functions."""
        return [*[self.arrays[k][:3] for k in numbers], *self.functions]

    def array(self, k: int) -> Any:
        """Return an array as it is now."""
        get, name = self.reads[k]
        return plain(get(name))


class Captured:
    """Where a function, and the user's functions it calls, read values that are not their own."""

    def __init__(self, fun: Callable[..., Any]) -> None:
        """Note the function; its names are looked for when it is called: a decorator comes before what stands below."""
        self.fun, self.state = fun, State()
        self._given: dict[int, Any] = {}
        self._keys: dict[tuple[Any, ...], tuple[Any, State]] = {}  # which keep alive what is known by its identity
        self._own: dict[tuple[int, Any], Any] = {}  # what the function sets itself, with what holds it
        self._compared: dict[tuple[int, Any], Any] = {}
        self._begun: dict[tuple[int, Any], Any] = {}  # what a trace has made where there was nothing before
        self._kept: list[Any] = []  # what caches gave in traces
        self._classes: dict[type, Any] = {}
        self.read: Sequence[int] = ()  # the arrays that the last trace read
        self._read_some: bool | None = None  # of all traces; None before the first
        self.found_more = False  # the last trace led to arrays that had no stand-ins

    def identity(self) -> tuple[Any, ...]:
        """Identify what stands in the places now: equal where the same compilation serves."""
        state = self.state
        if state.key is None or not state.holds():
            self.state = state = self._looked_up()
        return (state.key,)

    def given(self, values: Iterable[Any]) -> None:
        """Note functions and classes that come with arguments: what these read counts, too."""
        new = {id(one): one for one in values if not _is(one, (*_NUMBERS, np.ndarray, np.generic))}
        if new.keys() - self._given.keys():
            self._given |= new
            self.state = State()

    def changed(self) -> str | None:
        """Name what is another one than when the function was compiled before; None where all is the same."""
        states = [state for _, state in self._keys.values()][-2:]
        if len(states) < 2 or states[-1] is not self.state:
            return None
        found = [
            {label: _said(value) for _, _, value, label in one.items}
            | {label: known for _, _, label, known in one.arrays} for one in states
        ]
        labels = dict.fromkeys([*found[1], *found[0]])
        return next((one for one in labels if found[0].get(one) != found[1].get(one)), "what an array holds")

    def named(self) -> list[tuple[str, Any]]:
        """Return what stands in the places now, each with its name."""
        self.identity()
        return [(label, value) for _, _, value, label in self.state.items]

    def values(self) -> list[Any]:
        """Return what stands in the places now, arrays too."""
        return [*[value for _, value in self.named()], *map(self.state.array, self.every())]

    def reads_arrays(self) -> bool:
        """Whether what was traced reads arrays, or knows their values; or may read some where nothing was traced."""
        self.identity()
        return bool(self.state.arrays if self._read_some is None else self._read_some or self.state.compared)

    def _looked_up(self, key: Any = None) -> State:
        roots = [self.fun, *self._given.values()]
        state = _Survey(roots, self._own, self._compared, self._kept, self._classes).state
        state.key, _ = self._keys.setdefault(tuple(state.facts), (key or object(), state))
        return state

    def ways(self, *, constants: bool) -> Iterator[Callable[[Spec], bool] | None]:
        """Say in which ways arrays are read, one after the other, until one is not refused: which are constants.

        Masks, where they are small, for they say which terms there are; then all of truth values and of integers
        (indices, shapes); then all arrays; then all without stand-ins, for what reads memory: None.
        """
        self.identity()
        kinds = {known.dtype.kind == "f" for _, _, _, known in self.state.arrays}
        if kinds and not constants:
            yield lambda known: known.dtype.kind == "b" and math.prod(known.shape) <= FEW
        if len(kinds) > 1 and not constants:
            yield lambda known: known.dtype.kind != "f"
        yield lambda _: True
        yield None

    @contextmanager
    def stand_ins(self, taken: Sequence[str], by_value: Callable[[Spec], bool] | None) -> Iterator[list[Reading]]:
        """Put stand-ins in the place of arrays while the function is traced; say which of them are constants."""
        if not self.state.holds() and self._note_changes():  # a trace that was given up
            self.state = self._looked_up(self.state.key)
        state = self.state
        if by_value is None:
            arrays = [one for one in map(state.array, self.every()) if one.flags.writeable]
            try:
                for array in arrays:
                    array.setflags(write=False)
                with standing(state.functions):
                    yield []
            finally:
                for array in arrays:
                    array.setflags(write=True)
            return
        names, _ = leaf_names([label for _, _, label, _ in state.arrays], [""] * len(state.arrays), frozenset(taken))
        with standing(state.places(self.every())) as found:
            yield [
                Reading(k, one, name, by_value(known))
                for k, (one, name, (_, _, _, known)) in enumerate(zip(found, names, state.arrays, strict=False))
                if one is not None
            ]

    def every(self) -> list[int]:
        """List all arrays that the function may read."""
        return [*range(len(self.state.arrays))]

    def traced(self, read: Sequence[int], compared: Sequence[int], kept: Sequence[Any]) -> list[int]:
        """Note what a trace has shown: what it changed, what caches gave in it, and which arrays' values it knows.

        What the function changes, no call looks at; what it made where nothing was, as people do at the first call, is
        looked at like anything else. Return where the arrays that it reads are now.
        """
        self._read_some = bool(self._read_some or read)
        before = self.state
        places = [_place_key(*before.reads[k]) for k in read]
        new = {_place_key(*before.reads[k]): before.reads[k][0] for k in compared}
        more = [one for one in kept if not any(one is known for known in self._kept)]
        if self._note_changes() or new.keys() - self._compared.keys() or more:
            self._compared |= new
            self._kept += more
            self.state = self._looked_up(before.key)
        now = [_place_key(*one) for one in self.state.reads]
        self.found_more = not {*now} <= {_place_key(*one) for one in before.reads}
        self.read = [*map(now.index, places)]
        return self.read

    def _note_changes(self) -> bool:
        """Note what a trace has changed; say whether it is something else than is known."""
        own: dict[tuple[int, Any], Any] = {
            (id(container), None): container for container, count in self.state.lengths if len(container) != count}
        begun: dict[tuple[int, Any], Any] = {}
        for get, name, value, _ in self.state.items:
            if (now := _now(get, name)) is not value:
                place = _place_key(get, name)
                is_new = value is None and place not in self._begun and not is_traced(now)
                (begun if is_new else own)[place] = get
        found = bool(begun or own.keys() - self._own.keys())
        self._begun |= begun
        self._own |= own
        return found

    def taking(self, taken: Iterable[str]) -> tuple[Callable[..., Any], dict[str, Any]]:
        """Return the function with the arrays that it read as further arguments, and these arrays by their names."""
        state, fun = self.state, self.fun
        arrays = [state.arrays[k] for k in self.read]
        names, _ = leaf_names([label for _, _, label, _ in arrays], [""] * len(arrays), frozenset(taken))

        @wraps(fun)
        def function(*args: Any, **kwargs: Any) -> Any:
            values = [kwargs.pop(name) for name in names]
            with standing(state.places(self.read)) as found, given([*zip(found, values, strict=False)]):
                return fun(*args, **kwargs)

        own = signature_of(fun)
        before = [] if own is None else [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
        more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names]
        vars(function)["__signature__"] = inspect.Signature([*before, *more])
        return function, {name: state.array(k) for name, k in zip(names, self.read, strict=True)}

    def outside(self, numbers: Sequence[int]) -> Callable[[], list[Any]] | None:
        """Return what reads some of the arrays, as they are when it is called; None for none."""
        if not numbers:
            return None
        last: State | None = None
        reads: list[tuple[Callable[[Any], Any], Any]] = []

        def read() -> list[Any]:
            nonlocal last, reads
            now = self.state
            if now is not last:
                reads = [now.reads[k] for k in numbers]
                last = now  # after what it stands for: other threads may be here
            try:
                return [get(name) for get, name in reads]
            except _GONE:
                return []  # which fits no compilation

        return read

    def watched(
        self, call: Callable[[tuple[Any, ...]], Any], otherwise: Any, *, arrays: bool = False,
    ) -> Callable[[tuple[Any, ...]], Any]:
        """Make a call that is made only while the places hold what they hold now; else it answers `otherwise`.

        It is what `identity` would find, without counting what a call of a microsecond would feel. With `arrays`,
        which a call passes on as it finds them, they are the same ones, too.
        """
        self.identity()
        last = self.state
        key, items, looked_into = last.key, last.items, last.looked_into
        if not (items or last.arrays):
            return call
        now = map(last.array, range(len(last.reads) if arrays else 0))
        held = [(*one, a, a.shape, a.dtype) for one, a in zip(last.reads, now, strict=False)]  # both may be set

        def checked(args: tuple[Any, ...]) -> Any:
            nonlocal last, items, looked_into
            if self.state is not last:
                state = self.state
                if state.key is not key or held:
                    return otherwise
                items, looked_into = state.items, state.looked_into
                last = state
            try:
                for get, name, value, _ in items:
                    if get(name) is not value:
                        return otherwise
                for get, name, value, shape, dtype in held:
                    if plain(get(name)) is not value or value.shape != shape or value.dtype is not dtype:
                        return otherwise
                if looked_into and not last.same():
                    return otherwise
            except _GONE:
                return otherwise
            return call(args)

        return checked


def _itself(value: Any) -> Any:
    """Return what something is when no trace is active."""
    return plain(stood_for(value))


def _now(get: Callable[[Any], Any], name: Any) -> Any:
    try:
        return _itself(get(name))
    except _GONE:
        return None


def _place_key(get: Any, name: Any) -> tuple[int, Any]:
    """Return what a place is known by: what holds a value, and its name there."""
    return id(get.args[0] if type(get) is partial else get.__self__), name


def _compiled_as(value: Any) -> Spec | None:
    """Return what compilations know of an array from outside; None of anything else, and of what is not compiled."""
    if not _is(value, np.ndarray) or means_more(type(value)):
        return None
    native = np.dtype(value.dtype.newbyteorder("=").str) if value.dtype.kind in "biuf" else None
    if native not in COMPILED:
        return None
    return Spec(value.shape, native, fortran=by_columns(value), array=True)


# -- looking through what a function leads to


class _Survey:
    """Find what functions read: by their names, and by all attributes and keys that they and what they call name."""

    def __init__(
        self, roots: Sequence[Any], own: Any, compared: Any, kept: list[Any], classes: dict[type, Any],
    ) -> None:
        self.own, self.compared, self.roots, self.classes = own, compared, roots, classes
        self.attributes: dict[str, Paths] = dict.fromkeys(_CALLED, EVERY)
        self.following: dict[str, frozenset[str]] = {}
        self.texts: frozenset[str] = frozenset()
        self.whole = self.compares = False
        known, count = 0, -1
        while known != count:  # code that is found later names more
            known = count
            self.state, self.left = State(), SEEN
            self.seen: set[Any] = set()
            self.places: dict[tuple[int, Any], Paths] = {}
            self.stack: list[Callable[[], None]] = [partial(self.function, root) for root in roots]
            self.stack += [
                partial(self.place, Slot(kept, k, kept.__getitem__, _unset), "what a cache keeps", EVERY)
                for k in range(len(kept))
            ]
            while self.stack:
                self.stack.pop()()
            count = (self.whole + self.compares + len(self.attributes) + len(self.texts)
                     + sum(map(len, self.following.values())))

    def function(self, value: Any) -> None:
        """Look through the code of a function, a method or a wrapper: it says what is read."""
        for rule in getattr(type(value), "symgrad_rules", ()):  # of a custom function, which may be set anew
            self.named(vars(value), rule, rule, EVERY)
        chain = _unwrapped(value)
        for each in chain:
            if _is(each, partial):
                put = lambda name, new, own=each: own.__setstate__((*[  # noqa: E731
                    new if one == name else getattr(own, one) for one in ("func", "args", "keywords")
                ], own.__dict__))
                for name in ("func", "args", "keywords"):
                    self.place(Slot(each, name, partial(getattr, each), put), name, EVERY)
            owner = None if _is(each, types.FunctionType) else _asked(each, "__self__")
            if owner is None and (each is not value or any(value is one for one in self.roots)):
                owner = each  # an object that is called
            if _is(owner, (np.ndarray, *_CONTAINERS)):  # get = settings.get
                self.place(Slot(each, "__self__", partial(getattr, each), _unset), "self", EVERY)
            elif owner is not None and not _is(owner, (types.ModuleType, types.FunctionType)):
                self.stack.append(partial(self.object, owner, "self", every=True))
        inner = chain[-1]
        if id(inner) in self.seen:
            return
        if not _is(inner, types.FunctionType) or not is_user_code(inner.__code__.co_filename):
            if not (_is(inner, type) or _is_users(inner)):
                self.seen.add(id(inner))
                self.stack.append(partial(self.keeps, inner))
            return
        self.seen.add(id(inner))
        reads = code_reads(inner.__code__)
        self.texts |= reads.texts
        self.compares |= reads.compares and not is_generated(inner.__code__)  # those of dataclasses compare names
        for name, paths in reads.attributes.items():
            self.attributes[name] = self.attributes.get(name, frozenset()) | paths
        for name, following in reads.following.items():
            self.following[name] = self.following.get(name, frozenset()) | following
        names, installed = inner.__globals__, not of_the_user(inner.__code__.co_filename)
        self.whole |= not installed and (reads.whole or any(
            not WHOLE.isdisjoint(of) for name, of in reads.following.items()
            if _is(names.get(name, sys.modules.get(name)), types.ModuleType)))  # copy.copy(o), and no o.copy()
        if not installed and ("eval" in reads.names or "exec" in reads.names):
            self.warn(f"reads what eval() or exec() in {inner.__name__}() names: {UNNOTICED}")
        for name, paths in reads.names.items():
            if installed and _is(kept := names.get(name), _CONTAINERS) and len(kept) > LONG:
                continue  # a package's own cache
            if name in inner.__code__.co_freevars:
                cell = (inner.__closure__ or ())[inner.__code__.co_freevars.index(name)]
                self.place(Slot(cell, "cell_contents", partial(getattr, cell), partial(setattr, cell)), name, paths)
                continue
            pythons: Any = getattr(builtins, name, None)
            is_error = _is(pythons, type) and issubclass(pythons, BaseException)
            if name in names or not (name in reads.texts or is_error):
                self.named(names, name, name, paths)  # a name of Python's own may be one of the module's later
                if name not in names and not _is(pythons, (types.BuiltinFunctionType, type)):
                    self.named(vars(builtins), name, name, paths)  # what somebody has put among builtins
        for one in reads.imports:
            self.imported(one, names)
        called = not any(inner is _unwrapped(one)[-1] for one in self.roots)
        for attribute in ("__code__", "__defaults__", "__kwdefaults__"):  # IPython's autoreload sets them
            if getattr(inner, attribute) is not None and (called or attribute != "__code__"):
                slot = Slot(inner, attribute, partial(getattr, inner), partial(setattr, inner))
                self.place(slot, f"{inner.__name__}.{attribute}", EVERY)

    def keeps(self, value: Any) -> None:
        """Go on with the user's functions and objects that something of a library's keeps, as `np.vectorize` does."""
        if _is(value, (attrgetter, methodcaller)):  # they say their names by their texts alone
            texts = {part for one in re.findall(r"'([\w.]+)'", repr(value)) for part in one.split(".")}
            self.texts |= texts
            self.attributes |= dict.fromkeys(texts, EVERY)
            return
        self.whole |= value is getattr or value is vars
        kept: list[tuple[Any, Any]] = []
        if _is(value, types.FunctionType):
            kept += [(cell, "cell_contents") for cell in value.__closure__ or ()]
            kept += [(value, name) for name in ("__defaults__", "__kwdefaults__")]
        names = _variables(value)
        cached = {"_ufunc"} if _is(value, np.vectorize) else ()  # what it made of a function that it keeps, too
        kept += [(value, name) for name in names if name not in cached] if type(names) is dict else []
        for holder, name in kept:
            one = _now(partial(getattr, holder), name)
            if _is(one, _CONTAINERS):
                if len(one) <= LONG and any(map(callable, one.values() if _is(one, dict) else one)):
                    self.place(Slot(holder, name, partial(getattr, holder), _unset), str(name), EVERY)
            elif not _is(one, types.ModuleType):
                inner = _unwrapped(one)[-1]
                if type(inner) is types.FunctionType and is_user_code(inner.__code__.co_filename):
                    self.place(Slot(holder, name, partial(getattr, holder), _unset), str(name), EVERY)
                elif callable(one) and not _is(one, type):
                    self.stack.append(partial(self.function, one))
                if _is_users(one) and not _is_installed(one):
                    self.stack.append(partial(self.object, one, str(name), every=True))

    def imported(self, one: Import, names: dict[str, Any]) -> None:
        """Look at a module that code imports, or at what it imports of one."""
        name = one.module
        if one.level:
            try:
                package = names.get("__package__") or str(names.get("__name__")).rpartition(".")[0]
                name = importlib.util.resolve_name("." * one.level + name, package)
            except ImportError:  # as the function will find
                return
        module = sys.modules.get(name)
        if module is not None and not _is_users(module):
            return
        self.place(Slot(sys.modules, name, sys.modules.get, _unset), name, EVERY)
        if module is not None and one.attribute is None:
            self.stack.append(partial(self.object, module, name, one.alias))
        elif module is not None:
            self.named(vars(module), one.attribute, f"{name}.{one.attribute}", EVERY)
            if (inner := sys.modules.get(label := f"{name}.{one.attribute}")) is not None:
                self.stack.append(partial(self.object, inner, label, one.alias))

    def named(self, holder: dict[Any, Any], name: Any, label: str, paths: Paths) -> None:
        """Look at what stands in a dict by its name."""
        self.place(Slot(holder, name, holder.get, partial(dict.__setitem__, holder)), label, paths)

    def place(self, slot: Slot, label: str, paths: Paths, *, only_arrays: bool = False) -> None:
        """Look at what stands in a slot."""
        self.value(slot.get, slot.key, label, paths, slot, (), only_arrays=only_arrays)

    def value(
        self, get: Any, name: Any, label: str, paths: Paths, slot: Slot, path: tuple[int, ...], *, only_arrays: bool,
    ) -> None:
        """Look at one value: note it, and go on with what is in it."""
        value, state, place = _now(get, name), self.state, _place_key(get, name)
        if type(value) is LocalArray and type(left := value.settle()) is np.ndarray and not path:
            slot.put(slot.key, left)  # what a trace has made there, which NumPy's functions would have made an array
            value = left
        before = self.places.get(place)
        wanted = paths | (before or frozenset())
        if wanted == before:
            return
        self.left -= 1
        if self.left <= 0:
            if not self.left:
                self.warn(f"reads more than {SEEN} values, the last {label}: {UNNOTICED}")
            return
        self.places[place] = wanted
        only_arrays = only_arrays or place in self.own
        if _is_container(value):
            self.container(value, label, wanted, slot, path, only_arrays=only_arrays)
        if before is not None:
            return
        if (known := _compiled_as(value)) is not None and slot.put is not _unset:
            if place in self.compared:
                self.compare(get, name, _holding(value))
            state.arrays.append((slot, path, label, known))
            state.reads.append((get, name))
            state.facts.append((label, known))
            return
        if type(value) in _READ:
            self.place(Slot(value, "()", partial(_READ[type(value)], value), _unset), f"{label}()", EVERY)
        elif _is(value, np.ufunc) and value.__name__.endswith(" (vectorized)"):
            self.warn(f"has {label}, which np.frompyfunc made: changes of what its function reads are not noticed")
        elif _is(value, Iterator) and self.is_taken_from(value, name, slot.holder):
            self.warn(f"takes from the iterator {label!r} once, while it is traced: every call has the same values")
        kind: Any = type(value)
        content, is_closed = None, type(slot.holder) is types.CellType and not path
        if inner := next((attribute for each, attribute in _KEEP.items() if issubclass(kind, each)), ""):
            put = partial(setattr, value)
            within = paths if inner == "data" else EVERY  # of each of the maps
            self.place(Slot(value, inner, partial(getattr, value), put), f"{label}.{inner}", within)
        elif not _is_librarys(value) and (content := _holding(value)) is not None:
            self.compare(get, name, content)
        is_plain = kind in _DICTS or kind in _CONTAINERS or kind in _NUMBERS or issubclass(kind, np.generic)
        if not is_plain and (content is None or _is_made_of_library(kind) or _is_users(value)):
            self.stack.append(partial(self.object, value, label, label if is_closed else name))
            if not issubclass(kind, types.ModuleType):  # whose attributes may be made when they are asked for
                self.stack.append(partial(self.function, value))
        if _is_library_function(value) and (path or not _is_named(slot.holder)):
            state.functions.append((slot, path, label))
        if not (only_arrays or (_is(value, types.ModuleType) and not _is_users(value))):
            state.items.append((get, name, value, label))
            state.facts.append((label, _said(value)))

    def is_taken_from(self, value: Any, name: Any, holder: Any) -> bool:
        """Whether an iterator is none of a library's own, no object of the user's, no file, and code has its name."""
        if _is(value, IOBase) or _is_users(value):
            return False
        if _is_named(holder):
            return of_the_user(holder.get("__file__") or "<string>")
        return not self.whole or name in self.attributes or type(holder) is types.CellType

    def compare(self, get: Callable[[Any], Any], name: Any, content: tuple[Any, ...] | None) -> None:
        """Let calls look whether an array holds what it holds now."""
        self.state.compared.append((get, name, content))
        self.state.facts.append((name, content))

    def container(
        self, value: Any, label: str, paths: Paths, slot: Slot, path: tuple[int, ...], *, only_arrays: bool,
    ) -> None:
        """Look into a list, a tuple or a dict: at the elements that are named, or at all."""
        if _is_fixed(value):
            return
        if len(value) > LONG or len(path) > DEEP:
            if not only_arrays:
                self.warn(f"reads {label}, of {len(value)} elements: {UNNOTICED}")
            return
        only_arrays = only_arrays or (id(value), None) in self.own
        everything, is_dict, count = () in paths, _is(value, dict), len(value)
        elements: dict[Any, tuple[Any, Paths]] = {}
        by_length = everything
        for named, *rest in sorted(filter(None, paths), key=repr):
            if is_dict or type(named) in {int, bool}:
                by_length = by_length or not (is_dict or 0 <= named < count)  # it is another one when there are more
                key = named if is_dict or not -count <= named < 0 else named + count
                shown, known = elements.get(key, (named, frozenset()))
                elements[key] = shown, known | {tuple(rest)}
        if everything:
            elements |= {key: (key, EVERY) for key in (value if is_dict else range(count))}
        counted = self.places.get((id(value), None))
        if by_length and not only_arrays and counted != EVERY:
            if counted is None:
                self.state.lengths.append((value, count))
            if everything:
                self.state.facts.append((label, tuple(value) if is_dict else count))
            self.places[id(value), None] = EVERY if everything else frozenset()
        for key, (named, further) in elements.items():
            if not (is_dict or 0 <= key < count):
                continue
            inside, place = (slot, (*path, key)) if _is(value, tuple) else (
                Slot(value, key, value.get if is_dict else value.__getitem__, value.__setitem__), ()
            )
            get = value.__getitem__ if _is(value, tuple) else inside.get
            shown = f"{label}[{named!r}]"
            if slot.key == "__defaults__" and _is(slot.holder, types.FunctionType) and not path:
                code = slot.holder.__code__
                shown = f"{code.co_name}.{code.co_varnames[code.co_argcount - len(value) + key]}"
            self.stack.append(partial(self.value, get, key, shown, further, inside, place, only_arrays=only_arrays))

    def object(self, value: Any, label: str, called: Any = None, *, every: bool = False) -> None:
        """Look at the attributes that code names of anything, where it is of a class of the user's, else of it.

        Where it has none of a name, its classes are looked at up to the one that has: nearer ones may get it later.
        """
        of_python = _has_attributes(value)
        if not (of_python or _is_users(value)):
            return
        module = _is(value, types.ModuleType)
        every = every or not (module or _is_installed(value))
        direct = self.following.get(called, frozenset())
        is_text = not SHOWN.isdisjoint(direct)
        seen = id(value), None if every else called, is_text
        if seen in self.seen:
            return
        self.seen.add(seen)
        own = _variables(value)
        classes = [*(value.__mro__ if _is(value, type) else ()), *type(value).__mro__]
        users = [kind for kind in classes if _is_users(kind)]
        names = {*self.attributes} if every or called is None else {*direct, *(self.texts & own.keys())}
        made = [vars(kind)[name] for kind in users for name in SHOWN if name in vars(kind)]
        plain = of_python or any(map(_is_library_function, made))
        whole = self.whole or (is_text and plain)  # whose text is made by code that is no user's, of all attributes
        by_name = every and whole and not _is(value, (*_CONTAINERS, *_NUMBERS))  # of a named tuple fields, no methods
        more = [key for kind in users for key in vars(kind)] if by_name else ()
        answers = any("__getattr__" in vars(kind) or "__getattribute__" in vars(kind) for kind in users) or (
            module and "__getattr__" in own)  # until there is an attribute
        for name in sorted({*names, *(SHOWN if is_text else ()), *[key for key in more if key[:2] != "__"]}):
            paths, shown = self.attributes.get(name, EVERY), f"{label}.{name}"
            holders = [kind for kind in classes if name in vars(kind)]  # all of them: super() goes past the first
            if holders and _is(vars(holders[0])[name], types.MemberDescriptorType):
                slot = Slot(value, name, partial(getattr, value), partial(object.__setattr__, value))
                self.place(slot, shown, paths)
                continue
            if type(own) is dict and holders and _is(vars(holders[0])[name], cached_property) and not module:
                _asked(value, name)  # from now on an attribute, which who deletes it has computed anew
            missed = answers or name in self.texts or name in direct
            if type(own) is dict and (name in own or holders or missed):
                self.place(Slot(own, name, own.get, own.__setitem__), shown, paths)
            if type(own) is dict and name in own:
                continue
            nearer = classes[: classes.index(holders[0])] if holders else classes if missed else ()
            for kind in users:
                if kind in nearer or kind in holders:
                    held = self.classes.setdefault(kind, vars(kind))  # one view, for it is known by its identity
                    self.place(Slot(kind, name, held.get, partial(setattr, kind)), shown, paths)
                if _is(found := vars(kind).get(name), property):
                    self.stack.append(partial(self.function, found.fget))
        of_library = {name for kind in classes if kind not in users and kind is not object for name in vars(kind)}
        for kind in [kind for kind in users if not _is_installed(kind)]:
            for name, found in [*vars(kind).items()]:
                if _is(found, (types.FunctionType, staticmethod, classmethod)) and (
                    self.is_asked(name, found, value) or (name in of_library and name[:2] != "__")  # which that calls
                ):
                    self.stack.append(partial(self.function, found))
        if type(own) is dict and every:
            if whole and (id(own), None) not in self.own:
                self.state.lengths.append((own, len(own)))
                self.state.facts.append((label, tuple(own)))
            for name in [key for key in own if key not in self.attributes]:
                if whole or _is(own[name], np.ndarray):
                    slot = Slot(own, name, own.get, own.__setitem__)
                    self.place(slot, f"{label}.{name}", EVERY, only_arrays=not whole)

    def is_asked(self, name: str, found: Any, value: Any) -> bool:
        """Whether Python calls a method of an object without its name: operators, ``with``, the call of a class.

        What compares all fields of an object, as a dataclass does, is asked where code compares.
        """
        if name in _COMPARES:
            return self.compares or not is_generated(getattr(found, "__code__", None))
        special = name[:2] == name[-2:] == "__" and name not in _UNASKED
        return special and (name not in _MAKES or self.whole or _is(value, type))

    def warn(self, what: str) -> None:
        """Warn, once for a function, of what is too much to be looked at in every call."""
        line, name = definition(self.roots[0]), getattr(self.roots[0], "__name__", "the function")
        instead = "an array, np.array(...), made outside, or an argument"
        warn_once(f"{line} {what}", str(SymgradError(f"{name}() {what}", line=line, instead=instead)))


def _is(value: Any, kinds: type | tuple[type, ...]) -> bool:
    """Whether something is of a class, as isinstance says but for a ``__class__`` that code of its own answers."""
    return issubclass(type(value), kinds)


def _asked(value: Any, name: str) -> Any:
    """Return an attribute of what may have code of its own for it; None where there is none, or that raises."""
    try:
        return getattr(value, name, None)
    except Exception as error:
        if interrupts(error):
            raise
        return None  # the function meets it where it asks


def _is_container(value: Any) -> bool:
    """Whether something is a list, a tuple, a dict or a deque, and no sparse matrix: one of these is made of a dict."""
    return _is(value, _CONTAINERS) and not is_sparse(type(value))


def _variables(value: Any) -> Any:
    """Return an object's variables, of a thread's own object those of this thread."""
    by_users = type(type(value).__getattribute__) is types.FunctionType
    try:
        found = object.__getattribute__(value, "__dict__") if by_users else getattr(value, "__dict__", None)
    except Exception:  # noqa: BLE001 - as in `_asked`
        found = None
    return found if _is(found, (dict, MappingProxyType)) else MappingProxyType({})


def _holding(value: Any) -> tuple[Any, ...] | None:
    """Return what an array holds, and its shape, or what a set, another mapping than a dict, or a buffer holds."""
    kind = type(value)
    if issubclass(kind, np.ndarray):  # which a traced array says it is
        mask = np.ma.getmaskarray(value).tobytes() if _is(value, np.ma.MaskedArray) else b""
        held = value.tobytes() if not value.dtype.hasobject else _holdings(value.ravel().tolist())
        return value.shape, value.dtype, held, mask
    if is_sparse(kind):
        parts = [part for of in _variables(value).values() for part in (of if type(of) is tuple else (of,))]
        held = [part.tolist() if _is(part, np.ndarray) and part.dtype.hasobject else part for part in parts]
        return value.shape, *[_holding(part) or repr(part) for part in held if _is(part, (np.ndarray, dict, list))]
    if issubclass(kind, (set, frozenset)):
        return kind, frozenset(_holdings(value))
    if issubclass(kind, (array, bytearray, memoryview)):
        return kind, bytes(value)
    if issubclass(kind, Mapping) and kind not in _DICTS:
        try:
            return kind, _holdings(value), _holdings(value.values())
        except Exception as error:  # of its own code, which may not be ready: then it is known as an object
            if interrupts(error):
                raise
    return _kept(value) if _is_made_of_library(kind) else None


def _holdings(values: Iterable[Any], depth: int = 0) -> tuple[Any, ...]:
    """Return what some values hold, or are known by."""
    found: list[Any] = []
    for one in itertools.islice(values, LONG):
        inner = None
        if _is_container(one) and not _is_fixed(one) and depth < FLAT:
            keys = tuple(one) if _is(one, dict) else ()
            inner = type(one), keys, _holdings(one.values() if keys else one, depth + 1)
        found.append(inner or _holding(one) or _said(one))
    return tuple(found)


def _is_made_of_library(kind: type) -> bool:
    """Whether a class is one of NumPy's or SciPy's of objects with attributes, or is made of one."""
    from_library = any(f"{each.__module__}.".startswith(("numpy.", "scipy.")) for each in kind.__mro__)
    attributes = kind.__dictoffset__ or any("__slots__" in vars(each) for each in kind.__mro__)
    return from_library and bool(attributes) and not issubclass(kind, (np.ndarray, np.generic, type))


def _is_librarys(value: Any) -> bool:
    """Whether an object stands in the library's own module, as a distribution does that nobody has given parameters."""
    home = _home(value) if _is_made_of_library(type(value)) and not _is_users(value) else None
    return home is not None and any(value is one for one in vars(home).values())


def _kept(value: Any) -> tuple[Any, ...] | None:
    """Return the numbers and arrays in the attributes of an object of NumPy's or SciPy's; None where there are none.

    Of an object of a class of the user's, those that the library's classes above it name.
    """
    own = attributes_of(value)
    kind: Any = type(value)
    named = names_of(kind) if _is_users(value) else own.keys()
    kinds = (*_NUMBERS[1:], *_CONTAINERS, np.ndarray, np.generic)
    found = {name: one for name, one in own.items() if name in named and _is(one, kinds)}
    return (*found, _holdings(found.values())) if found else None


def _said(value: Any) -> Any:
    """Return what a value is known by: a number or a text by what it says, others by their identity."""
    if _is(value, np.generic):
        return value.dtype, value.tobytes()
    if type(value) in _NUMBERS or _is_fixed(value):
        return type(value), repr(value)
    return type(value) if _is(value, _CONTAINERS) else id(value)


def _is_library_function(value: Any) -> bool:
    """Whether something is a function or a method, in Python no user's."""
    if _is(value, (staticmethod, classmethod)):
        value = value.__func__
    if not callable(value) or _is(value, (type, types.ModuleType)):
        return False
    code = _asked(_asked(value, "__func__") or value, "__code__")
    return type(code) is not types.CodeType or not is_user_code(code.co_filename)


def _is_named(holder: Any) -> bool:
    """Whether a place is a name of a module, where a trace looks for functions itself; attrs runs with copies."""
    if type(holder) is not dict or "__builtins__" not in holder:
        return False
    module = sys.modules.get(holder.get("__name__", ""))
    return module is None or _variables(module) is holder


def _is_fixed(value: Any) -> bool:
    """Whether something is a tuple of numbers, texts and such tuples, which stays what it is."""
    level = [value] if _is(value, tuple) else []
    for _ in range(DEEP if level else 0):
        inner = [one for each in level for one in each]
        level = [one for one in inner if _is(one, tuple)]
        if len(inner) > SEEN or not all(
            type(one) in _NUMBERS or _is(one, (tuple, np.number, np.bool)) for one in inner
        ):
            return False
        if not level:
            return True
    return False


_READ: dict[type, Callable[[Any, Any], Any]] = {
    ContextVar: lambda variable, _: variable.get(None), weakref.ref: lambda reference, _: reference(),
    **dict.fromkeys(weakref.ProxyTypes, lambda proxy, _: proxy.__init__.__self__),  # which only its methods say
}
"""What is asked for another value, and how."""


def _unset(_key: Any, _new: Any) -> None:
    """Leave what is asked for as it is: an array there is compared."""


def _unwrapped(value: Any) -> list[Any]:
    """List a method, a partial or another wrapper, what it is of, and so on, to a Python function if there is one."""
    found = [value]
    while not _is(found[-1], types.FunctionType) and len(found) <= DEEP:
        value = found[-1].func if _is(found[-1], partial) else _asked(found[-1], "__func__")
        value = _asked(found[-1], "__wrapped__") if value is None else value
        if value is None:
            break
        found.append(value)
    return found


def _home(value: Any) -> Any:
    """Return the module of an object's class, of a class, or a module itself."""
    kind = value if _is(value, type) else type(value)
    return value if _is(value, types.ModuleType) else sys.modules.get(kind.__module__)


def _file(module: Any) -> Any:
    """Return the file of a module, which may answer any name itself; None where there is none."""
    return _variables(module).get("__file__")


def _is_installed(value: Any) -> bool:
    """Whether something is of an installed package."""
    file = _file(_home(value))
    return file is not None and is_user_code(file) and not of_the_user(file)


def _has_attributes(value: Any) -> bool:
    """Whether something is a function of the user's, or an object of Python's own with attributes: `Namespace`."""
    kind = type(value)
    if kind is types.FunctionType:
        return of_the_user(value.__code__.co_filename)
    of_python = kind.__module__.partition(".")[0] in sys.stdlib_module_names
    return of_python and not _is(value, (type, types.ModuleType)) and type(_variables(value)) is dict


def _is_users(value: Any) -> bool:
    """Whether an object, a class or a module is the user's."""
    module = _home(value)
    own = _variables(module)
    if own.get("__name__") == "__main__":
        return True
    if module is not None and own.get("__spec__") is None and "__file__" not in own:
        return True  # made by hand, or by exec
    return is_user_code(_file(module) or "<frozen ")


# -- what happens while it is traced, and would not happen again


@contextmanager
def captured_rng(
    fun: Callable[..., Any], captured: Iterable[tuple[str, Any]], states: dict[int, Any], branches: Branches | None,
) -> Iterator[None]:
    """Warn, once for a function and a name, where it draws from a captured random generator while it is traced.

    In later traces it draws the same numbers: `states` says where the generators stood in the first one. Of others,
    `branches` are told, which may refuse it.
    """
    before = [(name, value, state) for name, value in captured if (state := _state(value)) is not None]
    for _, value, _ in before:
        if id(value) in states:
            _set_state(value, states[id(value)][1])
    line = definition(fun) if before else None
    try:
        yield
        for name, value, state in before:
            if branches is not None and id(value) not in states and str(_state(value)) != str(state):
                branches.draw(f"the random generator {name!r}", line)
    except BaseException:
        for _, value, state in before:
            _set_state(value, state)
        raise
    for name, value, state in before:
        _, start = states.get(id(value), (value, state))
        if str(_state(value)) == str(start):
            continue
        if id(value) in states:
            _set_state(value, state)
        states[id(value)] = value, start
        shown = f"the random generator {name!r}"
        warn_once(f"{line} {shown}", str(SymgradError(
            f"{getattr(fun, '__name__', 'the function')}() draws from {shown} once, while it is traced: every call "
            "uses the same numbers, and so does every step of a training", line=_line_that_reads(fun, name) or line,
            instead="draw outside and pass the numbers as an argument; or draw by an argument that counts the calls, "
            "as nn.dropout(x, rate, seed, step) does",
        )))


def _line_that_reads(fun: Any, name: str) -> Line | None:
    """Return the first line of a function, or of those in it and of those that it knows by a name, that reads a name.

    Of an attribute it is the line of its last part.
    """
    functions, wanted = [one for one in _unwrapped(fun) if isinstance(one, types.FunctionType)], name.rpartition(".")[2]
    codes = [(one.__code__, one.__globals__) for one in functions]
    for code, variables in codes:  # which grows
        reads = [i.offset for i in dis.get_instructions(code) if i.argval == wanted and i.opname.startswith("LOAD_")]
        for start, end, number in code.co_lines():
            if number is not None and any(start <= offset < end for offset in reads):
                return Line(code.co_filename, number, linecache.getline(code.co_filename, number).strip())
        found = [(one, variables) for one in code.co_consts if isinstance(one, types.CodeType)]
        called = [variables.get(one) for one in code.co_names]
        found += [(one.__code__, one.__globals__) for one in called if isinstance(one, types.FunctionType)]
        own = [known for known, _ in codes]
        codes += [one for one in found if of_the_user(one[0].co_filename) and one[0] not in own]
    return None


def _state(generator: Any) -> Any:
    """Return the state of a random generator, of which every draw changes something; None of anything else."""
    drawn = sys.modules.get("numpy.random")
    if _is(generator, random.Random):
        return generator.getstate()
    if drawn is not None and _is(generator, drawn.Generator):
        return generator.bit_generator.state
    if drawn is not None and _is(generator, drawn.RandomState):
        return generator.get_state(legacy=False)
    return None


def _set_state(generator: Any, state: Any) -> None:
    """Put a random generator back to where it was."""
    if _is(generator, random.Random):
        generator.setstate(state)
    elif hasattr(generator, "bit_generator"):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)
