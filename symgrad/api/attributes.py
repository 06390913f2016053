"""Attributes a function reads of objects that are not its arguments: ``config.rate``, ``self.rate``."""

from __future__ import annotations

import dis
import sys
import types
from typing import TYPE_CHECKING, Any

from symgrad.trace.lines import is_user_code

if TYPE_CHECKING:
    from collections.abc import Iterator

Place = tuple[Any, str, Any]
"""A dict (or a class's view of one), a name in it, and what it leads to: a function there is a method of its object."""


def read_attributes(function: types.FunctionType, owner: Any) -> list[Place]:
    """List where the attributes stand that a function reads of globals, closed-over values and its own object.

    Modules and classes of libraries are left out, and what the function's own code sets: a count of its calls.
    """
    code = function.__code__
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    roots: dict[str, Any] = {name: _content(cell) for name, cell in cells}
    first = code.co_varnames[0] if owner is not None and code.co_argcount else None
    if first is not None:
        roots[first] = owner
    found: dict[tuple[int, str], Place] = {}
    for kind, name, attributes in _chains(code):
        value = (function.__globals__ if kind == "global" else roots).get(name)
        for place in _places(value, attributes):
            found[id(place[0]), place[1]] = place
    return list(found.values())


def _chains(code: types.CodeType) -> list[tuple[str, str, tuple[str, ...]]]:
    """List names and the attributes read of them, ``a.b.c``, in a function and the functions inside of it."""
    chains: list[tuple[str, str, tuple[str, ...]]] = []
    written: set[str] = set()
    for each in _codes(code):
        kind, name, attributes = "", "", []
        for instruction in dis.get_instructions(each):
            if instruction.opname in {"LOAD_ATTR", "LOAD_METHOD"} and kind:
                attributes.append(str(instruction.argval))
                continue
            if attributes:
                chains.append((kind, name, tuple(attributes)))
            attributes, name = [], str(instruction.argval)
            kind = _kind(instruction.opname, outermost=each is code)
            if instruction.opname == "STORE_ATTR":
                written.add(name)
    return [chain for chain in chains if not written & {*chain[2]}]


def _kind(opname: str, *, outermost: bool) -> str:
    """Tell where a loaded name is looked up: among globals, in the function, or nowhere."""
    if opname in {"LOAD_GLOBAL", "LOAD_NAME"}:
        return "global"
    return "own" if opname == "LOAD_DEREF" or (outermost and opname.startswith("LOAD_FAST")) else ""


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    stack = [code]
    while stack:
        each = stack.pop()
        yield each
        stack += [constant for constant in each.co_consts if isinstance(constant, types.CodeType)]


def _places(value: Any, attributes: tuple[str, ...]) -> Iterator[Place]:
    """Follow attributes from an object: where each stands, or would stand if it were set."""
    for name in attributes:
        if not _of_the_user(value):
            return
        own = getattr(value, "__dict__", None)
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


def _of_the_user(value: Any) -> bool:
    """Tell an object, a class or a module of the user's."""
    module = value if isinstance(value, types.ModuleType) else sys.modules.get(
        (value if isinstance(value, type) else type(value)).__module__
    )
    if isinstance(value, types.SimpleNamespace):
        return True
    if module is not None and module.__name__ == "__main__":
        return True
    return is_user_code(getattr(module, "__file__", None) or "<frozen ")


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None
