"""`Memory`: what a local array and its views share, and how it becomes traced."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.errors import MutationError, UnsupportedError
from symgrad.ops.declare import COMPILED
from symgrad.trace.constants import held
from symgrad.trace.lines import user_line
from symgrad.trace.state import current
from symgrad.trace.tracer import Tracer

if TYPE_CHECKING:
    from symgrad.trace.state import Trace

    Plain = np.ndarray[Any, Any]


class _Lent:
    """The owner of memory that NumPy is given: an array on it holds this and no other array."""

    def __init__(self, array: Plain) -> None:
        self.__array_interface__ = array.__array_interface__
        self.array = array


class Memory:
    """What a local array and its views share: the plain array, and the traced one it becomes.

    Attributes:
        array: the array that owns the memory.
        owner: the trace in which it was made; only there can it become traced.
        tracer: the traced array, once a traced value was written.
        lent: plain arrays on this memory that others got; while one of them lives, a traced write would pass it by.
    """

    __slots__ = ("array", "lent", "owner", "tracer")

    def __init__(self, array: Plain, trace: Trace) -> None:
        """Own the array."""
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
        """Turn into a traced array.

        Raises:
            MutationError: in another trace, and where somebody holds a plain array on the same memory.
            UnsupportedError: when the array is one of objects.
        """
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
