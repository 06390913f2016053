"""Which values are equal element by element, whatever the order of factors, of axes, and up to the sign.

`Equality` gives every value a number, by one walk from operands to results. An element of an array is meant at
indices that *labels* name: of ``x[:, None] - x``, read at (i, j), and of the same, read at (j, i), the one is
``x[i] - x[j]`` and the other ``x[j] - x[i]``. They have one number and opposite signs.

Equal numbers are equal by IEEE's rules, to the last bit but for the sign of a zero, NaN and infinities among them:
``a + b`` and ``b + a``, ``a * b`` and ``b * a``, ``a - b`` and ``-(b - a)``, ``(-a) * b`` and ``-(a * b)``, an even
function of ``a`` and of ``-a``. Nothing is re-associated but powers of two, which do not round: ``(2 * a) * b`` and
``a * (2 * b)``. Products are contracted with additions in sums of products alone, and those are sums of the same terms.
Where a zero's sign is not known (``a - b`` is +0 for equal a and b, and so is ``b - a``), nothing is said about a
function that sees it: ``1 / (a - b)`` is no ``-1 / (b - a)``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from symgrad.ir.node import Constant
from symgrad.ir.op import Elementwise
from symgrad.ops import leaves
from symgrad.ops.contract import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from symgrad.ir.node import Node
    from symgrad.ir.shapes import Dim, Shape

Labels: TypeAlias = tuple[int | None, ...]
"""A name for the index along each axis of an array; None along those of extent 1."""

Item: TypeAlias = "tuple[Node, Labels]"

Bound: TypeAlias = "tuple[tuple[int, Dim], ...]"
"""The labels that a reduction sums over, and how far."""

Rule: TypeAlias = "Callable[[Equality, Node, list[Item], list[Value], Bound], Value | None]"

LARGEST = 1_000_000
"""Constants of more elements are equal to themselves alone."""

FACTOR = 64.0
"""Powers of two between its inverse and it are factors; a product's are, where it is one."""

ODD = frozenset({
    "sin", "tan", "sinh", "tanh", "arcsin", "arctan", "arcsinh", "arctanh", "cbrt", "erf", "sign", "rint", "trunc",
    "deg2rad", "radians", "rad2deg", "degrees",
})
EVEN = frozenset({
    "square", "absolute", "fabs", "cos", "cosh", "one_minus_square", "arctan_slope", "expit_slope", "log_cosh", "hypot",
    "isnan", "isinf", "isfinite",
})
COMMUTATIVE = frozenset({
    "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "hypot",
    "maximum", "minimum",
})
REDUCTIONS = frozenset({"sum", "prod", "max", "min", "any", "all"})
CALM = frozenset({
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "expit", "log_expit", "relu", "floor", "ceil",
    "logaddexp", "clip", "maximum", "minimum", "less", "less_equal", "greater", "greater_equal", "embed_diagonal",
    *REDUCTIONS,
})
"""Functions whose result is the same for zeros of both signs, or is a zero then too."""

SIGNS = frozenset({"copysign", "signbit"})
"""Functions that see the sign of NaN, which no rule says."""


class Value(NamedTuple):
    """A value of a program, up to a factor.

    Attributes:
        number: the same for values that are equal but for their factors.
        scale: what the value of this number is to be multiplied by: 1 or -1, or another power of two.
        exact: zeros have that sign too.
    """

    number: int
    scale: float = 1.0
    exact: bool = True

    @property
    def scaled(self) -> tuple[int, float]:
        """Return what two equal values have in common."""
        return self.number, self.scale

    @property
    def size(self) -> tuple[int, float]:
        """Return what two equal or opposite values have in common."""
        return self.number, abs(self.scale)

    @property
    def sign(self) -> float:
        """Return the factor's sign."""
        return 1.0 if self.scale > 0 else -1.0


