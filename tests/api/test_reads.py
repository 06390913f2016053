"""What a function reads in other ways than by a name or an attribute: calls see what is there now."""

from __future__ import annotations

import argparse
import bisect
import builtins
import collections
import contextlib
import copy
import dataclasses
import functools
import heapq
import importlib
import itertools
import math
import multiprocessing
import operator
import pickle
import sys
import threading
import types
from typing import Any

import numpy as np
import pytest
import scipy.interpolate
import scipy.stats

import symgrad as sg
from symgrad.errors import ArgumentError, SymgradWarning

X = np.array([1.0, 2.0, 3.0])
NONE = sg.Options(compiler="none")
CASES: dict[str, Any] = {}


class Settings:
    """What the cases read, and who reads it in another way than by a plain attribute."""

    def __init__(self) -> None:
        self.b, self.W, self.d, self.one = 2.0, np.ones(3), {"b": 2.0}, argparse.Namespace(rate=2.0, W=np.ones(3))

    def method(self) -> float:
        return self.b


def set_on(value: Any, name: str = "b") -> Any:
    """Change a number of an object."""
    return lambda: setattr(value, name, getattr(value, name) + 3.0)


def case(make: Any) -> Any:
    """Note a case: given settings, it makes a function and what changes something that the function reads."""
    CASES[make.__name__] = make
    return make


def short(name: str, make: Any, change: Any = set_on) -> None:
    CASES[name] = lambda s: (make(s), change(s))


def write(s: Any) -> Any:
    return lambda: s.W.__imul__(5.0)


def put(s: Any) -> Any:
    return lambda: s.d.update(b=7.0)


# -- what keeps functions of the user's


def managed(s: Any) -> Any:
    @contextlib.contextmanager
    def manager() -> Any:
        yield s.b

    return manager


def entered(manager: Any, x: Any) -> Any:
    with manager as value:
        return x * value


class Entered(contextlib.ContextDecorator):
    def __init__(self, s: Any) -> None:
        self.s, self.now = s, [1.0]

    def __enter__(self) -> Any:
        self.now.append(self.s.b)
        return self.s.b

    def __exit__(self, *_: object) -> None:
        self.now.pop()


def decorated(s: Any) -> Any:
    block = Entered(s)
    return block(lambda x: x * block.now[-1])


def dispatching(s: Any) -> Any:
    function = functools.singledispatch(lambda _, x: x)
    function.register(int, lambda k, x: k * x * s.b)
    return function


@functools.total_ordering
class Ordered:
    def __init__(self, s: Any, value: float) -> None:
        self.s, self.value = s, value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ordered) and self.value == other.value

    def __lt__(self, other: Any) -> bool:
        return bool(self.value * self.s.b < other.value)

    __hash__ = None  # type: ignore[assignment]


def held(make: Any, use: Any = lambda one, x: one(x)) -> Any:
    """Use what is made of settings once."""
    def of(s: Any) -> Any:
        one = make(s)
        return lambda x: use(one, x)

    return of


short("checkpoint of a number", held(lambda s: sg.checkpoint(lambda x: x * s.b)))
short("checkpoint of an array", held(lambda s: sg.checkpoint(lambda x: x * s.W)), write)
short("checkpoint itself", lambda s: sg.checkpoint(lambda x: x * s.W * s.b))
short("checkpoint of a method", lambda s: sg.checkpoint(functools.partial(lambda k, x: x * s.method() * k, 2.0)))
short("checkpoint in a grad", held(lambda s: sg.grad(lambda x: np.sum(sg.checkpoint(lambda x: s.b * x)(x) ** 2))))
short("contextmanager", held(managed, lambda manager, x: entered(manager(), x)))
short("ExitStack", held(managed, lambda m, x: x * contextlib.ExitStack().enter_context(m())))
short("a context manager", lambda s: lambda x: entered(Entered(s), x))
short("ContextDecorator", held(decorated))
short("singledispatch", held(dispatching, lambda function, x: function(2, x)))
short("total_ordering", held(lambda s: (Ordered(s, 1.0), Ordered(s, 2.5)), lambda a, x: x if a[0] >= a[1] else -x))
short("np.vectorize", held(lambda s: np.vectorize(lambda v: v * s.b)))
short("np.vectorize of an array", held(lambda s: np.vectorize(lambda v: v * s.W[0])), write)
short("a bound method of a dict", held(lambda s: s.d.get, lambda get, x: x * get("b")), put)
short("a bound method of an array", held(lambda s: s.W.sum, lambda total, x: x * total()), write)


