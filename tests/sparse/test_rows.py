"""Row-sparse gradients, and what optimizers make of them."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import symgrad as sg

RNG = np.random.default_rng(7)
E, W = RNG.normal(size=(50, 4)), RNG.normal(size=(4, 3))
PLACES = {
    "several": np.array([0, 20, 20, 31]), "none": np.array([], int), "one": np.array([5]), "a number": np.int64(7),
    "2-D, negative, int32": np.array([[1, -1], [5, 49]], np.int32), "uint8": np.array([3, 3], np.uint8),
    "many": np.arange(300) % 7, "all": np.arange(50)[::-1],
}


def loss(E: Any, ids: Any) -> Any:
    return np.sum(np.sin(E[ids] @ W))


SPARSE, DENSE = sg.grad(loss, sparse=True, dynamic=False), sg.grad(loss, dynamic=False)


def check(found: sg.RowSparse, dense: Any, ids: Any) -> None:
    np.testing.assert_array_equal(found.indices, np.unique(np.ravel(ids) % len(dense)))
    np.testing.assert_allclose(found.to_dense(), dense, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(found.rows, found.to_dense()[found.indices])
    assert (found.indices.dtype, found.count, found.shape) == (np.int64, len(found.indices), dense.shape)


@pytest.mark.filterwarnings("ignore::symgrad.SymgradWarning")  # of a compilation for each
@pytest.mark.parametrize("name", PLACES)
def test_rows_are_those_of_the_whole_gradient(name: str) -> None:
    ids = PLACES[name]
    check(SPARSE(E, ids), DENSE(E, ids), ids)
    single = SPARSE(E.astype(np.float32), ids)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single.to_dense(), DENSE(E, ids), rtol=1e-4, atol=1e-5)


def test_extents_may_be_open() -> None:
    f = sg.grad(loss, sparse=True, specs={"E": "f64[v,4]", "ids": "i64[n]"})
    for name in ("several", "none", "one", "many", "all"):
        check(f(E, PLACES[name]), plain(PLACES[name]), PLACES[name])
    assert f.cache_info().compilations == 1


def plain(ids: Any) -> Any:
    """The gradient by hand."""
    out = np.zeros_like(E)
    np.add.at(out, ids, np.cos(E[ids] @ W) @ W.T)
    return out


@pytest.mark.parametrize("ids", [[5, 50], [-51], [10**12]])
def test_what_is_out_of_bounds_is_an_error_at_the_line(ids: list[int]) -> None:
    linear = sg.grad(lambda E, ids: np.sum(E[ids]), sparse=True)  # of which the derivative does not read E
    with pytest.raises(IndexError, match=r"(?s)out of bounds for an axis with size 50.*E\[ids\]"):
        linear(E, np.array(ids))


def carried(E: Any, i: Any, _: Any) -> Any:
    """Places that are computed on the way: each step looks up where the next one looks."""
    def step(state: Any, _: Any) -> Any:
        h, k = state
        return (np.tanh(h + E[k] * E[3]), (3 * k + 1) % 7), 0.0

    return np.sum(sg.scan(step, (np.zeros(4, E.dtype), i[0]), np.arange(4))[0][0] ** 2)


def nested(E: Any, i: Any, j: Any) -> Any:
    """Loops in a loop whose steps are computed again."""
    def outer(h: Any, row: Any) -> Any:
        return sg.scan(lambda h, k: (np.sin(h + E[k]), np.sum(h)), h, row)

    return np.sum(sg.checkpoint(lambda E: sg.scan(outer, E[i[0]], j, reverse=True)[1])(E) ** 2)


def rolled(E: Any, i: Any, _: Any) -> Any:
    """A loop of Python's, which is found."""
    x, h = np.stack([i * k % 11 for k in range(12)], axis=1), np.zeros((3, 4), E.dtype)
    for t in range(12):
        h = np.tanh(h @ MIX.astype(E.dtype) + E[x[:, t]])
    return np.sum(h)


