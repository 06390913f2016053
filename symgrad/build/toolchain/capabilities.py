"""What a probe found out about a compiler, as plain data: kept in the cache as JSON, checked when read back."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import get_type_hints

from symgrad.ops import math_functions
from symgrad.options import Target

OPENMP = ("-fopenmp", "-fopenmp-simd", "")
_CLEARLY = 0.95

# -ffast-math and -Ofast are out: they make NaN and Inf undefined, and gcc links crtfastmath with them, which
# flushes subnormals in the whole process. -ffp-contract=off: contraction makes x*x - y*y nonzero at x == y.
BASE = (
    "-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fPIC", "-shared", "-std=c11",
)
_LONGEST_VERSION = 10_000


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
        chosen = [*BASE]
        chosen += ["-march=native"] * self.native
        chosen += [OPENMP[self.openmp]] * bool(OPENMP[self.openmp])
        chosen += ["-fveclib=libmvec"] * self.veclib
        chosen += [f"-mprefer-vector-width={self.vector_bits}"] * bool(self.vector_bits)
        chosen += ["-fno-tree-slp-vectorize"] * (not self.permutes)  # where permutations of any kind come from
        return (*chosen, *(flag for flag in further if not flag.startswith("-l")))

    def libraries(self, further: tuple[str, ...] = ()) -> tuple[str, ...]:
        """List the libraries to link, the user's own ones first."""
        return (*(flag for flag in further if flag.startswith("-l")), *["-lmvec"] * self.mvec, "-lm")

    def target(self) -> Target:
        """Return what `render` needs to know."""
        return Target(
            openmp=OPENMP[self.openmp] == "-fopenmp", simd_math=frozenset(self.simd_math), fma=self.fma,
            vector_bits=self.vector_bits,
        )

    def as_json(self) -> dict[str, object]:
        """Return plain data that `parse` takes back."""
        return asdict(self) | {"simd_math": list(self.simd_math)}


_TYPES = get_type_hints(Capabilities)


def parse(record: bytes | None) -> Capabilities | None:
    """Read capabilities back; None for anything that `Capabilities.as_json` would not have written."""
    try:
        fields = json.loads(record or b"null")
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or fields.keys() != _TYPES.keys():
        return None
    names = fields.pop("simd_math")
    plain = all(type(value) is _TYPES[name] for name, value in fields.items())
    if not plain or not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return None
    known = (
        set(names) <= math_functions().keys()
        and fields["openmp"] in range(len(OPENMP))
        and min(fields["ns_256"], fields["ns_512"]) >= 0
        and len(fields["version"]) <= _LONGEST_VERSION
    )
    return Capabilities(simd_math=tuple(names), **fields) if known else None
