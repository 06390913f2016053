"""Packages of C: functions that `api/` compiles, written as files that need no Python."""

from __future__ import annotations

WHATS = ("value", "grad", "value_and_grad", "jvp", "vjp", "hvp", "hessian", "jacobian")
"""What can be emitted."""
