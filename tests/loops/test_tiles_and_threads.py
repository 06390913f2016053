"""Tiles and threads change no result: random programs in tiles of a few elements, shared out among threads."""

from __future__ import annotations

import itertools
import math
import re
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.loops import machine
from symgrad.loops.fusion import parallelize as threads
from symgrad.loops.fusion import tile
from symgrad.loops.machine import CACHE
from symgrad.loops.nest import layout
from symgrad.loops.passes import ALIGN, UNROLL, VERSIONING, each_pass
from symgrad.loops.program import Array, Kind, Loop, LoopProgram, Team, Walk, temporary
from symgrad.loops.statements.lower import lower
from symgrad.options import Target
from tests.looking import loops
from tests.night import some
from tests.programs import Written, changed, leaves, random_open_program, random_program
from tests.table import INTERPRETED
from tests.test_random_programs import check, scale

COUNT = 24


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every loop long enough to be cut into tiles, and every tile worth a thread."""
    monkeypatch.setattr(threads, "PAYS", 1)
    monkeypatch.setattr(threads, "COPYING", 1)
    monkeypatch.setattr(tile, "TILE_TERMS", 4)
    monkeypatch.setattr(tile, "TILE_ROWS", 2)
    for name, value in {"TURNED_ROWS": 2, "TINY": 1, "RAGGED": 0}.items():  # rows last, whatever the extent beside them
        monkeypatch.setattr(layout, name, value)
    monkeypatch.setattr(tile, "CACHE", 1 << 8)


def wide(written: Written) -> tuple[Any, ...]:
    """Repeat the first named extent, so that it spans several tiles and threads have something to share."""
    rng = np.random.default_rng(written.seed)
    sizes = {"n": 37, "m": 11, "k": 9}
    return tuple([rng.uniform(-1, 1, [sizes.get(d, 3) for d in spec[4:-1].split(",") if d]) for spec in written.specs])


@pytest.mark.usefixtures("small_tiles")
def test_small_tiles_of_static_programs() -> None:
    check([random_program(seed) for seed in range(12)], sg.Options(threads=3))


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("seed", some(range(COUNT)))
def test_small_tiles_of_named_extents(seed: int) -> None:
    """Three threads, tiles that divide no extent: as the interpreter, and the same bits again."""
    written = random_open_program(seed)
    _, loss = written.functions()
    derived = sg.value_and_grad(loss, argnums=written.argnums, specs=written.specs, options=sg.Options(threads=3))
    for args in (written.args, *written.resized, wide(written), changed(wide(written), lambda a: a * 0.5)):
        expected = list(leaves(sg.value_and_grad(loss, argnums=written.argnums, options=INTERPRETED)(*args)))
        found, again = list(leaves(derived(*args))), list(leaves(derived(*args)))
        for one, two, three in zip(found, again, expected, strict=True):
            assert np.array_equal(one, two, equal_nan=True), "the same number of threads gives the same bits"
            assert one.shape == three.shape
            near = np.allclose(one, three, rtol=1e-9, atol=1e-9 * scale([three]), equal_nan=True)
            assert near, written.script(f"with specs {written.specs} in small tiles")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_classes_that_leave_lanes_over_have_them_along_the_rows(dtype):
    """The gradient of a cross entropy is softmax less one, for every number of classes."""
    rng, counts, near = np.random.default_rng(2), range(7, 28), 1e-12 if dtype is np.float64 else 1e-5
    given = [(rng.normal(size=(130, k)).astype(dtype), rng.integers(0, k, 130)) for k in counts]

    def loss(x, y):
        return np.sum(sg.nn.softmax_cross_entropy(np.sin(x), y))

    compiled = sg.jit(lambda given: [sg.value_and_grad(loss)(x, y) for x, y in given])
    for (x, y), (value, slope) in zip(given, compiled(given), strict=True):
        z = np.sin(x.astype(np.float64))
        p = np.exp(z) / np.sum(np.exp(z), axis=1, keepdims=True)
        chosen = np.arange(x.shape[1]) == y[:, None]
        np.testing.assert_allclose(value, -np.sum(np.log(p[chosen])), rtol=near)
        np.testing.assert_allclose(slope, (p - chosen) * np.cos(x.astype(np.float64)), rtol=near, atol=near)


RAGGED = {np.float64: {9: False, 10: True, 11: True, 12: False, 14: True, 17: False, 100: False},
          np.float32: {9: True, 10: True, 12: True, 15: True, 16: False, 17: True, 24: False, 100: False}}


@pytest.mark.parametrize("dtype", RAGGED)
def test_what_leaves_lanes_over(dtype):
    """In vectors of 256 bits: those of two and a half are two, and two elements one by one."""
    for extent, is_ragged in RAGGED[dtype].items():
        array = temporary("z", (130, extent), Array("x", (), np.dtype(dtype), Kind.INPUT))
        assert layout.is_ragged(array, 0, Target()) is is_ragged, extent


def squares(x):
    return np.sum(np.exp(x * 0.1) * x)


def rows(X, w):
    return np.sum(np.tanh(X @ w) ** 2) + np.sum(np.max(X, axis=1))


def columns(X, w):
    return np.sum((X * w).sum(axis=0) ** 2)


@pytest.mark.parametrize(
    ("loss", "shapes"), [(squares, [(300_000,)]), (rows, [(200_001, 7), (7,)]), (columns, [(100_003, 5), (5,)])]
)
def test_long_loops_in_threads(loss: Callable[..., Any], shapes: list[tuple[int, ...]]) -> None:
    """Any number of threads is right, and each gives its own bits again and again."""
    rng = np.random.default_rng(8)
    args = [rng.normal(size=s) for s in shapes]
    argnums = tuple(range(len(args)))
    expected = list(leaves(sg.value_and_grad(loss, argnums, options=INTERPRETED)(*args)))
    for count in (1, 2, 3, 8):
        function = sg.value_and_grad(loss, argnums, options=sg.Options(threads=count))
        found, again = list(leaves(function(*args))), list(leaves(function(*args)))
        for one, two, three in zip(found, again, expected, strict=True):
            assert np.array_equal(one, two)
            np.testing.assert_allclose(one, three, rtol=1e-11, atol=1e-11 * scale([three]))


def test_twenty_calls_in_two_threads_are_the_same_bits() -> None:
    rng = np.random.default_rng(9)
    X, w = rng.normal(size=(150_000, 6)), rng.normal(size=6)
    function = sg.value_and_grad(rows, (0, 1))
    with sg.set_num_threads(2):
        first = list(leaves(function(X, w)))
        for _ in range(20):
            assert all(np.array_equal(one, two) for one, two in zip(first, leaves(function(X, w)), strict=True))
    assert "num_threads" in function.c_source


def test_the_condition_for_threads_counts_all_unknown_extents():
    """A short loop around long ones is worth sharing out, and a long one around nothing is not."""
    pairs = sg.jit(lambda a, b: np.sum((a[:, None] - b[None, :]) ** 2, axis=1), specs=("f64[n]", "f64[m]"))
    text = pairs.lower(sg.spec("f64[n]"), sg.spec("f64[m]")).as_text("c")
    enough = r">= \(sg_is_awake \? \d+ : \d+\)\) {\n +#pragma omp parallel for num_threads\(threads\)\n"
    assert re.search(rf"if \([^)]*\bm\*n\b[^)]* {enough}", text)
    one = sg.jit(lambda a: np.sum(np.exp(a)), specs=("f64[n]",))
    assert re.search(rf"if \(n {enough}", one.lower(sg.spec("f64[n]")).as_text("c"))


def test_little_work_is_shared_only_where_threads_are_awake():
    """A call that follows another one, and one after a pause: in the same shares, to the same bits."""
    little, much = np.random.default_rng(0).normal(size=150_000), np.ones(2_000_000)
    f = sg.value_and_grad(lambda x: np.sum(np.exp(np.sin(x))), options=sg.Options(threads=2))
    values = []
    for pause in (0.02, 0.0, 0.0, 0.02):
        time.sleep(pause)
        values.append(f(little))
    assert all(v == values[0][0] and np.array_equal(g, values[0][1]) for v, g in values)
    assert "if (sg_is_awake) {" in f.lower(little).as_text("c")
    assert "sg_is_awake" not in f.lower(much).as_text("c")


def test_calls_that_follow_each_other_share_less_work_where_they_do():
    """Of a function that says so, a quarter of the usual work, after 0.2 ms; the usual work is asked for as usual."""
    def f(x):
        return np.sum(np.exp(np.sin(x)))

    options = sg.Options(threads=2, awake=True)
    for count, condition in ((40_000, ["if (sg_is_awake > 1)"]), (150_000, ["if (sg_is_awake)"]), (2_000_000, [])):
        text = sg.value_and_grad(f, options=options).lower(np.ones(count)).as_text("c")
        assert re.findall(r"if \(sg_is_awake.*?\)", text) == condition
        assert "parallel for num_threads" in text
    wide = sg.jit(f, options=options).lower(sg.spec("f64[n]")).as_text("c")
    [found] = re.findall(r"if \(n >= \(sg_is_awake > 1 \? (\d+) : sg_is_awake \? (\d+) : (\d+)\)\)", wide)
    quarter, usual, asleep = map(int, found)
    assert usual == machine.SOONER * quarter
    assert asleep == machine.WAKES * usual


# -- which axis a sweep walks


def steps(A, x):
    for _ in range(3):
        x = np.tanh(A @ x)
    return np.sum(x * x)


def test_a_chain_of_matrix_vector_products_walks_rows() -> None:
    """The second product was added up by columns in the sweep that made its vector: pieces of 800 rows for a tile."""
    A, x = np.random.default_rng(0).normal(size=(2, 800, 800))[0] / 30, np.ones(800)
    f = sg.value_and_grad(steps, argnums=(0, 1))
    value, (dA, dx) = f(A, x)
    slow = sg.value_and_grad(steps, argnums=(0, 1), options=sg.Options(compiler="none"))
    np.testing.assert_allclose(value, steps(A, x), rtol=1e-12)
    np.testing.assert_allclose(dA, slow(A, x)[1][0], rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(dx, slow(A, x)[1][1], rtol=1e-9, atol=1e-14)
    assert "A[i*800 + j]" in f.c_source
    assert "A[j*800 + i]" not in f.c_source
    stored = [each.shape for each in loops(f).storage.values()]
    assert (800, 800) not in stored, "the outer products of A_bar are summed where they are made"


def risk(b, X, t):
    eta = X @ b
    at_risk = np.where(t[None, :] >= t[:, None], np.exp(eta)[None, :], 0.0).sum(1)
    return np.sum(eta - np.log(at_risk))


def test_few_exponentials_of_many_terms_stay_few() -> None:
    """log(sum(where(mask, exp(eta), 0))) took an exponential for each pair, twice, as a logsumexp."""
    rng = np.random.default_rng(0)
    args = rng.normal(size=4), rng.normal(size=(1000, 4)), rng.normal(size=1000)
    f = sg.value_and_grad(risk)
    value, gradient = f(*args)
    np.testing.assert_allclose(value, risk(*args), rtol=1e-12)
    slow = sg.value_and_grad(risk, options=sg.Options(compiler="none"))(*args)[1]
    np.testing.assert_allclose(gradient, slow, rtol=1e-10)
    assert len(re.findall(r" = exp\(", f.c_source)) == 1
    assert "logsumexp" not in f.lower(*args).as_text("stable")
    stored = [each.shape for each in loops(f).storage.values()]
    assert (1000, 1000) not in stored, "the comparisons of times are made again, not stored"


def kept(x, mask):
    return np.sum(x, 0), np.any(mask, 0), np.max(x, 0), np.min(x, 0), np.prod(1 + 1e-6 * x, 0)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_every_accumulation_over_a_shared_axis_has_copies(threads: int) -> None:
    rng = np.random.default_rng(0)
    x, mask = rng.normal(size=(200_000, 7)), rng.random((200_000, 7)) < 1e-6
    x[1234, 3] = np.nan
    f = sg.jit(kept, options=sg.Options(threads=threads))
    for got, right in zip(f(x, mask), kept(x, mask), strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-9)
    assert ("omp parallel" in f.c_source) == (threads > 1)


# -- sums as long as an open extent


def attention(Q, K, V):
    scores = Q @ K.T
    e = np.exp(scores - np.max(scores, axis=1, keepdims=True))
    return np.sum(np.tanh(e / np.sum(e, axis=1, keepdims=True) @ V))


def classes(W, b, X):
    z = X @ W + b
    return np.sum(np.log(np.sum(np.exp(z - z.max(1, keepdims=True)), axis=1)) + z.max(1) - z[:, 0])


def by_columns(X, w):
    y = np.tanh(X * w)
    return np.sum(np.sum(y, 0) ** 2) + np.sum(np.max(y, 0)) + np.sum(np.where(np.any(X > 0.9, 0), w, -w))


WIDE = {
    attention: ("f64[n,d]", "f64[m,d]", "f64[m,e]"), classes: ("f64[d,k]", "f64[k]", "f64[n,d]"),
    by_columns: ("f64[n,d]", "f64[d]"),
}
SIZES = ({"n": 1, "d": 1, "m": 1, "e": 1, "k": 1}, {"n": 37, "d": 5, "m": 9, "e": 3, "k": 4},
         {"n": 200, "d": 40, "m": 70, "e": 17, "k": 33})


def sized(specs: tuple[str, ...], sizes: dict[str, int]) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.uniform(-1, 1, [sizes[d] for d in spec[4:-1].split(",")]) for spec in specs]


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("loss", WIDE, ids=lambda loss: loss.__name__)
def test_threads_have_copies_of_sums_of_open_extents(loss: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Right for any number of threads and any size, the same bits again, in memory that is all NaN before."""
    monkeypatch.setenv("SYMGRAD_VERIFY", "1")
    by = tuple(range(len(WIDE[loss])))
    every = [sized(WIDE[loss], sizes) for sizes in SIZES]
    right = [list(leaves(sg.value_and_grad(loss, by, options=INTERPRETED)(*args))) for args in every]
    for count in (1, 2, 3, 8):
        f = sg.value_and_grad(loss, by, specs=WIDE[loss], options=sg.Options(threads=count))
        for args, expected in zip(every, right, strict=True):
            found, again = list(leaves(f(*args))), list(leaves(f(*args)))
            for one, two, three in zip(found, again, expected, strict=True):
                assert np.array_equal(one, two)
                np.testing.assert_allclose(one, three, rtol=1e-10, atol=1e-10 * scale([three]))
        assert ("copies1" in f.c_source) == (count > 1)


