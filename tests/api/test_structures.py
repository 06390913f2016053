"""Dataclasses, attrs classes, namedtuples and objects with arrays as attributes, as arguments and results."""

from __future__ import annotations

import re
import threading
import types
from argparse import Namespace
from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from enum import Enum, Flag, IntEnum
from functools import cached_property
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ArgumentError, SymgradError, SymgradWarning

NO_C = sg.Options(compiler="none")
W, B = np.arange(6.0).reshape(2, 3), np.array([0.5, -1.0])


@dataclass
class Layer:
    """A layer with a name and a function, which are no arrays."""

    W: Any
    b: Any
    name: str = "dense"
    activation: Any = np.tanh


@dataclass(frozen=True)
class Frozen:
    """A frozen dataclass with slots in a tuple."""

    W: Any
    parts: tuple[Any, ...] = ()


class Attrs:
    """What attrs makes of a class: attributes in slots that cannot be set again."""

    __slots__ = ("W", "b")
    __attrs_attrs__ = ()

    def __init__(self, W: Any, b: Any) -> None:
        object.__setattr__(self, "W", W)
        object.__setattr__(self, "b", b)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(name)


Named = namedtuple("Named", ["W", "b"])  # noqa: PYI024 - the kind that is tested


class Model:
    """A plain class of the user's, with layers in a list."""

    def __init__(self, W: Any, b: Any) -> None:
        self.layers, self.depth, self.tags = [Layer(W, b)], 2, ["a", "b"]

    def __call__(self, x: Any) -> Any:
        return sum([layer.activation(layer.W @ x + layer.b) for layer in self.layers]) * self.depth


def affine(m: Any, x: Any) -> Any:
    return np.sum((m.W @ x + m.b) ** 2)


@pytest.mark.parametrize("kind", [Layer, Attrs, Named])
def test_gradients_have_the_structure_of_the_argument(kind: Any) -> None:
    x = np.array([1.0, 2.0, -1.0])
    found = sg.grad(affine, options=NO_C)(kind(W, B), x)
    assert type(found) is kind
    np.testing.assert_allclose(found.W, 2 * np.outer(W @ x + B, x))
    np.testing.assert_allclose(found.b, 2 * (W @ x + B))


def test_a_model_with_layers_in_a_list_and_what_is_no_array() -> None:
    model, x = Model(W, B), np.array([0.1, 0.2, -0.1])
    loss = sg.jit(lambda m, x: np.sum(m(x)), options=NO_C)
    assert loss(model, x) == pytest.approx(np.sum(model(x)))
    model.layers[0].W = 2 * W
    assert loss(model, x) == pytest.approx(np.sum(model(x)))
    slopes = sg.grad(lambda m, x: np.sum(m(x)), options=NO_C)(Model(W, B), x)
    assert slopes.layers[0].b.shape == (2,)
    assert slopes.layers[0].name == "dense"
    assert slopes.tags == ["a", "b"]


def test_what_is_no_array_belongs_to_the_kind() -> None:
    apply = sg.jit(lambda layer, x: layer.activation(layer.W @ x) if layer.name == "dense" else x, options=NO_C)
    x = np.ones(3)
    np.testing.assert_allclose(apply(Layer(W, B), x), np.tanh(W @ x))
    np.testing.assert_allclose(apply(Layer(W, B, activation=np.exp), x), np.exp(W @ x))
    np.testing.assert_allclose(apply(Layer(W, B, "none"), x), x)


def test_objects_as_results_and_in_objects() -> None:
    found = sg.jit(lambda f: Frozen(f.W * 2, (f, {"b": f.parts[0]})), options=NO_C)(Frozen(W, (B,)))
    assert type(found) is Frozen
    assert type(found.parts[0]) is Frozen
    np.testing.assert_allclose(found.parts[1]["b"], B)


def test_paths_name_attributes() -> None:
    with pytest.raises(SymgradError, match=r"m\.W"):
        sg.grad(affine, options=NO_C)(Layer(np.ones((2, 3), complex), B), np.ones(3))


def test_an_object_that_holds_itself_is_refused() -> None:
    @dataclass
    class Node:
        value: Any
        parent: Any = field(default=None, repr=False)

    node = Node(1.0)
    node.parent = node
    with pytest.raises(ArgumentError, match="holds itself"):
        sg.jit(lambda n: n.value, options=NO_C)(node)