@case
def a_function_that_is_registered_later(s: Any) -> Any:
    function = dispatching(s)
    return lambda x: function(2.0, x), lambda: function.register(float, lambda _, x: 7 * x)


# -- modules


@case
def import_(s: Any) -> Any:
    def fun(x: Any) -> Any:
        import made_module as m  # type: ignore[import-not-found]

        return x * m.rate * m.W

    return fun, set_on(sys.modules["made_module"], "rate")


@case
def from_import(s: Any) -> Any:
    def fun(x: Any) -> Any:
        from made_module import W as V
        from made_module import rate

        return x * rate * V

    return fun, lambda: sys.modules["made_module"].W.__imul__(3.0)


@case
def from_import_of_a_function(s: Any) -> Any:
    def fun(x: Any) -> Any:
        def inner(y: Any) -> Any:
            from made_module import scaled

            return scaled(y)

        return inner(x)

    return fun, set_on(sys.modules["made_module"], "rate")


@case
def import_of_a_submodule(s: Any) -> Any:
    def fun(x: Any) -> Any:
        import made_module.inner  # type: ignore[import-not-found]

        return x * made_module.inner.rate

    return fun, set_on(sys.modules["made_module.inner"], "rate")


def of_module(read: Any) -> Any:
    return lambda _: (read, set_on(sys.modules["made_module"], "rate"))


CASES["import_module"] = of_module(lambda x: x * importlib.import_module("made_module").rate)
CASES["sys.modules"] = of_module(lambda x: x * sys.modules["made_module"].rate)


@case
def getattr_of_a_module(s: Any) -> Any:
    module = sys.modules["made_module"]
    return lambda x: x * getattr(module, "rate"), set_on(module, "rate")  # noqa: B009


# -- objects of Python's own, getters


def rate_of(one: Any) -> Any:
    return one.rate


def of_space(read: Any, change: Any) -> Any:
    return lambda s: (lambda x: read(s.one, x), lambda: change(s.one))


CASES["Namespace"] = of_space(lambda one, x: x * one.rate, lambda one: setattr(one, "rate", 5.0))
CASES["an array in it"] = of_space(lambda one, x: x * one.W, lambda one: one.W.__imul__(5.0))
CASES["another array in it"] = of_space(lambda one, x: x * one.W, lambda one: setattr(one, "W", 2 * X))
CASES["passed on"] = of_space(lambda one, x: rate_of(one) * x, lambda one: setattr(one, "rate", 5.0))


@case
def a_default(s: Any) -> Any:
    def fun(x: Any, one: Any = s.one) -> Any:
        return one.rate * x

    return fun, set_on(s.one, "rate")


@case
def thread_local(s: Any) -> Any:
    one = threading.local()
    one.rate = 2.0
    return lambda x: x * one.rate, set_on(one, "rate")


short("attrgetter", held(lambda s: (operator.attrgetter("b"), s), lambda one, x: x * one[0](one[1])))
short("attrgetter in map", held(lambda s: (operator.attrgetter("b"), s), lambda one, x: x * sum(map(one[0], [one[1]]))))
short("methodcaller", held(lambda s: (operator.methodcaller("method"), s), lambda one, x: x * one[0](one[1])))
short("object.__getattribute__", lambda s: lambda x: x * object.__getattribute__(s, "b"))
short("partial of getattr", held(lambda s: functools.partial(getattr, s, "b"), lambda get, x: x * get()))
short("a name for getattr", held(lambda s: (getattr, s), lambda one, x: x * one[0](one[1], "b")))


