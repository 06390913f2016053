"""Derivatives of elementwise ops: their own rules, or SymPy's of their `value`, in NumPy words."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.errors import NoGradient, UnsupportedError
from symgrad.ops.declare.forms import OPS

if TYPE_CHECKING:
    from collections.abc import Callable

    from symgrad.ir.op import Elementwise


class _Late:
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


sp: Any = _Late()
"""SymPy for the `value` of declarations."""


def cotangents(op: Elementwise, g: Any, y: Any, *x: Any, **params: Any) -> tuple[Any, ...]:
    """Return one cotangent for each input of an elementwise op, None where there is none.

    Args:
        op: the op.
        g: the cotangent of its result, of the result's shape.
        y: its result.
        x: its inputs; a cotangent has the broadcast shape, whatever its input's is.
        params: its parameters.
    """
    if op.nondiff:
        return (None,) * op.arity
    if op.vjp is not None:
        found = op.vjp(g, y, *x, **params)
        return found if isinstance(found, tuple) else (found,)
    return tuple([None if d is None else g * d for d in partials(op)(*x, y, **params)])


def partials(op: Elementwise) -> Callable[..., tuple[Any, ...]]:
    """Return the partial derivatives of an op as a function ``(x1, ..., y) -> tuple`` in NumPy words.

    They are the declared `ddx`; without one, SymPy differentiates the op's `value` once.

    Raises:
        NoGradient: there is neither.
    """
    declared = op.partials
    if declared is None:
        return _by_sympy(op)

    def as_tuple(*args: Any, **params: Any) -> tuple[Any, ...]:
        found: Any = declared(*args, **params)
        return found if isinstance(found, tuple) else (found,)

    return as_tuple


@cache
def _by_sympy(op: Elementwise) -> Callable[..., tuple[Any, ...]]:
    if op.value is None:
        raise NoGradient(f"{op.name} has no derivative: neither a rule nor a formula")
    symbols = [sp.Symbol(f"x{k}", real=True) for k in range(op.arity)]
    value = op.value(*symbols)
    derivatives = [sp.diff(value, symbol) for symbol in symbols]

    def evaluate(*args: Any) -> tuple[Any, ...]:
        known = dict(zip(symbols, args, strict=False))  # y comes last and has no symbol
        return tuple([in_numpy(d, known) for d in derivatives])

    return evaluate


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
    return OPS["polygamma"](x, order=order) if order else OPS["digamma"](x)


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
