"""Whether a result without axes is a number or an array, as in NumPy: x[i] is a view by one, by the other a copy."""

from __future__ import annotations

import copy
import inspect
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import optree
import pytest

import symgrad as sg
from symgrad.ops.declare.forms import ANSWERS, answer_scipy
from symgrad.trace.signature import Signature, leaf_spec
from symgrad.trace.trace import prepare, trace
from symgrad.trace.tracer import Tracer
from tests.ops.calls import Call, quiet, read
from tests.ops.test_answers import draw

prepare()
answer_scipy()
FORMS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda f, x: f(x), lambda f, x: f(x, 0), lambda f, x: f(x, ()), lambda f, x: f(x, x), lambda f, x: f(x, x, x),
    lambda f, x: f(True, x, x), lambda f, x: f(x, (), 0), lambda f, x: f([x > 0], [x]), lambda f, x: f((x, x)),
    lambda f, x: f(0, [x]), lambda f, x: f(x, np.float32), lambda f, x: f("...->...", x), lambda f, x: np.sum(f(x, x)),
)
"""Ways to call a function of one value."""

NUMBERS = (np.array(2), np.int64(2), 2, np.array(2.5), np.float64(2.5), 2.5)


def method(name: str) -> Callable[..., Any]:
    """Make a function of a method, or of an attribute."""

    def call(x: Any, *rest: Any) -> Any:
        found = getattr(x, name)
        return found(*rest) if callable(found) else found

    return call


METHODS = [name for name in dir(Tracer) if hasattr(np.ndarray, name) and not name.startswith("_")]
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{repr(function): function for function in ANSWERS if callable(function)},
    **{f"x.{name}": method(name) for name in METHODS},
    **{name: getattr(operator, name) for name in ("neg", "pos", "abs", "add", "mod", "floordiv", "lt", "iadd")},
    "x[()]": lambda x: x[()], "x[...]": lambda x: x[...], "x[None][0]": lambda x: x[None][0],
    "copy": copy.copy, "deepcopy": copy.deepcopy,
}


def arrays(results: Any) -> list[bool]:
    """Tell, for each leaf of results, whether it is an array."""
    return [isinstance(leaf, np.ndarray) for leaf in optree.tree_leaves(results)]


def seen(call: Callable[..., Any], *args: Any) -> list[bool]:
    """Trace a call, and tell which of its results are arrays."""
    found: list[list[bool]] = []

    def noted(leaves: list[Any]) -> Any:
        results = call(*leaves)
        found.append(arrays(results))
        return results

    specs = tuple([leaf_spec(arg, "x") for arg in args])
    names = tuple([f"a{k}" for k in range(len(args))])
    trace(call, Signature(None, specs, names, names, (), tuple(range(len(args)))), noted, name="f")
    return found[-1]


@pytest.mark.filterwarnings("ignore")
def test_of_values_without_axes() -> None:
    wrong = []
    tried: set[str] = set()
    for name, function in FUNCTIONS.items():
        for form in FORMS:
            for x in NUMBERS:
                try:
                    want = arrays(form(function, copy.copy(x)))
                    have = seen(lambda given, form=form, function=function: form(function, given), x)
                except Exception:  # noqa: BLE001, S112 - not its arguments, or refused
                    continue
                tried.add(name)
                if have != want:
                    wrong.append(f"{name} {inspect.getsource(form).strip()} {x!r}: {want} in NumPy")
    assert wrong == []
    assert len(tried) > 0.75 * len(FUNCTIONS)


@pytest.mark.parametrize("call", [pytest.param(call, id=call.text) for call in read("calls.txt") if () in call.shapes])
def test_of_the_table_of_answers(call: Call) -> None:
    for given in (draw(call.shapes, call.kinds[0]), [a if a.ndim else a[()] for a in draw(call.shapes, call.kinds[0])]):
        assert seen(lambda *args: quiet(call.call, *args), *given) == arrays(quiet(call.call, *given))




@pytest.mark.parametrize("repeated", [
    lambda x, n: np.array([0.5] * n) * x[0], lambda x, n: np.array(n * [x[1], 2.0]),
    lambda x, n: np.zeros((2,) * n) + x[0],
    lambda x, n: np.array([x[0]] * len(x)) * n, lambda x, n: np.array(x.shape[0] * [1.0]) * x * n,
    lambda x, n: x * len("ab" * n), lambda x, n: np.array([0.0] * np.argmax(x) + [x[0]]) * n,
])
def test_integers_repeat_lists(repeated: Any) -> None:
    compiled = sg.jit(repeated, options=sg.Options(compiler="none"))
    for x, n in ((np.arange(3.0) + 1, 2), (np.arange(5.0)[::-1], 3), (np.arange(4.0) * 2, 1)):
        np.testing.assert_array_equal(compiled(x, n), repeated(x, n))


ITEMS: tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...] = (
    (lambda x, h: x * h.item(), (np.ones(3, np.float32), np.array(0.1))),
    (lambda x, h: x * h.item(1) + h.item((0, 0)) - h.item(0, -1), (np.ones(3, np.float32), np.array([[0.1, 0.2]]))),
    (lambda x, n: x ** n.item(), (np.full(3, 2, np.float32), np.array(3))),
    (lambda x, n: (1 - x.item() ** (n.item() + 1)) ** 0.5 * np.ones(2, np.float32), (np.array(0.9), np.array(3))),
    (lambda x: np.sum(x).item(), (np.array([0.9], np.float32),)),
    (lambda x: x.item() * 2, (np.array([True]),)),
    (lambda x: x.item() + np.ones(2, np.int8), (np.array([[3]], np.int16),)),
)
"""What `item` gives is Python's number, which leaves single precision single."""


@pytest.mark.parametrize(("function", "arguments"), ITEMS)
def test_item_is_a_number_of_python(function, arguments):
    found, wanted = sg.jit(function, options=sg.Options(compiler="none"))(*arguments), np.asarray(function(*arguments))
    assert np.asarray(found).dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


def test_item_has_a_derivative():
    assert sg.grad(lambda x: x.item() ** 2)(np.array([3.0])).tolist() == [6.0]
