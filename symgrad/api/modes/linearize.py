"""jvp, vjp, linearize: the derivative at a point, as the linear map it is.

Of plain arrays two programs are compiled: one computes the function, and the residuals that the other one, which is
linear, is given.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from symgrad.api.call.arguments import Arguments
from symgrad.api.call.function import Function
from symgrad.api.modes.mode import at, derived, described, matched, present, substituted
from symgrad.errors import ArgumentError
from symgrad.ir.evaluate import concrete
from symgrad.ir.index.shapes import is_static
from symgrad.ir.names import identifier
from symgrad.ir.program import BY_NUMBER, Program
from symgrad.options import Options
from symgrad.trace import optree
from symgrad.trace.signature import Signature, Spec, flatten
from symgrad.trace.state import current, public, trimmed
from symgrad.trace.structures import NAMESPACE, places_in
from symgrad.transforms.derive.jvp import pullback, pushforward
from symgrad.transforms.derive.residuals import residuals as residuals_of


@public
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
    if current() is None:
        return derived(fun, _jvp, _OF_PAIR, has_aux=has_aux)(tuple(primals), tuple(tangents))
    value, push, *extras = _linear_at(fun, tuple(primals), forward=True, has_aux=has_aux)
    return (value, push(*tangents), *extras)


@public
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
    return _linear_at(fun, primals, forward=False, has_aux=has_aux)


@public
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Compute a function and make its derivative at that point, a linear function of tangents.

    The arguments are those of `vjp`; the result is ``(result, push)``, or ``(result, push, extras)``, where
    ``push(*tangents)`` is what `jvp` gives for these tangents.

    >>> import numpy as np, symgrad as sg
    >>> y, push = sg.linearize(lambda x: x**3, 2.0)
    >>> float(push(1.0))
    12.0
    """
    return _linear_at(fun, primals, forward=True, has_aux=has_aux)


def _linear_at(fun: Callable[..., Any], primals: tuple[Any, ...], forward: bool, has_aux: bool) -> Any:
    """Return the function's result and the linear map at a point: traced, or compiled when it is called."""
    if current() is not None:
        point = at(fun, *described(fun, primals, {}), has_aux=has_aux)
        value, extras = point.value()
        linear = _mapping(point.signature.tree, point.parts[0], forward, point.push if forward else point.pull)
    else:
        value, extras, residuals = derived(fun, _linearized, _OF_PRIMALS, forward=forward, has_aux=has_aux)(*primals)
        linear = residuals.linear.at(primals, residuals.kept)
    return (value, linear, extras) if has_aux else (value, linear)


def _mapping(
    arguments: Any, result: Any, forward: bool, apply: Callable[[Sequence[Any]], Sequence[Any]],
) -> Callable[..., Any]:
    """Return a linear map of trees, of one of lists; `forward` maps tangents, and else a cotangent is pulled back."""

    def push(*tangents: Any) -> Any:
        return optree.tree_unflatten(result, apply(matched(arguments.child(0), tangents, "tangents")))

    def pull(cotangent: Any) -> Any:
        args, _ = optree.tree_unflatten(arguments, apply(matched(result, cotangent, "cotangents")))
        return tuple(args)

    return trimmed(push if forward else pull)


def _jvp(fun: Any, signature: Signature, leaves: list[Any], *, has_aux: bool) -> Any:
    return jvp(fun, *signature.join(leaves)[0], has_aux=has_aux)


_OF_PAIR = inspect.signature(lambda primals, tangents: None)  # noqa: ARG005 - of which there are two
_OF_PRIMALS = inspect.signature(lambda *primals: None)  # noqa: ARG005 - likewise


# -- the two programs that are compiled


