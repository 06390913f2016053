"""`define_op`: an op from a formula, element by element or in index notation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.api.samples import SHAPE, cases, domains
from symgrad.errors import ArgumentError, ShapeError, UnsupportedError
from symgrad.ir import shapes
from symgrad.ir.op import Composite
from symgrad.ops.calculus import in_numpy
from symgrad.ops.declare import name_apart, shape_of
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
    terms, result = _parsed(name, notation, len(symbols))
    slopes = [formula.diff(symbol) for symbol in symbols]
    labels = result + "".join(dict.fromkeys(c for term in terms for c in term if c not in result))
    _speakable(name, symbols, [formula, *slopes])

    def body(*x: Any) -> Any:
        if notation is None:
            wide = shapes.broadcast(*[shape_of(v) for v in x])
            return _cast(in_numpy(formula, dict(zip(symbols, x, strict=True))), wide, _kind(x))
        known = dict(zip(symbols, [_spread(v, t, labels) for v, t in zip(x, terms, strict=True)], strict=True))
        whole = _cast(in_numpy(formula, known), _extents(name, terms, labels, x), _kind(x))
        summed = tuple(range(len(result), len(labels)))
        return np.sum(whole, axis=summed) if summed else whole

    def rule(g: Any, _y: Any, *x: Any) -> tuple[Any, ...]:
        if notation is None:
            return tuple([g * in_numpy(s, dict(zip(symbols, x, strict=True))) for s in slopes])
        known = dict(zip(symbols, [_spread(v, t, labels) for v, t in zip(x, terms, strict=True)], strict=True))
        full, wide = _extents(name, terms, labels, x), _spread(g, result, labels)
        parts = [wide * in_numpy(slope, known) for slope in slopes]
        return tuple([_gathered(part, term, labels, full) for part, term in zip(parts, terms, strict=True)])

    def infer(*nodes: Node) -> tuple[Shape, Any]:
        if notation is None:
            return shapes.broadcast(*[n.shape for n in nodes]), _kind(nodes)
        return _extents(name, terms, labels, nodes)[: len(result)], _kind(nodes)

    free = name_apart(name)
    op = Composite(free, (), evaluate=body, infer=infer, body=body, vjp=checked(name, rule), doc=str(formula))
    extents = [tuple([2 + labels.index(label) % 3 for label in term]) for term in terms]
    op.sample = cases(domains(name, sample, len(symbols)), op, extents or [SHAPE] * len(symbols))
    return op


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
