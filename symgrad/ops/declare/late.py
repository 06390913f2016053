"""The functions of `scipy.special`, by name: importing it takes 0.2 s, which only a program that uses it shall pay.

What answers one of them is declared for a `Late` of its name. Who calls `scipy.special.erf` has imported it: then,
and not before, `declare.answer_scipy` enters the answer for the function itself.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

FLOATS = frozenset([np.dtype(np.float32), np.dtype(np.float64)])


class Late:
    """A function of scipy.special, which is imported when this is called, or asked about other dtypes than one float's.

    >>> Late("erf").resolve_dtypes((np.dtype("f4"), None))
    (dtype('float32'), dtype('float32'))
    """

    nout = 1

    def __init__(self, name: str, nin: int = 1) -> None:
        """Name it and say how many arguments it takes."""
        self.__name__, self.nin, self.__doc__ = name, nin, None

    @property
    def function(self) -> Any:
        """SciPy's function."""
        return getattr(import_module("scipy.special"), self.__name__)

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call it."""
        return self.function(*args, **options)

    def resolve_dtypes(self, kinds: tuple[Any, ...]) -> tuple[Any, ...]:
        """Find a ufunc's loop, the result's dtype last: where all arguments have one floating dtype, that."""
        first, *others = kinds[: self.nin]
        if first in FLOATS and all(kind == first for kind in others):
            return (first,) * (self.nin + 1)
        return self.function.resolve_dtypes(kinds)  # type: ignore[no-any-return]
