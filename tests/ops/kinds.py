"""Every answered function with every kind of argument: rows made of what is answered and of NumPy's signatures.

A row is one call. NumPy's result (values, shapes, dtypes), NumPy's own exception where NumPy raises too, or an error of
symgrad's with the user's line: nothing else may come of it.
"""

from __future__ import annotations

import inspect
import operator
import random
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import optree
import scipy.special

from symgrad.errors import SymgradError
from symgrad.ir.evaluate import evaluate
from symgrad.ops import load
from symgrad.ops.declare.forms import ANSWERS, answer_scipy
from symgrad.trace.numpy.protocols import COMPARISONS, METHODS, OPERATORS, UNARY
from symgrad.trace.numpy.replaced import installed
from symgrad.trace.signature import Signature, leaf_spec
from symgrad.trace.trace import prepare, trace

load()
prepare()
answer_scipy()

DTYPES = "?bBhHiIlLfd"
HOW = ("traced", "traced", "traced", "plain", "local", "written")
"""What an array of a call may be: an argument, a constant, an array made in the function, one that was written to."""


def array(shape: Any, dtype: str = "d") -> Any:
    """Make an array of numbers of either sign, none twice where the type has so many."""
    size = int(np.prod(shape))
    numbers = (np.arange(size) * 7919 % 23 - 5) % 11 - 3
    signed = numbers * (1.25 if dtype in "fd" else 1)
    values = numbers % 2 if dtype == "?" else np.abs(numbers) if dtype in "BHIL" else signed
    return values.reshape(shape).astype(dtype)


D0, D1, D2, D3 = array(()), array(3), array((3, 4)), array((2, 3, 4))
EMPTY, NONE = array((0,)), array((0, 3))
SQUARE = array((3, 3)) + 4 * np.eye(3)
ARRAYS = (D2, D0, D1, D3, array((1,)), array((1, 1)), EMPTY, NONE, array((3, 0)), SQUARE)
TYPED = tuple([array(shape, t) for t in DTYPES for shape in ((3,), ())])
NUMBERS = (
    0, 1, -1, 2, 2.5, True, 300, -3, 2**40, 2**63, 2**70, -(2**70), float("nan"), float("inf"), -0.0, np.float32(1.5),
        np.float64(2.5),
    np.int8(-3), np.uint8(200), np.int64(2), np.uint64(2**63 + 5), np.bool(True),
)
ODD: tuple[Any, ...] = (
    None, "x", [1.0, 2.0, 3.0], (1, 2, 3), [[1.0, 2.0], [3.0]], [], 1j, np.array([1j, 2, 3]), np.float16(2.0),
       np.array(["a", "b", "c"]), np.array([1, 2, 3], object), [1, 2, 3], {"a": 1}, slice(1, 2), Ellipsis, array((3,),
           "d")[:2])

MASKS = (array((3, 4), "?"), array((4,), "?"), array((3, 1), "?"), True, False, array((5,), "?"), array(3, "?"))
AXES = (0, 1, -1, 2, -3, None, (0,), (0, 1), (1, 0), (0, 0), (), 5, -9, 1.0, "x", True, np.int64(0), [0], np.array(1),
    (0, 7))
KINDS_OF_DTYPE = ("d", "f", "l", "i", "B", "?", np.float64, "f2", complex, object, "nonsense", None, int, np.dtype("L"))

