"""`fit`: the bits of a plain loop, killed and interrupted at any moment; its data, its ends, what it refuses."""

from __future__ import annotations

import io
import multiprocessing
import os
import random
import signal
import sys
import time
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import symgrad as sg
from symgrad.api.step.step import Step as Trained
from symgrad.errors import ArgumentError, ArgumentValueError, NonFiniteError, SerializationError
from symgrad.train.batches import permutation
from tests.train.test_files import same

RNG = np.random.default_rng(0)
X = RNG.normal(size=(103, 6))
Y = np.sin(X @ RNG.normal(size=6))
OPT = sg.optim.chain(sg.optim.clip_by_global_norm(1.0), sg.optim.adam(0.01))
START = {"one": sg.nn.init.dense(0, 6, 8), "out": sg.nn.init.dense(1, 8, 1)}


def loss(params, x, y):
    return np.mean((sg.nn.dense(params["out"], np.tanh(sg.nn.dense(params["one"], x)))[:, 0] - y) ** 2)


GRADIENT = sg.value_and_grad(loss, dynamic=False)


@sg.jit
def update(params, grads, state):
    return OPT.update(params, grads, state)


class Step:
    gradients = staticmethod(GRADIENT)

    def __call__(self, params, state, *batch):
        value, grads = GRADIENT(params, *batch)
        return (*update(params, grads, state), value)


step = Step()


def run(step=step, **given):
    usual: dict[str, Any] = {"data": (X, Y), "batch": 16, "seed": 3, "epochs": 4}
    return sg.fit(step, START, OPT.init(START), **usual | given)


def fresh():
    """A step that has met no shapes yet: what it is compiled for, and so its last bits, depends on those it meets."""
    return sg.compile_step(loss, OPT)


@pytest.fixture(scope="module")
def whole():
    return run(validation=(X, Y))


def test_it_is_the_plain_loop(whole):
    params, state = START, OPT.init(START)
    values, validations = [], []
    for epoch in range(4):
        order = permutation(3, epoch, 103)
        for k in range(0, 103, 16):
            params, state, value = step(params, state, X[order[k : k + 16]], Y[order[k : k + 16]])
            values.append(value)
        validations.append(GRADIENT(params, X, Y)[0])
    assert same((params, state), whole[:2])
    assert whole[2]["value"].tolist() == values
    assert whole[2]["validation"].tolist() == validations
    assert same(run(callbacks=[lambda *_: None])[:2], whole[:2])


@pytest.fixture
def joined(monkeypatch):
    """The calls of several steps each, as soon as there are two; as numbers of rows."""
    calls, epoch = [], Trained.epoch

    def counted(*args, order, **given):
        calls.append(len(order))
        return epoch(*args, order=order, **given)

    monkeypatch.setattr(Trained, "epoch", counted)
    monkeypatch.setattr(sys.modules["symgrad.train.fit"], "_TOGETHER", 10.0)
    return calls


@pytest.mark.parametrize("donate", [False, True])
def test_steps_that_nobody_looks_between_are_one_call_with_the_same_bits(joined, tmp_path, donate):
    def trained(**given):
        start = {name: {part: array.copy() for part, array in layer.items()} for name, layer in START.items()}
        step = sg.compile_step(lambda *args: (loss(*args), 1.0), OPT, donate=donate, has_aux=True)
        return sg.fit(step, start, OPT.init(start), (X, Y), batch=16, seed=3, epochs=4, **given)

    alone = trained(callbacks=[lambda *_: None])
    assert {*joined} == {16, 7}
    joined.clear()
    assert same(trained(), alone)
    assert joined[-2:] == [96, 7]  # six full batches; seven rows are a step of their own
    joined.clear()
    path = tmp_path / "kept.npz"
    assert same(trained(checkpoint=path, every=5), alone)
    assert joined
    assert max(joined) <= 5 * 16
    assert len(sg.load(path)["fit"]["value"]) == len(alone[2]["value"])


