"""Calls of NumPy's functions, each on arrays of given shapes: what traced arrays must answer as NumPy does."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.special

ALL, REAL, FLOAT = "dfi?", "dfi", "df"


class Call(NamedTuple):
    """A call ``call(*arrays)``; `kinds` are the dtypes it is tried with, `known` says why it needs known extents."""

    name: str
    call: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    kinds: str = REAL
    known: str = ""


def calls(name: str, *entries: tuple[Any, ...], kinds: str = REAL, known: str = "") -> list[Call]:
    """Write calls of one function: each a callable and the shapes of its arrays."""
    return [Call(name, entry[0], tuple(entry[1:]), kinds, known) for entry in entries]


def floats(name: str, *entries: tuple[Any, ...], known: str = "") -> list[Call]:
    """Write calls that are tried with floating-point arrays only."""
    return calls(name, *entries, kinds=FLOAT, known=known)


SIZES = "its shape depends on the extents"
V, M, T, S = (4,), (3, 4), (2, 3, 4), (3, 3)

SHAPING = [
    *calls("reshape", (lambda a: np.reshape(a, (2, 6)), M), (lambda a: np.reshape(a, -1), M), (lambda a: np.reshape(a, 12), M),
           (lambda a: np.reshape(a, (2, -1), order="F"), M), (lambda a: np.reshape(a, (-1, 3), order="F"), T),
           (lambda a: a.reshape(4, 3), M), (lambda a: a.reshape((2, -1, 2)), M), (lambda a: np.reshape(a, np.array([4, 3])), M),
           (lambda a: np.reshape(a, (2, 6), copy=True), M), known=SIZES),
    *calls("reshape", (lambda a: np.reshape(a, (a.shape[1], a.shape[0])), M), (lambda a: np.reshape(a, (-1, a.shape[2])), T),
           (lambda a: np.reshape(a, (a.size, 1, 1)), T), (lambda a: a.reshape(a.shape[0] * a.shape[2], -1)[0], (3, 2, 4)), kinds=ALL),
    *calls("ravel", (np.ravel, T), (lambda a: np.ravel(a, "F"), T), (lambda a: a.ravel(), ()), (lambda a: a.flatten("F"), M)),
    *calls("transpose", (np.transpose, T), (lambda a: np.transpose(a, (1, 0, -1)), T), (lambda a: a.transpose(2, 0, 1), T),
           (lambda a: a.T, V), (lambda a: a.mT, T), (lambda a: np.permute_dims(a, (1, 0)), M), (np.transpose, ())),
    *calls("matrix_transpose", (np.matrix_transpose, T), (np.linalg.matrix_transpose, M)),
    *calls("swapaxes", (lambda a: np.swapaxes(a, 0, -1), T), (lambda a: a.swapaxes(1, 1), T)),
    *calls("moveaxis", (lambda a: np.moveaxis(a, 0, -1), T), (lambda a: np.moveaxis(a, (0, 1), (-1, 0)), T),
           (lambda a: np.moveaxis(a, [2, 0], [0, 1]), T)),
    *calls("rollaxis", (lambda a: np.rollaxis(a, 2), T), (lambda a: np.rollaxis(a, 0, 3), T), (lambda a: np.rollaxis(a, 1, -1), T)),
    *calls("expand_dims", (lambda a: np.expand_dims(a, 0), M), (lambda a: np.expand_dims(a, (0, -1)), M),
           (lambda a: np.expand_dims(a, ()), M), (lambda a: np.expand_dims(a, [0]), ())),
    *calls("squeeze", (np.squeeze, (1, 3, 1)), (lambda a: np.squeeze(a, 0), (1, 3, 1)), (lambda a: a.squeeze((0, -1)), (1, 3, 1)),
           (np.squeeze, ()), known="only an extent known to be 1 is dropped"),
    *calls("broadcast_to", (lambda a: np.broadcast_to(a, (2, *a.shape)), M), (lambda a: np.broadcast_to(a, 5), ()),
           (lambda a: np.broadcast_to(a, a.shape), M)),
    *calls("broadcast_to", (lambda a: np.broadcast_to(a, (3, 4)), (3, 1)), known=SIZES),
    *calls("broadcast_arrays", (np.broadcast_arrays, M, (4,)), (lambda a: np.broadcast_arrays(a, 1.0), M)),
    *calls("atleast_1d", (np.atleast_1d, ()), (np.atleast_1d, M), (lambda a, b: np.atleast_1d(a, b), (), V)),
    *calls("atleast_2d", (np.atleast_2d, ()), (np.atleast_2d, V), (np.atleast_2d, T), (lambda a: np.atleast_2d(a, 3.0), V)),
    *calls("atleast_3d", (np.atleast_3d, ()), (np.atleast_3d, V), (np.atleast_3d, M), (np.atleast_3d, T)),
    *calls("copy", (np.copy, M), (lambda a: a.copy() + 1, M), (lambda a: np.copy(a, "C"), ())),
    *calls("astype", (lambda a: a.astype(np.float32), M), (lambda a: a.astype("f8"), M), (lambda a: a.astype(bool), M),
           (lambda a: np.astype(a, np.float64, copy=False), M), (lambda a: a.astype(a.dtype), M), kinds=ALL),
    *calls("zeros_like", (np.zeros_like, M), (lambda a: np.zeros_like(a, dtype=bool), M), (lambda a: np.zeros_like(a, shape=(2,)), M),
           (lambda a: np.zeros_like(a, float, "C", True, a.shape[:1]), M), kinds=ALL),
    *calls("empty_like", (lambda a: np.empty_like(a) * 0 if a.dtype.kind == "f" else np.zeros_like(a), M)),
    *calls("ones_like", (np.ones_like, M), (lambda a: np.ones_like(a, np.float32), ()), kinds=ALL),
    *calls("full_like", (lambda a: np.full_like(a, 3), M), (lambda a: np.full_like(a, a[0]), M),
           (lambda a: np.full_like(a, 2.5, dtype=np.float64), V), (lambda a: np.full_like(a, 1.5, shape=(2, 2)), V)),
    *calls("shape", (np.shape, T), (lambda a: np.array(np.shape([a, a])), V), known=SIZES),
    *calls("ndim", (np.ndim, T), (np.ndim, ())),
    *calls("size", (np.size, T), (lambda a: np.size(a, 1), T), (lambda a: np.size(a, (0, -1)), T) if np.__version__ >= "2.4" else (np.size, M)),
    *calls("result_type", (lambda a: a.astype(np.result_type(a, np.float32)), M), (lambda a: a.astype(np.result_type(a, 1.0)), M),
           (lambda a: a.astype(np.result_type(a, "i2", 3)), M), kinds=ALL),
    *calls("iscomplexobj", (np.iscomplexobj, M)), *calls("isrealobj", (np.isrealobj, M)),
    *calls("iscomplex", (np.iscomplex, M)), *calls("isreal", (np.isreal, M)),
    *calls("real", (np.real, M), (lambda a: a.real, M), (np.real_if_close, M)),
    *calls("imag", (np.imag, M), (lambda a: a.imag, M)),
    *calls("conjugate", (np.conj, M), (lambda a: a.conj(), M), (np.conjugate, ())),
]

ORDER = [
    *calls("flip", (np.flip, M), (lambda a: np.flip(a, 1), M), (lambda a: np.flip(a, (0, -1)), T), (np.flip, ()), (np.flip, (0, 2))),
    *calls("fliplr", (np.fliplr, M)), *calls("flipud", (np.flipud, V)),
    *calls("rot90", (np.rot90, M), (lambda a: np.rot90(a, 2), M), (lambda a: np.rot90(a, -1), M),
           (lambda a: np.rot90(a, 3, (1, 2)), T), (lambda a: np.rot90(a, 4), M)),
    *calls("roll", (lambda a: np.roll(a, 1), M), (lambda a: np.roll(a, -5, 1), M), (lambda a: np.roll(a, (1, 2), (0, 1)), M),
           (lambda a: np.roll(a, 2, (0, 1)), M), (lambda a: np.roll(a, (1, 2), 0), M), (lambda a: np.roll(a, 1, 0), (0, 2)),
           (lambda a: np.roll(a, 0), M), (lambda a: np.roll(a, (1, 1), (0, 0)), M)),
    *calls("tile", (lambda a: np.tile(a, 2), M), (lambda a: np.tile(a, (2, 1, 3)), M), (lambda a: np.tile(a, (2,)), ()),
           (lambda a: np.tile(a, (0, 2)), M), (lambda a: np.tile(a, a.shape[0]), V)),
    *calls("repeat", (lambda a: np.repeat(a, 2), M), (lambda a: np.repeat(a, 3, 0), M), (lambda a: a.repeat(2, axis=-1), T),
           (lambda a: np.repeat(a, [2], 1), M), (lambda a: np.repeat(a, 0), V)),
    *calls("repeat", (lambda a: np.repeat(a, [1, 0, 2], 0), M), (lambda a: np.repeat(a, [1, 0, 2, 1]), V),
           known="each row is repeated differently"),
    *calls("split", (lambda a: np.split(a, 2, 1), M), (lambda a: np.split(a, 3), M), known="the extent must divide"),
    *calls("split", (lambda a: np.split(a, [1, 2]), M), (lambda a: np.split(a, [1, 9], 1), M), (lambda a: np.split(a, (2, -1)), (5,))),
    *calls("array_split", (lambda a: np.array_split(a, 3), (7,)), (lambda a: np.array_split(a, 3, 1), M),
           (lambda a: np.array_split(a, 5), V), known="the parts' sizes depend on the extent"),
    *calls("array_split", (lambda a: np.array_split(a, [2]), V)),
    *calls("hsplit", (lambda a: np.hsplit(a, [1]), M), (lambda a: np.hsplit(a, [2]), V)),
    *calls("vsplit", (lambda a: np.vsplit(a, [2]), M)), *calls("dsplit", (lambda a: np.dsplit(a, [1, 3]), T)),
    *calls("concatenate", (lambda a, b: np.concatenate([a, b]), M, (2, 4)), (lambda a, b: np.concatenate((a, b), axis=None), M, V),
           (lambda a: np.concatenate([a, [[1.0]]], axis=1), (1, 4)),
           (lambda a, b: np.concat([a, b], axis=-1, dtype=np.float64), M, (3, 1))),
    *calls("concatenate", (lambda a: np.concatenate(a), M), known="iteration needs the extent"),
    *calls("stack", (lambda a, b: np.stack([a, b]), M, M), (lambda a, b: np.stack((a, b), axis=-1), M, M),
           (lambda a: np.stack([a, 1.0]), ())),
    *calls("stack", (lambda a: np.stack(a, 1), M), (lambda a: np.stack(list(a)), (3,)), known="iteration needs the extent"),
    *calls("vstack", (lambda a, b: np.vstack([a, b]), M, V), (lambda a, b: np.vstack((a, b)), (), ())),
    *calls("hstack", (lambda a, b: np.hstack([a, b]), M, (3, 2)), (lambda a, b: np.hstack((a, b)), V, (2,)),
           (lambda a: np.hstack([a, 2.0]), ()), (lambda a, b: np.hstack([a, b], dtype=np.float64), V, V)),
    *calls("dstack", (lambda a, b: np.dstack([a, b]), M, M), (lambda a, b: np.dstack((a, b)), V, V)),
    *calls("column_stack", (lambda a, b: np.column_stack([a, b]), (3,), (3, 2)), (lambda a, b: np.column_stack((a, b)), V, V)),
    *calls("block", (lambda a, b: np.block([[a, b], [b, a]]), S, S), (lambda a: np.block([a, a]), V), (lambda a: np.block(a), M)),
    *calls("block", (lambda a: np.block([[a, np.zeros((3, 1))], [np.ones((1, 4))]]), S), known="constant parts"),
    *calls("append", (lambda a, b: np.append(a, b), M, V), (lambda a: np.append(a, 2.0), V), (lambda a, b: np.append(a, b, 0), M, (1, 4))),
    *calls("delete", (lambda a: np.delete(a, 1), V), (lambda a: np.delete(a, [0, 2], 1), M), (lambda a: np.delete(a, slice(1, 3), 1), M),
           (lambda a: np.delete(a, -1, 0), M), (lambda a: np.delete(a, 0), V), known="the places are counted while tracing"),
    *calls("diagonal", (np.diagonal, M), (lambda a: np.diagonal(a, 1), M), (lambda a: a.diagonal(-1, 2, 0), T),
           (lambda a: np.linalg.diagonal(a, offset=1), T)),
    *calls("trace", (np.trace, M), (lambda a: a.trace(1), S), (lambda a: np.trace(a, 0, 1, 2), T), (np.linalg.trace, T), kinds=ALL),
    *calls("diag", (np.diag, V), (lambda a: np.diag(a, -2), V), (lambda a: np.diag(a, 1), M)),
    *calls("diagflat", (np.diagflat, M), (lambda a: np.diagflat(a, 1), V)),
    *calls("tril", (np.tril, M), (lambda a: np.tril(a, -1), T), (np.tril, V), kinds=ALL),
    *calls("triu", (np.triu, M), (lambda a: np.triu(a, 2), T), (lambda a: np.triu(a, -1), V), kinds=ALL),
    *calls("meshgrid", (np.meshgrid, V, (3,)), (lambda a, b: np.meshgrid(a, b, indexing="ij"), V, (3,)),
           (lambda a, b, c: np.meshgrid(a, b, c, sparse=True), V, (3,), (2,)), (lambda a: np.meshgrid(a, copy=False), V),
           (lambda a: np.meshgrid(a, np.arange(3.0)), V)),
    *calls("take", (lambda a: np.take(a, 5), M), (lambda a: np.take(a, [0, -1], axis=1), M), (lambda a: np.take(a, [[0, 2], [1, 1]], 0), M),
           (lambda a: a.take(1, axis=-1), M), (lambda a: np.take(a, [5, -7], 1, mode="wrap"), M), (lambda a: np.take(a, [9, -9], 0, mode="clip"), M),
           known="the places are checked while tracing"),
    *calls("take_along_axis", (lambda a: np.take_along_axis(a, np.array([[0], [2], [-1]]), 1), M),
           (lambda a: np.take_along_axis(a, np.array([[1, 0, 2, 2]]), axis=0), M),
           (lambda a: np.take_along_axis(a, np.argmax(a, 1)[:, None], 1), M), (lambda a: np.take_along_axis(a, np.array([3, 0]), None), M),
           known="constant places"),
    *calls("take_along_axis", (lambda a: np.take_along_axis(a, np.argmin(a, 0)[None], 0), M)),
]
if hasattr(np, "unstack"):
    ORDER += calls("unstack", (np.unstack, M), (lambda a: np.unstack(a, axis=1), M), known="iteration needs the extent")

PADDING = [
    *calls("pad", (lambda a: np.pad(a, 1), M), (lambda a: np.pad(a, (1, 2)), M), (lambda a: np.pad(a, ((1, 0), (0, 2))), M),
           (lambda a: np.pad(a, ((1, 2),), constant_values=3), M), (lambda a: np.pad(a, 1, constant_values=((1, 2), (3, 4))), M),
           (lambda a: np.pad(a, 2, "constant", constant_values=(1, 2)), V), (lambda a, b: np.pad(a, 1, constant_values=b), M, ()),
           (lambda a: np.pad(a, 0), M), (lambda a: np.pad(a, 2), (0,)), (lambda a: np.pad(a, 2, "edge"), M),
           (lambda a: np.pad(a, ((0, 0), (1, 0)), "edge"), M)),
    *calls("pad", *[(lambda a, mode=mode, width=width: np.pad(a, width, mode), M)
                    for mode in ("reflect", "symmetric", "wrap") for width in (1, ((2, 0), (0, 3)), 7)],
           (lambda a: np.pad(a, {-1: (1, 2)}) if np.__version__ >= "2.2" else np.pad(a, ((0, 0), (1, 2))), M),
           known="what is repeated depends on the extent"),
]

NORMS = [
    *calls("norm", (np.linalg.norm, V), (np.linalg.norm, M), (np.linalg.norm, T), (np.linalg.norm, ()),
           *[(lambda a, order=order: np.linalg.norm(a, order), V) for order in (1, 2, 3, 0.5, -1, 0, np.inf, -np.inf, 2.5)],
           (lambda a: np.linalg.norm(a, 1), (0,)), *[(lambda a, order=order: np.linalg.norm(a, order), M) for order in ("fro", "f", 1, -1, np.inf, -np.inf)],
           (lambda a: np.linalg.norm(a, axis=0), M), (lambda a: np.linalg.norm(a, 1, axis=-1, keepdims=True), T),
           (lambda a: np.linalg.norm(a, axis=(0, 2)), T), (lambda a: np.linalg.norm(a, 1, axis=(2, 0)), T),
           (lambda a: np.linalg.norm(a, -np.inf, axis=(2, 0), keepdims=True), T), (lambda a: np.linalg.norm(a, keepdims=True), M),
           (lambda a: np.linalg.norm(a, np.inf, axis=1), M), (lambda a: np.linalg.norm(a * 0), V)),
    *calls("vector_norm", (np.linalg.vector_norm, M), (lambda a: np.linalg.vector_norm(a, axis=(0, 2), ord=3), T),
           (lambda a: np.linalg.vector_norm(a, axis=1, keepdims=True), M), (lambda a: np.linalg.vector_norm(a, ord=np.inf, keepdims=True), M)),
    *calls("matrix_norm", (np.linalg.matrix_norm, T), (lambda a: np.linalg.matrix_norm(a, ord=1, keepdims=True), T)),
]

PRODUCTS = [
    *calls("cross", (np.cross, (3,), (3,)), (np.cross, (2, 3), (3,)), (lambda a, b: np.cross(a, b, axis=0), (3, 2), (3, 2)),
           (lambda a, b: np.cross(a, b, 0, -1, 0), (3, 2), (2, 3)), (np.linalg.cross, (2, 3), (2, 3)), known="three components"),
    *calls("kron", (np.kron, M, (2, 2)), (np.kron, V, (3,)), (np.kron, M, V), (lambda a: np.kron(np.eye(2), a), M)),
    *calls("multi_dot", (lambda a, b, c: np.linalg.multi_dot([a, b, c]), M, (4, 2), (2, 5)),
           (lambda a, b, c: np.linalg.multi_dot([a, b, c]), (3,), M, V), (lambda a, b: np.linalg.multi_dot([a, b]), M, V)),
    *calls("matrix_power", *[(lambda a, n=n: np.linalg.matrix_power(a, n), (2, 3, 3)) for n in range(6)]),
    *calls("vecdot", (np.vecdot, M, M), (np.vecdot, M, V), (lambda a, b: np.linalg.vecdot(a, b, axis=0), M, M)),
    *calls("outer", (np.linalg.outer, V, (3,))), *calls("matmul", (np.linalg.matmul, M, V)),
    *calls("tensordot", (lambda a, b: np.linalg.tensordot(a, b, axes=1), M, V)),
    *calls("vander", (lambda a: np.vander(a, 3), V), (lambda a: np.vander(a, 4, increasing=True), V), (lambda a: np.vander(a, 0), V)),
    *calls("vander", (np.vander, V), known="as many powers as elements"),
    *calls("convolve", (np.convolve, (5,), (3,)), (np.convolve, (2,), (4,)), (lambda a, b: np.convolve(a, b[0]), V, V)),
    *calls("convolve", *[(lambda a, b, mode=mode: np.convolve(a, b, mode), (n,), (m,)) for mode in ("same", "valid")
                         for n, m in ((5, 3), (5, 2), (2, 5), (4, 4), (3, 6))], known="which array is longer"),
    *calls("correlate", *[(lambda a, b, mode=mode: np.correlate(a, b, mode), (n,), (m,)) for mode in ("same", "valid", "full")
                          for n, m in ((5, 3), (5, 2), (2, 5), (4, 4), (3, 6))], known="which array is longer"),
]
if hasattr(np, "matvec"):
    PRODUCTS += calls("matvec", (np.matvec, T, V), (np.matvec, M, V)) + calls("vecmat", (np.vecmat, (2, 3), T), (np.vecmat, (3,), M))

COMPOSITES = [
    *calls("clip", (lambda a: np.clip(a, -1, 1), M), (lambda a: np.clip(a, None, 1), M), (lambda a: np.clip(a, 0, None), M),
           (lambda a: a.clip(-1, 1), M), (lambda a: np.clip(a, min=-1, max=1), M), (lambda a: np.clip(a, max=0.5), M),
           (lambda a, b: np.clip(a, b, b + 1), M, V), (lambda a: np.clip(a, None, None), M), (lambda a: a.clip(min=0), M),
           (lambda a: np.clip(0.5, a, 1), V), (lambda a: np.clip(a, 1, -1), V)),
    *calls("round", (np.round, M), (lambda a: np.round(a, 2), M), (lambda a: a.round(1), M), (lambda a: np.around(a * 100, -1), M)),
    *calls("around", (lambda a: np.around(a, 1), M)),
    *calls("fix", (np.fix, M)),
    *calls("nan_to_num", (np.nan_to_num, M)),
    *calls("nan_to_num", (lambda a: np.nan_to_num(a / np.array([0.0, 1.0, np.inf, np.nan])), M),
           (lambda a: np.nan_to_num(a * np.array([np.inf, -np.inf, 1.0, np.nan]), nan=7, posinf=1.5, neginf=-2), M), known="a constant row"),
    *calls("isposinf", (lambda a: np.isposinf(a * np.inf), M), kinds=FLOAT), *calls("isneginf", (lambda a: np.isneginf(a * np.inf), M), kinds=FLOAT),
    *floats("sinc", (np.sinc, M), (lambda a: np.sinc(a * 0), M)),
    *calls("diff", (np.diff, M), (lambda a: np.diff(a, 2, 0), M), (lambda a: np.diff(a, prepend=0), M), (lambda a: np.diff(a, n=0), M),
           (lambda a, b: np.diff(a, append=b, axis=0), M, (2, 4)), kinds=ALL),
    *calls("ediff1d", (np.ediff1d, V), (lambda a: np.ediff1d(a, 9, [1, 2]), M)),
    *calls("gradient", (np.gradient, V), (lambda a: np.gradient(a, 0.5), V), (lambda a: np.gradient(a, edge_order=2), V),
           (np.gradient, M), (lambda a: np.gradient(a, 0.5, axis=1), M), (lambda a: np.gradient(a, 1.0, np.array([0.0, 1.0, 3.0, 3.5])), M),
           (lambda a: np.gradient(a, np.array([0.0, 1.0, 3.0, 3.5]), edge_order=2), V), (lambda a: np.gradient(a, axis=(1, 0)), M),
           known="the extents must be greater than one"),
    *calls("trapezoid", (np.trapezoid, V), (lambda a: np.trapezoid(a, dx=0.5, axis=0), M), (lambda a, b: np.trapezoid(a, b), M, V),
           (lambda a, b: np.trapezoid(a, b, axis=0), M, M)),
    *calls("polyval", (lambda a: np.polyval([1, 2, 3], a), M), (lambda a: np.polyval(a, 2.0), V), (lambda a, b: np.polyval(a, b), (3,), V),
           known="the number of coefficients"),
    *calls("select", (lambda a: np.select([a > 1, a > 0], [a, a * 2]), M), (lambda a: np.select([a > 1, a > 0], [a, 2 * a], default=5), M),
           (lambda a, b: np.select([a > 0], [b], -1.5), M, V)),
    *calls("isclose", (lambda a: np.isclose(a, 1.0), M), (lambda a, b: np.isclose(a, b, rtol=0.5), M, V),
           (lambda a: np.isclose(a * np.nan, np.nan, equal_nan=True), M), (lambda a: np.isclose(a / 0, np.inf), M)),
    *calls("allclose", (lambda a: np.allclose(a, a + 1e-12), M), (lambda a: np.allclose(a, 1.0), M)),
    *calls("array_equal", (lambda a: np.array_equal(a, a + 0), M), (lambda a: np.array_equal(a, a + 1), M),
           (lambda a: np.array_equal(a * np.nan, a * np.nan, equal_nan=True), M)),
    *calls("array_equal", (lambda a: np.array_equal(a, a[:1]), M), known="which of the shapes are equal"),
    *calls("array_equiv", (lambda a: np.array_equiv(a, a[:1]), M), (lambda a: np.array_equiv(a, np.zeros(7)), M), known="likewise"),
    *calls("where", (lambda a: np.where(a > 0, a, 0), M), (lambda a, b: np.where(a, b, 1.5), M, V)),
    *calls("where", (lambda a: np.where([True, False, True, True], a, -a), M), known="a constant row"),
]


def with_nan(a: Any) -> Any:
    """Put NaN where an array is small."""
    return np.where(a < -1, np.nan, a)


STATISTICS = [
    *calls("ptp", (np.ptp, M), (lambda a: np.ptp(a, 1), M), (lambda a: np.ptp(a, axis=0, keepdims=True), M)),
    *calls("count_nonzero", (np.count_nonzero, M), (lambda a: np.count_nonzero(a > 0, axis=1), M), (lambda a: np.count_nonzero(a, 0, keepdims=True), M)),
    *calls("average", (np.average, M), (lambda a: np.average(a, 1), M), (lambda a, b: np.average(a, weights=b, axis=1), M, V),
           (lambda a: np.average(a, weights=a * a + 1), M), (lambda a: np.average(a, 0, returned=True), M), (lambda a: np.average(a, 1, keepdims=True), M),
           (lambda a, b: np.average(a, 1, b, returned=True), M, V), (lambda a, b: np.average(a, axis=(1, 0), weights=b * b + 1), M, (4, 3))),
    *calls("cov", (np.cov, M), (lambda a, b: np.cov(a, b), V, V), (lambda a: np.cov(a, rowvar=False), M), (lambda a: np.cov(a, bias=True), M),
           (lambda a: np.cov(a, ddof=0, dtype=np.float64), M), (lambda a, b: np.cov(a, aweights=b * b + 1), M, V), (np.cov, V)),
    *calls("cov", (lambda a: np.cov(a, fweights=[1, 2, 3, 1]), M),
           (lambda a: np.cov(a, fweights=[1, 2, 3, 1], aweights=[0.5, 1, 2, 1]), M), known="constant weights"),
    *calls("corrcoef", (np.corrcoef, M), (lambda a, b: np.corrcoef(a, b), (5,), (5,))),
    *[call for name in ("nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd") for call in calls(
        name, (lambda a, f=getattr(np, name): f(a), M), (lambda a, f=getattr(np, name): f(with_nan(a), axis=1), (3, 6)),
        (lambda a, f=getattr(np, name): f(with_nan(a), axis=(0, 2), keepdims=True), (4, 3, 4)))],
    *calls("nanvar", (lambda a: np.nanvar(with_nan(a), 0, ddof=1), (6, 2)), (lambda a: np.nanvar(a, 0, ddof=1), (6, 2))),
    *calls("nansum", (lambda a: np.nansum(with_nan(a), initial=2.0), M), (lambda a: np.nansum(a * np.nan, 0), M)),
    *floats("nanmax", (lambda a: np.nanmax(a * np.array([np.nan, 1.0, 1.0, 1.0]), 0), M), known="a constant row"),
    *calls("nancumsum", (lambda a: np.nancumsum(with_nan(a), 1), M)), *calls("nancumprod", (lambda a: np.nancumprod(with_nan(a)), M)),
    *calls("logsumexp", (lambda a: scipy.special.logsumexp(a), M), (lambda a: scipy.special.logsumexp(a, 1), M), (lambda a: scipy.special.logsumexp(a, axis=(0, 2), keepdims=True), T),
           (lambda a, b: scipy.special.logsumexp(a, b=b * b, axis=1), M, V), (lambda a, b: scipy.special.logsumexp(a, b=b, axis=1, return_sign=True), M, V),
           (lambda a: scipy.special.logsumexp(a * 100, 0), M)),
    *calls("softmax", (lambda a: scipy.special.softmax(a), M), (lambda a: scipy.special.softmax(a, axis=1), M), (lambda a: scipy.special.softmax(a, axis=(0, -1)), T)),
    *calls("log_softmax", (lambda a: scipy.special.log_softmax(a), M), (lambda a: scipy.special.log_softmax(a * 100, axis=-1), M)),
]

CALLS = SHAPING + ORDER + PADDING + NORMS + PRODUCTS + COMPOSITES + STATISTICS


def wrong(call: Any, *shapes: tuple[int, ...]) -> tuple[Any, tuple[tuple[int, ...], ...]]:
    """Write a call that NumPy refuses."""
    return call, shapes


WRONG = [
    wrong(lambda a: np.reshape(a, (5, 2)), M), wrong(lambda a: np.reshape(a, (-1, -1)), M), wrong(lambda a: np.reshape(a, (5, -1)), M),
    wrong(lambda a: np.reshape(a, (0, -1)), (0, 2)), wrong(lambda a: np.transpose(a, (0, 0)), M), wrong(lambda a: np.transpose(a, (0,)), M),
    wrong(lambda a: np.transpose(a, (0, 5)), M), wrong(lambda a: np.swapaxes(a, 0, 2), M), wrong(lambda a: np.moveaxis(a, 0, 5), M),
    wrong(lambda a: np.moveaxis(a, (0, 1), 0), M), wrong(lambda a: np.moveaxis(a, (0, 0), (0, 1)), M), wrong(lambda a: np.rollaxis(a, 3), M),
    wrong(lambda a: np.rollaxis(a, 0, 4), M), wrong(lambda a: np.expand_dims(a, 4), M), wrong(lambda a: np.expand_dims(a, (0, 0)), M),
    wrong(lambda a: np.squeeze(a, 0), M), wrong(lambda a: np.squeeze(a, 4), M), wrong(lambda a: np.broadcast_to(a, (3, 3)), M),
    wrong(lambda a: np.broadcast_to(a, (4,)), M), wrong(lambda a, b: np.broadcast_arrays(a, b), M, (3,)), wrong(lambda a: np.flip(a, 2), M),
    wrong(np.fliplr, V), wrong(np.flipud, ()), wrong(lambda a: np.rot90(a, 1, (0, 0)), M), wrong(lambda a: np.rot90(a, 1, (0, 1, 2)), T),
    wrong(lambda a: np.roll(a, 1, 2), M), wrong(lambda a: np.roll(a, (1, 2, 3), (0, 1)), M), wrong(lambda a: np.repeat(a, 2, 3), M),
    wrong(lambda a: np.repeat(a, [1, 2], 0), M), wrong(lambda a: np.repeat(a, -1), M), wrong(lambda a: np.split(a, 2), M),
    wrong(lambda a: np.split(a, 2, 5), M), wrong(lambda a: np.array_split(a, 0), M), wrong(lambda a: np.hsplit(a, [1]), ()),
    wrong(lambda a: np.vsplit(a, [1]), V), wrong(lambda a: np.dsplit(a, [1]), M), wrong(lambda a: np.concatenate([a, a], 2), M),
    wrong(lambda a, b: np.concatenate([a, b]), M, S), wrong(lambda a: np.concatenate([a, a]), ()), wrong(lambda a: np.stack([a, a], 4), M),
    wrong(lambda a, b: np.stack([a, b]), M, S), wrong(lambda a, b: np.vstack([a, b]), M, S), wrong(lambda a, b: np.hstack([a, b]), M, V),
    wrong(lambda a: np.delete(a, 9), V), wrong(np.diagonal, V), wrong(lambda a: np.diagonal(a, 0, 0, 0), M), wrong(lambda a: np.diagonal(a, 0, 0, 2), M),
    wrong(np.trace, V), wrong(np.diag, T), wrong(np.tril, ()), wrong(lambda a: np.meshgrid(a, indexing="yx"), V),
    wrong(lambda a: np.take(a, 9), V), wrong(lambda a: np.take(a, [0, -5]), V), wrong(lambda a: np.take(a, 0, 2), M), wrong(lambda a: np.take(a, 0, mode="no"), V),
    wrong(lambda a: np.take_along_axis(a, np.array([0]), 0), M),
    wrong(lambda a: np.take_along_axis(a, np.array([[0], [9], [0]]), 1), M), wrong(lambda a: np.take_along_axis(a, np.array([[0], [0]]), 1), M),
    wrong(lambda a: np.pad(a, ((1, 2), (3, 4), (5, 6))), M), wrong(lambda a: np.pad(a, -1), M), wrong(lambda a: np.pad(a, 1.5), M),
    wrong(lambda a: np.pad(a, 1, "edge", constant_values=1), M), wrong(lambda a: np.pad(a, 1, "edge"), (0,)),
    wrong(lambda a: np.linalg.norm(a, "no"), M), wrong(lambda a: np.linalg.norm(a, 3), M), wrong(lambda a: np.linalg.norm(a, "fro"), V),
    wrong(lambda a: np.linalg.norm(a, axis=3), M), wrong(lambda a: np.linalg.norm(a, axis=(0, 0)), M), wrong(lambda a: np.linalg.norm(a, 1), T),
    wrong(lambda a: np.linalg.norm(a, -np.inf), (0,)), wrong(lambda a: np.linalg.norm(a, axis="x"), M), wrong(np.cross, V, V), wrong(np.linalg.cross, V, V),
    wrong(lambda a, b: np.linalg.multi_dot([a, b]), M, M), wrong(lambda a: np.linalg.multi_dot([a]), M), wrong(lambda a: np.linalg.matrix_power(a, 2.5), S),
    wrong(np.vander, M), wrong(lambda a, b: np.linalg.outer(a, b), M, V), wrong(np.convolve, M, V), wrong(np.convolve, V, (0,)),
    wrong(lambda a: np.convolve(a, a, "no"), V), wrong(np.vecdot, V, (3,)), wrong(lambda a: np.clip(a, 1), V), wrong(lambda a: np.clip(a, 1, 2, min=3), V),
    wrong(lambda a: np.diff(a, -1), V), wrong(np.diff, ()), wrong(lambda a: np.diff(a, axis=3), V), wrong(np.gradient, (1,)),
    wrong(lambda a: np.gradient(a, 1.0, 2.0, 3.0), M), wrong(lambda a: np.gradient(a, [1.0, 2.0]), V), wrong(lambda a: np.gradient(a, edge_order=3), V),
    wrong(lambda a: np.trapezoid(a, axis=3), V), wrong(lambda a: np.select([a > 0], [a, a]), V), wrong(lambda a: np.select([a], [a]), V), wrong(lambda a: np.ptp(a, 3), V), wrong(lambda a: np.max(a), (0,)), wrong(np.ptp, (0,)),
    wrong(lambda a, b: np.average(a, weights=b), M, V), wrong(lambda a, b: np.average(a, 0, b), M, V), wrong(lambda a: np.average(a, 5), V), wrong(np.cov, T),
    wrong(lambda a: np.nansum(a, 4), M), wrong(lambda a: np.astype(a, np.float32, device="gpu"), V), wrong(lambda a: a.astype(np.int32, casting="safe"), V),
    wrong(lambda a: np.zeros_like(a, shape=(-1,)), V), wrong(lambda a: np.tile(a, -1), V), wrong(np.matrix_transpose, V), wrong(np.linalg.matrix_power, M, ()),
]


def quiet(call: Any, *arrays: Any) -> Any:
    """Call NumPy without its warnings."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*arrays)
