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
from collections.abc import Callable, Hashable
from itertools import count, islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from symgrad.ir.index.notation import Access, Apply, Axis, How, Number
from symgrad.ir.index.shapes import Dim, Shape
from symgrad.ir.node import Constant, Node
from symgrad.ir.op import Elementwise, Structured
from symgrad.ops.declare.traits import traits
from symgrad.ops.elementwise.selection import where
from symgrad.transforms.build import scalar
from symgrad.transforms.tuned import COMPARED_ELEMENTS

Labels: TypeAlias = tuple[int | None, ...]
"""A name for the index along each axis of an array; None along those of extent 1."""

Item: TypeAlias = "tuple[Node, Labels]"

Bound: TypeAlias = "tuple[tuple[int, Dim], ...]"
"""The labels that a reduction goes along, or that there are zeros between, and how far."""

FACTOR = 64.0
"""Powers of two between its inverse and it are factors; a product's are, where it is one."""


class Scaled(NamedTuple):
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


class IndexForm(NamedTuple):
    """An array in index notation along plain axes: ``T[target] how A[i, k] * B[k, j]``.

    Attributes:
        how: `=`, or how terms are added up.
        target: an axis for each of the result's.
        factors: the operands in order, with an axis or 0 for each of theirs.
        gone: the axes that are reduced.
    """

    how: How
    target: tuple[Axis, ...]
    factors: list[tuple[Node, tuple[Any, ...]]]
    gone: tuple[Axis, ...]


class Read(NamedTuple):
    """What an element is made of: the operands and where they are read, and how."""

    items: list[Item]
    bound: Bound = ()
    how: How = How.SET


class Equality:
    """Numbers for the values of one program."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._values: dict[Item, Scaled] = {}
        self._forms: dict[Node, IndexForm | None] = {}

    def value(self, node: Node, labels: tuple[int, ...]) -> Scaled:
        """Return a node's value where the indices along its axes have these labels."""
        start = (node, _axis_names(labels, node.shape))
        stack, values = list[tuple[Item, Read | None]]([(start, None)]), self._values
        while stack:
            item, read = stack.pop()
            if item in values:
                continue
            if read is None:
                read = self._read(*item)
                missing = [i for i in read.items if i not in values]
                if missing:
                    stack += [(item, read), *[(i, None) for i in missing]]
                    continue
            values[item] = self._value(*item, read)
        return values[start]

    def _read(self, node: Node, labels: Labels) -> Read:
        """Find what one element of a node is made of; nothing where that is not looked behind."""
        if isinstance(node.op, Elementwise):
            return Read([(i, _axis_names(labels[len(labels) - len(i.shape) :], i.shape)) for i in node.inputs])
        if node not in self._forms:
            self._forms[node] = form(node)
        found = self._forms[node]
        if found is None:
            return Read([])
        by: dict[Axis, Any] = {}
        twice = [k for k, axis in enumerate(found.target) if found.target.count(axis) > 1]
        if any(labels[k] is None for k in twice):
            return Read([])
        for axis, label in zip(found.target, labels, strict=True):  # where one axis stands twice, both indices are one
            by[axis] = min(by[axis], label) if axis in by else label
        new = [*islice((k for k in count() if k not in labels), len(found.gone))]
        by.update(zip(found.gone, new, strict=True))
        items = [(x, _axis_names(tuple([by.get(i) for i in indices]), x.shape)) for x, indices in found.factors]
        zeros: Any = sorted((labels[k], node.shape[k]) for k in twice)
        return Read(items, (*zeros, *zip(new, [axis.extent for axis in found.gone], strict=True)), found.how)

    def _value(self, node: Node, labels: Labels, read: Read) -> Scaled:
        if not read.items:
            return self._leaf(node, labels)
        values = [self._values[item] for item in read.items]
        floats = all(x.dtype.kind in "fb" for x in (node, *[x for x, _ in read.items]))  # integers wrap around
        if isinstance(node.op, Elementwise):
            rule = _RULES.get(node.op.numpy) if floats else None
            found = (rule and rule(self, node, read, values)) or _general(self, node, read, values)
        elif read.how == How.SET and not read.bound and len(values) == 1:
            return values[0]
        else:
            products = floats and (read.how == How.ADD or len(values) > 1)
            found = _product_value(self, node, read, values) if products else None
            if found is None:  # none of them tells the signs of zeros
                key = (read.how, read.bound, node.dtype, *[value.scaled for value in values])
                found = Scaled(self.number(key), exact=all(value.exact for value in values) or node.dtype.kind != "f")
        return self._leaf(node, labels) if found is None else found

    def _leaf(self, node: Node, labels: Labels) -> Scaled:
        """Number what is not looked behind: it is equal to itself, at the same indices."""
        if not node.is_constant:
            return Scaled(self.number((node, labels)))
        array = node.params[0].array
        if array.ndim == 0 and node.dtype.kind == "f":  # without its sign, and a power of two as 1
            sign, size = -1.0 if np.signbit(array) else 1.0, np.abs(array)
            if np.frexp(size)[0] == 0.5 and 1 / FACTOR <= size <= FACTOR:
                return Scaled(self.number(Constant(np.ones_like(size))), sign * float(size))
            return Scaled(self.number(Constant(size)), sign)
        if array.size > COMPARED_ELEMENTS or len(set(labels)) != len(labels):
            return Scaled(self.number((node, labels)))
        order = sorted(range(array.ndim), key=lambda k: -1 if labels[k] is None else labels[k])  # type: ignore[arg-type, return-value]
        return Scaled(self.number((Constant(array.transpose(order)), *[labels[k] for k in order])))

    def number(self, key: Hashable) -> int:
        """Return what stands for a key."""
        return self._numbers.setdefault(key, len(self._numbers))

    def either(self, key: Hashable, opposite: Hashable) -> tuple[int, float]:
        """Return what stands for a key, and 1; or for its opposite, if that was there first, and -1."""
        if key not in self._numbers and opposite in self._numbers:
            return self._numbers[opposite], -1.0
        return self.number(key), 1.0


