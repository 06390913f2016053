"""What a user says of the axes of arguments: names and numbers for extents, by ``dynamic=`` or by annotations.

An annotation of jaxtyping's, ``Float64[np.ndarray, "n d"]``, is a class that carries its text (``dim_str``) and the
names of its dtypes (``dtypes``). jaxtyping itself is not imported: where the user has not, there is no such annotation.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import types
import typing
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from symgrad.api.call.argnums import chosen
from symgrad.errors import ArgumentError, ArgumentValueError
from symgrad.ir.shapes import show
from symgrad.ops.declare.forms import COMPILED
from symgrad.trace.signature import Spec, extent_name, extent_of, signature_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from symgrad.trace.signature import Signature

Said = tuple["int | str | None", ...]
"""What is said of extents, one after the other: a number, a name, or nothing."""

ANY = "..."
_WORD = re.compile(r"\d{1,15}|[A-Za-z]\w*(\s*\+\s*[1-9]\d{0,8})?|_|\.\.\.")
_NAME = re.compile(r"[A-Za-z]\w*(\+[1-9]\d{0,8})?")

WIDEST = ("float64", "int64", "uint64", "bool")
"""What ``Float``, ``Int``, ``UInt`` and ``Bool`` are: NumPy's own choice."""


class Axes(NamedTuple):
    """What is said of one array.

    Attributes:
        words: for each axis a number, a name or None; `ANY` stands for any number of axes of which nothing is said.
        dtypes: names of the dtypes it may have, None for all.
        shown: how the user wrote it.
    """

    words: tuple[int | str | None, ...]
    dtypes: frozenset[str] | None
    shown: str

    def of_rank(self, rank: int) -> Said | None:
        """Say it of an array of so many axes; None where it has another number of them."""
        if ANY not in self.words:
            return self.words if len(self.words) == rank else None
        place, more = self.words.index(ANY), rank - len(self.words) + 1
        if more < 0:
            return None
        return (*self.words[:place], *[None] * more, *self.words[place + 1 :])


def axes(text: Any) -> Axes:
    """Read the axes of an array: ``"n,d"``, ``"n,3"``, ``"n+1"``, ``"..., n"``; ``_`` says nothing of an axis.

    >>> axes("n,_,3").words
    ('n', None, 3)
    """
    words = [w.strip() for w in text.split(",")] if isinstance(text, str) and text.strip() else []
    if not isinstance(text, str) or not all(map(_WORD.fullmatch, words)) or words.count(ANY) > 1:
        raise ArgumentValueError(f"dynamic names axes by {text!r:.60}", instead='as "n,d", "n,3", "n,_" or "...,n"')
    read = [int(w) if w.isdigit() else None if w == "_" else w if w == ANY else sum_of(w) for w in words]
    return Axes(tuple(read), None, f"dynamic {text!r}")


def sum_of(word: str, *, strict: bool = True) -> str:
    """Read ``n`` or ``n + 1``, with a name that C takes."""
    name, plus, more = word.replace(" ", "").partition("+")
    return f"{extent_name(name, strict=strict)}{plus}{more}"


def by_argument(described: Mapping[int | str, Axes], signature: Signature) -> list[Axes | None]:
    """Give each array of a call what is said of it, by the position, the name or the path of an argument."""
    found: list[Axes | None] = [None] * len(signature.specs)
    for key, said in described.items():
        root = path_root(key) if isinstance(key, str) else key
        if not any(root in (k, path_root(path)) for k, path in zip(signature.positions, signature.paths, strict=True)):
            continue  # an argument that was left out
        try:
            (part,) = chosen((key,), signature)
        except ArgumentValueError:
            known = ", ".join(signature.paths)
            raise ArgumentValueError(f"dynamic names {key!r}, which is no array among the arguments {known}") from None
        for leaf in part.leaves:
            found[leaf] = said
    return found


def path_root(path: str) -> str:
    """Return the argument a path begins with."""
    return re.match(r"\w*", path)[0]  # type: ignore[index]


def extents_said(described: Sequence[Axes | None], signature: Signature) -> Said:
    """List what is said of every extent of a call."""
    found: list[int | str | None] = []
    for one, spec, path in zip(described, signature.specs, signature.paths, strict=True):
        if one is None:
            found += [None] * len(spec.shape)
            continue
        words = one.of_rank(len(spec.shape))
        fits = one.dtypes is None or spec.dtype.name in one.dtypes
        if not fits and one.dtypes and spec.weak is not None:  # a Python number is allowed by its kind
            fits = spec.weak is int or any(name.startswith(spec.dtype.name[:3]) for name in one.dtypes)
        if words is None or not fits:
            raise ArgumentError(f"argument {path} is {spec}, and its axes and dtype are to be {one.shown}")
        found += words
    return tuple(found)