class Equality:
    """Numbers for the values of one program."""

    def __init__(self) -> None:
        """Begin with none."""
        self._numbers: dict[Hashable, int] = {}
        self._values: dict[Item, Value] = {}

    def value(self, node: Node, labels: tuple[int, ...]) -> Value:
        """Return a node's value where the indices along its axes have these labels."""
        start = (node, _named(labels, node.shape))
        stack, values = [start], self._values
        while stack:
            item = stack[-1]
            if item not in values:
                read = reads(*item)
                missing = [i for i in read if i not in values]
                if missing:
                    stack.extend(missing)
                    continue
                values[item] = self._value(*item, read)
            stack.pop()
        return values[start]

    def _value(self, node: Node, labels: Labels, read: list[Item]) -> Value:
        values = [self._values[item] for item in read]
        if not read:
            return self._leaf(node, labels)
        if node.op.name in VIEWS:
            return values[0]
        found = _RULES.get(node.op.name, _general)(self, node, read, values, _bound(node, labels))
        return self._leaf(node, labels) if found is None else found

    def _leaf(self, node: Node, labels: Labels) -> Value:
        """Number what is not looked behind: it is equal to itself, at the same indices."""
        if node.op is not leaves.constant:
            return Value(self.number((node, labels)))
        array = node.params[0].array
        if array.ndim == 0 and node.dtype.kind == "f":
            return self._constant(array)
        if array.size > LARGEST or len(set(labels)) != len(labels):
            return Value(self.number((node, labels)))
        order = sorted(range(array.ndim), key=lambda k: -1 if labels[k] is None else labels[k])  # type: ignore[arg-type, return-value]
        return Value(self.number((Constant(array.transpose(order)), *[labels[k] for k in order])))

    def _constant(self, array: np.ndarray[Any, Any]) -> Value:
        """Number a constant without its sign, and a power of two as 1."""
        sign, size = -1.0 if np.signbit(array) else 1.0, np.abs(array)
        if np.frexp(size)[0] == 0.5 and 1 / FACTOR <= size <= FACTOR:
            return Value(self.number(Constant(np.ones_like(size))), sign * float(size))
        return Value(self.number(Constant(size)), sign)

    def number(self, key: Hashable) -> int:
        """Return what stands for a key."""
        return self._numbers.setdefault(key, len(self._numbers))

    def either(self, key: Hashable, opposite: Hashable) -> tuple[int, float]:
        """Return what stands for a key, and 1; or for its opposite, if that was there first, and -1."""
        if key not in self._numbers and opposite in self._numbers:
            return self._numbers[opposite], -1.0
        return self.number(key), 1.0


# -- what an element is made of


def _named(labels: Labels, shape: Shape) -> Labels:
    """Name the axes of a shape but those of extent 1."""
    return tuple([None if dim == 1 else label for label, dim in zip(labels, shape, strict=True)])


def reads(node: Node, labels: Labels) -> list[Item]:
    """List the operands and where they are read for one element of a node; nothing where it is not looked behind."""
    op = node.op
    if isinstance(op, Elementwise):
        return [(i, _named(labels[len(labels) - len(i.shape) :], i.shape)) for i in node.inputs]
    form = _READS.get(op.name)
    return [] if form is None else form(node, labels)


def _stretched(node: Node, labels: Labels) -> list[Item]:
    x = node.inputs[0]
    return [(x, _named(labels[len(labels) - len(x.shape) :], x.shape))]


def _expanded(node: Node, labels: Labels) -> list[Item]:
    return [(node.inputs[0], tuple([label for k, label in enumerate(labels) if k not in node.params[0]]))]


def _squeezed(node: Node, labels: Labels) -> list[Item]:
    rest = iter(labels)
    x = node.inputs[0]
    return [(x, tuple([None if k in node.params[0] else next(rest) for k in range(len(x.shape))]))]


def _transposed(node: Node, labels: Labels) -> list[Item]:
    by = dict(zip(node.params[0], labels, strict=True))
    return [(node.inputs[0], tuple([by[k] for k in range(len(labels))]))]


def _reduced(node: Node, labels: Labels) -> list[Item]:
    x, axes = node.inputs[0], node.param("axes")
    rest, new = iter(labels), iter(_unused(labels, len(axes)))
    return [(x, _named(tuple([next(new) if k in axes else next(rest) for k in range(len(x.shape))]), x.shape))]


def _contracted(node: Node, labels: Labels) -> list[Item]:
    terms, result = parse(node.params[0])
    by: dict[str, int | None] = dict(zip(result, labels, strict=True))
    gone = dict.fromkeys([letter for term in terms for letter in term if letter not in by])
    by.update(zip(gone, _unused(labels, len(gone)), strict=True))
    return [(x, _named(tuple([by[k] for k in term]), x.shape)) for x, term in zip(node.inputs, terms, strict=True)]


def _taken_diagonal(node: Node, labels: Labels) -> list[Item]:
    x = node.inputs[0]
    return [(x, _named((*labels, labels[-1]), x.shape))] if node.params[0] == 0 else []