# -- what an element is made of


def _axis_names(labels: Labels, shape: Shape) -> Labels:
    return tuple([None if dim == 1 else label for label, dim in zip(labels, shape, strict=True)])


def form(node: Node) -> IndexForm | None:
    """Return what an array operation is along plain axes; None where it is something else."""
    op = node.op
    if not isinstance(op, Structured) or not (op.view or op.moves or op.regular):
        return None
    body = op.body(node)
    written = [s for s in body.statements if not isinstance(s.value, Number)]
    if len(written) != 1 or body.temporaries:
        return None
    (s,) = written
    values, factors = [s.value], []
    while values:
        value = values.pop()
        if isinstance(value, Apply) and value.op.numpy in _TIMES:
            values.extend(reversed(value.args))
        elif isinstance(value, Access) and not value.flat and value.array >= 0:
            factors.append((node.inputs[value.array], value.indices))
        else:
            return None
    target = s.target.indices
    whole = all(isinstance(i, Axis) for i in target) and all(
        axis.extent == dim or target.count(axis) > 1 for axis, dim in zip(target, node.shape, strict=True)
    )
    plain = all(isinstance(i, Axis) or (i == 0 and dim == 1) for x, indices in factors
                for i, dim in zip(indices, x.shape, strict=True))
    if not (whole and plain) or s.ranges or s.prefix or s.triangle is not None:
        return None
    return IndexForm(s.how, target, factors, tuple([axis for axis in s.axes if axis not in target]))


_TIMES = frozenset({np.multiply, np.logical_and})


# -- what it is equal to


def _general(equality: Equality, node: Node, read: Read, values: list[Scaled]) -> Scaled | None:
    """Number a function of numbers, factors and all; None where a zero's or a NaN's sign might tell."""
    op: Any = node.op
    known = traits(op, node.params)
    sign, exact, parts = 1.0, True, []
    for value, parity, sees_zero in zip(values, known.parity, known.sees_zero, strict=True):
        if parity == 0 or (parity < 0 and node.dtype.kind != "f"):
            parts.append(value.scaled)
        else:
            parts.append(value.size)
            exact &= known.keeps_zeros or (value.exact and value.sign > 0)
            sign *= value.sign if parity < 0 else 1.0
        if not value.exact and parity < 1:
            if sees_zero:
                return None
            exact = False
    if known.sees_nan:
        return None
    if known.commutes and known.joint > 0:  # of opposite ones it is what it is of these, and a zero has no sign
        first, zero = min(values), any(scalar(x) == 0 for x, _ in read.items)
        parts = sorted([value.size if zero else (value.number, value.scale * first.sign) for value in values])
    elif known.commutes:
        exact &= op.used is None or parts == sorted(parts)  # of equal zeros one is taken
        parts.sort()
    return Scaled(equality.number((op, node.params, node.dtype, *parts)), sign, exact or node.dtype.kind != "f")


def _numbered_sum(equality: Equality, node: Node, read: Read, values: list[Scaled]) -> Scaled | None:  # noqa: ARG001
    """Number a sum or a difference: the opposite has opposite terms, but for zeros."""
    a, b = values
    if node.op.numpy is np.subtract:
        b = b._replace(scale=-b.scale)
    opposite = sorted((x.number, -x.scale) for x in (a, b))
    number, sign = equality.either(("add", node.dtype, *sorted([a.scaled, b.scaled])), ("add", node.dtype, *opposite))
    return Scaled(number, sign, a.exact and b.exact and sign > 0)


def _product_value(equality: Equality, node: Node, read: Read, values: list[Scaled]) -> Scaled | None:
    """Number a product, or a sum of products; where a factor is there twice, so is what its zeros lack."""
    scale = math.prod(value.scale for value in values)
    if not 1 / FACTOR <= abs(scale) <= FACTOR:
        return None
    exact = all(value.exact or read.items.count(item) % 2 == 0 for item, value in zip(read.items, values, strict=True))
    one = equality.number(Constant(np.ones((), node.dtype)))
    factors = sorted(value.number for value in values if value.number != one)
    if len(factors) == 1 and not read.bound:
        return Scaled(factors[0], scale, exact)
    number = equality.number(("multiply", node.dtype, read.bound, *factors))
    return Scaled(number, scale, exact and (scale > 0 or not read.bound))


def _choice_value(equality: Equality, node: Node, read: Read, values: list[Scaled]) -> Scaled | None:
    """Number a choice: the factor of a branch is one of the choice, and a zero has any."""
    condition, a, b = values
    zeros = [scalar(x) == 0 for x, _ in read.items[1:]]
    scale = b.scale if zeros[0] else a.scale
    parts = [(x.number, 1.0 if zero else x.scale / scale) for x, zero in zip((a, b), zeros, strict=True)]
    exact = a.exact and b.exact and not any(z and x.scale * scale < 0 for x, z in zip((a, b), zeros, strict=True))
    return Scaled(equality.number(("where", node.dtype, condition.scaled, *parts)), scale, exact)


_RULES: dict[Any, Callable[[Equality, Node, Read, list[Scaled]], Scaled | None]] = {
    np.negative: lambda _equality, _node, _read, values: values[0]._replace(scale=-values[0].scale),
    np.add: _numbered_sum, np.subtract: _numbered_sum, np.multiply: _product_value, where.numpy: _choice_value,
}
"""What has a meaning of its own for factors, where it is of floating-point numbers."""
