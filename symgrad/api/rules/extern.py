"""`extern`: an op from a C function of the user's, which stands in the generated C and is called in its loops."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.api.check.samples import domains
from symgrad.errors import ArgumentError, DtypeError, NoGradient
from symgrad.ir import shapes
from symgrad.ir.op import Elementwise
from symgrad.trace.overrides import checked
from symgrad.trace.signature import signature_of
from symgrad.trace.source.lines import user_line
from symgrad.trace.tracer import Tracer

if TYPE_CHECKING:
    from collections.abc import Callable

    from symgrad.ir.node import Node
    from symgrad.ir.shapes import Shape

_NAME = re.compile(r"[A-Za-z]\w*")


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
    _check_text(name, c_source, arity)
    _check_needs(name, vjp, needs, {"out", *[f"x{k}" for k in range(arity)]})

    def rule(g: Any, y: Any, *x: Any) -> Any:
        if vjp is None:
            raise NoGradient(f"{name} is an extern op without a rule", instead=f"extern({name!r}, ..., vjp=...)")
        every = {"out": y, **{f"x{k}": v for k, v in enumerate(x)}}
        given = {need: every[need] for need in needs}
        found = vjp(g, **given)
        _refuse_others(name, found, [g, *given.values()])
        return found

    def infer(*nodes: Node) -> tuple[Shape, Any]:
        if len(nodes) != arity:
            raise ArgumentError(f"{name} takes {arity} arguments, not {len(nodes)}")
        for k, node in enumerate(nodes):
            if node.dtype != np.float64:
                raise DtypeError(f"{name} computes in float64; argument {k} is {node.dtype}", instead="x.astype(float)")
        return shapes.broadcast(*[n.shape for n in nodes]), np.dtype(np.float64)

    text = c_source.strip()
    text = text if text.startswith("static") else f"static {text}"
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]  # kept programs know an op by its name
    places = ", ".join(f"{{{k}}}" for k in range(arity))
    return Elementwise(
        f"{name}_{digest}", (), evaluate=numpy, infer=infer, vjp=checked(name, rule), arity=arity,
        c={"f": f"{name}({places})"}, source=text, doc=f"the C function {name}", sample=domains(name, sample, arity),
    )


def _check_text(name: str, c_source: str, arity: int) -> None:
    """Find the function in the C text, and count its arguments.

    Raises:
        ArgumentError: it is not there, or has others.
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


def _check_needs(name: str, vjp: Callable[..., Any] | None, needs: tuple[str, ...], known: set[str]) -> None:
    """Check that a rule has parameters for what it needs, and for nothing else.

    Raises:
        ArgumentError: it reads what is not declared, or does not read what is.
    """
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


def _refuse_others(name: str, found: Any, given: list[Any]) -> None:
    """Refuse a rule that reads a traced value it was not given: nothing is kept for that."""
    parts = found if isinstance(found, (tuple, list)) else (found,)
    allowed = {v.node for v in given if isinstance(v, Tracer)}
    stack = [p.node for p in parts if isinstance(p, Tracer) and p.node not in allowed]
    seen = set(stack)
    while stack:
        node = stack.pop()
        if node.op.name == "input":
            raise ArgumentError(
                f"the rule of {name} reads a traced value that it was not given, of {node.param('name')!r}",
                line=user_line(), instead="an argument of the C function, and its name in `needs`",
            )
        new = [i for i in node.inputs if i not in allowed and i not in seen]
        seen.update(new)
        stack.extend(new)
