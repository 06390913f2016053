"""`Extent`: an integer that is an unknown extent, as user code sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.errors import ConcretizationError
from symgrad.ir.shapes import simplified
from symgrad.ops import leaves
from symgrad.ops.declare import is_traced
from symgrad.trace.lines import user_line

if TYPE_CHECKING:
    from symgrad.trace.state import Trace
    from symgrad.trace.tracer import Tracer


class Extent:
    """An unknown extent: ``x.shape[0]`` of a spec ``f64[n]``.

    Sums, products and floor quotients with integers are extents again (SymPy does their algebra);
    anything else makes a number of it, which promotes like Python's.
    """

    __slots__ = ("dim", "owner")
    __array_priority__ = 1000

    def __init__(self, dim: Any, trace: Trace) -> None:
        """Hold the SymPy expression."""
        self.dim, self.owner = dim, trace

    __class__ = int  # type: ignore[assignment]  # what isinstance() sees: what it is in NumPy

    def tracer(self, weak: type = int) -> Tracer:
        """Return the extent as a traced number."""
        from symgrad.trace.tracer import Tracer

        node = self.owner.graph.node(
            leaves.extent, (), leaves.extent_params(self.dim), (), leaves.INT, self.owner.graph.line or user_line()
        )
        return Tracer(node, self.owner, weak=weak)

    def _with(self, other: Any, exact: Any, ufunc: np.ufunc, *, swap: bool = False) -> Any:
        if issubclass(type(other), (Extent, int, np.integer)) and exact is not None:
            right = other.dim if type(other) is Extent else int(other)
            dim = simplified(exact(right, self.dim) if swap else exact(self.dim, right))
            return dim if type(dim) is int else Extent(dim, self.owner)
        pair = (other, self.tracer()) if swap else (self.tracer(), other)
        result = ufunc(*pair)
        if type(other) in {Extent, int, float}:
            result.weak = float
        return result

    def __add__(self, other: Any) -> Any:
        """Add."""
        return self._with(other, lambda a, b: a + b, np.add)

    def __radd__(self, other: Any) -> Any:
        """Add."""
        return self._with(other, lambda a, b: a + b, np.add, swap=True)

    def __sub__(self, other: Any) -> Any:
        """Subtract."""
        return self._with(other, lambda a, b: a - b, np.subtract)

    def __rsub__(self, other: Any) -> Any:
        """Subtract."""
        return self._with(other, lambda a, b: a - b, np.subtract, swap=True)

    def __mul__(self, other: Any) -> Any:
        """Multiply."""
        return self._with(other, lambda a, b: a * b, np.multiply)

    def __rmul__(self, other: Any) -> Any:
        """Multiply."""
        return self._with(other, lambda a, b: a * b, np.multiply, swap=True)

    def __floordiv__(self, other: Any) -> Any:
        """Divide, rounding down."""
        return self._with(other, lambda a, b: a // b, np.floor_divide)

    def __mod__(self, other: Any) -> Any:
        """Take the remainder."""
        return self._with(other, lambda a, b: a % b, np.remainder)

    def __truediv__(self, other: Any) -> Any:
        """Divide: a floating-point number."""
        return self._with(other, None, np.true_divide)

    def __rtruediv__(self, other: Any) -> Any:
        """Divide: a floating-point number."""
        return self._with(other, None, np.true_divide, swap=True)

    def __pow__(self, other: Any) -> Any:
        """Raise to a power."""
        exact = (lambda a, b: a**b) if issubclass(type(other), (int, np.integer)) and other >= 0 else None
        return self._with(other, exact, np.power)

    def __neg__(self) -> Any:
        """Negate."""
        return self * -1

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Take part in a ufunc as a number; what it gives is a NumPy scalar, which promotes as an array does."""
        inputs = tuple([i.tracer() if type(i) is Extent else i for i in inputs])
        return getattr(ufunc, method)(*inputs, **kwargs)

    def __symgrad_bind__(self, op: Any, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tracer:
        """Take part in an op as a number."""
        from symgrad.trace.tracer import record

        return record(self.owner, op, inputs, params)

    def __eq__(self, other: object) -> bool:
        """Equal only to the same extent; comparing two that may or may not be equal is refused."""
        if type(other) is not Extent and is_traced(other):
            return NotImplemented
        right: Any = other.dim if type(other) is Extent else other
        if right == self.dim:
            return True
        if issubclass(type(right), (float, np.floating)) and float(right).is_integer():
            right = int(right)
        if type(other) is Extent or issubclass(type(right), (int, np.integer)):
            difference = simplified(self.dim - (right if type(other) is Extent else int(right)))
            if type(difference) is int:
                return difference == 0
            if getattr(difference, "is_nonzero", None) or getattr(difference, "is_positive", None):
                return False
            raise self.refuse(f"comparing it with {right}")
        return False

    def __hash__(self) -> int:
        """Refuse to be looked up: a table or a set would silently not have it."""
        raise self.refuse("a key of a dict or an element of a set")

    def _compare(self, other: Any, positive: str) -> Any:
        if type(other) is not Extent and is_traced(other):
            return NotImplemented
        right = other.dim if type(other) is Extent else other
        known = getattr(self.dim - right, positive, None)
        if known is None:
            raise self.refuse(f"comparing it with {right}")
        return bool(known)

    def __lt__(self, other: Any) -> Any:
        """Answer where the extents' algebra knows, refuse elsewhere."""
        return self._compare(other, "is_negative")

    def __le__(self, other: Any) -> Any:
        """Answer where the extents' algebra knows, refuse elsewhere."""
        return self._compare(other, "is_nonpositive")

    def __gt__(self, other: Any) -> Any:
        """Answer where the extents' algebra knows, refuse elsewhere."""
        return self._compare(other, "is_positive")

    def __ge__(self, other: Any) -> Any:
        """Answer where the extents' algebra knows, refuse elsewhere."""
        return self._compare(other, "is_nonnegative")

    def refuse(self, what: str, instead: str = "") -> ConcretizationError:
        """Compose the refusal of what needs a number."""
        error = ConcretizationError(
            f"the extent {self.dim} is not known while {self.owner.function}() is traced for every size: "
            f"{what} needs a number",
            line=user_line(),
            instead=instead + "give the extent as a number in the spec (f64[100]) where the code depends on it",
        )
        error.extents = frozenset([s.name for s in self.dim.free_symbols])
        return error

    def __bool__(self) -> bool:
        """Refuse to choose a branch."""
        raise self.refuse("a condition")

    def __index__(self) -> int:
        """Refuse to be a loop bound."""
        raise self.refuse("range(), an index or a list's length")

    def __int__(self) -> int:
        """Refuse to be one number."""
        raise self.refuse("int()")

    def __float__(self) -> float:
        """Refuse to be one number."""
        raise self.refuse("float() or a math.* function", "np.sqrt(n), np.log(n), ... in place of math.sqrt(n); or ")

    def __repr__(self) -> str:
        """Print the expression."""
        return str(self.dim)
