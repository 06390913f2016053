"""`simplify`: rewrites that change no bit of any result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from symgrad.ir.program import copied, rebuild

if TYPE_CHECKING:
    from symgrad.ir.program import Program


def simplify(program: Program) -> Program:
    """Rewrite a program to a smaller one with the same results, bit for bit."""
    return rebuild(program, copied)
