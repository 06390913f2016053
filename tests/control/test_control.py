"""Loops and branches compute what the same Python loop computes, unrolled, and so do all their derivatives."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.ir.evaluate import evaluate
from symgrad.ir.saved.programs import dumps, loads
from symgrad.loops import cost
from symgrad.ops import OPS
from tests.control.programs import PROGRAMS, both
from tests.table import INTERPRETED

BY_VALUE = {"newton", "until", "unbounded", "times", "steps within steps", "branch, taken", "branch, not taken",
            "chosen, 0", "chosen, 1", "chosen, 2", "branch in a loop", "loop in a branch"}
"""Whose Python loop asks for values: a trace of it has none."""

VERIFIED = sg.Options(verify=True)


def leaves(tree):
    return [np.asarray(x) for x in (tree if isinstance(tree, (tuple, list)) else [tree])]


def close(ours, theirs, tolerance=1e-10):
    for a, b in zip(leaves(ours), leaves(theirs), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def differences(f, args, k, h=1e-3):
    """Differentiate by Richardson's extrapolation of central differences, of fourth order."""
    x = np.array(args[k], float)
    found = np.zeros(x.shape + np.shape(f(*args)))
    for place in np.ndindex(x.shape):
        def at(step, place=place):
            moved = x.copy()
            moved[place] += step
            return np.asarray(f(*args[:k], moved, *args[k + 1 :]))

        one, half = (at(h) - at(-h)) / (2 * h), (at(h / 2) - at(-h / 2)) / h
        found[place] = (4 * half - one) / 3
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_value_and_gradient(name):
    ours, theirs, args, by = both(name)
    value, grads = sg.value_and_grad(ours, argnums=by, options=VERIFIED)(*args)
    close(value, theirs(*args))
    for k, grad in zip(by, grads, strict=True):
        np.testing.assert_allclose(grad, differences(theirs, args, k), rtol=1e-6, atol=1e-8)


def by_argument(names):
    """List programs with each argument they are differentiated by: of some, all but one at night."""
    return [
        pytest.param(name, k, marks=[pytest.mark.nightly] * (place != turn % len(PROGRAMS[name][2])))
        for turn, name in enumerate(names) for place, k in enumerate(PROGRAMS[name][2])
    ]


@pytest.mark.parametrize(("name", "k"), by_argument([name for name in PROGRAMS if name not in BY_VALUE]))
def test_derivatives_are_those_of_the_unrolled_loop(name, k):
    ours, theirs, args, _ = both(name)
    close(sg.grad(ours, argnums=k)(*args), sg.grad(theirs, argnums=k, options=INTERPRETED)(*args))
    close(sg.hessian(ours, argnums=k)(*args), sg.hessian(theirs, argnums=k, options=INTERPRETED)(*args), 1e-9)
    close(sg.jacfwd(ours, argnums=k)(*args), sg.jacfwd(theirs, argnums=k, options=INTERPRETED)(*args))


@pytest.mark.parametrize(("name", "k"), by_argument(sorted(BY_VALUE)))
def test_second_derivatives_by_differences(name, k):
    ours, _, args, _ = both(name)

    def slope(*args):
        return sg.grad(ours, argnums=k)(*args)

    found = sg.hessian(ours, argnums=k)(*args)
    np.testing.assert_allclose(found, differences(slope, args, k), rtol=2e-6, atol=1e-7)
    close(sg.jacfwd(ours, argnums=k)(*args), sg.grad(ours, argnums=k)(*args))


