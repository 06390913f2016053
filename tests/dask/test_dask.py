"""Losses over Dask's chunks: NumPy's numbers, the same bits on one thread and many processes, what is refused."""

from __future__ import annotations

import io
import os
import pickle
import signal
import subprocess
import sys
from itertools import pairwise
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse
from dask import delayed
from scipy.optimize import minimize

import symgrad as sg
from symgrad.dask import chunks as travelling
from symgrad.errors import ArgumentError, ArgumentValueError, IndexOutOfBounds, LeftBehindError, NonFiniteError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1000, 5))
Y = np.sin(X @ RNG.normal(size=5))
ROWS = (300, 1, 0, 250, 448, 1)
STARTS = np.cumsum((0, *ROWS))
EACH = [slice(a, b) for a, b in pairwise(STARTS)]
DX, DY = da.from_array(X, chunks=(ROWS, (5,))), da.from_array(Y, chunks=(ROWS,))
SCALE = np.full(5, 2.0)


class Params(NamedTuple):
    w: Any
    b: Any


START = Params(np.linspace(-1.0, 1.0, 5), 0.5)


def loss(p, X, settings, y):
    r = np.tanh(X * SCALE @ p.w + p.b) - y
    return np.mean(r * r) + settings["l2"] * np.sum(p.w**2)


def branching(w, X):
    """Three paths, one of them for chunks of one row that is negative."""
    s = np.sum(X[:, 0])
    if s > 0.0:
        return s * w
    return w * w * s if X.shape[0] > 1.0 and np.max(X) > 0.0 else w**3


@pytest.fixture(params=["synchronous", "threads", "by pickle"])
def scheduler(request, monkeypatch):
    if request.param == "by pickle":
        of = travelling.Sent.of
        monkeypatch.setattr(travelling.Sent, "of", lambda f: pickle.loads(pickle.dumps(of(f))))
    with dask.config.set(scheduler="threads" if request.param == "threads" else "synchronous"):
        yield


OVER = sg.dask.value_and_grad(loss, chunked=("X", "y"))
WHOLE = OVER(START, DX, {"l2": 0.1}, DY)


def test_a_mean_over_unequal_and_empty_chunks_is_that_of_all_rows(scheduler):
    value, grads = OVER(START, DX, {"l2": 0.1}, DY)
    expected, slopes = sg.value_and_grad(loss)(START, X, {"l2": 0.1}, Y)
    np.testing.assert_allclose(value, expected, rtol=1e-13)
    assert isinstance(grads, Params)
    np.testing.assert_allclose(grads.w, slopes.w, rtol=1e-12)
    np.testing.assert_allclose(grads.b, slopes.b, rtol=1e-12)
    assert (value, grads.w.tolist(), grads.b) == (WHOLE[0], WHOLE[1].w.tolist(), WHOLE[1].b)


def test_a_sum_is_that_of_the_chunks_also_on_paths_that_are_met_on_the_way(scheduler):
    over = sg.dask.value_and_grad(branching, "X", "sum")
    for sign in (1.0, -1.0):
        value, slope = over(2.0, sign * DX)
        alone = sg.value_and_grad(branching, dynamic=False)
        parts = [alone(2.0, sign * X[each]) for each in EACH if each.start < each.stop]
        np.testing.assert_allclose([value, slope], np.sum(parts, axis=0), rtol=1e-13)


def test_what_is_read_from_outside_is_read_anew(scheduler, monkeypatch):
    SCALE[:] = 1.0
    try:
        assert OVER(START, DX, {"l2": 0.1}, DY)[0] == pytest.approx(loss(START, X, {"l2": 0.1}, Y), rel=1e-13)
    finally:
        SCALE[:] = 2.0


def test_programs_are_written_once_a_call(scheduler, monkeypatch):
    asked, write = [], sg.Function.as_programs

    def counted(made):
        asked.append(made)
        return write(made)

    monkeypatch.setattr(sg.Function, "as_programs", counted)
    over = sg.dask.value_and_grad(lambda p, X: np.sum(np.sin(X * p)), chunked=("X",), reduce="sum")
    first, again = [over(2.0, DX) for _ in range(2)]
    assert (first, len(asked)) == (again, 3)  # once before there is a program