def test_threads_meet_a_class_at_once() -> None:
    @dataclass
    class Fresh:
        W: Any

    seen: list[Any] = []
    gate = threading.Barrier(4)

    def work() -> None:
        gate.wait(10)
        seen.append(float(sg.jit(lambda f: np.sum(f.W), options=NO_C)(Fresh(W))))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [15.0] * 4


def test_ravel_pytree() -> None:
    flat, unravel = sg.ravel_pytree({"m": Layer(W, B), "k": np.float32(2), "n": 3})
    assert flat.shape == (10,)
    back = unravel(flat)
    assert type(back["m"]) is Layer
    assert back["k"].dtype == np.float32
    np.testing.assert_array_equal(back["m"].W, W)
    slopes = sg.grad(lambda v: np.sum(unravel(v)["m"].W ** 2) + unravel(v)["n"], options=NO_C)(flat)
    np.testing.assert_allclose(unravel(slopes)["m"].W, 2 * W)
    assert sg.ravel_pytree(())[0].shape == (0,)
    with pytest.raises(SymgradError, match="it needs"):
        unravel(flat[1:])
    inside = sg.jit(lambda m: sg.ravel_pytree(m)[0] * 2, options=NO_C)(Layer(W, B))
    np.testing.assert_array_equal(inside, 2 * np.concatenate([W.ravel(), B]))


SETTINGS: dict[str, tuple[Any, Any]] = {
    "texts": ("l2", "l1"), "functions": (np.sin, np.cos), "bytes": (b"a", b"b"), "slices": (slice(0, 1), slice(1, 2)),
    "ranges": (range(1), range(2)), "dtypes": (np.dtype("f8"), np.dtype("f4")), "classes": (int, float),
    "methods": ("a".upper, "b".upper), "lambdas": (lambda x: x, lambda x: -x),
}


@pytest.mark.parametrize("kind", SETTINGS)
def test_settings_belong_to_the_kind_of_arguments(kind: str) -> None:
    """A text or a function needs not be static: for each value the function is compiled for itself."""
    first, second = SETTINGS[kind]

    def chosen(x: Any, setting: Any, more: Any = None) -> Any:
        return np.sum(x**2) if setting == first and not more else np.sum(np.sin(x))

    f, x = sg.grad(chosen, options=NO_C), np.array([1.0, -2.0])
    for _ in range(2):
        np.testing.assert_allclose(f(x, first), 2 * x)
        np.testing.assert_allclose(f(x, setting=second), np.cos(x))
        np.testing.assert_allclose(f(x, first, more=[first]), np.cos(x))
    assert f.cache_info().compilations == 3
    np.testing.assert_allclose(sg.vmap(f, in_axes=(0, None))(x[:, None], second)[:, 0], np.cos(x))
    np.testing.assert_allclose(sg.hessian(chosen, options=NO_C)(x, first), 2 * np.eye(2))
    with pytest.raises(SymgradError, match="names no array among the arguments"):
        sg.grad(chosen, argnums=1, options=NO_C)(x, first)


def test_settings_are_results_too() -> None:
    """As ``has_aux`` hands them on."""
    loss = lambda x, name: (np.sum(x), {"name": name, "of": np.sin, "x": x})  # noqa: E731
    _, aux = sg.grad(loss, has_aux=True, options=NO_C)(np.ones(2), "l2")
    assert (aux["name"], aux["of"], aux["x"].tolist()) == ("l2", np.sin, [1.0, 1.0])


class _Log:
    def __init__(self) -> None:
        self.total, self.seen = 0.0, []  # type: ignore[var-annotated]

    def add(self, value: Any) -> None:
        self.total = self.total + value
        self.seen.append(value)


def test_lists_of_an_object_get_no_traced_values() -> None:
    """An object in a traced function is a new one, and so are its lists that hold no arrays."""
    def added(x: Any, log: _Log) -> Any:
        for v in x:
            log.add(v)
        return log.total * len(log.seen) + log.seen[-1]

    log, compiled = _Log(), sg.jit(added, options=sg.Options(compiler="none"))
    with pytest.warns(SymgradWarning, match=r"changes log\.total of an argument"):
        compiled(np.array([0.0, 0.0, 0.0]), log)
    for _ in range(2):
        np.testing.assert_allclose(compiled(np.array([0.3, -0.7, 1.2]), log), 3.6)
        assert (log.total, log.seen) == (0.0, [])


# -- classes that are made of others, namespaces, objects without attributes


