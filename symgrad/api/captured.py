"""Globals and closed-over values a function reads: constants when traced, noticed when they are bound anew."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from symgrad.trace.lines import is_user_code

if TYPE_CHECKING:
    from collections.abc import Callable

_PASSIVE = (types.ModuleType, type, types.BuiltinFunctionType)


class Captured:
    """Where a function, and the user's functions it calls, read values that are not their own.

    A value is known by its identity: binding a name to another object is noticed, a change in place is not.
    """

    def __init__(self, fun: Callable[..., Any]) -> None:
        """Find the names, in the function and in the functions they lead to."""
        self.places: list[tuple[Any, str | None]] = []
        self.held: list[tuple[Any, ...]] = []
        seen: set[int] = set()
        stack: list[Any] = [fun]
        while stack:
            inner = _plain(stack.pop())
            if inner is None or id(inner) in seen or not is_user_code(inner.__code__.co_filename):
                continue
            seen.add(id(inner))
            for name in sorted(_names(inner.__code__)):
                value = inner.__globals__.get(name)
                if name in inner.__globals__ and not isinstance(value, _PASSIVE):
                    self.places.append((inner.__globals__, name))
                    stack.append(value)
            for cell in inner.__closure__ or ():
                if not isinstance(_content(cell), _PASSIVE):
                    self.places.append((cell, None))
                    stack.append(_content(cell))

    def values(self) -> tuple[Any, ...]:
        """Return what stands in the places now."""
        return tuple([_content(place) if name is None else place.get(name) for place, name in self.places])

    def identity(self) -> tuple[int, ...]:
        """Identify what stands in the places now; what was identified once is kept alive."""
        if not self.places:
            return ()
        values = self.values()
        ids = tuple(map(id, values))
        if not self.held or tuple(map(id, self.held[-1])) != ids:
            self.held.append(values)
        return ids

    def changed(self) -> bool:
        """Tell whether the last identification found something new."""
        return len(self.held) > 1 and any(a is not b for a, b in zip(self.held[-1], self.held[-2], strict=True))


def _plain(value: Any) -> Any:
    """Unwrap methods, partials and wrappers to a Python function, None where there is none."""
    for _ in range(20):
        if isinstance(value, types.FunctionType):
            return value
        value = getattr(value, "__func__", None) or getattr(value, "func", None) or getattr(value, "__wrapped__", None)
        if value is None:
            return None
    return None


def _names(code: types.CodeType) -> set[str]:
    """Return the names a function's code looks up, nested functions included."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None
