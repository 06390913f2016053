"""Writes into closed-over arrays: plain ones, which no tracer sees, are found by what the arrays hold afterwards."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.errors import MutationError
from symgrad.trace.lines import definition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Content = np.ndarray[Any, Any]

WHOLE = 1 << 24
"""Arrays of so many bytes are compared as a whole; of larger ones, every n-th element."""

SEEN = 1000
"""So many values are looked at, in lists, tuples and dicts too."""


@contextmanager
def unwritten(fun: Callable[..., Any], captured: Iterable[tuple[str, Any]]) -> Iterator[None]:
    """Check that a function, while it is traced, does not write into the arrays it reads from outside.

    Raises:
        MutationError: it did. The array is left as the function left it: who else wrote to it is not known.
    """
    before = [(name, array, _content(array)) for name, array in _arrays(captured)]
    yield
    for name, array, content in before:
        if _content(array).tobytes() == content.tobytes():
            continue
        raise MutationError(
            f"{name}, {array.dtype}{list(array.shape)}, is written while {getattr(fun, '__name__', 'a function')}() is "
            "traced: the write would happen once, and not when the compiled function is called again",
            line=definition(fun), instead=f"a copy, np.copy({name}), written inside of the function, or an argument",
        )


def _content(array: Content) -> Content:
    """Copy what an array holds; of a large one, every n-th element."""
    content: Content = array.copy() if array.nbytes <= WHOLE else array.flat[:: 1 + array.nbytes // WHOLE]
    return content


def _arrays(captured: Iterable[tuple[str, Any]]) -> list[tuple[str, Content]]:
    """Find plain arrays among named values, and in their lists, tuples and dicts."""
    found: dict[int, tuple[str, Content]] = {}
    stack, left = list(captured), SEEN
    while stack and left:
        left -= 1
        name, value = stack.pop()
        if type(value) is np.ndarray:
            if not value.dtype.hasobject:
                found.setdefault(id(value), (name, value))
        elif type(value) in {list, tuple} and len(value) <= SEEN:
            stack += [(f"{name}[{k}]", item) for k, item in enumerate(value)]
        elif type(value) is dict and len(value) <= SEEN:
            stack += [(f"{name}[{key!r}]", item) for key, item in value.items()]
    return list(found.values())