class Table(dict[str, Any]):
    """A dict with an attribute."""

    kind = "plain"


class Attributed(dict[str, Any]):
    """A dict whose items are its attributes."""

    def __init__(self, **items: Any) -> None:
        super().__init__(items)
        self.__dict__ = self


class Ordered(OrderedDict[str, Any]):
    pass


class Row(list[Any]):
    pass


class Cells(tuple[Any, ...]):
    __slots__ = ()


class Space(types.SimpleNamespace):
    pass


OF_OTHERS: dict[str, tuple[Any, Any]] = {
    "dict": (Table(W=W, n=2.0), lambda p: p["W"] * p["n"]), "its attributes": (Attributed(W=W), lambda p: p.W),
    "OrderedDict": (Ordered(b=B, W=W), lambda p: p["W"] * len([*p])), "list": (Row([W, 2.0]), lambda p: p[0] * p[1]),
    "tuple": (Cells([W]), lambda p: p[0]), "namespace": (types.SimpleNamespace(W=W), lambda p: p.W),
    "a namespace of one's own": (Space(W=W, name="a"), lambda p: p.W), "argparse": (Namespace(W=W), lambda p: p.W),
    "defaultdict": (defaultdict(list, W=W), lambda p: p["W"]),
}


@pytest.mark.parametrize("name", OF_OTHERS)
def test_classes_that_are_made_of_others(name: str) -> None:
    given, read = OF_OTHERS[name]
    seen: list[type] = []

    def fun(p: Any) -> Any:
        seen.append(type(p))
        return {"value": read(p), "given": p}

    found = sg.jit(fun, options=NO_C)(given)
    np.testing.assert_array_equal(found["value"], read(given))
    np.testing.assert_array_equal(read(found["given"]), read(given))
    assert {type(found["given"]), *seen} == {type(given)}

    def loss(p: Any) -> Any:
        return np.sum(read(p) ** 2)

    slope = sg.grad(loss, options=NO_C)(given)
    assert type(slope) is type(given)
    along = sg.jit(lambda p, t: sg.jvp(loss, (p,), (t,))[1], options=NO_C)(given, slope)
    held = slope if isinstance(slope, (dict, list, tuple)) else vars(slope)
    parts = [one for one in (held.values() if isinstance(held, dict) else held) if not isinstance(one, str)]
    np.testing.assert_allclose(along, sum(np.sum(np.square(one)) for one in parts))


class Bare:
    """Objects without attributes of their own."""

    W = np.array([1.0, 2.0])

    @sg.jit
    def scaled(self, x: Any) -> Any:
        return self.W * x


def test_an_object_without_attributes() -> None:
    one, x = Bare(), np.array([3.0, 4.0])
    np.testing.assert_array_equal(one.scaled(x), [3.0, 8.0])
    Bare.W *= 2.0
    np.testing.assert_array_equal(one.scaled(x), [6.0, 16.0])
    np.testing.assert_array_equal(sg.jit(lambda one, x: one.W + x, options=NO_C)(one, x), [5.0, 8.0])


@pytest.mark.parametrize("kind", [Layer, Attrs, Model])
def test_axes_of_vmap_by_whole_objects(kind: Any) -> None:
    def fun(one: Any, x: Any) -> Any:
        layer = one.layers[0] if kind is Model else one
        return layer.W @ x + layer.b

    x = np.arange(12.0).reshape(4, 3)
    np.testing.assert_allclose(sg.vmap(fun, in_axes=(None, 0), options=NO_C)(kind(W, B), x), x @ W.T + B)
    many = kind(np.stack([W, 2 * W]), np.stack([B, B]))
    found = sg.vmap(fun, in_axes=(0, None), options=NO_C)(many, x[1])
    np.testing.assert_allclose(found, [W @ x[1] + B, 2 * W @ x[1] + B])


class Kind(Enum):
    """Which of two payoffs."""

    CALL = 1.0
    PUT = "put"


class Level(IntEnum):
    """A member that is a number, too."""

    LOW = 1
    HIGH = 2


class Marks(Flag):
    """Members that are put together."""

    A = 1
    B = 2


@dataclass
class Contract:
    """A member of an enumeration in a field."""

    strike: float
    kind: Any


