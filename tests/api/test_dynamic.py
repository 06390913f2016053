"""Open extents: named by the user, or learnt from calls; what a call gives never depends on what was called before."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad import pipeline
from symgrad.api.call import function as call_function
from symgrad.api.call.sizes import Sizes, unify
from symgrad.errors import ArgumentError, ArgumentValueError, ConcretizationError, ShapeError, SymgradWarning
from tests.programs import leaves
from tests.table import INTERPRETED

rng = np.random.default_rng(8)


def samples(n: int, d: int = 3) -> tuple[Any, ...]:
    return rng.normal(size=d), rng.normal(size=(n, d)), rng.normal(size=n)


def squares(w, X, y):
    return np.sum((X @ w - y) ** 2) / max(1, 1) + np.sum(w * w)


def same(found: Any, expected: Any) -> None:
    pairs = list(zip(leaves(found), leaves(expected), strict=True))
    for one, two in pairs:
        assert np.asarray(one).dtype == np.asarray(two).dtype
        assert np.shape(one) == np.shape(two)
        np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-13)


# -- bounds made of extents


def bounded(x, y):
    """Cut by bounds of either sign, which count from the end where they are negative."""
    n, m = len(x), len(y)
    bounds = (n - 3, 3 - n, -n, -n // 2, n // 2 - 4, 1 - n // 4, (2 - n) % 3, n - m)
    parts = [each for b in bounds for each in (x[b:], x[:b], x[b::2], np.roll(x, b), x * b)]
    for b in bounds:
        out = np.zeros(9)
        out[b:] = 2.0
        out[:b] += x[:1].sum()
        parts.append(out)
    return parts


def test_bounds_of_either_sign():
    """What they are where extents are large is compiled for; smaller ones are compiled apart."""
    x, y = np.arange(1.0, 20.0), np.ones(9)
    interpreted = sg.jit(bounded, options=INTERPRETED)
    for n, m in ((8, 3), (9, 4), (2, 2), (12, 5), (1, 5), (0, 2)):
        same(interpreted(x[:n], y[:m]), bounded(x[:n], y[:m]))
    compiled = sg.jit(bounded)
    for n, m in ((16, 3), (17, 4), (19, 2)):
        same(compiled(x[:n], y[:m]), bounded(x[:n], y[:m]))
    assert compiled.cache_info().compilations == 2


def test_places_and_quotients_of_extents():
    def places(x):
        return x[len(x) - 3] + 10 * x[2 - len(x)]

    place = sg.jit(places)
    for n in (8, 9, 2, 5, 3):
        assert place(np.arange(1.0, n + 1)) == places(np.arange(1.0, n + 1))
    with pytest.raises(IndexError):
        place(np.ones(1))

    def quotients(x, y):
        return x * (len(x) % len(y)) + len(x) // len(y) + len(x) % -3

    quotient = sg.jit(quotients)
    for n, m in ((8, 3), (9, 4), (4, 9)):
        same(quotient(np.ones(n), np.ones(m)), quotients(np.ones(n), np.ones(m)))
    with pytest.raises(ZeroDivisionError):
        quotient(np.ones(5), np.ones(0))


def test_numbers_made_of_extents():
    """Python's integers know no bounds, dividing by zero raises, and a text has the number."""
    weights = {"3": 5.0}
    forms = (
        lambda x: x * len(x) ** 30 + len(x) * 2**61, lambda x: x * (10**20 * len(x)), lambda x: x * 7 ** -len(x),
        lambda x: x * weights.get(f"{len(x)}", 2.0), lambda x: x * weights.get(str(len(x)), x.nbytes),
    )
    for form in forms:
        function = sg.jit(form, options=INTERPRETED)
        for n in (2, 4, 3, 5):
            same(function(np.ones(n)), form(np.ones(n)))
    inverse = sg.jit(lambda x: np.sum(x) + 1 / len(x), options=INTERPRETED)
    assert [inverse(np.ones(n)) for n in (2, 4)] == [2.5, 4.25]
    with pytest.raises(ZeroDivisionError):
        inverse(np.ones(0))