@dataclass(frozen=True, eq=False)
class Linear:
    """The linear program of a function for one signature, compiled when it is first called.

    Attributes:
        trees: the structures of the function's arguments and of its result.
        inputs, outputs: shape and dtype of their leaves.
        forward: it is given a tangent for each input, and not a cotangent for each output.
        names: of what it is given vectors for, for messages.
        places: the arguments it is given as well.
        unread: those among them that tell open extents only.
        words: names of those arguments, of the residuals, and of a vector for each floating-point leaf.
        run: the function of them; None where nothing is floating point.
    """

    trees: tuple[Any, Any]
    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...]
    forward: bool
    names: Sequence[str]
    places: Sequence[int] = ()
    unread: frozenset[int] = frozenset()
    words: Sequence[str] = ()
    run: Function[..., Any] | None = None

    def at(self, primals: tuple[Any, ...], kept: Sequence[Any]) -> Callable[..., Any]:
        """Return the linear map at a point, of which it keeps copies, and the residuals there."""
        leaves, _ = flatten(primals)
        pairs = [pair for leaf, one in zip(leaves, self.inputs, strict=True)
                 for pair in zip(one.shape, np.shape(leaf), strict=True)]
        sizes = {dim: size for dim, size in pairs if type(dim) is not int}
        inputs, outputs = [
            [Spec(concrete(tuple(one.shape), sizes), one.dtype) for one in specs] if sizes else specs
            for specs in (self.inputs, self.outputs)
        ]
        taken, made = (inputs, outputs) if self.forward else (outputs, inputs)
        read = [(leaves[k], k not in self.unread) for k in self.places]
        given = [*[x.copy() if own and isinstance(x, np.ndarray) else x for x, own in read], *kept]
        stays = {} if self.forward else {k: leaves[k] for k in places_in(self.trees[0])}
        return _mapping(*self.trees, self.forward, partial(self, given, taken, made, stays))

    def __call__(
        self, given: Sequence[Any], taken: Sequence[Spec], made: Sequence[Spec], stays: dict[int, Any],
        vectors: Sequence[Any],
    ) -> list[Any]:
        """Apply it: one vector for each leaf that is taken (None for zeros), one result for each that is made.

        What says where others stand `stays`, and is not asked of what is taken.
        """
        idle = places_in(self.trees[not self.forward])
        vectors = [None if k in idle else vector for k, vector in enumerate(vectors)]
        some, _ = present(vectors, taken, self.names, "tangent" if self.forward else "cotangent")
        results: list[Any] = []
        if self.run is not None and some:
            floats = [k for k, one in enumerate(taken) if one.dtype.kind == "f"]
            full = [_spec_zeros(taken[k]) if vectors[k] is None else vectors[k] for k in floats]
            results = self.run(dict(zip(self.words, [*given, *full], strict=True)))
        found = iter(results)
        values = [next(found) if results and one.dtype.kind == "f" else _spec_zeros(one) for one in made]
        return [stays.get(k, value) for k, value in enumerate(values)]


def _spec_zeros(spec: Spec) -> Any:
    return np.zeros(spec.shape, spec.dtype)[() if spec.shape == () else ...]


@dataclass(frozen=True)
class Residuals:
    """What the first program returns beside the result: arrays, in a structure that bears the linear program."""

    linear: Linear
    kept: Sequence[Any]


@cache
def _register() -> None:
    known: Any = optree.register_pytree_node  # whose types know collections only
    known(Residuals, lambda one: (one.kept, one.linear), Residuals, namespace=NAMESPACE)


def _linearized(fun: Any, signature: Signature, leaves: list[Any], *, forward: bool, has_aux: bool) -> Any:
    """Compute the function and the residuals, in a structure that bears the linear program."""
    _register()
    point = at(fun, *described(fun, *signature.join(leaves)), has_aux=has_aux)
    if forward and places_in(point.parts[0]):
        raise ArgumentError("sg.linearize of a function that returns a RowSparse or a sparse matrix",
                            instead="sg.jvp, or a function that returns its rows or elements")
    inputs, outputs = point.program.inputs, point.results
    specs = [tuple([Spec(node.shape, node.dtype) for node in nodes]) for nodes in (inputs, outputs)]
    names = point.signature.paths if forward else point.names()
    linear, kept = Linear((point.signature.tree, point.parts[0]), specs[0], specs[1], forward, names), []
    wrt, of = [[k for k, node in enumerate(nodes) if node.dtype.kind == "f"] for nodes in (inputs, outputs)]
    if wrt and of:
        whole = point.derive(lambda program: (pushforward if forward else pullback)(program, wrt, of))
        primals, vectors = whole.inputs[: len(inputs)], whole.inputs[len(inputs) :]
        stored = tuple(residuals_of(whole, vectors))
        rest = Program((*stored, *vectors), whole.outputs, f"{whole.name}_linear")
        read = {*rest.outputs, *[i for node in rest.nodes() if node not in rest.inputs for i in node.inputs]}
        outside = [node for node in read if node.is_input and node not in {*rest.inputs, *primals}]
        stored += tuple(sorted(outside, key=BY_NUMBER))  # arrays, as they are at the point
        rest = replace(rest, inputs=(*stored, *vectors))
        places = [k for k, node in enumerate(primals) if node in read or not is_static(node.shape)]
        rest = replace(rest, inputs=(*[primals[k] for k in places], *rest.inputs))
        words: list[str] = []
        for node in rest.inputs:
            words.append(identifier(node.param("name") if node.is_input else "kept", words))
        unread = frozenset([k for k in places if primals[k] not in read])
        linear = replace(linear, places=places, unread=unread, words=words, run=_as_function(rest, words))
        kept = point.put(replace(whole, inputs=inputs, outputs=stored))
    value, extras = point.value()
    return value, extras, Residuals(linear, kept)


def _as_function(program: Program, words: Sequence[str]) -> Function[..., Any]:
    """Make a function of a program, of its inputs by name; of just these where they have open extents."""

    def linear(given: dict[str, Any]) -> Any:
        outer = current()
        assert outer is not None  # noqa: S101 - it is compiled
        return substituted(outer, program, [given[word] for word in words])

    linear.__name__ = linear.__qualname__ = program.name
    specs = None
    if not all(is_static(node.shape) for node in program.inputs):
        specs = ({word: Spec(node.shape, node.dtype) for word, node in zip(words, program.inputs, strict=True)},)
    return Function(linear, Arguments(linear, specs=specs, dynamic=False), Options())
