"""Arguments of a call: which are static, how the rest flattens, what a signature says about them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import optree

from symgrad.api.call.axes import Axes, axes, by_argument, by_leaf, check_extents, extents_said, hints, path_root
from symgrad.errors import ArgumentError, ArgumentValueError
from symgrad.ir.shapes import symbol
from symgrad.ops.declare.forms import is_traced
from symgrad.trace import signature as signatures
from symgrad.trace.signature import NAMESPACE, Signature, Spec, by_columns, leaf_names, leaf_spec, signature_of, spec
from symgrad.trace.source.lines import user_line
from symgrad.trace.state import active

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from symgrad.api.call.axes import Said

AUTO = "auto"


class Leaves(NamedTuple):
    """The arguments of one call, flattened: arrays, their structure, what identifies their types, the static values."""

    leaves: list[Any]
    tree: Any
    kinds: tuple[Any, ...]
    statics: tuple[tuple[str | int, Any], ...]


class Arguments:
    """How a function's arguments become arrays and come back."""

    def __init__(
        self, fun: Callable[..., Any], static_argnums: int | Iterable[int] = (),
        static_argnames: str | Iterable[str] = (), specs: Any = None, dynamic: Any = AUTO,
    ) -> None:
        """Find the parameters' names and the static ones among them; read what is said of axes."""
        self.fun = fun
        check_function(fun)
        self.signature = signature_of(fun)
        self.parameters = list(self.signature.parameters) if self.signature is not None else []
        nums = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
        names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
        self.static = frozenset([*[n % len(self.parameters) if n < 0 else n for n in nums], *names])
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
            read: Any = optree.tree_map(lambda s: spec(s) if isinstance(s, str) else s, specs, namespace=NAMESPACE)
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
        required = [
            p for p in every if p.default is p.empty and p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}
        ]
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
        if self.signature is not None and (kwargs or self.static or len(args) != len(self.parameters)):
            bound = self.signature.bind(*args, **kwargs)
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
                    what = f"the static argument {self.label(key)} is {type(value).__name__}, which cannot be hashed"
                    raise ArgumentError(what, instead="a tuple, or not static") from None
        leaves: list[Any]
        leaves, tree = optree.tree_flatten((args, kwargs), namespace=NAMESPACE)  # type: ignore[arg-type]
        if active.traces:
            leaves = [leaf.settle() if hasattr(type(leaf), "settle") else leaf for leaf in leaves]
        return Leaves(leaves, tree, tuple(map(_leaf_kind, leaves)), tuple(statics.items()))

    def describe(self, call: Leaves, pattern: Sequence[int | str] | None = None) -> Signature:
        """Describe a call: names, paths, specs; with the extents of a pattern, if one is given."""
        static = {k for k, _ in call.statics}
        free = [k for k in range(len(call.tree.children()[0].children()) + len(static)) if k not in static]
        roots, keys, paths = [], [], []
        for accessor in call.tree.accessors():
            first, second, *rest = accessor
            key: str | int = free[second.entry] if first.entry == 0 else second.entry
            keys.append(key)
            roots.append(self.label(key))
            paths.append(optree.PyTreeAccessor(tuple(rest)).codify("") if rest else "")
        dims = [d for leaf in call.leaves if isinstance(leaf, Spec) for d in leaf.shape]
        dims += [] if pattern is None else [*pattern]
        extents = {str(d) for d in dims if not isinstance(d, int)}
        names, shown = leaf_names(roots, paths, frozenset(extents))
        specs = tuple([leaf_spec(leaf, path) for leaf, path in zip(call.leaves, shown, strict=True)])
        specs = specs if pattern is None else patterned(specs, pattern)
        if not any(map(is_traced, call.leaves)):  # whose extents are those of the function around this call
            signatures.refuse_lone(specs, shown)
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
        found = by_leaf(self._hints, self.parameter, signature) if self._hints else [None] * len(signature.specs)
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
            if len(got.shape) != len(expected.shape) or not _fits(got, expected):
                told, wanted = [_told(*each).rstrip(",") for each in ((got, expected), (expected, got))]
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


def patterned(specs: Sequence[Spec], pattern: Sequence[int | str]) -> tuple[Spec, ...]:
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


def _fits(got: Spec, expected: Spec) -> bool:
    """Whether an argument can be taken for another one: the same dtype, or a Python number of no less a kind.

    An index without axes is a number or an array, which mean different things; of what is no index it makes no odds.
    """
    if got.weak is not None:
        return got.dtype.kind == expected.dtype.kind or (got.weak is int and expected.dtype.kind == "f")
    return got.dtype == expected.dtype and (got.array == expected.array or got.dtype.kind not in "iu")


def _leaf_kind(leaf: Any) -> Any:
    """Identify a leaf's type cheaply: what decides whether a compilation fits."""
    kind = type(leaf)
    if kind is np.ndarray:
        return leaf.dtype, leaf.shape, by_columns(leaf)
    if kind in {bool, int, float, Spec}:
        return leaf if kind is Spec else kind
    if issubclass(kind, (np.ndarray, np.generic)):
        return leaf.dtype, leaf.shape, by_columns(leaf), kind
    return kind, getattr(leaf, "shape", None)


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
    previous: list[Signature], signature: Signature, extents: Sequence[int] = (), *, captured: bool,
    label: Callable[[str | int], str] = str,
) -> str:
    """Say in words why a function is compiled again: for a signature, whose open extents were these in the call."""
    if not previous:
        return "it was called for the first time"
    last = previous[-1]
    if captured:
        return "a global or closed-over value was bound to another object"
    if signature.tree != last.tree:
        return "the structure of the arguments changed"
    for (key, old), (_, new) in zip(last.statics, signature.statics, strict=False):
        if told_apart(old) != told_apart(new):
            return f"the static argument {label(key)} changed from {old!r} to {new!r}"
    specs = patterned(signature.specs, extents) if extents else signature.specs
    named = [f"{p}: {s}" for p, s, e in zip(signature.paths, signature.specs, specs, strict=True) if s != e]
    left = f"; left open from now on: {', '.join(named)}" if named else ""
    for path, old, new in zip(signature.paths, last.specs, specs, strict=True):
        if old != new:
            return f"argument {path} changed from {_told(old, new)} to {_told(new, old)}{left}"
    return "the class of an argument changed, as from an array to a subclass of arrays"


def _told(spec: Spec, other: Spec) -> str:
    """Print a spec, with what it prints for another one as well."""
    if str(spec) != str(other):
        return str(spec)
    if spec.fortran != other.fortran:
        return f"{spec} in {'Fortran' if spec.fortran else 'C'} order"
    kind = f"a Python {spec.weak.__name__}" if spec.weak else "an array" if spec.array else "a NumPy number"
    return f"{spec}, {kind},"