def columns_of(X, w):
    return np.sum((X * w) ** 2)


def test_copies_of_sums_are_as_many_as_the_work_pays_for_and_memory_allows() -> None:
    """Samples make no workspace; a gradient of 1 MB has copies, one that few samples make or that is huge has none."""
    f = sg.value_and_grad(columns_of, 1, specs=("f64[n,d]", "f64[d]"), options=sg.Options(threads=8))
    f(np.ones((2, 2)), np.ones(2))
    sizes = {(n, d): f.memory(n=n, d=d, threads=8).workspace for n in (3, 10_000, 1_000_000) for d in (1000, 1 << 17)}
    copy = {d: 8 * (d + 8) for d in (1000, 1 << 17)}
    assert copy[1000] * 7 <= sizes[10_000, 1000] < copy[1000] * 7 + 10_000
    assert sizes[1_000_000, 1000] == sizes[10_000, 1000]
    assert sizes[3, 1000] < 10_000
    assert copy[1 << 17] * 7 <= sizes[10_000, 1 << 17] < copy[1 << 17] * 7 + 10_000
    assert f.memory(n=10_000, d=1 << 24, threads=8).workspace < 10_000
    assert f.memory(n=10_000, d=1 << 17, threads=256).workspace <= machine.COPIES_BYTES + 10_000


