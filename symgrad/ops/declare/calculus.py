"""Derivatives of elementwise ops: their own rules, what their linearity says, or SymPy's of their `value`.

A rule is written where SymPy's derivative has fewer digits or costs more, and where programs of every day have the op:
importing SymPy takes half a second, as long as all the rest of a process that finds its library in the cache.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.errors import NoGradient, UnsupportedError
from symgrad.ops.declare.forms import OPS
from symgrad.ops.declare.traits import kinds, traits

if TYPE_CHECKING:
    from collections.abc import Callable

    from symgrad.ir.op import Elementwise


class _LateSympy:
    """SymPy's functions, each of which imports SymPy when it is called: `import symgrad` does not pay for it."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            import sympy

            return getattr(sympy, name)(*args, **options)

        return call

    @property
    def pi(self) -> Any:
        import sympy

        return sympy.pi


sp: Any = _LateSympy()
"""SymPy for the `value` of declarations."""


def cotangents(op: Elementwise, g: Any, y: Any, *x: Any, **params: Any) -> tuple[Any, ...]:
    """Return one cotangent for each input of an elementwise op, None where there is none.

    They follow from the rule of the op, from the slopes that it declares, from its linearity where it is linear, or
    else from SymPy's derivative of its value.

    Args:
        op: the op.
        g: the cotangent of its result, of the result's shape.
        y: its result.
        x: its inputs; a cotangent has the broadcast shape, whatever its input's is.
        params: its parameters.

    Raises:
        NoGradient: there is nothing that it follows from.
    """
    if op.nondiff:
        return (None,) * op.arity
    if op.vjp is not None:
        found = op.vjp(g, y, *x, **params)
        return found if isinstance(found, tuple) else (found,)
    if op.partials is not None:
        declared: Any = op.partials(*x, y, **params)
        slopes = declared if isinstance(declared, tuple) else (declared,)
    else:
        known = traits(op, tuple(params.values()))
        if known.linear and not known.slopes:  # it chooses: the cotangent in the place of one argument, zeros elsewhere
            floats, zero = [kind == "float" for kind in kinds(op)], np.zeros((), g.dtype)
            picked = [[g if j == k else zero if f else x[j] for j, f in enumerate(floats)] for k in range(op.arity)]
            return tuple([op(*v, **params) if f else None for v, f in zip(picked, floats, strict=True)])
        slopes = known.slopes or by_sympy(op)(*x)
    return tuple([d if d is None or isinstance(d, NoGradient) else _times(g, d) for d in slopes])


def _times(g: Any, slope: Any) -> Any:
    if issubclass(type(slope), (int, float)) and slope in {1, -1}:
        return g if slope == 1 else -g
    return g * slope


@cache
def by_sympy(op: Elementwise) -> Callable[..., tuple[Any, ...]]:
    """Return the partial derivatives of an op's value as SymPy finds them, a function of its arguments in NumPy words.

    Raises:
        NoGradient: it has no value that SymPy knows.
    """
    if op.value is None:
        raise NoGradient(f"{op.name} has no derivative: neither a rule nor a formula")
    symbols = [sp.Symbol(f"x{k}", real=True) for k in range(op.arity)]
    value = op.value(*symbols)
    derivatives = [sp.diff(value, symbol) for symbol in symbols]

    return lambda *x: tuple([in_numpy(d, dict(zip(symbols, x, strict=True))) for d in derivatives])


def in_numpy(expression: Any, known: dict[Any, Any]) -> Any:
    """Evaluate a SymPy expression with NumPy's functions; `known` gives the values of its symbols.

    Raises:
        UnsupportedError: one of its functions has no NumPy word.
    """
    if expression in known:
        return known[expression]
    if expression.is_Number or expression.is_NumberSymbol:
        return float(expression)
    word = _WORDS.get(expression.func.__name__)
    if word is None:
        raise UnsupportedError(f"no NumPy word for SymPy's {expression.func.__name__} in {expression}")
    return word(expression, known)


def _sum(expression: Any, known: dict[Any, Any]) -> Any:
    total = None
    for term in expression.as_ordered_terms():
        sign, rest = (-1, -term) if term.could_extract_minus_sign() else (1, term)
        value = in_numpy(rest, known)
        signed = value if sign > 0 or total is not None else -value
        total = signed if total is None else total + signed if sign > 0 else total - signed
    return total


def _product(expression: Any, known: dict[Any, Any]) -> Any:
    above, below = expression.as_numer_denom()
    if below != 1:
        return in_numpy(above, known) / in_numpy(below, known)
    first, *rest = [in_numpy(factor, known) for factor in expression.args]
    return math.prod(rest, start=first)


def _power(expression: Any, known: dict[Any, Any]) -> Any:
    base, exponent = in_numpy(expression.base, known), expression.exp
    if exponent.could_extract_minus_sign():
        return 1 / _power(1 / expression, known) if exponent != -1 else 1 / base
    if exponent == 2:
        return np.square(base)
    if exponent == sp.Rational(1, 2):
        return np.sqrt(base)
    if exponent.is_Integer:
        return OPS["power_int"](base, exponent=int(exponent))
    return np.power(base, in_numpy(exponent, known))


def _polygamma(expression: Any, known: dict[Any, Any]) -> Any:
    order, x = int(expression.args[0]), in_numpy(expression.args[1], known)
    return OPS["polygamma"](x, order=order) if order > 1 else OPS["trigamma" if order else "digamma"](x)


def _piecewise(expression: Any, known: dict[Any, Any]) -> Any:
    value: Any = None
    for branch, condition in reversed(expression.args):
        here = in_numpy(branch, known)
        always = value is None or bool(condition == sp.true)
        value = here if always else np.where(in_numpy(condition, known), here, value)
    return value


def _word(function: Any) -> Callable[[Any, dict[Any, Any]], Any]:
    return lambda expression, known: function(*[in_numpy(argument, known) for argument in expression.args])


def _special(name: str) -> Callable[[Any, dict[Any, Any]], Any]:
    return lambda expression, known: OPS[name](*[in_numpy(argument, known) for argument in expression.args])


_WORDS: dict[str, Callable[[Any, dict[Any, Any]], Any]] = {
    "Add": _sum, "Mul": _product, "Pow": _power, "Piecewise": _piecewise,
    "polygamma": _polygamma,
    "Abs": _word(np.abs), "sign": _word(np.sign), "exp": _word(np.exp), "log": _word(np.log),
    "sin": _word(np.sin), "cos": _word(np.cos), "tan": _word(np.tan),
    "asin": _word(np.arcsin), "acos": _word(np.arccos), "atan": _word(np.arctan), "atan2": _word(np.arctan2),
    "sinh": _word(np.sinh), "cosh": _word(np.cosh), "tanh": _word(np.tanh),
    "asinh": _word(np.arcsinh), "acosh": _word(np.arccosh), "atanh": _word(np.arctanh),
    "erf": _special("erf"), "erfc": _special("erfc"), "loggamma": _special("gammaln"),
    "StrictGreaterThan": _word(np.greater), "GreaterThan": _word(np.greater_equal),
    "StrictLessThan": _word(np.less), "LessThan": _word(np.less_equal),
    "Equality": _word(np.equal), "Unequality": _word(np.not_equal),
    "And": _word(np.logical_and), "Or": _word(np.logical_or), "Not": _word(np.logical_not),
}
