"""jvp, vjp, linearize: the derivative at a point, as the linear map it is."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import optree

from symgrad.api.arguments import Arguments
from symgrad.api.mode import derived
from symgrad.api.nested import Nested, nested
from symgrad.errors import ArgumentError, ShapeError
from symgrad.ir import shapes
from symgrad.trace.nested import settled
from symgrad.trace.signature import NAMESPACE, leaf_spec
from symgrad.trace.state import current
from symgrad.transforms.jvp import pullback, pushforward

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from symgrad.api.halves import Linear
    from symgrad.ir.node import Node
    from symgrad.trace.signature import Spec


def jvp(fun: Callable[..., Any], primals: Any, tangents: Any, *, has_aux: bool = False) -> Any:
    """Compute a function and its derivative along a direction, in forward mode.

    Args:
        fun: takes and returns arrays, numbers, and tuples, lists, dicts of them.
        primals: the arguments, a tuple.
        tangents: the direction: a tuple of the same structure, shapes and dtypes; None stands for zeros, and
            for what an integer has.
        has_aux: `fun` returns ``(result, extras)``.

    Returns:
        ``(result, tangent)``, the tangent with the structure and shapes of the result (zero for integers); with
        `has_aux`, ``(result, tangent, extras)``. It is compiled once for each function and signature.

    Raises:
        ArgumentError: primals and tangents do not match, naming the argument.
        NoGradient: a function on the way has no derivative, or a rule that is not linear.

    >>> import numpy as np, symgrad as sg
    >>> sg.jvp(np.sin, (np.array([0.0, 1.0]),), (np.array([2.0, 0.0]),))
    (array([0.        , 0.84147098]), array([2., 0.]))
    """
    for what, value in (("primals", primals), ("tangents", tangents)):
        if not isinstance(value, (tuple, list)):
            raise ArgumentError(f"jvp takes its {what} as a tuple, not {type(value).__name__}", instead="(x,)")
    pair = tuple(primals), tuple(tangents)
    if current() is not None:
        return _jvp(fun, pair, {}, has_aux=has_aux)
    return derived(fun, _jvp, _OF_PAIR, has_aux=has_aux)(*pair)


def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Compute a function and make the function that pulls cotangents back through it, in reverse mode.

    Args:
        fun: takes and returns arrays, numbers, and tuples, lists, dicts of them.
        primals: its arguments; those that the pulling back needs are copied.
        has_aux: `fun` returns ``(result, extras)``.

    Returns:
        ``(result, pull)``, or ``(result, pull, extras)``. ``pull(cotangent)``, for a cotangent of the result's
        structure and shapes (None stands for zeros), gives a tuple of one cotangent for each argument, of its
        structure, shapes and dtypes (zeros for integers). It is compiled, and given what the function computed on
        the way and it needs; what costs little to compute from the arguments is computed again.

    Raises:
        ArgumentError: an argument is no array or number.
        NoGradient: a function on the way has no derivative.

    >>> import numpy as np, symgrad as sg
    >>> y, pull = sg.vjp(lambda x: x**2, np.array([1.0, 3.0]))
    >>> pull(np.array([1.0, 1.0]))
    (array([2., 6.]),)
    """
    return _at(fun, primals, Pull, has_aux)


def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Compute a function and make its derivative at that point, a linear function of tangents.

    The arguments are those of `vjp`; the result is ``(result, push)``, or ``(result, push, extras)``, where
    ``push(*tangents)`` is what `jvp` gives for these tangents.

    >>> import numpy as np, symgrad as sg
    >>> y, push = sg.linearize(lambda x: x**3, 2.0)
    >>> float(push(1.0))
    12.0
    """
    return _at(fun, primals, Push, has_aux)


def _at(fun: Callable[..., Any], primals: tuple[Any, ...], kind: type[Any], has_aux: bool) -> Any:
    """Return the function's result and the linear map at a point: traced, or compiled when it is called."""
    outer = current()
    if outer is not None:
        at = Point(nested(outer, fun, primals, {}, Arguments(fun)), has_aux)
        value, extras = at.value()
        linear = kind(at)
    else:
        from symgrad.api.halves import halves

        result, point, half, kept = halves(fun, forward=kind is Push, has_aux=has_aux).at(primals)
        value, extras = result if has_aux else (result, None)
        linear = kind(point, half, kept)
    return (value, linear, extras) if has_aux else (value, linear)



# -- on traced values