BY_NAME: dict[str, tuple[Any, ...]] = {
    "axis": AXES, "axes": ((1, 0), (0, 1), *AXES, 2, (2, 0, 1), ((0,), (0,))), "axis1": (0, 1, -1, 5, None, "x"),
        "axis2": (1, 0, -2, 5, "x"),
    "keepdims": (True, False, 1, None, "x"), "dtype": KINDS_OF_DTYPE, "where": MASKS,
    "out": (np.zeros((3, 4)), np.zeros(4), np.zeros(()), np.zeros((3, 4), np.int64), np.zeros((3, 4), np.float32),
        None, np.zeros(7), "x"),
    "initial": (0, 2.5, -1, True, None, 2**70, "x", D0), "order": ("C", "F", "A", "K", "x", None),
        "casting": ("same_kind", "unsafe", "no", "x"),
    "subok": (True, False), "mode": ("raise", "wrap", "clip", "constant", "edge", "reflect", "symmetric",
        "linear_ramp", "maximum", "mean", "full", "same", "valid", "x"),
    "decimals": (0, 1, -1, 2.0, "x", None, np.int64(2)), "k": (0, 1, -1, 5, 1.5, None, "x"), "offset": (0, 1, -1, 7,
        "x"),
    "n": (1, 2, 0, -1, 1.0, "x", 9, True), "shift": (1, -1, (1, 0), 1.5, "x", True, np.int64(2)), "reps": (2, (2, 1),
        0, (), -1, 1.5, "x", [1, 2], True),
    "repeats": (2, 0, [1, 2, 0], -1, 1.5, "x", (1,), True, [1, 2], np.int64(3)), "indices_or_sections": (1, 3, [1],
        (1, 2), 0, -1, 2, "x", 1.5, np.array([1, 2])),
    "ddof": (0, 1, 2.5, -1, 12, "x", None), "correction": (0, 1, 2.5, "x"), "mean": (D0, 0.5), "shape": ((4, 3), 12,
        -1, (2, -1), (5, 5), (), "x", 1.5, (3, 4), [12], (-1, -1), (3, 4, 1)),
    "copy": (True, False, None), "like": (None,), "rtol": (1e-5, 0.5, D0), "atol": (1e-8, 0.5), "equal_nan": (True,
        False),
    "nan": (0.0, 1, None), "posinf": (None, 5, "x"), "neginf": (None, -5), "a_min": (-1.0, None, 2, -3, 300, 2**70,
        D2, "x"), "a_max": (1.0, None, 2, -3, 300, 2**70, D1[:1], "x"),
    "min": (-1.0, None, 2, "x"), "max": (1.0, None, -5, "x"), "weights": (array(4) + 9, array(3) + 9, array((3,
        4)) + 9, None, array(5), "x"), "returned": (True, False),
    "source": (0, 1, -1, (0, 1), 5, "x", 1.0), "destination": (1, -1, 0, (1, 0), (0, 0), 5, "x"), "start": (0, 1, 2,
        5, "x"),
    "indices": (np.array([1, 0, 2]), 1, [0, 1], np.array([[0, 1]]), -1, 9, [9], np.array([], int), 1.5,
        np.array([1.5]), "x", True, np.uint8(1), array((3, 4), "l") * 0, None, ()),
    "ind": (np.array([1, 0, 2]), 1, [0, 1], -1, 99, 1.5, "x", True), "v": (D1, 1.5, array(3), [], "x", array(3, "l")),
        "values": (1.5, D1, array((3, 4)), "x", array((1, 4)), []),
    "mask": (array((3, 4), "?"), array(12, "?"), array((3, 4), "l"), True, array(5, "?"), "x"), "vals": (1.5, D1, [],
        "x"), "val": (1.5, D1, "x", [1, 2]), "wrap": (True, False),
    "obj": (0, [0, 1], slice(0, 2), -1, 9, "x", 1.5, np.array([True, False, True])), "condlist": ([D2 > 0], [D2 > 0,
        D2 > 2], [], [D2], "x", [True]),
    "choicelist": ([D2], [D2, 1.5], [], [1], "x"), "default": (0, 2.5, D2, "x"), "condition": (D2 > 0, D2, True,
        D1[:1] > 0, array(5) > 0, "x"),
    "pad_width": (1, 0, (1, 2), ((1, 0), (0, 2)), -1, 1.5, "x", ((1, 2, 3),), True), "constant_values": (0, 1.5, (1,
        2), "x"), "stat_length": (None, 1, 2), "end_values": (0, 2),
    "to_end": (None, 1.0, [1.0, 2.0], "x"), "to_begin": (None, 1.0, [1.0, 2.0]), "prepend": (0.0, D2, D1, "x"),
        "append": (0.0, D2, "x"), "dx": (1.0, 0.5, D0, array(3), "x"),
    "edge_order": (1, 2, 3, "x"), "include_initial": (True, False), "indexing": ("xy", "ij", "x"), "sparse": (True,
        False), "rowvar": (True, False), "bias": (True, False),
    "fweights": (None, np.array([1, 2, 1, 3]), np.array([1.5] * 4), np.array([1, 2])), "aweights": (None,
        array(4) + 9, array(3)), "ord": (None, 1, 2, np.inf, -np.inf, "fro", "nuc", 0, 3, -1, -2, "x", 1.5),
    "optimize": (True, False, "greedy"), "subscripts": ("ij->ji", "ij->", "ij,ij->i", "ii", "ijk", "x", "i->i",
        "...->..."), "operands": (D2,), "N": (None, 3, 0, 2, -1, 1.5, "x"), "increasing": (True, False),
    "num": (5, 0, 1, -1, 2.5, "x"), "endpoint": (True, False), "retstep": (True, False), "device": (None, "cpu", "x"),
        "fill_value": (0, 2.5, D2, D1, 2**70, "x", None), "k_": (1,), "b": (D2, D1, 2.5, D0, SQUARE, "x", array((4,
        3))),
    "tup": ((D2, D2), (D1, D1), [D2], (), (D2, D1), "x", D2, (D0, D0), (D2, 1.0)), "arrays": ([D2, D2], [[D1, D1]],
        (D2, D1), [], "x", D2, [D0, 1.0], [[D2, D2], [D2, D2]], [SQUARE, SQUARE]), "xs": ([D2, D2],),
    "M": (None, 5, 2), "tol": (100, 1), "offset_": (0,), "return_sign": (True, False), "hermitian": (True, False),
        "upper": (True, False), "axisa": (-1, 0), "axisb": (-1, 0), "axisc": (-1, 0), "p": (D1, [1, 2, 3], 2.0, D2,
        EMPTY, "x"),
    "refcheck": (True,), "writeback": (True,), "side": ("left", "right", "x"), "sorter": (None,), "kind": (None,
        "stable", "x"), "stable": (None, True),
}
"""What parameters of a name are tried with, what fits best first."""

