"""Memory for results: a large block is used again once nobody holds the array that was returned in it.

New memory costs more than to fill it: the system hands out zeroed pages, one interrupt each, and takes them back when
an array goes. A training step's gradient would pay that at every call. So a function keeps the blocks of its last large
results, and looks at how many hold one before it is used again: an array, or a view of it, holds its block.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

BLOCK_LEAST, BLOCK_MOST = 1 << 17, 1 << 25
"""Bytes of the blocks that are kept: smaller ones the C library keeps itself (it may ask the system for all others, and
give them back at once), larger ones would be missed elsewhere."""

NOTHING = np.empty(0)

SPARE = 2
"""So many blocks are kept for each result: the last one is often still held while the next one is made."""


def pooled(shapes: Sequence[tuple[int, ...]], dtypes: Sequence[np.dtype[Any]]) -> Any:
    """Return what makes a function's results, as `np.empty` does, of shapes and dtypes among these."""
    sizes = Counter(zip(shapes, dtypes, strict=True))
    kept = {
        key: SPARE * count for key, count in sizes.items()
        if BLOCK_LEAST <= prod(key[0]) * key[1].itemsize <= BLOCK_MOST
    }
    return _BlockPool(kept) if kept and COUNTS else np.empty


class _BlockPool:
    """The blocks of one function; a block that is looked at is nobody else's meanwhile."""

    def __init__(self, most: dict[Any, int]) -> None:
        self.most = most
        self.blocks: dict[Any, deque[Any]] = {key: deque() for key in most}

    def __call__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        blocks = self.blocks.get((shape, dtype))
        if blocks is None:
            return np.empty(shape, dtype)
        for _ in range(len(blocks)):
            block, holders = _first_free(blocks)
            used = holders == ALONE
            array: np.ndarray[Any, Any] = block[...] if used else NOTHING
            if block is not None:
                blocks.append(block)
            if used:
                return array
        block = np.empty(shape, dtype)
        array = block[...]
        if len(blocks) < self.most[shape, dtype]:
            blocks.append(block)
        return array


def _first_free(blocks: deque[Any]) -> tuple[Any, int]:
    """Take a block out, with how many hold it; None where another thread was faster."""
    try:
        block = blocks.popleft()
    except IndexError:
        return None, 0
    return block, sys.getrefcount(block)


COUNTS = sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()
"""Whether references are counted exactly."""

ALONE = _first_free(deque([np.empty(1, np.uint8)]))[1] if COUNTS else 0
"""How many hold a block of which there is no array."""
