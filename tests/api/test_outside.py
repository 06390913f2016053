"""State as it is now: what a function reads without taking it as an argument, and what a change of it does."""

from __future__ import annotations

import collections.abc
import contextvars
import copy
import functools
import hashlib
import itertools
import math
import operator
import pickle
import threading
import types
import weakref
import zlib
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse
import scipy.special

import symgrad as sg
from symgrad.api.call.captures import Captured
from symgrad.errors import ArgumentValueError, LeakedTracerError, MutationError, SymgradWarning
from tests.programs import leaves, random_program
from tests.table import GENTLY, INTERPRETED

X = np.array([1.0, 2.0, 3.0])
NONE = sg.Options(compiler="none")


class Pair(NamedTuple):
    a: Any
    b: Any

@dataclass
class Layer:
    W: Any
    rate: float = 1.0

    def __call__(self, x: Any) -> Any:
        return self.rate * np.tanh(self.W * x)


class Slotted:
    __slots__ = ("W", "rate")

    def __init__(self) -> None:
        self.W, self.rate = np.arange(1.0, 4.0), 2.0


class Model:
    shared = np.ones(3)

    def __init__(self) -> None:
        self.layers = [Layer(np.arange(1.0, 4.0)), Layer(np.ones(3), 0.5)]
        self._rate, self.calls = 2.0, 0

    @property
    def rate(self) -> float:
        return self._rate

    def loss(self, x: Any) -> Any:
        self.calls += 1
        for layer in self.layers:
            x = layer(x)
        return self.rate * x + self.shared


class Shown:
    def __init__(self) -> None:
        self.rate, self.calls = 2.0, 0

    def __str__(self) -> str:
        return f"{self.rate}"


class State(types.SimpleNamespace):
    """What the functions of the table read; made anew for each of them."""

    W: Any
    M: Any
    n: Any


def made() -> State:
    module = types.ModuleType("made_by_hand")
    vars(module).update(rate=2.0, W=np.arange(1.0, 4.0))
    layer = Layer(np.ones(3))
    context: contextvars.ContextVar[float] = contextvars.ContextVar("rate")
    array: contextvars.ContextVar[Any] = contextvars.ContextVar("array")
    context.set(2.0)
    array.set(np.ones(3))
    return State(
        layer=layer, weak=weakref.ref(layer), proxy=weakref.proxy(layer), shown=Shown(),
        context=context, array=array, rated=type("Rated", (), {"rate": 2.0})(),
        W=np.arange(1.0, 4.0), M=np.arange(1.0, 10.0).reshape(3, 3) / 10, n=np.array([2, 0, 1]),
        mask=np.array([True, False, True]), zero=np.array(2.0), params={"W": np.arange(3.0), "rate": 2.0, "more": 7.0},
        nested=[{"W": np.ones(3)}, (np.arange(3.0), [np.ones(3)])], pair=Pair(np.arange(3.0), np.ones(3)),
        model=Model(), slotted=Slotted(), module=module, rates=[2.0, 3.0],
        strided=np.arange(12.0)[::4], wide=np.asfortranarray(np.arange(30_000.0).reshape(3, -1)), out=[],
        inner=types.SimpleNamespace(inner=types.SimpleNamespace(rate=2.0), rates=2.0), kinds={2.0},
        maps=collections.ChainMap({}, {"a": 2.0}), user=collections.UserDict(W=np.ones(3)),
        buffer=memoryview(bytearray([1, 2])), objects=np.array([2.0, "text"], dtype=object),
        queue=collections.deque([np.ones(3), 2.0, 3.0]), single=np.float32(2.0),
        complex=np.array([3.0 + 4.0j, 1.0, 2.0]), sparse=scipy.sparse.csr_array(np.eye(3)), masked=np.ma.array(X),
    )


class Case(NamedTuple):
    fun: Any
    change: Any
    compilations: int = 1


def helper(s: Any, x: Any) -> Any:
    return s.W * x


def set_to(name: str, value: Any) -> Any:
    return lambda s: setattr(s, name, value)


def negated(name: str = "W") -> Any:
    def change(s: Any) -> None:
        array = getattr(s, name)
        array *= -1

    return change


def in_place(path: Any) -> Any:
    def change(s: Any) -> None:
        path(s)[...] = path(s) * 2 + 1

    return change


def set_on(name: str, **values: Any) -> Any:
    return lambda s: vars(getattr(s, name)).update(values)