FIRST: dict[str, tuple[Any, ...]] = {
    "cross": (array((4, 3)), array(3), array((2, 2))), "cov": (D2, D1), "corrcoef": (D2, D1), "convolve": (D1, EMPTY),
        "correlate": (D1, EMPTY), "cholesky": (SQUARE @ SQUARE.T,),
    "det": (SQUARE,), "inv": (SQUARE,), "slogdet": (SQUARE,), "solve": (SQUARE,), "matrix_power": (SQUARE,),
        "multi_dot": ([D2, array((4, 3))], [D1, D2]),
    "concatenate": ([D2, D2], (D2, D1), [], D2, "x", [D0, D0]), "einsum": ("ij->ji", "ij,ij->i", "x", "ii"),
        "logsumexp": (D2, D0, D1), "select": (), "copyto": (), "dot": (D1, D2), "vdot": (D1, D2),
    "matmul": (D2, D1, SQUARE), "vecdot": (D2, D1), "matvec": (D2,), "vecmat": (D1,), "fill_diagonal": (SQUARE, D2, D1),
}
FOLDS = {"reduce", "accumulate", "reduceat"}
OTHERS: dict[np.ufunc, set[str]] = {
    **dict.fromkeys((np.power, np.float_power, np.arctan2), FOLDS - {"accumulate"}), scipy.special._ufuncs._zeta: FOLDS,
}
"""Folds that NumPy does by the machine (see `symgrad.ops.numpy.folds`); those of zeta come to infinity, where SciPy's
zeta is NaN and the limit is 0.
"""

SECOND: dict[str, tuple[Any, ...]] = {
    "dot": (D1, array((3, 4)), 2.5), "matmul": (array((4, 2)), array(4), SQUARE, 2.5), "vecdot": (D2, array(4)),
        "matvec": (array(4), D2), "vecmat": (D2, SQUARE), "inner": (array(4), D2), "tensordot": (array((4, 3)), D2),
    "cross": (array((4, 3)), array(3)), "convolve": (D1, array(2)), "correlate": (D1, array(2)),
        "take_along_axis": (array((3, 4), "l") * 0, array((3, 1), "l") * 0 + 1), "put_along_axis": (array((3, 1),
        "l") * 0 + 1,),
    "solve": (array(3), array((3, 2))), "linspace": (D2, 3.0), "polyval": (D2, 2.0), "expand_dims": AXES,
        "matrix_power": (2, 0, -1, 1.5, "x", 70), "full_like": BY_NAME["fill_value"], "result_type": (D1, "f"),
    "moveaxis": BY_NAME["source"], "rollaxis": (1, 0, -1, 5, "x"), "swapaxes": BY_NAME["axis1"], "broadcast_to": ((3,
        4), (2, 3, 4), (5,), 4, (), "x", (3, -1)), "reshape": BY_NAME["shape"], "append": (D2, D1, 2.5, "x"),
    "searchsorted": (1.5,), "place": BY_NAME["mask"], "putmask": BY_NAME["mask"], "tile": BY_NAME["reps"],
        "put": BY_NAME["ind"], "astype": KINDS_OF_DTYPE, "fill_diagonal": BY_NAME["val"], "kron": (D1, D2, 2.5),
    "trapezoid": (array((3, 4)), array(4), array((2, 3, 4)), None), "split": BY_NAME["indices_or_sections"],
        "copyto": (D2, 1.5, array(4), array(4, "l"), "x"),
}
OWN = {"copyto", "put", "place", "putmask", "put_along_axis", "fill_diagonal"}


class Row(NamedTuple):
    """One call: its text, the function, its arguments."""

    text: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def brief(value: Any) -> str:
    """Print an argument."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype.char}{list(value.shape)}".replace(" ", "")
    if isinstance(value, (list, tuple)):
        inner = ", ".join(map(brief, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner},)"
    return f"{type(value).__name__}({value})" if isinstance(value, np.generic) else repr(value)


def row(name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Row:
    shown = [*map(brief, args), *[f"{k}={brief(v)}" for k, v in kwargs.items()]]
    return Row(f"{name}({', '.join(shown)})", function, args, kwargs)


# -- the rows


def name_of(function: Any) -> str:
    module = getattr(function, "__module__", None) or "numpy"
    short = {"numpy": "np", "numpy.linalg": "np.linalg"}.get(module, "scipy.special" if "scipy" in module else "np")
    return f"{short}.{function.__name__}"


def written(function: Any) -> Callable[..., Any]:
    """Return what an array holds after a function that writes into it."""

    def call(a: Any, *args: Any, **kwargs: Any) -> Any:
        a = a.copy() if hasattr(a, "copy") and not isinstance(a, list) else a
        returned = function(a, *args, **kwargs)
        assert returned is None
        return a

    return call


def looked_up(name: str) -> Callable[..., Any]:
    """Return a function of SciPy's as it is when it is called."""

    def call(*args: Any, **kwargs: Any) -> Any:
        function = getattr(scipy.special, name)
        return function(*args, **kwargs)

    return call