@pytest.mark.parametrize("make", [
    lambda x: np.zeros(len(x) - 3) + x[0],
    lambda x: np.sum(np.full((2, len(x) - 3), x[0])),
    lambda x: np.eye(len(x) - 3) * x[0],
    lambda x: np.linspace(0.0, x[0], len(x) - 3),
    lambda x: np.broadcast_to(x, (len(x) - 3, len(x))),
])
def test_shapes_that_would_be_negative(make):
    """They are refused, and calls after that are as those before."""
    function = sg.jit(make)
    for n in (8, 9, 2, 5, 1, 3):
        x = np.arange(1.0, n + 1)
        if n < 3:
            with pytest.raises(ValueError, match="negative"):
                function(x)
        else:
            same(function(x), make(x))


def test_known_places_beside_slices_of_open_extents():
    def loss(p, q):
        return np.sum(p[:2] * 2) + np.sum(np.quantile(q, 0.3, axis=0))

    derived, q = sg.grad(loss, argnums=(0, 1)), np.arange(9.0).reshape(3, 3) ** 2
    for n in (5, 6, 1, 0):
        p = np.ones((n, 1))
        same(derived(p, q), sg.grad(loss, argnums=(0, 1), options=INTERPRETED)(p, q))


# -- named by the user


NAMED: dict[str, Any] = {
    "names": {"X": "n,d", "y": "n", "w": "d"}, "positions": {0: "d", 1: "n,d", -1: "n"},
    "one axis": {"X": "n,_", "y": "n"},
    "a number": {"X": "n,3", "y": "n", "w": "3"}, "the last": {"X": "...,3"}, "nothing": {},
}


@pytest.mark.parametrize("name", NAMED)
def test_named_axes(name):
    function = sg.value_and_grad(squares, dynamic=NAMED[name])
    plain = sg.value_and_grad(squares, dynamic=False)
    sizes = (4, 0, 1, 7, 100)
    for n in sizes:
        args = samples(n)
        same(function(*args), plain(*args))
    some = any("n" in str(axes) for axes in NAMED[name].values())
    assert function.cache_info().compilations == (1 if some else len(sizes))
    assert plain.cache_info().compilations == len(sizes)


def test_named_extents_are_equal():
    function = sg.jit(squares, dynamic={"X": "n,d", "y": "n", "w": "d"})
    w, X, y = samples(4)
    function(w, X, y)
    for _ in range(2):
        with pytest.raises(ArgumentValueError) as caught:
            function(w, X, y[:2])
        assert str(caught.value) == (
            "the extent n is 4 on axis 0 of X, which has shape (4, 3), and 2 on axis 0 of y, which has shape (2,)"
        )
    with pytest.raises(ArgumentError, match=r"argument X is f64\[3\], and its axes and dtype are to be dynamic 'n,d'"):
        function(w, X[0], y)
    numbered = sg.jit(squares, dynamic={"X": "n,3"})
    with pytest.raises(ArgumentValueError, match=r"the extent 2 on axis 1 of X, which has shape \(4, 2\) is to be 3"):
        numbered(w[:2], X[:, :2], y)
    assert function(w, X, y) == pytest.approx(squares(w, X, y))


def test_parts_of_trees_are_named_by_their_paths():
    def model(params, x):
        return np.sum(np.tanh(x @ params["w"] + params["b"]))

    function = sg.grad(model, dynamic={"params['w']": "d,k", "params['b']": "k", "x": "n,d"})
    for n, d, k in ((3, 2, 4), (1, 1, 1), (0, 5, 2), (6, 4, 4)):
        args = {"w": rng.normal(size=(d, k)), "b": rng.normal(size=k)}, rng.normal(size=(n, d))
        same(function(*args), sg.grad(model, dynamic=False)(*args))
    assert function.cache_info().compilations == 1
    whole = sg.jit(lambda p: p[0] * p[1], dynamic={"p": "n"})
    assert [whole((np.ones(n), np.ones(n))).shape for n in (3, 5)] == [(3,), (5,)]
    assert whole.cache_info().compilations == 1