MIX = RNG.normal(size=(4, 4))
USES: dict[str, Any] = {
    "take": lambda E, i, _: np.sum(np.take(E, i, axis=0) ** 2),
    "several": lambda E, i, j: np.sum(E[i] ** 2) * np.sum(E[j] ** 3) + np.sum(E[3]) + np.sum(E[i[0]] ** 2),
    "columns of rows": lambda E, i, j: (
        np.sum(E[i, :, None] ** 2) + np.sum(E[:, 1:][j] ** 3) + np.sum(np.sin(E[i, None])) + np.sum(E[j, ::-2] ** 2)
        + np.sum(E[:, 2][i] ** 2)),
    "stretched": lambda E, i, j: np.sum(
        np.sin(np.broadcast_to(E[:, :1], (50, 4))[i]) * np.broadcast_to(E[:, None], (50, 3, 4))[j[0, 0]]),
    "vmap": lambda E, i, _: np.sum(sg.vmap(lambda k: np.sin(E[k]))(i)),
    "within jit": lambda E, i, j: sg.jit(lambda E: np.sum(np.sin(E[i])))(E) + np.sum(E[j] ** 2),
    "a loop": lambda E, i, _: np.sum(sum(np.sin(E[i[k]] * k) for k in range(3))),
    "clip": lambda E, i, _: np.sum(np.take(E, 20 * i, axis=0, mode="clip") ** 2),
    "beside what has no derivative": lambda E, i, _: (
        np.sum(E[i] ** 2) * (1 + np.sum(E > 100)) + sg.stop_gradient(E)[0, 0] + E.shape[0]
        + np.sum(sg.stop_gradient(np.tanh(E))[i])),
    "scan": lambda E, i, j: np.sum(sg.scan(lambda h, k: (np.tanh(h[::-1] + E[k]), i), E[j[0]], j)[0]),
    "carried": carried, "nested": nested, "rolled": rolled,
    "vmap of scan": lambda E, i, j: np.sum(
        sg.vmap(lambda k: sg.scan(lambda h, m: (np.tanh(h + E[m]), 0.0), E[k], j[0])[0])(i)),
    "no step": lambda E, i, _: np.sum(sg.scan(lambda h, k: (h * E[k], 0.0), E[i[1]], np.zeros(0, int))[0]),
}


def test_all_that_takes_rows() -> None:
    i, j = np.array([4, 2, 4]), np.array([[2, 9], [0, -1]])

    def both(E: Any, *names: str) -> list[Any]:
        every = [USES[name] for name in names]
        return [(sg.value_and_grad(f, sparse=True)(E, i, j), sg.value_and_grad(f)(E, i, j)) for f in every]

    for table, names, tolerance in (E, [*USES], 1e-12), (E.astype(np.float32), ["several", "scan", "carried"], 2e-5):
        found = sg.jit(both, static_argnums=range(1, 1 + len(names)))(table, *names)
        for name, ((value, rows), (same, dense)) in zip(names, found, strict=True):
            assert rows.dtype == table.dtype
            assert isinstance(rows, sg.RowSparse), name
            np.testing.assert_allclose(value, same, rtol=tolerance)
            np.testing.assert_allclose(rows.to_dense(), dense, rtol=tolerance, atol=tolerance, err_msg=name)
            assert len(rows.indices) < 12, name


def looped(E: Any, i: Any, m: Any) -> Any:
    def step(h: Any, k: Any) -> Any:
        return np.sin(h + np.where(k[1] > 0, E[k[0]], 0.0)), 0.0

    return np.sum(sg.scan(step, np.zeros(4, E.dtype), np.stack([i, m], axis=1))[0])


LEFT_OUT: dict[str, tuple[Any, list[int]]] = {
    "rows": (lambda E, i, m: np.sum(np.where(m[:, None], E[i], 0.0) ** 2), [1, 3]),
    "where it does not hold": (lambda E, i, m: np.sum(np.where(m[:, None], 0.0, E[i]) ** 2), [2]),
    "all": (lambda E, i, m: np.sum(np.where(m[:, None] & (i[:, None] < 0), E[i], 0.0) ** 2), []),
    "some elements": (lambda E, i, m: np.sum(np.where(m[:, None] & (np.arange(4) > 1), E[i], 0.0) ** 2), [1, 3]),
    "under two conditions": (
        lambda E, i, m: np.sum(np.where(m[:, None], E[i], 0.0) * np.where(i[:, None] < 3, E[i], 2.0)), [1, 2, 3]),
    "of two": (lambda E, i, m: np.sum(np.where(m[:, None], E[i], E[i + 4])), [1, 3, 6]),
    "vmap": (lambda E, i, m: np.sum(sg.vmap(lambda k, m: np.where(m, E[k], 0.0) ** 2)(i, m)), [1, 3]),
    "in a loop": (looped, [1, 3]),
    "used otherwise, too": (lambda E, i, m: np.sum(np.where(m[:, None], E[i], 0.0)) + np.sum(E[i]), [1, 2, 3]),
    "by their own numbers": (lambda E, i, _: np.sum(np.where(E[i] > 99.0, E[i], 0.0)), [1, 2, 3]),
    "of one row": (lambda E, _, m: np.sum(np.where(m[:, None], E[7], 0.0)), [7]),
}