@case
def match(s: Any) -> Any:
    def fun(x: Any) -> Any:
        match s:
            case Settings(b=2.0):
                return x
        return -x

    return fun, set_on(s)


# -- elements by constant indices, from either end: of sequences, where these stand, and how they change


SEQUENCES: dict[str, Any] = {
    "list": list, "deque": collections.deque, "full deque": lambda v: collections.deque(v, 1 + len(v)),
    "UserList": collections.UserList, "list of its own": type("Own", (list,), {}),
}
INDICES = ("0", "1", "-1", "-2", "~0", "-2:", "3", "-4")
"""Those that are beyond the first three elements are read where an IndexError is caught."""
STAND: dict[str, str] = {
    "a name": "v[{}]", "an attribute": "s.v[{}]", "a key": "d['v'][{}]", "a list": "l[-1][{}]",
    "a tuple": "t[-1][0][{}]",
}
CHANGES: dict[str, Any] = {
    "append": lambda v: v.append(v[0] + 11.0), "insert": lambda v: v.insert(0, v[0] + 11.0), "pop": lambda v: v.pop(),
    "put last": lambda v: v.__setitem__(-1, v[0] + 11.0), "put first": lambda v: v.__setitem__(0, v[0] + 11.0),
    "in place": lambda v: operator.iadd(v[-1], 5.0),
}
READS = """
def fun(x):
    try:
        return x * {0}
    except IndexError:
        return x
"""


@pytest.mark.parametrize("arrays", [False, True], ids=["numbers", "arrays"])
@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("kind", SEQUENCES)
def test_elements_are_those_of_now(kind: str, index: str, arrays: bool) -> None:
    if "deque" in kind and ":" in index:
        pytest.skip("deques have no slices")
    changed = 0
    for place, (name, change) in itertools.product(STAND, CHANGES.items()):
        if (name == "in place" and not arrays) or (kind == "full deque" and name == "insert"):
            continue
        v = SEQUENCES[kind]([k * (np.ones(3) if arrays else 1.0) for k in (2.0, 3.0, 5.0)])
        scope: dict[str, Any] = {"v": v, "s": types.SimpleNamespace(v=v), "d": {"v": v}, "l": [v], "t": (0, (v,))}
        exec(READS.format(STAND[place].format(index) + "[0]" * (":" in index)), scope)
        compiled = sg.jit(scope["fun"], options=NONE)
        for _ in range(3):
            expected = scope["fun"](X)
            np.testing.assert_array_equal(compiled(X), expected, err_msg=f"{place}, {name}")
            change(v)
            changed += not np.array_equal(expected, scope["fun"](X))
    assert changed


def test_an_array_at_the_end_is_an_argument_of_c() -> None:
    history = [np.ones(3)]
    compiled = sg.jit(lambda x: x * history[-1], options=NONE)
    for k in range(4):
        np.testing.assert_array_equal(compiled(X), X * history[-1])
        history.append(np.full(3, float(k)))
    assert compiled.cache_info().compilations == 1
    assert {*map(type, history)} == {np.ndarray}


@pytest.mark.parametrize("mode", ["grad", "vmap", "bind", "hessian"])
def test_an_element_from_the_end_in_every_mode(mode: str) -> None:
    layers = [2.0, 3.0]
    cube = lambda x: np.sum(x**3 * layers[-1])  # noqa: E731 - one of many
    if mode == "bind":
        read = sg.grad(cube, options=NONE).bind(X)
        found = lambda: read()  # noqa: E731, PLW0108 - as above
    elif mode == "vmap":
        mapped = sg.vmap(lambda x: x**3 * layers[-1], options=NONE)
        found = lambda: mapped(X)  # noqa: E731
    else:
        compiled = getattr(sg, mode)(cube, options=NONE)
        found = lambda: np.ravel(compiled(X))  # noqa: E731
    first = np.array(found())
    layers.append(6.0)
    np.testing.assert_allclose(found(), 2 * first)
    layers[-1] += 3.0
    np.testing.assert_allclose(found(), 3 * first)