WRONG: dict[str, tuple[Any, str]] = {
    "a name": ({"Z": "n"}, r"dynamic names 'Z', which is no parameter of squares\(\)"),
    "a position": ({3: "n"}, r"dynamic names 3, which is no parameter of squares\(\)"),
    "a path": ({"X['w']": "n,d"}, r"dynamic names \"X\['w'\]\", which is no array among the arguments w, X, y"),
    "axes": ({"X": "n d!"}, r"dynamic names axes by 'n d!'\n  instead: as \"n,d\""),
    "a word of C": ({"X": "int,d"}, r"'int' cannot name an extent"),
    "no text": ({"X": 3}, "dynamic names axes by 3"),
    "twice the rest": ({"X": "...,..."}, "dynamic names axes by"),
    "another word": ("always", r"dynamic='always'\n  instead: \"auto\", False"),
    "True": (True, "dynamic=True"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_names_nothing_is_refused(name):
    dynamic, words = WRONG[name]
    with pytest.raises(ArgumentValueError, match=words):
        sg.jit(squares, dynamic=dynamic)(*samples(4))


def test_specs_and_static_arguments_have_no_names():
    with pytest.raises(ArgumentValueError, match="specs= and dynamic= both name extents"):
        sg.jit(squares, specs=("f64[d]", "f64[n,d]", "f64[n]"), dynamic={"X": "n,d"})
    with pytest.raises(ArgumentValueError, match="dynamic names 'k', which is a static argument"):
        sg.jit(lambda x, k: x * k, static_argnames="k", dynamic={"k": "n"})


def test_what_was_asked_for_is_done_or_refused():
    function = sg.jit(lambda x: sum(x[i] for i in range(x.shape[0])), dynamic={"x": "n"})
    with pytest.raises(ConcretizationError, match="the extent n is not known"):
        function(np.ones(3))


def test_arguments_left_out_have_no_axes():
    function = sg.jit(lambda x, y=None: np.sum(x if y is None else x * y), dynamic={"x": "n", "y": "n"})
    for n in (3, 5):
        assert function(np.ones(n)) == function(np.ones(n), np.ones(n)) == function(np.ones(n), y=np.ones(n)) == n
    assert function.cache_info().compilations == 2


def test_an_argument_of_the_same_name():
    function = sg.grad(lambda n, x: np.sum(x * n), dynamic={"x": "n"})
    assert [float(function(2.0, np.ones(k))) for k in (3, 4)] == [3.0, 4.0]
    learnt = sg.grad(lambda n, x: np.sum(x * n))
    assert [float(learnt(2.0, np.ones(k))) for k in (3, 4, 5)] == [3.0, 4.0, 5.0]
    assert learnt.cache_info().compilations == 2


# -- learnt from calls


def test_the_second_size_is_the_last_compilation():
    function = sg.value_and_grad(squares)
    for n in (5, 7, 100, 1, 0, 2, 7, 5):
        args = samples(n)
        same(function(*args), sg.value_and_grad(squares, dynamic=False)(*args))
    info = function.cache_info()
    assert info.compilations == 2
    assert info.signatures == ("w: f64[3], X: f64[5,3], y: f64[5]", "w: f64[3], X: f64[n,3], y: f64[n]")
    assert info.reasons[1] == (
        "argument X changed from f64[5,3] to f64[7,3]; left open from now on: X: f64[n,3], y: f64[n]"
    )
    assert info.refusals == ()


def test_extents_that_were_equal_by_chance_come_apart():
    function = sg.value_and_grad(lambda A, b: np.sum(A) * np.sum(b), argnums=(0, 1))
    for shape, k in (((3, 3), 3), ((4, 4), 4), ((3, 5), 3), ((6, 5), 5), ((2, 2), 2), ((1, 7), 9), ((0, 1), 3)):
        A, b = rng.normal(size=shape), rng.normal(size=k)
        value, (dA, db) = function(A, b)
        assert value == pytest.approx(np.sum(A) * np.sum(b))
        np.testing.assert_allclose(dA, np.full(shape, np.sum(b)))
        np.testing.assert_allclose(db, np.full(k, np.sum(A)))
    assert [s.split(":", 1)[1] for s in function.cache_info().signatures] == [
        " f64[3,3], b: f64[3]", " f64[n,n], b: f64[n]", " f64[n,m], b: f64[n]", " f64[n,m], b: f64[p]"
    ]


BROADCASTS: dict[str, tuple[Any, list[tuple[Any, ...]]]] = {
    "an axis of 1": (
        lambda x, y: np.sum((x * y) ** 2),
        [((5,), (5,)), ((7,), (7,)), ((7,), (1,)), ((1,), (4,)), ((9,), (1,)), ((3,), (3,)), ((1,), (1,))],
    ),
    "one grows from 1": (
        lambda x, y: np.sum(np.sin(x + y)),
        [((4, 1), (1, 3)), ((5, 1), (1, 6)), ((5, 2), (1, 2)), ((1, 1), (1, 1)), ((3, 1), (2,))],
    ),
    "a number of columns": (
        lambda x, y: np.sum(x * y),
        [((5, 3), (3,)), ((5, 4), (4,)), ((5, 4), (1,)), ((1, 4), (4,)), ((6, 1), (4,))],
    ),
    "squeezed": (
        lambda x, y: np.sum(np.squeeze(x) * y),
        [((3, 5), (5,)), ((1, 5), (5,)), ((2, 5), (5,)), ((1, 1), (5,)), ((1, 3), (3,))],
    ),
}


@pytest.mark.parametrize("name", BROADCASTS)
@pytest.mark.parametrize("seed", range(3))
def test_an_extent_of_1_broadcasts(name, seed):
    program, shapes = BROADCASTS[name]
    shapes = [*shapes, *shapes]
    random.Random(seed).shuffle(shapes)
    function = sg.value_and_grad(program, argnums=(0, 1))
    for pair in shapes:
        args = [rng.normal(size=shape) for shape in pair]
        same(function(*args), sg.value_and_grad(program, argnums=(0, 1), dynamic=False)(*args))


def test_a_broadcast_axis_has_a_compilation_of_its_own():
    function = sg.jit(lambda x, y: x * y)
    for n, m in ((5, 5), (7, 7), (7, 1), (9, 1), (11, 1), (12, 12)):
        same(function(np.ones(n), np.full(m, 2.0)), np.full(n, 2.0))
    info = function.cache_info()
    assert info.compilations == 4
    assert info.signatures[-1] == "x: f64[n], y: f64[1]"
    assert len(info.refusals) == 1
    assert "do not broadcast" in info.refusals[0]


def test_an_extent_of_1_that_changes_what_is_done_is_compiled_apart():
    """np.squeeze drops it; what is compiled for all the other sizes serves all of them."""
    function = sg.jit(lambda x: np.squeeze(x) * 2)
    for shape in ((3, 5), (4, 6), (7, 2), (1, 5), (1, 8), (9, 1), (5, 1), (1, 1), (0, 3), (1, 9), (2, 2)):
        x = rng.normal(size=shape)
        same(function(x), np.squeeze(x) * 2)
    info = function.cache_info()
    assert info.signatures == ("x: f64[3,5]", "x: f64[n,m]", "x: f64[1,m]", "x: f64[n,1]", "x: f64[1,1]")
    assert info.refusals == ()
    named = sg.jit(lambda x: np.squeeze(x) * 2, dynamic={"x": "n,m"})
    for shape in ((1, 5), (3, 5), (1, 7), (1, 1)):
        same(named(np.ones(shape)), np.squeeze(np.ones(shape)) * 2)
    assert named.cache_info().signatures == ("x: f64[n,m]", "x: f64[1,m]", "x: f64[1,1]")


def test_sizes_that_are_sums_of_products_are_one_size():
    """n*(k + m) elements are as many as k*n + m*n."""
    def flat(x, y):
        return np.sum(np.tanh(np.concatenate([x, y]).reshape(-1)[1:]))

    function = sg.value_and_grad(flat, argnums=(0, 1), dynamic={"x": "m,n", "y": "k,n"})
    for m, k, n in ((3, 4, 2), (1, 0, 5), (2, 7, 1)):
        x, y = rng.normal(size=(m, n)), rng.normal(size=(k, n))
        value, (of_x, of_y) = function(x, y)
        slopes = (1 - np.tanh(np.concatenate([x, y])) ** 2) * (np.arange((m + k) * n) > 0).reshape(-1, n)
        np.testing.assert_allclose(value, flat(x, y), rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(np.concatenate([of_x, of_y]), slopes, rtol=1e-13, atol=1e-15)
    assert function.cache_info().compilations == 1


OWN = ": it needs a compilation of its own"
DROPS = "np.squeeze drops an axis of extent 1, and {} has one in this call alone" + OWN
FITS = "whether the shapes {} and {} fit together is asked, and in this call alone they may" + OWN
ASSUMED: dict[str, tuple[Any, tuple[int, ...], str]] = {
    "squeeze": (lambda x: np.squeeze(x) * 2, (1, 4), DROPS.format("(n, m)")),
    "cov": (lambda x: np.cov(x) * 2, (1, 4), DROPS.format("(n, n)")),
    "array_equal": (lambda x: np.array_equal(x, x[:1]), (1, 4), FITS.format("(n, m)", "(Min(1, n), m)")),
    "array_equiv": (lambda x: np.array_equiv(x, x[:, 0]), (3, 3), FITS.format("(n, m)", "(n,)")),
    "norm": (
        lambda x: np.linalg.norm(x, -1), (2, 0),
        "np.min along axis 0 of no elements, which has no result",
    ),
    "reshape": (
        lambda x: x.reshape(-1, x.shape[1]), (2, 0),
        "cannot reshape (n, m) into (-1, m): the extents beside -1 must not be 0",
    ),
}


@pytest.mark.parametrize("name", ASSUMED)
def test_specs_serve_the_sizes_that_one_program_can_serve(name):
    program, shape, words = ASSUMED[name]
    function = sg.jit(program, specs=("f64[n,m]",))
    x = rng.normal(size=(3, 4))
    same(function(x), program(x))
    for run in (function, function.bind if name == "squeeze" else function):
        with pytest.raises(ArgumentValueError) as caught:
            run(np.ones(shape))
        assert caught.value.what == words
        assert caught.value.line is not None
    same(function(x), program(x))


def caught_elsewhere(x, y):
    try:
        return np.sum(x @ y)
    except ValueError:
        return np.sum(x) * np.sum(y)


@pytest.mark.filterwarnings("ignore:caught_elsewhere.*was compiled")
def test_shapes_that_do_not_fit_for_some_sizes_alone():
    """Code that catches what NumPy raises goes its way at each size as in NumPy."""
    function = sg.jit(caught_elsewhere)
    for n, m in ((5, 5), (5, 4), (6, 4), (7, 7), (4, 7), (4, 4), (1, 1), (0, 0), (0, 1)):
        x, y = rng.normal(size=n), rng.normal(size=m)
        assert function(x, y) == pytest.approx(caught_elsewhere(x, y))
    with pytest.raises(ShapeError, match=r"the error was caught"):
        sg.jit(caught_elsewhere, specs=("f64[n]", "f64[m]"))(np.ones(3), np.ones(3))


DEPENDS: dict[str, Any] = {
    "a loop": lambda x: sum(x[i] * (i + 1) for i in range(x.shape[0])),
    "len": lambda x: np.sum(x) / max(len(x), 1),
    "a branch": lambda x: np.sum(x) if x.shape[0] == 3 else np.sum(x * x),
    "a comparison": lambda x: np.sum(x) if x.shape[0] < 3 else np.sum(x * x),
    "a table": lambda x: np.sum(x) * {3: 10.0}.get(x.shape[0], 2.0),
    "a set": lambda x: np.sum(x) * (2.0 if x.shape[0] in {3, 4} else 1.0),
    "a tuple": lambda x: np.sum(x) * (2.0 if x.shape in ((3,), (4,)) else 1.0),
    "iteration": lambda x: sum((v * v for v in x), start=0.0),
    "a list": lambda x: np.sum(x * np.array([float(k) for k in range(x.shape[0])])),
    "an assertion": lambda x: np.sum(x) if not _check(x.shape[0] % 2) else 0.0,
    "text": lambda x: np.sum(x) * len(f"{int(x.shape[0])}"),
}


def _check(value):
    assert value in {0, 1}
    return value == 5


@pytest.mark.parametrize("name", DEPENDS)
def test_code_that_needs_the_size_as_a_number(name):
    function = sg.value_and_grad(DEPENDS[name])
    for n in (3, 2, 7, 3, 1, 4, 2):
        x = rng.normal(size=n)
        same(function(x), sg.value_and_grad(DEPENDS[name], dynamic=False)(x))
    info = function.cache_info()
    assert info.compilations == 5
    assert len(info.refusals) == 1
    assert info.refusals[0].startswith("(n): ")


def test_the_other_extents_are_learnt_still():
    def loss(x):
        return sum(np.sum(x[i] ** 2) * i for i in range(x.shape[0]))

    function = sg.jit(loss)
    for shape in ((3, 5), (3, 6), (3, 7), (4, 7), (4, 5), (4, 9), (3, 100), (0, 2), (0, 3)):
        x = rng.normal(size=shape)
        assert function(x) == pytest.approx(loss(x))
    info = function.cache_info()
    assert "x: f64[3,n]" in info.signatures
    assert "x: f64[4,n]" in info.signatures
    assert len(info.refusals) == 1


def test_an_index_that_is_outside_for_some_sizes():
    function, plain = sg.jit(lambda x: x[4] + np.max(x)), sg.jit(lambda x: x[4] + np.max(x), dynamic=False)
    for n in (9, 12, 5, 3, 20, 0):
        x = rng.normal(size=n)
        if n >= 5:
            assert function(x) == plain(x)
            continue
        errors = []
        for one in (function, plain):
            with pytest.raises(sg.SymgradError) as caught:
                one(x)
            errors.append((type(caught.value), caught.value.what))
        assert errors[0] == errors[1]


def test_an_error_of_the_users_is_the_users():
    def loss(x):
        if x.shape[0] == 4:
            raise KeyError("four")
        return np.sum(x)

    function = sg.jit(loss)
    assert [function(np.ones(n)) for n in (3, 5)] == [3, 5]
    with pytest.raises(KeyError, match="four"):
        function(np.ones(4))
    assert function(np.ones(6)) == 6


def unfit(x, y):
    return np.sum(x * y)


def unfit_by_an_index(x, y):
    return x[3] + y[4] + np.sum(x * x) * np.sum(y)


def unfit_by_the_user(x, y):
    if np.size(x) != np.size(y):
        raise KeyError("sizes")
    return np.sum(x) + np.sum(y)


FAILS: dict[str, tuple[Any, Any, Any]] = {
    "shapes": (unfit, [(5, 4), (4, 7), (9, 2)], ValueError),
    "an index": (unfit_by_an_index, [(5, 4), (3, 7), (2, 2)], IndexError),
    "an error of the user's": (unfit_by_the_user, [(5, 4), (3, 7), (9, 2)], KeyError),
}


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("name", FAILS)
def test_a_call_that_fails_leaves_no_trace(name, every):
    """What is learnt is learnt from calls that gave a result: as if the others had never been."""
    program, failing, error = FAILS[name]
    function, without = sg.value_and_grad(program), sg.value_and_grad(program)
    for n in (5, 6, 30, 7, 5, 12):
        args = rng.normal(size=n), rng.normal(size=n)
        same(function(*args), without(*args))
        for a, b in failing if every or n == 5 else []:
            with pytest.raises(error):
                function(np.ones(a), np.ones(b))
    assert function.cache_info()._replace(hits=0) == without.cache_info()._replace(hits=0)
    assert function.cache_info().compilations == 2


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), MemoryError(), RecursionError(), KeyError("mine")])
def test_a_call_that_is_stopped_leaves_no_trace(monkeypatch, raised):
    function = sg.jit(unfit)
    function(np.ones(5), np.ones(5))

    def stopped(*args):
        raise raised

    monkeypatch.setattr("symgrad.api.call.function.optimized", stopped)
    with pytest.raises(type(raised)):
        function(np.ones(7), np.ones(7))
    monkeypatch.undo()
    assert [function(np.ones(n), np.ones(n)) for n in (6, 7, 8)] == [6, 7, 8]
    assert function.cache_info().compilations == 2
    assert function.cache_info().refusals == ()