def test_rows_that_where_leaves_out_are_not_taken() -> None:
    """As those behind the last word of a sentence: an optimizer that changes the rows of a batch leaves them alone."""
    i, m = np.array([1, 2, 3, 2]), np.array([True, False, True, False])

    def every(E: Any, v: Any, i: Any, m: Any) -> Any:
        found = [(sg.grad(f, sparse=True)(E, i, m), sg.grad(f)(E, i, m)) for f, _ in LEFT_OUT.values()]
        of_vector = sg.grad(lambda v: np.sum(np.where(m, v[i], 0.0)), sparse=True)(v)
        return found, of_vector, found[0][0] + found[2][0], found[2][0] + found[2][0]

    found, of_vector, total, nothing = sg.jit(every)(E, E[:, 0], i, m)
    for (name, (_, taken)), (rows, dense) in zip(LEFT_OUT.items(), found, strict=True):
        assert rows.indices.tolist() == taken, name
        np.testing.assert_allclose(rows.to_dense(), dense, rtol=1e-12, err_msg=name)
    assert (of_vector.indices.tolist(), of_vector.rows.tolist()) == ([1, 3], [1.0, 1.0])
    assert (total.indices.tolist(), nothing.count) == ([1, 3], 0)


def random_use(rng: Any, depth: int = 3) -> Any:
    """Draw a function of a table, a row and places, which takes rows in loops, batches and what is computed again."""
    kind = rng.integers(1, 7) if depth else 0
    if kind == 0:
        place, factor = int(rng.integers(0, 3)), rng.normal()
        return lambda E, h, i: np.tanh(factor * h + E[i[place]] * E[place])
    inner, other = [random_use(rng, depth - 1) for _ in range(2)]
    back = bool(rng.integers(0, 2))

    def scanned(E: Any, h: Any, i: Any) -> Any:
        return sg.scan(lambda h, k: (inner(E, h, (i + k) % 11), np.sum(E[k] * h)), h, i, reverse=back)[0]

    def carried(E: Any, h: Any, i: Any) -> Any:
        return sg.scan(lambda s, k: ((inner(E, s[0], s[1]), (s[1] * 2 + k) % 11), 0.0), (h, i), np.arange(2))[0][0]

    def batched(E: Any, h: Any, i: Any) -> Any:
        return np.sum(sg.vmap(lambda k: inner(E, h, (i + k) % 11))(i), axis=0)

    return [
        scanned, carried, batched, sg.checkpoint(inner), lambda E, h, i: other(E, inner(E, h, i), i),
        lambda E, h, i: inner(E, h, i % 11 - 11) * E[i[1] % 11 - 11],
    ][kind - 1]


def test_random_uses() -> None:
    rng, i = np.random.default_rng(3), np.array([4, 2, 4])
    drawn = [random_use(rng) for _ in range(10)]

    def both(E: Any) -> list[Any]:
        losses = [lambda E, f=f: np.sum(f(E, E[5], i) ** 2) for f in drawn]
        return [(sg.value_and_grad(f, sparse=True)(E), sg.value_and_grad(f)(E)) for f in losses]

    table = RNG.normal(size=(11, 4))
    for number, ((value, rows), (same, dense)) in enumerate(sg.jit(both)(table)):
        assert isinstance(rows, sg.RowSparse), number
        np.testing.assert_allclose(value, same, rtol=1e-12)
        np.testing.assert_allclose(rows.to_dense(), dense, rtol=1e-9, atol=1e-11, err_msg=str(number))


def test_places_in_loops_are_checked_at_their_line() -> None:
    f = sg.grad(lambda E, i: np.sum(sg.scan(lambda h, k: (h + E[k], 0.0), np.zeros(4), i)[0]), sparse=True)
    with pytest.raises(IndexError, match=r"(?s)out of bounds for an axis with size 50.*E\[k\]"):
        f(E, np.array([1, 50]))


def test_memory_of_rows_in_loops_is_that_of_steps() -> None:
    """Of a million rows as of a thousand; the loop has nothing but the places and the slopes of its rows."""
    def rnn(E: Any, x: Any) -> Any:
        return np.sum(sg.scan(lambda h, k: (np.tanh(h @ MIX + E[k]), 0.0), np.zeros((8, 4)), x)[0] ** 2)

    f, found = sg.value_and_grad(rnn, sparse=True), []
    for size in (1_000_000, 1000):
        table, x = np.zeros((size, 4)), np.arange(256).reshape(32, 8)
        found.append((f.memory(table, x).peak, f.cost(table, x).flops))
    assert found[0] == found[1]
    assert found[0][0] < 100_000


@sg.custom_vjp
def sine(E: Any) -> Any:
    return np.sin(E)