def weighted(Q, K, V, G):
    S = Q @ K.T
    E = np.exp(S - np.max(S, axis=1, keepdims=True))
    return np.sum((E / np.sum(E, axis=1, keepdims=True)) @ V * G)


def softmax(x, g):
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return np.sum(e / np.sum(e, axis=1, keepdims=True) * g)


def pairwise(x, y):
    return y @ np.exp(-np.sum((x[:, None] - x) ** 2, axis=2)) @ y


def normalized(x, w, b):
    z = (x - np.mean(x, axis=1, keepdims=True)) / np.sqrt(np.var(x, axis=1, keepdims=True) + 1e-3)
    return np.sum(np.tanh(z * w + b))


EVERY_SIZE = {
    weighted: (3, ("n,8", "m,8", "m,8", "n,8")), softmax: (1, ("n,m", "n,m")), pairwise: (3, ("n,3", "n")),
    normalized: (3, ("n,m", "m", "m")),
}


def is_of_copies(loop: Loop) -> bool:
    """Whether a loop starts what threads have of a sum, or adds it to the sum."""
    return isinstance(loop.extent, Team) and loop.walk is not Walk.THREADS


def fused(specs: tuple[str, ...], loss: Callable[..., Any]) -> tuple[int, LoopProgram]:
    """Count the outermost loops that fusion makes; return them with what the loops are in the end."""
    stages = sg.value_and_grad(loss, tuple(range(len(specs))), specs=specs).lower(*map(sg.spec, specs)).stages
    program = ALIGN.apply(VERSIONING.apply(UNROLL.apply(lower(stages.of("optimized")))))
    made = dict(each_pass(program, stages.options, Target()))
    return sum(isinstance(item, Loop) for item in made["fuse"].body), made["allocate"]