@dataclass(frozen=True)
class Point:
    """A traced function at its traced arguments: its value, and its derivative both ways."""

    nest: Nested
    has_aux: bool = False

    @cached_property
    def parts(self) -> tuple[Any, Any]:
        """The structures of the result and of the extras (None without)."""
        if not self.has_aux:
            return self.nest.tree, None
        children = self.nest.tree.children()
        if self.nest.tree.type is not tuple or len(children) != 2:
            raise ArgumentError("has_aux=True needs a function that returns a pair (result, extras)")
        return children[0], children[1]

    @property
    def results(self) -> tuple[Node, ...]:
        """What the result is made of, without the extras."""
        return self.nest.program.outputs[: self.parts[0].num_leaves]

    def value(self) -> tuple[Any, Any]:
        """Return the result and the extras."""
        values, (tree, aux) = self.nest.values(), self.parts
        result = optree.tree_unflatten(tree, values[: tree.num_leaves])
        return result, None if aux is None else optree.tree_unflatten(aux, values[tree.num_leaves :])

    def push(self, tangents: Sequence[Any]) -> list[Any]:
        """Push one tangent for each leaf of the arguments (None for zeros): one for each leaf of the result."""
        inputs = self.nest.program.inputs
        wrt, given = present(tangents, inputs, self.nest.signature.paths, "tangent")
        of = [k for k, y in enumerate(self.results) if y.dtype.kind == "f"]
        found: dict[int, Any] = {}
        if wrt:
            found = dict(zip(of, self.nest.put(pushforward(self.nest.program, wrt, of), given), strict=True))
        return [found[k] if k in found else self.zeros(y) for k, y in enumerate(self.results)]

    def pull(self, cotangents: Sequence[Any]) -> list[Any]:
        """Pull one cotangent for each leaf of the result (None for zeros): one for each leaf of the arguments."""
        of, given = present(cotangents, self.results, self.names(), "cotangent")
        inputs = self.nest.program.inputs
        wrt = [k for k, x in enumerate(inputs) if x.dtype.kind == "f"]
        found: dict[int, Any] = {}
        if of and wrt:
            found = dict(zip(wrt, self.nest.put(pullback(self.nest.program, wrt, of), given), strict=True))
        return [found[k] if k in found else self.zeros(x) for k, x in enumerate(inputs)]

    def names(self) -> list[str]:
        """Name the parts of the result."""
        return [f"result{accessor.codify('')}" for accessor in self.parts[0].accessors()]

    def zeros(self, like: Node) -> Any:
        """Return zeros of a value's shape and dtype."""
        from symgrad.ops.views import broadcast_to
        from symgrad.trace.constants import constant
        from symgrad.trace.tracer import Tracer

        zero = Tracer(constant(self.nest.outer, 0, like.dtype), self.nest.outer)
        return broadcast_to(zero, shape=like.shape) if like.shape else zero


def present(
    given: Sequence[Any], of: Sequence[Node | Spec], names: Sequence[str], what: str,
) -> tuple[list[int], list[Any]]:
    """Take the tangents or cotangents that are there, checked against what they are of.

    Raises:
        ArgumentError: one has another dtype, or is one of an integer.
        ShapeError: one has another shape.
    """
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
    """List what stands at the leaves of a structure; None may stand there.

    Raises:
        ArgumentError: the structures differ.
    """
    try:
        return [settled(value) for value in tree.flatten_up_to(values)]
    except ValueError as error:
        raise ArgumentError(f"the {what} do not have the structure of what they belong to: {error}") from None


def _jvp(fun: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, has_aux: bool) -> Any:  # noqa: ARG001 - a rule's
    """`jvp` on traced values."""
    primals, tangents = args
    outer = current()
    assert outer is not None  # noqa: S101 - rules run in traces
    at = Point(nested(outer, fun, primals, {}, Arguments(fun)), has_aux)
    value, extras = at.value()
    pushed = Push(at)(*tangents)
    return (value, pushed, extras) if has_aux else (value, pushed)


class _Linear:
    """The derivative at a point: of a traced one, or the compiled half of it that is given residuals."""

    def __init__(self, at: Point, half: Linear | None = None, kept: Sequence[Any] = ()) -> None:
        self._at, self._half, self._kept = at, half, kept


class Push(_Linear):
    """Forward mode at a point: tangents of the arguments to the tangent of the result."""

    def __call__(self, *tangents: Any) -> Any:
        """Push one tangent for each argument.

        Raises:
            ArgumentError: they do not match the arguments.
        """
        given = matched(self._at.nest.signature.tree.child(0), tangents, "tangents")
        pushed = self._at.push(given) if self._half is None else self._half(self._kept, given)
        return optree.tree_unflatten(self._at.parts[0], pushed)


class Pull(_Linear):
    """Reverse mode at a point: a cotangent of the result to cotangents of the arguments."""

    def __call__(self, cotangent: Any) -> Any:
        """Pull a cotangent back.

        Raises:
            ArgumentError: it does not match the result.
        """
        given = matched(self._at.parts[0], cotangent, "cotangents")
        pulled = self._at.pull(given) if self._half is None else self._half(self._kept, given)
        args, _ = optree.tree_unflatten(self._at.nest.signature.tree, pulled)
        return tuple(args)


def _of_pair(primals: Any, tangents: Any) -> None:
    """Have the signature of a mode of pairs."""


def _of_primals(*primals: Any) -> None:
    """Have the signature of a mode of arguments."""


_OF_PAIR, OF_PRIMALS = inspect.signature(_of_pair), inspect.signature(_of_primals)

__all__ = ["NAMESPACE", "OF_PRIMALS", "Point", "jvp", "linearize", "matched", "present", "vjp"]
