"""A mode is a derived function written in Python on traced values: so compiling it is `jit` and nothing else.

`Point` is what each of them starts with: a function at traced arguments, as a program of its own with its value and
its derivatives.
"""

from __future__ import annotations

import inspect
import threading
import types
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from symgrad.api.call.arguments import AUTO, Arguments, check_function
from symgrad.api.call.function import Function, P
from symgrad.errors import ArgumentError, ShapeError
from symgrad.ir.index import shapes
from symgrad.ir.names import identifier
from symgrad.ir.node import Graph, Node, NodeTable
from symgrad.ir.program import Program, copied, replaced
from symgrad.ops.arrays.views import broadcast_to
from symgrad.options import Options
from symgrad.trace import optree
from symgrad.trace.constants import constant
from symgrad.trace.control.branches import level
from symgrad.trace.lines import ends_here
from symgrad.trace.nested import settled
from symgrad.trace.numpy.replaced import standing_for
from symgrad.trace.signature import Signature, Spec, leaf_spec, signature_of
from symgrad.trace.state import Trace, current
from symgrad.trace.structures import flattened, places_in
from symgrad.trace.trace import trace
from symgrad.trace.tracer import Tracer, as_node, cast
from symgrad.transforms.derive.jvp import pullback, pushforward

Rewrite = Callable[[Graph, Node, tuple[Node, ...]], Node]
Rule = Callable[..., Any]


@dataclass(frozen=True)
class Point:
    """A function at traced arguments: what every mode derives, and where it puts the derivative.

    Its inputs are fresh ones, so that what the function closes over is constant to its derivative even where it is
    the same value as an argument: ``d/dx (x * d/dy (x + y))`` is 1.

    Attributes:
        outer: the caller's trace.
        traced: what the function does to its inputs, as it was traced.
        program: the same, stabilized.
        table: where the program's nodes are found, and those of what is derived of it.
        tree: the structure of what the function returned.
        signature: what its arguments are.
        leaves: the caller's values of them.
        has_aux: the function returns ``(result, extras)``.
    """

    outer: Trace
    traced: Program
    program: Program
    table: NodeTable
    tree: Any
    signature: Signature
    leaves: list[Any]
    has_aux: bool = False

    # -- its structure

    @cached_property
    def parts(self) -> tuple[Any, Any]:
        """The structures of the result and of the extras (None without)."""
        if not self.has_aux:
            return self.tree, None
        children = self.tree.children()
        if self.tree.type is not tuple or len(children) != 2:
            raise ArgumentError("has_aux=True needs a function that returns a pair (result, extras)")
        return children[0], children[1]

    @cached_property
    def fixed(self) -> set[int]:
        """Leaves of the arguments that say where others stand; derivatives by these stand there, too."""
        return places_in(self.signature.tree)

    @property
    def results(self) -> tuple[Node, ...]:
        """What the result is made of, without the extras."""
        return self.program.outputs[: self.parts[0].num_leaves]

    def names(self) -> list[str]:
        """Name the parts of the result."""
        return [f"result{accessor.codify('')}" for accessor in self.parts[0].accessors()]

    # -- what is computed there

    def derive(self, make: Callable[[Program], Program]) -> Program:
        """Derive the program; the first one that is derived in a trace is kept for who wants to look at it."""
        if self.outer.differentiated is None:
            self.outer.differentiated = self.traced, self.program
        with level(self.outer.branches) as guards, self.outer.graph.apart(self.table):
            made = make(self.program)
        decided(self.outer, replace(self.program, outputs=tuple(guards)), self.leaves)  # what rules have asked
        return made

    def put(self, program: Program, more: Sequence[Any] = (), rewrite: Rewrite = copied) -> list[Tracer]:
        """Put a program in the place of the call: its inputs are the function's arguments, and more."""
        return substituted(self.outer, program, [*self.leaves, *more], rewrite)

    def value(self) -> tuple[Any, Any]:
        """Return the result and the extras."""
        return self.unflatten(self.put(self.program))

    def unflatten(self, values: Sequence[Any]) -> tuple[Any, Any]:
        """Give values of the result and of the extras their structures."""
        tree, aux = self.parts
        result = optree.tree_unflatten(tree, values[: tree.num_leaves])
        return result, None if aux is None else optree.tree_unflatten(aux, values[tree.num_leaves :])

    def push(self, tangents: Sequence[Any]) -> list[Any]:
        """Push one tangent for each leaf of the arguments (None for zeros): one for each leaf of the result."""
        tangents = [None if k in self.fixed else tangent for k, tangent in enumerate(tangents)]
        wrt, given = present(tangents, self.program.inputs, self.signature.paths, "tangent")
        of = [k for k, y in enumerate(self.results) if y.dtype.kind == "f"]
        found: dict[int, Any] = {}
        if wrt:
            pushed = self.derive(lambda program: pushforward(program, wrt, of))
            found = dict(zip(of, self.put(pushed, given), strict=True))
        if stays := places_in(self.parts[0]):
            found |= {k: y for k, y in enumerate(self.put(self.program)) if k in stays}
        return [found[k] if k in found else self.zeros(y) for k, y in enumerate(self.results)]

    def pull(self, cotangents: Sequence[Any]) -> list[Any]:
        """Pull one cotangent for each leaf of the result (None for zeros): one for each leaf of the arguments."""
        stays = places_in(self.parts[0])
        cotangents = [None if k in stays else cotangent for k, cotangent in enumerate(cotangents)]
        of, given = present(cotangents, self.results, self.names(), "cotangent")
        inputs = self.program.inputs
        wrt = [k for k, x in enumerate(inputs) if x.dtype.kind == "f"]
        found: dict[int, Any] = {}
        if of and wrt:
            pulled = self.derive(lambda program: pullback(program, wrt, of))
            found = dict(zip(wrt, self.put(pulled, given), strict=True))
        found |= {k: self.leaves[k] for k in self.fixed}
        return [found[k] if k in found else self.zeros(x) for k, x in enumerate(inputs)]

    def zeros(self, like: Node, zero: float = 0) -> Any:
        """Return zeros of a value's shape and dtype, of either sign."""
        one = Tracer(constant(self.outer, zero, like.dtype), self.outer)
        return broadcast_to(one, shape=like.shape) if like.shape else one


