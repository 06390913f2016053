"""Sums of products: matmul, dot, einsum and their kin are one op, in one notation."""

from __future__ import annotations

import operator
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from symgrad.errors import ShapeError
from symgrad.ir.index import shapes
from symgrad.ir.index.notation import Access, Axis, Body, How, Number, Statement, axes_of
from symgrad.ir.index.shapes import Dim, Shape
from symgrad.ir.node import Node
from symgrad.ops.arrays.copies import fresh
from symgrad.ops.arrays.joining import lift
from symgrad.ops.arrays.views import adding, placed_in
from symgrad.ops.declare.domains import case
from symgrad.ops.declare.forms import OPS, answers, apply, normal_axis, refuse, shape_of, structured

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def parse_labels(subscripts: str) -> tuple[list[str], str]:
    """Split ``"ij,jk->ik"`` into the operands' labels and the result's."""
    left, result = subscripts.split("->")
    return left.split(","), result


def _label_extents(terms: list[str], operands: Any) -> dict[str, Dim]:
    found: dict[str, Dim] = {}
    for labels, x in zip(terms, operands, strict=True):
        if len(labels) != len(x.shape):
            raise ShapeError(
                f"the labels {labels!r} name {len(labels)} axes of an array with shape {shapes.show(x.shape)}"
            )
        for label, dim in zip(labels, x.shape, strict=True):
            if found.setdefault(label, dim) != dim:
                raise ShapeError(
                    f"cannot contract {' and '.join(shapes.show(o.shape) for o in operands)}: "
                    f"{label!r} is {found[label]} in one and {dim} in the other"
                )
    return found


def _einsum_infer(*operands: Node, subscripts: str) -> tuple[Shape, Any]:
    terms, result = parse_labels(subscripts)
    extents = _label_extents(terms, operands)
    return tuple([extents[label] for label in result]), operands[0].dtype


def _einsum_body(node: Node) -> Body:
    """``T[out] += A[...] * B[...]`` over every label: shape rule and loops in one line."""
    terms, result = parse_labels(node.params[0])
    axes = {label: Axis(label, dim) for label, dim in _label_extents(terms, node.inputs).items()}
    dtype, start = node.dtype, axes_of(node.shape)
    times = "logical_and" if dtype.kind == "b" else "multiply"
    factors: list[Any] = [Access(k, tuple([axes[label] for label in labels])) for k, labels in enumerate(terms)]
    value = reduce(lambda product, factor: apply(times, dtype, product, factor), factors)
    target = tuple([axes[label] for label in result])
    order = (*target, *[axis for label, axis in axes.items() if label not in result])
    if len(order) == len(target):
        return Body((Statement(Access(-1, target), How.SET, value, order, node.line),))
    return Body((
        Statement(Access(-1, start), How.SET, Number(0, dtype), start, node.line),
        Statement(Access(-1, target), adding(dtype), value, order, node.line),
    ))


def _contraction_vjp(g: Any, y: Any, *operands: Any, subscripts: str) -> Any:
    """Swap an operand's labels with the result's; labels nobody else has are broadcast, places of zeros left out."""
    terms, result = parse_labels(subscripts)
    where = dict(zip(result, placed_in(g), strict=True))
    cotangents = []
    for k, labels in enumerate(terms):
        summed = {label: part for label, part in where.items() if label not in labels}
        others = [(t, _cut_along(t, o, summed)) for j, (t, o) in enumerate(zip(terms, operands, strict=True)) if j != k]
        known = set(result).union(*[set(t) for t, _ in others]) if others else set(result)
        kept = "".join(label for label in labels if label in known)
        inputs = ",".join([result, *[t for t, _ in others]])
        part = einsum(_cut_along(result, g, summed), *[o for _, o in others], subscripts=f"{inputs}->{kept}")
        if kept != labels:
            missing = tuple([d for d, label in enumerate(labels) if label not in known])
            part = OPS["broadcast_to"](OPS["expand_dims"](part, axes=missing), shape=shape_of(operands[k]))
        cotangents.append(part)
    return tuple(cotangents) if len(cotangents) > 1 else cotangents[0]


def _cut_along(labels: str, x: Any, where: dict[str, Any]) -> Any:
    """Take parts of some axes of an operand."""
    if all(where.get(label) is None for label in labels):
        return x
    pairs = zip(labels, shape_of(x), strict=True)
    return OPS["slice"](x, index=tuple([where.get(label) or (0, dim, 1) for label, dim in pairs]))


