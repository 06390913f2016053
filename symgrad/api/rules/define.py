"""`define_op`: an op from a formula, element by element or in index notation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.api.check.samples import SHAPE, cases, domains
from symgrad.errors import ArgumentError, ShapeError, UnsupportedError
from symgrad.ir import shapes
from symgrad.ir.op import Composite
from symgrad.ops.declare.calculus import in_numpy
from symgrad.ops.declare.forms import name_apart, shape_of
from symgrad.trace.overrides import checked

if TYPE_CHECKING:
    from symgrad.ir.node import Node
    from symgrad.ir.shapes import Shape

_NAME = re.compile(r"[A-Za-z]\w*")
_NOTATION = re.compile(r"[A-Za-z]*(,[A-Za-z]*)*->[A-Za-z]*")


def define_op(
    name: str, value: Any, notation: str | None = None, *, arguments: tuple[Any, ...] = (), sample: Any = None,
) -> Composite:
    """Define an op by a formula; its derivatives are SymPy's.

    Args:
        name: an identifier, for messages and printed programs.
        value: the formula: a SymPy expression, or a function of SymPy symbols that returns one.
        notation: None applies the formula to every element of broadcast arrays. ``"ik,jk->ij"`` says which indices
            the arguments and the result have: ``y[i, j] += value(a[i, k], b[j, k])``, summed over what the result
            does not have.
        arguments: the symbols of an expression, in the order of the op's arguments; by name where left out.
        sample: ``(low, high)``, between which the formula may be evaluated, or such a pair for each argument: what
            ``check_grads(op)`` draws arguments from.

    Returns:
        A function of arrays, traced or not.

    Raises:
        ArgumentError: a name, a formula or a notation that is none.
        UnsupportedError: the formula has a function that NumPy has no word for.

    >>> import numpy as np, sympy, symgrad as sg
    >>> softsign = sg.define_op("softsign", lambda x: x / (1 + sympy.Abs(x)))
    >>> softsign(np.array([1.0, -3.0])), float(sg.grad(softsign)(1.0))
    (array([ 0.5 , -0.75]), 0.25)
    >>> distance = sg.define_op("distance", lambda a, b: (a - b) ** 2, "ik,jk->ij")
    >>> distance(np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([[0.0, 0.0]]))
    array([[ 0.],
           [25.]])
    """
    if not _NAME.fullmatch(name):
        raise ArgumentError(f"the name {name!r} of an op is no identifier")
    symbols, formula = _formula(name, value, arguments)
    meant = _meaning(name, notation, symbols, formula)
    _speakable(name, symbols, [formula, *meant.slopes])
    op = Composite(
        name_apart(name), (), evaluate=meant.value, infer=meant.infer, body=meant.value,
        vjp=checked(name, meant.cotangents), doc=str(formula),
    )
    extents = [tuple([2 + meant.labels.index(label) % 3 for label in term]) for term in meant.terms]
    op.sample = cases(domains(name, sample, len(symbols)), op, extents or [SHAPE] * len(symbols))
    return op


@dataclass(frozen=True)
class _Meaning:
    """A formula, and how it is applied.

    Attributes:
        terms: the indices of each argument; nothing where the formula is applied to every element.
        result: those of the result.
        labels: all of them, the result's first.
    """

    name: str
    symbols: list[Any]
    formula: Any
    slopes: list[Any]
    terms: list[str]
    result: str
    labels: str

    def value(self, *x: Any) -> Any:
        """Compute it."""
        whole = _cast(in_numpy(self.formula, self._known(x)), self._extents(x), _kind(x))
        summed = tuple(range(len(self.result), len(self.labels)))
        return np.sum(whole, axis=summed) if summed else whole

    def cotangents(self, g: Any, _y: Any, *x: Any) -> tuple[Any, ...]:
        """Multiply by the slopes; what an argument does not have the index of is summed."""
        known = self._known(x)
        if not self.terms:
            return tuple([g * in_numpy(slope, known) for slope in self.slopes])
        full, wide = self._extents(x), _spread(g, self.result, self.labels)
        parts = [wide * in_numpy(slope, known) for slope in self.slopes]
        return tuple([_gathered(part, term, self.labels, full) for part, term in zip(parts, self.terms, strict=True)])

    def infer(self, *nodes: Node) -> tuple[Shape, Any]:
        """Return the result's shape and dtype."""
        extents = self._extents(nodes)
        return extents[: len(self.result)] if self.terms else extents, _kind(nodes)

    def _known(self, x: tuple[Any, ...]) -> dict[Any, Any]:
        """Say which array each symbol is, with an axis for every index."""
        if self.terms:
            x = tuple([_spread(v, term, self.labels) for v, term in zip(x, self.terms, strict=True)])
        return dict(zip(self.symbols, x, strict=True))

    def _extents(self, x: tuple[Any, ...]) -> Any:
        if self.terms:
            return _extents(self.name, self.terms, self.labels, x)
        return shapes.broadcast(*[v.shape if hasattr(v, "op") else shape_of(v) for v in x])