@pytest.mark.parametrize("fault", [OSError("no space left on device"), sg.errors.ToolchainError("killed")])
def test_a_fault_of_the_machines_refuses_no_extents(monkeypatch, fault):
    """The disk was full while open extents were compiled for: the next size tries them again."""
    function = sg.jit(unfit)
    function(np.ones(5), np.ones(5))
    real, calls = pipeline.build, []

    def failing(*args):
        calls.append(args)
        if len(calls) == 1:
            raise fault
        return real(*args)

    monkeypatch.setattr("symgrad.api.call.function.build", failing)
    assert [function(np.ones(n), np.ones(n)) for n in (6, 7, 8)] == [6, 7, 8]
    assert function.cache_info().compilations == 3
    assert function.cache_info().refusals == ()


def test_a_path_that_open_extents_do_not_allow_is_compiled_for_its_own():
    function = sg.jit(lambda a: np.polyval(a, 2.0), options=sg.Options(compiler="none"))
    assert [float(function(np.ones(n))) for n in (5, 2, 1, 0, 0, 7)] == [31.0, 3.0, 1.0, 0.0, 0.0, 127.0]
    assert function.cache_info().compilations == 3


def test_it_warns_with_the_reason():
    function = sg.jit(lambda x: np.sum(x) / max(map(len, [x])))
    for n in range(2, 9):
        function(np.ones(n))
    with pytest.warns(SymgradWarning, match=r"8 times.*f64\[9\]\. Its extents are not left open: \(n\): "):
        function(np.ones(9))


