"""Any number of arrays: beyond what a C function should have of parameters, their addresses are one."""

from __future__ import annotations

import cProfile
import pickle
import subprocess
from dataclasses import replace

import numpy as np
import pytest
import scipy.integrate

import symgrad as sg
from symgrad.render.source import PARAMETERS
from tests.table import GENTLY

MANY = 200
"""More than 398 pointers, together with their gradients: cffi's types end there."""

SQUARES = np.arange(600.0)
"""Too large to be text: an array that is passed, too."""


def energy(params):
    """A loss of arrays in dicts and lists, of numbers and integers, all of which it reads."""
    total = np.sum(np.take(SQUARES, params["k"]))
    for p in params["arrays"]:
        total = total + np.sum(np.tanh(p) * p)
    for a, b in zip(params["numbers"][1:], params["numbers"], strict=False):
        total = total + a * b
    return total


def drawn(count, seed=0, numbers=float):
    rng = np.random.default_rng(seed)
    arrays = [rng.uniform(-1, 1, [(), (3,), (2, 2)][k % 3]) for k in range(count)]
    return {"arrays": arrays, "numbers": [numbers(v) for v in rng.uniform(-1, 1, 9)], "k": np.array([5, 20])}


def slopes(params):
    found = [np.tanh(p) + p / np.cosh(p) ** 2 for p in params["arrays"]]
    v = [0.0, *params["numbers"], 0.0]
    return [*found, *[v[k] + v[k + 2] for k in range(len(params["numbers"]))]]


