"""`Mode`: a derived function written in Python on traced values, so that compiling it is `jit` and nothing else."""

from __future__ import annotations

import threading
import types
import weakref
from typing import TYPE_CHECKING, Any

from symgrad.api.call.arguments import AUTO, Arguments, check_function
from symgrad.api.call.function import Function
from symgrad.options import Options
from symgrad.trace.source.lines import ends_here

if TYPE_CHECKING:
    import inspect
    from collections.abc import Callable, Iterable

    from symgrad.trace.signature import Signature

    Rule = Callable[..., Any]


class Mode:
    """A function of the arguments of another one: ``rule(fun, signature, leaves, **settings)``, on traced leaves.

    It has the other one's name and signature (or one of its own), so that arguments are named as their author did.

    Attributes:
        symgrad_mode: what it is called: ``grad``, ``jacfwd``.
    """

    def __init__(
        self, kind: str, fun: Callable[..., Any], rule: Rule, settings: dict[str, Any], *,
        signature: inspect.Signature | None = None, weak: bool = False, annotated: bool = True,
    ) -> None:
        """Keep the function; with `weak`, only as long as somebody else does.

        Its arguments are what the function's annotations say, if `annotated`.
        """
        check_function(fun)
        self._get: Any = _weakly(fun) if weak else None
        self._fun = None if weak else fun
        self.symgrad_mode, self._rule, self._settings, self.annotated = kind, rule, settings, annotated
        self.__name__ = getattr(fun, "__name__", type(fun).__name__)
        self.__qualname__ = getattr(fun, "__qualname__", self.__name__)
        self.__module__ = getattr(fun, "__module__", None) or "builtins"
        self.__doc__ = getattr(fun, "__doc__", None)
        if signature is not None:
            self.__signature__ = signature

    @property
    def __wrapped__(self) -> Any:
        """The function."""
        return self._fun if self._get is None else self._get()

    @ends_here
    def __call__(self, signature: Signature, leaves: list[Any]) -> Any:
        """Derive for traced arguments; the C is the same from wherever it is called."""
        return self._rule(self.__wrapped__, signature, leaves, **self._settings)


def function(
    kind: str, fun: Callable[..., Any], rule: Rule, settings: dict[str, Any],
    static_argnums: int | Iterable[int] = (), static_argnames: str | Iterable[str] = (), specs: Any = None,
    dynamic: Any = AUTO, options: Options | None = None, *, signature: inspect.Signature | None = None,
    annotated: bool = True,
) -> Function:
    """Make the `Function` of a mode; what is static is so for the function too."""
    mode = Mode(kind, fun, rule, settings, signature=signature, annotated=annotated)
    return Function(mode, Arguments(mode, static_argnums, static_argnames, specs, dynamic), options or Options())


# -- functions derived again and again, by calls like ``jvp(f, primals, tangents)``


class _Derived:
    """What was derived of functions, for as long as these live."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owners: dict[int, tuple[Any, dict[Any, Function]]] = {}

    def of(self, owner: Any) -> dict[Any, Function]:
        """Return what was derived of one function (or of the methods of one object)."""
        key = id(owner)
        with self._lock:
            found = self._owners.get(key)
            if found is None:
                try:
                    alive: Any = weakref.ref(owner, lambda _: self._owners.pop(key, None))
                except TypeError:  # ufuncs and the like, which live as long as NumPy does
                    alive = owner
                found = self._owners[key] = (alive, {})
            return found[1]


_derived = _Derived()


def derived(fun: Any, rule: Rule, signature: inspect.Signature, **settings: Any) -> Function:
    """Return the compiled mode of a function, the same one each time; it does not keep the function alive."""
    method = isinstance(fun, types.MethodType)
    known = _derived.of(fun.__self__ if method else fun)
    key = (fun.__func__ if method else None, rule, *settings.items())
    found = known.get(key)
    if found is None:
        mode = Mode(rule.__name__.strip("_"), fun, rule, settings, signature=signature, weak=True)
        found = known.setdefault(key, Function(mode, Arguments(mode), Options()))
    return found


def _weakly(fun: Callable[..., Any]) -> Callable[[], Any]:
    """Refer to a function without keeping it alive, where that is possible."""
    try:
        return weakref.WeakMethod(fun) if isinstance(fun, types.MethodType) else weakref.ref(fun)
    except TypeError:
        return lambda: fun