def test_a_mode_that_is_made_in_each_round_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `value_and_grad(loss)(params)` in a loop, which is traced in each round; of other functions it does not."""
    def loss(x: Any) -> Any:
        return np.sum(x * x)

    monkeypatch.setattr(call_function, "AGAIN", 4)
    x, kept = np.ones(3), sg.grad(loss)
    for _ in range(5):
        kept(x)
        sg.grad(lambda x: 2 * loss(x))(x)
    for _ in range(2):
        sg.grad(loss)(x)
    with pytest.warns(SymgradWarning, match=r"sg.grad\(loss\) was made anew, and compiled, 4 times.*Make it once"):
        sg.grad(loss)(x)
    sg.grad(loss)(x)



def test_off():
    function = sg.jit(np.sum, dynamic=False)
    for n in (3, 4, 5):
        assert function(np.ones(n)) == n
    assert function.cache_info().compilations == 3


def test_an_extent_is_an_integer_of_pythons():
    """As far as it can tell, so that no branch is taken silently that a number would not take."""
    for scale in (lambda n: 2.0 if isinstance(n, int) else 3.0, np.sqrt, lambda n: n / 2, lambda n: n**0.5):
        function = sg.jit(lambda x, scale=scale: x * scale(x.shape[0]), static_argnames="scale", dynamic={"x": "n"})
        for n in (4, 7):
            x = np.ones(n, np.float32)
            expected = x * scale(x.shape[0])
            assert function(x).dtype == expected.dtype
            np.testing.assert_allclose(function(x), expected, rtol=1e-6)


# -- what the pieces say


def test_bound():
    assert unify((3, "n", "n"), (3, 5, 5)) == {"n": 5}
    assert unify((3, "n", "n"), (3, 5, 6)) is None
    assert unify((3, "n"), (4, 5)) is None
    assert unify((), ()) == {}


def test_sizes_are_bounded_in_what_they_try():
    sizes = Sizes((None,) * 3, "auto")
    tried = 0
    for k in range(2, 60):
        while (pattern := sizes.proposed((k, k * k, 3 + k % 5))) is not None:
            sizes.refuse(pattern, ValueError("no"))
            tried += 1
    assert 1 <= tried <= 6
    assert all(": ValueError: no" in line for line in sizes.told())
