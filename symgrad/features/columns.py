"""Columns: what becomes of a table's fields, as frozen values that say it and hold no state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from math import isnan, prod
from pathlib import Path
from typing import Any, Literal

import numpy as np

from symgrad.errors import ArgumentError, ArgumentValueError, IndexOutOfBounds
from symgrad.features.fingerprint import fingerprint64, joined

Combiner = Literal["mean", "sum", "sqrtn"]
Kind = Literal["identity", "vocabulary", "hashed", "bucketized", "crossed", "weighted"]

CROSS = 0xDECAFCAFFE
"""What the fingerprint of a cross begins with, as TensorFlow's."""

_VALUES = frozenset({str, bytes, int, float})


@dataclass(frozen=True)
class Column:
    """What becomes of a field; its name is its table's, too."""

    name: str

    @cached_property
    def full_name(self) -> str:
        """Its name and a fingerprint of all that it says, which tells it from other columns of that name."""
        return f"{self.name}:{blake2b(repr(self).encode(), digest_size=8).hexdigest()}"


@dataclass(frozen=True)
class Numeric(Column):
    """Numbers of a field, of a shape for each example."""

    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class Categorical(Column):
    """Ids from 0 to `size`, and -1 for none, made of what it is `of`: a field, columns, words, boundaries."""

    kind: Kind
    size: int
    of: tuple[Any, ...]


@dataclass(frozen=True)
class Indicator(Column):
    """How often each id stands in an example."""

    column: Categorical


@dataclass(frozen=True)
class Embedding(Column):
    """Rows of a table for the ids of an example, combined."""

    column: Categorical
    dimension: int
    combiner: Combiner