def check_extents(words: Said, signature: Signature) -> None:
    """Check that a call keeps to what is said of its extents."""
    first: dict[str, tuple[str, int, Any]] = {}
    sums: list[tuple[str, tuple[str, int, Any]]] = []
    said_of = iter(words)
    for path, spec in zip(signature.paths, signature.specs, strict=True):
        for axis, extent in enumerate(spec.shape):
            word, place = next(said_of), (path, axis, spec.shape)
            if isinstance(word, int) and word != extent:
                raise ArgumentValueError(f"the extent {_on_axis(*place)} is to be {word}")
            if isinstance(word, str) and "+" in word:
                sums.append((word, place))
            elif isinstance(word, str) and (known := first.setdefault(word, place))[2][known[1]] != extent:
                raise ArgumentValueError(f"the extent {word} is {_on_axis(*known)}, and {_on_axis(*place)}")
    for word, place in sums:
        name, _, more = word.partition("+")
        if place[2][place[1]] != (known := first[name])[2][known[1]] + int(more):
            raise ArgumentValueError(f"the extent {name} is {_on_axis(*known)}, and {word} is {_on_axis(*place)}")


def _on_axis(path: str, axis: int, shape: Any) -> str:
    return f"{shape[axis]} on axis {axis} of {path}, which has shape {show(shape)}"


# -- annotations


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
        found.append(None if hint is None else _hint_axes(hint))
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
    if not isinstance(hint, type):
        return None
    fields = list(getattr(hint, "_fields", ()))  # of a NamedTuple; a TypedDict and a dataclass have names alone
    name = fields[entry] if isinstance(entry, int) and entry < len(fields) else entry
    try:
        return typing.get_type_hints(hint).get(name)
    except Exception:  # noqa: BLE001 - as in `hints`
        return None


def _sole(hint: Any) -> Any:
    """Return T of an annotation ``T | None``; None for a union of more."""
    if typing.get_origin(hint) not in {typing.Union, types.UnionType}:
        return hint
    kept = [a for a in typing.get_args(hint) if a is not type(None)]
    return kept[0] if len(kept) == 1 else None


def _hint_axes(hint: Any) -> Axes | None:
    """Read one annotation; None where it says nothing of axes."""
    hint = _sole(hint)
    hint = getattr(hint, "leaftype", hint)
    text, dtypes = getattr(hint, "dim_str", None), getattr(hint, "dtypes", None)
    if not isinstance(text, str):
        return None
    words: list[int | str | None] = []
    for dim in text.split():  # a name, a number, ``n+1``; ``_``, ``#n`` (which may be 1), ``?n`` say nothing
        word = dim.rsplit("=", maxsplit=1)[-1]
        if word == "..." or word.startswith("*"):
            words.append(ANY)
        elif word.isdigit():
            words.append(int(word))
        else:
            words.append(sum_of(word, strict=False) if _NAME.fullmatch(word) else None)
    if words.count(ANY) > 1:
        return None
    names = frozenset(map(str, dtypes)) if isinstance(dtypes, (tuple, list)) else None
    return Axes(tuple(words), names, getattr(hint, "__name__", text))


# -- specs from annotations, where a command or `emit` is told no shapes


def annotated_specs(fun: Callable[..., Any], given: Any = ()) -> dict[str, Any]:
    """Read a spec for each argument that has none, has no default, and is annotated by jaxtyping.

    Args:
        fun: the function.
        given: names of arguments that need none.

    Returns:
        A `Spec` for an array, a tree of them for a tuple, a NamedTuple or a TypedDict, by the arguments' names.

    Raises:
        ArgumentValueError: an annotation is one of jaxtyping's and leaves a dtype or an axis open.
    """
    signature, known = signature_of(fun), hints(fun)
    if signature is None or not known:
        return {}
    plain = [
        p.name for p in signature.parameters.values()
        if p.default is p.empty and p.kind not in {p.VAR_KEYWORD, p.VAR_POSITIONAL} and p.name not in given
    ]
    found = {name: _spec_tree(known[name], name) for name in plain if name in known}
    return {name: tree for name, tree in found.items() if tree is not None}


def _spec_tree(hint: Any, name: str) -> Any:
    """Read one annotation, by the depth of its structures; None where jaxtyping says nothing in it."""
    if isinstance(getattr(hint, "dim_str", None), str):
        return _hint_spec(hint, name)
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is tuple and Ellipsis not in arguments:
        parts = [_spec_tree(part, f"{name}[{k}]") for k, part in enumerate(arguments)]
        return None if None in parts else tuple(parts)
    if not (inspect.isclass(hint) and (hasattr(hint, "_fields") or typing.is_typeddict(hint))):
        return None
    fields = {key: _spec_tree(part, f"{name}.{key}") for key, part in typing.get_type_hints(hint).items()}
    return None if None in fields.values() else hint(**fields)


def _hint_spec(hint: Any, name: str) -> Spec:
    dtypes = hint.dtypes if isinstance(hint.dtypes, (tuple, list)) else ()
    dtype = dtypes[0] if len(dtypes) == 1 else next((wide for wide in WIDEST if wide in dtypes), "")
    words = [word.rsplit("=", maxsplit=1)[-1] for word in hint.dim_str.split()]
    known = all(word.isdecimal() or _NAME.fullmatch(word) for word in words)
    if dtype not in {kind.name for kind in COMPILED} or not known:
        raise ArgumentValueError(
            f"the annotation {hint.__name__} of {name} leaves a dtype or an axis open that has to be known",
            instead='Float64[np.ndarray, "n d"], with names and numbers alone',
        )
    return Spec(tuple([extent_of(word) for word in words]), np.dtype(dtype))
