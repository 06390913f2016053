"""A program of few numbers as SymPy's expressions: each node by its op's formula."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from symgrad.errors import UnsupportedError
from symgrad.ir.graphs import in_turn
from symgrad.ir.node import Node
from symgrad.ir.op import Elementwise, Structured
from symgrad.ir.program import Program
from symgrad.ops.declare.calculus import sp

LARGEST = 10_000
"""So many numbers may be computed on the way, and operations stand in results: SymPy takes 50 us for each."""


def in_sympy(program: Program, given: Sequence[Any]) -> list[Any]:
    """Return a program's results as SymPy expressions, arrays of them where they are arrays; symbols are finite.

    Args:
        program: of known extents.
        given: for each input an expression or an array of them, or None: symbols with its name and places.

    Raises:
        UnsupportedError: it is too large, or something in it has no formula.
    """
    known: dict[Node, Any] = {}
    if program.guards:
        _lacks("conditions of Python on values: it is one of several paths", program.guards[0])
    left, expressions = LARGEST, dict(zip(program.inputs, given, strict=True))
    for node in program.nodes():  # before anything is computed
        if not all(isinstance(extent, int) for extent in node.shape):
            _lacks(f"the open extents {', '.join(map(str, node.shape))}", node, "arrays, or specs with numbers")
        left -= math.prod(node.shape)
        if left < 0:
            _lacks(f"more than {LARGEST} numbers on the way", node, "smaller arrays")
    for node in program.nodes():
        if node not in expressions:
            known[node] = _node_formula(node, [known[read] for read in node.inputs])
            continue
        value = expressions[node]
        if value is None:
            name, value = node.param("name"), np.empty(node.shape, dtype=object)
            kind = {"real": True} if node.dtype.kind == "f" else {"integer": True}
            for place in np.ndindex(node.shape):
                value[place] = sp.Symbol("_".join([name, *map(str, place)]), **kind)
        known[node] = _objects(value)
    import sympy

    sizes: dict[Any, int] = {}
    for node in program.results:
        if sum(_parts_of(one, sizes) for one in known[node].ravel()) > LARGEST:
            _lacks(f"more than {LARGEST} operations where what occurs twice is written twice", node, "smaller arrays")
    every = [known[node] for node in program.results]
    return [x[()] if x.ndim == 0 else sympy.ImmutableDenseNDimArray(list(x.ravel()), x.shape) for x in every]


def shape_given(leaf: Any) -> tuple[int, ...] | None:
    """Return the shape of an argument that is given by expressions; None of any other."""
    objects = isinstance(leaf, np.ndarray) and leaf.dtype == object  # NumPy's array of them
    return _objects(leaf).shape if objects or (hasattr(leaf, "free_symbols") and hasattr(leaf, "subs")) else None


def _lacks(what: str, node: Node, instead: str | None = None) -> None:
    raise UnsupportedError(f"to_sympy: the function has {what}", line=node.line, instead=instead)


def _objects(value: Any) -> np.ndarray[Any, Any]:
    whole = np.array(value.tolist() if hasattr(value, "tolist") else value, dtype=object)
    return np.asarray(np.frompyfunc(_exact_number, 1, 1)(whole), dtype=object)


def _exact_number(value: Any) -> Any:
    """Return a number exactly: of a small denominator as a fraction, else with the digits that it has."""
    if not isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, bool):
        return sp.true if value else sp.false
    if isinstance(value, float) and not math.isfinite(value):
        return sp.nan if math.isnan(value) else sp.oo if value > 0 else -sp.oo
    exact = Fraction(value)
    return sp.Rational(exact.numerator, exact.denominator) if exact.denominator <= 1024 else sp.Float(value)


def _node_formula(node: Node, values: list[Any]) -> Any:
    op, params = node.op, node.named
    if node.is_constant:
        made = np.empty(node.shape, dtype=object)
        for place in np.ndindex(node.shape):
            made[place] = _exact_number(node.params[0].array[place].item())
        return made
    found = None
    if op.name in _TRUTHS and node.dtype.kind == "b":
        values = [
            v if i.dtype.kind == "b" else np.asarray(np.frompyfunc(lambda x: sp.Ne(x, 0), 1, 1)(v), dtype=object)
            for v, i in zip(values, node.inputs, strict=True)
        ]
    try:
        if op.name in _TRUTHS and node.dtype.kind != "b":
            pass  # bits of integers
        elif isinstance(op, Elementwise):
            if (formula := _FORMULAS.get(op.name) or op.value or _named_alike(op.name)) is not None:
                if op.name == "astype":
                    params = {"before": node.inputs[0].dtype.kind, "after": node.dtype.kind}
                found = np.frompyfunc(lambda *x: formula(*x, **params), len(values), 1)(*values)
        elif op.name in _REDUCED:
            (found,), function = values, np.frompyfunc(_REDUCED[op.name], 2, 1)
            for axis in sorted(params["axes"], reverse=True):
                found = function.reduce(found, axis=axis)
            found = np.reshape(found, node.shape)  # which may keep its axes
        elif isinstance(op, Structured) and not op.decides:
            read = [  # indices that are known are integers
                v.astype(np.int64) if i.dtype.kind in "iu" and all(
                    getattr(one, "is_Integer", type(one) is int) for one in v.flat
                ) else v for v, i in zip(values, node.inputs, strict=True)
            ]
            found = op.evaluate(*read, **params)
    except (TypeError, ValueError, AttributeError, IndexError):  # as NumPy and SymPy say where they take numbers alone
        found = None
    if found is not None and np.shape(found) == node.shape:
        return np.asarray(np.frompyfunc(_exact_number, 1, 1)(np.asarray(found, dtype=object)), dtype=object)
    raise UnsupportedError(
        f"to_sympy: {op.name} of {[list(i.shape) for i in node.inputs]} has no formula", line=node.line,
    )


@cache
def _named_alike(name: str) -> Callable[..., Any] | None:
    """Find the function that SymPy prints as this one of NumPy's or SciPy's."""
    import sympy
    from sympy.printing.numpy import SciPyPrinter

    for own, printed in SciPyPrinter().known_functions.items():
        if printed.rpartition(".")[2] == name and hasattr(sympy, own):
            return getattr(sympy, own)  # type: ignore[no-any-return]
    return None


def _parts_of(expression: Any, sizes: dict[Any, int]) -> int:
    """Count the parts of an expression as it is written, from those that it is made of."""
    for part in in_turn(expression, lambda part: getattr(part, "args", ()), sizes):
        sizes[part] = 1 + sum(sizes[inner] for inner in getattr(part, "args", ()))
    return sizes[expression]


def _converted(x: Any, before: str, after: str) -> Any:
    if before == "b":
        return x if after == "b" else sp.Piecewise((1, x), (0, True))
    if after == "b":
        return sp.Ne(x, 0)
    return sp.sign(x) * sp.floor(sp.Abs(x)) if before == "f" and after in "iu" else x


def _infinite(x: Any, *kinds: Any) -> Any:
    """Whether a number is one of those that are not finite: what is no number stands for finite ones."""
    return sp.true if x in (kinds or (sp.oo, -sp.oo, sp.nan)) else sp.false


def _quotient(a: Any, b: Any) -> Any:
    """Divide by a number as exactly as it is known: floor() would tell a rounded reciprocal from it."""
    return a / (sp.Rational(b) if getattr(b, "is_Float", False) else b)


_FORMULAS: dict[str, Callable[..., Any]] = {
    "floor_divide": lambda a, b: sp.floor(_quotient(a, b)), "remainder": lambda a, b: a - b * sp.floor(_quotient(a, b)),
    "power_int": lambda x, exponent: x**exponent, "astype": _converted, "stop_gradient": lambda x: x,
    "where": lambda condition, a, b: sp.Piecewise((a, condition), (b, True)), "relu": lambda x: sp.Max(x, 0),
    "logical_and": sp.And, "logical_or": sp.Or, "logical_xor": sp.Xor, "logical_not": sp.Not,
    "bitwise_and": sp.And, "bitwise_or": sp.Or, "bitwise_xor": sp.Xor, "invert": sp.Not,
    "fmax": sp.Max, "fmin": sp.Min, "trunc": lambda x: _converted(x, "f", "i"),
    "heaviside": sp.Heaviside, "polygamma": lambda x, order: sp.polygamma(order, x),
    "direction": lambda a, b, h: sp.Piecewise((0, sp.Eq(h, 0)), (a / h, True)),
    "inversion": lambda a, b, h: sp.Piecewise((0, sp.Eq(h, 0)), (a / h**2, True)),
    "isfinite": lambda x: sp.Not(_infinite(x)), "isinf": lambda x: _infinite(x, sp.oo, -sp.oo),
    "isnan": lambda x: _infinite(x, sp.nan), "signbit": lambda x: sp.Lt(x, 0),
    "j0": lambda x: sp.besselj(0, x), "j1": lambda x: sp.besselj(1, x), "i0": lambda x: sp.besseli(0, x),
    "i1": lambda x: sp.besseli(1, x), "zeta": sp.zeta, "erfinv": sp.erfinv,
    "lambertw": sp.LambertW, "exp1": lambda x: sp.expint(1, x), "scipy_expn": sp.expint,
    "rgamma": lambda x: 1 / sp.gamma(x), "gammainc": lambda a, x: sp.lowergamma(a, x) / sp.gamma(a),
    "gammaincc": lambda a, x: sp.uppergamma(a, x) / sp.gamma(a),
    "betainc": lambda a, b, x: sp.betainc_regularized(a, b, 0, x),
    "scipy_jv": sp.besselj, "scipy_yv": sp.bessely,
    "scipy_iv": sp.besseli, "scipy_kv": sp.besselk,
    "scipy_y0": lambda x: sp.bessely(0, x), "scipy_y1": lambda x: sp.bessely(1, x),
    "scipy_k0": lambda x: sp.besselk(0, x), "scipy_k1": lambda x: sp.besselk(1, x),
    "scipy_erfi": sp.erfi, "erfcx": lambda x: sp.exp(x**2) * sp.erfc(x),
    "dawsn": lambda x: sp.sqrt(sp.pi) / 2 * sp.exp(-x**2) * sp.erfi(x),
    "ndtri": lambda p: sp.sqrt(2) * sp.erfinv(2 * p - 1),
    "scipy_ellipk": sp.elliptic_k, "scipy_ellipe": sp.elliptic_e,
}
"""Formulas of ops that need none for their derivatives, or another one: of conditions that are SymPy's."""

_REDUCED: dict[str, Callable[..., Any]] = {"max": sp.Max, "min": sp.Min, "any": sp.Or, "all": sp.And}

_TRUTHS = frozenset({
    "logical_and", "logical_or", "logical_xor", "logical_not", "bitwise_and", "bitwise_or", "bitwise_xor", "invert",
    "any", "all",
})
"""What is of truth values: a number is one where it is not 0."""