# -- what a class computes


class Descriptor:
    def __init__(self, s: Any) -> None:
        self.s = s

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self.s.b


def class_of(s: Any) -> Any:
    class Meta(type):
        @property
        def rate(cls) -> Any:
            return s.b

    class Of(metaclass=Meta):
        described = Descriptor(s)

        def __init__(self) -> None:
            self.made = s.b

        def __getattribute__(self, name: str) -> Any:
            return s.b if name == "anything" else object.__getattribute__(self, name)

        def __contains__(self, value: Any) -> bool:
            return bool(value < s.b)

        def __bool__(self) -> bool:
            return bool(s.b < 3)

        def __eq__(self, other: object) -> Any:
            return s.b == other

        __hash__ = None  # type: ignore[assignment]

        def __class_getitem__(cls, name: Any) -> Any:
            return s.b

    return Of


def of_class(read: Any, *, made: bool = True) -> Any:
    def make(s: Any) -> Any:
        one = class_of(s)
        given = one() if made else one
        return lambda x: read(given, x)

    return make


short("a descriptor", of_class(lambda one, x: x * one.described))
short("a property of a metaclass", of_class(lambda one, x: x * one.rate, made=False))
short("__init__", of_class(lambda one, x: x * one().made, made=False))
short("__getattribute__", of_class(lambda one, x: x * one.anything))
short("__contains__", of_class(lambda one, x: x if 3 in one else -x))
short("__bool__", of_class(lambda one, x: x if one else -x))
short("__eq__", of_class(lambda one, x: x if one == 2.0 else -x))
short("__class_getitem__", of_class(lambda one, x: x * one["k"], made=False))


# -- methods that Python or a library calls, and no code names


def implicit(name: str, method: Any, use: Any, base: type = object) -> None:
    """Note a case: two objects of a class with a method that reads a setting, and what calls it without its name."""
    def make(s: Any) -> Any:
        held = {"__module__": __name__, name: lambda self, *args: method(s, self, *args)}
        kind = type("Made", (base,), {"__hash__": lambda _: 1} | held if name == "__eq__" else held)
        one, other = kind(), kind()
        return lambda x: x * use(one, other), set_on(s)

    CASES[f"{name}, {len(CASES)}"] = make


def sorts(a: Any, b: Any) -> Any:
    every = [a, b]
    every.sort()
    return every[0] is a


ORDERED: tuple[Any, ...] = (
    lambda a, b: min([a, b]) is a, lambda a, b: min(a, b) is a, lambda a, b: sorted([a, b]).index(a) == 0, sorts,
    lambda a, b: heapq.nsmallest(1, [a, b])[0] is a, lambda a, b: bisect.bisect([a], b), operator.lt,
)
EQUAL: tuple[Any, ...] = (
    lambda a, b: a in [b, None], lambda a, b: [a].count(b), lambda a, b: {a: 3.0}.get(b, 1.0), lambda a, b: len({a, b}),
    lambda a, b: (a, 1) == (b, 1), lambda a, b: {a: 3.0}[b] if {a} - {b} == set() else 2.0,
)
for name, uses in {"__lt__": ORDERED, "__eq__": EQUAL}.items():
    for use in uses:
        implicit(name, lambda s, *_: s.b > 3.0, lambda a, b, use=use: 2.0 + use(a, b))
implicit("__hash__", lambda s, _: int(s.b), lambda a, _: hash(a))
implicit("__missing__", lambda s, *_: s.b, lambda a, _: a["missing"], dict)
implicit("__missing__", lambda s, *_: s.b, lambda a, _: a["missing"], collections.ChainMap)
implicit("total", lambda s, *_: s.b, lambda a, _: a.total(), list)
implicit("total", lambda s, *_: s.b, lambda a, _: a.total(), str)
implicit("__getitem__", lambda s, *_: s.b, lambda a, _: a["any"], collections.UserDict)


