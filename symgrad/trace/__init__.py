"""From a user's NumPy function to a program: tracers, NumPy's protocols, pytrees, signatures, lines."""

from __future__ import annotations
