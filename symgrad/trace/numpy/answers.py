"""What NumPy's functions and ufuncs mean for traced arrays: find the answer, give its errors the user's line."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import (
    NEGATIVE_POWER,
    ArgumentValueError,
    AxisError,
    ConcretizationError,
    ShapeError,
    SymgradError,
    UnsupportedError,
    heard,
)
from symgrad.ir.index import shapes
from symgrad.ir.op import Elementwise
from symgrad.ops.control import natural
from symgrad.ops.declare.forms import ANSWERS, INT, SCIPYS, answer_scipy, loop_dtypes
from symgrad.ops.elementwise.arithmetic import power_int
from symgrad.trace.constants import refuse_others
from symgrad.trace.inplace.views import into
from symgrad.trace.lines import located, user_line
from symgrad.trace.nested import settled
from symgrad.trace.numpy.selected import COUNTS, SELECTIONS, STACKS, Selected
from symgrad.trace.remedies import OTHERWISE, asked_by, module_of, public_name, remedy, unanswered
from symgrad.trace.state import Trace, active, unwatched
from symgrad.trace.tracer import Tracer, in_force, kind_of, lift, numeric, operand

_ORDERS = frozenset("CFAKcfak")

GIVES_ARRAYS = frozenset({
    np.copy, np.block, np.where, np.full_like, np.zeros_like, np.ones_like, np.empty_like, np.broadcast_to,
    np.real_if_close, np.expand_dims, np.roll, np.tile, np.select, np.pad, np.cov, np.broadcast_arrays,
    np.lib.stride_tricks.sliding_window_view,
})
"""Functions that make an array without axes of a number, where others make a number of an array without axes."""

WRITERS = frozenset({np.copyto, np.put, np.place, np.putmask, np.put_along_axis, np.fill_diagonal})


def answered(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call what answers a NumPy function; its errors get the user's line."""
    if func in active.functions:
        return active.functions[func](*args, **kwargs)
    answer = ANSWERS.get(func) or SCIPYS.get(func)
    if answer is None:
        asked, outer = asked_by()
        name = asked.removesuffix("(...)") if outer == func else public_name(func)
        within = module_of(outer).startswith(("numpy", "scipy")) and asked != f"{name}(...)"
        raise UnsupportedError(
            f"{f'{asked}: ' * within}{unanswered(name, func)}", line=user_line(),
            instead="x[index] = value, for writing into an array made inside of the function" if func in WRITERS else
            (OTHERWISE.get(getattr(outer, "__name__", "")) or OTHERWISE.get(func.__name__) or remedy(outer))
            if within else remedy(func),
        )
    for value in (*args, *kwargs.values(), *(args[0] if func in STACKS and type(args[0]) in {list, tuple} else ())):
        if type(value) in SELECTIONS:
            return value.call(func, args, kwargs)
    refuse_others(args)
    refuse_others(kwargs.values())
    if kwargs.get("order", "C") is None:
        kwargs = {name: value for name, value in kwargs.items() if name != "order"}
    elif kwargs.get("order", "C") not in _ORDERS:
        raise ArgumentValueError(
            f"order must be one of 'C', 'F', 'A', or 'K' (got {kwargs['order']!r})", line=user_line(),
        )
    out = kwargs.pop("out", None)
    before = len(heard.refusals or ())
    try:
        try:
            result = answer(*args, **kwargs)
        except SymgradError as error:
            sized = as_sizes((args, kwargs))  # as np.repeat(x, n), where n is as it is in this call
            if sized is None:
                raise
            try:
                result = answer(*sized[0], **sized[1])
            except SymgradError:
                raise error from None
            del (heard.refusals or [])[before:]
    except SymgradError as error:
        raise located(error) from None
    except np.exceptions.AxisError as error:
        raise AxisError(str(error), line=user_line()) from None
    for one in result if type(result) is tuple else (result,):
        if type(one) is Selected and func in COUNTS:
            one.maker = func
    if out is None:
        return result
    return into(out, result, public_name(func).replace("numpy.", "np.", 1))


