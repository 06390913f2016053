"""`vjp` and `linearize` of plain arrays: a forward half that keeps residuals, and a linear half that is given them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.api.arguments import Arguments
from symgrad.api.function import Function
from symgrad.api.mode import derived
from symgrad.api.modes import OF_PRIMALS, Point, present
from symgrad.api.nested import nested, substituted
from symgrad.api.transform import Transform
from symgrad.ir.evaluate import concrete
from symgrad.ir.names import identifier
from symgrad.ir.program import Program
from symgrad.ir.shapes import is_static
from symgrad.options import Options
from symgrad.trace.signature import Spec
from symgrad.trace.state import current
from symgrad.transforms.jvp import pullback, pushforward
from symgrad.transforms.residuals import residuals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from symgrad.api.compilations import Entry, Sizes
    from symgrad.api.mode import Mode
    from symgrad.ir.node import Node
    from symgrad.trace.signature import Signature


@dataclass(frozen=True)
class Linear:
    """The linear half of a function for one signature, compiled when it is first called.

    Attributes:
        taken: what it is given vectors for: the results (for `vjp`) or the arguments (for `linearize`).
        names: of these, for messages.
        made: what it makes, the other ones.
        what: ``cotangent`` or ``tangent``.
        places: the arguments it is given.
        unread: those among them that tell open extents only.
        words: names of those arguments, of the residuals, and of a vector for each floating-point one of `taken`.
        run: the function of them.
    """

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


class Halves(Function):
    """The forward half: returns a function's result and the residuals; keeps the linear half of each signature."""

    def __init__(self, mode: Mode, transform: Transform, arguments: Arguments, options: Options) -> None:
        """Wrap a mode, which hands over the linear half when it is traced."""
        super().__init__(mode, transform, arguments, options)
        self.traced: list[tuple[Point, Linear]] = []
        self.linear: dict[int, tuple[Point, Linear]] = {}
        mode.set("keep", self.traced.append)

    def _compile(self, signature: Signature, sizes: Sizes | None) -> Entry:
        entry = super()._compile(signature, sizes)
        self.linear[id(entry)] = self.traced[-1]  # a trace may run twice
        self.traced.clear()
        return entry

    def at(self, primals: tuple[Any, ...]) -> tuple[Any, Point, Linear, list[Any]]:
        """Run the forward half: the result, what was traced, the linear half, and what that is to be given."""
        result, kept = self(*primals)
        call = self._arguments.split(primals, {})
        entry = self._find(call)
        point, linear = self.linear[id(entry)]
        arguments = [(call.leaves[k], k not in linear.unread) for k in linear.places]
        copies = [x.copy() if read and isinstance(x, np.ndarray) else x for x, read in arguments]
        pairs = [pair for leaf, spec in zip(call.leaves, entry.signature.specs, strict=True)
                 for pair in zip(spec.shape, np.shape(leaf), strict=True)]
        sizes = {dim: size for dim, size in pairs if type(dim) is not int}
        return result, point, linear.sized(sizes), [*copies, *kept]


def halves(fun: Callable[..., Any], *, forward: bool, has_aux: bool) -> Halves:
    """Return the forward half of a function, the same one each time."""
    found = derived(fun, _split, OF_PRIMALS, Halves, forward=forward, has_aux=has_aux)
    assert isinstance(found, Halves)  # noqa: S101 - as asked for
    return found


def _split(
    fun: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, forward: bool, has_aux: bool,
    keep: Callable[[tuple[Point, Linear]], None],
) -> Any:
    """Compute the function and the residuals; hand the linear half over."""
    outer = current()
    assert outer is not None  # noqa: S101 - rules run in traces
    at = Point(nested(outer, fun, args, kwargs, Arguments(fun)), has_aux)
    inputs, results = at.nest.program.inputs, at.results
    wrt, of = [[k for k, node in enumerate(nodes) if node.dtype.kind == "f"] for nodes in (inputs, results)]
    kept: list[Any] = []
    places: list[int] = []
    unread: frozenset[int] = frozenset()
    words: list[str] = []
    run = None
    if wrt and of:
        linear = (pushforward if forward else pullback)(at.nest.program, wrt, of)
        places, unread, half = _cut(linear, len(inputs))
        stored = [node for node in half.inputs if node not in linear.inputs]
        kept = at.nest.put(replace(linear, inputs=inputs, outputs=tuple(stored)))
        for node in half.inputs:
            words.append(identifier(node.param("name") if node.op.name == "input" else "kept", words))
        run = _compiled(half, words)
    names = tuple(at.nest.signature.paths if forward else at.names())
    taken, made = (inputs, results) if forward else (results, inputs)
    what = "tangent" if forward else "cotangent"
    keep((at, Linear(taken, names, made, what, tuple(places), unread, tuple(words), run)))
    value, extras = at.value()
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
    return Function(linear, Transform("linear"), Arguments(linear, specs=specs, dynamic=False), Options())
