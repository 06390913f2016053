"""What a function reads that is no argument: globals, closed-over values, attributes (``config.rate``, ``self.rate``).

They are constants when it is traced. A name that is bound to another object is noticed at the next call; while it is
traced, a write into an array and a draw from a random generator are, which would happen once and not at each call.
"""

from __future__ import annotations

import builtins
import dis
import random
import sys
import types
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.errors import MutationError, warn
from symgrad.trace.lines import definition, is_user_code
from symgrad.trace.replaced import stood_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from symgrad.errors import Line
    from symgrad.trace.branches import Branches

    Content = np.ndarray[Any, Any]

Place = tuple[Any, str, Any]
"""A dict (or a class's view of one), a name in it, and what it leads to: a function there is a method of its object."""

WHOLE = 1 << 24
"""Arrays of so many bytes are compared as a whole; of larger ones, every n-th element."""

SEEN = 1000
"""So many values are looked at, in lists, tuples and dicts too."""

_PASSIVE = (types.ModuleType, type, types.BuiltinFunctionType)

_warned: set[tuple[Line | None, str]] = set()


class Captured:
    """Where a function, and the user's functions it calls, read values that are not their own.

    A value is known by its identity: binding a name to another object is noticed, a change in place is not.
    """

    def __init__(self, fun: Callable[..., Any]) -> None:
        """Note the function; its names are looked for when it is called: a decorator comes before what stands below."""
        self.fun = fun
        self.places: list[tuple[Any, str | None]] | None = None
        self.labels: list[str] = []
        self.held: list[tuple[Any, ...]] = []

    def survey(self) -> list[tuple[Any, str | None]]:
        """Find the names, in the function and in the functions they lead to now."""
        places: list[tuple[Any, str | None]] = []
        self.labels = []
        seen: set[int] = set()
        stack: list[Any] = [self.fun]

        def found(place: Any, name: str | None, label: str, value: Any) -> None:
            places.append((place, name))
            self.labels.append(label)
            stack.append(value)

        while stack:
            read = stack.pop()
            for rule in getattr(type(read), "symgrad_rules", ()):  # of a custom function, which may be set anew
                found(vars(read), rule, rule, getattr(read, rule))
            inner, owner = _unwrapped(read)
            if inner is None or id(inner) in seen or not is_user_code(inner.__code__.co_filename):
                continue
            seen.add(id(inner))
            for name in _names(inner.__code__):
                value = stood_for(inner.__globals__.get(name))
                if not isinstance(value, _PASSIVE) and (name in inner.__globals__ or not hasattr(builtins, name)):
                    found(inner.__globals__, name, name, value)
            for name, cell in zip(inner.__code__.co_freevars, inner.__closure__ or (), strict=True):
                if not isinstance(_cell_value(cell), _PASSIVE):
                    found(cell, None, name, _cell_value(cell))
            for holder, name, value in read_attributes(inner, owner):
                found(holder, name, name, value)
        return places

    def identity(self) -> tuple[int, ...]:
        """Identify what stands in the places now; what was identified once is kept alive."""
        values = None if self.places is None else _values(self.places)
        ids = None if values is None else tuple(map(id, values))
        if ids is None or (ids and tuple(map(id, self.held[-1])) != ids):  # a function bound anew leads to other names
            self.places = self.survey()
            values = _values(self.places)
            ids = tuple(map(id, values))
            self.held = [*[one for one in self.held if tuple(map(id, one)) != ids], values]
        return ids

    def named(self) -> list[tuple[str, Any]]:
        """Return what stands in the places now, each with its name."""
        self.identity()
        return list(zip(self.labels, self.held[-1] if self.held else (), strict=True))

    def watched(self, call: Callable[[tuple[Any, ...]], Any], otherwise: Any) -> Callable[[tuple[Any, ...]], Any]:
        """Make a call that is made only while the places hold what they hold now; else it answers `otherwise`.

        It is what `identity` would find, without counting what a call of a microsecond would feel.
        """
        self.identity()
        places = self.places or []
        if not places:
            return call
        cells = [(place, stood_for(place.cell_contents)) for place, name in places if name is None]
        named = [(place, name, stood_for(place.get(name))) for place, name in places if name is not None]

        def checked(args: tuple[Any, ...]) -> Any:
            try:
                for cell, value in cells:
                    if cell.cell_contents is not value:
                        return otherwise
            except ValueError:  # the variable was deleted
                return otherwise
            for place, name, value in named:
                if place.get(name) is not value:
                    return otherwise
            return call(args)

        return checked

    def changed(self) -> bool:
        """Whether the last identification found something new."""
        return len(self.held) > 1 and [*map(id, self.held[-1])] != [*map(id, self.held[-2])]


