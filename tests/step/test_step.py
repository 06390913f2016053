"""Steps of training: the two halves and the whole, what stays as it was, and what is refused."""

from __future__ import annotations

import dataclasses
import functools
import re
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import symgrad as sg


def model(p, x, y):
    hidden = np.tanh(x @ p["in"]["W"] + p["in"]["b"])
    return np.mean(sg.nn.softmax_cross_entropy(hidden @ p["out"]["W"] + p["out"]["b"], y))


def made(dtype=np.float64):
    rng = np.random.default_rng(0)
    params = {
        "in": {"W": rng.normal(size=(20, 16)) * 0.3, "b": np.zeros(16)},
        "out": {"W": rng.normal(size=(16, 4)) * 0.3, "b": np.zeros(4)},
        "idle": np.ones(3),
    }
    params = sg.tree_map(lambda a: a.astype(dtype), params)
    return params, rng.normal(size=(32, 20)).astype(dtype), rng.integers(0, 4, 32)


def same(one, other):
    leaves = [sg.tree_map(lambda a: (np.asarray(a).tobytes(), np.asarray(a).dtype.str), t) for t in (one, other)]
    return leaves[0] == leaves[1]


def centred(params, grads, state, _, hyper):
    """An update with a sum beside a copy, which compilers add up in other orders where they write elsewhere."""
    new = sg.tree_map(lambda p, g, m: p - hyper["rate"] * (g - np.mean(g) + m), params, grads, state["last"])
    return new, grads, {"last": grads}


OPTIMIZERS = {
    "centred": sg.optim.optimizer(lambda p: {"last": sg.tree_map(np.zeros_like, p)}, centred, rate=0.1),
    "sgd": sg.optim.sgd(0.1),
    "momentum": sg.optim.momentum(0.1, 0.9),
    "adam": sg.optim.adam(1e-2),
    "chain": sg.optim.chain(
        sg.optim.clip_by_global_norm(0.1), sg.optim.adamw(1e-2, weight_decay=0.1), sg.optim.ema(0.9)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_is_gradient_and_update(name):
    """The whole is NumPy's, and the halves to the bit; nothing that is given is written."""
    opt = OPTIMIZERS[name]
    params, x, y = made()
    state = opt.init(params)
    before = sg.tree_map(np.copy, (params, state, x, y))
    step = sg.compile_step(model, opt)
    halves = sg.compile_step(model, opt)
    one, other = (params, state), (params, state)
    for _ in range(3):
        *new, value = step(*one, x, y)
        one = new[0], new[1]
        again, grads = halves.gradients(other[0], x, y)
        other = halves.apply(other[0], grads, other[1])
        assert same(one, other)
        assert value == again
    assert same((params, state, x, y), before)
    plain = {name: part for name, part in params.items() if name != "idle"}
    theirs, gradient = opt.init(plain), sg.grad(model)
    for _ in range(3):
        plain, theirs = opt.update(plain, gradient(plain, x, y), theirs)
    sg.tree_map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), plain, {k: one[0][k] for k in plain})
    assert step.unused == ["idle"]
    assert one[1]["t"] == 3
    assert one[1]["t"].dtype == np.int64


def test_tensorflows_example():
    opt = sg.optim.sgd(3.0)
    step = sg.compile_step(lambda p: np.sum(5 * p[0] + 3 * p[1]), opt)
    params = [np.array([1.0, 2.0]), np.array([3.0, 4.0])]
    params, _, _ = step(params, opt.init(params))
    np.testing.assert_array_equal(params, [[-14, -13], [-6, -5]])


def test_frozen_is_a_filter():
    opt = sg.optim.chain(sg.optim.clip_by_global_norm(0.1), sg.optim.adamw(1e-2, weight_decay=0.1))
    params, x, y = made()
    step = sg.compile_step(model, opt, frozen=("in", "out/b"))
    new, state, _ = step(params, opt.init(params), x, y)
    changed = sg.tree_map(lambda a, b: not np.array_equal(a, b), params, new)
    assert changed == {"in": {"W": False, "b": False}, "out": {"W": True, "b": False}, "idle": False}
    assert step.unused == ["idle"]
    assert sg.tree_paths(state["m"]) == sg.tree_paths(params)
    assert not state["m"]["in"]["W"].any()
    _, grads = step.gradients(params, x, y)
    assert grads["in"] == {"W": None, "b": None}
    assert grads["out"]["W"].shape == (16, 4)