def functions() -> Iterator[Row]:
    """Call each function that is answered and no ufunc: each parameter with all it may be, the others as they fit."""
    for function in sorted((f for f in ANSWERS if callable(f) and not isinstance(f, np.ufunc)), key=name_of):
        name = function.__name__
        call = written(function) if name in OWN else function
        if name_of(function).startswith("scipy."):  # a Python function is answered where it is looked up
            call = looked_up(name)
        if name == "result_type":
            call = lambda *a, f=function: np.zeros((), f(*a))  # noqa: E731
        parameters = signature_of(function)
        firsts = FIRST.get(name) or BY_NAME.get(parameters[0][0], ())
        firsts = firsts or ARRAYS
        needed = [p for p, required in parameters[1:] if required]
        seconds = [BY_NAME.get(p, (D2,)) for p in needed]
        if name in SECOND and seconds:
            seconds[0] = SECOND[name]
        base = [firsts[0], *[s[0] for s in seconds]]
        sizes = {"shape", "reps", "repeats", "pad_width", "shift", "num"}
        numbers = [NUMBERS[:8] if p in sizes else NUMBERS[:14] for p in needed]  # no size is beyond memory
        pools = [(*firsts, *ARRAYS, *TYPED, *NUMBERS, *ODD),
                 *[(*s, *ODD, *n) for s, n in zip(seconds, numbers, strict=True)]]
        for k, pool in enumerate(pools):
            for value in pool:
                yield row(name_of(function), call, *base[:k], value, *base[k + 1 :])
        keywords = [p for p, required in parameters[1:] if not required]
        for keyword in [*keywords, "nonsense"]:
            for value in (*BY_NAME.get(keyword, (D2, D1, 1, "x", None)), *([] if keyword in BY_NAME else NUMBERS[:6])):
                for first in dict.fromkeys([0, 1, 2, 3, 6]):
                    if first < len(firsts):
                        yield row(name_of(function), call, firsts[first], *base[1:], **{keyword: value})
                for typed in TYPED[1::6] if keyword in {"dtype", "initial",
                    "axis"} and len(base) == 1 and name not in FIRST else ():
                    yield row(name_of(function), call, typed, *base[1:], **{keyword: value})
        if {"axis", "keepdims"} <= set(keywords):
            for first in firsts[:8]:
                for axis in AXES:
                    yield row(name_of(function), call, first, *base[1:], axis=axis, keepdims=True)


def signature_of(function: Any) -> list[tuple[str, bool]]:
    """List a function's parameters by name, and whether each is required."""
    try:
        found = inspect.signature(function).parameters.values()
    except ValueError:
        found = inspect.signature(ANSWERS[function]).parameters.values()
    kept = [p for p in found if p.kind is not p.VAR_KEYWORD and p.name != "like"]
    return [(p.name, p.default is p.empty and (p.kind is not p.VAR_POSITIONAL or k == 0)) for k, p in enumerate(kept)]



def ufuncs() -> Iterator[Row]:
    """Call each ufunc with every pair of kinds, keywords and methods."""
    for ufunc in sorted((f for f in ANSWERS if isinstance(f, np.ufunc)), key=name_of):
        name, rest = name_of(ufunc), (2.5, 2.5)[: ufunc.nin - 1]
        pairs = SECOND.get(ufunc.__name__, (D2, 2.5))
        base = (D2, *[pairs[0]] * (ufunc.nin - 1))
        for value in (*ARRAYS, *TYPED, *NUMBERS, *ODD):
            for place in range(ufunc.nin):
                for other in (D2, 2, *TYPED[4:6], D1) if ufunc.nin > 1 else (D2,):
                    args = [other] * ufunc.nin
                    args[place] = value
                    yield row(name, ufunc, *args)
        for one in TYPED:
            for other in (*TYPED[::2], *NUMBERS):
                if ufunc.nin == 2:
                    yield row(name, ufunc, one, other)
                    yield row(name, ufunc, other, one)
                elif ufunc.nin == 3:
                    yield row(name, ufunc, one, other, other)
        if getattr(scipy.special, ufunc.__name__, None) is ufunc:  # SciPy's ufuncs spoil memory here
            continue
        for keyword in ("out", "where", "dtype", "casting", "order", "subok", "nonsense", "axis", "axes", "keepdims"):
            for value in BY_NAME.get(keyword, (1,)):
                yield row(name, ufunc, *base, **{keyword: value})
        for method in ("reduce", "accumulate", "outer", "at", "reduceat"):
            if method in OTHERS.get(ufunc, ()):
                continue
            for value in (D2, D0, D1, EMPTY, *TYPED[::4]):
                if method == "outer":
                    yield row(f"{name}.outer", ufunc.outer, value, *rest)
                elif method == "at" and ufunc in {np.add, np.subtract, np.multiply}:  # others of NumPy's spoil memory
                    yield row(f"{name}.at", written(ufunc.at), value, [0, 0], *rest)
                elif method == "reduceat":
                    yield row(f"{name}.reduceat", ufunc.reduceat, value, [0, 1])
                elif method != "at":
                    yield row(f"{name}.{method}", getattr(ufunc, method), value)
                    for axis in (1, None, (0, 1), 5, "x"):
                        yield row(f"{name}.{method}", getattr(ufunc, method), value, axis=axis)
                    for keyword in ("keepdims", "initial", "dtype", "out",
                        "where") if method == "reduce" else ("dtype",):
                        for given in BY_NAME[keyword][:5]:
                            yield row(f"{name}.{method}", getattr(ufunc, method), value, **{keyword: given})


