"""The value `render` returns and `build` takes: C text and what is needed to call it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Source:
    """One C translation unit.

    Attributes:
        text: the C, byte-identical for identical input.
        entry: the name of the function to call.
        prototype: its declaration, as cffi's cdef wants it.
        links: the user's lines and op names in the order they stand in the C, for a compiler error's message.
        memory: what each `Slot` of the loops is called.
        objects: C that is compiled after it: the call from Python, which nobody else needs.
    """

    text: str
    entry: str
    prototype: str
    links: tuple[str, ...] = ()
    memory: Mapping[Any, str] = field(default_factory=dict)
    objects: str = ""


PARAMETERS = 127
"""A function of more arrays takes their addresses in one array: C promises no more parameters, and cffi calls fewer
than 400. Compilers take more, but their time grows faster than in proportion."""

OTHER = -2
"""What a call with Python's objects returns, and has called nothing, where an array is not as it should be."""

MEET = -3
"""What steps of training return where what is written shares memory with another array. Nothing was written."""

NOT_FINITE = -4
"""What they return where a value or a gradient is not finite: for that batch nothing was written."""

UPDATE = 1_000_000
"""What they add to the number of a check of the update that fails."""

STEPS = "sg_steps"
"""The function that takes steps of training."""

KNOWN = 4
"""Words that such a call knows first: the address of a counter and what it was, NumPy's array type, the threads."""

OBJECTS, ADDRESSES = "_objects", "_addresses"
"""What follows the name of a function that takes arrays, where it takes Python's objects, or an array of addresses."""
