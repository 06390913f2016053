"""Ops of the user's: `define_op`, from a formula in SymPy; `extern`, from a function in C."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.api.rules.custom import outer_input
from symgrad.errors import ArgumentError, DtypeError, NoGradient, ShapeError, UnsupportedError
from symgrad.ir.index import shapes
from symgrad.ir.index.shapes import Shape
from symgrad.ir.node import Node
from symgrad.ir.op import Composite, Elementwise
from symgrad.ops.declare.calculus import in_numpy
from symgrad.ops.declare.domains import Case, Domain
from symgrad.ops.declare.forms import name_apart, shape_of
from symgrad.trace.lines import user_line
from symgrad.trace.overrides import checked
from symgrad.trace.signature import signature_of
from symgrad.trace.tracer import Tracer

_NAME = re.compile(r"[A-Za-z]\w*")
_NOTATION = re.compile(r"[A-Za-z]*(,[A-Za-z]*)*->[A-Za-z]*")

SHAPE = (2, 3)
"""Of the arrays that `check_grads` draws for an op that works element by element."""


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
    terms, result = _read_notation(name, notation, len(symbols))
    labels = result + "".join(dict.fromkeys(c for term in terms for c in term if c not in result))
    meant = _Meaning(name, symbols, formula, [formula.diff(symbol) for symbol in symbols], terms, result, labels)
    try:
        with np.errstate(all="ignore"):
            for expression in (formula, *meant.slopes):
                in_numpy(expression, dict.fromkeys(symbols, np.float64(0.5)))
    except UnsupportedError as error:  # now, and not when it is used
        raise UnsupportedError(f"the op {name}: {error.what}", instead="elementary functions, Piecewise, erf") from None
    op = Composite(
        name_apart(name), (), evaluate=meant.value, infer=meant.infer, body=meant.value,
        vjp=checked(name, meant.cotangents), doc=str(formula),
    )
    extents = [tuple([2 + meant.labels.index(label) % 3 for label in term]) for term in meant.terms]
    domains = domains_of(name, sample, len(symbols))
    op.sample = None if domains is None else (Case(op, tuple(extents or [SHAPE] * len(symbols)), domains),)
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
        found, extents, dtype = in_numpy(self.formula, self._known(x)), self._index_extents(x), _result_dtype(x)
        whole = found if hasattr(found, "dtype") else np.asarray(found, dtype)  # a constant has no shape and dtype
        whole = whole if whole.dtype == dtype else whole.astype(dtype)
        whole = whole if shape_of(whole) == extents else np.broadcast_to(whole, extents)
        summed = tuple(range(len(self.result), len(self.labels)))
        return np.sum(whole, axis=summed) if summed else whole

    def cotangents(self, g: Any, _y: Any, *x: Any) -> tuple[Any, ...]:
        """Multiply by the slopes; what an argument does not have the index of is summed."""
        known = self._known(x)
        if not self.terms:
            return tuple([g * in_numpy(slope, known) for slope in self.slopes])
        full, wide = self._index_extents(x), _with_labels(g, self.result, self.labels)
        parts = [wide * in_numpy(slope, known) for slope in self.slopes]
        return tuple([_gathered(part, term, self.labels, full) for part, term in zip(parts, self.terms, strict=True)])

    def infer(self, *nodes: Node) -> tuple[Shape, Any]:
        """Return the result's shape and dtype."""
        extents = self._index_extents(nodes)
        return extents[: len(self.result)] if self.terms else extents, _result_dtype(nodes)

    def _known(self, x: tuple[Any, ...]) -> dict[Any, Any]:
        """Say which array each symbol is, with an axis for every index."""
        if self.terms:
            x = tuple([_with_labels(v, term, self.labels) for v, term in zip(x, self.terms, strict=True)])
        return dict(zip(self.symbols, x, strict=True))

    def _index_extents(self, x: tuple[Any, ...]) -> Any:
        if self.terms:
            return _index_extents(self.name, self.terms, self.labels, x)
        return shapes.broadcast(*[v.shape if hasattr(v, "op") else shape_of(v) for v in x])


def _formula(name: str, value: Any, arguments: tuple[Any, ...]) -> tuple[list[Any], Any]:
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


def _read_notation(name: str, notation: str | None, count: int) -> tuple[list[str], str]:
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


def _result_dtype(x: Any) -> np.dtype[Any]:
    """Return the dtype a formula computes in: that of its floats, float64 where it has none."""
    found: np.dtype[Any] = np.result_type(*[v.dtype if hasattr(v, "dtype") else np.asarray(v).dtype for v in x])
    return found if found.kind == "f" else np.dtype(np.float64)


def _with_labels(x: Any, term: str, labels: str) -> Any:
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


def _index_extents(name: str, terms: list[str], labels: str, x: Any) -> Any:
    found: dict[str, Any] = {}
    for k, (value, term) in enumerate(zip(x, terms, strict=True)):
        shape = value.shape if hasattr(value, "op") else shape_of(value)
        if len(shape) != len(term):
            raise ShapeError(f"{name}: argument {k} has the shape {shapes.show(shape)}, and the indices {term!r}")
        for label, extent in zip(term, shape, strict=True):
            if found.setdefault(label, extent) != extent:
                raise ShapeError(f"{name}: the index {label!r} runs to {found[label]} and to {extent}")
    return tuple([found[label] for label in labels])


