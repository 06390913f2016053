"""jvp, vjp, linearize: the derivative at a point, as the linear map it is.

Of plain arrays it is compiled in two halves: one computes the function, and the residuals that the other one, which is
linear, is given.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import optree

from symgrad.api.call.arguments import Arguments
from symgrad.api.call.function import Function
from symgrad.api.modes.mode import derived
from symgrad.api.modes.point import at, matched, present, substituted
from symgrad.errors import ArgumentError
from symgrad.ir.evaluate import concrete
from symgrad.ir.names import identifier
from symgrad.ir.program import Program
from symgrad.ir.shapes import is_static
from symgrad.options import Options
from symgrad.trace.signature import Spec
from symgrad.trace.state import current
from symgrad.transforms.derive.jvp import pullback, pushforward
from symgrad.transforms.derive.residuals import residuals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from symgrad.api.call.compilations import Entry, Sizes
    from symgrad.api.modes.mode import Mode
    from symgrad.ir.node import Node
    from symgrad.trace.signature import Signature


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


def _at(fun: Callable[..., Any], primals: tuple[Any, ...], kind: type[_Map], has_aux: bool) -> Any:
    """Return the function's result and the linear map at a point: traced, or compiled when it is called."""
    forward = kind is Push
    if current() is not None:
        point = at(fun, primals, {}, Arguments(fun), has_aux=has_aux)
        value, extras = point.value()
        trees = (point.signature.tree, point.parts[0])
        linear = kind(*trees, point.push if forward else point.pull)
    else:
        half = derived(fun, _split, _OF_PRIMALS, Forward, forward=forward, has_aux=has_aux)
        assert isinstance(half, Forward)  # noqa: S101 - as asked for
        result, compiled, kept = half.at(primals)
        value, extras = result if has_aux else (result, None)
        linear = kind(*compiled.trees, partial(compiled, kept))
    return (value, linear, extras) if has_aux else (value, linear)


def _jvp(fun: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, has_aux: bool) -> Any:  # noqa: ARG001 - a rule's
    """`jvp` on traced values."""
    primals, tangents = args
    value, push, *extras = _at(fun, primals, Push, has_aux)
    return (value, push(*tangents), *extras)


@dataclass(frozen=True)
class _Map:
    """The derivative at a point.

    Attributes:
        arguments: the structure of the function's arguments, by position and by name.
        result: that of its result.
        apply: makes a list of vectors of one.
    """

    arguments: Any
    result: Any
    apply: Callable[[list[Any]], list[Any]]


class Push(_Map):
    """Forward mode at a point: tangents of the arguments to the tangent of the result."""

    def __call__(self, *tangents: Any) -> Any:
        """Push one tangent for each argument.

        Raises:
            ArgumentError: they do not match the arguments.
        """
        return optree.tree_unflatten(self.result, self.apply(matched(self.arguments.child(0), tangents, "tangents")))


class Pull(_Map):
    """Reverse mode at a point: a cotangent of the result to cotangents of the arguments."""

    def __call__(self, cotangent: Any) -> Any:
        """Pull a cotangent back.

        Raises:
            ArgumentError: it does not match the result.
        """
        args, _ = optree.tree_unflatten(self.arguments, self.apply(matched(self.result, cotangent, "cotangents")))
        return tuple(args)


def _of_pair(primals: Any, tangents: Any) -> None:
    """Have the signature of a mode of pairs."""


def _of_primals(*primals: Any) -> None:
    """Have the signature of a mode of arguments."""


_OF_PAIR, _OF_PRIMALS = inspect.signature(_of_pair), inspect.signature(_of_primals)


# -- the two halves that are compiled


@dataclass(frozen=True)
class Linear:
    """The linear half of a function for one signature, compiled when it is first called.

    Attributes:
        trees: the structures of the function's arguments and of its result.
        taken: what it is given vectors for: the results (for `vjp`) or the arguments (for `linearize`).
        names: of these, for messages.
        made: what it makes, the other ones.
        what: ``cotangent`` or ``tangent``.
        places: the arguments it is given.
        unread: those among them that tell open extents only.
        words: names of those arguments, of the residuals, and of a vector for each floating-point one of `taken`.
        run: the function of them.
    """

    trees: tuple[Any, Any]
    taken: tuple[Node | Spec, ...]
    names: tuple[str, ...]
    made: tuple[Node | Spec, ...]
    what: str
    places: tuple[int, ...]
    unread: frozenset[int]
    words: tuple[str, ...]
    run: Function | None

    def __call__(self, kept: Sequence[Any], vectors: Sequence[Any]) -> list[Any]:
        """Apply it: one vector for each of `taken` (None for zeros), one result for each of `made`."""
        given, _ = present(vectors, self.taken, self.names, self.what)
        results: list[Any] = []
        if self.run is not None and given:
            floats = [k for k, node in enumerate(self.taken) if node.dtype.kind == "f"]
            full = [_zeros(self.taken[k]) if vectors[k] is None else vectors[k] for k in floats]
            results = self.run(dict(zip(self.words, [*kept, *full], strict=True)))
        found = iter(results)
        return [next(found) if results and node.dtype.kind == "f" else _zeros(node) for node in self.made]

    def sized(self, sizes: dict[Any, int]) -> Linear:
        """Put numbers in the place of open extents."""
        if not sizes:
            return self
        taken, made = [
            tuple([Spec(concrete(tuple(one.shape), sizes), one.dtype) for one in nodes])
            for nodes in (self.taken, self.made)
        ]
        return replace(self, taken=taken, made=made)