def branching(p, x, y):
    return loss_of(p, x, y) if x[0, 0] > 0 else 2 * loss_of(p, x, y)


def loss_of(p, x, y):
    return np.mean(sg.nn.softmax_cross_entropy(sg.nn.dense(p, x), y))


@pytest.mark.parametrize("what", [loss_of, branching])
@pytest.mark.parametrize(("rows", "width", "batch"), [(203, 5, 64), (569, 30, 64), (300, 10, 32)])
def test_bits_depend_on_nothing_that_is_timed(rows, width, batch, what, tmp_path, monkeypatch):
    """Steps that read rows where they lie round otherwise than steps by themselves: all are of one kind."""
    rng = np.random.default_rng(width)
    x, y = rng.normal(size=(rows, width)), rng.integers(0, 3, rows)
    params = sg.nn.init.dense(0, width, 3)

    def trained(epochs=6, **given):
        step = sg.compile_step(what, OPT)
        return sg.fit(step, params, OPT.init(params), (x, y), epochs=epochs, batch=batch, seed=1, **given)

    whole = trained()
    for epochs in (1, 4):
        path = tmp_path / f"{epochs}.npz"
        trained(epochs, checkpoint=path)
        assert same(trained(checkpoint=path), whole), epochs
    assert same(trained(callbacks=[lambda *_: None]), whole)
    path = tmp_path / "steps.npz"
    with pytest.raises(ZeroDivisionError):
        trained(checkpoint=path, every=3, callbacks=[lambda step, *_: 1 // (7 - step)])
    assert same(trained(checkpoint=path, every=3), whole)
    reads = iter(range(10**6))
    monkeypatch.setattr(
        sys.modules["symgrad.train.fit"], "perf_counter", lambda: time.perf_counter() + 3.0 * (next(reads) > 6),
    )
    assert same(trained(), whole)


@pytest.mark.parametrize("on_nan", [None, "raise"])
def test_what_a_step_of_several_refuses_it_refuses_as_it_does_alone(joined, on_nan):
    table = np.ones(4)

    def told(labels, **given):
        opt = sg.optim.sgd(0.0)
        step = sg.compile_step(lambda w, k: np.mean(np.log(w[k])), opt, on_nan=on_nan)
        with pytest.raises((IndexError, NonFiniteError)) as found:
            sg.fit(step, table, opt.init(table), labels, batch=4, seed=0, **given)
        return type(found.value), str(found.value)

    labels = np.zeros(40, np.int64)
    labels[permutation(0, 0, 40)[30]] = 4
    assert told(labels) == told(labels, callbacks=[lambda *_: None])
    assert joined
    table[3], labels[labels == 4] = np.nan, 3
    assert told(labels) == told(labels, callbacks=[lambda *_: None])


def test_the_order_of_rows_is_what_it_was():
    """Numbers that no version of NumPy may change."""
    assert permutation(7, 2, 12).tolist() == [2, 5, 9, 7, 3, 0, 6, 8, 4, 1, 11, 10]
    orders = {tuple(permutation(seed, epoch, 50)) for seed in (0, 1, 2**64 - 1) for epoch in range(3)}
    assert len(orders) == 9
    assert {tuple(sorted(order)) for order in orders} == {(*range(50),)}


# -- ended and begun again


def killed(path, kills, epochs, made, longest):
    """Train in processes that are killed at random moments; return how many were."""
    context, draw = multiprocessing.get_context("fork"), random.Random(0)
    for count in range(kills + 1):
        begun = context.Event()

        def train(begun=begun):
            begun.set()
            run(made(), epochs=epochs, checkpoint=path, every=5, validation=(X, Y))

        process = context.Process(target=train)
        process.start()
        begun.wait()
        if count < kills:
            time.sleep(draw.uniform(0, longest))
            process.kill()
        process.join()
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
    return count


@pytest.mark.parametrize(("kills", "epochs", "made"), [
    (5, 30, fresh), (20, 60, lambda: step), pytest.param(200, 500, lambda: step, marks=pytest.mark.nightly),
])
def test_killed_at_any_moment_it_ends_with_the_same_bits(tmp_path, monkeypatch, kills, epochs, made):
    if kills < 200:  # by day: a kill is no power failure, and disks are slow
        monkeypatch.setattr(os, "fsync", lambda _: None)
    path = tmp_path / "run.npz"
    with sg.set_num_threads(1):  # as forked processes have
        unbroken = run(made(), epochs=epochs, validation=(X, Y))
        assert killed(path, kills, epochs, made, 0.015) == kills
        assert same(run(epochs=epochs, validation=(X, Y), checkpoint=path), unbroken)
    assert {each.name for each in tmp_path.iterdir()} <= {"run.npz", ".run.npz.part"}


@pytest.fixture
def interruptible():
    """Let Ctrl-C interrupt: a background job ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_interrupted_it_ends_the_step_and_goes_on_with_the_same_bits(tmp_path, whole):
    path = tmp_path / "run.npz"
    seen: list[int] = []

    def interrupt(number, *_):
        seen.append(number)
        if number in {5, 14}:  # within an epoch, and behind one's last batch
            os.kill(os.getpid(), signal.SIGINT)

    for number in (5, 14):
        with pytest.raises(KeyboardInterrupt, match=rf"ended after step {number}; .*run.npz goes on from there"):
            run(checkpoint=path, callbacks=[interrupt], validation=(X, Y))
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    found = run(checkpoint=path, callbacks=[interrupt], validation=(X, Y))
    assert same(found, whole)
    assert seen == [*range(1, 29)]
    again = run(checkpoint=path, callbacks=[interrupt], validation=(X, Y))
    assert same(again, whole)
    assert len(seen) == 28
    more = run(checkpoint=path, epochs=5)
    assert same(more[:2], run(epochs=5)[:2])

    def twice(*__):
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError

    with pytest.raises(KeyboardInterrupt):
        run(callbacks=[twice])


@pytest.mark.usefixtures("interruptible")
def test_interrupted_in_steps_that_are_one_call_it_keeps_them(joined, tmp_path, monkeypatch):
    several, path = Trained.epoch, tmp_path / "run.npz"

    def interrupted(*args, **given):
        if len(given["order"]) > 16:
            os.kill(os.getpid(), signal.SIGINT)
        return several(*args, **given)

    expected = run(fresh())
    monkeypatch.setattr(Trained, "epoch", interrupted)
    with pytest.raises(KeyboardInterrupt, match=r"ended after step [3-7]; .*run.npz goes on from there"):
        run(fresh(), checkpoint=path)
    monkeypatch.setattr(Trained, "epoch", several)
    assert same(run(fresh(), checkpoint=path), expected)
    assert len(joined) > 4


@pytest.mark.parametrize("end", [7, 9, 14])
def test_begun_again_it_compiles_what_it_would_have_had(tmp_path, end):
    """Behind the last batch of an epoch, the first shape that a new process meets would be the validation's."""
    unbroken = run(fresh(), validation=(X, Y))

    def stop(number, *_):
        if number == end:
            raise InterruptedError

    batches = [(X[k : k + 16], Y[k : k + 16]) for k in range(0, 103, 16)]
    for data, batch in (((X, Y), 16), (batches, None)):
        path, given = tmp_path / f"{batch}.npz", {"data": data, "batch": batch, "validation": (X, Y)}
        unbroken = run(fresh(), **given)
        with pytest.raises(InterruptedError):
            run(fresh(), callbacks=[stop], checkpoint=path, every=1, **given)
        assert sg.load(path)["fit"]["value"].shape == (end - 1,)
        assert same(run(fresh(), checkpoint=path, **given), unbroken)


@pytest.mark.parametrize(("given", "error", "message"), [
    ({"seed": 4}, ArgumentValueError, "has seed 3, and this call 4"),
    ({"batch": 8}, ArgumentValueError, "has batch 16, and this call 8"),
    ({"data": (X[1:], Y[1:])}, ArgumentValueError, "has rows 103, and this call 102"),
])
def test_a_checkpoint_of_another_training_is_refused(tmp_path, given, error, message):
    run(checkpoint=tmp_path / "c", epochs=1)
    with pytest.raises(error, match=message):
        run(checkpoint=tmp_path / "c", **given)
    other = {"one": START["one"], "out": sg.nn.init.dense(1, 8, 2)}
    with pytest.raises(SerializationError, match=r"params/out/W has the shape \(8, 1\), and \(8, 2\) is wanted"):
        sg.fit(step, other, OPT.init(other), (X, Y), batch=16, seed=3, checkpoint=tmp_path / "c")
    with pytest.raises(SerializationError, match="state/hyper/b1 is in the file, and not wanted"):
        sg.fit(step, START, sg.optim.sgd(0.1).init(START), (X, Y), batch=16, seed=3, checkpoint=tmp_path / "c")
    sg.save(tmp_path / "d", params=START)
    with pytest.raises(ArgumentValueError, match=r"is a file of save\(\), and no checkpoint"):
        run(checkpoint=tmp_path / "d")


def test_texts_among_the_parameters_go_on_as_they_were(tmp_path):
    def loss(params, x, y):
        return np.mean(({"tanh": np.tanh, "sin": np.sin}[params["kind"]](x @ params["w"]) - y) ** 2)

    def trained(kind, epochs, path):
        start = {"kind": kind, "w": np.ones(6)}
        step = sg.compile_step(loss, OPT)
        return sg.fit(step, start, OPT.init(start), (X, Y), batch=16, epochs=epochs, checkpoint=path)

    whole = trained("tanh", 2, tmp_path / "whole")
    trained("tanh", 1, tmp_path / "c")
    assert same(trained("sin", 2, tmp_path / "c"), whole)
    assert whole[0]["kind"] == "tanh"


# -- data


def test_arrays_files_and_batches_give_the_same_bits(tmp_path, whole):
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "F.npy", np.asfortranarray(X))
    np.savez(tmp_path / "both.npz", X=X, y=Y)
    np.savez_compressed(tmp_path / "small.npz", X=X, y=Y)
    assert same(run(batch=np.int64(16), epochs=np.int64(4))[:2], whole[:2])
    sg.save(tmp_path / "ours.npz", X=X, y=Y)
    files = (tmp_path / "X.npy", Y), (str(tmp_path / "F.npy"), Y), tmp_path / "both.npz", str(tmp_path / "ours.npz")
    for data in (*files, [X, Y]):
        assert same(run(data=data)[:2], whole[:2])
    content = (tmp_path / "both.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(content[: len(content) // 2])
    with pytest.raises(ArgumentValueError, match=r"cut.npz: cut short, or no npz"):
        run(data=tmp_path / "cut.npz")
    with pytest.raises(ArgumentValueError, match=r"small.npz: X.npy is compressed"):
        run(data=tmp_path / "small.npz")

    class Batches:
        epoch = 0

        def __iter__(self):
            order = permutation(3, self.epoch, 103)
            self.epoch += 1
            return ((X[order[k : k + 16]], Y[order[k : k + 16]]) for k in range(0, 103, 16))

    assert same(run(data=Batches(), batch=None)[:2], whole[:2])
    batches: list[Any] = [[X[:50], Y[:50]], (X[50:], Y[50:])]
    params, state = START, OPT.init(START)
    for x, y in batches:
        params, state, _ = step(params, state, x, y)
    assert same(run(data=iter(batches), batch=None, epochs=1)[:2], (params, state))


def test_batches_and_validation_may_be_sparse_matrices():
    """As the message for ``batch=`` says: batches of rows, however many elements each has."""
    S, w = scipy.sparse.csr_array(np.where(X > 0.5, X, 0.0)), np.zeros(6)
    opt = sg.optim.sgd(0.1)
    found = []
    for A in (S, S.toarray()):
        step = sg.compile_step(lambda w, A, y: np.mean((A @ w - y) ** 2), opt)
        batches = [(A[k : k + 20], Y[k : k + 20]) for k in range(0, len(Y), 20)]
        found.append(sg.fit(step, w, opt.init(w), batches, epochs=2, validation=(A, Y)))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-12)
    np.testing.assert_allclose(found[0][2]["validation"], found[1][2]["validation"], rtol=1e-12)


def test_structures_of_arrays_are_one_argument():
    def tabled(params, state, table):
        return step(params, state, table["x"], table["y"])

    found = sg.fit(tabled, START, OPT.init(START), {"x": X, "y": Y}, batch=16, seed=3, epochs=4)
    assert same(found[:2], run()[:2])


# -- its ends


def test_it_ends_early_and_stays_ended(tmp_path):
    numbers = iter([3.0, 2.0, 2.5, 2.0, 1.0])
    ended = run(epochs=100, validation=lambda _: next(numbers), patience=2, checkpoint=tmp_path / "c")
    assert ended[2]["validation"].tolist() == [3.0, 2.0, 2.5, 2.0]
    again = run(epochs=100, validation=lambda _: next(numbers), patience=2, checkpoint=tmp_path / "c")
    assert same(again, ended)
    assert next(numbers) == 1.0
    numbers = iter([np.nan, 3.0, np.nan, 2.0, 2.5, np.nan, 1.0])
    ended = run(epochs=100, validation=lambda _: next(numbers), patience=2)
    np.testing.assert_array_equal(ended[2]["validation"], [np.nan, 3.0, np.nan, 2.0, 2.5, np.nan])
    with pytest.raises(ArgumentValueError, match=r"a loss of the shape \(3,\)"):
        run(validation=lambda _: np.ones(3))


def test_nan_ends_it_and_the_checkpoint_is_from_before(tmp_path):
    def bad(params, state, *batch):
        params, after, value = step(params, state, *batch)
        return params, after, np.nan if state["t"] == 9 else value

    with pytest.raises(NonFiniteError, match=r"loss before step 10 \(of epoch 2\) is NaN"):
        sg.fit(bad, START, OPT.init(START), (X, Y), batch=16, epochs=4, checkpoint=tmp_path / "c")
    kept = sg.load(tmp_path / "c")
    assert kept["fit"]["epoch"] == 1
    assert kept["state"]["t"] == 7


@pytest.mark.parametrize(("data", "every", "kept"), [
    ((5.0, 6.0, 1.0, 8.0), 1, 2), ((5.0, 6.0, 1.0, 8.0), 2, 2), ((5.0, 6.0, 1.0, 8.0), None, 0), ((5.0, 1.0), 1, 1),
    ((5.0, 6.0, 1.0), None, 0),
])
def test_a_checkpoint_has_no_nan_that_a_finite_loss_hides(tmp_path, data, every, kept):
    """The slope of a root at 0: its step has the loss 0, and makes the parameter NaN, if it is not the last one."""
    opt, path = sg.optim.sgd(0.0), tmp_path / "c"
    step = sg.compile_step(lambda p, x: np.sqrt(np.sum((p - x) ** 2)), opt)
    words = r"after step [1-4] params holds NaN or Inf, and it held none at the start|loss before step 4 \(of epoch 1\)"
    for _ in range(2):
        with pytest.raises(NonFiniteError, match=words):
            sg.fit(step, np.ones(1), opt.init(np.ones(1)), [(x,) for x in data], checkpoint=path, every=every)
        assert sg.load(path)["params"] == 1.0
        assert len(sg.load(path)["fit"]["value"]) == kept
    ended = sg.fit(step, np.ones(1), opt.init(np.ones(1)), [(5.0,), (6.0,)], checkpoint=path)
    assert len(ended[2]["value"]) == 2


def test_what_is_infinite_from_the_start_may_stay_so(tmp_path):
    def least(params, state, x):
        return params, {"least": min(state["least"], x), "seen": state["seen"]}, x

    _, state, _ = sg.fit(least, np.array([-np.inf, 0.0]), {"least": np.inf, "seen": np.nan}, [(3.0,), (2.0,)],
                         checkpoint=tmp_path / "c", every=1)
    assert state["least"] == 2.0


class Screen(io.StringIO):
    def isatty(self):
        return True


def test_it_shows_how_far_it_is_on_a_terminal_alone(monkeypatch, capfd):
    run()
    assert capfd.readouterr() == ("", "")
    monkeypatch.setattr(sys, "stderr", screen := Screen())
    run()
    assert "28/28" in screen.getvalue()
    assert "loss 1.01501" in screen.getvalue()
    assert "epoch 4" in screen.getvalue()
    assert "nan" not in screen.getvalue()


@pytest.mark.parametrize(("given", "error", "message"), [
    ({"batch": 0}, ArgumentValueError, r"fit\(batch=0\)(.|\n)*from 1 on"),
    ({"epochs": -1}, ArgumentValueError, r"fit\(epochs=-1\)(.|\n)*from 0 on"),
    ({"epochs": 1.5}, ArgumentValueError, r"fit\(epochs=1.5\)"),
    ({"callbacks": print}, ArgumentError, r"fit\(callbacks=(.|\n)*\[f\]"),
    ({"callbacks": [None]}, ArgumentError, r"fit\(callbacks=\[None\]\)"),
    ({"every": 3}, ArgumentError, "without checkpoint"),
    ({"patience": 3}, ArgumentError, "without validation"),
    ({"patience": 0, "validation": (X, Y)}, ArgumentValueError, r"fit\(patience=0\)"),
    ({"seed": -1}, ArgumentValueError, r"fit\(seed=-1\)"),
    ({"data": (X, Y[1:])}, ArgumentValueError, r"of the shapes \(103, 6\), \(102,\)(.|\n)*as many in each"),
    ({"data": (X, 3.0)}, ArgumentValueError, r"of the shapes \(103, 6\), \(\)"),
    ({"data": (X[:0], Y[:0])}, ArgumentValueError, r"of the shapes \(0, 6\), \(0,\)"),
    ({"data": (X.tolist(), Y)}, ArgumentValueError, r"of the shapes \(\), \(103,\)"),
    ({"data": (np.ma.masked_equal(X, 0), Y)}, ArgumentError, "MaskedArray, a kind of array with a meaning of its own"),
    ({"data": (scipy.sparse.csr_array(X), Y)}, ArgumentError,
     r"fit\(batch=16\) of a csr_array: rows are drawn from arrays\n  instead: no batch=, and .*S\[k : k \+ 16\]"),
    ({"data": ()}, ArgumentValueError, "of the shapes none"),
    ({"data": iter([(X, Y)]), "batch": None}, ArgumentError, "can be gone through once"),
    ({"data": [], "batch": None}, ArgumentValueError, "no batches in epoch 1"),
    ({"data": 3.0, "batch": None}, ArgumentError, "of a float, and it is not said how many rows"),
    ({"batch": None}, ArgumentError, "of a tuple, and it is not said how many rows"),
    ({"data": X, "batch": None}, ArgumentError, "of a ndarray, and it is not said how many rows"),
])
def test_what_makes_no_sense_is_refused_before_a_step(given, error, message):
    with pytest.raises(error, match=message):
        run(**{"callbacks": [lambda *_: pytest.fail("a step was taken")], **given})
    with pytest.raises(ArgumentError, match=r"the step has no gradients\(\)"):
        sg.fit(lambda *_: None, START, {}, (X, Y), batch=16, validation=(X, Y))
