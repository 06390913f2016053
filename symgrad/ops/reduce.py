"""Sums, products, extrema: reductions over axes and running totals along one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.errors import ArgumentValueError, UnsupportedError
from symgrad.ir.notation import Access, Apply, Axis, Body, IndexValue, Number, Statement, Temporary, axes_of
from symgrad.ops.declare import OPS, answers, is_traced, normal_axes, normal_axis, shape_of, structured
from symgrad.ops.domains import booleans, case, distinct, inf, nan
from symgrad.ops.joining import lift

if TYPE_CHECKING:
    from collections.abc import Callable

    from symgrad.ir.node import Node
    from symgrad.ir.shapes import Shape

X, OUT = 0, -1
I64 = np.dtype(np.int64)


def _rest(shape: Shape, axes: tuple[int, ...]) -> Shape:
    return tuple([d for k, d in enumerate(shape) if k not in axes])


def _first(how: str, dtype: np.dtype[Any]) -> Any:
    """Return what an accumulation starts from."""
    if how in {"+=", "|="}:
        return 0
    if how in {"*=", "&="}:
        return 1
    if dtype.kind == "f":
        return -inf if how == "max=" else inf
    if dtype.kind == "b":
        return how == "min="
    return np.iinfo(dtype).min if how == "max=" else np.iinfo(dtype).max


def reduction_body(node: Node, how: str) -> Body:
    """Start, then ``T[i] how A[i, k]`` along the reduced axes k."""
    axes = axes_of(node.inputs[0].shape)
    kept = tuple([a for k, a in enumerate(axes) if k not in node.param("axes")])
    start = axes_of(node.shape)
    first = Number(_first(how, node.dtype), node.dtype)
    return Body((
        Statement(Access(OUT, start), "=", first, start, node.line),
        Statement(Access(OUT, kept), how, Access(X, axes), axes, node.line),
    ))


def _reduction(
    name: str, how: str, evaluate: Any, vjp: Any, *, sample: Any, edges: Any, nondiff: bool = False, dtype: Any = None,
) -> Any:
    return structured(
        name=name, params=("axes",), nondiff=nondiff, vjp=vjp,
        infer=lambda x, axes: (_rest(x.shape, axes), dtype or x.dtype),
        evaluate=lambda x, axes: evaluate(x, axis=axes), body=lambda node: reduction_body(node, how),
        text=lambda node, names: f"np.{name}({names[0]}, axis={node.params[0]})", sample=sample, edges=edges,
    )


def _started(evaluate: Any, how: str) -> Any:
    """Let an extremum start as its body does: rows may be empty where there are none, or where an extent turns out 0."""
    return lambda x, axis: evaluate(x, axis=axis, initial=_first(how, x.dtype))


def spread(g: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """Give a reduced value its axes back, each with x's extent."""
    return OPS["broadcast_to"](OPS["expand_dims"](g, axes=axes), shape=shape_of(x)) if axes else g


def along(g: Any, axes: tuple[int, ...]) -> Any:
    """Give a reduced value its axes back with extent 1, to broadcast against x."""
    return OPS["expand_dims"](g, axes=axes) if axes else g