def _einsum_text(node: Node, names: list[str]) -> str:
    subscripts = node.params[0]
    terms, result = parse_labels(subscripts)
    if len(terms) == 2 and terms[0] and terms[1] and terms[0][-1] == terms[1][-2 if len(terms[1]) > 1 else 0]:
        rows, columns = terms[0][:-1], terms[1][-1] if len(terms[1]) > 1 else ""
        batch = terms[1][:-2]
        if rows[: len(batch)] == batch and len(rows) - len(batch) <= 1 and result == rows + columns:
            return f"{names[0]} @ {names[1]}"
    return f'np.einsum("{subscripts}", {", ".join(names)})'


einsum = structured(
    name="einsum", params=("subscripts",), infer=_einsum_infer, body=_einsum_body, vjp=_contraction_vjp,
    evaluate=lambda *operands, subscripts: np.einsum(subscripts, *operands, optimize=len(operands) > 1),
    text=_einsum_text,
    regular=True, linear=(0, 1, 2), labels=parse_labels,
    sample=(case(lambda a, b: (a @ b) ** 2, (3, 4), (4, 2)), case(lambda a, b: a @ b, (4,), (4,)),
            case(lambda a, b: (a @ b) ** 2, (2, 3, 4), (4,)),
            case(lambda a, b: np.einsum("ij,kj->ik", a, b) ** 2, (2, 3), (4, 3)),
            case(lambda a: np.einsum("ij->j", a) ** 2, (2, 3)), case(lambda a: np.einsum("ii->i", a) ** 2, (3, 3)),
            case(lambda a, b: (a @ b) ** 2, (2, 1, 3, 4), (5, 4, 2))),
    edges=(case(lambda a, b: a @ b, (3, 0), (0, 2)), case(lambda a, b: a @ b, (0, 3), (3, 2))),
    doc="A sum of products over labels, as numpy.einsum writes them.",
)


# -- NumPy's functions


def contract(subscripts: str, *operands: Any) -> Any:
    """Contract arrays of any dtypes: cast, take diagonals of repeated labels, pair by pair."""
    parts = [lift(x) for x in operands]
    kind = np.result_type(*[p.dtype for p in parts])
    parts = [p if p.dtype == kind else p.astype(kind) for p in parts]
    terms, result = parse_labels(subscripts)
    for k, labels in enumerate(terms):
        terms[k], parts[k] = _with_distinct_labels(labels, parts[k])
    terms, parts = _unstretched(terms, parts)
    while len(parts) > 2:
        i, j = _cheapest(terms, parts)
        rest = result + "".join(t for k, t in enumerate(terms) if k not in {i, j})
        kept = "".join(dict.fromkeys(label for label in terms[i] + terms[j] if label in rest))
        made = einsum(parts[i], parts[j], subscripts=f"{terms[i]},{terms[j]}->{kept}")
        terms = [t for k, t in enumerate(terms) if k not in {i, j}] + [kept]
        parts = [p for k, p in enumerate(parts) if k not in {i, j}] + [made]
    return einsum(*parts, subscripts=f"{','.join(terms)}->{result}")


def _with_distinct_labels(labels: str, x: Any) -> tuple[str, Any]:
    """Take the diagonal where an operand repeats a label."""
    while len(set(labels)) != len(labels):
        first = next(k for k, label in enumerate(labels) if label in labels[k + 1 :])
        second = labels.index(labels[first], first + 1)
        extents = shape_of(x)[first], shape_of(x)[second]
        if extents[0] != extents[1]:
            raise ShapeError(f"label {labels[first]!r} names axes of extents {extents[0]} and {extents[1]}")
        order = [k for k in range(len(labels)) if k not in {first, second}] + [first, second]
        x = OPS["diagonal"](OPS["transpose"](x, axes=tuple(order)), offset=0)
        labels = "".join(labels[k] for k in order[:-1])
    return labels, x


def _unstretched(terms: list[str], parts: list[Any]) -> tuple[list[str], list[Any]]:
    """Drop axes of extent 1 that broadcast against the same label of another operand."""
    extents: dict[str, Dim] = {}
    for labels, part in zip(terms, parts, strict=True):
        for label, dim in zip(labels, shape_of(part), strict=True):
            if extents.setdefault(label, dim) == 1:
                extents[label] = dim
    found = []
    for labels, part in zip(terms, parts, strict=True):
        ones = tuple([k for k, d in enumerate(shape_of(part)) if d == 1 and extents[labels[k]] != 1])
        kept = "".join(label for k, label in enumerate(labels) if k not in ones)
        found.append((kept, OPS["squeeze"](part, axes=ones) if ones else part))
    return [kept for kept, _ in found], [part for _, part in found]


