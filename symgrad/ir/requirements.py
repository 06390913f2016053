"""What a program needs of its open extents, checked at each combination of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.errors import ArgumentValueError, IndexOutOfBounds
from symgrad.ir.evaluate import concrete, extents
from symgrad.ir.index.shapes import symbols
from symgrad.ir.memory import too_large
from symgrad.ir.program import Program
from symgrad.ir.saved.dims import dim_to_json, evaluated

REMEMBERED = 256
"""Combinations of extents that something is remembered of."""


def require(program: Program, arrays: Sequence[np.ndarray[Any, Any]]) -> dict[Any, int]:
    """Return the open extents by their symbols, and check what the program needs of them.

    Raises:
        IndexOutOfBounds: an index the user wrote lies outside of its axis at these extents.
        ArgumentValueError: something else that it needs of them does not hold, or two arguments disagree.
        SizeError: an array would be larger than memory can be.
    """
    dims = extents(program, arrays)
    for index, extent, axis, line, otherwise in program.requirements:
        position, size = concrete(index, dims), concrete(extent, dims)
        if not 0 <= position < size:
            if otherwise:
                raise ArgumentValueError(otherwise, line=line)
            raise IndexOutOfBounds(f"index {position} is out of bounds for axis {axis} with size {size}", line=line)
    beyond = program.largest.beyond({str(dim): size for dim, size in dims.items()})
    if beyond is not None:
        raise too_large(concrete(beyond.shape, dims), beyond.dtype, beyond.line)
    return dims


def unmet(program: Program) -> Callable[[Mapping[str, int]], frozenset[str]]:
    """Return a function that lists, once for each combination, the open extents a program cannot be called with."""
    known: dict[tuple[tuple[str, int], ...], frozenset[str]] = {}
    wanted = [
        (dim_to_json(r.index), dim_to_json(r.extent), [str(s) for s in symbols([(r.index, r.extent)])])
        for r in program.requirements
    ]

    def missing(sizes: Mapping[str, int]) -> frozenset[str]:
        key = tuple(sizes.items())
        found = known.get(key)
        if found is None:
            if len(known) > REMEMBERED:
                known.clear()
            failing = [names for i, e, names in wanted if not 0 <= evaluated(i, sizes) < evaluated(e, sizes)]
            large = () if program.largest.beyond(sizes) is None else sizes
            found = known[key] = frozenset([*large, *[name for names in failing for name in names]])
        return found

    return missing