JAX = json.loads((Path(__file__).parent / "jax.json").read_text())
"""What JAX 0.10 made of the same programs, with `lax.scan` and its kin; of a while loop in forward mode, for it has no
other."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_jax_has_the_same_numbers(name):
    ours, _, args, by = both(name)
    known = JAX[name]
    args = [np.array(x, arg.dtype) for x, arg in zip(known["args"], args, strict=True)]
    value, grads = sg.value_and_grad(ours, argnums=by)(*args)
    close([value, *grads], [known["value"], *[np.array(g) for g in known["gradients"]]])
    if "hessian" in known:
        close(sg.hessian(ours, argnums=by[0], options=INTERPRETED)(*args), np.array(known["hessian"]))


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.nightly] * (turn % 2)) for turn, name in enumerate(PROGRAMS)
])
def test_batches(name):
    ours, theirs, args, by = both(name)
    rng = np.random.default_rng(3)
    many = [np.stack([args[0], *[args[0] + 0.1 * rng.normal(size=np.shape(args[0])) for _ in range(3)]]), *args[1:]]
    axes = (0, *[None] * (len(args) - 1))
    one = sg.grad(ours, argnums=by)
    values, grads = sg.vmap(sg.value_and_grad(ours, argnums=by), axes)(*many)
    close(values, np.stack([theirs(x, *args[1:]) for x in many[0]]))
    for place, grad in enumerate(grads):
        close(grad, np.stack([one(x, *args[1:])[place] for x in many[0]]))


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_c_is_the_interpreter_and_a_saved_program_the_same(name):
    ours, _, args, by = both(name)
    function = sg.value_and_grad(ours, argnums=by)
    program = function.lower(*args).program
    found = evaluate(program, [np.asarray(a) for a in args])
    value, grads = function(*args)
    close([value, *grads], found, 1e-12)
    close(evaluate(loads(dumps(program), OPS), [np.asarray(a) for a in args]), found, 0)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_text_runs(name):
    ours, theirs, args, _ = both(name)
    space: dict[str, Any] = {}
    text = sg.jit(ours).lower(*args).as_text("traced")
    exec(text, space)
    close(space[ours.__name__](*args)[0], theirs(*args), 1e-12)


@pytest.mark.parametrize("name", ["recurrent", "backwards", "batch"])
def test_open_lengths(name):
    ours, theirs, args, by = both(name)
    function = sg.value_and_grad(ours, argnums=by, dynamic={2: "t,_" + ",_" * (args[2].ndim - 2)}, options=VERIFIED)
    for length in (9, 0, 1, 2):
        rows = np.random.default_rng(1).normal(size=(length, *args[2].shape[1:]))
        value, grads = function(*args[:2], rows)
        if length:
            close(value, theirs(*args[:2], rows))
            close(grads, sg.grad(theirs, argnums=by, options=INTERPRETED)(*args[:2], rows))
        else:
            assert [np.shape(g) for g in grads] == [np.shape(a) for a in (*args[:2], rows)]


def test_no_steps():
    carry, ys = sg.scan(lambda h, x: (h * x, h + x), np.array([1.0, 2.0]), np.zeros((0, 2)))
    assert carry.tolist() == [1.0, 2.0]
    assert ys.shape == (0, 2)
    loss = sg.grad(lambda h: np.sum(sg.scan(lambda h, x: (h * x, h), h, np.zeros((0, 2)))[0]))
    assert loss(np.ones(2)).tolist() == [1, 1]
    assert sg.fori_loop(3, 3, lambda i, v: v * i, 2.0) == 2.0
    assert sg.fori_loop(3, 1, lambda i, v: v * i, 2.0) == 2.0


NO_ELEMENTS = {
    "scan": lambda w, x: sg.scan(lambda h, a: ((np.tanh(a) * h * w,) * 2), np.zeros(x.shape[1:]), x)[1],
    "carry": lambda w, x: sg.scan(lambda h, a: ((np.tanh(a + h @ np.outer(w, w)),) * 2), np.zeros(x.shape[1:]), x)[0],
    "fori": lambda w, x: sg.fori_loop(0, 5, lambda i, v: v * w * i, x[0]),
    "counted": lambda w, x: sg.fori_loop(0, np.argmax(w) + 2, lambda i, v: v * w * i, x[0]),
    "while": lambda w, x: sg.while_loop(lambda s: s[1] < 5, lambda s: (s[0] * w, s[1] + np.sum(w)), (x[0], 0.0))[0],
    "cond": lambda w, x: sg.cond(np.sum(w) > 2, lambda x: x * w, lambda x: x + w, x[0]),
}


@pytest.mark.parametrize("name", NO_ELEMENTS)
def test_no_elements(name):
    """What is carried has none, as of a batch of no rows: sums are 0, and so are their derivatives."""
    w, x = np.ones(3), np.zeros((2, 0, 3))

    def total(w, x):
        return np.sum(NO_ELEMENTS[name](w, x))

    slope = sg.grad(total, options=VERIFIED)
    assert sg.jit(NO_ELEMENTS[name], options=VERIFIED)(w, x).shape == NO_ELEMENTS[name](w, x).shape
    assert slope(w, x).tolist() == [0.0] * 3
    assert sg.grad(lambda w: np.sum(w * slope(w, x)))(w).tolist() == [0.0] * 3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtypes(dtype):
    def f(x, ks):
        def step(carry, k):
            h, n = carry
            return (h * x + k.astype(dtype), n + k), (h, n)

        (h, n), (hs, ns) = sg.scan(step, (x, np.int32(0)), ks)
        return h, n, hs, ns

    x, ks = dtype(0.5), np.arange(4, dtype=np.int32)
    h, n, hs, ns = sg.jit(f)(x, ks)
    assert (h.dtype, n.dtype, hs.dtype, ns.dtype) == (dtype, np.int32, dtype, np.int32)
    assert n == 6
    assert ns.tolist() == [0, 0, 1, 3]
    assert sg.grad(lambda x: f(x, ks)[0])(x).dtype == dtype


def test_a_branch_that_is_not_taken_does_not_run():
    """A matrix that is singular is not inverted."""
    f = sg.jit(lambda A, b: sg.cond(np.abs(A[0, 0]) > 0, np.linalg.solve, lambda _, b: b, A, b))
    assert f(np.zeros((2, 2)), np.array([3.0, 4.0])).tolist() == [3.0, 4.0]
    assert f(2 * np.eye(2), np.array([3.0, 4.0])).tolist() == [1.5, 2.0]


def test_a_cotangent_that_is_a_number_stands_in_the_derivative_of_a_branch():
    """Also of open extents, and where nothing else is read: of 3*x."""
    def forces(x):
        curve, line = sg.cond(x[0] > 0, lambda x: (np.sum(np.sin(x)), 3 * x), lambda x: (np.sum(x * x), -x), x)
        return curve + np.sum(line)

    gradient = sg.grad(forces)
    text = gradient.lower(sg.spec("f64[n]")).as_text("optimized")
    assert "lambda_back" in text
    assert "_bar" not in text
    for x in (np.array([0.5, -2.0]), np.array([-0.5, 3.0, 1.0])):
        np.testing.assert_allclose(gradient(x), np.cos(x) + 3 if x[0] > 0 else 2 * x - 1, rtol=1e-12)


def test_the_side_that_is_not_chosen_makes_no_nan():
    root = sg.vmap(sg.grad(lambda x: sg.cond(x > 0, np.sqrt, lambda x: 0.0 * x, x)))
    assert root(np.array([4.0, 0.0, -1.0])).tolist() == [0.25, 0.0, 0.0]


def test_what_is_not_chosen_makes_no_nan_in_a_loop():
    """The slope of a root is infinite at 0, in each step; where nobody uses the loop it counts for nothing."""
    def f(x):
        return np.where(x > 0, sg.scan(lambda c, _: (np.sqrt(c), None), x, None, 2)[0], 0.0)

    assert sg.grad(f)(0.0) == 0.0
    assert sg.grad(f)(16.0) == pytest.approx(0.25 * 16.0**-0.75)
    assert sg.grad(lambda x: np.where(x > 0, sg.cond(x < 9, np.sqrt, np.cbrt, x), 0.0))(0.0) == 0.0
    assert sg.grad(lambda x: np.where(x > 0, sg.checkpoint(np.sqrt)(x), 0.0))(0.0) == 0.0


def written_outside(x):
    out = np.zeros(2)

    def step(c, _):
        out[0] = c
        return c + x, None

    return sg.scan(step, 0.0, None, 3)[0] + out[0]


def stored_outside(x):
    kept = []

    def step(c, _):
        kept.append(c * x)
        return c + x, None

    return sg.scan(step, 0.0, None, 3)[0] + kept[0]


@pytest.mark.parametrize("function", [written_outside, stored_outside], ids=lambda f: f.__name__)
def test_what_a_step_makes_stays_inside(function):
    with pytest.raises(sg.SymgradError, match="is read outside of it") as caught:
        sg.jit(function)(1.0)
    assert "test_control.py" in str(caught.value)


def test_outside_of_a_trace():
    assert sg.switch(2, [lambda: 1, lambda: 2, lambda: 3]) == 3
    assert sg.cond(True, lambda x: x + 1, lambda x: x - 1, 1) == 2
    assert sg.while_loop(lambda v: v[0] < 3, lambda v: (v[0] + 1, v[1] * 2), (0, 1.0)) == (3, 8.0)
    total, parts = sg.scan(lambda c, x: (c + x["a"], {"t": c}), 0, {"a": np.arange(4)})
    assert (total, parts["t"].tolist()) == (6, [0, 0, 1, 3])


def test_a_loop_whose_number_of_steps_is_an_argument():
    f = sg.jit(lambda n, x: sg.fori_loop(0, n, lambda _, v: v * x, 1.0))
    assert [f(n, 2.0) for n in (0, 1, 10)] == [1.0, 2.0, 1024.0]


def test_programs_keep_their_size():
    """The C grows by tiles and threads of what stands beside the loops, not by the number of steps."""
    ours, _, args, by = both("recurrent")
    def lines(steps):
        return sg.value_and_grad(ours, argnums=by).lower(*args[:2], np.zeros((steps, 3))).as_text("c").count("\n")

    few, many, most = map(lines, (100, 200_000, 2_000_000))
    assert many < few + 50 + 18, "of which 18 ask whether threads are awake"
    assert most <= many


def test_one_loop_for_value_and_gradient():
    ours, _, args, by = both("recurrent")
    text = sg.value_and_grad(ours, argnums=by).lower(*args).as_text()
    assert text.count("ops.scan(") == 2


def test_loops_over_arguments_are_one_where_one_is_given_more():
    def chain(A, pi, B):
        def step(a, b):
            m = np.max(a)
            return np.log(np.exp(a - m) @ np.exp(A)) + m + b, None

        return np.sum(sg.scan(step, pi, B)[0])

    lowered = sg.value_and_grad(chain, argnums=(0, 1, 2)).lower(np.zeros((3, 3)), np.zeros(3), np.zeros((5, 3)))
    assert lowered.as_text().count("ops.scan(") == 2  # there and back


def test_products_leave_the_loop():
    ours, _, args, by = both("batch, large")
    text = sg.value_and_grad(ours, argnums=by).lower(*args).as_text()
    assert 'np.einsum("amk,kn->amn"' in text, "all rows are multiplied at once"
    assert text.count('_bar: "float64[12,12]"') == 0, "no weight's gradient is carried"


def test_what_is_the_same_in_all_steps_is_no_row():
    """The exponentials of a matrix are computed before the loop, and its gradient is one product behind it."""
    def forward(A, rows):
        return np.sum(sg.scan(lambda a, b: (np.log(np.exp(a) @ np.exp(A)) + b, None), rows[0], rows)[0])

    text = sg.grad(forward).lower(np.ones((20, 20)), np.ones((30, 20))).as_text()
    assert text.count("np.exp(A)") == 1
    assert 'np.einsum("an,ak->kn"' in text


def test_a_loop_back_carries_nothing_that_nobody_reads():
    """Runs of steps that are computed again are loops of as many steps as there were: of these it is true, too."""
    def root(a):
        def body(s):
            return 0.5 * (s[0] + a / s[0]), s[1] + s[2], np.sin(s[2])

        return sg.while_loop(lambda s: np.abs(s[0] * s[0] - a) > 1e-9, body, (a, 0.0 * a, a))[0]

    slope = sg.grad(root, options=INTERPRETED)
    assert abs(slope(2.0) - 0.5 / np.sqrt(2.0)) < 1e-9
    text = slope.lower(2.0).as_text()
    assert "counted(" in text
    assert "np.sin(" not in text


def test_a_step_writes_in_place():
    """What is carried is not copied, and of an array a step touches the rows that it reads and writes."""
    def written(x):
        def step(carry, t):
            h, out = carry
            out = np.copy(out)
            out[t + 1] = np.sin(out[t]) + h
            return (h * x, out), None

        (h, out), _ = sg.scan(step, (x, np.zeros((201, 16))), np.arange(200))
        return np.sum(out**2) + np.sum(h)

    text = sg.value_and_grad(written).lower(np.ones(16)).as_text("loops")
    for steps in ("    for t1 in range(200):\n", "    for t1 in reversed(range(200)):\n"):
        body = text.partition(steps)[2].split("\n    for ")[0]
        assert body.count("for ") == 1, body
        assert "201" not in body.replace("at(", "").replace(", 201)", ""), body


def test_products_for_all_steps_are_shared_by_threads():
    def layer(W, U, xs):
        def step(h, x):
            h = np.tanh(x @ W + h @ U)
            return h, h

        return np.sum(sg.scan(step, np.zeros((xs.shape[1], 96)), xs)[1] ** 2)

    arguments = np.ones((64, 96)), np.ones((96, 96)), np.ones((100, 32, 64))
    low = sg.value_and_grad(layer, argnums=(0, 1), options=sg.Options(threads=2)).lower(*arguments)
    assert low.as_text("loops").count(" in tiles(") >= 3, "xs @ W, and two weights' gradients"


def test_a_loop_back_needs_no_sympy():
    program = """