def method(name: str) -> Callable[..., Any]:
    """Call a method of the first argument."""
    return lambda a, *args, **kwargs: getattr(a, name)(*args, **kwargs)


WRITING: dict[str, tuple[Any, ...]] = {
    "fill": ((1.5,), (D1,), ("x",), (None,), (2**70,)), "put": (([0, 1], 2.5), (1, D1), (99, 1.0), ("x", 1.0)),
    "sort": ((), (0,)), "partition": ((1,),), "itemset": ((0, 1.0),), "resize": (((4, 3),),)}
PLAIN: dict[str, tuple[Any, ...]] = {
    "reshape": ((4, 3), ((4, 3),), (-1,), (5,), ("x",), (), (12, 1, 1), (1.5,)), "transpose": ((), (1, 0), ((1, 0),),
        (0, 0), (5,), ("x",), (None,)),
    "flatten": ((), ("F",), ("x",)), "astype": tuple([(t,) for t in KINDS_OF_DTYPE]), "conj": ((),),
        "conjugate": ((),), "tolist": ((),), "item": ((), (0,)), "tobytes": ((),), "view": ((), ("l",)),
    "byteswap": ((),), "choose": (([1, 2],),), "compress": (([True, False],),), "dumps": ((),),
        "searchsorted": ((1.5,),), "argsort": ((), (0,)), "argpartition": ((1,),), "nonzero": ((),),
        "__len__": ((),),
    "__divmod__": ((2.0,), (D2,), ("x",)), "__array__": ((),), "__contains__": ((1.0,),), "__iter__": ((),),
        "__copy__": ((),), "__reduce__": ((),), "__complex__": ((),), "__float__": ((),), "__int__": ((),),
        "__index__": ((),), "__bool__": ((),), "to_device": (("cpu",), ("x",)),
}
ATTRIBUTES = ("shape", "dtype", "ndim", "size", "itemsize", "nbytes", "T", "mT", "real", "imag", "flat", "base",
    "flags", "strides", "data", "ctypes", "device", "nonsense")
SET: dict[str, tuple[Any, ...]] = {
    "flat": (1.5, D1, D2, array(12), "x", None, [1, 2], array(12, "l"), 2**70), "shape": ((4, 3), 12, (5,), -1, "x",
        (3, 4)), "real": (1.5, D2, "x"), "imag": (1.5, 0.0, D2), "dtype": ("l", "d", "x"), "T": (D2,), "strides": ((8,
        8),),
    "size": (3,), "ndim": (1,), "nonsense": (1,), "data": (b"x",), "mT": (D2,), "flags": (None,), "itemsize": (8,),
}


def methods() -> Iterator[Row]:
    """Call every method, read and set every attribute."""
    for function in METHODS:
        name = function.__name__
        parameters = signature_of(function) if function in ANSWERS else []
        for first in (*ARRAYS, *TYPED[::3]):
            required = [BY_NAME.get(p, SECOND.get(name, (D2,)))[0] for p, needed in parameters[1:] if needed]
            yield row(f"a.{name}", method(name), first, *required)
            for value in AXES[:16]:
                yield row(f"a.{name}", method(name), first, value)
                yield row(f"a.{name}", method(name), first, *required, value)
        for keyword, _ in parameters[1:]:
            for value in BY_NAME.get(keyword, ("x",)) if keyword not in {"correction", "mean"} else ():
                yield row(f"a.{name}", method(name), D2, **{keyword: value})
    for name, calls in {**PLAIN, **{n: ((), (1,), ("x",)) for n in dir(np.ndarray) if not n.startswith("_")}}.items():
        if name in ATTRIBUTES or name in WRITING or name in {"tofile", "dump"}:
            continue
        for args in calls:
            for first in (D2, D0, D1, EMPTY, array(3, "l"), array((), "l")):
                yield row(f"a.{name}", method(name), first, *args)
    for name, calls in WRITING.items():
        for args in calls:
            for first in (D2, D0, D1, array(3, "l"), array(3, "B")):
                yield row(f"a.{name}", written(method(name)), first, *args)
    for name in ATTRIBUTES:
        for first in (D2, D0, D1, EMPTY):
            yield row(f"a.{name}", lambda a, n=name: np.asarray(getattr(a, n)), first)
    for name, values in SET.items():
        for value in values:
            for first in (D2, D0, D1, array((3, 4), "l")):
                def assign(a: Any, v: Any, n: str = name) -> Any:
                    a = a.copy()
                    setattr(a, n, v)
                    return a

                yield row(f"a.{name} =", assign, first, value)


