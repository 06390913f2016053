"""Every loop pass is verified and run: its text before and after, on the same numbers, with one thread and three."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import VerifyError
from symgrad.ir.evaluate import evaluate
from symgrad.ir.index.notation import Axis, Lookup, Statement, symbolic
from symgrad.loops import held, passes
from symgrad.loops.fusion import merge as merge_pass
from symgrad.loops.fusion import parallelize as threads
from symgrad.loops.fusion import tile
from symgrad.loops.nest import layout, outline, vectorize
from symgrad.loops.nest import peel as peel_pass
from symgrad.loops.program import Loop, LoopProgram, Piece, Slot, Storage, Tile, Walk, rebuild, temporary
from symgrad.loops.statements import align as align_pass
from symgrad.loops.statements import flatten as flatten_pass
from symgrad.loops.statements import orient as orient_pass
from symgrad.loops.statements import products, rematerialize
from symgrad.loops.statements import triangles as triangles_pass
from symgrad.loops.statements import unroll as unroll_pass
from symgrad.loops.statements import versioning as versioning_pass
from symgrad.loops.statements.lower import lower
from symgrad.loops.storage import allocate
from symgrad.loops.storage import contract as store
from symgrad.loops.text import loops_as_text
from symgrad.loops.verify import Verifier
from symgrad.options import Target
from tests.programs import leaves, random_open_program, random_program

Numbers = np.ndarray[Any, Any]
DRAW = np.random.default_rng(0)
TARGET = Target(fma=True)


def x(*shape: int) -> Numbers:
    return DRAW.uniform(-1, 1, shape)


# -- one program for each thing a pass does, with its arguments and with names for extents that are open


def logistic(w, X, y):
    return np.mean(np.logaddexp(0.0, -y * (X @ w)))


def mixture(m, X):
    d = np.sum((X[:, None] - m) ** 2, axis=2)
    return np.sum(np.log(np.sum(np.exp(-d), axis=1)))


def attention(Q, K, V):
    S = np.exp(Q @ K.T)
    return np.sum((S / np.sum(S, axis=1, keepdims=True)) @ V)


def heat(u):
    for _ in range(3):
        u = np.concatenate([u[:1], u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2]), u[-1:]])
    return np.sum(u * u)


def rosenbrock(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def running(x):
    return np.sum(np.cumsum(np.sin(x)) ** 2)


def stepped(h, W, xs):
    """Carry a state and a count on, stack a number of each step, and branch on it."""
    def step(carry, x):
        h, n = carry
        h = np.tanh(W @ h + x)
        return (h, n + 1), sg.cond(h[0] > 0, lambda h: np.sum(h**2), lambda h: h[1] * n, h)

    (h, n), ys = sg.scan(step, (h, 0), xs)
    return np.sum(ys**2) + np.sum(h) * n


def recurrent(h, W, U, xs, out):
    """Carry a batch on, and an array of which a step changes a row: it reads that row backwards."""
    def step(carry, given):
        (h, out), (x, t) = carry, given
        z = x @ W + h @ U
        h = np.tanh(z[:, :9]) * z[:, 9:]
        out = np.copy(out)
        out[t] = h[0] + out[t, ::-1]
        return (h, out), h

    (h, out), hs = sg.scan(step, (h, out), (xs, np.arange(xs.shape[0])))
    return np.sum(hs**2) + np.sum(out * h[0])


def of_two_axes(x, W):
    """Multiply rows of two axes, which lie side by side."""
    return np.sum(np.exp(x @ W) ** 2)


OWN = np.random.default_rng(5)
PLACES = OWN.integers(0, 30, 24)


def by_number(X, W):
    """Multiply rows that are looked up, by a matrix of few columns."""
    return np.sum(np.tanh(X[PLACES] @ W))


def looked_up(E, w):
    return np.sum(E[np.array([3, 0, 3, -1, 2])] * w) + np.max(E)


def normed(x):
    z = (x - np.mean(x, axis=0)) / np.sqrt(np.var(x, axis=0) + 1e-3)
    return np.sum(np.tanh(z) * z)


def short_rows(x, y):
    """Walk rows that nobody needs to tell apart."""
    return np.sum(np.tanh(x) * y + x)


def features_first(x, w):
    """By rows of the transposed input, across rows where sums come back."""
    z = x.T - np.mean(x.T, axis=1)[:, None]
    return np.sum(np.tanh(z / np.sqrt(np.mean(z * z, axis=1) + 1e-3)[:, None]) * w[:, None])


def single(x):
    return np.sum(np.exp(x) * x)


def thirds(x):
    return np.sum(np.sin(x / 3.0) / -7.0)


def long(x):
    for k in range(12):
        x = np.sin(x) * x + 0.1 * k
    return np.sum(x)


def triangular(L, z):
    return np.sum((np.tril(L) @ z) ** 2)


def pairs(x):
    r = x[:, None] - x
    return np.sum(np.exp(-r * r))


def network(W, b, X):
    z = np.tanh(X @ W + b)
    return np.mean(np.log(np.sum(np.exp(z), axis=1))) + np.mean(np.max(z, axis=1))


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Numbers, ...], tuple[str, ...]]] = {
    "logistic": (logistic, (x(5), x(37, 5), np.sign(x(37))), ("f64[d]", "f64[n,d]", "f64[n]")),
    "mixture": (mixture, (x(3, 4), x(29, 4)), ("f64[k,d]", "f64[n,d]")),
    "attention": (attention, (x(21, 6), x(18, 6), x(18, 7)), ("f64[n,d]", "f64[m,d]", "f64[m,e]")),
    "network": (network, (x(6, 9), x(9), x(35, 6)), ("f64[d,k]", "f64[k]", "f64[n,d]")),
    "heat": (heat, (x(40),), ("f64[n]",)),
    "stepped": (stepped, (x(3), x(3, 3), x(7, 3)), ("f64[d]", "f64[d,d]", "f64[n,d]")),
    "recurrent": (
        recurrent, (x(4, 9), x(3, 18), x(9, 18), x(6, 4, 3), x(6, 9)),
        ("f64[b,9]", "f64[3,18]", "f64[9,18]", "f64[n,b,3]", "f64[n,9]"),
    ),
    "rows of two axes": (of_two_axes, (x(8, 8, 9), x(9, 12)), ("f64[b,n,d]", "f64[d,k]")),
    "rows by number": (by_number, (OWN.random((30, 140)) / 9, OWN.random((140, 5)) / 9), ("f64[30,140]", "f64[140,5]")),
    "rosenbrock": (rosenbrock, (x(41),), ("f64[n]",)),
    "running": (running, (x(35),), ("f64[n]",)),
    "looked up": (looked_up, (x(9, 4), x(4)), ("f64[n,4]", "f64[4]")),
    "normed": (normed, (x(33, 6),), ("f64[n,d]",)),
    "short rows": (short_rows, (x(33, 5), x(33, 5)), ("f64[n,d]", "f64[n,d]")),
    "features first": (features_first, (x(33, 12), x(12)), ("f64[n,d]", "f64[d]")),
    "single": (single, (x(50).astype(np.float32),), ("f32[n]",)),
    "thirds": (thirds, (x(41),), ("f64[n]",)),
    "long": (long, (x(19),), ("f64[n]",)),
    "triangular": (triangular, (x(24, 24), x(24, 20)), ("f64[n,n]", "f64[n,k]")),
    "pairs": (pairs, (x(23),), ("f64[n]",)),
}


@pytest.fixture
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small programs be tiled, shared among threads, and cut, as large ones are."""
    for module, name, value in (
        (threads, "PAYS", 40), (threads, "COPYING", 1), (tile, "TILE_ROWS", 8), (tile, "TILE_TERMS", 16),
        (layout, "TURNED_ROWS", 4), (outline, "LONG", 40), (outline, "SHORT", 20), (outline, "CUT_TILE_ROWS", 8),
    ):
        monkeypatch.setattr(module, name, value)