def domains_of(name: str, sample: Any, count: int) -> tuple[Domain, ...] | None:
    """Read the `sample` of a user's op: the bounds of every argument, or a pair of bounds for each."""
    if sample is None:
        return None
    pairs = sample if isinstance(sample, (tuple, list)) and np.ndim(sample) == 2 else (sample,) * count
    good = len(pairs) == count and all(np.shape(p) == (2,) and -np.inf < p[0] < p[1] < np.inf for p in pairs)
    if not good:
        raise ArgumentError(
            f"sample={sample!r} of {name}", instead=f"(low, high), or such a pair for each of {count} arguments"
        )
    return tuple([Domain(float(low), float(high)) for low, high in pairs])


# -- in C


def extern(
    name: str, c_source: str, numpy: Callable[..., Any], *, arity: int = 1, vjp: Callable[..., Any] | None = None,
    needs: tuple[str, ...] = (), sample: Any = None,
) -> Elementwise:
    """Make an elementwise op of a scalar C function, which stands in the generated C and is called in its loops.

    Args:
        name: the C function's name.
        c_source: its text: ``double NAME(double a, double b) { ... }``, in C11, with nothing but math.h around it.
        numpy: what it computes, by NumPy: for plain arrays, for checks, and where there is no compiler.
        arity: how many arguments it has.
        vjp: its rule in NumPy, ``vjp(g, **needed)``: one cotangent, or a tuple with one for each argument.
        needs: what the rule is given beside `g`: ``"out"``, and ``"x0"``, ``"x1"``, ... Only this is kept for it, and
            nothing else can it read.
        sample: as for `define_op`.

    Returns:
        A function of float64 arrays, traced or not.

    Raises:
        ArgumentError: the text does not define the function with so many arguments, or `needs` is not what the rule
            has parameters for; when derived, the rule reads a traced value that it does not need.
        DtypeError, when called: an argument is not float64.
        NoGradient, when derived: there is no `vjp`.

    >>> import numpy as np, symgrad as sg
    >>> cube = sg.extern("cube", "double cube(double x) { return x * x * x; }", lambda x: x**3,
    ...                  vjp=lambda g, x0: 3 * g * x0**2, needs=("x0",))
    >>> float(sg.jit(cube)(2.0)), float(sg.grad(cube)(2.0))
    (8.0, 12.0)
    """
    found = re.search(rf"\bdouble\s+{name}\s*\(([^)]*)\)", c_source) if _NAME.fullmatch(name) else None
    if found is None:
        raise ArgumentError(f"the C text does not define a function `double {name}(...)`")
    count = len(found[1].split(","))
    if count != arity or not all(re.match(r"\s*(const\s+)?double\s+\w+\s*$", p) for p in found[1].split(",")):
        wanted = ", ".join(f"double x{k}" for k in range(arity))
        raise ArgumentError(
            f"the C function is {name}({found[1]}), and arity={arity}",
            instead=f"double {name}({wanted}), or arity={count}",
        )
    _check_needs(name, vjp, needs, {"out", *[f"x{k}" for k in range(arity)]})

    def rule(g: Any, y: Any, *x: Any) -> Any:
        if vjp is None:
            raise NoGradient(f"{name} is an extern op without a rule", instead=f"extern({name!r}, ..., vjp=...)")
        every = {"out": y, **{f"x{k}": v for k, v in enumerate(x)}}
        given = {need: every[need] for need in needs}
        found = vjp(g, **given)
        parts = found if isinstance(found, (tuple, list)) else (found,)
        known = {v.node for v in (g, *given.values()) if isinstance(v, Tracer)}
        if (read := outer_input([part.node for part in parts if isinstance(part, Tracer)], known)) is not None:
            raise ArgumentError(  # for which nothing is kept
                f"the rule of {name} reads a traced value that it was not given, of {read.param('name')!r}",
                line=user_line(), instead="an argument of the C function, and its name in `needs`",
            )
        return found

    def infer(*nodes: Node) -> tuple[Shape, Any]:
        if len(nodes) != arity:
            raise ArgumentError(f"{name} takes {arity} arguments, not {len(nodes)}")
        for k, node in enumerate(nodes):
            if node.dtype != np.float64:
                raise DtypeError(f"{name} computes in float64; argument {k} is {node.dtype}", instead="x.astype(float)")
        return shapes.broadcast(*[n.shape for n in nodes]), np.dtype(np.float64)

    import hashlib

    text = c_source.strip()
    text = text if text.startswith("static") else f"static {text}"
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]  # kept programs know an op by its name
    places = ", ".join(f"{{{k}}}" for k in range(arity))
    return Elementwise(
        f"{name}_{digest}", (), evaluate=numpy, infer=infer, vjp=checked(name, rule), arity=arity,
        c={"f": f"{name}({places})"}, source=text, doc=f"the C function {name}", sample=domains_of(name, sample, arity),
    )


def _check_needs(name: str, vjp: Callable[..., Any] | None, needs: tuple[str, ...], known: set[str]) -> None:
    """Check that a rule has parameters for what it needs, and for nothing else."""
    if not set(needs) <= known:
        raise ArgumentError(f"{name} needs {sorted(set(needs) - known)}; there is {', '.join(sorted(known))}")
    signature = None if vjp is None else signature_of(vjp)
    if signature is None:
        return
    others = [*signature.parameters.values()][1:]
    if any(p.kind is p.VAR_KEYWORD for p in others):
        return
    required = {p.name for p in others if p.default is p.empty and p.kind is not p.VAR_POSITIONAL}
    undeclared, unread = sorted(required - set(needs)), sorted(set(needs) - {p.name for p in others})
    if undeclared or unread:
        what = f"reads {', '.join(undeclared)}, which `needs` does not declare" if undeclared else (
            f"does not read {', '.join(unread)}, which `needs` declares, and would be kept for it"
        )
        wanted = ", ".join(f'"{p.name}"' for p in others)
        raise ArgumentError(f"the rule of {name} {what}", instead=f"needs=({wanted}{',' * (len(others) == 1)})")
