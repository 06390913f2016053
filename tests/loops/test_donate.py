"""Outputs in the memory of donated inputs: what is read is what stood there before, whatever the order of the loops."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.build.load import ffi
from symgrad.build.toolchain.find import find
from symgrad.errors import VerifyError
from symgrad.ir.saved.dims import evaluated
from symgrad.loops.nest import outline
from symgrad.loops.storage import donate
from symgrad.pipeline import Stages, build

RNG = np.random.default_rng(0)
V, W = RNG.normal(size=(2, 50))
A, B = RNG.normal(size=(2, 70, 60))
LONG = RNG.normal(size=300_000)
PLACES = RNG.integers(0, 50, 50)


def built(function, args, pairs, **options):
    """Compile a function whose results stand in the memory of arguments, by pairs of their places."""
    chosen = sg.Options(verify=True, **options)
    lowered = sg.jit(function, options=chosen).lower(*args)
    stages = Stages(chosen)
    program = stages.keep("optimized", replace(lowered.program, donated=tuple(pairs)))
    stages.kept.update(dict.fromkeys(("traced", "stable", "derived"), program))
    return build(stages, program, find(chosen))


def called(made, args, pairs, threads=1):
    """Run it: the code, and every result, those that were written in place among them."""
    given = [np.array(a) for a in args]
    results = [np.empty(port.shape, port.dtype) for port in made.interface.outputs]
    size = evaluated(made.interface.workspace, {"threads": threads})
    workspace = np.full(size, 255, np.uint8)
    kinds = ffi.typeof(made.library.function).args
    arrays = [*given, *results, *made.interface.data]
    passed = [ffi.cast(kind, ffi.from_buffer(a)) for kind, a in zip(kinds, arrays, strict=False)]
    space, stop = ffi.cast("char *", ffi.from_buffer(workspace)), [ffi.NULL] * made.interface.polled
    code = made.library.function(*passed, threads, space, *stop)
    places, rest = {result: k for k, result in pairs}, iter(results)
    return code, [given[places[k]] if k in places else next(rest) for k in range(len(made.program.results))]


def adam(p, g, m, v):
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    return p - 0.1 * m / (np.sqrt(v) + 1e-8), m, v


def some_rows(a, i, b):
    """As an optimizer changes rows of a table: of all others nothing is read or written."""
    after, there = np.copy(a), a[i]
    after[i] = there - 0.1 * b[i] * there
    return after, np.sum(there)


BOTH = ((0, 0), (1, 1))
PROGRAMS: dict[str, Any] = {  # a function, its arguments, the pairs, and how many results have to be copied
    "its own element": (lambda a, b: (a - 0.1 * b, b), (V, W), ((0, 0),), 0),
    "both change places": (lambda a, b: (b * 1.0, a * 1.0), (V, W), BOTH, 1),
    "backwards": (lambda a, b: (a[::-1] * 2, b + np.sum(a)), (V, W), BOTH, 1),
    "a neighbour": (lambda a, b: (np.concatenate([a[1:], a[:1]]), b * 2), (V, W), BOTH, 1),
    "a sum before": (lambda a, b: (a / np.sqrt(np.sum(a * a)), b + a), (V, W), BOTH, 0),
    "a matrix's own": (lambda a, b: (a * 0.9 + b, b * 0.99 + a * a), (A, B), BOTH, 0),
    "a transpose": (lambda a, b: (a.T * 1.0, b + a), (A[:60], B[:60]), BOTH, 1),
    "a product with itself": (lambda a, b: (a @ b.T @ a, b * 2), (A, B), BOTH, 2),
    "a running sum": (lambda a, b: (np.cumsum(a), b + a), (V, W), BOTH, None),
    "sorted": (lambda a, b: (np.sort(a), b - a), (V, W), BOTH, 1),
    "looked up": (lambda a, i: (a[i], i), (V, PLACES), ((0, 0),), 1),
    "unrolled": (lambda a, b: (a * 2, b + a), (V[:3], W[:3]), BOTH, None),
    "unrolled backwards": (lambda a, b: (a[::-1] * 2, b + a), (V[:3], W[:3]), BOTH, None),
    "an optimizer": (adam, (V, W, V * 2, W * W), ((0, 0), (2, 1), (3, 2)), 0),
    "tiles of threads": (adam, (LONG, LONG * 2, LONG * 3, LONG * LONG), ((0, 0), (2, 1), (3, 2)), 0),
    "a loop": (lambda a, b: (sg.fori_loop(0, 5, lambda k, x: x + a[k] * b, a), b), (V, W), ((0, 0),), None),
    "some rows": (some_rows, (A, PLACES[:9], B), ((0, 0),), 0),
    "a slice": (lambda a, b: (np.concatenate([a[:20], b[20:30] * 2, a[30:]]), b), (V, W), ((0, 0),), None),
    "some rows, read behind": (lambda a, i, b: (some_rows(a, i, b)[0], np.sum(a)), (A, PLACES[:9], B), ((0, 0),), None),
    "a number": (lambda a, b: (a + 1, b * a), (np.float64(2.0), W), ((0, 0),), None),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_arrays_of_their_own(name):
    function, args, pairs, copied = PROGRAMS[name]
    made = built(function, args, pairs)
    code, results = called(made, args, pairs, threads=2 if name == "tiles of threads" else 1)
    assert code == 0
    for result, expected in zip(results, function(*args), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-12)
    copies = [a for a in made.stages.of("loops").arrays if a.name.endswith("_new")]
    assert copied is None or len(copies) == copied


def test_what_stays_is_not_copied():
    made = built(some_rows, (A, PLACES[:9], B), ((0, 0),))
    loops = made.stages.of("loops")
    assert [array.name for array in loops.kept] == [loops.outputs[0].name]
    assert not [s for s, _ in loops.paths if s.target.array in loops.kept and s.axes[0].extent == len(A)]
    assert "[...] = a  # the same memory" in made.stages.as_text("loops")


def test_nothing_is_written_before_the_last_check():
    """A place out of bounds is found when the first result is complete; it stands in the workspace until then."""
    pairs = ((0, 0), (1, 1))
    made = built(lambda a, b, i: (a * 2, b + a[i]), (V, W, PLACES), pairs)
    code, results = called(made, (V, W, np.full(50, 99)), pairs)
    assert code > 0
    assert np.array_equal(results, [V, W])


def test_numbers_wait_in_memory_where_functions_are_cut(monkeypatch):
    monkeypatch.setattr(outline, "LONG", 6)
    monkeypatch.setattr(outline, "SHORT", 2)

    def cut(a, b):
        x = np.cumsum(b)[::-1] * a
        for _ in range(3):
            x = np.cumsum(x)[np.argsort(x)]
        return a * 2, x[np.cumsum(0 * x).astype(int)]

    given, pairs = (np.float64(2.0), V), ((0, 0),)
    made = built(cut, given, pairs)
    assert "out0[()] = out0_new[()]" in made.stages.as_text("loops")
    code, (number, result) = called(made, given, pairs)
    assert (code, number) == (0, 4.0)
    np.testing.assert_allclose(result, cut(*given)[1], rtol=1e-12)


def test_what_stays_as_it_is_waits_for_no_check():
    pairs = ((0, 0), (1, 1))
    made = built(lambda a, b, i: (a, b, a[i] + b), (V, np.float64(2.0), PLACES), pairs)
    assert "_new" not in made.stages.as_text("loops")
    assert made.stages.of("loops").kept == {*made.stages.of("loops").outputs[:2]}


@pytest.mark.parametrize("name", [name for name, (*_, copied) in PROGRAMS.items() if copied and name != "sorted"])
def test_the_verifier_knows(name, monkeypatch):
    """A pass that gave memory away too early would be found."""
    function, args, pairs, _ = PROGRAMS[name]
    monkeypatch.setattr(donate, "_comes_first", lambda *_: True)
    with pytest.raises(VerifyError, match=r"after donate: .* may be read after"):
        built(function, args, pairs, cache=False)


def test_the_verifier_knows_what_fails(monkeypatch):
    monkeypatch.setattr(donate, "_comes_first", lambda *_: True)
    with pytest.raises(VerifyError, match="it may fail after"):
        built(lambda a, b, i: (a * 2, b + a[i]), (V, W, PLACES), BOTH, cache=False)