def at(
    fun: Callable[..., Any], signature: Signature, leaves: list[Any], *, has_aux: bool = False,
    seen: Signature | None = None, alike: Sequence[bool] | None = None, step: bool = False,
) -> Point:
    """Trace a function into a program of its own at a caller's traced arguments.

    With `seen`, it sees something else of them than the signature says; which of them are `alike` all the same its
    conditions may ask. A `step` of a loop, or a side of a branch, may change what it is given, which nobody else has.
    """
    from symgrad.transforms.passes import stabilize

    outer = current()
    assert outer is not None  # noqa: S101 - modes are called on traced values

    def call(tracers: list[Any]) -> Any:
        if step:
            args, kwargs = signature.join(tracers)
            return standing_for(fun)(*args, **kwargs)
        return signature.called(standing_for(fun), tracers, fun)

    name = identifier(getattr(fun, "__name__", type(fun).__name__))
    same = [seen is None] * len(leaves) if alike is None else alike
    known = [as_node(outer, leaf) if one else None for leaf, one in zip(leaves, same, strict=True)]
    with outer.graph.apart():
        traced = trace(fun, seen or signature, call, name=name, creation=False, outer=outer, known=known)
        program = stabilize(traced.program, outer.options)
        table = outer.graph.table
    program = decided(outer, program, leaves)
    return Point(outer, traced.program, program, table, traced.tree, signature, leaves, has_aux)


def decided(outer: Trace, program: Program, leaves: Sequence[Any]) -> Program:
    """Take the guards of a program that is traced inside of another one out of it: they are guards around it."""
    if program.guards and outer.branches is not None:
        only = replace(program, outputs=program.guards, labels=())
        for node in program.guards:
            outer.branches.moments.pop(node.param("number"), None)
        outer.branches.levels[-1] += [tracer.node for tracer in substituted(outer, only, leaves)]
    return replace(program, outputs=program.results) if program.guards else program


def described(
    fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
    static: tuple[Sequence[int], Sequence[str]] = ((), ()),
) -> tuple[Signature, list[Any]]:
    """Describe arguments of a function that are not those of its mode; `static` are positions and names."""
    arguments = Arguments(fun, *static)
    call = arguments.split(args, kwargs)
    return arguments.describe(call), call.leaves


def substituted(outer: Trace, program: Program, leaves: Sequence[Any], rewrite: Rewrite = copied) -> list[Tracer]:
    """Put a program in the place where it is called: its inputs become the caller's values."""
    values = []
    for node, leaf in zip(program.inputs, leaves, strict=True):
        value = as_node(outer, leaf)
        values.append(value if value.dtype == node.dtype else cast(outer, value, node.dtype))
    return [Tracer(node, outer) for node in replaced(outer.graph, program, values, rewrite)]


def present(
    given: Sequence[Any], of: Sequence[Node | Spec], names: Sequence[str], what: str,
) -> tuple[list[int], list[Any]]:
    """Take the tangents or cotangents that are there, checked against what they are of."""
    places = [k for k, value in enumerate(given) if value is not None]
    for k in places:
        node, spec = of[k], leaf_spec(given[k], f"the {what} of {names[k]}")
        if node.dtype.kind != "f":
            raise ArgumentError(
                f"{names[k]} is {node.dtype.name}, and has no {what}: a derivative needs floating point",
                instead=f"None in its place, or {names[k]} as a float",
            )
        if spec.weak is None and spec.dtype != node.dtype:
            raise ArgumentError(f"the {what} of {names[k]} is {spec.dtype.name}, and {names[k]} is {node.dtype.name}")
        if spec.shape != node.shape:
            have, want = shapes.show(spec.shape), shapes.show(node.shape)
            raise ShapeError(f"the {what} of {names[k]} has shape {have}, and {names[k]} has shape {want}")
    return places, [given[k] for k in places]


