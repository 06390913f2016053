"""Arguments of a call: which are static, how the rest flattens, what is said of their axes, what is differentiated by.

Axes are named by ``dynamic=`` or by annotations. One of jaxtyping's, ``Float64[np.ndarray, "n d"]``, is a class that
carries its text (``dim_str``) and the names of its dtypes (``dtypes``); jaxtyping itself is not imported: where the
user has not, there is no such annotation.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from symgrad.api.sparse import matrices as _matrices  # noqa: F401 - SciPy's as arguments
from symgrad.errors import ArgumentError, ArgumentValueError
from symgrad.ir.index.shapes import bare, show, symbol
from symgrad.ops.declare.forms import COMPILED, is_traced
from symgrad.trace import optree
from symgrad.trace.lines import user_line
from symgrad.trace.signature import (
    LARGE,
    Signature,
    Spec,
    extent_name,
    extent_of,
    leaf_names,
    leaf_spec,
    signature_of,
    specs_in,
)
from symgrad.trace.structures import NAMESPACE, flattened, key_orders

Argnum = int | str
Argnums = int | str | tuple[int | str, ...]


class Chosen(NamedTuple):
    """One argument or part of one: its structure, and the places of its leaves among all leaves."""

    tree: Any
    leaves: tuple[int, ...]


def listed(argnums: Argnums) -> tuple[Argnum, ...]:
    """Return argnums as a tuple."""
    return tuple(argnums) if isinstance(argnums, (tuple, list)) else (argnums,)


def chosen_arguments(argnums: Argnums, signature: Signature, word: str = "argnums=") -> list[Chosen]:
    """Find what is differentiated by.

    Args:
        argnums: positions (from the end, if negative), names, or paths as ``params['w']``.
        signature: the arguments.
        word: what the caller calls it: ``wrt=``, or an option of the command line, ``--wrt``.
    """
    found = []
    for one in listed(argnums):
        if not isinstance(one, str):
            positional = signature.tree.child(0).children()
            static = set(signature.static[0])
            count = len(positional) + len(static)
            if not -count <= one < count:
                raise ArgumentValueError(
                    f"{quoted(one, word)}, where the function was called with {count} positional arguments"
                )
            place = one % count
            if place in static:
                raise ArgumentValueError(f"{quoted(one, word)} is a static argument, which has no gradient")
            child = positional[place - sum(s < place for s in static)]
            found.append(Chosen(child, tuple([k for k, p in enumerate(signature.positions) if p == place])))
            continue
        for leaf, accessor in enumerate(signature.tree.accessors()):
            rest = tuple(accessor)[2:]
            codes = [optree.PyTreeAccessor(rest[:depth]).codify("") if depth else "" for depth in range(len(rest) + 1)]
            root = signature.paths[leaf].removesuffix(codes[-1])
            depth = next((depth for depth, code in enumerate(codes) if root + code == one), None)
            if depth is not None:
                tree = signature.tree
                for entry in tuple(accessor)[: 2 + depth]:
                    tree = tree.child(tree.entries().index(entry.entry))
                found.append(Chosen(tree, tuple(range(leaf, leaf + tree.num_leaves))))
                break
        else:
            raise ArgumentValueError(f"{quoted(one, word)} names none of the arguments {', '.join(signature.paths)}")
    if not any(one.leaves for one in found):
        known = ", ".join(signature.paths)
        raise ArgumentValueError(f"{quoted(argnums, word)} names no array among the arguments {known}")
    leaves = [leaf for one in found for leaf in one.leaves]
    if len(set(leaves)) != len(leaves):
        raise ArgumentValueError(
            f"{quoted(argnums, word)} names {signature.paths[max(set(leaves), key=leaves.count)]} twice",
            instead="each argument, or part of one, once",
        )
    return found


def quoted(argnums: Argnums, word: str) -> str:
    """Quote what the caller wrote.

    >>> quoted(("w", 1), "argnums="), quoted(("w", "b"), "--wrt")
    ("argnums=('w', 1)", '--wrt w,b')
    """
    return f"{word}{argnums!r}" if word.endswith("=") else f"{word} {','.join(map(str, listed(argnums)))}"


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
            (part,) = chosen_arguments((key,), signature)
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
    for one, have, path in zip(described, signature.specs, signature.paths, strict=True):
        if one is None:
            found += [None] * len(have.shape)
            continue
        words, rank = one.words, len(have.shape)
        if ANY in words:
            place = words.index(ANY)
            words = (*words[:place], *[None] * (rank - len(words) + 1), *words[place + 1 :])
        fits = one.dtypes is None or have.dtype.name in one.dtypes
        if not fits and one.dtypes and have.weak is not None:  # a Python number is allowed by its kind
            fits = have.weak is int or any(name.startswith(have.dtype.name[:3]) for name in one.dtypes)
        if len(words) != rank or not fits:
            raise ArgumentError(f"argument {path} is {have}, and its axes and dtype are to be {one.shown}")
        found += words
    return tuple(found)


def check_extents(words: Said, signature: Signature) -> None:
    """Check that a call keeps to what is said of its extents."""
    first: dict[str, tuple[str, int, Any]] = {}
    sums: list[tuple[str, tuple[str, int, Any]]] = []
    said_of = iter(words)
    for path, have in zip(signature.paths, signature.specs, strict=True):
        for axis, extent in enumerate(have.shape):
            word, place = next(said_of), (path, axis, have.shape)
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


def _hint_part(hint: Any, entry: Any) -> Any:
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
    """Read a spec (or a tree of them) for each argument that has none, has no default, and is annotated by jaxtyping.

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


