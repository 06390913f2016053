"""`LocalArray`: an array a traced function makes for itself, plain until a traced value is written into it.

NumPy cannot store a traced value, and it asks nobody before it fails to. So while a trace is active its creation
functions give these (see `creation`): they hold a plain array and behave as it does, until the first write of a
traced value; from then on they are a traced array. Every view of the array sees that write: views share its
`SharedMemory`.
"""

from __future__ import annotations

import weakref
from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from symgrad.errors import MutationError, UnsupportedError
from symgrad.ir.index import shapes
from symgrad.ir.node import Node
from symgrad.ops.arrays.views import reshape
from symgrad.ops.declare.forms import COMPILED
from symgrad.trace.constants import held
from symgrad.trace.lines import on_users_line, user_line
from symgrad.trace.nested import settled, touches
from symgrad.trace.numpy.answers import WRITERS, answered
from symgrad.trace.state import Trace, current
from symgrad.trace.tracer import Tracer

Plain = np.ndarray[Any, Any]


class _Lent:
    """The owner of memory that NumPy is given: an array on it holds this and no other array."""

    def __init__(self, array: Plain) -> None:
        self.__array_interface__ = array.__array_interface__
        self.array = array


class SharedMemory:
    """What a local array and its views share: the plain array, and the traced one it becomes.

    Attributes:
        array: the array that owns the memory.
        owner: the trace in which it was made; only there can it become traced.
        tracer: the traced array, once a traced value was written.
        lent: plain arrays on this memory that others got; while one of them lives, a traced write would pass it by.
    """

    __slots__ = ("array", "lent", "owner", "tracer")

    def __init__(self, array: Plain, trace: Trace) -> None:
        self.array, self.owner = array, weakref.ref(trace)
        self.tracer: Tracer | None = None
        self.lent: list[weakref.ref[Plain]] = []

    def lend(self, array: Plain) -> Plain:
        """Give a plain array on this memory to somebody, and remember it as long as it is used."""
        if array.dtype.hasobject:
            return array
        given = np.asarray(_Lent(array))
        self.lent = [ref for ref in self.lent if ref() is not None]
        self.lent.append(weakref.ref(given))
        return given

    def become_traced(self) -> None:
        """Turn into a traced array: in its own trace, and where nobody holds a plain array on the same memory."""
        if self.tracer is not None:
            return
        trace = current()
        if trace is None or self.owner() is not trace:
            raise MutationError(
                "a traced value is written into an array that was made before this trace began", line=user_line(),
                instead="make the array inside the traced function, with np.zeros, np.array or np.copy",
            )
        if self.array.dtype not in COMPILED:
            raise UnsupportedError(
                f"a traced value in an array of dtype {self.array.dtype}, where symgrad could not see it",
                line=user_line(), instead="an array of floats, np.array([...]) or np.stack of the values, or a list",
            )
        if any(ref() is not None for ref in self.lent):
            raise MutationError(
                "a traced value is written into an array of which a plain view is in use elsewhere: the view would not "
                "see it", line=user_line(),
                instead="views a[...], a.T, a.reshape(...) of the array itself, or a copy to write into, np.array(a)",
            )
        self.tracer = Tracer(held(trace, self.array), trace)
        self.tracer.is_array = True


class Standing:
    """What stands for an array, and is the traced or plain one that it is now: ``settle()``."""

    __slots__ = ()
    __array_priority__ = 1000
    __hash__ = None  # type: ignore[assignment]  # as of NumPy's arrays
    __class__ = np.ndarray  # type: ignore[assignment]  # what isinstance() sees

    @abstractmethod
    def settle(self) -> Any:
        """Return what the array is now: a traced array, or a plain one for reading."""

    @abstractmethod
    def written(self, *, traced: bool = False) -> Any:
        """Return it to be written into: a traced array where it is one, or where a traced value is written."""

    def shown(self) -> Any:
        """Return what is printed."""
        return self.settle()

    def __setitem__(self, index: Any, value: Any) -> None:
        index, value = settled(index), settled(value)
        self.written(traced=touches((index, value)))[index] = value

    def __repr__(self) -> str:
        return repr(self.shown())

    def __str__(self) -> str:
        return str(self.shown())

    def __format__(self, spec: str) -> str:
        return format(self.shown(), spec)

    def __reduce__(self) -> Any:
        return self.settle().__reduce__()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return call_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return call_function(func, args, kwargs)