@pytest.mark.parametrize("dtype", ["f64", "f32"])
@pytest.mark.parametrize("loss", EVERY_SIZE, ids=lambda loss: loss.__name__)
def test_fusion_does_not_depend_on_the_size(loss: Callable[..., Any], dtype: str) -> None:
    """Short, long and unknown sweeps are the same loops; one whose values fit a cache is one tile, without a loop."""
    count, dims = EVERY_SIZE[loss]

    def specs(n: Any, m: Any) -> tuple[str, ...]:
        return tuple([f"{dtype}[{d}]".replace("n", str(n)).replace("m", str(m)) for d in dims])

    assert fused(specs("n", "m"), loss)[0] == fused(specs(24, "m"), loss)[0] == count
    for n, m in itertools.product((9, 16, 33, 64, 65, 100, 128, 1024), (0, 96)):
        first, last = fused(specs(n, m or n), loss)
        assert first == count, (n, m)
        whole = [a for a in last.temporaries if a.shape == (n, m or n) == last.storage[a].shape]
        assert sum(math.prod(a.shape) * a.dtype.itemsize for a in whole) <= 4 * CACHE, (n, m)
        held = loss is pairwise or loss is softmax  # in outputs
        loops = [item for item in last.body if isinstance(item, Loop) and not is_of_copies(item)]
        assert whole or held or len(loops) <= count + 2, (n, m)


