"""Globals, closed-over values and attributes a function reads: constants when traced, noticed when bound anew."""

from __future__ import annotations

import builtins
import dis
import types
from typing import TYPE_CHECKING, Any

from symgrad.api.attributes import read_attributes
from symgrad.trace.lines import is_user_code

if TYPE_CHECKING:
    from collections.abc import Callable

_PASSIVE = (types.ModuleType, type, types.BuiltinFunctionType)


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
        while stack:
            read = stack.pop()
            for rule in getattr(type(read), "symgrad_rules", ()):  # of a custom function, which may be set anew
                places.append((vars(read), rule))
                self.labels.append(rule)
                stack.append(getattr(read, rule))
            inner, owner = _plain(read)
            if inner is None or id(inner) in seen or not is_user_code(inner.__code__.co_filename):
                continue
            seen.add(id(inner))
            for name in sorted(_names(inner.__code__)):
                value = inner.__globals__.get(name)
                if not isinstance(value, _PASSIVE) and (name in inner.__globals__ or not hasattr(builtins, name)):
                    places.append((inner.__globals__, name))
                    self.labels.append(name)
                    stack.append(value)
            for name, cell in zip(inner.__code__.co_freevars, inner.__closure__ or (), strict=True):
                if not isinstance(_content(cell), _PASSIVE):
                    places.append((cell, None))
                    self.labels.append(name)
                    stack.append(_content(cell))
            for holder, name, value in read_attributes(inner, owner):
                places.append((holder, name))
                self.labels.append(name)
                stack.append(value)
        return places

    def identity(self) -> tuple[int, ...]:
        """Identify what stands in the places now; what was identified once is kept alive."""
        places = self.places
        values = None if places is None else _values(places)
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
        cells = [(place, place.cell_contents) for place, name in places if name is None]
        named = [(place, name, place.get(name)) for place, name in places if name is not None]

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
        """Tell whether the last identification found something new."""
        return len(self.held) > 1 and [*map(id, self.held[-1])] != [*map(id, self.held[-2])]


def _plain(value: Any) -> tuple[Any, Any]:
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


def _names(code: types.CodeType) -> set[str]:
    """Return the global names a function's code looks up, nested functions included."""
    found = {i.argval for i in dis.get_instructions(code) if i.opname in {"LOAD_GLOBAL", "LOAD_NAME"}}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found


def _values(places: list[tuple[Any, str | None]]) -> tuple[Any, ...]:
    """Return what stands in the places now."""
    return tuple([_content(place) if name is None else place.get(name) for place, name in places])


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None