SYMBOLS = {**OPERATORS, **COMPARISONS, "divmod": None}


def operators() -> Iterator[Row]:
    """Apply every operator to pairs of kinds, either way round, and in place."""
    few = (*ARRAYS[:6], *TYPED[::2], TYPED[1], TYPED[5], TYPED[-1])
    for name in SYMBOLS:
        function = divmod if name == "divmod" else getattr(operator, name if name not in {"and", "or"} else f"{name}_")
        others = (*NUMBERS, *ODD)
        for one in few:
            for other in others:
                yield row(f"operator.{name}", function, one, other)
                yield row(f"operator.{name}", function, other, one)
            for other in few:
                yield row(f"operator.{name}", function, one, other)
        if name in OPERATORS:
            changed = getattr(operator, f"i{name}")

            def in_place(a: Any, b: Any, change: Any = changed) -> Any:
                a = a.copy()
                kept = a
                a = change(a, b)
                return a, kept

            for one in few:
                for other in (*NUMBERS, *ODD, *few[:10]):
                    yield row(f"operator.i{name}", in_place, one, other)
    for name in UNARY:
        for one in (*ARRAYS, *TYPED):
            yield row(f"operator.{name}", getattr(operator, name), one)
    for one in (*few, *ARRAYS):
        for digits in ((), (1,), (None,), ("x",), (-1,)):
            yield row("round", round, one, *digits)


INDICES: tuple[Any, ...] = (
    0, -1, 9, -9, True, False, None, ..., slice(None), slice(1, None), slice(None, None, -1), slice(None, None, 0),
        slice(9, 2), slice(1.5), slice("x", None), 1.0, "x", (), [], [0, 2], [[0, 1], [1, 0]], [0, 9], [True, False,
        True], [True],
    (0, 1), (0, 9), (0, 0, 0), (..., 0), (..., ...), (None, 0), ([0, 0, 1], [0]), ([0, 1], [0, 1, 2]), ([0, 1],
        slice(1, 3)), (slice(None), [0, 2]), (slice(1, 2), None, 1), ([0], 1), ([[0], [1]], [0, 1]), (np.array([0,
        1]), ..., 1),
    np.array(1), np.int64(1), np.uint8(2), np.array([1, 0], np.uint8), np.array([1.0]), np.array([], int),
        np.array([]), np.array([True, False, True]), np.array([[True] * 4] * 3), np.array(True), (np.array([True,
        False, True]), 0), (np.array([True, False, True]), [0, 1]),
    2**70, [2**70], 1j, (1.5, 0), ("x", 0), {"a": 1}, (True, 0), ([True, False, True], [True, False, False, True]),
        np.bool(True),
)
VALUES = (5.0, 7, True, D1, array(4), array((3, 4)), array((1, 4)), array(2), array((2, 1)), [1.0, 2.0], "x", None,
    1j, 2**70, -1, 300, np.float32(1.5), D0, array(4, "l"), EMPTY, float("nan"))


def indices() -> Iterator[Row]:
    """Read and write through every kind of index."""

    def put(a: Any, index: Any, value: Any) -> Any:
        a = a.copy()
        a[index] = value
        return a

    def add(a: Any, index: Any, value: Any) -> Any:
        a = a.copy()
        a[index] += value
        return a

    for first in (D2, D1, D0, EMPTY, D3, array((3, 4), "l"), array((3, 4), "B"), array(3, "?")):
        for index in INDICES:
            yield row("a[i]", lambda a, i: a[i], first, index)
            for value in VALUES if first is D2 else VALUES[:16:3]:
                yield row("a[i] = v", put, first, index, value)
            for value in (2.0, D1, 1):
                yield row("a[i] += v", add, first, index, value)
        for value in VALUES:
            yield row("a[i] = v", put, first, 0, value)
            yield row("a[i] = v", put, first, slice(None), value)