import sys, numpy as np, symgrad as sg
f = lambda x: np.sum(sg.scan(lambda h, _: (np.sin(h) * x, h), x, None, 40)[1])
sg.value_and_grad(f)(np.ones(3))
assert "sympy" not in sys.modules
"""
    plain = {**os.environ, "SYMGRAD_VERIFY": "0"}
    subprocess.run([sys.executable, "-c", program], check=True, env=plain)


WRONG = {
    "no pair": (lambda: sg.jit(lambda x: sg.scan(lambda c, _: c, 0.0, x))(np.ones(3)), "returns a pair (carry, y)"),
    "another structure": (
        lambda: sg.jit(lambda x: sg.scan(lambda c, x: ((c, c), x), 0.0, x))(np.ones(3)), "returns PyTreeSpec((*, *)",
    ),
    "another shape": (
        lambda: sg.jit(lambda x: sg.scan(lambda c, x: (c + np.ones(2), x), np.zeros(()), x))(np.ones(3)),
        "float64 of shape ()",
    ),
    "another dtype": (
        lambda: sg.jit(lambda x: sg.scan(lambda c, x: (c + x, x), np.float32(0), x))(np.ones(3)), "returns float64",
    ),
    "no rows": (lambda: sg.scan(lambda c, _: (c, None), 0.0), "is given no rows"),
    "rows of different number": (
        lambda: sg.scan(lambda c, _: (c, None), 0.0, (np.ones(3), np.ones(4))), "goes along rows of different number",
    ),
    "a row of nothing": (lambda: sg.scan(lambda c, _: (c, None), 0.0, 1.0), "which has no axis"),
    "a negative length": (lambda: sg.scan(lambda c, _: (c, None), 0.0, None, -1), "sg.scan of -1 steps"),
    "a condition with axes": (
        lambda: sg.jit(lambda x: sg.cond(x > 0, np.sin, np.cos, x))(np.ones(3)),
        "the condition of sg.cond has shape (3,)",
    ),
    "two structures": (
        lambda: sg.jit(lambda x: sg.cond(x > 0, lambda x: (x, x), lambda x: x, x))(1.0),
        "the functions of sg.cond return",
    ),
    "two shapes": (
        lambda: sg.jit(lambda x: sg.cond(x[0] > 0, lambda x: x, lambda x: x[:2], x))(np.ones(3)),
        "float64 of shape (3,) and float64 of shape (2,)",
    ),
    "no branches": (lambda: sg.switch(0, []), "sg.switch of no functions"),
    "no Boolean": (
        lambda: sg.jit(lambda x: sg.while_loop(lambda x: x - 1, lambda x: x, x))(1.0),
        "float64 of shape (), not one Boolean",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(name):
    call, message = WRONG[name]
    with pytest.raises(sg.SymgradError) as caught:
        call()
    assert message in str(caught.value)
    assert name.startswith("no rows") or "test_control.py" in str(caught.value) or caught.value.line is None


def test_a_row_that_is_carried_on():
    """A state that is the row before is read from the rows, and stacked rows are the rows."""
    def differences(x):
        return sg.scan(lambda before, row: (row, (row - before, row)), np.zeros(()), x)

    last, (steps, rows) = sg.jit(differences, options=VERIFIED)(np.array([1.0, 4.0, 9.0]))
    assert (last, steps.tolist(), rows.tolist()) == (9.0, [1.0, 3.0, 5.0], [1.0, 4.0, 9.0])
    slope = sg.grad(lambda x: np.sum(differences(x)[1][0] ** 2), options=VERIFIED)
    assert slope(np.array([1.0, 4.0, 9.0])).tolist() == [2 * 1 - 2 * 3, 2 * 3 - 2 * 5, 2 * 5]


def mixed(W, xs):
    """A scan, a while loop and a branch in one function."""
    h, _ = sg.scan(lambda h, x: (np.tanh(W @ h + x), None), np.zeros(3), xs)
    n = sg.while_loop(lambda v: v > 0.1, lambda v: 0.5 * v, np.sum(h**2) + 1.0, max_steps=30)
    return sg.cond(n > 0.05, lambda n: n * np.sum(h), lambda n: n * n, n)


def test_packages_and_reports(tmp_path):
    package = sg.emit(mixed, (sg.spec("f64[3,3]"), sg.spec("f64[n,3]")), tmp_path)
    assert package.report["functions"][0]["operations"]["tanh"] == "3*n"
    source = (tmp_path / f"{package.name}.c").read_text()
    assert "while (" in source
    function = sg.value_and_grad(mixed)
    function(0.4 * np.eye(3), np.ones((6, 3)))
    assert "tanh" in str(function.cost())
    assert function.memory().peak > 0
    assert "test_control.py" in str(function.report())


def root_of_steps(x):
    def step(h, x):
        h = h - x
        return np.sqrt(h), h

    return sg.scan(step, 1.0, x)[0]


def root_in_a_while(x):
    def body(h):
        return np.sqrt(h - x[0])

    return sg.while_loop(lambda h: h > -1, body, 1.0) + 0 * x[1]


def root_in_a_branch(x):
    return sg.cond(x[0] < 0, lambda x: np.exp(x[1]), lambda x: np.log(x[1]), -x)


@pytest.mark.parametrize(("function", "source"), [
    (root_of_steps, "return np.sqrt(h), h"), (root_in_a_while, "return np.sqrt(h - x[0])"),
    (root_in_a_branch, "lambda x: np.log(x[1])"),
], ids=lambda f: getattr(f, "__name__", ""))
def test_where_a_nan_began(function, source):
    """The line inside of the loop or of the branch is named."""
    f = sg.jit(function, options=sg.Options(debug_nans=True))
    with pytest.raises(sg.SymgradError, match="gives NaN or Inf") as caught:
        f(np.ones(4))
    assert source in str(caught.value)


def test_no_nan_is_where_none_is_used():
    f = sg.jit(lambda x: sg.scan(lambda h, x: (h + np.where(x > 0, np.sqrt(x), 0.0), None), 0.0, x)[0],
               options=sg.Options(debug_nans=True))
    assert f(np.array([4.0, -1.0])) == 2.0


def test_loops_in_loops_are_weighed_once(monkeypatch):
    """Each stands for one statement for each of its results: what is in it is not weighed again for each."""
    def nest(x, depth):
        if not depth:
            return x * 0.5, x + 1
        return sg.scan(lambda c, _: (nest(c[0] * c[1], depth - 1), None), (x, np.cos(x)), None, 2)[0]

    weighed = []
    estimate = cost.estimate

    def counted(statement):
        weighed.append(statement)
        return estimate(statement)

    monkeypatch.setattr(cost, "estimate", counted)
    counts = []
    for depth in (3, 6):
        weighed.clear()
        sg.grad(lambda x, depth=depth: sum(nest(x, depth))).lower(0.3).as_text("c")
        counts.append(len(weighed))
    assert counts[1] < 6 * counts[0]


def test_branches_know_numbers_and_make_nothing_that_nobody_reads():
    def f(x, y):
        kept, _, _ = sg.cond(x > 0, lambda a, b, c: (a * b, np.sin(c), a), lambda a, b, c: (a - b, c, c), x, 1.0, y)
        return kept

    for x in (2.0, -3.0):
        assert sg.value_and_grad(f)(x, 0.5) == (x if x > 0 else x - 1, 1)
    text = sg.value_and_grad(f).lower(2.0, 0.5).as_text("optimized")
    assert "np.sin" not in text
    assert "*" not in text
    assert "ops.cond(v1, x, then=" in text


ENDS = np.array([0, 3, 3, 7, 10])
SEGMENTS: dict[str, Any] = {
    "counted": lambda d, s, e: sg.fori_loop(s, e, lambda k, total: total + d[k] ** 2, 0.0),
    "while": lambda d, s, e: sg.while_loop(lambda t: t[0] < e, lambda t: (t[0] + 1, t[1] + d[t[0]] ** 2), (s, 0.0))[1],
    "asked": lambda d, s, e: sg.while_loop(lambda t: d[t[0]] < e - 0.5, lambda t: (t[0] + 1, t[1] + d[t[0]] ** 2),
                                           (s, 0.0))[1],
}


def test_an_example_that_is_done_looks_nowhere() -> None:
    """Of places that examples compute, those of an example that has ended were out of bounds, and refused."""
    def every(d: Any, ends: Any) -> list[Any]:
        found = []
        for f in SEGMENTS.values():
            def rows(d: Any, f: Any = f) -> Any:
                return sg.vmap(lambda s, e: f(d, s, e))(ends[:-1], ends[1:])

            def steps(d: Any, f: Any = f) -> Any:
                return sg.scan(lambda c, x: (c, f(d, *x)), 0.0, (ends[:-1], ends[1:]))[1]

            counted = f is SEGMENTS["counted"]
            many = sg.vmap(lambda x, rows=rows: rows(x))(np.stack([d, 2.0 * d]))[0] if counted else rows(d)
            slope = sg.grad(lambda d, rows=rows: np.sum(rows(d)))(d) if counted else 2 * d
            found += [rows(d), steps(d), many, slope]
        return found

    d = np.arange(11.0)
    sums = [np.sum(d[s:e] ** 2) for s, e in itertools.pairwise(ENDS)]
    inside = np.where(d < 10, 2 * d, 0)
    for k, found in enumerate(sg.jit(every, options=sg.Options(verify=True))(d, ENDS)):
        np.testing.assert_allclose(found, sums if k % 4 < 3 else inside if k == 3 else 2 * d, rtol=1e-14)