def as_sizes(given: Any) -> Any:
    """Return arguments with their traced integers as they are in this call, guarded; None where there are none."""
    found = False

    def known(value: Any) -> Any:
        nonlocal found
        if type(value) in {tuple, list}:
            return type(value)(map(known, value))
        if type(value) is dict:
            return {name: known(one) for name, one in value.items()}
        if type(value) is not Tracer or not value.is_number or value.dtype.kind not in "iu":
            return value
        found = True
        return value.as_index()

    try:
        sized = known(given)
    except ConcretizationError:  # in sg.emit and the like there are no values
        return None
    return sized if found else None


@unwatched
def call_ufunc(trace: Trace, ufunc: np.ufunc, inputs: tuple[Any, ...]) -> Any:
    """Record a ufunc: find its loop as NumPy would, cast the inputs to it, make the node."""
    op = ANSWERS.get(ufunc)
    if op is None:
        answer_scipy()
        op = ANSWERS.get(ufunc) or SCIPYS.get(ufunc)
    if not isinstance(op, Elementwise):
        if op is not None:
            return answered(ufunc, tuple([settled(value) for value in inputs]), {})
        raise UnsupportedError(
            unanswered(f"the ufunc {ufunc.__name__}", ufunc), line=user_line(),
            instead=remedy(ufunc),
        )
    inputs = tuple([value if type(value) is Tracer else lift(value) for value in inputs])
    if op.exact:
        inputs = comparable(inputs)
    if ufunc is np.power and not (active.overrides and in_force(op) is not op):
        if issubclass(type(inputs[1]), (int, np.integer, np.bool)):  # by multiplication; NumPy refuses a negative one
            kinds = [kind_of(value) for value in inputs]
            kind = INT if kinds == [int, int] else np.power.resolve_dtypes((*kinds, None))[2]
            if kind in _SIGNED:
                base = Tracer(operand(trace, inputs[0], kind), trace)
                return power_int(base, exponent=int(np.asarray(inputs[1], kind)))
        if type(inputs[1]) in _HALVES and inputs[1] == HALF and not getattr(inputs[0], "is_number", True):
            return call_ufunc(trace, np.sqrt, inputs[:1])  # as NumPy does for arrays, and not for numbers
    try:
        loop = loop_dtypes(ufunc, tuple([kind_of(value) for value in inputs]))
        if ufunc is np.power and loop[2] in _SIGNED:
            inputs = inputs[0], _exponent(inputs[1])
        nodes = tuple([operand(trace, value, dtype) for value, dtype in zip(inputs, loop, strict=False)])
        try:
            shape = shapes.broadcast(*[node.shape for node in nodes])
        except ShapeError:
            agreed = trace.agreed(nodes)
            if agreed is None:
                raise
            nodes, shape = agreed, shapes.broadcast(*[node.shape for node in agreed])
    except SymgradError as error:
        raise located(error) from None
    graph = trace.graph
    if active.overrides:
        op = in_force(op)
    return Tracer(graph.node(op, nodes, (), shape, loop[len(nodes)], graph.line or user_line()), trace)


def _exponent(value: Any) -> Any:
    """Return an integer's exponent, which is looked at in each call: a negative one is refused, as NumPy does."""
    if getattr(kind_of(value), "kind", "i") != "i":  # as int is a kind of its own
        return value
    if type(value) is Tracer:
        return np.where(natural(np.greater_equal(value, 0)), value, 0)
    if np.any(np.less(value, 0)):
        raise ArgumentValueError(NEGATIVE_POWER, instead="x.astype(np.float64), the base")
    return value


HALF = 0.5
_HALVES = frozenset({float, np.float64, np.float32})
_SIGNED = frozenset([np.dtype(t) for t in "bhilq"])


def comparable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Give Python's integers a dtype that holds them, where that of the other integers may not.

    One beyond 64 bits is infinite beside any that is not.
    """
    kinds = [kind_of(value) for value in inputs]
    if int not in kinds or not all(kind is int or getattr(kind, "kind", "") in {"i", "u"} for kind in kinds):
        return inputs
    known = [np.iinfo(kind) for kind in kinds if kind is not int]
    found = []
    for value, kind in zip(inputs, kinds, strict=True):
        if kind is not int or not known:
            found.append(value)
        elif type(value) is not int:
            number = numeric(value)
            found.append(Tracer(number.node, number.owner))
        elif known[0].min <= value <= known[0].max:
            found.append(value)
        elif -(2**63) <= value < 2**64:
            found.append(np.int64(value) if value < 2**63 else np.uint64(value))
        else:
            found.append(np.copysign(np.inf, value))
    return tuple(found)
