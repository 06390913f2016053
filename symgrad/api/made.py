"""Functions made of modes: compiling a mode is `jit`."""

from __future__ import annotations

import threading
import types
import weakref
from typing import TYPE_CHECKING, Any

from symgrad.api.arguments import AUTO, Arguments
from symgrad.api.function import Function
from symgrad.api.mode import Mode
from symgrad.options import Options

if TYPE_CHECKING:
    import inspect
    from collections.abc import Callable, Iterable

    Rule = Callable[..., Any]


def function(
    kind: str, fun: Callable[..., Any], rule: Rule, settings: dict[str, Any], *,
    static_argnums: int | Iterable[int] = (), static_argnames: str | Iterable[str] = (), specs: Any = None,
    options: Options | None = None, signature: inspect.Signature | None = None, dynamic: Any = AUTO,
    annotated: bool = True,
) -> Function:
    """Make the `Function` of a mode; what is static is so for the function too."""
    nums = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    given = {**settings, "static": (nums, names)} if nums or names else settings
    mode = Mode(kind, fun, rule, given, signature=signature, annotated=annotated)
    return Function(mode, Arguments(mode, nums, names, specs, dynamic), options or Options())


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


def derived(
    fun: Any, rule: Rule, signature: inspect.Signature, make: Callable[..., Function] = Function, **settings: Any,
) -> Function:
    """Return the compiled mode of a function, the same one each time; it does not keep the function alive."""
    method = isinstance(fun, types.MethodType)
    known = _derived.of(fun.__self__ if method else fun)
    key = (fun.__func__ if method else None, rule, *settings.items())
    found = known.get(key)
    if found is None:
        mode = Mode(rule.__name__.strip("_"), fun, rule, settings, signature=signature, weak=True)
        found = known.setdefault(key, make(mode, Arguments(mode), Options()))
    return found
