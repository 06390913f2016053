"""Stand-ins for functions of NumPy and SciPy while a trace is active, by whatever name they were bound.

From the first trace's beginning to the last one's end the names of `numpy` and of SciPy's public modules, those in the
user's modules (``from numpy import zeros``) and in the closures of what is traced hold a `Replaced`. It calls the
function itself unless this thread traces. SciPy's functions that are written in Python run themselves on traced values:
while they do, the names in SciPy's own modules hold stand-ins, too.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import itertools
import math
import random
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from operator import is_
from traceback import walk_tb
from types import BuiltinFunctionType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, ClassVar

import numpy as np
from numpy.polynomial._polybase import ABCPolyBase

from symgrad.errors import (
    ArgumentError,
    ArgumentValueError,
    ConcretizationError,
    LeakedTracerError,
    LibraryError,
    NoGradient,
    SymgradError,
    UnsupportedError,
    heard,
    interrupts,
)
from symgrad.ir.index import shapes
from symgrad.ir.index.shapes import is_static
from symgrad.ops import load
from symgrad.ops.arrays.joining import lift
from symgrad.ops.arrays.views import broadcast_to, reshape
from symgrad.ops.declare.forms import ALSO, ANSWERS, INSIDE, LOOPS, SCIPYS, answer_scipy, shape_of
from symgrad.trace.inplace.local import LocalArray
from symgrad.trace.lines import (
    UFUNC_METHODS,
    called,
    calls,
    in_scipy,
    is_user_code,
    loaded_for_calls,
    located,
    may_trace,
    of_the_user,
    on_users_line,
    passes_on,
    raised_in_library,
    user_line,
)
from symgrad.trace.nested import settled, touches
from symgrad.trace.numpy.answers import answered
from symgrad.trace.numpy.creation import MAKERS, NO_DRAWS, broadcast_object, coefficients, frozen, of_lists
from symgrad.trace.numpy.own import ERRORS, POLYNOMIALS, REFUSED, indexed, of_polynomials
from symgrad.trace.remedies import OTHERWISE, REASONS, SPARSE, module_of, remedy, unanswered
from symgrad.trace.state import active, beside, current, during
from symgrad.trace.structures import is_sparse
from symgrad.trace.tracer import ASKED, Tracer, as_node

_trace: Callable[[], Any] = current  # for what is answered in a trace alone


class Replaced:
    """A NumPy function's stand-in: equal to it, pickled as it, and it in every thread that does not trace."""

    def __init__(self, original: Any, name: str, when_traced: Callable[..., Any]) -> None:
        """Stand for `original`; ``when_traced(original, args, kwargs)`` answers a traced function's call."""
        functools.update_wrapper(self, original, updated=() if isinstance(original, type) else ("__dict__",))
        self.original, self.name, self.when_traced = original, name, when_traced

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call what this thread and this caller should get: the user's code, or SciPy's that runs on traced values."""
        if current() is None:
            return self.original(*args, **kwargs)
        frame = sys._getframe(1)  # noqa: SLF001 - the caller, nothing else
        code = frame.f_code
        inside = active.scipy and in_scipy(code.co_filename) and self.name.rpartition(".")[2] in code.co_names
        if inside or calls(frame, self.name, self):  # by its name: compiled code wants NumPy's own arrays
            return self.when_traced(self.original, args, kwargs)
        return self.original(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Bind it to an object where functions are bound, in the classes that hold them."""
        return self if instance is None or not hasattr(type(self.original), "__get__") else MethodType(self, instance)

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, self.original)

    def __eq__(self, other: object) -> bool:
        """Equal the function it stands for, so that tables of functions find it."""
        return other is self or other is self.original

    def __hash__(self) -> int:
        return hash(self.original)

    def __reduce__(self) -> Any:
        return self.name

    def __repr__(self) -> str:
        return repr(self.original)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["original"], name)


class HeldStandIn(Replaced):
    """A stand-in in what is the user's, an attribute, a container or a call, where no compiled code looks for it."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call what this thread should get, whatever name it has."""
        code = sys._getframe(1).f_code  # noqa: SLF001 - the caller
        traced = current() is not None and may_trace(code.co_filename) and code.co_name != "__array__"
        return self.when_traced(self.original, args, kwargs) if traced else self.original(*args, **kwargs)


class Indexed(Replaced):
    """A stand-in for ``np.r_`` or ``np.c_``."""

    def __getitem__(self, key: Any) -> Any:
        """Join arrays, traced ones as NumPy's own Python does."""
        return indexed(self.original, key) if current() is not None and touches(key) else self.original[key]


