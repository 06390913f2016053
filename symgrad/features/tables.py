"""From a table's fields to the numbers of a model: ids on the host, everything after in the model's own C."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from symgrad.errors import ArgumentError, ArgumentValueError
from symgrad.features.columns import Categorical, Column, Embedding, Numeric, ids, numbers, weights
from symgrad.features.fingerprint import fingerprint64
from symgrad.nn import init as initial


def encode(columns: Sequence[Column], data: Mapping[str, Any], dtype: Any = np.float64) -> dict[str, Any]:
    """Read what the columns need from a table, on the host: strings become ids here, and never enter the C.

    Args:
        columns: numeric, bucketized, indicator and embedding columns.
        data: fields by name: arrays, or lists with a value or a list of values for each example.
        dtype: of numbers and weights; buckets are those of the numbers in it.

    Returns:
        Arrays by name, a row for each example: numbers; ids as int64, of shape (examples, most in one), with
        -1 behind those of examples with fewer; weights likewise, with 0. Columns that read one field in different ways,
        as by a vocabulary and by a hash, have an array each, with a fingerprint behind its name.

    Raises:
        ArgumentError: a field is missing, or a column is none of these.
        ArgumentValueError: fields differ in how many examples they have, or examples in their values and weights.
        IndexOutOfBounds: what is to be an id is none.

    >>> from symgrad import features as ft
    >>> encode([ft.indicator(ft.vocabulary("who", ["bob", "eve"]))], {"who": [["eve", "bob"], ["ann"]]})
    {'who': array([[ 1,  0],
           [-1, -1]])}
    """
    dtype = _float("encode", dtype)
    batch: dict[str, Any] = {}
    for source, key in _keys(_sorted(columns)).items():
        batch[key] = numbers(source, data).astype(dtype) if isinstance(source, Numeric) else ids(source, data)
        if isinstance(source, Categorical) and source.kind == "weighted":
            batch[f"{key}:weights"] = weights(source, data).astype(dtype)
    if len({len(array) for array in batch.values()}) > 1:
        lengths = ", ".join(f"{name!r} {len(array)}" for name, array in batch.items())
        raise ArgumentValueError(f"columns differ in how many examples they have: {lengths}")
    return batch


def init(columns: Sequence[Column], seed: int, dtype: Any = np.float64) -> dict[str, Any]:
    """Return the tables of embedding columns by name: normal, of deviation ``1 / sqrt(dimension)``, cut at two.

    A table's numbers depend on the seed and the column's name, not on what other columns there are.

    Raises:
        ArgumentValueError: the seed is no integer of at least 0.
    """
    if not isinstance(seed, (int, np.integer)) or seed < 0:  # type: ignore[redundant-expr]
        raise ArgumentValueError(f"init(seed={seed!r})", instead="an integer of at least 0")
    dtype = _float("init", dtype)
    return {
        c.name: initial.truncated_normal(
            fingerprint64(c.name.encode()) ^ int(seed), (c.column.size, c.dimension), std=c.dimension**-0.5,
            dtype=dtype,
        )
        for c in _sorted(columns) if isinstance(c, Embedding)
    }


def _float(function: str, dtype: Any) -> Any:
    if np.dtype(dtype) not in {np.dtype(np.float32), np.dtype(np.float64)}:
        raise ArgumentValueError(f"{function}(dtype={dtype!r})", instead="np.float32 or np.float64")
    return dtype


def dense(columns: Sequence[Column], params: Mapping[str, Any], batch: Mapping[str, Any]) -> Any:
    """Return the columns side by side, sorted by name, of shape (examples, width of all): what a model begins with.

    They are of the type of the batch's numbers and the tables, and doubles where there are none.

    Args:
        columns: those that `encode` was given, or some of them.
        params: the tables, as `init` makes them.
        batch: what `encode` returned; traced, or plain arrays.

    Raises:
        ArgumentError: the batch is one of other columns, or there is no table of an embedding, or one of another shape.

    >>> from symgrad import features as ft
    >>> columns = [ft.bucketized(ft.numeric("age"), [18, 65])]
    >>> dense(columns, {}, encode(columns, {"age": [70, 18]}))
    array([[0., 0., 1.],
           [0., 1., 0.]])
    """
    ordered = _sorted(columns)
    keys = _keys(ordered, batch)
    parts = [_dense(column, keys[_host_column(column)], params, batch) for column in ordered]
    names = [f"{key}:weights" if f"{key}:weights" in batch else key for key in keys.values()]
    given = [*[batch[name] for name in names], *[params[c.name] for c in ordered if isinstance(c, Embedding)]]
    dtypes = [getattr(one, "dtype", None) or np.asarray(one).dtype for one in given]
    kinds = [kind for kind in dtypes if kind.kind == "f"]
    return np.concatenate(parts, axis=1).astype(np.result_type(*kinds) if kinds else np.float64)


def _dense(column: Column, key: str, params: Mapping[str, Any], batch: Mapping[str, Any]) -> Any:
    if key not in batch:
        raise ArgumentError(f"the batch holds nothing for {column.name!r}, but {', '.join(map(repr, batch)) or 'none'}",
                            instead="what encode(columns, data) returns")
    source, found = _host_column(column), batch[key]
    if isinstance(source, Numeric):
        examples, width = np.shape(found)[0], prod(source.shape)
        flat = np.reshape(found, (examples, width))
        if not isinstance(column, Categorical):
            return flat
        boundaries: Any = np.array(column.of[1])
        hot = _one_hot(np.searchsorted(boundaries, flat, side="right"), len(boundaries) + 1)
        return np.reshape(hot, (examples, column.size))
    each = np.where(found >= 0, batch[f"{key}:weights"] if source.kind == "weighted" else 1.0, 0.0)
    if not isinstance(column, Embedding):
        return np.sum(_one_hot(found, source.size) * each[..., None], axis=1)
    wanted = source.size, column.dimension
    if column.name not in params or np.shape(params[column.name]) != wanted:
        found = f"one of {np.shape(params[column.name])}" if column.name in params else f"of {[*params]} none"
        raise ArgumentError(f"the table {column.name!r} is to have the shape {wanted}; there is {found}",
                            instead="params of init(columns, seed)")
    there = each > 0.0  # what is left out is no row of the batch: a lazy optimizer leaves the row as it is
    each = np.where(there, each, 0.0).astype(params[column.name].dtype)
    rows = np.where(there[..., None], params[column.name][np.where(there, found, 0)], 0.0)
    total = np.sum(rows * each[..., None], axis=1)
    if column.combiner == "sum":
        return total
    by = np.sum(each, axis=1) if column.combiner == "mean" else np.sqrt(np.sum(each * each, axis=1))
    return total / np.where(by > 0.0, by, 1.0)[:, None]


def _one_hot(places: Any, size: int) -> Any:
    return np.where(places[..., None] == np.arange(size), 1.0, 0.0)


def _host_column(column: Column) -> Numeric | Categorical:
    """Return the column that is read on the host."""
    found: Any = column.of[0] if isinstance(column, Categorical) else getattr(column, "column", column)
    return found  # type: ignore[no-any-return]  # a bucketized one is of numbers


def _keys(columns: Sequence[Column], batch: Container[str] = ()) -> dict[Numeric | Categorical, str]:
    """Say by which name a batch holds what is read on the host for each column.

    That is the column's own name, unless another column has it, too: here, or where the batch was made.
    """
    sources = dict.fromkeys(map(_host_column, columns))
    count = Counter([source.name for source in sources])
    return {
        source: source.full_name if count[source.name] > 1 or source.full_name in batch else source.name
        for source in sources
    }


def _sorted(columns: Sequence[Any]) -> list[Column]:
    if isinstance(columns, Column):
        raise ArgumentError(f"{columns!r} is one column", instead="a list of columns")
    for column in columns:
        if not isinstance(column, Column) or (isinstance(column, Categorical) and column.kind != "bucketized"):
            raise ArgumentError(f"{column!r} has no numbers of its own", instead="indicator(...), embedding(...) of it")
    found = sorted(columns, key=lambda column: column.name)
    twice = [a.name for a, b in pairwise(found) if a.name == b.name]
    if twice:
        raise ArgumentValueError(f"two columns are called {twice[0]!r}")
    return found
