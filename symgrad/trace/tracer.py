"""`Tracer`: what stands for an array while a user's function runs once to be recorded."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from symgrad.errors import (
    ArgumentError,
    ArgumentValueError,
    AxisError,
    LeakedTracerError,
    MutationError,
    SymgradError,
    UnsupportedError,
)
from symgrad.ir import shapes
from symgrad.ir.node import Node
from symgrad.ir.op import Elementwise
from symgrad.ops import leaves
from symgrad.ops.declare import ANSWERS, OPS, answer_scipy, loop_dtypes
from symgrad.trace.constants import compiled, constant, number, plain, refuse_others
from symgrad.trace.lines import is_user_code, located, user_line
from symgrad.trace.nested import elements, settled
from symgrad.trace.refusals import Refusals
from symgrad.trace.state import active

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from symgrad.ir.op import Op
    from symgrad.trace.state import Trace


class Tracer(Refusals):
    """An array of a traced function: it has a shape and a dtype, and no values yet.

    NumPy's functions, ufuncs, operators, methods and indexing work on it and record what they would compute.

    Attributes:
        owner: the trace it belongs to.
        weak: ``int`` or ``float`` for a number made of extents alone, which promotes as Python's numbers do.
    """

    __slots__ = ("_node", "_seen", "_version", "_view", "base", "is_array", "origin", "owner", "weak")
    __array_priority__ = 1000

    def __init__(
        self, node: Node, trace: Trace, *, weak: type | None = None, base: Any = None,
        view: Callable[[Node], Node] | None = None, origin: str = "",
    ) -> None:
        """Wrap a node; a view also knows what it views (a tracer, or a local array's content) and how.

        `origin` names the argument it is.
        """
        self._node, self.owner, self.weak, self.base, self._view, self.origin = node, trace, weak, base, view, origin
        self._version = 0
        self.is_array = False
        self._seen = base._version if base is not None else 0  # noqa: SLF001 - a tracer's own class

    @property
    def is_number(self) -> bool:
        """Whether NumPy would have a number here: what has no axes, unless it is a view or was made as an array.

        A number cannot be written into, has no views, and ``x += 1`` gives the name another one.
        """
        return not self._node.shape and self.base is None and not self.is_array

    @property
    def node(self) -> Node:
        """The node of its present value; a view looks whether its base was written since."""
        base = self.base
        if base is not None:
            value = base.node
            if base._version != self._seen:  # noqa: SLF001 - a tracer's own class
                self._seen = base._version  # noqa: SLF001
                self._node = self._view(value)  # type: ignore[misc]  # a base comes with a view
                self._version += 1
        return self._node

    @property
    def shape(self) -> tuple[Any, ...]:
        """Extents: Python integers, or `Extent` objects where the extent is not known."""
        shape = self._node.shape
        if shapes.is_static(shape):
            return shape
        from symgrad.trace.extent import Extent

        return tuple([dim if type(dim) is int else Extent(dim, self.owner) for dim in shape])

    @shape.setter
    def shape(self, shape: Any) -> NoReturn:
        """Refuse to be given another shape in place."""
        raise MutationError(
            f"x.shape = {shape} of a traced array, which has its shape for good", line=user_line(),
            instead="x = x.reshape(...)",
        )

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype of the value."""
        return self._node.dtype

    @dtype.setter
    def dtype(self, dtype: Any) -> NoReturn:
        """Refuse to be given another dtype in place."""
        raise MutationError(
            f"x.dtype = {dtype!r} of a traced array, which has its dtype for good", line=user_line(),
            instead="x = x.astype(...)",
        )

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._node.shape)

    @property
    def size(self) -> Any:
        """The number of elements."""
        total: Any = 1
        for dim in self.shape:
            total = total * dim
        return total

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self._node.dtype.itemsize

    @property
    def T(self) -> Any:  # noqa: N802 - NumPy's name
        """The transpose."""
        return np.transpose(self)

    @property
    def mT(self) -> Any:  # noqa: N802 - NumPy's name
        """The transpose of the last two axes."""
        return np.swapaxes(self, -1, -2)

    @property
    def real(self) -> Any:
        """Itself: symgrad's values are real."""
        return self

    @real.setter
    def real(self, value: Any) -> None:
        """Write the elements."""
        self[...] = value

    @property
    def imag(self) -> Any:
        """Zeros, which cannot be written: symgrad's values are real."""
        zeros: Any = np.zeros_like(self)
        return zeros if self.is_number else np.broadcast_to(zeros, self.shape)

    @imag.setter
    def imag(self, value: Any) -> NoReturn:  # noqa: ARG002 - NumPy refuses any
        """Refuse, as NumPy does."""
        raise ArgumentError("array does not have imaginary part to set", line=user_line())

    @property
    def flat(self) -> Any:
        """Its elements in C order, to read and to write."""
        from symgrad.trace.local import Flat

        return Flat(self)

    @flat.setter
    def flat(self, value: Any) -> None:
        """Write the elements in C order, the values again and again."""
        from symgrad.trace.writers import fill_flat

        fill_flat(self, value)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """What ``isinstance`` sees: NumPy's arrays, or the number it would be in NumPy; `type` sees a Tracer."""
        if self.is_number:
            return self.weak or self._node.dtype.type
        return np.ndarray

    # -- recording

    def __symgrad_bind__(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tracer:
        """Apply an op with this tracer's trace."""
        return record(self.owner, op, inputs, params)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Answer a ufunc or one of its methods."""
        from symgrad.trace.protocols import ufunc_method

        if method == "__call__" and not kwargs and not any(hasattr(type(i), "unknown") for i in inputs):
            return call_ufunc(self.owner, ufunc, inputs)
        return ufunc_method(self, ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Answer a NumPy function."""
        if hasattr(type(kwargs.get("out")), "traced"):
            return NotImplemented  # it is for the local array that is written
        result = answered(func, settled(args), settled(kwargs))
        if func in GIVES_ARRAYS and is_user_code(sys._getframe(1).f_code.co_filename):  # noqa: SLF001 - who called it
            return as_array(result)
        return result

    def __getitem__(self, index: Any) -> Any:
        """Index as NumPy does."""
        from symgrad.trace.indexing import getitem

        return getitem(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        """Write where NumPy would write, when symgrad can follow it."""
        from symgrad.trace.mutation import setitem

        setitem(self, index, value)

    def __contains__(self, item: Any) -> bool:
        """Whether an element is equal, a condition."""
        return bool(np.any(np.equal(self, item)))

    def __iter__(self) -> Iterator[Any]:
        """Go along the first axis."""
        if not self.ndim:
            raise ArgumentError("iteration over a 0-d array", line=user_line())
        return elements(self)

    def __len__(self) -> int:
        """Return the first extent, which must be known."""
        if not self.ndim:
            raise ArgumentError("len() of unsized object: a traced array without axes", line=user_line())
        length = self.shape[0]
        if type(length) is not int:
            raise length.refuse("len()", "x.shape[0] or x.size, which arithmetic takes as they are; or ")
        return length

    def __copy__(self) -> Tracer:
        """Copy: a new array of the same value; a number is itself."""
        return self if self.is_number else as_array(Tracer(as_node(self.owner, self), self.owner))

    def __deepcopy__(self, memo: Any) -> Tracer:
        """Copy: a new array of the same value."""
        return self.__copy__()


def answered(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call what answers a NumPy function; its errors get the user's line."""
    if func in active.functions:
        return active.functions[func](*args, **kwargs)
    answer = ANSWERS.get(func)
    if answer is None:
        name = f"{getattr(func, '__module__', 'numpy')}.{getattr(func, '__name__', func)}"
        raise UnsupportedError(
            f"{name} has no answer for traced arrays", line=user_line(),
            instead="x[index] = value, for writing into an array made inside of the function" if func in WRITERS else
            "the functions that have one are listed by `symgrad ops`; compute this outside of the traced "
            "function, or write it with those",
        )
    refuse_others(args)
    refuse_others(kwargs.values())
    if kwargs.get("order", "C") not in _ORDERS:
        raise ArgumentValueError(
            f"order must be one of 'C', 'F', 'A', or 'K' (got {kwargs['order']!r})", line=user_line(),
        )
    out = kwargs.pop("out", None)
    try:
        result = answer(*args, **kwargs)
    except SymgradError as error:
        raise located(error) from None
    except np.exceptions.AxisError as error:
        raise AxisError(str(error), line=user_line()) from None
    if out is None:
        return result
    from symgrad.trace.writers import into

    return into(out, result, func.__name__)


def as_array(x: Any) -> Any:
    """Make an array of a traced number; of each in a tuple."""
    if type(x) is tuple:
        return tuple([as_array(item) for item in x])
    if type(x) is not Tracer or not x.is_number:
        return x
    made = Tracer(x.node, x.owner)
    made.is_array = True
    return made


_ORDERS = frozenset({None, *"CFAKcfak"})

GIVES_ARRAYS = frozenset({
    np.copy, np.block, np.where, np.full_like, np.zeros_like, np.ones_like, np.empty_like, np.broadcast_to,
    np.real_if_close, np.expand_dims, np.roll, np.tile, np.select, np.pad, np.cov, np.broadcast_arrays,
})
"""Functions that make an array without axes of a number, where others make a number of an array without axes."""

WRITERS = frozenset({np.copyto, np.put, np.place, np.putmask, np.put_along_axis, np.fill_diagonal})


# -- making nodes


def record(trace: Trace, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tracer:
    """Make the node of an op on tracers, arrays and numbers."""
    if active.overrides:
        op = in_force(op)
    nodes = tuple([as_node(trace, value) for value in inputs])
    ordered = tuple([params[name] for name in op.params])
    shape, dtype = op.infer(*nodes, **params)
    graph = trace.graph
    line = graph.line or user_line()
    node = graph.node(op, nodes, ordered, shape, dtype, line)
    if getattr(op, "view", False) and isinstance(inputs[0], Tracer) and not inputs[0].is_number:
        return viewing(inputs[0], node)
    return Tracer(node, trace)


def viewing(base: Tracer, made: Node) -> Tracer:
    """Return what was made of an array as a view of it: made again, by the same indices, when the array was written."""

    def view(value: Node) -> Node:
        graph = base.owner.graph
        return graph.node(made.op, (value, *made.inputs[1:]), made.params, made.shape, made.dtype, made.line)

    return Tracer(made, base.owner, base=base, view=view)


def as_node(trace: Trace, value: Any) -> Node:
    """Return the node of a tracer of this trace, or make a constant's."""
    if type(value) is Tracer:
        if value.owner is not trace or not trace.alive or trace.thread != threading.get_ident():
            raise leaked(value)
        return value.node
    if isinstance(value, Node):
        return value
    value = numeric(value)
    return as_node(trace, value) if type(value) is Tracer else constant(trace, value)


def leaked(value: Tracer) -> LeakedTracerError:
    """Compose the error for a tracer that is used outside of its trace."""
    made = value._node.line  # noqa: SLF001 - works on dead tracers
    return LeakedTracerError(
        f"a traced array {value._brief()} of {value.owner.function}() is used outside of its trace"  # noqa: SLF001
        + (f"; it was made at {made.file}:{made.number}" if made else ""),
        line=user_line(),
        instead="return it from the function (has_aux=True for extra results) instead of storing it in a global, "
        "an attribute or a list, or handing it to another thread",
    )


def numeric(value: Any) -> Any:
    """Return a local array as it is now, and an extent as a traced number."""
    tracer = getattr(type(value), "tracer", None)
    return settled(value) if tracer is None else tracer(value)


_SCALARS = {bool: bool, int: int, float: float}


def kind_of(value: Any) -> Any:
    """Return what promotion sees: a dtype, or Python's int and float, which are weak."""
    if type(value) is Tracer:
        return value.weak or value._node.dtype  # noqa: SLF001 - dtype never changes with writes
    found = _SCALARS.get(type(value))
    if found is not None:
        return np.dtype(bool) if found is bool else found
    if issubclass(type(value), (np.ndarray, np.generic)):
        return compiled(value.dtype)
    value = numeric(value)
    return kind_of(value) if type(value) is Tracer else compiled(plain(value).dtype)


def call_ufunc(trace: Trace, ufunc: np.ufunc, inputs: tuple[Any, ...]) -> Any:
    """Record a ufunc: find its loop as NumPy would, cast the inputs to it, make the node."""
    op = ANSWERS.get(ufunc)
    if op is None and answer_scipy():
        op = ANSWERS.get(ufunc)
    if not isinstance(op, Elementwise):
        if op is not None:
            return answered(ufunc, tuple([settled(value) for value in inputs]), {})
        raise UnsupportedError(
            f"the ufunc {ufunc.__name__} has no answer for traced arrays", line=user_line(),
            instead="the functions that have one are listed by `symgrad ops`",
        )
    inputs = tuple([lift(value) for value in inputs])
    if op.exact:
        inputs = comparable(inputs)
    if ufunc is np.power and not (active.overrides and in_force(op) is not op):
        if issubclass(type(inputs[1]), (int, np.integer, np.bool)) and (kind := power_dtype(*inputs)) in _SIGNED:
            return OPS["power_int"](strong(trace, inputs[0], kind), exponent=int(np.asarray(inputs[1], kind)))
        if type(inputs[1]) in _HALVES and inputs[1] == HALF and not getattr(inputs[0], "is_number", True):
            return call_ufunc(trace, np.sqrt, inputs[:1])  # as NumPy does for arrays, and not for numbers
    try:
        loop = loop_dtypes(ufunc, tuple([kind_of(value) for value in inputs]))
        nodes = tuple([operand(trace, value, dtype) for value, dtype in zip(inputs, loop, strict=False)])
        shape = shapes.broadcast(*[node.shape for node in nodes])
    except SymgradError as error:
        raise located(error) from None
    graph = trace.graph
    if active.overrides:
        op = in_force(op)
    return Tracer(graph.node(op, nodes, (), shape, loop[len(nodes)], graph.line or user_line()), trace)


def in_force(op: Op) -> Op:
    """Return the op with the rule that overrides its own here."""
    from symgrad.trace.overrides import overridden

    found: Op = overridden(op)
    return found


HALF = 0.5
_HALVES = frozenset({float, np.float64, np.float32})
I64 = np.dtype(np.int64)
_SIGNED = frozenset([np.dtype(t) for t in "bhilq"])


def power_dtype(x: Any, exponent: Any) -> np.dtype[Any]:
    """Return the dtype of a known integer power, by multiplication; NumPy refuses a negative one too."""
    kinds = [kind_of(value) for value in (x, exponent)]
    return I64 if kinds == [int, int] else np.power.resolve_dtypes((*kinds, None))[2]


def strong(trace: Trace, value: Any, dtype: np.dtype[Any]) -> Tracer:
    """Return a value as an array of a dtype."""
    return Tracer(operand(trace, value, dtype), trace)


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


def lift(value: Any) -> Any:
    """Turn a list into an array, traced when it holds a traced value; leave everything else alone."""
    if issubclass(type(value), (list, tuple)):
        from symgrad.ops.joining import lift as joined

        return joined(value)
    return value


def operand(trace: Trace, value: Any, dtype: np.dtype[Any]) -> Node:
    """Return a ufunc's operand as a node of the loop's dtype."""
    if type(value) is Tracer:
        node = as_node(trace, value)
        return node if node.dtype == dtype else cast(trace, node, dtype)
    if type(value) in _SCALARS:
        return number(trace, value, dtype)
    node = as_node(trace, value)
    if node.dtype == dtype:
        return node
    if node.op is leaves.constant:
        return constant(trace, node.params[0].array, dtype)
    return cast(trace, node, dtype)


def cast(trace: Trace, node: Node, dtype: np.dtype[Any]) -> Node:
    """Convert a node to another dtype."""
    return trace.graph.node(OPS["astype"], (node,), (dtype,), node.shape, dtype, trace.graph.line or user_line())
