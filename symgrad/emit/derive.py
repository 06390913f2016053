"""What is emitted of a function: its value, a gradient, or a derivative whose tangents are further arguments."""

from __future__ import annotations

import inspect
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import symgrad.api.modes.derivatives as first
import symgrad.api.modes.derivatives as second
from symgrad.api.call.arguments import chosen
from symgrad.api.modes.mode import at, described, function
from symgrad.errors import ArgumentError, ArgumentValueError
from symgrad.ir.names import identifier
from symgrad.ir.shapes import size
from symgrad.trace.signature import Spec, signature_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from symgrad.api.call.arguments import Argnums
    from symgrad.api.call.function import Function, Lowered
    from symgrad.options import Options
    from symgrad.trace.signature import Signature

WHATS = ("value", "grad", "value_and_grad", "jvp", "vjp", "hvp", "hessian", "jacobian")
"""What can be emitted."""


@dataclass(frozen=True)
class Specialization:
    """A function with specs in the places of its arguments; those named by `static` are settings."""

    fun: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    static: tuple[str, ...] = ()

    @property
    def plain_name(self) -> str:
        """The function's name, as it is."""
        return str(getattr(self.fun, "__name__", type(self.fun).__name__))

    @property
    def name(self) -> str:
        """The function's name, as an identifier."""
        return identifier(self.plain_name)

    def lower(self, derived: Function, **further: Spec) -> Lowered:
        """Lower a derivative of the function for the specs."""
        return derived.lower(*self.args, **self.kwargs, **further)


@dataclass(frozen=True)
class Derivative:
    """One derivative of a function.

    Attributes:
        lowered: it, traced and derived for the specs.
        outputs: a name for each array of the result.
        base: what finite differences are taken of: the function, or its gradient; its results are `base_outputs`.
        form: how the result belongs to these differences: ``pull``, ``push``, ``matrix``, or nothing.
        wrt: names of the arrays it is differentiated by.
        tangents: names of the arrays that are directions or cotangents, in the order of `wrt` or of the results.
    """

    what: str
    of: Specialization
    lowered: Lowered
    outputs: tuple[str, ...]
    base: Lowered | None = None
    base_outputs: tuple[str, ...] = ()
    form: str = ""
    wrt: tuple[str, ...] = ()
    tangents: tuple[str, ...] = ()

    @property
    def narrow(self) -> bool:
        """Whether something on the way is single precision."""
        return any(node.dtype.str[1:] == "f4" for node in self.lowered.program.nodes())