sine.defvjp(lambda E: (np.sin(E), E), lambda E, g: (g * np.cos(E),))
def made_before(E: Any, i: Any) -> Any:
    T = np.tanh(E)
    return np.sum(sg.scan(lambda h, k: (h + T[k], 0.0), np.zeros(4), i)[0])


BESIDE, MADE = "all of E is used, and rows are taken of it at test_rows.py:", "what is made of it at test_rows.py:"
OTHERS, OFTEN = "other elements are taken of E than rows", "rows are taken of E where nobody knows how often"
OTHERWISE: dict[str, tuple[Any, str]] = {
    "sum": (lambda E, i: np.sum(E[i]) + np.sum(E**2), BESIDE),
    "element": (lambda E, i: np.sum(E[i]) * E[0, 0], BESIDE),
    "tanh": (lambda E, i: np.sum(np.tanh(E)[i]), MADE),
    "multiple": (lambda E, i: np.sum((2 * E)[i]), MADE),
    "mask": (lambda E, i: np.sum((E * (E > 0))[i]), MADE),
    "where": (lambda E, i: np.sum(np.where(i[0] > np.arange(50)[:, None], E, 0)[i]), MADE),
    "clip": (lambda E, i: np.sum(np.clip(E, -1, 1)[i]), MADE),
    "transpose": (lambda E, i: np.sum(E.T[:, i]), MADE),
    "reshape": (lambda E, i: np.sum(E.reshape(-1, 2)[i]), MADE),
    "slice": (lambda E, i: np.sum(E[1:][i]), MADE),
    "a row of all": (lambda E, i: np.sum(E[None, i]), MADE),
    "concatenate": (lambda E, i: np.sum(np.concatenate([E, np.ones((2, 4))])[i]), MADE),
    "astype": (lambda E, i: np.sum(E.astype(np.float32)[i]), MADE),
    "norm": (lambda E, i: np.sum((E / np.linalg.norm(E, axis=1, keepdims=True))[i] ** 3), MADE),
    "flat": (lambda E, i: np.sum(np.take(E, i)), MADE),
    "pairs": (lambda E, i: np.sum(E[i, 1]), OTHERS),
    "along": (lambda E, i: np.sum(E[:, i]), OTHERS),
    "while": (lambda E, i: np.sum(sg.fori_loop(0, i[1], lambda k, s: s + E[k], np.zeros(4))), OFTEN),
    "cond": (lambda E, i: sg.cond(i[0] > 0, lambda E: np.sum(E[i]), lambda E: E[0, 0], E), OFTEN),
    "made before a loop": (made_before, MADE),
    "all in a loop": (lambda E, i: np.sum(sg.scan(lambda h, k: (h + E[k] * np.sum(E), 0.0), E[0], i)[0]), BESIDE),
    "carried": (lambda E, i: np.sum(sg.scan(lambda s, k: ((s[0] + s[1][k], s[1]), 0.0), (E[0], E), i)[0][0]), BESIDE),
    "checkpoint": (lambda E, i: np.sum(sg.checkpoint(np.tanh)(E)[i]), MADE),
    "written": (lambda E, i: np.sum((E + 0.0 * np.ones((50, 1)))[i]), MADE),
    "a rule": (lambda E, i: np.sum(sine(E)[i]), MADE),
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_a_table_that_is_used_otherwise_is_refused_with_its_line(name: str) -> None:
    use, message = OTHERWISE[name]
    with pytest.raises(sg.SymgradError, match=rf"(?s)sparse=True: .*{message}.*at {__file__}.*sparse=\"auto\""):
        sg.grad(use, sparse=True)(E, np.array([1, 2]))


def test_a_plain_gradient_may_be_had() -> None:
    ids = np.array([1, 2])

    def both(E: Any) -> list[Any]:
        return [[sg.grad(f, sparse=sparse)(E, ids) for sparse in ("auto", False)] for f, _ in OTHERWISE.values()]

    for name, (plain, same) in zip(OTHERWISE, sg.jit(both)(E), strict=True):
        assert type(plain) is np.ndarray
        np.testing.assert_array_equal(plain, same, err_msg=name)


def test_elements_of_what_several_parameters_make_are_no_rows() -> None:
    """Logits are picked by labels: neither weights nor biases are tables."""
    def picked(p: Any, x: Any, y: Any) -> Any:
        one = np.tanh(p["W"] @ x + p["b"])
        return np.sum((x * x @ p["W"].T + p["b"])[y]) + np.sum((p["E"][y] @ p["W"] + p["c"])[[0, 1], y]) * one[y[0]]

    p = {"W": MIX, "b": MIX[0], "c": MIX[1], "E": E}
    grads = sg.grad(picked, sparse=True)(p, MIX[2], np.array([1, 3]))
    assert [type(grads[k]) for k in p] == [np.ndarray] * 3 + [sg.RowSparse]


@pytest.mark.parametrize("rows", [range(9), range(0, 18, 2), range(40, 3, -1), (3, 1, 7, 2)], ids=str)
def test_rows_that_a_python_loop_takes(rows: Any) -> None:
    """Evenly apart, they are a slice of which a loop goes through the rows."""
    mix = np.full((16, 16), 0.05)
    table = np.arange(50.0 * 64).reshape(50, 64) % 7

    def f(E: Any) -> Any:
        h = np.zeros(64)
        for k in rows:
            h = np.tanh(mix @ h[:16]).sum() + E[k] * np.cos(h)
        return np.sum(h * h)

    found, plain = sg.grad(f, sparse=True)(table), sg.grad(f)(table)
    assert sorted(found.indices) == sorted(rows)
    np.testing.assert_allclose(found.to_dense(), plain, rtol=1e-13)


def test_what_is_sliced_is_no_table() -> None:
    f = sg.grad(lambda b, i: np.sum(b[1:] * np.diff(b, axis=0) * i[0]) + np.sum(b[:, ::2]), sparse=True)
    assert type(f(E, np.array([1, 2]))) is np.ndarray


def test_parameters_that_are_no_tables_have_plain_gradients() -> None:
    f = sg.value_and_grad(lambda p, i: (np.sum((p["E"][i] @ p["W"]) ** 2), i + 1), sparse=True, has_aux=True)
    (value, aux), grads = f({"E": E, "W": W}, np.array([3, 1, 3]))
    assert grads["W"].shape == W.shape
    assert (grads["E"].indices.tolist(), aux.tolist()) == ([1, 3], [4, 2, 4])
    np.testing.assert_allclose(value, np.sum((E[[3, 1, 3]] @ W) ** 2))
    with pytest.raises(ValueError, match="sparse='yes'"):
        sg.grad(loss, sparse="yes")


def test_derivatives_of_row_sparse_gradients() -> None:
    """Forward, reverse, row-sparse again: against closed forms, and Richardson's differences."""
    i, d = np.array([4, 2, 4]), RNG.normal(size=E.shape)
    slope = sg.grad(lambda E, i: np.sum(np.sin(E[i])), sparse=True)
    rows, along = sg.jvp(lambda E: slope(E, i), (E,), (d,))
    np.testing.assert_array_equal(along.indices, [2, 4])
    np.testing.assert_allclose(along.rows, np.array([[-1.0], [-2.0]]) * np.sin(E[[2, 4]]) * d[[2, 4]], rtol=1e-13)

    def squares(E: Any, i: Any) -> Any:
        return np.sum(slope(E, i).rows ** 2)

    again = sg.grad(squares, sparse=True)(E, i)
    assert again.indices.tolist() == [2, 4]
    twos = np.array([[-2.0], [-8.0]])
    np.testing.assert_allclose(again.rows, twos * np.cos(E[[2, 4]]) * np.sin(E[[2, 4]]), rtol=1e-12)

    def difference(h: float) -> Any:
        return (squares(E + h * d, i) - squares(E - h * d, i)) / (2 * h)

    extrapolated = (4 * difference(1e-3) - difference(2e-3)) / 3
    np.testing.assert_allclose(np.sum(again.to_dense() * d), extrapolated, rtol=1e-9)
    _, pull = sg.vjp(lambda g: np.sum(g.to_dense() ** 2), rows)
    np.testing.assert_allclose(pull(1.0)[0].rows, 2 * rows.rows)
    np.testing.assert_allclose(sg.grad(lambda g: np.sum(g.rows**3))(rows).rows, 3 * rows.rows**2)
    with pytest.raises(sg.SymgradError, match="linearize of a function that returns a RowSparse"):
        sg.linearize(lambda E: slope(E, i), E)
    with pytest.raises(sg.SymgradError, match="vmap of a function that returns a RowSparse"):
        sg.vmap(slope, (None, 0))(E, i[:, None])
    with pytest.raises(sg.SymgradError, match="vmap over g, which is a RowSparse"):
        sg.vmap(lambda g: np.sum(g.rows))(rows)
    many = sg.vmap(lambda i: slope(E, i).to_dense())(np.array([[1, 2], [3, 3]]))
    np.testing.assert_allclose(many[1, 3], 2 * np.cos(E[3]))


def test_sums_and_multiples() -> None:
    one, other = sg.RowSparse([0, 1], np.ones((2, 2)), (5, 2)), sg.RowSparse([2, 1, -4], np.ones((3, 2)), (5, 2))
    dense, more = one.to_dense(), other.to_dense()
    np.testing.assert_array_equal((one + other).indices, [0, 1, 2])

    def all_of(one: Any, other: Any, x: Any) -> list[Any]:
        return [one + other, one - other, -one, 2 * one, one / 4.0, sum([one, other]), one + x, x + one, x - one,
                one - x, one.map(lambda rows: np.clip(rows + 1, 0, 1.5)), np.float64(3.0) * other]

    x = RNG.normal(size=(5, 2))
    there = np.array([1.0, 1.0, 0, 0, 0])[:, None]
    expected = [dense + more, dense - more, -dense, 2 * dense, dense / 4, dense + more, dense + x, x + dense, x - dense,
                dense - x, np.clip(dense + 1, 0, 1.5) * there, 3 * more]
    for found in (all_of(one, other, x), sg.jit(all_of)(one, other, x)):
        for k, (part, want) in enumerate(zip(found, expected, strict=True)):
            assert isinstance(part, sg.RowSparse) == (k not in range(6, 10))
            np.testing.assert_allclose(part.to_dense() if isinstance(part, sg.RowSparse) else part, want, rtol=1e-15)
    assert sg.tree_map(lambda g: 2 * g, {"a": one})["a"].indices.tolist() == [0, 1]
    assert sg.tree_paths({"a": one, "b": 1.0}) == ["a", "b"]
    for made in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one)):
        np.testing.assert_array_equal(made.rows, one.rows)