def test_a_rate_compiles_nothing():
    opt = sg.optim.sgd(0.1)
    params, state = np.ones(2), opt.init(np.ones(2))
    step = sg.compile_step(lambda p: np.sum(p * p), opt)
    step(params, state)
    state["hyper"]["learning_rate"] = np.float64(0.5)
    np.testing.assert_array_equal(step(params, state)[0], [0.0, 0.0])
    assert step.cache_info().compilations == 1


RATE = np.float64(0.1)


class Descent:
    """An optimizer of a user's own, which reads a global and an attribute."""

    factor = 1.0

    def init(self, _):
        return {"t": np.int64(0)}

    def update(self, params, grads, state):
        return sg.tree_map(lambda p, g: p - RATE * self.factor * g, params, grads), {"t": state["t"] + 1}


@pytest.mark.parametrize("carried", [None, "n"])
def test_what_an_optimizer_reads_from_outside_is_read_anew(carried, monkeypatch):
    opt, params = Descent(), {"w": np.ones(2), "n": np.int64(0)}
    step = sg.compile_step(lambda p: (np.sum(p["w"]), p["n"] + 1) if carried else np.sum(p["w"]), opt, carried=carried)
    found = [step(params, opt.init(params))[0]["w"][0]]
    monkeypatch.setitem(globals(), "RATE", np.float64(0.2))
    found.append(step(params, opt.init(params))[0]["w"][0])
    opt.factor = 2.0
    found.append(step(params, opt.init(params))[0]["w"][0])
    np.testing.assert_allclose(found, [0.9, 0.8, 0.6])


MATRIX = scipy.sparse.csr_array(np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]]))


def _sgd(loss, **settings):
    return sg.compile_step(loss, OPTIMIZERS["sgd"], **settings)


def _of_matrix(params, **settings):
    step = _sgd(lambda p: np.sum((p["S"] @ p["w"]) ** 2), **settings)
    return step(params, OPTIMIZERS["sgd"].init(params))


ERRORS = {
    "no optimizer": (lambda: sg.compile_step(model, 0.1), "compile_step() of the optimizer 0.1"),
    "no optimizer of ours": (lambda: sg.compile_step(model, sg.optim), "which has no update()"),
    "a word": (lambda: sg.compile_step(model, OPTIMIZERS["sgd"], on_nan="stop"), "compile_step(on_nan='stop')"),
    "no such path": (lambda: _stepped(frozen=("in/V",)), "compile_step(frozen=...): 'in/V' names no parameter\n  at "),
    "the paths there are": (lambda: _stepped(frozen=("in/V",)), "instead: some of idle, in/W"),
    "one path": (
        lambda: _of_tree({"a/b": np.ones(2), "a": {"b": np.ones(2)}}, lambda p: np.sum(p["a/b"] * p["a"]["b"])),
        "two parameters are called 'a/b'"),
    "one key": (
        lambda: _of_tree({"l": {1: np.ones(2), "1": np.ones(2)}}, lambda p: np.sum(p["l"][1] * p["l"]["1"])),
        "two parameters are called 'l/1'"),
    "a sparse matrix": (
        lambda: _of_matrix({"S": MATRIX, "w": np.ones(3)}),
        ("the parameter S is a csr_array, and a step updates arrays\n  "
         "instead: S as a further argument of the loss, where it stays as it is; or its elements S.data")),
    "a frozen sparse matrix": (
        lambda: _of_matrix({"S": MATRIX, "w": np.ones(3)}, frozen=("S",)), "the parameter S is a csr_array"),
    "a sparse matrix in an epoch": (
        lambda: _sgd(lambda w, S: np.sum(S @ w)).epoch(np.ones(3), OPTIMIZERS["sgd"].init(()), MATRIX, batch=1),
        "an epoch takes rows of arrays, and was given a csr_array\n  instead: step(params, state, S[k : k + n]"),
    "nothing to do": (lambda: _stepped(frozen=("in", "out")), "model() uses no parameter that is not frozen"),
    "another gradient": (lambda: _applied({"out": {"V": np.ones(4)}}), "a gradient of out/V, and the parameters are"),
    "another shape": (
        lambda: _applied({"out": {"b": np.ones(5)}}), "the gradient of out/b has shape (5,), and the parameter (4,)"),
    "no gradient": (lambda: _applied({"out": {"b": None}}), "there is no parameter to update"),
    "no state": (lambda: _stepped(state=()), "a state that is tuple, and no dict"),
    "another state": (lambda: _stepped(state=OPTIMIZERS["sgd"].init(made()[0]), name="adam"), "holds no"),
}