class Rated(scipy.stats.rv_continuous):  # type: ignore[misc]
    def __init__(self, s: Any) -> None:
        super().__init__(a=0.0, name="rated")
        self.s = s

    def _pdf(self, x: Any) -> Any:
        return self.s.b * np.exp(-self.s.b * x)


class Scaled(np.polynomial.Polynomial):
    s: Any

    def __call__(self, x: Any) -> Any:
        return super().__call__(x) * self.s.b


def scaled(s: Any) -> Any:
    one: Any = Scaled([1.0, 2.0])
    one.s = s
    return one


short("a method that SciPy calls", held(Rated, lambda one, x: one.pdf(x)))
short("a method above NumPy's", held(scaled))


@dataclasses.dataclass(order=True)
class Task:
    rank: float
    weight: float = 2.0


@case
def fields_that_min_compares(_: Any) -> Any:
    tasks = [Task(1.0, 3.0), Task(2.0, 7.0)]
    return lambda x: x * min(tasks).weight, set_on(tasks[0], "rank")


# -- what NumPy's and SciPy's objects keep


def keeping(name: str, make: Any, change: Any, use: Any = lambda one, x: one(x)) -> None:
    def of(_: Any) -> Any:
        one = make()
        return lambda x: use(one, x), lambda: change(one)

    CASES[f"{name}, {len(CASES)}"] = of


def logpdf(one: Any, x: Any) -> Any:
    return one.logpdf(x)


def frozen() -> Any:
    return scipy.stats.norm(np.zeros(3))


def polynomial() -> Any:
    return np.polynomial.Polynomial([1.0, 2.0])


def spline() -> Any:
    return scipy.interpolate.CubicSpline([0, 1, 2], [1.0, 3.0, 2.0])


def subclass() -> Any:
    return scaled(Settings())


def proxy() -> Any:
    return (held := [1.0]), types.MappingProxyType({"held": held})


keeping("frozen", frozen, lambda one: one.args[0].__iadd__(3.0), logpdf)
keeping("frozen", frozen, lambda one: setattr(one, "args", (1.0, 2.0)), logpdf)
keeping("poly1d", lambda: np.poly1d([1.0, 2.0]), lambda one: one.coeffs.__setitem__(0, 7.0))
keeping("Polynomial", polynomial, lambda one: one.coef.__setitem__(0, 7.0))
keeping("Polynomial", polynomial, lambda one: setattr(one, "coef", np.ones(3)))
keeping("of a class of the user's", subclass, lambda one: one.coef.__setitem__(0, 7.0))
keeping("spline", spline, lambda one: one.c.__iadd__(5.0), lambda one, x: x * one(1.5))
keeping("vectorize", lambda: np.vectorize(lambda v: v * 2.0), lambda one: setattr(one, "pyfunc", lambda v: v * 5.0))
keeping("UserDict", lambda: collections.UserDict(a=Settings()), lambda one: setattr(one["a"], "b", 5.0),
        lambda one, x: x * one["a"].b)
keeping("UserString", lambda: collections.UserString("ab"), lambda one: setattr(one, "data", "abc"),
        lambda one, x: x * len(one))
keeping("proxy", proxy, lambda one: one[0].append(2.0), lambda one, x: x * sum(one[1]["held"]))


class Table:
    def __init__(self, values: Any) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(self.values, dtype)


class Same(Table):
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.values


ARRAY_OF: dict[str, Any] = {
    "np.asarray": lambda one, x: x * np.asarray(one), "np.array": lambda one, x: x * np.array(one),
    "*": lambda one, x: x * one, "reflected": lambda one, x: one * x, "np.sum": lambda one, x: x * np.sum(one),
    "np.exp": lambda one, x: x * np.exp(one),
    "@": lambda one, x: x * (x @ one), "np.where": lambda one, x: np.where(x > 1.5, one, x + np.mean(one)),
}
for name, use in ARRAY_OF.items():
    for kind, values in ((Table, [1.0, 2.0, 3.0]), (Table, X.copy()), (Same, X.copy())):
        keeping(f"__array__, {name}", lambda kind=kind, values=values: kind(copy.copy(values)),
                lambda one: one.values.__setitem__(0, 0.5), use)


