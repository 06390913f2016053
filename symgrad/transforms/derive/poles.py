"""Which rules may give infinities or NaN although all of a program's inputs are finite, and what is zero: by trying.

Of every value is known which signs it may have, and whether it may be infinite or NaN itself. An elementwise op is
tried at numbers like that: the slope of ``1 / x`` may be infinite, those of ``1 / (1 + x * x)`` and of ``x / 2`` not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any

import numpy as np

from symgrad.errors import NoGradient, interrupts
from symgrad.ir.graphs import in_turn, reachable
from symgrad.ir.index import shapes
from symgrad.ir.node import Node
from symgrad.ir.op import Composite, Elementwise, Op, Result, Structured
from symgrad.ir.program import BY_NUMBER
from symgrad.ops.batched import each
from symgrad.ops.control import needed
from symgrad.ops.declare import leaves
from symgrad.ops.declare.calculus import cotangents
from symgrad.ops.declare.forms import OPS
from symgrad.ops.declare.traits import traits
from symgrad.trace.state import Trace
from symgrad.transforms.build import array, scalar

Signs = frozenset[str]

NUMBERS: dict[str, tuple[float, ...]] = {
    "-": (-1000.0, -2.5, -1.0, -0.5, -1e-8), "0": (0.0,), "+": (1e-8, 0.5, 1.0, 2.5, 1000.0),
    "!": (np.inf, -np.inf, np.nan),
}
"""What an op is tried at, for each sign; ``!`` is that of what is not finite."""

NEAR = 10.0
"""Numbers no larger than this are those at which nothing overflows and nothing becomes 0 that is none."""

POWER = 0.23
"""Of the largest number there is, which one is tried: the fourth power of it is finite."""

ANY, WILD = frozenset("-0+"), frozenset("-0+!")
POSITIVE, NOT_NEGATIVE = frozenset("+"), frozenset("0+")


class Ranges:
    """Which signs values may have, in so far as anybody asks."""

    def __init__(self, known: dict[Node, Signs], *, near: bool = False) -> None:
        """Keep what is found in `known`; `near` asks of numbers that nothing overflows of, of arrays with elements."""
        self.known, self.near = known, near

    def of(self, node: Node) -> Signs:
        """Return which signs a value may have."""
        for one in in_turn(node, attrgetter("inputs"), self.known):
            self.known[one] = self._found(one)
        return self.known[node]

    def _found(self, node: Node) -> Signs:
        op = meant(node)
        if node.is_constant:
            return signs_of(array(node))
        if not node.inputs:
            return POSITIVE if self.near and op is leaves.extent else every(node.dtype)
        if isinstance(op, Elementwise):
            return self.tried(node)[0]
        if node.dtype.kind != "f":
            return every(node.dtype)
        read = frozenset().union(*[self.known[i] for i in node.inputs if i.dtype.kind == "f"])
        if op.view or (self.near and op.regular and read <= NOT_NEGATIVE):
            return read
        if moves(op) or (isinstance(op, Structured) and op.regular):
            return read | NOT_NEGATIVE if read <= NOT_NEGATIVE | {"!"} else read | ANY
        return read | ANY if isinstance(op, Composite) and op.regular else WILD

    def tried(self, node: Node) -> tuple[Signs, Any]:
        """Try an elementwise op at numbers of its operands' signs."""
        given = []
        for i in node.inputs:
            number = scalar(i)
            given.append((i.dtype, self.of(i) if number is None else float(number), node.inputs.index(i)))
        return tried(node.op, node.params, tuple(given), near=self.near)


class Poles:
    """The nodes of a program with what is known of their values, in so far as anybody asks."""

    def __init__(self, trace: Trace, nodes: Sequence[Node], active: set[Node], ahead: Collection[Node] = ()) -> None:
        """Keep the nodes, which of them are differentiated, and which inputs have poles ahead, on the way back."""
        self.nodes, self.active, self.ahead = nodes, active, {*ahead}
        self.signs = Ranges(trace.signs)  # for all sweeps of a trace: a program inside begins with values of it

    @cached_property
    def behind(self) -> set[Node]:
        """The active nodes whose own rule, or that of a node before them, may give infinities or NaN."""
        found = self.ahead & self.active
        for node in self.nodes:
            if node in self.active and (self.at(node) or not found.isdisjoint(node.inputs)):
                found.add(node)
        return found

    def at(self, node: Node) -> bool:
        """Whether a node's own rule may give infinities or NaN for a finite cotangent."""
        op = meant(node)
        if isinstance(op, Elementwise):
            if op.nondiff or traits(op, node.params).linear:
                return False
            return any(i in self.active and not f for i, f in zip(node.inputs, self.signs.tried(node)[1], strict=True))
        if not node.inputs or op.nondiff or op.used is not None or moves(op):
            return False
        return not op.regular or any(self.is_wild(i) for i in self.factors(node))

    def factors(self, node: Node) -> list[Node]:
        """List the operands of a sum of products that the cotangents of others are made of."""
        many = len(node.inputs) > 1
        active = [k for k, i in enumerate(node.inputs) if i in self.active]
        return [i for k, i in enumerate(node.inputs) if not many or active not in ([], [k])]

    def is_wild(self, node: Node) -> bool:
        """Whether a value may be infinite or NaN."""
        return "!" in self.signs.of(node)


def meant(node: Node) -> Op:
    """Return a node's op; of `each`, the one that is applied to each."""
    return OPS[node.param("of")] if node.op is each else node.op