KNOWN = {
    **dict.fromkeys([f"np.polydiv({kind}[3], d[3])" for kind in "dbhilf"], "NumPy looks for zeros in the remainder"),
    "np.average(d[0": "NumPy divides a size by a size",
    "a.strides =(": "a traced array has no memory, and no attribute of this name",
    "np.geomspace(": "NumPy looks for zeros among the ends, which are no values while tracing",
    "np.logspace(0, 1180591620717411303424": "beside a traced array it is a float",
    "np.imag(True": "NumPy takes Python's bool for an int here",
    "np.real(True": "as np.imag",
    "np.astype(True": "a traced bool of Python's is one of NumPy's",
    "np.roll(d[], 1, axis=(,)": "NumPy unpacks an empty tuple",
    "a.dot(b[], (,)": "NumPy has no dtype for an empty tuple", "a.dot(H[], (,)": "likewise",
    "a.dot(l[], (,)": "likewise",
    "operator.pow(?[3], 2": "int64, as NumPy's own ufunc says: x ** 2 of booleans is its int8 by a shortcut",
    "scipy.special.log_softmax(d[0": "likewise", "scipy.special.log_softmax(d[3,0": "likewise",
    "scipy.special.softmax(d[0": "SciPy has no maximum of nothing; what has no elements has no softmax either",
    "scipy.special.softmax(d[3,0": "likewise",
    "scipy.special.logsumexp(d[0,3])": "SciPy loses an axis", "scipy.special.logsumexp(d[3,0])": "likewise",
    "np.argmin(d[3], out=d": "a result of the dtype of out= is what NumPy's other functions store",
    "np.linspace(0, -1180591620717411303424": "the number is a float64's",
    "np.linspace(0, 1180591620717411303424": "the number is a float64's",
    "np.nan_to_num(": "numbers to replace by are converted by NumPy's rule for arrays, not that of copyto",
}
"""What begins so is left as it is, and why."""


def crashes(one: Row) -> bool:
    """Whether a row is left out: NumPy itself is killed by a running total into an array without axes."""
    beyond = any(type(leaf) is int and not -(2**63) <= leaf < 2**63 for leaf in arguments(one))
    if beyond and one.text.startswith("np.logical_"):  # NumPy asks for an int64 there, of which only the truth is used
        return True
    return "cum" in one.text and np.shape(one.kwargs.get("out", D1)) == ()


FAMILIES = {"functions": functions, "ufuncs": ufuncs, "methods": methods, "operators": operators, "indices": indices}


# -- what comes of a row


def ways(one: Row) -> list[str]:
    """Choose, by the row's text, what each of its arrays and numbers is: at least one is traced."""
    rng = random.Random(zlib.crc32(one.text.encode(errors="replace")))
    leaves = [leaf for leaf in arguments(one) if takes(leaf)]
    chosen = [rng.choice(HOW if isinstance(leaf, np.ndarray) else ("traced", "plain", "plain")) for leaf in leaves]
    compares = any(f".{name}(" in one.text for name in (*COMPARISONS, *[f.__name__ for f in COMPARISONS.values()]))
    chosen = [how if compares or tame(leaf) else "plain" for leaf, how in zip(leaves, chosen, strict=True)]
    if chosen and not {"traced", "written"} & set(chosen):
        arrays = [k for k, leaf in enumerate(leaves) if isinstance(leaf, np.ndarray)]
        if not arrays and not tame(leaves[0]):
            return []
        chosen[rng.choice(arrays or [0])] = "traced"
    return chosen


def tame(leaf: Any) -> bool:
    """Whether every dtype holds it: else NumPy may raise for what one of Python's numbers is, which no trace knows."""
    return type(leaf) not in {int, float, bool} or (type(leaf) is not bool and 0 <= leaf <= 100)


def takes(leaf: Any) -> bool:
    """Whether a leaf of a call's arguments may be an argument of a compiled function."""
    if isinstance(leaf, (np.ndarray, np.generic)):
        return leaf.dtype.char in DTYPES
    return type(leaf) in {bool, float} or (type(leaf) is int and -(2**63) <= leaf < 2**63)


def arguments(one: Row) -> list[Any]:
    return walked((one.args, one.kwargs), lambda leaf: leaf)[1]


def walked(value: Any, change: Callable[[Any], Any]) -> tuple[Any, list[Any]]:
    """Rebuild what is in tuples, lists and dicts, leaf by leaf; also return the leaves."""
    leaves: list[Any] = []

    def walk(item: Any) -> Any:
        if type(item) in {list, tuple}:
            return type(item)([walk(part) for part in item])
        if type(item) is dict:
            return {key: walk(part) for key, part in item.items()}
        leaves.append(item)
        return change(item)

    return walk(value), leaves


def quiet(call: Callable[[], Any]) -> Any:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call()


def numpys(one: Row) -> Any:
    """Return what NumPy gives, or the exception it raises."""
    args, kwargs = walked((one.args, one.kwargs), lambda v: v.copy() if isinstance(v, np.ndarray) else v)[0]
    try:
        return quiet(lambda: one.function(*args, **kwargs))
    except Exception as error:  # noqa: BLE001 - whatever NumPy raises
        return error