def _unwrapped(value: Any) -> tuple[Any, Any]:
    """Unwrap methods, partials and wrappers to a Python function, None where there is none; and its object."""
    owner = None
    for _ in range(20):
        if isinstance(value, types.FunctionType):
            return value, owner
        owner = getattr(value, "__self__", owner)
        value = getattr(value, "__func__", None) or getattr(value, "func", None) or getattr(value, "__wrapped__", None)
        if value is None:
            break
    return None, None


def _values(places: list[tuple[Any, str | None]]) -> tuple[Any, ...]:
    """Return what stands in the places now."""
    return tuple([_cell_value(place) if name is None else stood_for(place.get(name)) for place, name in places])


def _cell_value(cell: Any) -> Any:
    try:
        return stood_for(cell.cell_contents)
    except ValueError:
        return None


# -- names and attributes in a function's code


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield a function's code and that of the functions inside of it."""
    stack = [code]
    while stack:
        each = stack.pop()
        yield each
        stack += [constant for constant in each.co_consts if isinstance(constant, types.CodeType)]


@lru_cache(maxsize=1024)  # of a lambda in a loop, and of a method of many objects, the code is one
def _names(code: types.CodeType) -> list[str]:
    """Return the global names a function's code looks up, nested functions included.

    Those that no source can spell are pytest's, which rewrites assertions: what they lead to changes from test to test.
    """
    every = [i for each in _codes(code) for i in dis.get_instructions(each)]
    return sorted({i.argval for i in every if i.opname in {"LOAD_GLOBAL", "LOAD_NAME"} and i.argval.isidentifier()})


def read_attributes(function: types.FunctionType, owner: Any) -> list[Place]:
    """List where the attributes stand that a function reads of globals, closed-over values and its own object.

    Modules and classes of libraries are left out, and what the function's own code sets: a count of its calls.
    """
    code = function.__code__
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    roots: dict[str, Any] = {name: _cell_value(cell) for name, cell in cells}
    if owner is not None and code.co_argcount:
        roots[code.co_varnames[0]] = owner
    found: dict[tuple[int, str], Place] = {}
    for kind, name, attributes in _chains(code):
        value = (function.__globals__ if kind == "global" else roots).get(name)
        for place in _followed(value, attributes):
            found[id(place[0]), place[1]] = place
    return list(found.values())


@lru_cache(maxsize=1024)
def _chains(code: types.CodeType) -> list[tuple[str, str, tuple[str, ...]]]:
    """List names and the attributes read of them, ``a.b.c``, in a function and the functions inside of it.

    A name is ``global``, or the function's ``own`` (closed over, or a parameter).
    """
    chains: list[tuple[str, str, tuple[str, ...]]] = []
    written: set[str] = set()
    for each in _codes(code):
        kind, name, attributes = "", "", []
        for instruction in dis.get_instructions(each):
            opname = instruction.opname
            if opname in {"LOAD_ATTR", "LOAD_METHOD"} and kind:
                attributes.append(str(instruction.argval))
                continue
            if attributes:
                chains.append((kind, name, tuple(attributes)))
            attributes, name = [], str(instruction.argval)
            own = opname == "LOAD_DEREF" or (each is code and opname.startswith("LOAD_FAST"))
            kind = "global" if opname in {"LOAD_GLOBAL", "LOAD_NAME"} else "own" if own else ""
            kind = kind if name.isidentifier() else ""
            if opname == "STORE_ATTR":
                written.add(name)
    return [chain for chain in chains if not written & {*chain[2]}]


