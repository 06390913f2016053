"""Annotations of jaxtyping's, read for the names of axes and for dtypes.

``Float64[np.ndarray, "n d"]`` is a class that carries its text (``dim_str``) and the names of its dtypes
(``dtypes``). jaxtyping itself is not imported: where the user has not, there is no such annotation.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import types
import typing
from typing import TYPE_CHECKING, Any

from symgrad.api.axes import ANY, Axes, sum_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from symgrad.trace.signature import Signature

_NAME = re.compile(r"[A-Za-z]\w*(\+[1-9]\d{0,8})?")


def hints(fun: Callable[..., Any]) -> dict[str, Any]:
    """Read a function's annotations; empty where jaxtyping is not in use, or names in them cannot be found."""
    if "jaxtyping" not in sys.modules:
        return {}
    plain: Any = fun
    while isinstance(plain, functools.partial):
        plain = plain.func
    plain = inspect.unwrap(plain, stop=lambda f: not getattr(f, "annotated", True))
    plain = getattr(plain, "__func__", plain)
    if not isinstance(plain, types.FunctionType):
        return {}
    try:
        return typing.get_type_hints(plain)
    except Exception:  # noqa: BLE001 - annotations may hold anything, also names that exist for type checkers alone
        return {k: v for k, v in plain.__annotations__.items() if not isinstance(v, str)}


def by_leaf(known: dict[str, Any], parameter: Callable[[str | int], str], signature: Signature) -> list[Axes | None]:
    """Give each array of a call what its argument's annotation says.

    Args:
        known: the annotations of the parameters.
        parameter: gives the name of the parameter that a position or a keyword goes to.
        signature: the arguments.
    """
    found: list[Axes | None] = []
    for key, accessor in zip(signature.positions, signature.tree.accessors(), strict=True):
        hint = known.get(parameter(key))
        for entry in tuple(accessor)[2:]:
            hint = None if hint is None else _part(hint, entry.entry)
        found.append(None if hint is None else _read(hint))
    return found


def _part(hint: Any, entry: Any) -> Any:
    """Return what an annotation of a structure says of one part: of ``dict[str, T]``, ``tuple[T, ...]``, a class."""
    hint = _sole(hint)
    if isinstance(getattr(hint, "leaftype", None), type):
        return hint  # PyTree[T]: of every leaf
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple and arguments[-1:] != (Ellipsis,):
        return arguments[entry] if isinstance(entry, int) and entry < len(arguments) else None
    if isinstance(origin, type) and arguments:
        return arguments[0 if origin is tuple else -1]  # tuple[T, ...], dict[K, T], list[T] and their like
    return _field(hint, entry) if isinstance(hint, type) else None


def _sole(hint: Any) -> Any:
    """Return T of an annotation ``T | None``; None for a union of more."""
    if typing.get_origin(hint) not in {typing.Union, types.UnionType}:
        return hint
    kept = [a for a in typing.get_args(hint) if a is not type(None)]
    return kept[0] if len(kept) == 1 else None


def _field(kind: type, entry: Any) -> Any:
    """Return the annotation of a field of a NamedTuple, a TypedDict or a dataclass."""
    fields = list(getattr(kind, "_fields", ()))
    name = fields[entry] if isinstance(entry, int) and entry < len(fields) else entry
    try:
        return typing.get_type_hints(kind).get(name)
    except Exception:  # noqa: BLE001 - as in `hints`
        return None


def _read(hint: Any) -> Axes | None:
    """Read one annotation; None where it says nothing of axes."""
    hint = _sole(hint)
    hint = getattr(hint, "leaftype", hint)
    text, dtypes = getattr(hint, "dim_str", None), getattr(hint, "dtypes", None)
    if not isinstance(text, str):
        return None
    words: list[int | str | None] = []
    for dim in text.split():
        words += _word(dim)
    if words.count(ANY) > 1:
        return None
    names = frozenset(map(str, dtypes)) if isinstance(dtypes, (tuple, list)) else None
    return Axes(tuple(words), names, getattr(hint, "__name__", text))


def _word(dim: str) -> list[int | str | None]:
    """Read one axis of jaxtyping's: a name, a number, ``n+1``; ``_``, ``#n`` (which may be 1), ``?n`` say nothing."""
    dim = dim.rsplit("=", maxsplit=1)[-1]
    if dim == "..." or dim.startswith("*"):
        return [ANY]
    if dim.isdigit():
        return [int(dim)]
    return [sum_of(dim, strict=False) if _NAME.fullmatch(dim) else None]
