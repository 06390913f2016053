"""Branches, loops with a condition and loops that stay in order, built by hand: as text that runs, and as C."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad import ops
from symgrad.build.load import build
from symgrad.build.toolchain import find as toolchain
from symgrad.errors import VerifyError
from symgrad.ir.index.notation import Access, Apply, Axis, How, IndexValue, Lookup, Number, Statement
from symgrad.loops import machine, passes
from symgrad.loops.nest import outline
from symgrad.loops.program import (
    Array,
    Cond,
    Kind,
    Loop,
    LoopProgram,
    Outlined,
    Place,
    Share,
    Slot,
    Tile,
    Walk,
    While,
    paths,
    picture,
    rebuild,
    walk,
)
from symgrad.loops.storage.allocate import lives
from symgrad.loops.text import loops_as_text
from symgrad.loops.verify import Verifier
from symgrad.options import Target
from symgrad.render.render import render

F8, BOOL = np.dtype(np.float64), np.dtype(bool)
N = 40
LONG = 700
I, K, L = Axis("i", N), Axis("k", LONG), Axis("l", LONG)  # noqa: E741 - as in C
NUMBERS = np.arange(1.0, N + 1)


def array(name: str, kind: Kind, *shape: int, dtype: np.dtype[Any] = F8) -> Array:
    return Array(name, shape, dtype, kind)


X, OUT = array("x", Kind.INPUT, N), array("out", Kind.OUTPUT, N)
A, B, C = [array(name, Kind.TEMPORARY) for name in "abc"]
WIDE, OTHER = [array(name, Kind.TEMPORARY, LONG) for name in ("wide", "other")]


def at(of: Array, *indices: Any) -> Access:
    return Access(of, indices)


def value(of: Any) -> Any:
    return Number(float(of), F8) if isinstance(of, (int, float)) else of


def apply(op: str, *args: Any, dtype: np.dtype[Any] = F8) -> Apply:
    return Apply(getattr(ops, op), tuple(map(value, args)), dtype, F8)


def greater(one: Any, other: Any) -> Apply:
    return apply("greater", one, other, dtype=BOOL)


def put(target: Access, how: str, of: Any, *axes: Axis) -> Statement:
    return Statement(target, How(how), value(of), axes)


def loop(axis: Axis, *body: Any, walk: Walk = Walk.FREE) -> Loop:
    return Loop(axis, frozenset([axis]), body, walk)


def program(*body: Any) -> LoopProgram:
    used = [access.array for item, _ in walk(body) if isinstance(item, Statement) for access in item.touched]
    tests = [a.array for item, _ in walk(body) if isinstance(item, (Cond, While)) and isinstance(item.test, Apply)
             for a in item.test.accesses]
    return LoopProgram("f", (X,), (OUT,), tuple(dict.fromkeys([X, OUT, *used, *tests])), body)


a, b, c, x = at(A), at(B), at(C), at(X, I)


def collatz() -> LoopProgram:
    """How many steps each number takes to 1: a branch in a loop with a condition in a loop."""
    even = apply("equal", apply("multiply", 2, apply("floor", apply("multiply", a, 0.5))), a, dtype=BOOL)
    step = Cond(even, (put(a, "=", apply("multiply", a, 0.5)),), (
        put(a, "*=", 3, I), put(a, "+=", 1, I),
    ))
    return program(loop(
        I, put(a, "=", x), put(b, "=", 0), While(greater(a, 1), (step, put(b, "+=", 1, I))), put(at(OUT, I), "=", b, I),
    ))


def collatz_by_hand(numbers: Any) -> Any:
    def steps(n: float) -> int:
        return 0 if n == 1 else 1 + steps(n / 2 if n % 2 == 0 else 3 * n + 1)

    return np.array([steps(n) for n in numbers])


def newton() -> LoopProgram:
    """Square roots: what the test reads is computed in the body, and a copy of it before."""
    error = apply("absolute", apply("subtract", apply("multiply", b, b), a))
    better = apply("multiply", 0.5, apply("add", b, apply("divide", a, b)))
    return program(loop(
        I, put(a, "=", x), put(b, "=", a), put(c, "=", error),
        While(greater(c, 1e-12), (put(b, "=", better), put(c, "=", error))), put(at(OUT, I), "=", b, I),
    ))


def recurrence() -> LoopProgram:
    """A loop that must stay in order: each value is made of the one before, in a register."""
    step = put(a, "=", apply("add", apply("multiply", a, 0.5), x))
    return program(put(a, "=", 0), loop(I, step, put(at(OUT, I), "=", a, I), walk=Walk.SEQUENTIAL))


def recurrence_by_hand(numbers: Any) -> Any:
    found, last = [], 0.0
    for n in numbers:
        last = 0.5 * last + n
        found.append(last)
    return np.array(found)


def buffers() -> LoopProgram:
    """What a branch fills is read by a later one, with something as large between them."""
    large = greater(at(X, N - 1), 3)
    fill = loop(K, put(at(WIDE, K), "=", 2, K))
    between = loop(L, put(at(OTHER, L), "=", 5, L))
    total = loop(K, put(b, "+=", at(WIDE, K), K))
    return program(
        put(b, "=", 0), Cond(large, (fill,)), between, loop(L, put(b, "+=", at(OTHER, L), L)), Cond(large, (total,)),
        loop(I, put(at(OUT, I), "=", apply("add", b, x), I)),
    )


def kept() -> LoopProgram:
    """What a branch leaves in memory in one iteration is read in a later one, where the branch is not taken."""
    fill = loop(K, put(at(WIDE, K), "=", x, K))
    between = loop(L, put(at(OTHER, L), "=", 7, L))
    take = [put(b, "=", 0), loop(K, put(b, "+=", at(WIDE, K), I, K)), loop(L, put(b, "+=", at(OTHER, L), I, L))]
    first = apply("equal", x, 1, dtype=BOOL)
    return program(loop(I, Cond(first, (fill,)), between, *take, put(at(OUT, I), "=", b, I), walk=Walk.SEQUENTIAL))


PROGRAMS: dict[str, tuple[Callable[[], LoopProgram], Callable[[Any], Any]]] = {
    "collatz": (collatz, collatz_by_hand),
    "newton": (newton, np.sqrt),
    "recurrence": (recurrence, recurrence_by_hand),
    "buffers": (buffers, lambda x: x + 7.0 * LONG),
    "kept": (kept, lambda _: np.full(N, 8.0 * LONG)),
}

PICTURES = {
    "collatz": "i<40 { while { if {  } else {  } } }",
    "newton": "i<40 { while {  } }",
    "recurrence": "i<40 {  }",
    "buffers": "if { k<700 simd {  } }; l<700 simd {  }; l<700 simd {  }; if { k<700 simd {  } }; i<40 simd {  }",
    "kept": "i<40 { if { k<700 simd {  } }; l<700 simd {  }; k<700 simd {  }; l<700 simd {  } }",
}


def steps(loops: LoopProgram) -> dict[str, LoopProgram]:
    """Take a tree through the passes that come after fusion; each leaves what the verifier has nothing against."""
    made, verifier = {"by hand": loops}, Verifier()
    verifier.check(loops, "by hand")
    for one in passes.PASSES[[one.name for one in passes.PASSES].index("parallelize") :]:
        if one.runs(sg.Options(), Target(fma=True)):
            loops = made[one.name] = verifier.check(one.apply(loops), one.name)
    return made


def run(loops: LoopProgram) -> np.ndarray[Any, Any]:
    names: dict[str, Any] = {}
    exec(compile(loops_as_text(loops), "<loops>", "exec"), names)
    out = np.full(N, np.nan)
    names["f"](NUMBERS, out)
    return out


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_text_runs_after_every_pass(name: str) -> None:
    make, by_hand = PROGRAMS[name]
    made = steps(make())
    for after, loops in made.items():
        np.testing.assert_allclose(run(loops), by_hand(NUMBERS), rtol=1e-9, err_msg=after)
    assert picture(made["allocate"].body) == PICTURES[name]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_text_runs_where_everything_is_cut(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outline, "LONG", 2)
    monkeypatch.setattr(outline, "SHORT", 1)
    make, by_hand = PROGRAMS[name]
    for after, loops in steps(make()).items():
        np.testing.assert_allclose(run(loops), by_hand(NUMBERS), rtol=1e-9, err_msg=after)


@pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut"])
@pytest.mark.parametrize("plain", [False, True], ids=["lanes", "plain"])
def test_the_c_computes_the_same(plain: bool, cut: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = toolchain.find(sg.Options())
    if tools is None:
        pytest.skip("no compiler")
    if cut:
        monkeypatch.setattr(outline, "LONG", 2)
        monkeypatch.setattr(outline, "SHORT", 1)
    for make, by_hand in PROGRAMS.values():
        loops = steps(make())["allocate"]
        library = build(render(loops, sg.Options(), Target(plain=True) if plain else tools.target), tools, sg.Options())
        found = np.full(N, np.nan)
        space = np.zeros(int(loops.workspace) // 8 + 8)
        pointers = [library.ffi.cast(f"{kind} *", one.ctypes.data)
                    for kind, one in (("double", NUMBERS), ("double", found), ("char", space))]
        never = [library.ffi.new("int32_t *", 0)] if loops.polled else []  # nobody stops it
        assert library.entry(*pointers[:2], 1, pointers[2], *never) == 0
        np.testing.assert_allclose(found, by_hand(NUMBERS), rtol=1e-9)


def test_a_loop_of_unknown_length_looks_whether_it_should_stop() -> None:
    """Nobody knows how long it takes: the call runs where it can be stopped."""
    tools = toolchain.find(sg.Options())
    if tools is None:
        pytest.skip("no compiler")
    forever = While(greater(a, 0), (put(a, "+=", 1),))
    loops = steps(program(put(a, "=", at(X, 0)), forever, loop(I, put(at(OUT, I), "=", a, I))))["allocate"]
    assert loops.polled
    assert loops.work >= machine.LONG_CALL
    library = build(render(loops, sg.Options(), tools.target), tools, sg.Options())
    pointers = [library.ffi.cast("double *", one.ctypes.data) for one in (NUMBERS, np.zeros(N))]
    assert library.entry(*pointers, 1, library.ffi.NULL, library.ffi.new("int32_t *", 1)) == -1


def test_threads_are_seen_at_any_depth() -> None:
    inside = loop(I, put(at(OUT, I), "=", x, I), walk=Walk.THREADS)
    assert program(Outlined((Cond(greater(at(X, 0), 0), (inside,)),))).threaded


def free(item: Any) -> Any:
    return replace(item, walk=Walk.FREE) if isinstance(item, Loop) else item


def test_a_loop_in_order_is_not_lanes_where_a_free_one_would_be() -> None:
    """The register is written before it is read only in the text: `SEQUENTIAL` says that it is carried."""
    loops = recurrence()
    freed = replace(loops, body=rebuild(loops.body, lambda _, item: free(item)))
    with pytest.raises(VerifyError, match=r"after vectorize: in i: lanes of i share a\[\]"):
        steps(freed)
    assert "simd" not in picture(steps(loops)["allocate"].body)


# -- a tree is walked and rebuilt in one way each


def everything() -> LoopProgram:
    """One item of each kind, one inside of the other."""
    return program(
        put(b, "=", 0),
        loop(I, While(greater(a, 1), (Cond(greater(b, 2), (put(a, "+=", 1),), (Outlined((put(b, "=", x),)),)),))),
    )


def test_walk_goes_through_every_block_in_order() -> None:
    found = [(type(item).__name__, len(around)) for item, around in walk(everything().body)]
    assert found == [
        ("Statement", 0), ("Loop", 0), ("While", 1), ("Cond", 2), ("Statement", 3), ("Outlined", 3), ("Statement", 4),
    ]
    assert [len(around) for _, around in paths(everything().body)] == [0, 1, 1]
    assert [type(item).__name__ for item, _ in walk(everything().body, outlined=False)][-1] == "Outlined"


def test_rebuild_keeps_what_does_not_change() -> None:
    before = everything()
    assert rebuild(before.body, lambda _, item: item) is before.body
    last = [s for s, _ in before.paths][-1]
    after = rebuild(before.body, lambda old, item: None if old is last else item)
    assert after[0] is before.body[0]
    assert picture(after, statements=True) == "b =; i<40 { while { if { a += } else { part {  } } } }"
    old, new = [next(item for item, _ in walk(body) if isinstance(item, Cond)) for body in (before.body, after)]
    assert new.then is old.then


def test_a_name_is_changed_everywhere() -> None:
    """In targets, reads, lookups inside of sums, tests, sums of lanes, shares of threads and running values."""
    index = array("n", Kind.TEMPORARY, N, dtype=np.dtype(np.int64))
    place = Lookup(at(index, I), N, -1)
    looked = put(at(OUT, I), "=", Access(X, (place.symbol + 1,)), I)
    counted = put(a, "=", IndexValue(place, F8), I).with_(prefix=frozenset([B]))
    item = Loop(I, frozenset([I]), (looked, counted), Walk.LANES, (("+", A),), shares=(Share(A, B, C),))
    before = program(item, While(greater(a, b), (put(c, "=", a),)))
    new = {old: replace(old, name=f"{old.name}_") for old in (index, A, B, C)}
    after = before.renamed(new)
    assert {one.name for one in after.arrays if one.kind is Kind.TEMPORARY} <= {"n_", "a_", "b_", "c_"}
    for each, _ in walk(after.body):
        if isinstance(each, Statement):
            assert not {access.array for access in each.touched} & set(new)
            assert not each.prefix & set(new)
        if isinstance(each, While):
            assert {access.array.name for access in each.test.accesses} == {"a_", "b_"}  # type: ignore[union-attr]
        if isinstance(each, Loop):
            assert each.sums == (("+", new[A]),)
            assert each.shares == (Share(new[A], new[B], new[C]),)
    assert before.renamed({}) is before


def test_what_a_test_reads_is_alive() -> None:
    """From the statement that starts it, through the whole loop that asks for it."""
    loops = newton()
    found = lives(loops, [A, B, C])
    assert found[C].first == 2
    assert found[C].last == found[B].last - 1 == 5  # the loop's test, two statements inside, one after it


@pytest.mark.parametrize("one", [
    A, A.whole, Slot(Place.STACK, F8, 8), recurrence(), recurrence().body[0], recurrence().body[1], collatz().body[0],
    Cond(Number(1.0, F8), ()), While(Number(1.0, F8), ()), Outlined(()), Tile(I, 8), a, apply("sin", a),
], ids=lambda one: type(one).__name__)
def test_nothing_is_written_in_place(one: Any) -> None:
    kind = type(one)
    names = getattr(kind, "_fields", getattr(kind, "__slots__", None)) or [field.name for field in fields(one)]
    for name in names:
        with pytest.raises((FrozenInstanceError, AttributeError)):
            setattr(one, name, None)


def test_tables_of_items_name_every_kind() -> None:
    kinds = [type(item) for item, _ in walk(everything().body)]
    assert {*kinds} == {Statement, Loop, Cond, While, Outlined}