def test_members_of_enumerations_are_themselves() -> None:
    def payoff(s: Any, o: Any) -> Any:
        return np.maximum(s - o.strike, 0) if o.kind is Kind.CALL else np.maximum(o.strike - s, 0)

    slope: Any = sg.value_and_grad(payoff)
    assert slope(120.0, Contract(100.0, Kind.CALL)) == (20.0, 1.0)
    assert slope(80.0, Contract(100.0, Kind.PUT)) == (20.0, -1.0)
    by_key: Any = sg.jit(lambda x, kind: x * {Kind.CALL: 2.0, Kind.PUT: 3.0, Level.HIGH: 5.0, Marks.A: 7.0}[kind])
    assert [by_key(1.0, kind) for kind in (Kind.CALL, Kind.PUT, Level.HIGH, Marks.A)] == [2.0, 3.0, 5.0, 7.0]
    number: Any = sg.jit(lambda x, level: (x * level, level))
    assert number(2.0, Level.HIGH) == (4.0, Level.HIGH)
    assert sg.jit(lambda x, marks: x if marks & Marks.A else -x)(1.0, Marks.A | Marks.B) == 1.0


class Average:
    """What changes while it is called."""

    def __init__(self) -> None:
        self.mean, self.calls, self.seen = 1.0, 0, [1.0]

    @cached_property
    def twice(self) -> Any:
        return 2 * self.mean


def moves(one: Any, x: Any) -> Any:
    one.mean = 0.9 * one.mean + x
    return one.mean


def appends(one: Any, x: Any) -> Any:
    one.seen.append(x)
    return sum(one.seen)


def counts(one: Any, x: Any) -> Any:
    one.calls += 1
    return one.mean * x


def item(one: Any, x: Any) -> Any:
    one.__dict__["mean"] = x
    return one.mean


@pytest.mark.parametrize(("function", "place"), [
    (moves, "one.mean"), (appends, "one.seen[1]"), (counts, "one.calls"), (item, "one.mean"),
])
@pytest.mark.parametrize("mode", [sg.jit, lambda f: sg.grad(f, 1)])
def test_what_a_function_changes_of_an_argument_is_warned_of(function: Any, place: str, mode: Any) -> None:
    """The caller's object stays as it is; with plain NumPy it would be another one at the next call."""
    one, name = Average(), function.__name__
    with pytest.warns(SymgradWarning, match=rf"{name}\(\) changes {re.escape(place)} of an argument") as said:
        mode(function)(one, 2.0)
    assert "test_structures.py" in str(said[0].message)
    assert f"instead: return the new {place}" in str(said[0].message)
    assert (one.mean, one.calls, one.seen) == (1.0, 0, [1.0])


def itself(one: Any, x: Any) -> Any:
    one.seen.append(one)
    return one.mean * x


def test_the_argument_is_named_beside_static_ones() -> None:
    def doubled(flag: Any, d: Any, e: Any) -> Any:
        e["w"] = e["w"] * 2
        return np.sum(e["w"]) * d["a"] if flag else d["a"]

    with pytest.warns(SymgradWarning, match=r"changes e\['w'\] of an argument"):
        assert sg.jit(doubled, static_argnums=0)(True, {"a": 3.0}, {"w": np.ones(2)}) == 12.0


def test_an_object_that_comes_to_hold_itself_is_looked_at_once() -> None:
    with pytest.warns(SymgradWarning, match=r"changes one\.seen\[1\] of an argument"):
        assert sg.jit(itself)(Average(), 2.0) == 2.0


def test_what_changes_nothing_of_an_argument_is_quiet() -> None:
    def own(d: Any, one: Any) -> Any:
        d = {**d, "w": d["w"] * 2}
        d["b"] = 1.0
        return d["w"] * one.twice + d["b"]

    assert sg.jit(own)({"w": 3.0}, Average()) == 13.0


class Cached:
    """Cached properties of every kind."""

    def __init__(self) -> None:
        self.w = 2.0

    @cached_property
    def number(self) -> Any:
        return 3

    @cached_property
    def parts(self) -> Any:
        return {"twice": 2 * self.w, "name": ["a", (self.w, None)]}


