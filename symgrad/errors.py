"""Every error symgrad raises: what was wrong, where in the user's code, and what to write instead.

Each class subclasses `SymgradError` and the built-in a NumPy user expects, so that both
``except symgrad.SymgradError`` and ``except TypeError`` work.
"""

from __future__ import annotations

import sys
import threading
import warnings
from types import FrameType, TracebackType
from typing import NamedTuple

import numpy as np


def interrupts(error: BaseException) -> bool:
    """Whether an exception has nothing to do with what ran: a signal's handler raised it, as of timeouts, or no memory.

    What NumPy raises of an array that is too large is the code's own.
    """
    signal, codes = sys.modules.get("signal"), set()  # who has set a handler has imported it
    for handler in [*map(signal.getsignal, signal.valid_signals())] if signal is not None else ():
        call = getattr(handler, "func", handler)  # of a partial one
        if callable(call):
            call = call if hasattr(call, "__code__") else type(call).__call__
            codes.add(getattr(call, "__code__", None))
    at = error.__traceback__
    while at is not None and at.tb_frame.f_code not in codes:
        at = at.tb_next
    return at is not None or type(error) is MemoryError


class Line(NamedTuple):
    """A line of the user's code: file, number, source text."""

    file: str
    number: int
    text: str

    @property
    def suffix(self) -> str:
        """What the names of its values end with, see `Derived`."""
        return ""

    @property
    def owner(self) -> Line | None:
        """The line of the value that it derives, see `Derived`."""
        return None

    @property
    def caller(self) -> Line | None:
        """The line that called the library it is in, see `Within`."""
        return None

    def __str__(self) -> str:
        """Print as ``model.py:14``, the short form of reports and C comments."""
        name = self.file.replace("\\", "/").rsplit("/", 1)[-1]
        return f"{name.encode(errors='backslashreplace').decode()}:{self.number}"  # what any file can hold


class Derived(Line):
    """The line again, for what its derivative computes.

    Attributes:
        suffix: ``_bar`` of a cotangent, ``_dot`` of a tangent, which is the cotangent of one.
        owner: the line of the value whose whole cotangent or tangent it is; None for what stands on the way there.
    """

    suffix: str = ""
    owner: Line | None = None

    @classmethod
    def of(cls, line: Line, owner: Line | None = None) -> Derived:
        """Derive a line."""
        made = cls(*line)
        made.suffix, made.owner = "_dot" if line.suffix == "_bar" else "_bar", owner
        return made


class Within(Line):
    """A line of an installed package, with the line of the user's that called it."""

    caller: Line | None = None

    @classmethod
    def of(cls, line: Line, caller: Line) -> Within:
        """Say who called."""
        made = cls(*line)
        made.caller = caller
        return made


class SymgradError(Exception):
    """The root of every error symgrad raises."""

    def __init__(self, what: str, *, line: Line | None = None, instead: str | None = None) -> None:
        """Compose the message: what, where (the user's file, line and source), what to write instead."""
        parts = [what]
        for where, one in (("at", line), ("called at", line and line.caller)):
            if one is not None:
                parts.append(f"  {where} {one.file}:{one.number}" + (f"\n      {one.text}" if one.text else ""))
        if instead is not None:
            parts.append(f"  instead: {instead}")
        super().__init__("\n".join(parts))
        self.what, self.line, self.instead = what, line, instead
        frame = _beyond(sys._getframe(1), _OTHERS)[0]  # noqa: SLF001 - as in `warn`
        if not _is_others(frame, _OTHERS):  # where its traceback ends, which a notebook shows last
            self.__traceback__ = TracebackType(None, frame, frame.f_lasti, frame.f_lineno)


_BETWEEN = frozenset({"symgrad", "numpy", "scipy", "contextlib", "functools"})
_OTHERS = _BETWEEN | {"concurrent", "importlib", "optree", "sympy", "threading"}
"""Packages whose code is not the user's: what runs what symgrad made, and where a thread or an import may begin."""


def _is_others(frame: FrameType, packages: frozenset[str]) -> bool:
    return frame.f_globals.get("__name__", "").split(".")[0] in packages


def _beyond(frame: FrameType, packages: frozenset[str]) -> tuple[FrameType, int]:
    """Return the innermost frame outside of packages, or the outermost one; and how many are inside of it."""
    inside = 0
    while frame.f_back is not None and _is_others(frame, packages):
        inside, frame = inside + 1, frame.f_back
    return frame, inside


class _Heard(threading.local):
    """What was refused in this thread since its outermost trace began; None where nothing is traced.

    And whether a trace has open extents: shapes that do not fit there may fit in NumPy, for some sizes.
    """

    refusals: list[Refusal] | None = None
    opened: bool = False


heard = _Heard()


class Refusal(SymgradError):  # noqa: N818 - a word of the field, and no class of its own to a user
    """What NumPy does and a trace cannot: code that catches it goes another way than it goes in NumPy.

    So a trace remembers what it refused, and raises that when the function returns in spite of it.
    """

    def __init__(
        self, what: str, *, line: Line | None = None, instead: str | None = None, numpy_too: bool = False,
    ) -> None:
        """Compose the message; `numpy_too` where NumPy raises as well, so that catching it changes nothing."""
        super().__init__(what, line=line, instead=instead)
        if heard.refusals is not None and line is not None and not numpy_too:
            heard.refusals.append(self)