def _followed(value: Any, attributes: tuple[str, ...]) -> Iterator[Place]:
    """Follow attributes from an object: where each stands, or would stand if it were set."""
    for name in attributes:
        own = getattr(value, "__dict__", None) if _is_users(value) else None
        if own is None:
            return
        yield own, name, own.get(name)
        if name in own:
            value = own[name]
            continue
        classes = value.__mro__ if isinstance(value, type) else type(value).__mro__
        holder = next((vars(kind) for kind in classes if name in vars(kind)), None)
        if holder is None:
            return
        method = isinstance(holder[name], types.FunctionType) and not isinstance(value, type)
        yield holder, name, types.MethodType(holder[name], value) if method else holder[name]
        value = holder[name]


def _is_users(value: Any) -> bool:
    """Whether an object, a class or a module is the user's."""
    if isinstance(value, types.SimpleNamespace):
        return True
    kind = value if isinstance(value, type) else type(value)
    module = value if isinstance(value, types.ModuleType) else sys.modules.get(kind.__module__)
    if module is not None and module.__name__ == "__main__":
        return True
    return is_user_code(getattr(module, "__file__", None) or "<frozen ")


# -- what happens while it is traced, and would not happen again


@contextmanager
def captured_writes(fun: Callable[..., Any], captured: Iterable[tuple[str, Any]]) -> Iterator[None]:
    """Check that a function, while it is traced, does not write into the arrays it reads from outside.

    No tracer sees plain arrays: writes are found by what the arrays hold afterwards.
    """
    before = [(name, array, _sample(array)) for name, array in _arrays_in(captured)]
    yield
    for name, array, content in before:
        if _sample(array).tobytes() == content.tobytes():
            continue
        raise MutationError(
            f"{name}, {array.dtype}{list(array.shape)}, is written while {getattr(fun, '__name__', 'a function')}() is "
            "traced: the write would happen once, and not when the compiled function is called again",
            line=definition(fun), instead=f"a copy, np.copy({name}), written inside of the function, or an argument",
        )


def _sample(array: Content) -> Content:
    """Copy what an array holds; of a large one, every n-th element."""
    sample: Content = array.copy() if array.nbytes <= WHOLE else array.flat[:: 1 + array.nbytes // WHOLE]
    return sample


def _arrays_in(captured: Iterable[tuple[str, Any]]) -> list[tuple[str, Content]]:
    """Find plain arrays among named values, and in their lists, tuples and dicts."""
    found: dict[int, tuple[str, Content]] = {}
    stack, left = list(captured), SEEN
    while stack and left:
        left -= 1
        name, value = stack.pop()
        if type(value) is np.ndarray:
            if not value.dtype.hasobject:
                found.setdefault(id(value), (name, value))
        elif type(value) in {list, tuple} and len(value) <= SEEN:
            stack += [(f"{name}[{k}]", item) for k, item in enumerate(value)]
        elif type(value) is dict and len(value) <= SEEN:
            stack += [(f"{name}[{key!r}]", item) for key, item in value.items()]
    return list(found.values())


@contextmanager
def captured_rng(
    fun: Callable[..., Any], captured: Iterable[tuple[str, Any]], branches: Branches | None,
) -> Iterator[None]:
    """Warn, once for a function and a name, where it draws from a captured random generator while it is traced."""
    before = [(name, value, state) for name, value in captured if (state := _state(value)) is not None]
    yield
    for name, value, state in before:
        line, shown = definition(fun), f"the random generator {name!r}"
        if _state(value) != state and branches is not None:
            branches.drawn = branches.drawn or (shown, line)
        if _state(value) == state or (line, shown) in _warned:
            continue
        _warned.add((line, shown))
        where = f"\n  at {line.file}:{line.number}\n      {line.text}" if line else ""
        warn(
            f"{getattr(fun, '__name__', 'the function')}() draws from {shown} once, while it is traced: the "
            f"numbers are constants in every call{where}"
            "\n  instead: draw outside and pass the numbers as an argument"
        )


def _state(generator: Any) -> Any:
    """Return the state of a random generator, of which every draw changes something; None of anything else."""
    drawn = sys.modules.get("numpy.random")
    if isinstance(generator, random.Random):
        return generator.getstate()
    if drawn is not None and isinstance(generator, drawn.Generator):
        return str(generator.bit_generator.state)
    if drawn is not None and isinstance(generator, drawn.RandomState):
        return str(generator.get_state(legacy=False))
    return None
