"""The C that the compiler makes for a package: its functions, once more looking at every value, and their base."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from symgrad.loops.passes import schedule
from symgrad.loops.statements.lower import lower
from symgrad.ops import math_functions
from symgrad.options import Options, Target
from symgrad.pipeline import Stages, uncollected
from symgrad.render import render
from symgrad.render.source import Source
from symgrad.transforms.debug_nans import Watch, with_flags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from symgrad.errors import Line
    from symgrad.ir.program import Program
    from symgrad.loops.program import Array, LoopProgram
    from symgrad.render.functions import Functions
    from symgrad.render.views import FunctionView

EMBEDDED = Target(plain=True, package=True)
FAST = Target(openmp=True, simd_math=frozenset(math_functions()), fma=True, vector_bits=256, package=True)
"""What the C of the two profiles is made for; the same on every machine that it is made on."""

PORTABLE = Options(portable=True)


@dataclass(frozen=True)
class Core:
    """A function of the package's C that the compiler made."""

    name: str
    loops: LoopProgram
    view: FunctionView
    functions: Functions
    target: Target

    @property
    def arguments(self) -> list[tuple[str, str]]:
        """Its parameters, as type and name."""
        return self.functions.arguments

    @property
    def lines(self) -> set[Line]:
        """The user's lines that its comments may name."""
        both = (self.loops, *([] if self.loops.small is None else [self.loops.small]))
        found = {statement.line for loops in both for statement, _ in loops.paths}
        return {line for line in found if line is not None}


def core(program: Program, labels: Sequence[str], name: str, options: Options, target: Target) -> Core:
    """Take an optimized program through lower, schedule and the naming of its C."""
    with uncollected():
        loops = schedule(lower(replace(program, labels=tuple(labels))), options)
        aimed = render.aimed(loops, options, target)
        view, functions = render.function(loops, name, aimed)
    return Core(name, loops, view, functions, aimed)


def watched(program: Program, labels: Sequence[str], name: str) -> tuple[Core, Watch]:
    """Make a core that also says which of its values are not finite."""
    flagged, watch = with_flags(replace(program, labels=tuple(labels)))
    return core(flagged, [*labels, "sg_flags"], name, PORTABLE, EMBEDDED), watch


def body(cores: Sequence[Core]) -> str:
    """Print cores as they stand in one file."""
    from symgrad.render.package import body as printed

    if not cores:
        return ""
    target = cores[0].target
    for one in cores[1:]:
        target = replace(target, simd_math=target.simd_math | one.target.simd_math)
    return printed(render.unit([(one.loops, one.view, one.functions) for one in cores], target))


def stages(one: Core, text: str) -> Stages:
    """Give what reports are made of."""
    made = Stages(Options(portable=one.target.plain))
    made.kept |= {"loops": one.loops, "c": Source(text, one.name, "")}
    return made


def passed(array: Array, name: str, constness: str = "") -> str:
    """Hand a core an array of the header's types: Booleans as the bytes that it reads and writes."""
    return f"({constness}uint8_t *){name}" if array.dtype.kind == "b" else name


_TYPE = r"(_Bool|u?int\d+_t|float|double|sg_lanes\w*)"
_ARRAY = re.compile(rf"^\s+{_TYPE} \w+\[(\d+)\](?:, \w+\[(\d+)\])?;", re.MULTILINE)
_SCALAR = re.compile(rf"^\s+(?:const )?{_TYPE} \*?(?:const )?(?:\w+ )?\w+(?: =|;)", re.MULTILINE)
_BYTES = {"_Bool": 1, "float": 4, "double": 8}


def stack_bound(text: str) -> int:
    """Bound the stack that printed functions need together: arrays, a vector for each scalar, and frames."""
    arrays = 0
    for kind, first, second in _ARRAY.findall(text):
        width = _BYTES.get(kind) or int(re.sub(r"\D", "", kind)) // 8
        arrays += width * (int(first) + int(second or 0))
    frames = len(re.findall(r"^\}", text, re.MULTILINE))
    return arrays + 64 * len(_SCALAR.findall(text)) + 512 * frames


def quoted(text: str) -> str:
    """Make text safe inside of a C string."""
    from symgrad.ir.names import comment

    return comment(text).replace('"', "'")


__all__ = ["EMBEDDED", "FAST", "Any", "Core", "body", "core", "passed", "quoted", "stack_bound", "stages", "watched"]