@pytest.mark.parametrize(("wrong", "error", "message"), [
    (lambda _: sg.RowSparse([5], np.ones((1, 2)), (5, 2)), IndexError, "index 5 is out of bounds for axis 0 with size"),
    (lambda _: sg.RowSparse([1], np.ones((2, 2)), (5, 2)), ValueError, r"indices \(1,\) and rows \(2, 2\)"),
    (lambda _: sg.RowSparse([1.5], np.ones((1, 2)), (5, 2)), TypeError, "indices float64(.|\n)*integers"),
    (lambda _: sg.RowSparse([True], np.ones((1, 2)), (5, 2)), TypeError, "indices bool"),
    (np.asarray, TypeError, "no array(?s:.*)to_dense"), (lambda g: g * np.ones(2), TypeError, "times an array"),
    (lambda g: g + sg.RowSparse([1], np.ones((1, 2)), (6, 2)), ValueError, r"\(5, 2\) and one of \(6, 2\)"),
    (lambda g: sg.ravel_pytree([g]), TypeError, "no array"),
])
def test_errors(wrong: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        wrong(sg.RowSparse([0, 1], np.ones((2, 2)), (5, 2)))


def test_as_many_threads_as_you_like() -> None:
    """Rows are added in the order they are given, whoever adds them; the same as np.add.at."""
    big, ids = RNG.normal(size=(3000, 64)), RNG.integers(0, 900, size=40_000)
    f = sg.grad(lambda E, ids: np.sum(E[ids] ** 2 * np.arange(64)), sparse=True)
    found, threads = [], sg.get_num_threads()
    try:
        for count in (1, 2, 3):
            sg.set_num_threads(count)
            found.append(f(big, ids))
    finally:
        sg.set_num_threads(threads)
    expected = np.zeros_like(big)
    np.add.at(expected, ids, 2 * big[ids] * np.arange(64))
    for one in found:
        np.testing.assert_array_equal(one.rows, found[0].rows)
        np.testing.assert_allclose(one.to_dense(), expected, rtol=1e-12)


def test_memory_and_work_are_the_batches() -> None:
    """Of a million rows as of a thousand: below 1 MB of workspace."""
    f = sg.value_and_grad(lambda E, ids: np.sum(E[ids] ** 2), sparse=True)
    found = []
    for size in (1_000_000, 1000):
        table, ids = np.zeros((size, 16)), np.arange(256) % 99
        slope = f(table, ids)[1]
        found.append((f.memory(table, ids).peak, f.cost(table, ids).flops, slope.rows.shape))
    assert found[0] == found[1]
    assert found[0][0] < 1_000_000


# -- optimizers


def optimizers(sparse: str) -> dict[str, Any]:
    o: Any = sg.optim
    more: dict[str, Any] = {"sparse": sparse}
    penalties = {**more, "l1": 0.001, "l2": 0.02}
    return {
        "sgd": o.sgd(0.1, **more), "momentum": o.momentum(0.1, **more),
        "nesterov": o.momentum(0.1, nesterov=True, **more),
        "adagrad": o.adagrad(0.1, **more), "proximal_adagrad": o.proximal_adagrad(0.1, **penalties),
        "proximal_sgd": o.proximal_sgd(0.1, **penalties), "adagrad_da": o.adagrad_da(0.1, **penalties),
        "ftrl": o.ftrl(0.1, **penalties), "adadelta": o.adadelta(0.1, **more),
        "rmsprop": o.rmsprop(0.1, momentum=0.9, centered=True, **more), "adam": o.adam(0.1, **more),
        "paper": o.adam(0.1, eps_mode="paper", **more), "nadam": o.nadam(0.1, **more), "adamax": o.adamax(0.1, **more),
        "adamw": o.adamw(0.1, 0.01, mask=lambda path: path == "E", **more), "amsgrad": o.amsgrad(0.1, **more),
        "lion": o.lion(0.1, weight_decay=0.1, **more),
        "clipped": o.chain(o.clip_by_global_norm(0.5), o.adam(0.1, **more)),
        "of values and norms": o.chain(o.clip_by_value(0.2), o.clip_by_norm(0.3), o.sgd(0.1, **more)),
        "averaged": o.chain(o.adam(0.1, **more), o.ema(0.9, **more)),
    }


STEPS = [np.array(ids) for ids in ([0, 5, 5, 7], [5, 5, 5, 5], [0, 1, 7, 7], [2, 2, 3, 4])]
TABLE, HEAD = RNG.normal(size=(12, 3)), RNG.normal(size=3)


def trained(update: Any, start: Any, *, dense: bool = False) -> Any:
    """Take the steps; return all that there is after each."""
    slope = sg.grad(lambda p, ids: np.sum((p["E"][ids] @ p["W"] - 1.0) ** 2), sparse=True)
    params, state, found = {"E": TABLE, "W": HEAD}, start, []
    for ids in STEPS:
        grads = slope(params, ids)
        grads = {**grads, "E": grads["E"].to_dense()} if dense else grads
        params, state = update(params, grads, state)
        found.append({**params, **{k: v for k, v in state.items() if k not in {"t", "hyper"}}})
    return found


@pytest.mark.parametrize("name", optimizers("exact"))
def test_exact_updates_are_those_of_the_whole_gradient(name: str) -> None:
    """To the last bit in NumPy; in C as well, but that a norm may be summed in another order."""
    optimizer = optimizers("exact")[name]
    start = optimizer.init({"E": TABLE, "W": HEAD})
    expected = trained(optimizer.update, start, dense=True)
    tolerance = 1e-12 if name in {"clipped", "of values and norms"} else 0
    for one, other in zip(trained(optimizer.update, start), expected, strict=True):
        np.testing.assert_allclose(sg.ravel_pytree(one)[0], sg.ravel_pytree(other)[0], rtol=tolerance)


def test_compiled_updates_are_those_of_numpy() -> None:
    """All optimizers in one function: one compilation for all steps."""
    for sparse in ("exact", "lazy"):
        every = optimizers(sparse)

        def update(params: Any, grads: Any, state: Any, every: Any = every) -> Any:
            made = {name: one.update(params[name], grads[name], state[name]) for name, one in every.items()}
            return [{name: pair[k] for name, pair in made.items()} for k in range(2)]

        slope = sg.grad(lambda p, ids: np.sum((p["E"][ids] @ p["W"] - 1.0) ** 2), sparse=True)
        compiled, params = sg.jit(update), {name: {"E": TABLE, "W": HEAD} for name in every}
        state = {name: one.init(params[name]) for name, one in every.items()}
        for ids in STEPS:
            grads = {name: slope(p, ids) for name, p in params.items()}
            found, (params, state) = compiled(params, grads, state), update(params, grads, state)
            for one, other in zip(found, (params, state), strict=True):
                np.testing.assert_allclose(sg.ravel_pytree(one)[0], sg.ravel_pytree(other)[0], rtol=1e-12, atol=1e-15)
        assert compiled.cache_info().compilations <= 2  # "t" is a number at first


@pytest.mark.parametrize("name", optimizers("lazy"))
def test_lazy_updates_leave_other_rows_alone(name: str) -> None:
    optimizer = optimizers("lazy")[name]
    start = optimizer.init({"E": TABLE, "W": HEAD})
    slots = [name for name in start if name not in {"t", "hyper"}]
    before = {"E": TABLE, **{name: start[name]["E"] for name in slots}}
    exact = trained(optimizers("exact")[name].update, start)[0]
    for ids, found in zip(STEPS, trained(optimizer.update, start), strict=True):
        others = np.setdiff1d(np.arange(12), ids)
        after = {"E": found["E"], **{name: found[name]["E"] for name in slots}}
        for key, new in after.items():
            np.testing.assert_array_equal(new[others], before[key][others], err_msg=key)
        assert not np.array_equal(after["E"][ids], before["E"][ids])
        if exact is not None:  # the first step: rows that are in the gradient change as they do in the exact form
            np.testing.assert_array_equal(after["E"][ids], exact["E"][ids])
        before, exact = after, None


def test_references() -> None:
    """Rows of section 5: ids [0, 201, 201, 301] with ones, then [0]; duplicates are summed before they are squared."""
    table, o = np.ones((400, 1)), sg.optim
    slope = sg.grad(lambda E, ids: np.sum(E[ids]), sparse=True, dynamic=False)
    first, second = slope(table, np.array([0, 201, 201, 301])), slope(table, np.array([0]))
    assert (first.indices.tolist(), first.rows.ravel().tolist(), first.count) == ([0, 201, 301], [1, 2, 1], 3)
    root = np.sqrt
    a = [0.9, 0.8, 0.9], 0.8
    references: dict[str, tuple[Any, tuple[list[float], float], float]] = {
        "sgd": (o.sgd, a, 1e-15), "momentum": (o.momentum, (a[0], 0.71), 1e-15),
        "adagrad": (o.adagrad, ([1 - 0.1 / root(1.1), 1 - 0.2 / root(4.1), 1 - 0.1 / root(1.1)],
                                1 - 0.1 / root(1.1) - 0.1 / root(2.1)), 1e-15),
        "rmsprop": (o.rmsprop, ([0.900000000005, 0.8245883961453407, 0.900000000005], 0.80000000001), 1e-12),
        "ftrl": (o.ftrl, ([0.60314240, 0.74505328, 0.60314240], 0.53413584), 1e-8),
        "adadelta": (lambda _, sparse: o.adadelta(sparse=sparse),
                     ([0.9999995527864827, 0.9999995527864491, 0.9999995527864827], 0.9999990998757473), 1e-12),
        "adam": (lambda _, sparse: o.adam(sparse=sparse),
                 ([0.9990000003162277, 0.9990000001581139, 0.9990000003162277], 0.9980000005398904), 1e-15),
    }
    for sparse in ("exact", "lazy"):
        for name, (made, (rows, last), tolerance) in references.items():
            opt = made(0.1, sparse=sparse)
            params, state = opt.update(table, first, opt.init(table))
            np.testing.assert_allclose(params[[0, 201, 301], 0], rows, rtol=tolerance, err_msg=name)
            after, _ = opt.update(params, second, state)
            np.testing.assert_allclose(after[0, 0], last, rtol=tolerance, err_msg=name)
            if name == "adam":
                np.testing.assert_allclose(state["m"][[0, 201, 301], 0], [0.1, 0.2, 0.1], rtol=1e-15)
                np.testing.assert_allclose(state["v"][[0, 201, 301], 0], [0.001, 0.004, 0.001], rtol=1e-13)
                exact = [0.9983299420099758, 0.9983299422740881, 1.0]
                np.testing.assert_allclose(
                    after[[201, 301, 5], 0], exact if sparse == "exact" else [*params[[201, 301], 0], 1.0], rtol=1e-15)
                assert np.count_nonzero(after != params) == (3 if sparse == "exact" else 1)


def test_norms_are_of_the_sum_of_duplicates() -> None:
    """TensorFlow takes 2 for the norm of these ones; it is the root of 6."""
    table = np.ones((400, 1))
    slope = sg.grad(lambda E: np.sum(E[np.array([0, 201, 201, 301])]), sparse=True)(table)
    opt = sg.optim.chain(sg.optim.clip_by_global_norm(1.0), sg.optim.sgd(1.0))
    found = opt.update(table, slope, opt.init(table))[0]
    np.testing.assert_allclose(1 - found[201, 0], 2 / 2.449489742783178, rtol=1e-15)


def test_optimizers_of_ones_own_get_the_whole_gradient() -> None:
    own = sg.optim.optimizer(None, lambda p, g, s, _t, _h: (sg.tree_map(lambda p, g: p - g, p, g), g, s))
    rows = sg.RowSparse([1], np.ones((1, 3)), TABLE.shape)
    for opt in (own, sg.optim.chain(own, sg.optim.ema(0.5))):
        found, _ = opt.update({"E": TABLE}, {"E": rows}, opt.init({"E": TABLE}))
        np.testing.assert_array_equal(found["E"], TABLE - rows.to_dense())
    with pytest.raises(ValueError, match="sparse='no'"):
        sg.optim.adam(sparse="no")
    with pytest.raises(sg.SymgradError, match=r"the gradient of E has shape \(\d+, 3\), and the parameter \(5, 3\)"):
        opt.update({"E": TABLE[:5]}, {"E": rows}, opt.init({"E": TABLE[:5]}))