def _put_diagonal(node: Node, labels: Labels) -> list[Item]:
    """Read a diagonal by either axis: where it stands, both indices are one."""
    x, (*lead, i, j) = node.inputs[0], labels
    if node.param("offset") != 0 or i is None or j is None:
        return []
    return [(x, _named((*lead, min(i, j)), x.shape))]


def _unused(labels: Labels, count: int) -> list[int]:
    """Choose the smallest labels that are free."""
    return [k for k in range(len(labels) + count) if k not in labels][:count]


def _bound(node: Node, labels: Labels) -> Bound:
    """List the labels that a node sums over, or has zeros between."""
    if node.op.name == "embed_diagonal":
        return tuple(sorted(zip(labels[-2:], node.shape[-2:], strict=True)))  # type: ignore[arg-type]
    if node.op.name in REDUCTIONS:
        axes = node.param("axes")
        return tuple(zip(_unused(labels, len(axes)), [node.inputs[0].shape[k] for k in axes], strict=True))
    if node.op.name != "einsum":
        return ()
    terms, result = parse(node.params[0])
    pairs = [pair for term, x in zip(terms, node.inputs, strict=True) for pair in zip(term, x.shape, strict=True)]
    gone = {letter: dim for letter, dim in pairs if letter not in result}
    return tuple(zip(_unused(labels, len(gone)), gone.values(), strict=True))


VIEWS = frozenset({"broadcast_to", "expand_dims", "squeeze", "transpose", "diagonal"})

_READS: dict[str, Callable[[Node, Labels], list[Item]]] = {
    "broadcast_to": _stretched, "expand_dims": _expanded, "squeeze": _squeezed, "transpose": _transposed,
    "diagonal": _taken_diagonal, "embed_diagonal": _put_diagonal, "einsum": _contracted,
    **dict.fromkeys(REDUCTIONS, _reduced),
}


# -- what it is equal to


def _general(equality: Equality, node: Node, read: list[Item], values: list[Value], bound: Bound) -> Value | None:
    """Number an op of numbers, factors and all; None where a zero's sign might tell."""
    name, inexact = node.op.name, not all(value.exact for value in values)
    scaled = [value.scaled for value in values]
    if name in EVEN:
        scaled, inexact = [value.size for value in values], False
    if name in SIGNS or (inexact and name not in CALM):
        return None
    if name in COMMUTATIVE and all(any(label is not None for label in labels) for _, labels in read):
        inexact |= name in _EXTREMA and scaled != sorted(scaled)  # of equal zeros one is taken
        scaled.sort()
    key = (node.op, bound or node.params, node.dtype, *scaled)
    return Value(equality.number(key), exact=not inexact or node.dtype.kind != "f")


def _floating(rule: Rule) -> Rule:
    """Let a rule be of floating-point numbers alone: integers wrap around."""

    def only(equality: Equality, node: Node, read: list[Item], values: list[Value], bound: Bound) -> Value | None:
        floats = all(x.dtype.kind in "fb" for x in (node, *[x for x, _ in read]))
        return (rule if floats else _general)(equality, node, read, values, bound)

    return only


def _odd(equality: Equality, node: Node, read: list[Item], values: list[Value], bound: Bound) -> Value | None:  # noqa: ARG001
    x = values[0]
    return Value(equality.number((node.op, node.params, node.dtype, x.size)), x.sign, x.exact and x.sign > 0)


def _cast(equality: Equality, node: Node, read: list[Item], values: list[Value], bound: Bound) -> Value | None:
    """Number a value of another type: as a boolean, which has no sign, it is that of its opposite."""
    found = _odd(equality, node, read, values, bound)
    return found and (Value(found.number) if node.dtype.kind == "b" else found)


def _negative(equality: Equality, node: Node, read: list[Item], values: list[Value], bound: Bound) -> Value | None:  # noqa: ARG001
    return values[0]._replace(scale=-values[0].scale)


def _added(equality: Equality, node: Node, read: list[Item], values: list[Value], bound: Bound) -> Value | None:  # noqa: ARG001
    """Number a sum or a difference: the opposite has opposite terms, but for zeros."""
    a, b = values
    if node.op.name == "subtract":
        b = b._replace(scale=-b.scale)
    opposite = sorted((x.number, -x.scale) for x in (a, b))
    number, sign = equality.either(
        ("add", node.dtype, *sorted([a.scaled, b.scaled])), ("add", node.dtype, *opposite),
    )
    return Value(number, sign, a.exact and b.exact and sign > 0)