class ArgumentError(SymgradError, TypeError):
    """An argument of a compiled function has a type, dtype or structure it cannot take."""


class ArgumentValueError(SymgradError, ValueError):
    """An argument has the right type and a wrong value: a shape, an option, a spec."""


class AxisError(SymgradError, np.exceptions.AxisError):
    """An axis that the array has not."""


class BusyError(SymgradError, RuntimeError):
    """A bound call was made while it was running: in another thread, or in a signal's handler."""


class CompileTimeError(SymgradError, RuntimeError):
    """A program is expected to take longer to compile than `Options(compile_seconds=...)` allows."""


class ConcretizationError(Refusal, TypeError):
    """A traced value was used where Python or NumPy needs a number: ``if x > 0``, ``float(x)``.

    Attributes:
        extents: the names of the open extents it is about.
    """

    extents: frozenset[str] = frozenset()


class DtypeError(SymgradError, TypeError):
    """An operation would need a dtype symgrad does not compile."""


class GradientCheckError(SymgradError, AssertionError):
    """`check_grads` found a derivative that differs from the numerical one."""


class IndexOutOfBounds(SymgradError, IndexError):  # noqa: N818 - a name of the design, and beside IndexError
    """An index is none of an array, or an index array of a compiled function points outside of its axis."""


class LeakedTracerError(Refusal, RuntimeError):
    """A traced value was used after its trace had ended, or in another trace's thread."""


class LeftBehindError(ArgumentError):
    """A function that was unpickled without its Python code is called with what it was not compiled for."""


class LibraryError(SymgradError, RuntimeError):
    """What a function of a library says of its arguments by a RuntimeError, as those of scipy.ndimage do."""


class LinAlgError(SymgradError, np.linalg.LinAlgError):
    """A matrix has no inverse, or no Cholesky factor, where one is needed."""


class Missed(Exception):  # noqa: N818 - no error: the call goes on elsewhere, and no user sees it
    """A guard did not come to what it came to when the program was traced.

    Attributes:
        number: which guard.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class MutationError(Refusal, TypeError):
    """A write that symgrad cannot follow: into an argument, a constant or a traced value."""


class NoGradient(SymgradError, LookupError):  # noqa: N818 - a public name of the design, and TensorFlow's LookupError
    """The gradient's path goes through an operation that has no derivative."""


NOT_FINITE = "the loss or the gradient is NaN or infinite"
"""What a check says that a step with ``on_nan="raise"`` is compiled with, as a part of another function."""


class NonFiniteError(SymgradError, FloatingPointError):
    """A value is NaN or infinite, where `Options(debug_nans=True)` or ``on_nan="raise"`` looks for that."""


LEADING_ZERO = "the filter coefficient a[0] is 0"
"""What a check says that a recurrence divides by."""

NEGATIVE_POWER = "integers to negative integer powers are not allowed"
"""What a check says of exponents."""

NOT_NUMBERS = "array must not contain infs or NaNs"
"""What a check says of `np.asarray_chkfinite`, in NumPy's words."""

FAILED: dict[str, type[SymgradError]] = {
    NOT_FINITE: NonFiniteError,
    **dict.fromkeys((LEADING_ZERO, NEGATIVE_POWER, NOT_NUMBERS), ArgumentValueError),
}
"""The errors of checks, by what they say; of the others it is `LinAlgError`."""


class PathsError(SymgradError, RuntimeError):
    """Python's conditions on traced values took more ways than `Options(paths=...)` allows."""


class RangeError(SymgradError, OverflowError):
    """A Python integer that an array's dtype does not hold."""


class ShapeError(Refusal, ValueError):
    """Shapes do not fit together."""

    def __init__(self, what: str, *, line: Line | None = None, instead: str | None = None) -> None:
        """Compose the message; NumPy raises as well, but where extents are open it does so for some sizes alone."""
        super().__init__(what, line=line, instead=instead, numpy_too=not heard.opened)


class SizeError(SymgradError, ValueError, MemoryError):
    """An array would be larger than memory can be: NumPy raises one or the other."""


class SerializationError(SymgradError, ValueError):
    """A file or a saved program is damaged, not what is wanted, or was not written by symgrad."""


class ToolchainError(SymgradError, RuntimeError):
    """The C compiler failed, twice, on code symgrad generated."""


class UnsupportedError(Refusal, TypeError):
    """A NumPy function or argument that symgrad cannot trace."""


class VerifyError(SymgradError, AssertionError):
    """A pass produced a program that breaks the IR's rules: a defect of symgrad itself."""


class SymgradWarning(UserWarning):
    """What symgrad does, but the user may not have meant: a frozen random draw, no compiler, recompilation."""


_said: dict[str, object] = {}


def warn_once(topic: str, message: str) -> None:
    """Warn as `warn` does, once a process for each topic."""
    mine = object()
    if _said.setdefault(topic, mine) is mine:  # in one step: of several threads, one says it
        warn(message)


def warn(message: str) -> None:
    """Warn with a `SymgradWarning` at the innermost line of the user's: SciPy's optimizers call what symgrad made."""
    inside = _beyond(sys._getframe(1), _BETWEEN)[1]  # noqa: SLF001 - inspect.stack() reads every source file on the way
    warnings.warn(message, SymgradWarning, stacklevel=2 + inside)
