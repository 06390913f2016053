"""Every op, by its name: ``symgrad.ops.logsumexp(x)`` works on arrays and on traced arrays.

One module a family, named as NumPy's manual names them; `declare.forms` says how an op is declared.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from symgrad.ir.op import Elementwise
from symgrad.ir.op import Op as _Op
from symgrad.ops.declare import leaves as leaves
from symgrad.ops.declare.forms import LIBRARY as LIBRARY
from symgrad.ops.declare.forms import OPS as OPS
from symgrad.ops.declare.forms import answer_scipy as _answer_scipy
from symgrad.ops.declare.spelling import is_call

_ROOMS = ("declare", "elementwise", "arrays", "numpy", "linalg", "scipy")


@cache
def _families() -> tuple[str, ...]:
    """Return the modules that declare ops: all there are in the rooms."""
    from pathlib import Path

    here = Path(__file__).parent
    found = [f"{__name__}.{room}.{path.stem}" for room in _ROOMS for path in sorted((here / room).glob("[!_]*.py"))]
    return (*found, f"{__name__}.adjoints", f"{__name__}.batched", f"{__name__}.control")


def load() -> None:
    """Declare every family; the tracer asks for it before its first trace."""
    from importlib import import_module

    for family in _families():
        import_module(family)
    _answer_scipy()


@cache
def own() -> frozenset[Any]:
    """Return symgrad's own ops, each of which its name identifies; a user's op is not among them."""
    import sys

    load()
    modules = [sys.modules[family] for family in _families()]
    ours = [value for module in modules for value in vars(module).values() if isinstance(value, _Op)]
    return frozenset([*ours, *LIBRARY.values()])


@cache
def math_functions() -> dict[str, tuple[str, int]]:
    """Return the functions of math.h that a compiler may have for lanes, each with its type and number of arguments.

    Ops of a formula are spelled by their bare names; what takes one instruction needs no variant, and what has none is
    spelled as a pattern.
    """
    load()
    found = {
        op.c["f"]: op.arity for op in OPS.values()
        if isinstance(op, Elementwise) and op.value is not None and not op.nondiff and is_call(op.c.get("f", ""))
    }
    types = (("", "double"), ("f", "float"))
    return {name + end: (kind, found[name]) for end, kind in types for name in sorted(found)}


def __getattr__(name: str) -> Any:
    if name not in OPS:
        load()
    try:
        return OPS[name]
    except KeyError:
        raise AttributeError(f"symgrad.ops has no op {name!r}") from None
