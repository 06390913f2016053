"""Steps of training with tables of which a batch takes rows: in one call of C, in place."""

from __future__ import annotations

import shutil
import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import SymgradWarning

RNG = np.random.default_rng(11)
TABLE, HEAD = RNG.normal(size=(60, 4)), RNG.normal(size=4)
IDS, TARGETS = RNG.integers(-60, 60, size=(40, 3)), RNG.normal(size=40)


def loss(params: Any, ids: Any, y: Any) -> Any:
    return np.mean((np.sum(params["E"][ids], 1) @ params["W"] + params["b"][ids[:, 0] % 60] - y) ** 2)


def begun(optimizer: Any) -> tuple[Any, Any]:
    params = {"E": TABLE.copy(), "W": HEAD.copy(), "b": np.zeros(60)}
    return params, optimizer.init(params)


OPTIMIZERS = {
    "lazy adam": sg.optim.adam(0.1, sparse="lazy"), "sgd": sg.optim.sgd(0.1), "exact adam": sg.optim.adam(0.1),
    "clipped": sg.optim.chain(sg.optim.clip_by_global_norm(0.5), sg.optim.momentum(0.1, sparse="lazy")),
    "with an average": sg.optim.chain(sg.optim.adagrad(0.1), sg.optim.ema(0.9)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("donate", [False, True])
def test_a_step_is_its_halves_and_those_of_numpy(name: str, donate: bool) -> None:
    optimizer = OPTIMIZERS[name]
    step, halves = [sg.compile_step(loss, optimizer, donate=donate) for _ in range(2)]
    (params, state), (one, other), (plain, kept) = [begun(optimizer) for _ in range(3)]
    slope = sg.value_and_grad(loss)
    for k in range(0, 40, 8):
        batch = IDS[k : k + 8], TARGETS[k : k + 8]
        before = sg.tree_map(np.copy, params)
        given = params["E"]
        params, state, value = step(params, state, *batch)
        assert (given is params["E"]) == donate
        if not donate:
            np.testing.assert_array_equal(given, before["E"])
        same, grads = halves.gradients(one, *batch)
        one, other = halves.apply(one, grads, other)
        _, dense = slope(plain, *batch)
        if name == "lazy adam":
            dense = {path: sg.RowSparse(np.arange(60), g, g.shape) if path != "W" else g for path, g in dense.items()}
            dense = {path: g if path == "W" else _rows_of(g, batch[0]) for path, g in dense.items()}
        elif name == "clipped":
            break
        plain, kept = optimizer.update(plain, dense, kept)
        assert value == same
        for key, new in params.items():
            np.testing.assert_array_equal(new, one[key])
            np.testing.assert_allclose(new, plain[key], rtol=1e-11, atol=1e-12)
        touched = {"E": np.unique(batch[0] % 60).size, "b": np.unique(batch[0][:, 0] % 60).size}
        assert step.touched_rows == halves.touched_rows == ({} if name == "exact adam" else touched)
    for key, new in params.items():
        np.testing.assert_array_equal(new, one[key])


def _rows_of(g: Any, ids: Any) -> Any:
    at = np.unique((ids if len(g.shape) == 2 else ids[:, 0]) % 60)
    return sg.RowSparse(at, g.to_dense()[at], g.shape)


def test_batches_of_other_sizes_and_epochs() -> None:
    optimizer = OPTIMIZERS["lazy adam"]
    step, other = [sg.compile_step(loss, optimizer, donate=donate) for donate in (True, False)]
    (params, state), (one, kept) = begun(optimizer), begun(optimizer)
    order = RNG.permutation(40)
    params, state, values = step.epoch(params, state, IDS, TARGETS, batch=12, order=order)
    expected = []
    for k in range(0, 40, 12):
        rows = order[k : k + 12]
        one, kept, value = other(one, kept, IDS[rows], TARGETS[rows])
        expected.append(value)
    np.testing.assert_array_equal(values, expected)
    for key, new in params.items():
        np.testing.assert_array_equal(new, one[key])
    assert step.touched_rows["E"] == np.unique(IDS[order[36:]] % 60).size


def test_a_batch_without_ids_and_one_alone() -> None:
    for name in ("lazy adam", "sgd"):
        optimizer = OPTIMIZERS[name]
        step = sg.compile_step(lambda E, ids: np.sum(E[ids] ** 2), optimizer, donate=True)
        table = TABLE.copy()
        state = optimizer.init(table)
        for ids in (np.zeros(0, int), np.array([[7]], np.int32), -3, np.array([3, 3, 3])):
            before = table.copy()
            table, state, _ = step(table, state, ids)
            changed = np.flatnonzero(np.any(table != before, axis=1))
            np.testing.assert_array_equal(changed, np.unique(np.ravel(ids) % 60))
            assert step.touched_rows == {"": changed.size}


@pytest.mark.parametrize("name", ["lazy adam", "exact adam"])
def test_rows_that_are_left_out_stay(name: str) -> None:
    """Also where a batch has no row at all; the exact form moves all rows by their means as it does otherwise."""
    def masked(params: Any, ids: Any) -> Any:
        return np.sum(np.where(ids[:, None] >= 0, params["E"][np.maximum(ids, 0)], 0.0) ** 2)

    optimizer = OPTIMIZERS[name]
    step, halves = sg.compile_step(masked, optimizer, donate=True), sg.grad(masked)
    lazy, (params, state), (plain, kept) = name == "lazy adam", begun(optimizer), begun(optimizer)
    for ids in ([0, 5, -1], [-1, 7, -1], [-1, -1, -1]):
        before, taken = params["E"].copy(), [k for k in ids if k >= 0]
        params, state, _ = step(params, state, np.array(ids))
        plain, kept = optimizer.update(plain, halves(plain, np.array(ids)), kept)
        if lazy:
            assert step.touched_rows == {"E": len(taken)}
            assert np.flatnonzero(np.any(params["E"] != before, axis=1)).tolist() == taken
        else:
            np.testing.assert_allclose(params["E"], plain["E"], rtol=1e-14)
    rows = sg.grad(masked, sparse=True)(params, np.array([-1, -1]))
    moved = sg.jit(optimizer.update)(params, {**sg.tree_map(np.zeros_like, params), "E": rows["E"]}, state)[0]
    want = optimizer.update(params, sg.tree_map(np.zeros_like, params), state)[0]
    np.testing.assert_array_equal(moved["E"], params["E"] if lazy else want["E"])


@pytest.mark.parametrize("donate", [False, True])
def test_an_id_out_of_bounds_leaves_all_as_it_was(donate: bool) -> None:
    optimizer = OPTIMIZERS["lazy adam"]
    step = sg.compile_step(loss, optimizer, donate=donate)
    params, state = begun(optimizer)
    params, state, _ = step(params, state, IDS[:8], TARGETS[:8])
    before = sg.tree_map(np.copy, (params, state["m"], state["v"]))
    wrong = IDS[:8].copy()
    wrong[5, 1] = 60
    with pytest.raises(IndexError, match=r'(?s)out of bounds for an axis with size 60.*params\["E"\]\[ids\]'):
        step(params, state, wrong, TARGETS[:8])
    assert state["t"] == 1
    after = params, state["m"], state["v"]
    np.testing.assert_array_equal(*[sg.ravel_pytree(tree)[0] for tree in (before, after)])


@pytest.mark.parametrize("links", [[], [sg.optim.ema(0.9, sparse="lazy")]], ids=["adam", "with an average"])
def test_a_step_on_a_million_rows_works_in_little_memory(links: list[Any]) -> None:
    """And writes the batch's rows alone: a table of which the others lie in read-only pages would do."""
    optimizer = sg.optim.chain(sg.optim.adam(0.1, sparse="lazy"), *links)
    step = sg.compile_step(lambda p, ids: np.sum(p["E"][ids] ** 2), optimizer, donate=True)
    params = {"E": np.ones((1_000_000, 16), np.float32)}
    state = optimizer.init(params)
    ids = RNG.integers(0, 1_000_000, size=256)
    assert step.memory(params, state, ids).peak < 1_000_000
    params, state, _ = step(params, state, ids)
    assert step.touched_rows == {"E": np.unique(ids).size}
    changed = np.flatnonzero(np.any(params["E"] != 1, axis=1))
    np.testing.assert_array_equal(changed, np.unique(ids))
    (update,) = step._update.known.values()
    loops = update.entry.built.stages.of("loops")
    assert [s for s, _ in loops.paths if 1_000_000 in [axis.extent for axis in s.axes]] == []


def test_what_is_nan_is_found_among_rows() -> None:
    step = sg.compile_step(loss, OPTIMIZERS["lazy adam"], donate=True, on_nan="raise")
    params, state = begun(OPTIMIZERS["lazy adam"])
    with pytest.raises(sg.SymgradError, match="NaN"):
        step(params, state, IDS[:8], TARGETS[:8] * np.nan)
    assert np.isfinite(params["E"]).all()


def test_numpy_interprets_the_same_step() -> None:
    optimizer, made = OPTIMIZERS["lazy adam"], []
    for options in (sg.Options(), sg.Options(compiler="none")):
        step = sg.compile_step(loss, optimizer, donate=True, options=options)
        params, state = begun(optimizer)
        params, state, value = step(params, state, IDS[:8], TARGETS[:8])
        made.append((params, value, step.touched_rows))
        with pytest.raises(IndexError, match="out of bounds"):
            step(params, state, IDS[:8] + 99, TARGETS[:8])
    got, want = [sg.ravel_pytree(one[:2])[0] for one in made]
    np.testing.assert_allclose(got, want, rtol=1e-12)
    assert made[0][2] == made[1][2] == {"E": np.unique(IDS[:8] % 60).size, "b": np.unique(IDS[:8, 0] % 60).size}


@pytest.mark.skipif(shutil.which("make") is None or shutil.which("cc") is None, reason="needs make and cc")
def test_rows_in_a_package_of_c(tmp_path: Path) -> None:
    """A lazy step, and a row-sparse gradient: each is called as it was recorded here."""
    optimizer = OPTIMIZERS["lazy adam"]
    params, state = begun(optimizer)
    step = sg.compile_step(loss, optimizer, donate=True)
    slope = sg.value_and_grad(lambda E, ids: np.sum(np.sin(E[ids])), sparse=True)
    batch = IDS[:8] % 60, TARGETS[:8]
    rows: tuple[tuple[str, Any, Any, dict[str, Any]], ...] = (
        ("step", step, (params, state, *batch), {}),
        ("slope", slope, (TABLE, batch[0]), {"what": "value", "examples": [(TABLE, batch[0])]}),
    )
    for name, of, args, settings in rows:
        sg.emit(of, args, tmp_path / name, **settings)
        command = ["make", "-C", str(tmp_path / name), "check"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "all agree" in done.stdout


@pytest.mark.parametrize("batch", [24, 256])
def test_no_table_is_copied_whatever_the_batch(batch: int) -> None:
    """Beside few columns, rows were read and written in one sweep, so that what was written had to wait elsewhere."""
    optimizer = sg.optim.adam(0.1, sparse="lazy")

    def loss(params: Any, ids: Any) -> Any:
        return np.sum(sg.scan(lambda h, i: (np.tanh(h + params["E"][i]), 0.0), np.zeros((batch // 8, 8)), ids)[0])

    step, params = sg.compile_step(loss, optimizer, donate=True), {"E": RNG.normal(size=(3000, 8))}
    state, ids, before = optimizer.init(params), RNG.integers(0, 3000, size=(8, batch // 8)), params["E"].copy()
    assert step.memory(params, state, ids).peak < params["E"].nbytes
    params, state, _ = step(params, state, ids)
    np.testing.assert_array_equal(np.flatnonzero(np.any(params["E"] != before, axis=1)), np.unique(ids))


def test_a_lazy_optimizer_that_gets_a_plain_gradient_says_so() -> None:
    """Where all of a table is used as well, the update is the exact one: a warning names table and lines, once."""
    optimizer, ids = sg.optim.adam(0.1, sparse="lazy"), np.array([1, 2])

    def tied(params: Any, ids: Any) -> Any:
        return np.sum(params["E"][ids] ** 2) + np.sum(params["E"] ** 2)

    params = {"E": np.ones((6, 2))}
    words = r"all of params\['E'\] is used, and rows are taken of it .*a lazy optimizer is exact(?s:.*)test_steps.py"
    with pytest.warns(SymgradWarning, match=words):
        sg.compile_step(tied, optimizer)(params, optimizer.init(params), ids)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sg.compile_step(tied, sg.optim.adam(0.1))(params, optimizer.init(params), ids)
        sg.compile_step(tied, sg.optim.adagrad(0.1))(params, sg.optim.adagrad(0.1).init(params), ids)


def test_links_of_ones_own_leave_the_others_lazy() -> None:
    """A chain gets rows where one of its links asks for them; one of a user's own gets the whole array."""
    seen = []

    def watched(params: Any, grads: Any, state: Any, _t: Any, _hyper: Any) -> tuple[Any, Any, Any]:
        seen.append(type(grads["E"]))
        return params, grads, state

    optimizer = sg.optim.chain(sg.optim.optimizer(None, watched), sg.optim.adam(0.1, sparse="lazy"))
    step = sg.compile_step(lambda params, ids: np.sum(params["E"][ids, None] ** 2), optimizer)
    params = {"E": np.ones((6, 2))}
    state = optimizer.init(params)
    for ids in ([0, 1], [2, 3], [2, 3]):
        params, state, _ = step(params, state, np.array(ids))
        assert step.touched_rows == {"E": 2}
    assert sg.RowSparse not in seen
    np.testing.assert_allclose(params["E"][:2], 0.9, rtol=1e-6)
    assert (params["E"][4:] == 1.0).all()
