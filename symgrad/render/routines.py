"""Calls of C functions of whole matrices, and checks of what they leave, as views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from symgrad.ir.notation import substitute
from symgrad.loops.program import Loop
from symgrad.ops.spelling import ctype, suffix
from symgrad.render.printer import index, literal, offset
from symgrad.render.products import kept, stride
from symgrad.render.views import CallView, CheckView

if TYPE_CHECKING:
    from symgrad.ir.notation import Access, Axis, Statement
    from symgrad.render.block import Block
    from symgrad.render.views import ItemView

FUNCTIONS = {
    "sg_blas": (), "sg_product": (), "sg_gemm": ("sg_product",), "sg_product_part": ("sg_product",),
    "sg_solve_strip": ("sg_product",),
    "sg_solve": ("sg_product", "sg_solve_strip"), "sg_cholesky": ("sg_product", "sg_solve_strip"),
    "sg_cholesky_pullback": ("sg_product", "sg_solve_strip"),
    "sg_cholesky_pushforward": ("sg_product", "sg_solve_strip"), "sg_symmetric_product": ("sg_product",),
    "sg_lu": ("sg_product", "sg_solve_strip", "sg_solve"),
    "sg_lu_solve": ("sg_product", "sg_solve_strip", "sg_solve", "sg_lu"),
    "sg_pivots": ("sg_product", "sg_solve_strip", "sg_solve", "sg_lu"),
    "sg_cofactors": ("sg_product", "sg_solve_strip", "sg_solve", "sg_lu", "sg_lu_solve"),
}
"""The functions of whole matrices, in the order in which they stand in C, each with those that it calls."""

BLAS = frozenset({"sg_gemm", "sg_solve", "sg_cholesky", "sg_lu"})
"""Those that a BLAS does where it is asked for (`sg_blas` says where it is)."""


def called(block: Block, s: Statement, made: list[ItemView], loads: dict[str, str]) -> ItemView:
    """Turn the call of a routine, or a check, into a view."""
    if s.routine is None:
        text, tight = block.value(s.value, made, loads)
        failed = f"{text if tight else f'({text})'} != {literal(0, s.target.array.dtype)}"
        return CheckView(failed, s.check, block.leave, block.failed)
    dtype, read = s.target.array.dtype, s.value
    for name in (*FUNCTIONS[s.routine.name], s.routine.name):
        block.helpers.add((name, ctype(dtype), suffix(dtype)))
    arguments = [index(axis.extent, block.name) for axis in s.routine.extents] + [str(f) for f in s.routine.flags]
    if read.array is not s.target.array:  # type: ignore[union-attr]  # a routine reads an array
        arguments += matrix(block, s.routine.read, read)  # type: ignore[arg-type]
    written = matrix(block, s.routine.written, s.target)
    return CallView(f"{s.routine.name}{suffix(dtype)}", ", ".join([*arguments, *written[:2]]), fails=False)


def matrix(block: Block, axes: tuple[Axis, ...], access: Access) -> list[str]:
    """Print the address of a matrix, and how far apart its rows and its columns are."""
    array = access.array
    zero: dict[Axis, Any] = dict.fromkeys(axes, 0)
    starts = [block.bounds[array.windows[d]][0] if d in array.windows else None for d in kept(array)]
    places = [substitute(access.indices[d], zero) for d in kept(array)]
    begin = offset(places, array.stored, block.name, starts)
    address = block.names[array] if begin == "0" else f"{block.names[array]} + {begin}"
    return [address, *[index(stride(access, Loop(axis, frozenset([axis]), [])), block.name) for axis in axes]]