# -- code of the user's that answers every name


class Strict:
    held: Any = {"b": 2.0}  # noqa: RUF012 - what the case changes

    def __getattribute__(self, name: str) -> Any:
        return Strict.held[name]


class Anything:
    def __getattr__(self, name: str) -> Any:
        return 2.0


def module_of(answer: Any) -> Any:
    module: Any = types.ModuleType("answering")
    module.__getattr__ = answer
    return module


@case
def strict(_: Any) -> Any:
    Strict.held, one = {"b": 2.0}, Strict()
    return lambda x: x * one.b, lambda: Strict.held.update(b=5.0)


def raises(name: str) -> Any:
    raise KeyError(name)


def answering(make: Any) -> Any:
    def of(_: Any) -> Any:
        one = make()
        return lambda x: x * one.b, lambda: setattr(one, "b", 5.0)

    return of


CASES["an object that answers any name"] = answering(Anything)
CASES["a module that answers any name"] = answering(lambda: module_of(lambda _: 2.0))


@case
def a_module_that_answers_no_other_name(_: Any) -> Any:
    module = module_of(raises)
    module.b = 2.0
    return lambda x: x * module.b, set_on(module)


@case
def a_text_by_the_name_of_a_closure(s: Any) -> Any:
    class Shown:
        def __str__(self) -> str:
            return "a" * int(s.b)

    shown = Shown()
    return lambda x: x * len(f"{shown}"), set_on(s)


def with_attribute(**values: Any) -> Any:
    def fun(x: Any) -> Any:
        return x * fun.rate * fun.W  # type: ignore[attr-defined]

    vars(fun).update(rate=2.0, W=np.ones(3))
    return fun


@case
def an_attribute_of_itself(s: Any) -> Any:
    return (fun := with_attribute()), set_on(fun, "rate")


@case
def an_attribute_of_a_function(s: Any) -> Any:
    fun = with_attribute()
    return lambda x: 1.0 * fun(x), set_on(fun, "rate")


# -- what appears later


def classes() -> Any:
    far = type("Far", (), {"r": 2.0, "m": lambda self, x: x * self.r})
    return far, type("Near", (far,), {})


@case
def a_nearer_class(s: Any) -> Any:
    _, near = classes()
    return lambda x: x * near.r, lambda: setattr(near, "r", 5.0)


@case
def a_nearer_class_of_an_object(s: Any) -> Any:
    _, near = classes()
    one = near()
    return lambda x: 1.0 * one.m(x), lambda: setattr(near, "r", 5.0)


@case
def a_class_that_loses_it(s: Any) -> Any:
    _, near = classes()
    near.r = 3.0
    one = near()
    return lambda x: x * one.r, lambda: delattr(near, "r")


@case
def a_name_that_hides_a_builtin(s: Any) -> Any:
    return lambda x: x * abs(-2.0), lambda: globals().update(abs=lambda _: 7.0)


@case
def a_name_among_builtins(s: Any) -> Any:
    vars(builtins)["SET_BY_TEST"] = 2.0
    return lambda x: x * SET_BY_TEST, lambda: vars(builtins).update(SET_BY_TEST=3.0)  # type: ignore[name-defined]  # noqa: F821




@case
def an_attribute_that_is_missing(s: Any) -> Any:
    def fun(x: Any) -> Any:
        try:
            return x * s.missing
        except AttributeError:
            return x

    return fun, lambda: setattr(s, "missing", 3.0)


@case
def an_attribute_that_is_missing_elsewhere(s: Any) -> Any:
    def rate(one: Any) -> Any:
        with contextlib.suppress(AttributeError):
            return one.lacking
        return 1.0

    return lambda x: x * rate(s), lambda: setattr(s, "lacking", 3.0)