def steps(program: Any, options: sg.Options) -> Iterator[tuple[str, LoopProgram]]:
    """Take an optimized program from statements on through every pass; those of open extents as large ones."""
    loops = lower(program)
    yield "lower", loops
    for one in (passes.FLATTEN, passes.UNROLL, passes.VERSIONING, passes.ALIGN):
        loops = one.apply(loops)
        yield one.name, loops
    yield from passes.each_pass(loops, options, TARGET)


def run(text: str, name: str, arguments: list[Numbers], results: list[Numbers], threads: int) -> list[Numbers]:
    """Run a text: outputs begin as NaN; three threads run in the order 2, 1, 0, and their lanes backwards."""
    outputs = [np.full(r.shape, np.nan if r.dtype.kind == "f" else 0, r.dtype) for r in results]
    names: dict[str, Any] = {}
    exec(compile(text, f"<{name}>", "exec"), names)
    if threads > 1:
        names.update(lanes=lambda places: [*places][::-1], team=lambda count: range(count)[::-1])
    with np.errstate(all="ignore"):
        names[name](*arguments, *outputs, threads=threads)
    return outputs


def wrong(program: Any, arguments: list[Numbers], options: sg.Options | None = None) -> str:
    """Return the first pass after which a program is broken, or gives something else; nothing where there is none."""
    return unverified(program, options) or ran_wrong(program, arguments, options)