def _vectorized(own: Any, *args: Any, **kwargs: Any) -> Any:
    """As the call of an `np.vectorize`: of traced arrays its function is called for each element."""
    if module_of(own.pyfunc) == "math":
        raise UnsupportedError(
            f"np.vectorize of math.{own.pyfunc.__name__}, of traced arrays", line=user_line(),
            instead=f"{remedy(own.pyfunc)}, of arrays",
        )
    given = dict(enumerate(args)) | kwargs
    signature = own._in_and_out_core_dims  # noqa: SLF001 - what NumPy reads of signature=
    plain = {int, float} if signature is None else set[type]()
    mapped = [place for place in given if place not in own.excluded and type(given[place]) not in plain]
    if not callable(own.pyfunc):
        raise UnsupportedError(
            "np.vectorize without a function, of traced arrays", line=user_line(),
            instead="sg.vmap(f)(x), or the function on arrays itself")
    if not mapped and signature is None:
        return own.pyfunc(*args, **kwargs)
    inner, outer = signature or ([()] * len(mapped), None)
    if len(inner) != len(mapped):
        raise ArgumentError(
            f"np.vectorize(..., signature={own.signature!r}) takes {len(inner)} arguments, not {len(mapped)}",
            line=user_line())
    sizes: dict[str, Any] = {}
    arrays = [lift(settled(given[place])) for place in mapped]
    if not all(map(is_static, map(shape_of, arrays))):
        return _vectorized_batch(own, len(args), given, dict(zip(mapped, arrays, strict=True)), inner, outer)
    shape: Any = np.broadcast_shapes(*[
        x.shape[: x.ndim - len(_cored(own, x, names, sizes))] for x, names in zip(arrays, inner, strict=True)])
    if not all(type(extent) is int and extent for extent in shape):
        raise UnsupportedError(
            "np.vectorize over unknown extents, or none", line=user_line(), instead="sg.vmap(f)(x)")
    arrays = [np.broadcast_to(x, (*shape, *[sizes[n] for n in names]))
              for x, names in zip(arrays, inner, strict=True)]
    rows = zip(*[[one[place] for place in np.ndindex(*shape)] for one in arrays], strict=True)
    calls = [given | dict(zip(mapped, row, strict=True)) for row in rows]
    found = [own.pyfunc(*[call[k] for k in range(len(args))], **{k: call[k] for k in kwargs}) for call in calls]
    several = isinstance(found[0], tuple)
    results = [[lift(settled(v)) for v in each] for each in (zip(*found, strict=True) if several else [found])]
    outer = [()] * len(results) if outer is None else outer
    if len(outer) != len(results):
        raise ArgumentValueError(
            f"np.vectorize(..., signature={own.signature!r}) of a function of {len(results)} results",
            line=user_line())
    cores = [tuple([sizes[n] for n in _cored(own, each[0], names, sizes)])
             for each, names in zip(results, outer, strict=True)]
    made = tuple([np.reshape(np.stack([np.broadcast_to(v, core) for v in each]), (*shape, *core))
                  for each, core in zip(results, cores, strict=True)])
    made = tuple([x.astype(kind) for x, kind in zip(made, own.otypes, strict=True)]) if own.otypes else made
    return made if several else made[0]


def _vectorized_batch(own: Any, count: int, given: Any, mapped: dict[Any, Any], inner: Any, outer: Any) -> Any:
    """As the call of an `np.vectorize` over extents of which some are unknown: a batch of calls."""
    sizes: dict[str, Any] = {}
    cores = [len(_cored(own, x, names, sizes)) for x, names in zip(mapped.values(), inner, strict=True)]
    ends = [(x, shape_of(x), x.ndim - core) for x, core in zip(mapped.values(), cores, strict=True)]
    shape = shapes.broadcast(*[whole[:end] for _, whole, end in ends])
    for extent in shape:
        if extent == 0:
            raise UnsupportedError("np.vectorize over no elements", line=user_line(), instead="sg.vmap(f)(x)")
        if type(extent) is not int:
            _trace().require(0, extent, "cannot call `vectorize` on size 0 inputs")
    every, trace = shapes.simplified(math.prod(shape)), _trace()
    wide = [broadcast_to(Tracer(as_node(trace, x), trace), shape=(*shape, *whole[end:])) for x, whole, end in ends]
    rows = [reshape(x, shape=(every, *whole[end:])) for x, (_, whole, end) in zip(wide, ends, strict=True)]

    def each(*values: Any) -> Any:
        call = given | dict(zip(mapped, values, strict=True))
        found = own.pyfunc(*[call[k] for k in range(count)], **{k: v for k, v in call.items() if type(k) is str})
        return tuple([lift(settled(v)) for v in found]) if isinstance(found, tuple) else lift(settled(found))

    made = LOOPS["vmap"](each)(*rows)
    results = made if isinstance(made, tuple) else (made,)
    outer = [()] * len(results) if outer is None else outer
    if [y.ndim - 1 for y in results] != [*map(len, outer)]:
        raise ArgumentValueError(
            f"np.vectorize of a function whose results have other axes than {own.signature or 'none'}",
            line=user_line(), instead='signature="(n)->(m)", or the like')
    results = tuple([reshape(y, shape=(*shape, *shape_of(y)[1:])) for y in results])
    results = tuple([y.astype(kind) for y, kind in zip(results, own.otypes, strict=True)]) if own.otypes else results
    return results if isinstance(made, tuple) else results[0]


