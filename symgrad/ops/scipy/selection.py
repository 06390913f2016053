"""SciPy's selection by a condition, as its distributions use it: what is not selected is computed, too, and dropped.

SciPy takes the elements where a condition holds, computes with these and writes the results back. Of traced values
nobody knows how many there are: all are computed, and `numpy.where` chooses; what it drops has no part in derivatives.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from symgrad.ops.arrays.joining import holds_traced, lift, settled_value
from symgrad.ops.declare.forms import INSIDE, Late, answers
from symgrad.ops.elementwise.selection import stop


@answers(Late("_lib._util._lazywhere"))
def lazywhere(cond: Any, arrays: Any, f: Any, fillvalue: Any = None, f2: Any = None) -> Any:
    return apply_where(cond, arrays, f, f2, fill_value=fillvalue)


@answers(Late("_lib.array_api_extra.apply_where"))
def apply_where(cond: Any, args: Any, f1: Any, f2: Any = None, /, *, fill_value: Any = None, xp: Any = None) -> Any:
    given = args if isinstance(args, (tuple, list)) else (args,)
    numbers = {k: a for k, a in enumerate(given) if type(a) in {int, float}}  # a number of terms, for one
    cond, *arrays = np.broadcast_arrays(lift(cond), *[lift(a) for k, a in enumerate(given) if k not in numbers])
    rest = iter(arrays)
    given = [numbers[k] if k in numbers else next(rest) for k in range(len(given))]
    return np.where(cond, lift(f1(*given)), fill_value if f2 is None else lift(f2(*given)))


@answers(Late("_lib._util._lazyselect"))
def lazyselect(condlist: Any, choicelist: Any, arrays: Any, default: Any = 0) -> Any:
    arrays = np.broadcast_arrays(*[lift(a) for a in arrays])
    result = lift(default)
    for cond, f in zip(reversed(condlist), reversed(choicelist), strict=True):
        result = np.where(cond, f(*arrays), result)
    return result


class _Namespace:
    """A module's names with others among them."""

    def __init__(self, module: ModuleType, **names: Any) -> None:
        self._module = module
        self.__dict__.update(names)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def _unless_traced(answer: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return what makes of a function one that answers otherwise for traced arguments."""

    def made(original: Any) -> Any:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            return (answer if holds_traced([settled_value(value) for value in args]) else original)(*args, **kwargs)

        return call

    return made


def _all_elements(cond: Any, *args: Any) -> list[Any]:
    """Take the elements where a condition holds: all of them, with an axis at least, as some distributions want it."""
    given = [np.atleast_1d(lift(settled_value(a))) for a in args]
    given = [a.astype(np.float64) if a.dtype.kind in "iu" else a for a in given]
    return list(np.broadcast_arrays(*given, lift(settled_value(cond))))[:-1]


def _put_where(array: Any, mask: Any, values: Any) -> None:
    """Write what was computed of such elements: each at its own place."""
    values = lift(settled_value(values))
    array[...] = np.where(mask, values if np.ndim(array) else np.reshape(values, ()), array)


def _rounded_into(x: Any, low: Any, high: Any) -> Any:
    """Clip what rounding has brought outside of the chances: a chance of 1 has all of its slope, and not half of it."""
    return x + stop(np.clip(x, low, high) - x)


_any = _unless_traced(lambda *_: True)
_float64: Any = _unless_traced(lambda x: lift(settled_value(x)).astype(np.float64))(np.float64)
_float64.dtype = np.dtype(np.float64)  # it is a data type there, too

INSIDE["scipy.stats._distn_infrastructure"] = {
    "argsreduce": _unless_traced(_all_elements),
    "place": _unless_traced(_put_where), "putmask": _unless_traced(_put_where),
    "np": lambda module: _Namespace(module, any=_any(module.any), clip=_unless_traced(_rounded_into)(module.clip)),
}
INSIDE["scipy.integrate._quadrature"] = {"np": lambda module: _Namespace(module, float64=_float64)}


def _log_var(logx: Any, xp: Any = None, axis: int = 0) -> Any:
    """Return the logarithm of the variance of ``exp(logx)``, for which older versions use complex numbers."""
    logx = lift(settled_value(logx))
    top = np.max(logx, axis=axis, keepdims=True)
    return np.log(np.var(np.exp(logx - top), axis=axis)) + 2 * np.squeeze(top, axis)


INSIDE["scipy.stats._morestats"] = {"_log_var": _unless_traced(_log_var)}
INSIDE["scipy.ndimage._filters"] = dict.fromkeys(
    ("np", "numpy"), lambda module: _Namespace(module, may_share_memory=_any(module.may_share_memory)),  # it may
)
INSIDE["scipy.stats._continuous_distns"] = {"np": lambda module: _Namespace(
    module, all=_any(module.all), extract=_unless_traced(lambda _, x: lift(settled_value(x)))(module.extract),
    place=_unless_traced(_put_where)(module.place))}


# -- what SciPy asks of arrays

_HELPERS = "_lib.array_api_compat.common._helpers"

for _name in ("is_numpy_array", "is_writeable_array", "is_array_api_obj"):
    answers(Late(f"{_HELPERS}.{_name}"))(lambda x: True)
answers(Late(f"{_HELPERS}.array_namespace"))(lambda *_, **__: import_module("scipy._lib.array_api_compat.numpy"))

# Where a mask is of JAX, SciPy takes `where` in the place of a write: into a traced number nothing can be written.
INSIDE["scipy._lib.array_api_extra._lib._at"] = {
    "is_jax_array": _unless_traced(lambda x: lift(settled_value(x)).dtype.kind == "b")}