def unverified(program: Any, options: sg.Options | None = None) -> str:
    """Return what the verifier finds, after the first pass that it finds something after."""
    verifier = Verifier()
    try:
        for name, loops in steps(program, options or sg.Options()):
            verifier.check(loops, name)
    except VerifyError as error:
        return str(error)
    return ""


def ran_wrong(
    program: Any, arguments: list[Numbers], options: sg.Options | None = None, since: str = "lower",
) -> str:
    """Return the first pass, of those from one on, after which the text gives something else when it runs, and what.

    A text that is that of the pass before was run.
    """
    expected = evaluate(program, arguments)
    runs, text = False, ""
    for name, loops in steps(program, options or sg.Options()):
        runs = runs or name == since
        if not runs:
            continue
        before, text = text, ""
        for team in (1, 3):
            try:
                text = text or loops_as_text(loops)
                if text == before:
                    break
                found = run(text, loops.name, arguments, expected, team)
            except Exception as error:  # noqa: BLE001 - whatever a broken program raises
                return f"{name}: {type(error).__name__}: {error}\n{text}"
            for a, b in zip(found, expected, strict=True):
                rtol = 1e-4 if any(a.dtype == np.float32 for a in (*found, *arguments)) else 1e-9
                if not np.allclose(a, b, rtol, rtol * max(1.0, float(np.max(np.abs(b), initial=0)))):
                    return f"{name}: {a}\n{b}\n{text}"
    return ""


def optimized(name: str, *, named: bool = False) -> tuple[Any, list[Numbers]]:
    function, arguments, specs = PROGRAMS[name]
    floats = tuple(range(len(arguments)))
    signature = [sg.spec(s) for s in specs] if named else arguments
    stages = sg.value_and_grad(function, argnums=floats).lower(*signature).stages
    return stages.of("optimized"), [np.asarray(a) for a in arguments]


@pytest.mark.usefixtures("small_bounds")
@pytest.mark.parametrize(("name", "named"), [
    pytest.param(name, named, id=f"{name}-{'names' if named else 'numbers'}",
                 marks=[] if named == bool(place % 2) else pytest.mark.nightly)
    for place, name in enumerate(PROGRAMS) for named in (False, True)
])  # by day one of both
def test_each_pass_keeps_what_is_computed(name: str, named: bool) -> None:
    assert wrong(*optimized(name, named=named)) == ""