W = in_place(lambda s: s.W)
CASES: dict[str, Case] = {
    "used as it is": Case(lambda s, x: s.W * x, W),
    "NumPy on it alone": Case(lambda s, x: np.log(s.W) * x, W),
    "its transpose, a product": Case(lambda s, x: s.M.T @ x + x @ s.M, in_place(lambda s: s.M)),
    "its elements": Case(lambda s, x: s.W[0] * x + s.W[1:].sum(), W),
    "iteration": Case(lambda s, x: sum(w * x for w in s.W), W),
    "methods": Case(lambda s, x: s.W.copy().reshape(3, 1).mean() * x + s.W.dot(x), W),
    "a copy that is written": Case(lambda s, x: _written(s.W.copy(), x), W),
    "np.array, np.asarray": Case(lambda s, x: np.array(s.W) * np.asarray(s.W) + x * np.zeros_like(s.W), W),
    "shape, len, dtype": Case(lambda s, x: x * len(s.W) * s.W.shape[0] * s.W.ndim * (s.W.dtype == float), W),
    "another array of its shape": Case(lambda s, x: s.W * x, set_to("W", np.array([7.0, 8.0, 9.0]))),
    "its shape alone": Case(lambda s, x: s.W.size * x, set_to("W", np.ones(6)), 2),
    "its length alone": Case(lambda s, x: len(s.W) * x, set_to("W", np.ones(6)), 2),
    "the shape of integers": Case(lambda s, x: x[s.n[:1]] * s.n.ndim, set_to("n", np.array([[2, 0, 1]])), 2),
    "another shape": Case(lambda s, x: s.W * x, set_to("W", np.ones((2, 3))), 2),
    "a number in its place": Case(lambda s, x: s.W * x, set_to("W", 3.0), 2),
    "a condition": Case(lambda s, x: x if s.W[0] > 0 else -x, negated()),
    "a number of rounds": Case(lambda s, x: sum((k * x for k in range(s.n[0])), x), set_to("n", np.array([3, 0, 1]))),
    "integer indices": Case(lambda s, x: x[s.n], set_to("n", np.array([1, 1, 0])), 2),
    "a mask": Case(lambda s, x: x[s.mask], set_to("mask", np.array([False, True, True])), 2),
    "an index of a list": Case(lambda s, x: [x, 2 * x, 3 * x][s.n[0]], set_to("n", np.array([1, 0, 2])), 2),
    "float of an element": Case(lambda s, x: x * float(s.W[0]) * math.exp(s.W[1]), W, 2),
    "a shape": Case(lambda s, x: np.reshape(x, s.n[1:2] * 0 + 3), set_to("n", np.array([2, 1, 1])), 2),
    "what has no answer": Case(lambda s, x: x * np.unique(s.W)[::-1], set_to("W", X**3), 2),
    "a library's C": Case(lambda s, x: x * sum(s.W.tolist()) * len(s.W.tobytes()), W, 2),
    "no axes": Case(lambda s, x: s.zero * x, in_place(lambda s: s.zero)),
    "strided": Case(lambda s, x: s.strided * x, in_place(lambda s: s.strided)),
    "by columns": Case(lambda s, x: s.wide.sum(axis=1) * x, in_place(lambda s: s.wide)),
    "in a dict": Case(lambda s, x: s.params["W"] * x, in_place(lambda s: s.params["W"])),
    "set in a dict": Case(lambda s, x: s.params["W"] * x, lambda s: s.params.update(W=np.ones(3))),
    "deep in containers": Case(
        lambda s, x: s.nested[0]["W"] * x + s.nested[1][1][0], lambda s: s.nested[1][1].__setitem__(0, np.arange(3.0)),
    ),
    "in a tuple": Case(lambda s, x: s.pair.a * x + sum(s.pair), in_place(lambda s: s.pair.a)),
    "another list of the same": Case(
        lambda s, x: sum(w * x for w in s.nested[1][1]), lambda s: setattr(s, "nested", [*s.nested[:1], (X, [2 * X])]),
    ),
    "a longer list": Case(lambda s, x: sum(w * x for w in s.nested[1][1]), lambda s: s.nested[1][1].append(X), 2),
    "a dataclass": Case(lambda s, x: s.layer(x), in_place(lambda s: s.layer.W)),
    "a method of objects in a list": Case(lambda s, x: s.model.loss(x), in_place(lambda s: s.model.layers[1].W)),
    "a class": Case(lambda s, x: s.model.loss(x), in_place(lambda _: Model.shared)),
    "an object's own before its class's": Case(
        lambda s, x: s.model.loss(x), lambda s: setattr(s.model, "shared", X), 2,
    ),
    "slots": Case(lambda s, x: s.slotted.W * x, in_place(lambda s: s.slotted.W)),
    "getattr": Case(lambda s, x: getattr(s, "W" + "") * x, W),
    "in a function that it calls": Case(helper, W),
    "a number by its name": Case(
        lambda s, x: getattr(s.inner, "gain", 1.0) * x, lambda s: setattr(s.inner, "gain", 5.0), 2,
    ),
    "a number by a getter": Case(
        lambda s, x: operator.attrgetter("inner.rate")(s.inner) * x, lambda s: setattr(s.inner.inner, "rate", 5.0), 2,
    ),
    "a number by vars": Case(lambda s, x: vars(s.inner)["rates"] * x, lambda s: setattr(s.inner, "rates", 5.0), 2),
    "a number in a deque": Case(lambda s, x: s.queue[1] * x, lambda s: s.queue.append(7.0) or s.queue.popleft(), 2),
    "an array in a deque": Case(lambda s, x: s.queue[0] * x, lambda s: s.queue[0].__imul__(3.0)),
    "a mapping of a library": Case(lambda s, x: s.maps["a"] * x, lambda s: s.maps.maps[1].update(a=3.0), 2),
    "an array in one": Case(lambda s, x: s.user["W"] * x, lambda s: s.user["W"].__imul__(3.0)),
    "a buffer": Case(lambda s, x: s.buffer[1] * x, lambda s: s.buffer.__setitem__(1, 7), 2),
    "an array of objects": Case(lambda s, x: s.objects[0] * x, lambda s: s.objects.__setitem__(0, 7.0), 2),
    "a set": Case(lambda s, x: max(s.kinds) * x, lambda s: s.kinds.add(7.0), 2),
    "a number in a dict": Case(lambda s, x: s.params["rate"] * x, lambda s: s.params.update(rate=5.0), 2),
    "a dict passed on": Case(lambda s, x: x * _of(s.params), lambda s: s.params.update(rate=5.0), 2),
    "a number in a list": Case(lambda s, x: s.rates[1] * x, lambda s: s.rates.__setitem__(1, 5.0), 2),
    "another number than the one read": Case(lambda s, x: s.rates[1] * x, lambda s: s.rates.__setitem__(0, 5.0)),
    "keys in another order": Case(
        lambda s, x: s.params["rate"] * x + s.params["more"],
        lambda s: (s.params.clear(), s.params.update(more=2.0, rate=7.0)), 2,
    ),
    "a tuple for a list": Case(lambda s, x: (s.rates + s.rates)[3] * x, lambda s: setattr(s, "rates", (4.0, 5.0)), 2),
    "the same number again": Case(lambda s, x: s.rates[1] * x, lambda s: s.rates.__setitem__(1, float("3"))),
    "an attribute of attributes": Case(
        lambda s, x: _rate(s.inner.inner) * x, lambda s: setattr(s.inner.inner, "rate", 5.0), 2,
    ),
    "an attribute of an element": Case(
        lambda s, x: s.model.layers[0].rate * x, lambda s: setattr(s.model.layers[0], "rate", 5.0), 2,
    ),
    "a property": Case(lambda s, x: s.model.rate * x, lambda s: setattr(s.model, "_rate", 5.0), 2),
    "by getattr": Case(lambda s, x: getattr(s.model, "rate") * x, lambda s: setattr(s.model, "_rate", 5.0), 2),  # noqa: B009
    "by attrgetter": Case(
        lambda s, x: operator.attrgetter("inner.inner.rate")(s) * x, lambda s: setattr(s.inner.inner, "rate", 5.0), 2,
    ),
    "a computed name": Case(
        lambda s, x: sum(getattr(s.layer, f"{name}te") * x for name in ["ra"]), set_on("layer", rate=5.0), 2,
    ),
    "in a slot": Case(lambda s, x: getattr(s.slotted, RATE) * x, lambda s: setattr(s.slotted, "rate", 5.0), 2),
    "of a class": Case(lambda s, x: getattr(s.rated, RATE) * x, lambda s: setattr(s.rated, "rate", 5.0), 2),
    "with a value instead": Case(lambda s, x: getattr(s.layer, "gain".upper(), 1.0) * x, set_on("layer", GAIN=2.0), 2),
    "a computed getter": Case(lambda s, x: operator.attrgetter(RATE)(s.layer) * x, set_on("layer", rate=5.0), 2),
    "a computed key": Case(lambda s, x: vars(s.layer)[RATE] * x, set_on("layer", rate=5.0), 2),
    "asdict": Case(lambda s, x: asdict(s.layer)["rate"] * x, set_on("layer", rate=5.0), 2),
    "replace": Case(lambda s, x: replace(s.layer, W=1.0).rate * x, set_on("layer", rate=5.0), 2),
    "copy": Case(lambda s, x: copy.copy(s.layer).rate * x, set_on("layer", rate=5.0), 2),
    "repr": Case(lambda s, x: x * len(repr(s.inner)), lambda s: setattr(s.inner, "rates", 5.25), 2),
    "a text": Case(lambda s, x: x * float(f"{s.shown}"), set_on("shown", rate=5.0), 2),
    "a text with a format": Case(lambda s, x: x * float(f"{s.shown!s:.{s.n.size}}"), set_on("shown", rate=5.0), 2),
    "a text by str": Case(lambda s, x: x * float(str(s.shown)), set_on("shown", rate=5.0), 2),
    "a text by format": Case(lambda s, x: x * float("{}".format(s.shown)), set_on("shown", rate=5.0), 2),  # noqa: UP032
    "a text by %": Case(lambda s, x: x * float("%s" % s.shown), set_on("shown", rate=5.0), 2),  # noqa: UP031
    "a text of a dataclass": Case(lambda s, x: x * len(f"{s.layer}"), set_on("layer", rate=5.25), 2),
    "a text of a namespace": Case(lambda s, x: x * len(str(s.inner)), lambda s: setattr(s.inner, "rates", 5.25), 2),
    "what is not in the text": Case(lambda s, x: x * float(f"{s.shown}"), set_on("shown", calls=5)),
    "what is not made a text": Case(lambda s, x: s.layer.W * x * len(f"{s.shown}"), set_on("layer", calls=5)),
    "a weak proxy": Case(lambda s, x: s.proxy.rate * s.proxy.W * x, lambda s: setattr(s.layer, "rate", 5.0), 2),
    "an array behind a proxy": Case(lambda s, x: s.proxy.W * x, in_place(lambda s: s.layer.W)),
    "a name in the code, beside another": Case(lambda s, x: getattr(s.layer, "rate", 0) * x, set_on("layer", calls=5)),
    "a context variable": Case(lambda s, x: s.context.get() * x, lambda s: s.context.set(5.0), 2),
    "an array in a context variable": Case(lambda s, x: s.array.get() * x, in_place(lambda s: s.array.get()), 2),
    "a weak reference": Case(lambda s, x: s.weak().rate * s.weak().W * x, lambda s: setattr(s.layer, "rate", 5.0), 2),
    "an array behind it": Case(lambda s, x: s.weak().W * x, in_place(lambda s: s.layer.W)),
    "by methodcaller": Case(
        lambda s, x: operator.methodcaller("loss", x)(s.model), in_place(lambda s: s.model.layers[1].W),
    ),
    "a number in a slot": Case(lambda s, x: s.slotted.rate * x, lambda s: setattr(s.slotted, "rate", 5.0), 2),
    "a NumPy number": Case(lambda s, x: s.single * x, set_to("single", np.float32(3.0)), 2),
    "a complex array": Case(lambda s, x: np.abs(s.complex) * x, in_place(lambda s: s.complex), 2),
    "a sparse matrix": Case(lambda s, x: s.sparse.toarray() @ x, lambda s: s.sparse.data.__imul__(3.0), 2),
    "a masked array": Case(lambda s, x: s.masked.sum() * x, lambda s: s.masked.__setitem__(0, np.ma.masked), 2),
    "a module without a file": Case(lambda s, x: s.module.rate * x, lambda s: setattr(s.module, "rate", 5.0), 2),
    "an array in it": Case(lambda s, x: s.module.W * x, in_place(lambda s: s.module.W)),
    "what it changes itself, alone": Case(lambda s, x: (s.out.append(1), x)[1], lambda s: s.out.append(1)),
    "what it changes itself": Case(lambda s, x: (s.out.append(1), s.W * x)[1], W),
}


