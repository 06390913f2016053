"""Random numbers drawn, while a function is traced, from a generator it reads from outside: constants in every call."""

from __future__ import annotations

import random
import sys
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from symgrad.errors import SymgradWarning
from symgrad.trace.lines import definition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from symgrad.errors import Line

_warned: set[tuple[Line | None, str]] = set()


def _state(generator: Any) -> Any:
    """Return the state of a random generator, of which every draw changes something; None of anything else."""
    drawn = sys.modules.get("numpy.random")
    if isinstance(generator, random.Random):
        return generator.getstate()
    if drawn is not None and isinstance(generator, drawn.Generator):
        return str(generator.bit_generator.state)
    if drawn is not None and isinstance(generator, drawn.RandomState):
        return str(generator.get_state(legacy=False))
    return None


@contextmanager
def draws_noticed(function: Any, read: Iterable[tuple[str, Any]]) -> Iterator[None]:
    """Warn, once for a function and a name, when a generator among what the function reads was drawn from meanwhile."""
    before = [(name, value, state) for name, value in read if (state := _state(value)) is not None]
    yield
    for name, value, state in before:
        line = definition(function)
        shown = f"the random generator {name!r}"
        if _state(value) == state or (line, shown) in _warned:
            continue
        _warned.add((line, shown))
        where = f"\n  at {line.file}:{line.number}\n      {line.text}" if line else ""
        warnings.warn(
            f"{getattr(function, '__name__', 'the function')}() draws from {shown} once, while it is traced: the "
            f"numbers are constants in every call{where}"
            "\n  instead: draw outside and pass the numbers as an argument",
            SymgradWarning, stacklevel=3,
        )
