"""`override_gradient`: rules in force inside of a block, for ops, NumPy's functions, and plain functions of the user's.

A function is found where it is called: NumPy's by its protocols, the user's by its name. While the block runs, that
name (in the modules and closures that have it) stands for what records one op with the rule, in this thread alone.
"""

from __future__ import annotations

import gc
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from symgrad.api.call.captures import Captured
from symgrad.api.rules.custom import Custom, CustomCall
from symgrad.errors import ArgumentError
from symgrad.ops.declare.forms import ANSWERS, is_traced
from symgrad.trace.lines import user_line
from symgrad.trace.nested import settled
from symgrad.trace.numpy.answers import answered
from symgrad.trace.overrides import heeded, opened, words
from symgrad.trace.signature import flatten
from symgrad.trace.state import active, current, outside

Rule = Callable[..., Any]


@contextmanager
def override_gradient(what: Any, rule: Rule | None = None) -> Iterator[None]:
    """Give an op or a function another derivative, for what is computed inside of the block; blocks nest.

    A block stands in the function that is derived, or around calls of compiled functions: these are compiled for it,
    once for each rule, and are what they were behind it. The innermost block holds. `check_grads` and the comment at
    the head of the C name the rules in force.

    Args:
        what: the name of an op (``"square"``), the same behind the names of `named` scopes (``"layer1/square"``), a
            function of NumPy's, what `define_op`, `custom_vjp` or `custom_jvp` gave, or a plain function that is
            called by its name; or a dict of such things to rules.
        rule: ``rule(g, y, *x)``, NumPy code for the cotangents of the inputs: one, or a tuple with None where there is
            none. Parameters of the op (``axes``, ...) come by name; a function's arguments as they were given.

    Raises:
        ArgumentError: nothing has this name; a plain function was not called by a name that modules or closures have;
            later, when the function is derived, a cotangent does not fit its input.

    >>> import numpy as np, symgrad as sg
    >>> def f(x):
    ...     with sg.override_gradient("square", lambda g, y, x: g * 100):
    ...         z = np.square(x)
    ...     return z + np.square(x)
    >>> float(sg.grad(f)(5.0))
    110.0
    """
    rules: dict[Any, Any] = what if isinstance(what, dict) else {what: rule}
    with ExitStack() as stack:
        for each, own in rules.items():
            if not callable(own):
                raise ArgumentError(f"the rule for {each!r} is no function", line=user_line(), instead="rule(g, y, *x)")
            override = opened(each, own)
            if override is None:
                stack.enter_context(_standing_in(each, own))
            else:
                active.overrides.append(override)
                stack.callback(active.overrides.remove, override)
        if current() is None:  # what is compiled and called meanwhile has these rules
            stack.enter_context(outside(_InForce(rules)))
        yield


class _InForce:
    """What tells a block from others: a rule is the same while its code is, and what it closes over and reads."""

    def __init__(self, rules: dict[Any, Rule]) -> None:
        self.rules, self.kept = rules, list[Any]()
        for what, rule in rules.items():
            self.kept += [what, rule]
            if isinstance(rule, types.FunctionType):
                defaults = [*(rule.__defaults__ or ()), *(rule.__kwdefaults__ or {}).values()]
                self.kept[-1:] = [rule.__code__, rule.__globals__, *defaults, *Captured(rule).values()]
        # Names and code are compared by what they say, as numbers by their types and texts; others by their identity.
        self.same = tuple([
            (type(each), repr(each)) if isinstance(each, (int, float))
            else each if isinstance(each, (str, types.CodeType)) else id(each) for each in self.kept
        ])

    def again(self) -> AbstractContextManager[None]:
        """Return another block of these rules."""
        return override_gradient(self.rules)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InForce) and self.same == other.same

    def __hash__(self) -> int:
        return hash(self.same)


@contextmanager
def _standing_in(fun: Any, rule: Rule) -> Iterator[None]:
    """Let a function be recorded as one op with a rule."""
    fun = getattr(fun, "overrides", fun)  # the name of a function that an outer block overrides
    numpys = fun in ANSWERS if getattr(fun, "__hash__", None) else False
    if not numpys and not isinstance(fun, types.FunctionType):
        raise ArgumentError(
            f"override_gradient of {fun!r}, which is neither the name of an op nor a function of NumPy's nor one of "
            "Python's", line=user_line(),
            instead="a name that `symgrad ops` lists, np.exp, a function, or what define_op or custom_vjp gave",
        )
    line, before = user_line(), active.functions.get(fun)
    stand_in = active.functions[fun] = Overridden(fun, rule)
    try:
        with nullcontext(True) if numpys else _replaced_names(fun) as found:
            yield
    finally:
        del active.functions[fun]
        if before is not None:
            active.functions[fun] = before
    if not (numpys or (found and current() is None) or stand_in.called):
        raise ArgumentError(
            f"override_gradient of {fun.__name__}, which was not called inside of the block by a name that a module or "
            "a closure has", line=line, instead=f"sg.custom_vjp, as a decorator of {fun.__name__}",
        )