def symgrads(one: Row, chosen: list[str]) -> Any:
    """Return what symgrad gives, as a list of arrays and a structure, or the exception it raises."""
    places = [leaf for leaf in arguments(one) if takes(leaf)]
    given = [leaf for leaf, how in zip(places, chosen, strict=True) if how in {"traced", "written"}]

    def program(*traced: Any) -> Any:
        left, ways = iter(traced), iter(chosen)

        def made(leaf: Any) -> Any:
            if not takes(leaf):
                return leaf.copy() if isinstance(leaf, np.ndarray) else leaf
            how = next(ways)
            if how == "traced":
                return next(left)
            if how == "written":
                held = np.zeros(np.shape(leaf), leaf.dtype)
                held[...] = next(left)
                return held
            if how == "local":
                return np.array(leaf)
            return leaf.copy() if isinstance(leaf, np.ndarray) else leaf

        args, kwargs = walked((one.args, one.kwargs), made)[0]
        return one.function(*args, **kwargs)

    try:
        specs = tuple([leaf_spec(a, f"a{k}") for k, a in enumerate(given)])
        names = tuple([f"a{k}" for k in range(len(specs))])
        signature = Signature(None, specs, names, names, (), tuple(range(len(specs))))
        made = quiet(lambda: trace(program, signature, lambda leaves: program(*leaves), name="program"))
        return quiet(lambda: evaluate(made.program, [np.asarray(a) for a in given])), made.tree
    except Exception as error:  # noqa: BLE001
        return error


def faults(every: Iterable[Row]) -> Iterator[tuple[Row, str]]:
    """Yield the rows that are wrong, and what is wrong with them.

    All are traced while NumPy's functions are replaced once, which takes ten times as long as to trace a row where
    SciPy's statistics are imported; what NumPy gives was computed before.
    """
    asked = [one for one in every if ways(one) and not crashes(one) and not one.text.startswith(tuple(KNOWN))]
    wanted = [numpys(one) for one in asked]
    with installed():
        for one, want in zip(asked, wanted, strict=True):
            if words := fault(one, want):
                yield one, words


def in_order(one: Row, places: Any) -> Any:
    """Return what stands in places in an order: of equal elements, and beside those of a partition, NumPy's is any."""
    first, *others = one.args
    a = np.asarray(first)
    axis = one.kwargs.get("axis", others[0] if others and "argsort(" in one.text else -1)
    taken = np.take(a.ravel(), places) if axis is None or not a.ndim else np.take_along_axis(a, places, axis)
    return taken if "argsort(" in one.text else np.sort(taken, axis=-1 if axis is None else axis)


def comparable(one: Row, found: Any) -> Any:
    """Return what is to be NumPy's: of an order what stands there; of vectors with a free sign their sizes."""
    if "argsort(" in one.text or "argpartition(" in one.text:
        return in_order(one, found)
    return np.abs(found) if one.text.startswith(("np.linalg.svd(", "np.linalg.eigh(")) else found


def fault(one: Row, want: Any) -> str:
    """Say what is wrong with a row of which NumPy gives `want`; nothing where it is right."""
    got = symgrads(one, ways(one))
    if isinstance(got, SymgradError):
        return "" if got.line is not None else f"no line: {type(got).__name__}: {got}"
    if "must be in the range" in str(want) and not isinstance(got, Exception):  # of what is no value while it is traced
        return "" if np.isnan(got[0][0]).any() else f"gives {got[0]!r:.80}, NumPy raises {want}"
    if isinstance(want, Exception) or isinstance(got, Exception):
        if isinstance(got, Exception):
            expected = f"NumPy: {type(want).__name__}: {want}" if isinstance(want,
                Exception) else f"NumPy: {want!r:.80}"
            return "" if type(got) is type(want) else f"bare {type(got).__name__}: {got} ({expected})"
        return f"answers where NumPy raises {type(want).__name__}: {want}: {got[0]!r:.60}"
    leaves, tree = optree.tree_flatten(want, namespace="symgrad")
    if str(got[1]) != str(tree):
        return f"structure {got[1]}, NumPy's is {tree}"
    for found, leaf in zip(got[0], leaves, strict=True):
        x, y = found, np.asarray(leaf)
        if x.shape != y.shape or x.dtype != y.dtype:
            return f"gives {brief(x)}, NumPy {brief(y)}"
        x, y = comparable(one, x), comparable(one, y)
        eps = 2e-5 if x.dtype == np.float32 else 1e-12
        with np.errstate(all="ignore"):
            if "empty_like" not in one.text and not np.allclose(x, y, rtol=eps, atol=eps,
                equal_nan=x.dtype.kind == "f"):
                return f"gives {x!r:.80}, NumPy {y!r:.80}"
    return ""