UNNOTICED: dict[str, Any] = {
    "a computed name of a module": lambda s: sg.jit(lambda x: x * getattr(s.module, RATE), options=NONE),
    "a name in a text": lambda s: sg.jit(lambda x: x * eval("s.module.rate", {"s": s}), options=NONE),  # noqa: S307
    "an iterator": lambda s: sg.jit(lambda x: x * next(s.steps), options=NONE),
}
RATE = "rate"


@pytest.mark.parametrize("case", UNNOTICED)
def test_what_is_not_noticed(case: str) -> None:
    """The page of tracing says so."""
    s = made()
    s.steps = itertools.count(2.0)
    f = UNNOTICED[case](s)
    said = {"text": r"eval\(\) or exec\(\)", "iterator": "takes from the iterator 's.steps' once"}
    match = said.get(case.rsplit(maxsplit=1)[-1])
    with nullcontext() if match is None else pytest.warns(SymgradWarning, match=match):
        f(X)
    for _ in range(2):
        np.testing.assert_array_equal(f(X), 2 * X)
        s.module.rate = 3.0


def _written(a: Any, x: Any) -> Any:
    a[0] = x[1]
    return a


def _of(settings: Any) -> Any:
    return settings["rate"]


def _rate(thing: Any) -> Any:
    return thing.rate