AUTO = "auto"


class Leaves(NamedTuple):
    """The arguments of one call, flattened: arrays, their structure, what identifies their types, the static values.

    The order of keys in dicts is told apart, too: code that goes through them sees it.
    """

    leaves: list[Any]
    tree: Any
    kinds: tuple[Any, ...]
    statics: tuple[tuple[str | int, Any], ...]
    order: tuple[Any, ...] = ()


class Arguments:
    """How a function's arguments become arrays and come back."""

    def __init__(
        self, fun: Callable[..., Any], static_argnums: int | Iterable[int | str] = (),
        static_argnames: str | Iterable[str] = (), specs: Any = None, dynamic: Any = AUTO,
    ) -> None:
        """Find the parameters' names and the static ones among them; read what is said of axes.

        Names among `static_argnums` are those of another function's static arguments, and known.
        """
        self.fun = fun
        check_function(fun)
        self.signature = signature_of(fun)
        self.parameters = list(self.signature.parameters) if self.signature is not None else []
        nums = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
        names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
        count = len(self.parameters)
        self.count = -1 if self._takes(inspect.Parameter.KEYWORD_ONLY) else count  # so many arguments are all of them
        self.static = frozenset([*[n % count if isinstance(n, int) and n < 0 else n for n in nums], *names])
        for name in names:
            if self.parameters and name not in self.parameters and not self._takes(inspect.Parameter.VAR_KEYWORD):
                raise ArgumentValueError(f"static_argnames={name!r} is no parameter of {self.name}()")
        self.dynamic = dynamic
        if dynamic is not False and dynamic != AUTO:
            if not isinstance(dynamic, Mapping):
                raise ArgumentValueError(f"dynamic={dynamic!r:.60}", instead='"auto", False, or {"X": "n,d", "y": "n"}')
            if specs is not None:
                raise ArgumentValueError("specs= and dynamic= both name extents", instead="one of them")
            self.dynamic = self._axes(dynamic)
        self._hints: dict[str, Any] | None = None
        self.fixed_to: Signature | None = None
        if specs is not None:
            read = specs_in(specs)
            by_name = isinstance(read, dict) and all(k in self.parameters for k in read)
            args = read if isinstance(read, tuple) else (read,)
            self.fixed_to = self.describe(self.split(() if by_name else args, read if by_name else {}))

    def _axes(self, dynamic: Mapping[Any, Any]) -> dict[str | int, Axes]:
        """Read ``dynamic={...}``."""
        known = [*self.parameters, *range(-len(self.parameters), len(self.parameters))]
        for key in dynamic:
            root = path_root(key) if isinstance(key, str) else key
            takes_any = self._takes(inspect.Parameter.VAR_KEYWORD) or self._takes(inspect.Parameter.VAR_POSITIONAL)
            if self.parameters and root not in known and not takes_any:
                raise ArgumentValueError(f"dynamic names {key!r}, which is no parameter of {self.name}()")
            if self.is_static(root):
                raise ArgumentValueError(f"dynamic names {key!r}, which is a static argument")
        count = len(self.parameters)
        return {
            key + count if isinstance(key, int) and key < 0 else key: text if isinstance(text, Axes) else axes(text)
            for key, text in dynamic.items()
        }

    @property
    def name(self) -> str:
        """The function's name."""
        return getattr(self.fun, "__name__", type(self.fun).__name__)

    def _takes(self, kind: Any) -> str | None:
        """Return the parameter that takes all further arguments, by position or by name."""
        every = [] if self.signature is None else self.signature.parameters.values()
        return next((p.name for p in every if p.kind is kind), None)

    def parameter(self, key: str | int) -> str:
        """Return the parameter that a position or a keyword goes to."""
        if isinstance(key, str):
            found = key if key in self.parameters else self._takes(inspect.Parameter.VAR_KEYWORD)
        else:
            found = self._takes(inspect.Parameter.VAR_POSITIONAL)
            if key < len(self.parameters) and (found is None or key < self.parameters.index(found)):
                found = self.parameters[key]
        return found or ""

    def label(self, key: str | int) -> str:
        """Name a top-level argument as the function's author did."""
        if isinstance(key, str):
            return key
        if key < len(self.parameters) and self.signature is not None:
            parameter = self.signature.parameters[self.parameters[key]]
            if parameter.kind is not parameter.VAR_POSITIONAL:
                return self.parameters[key]
        return f"args[{key}]"

    def leading(self, extra: int) -> int:
        """Count the parameters without a default that come before so many extra arguments."""
        every = [] if self.signature is None else self.signature.parameters.values()
        required = [p for p in every if p.default is p.empty and p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}]
        if len(required) <= extra:
            raise ArgumentError(
                f"{self.name}() has {len(required)} parameters without a default, and {extra} are given",
                instead="one number at least for the caller to pass, or size= for an array of them",
            )
        return len(required) - extra

    def is_static(self, key: str | int) -> bool:
        """Whether an argument, given by position or by name, is static."""
        return key in self.static or self.label(key) in self.static

    def split(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Leaves:
        """Flatten the arrays of a call."""
        if self.signature is not None and (kwargs or self.static or len(args) != self.count):
            try:
                bound = self.signature.bind(*args, **kwargs)
            except TypeError as error:
                others = [name for name in kwargs if name not in self.parameters]  # of which Python speaks first
                missing = others and "missing" in str(error)
                said = f"got an unexpected keyword argument {others[0]!r}" if missing else error
                raise ArgumentError(f"{self.name}{self.signature}: {said}", line=user_line()) from None
            args, kwargs = bound.args, bound.kwargs
        statics: dict[str | int, Any] = {}
        if self.static:
            given: list[tuple[str | int, Any]] = [*enumerate(args), *kwargs.items()]
            statics = {k: v for k, v in given if self.is_static(k)}
            args = tuple([args[k] for k in range(len(args)) if k not in statics])
            kwargs = {k: kwargs[k] for k in kwargs if k not in statics}
            for key, value in statics.items():
                try:
                    hash(value)
                except TypeError:  # noqa: PERF203 - there are few
                    what = f"the static argument {self.label(key)} is "
                    if is_traced(value):
                        raise ArgumentError(
                            f"{what}traced by the function around {self.name}()", line=user_line(),
                            instead="a number that stands in the code, or static_argnums= of that function, too",
                        ) from None
                    what += f"{type(value).__name__}, which cannot be hashed"
                    raise ArgumentError(what, instead="a tuple, or not static") from None
        leaves: list[Any]
        whole: Any = args, kwargs
        try:
            leaves, tree = optree.tree_flatten(whole, namespace=NAMESPACE)
            kinds = tuple(map(_leaf_kind, leaves))
        except RecursionError:
            kinds = (None,)
        if None in kinds:  # objects whose class is met for the first time, traced values, or what is refused
            leaves, tree = flattened(whole)
            leaves = [leaf.settle() if hasattr(type(leaf), "settle") else leaf for leaf in leaves]
            kinds = tuple([_leaf_kind(leaf) or (type(leaf), getattr(leaf, "shape", None)) for leaf in leaves])
        orders = key_orders(tree)
        return Leaves(leaves, tree, kinds, tuple(statics.items()), orders(whole) if orders else ())

    def describe(self, call: Leaves, pattern: Sequence[int | str] | None = None) -> Signature:
        """Describe a call: names, paths, specs; with the extents of a pattern, if one is given."""
        static = {k for k, _ in call.statics}
        free = [k for k in range(len(call.tree.children()[0].children()) + len(static)) if k not in static]
        places: list[tuple[Any, ...]] = call.tree.paths()
        keys: list[str | int] = [free[place[1]] if place[0] == 0 else place[1] for place in places]
        roots, paths = [self.label(key) for key in keys], [""] * len(keys)
        if any(len(place) > 2 for place in places):
            paths = [optree.PyTreeAccessor(accessor[2:]).codify("") for accessor in call.tree.accessors()]
        dims = [d for leaf in call.leaves if isinstance(leaf, Spec) for d in leaf.shape]
        dims += [] if pattern is None else [*pattern]
        extents = {str(d) for d in dims if not isinstance(d, int)}
        names, shown = leaf_names(roots, paths, frozenset(extents))
        specs = tuple([leaf_spec(leaf, path) for leaf, path in zip(call.leaves, shown, strict=True)])
        specs = specs if pattern is None else with_pattern(specs, pattern)
        if not any(map(is_traced, call.leaves)):  # whose extents are those of the function around this call
            known = {*bare([one.shape for one in specs])}
            for one, path in zip(specs, shown, strict=True):
                for d in one.shape:
                    if not isinstance(d, int) and (lone := d.free_symbols - known):
                        name = next(iter(lone))
                        raise ArgumentValueError(
                            f"the extent of {path} is {d}, and no argument has the extent {name}",
                            instead=f"another name for it, or {name} as an extent of another argument",
                        )
        return Signature(call.tree, specs, names, shown, call.statics, tuple(keys))

    def checked(self, call: Leaves) -> tuple[Signature, Said]:
        """Describe a call that keeps to what is said of its extents, and list that."""
        signature = self.describe(call)
        words = self.said(signature)
        check_extents(words, signature)
        return signature, words

    def said(self, signature: Signature) -> Said:
        """List what ``dynamic=`` and annotations say of every extent of a call."""
        if self._hints is None:
            self._hints = hints(self.fun)
        found: list[Axes | None] = [None] * len(signature.specs)
        for k, accessor in enumerate(signature.tree.accessors() if self._hints else ()):
            hint = self._hints.get(self.parameter(signature.positions[k]))
            for entry in tuple(accessor)[2:]:
                hint = None if hint is None else _hint_part(hint, entry.entry)
            found[k] = None if hint is None else _hint_axes(hint)
        words = extents_said(found, signature)
        if isinstance(self.dynamic, dict):
            chosen = extents_said(by_argument(self.dynamic, signature), signature)
            words = tuple([one if other is None else other for one, other in zip(words, chosen, strict=True)])
        return tuple([None if isinstance(w, str) and w.partition("+")[0] not in words else w for w in words])

    def fixed(self, signature: Signature) -> Arguments:
        """Return arguments that must fit one signature."""
        made = Arguments.__new__(Arguments)
        made.__dict__.update(self.__dict__)
        made.fixed_to = signature
        return made

    def check(self, call: Leaves) -> Signature:
        """Check a call against the one signature it must fit."""
        want = self.fixed_to
        assert want is not None  # noqa: S101 - only asked of fixed arguments
        if not has_structure_of(call, want):
            known = ", ".join(want.paths)
            raise ArgumentError(f"{self.name}() was compiled for arguments {known}; these have another structure")
        for leaf, expected, path in zip(call.leaves, want.specs, want.paths, strict=True):
            got = leaf_spec(leaf, path)
            if got.weak is not None:  # a Python number, of no less a kind
                fits = got.dtype.kind == expected.dtype.kind or (got.weak is int and expected.dtype.kind == "f")
            else:  # an index without axes is a number or an array, which mean different things
                fits = got.dtype == expected.dtype and (got.array == expected.array or got.dtype.kind not in "iu")
            if len(got.shape) != len(expected.shape) or not fits:
                told, wanted = [_spec_told(*each).rstrip(",") for each in ((got, expected), (expected, got))]
                raise ArgumentError(
                    f"argument {path} is {told}, where {self.name}() was compiled for {wanted}",
                    instead=f"{path}[()], the number in it" if got.array and not expected.shape else None,
                )
            for k, (have, dim) in enumerate(zip(got.shape, expected.shape, strict=True)):
                if type(dim) is int and have != dim:
                    raise ArgumentValueError(f"argument {path} is {got}: axis {k} must be {dim}, for {expected}")
        return want


def has_structure_of(call: Leaves, signature: Signature) -> bool:
    """Whether a call has the structure and the static arguments of a signature."""
    return bool(call.tree == signature.tree) and told_apart(call.statics) == told_apart(signature.statics)


def with_pattern(specs: Sequence[Spec], pattern: Sequence[int | str]) -> tuple[Spec, ...]:
    """Give specs the extents of a pattern, where a word is a name."""
    extents = iter(pattern)

    def extent(word: int | str) -> Any:
        if isinstance(word, int):
            return word
        name, _, more = word.partition("+")
        return symbol(name) + int(more) if more else symbol(name)

    return tuple([replace(s, shape=tuple([extent(next(extents)) for _ in s.shape])) for s in specs])


def check_function(fun: Any) -> None:
    """Refuse what cannot be called."""
    if not callable(fun):
        raise ArgumentError(
            f"{fun!r:.60} is no function", line=user_line(),
            instead="the function itself, as in sg.grad(f); its arguments come later: sg.grad(f)(x)",
        )


def _leaf_kind(leaf: Any) -> Any:
    """Identify a leaf's type cheaply: what decides whether a compilation fits. None of what is no array or number."""
    kind = type(leaf)
    if kind in {bool, int, float, Spec}:
        return leaf if kind is Spec else kind
    if not issubclass(kind, (np.ndarray, np.generic)):
        return None
    layout = leaf.nbytes >= LARGE and leaf.flags.fnc  # `by_columns`, without a call for each leaf
    return (leaf.dtype, leaf.shape, layout) if kind is np.ndarray else (leaf.dtype, leaf.shape, layout, kind)


def show_signature(signature: Signature, label: Callable[[str | int], str] = str) -> str:
    """Print a signature: ``w: f64[3], X: f64[5,3]``; `label` names the arguments."""
    shown = [f"{path}: {s}" for path, s in zip(signature.paths, signature.specs, strict=True)]
    return ", ".join(shown + [f"{label(k)}={v!r}" for k, v in signature.statics])


def told_apart(setting: Any) -> Any:
    """Return what makes a static value another one: 1, 1.0 and True are equal, as are 0.0 and -0.0, and not the same.

    >>> told_apart(1) == told_apart(1.0), told_apart(("n", 2)) == told_apart(("n", 2))
    (False, True)
    """
    if isinstance(setting, tuple):
        return type(setting), *map(told_apart, setting)
    return type(setting), repr(setting) if isinstance(setting, (float, complex)) else setting


def describe_change(
    previous: list[Signature], signature: Signature, extents: Sequence[int] = (), *, captured: str | None,
    label: Callable[[str | int], str] = str,
) -> str:
    """Say in words why a function is compiled again: for a signature, whose open extents were these in the call."""
    if not previous:
        return "it was called for the first time"
    last = previous[-1]
    if captured:
        return f"{captured} has changed, which it reads without taking it as an argument"
    if signature.tree != last.tree:
        return "the structure of the arguments changed"
    for (key, old), (_, new) in zip(last.statics, signature.statics, strict=False):
        if told_apart(old) != told_apart(new):
            return f"the static argument {label(key)} changed from {old!r} to {new!r}"
    specs = with_pattern(signature.specs, extents) if extents else signature.specs
    named = [f"{p}: {s}" for p, s, e in zip(signature.paths, signature.specs, specs, strict=True) if s != e]
    left = f"; left open from now on: {', '.join(named)}" if named else ""
    for path, old, new in zip(signature.paths, last.specs, specs, strict=True):
        if old != new:
            return f"argument {path} changed from {_spec_told(old, new)} to {_spec_told(new, old)}{left}"
    return "the class of an argument changed, as from an array to a subclass of arrays, or the order of keys in a dict"


def _spec_told(spec: Spec, other: Spec) -> str:
    """Print a spec, with what it prints for another one as well."""
    if str(spec) != str(other):
        return str(spec)
    if spec.fortran != other.fortran:
        return f"{spec} in {'Fortran' if spec.fortran else 'C'} order"
    kind = f"a Python {spec.weak.__name__}" if spec.weak else "an array" if spec.array else "a NumPy number"
    return f"{spec}, {kind},"