@pytest.mark.parametrize(("loss", "d", "n", "rows"), [
    (weighted, 16, 32, 32), (weighted, 16, 64, 64), (weighted, 16, 65, 32), (weighted, 16, 1024, 32),  # register blocks
    (weighted, 8, 40, 40), (weighted, 8, 64, 64), (weighted, 8, 1024, 32), (weighted, 3, 40, 40), (weighted, 3, 64, 16),
    (normalized, 0, 9, 9), (normalized, 0, 33, 33), (normalized, 0, 48, 32), (normalized, 0, 63, 16),
])
def test_how_long_tiles_are_is_decided_by_the_bytes_that_live(
    loss: Callable[..., Any], d: int, n: int, rows: int,
) -> None:
    """Up to the first cache, or four of them around blocks, a short sweep is one tile; beyond, no array is n x n."""
    dims = [one.replace("8", str(d)).replace("n", str(n)).replace("m", str(n)) for one in EVERY_SIZE[loss][1]]
    _, last = fused(tuple([f"f64[{one}]" for one in dims]), loss)
    kept = {last.storage[a].shape for a in last.temporaries if a.shape == (n, n)}
    assert kept - {()} == {(rows, n)}


SHORT = [9, 33, 63, 65, *[pytest.param(n, marks=pytest.mark.nightly) for n in (16, 31, 48, 64, 100)]]


@pytest.mark.parametrize("n", SHORT)
@pytest.mark.parametrize("loss", EVERY_SIZE, ids=lambda loss: loss.__name__)
def test_short_sweeps_are_right(loss: Callable[..., Any], n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole tiles, and tiles in them, in memory that is all NaN before, by one thread and by three."""
    monkeypatch.setenv("SYMGRAD_VERIFY", "1")
    monkeypatch.setattr(tile, "CACHE", 1 << 12)
    by = tuple(range(len(EVERY_SIZE[loss][1])))
    args = sized(tuple([f"f64[{d}]" for d in EVERY_SIZE[loss][1]]), {"n": n, "m": 70, "8": 8, "3": 3})
    expected = list(leaves(sg.value_and_grad(loss, by, options=INTERPRETED)(*args)))
    for threads_ in (1, 3):
        found = list(leaves(sg.value_and_grad(loss, by, options=sg.Options(threads=threads_))(*args)))
        for one, two in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-10 * scale([two]))