def check(params, value, gradient):
    np.testing.assert_allclose(value, energy(params), rtol=1e-12)
    for got, want in zip([*gradient["arrays"], *gradient["numbers"]], slopes(params), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


def loss(floats, k):
    return energy({**floats, "k": k})


def parted(params):
    return {key: params[key] for key in ("arrays", "numbers")}, params["k"]


@pytest.fixture(scope="module")
def compiled():
    return sg.value_and_grad(loss, options=GENTLY)


@pytest.mark.parametrize("numbers", [float, np.array], ids=["Python's numbers", "arrays alone"])
def test_value_and_gradient_of_many(compiled, numbers):
    """The first call, the short ones, by C or by Python, of arrays that are in the way too; and bound."""
    function = compiled
    for seed in range(3):
        params = drawn(MANY, seed, numbers)
        check(params, *function(*parted(params)))
    assert function.prototype.startswith("int32_t sg_loss(void *const *arrays, ")
    params["arrays"][1] = np.repeat(params["arrays"][1], 2)[::2]
    params["arrays"][2] = np.asfortranarray(params["arrays"][2])
    check(params, *function(*parted(params)))
    params = drawn(MANY, 7, numbers)
    bound = function.bind(*parted(params))
    params["arrays"][4][...] = 0.5  # a vector, which is read as it is then
    check(params, *bound())


def test_what_fits_no_more_is_compiled_for(compiled):
    params = drawn(MANY)
    check(params, *compiled(*parted(params)))
    params["arrays"][7] = np.array([1.0, 2.0, 3.0, 4.0])
    check(params, *compiled(*parted(params)))
    with pytest.raises(sg.errors.IndexOutOfBounds, match="size 600"):
        compiled(parted(params)[0], np.array([0, 600]))


def test_in_every_mode():
    params = drawn(PARAMETERS - 9)
    floats, k = parted(params)
    ones = {"arrays": [np.ones_like(a) for a in floats["arrays"]], "numbers": [1.0] * 9}
    total = sum([np.sum(a) for a in slopes(params)])
    value, tangent = sg.jvp(lambda floats: loss(floats, k), (floats,), (ones,))
    np.testing.assert_allclose((value, tangent), (energy(params), total), rtol=1e-12)
    value, pull = sg.vjp(lambda floats: loss(floats, k), floats)
    check(params, value, pull(1.0)[0])
    rows = {key: [np.stack([a, np.asarray(a) / 2]) for a in floats[key]] for key in floats}
    batch = sg.vmap(lambda floats: loss(floats, k), in_axes=({"arrays": 0, "numbers": 0},))(rows)
    halves = {key: [np.asarray(a) / 2 for a in floats[key]] for key in floats}
    np.testing.assert_allclose(batch, [energy(params), energy({**halves, "k": k})], rtol=1e-12)


def test_open_extents_threads_and_polls():
    def waves(ps):
        return sum([np.sum(np.tanh(p) * p) for p in ps])

    specs = [sg.spec("f64[n]"), sg.spec("f64[n,3]"), sg.spec("f64[4]")] * 22
    function = sg.value_and_grad(waves, specs=(specs,), options=GENTLY)
    for n in (5, 5, 0, 7, 5):
        ps = [np.linspace(-1.0, 1.0, 12)[:n], np.ones((n, 3)), np.arange(4.0)] * 22
        for _ in range(2):
            value, gradient = function(ps)
            np.testing.assert_allclose(value, waves(ps), rtol=1e-12)
            np.testing.assert_allclose(gradient[3], np.tanh(ps[0]) + ps[0] / np.cosh(ps[0]) ** 2, rtol=1e-12)
    with pytest.raises(ValueError, match="n"):
        function([*ps[:-3], np.ones(6), *ps[-2:]])
    large = sg.value_and_grad(lambda ps: np.sum(sum([p * p for p in ps])), options=replace(GENTLY, threads=2))
    ps = [np.full(200_000, 1.0 * k) for k in range(70)]
    for _ in range(2):
        value, gradient = large(ps)
        assert value == 200_000 * sum([k * k for k in range(70)])
        assert all((g == 2.0 * k).all() for k, g in enumerate(gradient))


def test_a_callback_of_many():
    def wave(x, *arrays):
        return np.sin(x[0]) * sum([np.sum(a) for a in arrays])

    arrays = [np.full(2, k / 100) for k in range(PARAMETERS + 5)]
    made = sg.jit(wave, options=GENTLY).low_level_callable(*arrays, size=1)
    np.testing.assert_allclose(scipy.integrate.quad(made, 0, np.pi)[0], 2 * sum([np.sum(a) for a in arrays]), rtol=1e-9)
    arrays[3][0] = 100.0
    np.testing.assert_allclose(scipy.integrate.quad(made, 0, np.pi)[0], 2 * sum([np.sum(a) for a in arrays]), rtol=1e-9)


def test_a_saved_one(compiled):
    params = drawn(MANY)
    check(params, *compiled(*parted(params)))
    again = pickle.loads(pickle.dumps(compiled))
    check(params, *again(*parted(params)))


@pytest.mark.parametrize("count", [PARAMETERS - 1, PARAMETERS])
def test_where_parameters_end(count):
    """So many arrays and a result: those of a function that C promises to take, and one more; as names, too."""

    def f(arrays, threads, workspace):
        return sum([a[0] for a in arrays]) + arrays[0][0] * threads[0] * workspace[0]

    arrays = [np.array([float(k)]) for k in range(count - 2)]
    function = sg.jit(f, options=GENTLY)
    for _ in range(2):
        assert function(arrays, np.array([2.0]), np.array([3.0])) == sum(range(count - 2))
    assert ("void *const *" in function.prototype) == (count + 1 > PARAMETERS)


def test_a_name_that_many_have():
    def f(arrays, arrays_):
        return sum([a[0] for a in arrays]) * arrays_[0]

    function = sg.value_and_grad(f, options=GENTLY)
    value, gradient = function([np.array([1.0])] * 150, np.array([2.0]))
    assert value == 300.0
    assert [g.tolist() for g in gradient] == [[2.0]] * 150


def test_a_package_of_many(tmp_path):
    """Its functions have a parameter for each array, by name: compilers take them, and people read them."""
    def f(ps, x):
        return sum([np.sum(p * p) for p in ps]) * x

    specs = ([sg.spec("f64[2]")] * PARAMETERS, sg.spec("f64[]"))
    sg.emit(f, specs, tmp_path / "many")
    done = subprocess.run(["make", "-C", tmp_path / "many", "check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def total(ps):
    found = 0.0
    for p in ps:
        found = found + np.sum(p * p)
    return found


def test_what_is_done_is_in_proportion():
    """Every call that is made before a compiler is: four times the leaves are little more than four times as many."""
    made = {}
    for count in (100, 400):
        profile = cProfile.Profile()
        ps = [np.full(3, 1.0 * k) for k in range(count)]
        lowered = profile.runcall(sg.value_and_grad(total).lower, ps)
        profile.runcall(lowered.as_text, "c")
        made[count] = sum([entry.callcount for entry in profile.getstats()])
    assert made[400] < 4.5 * made[100]


@pytest.mark.nightly
def test_five_thousand():
    ps = [np.full(3, 1.0 * k) for k in range(5000)]
    function = sg.value_and_grad(total, options=GENTLY)
    for _ in range(2):
        value, gradient = function(ps)
        assert value == total(ps)
        assert all((g == 2.0 * k).all() for k, g in enumerate(gradient))