@pytest.mark.usefixtures("small_bounds")
def test_the_programs_do_what_the_passes_are_for() -> None:
    """The table is not empty of anything: tiles, threads, lanes, borders, products, parts, slots, turned arrays."""
    last = [loops_as_text([*steps(optimized(name, named=named)[0], sg.Options())][-1][1])
            for name in PROGRAMS for named in (False, True)]
    text = "\n".join(last)
    for word in (
        "tiles(", "team(", "# +:", "lanes(", "interior", "borders", "product", "def part", "slot(", "stack(", "at(",
        "np.maximum(", "reshape(", "# maximum:",
    ):
        assert word in text, word


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed: int) -> None:
    written = random_program(seed)
    program, loss = written.functions()
    for function in (sg.jit(program), sg.value_and_grad(loss, argnums=written.argnums)):
        found = wrong(function.lower(*written.args).stages.of("optimized"), list(leaves(written.args)))
        assert found == "", written.script(found)


@pytest.mark.parametrize("seed", range(6))
def test_random_programs_of_named_extents(seed: int) -> None:
    written = random_open_program(seed)
    _, loss = written.functions()
    derived = sg.value_and_grad(loss, argnums=written.argnums, specs=written.specs)
    found = wrong(derived.lower(*map(sg.spec, written.specs)).stages.of("optimized"), list(leaves(written.resized[0])))
    assert found == "", written.script(found)


# -- mistakes: one in each pass that moves something, and the program whose text shows it


def of(result: Any, place: int, change: Callable[[Any], Any]) -> Any:
    """Change one of several results."""
    return (*result[:place], change(result[place]), *result[place + 1 :])


def nothing(_: Any) -> tuple[()]:
    return ()


def first(loops: LoopProgram, wanted: Callable[[Loop], bool], change: Callable[[Loop], Loop]) -> LoopProgram:
    """Change the first loop that is wanted."""
    found = next(loop for _, around in loops.paths for loop in around if wanted(loop))
    return replace(loops, body=rebuild(loops.body, lambda old, item: change(item) if old is found else item))


def shorter(loops: LoopProgram) -> LoopProgram:
    """Leave the last element out of the first loop that has no others inside."""
    inner = {around[-1] for _, around in loops.paths if around}

    def wanted(loop: Loop) -> bool:
        plain = loop.piece is Piece.ALL and loop.window is None and loop.tile is None
        return loop in inner and plain and loop.walk is not Walk.THREADS

    def change(loop: Loop) -> Loop:
        return replace(loop, axis=Axis(loop.axis.name, loop.axis.extent - 1))

    return first(loops, wanted, change)


def turned_around(nest: Any) -> Any:
    """Turn the statements of a nest around."""
    inside = nest.body if isinstance(nest.body[0], Statement) else (turned_around(nest.body[0]),)
    return replace(nest, body=inside[::-1])


def one_later(place: Any) -> Any:
    return symbolic(place) + 1


def swapped(loops: LoopProgram) -> LoopProgram:
    return replace(loops, body=loops.body[::-1])


def without_last(loops: LoopProgram) -> LoopProgram:
    return replace(loops, body=loops.body[:-1])


def without_sums(loops: LoopProgram) -> LoopProgram:
    """Let a loop that carries a value from one iteration to the next run as lanes."""

    def change(_: Any, item: Any) -> Any:
        plain = isinstance(item, Loop) and vectorize.innermost(item) and item.tile is None
        return replace(item, walk=Walk.LANES) if plain and item.walk is Walk.FREE else item

    return replace(loops, body=rebuild(loops.body, change))


def with_storage(loops: LoopProgram, change: Callable[[Storage], Storage]) -> LoopProgram:
    return loops.with_storage({array: change(stored) for array, stored in loops.storage.items()})


def in_registers(loops: LoopProgram) -> LoopProgram:
    """Keep one element of everything."""
    return with_storage(loops, lambda _: Storage((), {}, is_memory=False))


def short_windows(loops: LoopProgram) -> LoopProgram:
    """Store of a tile one element less than it has."""

    def less(stored: Storage) -> Storage:
        tiled = any(stored.kept.values())
        return stored._replace(shape=(*stored.shape[:-1], stored.shape[-1] - 1)) if tiled else stored

    return with_storage(loops, less)