def _stepped(name="sgd", state=None, **settings):
    opt = OPTIMIZERS[name]
    params, x, y = made()
    return sg.compile_step(model, opt, **settings)(params, opt.init(params) if state is None else state, x, y)


def _of_tree(params, loss):
    with pytest.raises(sg.SymgradError, match="two parameters are called"):
        OPTIMIZERS["sgd"].update(params, params, OPTIMIZERS["sgd"].init(params))
    sg.compile_step(loss, OPTIMIZERS["sgd"])(params, OPTIMIZERS["sgd"].init(params))


def _applied(grads):
    params = made()[0]
    sg.compile_step(model, OPTIMIZERS["adam"], donate=True).apply(params, grads, OPTIMIZERS["adam"].init(params))


@dataclasses.dataclass
class Params:
    W: Any
    b: Any
    name: str = "linear"


TREES: dict[str, Any] = {
    "an array": (np.ones(4), lambda p, x: np.sum((p - x) ** 2)),
    "a number": (2.0, lambda p, x: np.sum((p - x) ** 2)),
    "lists": ([(np.ones(2), np.ones(4)), np.float64(2.0)], lambda p, x: np.sum((p[0][1] - x) ** 2) + p[1] ** 2),
    "an object": (Params(np.ones(4), np.zeros(2)), lambda p, x: np.sum((p.W - x) ** 2)),
    "types": (
        {"a": np.ones(3, "f4"), "b": np.ones(2), "i": np.array([0, 2]), "T": np.ones((3, 2)), "e": np.zeros((0, 3))},
        lambda p, x: np.sum(p["a"] ** 2) + np.sum(p["b"] ** 2) + np.sum(p["T"][p["i"]] ** 2) + np.sum(x)),
    "many": ({f"w{k}": np.full(3, k / 50) for k in range(50)}, lambda p, x: sum(np.sum(w) for w in p.values()) * x[0]),
}  # 50 have more arrays than a function of C has parameters


def test_a_structure_makes_trees_of_other_leaves():
    """Objects are structures; a sparse matrix and a RowSparse are leaves."""
    tree = {"p": Params(np.ones(2), 3.0), "S": MATRIX, "E": sg.RowSparse([1], np.ones((1, 2)), (3, 2)), "n": None}
    leaves, structure = sg.tree_flatten(tree)
    assert [*zip(sg.tree_paths(tree), map(type, leaves), strict=True)] == [
        ("E", sg.RowSparse), ("S", scipy.sparse.csr_array), ("p/W", np.ndarray), ("p/b", float)]
    assert structure.unflatten([1.0, 2.0, 4.0, 5.0]) == {"p": Params(4.0, 5.0), "S": 2.0, "E": 1.0, "n": None}
    assert {structure: 1}[sg.tree_flatten({**tree, "S": 0.5})[1]] == 1
    assert structure != sg.tree_flatten({**tree, "p": Params(np.ones(2), 3.0, "other")})[1]


@pytest.mark.parametrize("name", TREES)
def test_parameters_of_any_structure(name):
    params, loss = TREES[name]
    opt, x, found = OPTIMIZERS["adam"], np.zeros(4), []
    frozen = ("i",) if name == "types" else ()
    for donate in (False, True):
        p = sg.tree_map(lambda a: a.copy() if isinstance(a, np.ndarray) else a, params)
        step, state = sg.compile_step(loss, opt, donate=donate, frozen=frozen), opt.init(p)
        halves, q, its = sg.compile_step(loss, opt, frozen=frozen), params, opt.init(params)
        for _ in range(2):
            p, state, _ = step(p, state, x)
            q, its = halves.apply(q, halves.gradients(q, x)[1], its)
        assert len(step._fused) == 1
        found.append((p, {**state}))
        assert same(found[-1], (q, its))
    assert same(*found)


