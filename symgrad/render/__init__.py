"""From loops to C: Python prints expressions and names, templates hold every brace and semicolon."""

from __future__ import annotations