def overlapping(loops: LoopProgram) -> LoopProgram:
    """Let all slots of the workspace begin at its first byte."""

    def moved(slot: Slot | None) -> Slot | None:
        return None if slot is None else replace(slot, offset=0)

    return with_storage(loops, lambda stored: stored._replace(slot=moved(stored.slot)))


def too_small(loops: LoopProgram) -> LoopProgram:
    return replace(loops, workspace=loops.workspace - 64)


def widened(loops: LoopProgram) -> LoopProgram:
    """Let the interior begin one iteration late: what is neither there nor in the borders does not run."""
    return first(
        loops, lambda loop: loop.piece is Piece.INTERIOR,
        lambda loop: replace(loop, ends=(loop.ends[0] + 1, loop.ends[1])),
    )


def crossing(loops: LoopProgram) -> LoopProgram:
    """Leave in registers what one part makes and another one reads."""
    return with_storage(loops, lambda stored: stored if stored.kept else stored._replace(is_memory=False))


def with_values(how: str, value: Callable[[Any], Any]) -> Callable[[LoopProgram], LoopProgram]:
    """Let the statements of a kind have other values."""

    def change(_: Any, item: Any) -> Any:
        return item.with_(value=value(item.value)) if isinstance(item, Statement) and item.how == how else item

    return lambda loops: replace(loops, body=rebuild(loops.body, change))


def after(name: str, mistake: Callable[[LoopProgram], LoopProgram]) -> Callable[[pytest.MonkeyPatch], None]:
    """Make a mistake on what a pass returns."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        place = [one.name for one in passes.PASSES].index(name)
        right = passes.PASSES[place].apply
        wrong = replace(passes.PASSES[place], apply=wraps(right)(lambda program: mistake(right(program))))
        monkeypatch.setattr(passes, "PASSES", (*passes.PASSES[:place], wrong, *passes.PASSES[place + 1 :]))

    return patch


def inside(module: Any, name: str, mistake: Callable[[Any], Any]) -> Callable[[pytest.MonkeyPatch], None]:
    """Make a mistake on what a function of a pass returns."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        right = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *args, **named: mistake(right(*args, **named)))

    return patch


def first_left_out(found: list[Any]) -> list[Any]:
    return found[1:]


def last_left_out(found: list[Any]) -> list[Any]:
    return found[:-1]


def instead(module: Any, name: str, mistake: Callable[..., Any]) -> Callable[[pytest.MonkeyPatch], None]:
    """Put a mistake in the place of a function of a pass."""
    return lambda monkeypatch: monkeypatch.setattr(module, name, mistake)


def each(*changes: Callable[[pytest.MonkeyPatch], None]) -> Callable[[pytest.MonkeyPatch], None]:
    """Make several changes."""
    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        for change in changes:
            change(monkeypatch)

    return patch


def not_kept(totalled: tuple[Any, ...]) -> tuple[Any, ...]:
    mine, kept, start, _, add = totalled
    return mine, kept, start, start, add


def unstarted(compensated: tuple[Any, Any]) -> tuple[Any, Any]:
    return (), compensated[1]


def without_end(loop: Loop) -> Loop:
    return replace(loop, body=loop.body[:-1])


def as_made(recipe: Any, _: Any) -> Any:
    return recipe.value


def one_less(extent: Any) -> Any:
    return extent if isinstance(extent, (int, Axis, Lookup)) else extent - 1


def without_tiles(loops: LoopProgram) -> LoopProgram:
    def change(_: Any, item: Any) -> Any:
        return replace(item, tile=None) if isinstance(item, Loop) else item

    return replace(loops, body=rebuild(loops.body, change))


def in_a_window(loops: LoopProgram) -> LoopProgram:
    """Let a loop walk the tile of a loop that is not there."""
    return first(
        loops, lambda loop: loop.walk is not Walk.THREADS,
        lambda loop: replace(loop, window=Tile(loop.axis, 8)),
    )


VERIFIER, RUNNING, BOTH = "the verifier", "running the text", "both"
"""Who finds a mistake."""

