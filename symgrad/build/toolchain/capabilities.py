"""What a probe found out about a compiler, as plain data: kept in the cache as JSON, and checked when read back."""

from __future__ import annotations

import json
from dataclasses import dataclass

from symgrad.ops import math_functions
from symgrad.options import Target

OPENMP = ("-fopenmp", "-fopenmp-simd", "")
_CLEARLY = 0.95

# -ffast-math and -Ofast are out: they make NaN and Inf undefined, and gcc links crtfastmath with them, which
# flushes subnormals in the whole process. -ffp-contract=off: contraction makes x*x - y*y nonzero at x == y.
BASE = ("-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fPIC", "-shared", "-std=c11")
_LONGEST_VERSION = 10_000
KEEPS_JUMPS = "--param=max-jump-thread-duplication-stmts=0"
"""Jumps are threaded through blocks alone that do nothing: without any threading a clip costs four times as much."""


@dataclass(frozen=True)
class Capabilities:
    """What a compiler can do; nothing in it is a command-line word, so that no file can smuggle in a flag.

    Attributes:
        version: what ``--version`` printed.
        native: it compiles for the machine's own processor (``-march=native``).
        openmp: which of `OPENMP` it takes, by its place.
        fma: the machine has fused multiply-add.
        permutes: it permutes the elements of a vector right, which gcc 12.2 does not with AVX-512.
        veclib: clang calls libmvec only with ``-fveclib``.
        mvec: ``-lmvec`` must be named.
        simd_math: functions of math.h with vector variants, in the order of `math_functions`.
        ns_256: what one loop took with vectors of 256 bits, in nanoseconds; 0 where there is no choice.
        ns_512: the same with vectors of 512 bits.
    """

    version: str
    native: bool
    openmp: int
    fma: bool
    permutes: bool
    veclib: bool
    mvec: bool
    simd_math: tuple[str, ...]
    ns_256: int
    ns_512: int

    @property
    def vector_bits(self) -> int:
        """The vector width that was clearly faster; 0 where the compiler chooses."""
        if min(self.ns_256, self.ns_512) >= _CLEARLY * max(self.ns_256, self.ns_512):
            return 0
        return 256 if self.ns_256 < self.ns_512 else 512

    def flags(self, further: tuple[str, ...] = ()) -> tuple[str, ...]:
        """List the compiler's flags, the user's own ones last (their libraries stand in `libraries`)."""
        chosen = {
            "-march=native": self.native, OPENMP[self.openmp]: self.openmp != OPENMP.index(""),
            "-fveclib=libmvec": self.veclib, f"-mprefer-vector-width={self.vector_bits}": self.vector_bits,
            # gcc 12.2 with AVX-512 copies the sum of a simd loop where equal conditions come together, and loses terms.
            KEEPS_JUMPS: "clang" not in self.version,
            "-fno-tree-slp-vectorize": not self.permutes,  # where permutations of any kind come from
            # As a memcpy of a known constant, such a compiler repeats its first elements (six of 0.25 and two of 0 are
            # eight of 0.25): loops that copy stay loops.
            "-fno-tree-loop-distribute-patterns": not self.permutes,
        }
        own = [flag for flag in further if not flag.startswith("-l")]
        return (*BASE, *[flag for flag, taken in chosen.items() if taken], *own)

    def libraries(self, further: tuple[str, ...] = ()) -> tuple[str, ...]:
        """List the libraries to link, the user's own ones first."""
        return (*(flag for flag in further if flag.startswith("-l")), *["-lmvec"] * self.mvec, "-lm")

    def target(self) -> Target:
        """What `render` needs to know."""
        return Target(
            openmp=OPENMP[self.openmp] == "-fopenmp", simd_math=frozenset(self.simd_math), fma=self.fma,
            vector_bits=self.vector_bits,
        )


_TYPES = [list, str, bool, int, bool, bool, bool, bool, int, int]


def parse(record: bytes | None) -> Capabilities | None:
    """Read capabilities back from JSON; None for anything that none are written as."""
    try:
        fields = json.loads(record or b"null")
        names = fields["simd_math"]
        known = Capabilities(**fields | {"simd_math": tuple(names)})
        types = [type(names), *[type(value) for name, value in vars(known).items() if name != "simd_math"]]
        fits = (
            types == _TYPES and set(names) <= math_functions().keys() and known.openmp in range(len(OPENMP))
            and min(known.ns_256, known.ns_512) >= 0 and len(known.version) <= _LONGEST_VERSION
        )
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    return known if fits else None