def _meaning(name: str, notation: str | None, symbols: list[Any], formula: Any) -> _Meaning:
    """Differentiate a formula, and take its notation apart."""
    terms, result = _parsed(name, notation, len(symbols))
    labels = result + "".join(dict.fromkeys(c for term in terms for c in term if c not in result))
    return _Meaning(name, symbols, formula, [formula.diff(symbol) for symbol in symbols], terms, result, labels)


def _formula(name: str, value: Any, arguments: tuple[Any, ...]) -> tuple[list[Any], Any]:
    """Return the symbols and the expression."""
    import inspect

    import sympy

    if callable(value) and not isinstance(value, sympy.Basic):
        words = list(inspect.signature(value).parameters)
        symbols = [sympy.Symbol(word, real=True) for word in words]
        found = value(*symbols)
    else:
        found = value
        symbols = list(arguments) or sorted(getattr(value, "free_symbols", ()), key=str)
    if not isinstance(found, (sympy.Expr, int, float)):
        raise ArgumentError(f"the value of {name} is a {type(found).__name__}, not a SymPy expression")
    if isinstance(found, (int, float)):
        found = sympy.Integer(found) if isinstance(found, int) else sympy.Float(found)
    loose = found.free_symbols - set(symbols)
    if loose:
        raise ArgumentError(f"the value of {name} has {sorted(map(str, loose))}, which are none of its arguments")
    return symbols, found


def _parsed(name: str, notation: str | None, count: int) -> tuple[list[str], str]:
    if notation is None:
        return [], ""
    if not _NOTATION.fullmatch(notation):
        raise ArgumentError(f"{notation!r} is no notation for {name}", instead='indices as in "ik,jk->ij"')
    before, _, result = notation.partition("->")
    terms = before.split(",")
    twice = any(len(set(t)) < len(t) for t in (*terms, result))
    if len(terms) != count or twice or not set(result) <= set(before):
        raise ArgumentError(
            f"the notation {notation!r} of {name}: it must have {count} arguments, each index once in each of them, "
            "and in the result only indices that arguments have",
        )
    return terms, result


def _speakable(name: str, symbols: list[Any], expressions: list[Any]) -> None:
    """Refuse a formula with functions that in_numpy does not know, now and not when it is used."""
    try:
        with np.errstate(all="ignore"):
            for expression in expressions:
                in_numpy(expression, dict.fromkeys(symbols, np.float64(0.5)))
    except UnsupportedError as error:
        raise UnsupportedError(f"the op {name}: {error.what}", instead="elementary functions, Piecewise, erf") from None


def _kind(x: Any) -> np.dtype[Any]:
    """Return the dtype a formula computes in: that of its floats, float64 where it has none."""
    found: np.dtype[Any] = np.result_type(*[v.dtype if hasattr(v, "dtype") else np.asarray(v).dtype for v in x])
    return found if found.kind == "f" else np.dtype(np.float64)


def _cast(value: Any, shape: Any, dtype: np.dtype[Any]) -> Any:
    """Give a formula's value the shape and dtype it must have; a constant has neither."""
    value = value if hasattr(value, "dtype") else np.asarray(value, dtype)
    value = value if value.dtype == dtype else value.astype(dtype)
    return value if shape_of(value) == shape else np.broadcast_to(value, shape)


def _spread(x: Any, term: str, labels: str) -> Any:
    """Give an array an axis for every index, of extent 1 for those it does not have."""
    order = sorted(range(len(term)), key=lambda k: labels.index(term[k]))
    moved = np.transpose(x, order) if order != list(range(len(term))) else x
    missing = tuple([k for k, label in enumerate(labels) if label not in term])
    return np.expand_dims(moved, missing) if missing else moved


def _gathered(whole: Any, term: str, labels: str, full: Any) -> Any:
    """Sum over the indices an argument does not have, and order the others as it has them."""
    whole = np.broadcast_to(whole, full)
    axes = tuple([k for k, label in enumerate(labels) if label not in term])
    summed = np.sum(whole, axis=axes) if axes else whole
    left = [label for label in labels if label in term]
    return np.transpose(summed, [left.index(label) for label in term]) if left != list(term) else summed


def _extents(name: str, terms: list[str], labels: str, x: Any) -> Any:
    """Find the extent of every index."""
    found: dict[str, Any] = {}
    for k, (value, term) in enumerate(zip(x, terms, strict=True)):
        shape = value.shape if hasattr(value, "op") else shape_of(value)
        if len(shape) != len(term):
            raise ShapeError(f"{name}: argument {k} has the shape {shapes.show(shape)}, and the indices {term!r}")
        for label, extent in zip(term, shape, strict=True):
            if found.setdefault(label, extent) != extent:
                raise ShapeError(f"{name}: the index {label!r} runs to {found[label]} and to {extent}")
    return tuple([found[label] for label in labels])