EXCUSED = {
    "triangles": "the C's numbers alone show which terms of a product count: they are compared with NumPy's",
    "interrupts": "where a long call looks whether it should stop is in no value: calls are stopped",
    "interchange": "no program of this table has 32 rows in a recurrence; its own tests compare threads with NumPy",
    "jam": "how many rows are added at once is in no value, and the template writes them: C is compared with NumPy",
    "order": "only a compiler's mistake makes it a value: which loops are left in order is compared",
    "donate": "no program of this table gives memory up: its own tests ask the verifier of those that do",
}
"""Passes whose mistakes neither finds, and who does."""

Patch = Callable[[pytest.MonkeyPatch], None]

MISTAKES: dict[str, tuple[str, bool, str, Patch]] = {
    "flatten: an element is left out": ("short rows", False, BOTH, inside(flatten_pass, "prod", lambda n: n - 1)),
    "unroll: a point is left out": ("logistic", False, BOTH, inside(unroll_pass, "expanded", last_left_out)),
    "unroll: what is wanted is left out": ("logistic", False, BOTH, inside(unroll_pass, "living", last_left_out)),
    "versioning: an extent is one less": ("heat", True, BOTH, inside(versioning_pass._LargeExtents, "dim", one_less)),
    "align: an offset off by one": ("heat", False, BOTH, inside(align_pass, "_frame_hull", lambda r: (r[0] - 1, r[1]))),
    "coalesce: the last statement is left out": ("heat", False, BOTH, after("coalesce", without_last)),
    "orient: dimensions in the old order": (
        "features first", False, BOTH,
        instead(orient_pass, "temporary", lambda name, _, like: temporary(name, like.shape, like)),
    ),
    "rematerialize: at the place it was made": (
        "rosenbrock", False, BOTH, instead(rematerialize, "recomputed_at", as_made),
    ),
    "fuse: readers before writers": ("logistic", False, BOTH, after("fuse", swapped)),
    "fuse: a tail is forgotten": ("running", False, BOTH, after("fuse", shorter)),
    "fuse: a tile's sum is not reset": (
        "pairs", False, BOTH, inside(tile, "partial_sums", lambda r: of(r, 0, nothing)),
    ),
    "fuse: a tile's sum is forgotten": (
        "pairs", False, RUNNING, inside(tile, "partial_sums", lambda r: of(r, 1, nothing)),
    ),
    "collapse: rows of one begin later": ("rows of two axes", False, BOTH, inside(products, "_place", one_later)),
    "embed: nothing is carried on": ("stepped", True, RUNNING, inside(held, "over_all", nothing)),
    "embed: what is needed is overwritten": ("recurrent", False, RUNNING, instead(held, "overwrites", lambda *_: True)),
    "merge: the later one first": ("recurrent", False, BOTH, inside(merge_pass, "_one_nest", turned_around)),
    "merge: past what it needs": ("recurrent", False, BOTH, instead(merge_pass, "writes_of", lambda _: set())),
    "parallelize: a thread's sum starts at 1": (
        "logistic", True, RUNNING, inside(threads, "first_value", lambda _: 1.0),
    ),
    "parallelize: a thread's total is not kept": ("logistic", False, BOTH, inside(threads, "totalled", not_kept)),
    "layout: what the tile does last is left out": ("network", True, RUNNING, inside(layout, "_reorder", without_end)),
    "ungather: the first rows": (
        "rows by number", False, RUNNING,
        each(instead(products, "is_narrow", lambda *_, **__: True),
             instead(products, "_original", lambda read, copy: read.of(copy.value.array))),
    ),
    "compensate: lost digits do not start at 0": ("single", False, BOTH, inside(tile, "_compensated", unstarted)),
    "arrange: a bound off by one": ("normed", False, BOTH, after("arrange", shorter)),
    "distribute: pieces in another order": ("long", False, BOTH, inside(outline, "cut", lambda r: r[::-1])),
    "contract: everything in registers": ("mixture", False, BOTH, after("contract", in_registers)),
    "contract: a window one short": ("logistic", False, BOTH, after("contract", short_windows)),
    "elide: a copy is left out": ("network", False, BOTH, instead(store, "_with_outputs", lambda program, _: program)),
    "adopt: an output that is needed is overwritten": ("running", False, BOTH, inside(store, "_at_own", lambda _: ())),
    "fit: no tile is left": ("mixture", False, BOTH, after("fit", without_tiles)),
    "blas: a tile that is gone": ("running", False, VERIFIER, after("blas", in_a_window)),
    "promote: the register is not written back": (
        "mixture", False, BOTH, inside(vectorize, "_with_registers", last_left_out),
    ),
    "promote: the register is not read before": (
        "mixture", False, BOTH, inside(vectorize, "_with_registers", first_left_out),
    ),
    "peel: an iteration between border and interior": ("heat", False, BOTH, after("peel", widened)),
    "peel: an iteration of border and interior": (
        "heat", False, RUNNING, inside(peel_pass, "beyond", lambda ends: (ends[0] + 1, ends[1])),
    ),
    "vectorize: a sum is not apart": (
        "pairs", False, VERIFIER, inside(vectorize, "lane_sums", lambda sums: sums and ()),
    ),
    "vectorize: lanes of what goes on": ("running", False, BOTH, after("vectorize", without_sums)),
    "outline: a register crosses a cut": ("long", False, BOTH, after("outline", crossing)),
    "fp_contract: a square is added": (
        "logistic", False, RUNNING, after("fp_contract", with_values("fma", lambda v: v.with_(args=v.args[:1] * 2))),
    ),
    "allocate: threads have one buffer": (
        "attention", False, VERIFIER, inside(allocate, "_life", lambda life: life._replace(team=None)),
    ),
    "allocate: a life ends early": (
        "normed", False, VERIFIER, inside(allocate, "_life", lambda life: life._replace(last=life.last - 1)),
    ),
    "allocate: slots overlap": ("attention", False, BOTH, after("allocate", overlapping)),
    "allocate: a workspace too small": ("attention", False, BOTH, after("allocate", too_small)),
}