def _cheapest(terms: list[str], parts: list[Any]) -> tuple[int, int]:
    """Choose the pair whose product has the fewest multiplications."""
    extents: dict[str, int] = {}
    for labels, part in zip(terms, parts, strict=True):
        extents |= zip(labels, [shapes.upper(dim, 1000) for dim in shape_of(part)], strict=True)

    def work(pair: tuple[int, int]) -> int:
        return prod([extents[label] for label in {*terms[pair[0]], *terms[pair[1]]}])

    return min(((i, j) for j in range(len(terms)) for i in range(j)), key=work)


@answers(np.matmul, neutral={"a": 0, "b": 0})
def matmul(a: Any, b: Any, /) -> Any:
    """As `numpy.matmul`: batched over leading axes, which broadcast."""
    a, b = lift(a), lift(b)
    if a.ndim == 0 or b.ndim == 0:
        raise ShapeError("matmul: an operand has no axes", instead="a * b for scalars")
    inner_b = shape_of(b)[-2 if b.ndim > 1 else 0]
    if shape_of(a)[-1] != inner_b:
        raise ShapeError(
            f"matmul: {shapes.show(shape_of(a))} @ {shapes.show(shape_of(b))}: "
            f"the inner extents {shape_of(a)[-1]} and {inner_b} differ"
        )
    shapes.broadcast(shape_of(a)[:-2], shape_of(b)[:-2])
    rank = max(a.ndim, b.ndim, 2) - 2
    labels = LETTERS[10 - rank : 10]
    left, right = [labels[rank - max(x.ndim - 2, 0) :] for x in (a, b)]
    rows, columns = "m" * (a.ndim > 1), "n" * (b.ndim > 1)
    return contract(f"{left}{rows}k,{right}k{columns}->{labels}{rows}{columns}", a, b)


def _typed(x: Any) -> Any:
    """Give one of Python's numbers a dtype: a product of arrays does not take it for weak."""
    return x if getattr(x, "weak", None) is None else x.astype(x.dtype)


def _along_one(name: str, a: Any, b: Any, axis: int) -> Any:
    """Sum products along the last axis of one array, and along one of the other."""
    a, b = lift(a), lift(b)
    if a.ndim == 0 or b.ndim == 0:
        return np.multiply(_typed(a), _typed(b))
    return _sum_over(name, a, b, [a.ndim - 1], [max(axis + b.ndim, 0)])


@answers(np.dot, neutral={"a": 0, "b": 0})
def dot(a: Any, b: Any, out: Any = None) -> Any:
    refuse("dot", out=out)
    return _along_one("dot", a, b, -2)


answers(np.inner, neutral={"a": 0, "b": 0})(lambda a, b, /: _along_one("inner", a, b, -1))
answers(np.vdot, neutral={"a": 0, "b": 0})(lambda a, b, /: _sum_over(
    "vdot", lift(np.ravel(a)), lift(np.ravel(b)), [0], [0]))