def _multiplied(equality: Equality, node: Node, read: list[Item], values: list[Value], bound: Bound) -> Value | None:
    """Number a product, or a sum of products; where a factor is there twice, so is what its zeros lack."""
    scale = math.prod(value.scale for value in values)
    if not 1 / FACTOR <= abs(scale) <= FACTOR:
        return _general(equality, node, read, values, bound)
    exact = all(value.exact or read.count(item) % 2 == 0 for item, value in zip(read, values, strict=True))
    one = equality.number(Constant(np.ones((), node.dtype)))
    factors = sorted(value.number for value in values if value.number != one)
    if len(factors) == 1 and not bound:
        return Value(factors[0], scale, exact)
    return Value(equality.number(("multiply", node.dtype, bound, *factors)), scale, exact and (scale > 0 or not bound))


def _divided(equality: Equality, node: Node, read: list[Item], values: list[Value], bound: Bound) -> Value | None:  # noqa: ARG001
    """Number a quotient: the divisor's zero must have the sign it says."""
    divisor = values[-1]
    if not divisor.exact:
        return None
    sign = math.prod(value.sign for value in values)
    return Value(equality.number((node.op.name, node.dtype, *[value.size for value in values])), sign,
                 all(value.exact for value in values))


def _directed(equality: Equality, node: Node, read: list[Item], values: list[Value], bound: Bound) -> Value | None:  # noqa: ARG001
    """Number ``a / h`` with h = hypot(a, b), 0 where h is: it is odd in a, and b has no part in it."""
    a, _, h = values
    return Value(equality.number((node.op.name, node.dtype, a.size, h.scaled)), a.sign, a.exact and a.sign > 0)


def _powered(equality: Equality, node: Node, read: list[Item], values: list[Value], bound: Bound) -> Value | None:
    """Number a whole power, by whether it is even."""
    exponent, (x,) = node.params[0], values
    if exponent % 2 == 0:
        return Value(equality.number((node.op, node.params, node.dtype, x.size)))
    if exponent < 0 and not x.exact:
        return None
    found = _odd(equality, node, read, values, bound)
    return found and found._replace(exact=x.exact)


def _compared(equality: Equality, node: Node, read: list[Item], values: list[Value], bound: Bound) -> Value | None:  # noqa: ARG001
    """Number whether two values are equal: opposite ones are where these are, and of 0 a sign is none."""
    zero, first = any(_is_zero(x) for x, _ in read), min(values)
    parts = sorted(value.size if zero else (value.number, value.scale * first.sign) for value in values)
    return Value(equality.number((node.op, *parts)))


def _chosen(equality: Equality, node: Node, read: list[Item], values: list[Value], bound: Bound) -> Value | None:  # noqa: ARG001
    """Number a choice: the factor of a branch is one of the choice, and a zero has any."""
    condition, a, b = values
    zeros = [_is_zero(item[0]) for item in read[1:]]
    scale = b.scale if zeros[0] else a.scale
    parts = [(x.number, 1.0 if zero else x.scale / scale) for x, zero in zip((a, b), zeros, strict=True)]
    exact = a.exact and b.exact and not any(z and x.scale * scale < 0 for x, z in zip((a, b), zeros, strict=True))
    return Value(equality.number(("where", node.dtype, condition.scaled, *parts)), scale, exact)


def _is_zero(node: Node) -> bool:
    while node.op.name in VIEWS:
        node = node.inputs[0]
    return node.op is leaves.constant and node.shape == () and bool(node.params[0].array == 0)


def _summed(equality: Equality, node: Node, read: list[Item], values: list[Value], bound: Bound) -> Value | None:  # noqa: ARG001
    """Number a sum: of opposite terms it is the opposite."""
    (x,) = values
    return Value(equality.number(("sum", node.dtype, bound, x.number)), x.scale, x.exact and x.sign > 0)


_EXTREMA = frozenset({"maximum", "minimum"})

_RULES: dict[str, Rule] = {"equal": _compared, "not_equal": _compared} | {name: _floating(rule) for name, rule in {
    **dict.fromkeys(ODD, _odd), "negative": _negative, "add": _added, "subtract": _added, "multiply": _multiplied,
    "einsum": _multiplied, "divide": _divided, "reciprocal": _divided, "direction": _directed, "inversion": _directed,
    "power_int": _powered, "where": _chosen, "sum": _summed, "astype": _cast,
}.items()}