@case
def a_key_that_is_missing(s: Any) -> Any:
    def fun(x: Any) -> Any:
        try:
            return x * s.d["missing"]
        except KeyError:
            return x

    return fun, lambda: s.d.update(missing=3.0)


# -- what is made at the first call


class Single:
    one: Any = None

    @classmethod
    def get(cls) -> Any:
        if cls.one is None:
            cls.one = cls()
            cls.one.rate, cls.one.W = 2.0, np.ones(3)
        return cls.one


@case
def a_singleton(s: Any) -> Any:
    Single.one = None
    return lambda x: x * Single.get().rate, lambda: setattr(Single.one, "rate", 5.0)


@case
def an_array_of_a_singleton(s: Any) -> Any:
    Single.one = None
    return lambda x: x * Single.get().W, lambda: Single.one.W.__imul__(5.0)


@case
def another_singleton(s: Any) -> Any:
    Single.one = None
    return lambda x: x * Single.get().rate, lambda: setattr(Single, "one", argparse.Namespace(rate=7.0))


@case
def an_attribute_that_is_made(s: Any) -> Any:
    s.made = None

    def fun(x: Any) -> Any:
        if s.made is None:
            s.made = 2.0
        return x * s.made

    return fun, set_on(s, "made")


@case
def attributes_that_are_set_on_another_object(s: Any) -> Any:
    def fun(x: Any) -> Any:
        Settings().b = 7.0
        return x * s.b

    return fun, set_on(s)


def cached(value: Any) -> Any:
    return functools.lru_cache(lambda: value)


short("an object in a cache", held(cached, lambda get, x: x * get().b))
short("its array", held(cached, lambda get, x: x * get().W), write)
short("an array in a cache", held(lambda s: cached(s.W), lambda get, x: x * get()), write)
short("a dict in a cache", held(lambda s: cached(s.d), lambda get, x: x * get()["b"]), put)


# -- other functions and classes by the same name


@case
def a_function_of_c(s: Any) -> Any:
    s.function = math.sin
    return lambda x: x * s.function(1.0), lambda: setattr(s, "function", math.cos)


@case
def a_class(s: Any) -> Any:
    s.kind, other = classes()
    other.r = 7.0
    return lambda x: x * s.kind.r, lambda: setattr(s, "kind", other)


@case
def a_dtype(s: Any) -> Any:
    s.kind = np.float32
    return lambda x: (x / 3).astype(s.kind), lambda: setattr(s, "kind", np.float64)


@case
def a_module(s: Any) -> Any:
    other: Any
    s.module, other = types.ModuleType("one"), types.ModuleType("other")
    s.module.rate, other.rate = 2.0, 3.0
    return lambda x: x * s.module.rate, lambda: setattr(s, "module", other)


@case
def its_own_defaults(s: Any) -> Any:
    def fun(x: Any, rate: Any = 2.0, *, more: Any = 3.0) -> Any:
        return x * rate * more

    def change() -> None:
        fun.__defaults__, fun.__kwdefaults__ = (5.0,), {"more": 7.0}

    return fun, change


@pytest.fixture(autouse=True)
def modules(monkeypatch: pytest.MonkeyPatch) -> Any:
    inner: Any
    module, inner = types.ModuleType("made_module"), types.ModuleType("made_module.inner")
    exec("rate = 2.0\ndef scaled(x):\n    return x * rate", vars(module))
    vars(module).update(W=np.ones(3), inner=inner, __path__=[])
    inner.rate = 2.0
    monkeypatch.setitem(sys.modules, "made_module", module)
    monkeypatch.setitem(sys.modules, "made_module.inner", inner)
    yield
    globals().pop("abs", None)
    vars(builtins).pop("SET_BY_TEST", None)


@pytest.mark.parametrize("name", CASES)
def test_calls_see_what_is_there_now(name: str) -> None:
    function, change = CASES[name](Settings())
    compiled = sg.jit(function, options=NONE)
    for _ in range(2):
        np.testing.assert_allclose(compiled(X), function(X), rtol=1e-14)
    first, count = compiled(X), compiled.cache_info().compilations
    change()
    expected = function(X)
    assert first.dtype != expected.dtype or not np.allclose(first, expected)
    for _ in range(2):
        np.testing.assert_allclose(compiled(X), expected, rtol=1e-14)
        assert compiled(X).dtype == expected.dtype
    assert (count, compiled.cache_info().compilations) in {(1, 1), (1, 2)}