@answers(np.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    a, b = lift(a), lift(b)
    if issubclass(type(axes), (int, np.integer)):
        if not 0 <= axes <= min(a.ndim, b.ndim):
            shown = f"{shapes.show(shape_of(a))} and {shapes.show(shape_of(b))}"
            raise ShapeError(f"tensordot: axes={axes} of shapes {shown}, which have not so many axes")
        pair_a, pair_b = list(range(a.ndim - int(axes), a.ndim)), list(range(int(axes)))
    else:
        pair_a, pair_b = [list(p) if isinstance(p, (list, tuple)) else [p] for p in axes]
    pair_a, pair_b = [normal_axis(k, a.ndim) for k in pair_a], [normal_axis(k, b.ndim) for k in pair_b]
    if len(pair_a) != len(pair_b) or any(len({*pair}) < len(pair) for pair in (pair_a, pair_b)):
        raise ShapeError(f"tensordot: axes {pair_a} and {pair_b}: as many of each, and none twice, are summed over")
    return _sum_over("tensordot", a, b, pair_a, pair_b)


def _sum_over(name: str, a: Any, b: Any, pair_a: list[int], pair_b: list[int]) -> Any:
    """Sum products over axes of two arrays, for the function that a user called."""
    extents_a, extents_b = [[shape_of(x)[k] for k in pair] for x, pair in ((a, pair_a), (b, pair_b))]
    if extents_a != extents_b:
        shown = f"shapes {shapes.show(shape_of(a))} and {shapes.show(shape_of(b))} have the extents"
        raise ShapeError(f"{name}: {shown} {extents_a} and {extents_b} along axes {pair_a} and {pair_b}")
    labels_a = list(LETTERS[: a.ndim])
    labels_b = list(LETTERS[a.ndim : a.ndim + b.ndim])
    for i, j in zip(pair_a, pair_b, strict=True):
        labels_b[j] = labels_a[i]
    result = [label for k, label in enumerate(labels_a) if k not in pair_a]
    result += [label for k, label in enumerate(labels_b) if k not in pair_b]
    return contract(f"{''.join(labels_a)},{''.join(labels_b)}->{''.join(result)}", a, b)


@answers(np.einsum)
def einsum_answer(
    *operands: Any, out: Any = None, optimize: Any = None, dtype: Any = None, order: Any = "K", casting: Any = "safe",
    **keywords: Any,
) -> Any:
    """As `numpy.einsum`; whatever `optimize` says, the cheapest pair goes first; `order` is that of memory alone."""
    refuse("einsum", out=out, **keywords)
    subscripts, *arrays = operands if isinstance(operands[0], str) else _with_letters(operands)
    arrays = [lift(x) for x in arrays]
    if dtype is not None:
        arrays = [x if x.dtype == dtype else x.astype(dtype, casting=casting) for x in arrays]
    if len(subscripts.split("->", maxsplit=1)[0].split(",")) != len(arrays):
        raise ShapeError(f"einsum {subscripts!r} names {subscripts.count(',') + 1} operands and got {len(arrays)}")
    spelled = _explicit(subscripts.replace(" ", ""), [x.ndim for x in arrays])
    labels, _, result = spelled.partition("->")
    for term, array in zip(labels.split(","), arrays, strict=True):
        if len(term) != array.ndim:
            shape = shapes.show(shape_of(array))
            raise ShapeError(f"einsum {subscripts!r}: {term!r} names {len(term)} axes of an array with shape {shape}")
    twice = {label for label in result if result.count(label) > 1}
    if strange := {*labels, *result} - {*LETTERS, ","} or {*result} - {*labels} or twice:
        why = "each label is a letter, and stands once in the result and with an operand"
        raise ShapeError(f"einsum {subscripts!r}: {min(strange)!r} is no label there: {why}")
    if len(arrays) == 1 and set(labels) == set(result) and len(labels) == arrays[0].ndim:
        left, view = _with_distinct_labels(labels, arrays[0])  # nothing is summed: NumPy gives a view
        view = np.transpose(view, [left.index(label) for label in result]) if len(left) > 1 else view
        return view if left else fresh(view)
    return contract(spelled, *arrays)


def _with_letters(operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """Write labels that are lists of integers, each behind its array, as letters of the same order."""
    count, letters = len(operands) // 2, sorted(LETTERS)
    terms = [
        "".join(["..." if label is Ellipsis else letters[operator.index(label)] for label in labels])
        for labels in (*operands[1 : 2 * count : 2], *operands[2 * count :])
    ]
    return "->".join([",".join(terms[:count]), *terms[count:]]), *operands[: 2 * count : 2]


def _explicit(subscripts: str, ranks: list[int]) -> str:
    """Write out ``...`` and an implied result."""
    left, arrow, result = subscripts.partition("->")
    terms = left.split(",")
    used = set(subscripts)
    free = [label for label in LETTERS if label not in used]
    wide = max([r - len(t.replace("...", "")) for t, r in zip(terms, ranks, strict=True) if "..." in t], default=0)
    dots = "".join(free[:wide])
    spelled = []
    for term, rank in zip(terms, ranks, strict=True):
        here = rank - len(term.replace("...", ""))
        spelled.append(term.replace("...", dots[len(dots) - here :] if here > 0 else ""))
    if arrow:
        if dots and "..." not in result:
            raise ShapeError(f"einsum {subscripts!r}: '...' stands for {len(dots)} axes, and not in the result")
        result = result.replace("...", dots)
    else:
        every = "".join(terms).replace(".", "")
        result = dots + "".join(sorted(label for label in set(every) if every.count(label) == 1))
    return f"{','.join(spelled)}->{result}"