def numeric(key: str, shape: int | Sequence[int] = ()) -> Numeric:
    """Take a field of numbers, of a shape for each example; of `n` numbers, ``shape=n``."""
    return Numeric(key, (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(shape))


def bucketized(source: Any, boundaries: Sequence[float]) -> Categorical:
    """Sort numbers into ``[-inf, b0), [b0, b1), ..., [bn, inf)``.

    Of several numbers in an example each has ids of its own: those of the k-th begin with k times as many as there are
    buckets.

    Raises:
        ArgumentValueError: the boundaries do not rise, or the source is no numeric column.
    """
    found = tuple(map(float, boundaries))
    if not isinstance(source, Numeric) or not found or any(map(isnan, found)) or found != tuple(sorted({*found})):
        raise ArgumentValueError(f"bucketized({source!r}, {found})", instead="a numeric column, and numbers that rise")
    size = (len(found) + 1) * prod(source.shape)
    return Categorical(f"{source.name}_bucketized", "bucketized", size, (source, found))


def identity(key: str, size: int) -> Categorical:
    """Take a field of integers from 0 to ``size - 1`` as ids; negative ones are left out."""
    return Categorical(key, "identity", _positive(size), (key,))


def vocabulary(key: str, words: Sequence[Any]) -> Categorical:
    """Take a field of words from a list; others are left out.

    Raises:
        ArgumentValueError: a word stands twice, or there is none.
    """
    found = tuple(map(_text, words))
    if not found or len({*found}) < len(found):
        raise ArgumentValueError(f"the vocabulary of {key!r} is empty or has a word twice", instead="each word once")
    return Categorical(key, "vocabulary", len(found), (key, found))


def vocabulary_file(key: str, path: str | Path) -> Categorical:
    """Take a field of words from a file in UTF-8, a word a line."""
    lines = Path(path).read_text(encoding="utf-8-sig").split("\n")  # some programs write a mark of the byte order first
    return vocabulary(key, [line for line in lines if line])


def hashed(key: str, buckets: int) -> Categorical:
    """Take a field of any words: the id is ``fingerprint64(word) % buckets``, the same everywhere and for ever."""
    return Categorical(key, "hashed", _positive(buckets), (key,))


def crossed(keys: Sequence[str | Categorical], buckets: int) -> Categorical:
    """Take the combinations of several fields of words, or columns, hashed together.

    Of a field, words go in by their fingerprint and integers as they are; of a column its ids, where words that are not
    in a vocabulary are one more, -1, and what an identity leaves out is left out.

    Raises:
        ArgumentValueError: there are fewer than two, one has no ids (bucketize numbers), or it is hashed already (take
            the field itself).
    """
    if isinstance(keys, str) or len(keys) < 2:
        raise ArgumentValueError(f"crossed({keys!r})", instead='a list of two or more: crossed(["a", "b"], buckets)')
    for key in keys:
        if not isinstance(key, str) and getattr(key, "kind", "") not in {"identity", "vocabulary", "bucketized"}:
            raise ArgumentValueError(
                f"crossed([...]) of {key!r:.90}", instead="fields, vocabularies, identities or bucketized columns",
            )
    name = "_X_".join(sorted(key if isinstance(key, str) else key.name for key in keys))
    return Categorical(name, "crossed", _positive(buckets), tuple(keys))


def weighted(column: Categorical, weights_key: str) -> Categorical:
    """Weight each value of a column by the number at its place in another field."""
    of = _categorical("weighted", column)
    return Categorical(f"{of.name}_weighted_by_{weights_key}", "weighted", of.size, (of, weights_key))


def indicator(column: Categorical) -> Indicator:
    """Count how often each id stands in an example, or add its weights."""
    return Indicator(f"{_categorical('indicator', column).name}_indicator", column)


def embedding(column: Categorical, dimension: int, combiner: Combiner = "mean") -> Embedding:
    """Combine the rows of a table at the ids of an example; one without ids gets zeros.

    Args:
        column: of the ids, of which each has a row.
        dimension: how long a row is.
        combiner: ``"sum"``; ``"mean"``: the sum divided by the sum of weights; ``"sqrtn"``: by the root of the sum of
            their squares. Without weights these are 1. Values whose weight is not positive are left out.

    Raises:
        ArgumentValueError: there is no such combiner.
    """
    if combiner not in {"mean", "sum", "sqrtn"}:
        raise ArgumentValueError(f"embedding(combiner={combiner!r})", instead='"mean", "sum" or "sqrtn"')
    return Embedding(f"{_categorical('embedding', column).name}_embedding", column, _positive(dimension), combiner)


# -- what they read, on the host


def numbers(column: Numeric, data: Mapping[str, Any]) -> Any:
    """Return a field of numbers as an array of doubles, a row for each example."""
    given = _field(data, column.name)
    rows = given if isinstance(given, (list, tuple)) else ()
    is_masked = any(issubclass(kind, np.ma.MaskedArray) for kind in {type(given), *map(type, rows)})
    try:  # what is masked is not there, as None is
        found = np.ma.asarray(given, np.float64).filled(np.nan) if is_masked else np.asarray(given, np.float64)
    except (TypeError, ValueError) as error:
        raise ArgumentValueError(f"the field {column.name!r} holds other than numbers: {error}") from None
    found = found.reshape(0, *column.shape) if found.shape == (0,) else found  # of []
    if found.ndim == 0 or found.shape[1:] != column.shape:
        raise ArgumentValueError(
            f"the field {column.name!r} has the shape {found.shape}",
            instead=f"(examples, {', '.join(map(str, column.shape))})",
        )
    return found


def ids(column: Categorical, data: Mapping[str, Any]) -> Any:
    """Return the ids of each example, of shape (examples, most in one), with -1 behind those of the others."""
    found = _example_ids(column, data)
    if any(None in row for row in found):
        found = [[-1 if one is None else one for one in row] for row in found]
    return _padded(found, -1, np.int64)


def weights(column: Categorical, data: Mapping[str, Any]) -> Any:
    """Return the weights of a weighted column's values, with 0 behind them."""
    of, key = column.of
    given = _example_values(data, key)
    try:
        found = [[*map(float, row)] for row in given]
    except (TypeError, ValueError) as error:
        raise ArgumentValueError(f"the field {key!r} holds other than numbers: {error}") from None
    for k, (mine, theirs) in enumerate(zip(found, _example_ids(of, data), strict=False)):
        if len(mine) != len(theirs):
            raise ArgumentValueError(
                f"the field {key!r} has {len(mine)} weights in example {k}, and {of.name!r} has {len(theirs)} values",
                instead="a weight for each value",
            )
    return _padded(found, 0.0, np.float64)


def _example_ids(column: Categorical, data: Mapping[str, Any]) -> list[list[int | None]]:
    """Return the ids of each example: -1 for a word that is not in the vocabulary, None for what is left out."""
    if column.kind == "weighted":
        return _example_ids(column.of[0], data)
    if column.kind == "bucketized":
        source, boundaries = column.of
        width, found = prod(source.shape), numbers(source, data)
        places: Any = np.searchsorted(np.array(boundaries), found, side="right").reshape(len(found), width)
        return (places + (len(boundaries) + 1) * np.arange(width)).tolist()  # type: ignore[no-any-return]
    if column.kind == "crossed":
        return _combinations(column, data)
    key, *words = column.of
    numbered = {word: place for place, word in enumerate(words[0])} if words else {}
    id_of: dict[str, Callable[[Any], int | None]] = {
        "vocabulary": lambda value: numbered.get(_text(value), -1), "hashed": lambda value: _print(value) % column.size,
        "identity": lambda value: _identity(column, value),
    }
    return _by_example(data, key, id_of[column.kind])


def _combinations(column: Categorical, data: Mapping[str, Any]) -> list[list[int | None]]:
    """Return the ids of a cross: the last column's values run fastest."""
    columns = [
        _by_example(data, key, _of_field) if isinstance(key, str) else _example_ids(key, data) for key in column.of
    ]
    if len({*map(len, columns)}) > 1:
        raise ArgumentValueError(f"the fields of {column.name!r} have {[*map(len, columns)]} examples")
    made: list[list[int | None]] = []
    for parts in zip(*columns, strict=True):
        found = [CROSS]
        for part in parts:
            found = [joined(one, value) for one in found for value in part if value is not None]
        made.append([one % column.size for one in found])
    return made


def _identity(column: Categorical, value: Any) -> int | None:
    if not isinstance(value, (int, float, np.number)) or not -np.inf < value < column.size or int(value) != value:
        raise IndexOutOfBounds(f"{value!r} in the field {column.name!r} is none of {column.size} ids")
    return int(value) if value >= 0 else None


def _field(data: Mapping[str, Any], key: str) -> Any:
    if key not in data:
        raise ArgumentError(f"there is no field {key!r}; the fields are {', '.join(map(repr, data))}")
    found = data[key]
    is_one = found is None or np.isscalar(found) or (isinstance(found, np.ndarray) and not found.ndim)
    if is_one or isinstance(found, (AbstractSet, Mapping)):  # a text is one, too
        raise ArgumentError(f"the field {key!r} is {found!r:.60}", instead="a list with what each example has")
    return found


def _by_example(data: Mapping[str, Any], key: str, of: Callable[[Any], int | None]) -> list[list[int | None]]:
    """Apply a function to the values of each example; None stays None."""
    rows, made = _example_values(data, key), []
    try:
        for row in rows:
            made.append([None if value is None else of(value) for value in row])  # noqa: PERF401 - it counts them
    except UnicodeEncodeError:
        at = len(made)
        raise ArgumentValueError(
            f"the field {key!r} holds {rows[at]!r:.60} in example {at}, which has no bytes in UTF-8",
            instead='text without lone surrogates, or text.encode(errors="surrogatepass")',
        ) from None
    return made


def _example_values(data: Mapping[str, Any], key: str) -> list[list[Any]]:
    """Return the values of each example: one, none, or those of a list."""
    found = _field(data, key)
    made: list[list[Any]] = []
    for k, one in enumerate(found.tolist() if isinstance(found, np.ndarray) else found):
        several = one.tolist() if isinstance(one, np.ndarray) else one
        row = [*several] if isinstance(several, (list, tuple)) else [several] * (several is not None)
        if any(issubclass(kind, Iterable) for kind in {*map(type, row)} - _VALUES):
            raise ArgumentError(
                f"the field {key!r} holds {one!r:.60} in example {k}", instead="a value, or a list of values",
            )
        made.append(row)
    return made


def _padded(found: list[list[Any]], fill: float, dtype: Any) -> Any:
    made = np.full((len(found), max([1, *map(len, found)])), fill, dtype)
    for k, row in enumerate(found):
        made[k, : len(row)] = row
    return made


def _text(word: Any) -> Any:
    """Return bytes of UTF-8 as the text they are; all else is itself."""
    try:
        return word.decode() if isinstance(word, bytes) else word
    except UnicodeDecodeError:
        return word


def _print(word: Any) -> int:
    """Return the fingerprint of a word, or of an integer's decimals."""
    return fingerprint64(word if isinstance(word, bytes) else str(word).encode())


def _of_field(value: Any) -> int:
    """Return what goes into a cross of a value in a field: `SparseCross` of TensorFlow hashes what is text alone."""
    return int(value) if isinstance(value, (int, np.integer, np.bool_)) else _print(value)


def _positive(number: int) -> int:
    if number < 1:
        raise ArgumentValueError(f"a column of {number} ids, or rows of {number}", instead="a number of at least 1")
    return int(number)


def _categorical(what: str, column: Any) -> Categorical:
    if not isinstance(column, Categorical):
        raise ArgumentError(f"{what} takes a categorical column, not {column!r}", instead="hashed, vocabulary, ...")
    return column