class LocalArray(Standing):
    """A plain array, or a traced one after the first traced write; a view also knows what it views and how."""

    __slots__ = ("__weakref__", "_base", "_made", "_memory", "_plain", "_rule")

    def __init__(
        self, plain: Plain, memory: SharedMemory, base: LocalArray | None = None,
        rule: Callable[[Any], Any] | None = None,
    ) -> None:
        """Stand for `plain`, an array on the memory; `fresh` makes one that owns its memory."""
        self._plain, self._memory, self._base, self._rule = plain, memory, base, rule
        self._made: Tracer | None = None

    # -- the two states

    def begin_traced(self) -> None:
        """Become a traced array before the first traced write, if nothing is in the way of it."""
        memory = self._memory
        is_lent = any(ref() is not None for ref in memory.lent)
        if memory.owner() is current() and memory.array.dtype in COMPILED and not is_lent:
            memory.become_traced()

    def settle(self) -> Any:
        """Return what the array is now: a traced array, or a plain one for reading."""
        return self._plain if self._memory.tracer is None else self._tracer()

    def lent(self) -> Any:
        """Return what the array is now, a plain one to be kept by whoever gets it."""
        return self._memory.lend(self._plain) if self._memory.tracer is None else self._tracer()

    def traced(self) -> Tracer:
        """Return it as a traced array, to be written into."""
        self._memory.become_traced()
        return self._tracer()

    def written(self, *, traced: bool = False) -> Any:
        """Return it to be written into."""
        return self.traced() if traced or self._memory.tracer is not None else self._plain

    def _tracer(self) -> Tracer:
        if self._base is None:
            return self._memory.tracer  # type: ignore[return-value]  # asked for only after it is there
        if self._made is None:
            base = self._base._tracer()  # noqa: SLF001 - its own class
            made: Tracer = self._rule(base)  # type: ignore[misc]  # a base comes with a rule
            if made.base is base and made.node.op is reshape:  # NumPy made a view: no guess here
                made = reshape(base, shape=self.shape)
            self._made = made
        return self._made

    def _view(self, rule: Callable[[Any], Any]) -> Any:
        """Apply what may make a view: a view of this array when NumPy's result is one, a new array when not.

        The plain array stays when the array is traced: it knows the memory's layout.
        """
        result = rule(self._plain)
        if result is self._plain:
            return self
        if type(result) is np.ndarray and result.base is not None and np.may_share_memory(result, self._memory.array):
            at_home = current() is not None and self._memory.owner() is current()
            return LocalArray(result, self._memory, self, rule) if at_home else result
        if self._memory.tracer is not None:
            return np.copy(rule(self._tracer()))
        new = type(result) is np.ndarray and not np.may_share_memory(result, self._memory.array)
        return fresh(result) if new else wrapped(result)

    def in_order(self, order: Any) -> Any:
        """Lay it out in memory: itself where it lies so already, as NumPy knows, and a copy elsewhere."""
        laid = np.asarray(self._plain, order=order)
        return self if laid is self._plain else np.copy(self.settle())

    # -- reading

    @property
    def T(self) -> Any:  # noqa: N802 - NumPy's name
        """The transpose."""
        return self._view(lambda a: a.T)

    @property
    def mT(self) -> Any:  # noqa: N802 - NumPy's name
        """The transpose of the last two axes."""
        return self._view(lambda a: a.mT)

    @property
    def flat(self) -> Any:
        """Its elements in C order, to read and to write."""
        return Flat(self)

    @flat.setter
    def flat(self, value: Any) -> None:
        """Write the elements in C order, the values again and again."""
        self._set("flat", value)

    @property
    def real(self) -> Any:
        """Itself: it has no imaginary part."""
        return self if self.dtype.kind in "biuf" else self.settle().real

    @real.setter
    def real(self, value: Any) -> None:
        """Write the elements."""
        self[...] = value

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_") or name in {"flat", "real"}:
            object.__setattr__(self, name, value)
        else:
            self._set(name, value)

    def _set(self, name: str, value: Any) -> None:
        if name not in {"flat", "shape", "dtype", "imag"}:
            raise AttributeError(f"attribute {name!r} of 'numpy.ndarray' objects is not writable")
        value = settled(value)
        setattr(self.written(traced=touches(value) or name != "flat"), name, value)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """Be a plain array to whoever asks for one; a traced one refuses."""
        value = self.settle()
        if type(value) is Tracer:
            return value.__array__(dtype, copy=copy)
        if copy or (dtype is not None and np.dtype(dtype) != value.dtype):
            return np.array(value, dtype)
        return self._memory.lend(value)

    def __getitem__(self, index: Any) -> Any:
        index = settled(index)
        return self.looked_at()[index] if touches(index) else self._view(lambda a: a[index])

    def looked_at(self) -> Tracer:
        """Return it as a traced array for what may give a view; a plain array stays plain until a write into that."""
        trace = current()
        if trace is None:
            raise UnsupportedError("an array made in a trace is used with a traced one outside", line=user_line())
        if self._memory.tracer is not None:
            return self._tracer()
        content: Any = Content(self, trace)
        return Tracer(content.node, trace, base=content, view=lambda node: node)

    def __iter__(self) -> Iterator[Any]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[k] for k in range(len(self)))

    def __len__(self) -> int:
        return len(self._plain)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"'LocalArray' object has no attribute {name!r}")
        value = self.settle()
        found = getattr(value, name)
        if not callable(found):
            return found if type(value) is Tracer or isinstance(found, (int, tuple)) else getattr(self.lent(), name)
        return partial(self._method, name)

    def _method(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Call a method of an array on what it is now."""
        args, kwargs = settled(args), settled(kwargs)
        if touches(args) or touches(kwargs):
            return getattr(self.traced() if name in _WRITERS else self.looked_at(), name)(*args, **kwargs)
        if name in _VIEW_METHODS:
            return self._view(lambda a: getattr(a, name)(*args, **kwargs))
        return wrapped(getattr(self.settle() if name in _WRITERS else self.lent(), name)(*args, **kwargs))

    def __copy__(self, memo: Any = None) -> Any:
        return wrapped(np.array(self._plain)) if self._memory.tracer is None else np.copy(self._tracer())

    __deepcopy__ = __copy__

    def __array_function__(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        place = _VIEWS.get(func)
        if place is not None and len(args) > place and type(args[place]) is LocalArray:
            before, rest, keywords = args[:place], settled(args[place + 1 :]), settled(kwargs)
            return args[place]._view(lambda a: func(*before, a, *rest, **keywords))  # noqa: SLF001 - its own class
        return super().__array_function__(func, types, args, kwargs)


for _name in ("shape", "dtype", "ndim", "size"):
    setattr(LocalArray, _name, property(lambda self, name=_name: getattr(self._plain, name)))  # type: ignore[misc]


class Content:
    """What a local array holds, for traced views of it to see: a constant while it is plain, written at any time."""

    base, origin = None, ""

    def __init__(self, array: LocalArray, trace: Trace) -> None:
        self.array, self._trace = array, trace
        self._version = 0
        self._node: Node | None = None

    @property
    def node(self) -> Node:
        """The node of what it holds now."""
        value = self.array.settle()
        node = value.node if type(value) is Tracer else held(self._trace, value)
        if node is not self._node:
            self._node = node
            self._version += 1
        return node

    def traced(self) -> Tracer:
        """Return the array as a traced one, to be written into."""
        return self.array.traced()


class Flat:
    """``x.flat``: the elements in C order, as an array that writes through."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    def settle(self) -> Any:
        """Return a copy of the elements."""
        return self[:]

    def __getitem__(self, index: Any) -> Any:
        index = settled(index)
        if type(self.array) is LocalArray and touches(index):
            return np.ravel(self.array)[index]
        found = _in_a_row(settled(self.array))[index]
        return np.copy(found) if type(found) is Tracer else wrapped(found)

    def __setitem__(self, index: Any, value: Any) -> None:
        index, value = settled(index), settled(value)
        x = self.array.written(traced=touches((index, value))) if type(self.array) is LocalArray else self.array
        elements = _in_a_row(x)
        if type(elements) is Tracer and np.ndim(value) and np.shape(value) != elements[index].shape:
            raise MutationError(
                f"x.flat[...] of {elements[index].shape} = an array of {np.shape(value)}, which NumPy repeats or cuts",
                line=user_line(), instead="an array of the same shape, or one number",
            )
        elements[index] = value

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def __len__(self) -> int:
        count: int = self.array.size.__index__()
        return count


def _in_a_row(x: Any) -> Any:
    return reshape(x, shape=(shapes.size(x.node.shape),)) if type(x) is Tracer else x.flat


_VIEW_METHODS = frozenset({"reshape", "ravel", "transpose", "swapaxes", "squeeze", "diagonal"})
_WRITERS = frozenset({"fill", "put", "sort", "partition", "itemset", "resize", "setfield", "byteswap"})
_VIEWS: dict[Any, int] = dict.fromkeys((
    np.reshape, np.ravel, np.transpose, np.swapaxes, np.moveaxis, np.rollaxis, np.expand_dims, np.squeeze, np.flip,
    np.fliplr, np.flipud, np.rot90, np.diagonal, np.matrix_transpose, np.broadcast_to,
    np.lib.stride_tricks.sliding_window_view,
), 0) | {np.einsum: 1}
"""Functions that may give a view, and the place of the array among their arguments."""


def fresh(array: Any) -> Any:
    """Make a local array of a new plain one that nobody else knows; leave what symgrad could not compile."""
    trace = current()
    if trace is None or type(array) is not np.ndarray or not (array.dtype in COMPILED or array.dtype == object):
        return array
    if array.base is not None or not array.flags.writeable:
        array = array.copy()
    return LocalArray(array, SharedMemory(array, trace))


def wrapped(result: Any) -> Any:
    """Make local arrays of the new arrays in a result; what shares memory with another array stays plain."""
    if type(result) is np.ndarray:
        return fresh(result) if result.base is None and result.flags.writeable else result
    return type(result)([wrapped(item) for item in result]) if type(result) in {tuple, list} else result


def call_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a ufunc that has local arrays among its inputs or in `out=`."""
    targets = kwargs.pop("out", None)
    given, kwargs = settled(inputs), settled(kwargs)
    if targets is not None:
        traced = touches(given) or touches(kwargs)
        kwargs["out"] = tuple([t.traced() if traced and type(t) is LocalArray else settled(t) for t in targets])
    if method == "at" and type(inputs[0]) is LocalArray and touches(given):
        given = (inputs[0].traced(), *given[1:])
    plain = not (touches(given) or touches(kwargs))
    function = getattr(ufunc, method)
    result = on_users_line(function, *given, **kwargs) if plain else function(*given, **kwargs)
    if targets is not None:
        made = result if type(result) is tuple else (result,)
        found = [wrapped(one) if to is None else to for to, one in zip(targets, made, strict=True)]
        return found[0] if len(found) == 1 else tuple(found)
    return wrapped(result)


def call_function(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a NumPy function that has local arrays among its arguments."""
    given, keywords = settled(args), settled(kwargs)
    if touches(given) or touches(keywords):
        if func in WRITERS and args and type(args[0]) is LocalArray:
            given = (args[0].traced(), *given[1:])
        out = kwargs.get("out")
        if type(out) is LocalArray:
            answered(func, given, {**keywords, "out": out.traced()})
            return out
        return answered(func, given, keywords)
    result = on_users_line(func, *lent(args), **lent(kwargs))
    for value in (*args, *kwargs.values()) if type(result) is np.ndarray else ():
        if type(value) is LocalArray:
            a, b = result, value._plain  # noqa: SLF001 - its own class; one array, if its elements are at the same places
            begins = a.__array_interface__["data"] == b.__array_interface__["data"]
            if begins and (a.shape, a.strides, a.dtype) == (b.shape, b.strides, b.dtype):
                return value
    return wrapped(result)


def lent(value: Any) -> Any:
    """Replace local arrays by plain ones, inside of lists, tuples and dicts, for a function that may keep them."""
    return settled(value, "lent")
