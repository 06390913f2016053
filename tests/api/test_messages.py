"""Mistakes in calls of the public functions: each message says what to write instead."""

from __future__ import annotations

import dataclasses
import math
import re
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ArgumentError, ArgumentValueError, RangeError

X = np.array([0.5, 1.5, 2.0])


def loss(x):
    return np.sum(x * x)


MAKERS = [sg.grad, sg.jit, sg.value_and_grad, sg.vmap, sg.hessian, sg.jacfwd, sg.jacrev, sg.hvp]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("given", [3, X, None])
def test_what_is_no_function(make, given):
    with pytest.raises(ArgumentError, match=r"is no function(?s:.*)sg\.grad\(f\)\(x\)") as caught:
        make(given)
    assert f"{__file__}:" in str(caught.value)


@pytest.mark.parametrize("argnums", [(0, 0), ("x", 0), (0, -1)])
def test_argnums_named_twice(argnums):
    with pytest.raises(ArgumentValueError, match=r"names x twice(?s:.*)once"):
        sg.grad(loss, argnums=argnums)(X)
    with pytest.raises(ArgumentValueError, match=r"names params\['w'\] twice"):
        sg.grad(lambda params: np.sum(params["w"]), argnums=("params", "params['w']"))({"w": X})


def test_specs_that_are_no_texts():
    text: Any = 7
    with pytest.raises(ArgumentError, match=r'a spec is a text, not 7(?s:.*)"f64\[n,d\]"'):
        sg.spec(text)


def test_a_call_with_a_spec():
    with pytest.raises(ArgumentError, match=r"loss\(\) was called with the spec f64\[3\](?s:.*)\.lower\((?s:.*)specs="):
        sg.grad(loss)(sg.spec("f64[3]"))
    assert "x * x" in sg.grad(loss).lower(sg.spec("f64[3]")).as_text("traced")


@pytest.mark.parametrize("name", ["flags", "without"])
def test_one_text_where_options_are_several(name):
    given: dict[str, Any] = {name: "-O3"}
    with pytest.raises(ArgumentError, match=rf"Options\({name}='-O3'\) is one text(?s:.*){name}=\('-O3',\)"):
        sg.Options(**given)


def test_dataclasses():
    @dataclasses.dataclass
    class Line:
        slope: Any
        offset: Any

    def fit(p):
        return np.sum(p.slope * X + p.offset)

    found: Any = sg.grad(fit)(Line(1.0, 2.0))
    assert (found.slope, found.offset) == (X.sum(), 3.0)


def test_complex_arguments_keep_their_imaginary_part():
    with pytest.raises(ArgumentError, match=r"x has dtype complex128(?s:.*)instead: x\.real and x\.imag$"):
        sg.grad(loss)(X + 1j)


@pytest.mark.parametrize(
    ("program", "words"), [
        (lambda x: np.sum(x) / max(map(len, [x])), r"len\(\) needs a number(?s:.*)x\.shape\[0\] or x\.size"),
        (lambda x: np.sum(x) / math.sqrt(x.shape[0]), r"a math\.\* function(?s:.*)np\.sqrt\(n\)"),
    ],
)
def test_unknown_extents_as_numbers(program, words):
    with pytest.raises(TypeError, match=words):
        sg.jit(program, specs=("f64[n]",))(X)


def test_cache_info_names_static_arguments():
    f = sg.jit(lambda x, kind: x if kind else -x, static_argnames="kind")
    for kind in ("a", 2, 2.0, True):
        f(X, kind=kind)
    info = f.cache_info()
    assert info.signatures[0] == "x: f64[3], kind='a'"
    assert info.reasons[1:] == (
        "the static argument kind changed from 'a' to 2", "the static argument kind changed from 2 to 2.0",
        "the static argument kind changed from 2.0 to True",
    )


def test_reasons_tell_numbers_from_arrays():
    f = sg.jit(lambda x: x * 2)
    for value in (2.0, np.float64(2), np.array(2.0)):
        f(value)
    assert f.cache_info().reasons[1:] == (
        "argument x changed from f64[], a Python float, to f64[], a NumPy number,",
        "argument x changed from f64[], a NumPy number, to f64[], an array,",
    )


def test_a_subclass_of_arrays_is_named(tmp_path):
    f = sg.jit(loss)
    f(X)
    kept = np.memmap(tmp_path / "x", float, "w+", shape=(3,))
    f(kept)
    assert "the class of an argument changed" in f.cache_info().reasons[1]


def test_short_calls_tell_numbers_from_arrays():
    f = sg.jit(lambda x: x * 2 if isinstance(x, np.ndarray) else x * 3)
    for value, want in ((np.float64(2), 6), (np.array(2.0), 4), (2.0, 6), (np.float64(2), 6), (np.array(2.0), 4)):
        assert [float(f(value)) for _ in range(3)] == [want] * 3


def test_arguments_that_are_no_numbers():
    for given, said in {
        "ab": r"x has dtype <U1 \(texts\)(?s:.*)instead: their numbers, np\.unique\(x, return_inverse=True\)\[1\]",
        "records": r"x has dtype \[\('a', '<f8'\)\](?s:.*)instead: its fields, x\['a'\]",
        "long": r"x is the integer \d+, which does not fit in 64 bits\n  instead: float\(x\)$",
    }.items():
        values = {"ab": np.array(["a", "b"]), "records": np.zeros(2, [("a", float)]), "long": 2**70}
        with pytest.raises(ArgumentError, match=said):
            sg.jit(loss)(values[given])


@pytest.mark.parametrize("n", [2**70, -(2**64)])
def test_results_that_have_more_than_64_bits(n):
    with pytest.raises(RangeError, match=rf"the integer {n} has more than 64 bits(?s:.*)instead: float\(n\)") as caught:
        sg.jit(lambda x: (x, n))(1.0)
    assert f"{__file__}:" in str(caught.value)
    assert sg.jit(lambda x: (x, 2**63))(1.0) == (1.0, 2**63)