def test_a_new_rule_is_compiled_for(scheduler):
    """What was compiled is forgotten when a rule that may stand in it is another one."""
    @sg.custom_vjp
    def own(x):
        return x * x

    over = sg.dask.value_and_grad(lambda p, X: np.sum(own(X * p)), chunked=("X",), reduce="sum")
    for factor in (1.0, 3.0):
        own.defvjp(lambda x: (own(x), x), lambda x, g, factor=factor: (factor * g * x,))
        np.testing.assert_allclose(over(2.0, DX)[1], factor * np.sum(2.0 * X * X), rtol=1e-12)


def test_lists_of_delayed_chunks_and_single_precision():
    blocks = [delayed(X.astype(np.float32)[each]) for each in EACH]
    start = Params(np.float32(START.w), np.float32(0.5))
    value, grads = OVER(start, blocks, {"l2": np.float32(0.1)}, [Y[each] for each in EACH])
    assert grads.w.dtype == grads.b.dtype == np.float32
    np.testing.assert_allclose(value, WHOLE[0], rtol=1e-5)
    np.testing.assert_allclose(grads.w, WHOLE[1].w, rtol=1e-4)


def test_unknown_rows_and_many_chunks():
    many = da.from_array(X, chunks=(7, 5))
    known = many[many[:, 0] > 0.0]
    value, slope = sg.dask.value_and_grad(lambda w, X: np.mean((X @ w) ** 2), "X")(START.w, known)
    few = X[X[:, 0] > 0.0]
    np.testing.assert_allclose(value, np.mean((few @ START.w) ** 2), rtol=1e-13)
    np.testing.assert_allclose(slope, 2 * (few @ START.w) @ few / len(few), rtol=1e-12)


def test_gradients_by_rows_of_a_table_stay_rows(scheduler):
    table, ids = np.arange(20000.0).reshape(10000, 2), np.array([7, 3, 7, 9999, 3, 0])
    over = sg.dask.value_and_grad(lambda p, ids: np.mean(p["E"][ids] ** 2) * p["s"], "ids", sparse=True)
    value, grads = over({"E": table, "s": 2.0}, da.from_array(ids, chunks=((3, 0, 2, 1),)))
    expected, whole = sg.value_and_grad(lambda E: np.mean(E[ids] ** 2) * 2.0)(table)
    np.testing.assert_allclose(value, expected, rtol=1e-14)
    assert grads["E"].indices.tolist() == [0, 3, 7, 9999]
    np.testing.assert_allclose(grads["E"].to_dense(), whole, rtol=1e-14)


def test_a_compiled_step_and_fit_take_it_as_a_loss():
    def squares(p, X, y):
        return np.mean((X @ p["w"] + p["b"] - y) ** 2)

    opt, start = sg.optim.momentum(0.1, 0.5), {"w": np.zeros(5), "b": np.float64(0.0)}
    over = sg.dask.value_and_grad(squares, ("X", "y"))
    for frozen in ((), ("b",)):
        step, plain = [sg.compile_step(one, opt, frozen=frozen) for one in (over, squares)]
        found = sg.fit(step, start, opt.init(start), [(DX, DY)], epochs=5, validation=lambda p: over(p, DX, DY)[0])
        params, state = start, opt.init(start)
        for _ in range(5):
            params, state, _ = plain(params, state, X, Y)
        np.testing.assert_allclose(found[0]["w"], params["w"], rtol=1e-12)
        np.testing.assert_allclose(found[0]["b"], params["b"], rtol=1e-12)
        assert step.unused == []