def test_what_is_not_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page of tracing says so."""
    far, near = classes()
    other = type("Other", (), {"r": 5.0})
    one = near()
    compiled = sg.jit(lambda x: x * one.r * max(1.0, 2.0), options=NONE)
    compiled(X)
    monkeypatch.setattr(builtins, "max", lambda *_: 7.0)
    near.__bases__ = (other,)
    one.__class__ = far
    np.testing.assert_array_equal(compiled(X), 4 * X)


LATE = """
import numpy as np
rate, W = 2.0, np.ones(3)
"""


@pytest.mark.parametrize("text", ["import {0} as m", "m = __import__('importlib').import_module('{0}')"])
def test_a_module_that_the_first_call_imports(text: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"late_{'as' if ' as ' in text else 'by_name'}"
    (tmp_path / f"{name}.py").write_text(LATE)
    monkeypatch.syspath_prepend(str(tmp_path))
    scope: dict[str, Any] = {"__name__": "made", "__builtins__": builtins}
    exec(f"def fun(x):\n    {text.format(name)}\n    return x * m.W * m.rate", scope)
    compiled = sg.jit(scope["fun"], options=NONE)
    np.testing.assert_array_equal(compiled(X), 2 * X)
    module = sys.modules.pop(name)
    monkeypatch.setitem(sys.modules, name, module)
    for change in (lambda: module.W.__imul__(3.0), lambda: setattr(module, "rate", 5.0)):
        change()
        np.testing.assert_array_equal(compiled(X), module.rate * module.W * X)
    assert compiled.cache_info().compilations == 2  # the array is an argument of C


def test_arrays_that_a_trace_makes_are_numpys() -> None:
    Single.one = None
    sg.jit(lambda x: x * Single.get().W, options=NONE)(X)
    assert type(Single.one.W) is np.ndarray


def test_what_a_function_counts_itself_is_no_reason_to_compile() -> None:
    s: Any = Settings()
    s.calls, s.cache = 0, {}

    def fun(x: Any) -> Any:
        s.calls += 1
        s.cache.setdefault("rate", s.calls)
        return x * s.b

    compiled = sg.jit(fun, options=NONE)
    for _ in range(3):
        compiled(X), fun(X)
    assert compiled.cache_info().compilations == 1


def test_functions_that_frompyfunc_made_are_warned_of() -> None:
    s: Any = Settings()
    function = np.frompyfunc(lambda v: v * s.b, 1, 1)
    with pytest.warns(SymgradWarning, match="has function, which np.frompyfunc made: changes of what its"):
        sg.jit(lambda x: x * float(function(2.0)), options=NONE)(X)


# -- pickles


WEIGHTS = np.ones(3)


def weighted(x: Any) -> Any:
    return np.sum(WEIGHTS * x)


by_name = sg.jit(weighted, options=NONE)


@sg.jit
def decorated_by_name(x: Any) -> Any:
    return weighted(x)


def test_pickles_of_named_functions_send_the_arrays_that_they_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "WEIGHTS", np.array([10.0, 20.0, 30.0]))
    assert by_name(X) == decorated_by_name(X) == 140.0
    sent = pickle.dumps((by_name, decorated_by_name))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(called_there, (sent, X)) == [140.0, 140.0]
    assert by_name(X) == 140.0
    new = sg.jit(weighted, options=NONE)
    with pytest.raises(ArgumentError, match="reads arrays from outside, whose values go along, and was"):
        pickle.dumps(new)
    assert copy.deepcopy(new) is copy.copy(new) is new  # as functions are


def called_there(sent: bytes, x: Any) -> Any:
    return [float(one(x)) for one in pickle.loads(sent)]
