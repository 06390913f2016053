"""What is emitted of a function: its value, a gradient, or a derivative whose tangents are further arguments."""

from __future__ import annotations

import inspect
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import optree

import symgrad.api.modes.derivatives as first
import symgrad.api.modes.jacobians as second
from symgrad.api.call.argnums import chosen
from symgrad.api.modes.mode import function
from symgrad.api.modes.point import Point, at
from symgrad.errors import ArgumentError, ArgumentValueError
from symgrad.ir.names import identifier
from symgrad.ir.shapes import size
from symgrad.trace.signature import NAMESPACE, Spec, flatten, signature_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from symgrad.api.call.argnums import Argnums
    from symgrad.api.call.function import Function, Lowered
    from symgrad.ir.node import Node
    from symgrad.options import Options
    from symgrad.trace.signature import Signature

WHATS = ("value", "grad", "value_and_grad", "jvp", "vjp", "hvp", "hessian", "jacobian")
"""What can be emitted."""


@dataclass(frozen=True)
class Call:
    """A function with specs in the places of its arguments.

    Attributes:
        static: names of the arguments that are settings.
    """

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


@dataclass(frozen=True)
class Derived:
    """One derivative of a function.

    Attributes:
        lowered: it, traced and derived for the specs.
        outputs: a name for each array of the result.
        base: what finite differences are taken of: the function, or its gradient.
        form: how the result belongs to these differences: ``pull``, ``push``, ``matrix``, or nothing.
        wrt: names of the arrays it is differentiated by.
        tangents: names of the arrays that are directions or cotangents, in the order of `wrt` or of the results.
    """

    what: str
    call: Call
    lowered: Lowered
    outputs: tuple[str, ...]
    base: Lowered | None
    form: str
    wrt: tuple[str, ...]
    tangents: tuple[str, ...] = ()

    @property
    def narrow(self) -> bool:
        """Whether something on the way is single precision."""
        return any(node.dtype.str[1:] == "f4" for node in self.lowered.program.nodes())


def derive(what: str, call: Call, wrt: Argnums, options: Options, word: str = "wrt=") -> Derived:
    """Trace a function and derive what is asked for; errors call `wrt` by the word that the caller writes.

    Raises:
        SymgradError: what tracing and deriving raise: the loss is no scalar, an argument has no gradient.
        ArgumentValueError: there is no such derivative.
    """
    if what not in WHATS:
        raise ArgumentValueError(f"{what!r} cannot be emitted", instead=f"one of {', '.join(WHATS)}")
    given: dict[str, Any] = {"static_argnames": call.static, "options": options}
    plain = first.jit(call.fun, **given)
    value = lowered(plain, call)
    if what == "value":
        return Derived(what, call, value, result_names(value, "value"), None, "", ())
    signature = value.signature
    parts = chosen(wrt, signature, word)
    places = [k for one in parts for k in one.leaves]
    names = tuple([signature.names[k] for k in places])
    bars = tuple([f"{name}_bar" for name in names])
    if what in {"grad", "value_and_grad"}:
        made = lowered(getattr(first, what)(call.fun, wrt, **given), call)
        labels = bars if what == "grad" else (*result_names(value, "value"), *bars)
        return Derived(what, call, made, labels, value, "pull", names)
    if what in {"hessian", "jacobian"}:
        return _matrix(what, call, wrt, given, value, names)
    return _along(what, call, wrt, options, value, names)


def lowered(fun: Function, call: Call) -> Lowered:
    """Lower a function for the specs of a call."""
    return fun.lower(*call.args, **call.kwargs)


def result_names(value: Lowered, otherwise: str) -> tuple[str, ...]:
    """Name the arrays of a function's result: by their places in it, or as the only one."""
    outputs = value.program.outputs
    if len(outputs) == 1:
        return (otherwise,)
    paths = value.tree.paths()
    names: list[str] = []
    for path in paths:
        names.append(identifier("_".join(["result", *map(str, path)]), names))
    return tuple(names)


def _matrix(
    what: str, call: Call, wrt: Argnums, given: dict[str, Any], value: Lowered, names: tuple[str, ...],
) -> Derived:
    """Derive a Hessian, or a Jacobian in the mode that does less."""
    if what == "hessian":
        base = lowered(first.grad(call.fun, wrt, **given), call)
        made, ways = second.hessian(call.fun, wrt, **given), [names, names]
    else:
        base, results = value, result_names(value, "value")
        inputs = {node.param("name"): node for node in value.program.inputs}
        rows, columns = _count(value.program.outputs), _count([inputs[name] for name in names])
        reverse = isinstance(rows, int) and (not isinstance(columns, int) or rows <= columns)
        made = (second.jacrev if reverse else second.jacfwd)(call.fun, wrt, **given)
        ways = [results, names]
    pairs = [*itertools.product(*ways)]
    labels: list[str] = []
    for pair in pairs:
        labels.append(what if len(pairs) == 1 else identifier(f"{what}_{'_'.join(pair)}", labels))
    return Derived(what, call, lowered(made, call), tuple(labels), base, "matrix", names)


def _count(nodes: Sequence[Node]) -> Any:
    return sum([size(node.shape) for node in nodes])


