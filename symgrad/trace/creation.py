"""NumPy's creation functions while a trace is active: what protocols do not reach.

``np.zeros(3)[0] = x``, ``np.array([x, y])``, ``np.full(3, x)`` and ``np.sum([x, y])`` ask no traced array first. So
from the first trace's beginning to the last one's end these names of the `numpy` module hold a `Replaced`, which calls
NumPy's own function unless this thread traces and the call stands in the user's code.
"""

from __future__ import annotations

import functools
import random
import sys
import threading
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from symgrad.errors import SymgradWarning, UnsupportedError
from symgrad.ops.declare.forms import ANSWERS, answer_scipy
from symgrad.trace.answers import GIVES_ARRAYS, answered
from symgrad.trace.inplace.fill import MAKERS
from symgrad.trace.inplace.local import call_function, lent
from symgrad.trace.nested import settled, touches
from symgrad.trace.source.caller import calls
from symgrad.trace.source.lines import user_line
from symgrad.trace.state import current
from symgrad.trace.tracer import as_array

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from symgrad.errors import Line


class Replaced:
    """A NumPy function's stand-in: equal to it, pickled as it, and it in every thread that does not trace."""

    def __init__(self, original: Any, name: str, when_traced: Callable[..., Any]) -> None:
        """Stand for `original`; ``when_traced(original, args, kwargs)`` answers a traced function's call."""
        functools.update_wrapper(self, original)
        self.original, self.name, self.when_traced = original, name, when_traced

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call what this thread and this caller should get."""
        if current() is None or not calls(sys._getframe(1), self.name, self):  # noqa: SLF001 - the caller, nothing else
            return self.original(*args, **kwargs)
        return self.when_traced(self.original, args, kwargs)

    def __eq__(self, other: object) -> bool:
        """Equal the function it stands for, so that tables of functions find it."""
        return other is self or other is self.original

    def __hash__(self) -> int:
        return hash(self.original)

    def __reduce__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return repr(self.original)

    def __getattr__(self, name: str) -> Any:
        """Have the attributes of the function it stands for."""
        return getattr(self.__dict__["original"], name)


# -- NumPy functions of lists, and random draws


UNASKED = frozenset({np.take})
"""Functions that do not ask every argument for the protocol: the indices of a plain array may be traced."""


def _of_lists(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Answer a function that got a list with a traced value in it; NumPy's protocol does the rest."""
    seen = args if original in UNASKED else [a for a in args if isinstance(a, (list, tuple))]
    if touches(seen) or touches(list(kwargs.values())):
        result = call_function(original, args, kwargs)
    else:
        result = original(*args, **kwargs)
    return as_array(result) if original in GIVES_ARRAYS else result


def _of_traced(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Answer a Python function of SciPy, which asks no protocol, when it gets a traced value."""
    if touches(args) or touches(kwargs):
        return answered(original, settled(args), settled(kwargs))
    return original(*args, **kwargs)


_warned: set[Line | None] = set()


def _frozen(module: str) -> Callable[..., Any]:
    def draw(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Draw as asked, and warn, once for a line, that every later call will use the same numbers."""
        name, line = f"{module}.{original.__name__}", user_line()
        if original.__name__ == "default_rng" and (args or kwargs):
            return original(*args, **kwargs)  # a seed gives the same numbers in every call anyway
        if touches(args) or touches(kwargs):
            raise UnsupportedError(
                f"{name} of a traced array: a draw cannot be differentiated or repeated", line=line,
                instead="draw standard numbers outside and pass them as an argument: mean + scale * noise",
            )
        if line not in _warned:
            _warned.add(line)
            warnings.warn(
                f"{name} is drawn once, while the function is traced, and is a constant in every call"
                + (f"\n  at {line.file}:{line.number}\n      {line.text}" if line else "")
                + "\n  instead: draw outside and pass the numbers as an argument",
                SymgradWarning, stacklevel=3,
            )
        return original(*lent(args), **lent(kwargs))

    return draw


_DRAWS = frozenset({
    "beta", "betavariate", "binomial", "bytes", "chisquare", "choice", "choices", "default_rng", "dirichlet",
    "exponential", "expovariate", "f", "gamma", "gammavariate", "gauss", "geometric", "getrandbits", "gumbel",
    "hypergeometric", "laplace", "logistic", "lognormal", "lognormvariate", "logseries", "multinomial",
    "multivariate_normal", "negative_binomial", "noncentral_chisquare", "noncentral_f", "normal", "normalvariate",
    "pareto", "paretovariate", "permutation", "poisson", "power", "rand", "randbytes", "randint", "randn", "random",
    "random_integers", "random_sample", "randrange", "ranf", "rayleigh", "sample", "shuffle", "standard_cauchy",
    "standard_exponential", "standard_gamma", "standard_normal", "standard_t", "triangular", "uniform", "vonmises",
    "vonmisesvariate", "wald", "weibull", "weibullvariate", "zipf",
})


# -- putting them in place


Row = tuple[dict[str, Any], str, Any, Replaced]
"""The names of a module, one of them, what it has there, and what stands for that."""


def _table() -> list[Row]:
    """List what is replaced."""
    found = [_row(np, name, maker) for name, maker in MAKERS.items()]
    found += _functions(np, _of_lists) + _functions(np.linalg, _of_lists)
    for module, shown in ((np.random, "np.random"), (random, "random")):
        draws = sorted(_DRAWS & set(vars(module)))
        found += [_row(module, name, _frozen(shown)) for name in draws]
    return found


def _row(module: Any, name: str, when_traced: Callable[..., Any]) -> Row:
    original = getattr(module, name)
    return vars(module), name, original, Replaced(original, name, when_traced)


def _functions(module: Any, when_traced: Callable[..., Any]) -> list[Row]:
    """List the functions of a module that have an answer and are replaced for it; a ufunc asks its arguments itself."""
    return [
        _row(module, name, when_traced) for name, function in list(vars(module).items())
        if name not in MAKERS and callable(function) and not isinstance(function, (np.ufunc, type, Replaced))
        and getattr(function, "__hash__", None) is not None and function in ANSWERS
    ]


class _Installed:
    """How many traces are active, and what is in place meanwhile."""

    lock = threading.Lock()
    count = 0
    table: ClassVar[list[Row]] = []
    scipy = False


def _put(table: list[Row], *, back: bool = False) -> None:
    """Put stand-ins in the place of what they stand for, or that back; what others have put there meanwhile stays."""
    for names, name, original, stand_in in table:
        there, instead = (stand_in, original) if back else (original, stand_in)
        if names[name] is there:
            names[name] = instead


@contextmanager
def installed() -> Iterator[None]:
    """Replace NumPy's creation functions until the last trace has ended."""
    here = _Installed
    with here.lock:
        here.count += 1
        added = [] if here.table else _table()
        if not here.scipy and answer_scipy():
            here.scipy = True
            added += _functions(sys.modules["scipy.special"], _of_traced)
        here.table += added
        _put(here.table if here.count == 1 else added)
    try:
        yield
    finally:
        with here.lock:
            here.count -= 1
            _put([] if here.count else here.table, back=True)