def _cored(own: Any, x: Any, names: Any, sizes: dict[str, Any]) -> Any:
    """Note the extents of an array's last axes by their names in a signature, which it returns."""
    last = x.shape[x.ndim - len(names) :]
    same = len(last) == len(names) and all(
        sizes.setdefault(n, extent) == extent for n, extent in zip(names, last, strict=True))
    if not same:
        known = "".join([f", {n} is {extent}" for n, extent in sizes.items()])
        raise ArgumentValueError(
            f"np.vectorize(..., signature={own.signature!r}) of an array of shape {x.shape}, which is to end in "
            f"({','.join(names)}){known}", line=user_line())
    return names


def _poly1d(own: np.poly1d, c_or_r: Any, r: Any = False, variable: Any = None) -> None:
    """As ``np.poly1d(...)``; coefficients in front that are 0 stay."""
    given = lift(settled(coefficients(c_or_r)))
    given = np.atleast_1d(lift(np.poly(given) if r else given))
    if given.ndim > 1:
        raise ArgumentValueError("Polynomial must be 1d only.", line=user_line())
    given = given if len(given) else np.zeros(1, given.dtype)
    own.__dict__.update(coeffs=given, _variable=variable or getattr(c_or_r, "variable", "x"))


def _poly1d_called(own: np.poly1d, val: Any) -> Any:
    """As its value at numbers; at a polynomial one with no more coefficients than it has."""
    if not isinstance(val, np.poly1d):
        return np.polyval(own.coeffs, val)
    first, *others = own.coeffs
    return functools.reduce(lambda total, c: total * val + c, others, np.poly1d([first]))


def _poly1d_divided(own: np.poly1d, other: Any, *, swapped: bool = False) -> Any:
    """As the quotient and the rest of two polynomials; by a number it is one of each coefficient."""
    if np.isscalar(other) or getattr(other, "is_number", False):
        return np.poly1d(other / own.coeffs if swapped else own.coeffs / other)
    pair = own.coeffs, coefficients(other)
    return tuple(map(np.poly1d, np.polydiv(*pair[::-1] if swapped else pair)))


def _fitted(kind: Any, x: Any, y: Any, deg: Any, domain: Any = None, *args: Any, **kwargs: Any) -> Any:
    """As the fit of a class of numpy.polynomial; its domain is made wider where all places are one."""
    if domain is None:
        x = lift(settled(x))
        low, high = np.min(x), np.max(x)
        domain = np.stack([np.where(low == high, low - 1, low), np.where(low == high, high + 1, high)])
    return _FIT.__func__(kind, x, y, deg, domain, *args, **kwargs)


def _series_called(own: Any, arg: Any) -> Any:
    """As its value; of a series by one of its degree: what NumPy begins with is 0 times another."""
    found = _SERIES_CALL(own, arg)
    if isinstance(arg, ABCPolyBase):
        found.coef = found.coef[: (len(own.coef) - 1) * (len(arg.coef) - 1) + 1]
    return found


_FIT: Any = vars(ABCPolyBase)["fit"]
_SERIES_CALL: Any = ABCPolyBase.__call__

# -- calls that ask no protocol: ufuncs of lists, casts by scalar types


SITES: dict[int, HeldStandIn] = {}
"""Stand-ins for ufuncs and types that traced values were refused by once, by the identity of what they stand for.

What compares such a function, or takes a type for a dtype, wants NumPy's own. So the module gives a stand-in to nobody
but a call, ``np.sqrt(...)``: what it gives there is called and lost. Where none was needed, none is looked for.
"""


def note_site(frame: FrameType) -> None:
    """Note what a frame's code calls, a ufunc or a scalar type that got traced values: traced again, it is answered."""
    name, function = called(frame)
    if name in UFUNC_METHODS and type(getattr(function, "__self__", None)) is np.ufunc:
        function = function.__self__
        name = function.__name__
    is_type = isinstance(function, type) and issubclass(function, (np.bool, np.number, np.broadcast))
    if not is_type and type(function) is not np.ufunc:
        return
    if getattr(sys.modules.get(module_of(function)), name, None) is function:
        answer = broadcast_object if function is np.broadcast else _cast
        made = HeldStandIn(function, name, answer) if is_type else _HeldUfunc(function, name, _of_arrays)
        SITES.setdefault(id(function), made)


ASKED.append(note_site)


def note_constructor(error: BaseException) -> None:
    """Note that code may have made the array by its class that an error says has no place for traced values."""
    for at in (error, error.__context__):
        for frame, _ in walk_tb(at.__traceback__) if at is not None else ():
            if "ndarray" in frame.f_code.co_names and is_user_code(frame.f_code.co_filename):
                SITES.setdefault(id(np.ndarray), HeldStandIn(np.ndarray, "ndarray", _constructed))


