"""Signatures: what a call's arguments are, apart from their values."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from symgrad.errors import ArgumentError, ArgumentValueError, SymgradError, warn
from symgrad.ir.index.shapes import Shape, symbol
from symgrad.ir.names import WINDOWS, identifier
from symgrad.ir.node import Node
from symgrad.ops.declare.forms import COMPILED, as_numbers, dtype_shown, is_traced
from symgrad.trace import optree
from symgrad.trace.constants import means_more
from symgrad.trace.lines import definition, user_line
from symgrad.trace.structures import NAMESPACE, entries_by_place, flattened, is_sparse


@dataclass(frozen=True)
class Spec:
    """Shape and dtype of an argument.

    `weak` marks a Python number, which promotes weakly; `fortran` an array that lies in memory column by column;
    `array` what is an array though it has no axes: by an integer ``x[i]`` is a view, by such an array a copy.

    >>> spec("f64[n,3]")
    f64[n,3]
    """

    shape: Shape
    dtype: np.dtype[Any]
    weak: type | None = None
    fortran: bool = False
    array: bool = False

    def __repr__(self) -> str:
        kind = {"b": "bool"}.get(self.dtype.kind, f"{self.dtype.kind}{8 * self.dtype.itemsize}")
        return f"{kind}[{','.join(map(str, self.shape))}]".replace(" ", "")


_EXAMPLES = 'a dtype and extents: "f64[n,d]", "f32[784,10]", "i64[b]", "f64[]"'
_KINDS = {"bool": "?", **{f"{k}{8 * n}": f"{k}{n}" for k in "iu" for n in (1, 2, 4, 8)}, "f32": "f4", "f64": "f8"}
_SPEC = re.compile(r"\s*([a-z]+\d*)\s*\[([^\[\]]*)\]\s*")
_WORD = re.compile(r"\w+")
_DIM = re.compile(r"\d+|[A-Za-z][A-Za-z0-9_]{0,30}(\s*\+\s*[1-9]\d{0,8})?")


def spec(text: str) -> Spec:
    """Read a spec: a dtype and extents, each a number or a name; the same name is the same extent everywhere.

    Args:
        text: ``f64[n,d]``, ``f32[784,10]``, ``i64[b]``, ``bool[n]``, ``f64[]``; ``f64[n+1]`` is one longer than
            ``f64[n]`` of another argument.

    Raises:
        ArgumentError: when it is no text.
        ArgumentValueError: when the text is no spec.

    >>> spec("f32[784,10]").shape
    (784, 10)
    """
    if not isinstance(text, str):
        raise ArgumentError(f"a spec is a text, not {text!r:.60}", line=user_line(), instead=_EXAMPLES)
    match = _SPEC.fullmatch(text) if len(text) <= 200 else None
    dims = [d.strip() for d in match[2].split(",")] if match and match[2].strip() else []
    if match is None or match[1] not in _KINDS or not all(_DIM.fullmatch(d) for d in dims):
        raise ArgumentValueError(f"{text[:60]!r} is no spec", instead=_EXAMPLES)
    return Spec(tuple([extent_of(d) for d in dims]), np.dtype(_KINDS[match[1]]))


def specs_in(tree: Any) -> Any:
    """Read the texts of a structure as specs."""
    read: Any = optree.tree_map(
        lambda s: spec(s) if isinstance(s, str) else s, tree, is_leaf=lambda s: isinstance(s, str), namespace=NAMESPACE,
    )
    return read


def extent_name(text: str, *, strict: bool = True) -> str:
    """Return a name for an extent: a word of C gets another one, or with `strict` is refused."""
    allowed = text if re.fullmatch(r"[tink]\d+", text) or text in WINDOWS else identifier(text)
    if strict and allowed != text:
        raise ArgumentValueError(
            f"{text!r} cannot name an extent: it is a word of C or of the generated code", instead=allowed
        )
    return allowed


def extent_of(text: str) -> Any:
    """Read an extent: a number, a name, or ``n+1``."""
    if not text[0].isdigit():
        name, _, more = text.partition("+")
        return symbol(extent_name(name.strip())) + int(more or 0)
    if len(text) > 15:
        raise ArgumentValueError(f"an extent of {text} is beyond any memory")
    return int(text)


@dataclass(frozen=True)
class Signature:
    """What one compilation is made for.

    Attributes:
        tree: the structure of the arguments, static ones taken out.
        specs: shape and dtype of every array in it, in order.
        names: a name for every array, an identifier.
        paths: how the user would write it: ``params['w']``.
        statics: the values of static arguments.
        positions: which top-level argument each array belongs to (a position or a keyword).
    """

    tree: Any
    specs: tuple[Spec, ...]
    names: tuple[str, ...]
    paths: tuple[str, ...]
    statics: tuple[tuple[str | int, Hashable], ...]
    positions: tuple[str | int, ...]

    @property
    def static(self) -> tuple[list[int], list[str]]:
        """Positions and names of the static arguments."""
        keys = [key for key, _ in self.statics]
        return [key for key in keys if isinstance(key, int)], [key for key in keys if isinstance(key, str)]

    def followed_by(self, inputs: Sequence[Node], fortran: frozenset[str]) -> Signature:
        """Add arrays that the function reads from outside, which lie row by row, or by columns where they are large."""
        names = tuple([node.param("name") for node in inputs])
        specs = [Spec(n.shape, n.dtype, fortran=n.param("name") in fortran, array=True) for n in inputs]
        return replace(
            self, specs=(*self.specs, *specs), names=(*self.names, *names), paths=(*self.paths, *names),
        )

    def called(self, fun: Callable[..., Any], leaves: Sequence[Any], user: Callable[..., Any]) -> Any:
        """Call what stands for a user's function, and warn where it has changed what an argument holds.

        Containers and objects among its arguments are copies: NumPy would have changed the caller's. What is returned
        is not lost.
        """
        given, named = optree.tree_unflatten(self.tree, leaves)
        before = self._held(given, named)
        args, kwargs = self._with_statics(given, named)
        result = fun(*args, **kwargs)
        if before and (place := _changed(before, self._held(given, named), result)) is not None:
            name = getattr(user, "__name__", type(user).__name__)
            warn(str(SymgradError(
                f"{name}() changes {place} of an argument, which is a copy: the caller's stays as it is",
                line=definition(user), instead=f"return the new {place}",
            )))
        return result

    def _held(self, given: Any, named: Any) -> dict[str, tuple[Any, Any]]:
        """Return what arguments hold, by place."""
        roots = {key: re.split(r"\W", path)[0] for key, path in zip(self.positions, self.paths, strict=False)}
        static, _ = self.static
        open_ = [k for k in range(len(given) + len(static)) if k not in static]
        found: dict[str, tuple[Any, Any]] = {}
        for key, value in [*zip(open_, given, strict=True), *named.items()]:
            found |= entries_by_place(value, roots.get(key, str(key)))
        return found

    def join(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Put leaves and static values back into positional and keyword arguments."""
        return self._with_statics(*optree.tree_unflatten(self.tree, leaves))

    def _with_statics(self, given: Any, named: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args, kwargs = list(given), dict(named)
        for key, value in self.statics:
            if isinstance(key, int):
                args.insert(key, value)
            else:
                kwargs[key] = value
        return tuple(args), kwargs


def _changed(before: dict[str, Any], after: dict[str, Any], result: Any) -> str | None:
    """Say where arguments hold something else than before, that is not returned; None where they do nowhere."""
    places = [place for place in {**after, **before} if not _is_same(before.get(place), after.get(place))]
    if not places:
        return None
    returned = {id(owner) for owner, _ in entries_by_place(result).values()}
    return next((place for place in places if id((after.get(place) or before[place])[0]) not in returned), None)


def _is_same(one: Any, other: Any) -> bool:
    """Whether two things are one, or plain settings that are equal."""
    if one is None or other is None:
        return one is other
    first, second = one[1], other[1]
    return first is second or (type(first) is type(second) and type(first) in {int, bool, str} and first == second)


def flatten(arguments: Any) -> tuple[list[Any], Any]:
    """Flatten a pytree to its leaves and its structure; None has no leaves, a local array is what it is now."""
    leaves, tree = flattened(arguments)
    return [value if getattr(type(value), "settle", None) is None else value.settle() for value in leaves], tree


def _in_place_of(value: Any, path: str) -> str:
    """Say what is passed in the place of a container or an object of Python's; nothing where that is not known."""
    if hasattr(value, "normal") or hasattr(value, "gauss"):
        return f"numbers drawn outside as an argument, {path}.normal(size=n), or a seed"
    if isinstance(value, Mapping):
        return f"dict({path})"
    if isinstance(value, (Iterator, Sequence, AbstractSet)):
        return f"list({path})"
    setting = f'static_argnames="{path}", if it is a setting'
    if hasattr(value, "__fspath__"):
        return f"str({path}), or {setting}"
    return f"numbers of it, as {path}.toordinal(), or {setting}" if hasattr(value, "toordinal") else ""


def leaf_spec(value: Any, path: str) -> Spec:
    """Describe one leaf of a call's arguments, or refuse what is no array and no number."""
    if isinstance(value, Spec):
        return value
    kind = type(value)
    if is_traced(value):
        node = value.tracer().node if hasattr(value, "tracer") else value.node
        weak = value.weak if hasattr(value, "weak") else int
        return Spec(node.shape, node.dtype, weak, array=not node.shape and isinstance(value, np.ndarray))
    if kind is np.ndarray or isinstance(value, np.generic):
        return _array_spec(value, path)
    if kind in {bool, int, float}:
        if kind is int and not -(1 << 63) <= value < 1 << 63:
            raise ArgumentError(
                f"argument {path} is the integer {value}, which does not fit in 64 bits", instead=f"float({path})",
            )
        dtype = np.dtype({bool: "?", int: "i8", float: "f8"}[kind])
        return Spec((), dtype, None if kind is bool else kind)
    if isinstance(value, np.ndarray):
        if means_more(kind):
            raise ArgumentError(
                f"argument {path} is {kind.__module__}.{kind.__qualname__}, a kind of array with a meaning of its own "
                "(a mask, a unit, matrix products) that would be lost",
                instead=f"np.asarray({path}), and a mask as an argument of its own, if its plain values are meant",
            )
        return _array_spec(value.view(np.ndarray), path)  # as of memmap
    raise ArgumentError(
        f"argument {path} is {kind.__module__}.{kind.__qualname__}, not an array or a number",
        instead=f"{path}.tocsr()" if is_sparse(kind) else _in_place_of(value, path) or
        "np.asarray of it, or static_argnames= if it is a setting",
    )


def _array_spec(value: Any, path: str) -> Spec:
    dtype = value.dtype if value.dtype.isnative else value.dtype.newbyteorder("=")
    if dtype not in COMPILED:
        raise ArgumentError(
            f"argument {path} has dtype {dtype_shown(value.dtype)}; symgrad compiles bool, integers, float32 and "
            f"float64{', no complex numbers' * (dtype.kind == 'c')}",
            instead=f"{path}.real and {path}.imag" if dtype.kind == "c" else as_numbers(dtype, path),
        )
    alone = not value.shape and isinstance(value, np.ndarray)
    return Spec(value.shape, np.dtype(dtype.str), fortran=by_columns(value), array=alone)


LARGE = 1 << 16
"""A smaller array in Fortran order is copied at each call: that costs less than another compilation."""


def by_columns(array: Any) -> bool:
    """Whether an array is a large one in Fortran order, which loops walk as it lies."""
    return bool(array.nbytes >= LARGE and array.flags.fnc)


def signature_of(fun: Callable[..., Any]) -> inspect.Signature | None:
    """Return a function's signature, None for one that has none (a C function)."""
    try:
        return inspect.signature(fun)
    except (TypeError, ValueError):
        return None


def leaf_names(
    roots: Sequence[str], paths: Sequence[Any], extents: frozenset[str] = frozenset(),
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Name the leaves: by the last key where that is unique, by the whole path elsewhere, and never as an extent."""
    shown = tuple([root + accessor for root, accessor in zip(roots, paths, strict=True)])
    last = [(_WORD.findall(text) or ["x"])[-1] for text in shown]
    names: list[str] = []
    for text, short in zip(shown, last, strict=True):
        plain = short if last.count(short) == 1 and not short.isdigit() else text
        names.append(identifier(plain, {*names, *extents}))
    return tuple(names), shown
