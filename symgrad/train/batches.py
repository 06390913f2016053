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

from symgrad import tree_flatten, tree_map
from symgrad.errors import ArgumentError, ArgumentValueError
from symgrad.train.files import HEAD


class Rows:
    """Batches of rows of arrays.

    Attributes:
        each: rows of a batch; the last one has what is left.
        arrays: what the rows are of.
        count: the rows.
        batches: how many there are in an epoch.
        lie: C takes rows of the arrays as they lie.
    """

    def __init__(self, data: Any, each: int, seed: int) -> None:
        """Take an array, a tuple of arrays or structures of such, and names of files of them."""
        self.each, self.seed, self.arrays = each, seed, arguments(data)
        leaves = tree_flatten(self.arrays)[0]
        for matrix in [one for one in leaves if not isinstance(one, np.ndarray)]:
            raise ArgumentError(
                f"fit(batch={each}) of a {type(matrix).__name__}: rows are drawn from arrays",
                instead=f"no batch=, and batches in the place of the data: [(S[k : k + {each}], y[k : k + {each}]) for "
                f"k in range(0, len(y), {each})]; or S.toarray() of a small one",
            )
        shapes = [array.shape for array in leaves]
        if len({shape[:1] for shape in shapes}) != 1 or not (shapes[0] and shapes[0][0]):
            raise ArgumentValueError(
                f"fit(): data of the shapes {', '.join(dict.fromkeys(map(str, shapes))) or 'none'}",
                instead="arrays with rows, and as many in each",
            )
        self.count: int = shapes[0][0]
        self.batches = -(-self.count // each)
        self.lie = all(one.flags.c_contiguous and one.flags.aligned and one.dtype.isnative for one in leaves)

    def epoch(self, number: int, first: int, some: Callable[[], int]) -> Iterator[tuple[int, Any]]:
        """Give the rows of an epoch's batches from one on: of one batch, or of up to `some()` of full size."""
        order = permutation(self.seed, number, self.count)
        while first < self.batches:
            several = max(1, min(some(), self.count // self.each - first))
            yield several, order[first * self.each : (first + several) * self.each]
            first += several

    def batch(self, rows: Any) -> tuple[Any, ...]:
        """Return the first batch of some rows."""
        return tuple(tree_map(lambda array: array[rows[: self.each]], self.arrays))

    def kind(self, rows: Any) -> Any:
        """Return what the first batch of some rows may be compiled for: how many there are."""
        return min(len(rows), self.each)


class Given:
    """Batches that an iterable gives, the same ones in each epoch."""

    each = count = 0
    lie = False

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
        self.data, self.batches = data, len(data) if hasattr(data, "__len__") else None

    def epoch(self, _number: int, first: int, _some: Any) -> Iterator[tuple[int, Any]]:
        """Give the batches from one on, one at a time."""
        yield from ((1, batch) for batch in islice(self.data, first, None))

    def batch(self, batch: Any) -> tuple[Any, ...]:
        """Return a batch as arguments."""
        return tuple(batch) if isinstance(batch, (tuple, list)) else (batch,)

    def kind(self, batch: Any) -> Any:
        """Return what a batch may be compiled for: shapes and types."""
        leaves, structure = tree_flatten(self.batch(batch))
        return structure, *[(np.shape(x), getattr(x, "dtype", type(x)), getattr(x, "nnz", None)) for x in leaves]


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
        return tuple(_mapped(Path(data)))

    from scipy.sparse import issparse

    def array(leaf: Any) -> Any:  # of a masked array the mask would be lost: steps refuse one
        return leaf if isinstance(leaf, np.ma.MaskedArray) or issparse(leaf) else np.asarray(leaf)

    parts = [
        np.load(one, mmap_mode="r", allow_pickle=False) if isinstance(one, (str, os.PathLike)) else one
        for one in (data if isinstance(data, (tuple, list)) else (data,))
    ]
    return tuple(tree_map(array, parts))


def _mapped(path: Path) -> Iterator[Any]:
    """Map the arrays of an npz that is not compressed; np.load would read them whole."""
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise ArgumentValueError(f"{path}: cut short, or no npz ({error})", instead="what np.savez wrote") from None
    with archive, path.open("rb") as file:
        for info in archive.infolist():
            if info.filename == f"{HEAD}.npy":  # what save() adds to the arrays
                continue
            if info.compress_type != zipfile.ZIP_STORED:
                raise ArgumentValueError(
                    f"{path}: {info.filename} is compressed, and cannot be mapped into memory",
                    instead="np.savez, or the arrays of np.load",
                )
            file.seek(info.header_offset + 26)  # where its own header has the lengths of two parts (APPNOTE.TXT, 4.3.7)
            file.seek(sum(struct.unpack("<HH", file.read(4))), os.SEEK_CUR)
            read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
            shape, fortran, dtype = read[np.lib.format.read_magic(file)](file)
            if dtype.hasobject:
                raise ArgumentValueError(f"{path}: {info.filename} holds Python's objects", instead="arrays of numbers")
            yield np.asarray(np.memmap(path, dtype, "r", file.tell(), shape, "F" if fortran else "C"))