def _zeros(node: Node | Spec) -> Any:
    return np.zeros(node.shape, node.dtype)[() if node.shape == () else ...]


class Forward(Function):
    """The forward half: returns a function's result and the residuals; keeps the linear half of each signature."""

    def __init__(self, mode: Mode, arguments: Arguments, options: Options) -> None:
        """Wrap a mode, which hands over the linear half when it is traced."""
        super().__init__(mode, arguments, options)
        self.traced: list[Linear] = []
        self.linear: dict[int, Linear] = {}
        mode.set("keep", self.traced.append)

    def _compile(self, signature: Signature, sizes: Sizes | None) -> Entry:
        entry = super()._compile(signature, sizes)
        self.linear[id(entry)] = self.traced[-1]  # a trace may run twice
        self.traced.clear()
        return entry

    def at(self, primals: tuple[Any, ...]) -> tuple[Any, Linear, list[Any]]:
        """Run it: the result, the linear half, and what that is to be given."""
        result, kept = self(*primals)
        call = self._arguments.split(primals, {})
        entry = self._find(call)
        linear = self.linear[id(entry)]
        arguments = [(call.leaves[k], k not in linear.unread) for k in linear.places]
        copies = [x.copy() if read and isinstance(x, np.ndarray) else x for x, read in arguments]
        pairs = [pair for leaf, spec in zip(call.leaves, entry.signature.specs, strict=True)
                 for pair in zip(spec.shape, np.shape(leaf), strict=True)]
        sizes = {dim: size for dim, size in pairs if type(dim) is not int}
        return result, linear.sized(sizes), [*copies, *kept]


def _split(
    fun: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, forward: bool, has_aux: bool,
    keep: Callable[[Linear], None],
) -> Any:
    """Compute the function and the residuals; hand the linear half over."""
    point = at(fun, args, kwargs, Arguments(fun), has_aux=has_aux)
    inputs, results = point.program.inputs, point.results
    wrt, of = [[k for k, node in enumerate(nodes) if node.dtype.kind == "f"] for nodes in (inputs, results)]
    kept: list[Any] = []
    places: list[int] = []
    unread: frozenset[int] = frozenset()
    words: list[str] = []
    run = None
    if wrt and of:
        linear = point.derive(lambda program: (pushforward if forward else pullback)(program, wrt, of))
        places, unread, half = _cut(linear, len(inputs))
        stored = [node for node in half.inputs if node not in linear.inputs]
        kept = point.put(replace(linear, inputs=inputs, outputs=tuple(stored)))
        for node in half.inputs:
            words.append(identifier(node.param("name") if node.op.name == "input" else "kept", words))
        run = _compiled(half, words)
    names = tuple(point.signature.paths if forward else point.names())
    taken, made = (inputs, results) if forward else (results, inputs)
    what = "tangent" if forward else "cotangent"
    trees = (point.signature.tree, point.parts[0])
    keep(Linear(trees, taken, names, made, what, tuple(places), unread, tuple(words), run))
    value, extras = point.value()
    return ((value, extras) if has_aux else value), kept


def _cut(linear: Program, count: int) -> tuple[list[int], frozenset[int], Program]:
    """Cut a linear program behind its residuals.

    Returns:
        Which of its first inputs what is left of it is given; which it is given for their open extents alone; and it.
    """
    point, vectors = linear.inputs[:count], linear.inputs[count:]
    inputs = (*residuals(linear, vectors), *vectors)
    half = Program(inputs, linear.outputs, f"{linear.name}_linear")
    read = {*linear.outputs, *[i for node in half.nodes() if node not in inputs for i in node.inputs]}
    places = [k for k, node in enumerate(point) if node in read or not is_static(node.shape)]
    unread = frozenset([k for k in places if point[k] not in read])
    return places, unread, replace(half, inputs=(*[point[k] for k in places], *inputs))


def _compiled(half: Program, words: Sequence[str]) -> Function:
    """Make a function of a program, of its inputs by name; of just these where they have open extents."""

    def linear(given: dict[str, Any]) -> Any:
        outer = current()
        assert outer is not None  # noqa: S101 - it is compiled
        return substituted(outer, half, [given[word] for word in words])

    linear.__name__ = linear.__qualname__ = half.name
    specs = None
    if not all(is_static(node.shape) for node in half.inputs):
        specs = ({word: Spec(node.shape, node.dtype) for word, node in zip(words, half.inputs, strict=True)},)
    return Function(linear, Arguments(linear, specs=specs, dynamic=False), Options())