def moves(op: Op) -> bool:
    """Whether an op's rule moves and adds cotangents, and does nothing else."""
    return isinstance(op, Structured) and (op.view or op.moves) and op.vjp is not None


def leaves_out(node: Node) -> bool:
    """Whether an op that moves elements may leave some of its operands' out."""
    op = meant(node)
    if op.whole:
        return False
    return not op.view or bool(shapes.size(node.shape) != shapes.size(node.inputs[0].shape))


def is_zero(node: Node, zero: Sequence[bool]) -> bool:
    """Whether a value is zero, given which of its operands are, for finite values of the others."""
    op, floats = meant(node), [z for z, i in zip(zero, node.inputs, strict=True) if i.dtype.kind == "f"]
    if not isinstance(op, Elementwise):
        if op.linear:
            return any(z for k, z in enumerate(zero) if k in op.linear)
        return isinstance(op, Structured) and bool(floats) and all(floats)
    if not any(floats) or not (all(zero) or OPS.get(op.name) is op):
        return False
    given = [(i.dtype, 0.0 if z else ANY, node.inputs.index(i)) for i, z in zip(node.inputs, zero, strict=True)]
    found, _ = tried(node.op, node.params, tuple(given))
    return "0" in found and found <= {"0", "!"}  # NaN, too, of finite values


def zeros_among(nodes: Iterable[Node], zero: set[Node]) -> set[Node]:
    """Return those of a run of nodes that are zero, given some of what they are made of that is."""
    found = {*zero}
    for node in nodes:
        several = node.inputs[0] if isinstance(node.op, Result) else node
        flags = [i in found or is_zero_constant(i) for i in several.inputs]
        if node in found or not node.inputs:
            continue
        if several is not node:
            is_it = several.op.zeros(flags, **several.named)[node.param("number")]  # type: ignore[attr-defined]  # a Control
        else:
            is_it = is_zero(node, flags)
        if is_it:
            found.add(node)
    return found


def is_zero_constant(node: Node) -> bool:
    """Whether a node is a number or an array of zeros."""
    known = scalar(node) if array(node) is None else array(node)
    return known is not None and not known.any()


def nodes_behind(outputs: Iterable[Node], stop: int) -> list[Node]:
    """Return what outputs are made of, down to a number, each after its inputs."""
    own = [node for node in outputs if node.number >= stop]
    return sorted(reachable(own, lambda node: [i for i in needed(node) if i.number >= stop]), key=BY_NUMBER)


def every(dtype: np.dtype[Any]) -> Signs:
    """Return the signs of a value of which nothing is known, but that it is finite."""
    return NOT_NEGATIVE if dtype.kind in "bu" else ANY


def signs_of(values: Any) -> Signs:
    """Return the signs of numbers that are there."""
    finite = np.isfinite(values)
    found = {"-": finite & (values < 0), "0": values == 0, "+": finite & (values > 0), "!": ~finite}
    return frozenset([sign for sign, there in found.items() if there.any()])


@lru_cache(maxsize=4096)
def tried(
    op: Elementwise, params: tuple[Any, ...], given: Any, *, near: bool = False,
) -> tuple[Signs, tuple[bool, ...]]:
    """Try an elementwise op.

    Args:
        op: the op.
        params: its parameters.
        given: for each input its dtype, its signs or the number that it is, and the first input that is the same value.
        near: at numbers of everyday size alone.

    Returns:
        The signs of its result, and for each input whether the cotangent is finite, when that of the result is.
    """
    apart = [k for k, (*_, same) in enumerate(given) if same == k]
    columns = [_signs_of_numbers(given[k][0], given[k][1], near=near or op.moderate) for k in apart]
    places = np.indices([len(column) for column in columns]).reshape(len(apart), -1)
    at = {k: column[place] for k, column, place in zip(apart, columns, places, strict=True)}
    x = [at[same] for *_, same in given]
    named = dict(zip(op.params, params, strict=True))
    with np.errstate(all="ignore"):
        try:
            y = np.asarray(op.evaluate(*x, **named))
            one = np.ones(y.shape, y.dtype)
            slopes = cotangents(op, one, y, *x, **named) if y.dtype.kind == "f" else (None,) * len(x)
        except Exception as error:
            if interrupts(error):
                raise
            return WILD, (False,) * len(x)
        signs = signs_of(y)
        if {"-", "+"} <= signs:
            signs |= {"0"}  # a root may lie between
        none = (type(None), NoGradient)
        return signs, tuple([isinstance(slope, none) or bool(np.all(np.isfinite(slope))) for slope in slopes])


def _signs_of_numbers(dtype: np.dtype[Any], known: Any, *, near: bool) -> Any:
    """Return numbers of a dtype to try; large ones, so that what is subtracted from them does not turn their sign."""
    if isinstance(known, float):
        return np.array([known]).astype(dtype)
    numbers = [n for sign in "-0+!" if sign in known for n in NUMBERS[sign]]
    if dtype.kind == "f":
        largest = float(float(np.finfo(dtype).max) ** POWER)
    else:
        numbers = [n for n in numbers if abs(n) in {0, 1}]
        largest = 1.0 if dtype.kind == "b" else float(min(np.iinfo(dtype).max, 1 << 30))
    if near:
        return np.array([n for n in numbers if not abs(n) > NEAR]).astype(dtype)
    numbers += [sign * largest for word, sign in (("-", -1.0), ("+", 1.0)) if word in known]
    return np.array(numbers).astype(dtype)