def _along(
    what: str, call: Call, wrt: Argnums, options: Options, value: Lowered, names: tuple[str, ...],
) -> Derived:
    """Derive along directions, or pull cotangents back: those are arguments after the function's own."""
    signature: Signature = value.signature
    specs = dict(zip(signature.names, signature.specs, strict=True))
    results = result_names(value, "value")
    floating = [(name, y) for name, y in zip(results, value.program.outputs, strict=True) if y.dtype.kind == "f"]
    if what == "vjp":
        further = {identifier(f"{name}_bar"): Spec(y.shape, y.dtype) for name, y in floating}
    else:
        further = {identifier(f"{name}_dot"): Spec(specs[name].shape, specs[name].dtype) for name in names}
    extents = {str(s) for one in signature.specs for d in one.shape for s in getattr(d, "free_symbols", ())}
    for name in further:
        if name in specs or name in extents:
            raise ArgumentError(
                f"{what} adds an argument {name}, and {call.name}() has one, or an extent", instead="another name"
            )
    settings = {"wrt": wrt, "further": tuple(further), "static": ((), ())}
    rule = {"jvp": _jvp, "vjp": _vjp, "hvp": _hvp}[what]
    made = function(
        what, call.fun, rule, settings, static_argnames=call.static, options=options,
        signature=_extended(call.fun, tuple(further)),
    )
    made_lowered = made.lower(*call.args, **call.kwargs, **further)
    if what == "hvp":
        base = lowered(first.grad(call.fun, wrt, static_argnames=call.static, options=options), call)
        return Derived(what, call, made_lowered, tuple([f"{name}_bar_dot" for name in names]), base, "push", names,
                       tuple(further))
    if what == "jvp":
        labels, form = (*results, *[f"{name}_dot" for name, _ in floating]), "push"
    else:
        labels, form = (*results, *[f"{name}_bar" for name in names]), "pull"
    return Derived(what, call, made_lowered, labels, value, form, names, tuple(further))


def _extended(fun: Callable[..., Any], further: tuple[str, ...]) -> inspect.Signature:
    """Put keyword arguments behind a function's own."""
    signature = signature_of(fun)
    if signature is None:
        raise ArgumentError(f"{getattr(fun, '__name__', fun)} tells no signature", instead="a function in Python")
    parameters = list(signature.parameters.values())
    added = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in further]
    end = [p for p in parameters if p.kind is p.VAR_KEYWORD]
    return signature.replace(parameters=[*parameters[: len(parameters) - len(end)], *added, *end])


# -- on traced values


def _point(
    fun: Any, args: tuple[Any, ...], kwargs: dict[str, Any], wrt: Argnums, static: Any,
) -> tuple[Point, list[int]]:
    point = at(fun, args, kwargs, static)
    return point, [k for one in chosen(wrt, point.signature) for k in one.leaves]


def _split(kwargs: dict[str, Any], further: tuple[str, ...]) -> tuple[dict[str, Any], list[Any]]:
    own = {name: value for name, value in kwargs.items() if name not in further}
    return own, [kwargs[name] for name in further]


def _jvp(fun: Any, args: Any, kwargs: Any, *, wrt: Argnums, further: tuple[str, ...], static: Any) -> list[Any]:
    """Return the results, and the tangents of those that are floating point."""
    own, given = _split(kwargs, further)
    point, places = _point(fun, args, own, wrt, static)
    pushed = point.push(_at_places(given, places, len(point.leaves)))
    tangents = [t for t, y in zip(pushed, point.results, strict=True) if y.dtype.kind == "f"]
    return [*point.put(point.program), *tangents]


def _hvp(fun: Any, args: Any, kwargs: Any, *, wrt: Argnums, further: tuple[str, ...], static: Any) -> list[Any]:
    """Return the tangents of the gradient."""
    own, given = _split(kwargs, further)
    gradient = first.grad(fun, wrt, static_argnums=static[0], static_argnames=static[1])
    point, places = _point(gradient, args, own, wrt, static)
    return point.push(_at_places(given, places, len(point.leaves)))


def _vjp(fun: Any, args: Any, kwargs: Any, *, wrt: Argnums, further: tuple[str, ...], static: Any) -> list[Any]:
    """Return the results, and the cotangents of the arguments to differentiate by."""
    own, given = _split(kwargs, further)
    point, places = _point(fun, args, own, wrt, static)
    cotangents = iter(given)
    pulled = point.pull([next(cotangents) if y.dtype.kind == "f" else None for y in point.results])
    return [*point.put(point.program), *[pulled[k] for k in places]]


def _at_places(given: Sequence[Any], places: Sequence[int], count: int) -> list[Any]:
    by_place = dict(zip(places, given, strict=True))
    return [by_place.get(k) for k in range(count)]


def specs_of(tree: Any) -> Any:
    """Read the specs in a tree: strings become specs."""
    from symgrad.trace.signature import spec

    return optree.tree_map(lambda s: spec(s) if isinstance(s, str) else s, tree, namespace=NAMESPACE)


__all__ = ["WHATS", "Call", "Derived", "derive", "flatten", "specs_of"]