def test_what_is_cached_returned_or_put_back_is_no_change() -> None:
    def cached(one: Any) -> Any:
        return one.number * one.parts["twice"]

    def returned(p: Any, state: Any) -> Any:
        state["mean"] = state["mean"] * 0.5
        state["last"].append(p)
        return p * state["mean"], state

    def put_back(p: Any) -> Any:
        w = p.pop("w")
        p["w"] = w
        return w * p["b"]

    def scanned(x: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            carry["s"] = np.sin(carry["s"]) + row.pop("x")
            return carry, None

        side = sg.cond(x[0] > 0, lambda d: d.pop("a"), lambda d: -d["a"], {"a": x[0]})
        return sg.scan(step, {"s": 0.0}, {"x": x})[0]["s"] + side

    assert sg.jit(cached)(Cached()) == 12.0
    value, aux = sg.value_and_grad(returned, has_aux=True)(3.0, {"mean": 1.0, "last": [1.0]})
    assert (value[0], value[1], aux) == (1.5, {"mean": 0.5, "last": [1.0, 3.0]}, 0.5)
    assert sg.jit(put_back)(OrderedDict(w=2.0, b=3.0)) == 6.0
    assert sg.grad(scanned)(np.ones(2)).shape == (2,)


def test_a_dict_that_is_changed_is_warned_of() -> None:
    def normalized(p: Any) -> Any:
        p["w"] = p["w"] / np.sum(p["w"])
        return np.sum(p["w"] ** 2)

    with pytest.warns(SymgradWarning, match=r"changes p\['w'\] of an argument"):
        sg.grad(normalized)({"w": np.ones(3)})
    with pytest.warns(SymgradWarning, match=r"changes p of an argument|changes p\['w'\] of an argument"):
        sg.jit(lambda p: p.pop("w"))({"w": np.ones(3)})


def test_a_module_may_be_an_argument() -> None:
    """As of functions that are written for any library of arrays."""
    def f(x: Any, xp: Any) -> Any:
        return xp.sum(xp.sin(xp.zeros(3) + xp.asarray(x)) * xp.eye(3)[0])

    assert sg.grad(f)(1.0, np) == np.cos(1.0)
    assert sg.jit(f)(1.0, xp=np) == np.sin(1.0)


def weighted(tree: Any) -> Any:
    """Go through the values of a dict, as layers are gone through."""
    parts = tree.parts if hasattr(tree, "parts") else tree[0] if isinstance(tree, (list, deque)) else tree
    return sum([(k + 1) * np.sum(part) for k, part in enumerate(parts.values())])


@pytest.mark.parametrize("options", [sg.Options(), sg.Options(compiler="none")], ids=["in C", "interpreted"])
@pytest.mark.parametrize("inside", [
    dict, lambda d: types.SimpleNamespace(parts=d), lambda d: [d, 1.0], lambda d: deque([d, 1.0])],
    ids=["alone", "in an object", "in a list", "in a deque"])
def test_the_order_of_keys_is_the_one_of_each_call(inside: Any, options: sg.Options) -> None:
    """A function that goes through a dict was compiled for the first call's order, and gave its numbers for others."""
    given = {"a": np.ones(2), "b": np.full(2, 2.0), "c": 5.0}
    value, slopes = sg.jit(weighted, options=options), sg.grad(weighted, options=options)
    for _ in range(2):
        for names in ("abc", "cba", "bac"):
            tree = inside({name: given[name] for name in names})
            assert value(tree) == weighted(tree)
            found = slopes(tree)
            for k, name in enumerate(names):
                parts = found.parts if hasattr(found, "parts") else found if isinstance(found, dict) else found[0]
                np.testing.assert_array_equal(parts[name], k + 1.0)
    assert value.cache_info().compilations == 3


def test_the_order_of_keywords_is_the_one_of_each_call() -> None:
    compiled = sg.jit(lambda **parts: weighted(parts))
    assert [compiled(a=1.0, b=2.0), compiled(b=2.0, a=1.0)] == [5.0, 4.0]


class Settings(dict):
    """A dict whose elements are looked up in another way, and that has a dict among its attributes."""

    def __getitem__(self, name: str) -> Any:
        found = dict.__getitem__(self, name)
        return found["value"] if isinstance(found, dict) else found


def test_the_order_of_keys_in_dicts_of_ones_own() -> None:
    tree = Settings(w={"value": np.ones(2), "rate": 3.0})
    tree.more = {"b": np.ones(2), "a": np.full(2, 2.0)}  # type: ignore[attr-defined]
    compiled = sg.jit(lambda t: np.sum(t["w"]) + weighted(t.more))
    assert compiled(tree) == 2.0 + 2.0 + 8.0
    tree.more = {"a": np.full(2, 2.0), "b": np.ones(2)}  # type: ignore[attr-defined]
    assert compiled(tree) == 2.0 + 4.0 + 4.0