def matched(tree: Any, values: Any, what: str) -> list[Any]:
    """List what stands at the leaves of a structure; None may stand there."""
    try:
        return [settled(value) for value in tree.flatten_up_to(values)]
    except ValueError as error:
        leaves, own = flattened(values)
        if places_in(tree) and own.paths() == tree.paths():  # a sparse matrix, or what stands for one
            return [settled(leaf) for leaf in leaves]
        raise ArgumentError(f"the {what} do not have the structure of what they belong to: {error}") from None


class Mode:
    """A function of the arguments of another one: ``rule(fun, signature, leaves, **settings)``, on traced leaves.

    It has the other one's name and signature (or one of its own), so that arguments are named as their author did.

    Attributes:
        symgrad_mode: what it is called: ``grad``, ``jacfwd``.
    """

    def __init__(
        self, kind: str, fun: Callable[..., Any], rule: Rule, settings: dict[str, Any], *,
        signature: inspect.Signature | None = None, weak: bool = False, annotated: bool = True,
    ) -> None:
        """Keep the function; with `weak`, only as long as somebody else does.

        Its arguments are what the function's annotations say, if `annotated`.
        """
        check_function(fun)
        self._fun: Any = fun
        self._get: Any = None
        if weak:
            with suppress(TypeError):  # what cannot be referred to weakly is kept
                self._get = weakref.WeakMethod(fun) if isinstance(fun, types.MethodType) else weakref.ref(fun)
                self._fun = None
        self.symgrad_mode, self._rule, self._settings, self.annotated = kind, rule, settings, annotated
        self.__name__ = getattr(fun, "__name__", type(fun).__name__)
        self.__qualname__ = getattr(fun, "__qualname__", self.__name__)
        self.__module__ = getattr(fun, "__module__", None) or "builtins"
        self.__doc__ = getattr(fun, "__doc__", None)
        self._signature = signature
        known = {} if signature is not None else getattr(fun, "__annotations__", {})
        self.__annotations__ = {name: hint for name, hint in known.items() if name != "return"}

    @property
    def __signature__(self) -> inspect.Signature:
        """What it takes; what it gives is not what the function does."""
        own = self._signature or signature_of(self.__wrapped__)
        if own is None:
            raise AttributeError("__signature__")
        return own.replace(return_annotation=own.empty)

    @property
    def __wrapped__(self) -> Any:
        return self._fun if self._get is None else self._get()

    @ends_here
    def __call__(self, signature: Signature, leaves: list[Any]) -> Any:
        """Derive for traced arguments; the C is the same from wherever it is called."""
        return self._rule(self.__wrapped__, signature, leaves, **self._settings)


def function(
    kind: str, fun: Callable[P, Any], rule: Rule, settings: dict[str, Any],
    static_argnums: int | Iterable[int] = (), static_argnames: str | Iterable[str] = (), specs: Any = None,
    dynamic: Any = AUTO, options: Options | None = None, *, signature: inspect.Signature | None = None,
    annotated: bool = True,
) -> Function[P, Any]:
    """Make the `Function` of a mode; what is static is so for the function too."""
    mode = Mode(kind, fun, rule, settings, signature=signature, annotated=annotated)
    return Function(mode, Arguments(mode, static_argnums, static_argnames, specs, dynamic), options or Options())


# -- functions derived again and again, by calls like ``jvp(f, primals, tangents)``


_derived: dict[int, tuple[Any, dict[Any, Function[..., Any]]]] = {}  # of each function or object, while it lives
_lock = threading.Lock()


def derived(fun: Any, rule: Rule, signature: inspect.Signature, **settings: Any) -> Function[..., Any]:
    """Return the compiled mode of a function, the same one each time; it does not keep the function alive."""
    method = isinstance(fun, types.MethodType)
    owner = fun.__self__ if method else fun
    at = id(owner)
    with _lock:
        if at not in _derived:
            forget = _derived.pop  # at exit, the module's names are None
            try:
                alive: Any = weakref.ref(owner, lambda _: forget(at, None))
            except TypeError:  # ufuncs and the like, which live as long as NumPy does
                alive = owner
            _derived[at] = alive, {}
        known = _derived[at][1]
    key = (fun.__func__ if method else None, rule, *settings.items())
    found = known.get(key)
    if found is None:
        mode = Mode(rule.__name__.strip("_"), fun, rule, settings, signature=signature, weak=True)
        found = known.setdefault(key, Function(mode, Arguments(mode), Options()))
    return found