def test_a_static_argument_that_an_outer_function_traces():
    power = sg.jit(lambda x, n: 1.0 if n == 0 else x * power(x, n - 1), static_argnums=1)
    assert power(1.5, 3) == 1.5**3
    with pytest.raises(ArgumentError, match=r"argument n is traced by the function around (?s:.*)static_argnums="):
        sg.grad(power)(1.5, 3)
    assert sg.grad(lambda x: power(x, 3))(1.5) == 3 * 1.5**2


E_, IDS = np.ones((50, 3)), np.array([1, 2, 77])
STRAY: dict[str, tuple[Any, str]] = {
    "rows": (lambda: sg.jit(lambda E, i: E[i])(E_, IDS), "size 50: 77 at [2]"),
    "from the end": (lambda: sg.jit(lambda E, i: E[i])(E_, np.array([[1, 2], [-51, 1]])), "size 50: -51 at [1, 0]"),
    "the second of two": (lambda: sg.jit(lambda E, i, j: E[i, j])(E_, np.arange(2), np.array([0, 3])), "3: 3 at [1]"),
    "made of another": (lambda: sg.grad(lambda E, i: np.sum(E[i + 1] ** 2))(E_, np.array([1, 49])), "50: 50 at [1]"),
    "small integers": (lambda: sg.jit(lambda E, i: np.take(E, i, axis=0))(E_, IDS.astype(np.uint8)), "50: 77 at [2]"),
    "rows of a gradient": (lambda: sg.grad(lambda E, i: np.sum(E[i]), sparse=True)(E_, IDS), "size 50: 77 at [2]"),
    "mapped": (lambda: sg.jit(lambda E, i: sg.vmap(lambda k: E[k])(i))(E_, IDS), "size 50: 77 at [2]"),
    "a bound call": (sg.jit(lambda E, i: E[i]).bind(E_, IDS), "size 50: 77 at [2]"),
    "made of other numbers": (
        lambda: sg.jit(lambda E, i: E[np.argsort(i) * 40])(E_, np.array([0.5, 2.0, 1.0])), "an axis with size 50"),
    "in a loop": (
        lambda: sg.jit(lambda E, i: sg.scan(lambda c, k: (c + E[k], 0.0), E[0], i))(E_, IDS), "an axis with size 50"),
}


@pytest.mark.parametrize("name", STRAY)
def test_an_index_out_of_bounds_is_said_with_its_place(name):
    call, message = STRAY[name]
    with pytest.raises(IndexError, match=f"out of bounds for (.|\n)*{re.escape(message)}"):
        call()


MADE_OF = {
    "its own": (lambda x, i: x[i], [1, 12], "12 at [1]"),
    "turned": (lambda x, i: x[i.T], [[1, 2], [30, 1]], "30 at [0, 1], which is i[1, 0]"),
    "every second and one more": (lambda x, i: x[i[::2] + 1], [1, 2, 10], "11 at [1], made of i[2], which is 10"),
    "picked": (lambda x, i: x[i[np.array([2, 0])] - 7], [1, 2, 30], "23 at [0], made of i[2], which is 30"),
    "of many of 8 bits": (lambda x, i: x[np.expand_dims(i.astype(np.int8), 0)], [0] * 150 + [70],
                          "70 at [0, 150], which is i[150]"),
    "added up": (lambda x, i: x[np.cumsum(i)], [1, 2, 3, 8], "14 at [3]"),
    "of two places": (lambda x, i: x[np.where(i > 2, i[::-1], i)], [3, 2, 99], "99 at [0]"),
}


@pytest.mark.parametrize("name", MADE_OF)
def test_an_index_out_of_bounds_names_the_element_it_is_made_of_where_that_is_one(name):
    function, i, said = MADE_OF[name]
    with pytest.raises(sg.errors.IndexOutOfBounds) as error:
        sg.jit(function)(np.arange(10.0), np.array(i))
    assert str(error.value).split("\n")[0] == f"an index is out of bounds for an axis with size 10: {said}"


def product(x, y):
    return np.sum(x * y)


def test_a_name_that_is_no_argument_is_named_before_one_that_is_missing(tmp_path):
    unknown = r"product\(x, y\): got an unexpected keyword argument 'z'\n  at .*test_messages.py:"
    with pytest.raises(ArgumentError, match=unknown):
        sg.jit(cast("Any", product))(x=X, z=X)
    with pytest.raises(ArgumentError, match=r"the specs have 'z', which is no argument of product\(x, y\)"):
        sg.emit(product, {"x": "f64[3]", "z": "f64[3]"}, tmp_path / "product")
    with pytest.raises(ArgumentError, match=r"the specs have 'z', .* of product\(x, y\) or loss\(x\)"):
        sg.emit([product, loss], {"x": "f64[3]", "y": "f64[3]", "z": "f64[3]"}, tmp_path / "product")
    assert sg.emit(lambda params: np.sum(params["x"]), {"x": "f64[3]"}, tmp_path / "total").functions


def test_what_is_derived_already_is_no_loss(tmp_path: Path) -> None:
    derived = sg.value_and_grad(lambda w: np.sum(w * w))
    for call in (lambda: sg.emit(derived, ("f64[3]",), tmp_path / "derived"), lambda: sg.grad(derived)(np.ones(3))):
        with pytest.raises(ArgumentError, match=r"instead: what this is the sg.value_and_grad of(.|\n)*what=\"value\""):
            call()
    assert sg.emit(derived, ("f64[3]",), tmp_path / "derived", what="value").functions == ("derived",)
