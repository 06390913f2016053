"""What a user may choose of a compilation (`Options`), a step of it (`Pass`), what the toolchain can do (`Target`)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from symgrad.errors import ArgumentError, ArgumentValueError

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")

FEWEST = 4
"""No fewer copies of a pattern are looked at as a loop."""

TEAM = 256
"""A call is given at most so many threads, so that small sums of each thread have a place on the stack."""


UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


def memory_amount(memory: str | int) -> int:
    """Read an amount of memory.

    >>> memory_amount("64 KiB"), memory_amount("1MB"), memory_amount(100)
    (65536, 1000000, 100)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmg]?i?)b?\s*", str(memory).lower())
    if found is None or found[2] not in UNITS:
        raise ArgumentValueError(
            f"memory={memory!r} is no amount of memory", instead='"1MB", "64 KiB", or bytes as a number',
        )
    return int(float(found[1]) * UNITS[found[2]])


@dataclass(frozen=True)
class Options:
    """Choices of one compiled function.

    Attributes:
        compiler: the C compiler to use, as an argument list in one string (``"gcc"``, ``"zig cc"``);
            None looks for ``$CC``, cc, gcc, clang and the ziglang package. ``"none"`` means the NumPy interpreter.
        flags: further flags for the compiler.
        threads: how many threads a call may use, at most 256; None is the number of cores this process may run on.
        awake: calls may follow each other at once, as steps of training do: where they do, threads are awake, and share
            work from a quarter of the usual on.
        precise: call scalar libm functions only, never the vector library's.
        portable: plain C99 in a fixed order of operations: no vectors, no threads, no vector library, no fused
            multiply-add. Slower, and the same numbers from every compiler on top of one math library.
        blas: large products that stand alone, and large factorizations, call the BLAS and LAPACK that SciPy brings,
            with its threads; not together with `portable`. Measure before: the generated ones are often faster
            (docs/linalg.md).
        paths: for so many ways that Python's conditions on traced values take a function is compiled, for arguments of
            one signature; beyond that a call raises PathsError.
        roll: so many copies that a Python loop leaves in a trace are one loop, at least 4; fewer stay side by side
            unless they are long (docs/control_flow.md), and with 0 all do.
        memory: what reverse mode may keep of each such loop, as for `scan`: ``"1MB"``, or bytes as a number.
        without: names of passes to leave out, of those that `symgrad.pipeline.passes` lists: to see what one is worth
            (``python -m benchmarks --ablate``), or whether one is at fault.
        verify: verify every program between stages and after every loop pass, and fill the workspace of every call
            with NaN, so that nothing is read of it that was not written (also ``SYMGRAD_VERIFY=1``).
        compile_seconds: how long a compilation may take. What is expected to take longer (a Python loop of very many
            passes) is refused with CompileTimeError before it begins; a run of the C compiler (a second one, at -O1,
            follows a failure) is stopped after so long; None refuses nothing and waits for ever. The variable
            SYMGRAD_COMPILE_SECONDS says it instead, where it is set. Beyond 30 seconds a warning tells what to expect.
        cache: keep compiled libraries on disk.
        creation: replace NumPy's creation functions while a trace is active in this thread.
        debug_nans: compile checks of every value: a call whose result is NaN or infinite raises NonFiniteError with
            the user's line where that began. Slower; nothing is checked, and nothing costs, without it.
    """

    compiler: str | None = None
    flags: tuple[str, ...] = ()
    threads: int | None = None
    awake: bool = False
    precise: bool = False
    portable: bool = False
    blas: bool = False
    paths: int = 32
    roll: int = 32
    memory: str | int | None = None
    without: tuple[str, ...] = ()
    verify: bool = False
    compile_seconds: float | None = 600.0
    cache: bool = True
    creation: bool = True
    debug_nans: bool = False

    def __post_init__(self) -> None:
        """Refuse what contradicts itself, and a text where several are meant: its letters would be taken one by one."""
        for name in ("flags", "without"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise ArgumentError(f"Options({name}={value!r}) is one text", instead=f"{name}=({value!r},)")
        if type(self.roll) is not int or (self.roll != 0 and self.roll < FEWEST):
            raise ArgumentValueError(f"Options(roll={self.roll!r})", instead=f"0, or a number from {FEWEST} on")
        if type(self.paths) is not int or self.paths < 1:
            raise ArgumentValueError(f"Options(paths={self.paths!r})", instead="a number of paths, from 1 on")
        if self.memory is not None:
            memory_amount(self.memory)
        seconds: Any = self.compile_seconds
        if seconds is not None and (type(seconds) not in {int, float} or not seconds > 0):
            raise ArgumentValueError(
                f"Options(compile_seconds={self.compile_seconds!r})", instead="a number of seconds above 0, or None"
            )
        if self.portable and self.blas:
            raise ArgumentError(
                "Options(portable=True, blas=True): a BLAS has an order of operations of its own",
                instead="one of the two",
            )

    @property
    def verifies(self) -> bool:
        """Whether programs are verified and workspaces filled."""
        return self.verify or os.environ.get("SYMGRAD_VERIFY") == "1"


class Purpose(Enum):
    """What a pass is for: what would be worse without it."""

    TIME = "time"
    DIGITS = "digits"
    MEMORY = "memory"
    COMPILE_TIME = "compile time"
    NECESSITY = "necessity"
    """Without it there would be no C, or none that may be called."""


@dataclass(frozen=True)
class Pass(Generic[T]):
    """One step from a program to the next, of the graph or of its loops; it has the name of its function.

    Attributes:
        settings: what of the options and the machine it is told.
    """

    apply: Callable[..., T]
    purpose: Purpose
    wanted: Callable[[Options, Target], bool] = lambda _, __: True
    settings: Callable[[Options, Target], dict[str, Any]] = lambda _, __: {}

    @property
    def name(self) -> str:
        """What `Options.without`, the verifier and the ablation call it."""
        return self.apply.__name__

    def runs(self, options: Options, target: Target) -> bool:
        """Whether options want it, and the machine has a use for it."""
        return (not options.without or self.name not in options.without) and self.wanted(options, target)


NARROW = 256
"""The bits of a vector where the toolchain names no width: compilers make it of narrower ones if they must."""


@dataclass(frozen=True)
class Target:
    """What the toolchain can do, found by probing it; passes over loops and `render` read it.

    Attributes:
        openmp: the compiler has OpenMP and its runtime loads.
        simd_math: C function names (``"exp"``, ``"expf"``, ...) that have vector variants behind
            ``#pragma omp declare simd`` prototypes (glibc's libmvec).
        fma: the machine multiplies and adds in one rounding at full speed.
        vector_bits: the vector width to prefer, 0 where the compiler chooses.
        plain: print C99 and nothing else: no pragmas, no vectors of GNU C.
        blas: large products and factorizations call functions of a BLAS.
        package: print for a file of its own: constants in it, and what compilers differ in behind macros.
    """

    openmp: bool = False
    simd_math: frozenset[str] = frozenset()
    fma: bool = False
    vector_bits: int = 0
    plain: bool = False
    blas: bool = False
    package: bool = False

    @property
    def restrict(self) -> str:
        """How a pointer is declared that nothing else points into."""
        return "SG_RESTRICT " if self.package else "restrict "

    def aimed(self, options: Options) -> Target:
        """Leave out what it has, where C is to be portable."""
        return Target(plain=True, package=self.package) if options.portable else self

    def bits(self, size: int) -> int:
        """Return the bits of a vector of numbers of so many bytes: those of one number where there are none."""
        return 8 * size if self.plain else self.vector_bits or NARROW

    def lanes(self, dtype: np.dtype[Any]) -> int:
        """Return how many numbers a vector has."""
        return self.bits(dtype.itemsize) // (8 * dtype.itemsize)


UNKNOWN = Target()
"""A machine of which nothing is known."""