@pytest.mark.parametrize("case", CASES)
def test_state_is_as_it_is_now(case: str) -> None:
    state, (fun, change, compilations) = made(), CASES[case]

    def read(x: Any) -> Any:
        return fun(state, x)

    compiled = sg.jit(read, options=NONE)
    for _ in range(2):
        np.testing.assert_allclose(compiled(X), read(X), rtol=1e-13)
    before = compiled.cache_info().compilations
    change(state)
    for _ in range(3):
        np.testing.assert_allclose(compiled(X), read(X), rtol=1e-13)
    paths = compiled.cache_info()
    assert (before, paths.compilations) == (1, compilations + (case in {"a condition", "a number of rounds"}))
    assert type(state.W) in {np.ndarray, float}
    assert [type(each) for each in state.pair] == [np.ndarray] * 2


# -- the ways to hand a function over


class Called:
    def __init__(self) -> None:
        self.W, self.rates, self.softmax = np.arange(1.0, 4.0), [2.0], {"of": scipy.special.softmax}

    def loss(self, x: Any) -> Any:
        return np.sum(self.softmax["of"](self.W) * x**2) * self.rates[0]

    __call__ = loss

    def of(self, rates: Any, x: Any) -> Any:
        return np.sum(self.W * scipy.special.softmax(x)) * rates[0]


def _wrapped(fun: Any) -> Any:
    @functools.wraps(fun)
    def wrapper(*args: Any) -> Any:
        return fun(*args)

    return wrapper


HANDED: dict[str, Any] = {
    "a method": lambda one: one.loss, "an object": lambda one: one,
    "a partial": lambda one: functools.partial(one.of, one.rates),
    "a partial of a function": lambda one: functools.partial(Called.of, one, one.rates),
    "a lambda": lambda one: lambda x: one(x) + 0, "wrapped": _wrapped,
    "wrapped twice": lambda one: _wrapped(_wrapped(one.loss)), "in a list": lambda one: lambda x: [one.loss][0](x) + 0,
    "one of many": lambda one: lambda x, made={"of": one}: made["of"](x),
}
HANDS: dict[str, Any] = {
    "jit": sg.jit, "grad": sg.grad, "hessian": sg.hessian, "jacfwd": sg.jacfwd,
    "jvp": lambda fun, **_: lambda x: sg.jvp(fun, (x,), (x,))[1],
    "vjp": lambda fun, **_: lambda x: sg.vjp(fun, x)[1](1.0),
    "grad of grad": lambda fun, **settings: sg.grad(lambda x: np.sum(sg.grad(fun)(x) ** 2), **settings),
}


@pytest.mark.parametrize("mode", HANDS)
@pytest.mark.parametrize("handed", HANDED)
def test_state_behind_what_is_handed_over(handed: str, mode: str) -> None:
    one = Called()
    fun = HANDED[handed](one)
    f = HANDS[mode](fun, options=NONE)
    for change in (lambda: None, lambda: one.W.__imul__(3.0), lambda: one.rates.__setitem__(0, 7.0)):
        change()
        expected = HANDS[mode](HANDED[handed](one), options=NONE)(X)
        np.testing.assert_allclose(np.ravel(f(X)), np.ravel(expected), rtol=1e-13)
    assert one.softmax["of"] is scipy.special.softmax


# -- the other ways to call what was compiled


G = np.array([1.0, 2.0, 3.0])
N = np.array([1, 2])


def weighted(x: Any) -> Any:
    return np.sum(np.log(G) * x) if N[0] > 0 else np.sum(x)


@pytest.fixture(scope="module")
def compiled() -> Any:
    f = sg.value_and_grad(weighted, options=GENTLY)
    f(X)
    return f


@pytest.fixture(autouse=True)
def as_before() -> Any:
    yield
    G[:], N[:] = [1.0, 2.0, 3.0], [1, 2]


def test_in_c_nothing_is_copied_or_compiled_again(compiled: Any) -> None:
    for k in range(4):
        G[:] = X + k
        value, gradient = compiled(X)
        np.testing.assert_allclose(value, weighted(X), rtol=1e-14)
        np.testing.assert_allclose(gradient, np.log(G), rtol=1e-14)
    assert compiled.cache_info().compilations == 1
    assert "const double *restrict G" in compiled.c_source
    big = np.ones(100_000)
    f = sg.jit(lambda x: x * np.log(big), options=GENTLY)
    f(big)
    assert len(f.c_source) < 2_000