@pytest.mark.parametrize("bad", [0, 2])
def test_a_step_names_the_chunk_and_the_line_of_nan(scheduler, bad):
    """Of what comes first: the others are not looked at."""
    def rooted(w, X):
        return np.mean(np.sqrt(X @ w))

    opt, start = sg.optim.sgd(0.1), np.ones(5)
    over = sg.dask.value_and_grad(rooted, "X")
    for one, told in ((over, f"chunk {bad}: sqrt, "), (sg.value_and_grad(rooted), "sqrt, ")):
        step = sg.compile_step(one, opt, on_nan="raise")
        positive = [np.abs(X[each]) for each in EACH if each.start < each.stop]
        negative = [-x if k in {bad, 3} else x for k, x in enumerate(positive)]
        of = (lambda parts: parts) if one is over else np.concatenate
        step(start, opt.init(start), of(positive))
        with pytest.raises(NonFiniteError, match=f"^{told}(.|\n)*test_dask.py(.|\n)*np.sqrt"):
            step(start, opt.init(start), of(negative))


def test_it_is_called_twice_where_nobody_has_imported_distributed():
    """Dask imports it in the first call, and what it then sets has to be there in the second one."""
    text = ("import numpy as np, symgrad.dask\n"
            "f = symgrad.dask.value_and_grad(lambda w, X: np.mean(X * w), 'X')\n"
            "print(f(2.0, [np.ones(3)])[0], f(3.0, [np.ones(3)])[0])\n")
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.stdout == "2.0 3.0\n", done.stderr


def test_scipy_minimizes_it():
    over = sg.dask.value_and_grad(lambda w, X, y: np.mean((X @ w - y) ** 2), ("X", "y"))
    fit = minimize(over, np.zeros(5), args=(DX, DY), jac=True, method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(fit.x, np.linalg.lstsq(X, Y, rcond=None)[0], atol=1e-8)


def test_no_code_travels():
    """The pickle of a lambda names symgrad, NumPy and optree, and no function of the user's."""
    over = sg.dask.value_and_grad(lambda w, X: np.sum(X @ w), "X", "sum")
    over(START.w, DX)
    (made,) = over._made.values()
    text = pickle.dumps(travelling.Sent.of(made))
    named = set()

    class Watched(pickle.Unpickler):
        def find_class(self, module, name):
            named.add(module.split(".")[0])
            return super().find_class(module, name)

    sent = Watched(io.BytesIO(text)).load()
    assert named <= {"symgrad", "numpy", "optree", "inspect", "builtins", "collections", "sympy"}
    assert sent.function is pickle.loads(text).function
    with pytest.raises(LeftBehindError, match="it serves"):
        sent.function([np.ones(3)], [], np.ones((2, 3)))


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: sg.dask.value_and_grad(loss, "Z"), ArgumentError, "chunked='Z' is no argument"),
    (lambda: sg.dask.value_and_grad(loss, "p"), ArgumentError, "some of X, settings, y"),
    (lambda: sg.dask.value_and_grad(loss, ()), ArgumentError, "names no argument"),
    (lambda: sg.dask.value_and_grad(lambda w, X: X @ w, "X")(START.w, DX), ArgumentError, "<lambda>.. returns float64"),
    (lambda: sg.dask.value_and_grad(loss, "X", "max"), ArgumentValueError, "reduce='max'"),
    (lambda: sg.dask.value_and_grad(lambda p, X: np.sum(X @ p["w"][0]), "X")({"w": [np.arange(2)]}, DX), ArgumentError,
     "the parameter w/0 is int64: it has no gradient"),
    (lambda: sg.dask.value_and_grad(lambda w, X: np.mean(X @ w), "X")(START.w, [X, np.ma.masked_equal(X, 0)]),
     ArgumentError, "MaskedArray"),
    (lambda: sg.dask.value_and_grad(lambda w, X: np.mean(X @ w), "X")(START.w, [X, scipy.sparse.csr_array(X)]),
     ArgumentError, r"chunk 1 is csr_array, and no array\n  instead: dense arrays, S.toarray\(\)"),
    (lambda: OVER(START, DX), ArgumentError, "loss.. over chunks of X, y, and these are not given"),
    (lambda: OVER(START, X, {"l2": 0.1}, DY), ArgumentError, "X is ndarray, and not in chunks"),
    (lambda: OVER(START, DX.rechunk((300, 2)), {"l2": 0.1}, DY), ArgumentValueError, "its first axis alone"),
    (lambda: OVER(START, DX, {"l2": 0.1}, DY.rechunk(500)), ArgumentValueError, "other numbers of chunks"),
    (lambda: OVER(START, DX, {"l2": 0.1}, da.from_array(Y, chunks=((301, 0, 0, 250, 448, 1),))), ArgumentValueError,
     r"arrays of chunk [01] have the shapes"),
    (lambda: OVER(START, DX[:0], {"l2": 0.1}, DY[:0]), ArgumentValueError, "all 1 chunks are empty"),
    (lambda: OVER(START, [], {"l2": 0.1}, []), ArgumentValueError, "over no chunks"),
    (lambda: sg.dask.value_and_grad(lambda t, i: np.sum(t[i]), "i", "sum")(
        np.ones(3), [np.array([0, 1]), np.array([2, 3])]), IndexOutOfBounds, "chunk 1: an index is out of bounds .* 3"),
    (lambda: sg.dask.value_and_grad(lambda t, i: np.sum(t[i]), "i", "sum")(
        np.ones(3), [np.array([3, 0]), np.array([2, 0])]), IndexOutOfBounds, "chunk 0: an index is out of bounds .* 3"),
    (lambda: sg.compile_step(OVER, sg.optim.sgd(0.1)).memory(START, sg.optim.sgd(0.1).init(START), DX, {"l2": 0.1}, DY),
     ArgumentError, "not one call of C(.|\n)*compile_step.. of the loss itself"),
])
def test_what_makes_no_sense_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_what_machines_are_compared_by():
    one, two, none = [sg.jit(np.sin, options=each).machine for each in (
        sg.Options(threads=1), sg.Options(threads=2), sg.Options(compiler="none"))]
    assert {**two, "threads": "1"} == one
    assert one["threads"] == "1"
    assert {"symgrad", "NumPy", "SciPy", "compiler", "processor"} <= one.keys() & none.keys()
    assert none["compiler"] == "none"


