"""`Interface`: what a call must know of a compiled function; the loops and the C may be gone by then, or never made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from symgrad.ir.saved.dims import dim_to_json

if TYPE_CHECKING:
    import numpy as np

    from symgrad.errors import Line
    from symgrad.ir.program import Program
    from symgrad.ir.shapes import Shape
    from symgrad.loops.program import LoopProgram
    from symgrad.render.source import Source


class Port(NamedTuple):
    """An array that is passed: an input or an output."""

    dtype: np.dtype[Any]
    shape: Shape
    fortran: bool = False


class Check(NamedTuple):
    """What a failed check is about: an index of an extent, as `dim_to_json` writes it, or `what`; the user's line."""

    extent: Any
    line: Line | None
    what: str = ""


@dataclass(frozen=True)
class Interface:
    """How a compiled function is called.

    Attributes:
        entry: its name in C.
        prototype: its declaration, as cffi's cdef wants it.
        inputs, outputs: the arrays, in the order of its parameters.
        data: constants that are passed, after the outputs.
        dims: the names of the unknown extents that are passed, after the constants.
        workspace: bytes of scratch memory, as `ir.dims.evaluated` reads it, of the extents and of ``threads``.
        threaded: some loop shares its iterations out among threads.
        checks: what it says when it returns 1, 2, ...
        work: the operations of a call, as `workspace` is written.
        polled: its last parameter points to a flag that makes it return early.
    """

    entry: str
    prototype: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    data: tuple[np.ndarray[Any, Any], ...]
    dims: tuple[str, ...]
    workspace: Any
    threaded: bool
    checks: tuple[Check, ...]
    work: Any
    polled: bool


def interface(program: Program, loops: LoopProgram, source: Source) -> Interface:
    """Describe a function that was rendered."""
    from symgrad.render.render import passed

    return Interface(
        source.entry, source.prototype, *ports(program), tuple(passed(loops)), dims(program),
        dim_to_json(loops.workspace), loops.threaded,
        tuple([Check(dim_to_json(check.extent), check.line, check.what) for check in loops.checks]),
        dim_to_json(loops.work), loops.polled,
    )


def ports(program: Program) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
    """List a program's inputs and outputs."""
    inputs = tuple([Port(n.dtype, n.shape, n.param("name") in program.fortran) for n in program.inputs])
    return inputs, tuple([Port(n.dtype, n.shape) for n in program.outputs])


def dims(program: Program) -> tuple[str, ...]:
    """Name the unknown extents, in the order of the inputs that have them."""
    every: list[Any] = [dim for node in program.inputs for dim in node.shape]
    return tuple(dict.fromkeys([dim.name for dim in every if getattr(dim, "is_Symbol", False)]))