def _cast(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Cast a traced value, or a list of them, as a scalar type does: an array of its dtype is the same one."""
    if len(args) != 1 or not touches(args):
        return original(*args, **kwargs)
    made = MAKERS["asarray"](np.asarray, (args[0], original), {})
    return made if made.ndim else made[()]


def _of_arrays(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a ufunc with arrays in the place of lists of traced values; these it asks itself."""
    return original(*[lift(settled(a)) if type(a) in {list, tuple} and touches(a) else a for a in args], **kwargs)


class _HeldUfunc(HeldStandIn):
    """A stand-in for a ufunc whose methods take lists of traced values as well: ``np.maximum.reduce([x, y])``."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.__dict__["original"], name)
        if name not in UFUNC_METHODS or name == "at":  # an index is no array
            return found
        return lambda *args, **kwargs: _of_arrays(found, args, kwargs)


def _constructed(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Make the array that a shape and a dtype alone ask for, which NumPy leaves as memory was."""
    is_new = len(args) < len(("shape", "dtype", "buffer")) and not kwargs.keys() - {"shape", "dtype"}
    return MAKERS["empty"](np.empty, args, kwargs) if is_new else original(*args, **kwargs)


class _WithSites(ModuleType):
    """NumPy's or SciPy's module while a trace is active."""

    def __getattribute__(self, name: str) -> Any:
        found = ModuleType.__getattribute__(self, name)  # not super's: another thread may have put the class back
        made = SITES.get(id(found))
        if made is None:
            return found
        frame = sys._getframe(1)  # noqa: SLF001 - the caller, nothing else
        code = frame.f_code
        return made if may_trace(code.co_filename) and frame.f_lasti in loaded_for_calls(code) else found

    def __reduce__(self) -> Any:
        return importlib.import_module, (self.__name__,)


# -- functions that are written in Python, which ask no protocol


class InPython(Replaced):
    """A stand-in for what has an answer for traced values, whoever calls it; polynomials may hold such."""

    @passes_on
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function or method itself, or what answers it."""
        held = [vars(a) if isinstance(a, (np.poly1d, ABCPolyBase)) else a for a in args]
        if current() is None or not touches((held, kwargs)):
            return self.original(*args, **kwargs)
        try:
            return self.when_traced(*args, **kwargs)
        except SymgradError as error:
            raise located(error) from None


_OF_OBJECTS: tuple[type[Exception], ...] = (AttributeError, KeyError, NotImplementedError, AssertionError)
"""What SciPy's code raises of objects that are not what it takes them for."""
_RAISED: dict[type[Exception], Any] = REFUSED | {RuntimeError: LibraryError}
_CAUGHT: tuple[type[Exception], ...] = (*ERRORS, RuntimeError, *_OF_OBJECTS)


@contextmanager
def in_python(*, traced: bool = True) -> Iterator[None]:
    """Let SciPy's own Python run on traced values, or be run by one that asks nobody."""
    if traced:
        _put_inside()
    with during(active, scipy=int(traced)), np.errstate(all="ignore") if traced else nullcontext():  # what is dropped
        yield


class OfScipy(Replaced):
    """A stand-in for a Python function of SciPy's: its answer, or its own Python run on traced values."""

    @passes_on
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, in another way where it gets a traced value in this thread's trace."""
        if current() is None:
            return self.original(*args, **kwargs)
        traced = touches(args) or touches(kwargs) or self.holds(args)
        if self.original in SCIPYS and (traced or (active.scipy and any(type(a) is LocalArray for a in args))):
            found = self._answered(args, kwargs)
            if found is not NotImplemented:
                return found
        if active.scipy:
            return self.original(*args, **kwargs)
        if traced or not any(map(callable, [*args, *kwargs.values()])):
            return self.run(args, kwargs, traced=traced)
        before = len(heard.refusals or ())
        try:
            return self.run(args, kwargs, traced=False)
        except ConcretizationError as error:  # a function among them may have read traced values
            try:
                found = self._answered(args, kwargs) if self.original in SCIPYS else NotImplemented
                found = self.run(args, kwargs, traced=True) if found is NotImplemented else found
            except SymgradError:
                raise
            except Exception as other:
                if interrupts(other):
                    raise
                raise error from None  # of compiled code, which got a traced value
            del (heard.refusals or [])[before:]
            return found

    def _answered(self, args: Any, kwargs: Any) -> Any:
        place = getattr(SCIPYS[self.original], "writes", None)
        given = [value if k == place else settled(value) for k, value in enumerate(args)]
        if type(out := kwargs.get("out")) is LocalArray:
            answered(self.original, tuple(given), {**settled(kwargs), "out": out.traced()})
            return out
        return answered(self.original, tuple(given), settled(kwargs))

    @passes_on
    def run(self, args: Any, kwargs: Any, *, traced: bool) -> Any:
        """Run its own Python."""
        try:
            with in_python(traced=traced):
                if traced or any(map(callable, [*args, *kwargs.values()])):
                    return self.unheld(self.original(*args, **kwargs))
                return on_users_line(self.original, *args, **kwargs)
        except RecursionError:
            raise
        except _CAUGHT as error:
            if traced and isinstance(error, TypeError) and not isinstance(error, SymgradError):
                self.check_call(args, kwargs)
            raise _named_error(error, self.said(args), self.original, traced=traced) from None

    def unheld(self, found: Any) -> Any:
        """Refuse a sparse matrix of traced values, which SciPy's compiled code could not read; return anything else."""
        if is_sparse(type(found)) and touches([*vars(found).values()]):
            instead = OTHERWISE.get(self.name.split(".")[-1], SPARSE)
            raise UnsupportedError(f"{self.name} of traced values", line=user_line(), instead=instead)
        return found

    def check_call(self, args: Any, kwargs: Any) -> None:
        """Refuse arguments that the function has not, or that are missing, as Python does."""
        with suppress(ValueError):  # of compiled code nobody knows
            takes = self.signature(args)
            try:
                takes.bind(*args, **kwargs)
            except TypeError as error:
                name = self.said(args)
                shown = takes.replace(parameters=[*takes.parameters.values()][len(args) - len(self.given(args)):])
                raise ArgumentError(f"{name}: {error}", line=user_line(), instead=f"{name}{shown}") from None

    def signature(self, args: Any) -> inspect.Signature:  # noqa: ARG002 - of a method it depends on the object
        """Return what arguments it takes."""
        return inspect.signature(self.original)

    def given(self, args: Any) -> Any:
        """Return the arguments that the user gave."""
        return args

    def __reduce__(self) -> Any:
        return getattr, (sys.modules[self.original.__module__], self.original.__name__)

    def holds(self, args: Any) -> bool:  # noqa: ARG002 - a method's object may
        """Whether a traced value is in what the function is bound to."""
        return False

    def said(self, args: Any) -> str:  # noqa: ARG002 - of a method it depends on the object
        """Name the function as the user does."""
        return self.name


class Method(OfScipy):
    """A stand-in for a method of one of SciPy's classes, whose objects may hold traced values."""

    @passes_on
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method itself, or draw as NumPy's functions do that draw."""
        if self.name == "rvs" and current() is not None and not active.scipy:
            return frozen(self.said(args).removesuffix(".rvs"))(self.original, args, kwargs)
        return super().__call__(*args, **kwargs)

    def holds(self, args: Any) -> bool:
        """Whether a traced value is an attribute of its object, or of an object of SciPy's that it has."""
        own = [*getattr(args[0], "__dict__", {}).values()]
        inner = [vars(value).values() for value in own if (
            type(value).__module__.startswith("scipy.") and hasattr(value, "__dict__"))]
        return touches([*own, *itertools.chain(*inner)])

    def signature(self, args: Any) -> inspect.Signature:
        """Return what arguments it takes, of a distribution also its shape parameters, location and scale."""
        takes = inspect.signature(self.original)
        parse = getattr(args[0], "_parse_args", None)
        named = [one for one in takes.parameters.values() if one.kind is one.POSITIONAL_OR_KEYWORD]
        if parse is None or len(named) == len(takes.parameters):
            return takes
        return takes.replace(parameters=[*named, *inspect.signature(parse).parameters.values()])

    def given(self, args: Any) -> Any:
        """Return the arguments that the user gave, behind the object."""
        return args[1:]

    def said(self, args: Any) -> str:
        """Name it with the distribution."""
        own = vars(args[0]) if hasattr(args[0], "__dict__") else {}
        kind = own.get("dist", own.get("_dist", args[0]))
        name = getattr(kind, "name", None)
        if name in {None, "Distribution"}:  # as SciPy names what says no name
            name = type(kind).__name__.removesuffix("_gen").removesuffix("_frozen")
        return f"scipy.stats.{name}" + (f".{self.name}" if self.name[0] != "_" else "")


_met: dict[str, tuple[Sequence[str], Callable[..., Any]]] = {}


def methods(package: str, modules: Sequence[str], names: Sequence[str], answer: Callable[..., Any]) -> None:
    """Say what answers methods of a package's classes that are given traced values.

    Args:
        package: where the classes are.
        modules: the modules that define them.
        names: the methods.
        answer: ``answer(name, object, *args, **kwargs)``.
    """
    _met.update({f"{package}.{module}": (names, answer) for module in modules})


# -- caches


class Cached(Replaced):
    """A stand-in for a function with a cache, which keeps what NumPy computes: it runs beside the trace."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it with its cache, without where it reads traced values: they would be kept for later traces."""
        if current() is None or touches(args) or touches(kwargs):
            return self.original(*args, **kwargs)
        try:
            with beside():
                found = self.original(*args, **kwargs)
        except LeakedTracerError:
            return self.original.__wrapped__(*args, **kwargs)
        active.kept.append(found)
        return found

    def __reduce__(self) -> Any:
        return self.original.__reduce__()


@contextmanager
def kept_by_caches() -> Iterator[list[Any]]:
    """Yield a list of what caches give in the trace meanwhile: the function reads it from outside."""
    with during(active, kept=[]):
        yield active.kept


_get = functools.cached_property.__get__


def _get_cached(self: Any, instance: Any, owner: Any = None) -> Any:
    """Get a cached property's value: it is computed beside the trace, but of what holds traced values."""
    new = current() is not None and instance is not None and self.attrname not in vars(instance)
    if new and is_user_code(self.func.__code__.co_filename):
        try:
            with beside():
                return _get(self, instance, owner)
        except LeakedTracerError:
            pass
    return _get(self, instance, owner)


_CACHED_PROPERTY: tuple[Any, dict[str, Any], dict[str, Any]] = (
    functools.cached_property, {"__get__": _get}, {"__get__": _get_cached},
)
_LRU = type(functools.lru_cache(len))


def _named_error(error: Exception, name: str, function: Any, *, traced: bool) -> Exception:
    """Return the error of a call of SciPy's, with its name; the user's own errors in a callback as they are."""
    cause = error if isinstance(error, SymgradError) else error.__cause__ or error.__context__
    line = user_line()
    instead = OTHERWISE.get(".".join(name.split(".")[-2:])) or remedy(function)
    if traced and raised_in_library(error) and function.__name__ in REASONS:
        return UnsupportedError(unanswered(name, function), line=line, instead=instead)
    if isinstance(cause, SymgradError) and (cause is error or raised_in_library(error)):
        what = re.sub(r"^[\w.]+\(\.\.\.\): ", "", cause.what)  # its own Python, of which the user knows nothing
        said = what if name in what else f"{name}: {what}"
        elsewhere = cause.line is not None and line is not None and cause.line.number != line.number
        kept = isinstance(cause, NoGradient) or elsewhere  # of a function of the user's that SciPy called
        own = isinstance(cause, ArgumentValueError)  # a wrong value, for which another function is no remedy
        return cause if kept else type(cause)(said, line=line, instead=cause.instead if own else instead)
    if not traced or not raised_in_library(error):
        return error
    if isinstance(error, (TypeError, *_OF_OBJECTS)):  # of compiled code, which got a traced array
        return UnsupportedError(unanswered(name, function), line=line, instead=instead)
    kind = next(made for raised, made in _RAISED.items() if isinstance(error, raised))
    chosen = instead if isinstance(error, IndexError) else None  # by values, not by what the user gave
    return kind(f"{name}: {error}", line=line, instead=chosen)  # type: ignore[no-any-return]


def standing_for(function: Any) -> Any:
    """Return what stands for a function while a trace is active, which may be the one that is traced; else itself."""
    found = _Installed.stand_ins.get(id(function))
    if found is None and type(function) is _LRU:
        return _make_stand_in(function, function.__name__, None, Cached)
    if found is None and type(function) is MethodType:
        found = _Installed.stand_ins.get(id(function.__func__))
        return function if found is None else MethodType(found, function.__self__)
    return function if found is None else found


def held_for(value: Any) -> Any:
    """Return what stands for a value that the user holds, or for the function of a static method; else itself."""
    if issubclass(type(value), (staticmethod, classmethod)):
        instead = held_for(value.__func__)
        return value if instead is value.__func__ else type(value)(instead)
    if len(sys.modules) != _Installed.looked:
        [*_library_rows()]  # of a library that was imported since: none was needed before
    found = standing_for(value)
    if type(found) is not Replaced or found is value:
        return found
    return HeldStandIn(value, found.name, found.when_traced)


def stood_for(value: Any) -> Any:
    """Return what a stand-in stands for; anything else as it is."""
    return value.original if issubclass(type(value), Replaced) else value  # isinstance asks the value


# -- what is replaced


Row = tuple[Any, dict[str, Any], dict[str, Any]]
"""The names of a module (or a class, or a closure's cell), what it has at some of them, and what stands for that."""

_PUBLIC = tuple([f"scipy.{name}" for name in (
    "cluster.vq", "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "signal.windows",
    "sparse", "sparse.linalg", "spatial", "spatial.distance", "special", "stats",
)])
_POLYNOMIALS = tuple([f"{POLYNOMIALS}{name}" for name in (
    "polyutils", "polynomial", "chebyshev", "legendre", "hermite", "hermite_e", "laguerre")])
_CLASSES = (
    "scipy.stats._distn_infrastructure", "scipy.stats._multivariate", "scipy.stats._covariance",
    "scipy.stats._continuous_distns", "scipy.stats._discrete_distns")
_ANSWERED = frozenset(_CLASSES[3:])
"""Modules of many classes, of whose methods those alone have a stand-in that are answered."""
_CELL = "cell_contents"


class _Installed:
    """How many traces are active, what is in place meanwhile, and what is known of modules."""

    lock = threading.Lock()
    count = 0
    in_place: ClassVar[dict[int, Row]] = {}
    stand_ins: ClassVar[dict[int, Replaced]] = {}
    libraries: ClassVar[dict[str, list[Row]]] = {}
    inside: ClassVar[dict[str, Row]] = {}
    users: ClassVar[dict[str, tuple[ModuleType | None, int, tuple[Row, ...]]]] = {}
    others: ClassVar[set[str]] = set()
    modules = 0
    looked = 0


def _make_stand_in(original: Any, name: str, when_traced: Callable[..., Any] | None, kind: Any = Replaced) -> Replaced:
    made: Replaced = kind(original, name, when_traced)  # one for each name: `calls` asks for it
    _Installed.stand_ins.setdefault(id(original), made)
    return made


def _row_of(
    module: Any, answers: Mapping[str, Callable[..., Any] | None], kind: Any = Replaced, prefix: str = "",
) -> Row:
    originals = {name: vars(module)[name] for name in answers}
    originals = {name: value for name, value in originals.items() if not isinstance(value, Replaced)}
    made = {name: _make_stand_in(value, prefix + name, answers[name], kind) for name, value in originals.items()}
    return module if isinstance(module, type) else vars(module), originals, made


def _functions(module: Any) -> dict[str, Callable[..., Any]]:
    """List the functions of a module that have an answer and are replaced for it; a ufunc asks its arguments itself."""
    return {
        name: of_lists for name, function in list(vars(module).items())
        if name not in MAKERS and callable(function) and not isinstance(function, (np.ufunc, type, Replaced))
        and getattr(function, "__hash__", None) is not None and function in ANSWERS
    }


def _numpy_rows() -> list[Row]:
    names, *of_numpy = _row_of(np, {**MAKERS, **_functions(np)})
    _, *joining = _row_of(np, dict.fromkeys(("r_", "c_")), Indexed)
    return [
        (names, *[a | b for a, b in zip(of_numpy, joining, strict=True)]), _row_of(np.linalg, _functions(np.linalg)),
        _row_of(np.vectorize, {"__call__": _vectorized}, InPython),
        _row_of(np.poly1d, {
            "__init__": _poly1d, "__call__": _poly1d_called, "__truediv__": _poly1d_divided,
            "__rtruediv__": functools.partial(_poly1d_divided, swapped=True),
            "integ": lambda own, m=1, k=0: np.poly1d(answered(np.polyint, (own.coeffs, m, settled(k)), {})),
        }, InPython),
        (ABCPolyBase, {"fit": _FIT, "__call__": _SERIES_CALL}, {
            "fit": classmethod(InPython(_FIT.__func__, "fit", _fitted)),
            "__call__": InPython(_SERIES_CALL, "__call__", _series_called)}),
        *[_row_of(module, dict.fromkeys([
            name for name in module.__all__ if name not in NO_DRAWS and not isinstance(vars(module)[name], type)
        ], frozen(shown))) for module, shown in ((np.random, "np.random"), (random, "random"))],
    ]


def _classes(name: str) -> list[type]:
    every = list(vars(sys.modules[name]).values())
    return [value for value in every if isinstance(value, type) and value.__module__ == name]


def _scipy_rows(name: str) -> list[Row]:
    """List a public module's functions in Python, or the methods of the classes that are defined in a module."""
    module = sys.modules[name]
    if name not in _CLASSES:
        written = [
            key for key, value in list(vars(module).items())
            if key[0] != "_" and (type(value) in _FUNCTIONS or type(value).__name__ in _CALLABLE)
        ]
        return [_row_of(module, dict.fromkeys(written), OfScipy, f"{name}.")]
    public = name not in _ANSWERED
    keys = {kind: [
        key for key, value in vars(kind).items() if type(value) is FunctionType and (
            (public and (key[0] != "_" or key in {"__call__", "__init__"})) or value in SCIPYS)
    ] for kind in _classes(name) if kind not in SCIPYS}
    return [_row_of(kind, dict.fromkeys(own), Method) for kind, own in keys.items() if own]


def _polynomial_rows(name: str) -> list[Row]:
    """List the functions of one of NumPy's modules of polynomials, and what its classes hold of them."""
    module = sys.modules[name]
    row = _row_of(module, of_polynomials(module), InPython, f"{name}.")
    return [row, *[(kind, held, {key: held_for(value) for key, value in held.items()}) for kind in _classes(name) if (
        held := {key: value for key, value in vars(kind).items() if isinstance(value, staticmethod)})]]


def _met_rows(name: str) -> list[Row]:
    """List the methods of a module's classes that have an answer for traced values."""
    names, answer = _met[name]
    return [_row_of(kind, {
        key: functools.partial(answer, key) for key in names if key in vars(kind)
    }, InPython) for kind in _classes(name)]


_FUNCTIONS = frozenset({FunctionType, BuiltinFunctionType})
_CALLABLE = frozenset({"cython_function_or_method", "MultiUFunc"})
_MADE_FOR = frozenset({_LRU, MethodType})
"""Types of which `standing_for` makes a stand-in when it is asked."""


def _bound_names(names: dict[str, Any]) -> Row | None:
    """Find the names of a module that are bound to what has a stand-in."""
    values = list(names.values())
    if _Installed.stand_ins.keys().isdisjoint(map(id, values)) and _MADE_FOR.isdisjoint(map(type, values)):
        return None  # as it is with most modules, at each trace
    made = {name: standing_for(value) for name, value in list(names.items())}
    changed = [name for name, instead in made.items() if instead is not names.get(name, instead)]
    return (names, {k: names[k] for k in changed}, {k: made[k] for k in changed}) if changed else None


def _methods_with_caches(names: dict[str, Any]) -> Iterator[Row]:
    """Find methods with a cache in the classes that a module defines."""
    for kind in [value for value in names.values() if issubclass(type(value), type)]:
        found = {key: value for key, value in vars(kind).items() if type(value) is _LRU}
        if found and kind.__module__ == names.get("__name__"):
            yield kind, found, {key: standing_for(value) for key, value in found.items()}


def _closures(fun: Any) -> Iterator[Row]:
    """Find what the function's module, and its closures and those of the functions in them, bound to such."""
    seen: set[int] = set()
    stack = [fun]
    while stack:
        function: Any = stack.pop()
        for _ in range(20):  # methods, partials and wrappers, to a Python function
            if isinstance(function, FunctionType) or function is None:
                break
            inner = (getattr(function, name, None) for name in ("__func__", "func", "__wrapped__"))
            called = getattr(type(function), "__call__", None)  # noqa: B004 - what it calls, not whether it can
            function = next((f for f in inner if f is not None), called)
        if not isinstance(function, FunctionType) or id(function) in seen:
            continue
        seen.add(id(function))
        stack.append(getattr(function, "__wrapped__", None))
        if not may_trace(function.__code__.co_filename):
            continue
        if (row := _bound_names(function.__globals__)) is not None:
            yield row
        for cell in function.__closure__ or ():
            try:
                value = cell.cell_contents
            except ValueError:  # not yet there
                continue
            if (instead := standing_for(value)) is not value:
                yield cell, {_CELL: value}, {_CELL: instead}
            stack.append(value if type(value) is FunctionType else None)


def _user_bindings() -> Iterator[Row]:
    """Find what the user's modules bound to such; a module is looked through again when it has other names."""
    here = _Installed
    for name, loaded in list(sys.modules.items()) if len(sys.modules) != here.modules else ():
        if name not in here.users and name not in here.others:
            file = getattr(loaded, "__dict__", {}).get("__file__")
            own = of_the_user(file or ("" if name == "__main__" else "<frozen>"))
            if own:
                here.users[name] = (None, 0, ())
            else:
                here.others.add(name)
    here.modules = len(sys.modules)
    for name, (known, length, before) in here.users.items():
        module: Any = sys.modules.get(name)
        if module is None:
            continue
        same = module is known and len(vars(module)) == length and name != "__main__"
        names = vars(module)
        rows = before if same else (*filter(None, [_bound_names(names)]), *_methods_with_caches(names))
        here.users[name] = (module, len(names), rows)
        yield from rows


# -- putting it in place


def _swap(row: Row, *, back: bool = False) -> None:
    """Put stand-ins in the place of what they stand for, or that back; what others have put there meanwhile stays."""
    names, originals, stand_ins = row
    there, instead = (stand_ins, originals) if back else (originals, stand_ins)
    if type(names) is not dict:
        for name, held in there.items():
            if (names.__dict__.get(name) if isinstance(names, type) else getattr(names, name)) is held:
                setattr(names, name, instead[name])
    elif all(map(is_, map(names.get, there), there.values())):  # each call is traced between two of these
        names.update(instead)
    else:
        names.update({name: instead[name] for name, held in there.items() if names.get(name) is held})


def _put_rows(rows: Iterable[Row]) -> None:
    """Put rows in place that are not yet there."""
    for row in rows:
        if id(row[0]) not in _Installed.in_place:
            _Installed.in_place[id(row[0])] = row
            _swap(row)


def _library_rows() -> Iterator[Row]:
    """Yield the rows of NumPy and of SciPy's public modules, of those that are imported."""
    found = _Installed.libraries
    _Installed.looked = len(sys.modules)
    if not found:
        load()  # what answers is asked once for each module: all of it has to be declared, that of modes, too
        for room in ALSO:
            importlib.import_module(room)
    answer_scipy()
    for name in ("numpy", *_POLYNOMIALS, *_PUBLIC, *_CLASSES, *_met):
        if name not in found and name in sys.modules:
            found[name] = (
                _numpy_rows() if name == "numpy" else _met_rows(name) if name in _met else
                _polynomial_rows(name) if name in _POLYNOMIALS else _scipy_rows(name))
        yield from found.get(name, ())
    for module in [sys.modules.get(name) for name in ("numpy", "scipy.special")] if SITES else ():
        if type(module) is ModuleType:
            yield module, {"__class__": ModuleType}, {"__class__": _WithSites}


def _put_inside() -> None:
    """Put stand-ins among the names of SciPy's own modules, until the last trace has ended."""
    here = _Installed
    with here.lock:
        for function in list(SCIPYS):  # also what users do not call
            if id(function) not in here.stand_ins and not isinstance(function, np.ufunc):
                _make_stand_in(function, function.__name__, None, OfScipy)
        for name, module in list(sys.modules.items()):
            if name.startswith("scipy.") and name not in here.inside and isinstance(module, ModuleType):
                row = _bound_names(vars(module))
                names, originals, stand_ins = row or (vars(module), {}, {})
                for key, made in INSIDE.get(name, {}).items():
                    if key in names:
                        originals[key] = names[key]
                        stand_ins[key] = made(names[key])
                here.inside[name] = names, originals, stand_ins
        _put_rows([row for row in here.inside.values() if row[1]])


@contextmanager
def installed(fun: Any = None) -> Iterator[None]:
    """Replace NumPy's and SciPy's functions until the last trace has ended: for all, and in the closures of one."""
    here = _Installed
    with here.lock:
        here.count += 1
        _put_rows(_library_rows())
        if here.count == 1:
            _put_rows([_CACHED_PROPERTY, *_user_bindings()])
        if fun is not None:
            _put_rows(_closures(fun))
    try:
        yield
    finally:
        with here.lock:
            here.count -= 1
            if not here.count:
                for row in here.in_place.values():
                    _swap(row, back=True)
                here.in_place.clear()