class Overridden(Custom):
    """A function while a rule for it is in force."""

    def __init__(self, fun: Callable[..., Any], rule: Rule) -> None:
        super().__init__(fun)
        self.user_rule, self.called = rule, False
        self.override = words(rule, self.name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Record the function as one op, where an argument is traced; inside of it the function is itself."""
        self.called = True
        arguments = [settled(a) for a in args]
        if any(is_traced(leaf) for leaf in flatten(kwargs)[0]):
            raise ArgumentError(
                f"{self.name}, whose gradient is overridden, is given a traced value by keyword", line=user_line(),
                instead="the value by position",
            )
        traced = [any(is_traced(leaf) for leaf in flatten(a)[0]) for a in arguments]
        del active.functions[self.fun]
        try:
            trace = current()
            if trace is None or not any(traced) or not heeded(self.override):
                return self.fun(*args, **kwargs)
            one = Overridden(self._itself(kwargs), self.user_rule)
            one.name, one.override = self.name, self.override
            nondiff = {k: a for k, a in enumerate(arguments) if not traced[k]}
            leaves, tree = flatten(tuple([a for k, a in enumerate(arguments) if traced[k]]))
            return CustomCall(one, nondiff, tree, trace, leaves).result()
        finally:
            active.functions[self.fun] = self

    def _itself(self, kwargs: dict[str, Any]) -> Callable[..., Any]:
        """Return the function with its settings: NumPy's by what answers it, whoever calls."""
        if self.fun in ANSWERS and not isinstance(self.fun, np.ufunc):
            return lambda *args: answered(self.fun, args, dict(kwargs))
        return partial(self.fun, **kwargs) if kwargs else self.fun

    def cotangents(self, call: CustomCall, g: Any, y: Any, x: list[Any]) -> tuple[Any, ...]:
        """Run the user's rule: a cotangent for each argument, or for each that is traced."""
        given, result = [call.results.unflatten(call.parts(v)) for v in (g, y)]
        found = self.user_rule(given, result, *call.arguments(x))
        parts = list(found) if isinstance(found, (tuple, list)) else [found]
        children = call.tree.children()
        if len(parts) == len(children) + len(call.nondiff):
            parts = [part for k, part in enumerate(parts) if k not in call.nondiff]
        return call.flat(f"the rule for {self.name}", parts)


class _Dispatcher:
    """What stands where a function's name is: the function, but for threads in which a rule for it is in force."""

    __slots__ = ("__name__", "__weakref__", "__wrapped__", "count", "overrides", "places")

    def __init__(self, fun: types.FunctionType) -> None:
        self.overrides = self.__wrapped__ = fun
        self.__name__, self.count = fun.__name__, 0
        self.places: list[tuple[Any, str | None]] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        found = active.functions.get(self.overrides, self.overrides)
        return found(*args, **kwargs)


_lock = threading.RLock()
_dispatchers: dict[types.FunctionType, _Dispatcher] = {}  # of the functions that blocks override now, in any thread
_known: WeakValueDictionary[int, _Dispatcher] = WeakValueDictionary()


@contextmanager
def _replaced_names(fun: types.FunctionType) -> Iterator[bool]:
    """Put a dispatcher where modules and closures name a function; the last block takes it away.

    What was compiled with a dispatcher keeps it alive, and is known by it in the next block.
    """
    with _lock:
        dispatcher = _dispatchers.get(fun)
        if dispatcher is None:
            dispatcher = _dispatchers[fun] = _known.setdefault(id(fun), _Dispatcher(fun))
            dispatcher.places = list(_names_of(fun))
            _rebind(dispatcher.places, dispatcher)
        dispatcher.count += 1
    try:
        yield bool(dispatcher.places)
    finally:
        with _lock:
            dispatcher.count -= 1
            if not dispatcher.count:
                del _dispatchers[fun]
                _rebind(dispatcher.places, fun)


def _names_of(fun: types.FunctionType) -> Iterator[tuple[Any, str | None]]:
    """Find the names of a function: in the namespaces of modules, and in the cells of closures."""
    if gc.get_freeze_count():  # what is frozen, as servers do before they fork, is not looked through
        gc.unfreeze()
    for holder in gc.get_referrers(fun):
        if isinstance(holder, types.CellType):
            yield holder, None
        elif isinstance(holder, dict) and "__builtins__" in holder:
            yield from [(holder, name) for name, value in list(holder.items()) if value is fun]


def _rebind(places: list[tuple[Any, str | None]], value: Any) -> None:
    for holder, name in places:
        if name is None:
            holder.cell_contents = value
        else:
            holder[name] = value
