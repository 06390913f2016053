"""``symgrad ops``: the declarations as a table, so that documentation and code cannot disagree."""

from __future__ import annotations

from collections import Counter

import numpy as np

from symgrad.ir.op import Elementwise, Op
from symgrad.ops import OPS
from symgrad.ops.declare.forms import ANSWERS
from symgrad.ops.declare.traits import traits
from symgrad.trace.trace import prepare

COLUMNS = ["name", "answers", "kind", "derivative", "C"]

_LETTERS = "xyz"


def declared() -> list[list[str]]:
    """List every op: name, the NumPy or SciPy function it answers, kind, derivative, C."""
    _declare_all()
    return [[op.name, answered(op), op.kind, derivative(op), spelled(op)] for op in OPS.values() if op.kind != "leaf"]


def counted() -> list[list[str]]:
    """Count the ops by kind, those with a rule of their own, and the functions that are answered."""
    _declare_all()
    ops = [op for op in OPS.values() if op.kind != "leaf"]
    kinds = Counter(op.kind for op in ops)
    rules = Counter(_derivative_source(op) for op in ops)
    answers = ["NumPy and SciPy functions answered", len(ANSWERS)]
    rows = [["operations", len(ops)], *kinds.items(), *rules.items(), answers]
    return [[str(name), str(count)] for name, count in rows]


def _declare_all() -> None:
    import scipy.special  # noqa: F401 - its functions are listed

    prepare()


def _derivative_source(op: Op) -> str:
    if op.nondiff:
        return "derivative 0"
    if op.vjp is not None or getattr(op, "partials", None) is not None:
        return "derivative by a rule"
    if isinstance(op, Elementwise) and traits(op).linear:
        return "derivative by linearity"
    return "derivative by SymPy" if getattr(op, "value", None) is not None else "no derivative"


_ONLY_NAMED_ALIKE = frozenset({"place"})


def answered(op: Op) -> str:
    """Return the function an op answers, empty for one of symgrad's own."""
    import scipy.special

    if isinstance(op.numpy, np.ufunc) or op.numpy in ANSWERS:
        module = "scipy.special" if getattr(scipy.special, op.numpy.__name__, None) is op.numpy else "np"
        return f"{module}.{op.numpy.__name__}"
    same = getattr(np, op.name, None) if op.name not in _ONLY_NAMED_ALIKE else None
    if same is not None and same in ANSWERS and op.kind != "elementwise":
        return f"np.{op.name}"
    return f"scipy.special.{op.name}" if getattr(scipy.special, op.name, None) in ANSWERS else ""


def derivative(op: Op) -> str:
    """Return the partial derivatives: SymPy's of the declared value, or "rule"."""
    if op.nondiff:
        return "0"
    if not isinstance(op, Elementwise) or op.value is None:
        return "rule" if _derivative_source(op) != "no derivative" else "none"
    import sympy

    symbols = [sympy.Symbol(name, real=True) for name in _LETTERS[: op.arity]]
    value = op.value(*symbols)
    slopes = [str(sympy.diff(value, symbol)) for symbol in symbols]
    return ", ".join(text if len(text) <= 60 else "rule" for text in slopes)


def spelled(op: Op) -> str:
    """Return an op's C: the spelling for floating point where it has one."""
    if isinstance(op, Elementwise):
        return op.c.get("f") or next(iter(op.c.values()))
    return "other operations" if op.kind == "composite" else "loops"
