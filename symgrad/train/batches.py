"""Where the batches of an epoch come from: rows of arrays in an order by seed and epoch, or whatever gives them."""

from __future__ import annotations

import os
import struct
import zipfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from symgrad.api.trees import tree_leaves, tree_map
from symgrad.errors import ArgumentError, ArgumentValueError
from symgrad.trace.structures import flattened, is_pattern
from symgrad.train.files import HEAD

_LOCAL_HEADER = 30
"""Bytes of a zip member's own header before its name (APPNOTE.TXT, 4.3.7)."""


class Rows:
    """Batches of rows of arrays.

    Attributes:
        count: the rows.
        each: rows of a batch; the last one has what is left.
    """

    def __init__(self, data: Any, each: int, seed: int) -> None:
        """Take an array, a tuple of arrays or structures of such, and names of files of them."""
        self.each, self.seed, self.arrays = each, seed, arguments(data)
        for matrix in filter(is_pattern, tree_leaves(self.arrays)):
            raise ArgumentError(
                f"fit(batch={each}) of a {type(matrix).__name__}: rows are drawn from arrays",
                instead=f"no batch=, and batches in the place of the data: [(S[k : k + {each}], y[k : k + {each}]) for "
                f"k in range(0, len(y), {each})]; or S.toarray() of a small one",
            )
        shapes = [array.shape for array in tree_leaves(self.arrays)]
        if len({shape[:1] for shape in shapes}) != 1 or not (shapes[0] and shapes[0][0]):
            raise ArgumentValueError(
                f"fit(): data of the shapes {', '.join(dict.fromkeys(map(str, shapes))) or 'none'}",
                instead="arrays with rows, and as many in each",
            )
        self.count: int = shapes[0][0]

    def epoch(self, number: int, first: int, some: Callable[[], int] = lambda: 1) -> Iterator[tuple[int, Any]]:
        """Give the batches of an epoch from one on: how many, and one batch, or the rows of so many of full size."""
        order = permutation(self.seed, number, self.count)
        while first * self.each < self.count:
            several = min(some(), self.count // self.each - first)
            rows = order[first * self.each : (first + max(1, several)) * self.each]
            yield (several, rows) if several > 1 else (1, self.batch(rows))
            first += max(1, several)

    def batch(self, rows: Any) -> tuple[Any, ...]:
        """Return some rows of each array."""
        return tuple(tree_map(lambda array: array[rows], self.arrays))

    @property
    def lies(self) -> bool:
        """Whether C takes rows of the arrays as they lie."""
        return all(
            array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative
            for array in tree_leaves(self.arrays)
        )

    def samples(self) -> Iterator[tuple[Any, ...]]:
        """Give a batch of each size, in the order in which an epoch has them."""
        yield from [batch for _, batch in islice(self.epoch(0, 0), 1)]
        if self.count % self.each and self.count > self.each:
            yield from [batch for _, batch in self.epoch(0, self.count // self.each)]

    def batches(self) -> int:
        """Return how many there are in an epoch."""
        return -(-self.count // self.each)


class Given:
    """Batches that an iterable gives, the same ones in each epoch."""

    count = each = 0
    lies = False

    def __init__(self, data: Any, epochs: int) -> None:
        """Take what can be gone through as often as there are epochs."""
        if not hasattr(data, "__iter__") or isinstance(data, (np.ndarray, tuple, dict, str)):
            raise ArgumentError(
                f"fit() of a {type(data).__name__}, and it is not said how many rows a batch has",
                instead="batch=n for arrays, or a list or another iterable of batches",
            )
        if hasattr(data, "__next__") and epochs > 1:
            raise ArgumentError(
                f"fit(epochs={epochs}) of a {type(data).__name__}, which can be gone through once",
                instead="a list of batches, or an object whose __iter__ begins anew",
            )
        self.data = data

    def epoch(self, _number: int, first: int, _some: Any = None) -> Iterator[tuple[int, Any]]:
        """Give the batches from one on, one at a time."""
        for batch in islice(self.data, first, None):
            yield 1, batch if isinstance(batch, tuple) else tuple(batch) if isinstance(batch, list) else (batch,)

    def samples(self) -> Iterator[tuple[Any, ...]]:
        """Give batches in their order, among them one of each shape."""
        return (batch for _, batch in self.epoch(0, 0))

    def batches(self) -> int | None:
        """Return how many there are in an epoch, where that is known."""
        return len(self.data) if hasattr(self.data, "__len__") else None


def kind(batch: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what a batch may be compiled for: shapes and types."""
    return tuple([(np.shape(leaf), getattr(leaf, "dtype", type(leaf))) for leaf in flattened(batch)[0]])


def permutation(seed: Any, epoch: int, count: int) -> Any:
    """Return the numbers from 0 on in an order that seed and epoch alone decide, with every NumPy.

    It sorts the bits of Philox (J. Salmon et al., 2011), whose stream NumPy promises to keep; its shuffles may change.

    >>> permutation(0, 0, 5)
    array([3, 2, 4, 1, 0])
    """
    if not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**64:
        raise ArgumentValueError(f"fit(seed={seed!r})", instead="an integer of at least 0, below 2**64")
    drawn = np.random.Philox(key=int(seed) + (epoch + 1 << 64)).random_raw(count)
    return np.argsort(np.asarray(drawn, np.uint64), kind="stable")


def arguments(data: Any) -> tuple[Any, ...]:
    """Return what stands behind parameters and state in a call: arrays for the names of files."""
    if isinstance(data, (str, os.PathLike)) and str(data).endswith(".npz"):
        return tuple(_arrays_inside(Path(data)))
    return tuple([_array(one) for one in (data if isinstance(data, (tuple, list)) else (data,))])


def _array(one: Any) -> Any:
    if isinstance(one, (str, os.PathLike)):
        return np.asarray(np.load(one, mmap_mode="r", allow_pickle=False))

    def plain(leaf: Any) -> Any:  # of a masked array the mask would be lost: steps refuse one
        return leaf if isinstance(leaf, np.ma.MaskedArray) or is_pattern(leaf) else np.asarray(leaf)

    return tree_map(plain, one)


def _opened(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise ArgumentValueError(f"{path}: cut short, or no npz ({error})", instead="what np.savez wrote") from None


def _arrays_inside(path: Path) -> Iterator[Any]:
    """Map the arrays of an npz that is not compressed; np.load would read them whole."""
    with _opened(path) as archive, path.open("rb") as file:
        for info in archive.infolist():
            if info.filename == f"{HEAD}.npy":  # what save() adds to the arrays
                continue
            if info.compress_type != zipfile.ZIP_STORED:
                raise ArgumentValueError(
                    f"{path}: {info.filename} is compressed, and cannot be mapped into memory",
                    instead="np.savez, or the arrays of np.load",
                )
            file.seek(info.header_offset)
            name, extra = struct.unpack("<HH", file.read(_LOCAL_HEADER)[-4:])
            file.seek(name + extra, os.SEEK_CUR)
            read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
            shape, fortran, dtype = read[np.lib.format.read_magic(file)](file)
            if dtype.hasobject:
                raise ArgumentValueError(f"{path}: {info.filename} holds Python's objects", instead="arrays of numbers")
            mapped = np.memmap(path, dtype, "r", file.tell(), shape, "F" if fortran else "C")
            yield np.asarray(mapped)