@pytest.mark.parametrize("donate", [False, True])
def test_the_order_of_keys_is_the_one_of_each_step(donate):
    """A loss that goes through a dict of parameters, or of a batch, was compiled for the first step's order."""
    def loss(params, batch):
        parts = [*params.values(), *batch.values()]
        return sum([(k + 1) * np.sum(part**2) for k, part in enumerate(parts)])

    given = {"a": 2.0, "b": 3.0}, {"x": np.ones(4), "y": np.full(4, 3.0)}
    opt = OPTIMIZERS["sgd"]
    step = sg.compile_step(loss, opt, donate=donate)
    for _ in range(2):
        for names, columns in product(("ab", "ba"), ("xy", "yx")):
            params, batch = {n: np.full(2, given[0][n]) for n in names}, {n: given[1][n] for n in columns}
            wanted = loss(params, batch), loss(params, {n: one[:2] for n, one in batch.items()})
            moved, _, value = step(sg.tree_map(np.copy, params), opt.init(params), batch)
            assert value == wanted[0]
            for k, n in enumerate(names):
                np.testing.assert_allclose(moved[n], params[n] * (1 - 0.2 * (k + 1)), rtol=1e-14)
            assert step.epoch(sg.tree_map(np.copy, params), opt.init(params), batch, batch=2)[2][0] == wanted[1]


def _unaligned(a):
    found = np.zeros(a.nbytes + 1, np.uint8)[1:].view(a.dtype).reshape(a.shape)
    found[...] = a
    return found


def _read_only(a):
    found = a.copy()
    found.flags.writeable = False
    return found


LAYOUTS: dict[str, Any] = {
    "of the other byte order": lambda a: a.astype(a.dtype.newbyteorder()), "by columns": np.asfortranarray,
    "with strides": lambda a: np.repeat(a, 2, axis=-1)[..., ::2], "backwards": lambda a: a[::-1].copy()[::-1],
    "unaligned": _unaligned, "read-only": _read_only,
}


def test_parameters_and_states_of_any_layout():
    """Steps, halves and epochs have the bits of arrays row by row: nothing is written into a copy and lost."""
    params, x, y = made()
    opt = OPTIMIZERS["adam"]
    step = sg.compile_step(model, opt)

    def trained(lay):
        def laid(tree):
            return sg.tree_map(lambda a: lay(a) if np.ndim(a) else a, tree)

        p, state = laid(params), laid(opt.init(params))
        p, state, one = step(p, state, lay(x), lay(y))
        p, state = step.apply(laid(p), laid(step.gradients(laid(p), x, y)[1]), laid(state))
        p, state, values = step.epoch(laid(p), laid(state), lay(x), lay(y), batch=10)
        return sg.tree_map(lambda a: a.astype(a.dtype.newbyteorder("=")), (p, state, one, values))

    usual = trained(np.copy)
    assert not np.array_equal(usual[0]["in"]["W"], params["in"]["W"])
    for name, lay in LAYOUTS.items():
        assert same(trained(lay), usual), name


def test_hyper_parameters_may_be_set_to_any_number():
    """Integers, single precision and arrays without axes are doubles in the state, and compile nothing."""
    params, x, y = made()
    opt = OPTIMIZERS["adam"]
    found: dict[float, Any] = {}
    rates = (0.5, np.float64(0.5), np.float32(0.5), np.array(0.5), np.array(0.5, "f4"))
    for donate in (False, True):
        step = sg.compile_step(model, opt, donate=donate)
        for rate in (*rates, 1.0, 1, True, np.int64(1), np.array(1), 0.0, 0):
            p, state = sg.tree_map(np.copy, params), opt.init(params)
            state["hyper"]["learning_rate"] = rate
            given = state
            p, state, _ = step(p, state, x, y)
            assert (state is given) == donate
            assert isinstance(state["hyper"]["learning_rate"], float)
            p, state, _ = step.epoch(p, state, x, y, batch=16)
            wanted = found.setdefault(float(rate), (p, {**state}))
            assert same((p, {**state}), wanted)
        assert step.cache_info().compilations == 2, "the batch, and its half"
        assert len(step._update.known) == 1


def test_a_loss_that_gives_its_gradients():
    """Wherever it computes them: then the halves are two calls, and all else is as it was."""
    params, x, y = made()
    opt = OPTIMIZERS["chain"]
    found = []
    for loss in (model, sg.value_and_grad(model)):
        plain = {name: part for name, part in params.items() if name != "idle"}
        step, state = sg.compile_step(loss, opt, frozen=("in/b",)), opt.init(plain)
        plain, state, value = step(plain, state, x, y)
        plain, state, values = step.epoch(plain, state, x, y, batch=10)
        found.append((plain, state, value, values))
    assert same(*found)


