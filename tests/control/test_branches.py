"""Python's own conditions on traced values: the path that is compiled is the one that NumPy takes, for every input."""

from __future__ import annotations

import pickle
import sys
import threading

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ArgumentError, ConcretizationError, PathsError, UnsupportedError
from tests.table import richardson

X = np.array([0.5, -1.25, 2.0, 0.75])


def sign(x):
    if x[0] > 0:
        return np.sum(np.sin(x))
    return np.sum(x * x)


def ladder(x):
    total = np.sum(x)
    if total > 1:
        return total**2
    if total > 0:
        return np.sin(total)
    if not total < -1:
        return np.cos(total)
    return total


def both(x):
    return np.sum(x[:2]) if x[0] > 0 and x[1] < 0 else np.prod(x)


def either(x):
    return np.sum(x * x) if x[0] > 1 or x[1] > 1 else np.sum(np.cos(x))


def builtins(x):
    return min(x[0], x[1]) * max(x[2], x[3], 0.25) + sorted([x[0], x[3]])[1] ** 2


def steps(x):
    a, count = np.exp(x[0]), 0
    y = a
    while abs(y * y - a) > 1e-10 * a:
        y = 0.5 * (y + a / y)
        count += 1
    return y * count


def bisection(x):
    low, high = 0.0 * x[1], 4.0 + 0.0 * x[1]
    for _ in range(5):
        middle = 0.5 * (low + high)
        if middle**3 - abs(x[0]) > 0:
            high = middle
        else:
            low = middle
    return low * x[1]


def early(x):
    total = 0.0
    for k in range(4):
        if x[k] > 1.5:
            return total * x[k]
        if x[k] < 0:
            continue
        total = total + np.exp(x[k])
    return total


def member(x):
    return np.sum(x) if 2.0 in np.round(x) else np.sum(x * x)


def whole(x):
    n = int(abs(x[0] * 3))
    return np.sum(x[:n]) + np.sum(np.arange(1.0, n + 2) * x[1])


def rounds(x):
    k, y = (np.floor(abs(x[0])) + 1).astype(np.int64), x[1]
    for _ in range(k):
        y = np.sin(y) + x[2]
    return y


def nothing_is(x):
    return x[1] if x[0] != x[0] else x[2]


PROGRAMS = [
    sign, ladder, both, either, builtins, steps, bisection, early, member, whole, rounds, nothing_is,
]

def differences(fun, x):
    """Richardson's differences along each axis, none of which may cross to another path."""
    def along(e):
        return richardson(lambda t: fun(x + t * e), 1e-3)

    return np.array([along(e) for e in np.eye(len(x))])


RNG = np.random.default_rng(3)
POINTS = [X, -X, X[::-1].copy(), *[RNG.normal(size=4) * s for s in (0.3, 1.0, 1.0, 2.0)]]