@pytest.mark.usefixtures("small_bounds")
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_pass_is_found(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, named, finder, patch = MISTAKES[mistake]
    patch(monkeypatch)
    program, arguments = optimized(name, named=named)
    options = sg.Options(blas=mistake.startswith("blas"))
    assert (unverified(program, options) != "") == (finder in {VERIFIER, BOTH})
    since = mistake.partition(":")[0]
    assert (ran_wrong(program, arguments, options, since) != "") == (finder in {RUNNING, BOTH})


def test_every_pass_has_a_mistake_or_an_excuse() -> None:
    tried = {mistake.partition(":")[0] for mistake in MISTAKES}
    assert not tried & EXCUSED.keys()
    assert tried | EXCUSED.keys() == {one.name for one in passes.EVERY}


def test_the_page_says_who_finds_which_mistake() -> None:
    page = (Path(__file__).parents[2] / "docs" / "loops.md").read_text(encoding="utf-8")
    _, found, excused = page.partition("## Seeded mistakes")[2].split("\n|---|---|", 2)
    rows = [line.strip("|- ") for line in (found + "\n|" + excused).splitlines() if line.startswith("| `")]
    tried = [mistake.partition(": ") for mistake in MISTAKES]
    wanted = [f"`{name}` | {what} | {MISTAKES[f'{name}: {what}'][2]}" for name, _, what in tried]
    assert sorted(rows) == sorted([*wanted, *[f"`{name}` | {why}" for name, why in EXCUSED.items()]])


def test_a_mistake_in_triangles_is_found_by_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The diagonal is left out of what is kept of a matrix."""
    for name, (larger, least) in triangles_pass.COMPARISONS.items():
        monkeypatch.setitem(triangles_pass.COMPARISONS, name, (larger, least + 1))
    given = x(20, 37), x(37, 37)
    made, right = [
        sg.jit(lambda z, L: z @ np.tril(L), options=options)(*given)
        for options in (sg.Options(cache=False), sg.Options(compiler="none"))
    ]
    assert np.max(np.abs(made - right)) > 0.1