def test_bound(compiled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run = compiled.bind(X)
    assert run()[0] == weighted(X)
    G[:] = 5.0
    assert run()[0] == weighted(X)
    monkeypatch.setitem(globals(), "G", np.array([2.0, 3.0, 4.0]))
    np.testing.assert_allclose(run()[0], weighted(X), rtol=1e-14)
    monkeypatch.setitem(globals(), "G", np.arange(1.0, 7.0)[::2])  # which C reads a copy of
    for _ in range(2):
        G[...] = 3 * G
        np.testing.assert_allclose(run()[0], weighted(X), rtol=1e-14)
    monkeypatch.undo()
    with pytest.raises(ArgumentValueError, match="out shares memory with G, an array from outside"):
        compiled.bind(X, out=(np.empty(()), G))


CHANGED: dict[str, tuple[str, str]] = {  # what a function reads, and how it changes after it was bound
    "a mask": ("x[held.mask] * 2.0", "held.mask[:] = [True, False, True]"),
    "a mask of another count": ("np.sum(x[held.mask])", "held.mask[:] = True"),
    "indices": ("x[held.index]", "held.index[0] = 2"),
    "a number of an array": ("x * float(held.values[0])", "held.values[0] = 5.0"),
    "an array in place": ("x * np.log(held.values)", "held.values *= 3.0"),
    "an array of the same kind": ("x * held.values", "held.values = np.array([7.0, 8.0, 9.0])"),
    "an array of another dtype": ("x * held.values", "held.values = np.array([7, 8, 9])"),
    "a shape in place": ("x[:1] * np.sum(held.grid @ np.ones(held.grid.shape[1]) * len(held.grid))",
                         "held.grid.shape = (3, 2)"),
    "an array of another shape": ("np.sum(x[:, None] * held.values)", "held.values = np.ones((2, 3)).T[:, :1]"),
    "complex numbers": ("np.real(held.waves) * x", "held.waves[1] = 4.0"),
    "a number": ("x * held.rate", "held.rate = 4.0"),
    "a function": ("held.act(x)", "held.act = np.cos"),
    "its dict": ("x * held.params['w']", "held.params = {'w': np.array([3.0, 2.0, 1.0])}"),
    "its dict by an equal one": ("x * held.params['w'] * held.rate", "held.params = {'w': held.params['w'] + 1.0}"),
    "what it holds": ("x * held.params['w']", "held.params['w'] = np.array([3.0, 2.0, 1.0])"),
    "its object": ("x * held.net.w", "held.net = types.SimpleNamespace(w=np.ones(3))"),
    "a longer list": ("x * sum(held.layers)", "held.layers.append(np.ones(3))"),
    "a condition": ("np.sin(x) if held.values[0] > 1.5 else np.cos(x) * held.values", "held.values[0] = 9.0"),
    "a condition beside a dict": (
        "np.sin(x) if x[0] > held.values[0] else x * held.params['w']", "held.params = {'w': np.ones(3)}"),
}


@pytest.mark.parametrize("options", [None, INTERPRETED], ids=["compiled", "interpreted"])
@pytest.mark.parametrize("name", CHANGED)
def test_bound_calls_notice_what_calls_notice(name: str, options: Any) -> None:
    held = types.SimpleNamespace(
        mask=np.array([True, False, False]), index=np.array([1, 0]), values=np.array([1.0, 2.0, 3.0]), rate=2.0,
        waves=np.array([1 + 2j, 3j, 2.0]), act=np.sin, params={"w": np.array([1.0, 2.0, 3.0])},
        net=types.SimpleNamespace(w=np.array([1.0, 2.0, 3.0])), layers=[np.array([1.0, 2.0, 3.0])],
        grid=np.arange(6.0).reshape(2, 3),
    )
    text, change = CHANGED[name]
    function = eval(f"lambda x: {text}", globals() | {"held": held})  # noqa: S307 - text of the table
    x = np.array([0.5, -1.0, 2.0])
    run = sg.jit(function, options=options).bind(x)
    for _ in range(2):
        np.testing.assert_allclose(run(), function(x), rtol=1e-14)
    exec(change, globals() | {"held": held})
    for _ in range(2):
        np.testing.assert_allclose(run(), function(x), rtol=1e-14)
        x += 0.125


def test_bound_results_of_another_shape() -> None:
    mask, x = np.array([True, False, True]), np.arange(3.0)
    compiled = sg.jit(lambda x: x[mask])
    run, first = compiled.bind(x), np.empty(2)
    into = compiled.bind(x, out=first)
    assert into() is first
    found = run()
    assert run() is found
    mask[1] = True
    np.testing.assert_array_equal(run(), x)
    assert run() is run()
    with pytest.raises(ArgumentValueError, match=r"out has shape \(2,\), where the result has \(3,\)"):
        into()


def test_addresses_and_callbacks_have_the_values_of_the_moment(compiled: Any) -> None:
    from scipy.integrate import quad

    assert "restrict G" not in compiled.prototype
    assert compiled.address != compiled.bind  # it is there
    f = sg.jit(lambda x: np.sum(G) * x, options=GENTLY)
    f(1.0)
    called = f.low_level_callable()
    G[:] = 0.0
    np.testing.assert_allclose(quad(called, 0.0, 1.0)[0], 3.0)
    assert f(1.0) == 0.0


def test_pickles_send_values() -> None:
    w = np.arange(1.0, 4.0)
    f = sg.jit(lambda x: np.sum(np.exp(w) * x), options=NONE)
    expected = f(X)
    back = pickle.loads(pickle.dumps(f))
    w[:] = 0.0
    assert back(X) == expected
    assert f(X) == 6.0


def test_modes_and_loops_read_it() -> None:
    def step(c: Any, x: Any) -> Any:
        return c * np.tanh(G) + x, c

    def fun(x: Any) -> Any:
        return sg.scan(step, x, np.ones((5, 3)))[0] + sg.vmap(lambda row: row @ G)(np.ones((2, 3)) * x).sum()

    total = lambda x: np.sum(fun(x))  # noqa: E731 - one of a pair
    made = [sg.jit(fun, options=NONE), sg.grad(total, options=NONE), sg.hessian(total, options=NONE)]
    for _ in range(2):
        expected = [sg.jit(fun, options=NONE), sg.grad(total, options=NONE), sg.hessian(total, options=NONE)]
        for one, other in zip(made, expected, strict=True):
            np.testing.assert_allclose(one(X), other(X), rtol=1e-14)
        G[:] = [0.5, 0.1, -1.0]
    assert [one.cache_info().compilations for one in made] == [1, 1, 1]


def test_gradients_by_it() -> None:
    f = sg.jit(lambda x: sg.gradients(np.sum(np.sin(G) * x), G), options=NONE)
    for _ in range(2):
        np.testing.assert_allclose(f(X), np.cos(G) * X, rtol=1e-14)
        G[:] = 0.5


def test_functions_that_are_called_while_another_one_is_traced() -> None:
    inner = sg.jit(lambda x: np.log(G) * x, options=NONE)
    outer = sg.jit(lambda x: inner(x) + inner(2 * x), options=NONE)
    for _ in range(2):
        np.testing.assert_allclose(outer(X), 3 * np.log(G) * X, rtol=1e-14)
        np.testing.assert_allclose(inner(X), np.log(G) * X, rtol=1e-14)
        G[:] = 7.0
    assert (outer.cache_info().compilations, inner.cache_info().compilations) == (1, 1)


@sg.custom_vjp
def clipped(x: Any) -> Any:
    return x * G


clipped.defvjp(lambda x: (x * G, None), lambda _, g: (g * G,))


def test_rules_of_the_users() -> None:
    f = sg.grad(lambda x: np.sum(clipped(x)), options=NONE)
    for _ in range(2):
        np.testing.assert_array_equal(f(X), G)
        G[:] = 7.0


def test_other_threads_see_the_array_itself() -> None:
    inside, done, seen = threading.Event(), threading.Event(), []

    def other() -> None:
        inside.wait(30)
        w = globals()["G"]
        w += 1
        seen.append((np.log(w), w[1], w @ w, w.sum(), np.array(w), isinstance(w, np.ndarray), len(w), weighted(X)))
        done.set()

    def fun(x: Any) -> Any:
        y = np.log(G) * x
        inside.set()
        done.wait(30)
        return y

    thread = threading.Thread(target=other)
    thread.start()
    f = sg.jit(fun, options=NONE)
    np.testing.assert_allclose(f(X), np.log(G) * X, rtol=1e-14)
    thread.join()
    w = np.array([2.0, 3.0, 4.0])
    for one, expected in zip(seen[0], (np.log(w), 3.0, w @ w, 9.0, w, True, 3, weighted(X)), strict=True):
        np.testing.assert_array_equal(one, expected)
    assert type(G) is np.ndarray
    assert G.tolist() == [2.0, 3.0, 4.0]


WRITES: dict[str, Any] = {
    "an element": lambda: G.__setitem__(0, 5.0), "all": lambda: G.fill(0.0), "a function": lambda: np.copyto(G, X),
    "out=": lambda: np.multiply(G, 2, out=G), "a view": lambda: G[1:].__setitem__(0, 1.0),
    "+=": lambda: functools.reduce(operator.iadd, [G, 1.0]),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_write_is_refused_and_not_done(write: str) -> None:
    def fun(x: Any) -> Any:
        WRITES[write]()
        return x * G

    with pytest.raises(MutationError, match=r"G, float64\[3\], is written while (.|\n)*np.copy\(G\)"):
        sg.jit(fun, options=NONE)(X)
    assert G.tolist() == [1.0, 2.0, 3.0]


def test_names_are_as_they_were_after_an_error() -> None:
    def fun(x: Any) -> Any:
        raise ZeroDivisionError

    f = sg.jit(lambda x: fun(x * G), options=NONE)
    with pytest.raises(ZeroDivisionError):
        f(X)
    assert type(G) is np.ndarray


def test_much_that_is_plain_is_warned_of_once() -> None:
    many = [1.0] * 5000
    f = sg.jit(lambda x: x * sum(many), options=NONE)
    with pytest.warns(SymgradWarning, match=r"reads many, of 5000 elements: changes in it are not noticed"):
        f(X)
    many[0] = 2.0
    assert f(X)[0] == 5000.0


def test_a_tuple_of_numbers_is_one_thing_to_look_at() -> None:
    many, nested = tuple([1.0] * 5000), ((1, 2.0), ("a", (np.float32(3.0), None)))
    f = sg.jit(lambda x: x * sum(many) + nested[1][1][0] * nested[0][1], options=NONE)
    assert f(X)[0] == 5006.0
    many, nested = (*many, 1.0), ((1, 4.0), nested[1])
    assert f(X)[0] == 5013.0
    many = tuple([1.0] * 5001)
    assert (f(X)[0], f.cache_info().compilations) == (5013.0, 2), "another tuple that says the same"
    seen = Captured(lambda: (many, nested))
    seen.identity()
    assert [len(seen.state.items), len(seen.state.lengths)] == [2, 0]


def test_partial_arguments() -> None:
    w, more = np.ones(3), {"k": [np.ones(3)]}
    f = sg.jit(functools.partial(lambda w, x, more: w * x + more["k"][0], w, more=more), options=NONE)
    for k in range(3):
        np.testing.assert_array_equal(f(X), w * X + more["k"][0])
        w[:], more["k"][0] = k, np.full(3, k + 2.0)
    assert f.cache_info().compilations == 1


def test_defaults() -> None:
    def defaulted(x: Any, w: Any = np.ones(3), settings: Any = {"rate": 2.0}, *, more: Any = [3.0]) -> Any:  # noqa: B006, B008
        return w * x * settings["rate"] * more[0]

    fun: Any = defaulted
    f = sg.jit(lambda x: 1.0 * fun(x), options=NONE)
    np.testing.assert_array_equal(f(X), 6 * X)
    (w, settings), keywords = fun.__defaults__, fun.__kwdefaults__
    w[:] = 2.0
    np.testing.assert_array_equal(f(X), 12 * X)
    assert f.cache_info().compilations == 1
    settings["rate"], keywords["more"][0] = 1.0, 1.0
    np.testing.assert_array_equal(f(X), 2 * X)


class Own(np.ndarray):
    def __array_ufunc__(self, ufunc: Any, method: Any, *inputs: Any, **kwargs: Any) -> Any:
        return ufunc(*map(np.asarray, inputs))


KINDS: dict[str, Any] = {
    "masked": np.ma.array(X, mask=[True, False, False]), "Own": X.view(Own),
    "dia_array": scipy.sparse.dia_array(np.eye(3)),
}


@pytest.mark.parametrize("name", KINDS)
def test_other_kinds_of_arrays_are_refused_by_name(name: str) -> None:
    value = KINDS[name]
    with pytest.raises(sg.SymgradError, match=name):
        sg.jit(lambda x: x @ value, options=NONE)(X)


@pytest.mark.parametrize("seed", [*range(8), *[pytest.param(k, marks=pytest.mark.nightly) for k in range(8, 150)]])
def test_random_programs_read_what_they_do_not_take(seed: int) -> None:
    """Arguments that a closure holds are what they would be as arguments, before and after they are written."""
    written = random_program(seed)
    program, _ = written.functions()
    held = [*written.args[1:]]
    outside, inside = sg.jit(lambda x: program(x, *held), options=NONE), sg.jit(program, options=NONE)
    for _ in range(2):
        found, expected = outside(written.args[0]), inside(written.args[0], *held)
        for one, other in zip(leaves(found), leaves(expected), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)
        before = outside.cache_info().compilations
        for array in leaves(held):
            array[...] = array[::-1] if array.ndim else array
    assert before == 1


def test_packages_have_arrays_as_named_constants_or_as_parameters(tmp_path: Any) -> None:
    texts = {}
    for captured in ("constants", "parameters"):
        by = ("x", "G") if captured == "parameters" else "x"
        sg.emit(lambda x: np.sum(np.tanh(G * x)), {"x": "f64[3]"}, tmp_path / captured, wrt=by, captured=captured)
        texts[captured] = (tmp_path / captured / f"{captured}.c").read_text()
    assert "_G[3] = { 1.0, 2.0, 3.0 };" in texts["constants"]
    assert "const double *SG_RESTRICT G,\n" in texts["parameters"]
    assert "G_bar" in texts["parameters"]
    assert G.tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(ArgumentValueError, match='instead: "constants" or "parameters"'):
        sg.emit(np.sum, "f64[3]", tmp_path / "none", captured="weights")


def test_deep_and_circular_containers() -> None:
    chain: Any = ()
    for _ in range(5000):
        chain = (1.0, chain)
    round_: list[Any] = [2.0]
    round_.append(round_)
    with pytest.warns(SymgradWarning, match="reads chain"):
        found = sg.jit(lambda x: x * len(chain) * round_[1][0] + G, options=NONE)(X)
    np.testing.assert_array_equal(found, 4 * X + G)


def test_modules_are_asked_for_nothing_that_no_code_names() -> None:
    lazy = types.ModuleType("lazy")
    asked: list[str] = []
    vars(lazy).update(__getattr__=asked.append, rate=2.0)
    np.testing.assert_array_equal(sg.jit(lambda x: x * lazy.rate, options=NONE)(X), 2 * X)
    assert not {"__self__", "__func__", "func", "__wrapped__"} & {*asked}


class Doubled(Model):
    @property
    def rate(self) -> float:
        return 2 * super().rate

    def loss(self, x: Any) -> Any:
        return 2 * super().loss(x)


def test_methods_of_the_classes_above() -> None:
    model = Doubled()
    f = sg.jit(model.loss, options=NONE)

    def rebound() -> None:
        model.layers[0].W, model.layers[1].rate = 3 * X, 0.25

    for change in (lambda: None, rebound, lambda: setattr(model, "_rate", 5.0), lambda: setattr(model, "shared", X)):
        change()
        for _ in range(2):
            np.testing.assert_allclose(f(X), model.loss(X), rtol=1e-14)


class Scale:
    """What a method, a property and a call read of a global and of the class, in an object that is an argument."""

    shared = 2.0

    def __init__(self, act: Any = None) -> None:
        self.w, self.act, self.acts = np.array([1.0, 2.0, 3.0]), act, [act]

    def scaled(self, x: Any) -> Any:
        return self.w * x * G * Scale.shared

    @property
    def doubled(self) -> Any:
        return RATES["rate"] * self.w

    def __call__(self, x: Any) -> Any:
        return RATES["rate"] * self.w * x


@dataclass
class Scaled:
    w: Any

    def scaled(self, x: Any) -> Any:
        return self.w * x * G * RATES["rate"]


class Rated:
    def __call__(self, x: Any) -> Any:
        return RATES["rate"] * x * G


RATES = {"rate": 2.0}


def rated(x: Any) -> Any:
    return RATES["rate"] * x * G


WITH_ARGUMENTS: dict[str, Any] = {
    "a method of an object": (lambda m, x: m.scaled(x), Scale()),
    "its property": (lambda m, x: m.doubled * x, Scale()),
    "its call": (lambda m, x: m(x), Scale()),
    "a function that it holds": (lambda m, x: m.act(x), Scale(rated)),
    "functions in a list of its": (lambda m, x: m.acts[0](x), Scale(rated)),
    "a method of a dataclass": (lambda m, x: m.scaled(x), Scaled(np.ones(3))),
    "an object in a dict": (lambda m, x: m["a"].scaled(x), {"a": Scaled(np.ones(3))}),
    "a function": (lambda m, x: m(x), rated),
    "a method": (lambda m, x: m(x), Scale().scaled),
    "a compiled function": (lambda m, x: m(x), sg.jit(rated, options=NONE)),
    "a partial function": (lambda m, x: m(x=x), functools.partial(rated)),
    "functions in a tuple": (lambda m, x: m[1][0](x), (1.0, (rated, "relu"))),
}


@pytest.mark.parametrize(("case", "static"), [
    *[(name, False) for name in [*WITH_ARGUMENTS, "what is called is an object"]],
    *[(name, True) for name, (_, given) in WITH_ARGUMENTS.items() if not isinstance(given, (dict, Scaled))],  # no hash
])
def test_what_comes_with_arguments_reads_what_is_there_now(case: str, static: bool, monkeypatch: Any) -> None:
    plain, *given = WITH_ARGUMENTS.get(case, (Rated(),))
    f = sg.jit(plain, options=NONE, static_argnums=(0,) if static else ())

    def write() -> None:
        monkeypatch.setitem(globals(), "G", 3 * X)

    def rate(to: float) -> Any:
        return lambda: monkeypatch.setitem(RATES, "rate", to)

    for change in (lambda: None, rate(5.0), write, rate(7.0), lambda: monkeypatch.setattr(Scale, "shared", 3.0)):
        change()
        for _ in range(2):
            np.testing.assert_allclose(f(*given, X), plain(*given, X), rtol=1e-14)


def test_texts_of_it_have_its_values() -> None:
    f = sg.jit(lambda x: x * len(str(G)) * len(repr(G)) * len(f"{G}") * bytes(G)[-1], options=NONE)
    for _ in range(2):
        np.testing.assert_array_equal(f(X), X * len(str(G)) * len(repr(G)) * len(f"{G}") * bytes(G)[-1])
        G[:] = 0.125


class Wrapped:
    """An array of a class of its own, as tables and tensors of other libraries are."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array


MEMORY: Any = np.array([1.0, 2.0, 3.0])
WRAPPED = Wrapped(np.array([2.0, 3.0, 4.0]))
READ_AS_MEMORY: dict[str, Any] = {
    "memoryview": lambda x: x * memoryview(MEMORY)[1],
    "hashlib": lambda x: x * hashlib.sha256(MEMORY).digest()[0],
    "crc32": lambda x: x * zlib.crc32(MEMORY),
    "frombuffer": lambda x: x * np.frombuffer(MEMORY),
    "bytearray": lambda x: x * bytearray(MEMORY)[-1],
    "__array__": lambda x: x * WRAPPED + np.sum(np.sqrt(WRAPPED)),
}


@pytest.mark.parametrize("name", READ_AS_MEMORY)
def test_what_reads_memory_gets_the_array(name: str) -> None:
    function = READ_AS_MEMORY[name]
    f = sg.jit(function, options=NONE)
    for array in (MEMORY, WRAPPED.array):
        np.testing.assert_array_equal(f(X), function(X))
        array[1] += 1.0
        np.testing.assert_array_equal(f(X), function(X))


def test_arrays_whose_memory_is_read_cannot_be_written() -> None:
    def scaled(x: Any) -> Any:
        digest = hashlib.sha256(MEMORY).digest()
        MEMORY[0] = 7.0
        return x * digest[0]

    before = MEMORY.copy()
    with pytest.raises(MutationError, match=r"is written[\s\S]*np\.copy"):
        sg.jit(scaled, options=NONE)(X)
    np.testing.assert_array_equal(MEMORY, before)
    MEMORY[0] = before[0]


# -- caches


@functools.lru_cache
def logarithms(n: int) -> Any:
    return n * np.log(G)


class Kernel:
    def __init__(self, widths: Any) -> None:
        self.widths = widths

    @functools.cached_property
    def norm(self) -> Any:
        return np.sqrt(np.sum(self.widths**2))

    @functools.lru_cache  # noqa: B019 - what people write
    def scaled(self, n: int) -> Any:
        return self.widths * n


KERNEL = Kernel(np.array([3.0, 4.0, 12.0]))
MEMO: dict[str, Any] = {}


def test_caches_keep_plain_values() -> None:
    """What is computed for a cache is NumPy's, as if nothing was traced; it is used again in all that follows."""
    f = sg.jit(lambda x: x * logarithms(3) * KERNEL.norm + KERNEL.scaled(2), options=NONE)
    found = [f(X), X * logarithms(3) * KERNEL.norm + KERNEL.scaled(2), f(X)]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-14)
    np.testing.assert_array_equal(found[0], found[2])
    assert all(type(one) in {np.ndarray, np.float64} for one in (logarithms(3), KERNEL.norm, KERNEL.scaled(2)))
    assert logarithms.cache_info().currsize == 1


def test_a_cached_property_that_is_deleted_is_computed_anew() -> None:
    kernel = Kernel(np.array([3.0, 4.0]))
    f = sg.jit(lambda x: x * kernel.norm, options=NONE)
    np.testing.assert_array_equal(f(X), 5.0 * X)
    kernel.widths = np.array([6.0, 8.0])
    np.testing.assert_array_equal(f(X), 5.0 * X)  # which is kept, as without symgrad
    del kernel.norm
    np.testing.assert_array_equal(f(X), 10.0 * X)


def test_caches_of_traced_values_end_with_the_trace() -> None:
    slope = sg.grad(lambda x: Kernel(x).norm + np.sum(Kernel(x).scaled(3)), options=NONE)
    np.testing.assert_allclose(slope(X), X / np.linalg.norm(X) + 3)
    np.testing.assert_allclose(slope(2 * X), X / np.linalg.norm(X) + 3)


def test_a_cache_that_keeps_traced_values_is_named() -> None:
    def kept(x: Any) -> Any:
        if "k" not in MEMO:
            MEMO["k"] = np.exp(G)
        return x * MEMO["k"]

    f = sg.jit(kept, options=NONE)
    with pytest.raises(LeakedTracerError, match=r"test_outside\.py:[\s\S]*fill the cache that keeps it"):
        f(X), f(X * 2), f(np.ones(2))
    MEMO.clear()
    kept(X)
    np.testing.assert_array_equal(f(X), kept(X))


def _taken(x: Any, k: float = 2.0) -> Any:
    return x * k


def _around(x: Any) -> Any:
    return np.sum(_taken(x)) + 1


def test_functions_that_are_loaded_again() -> None:
    """IPython's autoreload gives the functions that are there the code and the defaults of the new ones."""
    compiled, slope = sg.jit(_around, options=NONE), sg.grad(_around, options=NONE)
    before = _taken.__code__, _taken.__defaults__
    try:
        for code, defaults in (before, (before[0], (3.0,)), ((lambda x, k: x * k * x + 5).__code__, (3.0,)), before):
            _taken.__code__, _taken.__defaults__ = code, defaults
            np.testing.assert_allclose(compiled(X), _around(X), rtol=1e-13)
            by = [(_around(X + e) - _around(X - e)) / 2e-6 for e in 1e-6 * np.eye(len(X))]
            np.testing.assert_allclose(slope(X), by, rtol=1e-6)
    finally:
        _taken.__code__, _taken.__defaults__ = before


class Unready(collections.abc.Mapping[str, Any]):
    """What a class of others holds until it is complete, as pydantic's models do: it raises whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    __getitem__ = __iter__ = __len__ = __getattr__  # type: ignore[assignment]


class Proxy:
    __slots__ = ("held",)

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class Complete:
    mapping: Any = Unready()
    proxy: Any = Proxy()
    w = np.array([1.0, 2.0])

    def total(self, x: Any) -> Any:
        return np.sum(self.w * x) if self.mapping is not self.proxy else x


def test_objects_that_raise_when_they_are_looked_at_are_left_alone() -> None:
    f, model = sg.jit(Complete().total, options=sg.Options(compiler="none")), Complete
    assert f(X := np.ones(2)) == 3
    model.w = np.array([2.0, 2.0])
    assert f(X) == 4
