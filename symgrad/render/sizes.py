"""Sizes as C that cannot overflow: every sum and product stays at the largest integer once it is reached."""

from __future__ import annotations

from functools import reduce
from typing import Any

from symgrad.render.printer import integer


def size(expression: Any) -> str:
    """Print an extent, or a number of bytes.

    >>> from symgrad.ir.shapes import symbol
    >>> size(8 * symbol("n") * symbol("d") + 8)
    'sg_plus(sg_times(sg_times(8, d), n), 8)'
    """
    if type(expression) is int or expression.is_Integer:
        return integer(int(expression))
    if expression.is_Symbol:
        return str(expression)
    kind = type(expression).__name__
    if kind in {"floor", "Mod"}:
        above, below = (
            expression.args[0].together().as_numer_denom() if kind == "floor" else expression.args
        )
        return f"{size(above)} {'/' if kind == 'floor' else '%'} {size(below)}".join("()")
    return reduce(lambda left, right: f"{_CALLS[kind]}({left}, {right})", map(size, _terms(expression, kind)))


_CALLS = {"Add": "sg_plus", "Mul": "sg_times", "Pow": "sg_times", "Max": "sg_most", "Min": "sg_least"}


def _terms(expression: Any, kind: str) -> list[Any]:
    if kind == "Pow":
        return [expression.base] * int(expression.exp)
    first = kind == "Mul"  # a sum ends with its number, a product begins with it
    return sorted(expression.args, key=lambda t: (t.is_Integer != first, str(t)))


def calls(texts: list[str]) -> tuple[str, ...]:
    """List the functions that printed sizes call, each after those that it needs."""
    return tuple([name for name in ("sg_plus", "sg_times", "sg_most", "sg_least") if any(name in t for t in texts)])