def test_machines_that_differ_are_refused(monkeypatch):
    kinds = iter([("threads", str(1 + k // 4)) for k in range(100)])
    monkeypatch.setattr(sg.Function, "machine", property(lambda _: dict([("symgrad", "1"), next(kinds)])))
    with dask.config.set(scheduler="synchronous"):
        with pytest.raises(ArgumentValueError, match=r"threads: (1 and 2|2 and 1)"):
            OVER(START, DX, {"l2": 0.1}, DY)
        mixed = sg.dask.value_and_grad(loss, chunked=("X", "y"), mixed=True)
        assert mixed(START, DX, {"l2": 0.1}, DY)[0] == WHOLE[0]


# -- on a cluster of processes


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_processes_of_which_one_is_killed_in_the_middle_give_the_same_bits(tmp_path):
    from distributed import Client, LocalCluster

    def loaded(rows, k):
        if k == 9 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return rows

    mark, each = tmp_path / "killed", [slice(k, k + 50) for k in range(0, 1000, 50)]
    settings = {"l2": 0.1}
    expected = OVER(START, [X[one] for one in each], settings, [Y[one] for one in each])
    met = sg.dask.value_and_grad(branching, "X", "sum")(2.0, DX)
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        assert sg.dask.value_and_grad(branching, "X", "sum")(2.0, DX) == met
        ids = da.from_array(np.arange(40) % 7, chunks=15)
        rows = sg.dask.value_and_grad(lambda p, i: np.mean(p["E"][i] ** 2), "i", sparse=True)
        dense = sg.grad(lambda p, i: np.mean(p["E"][i] ** 2))(table := {"E": np.ones((9, 2))}, np.arange(40) % 7)
        np.testing.assert_allclose(rows(table, ids)[1]["E"].to_dense(), dense["E"], rtol=1e-14)
        blocks = [delayed(loaded)(X[one], k) for k, one in enumerate(each)]
        value, grads = OVER(START, blocks, settings, [Y[one] for one in each])
    assert mark.exists()
    assert (value, grads.w.tolist(), grads.b) == (expected[0], expected[1].w.tolist(), expected[1].b)