@pytest.mark.parametrize("donate", [False, True])
def test_conditions_in_the_loss_and_in_the_optimizer(donate):
    """An update with paths is a call of its own, in steps and in epochs."""
    def clipped(params, grads, state, t, hyper):
        norm = np.sqrt(np.sum(grads["w"] ** 2))
        return {"w": params["w"] - 0.1 * (grads["w"] / norm if norm > 1 else grads["w"])}, grads, state

    def loss(p, x):
        return np.sum((p["w"] - x) ** 2) if np.sum(x) > 0 else np.sum((p["w"] + x) ** 2)

    rows, w, values = np.random.default_rng(0).normal(size=(30, 3)), np.zeros(3), []
    opt = sg.optim.optimizer(None, clipped)
    for x in rows:
        slope = 2 * (w - x * np.sign(np.sum(x)))
        values.append(np.sum(slope**2) / 4)
        w = w - 0.1 * slope / max(1.0, np.linalg.norm(slope))
    params = {"w": np.zeros(3)}
    state, found, step = opt.init(params), [], sg.compile_step(loss, opt, donate=donate)
    for x in rows:
        params, state, value = step(params, state, x)
        found.append(value)
    np.testing.assert_allclose(found, values)
    np.testing.assert_allclose(params["w"], w)
    assert step.cache_info().compilations == 2
    for order in (None, np.arange(30)):
        step, params = sg.compile_step(lambda p, x: loss(p, x[0]), opt, donate=donate), {"w": np.zeros(3)}
        new, state, found = step.epoch(params, opt.init(params), rows, batch=1, order=order)
        np.testing.assert_allclose(found, values)
        assert ((new["w"] is params["w"]), state["t"]) == (donate, 30)


def _doubled(p, x):
    return np.sum(np.sqrt(p["w"] - x)), x


def test_sparse_matrices_stand_where_the_message_says():
    """As a further argument of the loss, and as their elements."""
    C, w, state = MATRIX.tocoo(), np.ones(3), OPTIMIZERS["sgd"].init(())

    def product(p, x):
        y = np.zeros(2)
        np.add.at(y, C.row, p * x[C.col])
        return np.sum(y**2)

    by_matrix, by_w = sg.grad(lambda S, w: np.sum((S @ w) ** 2), (0, 1))(MATRIX, w)
    moved, _, _ = _sgd(lambda w, S: np.sum((S @ w) ** 2))(w, state, MATRIX)
    np.testing.assert_allclose(moved, w - 0.1 * by_w)
    moved, _, _ = _sgd(product)(MATRIX.data, state, w)
    np.testing.assert_allclose(moved, MATRIX.data - 0.1 * by_matrix.data)


STEPS = {
    "a step": lambda step, p, state, x: step(p, state, x)[0]["w"],
    "gradients": lambda step, p, _, x: step.gradients(p, x)[1]["w"],
    "the value": lambda step, p, _, x: step.gradients(p, x)[0][0],
    "steps": lambda step, p, state, x: sg.scan(
        lambda both, row: (step(*both, row)[:2], 0.0), (p, state), np.stack([x - 1.0, x]))[0][0]["w"],
    "a step for each": lambda step, p, state, x: sg.vmap(lambda row: step(p, state, row)[0]["w"])(np.stack([x - 1, x])),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_traced_step_raises_where_it_is_nan(name):
    """It is a check in the run, as that of an index: the same numbers where it holds."""
    opt = OPTIMIZERS["adam"]
    p, x = {"w": np.ones(3)}, np.array([0.1, -1.0, 0.5])
    for options in (sg.Options(), sg.Options(compiler="none")):
        plain, checked = [
            sg.jit(functools.partial(STEPS[name], sg.compile_step(_doubled, opt, has_aux=True, on_nan=on_nan)),
                   options=options) for on_nan in (None, "raise")]
        np.testing.assert_array_equal(checked(p, opt.init(p), x), plain(p, opt.init(p), x))
        assert np.isnan(plain(p, opt.init(p), x + 1)).any()
        with pytest.raises(sg.errors.NonFiniteError, match="the loss or the gradient is NaN or infinite"):
            checked(p, opt.init(p), x + 1)


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    call, message = ERRORS[name]
    with pytest.raises(sg.SymgradError, match=re.escape(message)):
        call()


def test_a_loss_that_gives_its_gradients_without_extras_is_not_taken_for_one_with_them():
    optimizer, w = sg.optim.sgd(0.1), np.ones(2)
    step = sg.compile_step(sg.value_and_grad(lambda w: np.sum(w**2)), optimizer, has_aux=True)
    with pytest.raises(sg.SymgradError, match=r"no \(number, extras\)(.|\n)*has_aux=True\), or no has_aux"):
        step(w, optimizer.init(w))
