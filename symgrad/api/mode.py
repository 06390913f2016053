"""`Mode`: a derived function written in Python on traced values, so that compiling it is `jit` and nothing else."""

from __future__ import annotations

import types
import weakref
from typing import TYPE_CHECKING, Any

from symgrad.api.arguments import check_function
from symgrad.trace.lines import ends_here

if TYPE_CHECKING:
    import inspect
    from collections.abc import Callable

    Rule = Callable[..., Any]


class Mode:
    """A function of the arguments of another one: ``rule(fun, args, kwargs, **settings)``, called on traced values.

    It has the other one's name and signature (or one of its own), so that arguments are named as their author did.

    Attributes:
        kind: what it is called: ``grad``, ``jacfwd``.
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
        self.kind, self._rule, self._settings, self.annotated = kind, rule, settings, annotated
        self.__name__ = getattr(fun, "__name__", type(fun).__name__)
        self.__qualname__ = getattr(fun, "__qualname__", self.__name__)
        self.__module__ = getattr(fun, "__module__", None) or "builtins"
        self.__doc__ = getattr(fun, "__doc__", None)
        if signature is not None:
            self.__signature__ = signature

    def set(self, name: str, value: Any) -> None:
        """Give the rule one more setting."""
        self._settings = {**self._settings, name: value}

    @property
    def __wrapped__(self) -> Any:
        """The function."""
        return self._fun if self._get is None else self._get()

    @ends_here
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Derive for traced arguments; the C is the same from wherever it is called."""
        return self._rule(self.__wrapped__, args, kwargs, **self._settings)


def _weakly(fun: Callable[..., Any]) -> Callable[[], Any]:
    """Refer to a function without keeping it alive, where that is possible."""
    try:
        return weakref.WeakMethod(fun) if isinstance(fun, types.MethodType) else weakref.ref(fun)
    except TypeError:
        return lambda: fun
