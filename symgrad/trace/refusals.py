"""What a traced array refuses to be: a condition, a number, a key, a plain array; each refusal with the user's line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from symgrad.errors import ArgumentError, ConcretizationError, LeakedTracerError, UnsupportedError
from symgrad.trace.source.lines import is_user_code, user_line

if TYPE_CHECKING:
    from symgrad.ir.node import Node
    from symgrad.trace.state import Trace


class NoSuchAttribute(UnsupportedError, AttributeError):  # noqa: N818 - stands beside AttributeError
    """An attribute of NumPy's arrays that traced ones do not have."""


_ADVICE = {
    "sort": "np.sort(x), which returns a sorted copy", "partition": "np.sort(x)", "put": "x[index] = value",
    "resize": "np.reshape or np.concatenate", "itemset": "x[index] = value", "tobytes": "returning the array",
    "tofile": "returning the array", "data": "returning the array", "ctypes": "returning the array",
    "view": "x.reshape(...) for another shape, x.astype(...) for another dtype",
    "strides": "np.reshape, np.transpose, slices",
    "compress": "np.where(mask, x, 0)", "choose": "np.where(condition, a, b)",
}


class Refusals:
    """The part of a traced array that says no; where NumPy would need values, there are none."""

    __slots__ = ()

    _node: Node
    owner: Trace

    def _brief(self) -> str:
        return f"{self._node.dtype.name}[{','.join(map(str, self._node.shape))}]"

    def _one(self, kinds: str = "") -> bool:
        """Whether NumPy would have one number here, of one of these kinds: an array of several raises there."""
        return all(dim == 1 for dim in self._node.shape) and (not kinds or self._node.dtype.kind in kinds)

    def _refuse(self, what: str, instead: str, *, numpy: bool = True) -> ConcretizationError:
        """Compose a refusal; `numpy` tells whether NumPy would give an answer."""
        if not self.owner.alive:
            raise leaked(self)
        return ConcretizationError(
            f"{what} needs the value of a traced array {self._brief()}, which is not known while "
            f"{self.owner.function}() is traced",
            line=user_line(), instead=instead, numpy_too=not numpy,
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        """Refuse to become a plain array."""
        raise self._refuse(
            "a plain NumPy array",
            "array @ x, np.dot(array, x), np.take(array, x) in place of a plain array's own methods, array.dot(x); "
            "np.* functions of traced arrays; arrays built inside the function, by np.zeros(...), np.array([...]), "
            "np.stack or np.where, written as np.NAME where they are called, not imported by name before; "
            "np.take(array, i) for a plain array at a traced index",
        )

    def __bool__(self) -> NoReturn:
        asking = sys._getframe(1).f_code  # noqa: SLF001 - who asks
        if asking.co_filename.endswith("_methods.py") and not is_user_code(asking.co_filename):
            name = asking.co_name.lstrip("_")
            raise self._refuse(
                f"the method array.{name}(...) of a plain array, with a traced where=,",
                f"np.{name}(array, ...), the function, which is traced", numpy=self._one(),
            )
        raise self._refuse(
            "a condition (if, while, and, or, not, assert, in, min, max, sorted)",
            "np.where(condition, a, b) for a choice by values, np.maximum(a, b) for max, "
            "static_argnums=/static_argnames= for an argument that is a setting", numpy=self._one(),
        )

    def __index__(self) -> NoReturn:
        raise self._refuse(
            "range(), an index of a list or a plain array, or a shape",
            "np.take(array, i) or np.take(np.stack(list), i) for an index, "
            "static_argnums= for an argument that is a setting", numpy=not self._node.shape and self._one("iub"),
        )

    def __hash__(self) -> int:
        raise self._refuse(
            "hash() (a dict's key, a member of a set, functools.cache)", "a key that is a plain number or string",
            numpy=not self._node.shape,
        )

    def __round__(self, digits: int | None = None) -> Any:
        """Round to digits; without them Python's round gives an integer, which is refused."""
        kind: type = self.__class__  # what has no axes may be a number, and says so
        if issubclass(kind, np.ndarray):
            raise ArgumentError(
                "type numpy.ndarray doesn't define __round__ method", line=user_line(), instead="np.round(x, digits)",
            )
        if digits is None:
            raise self._refuse("round() to an integer", "np.round(x)", numpy=self._one())
        return np.round(self, digits)

    def item(self, *index: Any) -> NoReturn:
        """Refuse to be one number."""
        raise self._refuse(
            "item()", "the traced array itself; index it to get an element", numpy=bool(index) or self._one(),
        )

    def tolist(self) -> NoReturn:
        """Refuse to be a list of numbers."""
        raise self._refuse("tolist()", "list(x), which gives traced elements")

    def __format__(self, spec: str) -> str:
        if spec:  # whoever catches it has lost a text, and no value
            raise self._refuse(f"the format {spec!r}", "printing outside of the traced function", numpy=False)
        return repr(self)

    def __repr__(self) -> str:
        return f"Tracer({self._brief()})"

    def __reduce__(self) -> NoReturn:
        raise self._refuse("pickling", "returning the value from the traced function", numpy=False)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        self.__reduce__()

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse NumPy's other attributes and methods by name."""
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(f"a traced array has no attribute {name!r}")
        raise NoSuchAttribute(
            f"the attribute or method {name!r} of an array has no answer for traced arrays", line=user_line(),
            instead=_ADVICE.get(name, f"np.{name} if there is one, or the functions that `symgrad ops` lists"),
        )


def _refusing(what: str, instead: str) -> Any:
    def refuse(self: Refusals) -> NoReturn:
        raise self._refuse(what, instead, numpy=self._one())

    return refuse


for _name, _words in {
    "__float__": ("float() or a math.* function", "np.sin(x), np.exp(x), ... in place of math.sin(x), math.exp(x)"),
    "__int__": ("int()", "x.astype(np.int64), or static_argnums= for an argument that is a setting"),
    "__complex__": ("complex()", "real arithmetic; symgrad compiles real dtypes"),
    "__trunc__": ("math.trunc()", "np.trunc(x)"),
    "__floor__": ("math.floor()", "np.floor(x)"),
    "__ceil__": ("math.ceil()", "np.ceil(x)"),
    "as_integer_ratio": ("a number (statistics, fractions)", "np.mean, np.std, ... in place of statistics.*"),
}.items():
    setattr(Refusals, _name, _refusing(*_words))


def leaked(value: Refusals) -> LeakedTracerError:
    """Compose the error for a tracer that is used outside of its trace."""
    made = value._node.line  # noqa: SLF001 - works on dead tracers
    return LeakedTracerError(
        f"a traced array {value._brief()} of {value.owner.function}() is used outside of its trace"  # noqa: SLF001
        + (f"; it was made at {made.file}:{made.number}" if made else ""),
        line=user_line(),
        instead="return it from the function (has_aux=True for extra results) instead of storing it in a global, "
        "an attribute or a list, or handing it to another thread",
    )
