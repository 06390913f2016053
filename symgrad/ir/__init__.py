"""The intermediate representation: nodes, programs, index notation, and what can be done with any of them."""

from __future__ import annotations