def _extremum_vjp(g: Any, y: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """Share the cotangent evenly among ties, as JAX does."""
    at = np.equal(x, along(y, axes))
    count = OPS["sum"](at.astype(g.dtype), axes=axes)
    return np.where(at, along(g / count, axes), np.zeros((), g.dtype))


def _prod_vjp(g: Any, y: Any, x: Any, axes: tuple[int, ...]) -> Any:  # noqa: ARG001
    """Multiply, for each factor, all the others: exact where factors are zero."""
    ndim = len(shape_of(x))
    kept = tuple([k for k in range(ndim) if k not in axes])
    order = (*kept, *axes)
    moved = OPS["transpose"](x, axes=order)
    lead, tail = shape_of(moved)[: len(kept)], shape_of(moved)[len(kept) :]
    size: Any = 1
    for dim in tail:
        size = size * dim
    flat = OPS["reshape"](moved, shape=(*lead, size))
    others = exclusive_product(flat) * reverse(exclusive_product(reverse(flat)))
    back = OPS["reshape"](others, shape=(*lead, *tail))
    inverse = tuple(sorted(range(ndim), key=order.__getitem__))
    return along(g, axes) * OPS["transpose"](back, axes=inverse)


def last_axis(x: Any, start: Any, count: Any, step: int = 1) -> Any:
    """Slice the last axis."""
    shape = shape_of(x)
    return OPS["slice"](x, index=(*[(0, d, 1) for d in shape[:-1]], (start, count, step)))


def reverse(x: Any) -> Any:
    """Turn the last axis around."""
    extent = shape_of(x)[-1]
    return last_axis(x, extent - 1, extent, -1)


def shifted(x: Any, fill: int) -> Any:
    """Move along the last axis by one: fill, x[0], x[1], ..."""
    shape = shape_of(x)
    index = (*[(0, d, 1) for d in shape[:-1]], (1, fewer(shape[-1]), 1))
    head = last_axis(x, 0, fewer(shape[-1]))
    if fill == 0:
        return OPS["place"](head, indices=(index,), shape=shape)
    ones = np.where(np.False_, x, np.ones((), x.dtype))
    return OPS["set_slice"](ones, head, index=index)


def fewer(extent: Any) -> Any:
    """Return one less, but not less than none."""
    if type(extent) is int:
        return max(extent - 1, 0)
    import sympy

    return sympy.Max(extent - 1, 0)


def exclusive_product(x: Any) -> Any:
    """Multiply, along the last axis, what stands before each element."""
    return shifted(OPS["cumprod"](x, axis=len(shape_of(x)) - 1), 1)


_AXES = (case(lambda a: np.sum(a, axis=0) ** 2, (3, 4)), case(lambda a: np.sum(a) ** 2, (2, 3)),
         case(lambda a: a.sum(axis=(0, -1), keepdims=True) * a, (2, 3, 2)))
_EMPTY = (case(lambda a: np.sum(a, axis=1), (3, 0)), case(np.sum, ()), case(lambda a: np.sum(a, 0), (0, 2)))

sum_ = _reduction("sum", "+=", np.sum, lambda g, y, x, axes: spread(g, x, axes), sample=_AXES, edges=_EMPTY)  # noqa: ARG005
prod = _reduction(
    "prod", "*=", np.prod, _prod_vjp,
    sample=(case(lambda a: np.prod(a, axis=1), (3, 4)), case(lambda a: np.prod(a, axis=(0, 2)) ** 2, (2, 3, 2))),
    edges=(case(lambda a: np.prod(a, 0), (0, 2)),),
)
max_ = _reduction(
    "max", "max=", _started(np.max, "max="), _extremum_vjp,
    sample=(case(lambda a: np.max(a, axis=1) ** 2, (3, 4), domain=distinct()), case(np.max, (5,), domain=distinct())),
    edges=(case(lambda a: np.max(a, 0), (3, 0)), case(lambda a: np.max(a * np.array([1.0, nan])), (2,))),
)
min_ = _reduction(
    "min", "min=", _started(np.min, "min="), _extremum_vjp,
    sample=(case(lambda a: np.min(a, axis=0) ** 2, (3, 4), domain=distinct()), case(np.min, (5,), domain=distinct())),
    edges=(case(lambda a: np.min(a, 0), (3, 0)), case(lambda a: np.min(a * np.array([1.0, nan])), (2,))),
)
any_ = _reduction(
    "any", "|=", np.any, None, nondiff=True, dtype=np.dtype(bool),
    sample=(case(lambda a: np.any(a, axis=0), (3, 4), domain=booleans()),), edges=(case(lambda a: np.any(a > 0), (0,)),),
)
all_ = _reduction(
    "all", "&=", np.all, None, nondiff=True, dtype=np.dtype(bool),
    sample=(case(lambda a: np.all(a, axis=1), (3, 4), domain=booleans()),), edges=(case(lambda a: np.all(a > 0), (0,)),),
)


# -- positions of extrema


def _arg_body(node: Node, how: str) -> Body:
    """Find the extremum, then the first place that holds it (or the first NaN)."""
    x = node.inputs[0]
    axis = node.param("axis")
    outer, first, axes = axes_of(node.shape), axes_of(node.shape), axes_of(x.shape)
    again, start = axes_of(x.shape), axes_of(node.shape)

    def kept(of: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple([a for k, a in enumerate(of) if k != axis])

    best = -2
    boolean, here = np.dtype(bool), Access(X, again)
    same = Apply(OPS["equal"], (here, Access(best, kept(again))), boolean, x.dtype)  # type: ignore[arg-type]
    odd = Apply(OPS["not_equal"], (here, here), boolean, x.dtype)  # type: ignore[arg-type]
    hit = Apply(OPS["logical_or"], (same, odd), boolean, boolean) if x.dtype.kind == "f" else same  # type: ignore[arg-type]
    far = Number(np.iinfo(np.int64).max, I64)
    place = Apply(OPS["where"], (hit, IndexValue(again[axis], I64), far), I64, I64)  # type: ignore[arg-type]
    return Body((
        Statement(Access(best, outer), "=", Number(_first(how, x.dtype), x.dtype), outer, node.line),
        Statement(Access(best, kept(axes)), how, Access(X, axes), axes, node.line),
        Statement(Access(OUT, start), "=", far, start, node.line),
        Statement(Access(OUT, kept(again)), "min=", place, again, node.line),
    ), (Temporary(tuple([a.extent for a in first]), x.dtype),))


def _position(name: str, how: str, evaluate: Any) -> Any:
    return structured(
        name=name, params=("axis",), nondiff=True, infer=lambda x, axis: (_rest(x.shape, (axis,)), I64),
        evaluate=lambda x, axis: evaluate(x, axis=axis), body=lambda node: _arg_body(node, how),
        text=lambda node, names: f"np.{name}({names[0]}, axis={node.params[0]})",
        sample=(case(lambda a: evaluate(a, axis=1), (3, 4), domain=distinct()), case(lambda a: evaluate(a), (2, 3))),
        edges=(case(lambda a: evaluate(a * np.array([1.0, nan, nan])), (3,)), case(lambda a: evaluate(a * 0), (3,))),
    )


argmax = _position("argmax", "max=", np.argmax)
argmin = _position("argmin", "min=", np.argmin)


# -- running totals


def _running_body(node: Node, total: Callable[[Access, tuple[Axis, ...]], tuple[str, Any, frozenset[int]]], first: int) -> Body:
    """Keep a total along one axis, and write it down after each step."""
    axis = len(node.shape) - 1 if "axis" not in node.op.params else node.param("axis")
    outer = axes_of(_rest(node.shape, (axis,)))
    axes = axes_of(node.shape)
    kept = tuple([a for k, a in enumerate(axes) if k != axis])
    acc = Access(-2, kept)
    how, value, prefix = total(acc, axes)
    return Body((
        Statement(Access(-2, outer), "=", Number(first, node.dtype), outer, node.line),
        Statement(acc, how, value, axes, node.line, prefix=prefix),
        Statement(Access(OUT, axes), "=", acc, axes, node.line, prefix=frozenset({-2})),
    ), (Temporary(tuple([a.extent for a in outer]), node.dtype),))


cumsum = structured(
    name="cumsum", params=("axis",), infer=lambda x, axis: (x.shape, x.dtype),  # noqa: ARG005
    evaluate=lambda x, axis: np.cumsum(x, axis=axis, dtype=np.asarray(x).dtype),
    body=lambda node: _running_body(node, lambda _, axes: ("+=", Access(X, axes), frozenset()), 0),
    vjp=lambda g, y, x, axis: _flip(cumsum(_flip(g, axis), axis=axis), axis),  # noqa: ARG005
    text=lambda node, names: f"np.cumsum({names[0]}, axis={node.params[0]})",
    sample=(case(lambda a: np.cumsum(a, axis=0) ** 2, (3, 4)), case(lambda a: np.cumsum(a) ** 2, (2, 3))),
    edges=(case(np.cumsum, (0,)),),
)


def _flip(x: Any, axis: int) -> Any:
    shape = shape_of(x)
    return OPS["slice"](x, index=tuple([(d - 1, d, -1) if k == axis else (0, d, 1) for k, d in enumerate(shape)]))


cumprod = structured(
    name="cumprod", params=("axis",), infer=lambda x, axis: (x.shape, x.dtype),  # noqa: ARG005
    evaluate=lambda x, axis: np.cumprod(x, axis=axis, dtype=np.asarray(x).dtype),
    body=lambda node: _running_body(node, lambda _, axes: ("*=", Access(X, axes), frozenset()), 1),
    vjp=lambda g, y, x, axis: _cumprod_vjp(g, y, x, axis),
    text=lambda node, names: f"np.cumprod({names[0]}, axis={node.params[0]})",
    sample=(case(lambda a: np.cumprod(a, axis=0) ** 2, (3, 4)), case(lambda a: np.cumprod(a) ** 2, (5,))),
    edges=(case(np.cumprod, (0,)),),
)


def _cumprod_vjp(g: Any, y: Any, x: Any, axis: int) -> Any:
    """``P[k-1] * r[k]`` with ``r[k] = g[k] + x[k+1] r[k+1]``: exact where factors are zero."""
    last = len(shape_of(x)) - 1
    order = (*[k for k in range(last + 1) if k != axis], axis)
    inverse = tuple(sorted(range(last + 1), key=order.__getitem__))
    g, y, x = [OPS["transpose"](v, axes=order) for v in (g, y, x)]
    r = reverse(recurrence(shifted(reverse(x), 0), reverse(g)))
    return OPS["transpose"](shifted(y, 1) * r, axes=inverse)


def _recurrence_value(a: Any, b: Any) -> Any:
    a, b = np.asarray(a), np.asarray(b)
    out = np.zeros_like(b)
    total = np.zeros(b.shape[:-1], b.dtype)
    for k in range(b.shape[-1]):
        total = a[..., k] * total + b[..., k]
        out[..., k] = total
    return out


def _recurrence_body(node: Node) -> Body:
    kind = node.dtype

    def total(acc: Access, axes: tuple[Axis, ...]) -> tuple[str, Any, frozenset[int]]:
        product = Apply(OPS["multiply"], (Access(0, axes), acc), kind, kind)  # type: ignore[arg-type]
        return "=", Apply(OPS["add"], (product, Access(1, axes)), kind, kind), frozenset({-2})  # type: ignore[arg-type]

    return _running_body(node, total, 0)


def _recurrence_vjp(g: Any, y: Any, a: Any, b: Any) -> tuple[Any, Any]:  # noqa: ARG001
    following = shifted(reverse(a), 0)
    r = reverse(recurrence(following, reverse(g)))
    return r * shifted(y, 0), r


recurrence = structured(
    name="recurrence", infer=lambda a, b: (b.shape, b.dtype), evaluate=_recurrence_value, body=_recurrence_body,  # noqa: ARG005
    vjp=_recurrence_vjp, sample=(case(lambda a, b: OPS["recurrence"](a, b) ** 2, (2, 4), (2, 4)),),
    edges=(case(lambda a, b: OPS["recurrence"](a, b), (0,), (0,)),),
    doc="``y[k] = a[k] * y[k-1] + b[k]`` along the last axis, from ``y[-1] = 0``.",
)


# -- NumPy's functions


def _summed_dtype(x: Any, dtype: Any) -> Any:
    """Return the dtype NumPy sums in: small integers and booleans in int64."""
    if dtype is not None:
        return np.dtype(dtype)
    kind = x.dtype
    if kind.kind in "bi" and kind.itemsize <= I64.itemsize:
        return I64
    return np.dtype(np.uint64) if kind.kind == "u" else kind


def refuse(function: str, **keywords: Any) -> None:
    """Refuse keywords of a NumPy function whose meaning would be lost."""
    for name, value in keywords.items():
        if value is not None and value is not np._NoValue:
            raise UnsupportedError(f"np.{function}(..., {name}=...) on traced arrays", instead=f"leave {name}= away")


def kept(y: Any, axes: tuple[int, ...], keepdims: Any) -> Any:
    """Give reduced axes back when ``keepdims`` asks for it."""
    return along(y, axes) if keepdims is not np._NoValue and keepdims else y


def _unset(value: Any) -> bool:
    return value is None or value is np._NoValue


def _reduce(name: str, neutral: Any, combine: Any) -> Any:
    def reduce(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True) -> Any:
        a = lift(a)
        axes = normal_axes(axis, a.ndim)
        if name in {"sum", "prod"}:
            a = a.astype(_summed_dtype(a, dtype))
        if name in {"any", "all"} and a.dtype.kind != "b":
            a = np.not_equal(a, 0)
        refuse(name, out=out)
        if where is not True and not _unset(where):
            a = np.where(where, a, np.asarray(neutral(a.dtype), a.dtype))
        if name in {"max", "min"} and _unset(initial) and any(shape_of(a)[k] == 0 for k in axes):
            raise ArgumentValueError(f"zero-size array to reduction operation np.{name}, which has no identity")
        y = kept(OPS[name](a, axes=axes), axes, keepdims)
        return y if _unset(initial) else combine(y, initial)

    return reduce


sum_answer = answers(np.sum)(_reduce("sum", lambda d: 0, np.add))  # noqa: ARG005
prod_answer = answers(np.prod)(_reduce("prod", lambda d: 1, np.multiply))  # noqa: ARG005
_max = _reduce("max", lambda d: _first("max=", d), np.maximum)
_min = _reduce("min", lambda d: _first("min=", d), np.minimum)
_any = _reduce("any", lambda d: False, np.logical_or)  # noqa: ARG005
_all = _reduce("all", lambda d: True, np.logical_and)  # noqa: ARG005


@answers(np.max, np.amax)
def max_answer(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True) -> Any:
    """As `numpy.max`."""
    return _max(a, axis, None, out, keepdims, initial, where)


@answers(np.min, np.amin)
def min_answer(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True) -> Any:
    """As `numpy.min`."""
    return _min(a, axis, None, out, keepdims, initial, where)


@answers(np.any)
def any_answer(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
    """As `numpy.any`."""
    return _any(a, axis, None, out, keepdims, None, where)


@answers(np.all)
def all_answer(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
    """As `numpy.all`."""
    return _all(a, axis, None, out, keepdims, None, where)


@answers(np.mean)
def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
    """As `numpy.mean`."""
    a = lift(a)
    kind = np.dtype(dtype) if dtype is not None else (a.dtype if a.dtype.kind == "f" else np.dtype(np.float64))
    total = sum_answer(a.astype(kind), axis, None, out, keepdims, None, where)
    if where is not True and not _unset(where):
        counted = np.broadcast_to(where, a.shape)
        return total / sum_answer(counted.astype(kind), axis, None, None, keepdims)
    return total / count(a, normal_axes(axis, a.ndim))


def count(a: Any, axes: tuple[int, ...]) -> Any:
    """Return how many elements a reduction takes: an integer or an extent."""
    number: Any = 1
    for k in axes:
        number = number * a.shape[k]
    return number


@answers(np.var)
def var(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *, where: Any = True, mean: Any = None, correction: Any = None) -> Any:
    """As `numpy.var`: the mean of squared distances from the mean."""
    refuse("var", out=out, where=None if where is True else where)
    a = lift(a)
    kind = np.dtype(dtype) if dtype is not None else (a.dtype if a.dtype.kind == "f" else np.dtype(np.float64))
    a = a.astype(kind)
    axes = normal_axes(axis, a.ndim)
    center = np.mean(a, axis=axes, keepdims=True) if _unset(mean) else mean
    deviation = a - center
    fewer_by = ddof if _unset(correction) else correction
    total = np.sum(deviation * deviation, axis=axes, keepdims=bool(keepdims) if keepdims is not np._NoValue else False)
    return total / (count(a, axes) - fewer_by)


@answers(np.std)
def std(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, *, where: Any = True, mean: Any = None, correction: Any = None) -> Any:
    """As `numpy.std`, with gradient 0 where all elements are equal."""
    return root(var(a, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction))


def root(square: Any) -> Any:
    """Take the square root of a sum of squares; its derivative is 0 at 0, as the norm's is."""
    return np.where(np.equal(square, 0), np.zeros((), square.dtype), np.sqrt(square))


def _running(name: str) -> Any:
    def running(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        refuse(name, out=out)
        a = lift(a)
        a = a.astype(_summed_dtype(a, dtype))
        if axis is None:
            a, axis = np.ravel(a), 0
        return OPS[name](a, axis=normal_axis(axis, a.ndim))

    return running


answers(np.cumsum)(_running("cumsum"))
answers(np.cumprod)(_running("cumprod"))


def _positions(name: str) -> Any:
    def position(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        refuse(name, out=out)
        a = lift(a)
        whole = axis is None
        ndim = a.ndim
        if whole:
            a, axis = np.ravel(a), 0
        k = normal_axis(axis, a.ndim)
        if shape_of(a)[k] == 0:
            raise ArgumentValueError(f"attempt to get np.{name} of an empty sequence")
        y = OPS[name](a, axis=k)
        if keepdims is np._NoValue or not keepdims:
            return y
        return along(y, tuple(range(ndim)) if whole else (k,))

    return position


answers(np.argmax)(_positions("argmax"))
answers(np.argmin)(_positions("argmin"))

__all__ = ["along", "count", "is_traced", "kept", "refuse", "root", "spread"]