def derive(what: str, of: Specialization, wrt: Argnums, options: Options, word: str = "wrt=") -> Derivative:
    """Trace a function and derive what is asked for; errors call `wrt` by the word that the caller writes.

    Raises:
        SymgradError: what tracing and deriving raise: the loss is no scalar, an argument has no gradient.
        ArgumentValueError: there is no such derivative.
    """
    if what not in WHATS:
        raise ArgumentValueError(f"{what!r} cannot be emitted", instead=f"one of {', '.join(WHATS)}")
    given: dict[str, Any] = {"static_argnames": of.static, "options": options}
    value = of.lower(first.jit(of.fun, **given))
    results = _result_names(value)
    if what == "value":
        return Derivative(what, of, value, results)
    signature = value.signature
    names = tuple([signature.names[k] for part in chosen(wrt, signature, word) for k in part.leaves])
    bars = tuple([f"{name}_bar" for name in names])
    if what in {"grad", "value_and_grad"}:
        made = of.lower(getattr(first, what)(of.fun, wrt, **given))
        return Derivative(what, of, made, bars if what == "grad" else (*results, *bars), value, results, "pull", names)
    base, base_outputs = value, results
    if what in {"hvp", "hessian"}:
        base, base_outputs = of.lower(first.grad(of.fun, wrt, **given)), bars
    specs = dict(zip(signature.names, signature.specs, strict=True))
    outputs = dict(zip(results, value.program.outputs, strict=True))
    floating = [name for name, y in outputs.items() if y.dtype.kind == "f"]
    if what in {"hessian", "jacobian"}:
        matrix: Any = second.hessian
        rows = names
        if what == "jacobian":  # in the mode that does less
            height = sum([size(y.shape) for y in outputs.values()])
            width = sum([size(specs[name].shape) for name in names])
            reverse = isinstance(height, int) and (not isinstance(width, int) or height <= width)
            matrix, rows = second.jacrev if reverse else second.jacfwd, results
        labels: list[str] = []
        for pair in itertools.product(rows, names):
            alone = len(rows) == len(names) == 1
            labels.append(what if alone else identifier(f"{what}_{'_'.join(pair)}", labels))
        made = of.lower(matrix(of.fun, wrt, **given))
        return Derivative(what, of, made, tuple(labels), base, base_outputs, "matrix", names)
    # Along directions, or cotangents pulled back: those are arguments after the function's own.
    if what == "vjp":
        further = {identifier(f"{name}_bar"): Spec(outputs[name].shape, outputs[name].dtype) for name in floating}
    else:
        further = {identifier(f"{name}_dot"): Spec(specs[name].shape, specs[name].dtype) for name in names}
    extents = {str(s) for one in signature.specs for d in one.shape for s in getattr(d, "free_symbols", ())}
    for name in further:
        if name in specs or name in extents:
            raise ArgumentError(
                f"{what} adds an argument {name}, and {of.name}() has one, or an extent", instead="another name"
            )
    settings = {"what": what, "wrt": wrt, "further": tuple(further)}
    mode = function(what, of.fun, _along, settings, **given, signature=_extended(of.fun, further))
    tails = {
        "jvp": (*results, *[f"{name}_dot" for name in floating]), "vjp": (*results, *bars),
        "hvp": tuple([f"{bar}_dot" for bar in bars]),
    }
    form = "pull" if what == "vjp" else "push"
    made = of.lower(mode, **further)
    return Derivative(what, of, made, tails[what], base, base_outputs, form, names, tuple(further))


def _along(
    fun: Any, signature: Signature, leaves: list[Any], *, what: str, wrt: Argnums, further: tuple[str, ...],
) -> list[Any]:
    """Return the results and a jvp's tangents, or a vjp's cotangents; of a hvp the gradient's tangents."""
    args, kwargs = signature.join(leaves)
    own = {name: value for name, value in kwargs.items() if name not in further}
    given = [kwargs[name] for name in further]
    if what == "hvp":
        fun = first.grad(fun, wrt, static_argnums=signature.static[0], static_argnames=signature.static[1])
    point = at(fun, *described(fun, args, own, signature.static))
    places = [k for one in chosen(wrt, point.signature) for k in one.leaves]
    floating = [y.dtype.kind == "f" for y in point.results]
    if what == "vjp":
        cotangents = iter(given)
        pulled = point.pull([next(cotangents) if one else None for one in floating])
        return [*point.put(point.program), *[pulled[k] for k in places]]
    tangents = dict(zip(places, given, strict=True))
    pushed = point.push([tangents.get(k) for k in range(len(point.leaves))])
    return pushed if what == "hvp" else [*point.put(point.program), *itertools.compress(pushed, floating)]


def _result_names(value: Lowered) -> tuple[str, ...]:
    """Name the arrays of a function's result: by their places in it, or as the only one."""
    if len(value.program.outputs) == 1:
        return ("value",)
    names: list[str] = []
    for path in value.tree.paths():
        names.append(identifier("_".join(["result", *map(str, path)]), names))
    return tuple(names)


def _extended(fun: Callable[..., Any], further: dict[str, Spec]) -> inspect.Signature:
    """Put keyword arguments behind a function's own."""
    signature = signature_of(fun)
    if signature is None:
        raise ArgumentError(f"{getattr(fun, '__name__', fun)} tells no signature", instead="a function in Python")
    parameters = list(signature.parameters.values())
    end = [p for p in parameters if p.kind is p.VAR_KEYWORD]
    added = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in further]
    return signature.replace(parameters=[*parameters[: len(parameters) - len(end)], *added, *end])