@pytest.mark.parametrize("fun", PROGRAMS, ids=lambda fun: fun.__name__)
def test_each_call_takes_the_path_of_numpy(fun):
    compiled = sg.value_and_grad(fun, options=sg.Options(paths=100))
    for _ in range(2):
        for x in POINTS:
            value, gradient = compiled(x)
            np.testing.assert_allclose(value, fun(x), rtol=1e-13, atol=1e-13)
            np.testing.assert_allclose(gradient, differences(fun, x), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("fun", PROGRAMS, ids=lambda fun: fun.__name__)
def test_without_a_compiler_it_is_the_same(fun):
    compiled = sg.jit(fun, options=sg.Options(compiler="none", paths=100))
    for x in POINTS:
        np.testing.assert_allclose(compiled(x), fun(x), rtol=1e-13, atol=1e-13)


def test_a_path_is_traced_once():
    runs = []

    def f(x):
        runs.append(1)
        return sign(x)

    compiled = sg.jit(f)
    for x in (X, -X, X, 2 * X, -X):
        np.testing.assert_allclose(compiled(x), sign(x), rtol=1e-13)
    assert len(runs) == 2
    info = compiled.cache_info()
    assert info.compilations == 2
    assert "a condition came to something else than True at test_branches.py" in info.reasons[1]


@pytest.mark.parametrize("mode", [
    sg.hessian, lambda f: sg.jacfwd(sg.grad(f)), lambda f: sg.grad(lambda x: np.sum(sg.grad(f)(x) ** 2)),
    lambda f: sg.jit(lambda x: sg.jit(f)(x) * 2), lambda f: lambda x: sg.jvp(f, (x,), (np.ones(4),)),
    lambda f: lambda x: sg.jvp(sg.grad(f), (x,), (np.ones(4),)),
    lambda f: sg.vmap(lambda y, x: y * f(x), in_axes=(0, None)),
], ids=["hessian", "jacfwd", "grad of grad", "jit in jit", "jvp", "jvp of grad", "vmap of another argument"])
def test_modes_carry_conditions_outward(mode):
    """What a mode computes of a path is what it computes of that path's formula alone."""
    compiled = mode(sign)
    for x in (X, -X, X):
        alone = mode((lambda x: np.sum(np.sin(x))) if x[0] > 0 else (lambda x: np.sum(x * x)))
        args = (np.arange(3.0), x) if "vmap" in repr(compiled) else (x,)
        found, wanted = compiled(*args), alone(*args)
        for one, other in zip(np.atleast_1d(found), np.atleast_1d(wanted), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-13)


def test_nothing_after_a_condition_fails_before_it():
    """``x[n - 1]`` is out of bounds where n is 0, and is not read there."""

    @sg.jit
    def f(x, n):
        if n > 0 and np.take(x, n - 1) > 0:
            return np.take(x, n - 1) * 2
        return np.sum(x)

    x = np.arange(5.0)
    assert f(x, 3) == 4.0
    assert f(x, 0) == 10.0
    assert f(x, 5) == 8.0
    with pytest.raises(IndexError, match="out of bounds"):
        f(x, 7)
    assert f(x, 0) == 10.0


def test_errors_of_the_user_are_the_users():
    @sg.grad
    def f(x):
        assert x > 0, "positive"
        if x > 5:
            raise KeyError("far")
        return np.log(x)

    assert f(2.0) == 0.5
    with pytest.raises(AssertionError, match="positive") as caught:
        f(-1.0)
    assert caught.value.__context__ is None
    with pytest.raises(KeyError, match="far"):
        f(6.0)
    assert f(4.0) == 0.25
    assert f.cache_info().compilations == 1  # what raises is no path


@pytest.mark.parametrize("options", [{"compiler": "none"}, {}])
def test_what_a_condition_cannot_be_computed_of_is_named_by_its_own_line(options):
    def solved(A, x, n):
        y = np.take(x, n)
        z = np.linalg.solve(A, x)
        return np.sum(z) if y * z[0] > 0 else y

    f = sg.jit(solved, options=sg.Options(**options))
    with pytest.raises(np.linalg.LinAlgError, match=r"(?i)singular matrix\n.*\n +z = np.linalg.solve"):
        f(np.zeros((2, 2)), np.ones(2), 1)
    with pytest.raises(IndexError, match=r"out of bounds .*\n.*\n +y = np.take"):
        f(np.eye(2), np.ones(2), 2)
    assert f(np.eye(2), np.ones(2), 1) == 2.0


def test_integers_of_floats():
    f = sg.jit(lambda x: int(x) * 0.5, options=sg.Options(compiler="none"))
    for x in (3.7, -3.7, 1e18, 0.0):
        assert f(x) == int(x) * 0.5
    with pytest.raises(OverflowError, match=r"int\(\) of a number of more than 64 bits\n.*test_branches.py"):
        f(1e20)
    with pytest.raises(OverflowError, match="infinity"):
        f(-np.inf)
    with pytest.raises(ValueError, match="NaN"):
        f(np.nan)


def test_rules_may_branch_on_what_they_keep():
    @sg.custom_vjp
    def own(x):
        return x * x if x > 0 else -x

    def back(kept, g):
        return (g * (10.0 if kept > 0 else 20.0),)

    own.defvjp(lambda x: (own(x), x), back)
    value_and_slope = sg.value_and_grad(lambda x: own(x) * x)
    twice = sg.grad(lambda x: sg.grad(lambda y: own(y) * x)(2 * x))
    for x, value, rule in ((2.0, 4.0, 10.0), (-1.0, 1.0, 20.0), (3.0, 9.0, 10.0), (-4.0, 4.0, 20.0)):
        assert value_and_slope(x) == (value * x, value + rule * x)
        assert sg.jvp(lambda x: own(x) * x, (x,), (1.0,))[1] == value + rule * x
        assert twice(x) == rule
    own.defvjp(lambda x: (own(x), x), lambda _, g: (g if np.sum(g) > 0 else -g,))
    slope = sg.grad(lambda x: own(x) * x)
    assert [slope(x) for x in (2.0, -3.0, 5.0)] == [4.0 + 2.0, 3.0 + 3.0, 25.0 + 5.0]
    with pytest.raises(ConcretizationError, match=r"a condition (.|\n)*test_branches.py"):
        sg.vjp(own, 2.0)


def test_sizes_and_paths():
    """A path is of one signature; of open extents it serves every size."""
    compiled = sg.grad(lambda x: np.sum(np.sin(x)) if np.sum(x) > 0 else np.sum(x**2))
    for n in (3, 4, 5, 6, 3):
        for scale in (1.0, -1.0):
            x = scale * np.linspace(0.5, 2.0, n)
            np.testing.assert_allclose(compiled(x), np.cos(x) if scale > 0 else 2 * x, rtol=1e-13)
    assert compiled.cache_info().compilations <= 4


def test_too_many_paths():
    compiled = sg.jit(lambda n: np.sum(np.arange(n)), options=sg.Options(paths=3))
    for n in (1, 2, 3):
        assert compiled(n) == n * (n - 1) / 2
    with pytest.raises(PathsError, match=r"3 paths .* Options\(paths=3\)(.|\n)*test_branches.py(.|\n)*sg.while_loop"):
        compiled(4)
    assert compiled(2) == 1


@pytest.mark.parametrize(("call", "match"), [
    (lambda: sg.jit(sign).lower(sg.spec("f64[4]")), r"a condition .*\n.*test_branches.py:(.|\n)*sg.cond"),
    (lambda: sg.vmap(sign)(np.ones((3, 4))), r"a condition .*another one each time"),
    (lambda: sg.jit(lambda x: sg.scan(lambda c, r: (c if r > 0 else -c, None), 0, x)[0])(X), "another one each time"),
    (lambda: sg.jit(lambda x: 1 if x > 0 else 2)(X), "ambiguous(.|\n)*np.any"),
    (lambda: sg.jit(lambda x, k: [1.0, 2.0, 3.0][k] * x)(1.0, 2), r"np.take\(array, i\)"),
    (lambda: sg.jit(lambda x: float(x) * 2)(1.0), r"float\(\)"),
])
def test_where_there_are_no_values(call, match):
    with pytest.raises((ConcretizationError, ValueError), match=match):
        call()


def test_lower_with_values_shows_the_path():
    lowered = sg.jit(sign).lower(-X)
    assert "ops.guard(" in lowered.as_text("optimized")
    compiled = lowered.compile()
    np.testing.assert_allclose(compiled(-X), sign(-X))
    np.testing.assert_allclose(compiled(X), sign(X))


def test_threads_on_different_paths():
    compiled = sg.value_and_grad(ladder)
    points = [X * s for s in (-3.0, -0.3, 0.3, 3.0)]
    wanted = [ladder(x) for x in points]
    wrong: list[object] = []

    def run(start: int) -> None:
        for k in range(200):
            x, want = points[(start + k) % 4], wanted[(start + k) % 4]
            if not np.allclose(compiled(x)[0], want, rtol=1e-12):
                wrong.append((start, k))

    threads = [threading.Thread(target=run, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert compiled.cache_info().compilations == 4


@pytest.mark.parametrize(("options", "conditions"), [({"compiler": "none"}, 4), ({"flags": ("-O0",)}, 3)])
def test_threads_that_find_new_paths_at_once(options, conditions):
    """All begin together, each in another order, and change places as often as Python lets them."""
    def signs(x):
        def sign(total, k):
            return np.sin(total) + x[k] if x[k] > 0.1 * k else total * x[k]

        total = sign(sign(sign(x[0], 0), 1), 2)  # no loop, which would be one path
        return sign(total, 3) if conditions > 3 else total

    compiled = sg.value_and_grad(signs, options=sg.Options(**options))
    rng = np.random.default_rng(0)
    ways = np.sign(2 * np.array([*np.ndindex(*[2] * conditions)]) - 1)
    points = [way * (0.1 * np.arange(conditions) + 0.2 + rng.uniform(size=conditions)) for way in ways for _ in "ab"]
    wanted = [signs(x) for x in points]
    wrong: list[object] = []
    together = threading.Barrier(8)

    def run(seed: int) -> None:
        orders = np.random.default_rng(seed)
        together.wait()
        for k in [k for _ in range(4) for k in orders.permutation(len(points))]:
            try:
                value, slope = compiled(points[k])
            except Exception as error:  # noqa: BLE001 - whatever it is, it is wrong
                wrong.append(error)
                return
            if abs(value - wanted[k]) > 1e-12 or not np.allclose(slope, exact[k], rtol=1e-12):
                wrong.append((seed, k))

    alone = sg.value_and_grad(signs, options=sg.Options(compiler="none"))
    exact = [alone(x)[1] for x in points]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=run, args=(k,)) for k in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not wrong
    assert compiled.cache_info().compilations == 2**conditions


def test_bound_calls_go_from_path_to_path():
    x = X.copy()
    bound = sg.value_and_grad(ladder).bind(x)
    for scale in (1.0, -1.0, 0.3, -0.3, 1.0):
        x[:] = scale * X
        value, gradient = bound()
        np.testing.assert_allclose(value, ladder(x), rtol=1e-13)
        np.testing.assert_allclose(gradient, differences(ladder, x), rtol=1e-7)


def test_callbacks_have_the_path_of_the_last_call():
    f = sg.jit(lambda x: 2 * x if x > 1 else 3 * x)
    f(2.0)
    call = f.low_level_callable()
    scipy_integrate = pytest.importorskip("scipy.integrate")
    assert scipy_integrate.quad(call, 2.0, 3.0)[0] == pytest.approx(5.0)
    with pytest.warns(scipy_integrate.IntegrationWarning):
        assert np.isnan(scipy_integrate.quad(call, 0.0, 0.5)[0])


def test_pickles_keep_the_paths():
    scale = 2.0
    f = sg.jit(lambda x: x * scale if x > 1 else x * 3)
    f(2.0)
    one = pickle.loads(pickle.dumps(f))
    f(0.5)
    both_ways = pickle.loads(pickle.dumps(f))
    assert [float(g(2.0)) for g in (one, both_ways)] == [4.0, 4.0]
    assert float(both_ways(0.5)) == 1.5
    assert [float(pickle.loads(pickle.dumps(both_ways))(x)) for x in (2.0, 0.5)] == [4.0, 1.5]
    with pytest.raises(ArgumentError, match=r"without its Python code.*the condition at .* comes to False"):
        one(0.5)


def test_what_cannot_be_the_same_on_every_path():
    def drawn(x):
        return x * np.random.normal() if x > 0 else x  # noqa: NPY002 - a global one

    with pytest.raises(UnsupportedError, match=r"np.random.normal is drawn (.|\n)*each path"), pytest.warns():
        sg.jit(drawn)(1.0)

    def log(x):
        if x < 0:
            raise ValueError("negative")
        return np.log(x)

    def caught(x):
        try:
            return sg.grad(log)(x)
        except ValueError:
            return 0.0 * x

    f = sg.jit(caught)
    assert f(2.0) == 0.5
    with pytest.raises(ConcretizationError, match=r"an exception left a function that sg.grad"):
        f(-2.0)


def test_debug_nans_on_each_path():
    f = sg.jit(lambda x: np.log(x) if x > 1 else np.sqrt(x), options=sg.Options(debug_nans=True))
    assert f(4.0) == np.log(4.0)
    assert f(0.25) == 0.5
    with pytest.raises(sg.SymgradError, match=r"sqrt.*\n.*test_branches.py"):
        f(-1.0)


def test_cache_info_lists_the_paths():
    f = sg.jit(sign)
    f(X)
    f(-X)
    assert [path[0].split(" came to ")[1] for path in f.cache_info().paths] == ["False", "True"]


def test_the_same_condition_each_time_round_is_one_guard():
    def f(x):
        y, total = x[0], 0.0
        for t in range(60):
            assert x[t] > -5, t
            if y > 50:
                raise OverflowError
            y = np.sin(y) + x[t]
            total = total + y * y
        return total

    x = np.linspace(-1, 1, 60)
    compiled = sg.value_and_grad(f)
    value, slope = compiled(x)
    np.testing.assert_allclose(value, f(x), rtol=1e-12)
    direction = np.cos(np.arange(60.0))
    np.testing.assert_allclose(slope @ direction, richardson(lambda h: f(x + h * direction), 1e-3), rtol=1e-8)
    text = compiled.lower(x).as_text("optimized")
    assert text.count("ops.guard(") < 8  # those of copies that stay outside, too
    assert "ops.scan(" in text
    x[40] = -6
    with pytest.raises(AssertionError, match="40"):
        compiled(x)


def test_what_may_fail_in_a_loop_fails_after_the_conditions_before_it():
    def f(x, index):
        total = 0.0
        for t in range(40):
            if index[t] >= 5:
                return total
            total = total + np.sin(np.take(x, index[t]))
        return total

    x, index = np.arange(5.0), np.arange(40) % 5
    compiled = sg.jit(f)
    np.testing.assert_allclose(compiled(x, index), f(x, index), rtol=1e-12)
    index[7] = 9
    np.testing.assert_allclose(compiled(x, index), f(x, index), rtol=1e-12)


def test_a_path_whose_extents_do_not_fit_is_no_obstacle():
    def f(x):
        return 2 * x[5] if np.sum(x) > 0 else x[0] * 1.0

    compiled = sg.jit(f, specs=("f64[n]",))
    assert compiled(np.ones(8)) == 2.0
    assert compiled(-np.ones(3)) == -1.0
    with pytest.raises(IndexError, match="index 5 is out of bounds for axis 0 with size 3"):
        compiled(np.ones(3))


def test_a_condition_on_nan_is_no_nan_of_a_result():
    def f(x, y):
        return y * 2 if np.isnan(x) else x

    compiled = sg.jit(f, options=sg.Options(debug_nans=True))
    assert compiled(np.nan, 2.0) == 4.0
    assert compiled(3.0, np.nan) == 3.0


def test_beyond_the_paths_a_for_statement_is_proposed():
    f = sg.jit(lambda x: np.sum(np.array([v if v > 0 else -v for v in x])), options=sg.Options(paths=2))
    f(np.ones(4))
    f(-np.ones(4))
    with pytest.raises(PathsError, match="a `for` statement in the place of a comprehension or of `map`, which is one"):
        f(np.array([1.0, -1.0, 1.0, 1.0]))
