"""The verifier of loop programs: a broken one of each kind is found, and what it cannot decide is counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import VerifyError
from symgrad.ir.index.notation import Access, Axis, How, IndexValue, Lookup, Number, Statement
from symgrad.ir.index.shapes import symbol
from symgrad.loops.program import (
    THREADS,
    Array,
    Cond,
    Kind,
    Loop,
    LoopProgram,
    Outlined,
    Piece,
    Place,
    Slot,
    StorageMap,
    Tile,
    Walk,
    While,
)
from symgrad.loops.text import loops_as_text
from symgrad.loops.verify import Verifier

DOUBLE, N = np.dtype(float), 10
ONE = Number(1.0, DOUBLE)


def array(name: str, *shape: Any, kind: Kind = Kind.TEMPORARY, dtype: Any = DOUBLE) -> Array:
    return Array(name, shape, dtype, kind)


def set_(target: Access, value: Any, *axes: Axis, how: str = "=", **fields: Any) -> Statement:
    return Statement(target, How(how), value, axes, **fields)


def over(axis: Axis, *body: Any, members: tuple[Axis, ...] = (), **fields: Any) -> Loop:
    return Loop(axis, frozenset([axis, *members]), body, **fields)


def check(body: list[Any], *arrays: Array, stage: str = "pass", **fields: Any) -> Verifier:
    """Verify a program of these statements or loops."""
    inputs, outputs = [tuple([a for a in arrays if a.kind is kind]) for kind in (Kind.INPUT, Kind.OUTPUT)]
    verifier = Verifier()
    verifier.check(LoopProgram("f", inputs, outputs, arrays, tuple(body), **fields), stage)
    return verifier


class Case:
    """Arrays, axes and loops that the cases below are made of; made anew for each."""

    def __init__(self) -> None:
        self.n = symbol("n")
        self.x, self.y = array("x", N, kind=Kind.INPUT), array("y", N, kind=Kind.OUTPUT)
        self.X, self.s = array("X", N, N, kind=Kind.INPUT), array("s", kind=Kind.OUTPUT)
        self.t, self.u, self.r = array("t", N), array("u", N), array("r")
        self.row, self.sums = array("row", N), array("sums", N)
        self.storage = StorageMap({self.row: self.row.stored({}, is_memory=True)})
        self.xn, self.yn = array("x", self.n, kind=Kind.INPUT), array("y", self.n, kind=Kind.OUTPUT)
        self.places = array("p", N, kind=Kind.INPUT, dtype=np.dtype(np.int64))
        self.i, self.j = Axis("i", N), Axis("j", N)
        self.k = Axis("i", self.n)
        self.short = Axis("i", N - 1)


def a(array_: Array, *indices: Any) -> Access:
    return Access(array_, indices)


def copied(c: Case, target: Array, source: Array, axis: Axis | None = None) -> Loop:
    axis = axis or Axis("i", N)
    return over(axis, set_(a(target, axis), a(source, axis), axis))


def tiles(c: Case, *, rows: int = 4, stored: int = 4, shift: int = 0) -> tuple[list[Any], tuple[Array, ...]]:
    """Two loops over a tile, of which an array holds one."""
    start = Axis("i", N)
    tile = Tile(start, rows)
    kept = array("w", N)
    c.storage[kept] = kept.stored({0: Tile(start, stored)}, is_memory=True)
    first = over(c.i, set_(a(kept, c.i), a(c.x, c.i), c.i), window=tile)
    last = over(c.j, set_(a(c.y, c.j), a(kept, c.j + shift) if shift else a(kept, c.j), c.j), window=tile)
    return [over(c.i, first, last, members=(c.j,), tile=tile)], (c.x, c.y, kept)


def slots(c: Case, *, size: int = 80, second: int = 128, one: bool = False) -> tuple[list[Any], tuple[Array, ...]]:
    """Two arrays in the workspace, which are alive together."""
    slot = Slot(Place.WORKSPACE, DOUBLE, size)
    c.storage[c.t] = c.t.whole._replace(slot=slot)
    c.storage[c.u] = c.u.whole._replace(slot=slot if one else Slot(Place.WORKSPACE, DOUBLE, 80, second))
    body = [copied(c, c.t, c.x), copied(c, c.u, c.x), copied(c, c.y, c.t), copied(c, c.y, c.u)]
    return body, (c.x, c.y, c.t, c.u)


def team(*body: Any, axis: Axis) -> Loop:
    """A loop of which threads share the iterations out."""
    thread = Axis("t", THREADS)
    return over(thread, over(axis, *body, tile=Tile(Axis("i", N), 1), team=thread), walk=Walk.THREADS)


def shared_buffer(c: Case) -> tuple[list[Any], tuple[Array, ...]]:
    """A buffer of which each thread must have one."""
    c.storage[c.u] = c.u.whole._replace(slot=Slot(Place.WORKSPACE, DOUBLE, 80))
    write, read = set_(a(c.u, 0), a(c.x, c.i), c.i), set_(a(c.y, c.i), a(c.u, 0), c.i)
    return [team(write, read, axis=c.i)], (c.x, c.y, c.u)


def twice(c: Case) -> Any:
    loop = copied(c, c.y, c.x)
    return [loop, loop], (c.x, c.y)


BROKEN: dict[str, Any] = {
    "two of a name": (lambda c: ([copied(c, c.y, c.x)], (c.x, array("x", N, kind=Kind.INPUT), c.y)), "have one name"),
    "an array twice": (lambda c: ([copied(c, c.y, c.x)], (c.x, c.x, c.y)), "stands among the arrays twice"),
    "an array of another program": (
        lambda c: ([copied(c, c.t, c.x), copied(c, c.y, c.t)], (c.x, c.y)),
        r"in i: t:float64\[10\] is none of the program's arrays",
    ),
    "a loop twice": (twice, "the loop i stands in the program twice"),
    "a variable of two loops": (
        lambda c: ([over(c.i, over(c.j, set_(a(c.y, c.i), a(c.x, c.i), c.i), members=(c.i,)))], (c.x, c.y)),
        "the loop j has an axis that is the variable of a loop around it",
    ),
    "a window without its tiles": (
        lambda c: ([over(c.i, set_(a(c.y, c.i), a(c.x, c.i), c.i), window=Tile(c.j, 4))], (c.x, c.y)),
        "the loop i walks a tile of a loop that is not around it",
    ),
    "a share of no threads": (
        lambda c: ([
            over(c.i, set_(a(c.y, c.i), a(c.x, c.i), c.i), tile=Tile(Axis("i", N), 1), team=Axis("t", THREADS)),
        ], (c.x, c.y)),
        "the tiles of i are shared out by a loop that is not around it",
    ),
    "an axis without a loop": (
        lambda c: ([over(c.i, set_(a(c.y, c.i), a(c.x, c.i), c.i, c.j))], (c.x, c.y)),
        r"in i: the axis j of y\[i\] = has no loop of its own",
    ),
    "a sum in a loop too many": (
        lambda c: ([set_(a(c.s), ONE), over(c.i, over(c.j, set_(a(c.s), a(c.x, c.j), c.j, how="+=")))], (c.x, c.s)),
        r"in i j: s\[\] \+= once too often for each i",
    ),
    "an input that is written": (
        lambda c: ([copied(c, c.x, c.x)], (c.x,)), r"x:float64\[10\] is written, and was given",
    ),
    "too few indices": (
        lambda c: ([over(c.i, set_(a(c.y, c.i), a(c.X, c.i), c.i))], (c.X, c.y)),
        r"X\[i\] has 1 indices for 2 dimensions",
    ),
    "an index without a loop": (
        lambda c: ([over(c.i, set_(a(c.y, c.i), a(c.x, c.j), c.i))], (c.x, c.y)),
        r"in i: j in x\[j\] is the variable of no loop around it",
    ),
    "a loop too short": (
        lambda c: ([over(c.short, set_(a(c.y, c.i), a(c.x, c.i), c.i), members=(c.i,))], (c.x, c.y)),
        "in i: a loop of 9 for the axis i of 10",
    ),
    "an index beyond": (
        lambda c: ([over(c.i, set_(a(c.y, c.i), a(c.x, c.i + 1), c.i))], (c.x, c.y)),
        r"in i: i \+ 1 in x\[i \+ 1\] is 10, outside of an extent of 10",
    ),
    "an index before": (
        lambda c: ([over(c.k, set_(a(c.yn, c.k), a(c.xn, c.k - 1), c.k))], (c.xn, c.yn)),
        r"i - 1 in x\[i - 1\] is -1, outside of an extent of n where n = 1",
    ),
    "an index beyond by a range": (
        lambda c: ([over(
            c.k, set_(a(c.yn, c.k), ONE, c.k), set_(a(c.yn, c.k), a(c.xn, c.k + 2), c.k, ranges=((c.k, 0, c.n - 1),)),
        )], (c.xn, c.yn)),
        r"i \+ 2 in x\[i \+ 2\] is \d+, outside of an extent of n where n = ",
    ),
    "an index that is not linear": (
        lambda c: ([over(c.i, set_(a(c.y, c.i), a(c.x, (c.i + 4) // 2 * 2), c.i))], (c.x, c.y)),
        r"is 12, outside of an extent of 10",
    ),
    "borders that overlap": (
        lambda c: ([over(c.i, set_(a(c.y, c.i), a(c.x, c.i), c.i), piece=Piece.BORDERS, ends=(5, 3))], (c.x, c.y)),
        "the borders of i end at 5 and go on at 3",
    ),
    "a place between borders and interior": (
        lambda c: ([
            over(c.i, set_(a(c.y, c.i), a(c.x, c.i), c.i), piece=Piece.BORDERS, ends=(2, 8)),
            over(c.j, set_(a(c.y, c.j), a(c.x, c.j), c.j), piece=Piece.INTERIOR, ends=(3, 8)),
        ], (c.x, c.y)),
        r"the output y is not written at \[2\] of y:float64\[10\]",
    ),
    "one element of two loops": (
        lambda c: ([
            over(c.i, set_(a(c.row, c.i), a(c.x, c.i), c.i)), over(c.j, set_(a(c.y, c.j), a(c.row, c.j), c.j)),
        ], (c.x, c.y, c.row)),
        r"row\[j\] is not the same place in dimension 0, of which one element is stored",
    ),
    "a window that is left": (
        lambda c: tiles(c, shift=1), r"w\[j \+ 1\]",
    ),
    "a window of another loop": (
        lambda c: tiles(c, stored=3), r"is not the same place in dimension 0, of which a tile is stored",
    ),
    "nothing written": (
        lambda c: ([copied(c, c.y, c.t)], (c.x, c.y, c.t)), r"in i: t\[i\] is read, and nothing was written to t",
    ),
    "a tail that is forgotten": (
        lambda c: ([copied(c, c.t, c.x, c.short), copied(c, c.y, c.t)], (c.x, c.y, c.t)),
        r"in i: t\[i\] is read, and was not written at \[9\]",
    ),
    "what other iterations write": (
        lambda c: ([over(
            c.i, set_(a(c.t, c.i), a(c.x, c.i), c.i), set_(a(c.sums, c.i), ONE, c.i),
            over(c.j, set_(a(c.sums, c.i), a(c.t, c.j), c.i, c.j, how="+=")), set_(a(c.y, c.i), a(c.sums, c.i), c.i),
        )], (c.x, c.y, c.t, c.sums)),
        r"in i j: t\[j\] is read, and was not written at \[1..9\]",
    ),
    "what a later statement writes": (
        lambda c: ([copied(c, c.y, c.t), copied(c, c.t, c.x)], (c.x, c.y, c.t)), "nothing was written to t",
    ),
    "a sum without a start": (
        lambda c: ([over(c.i, set_(a(c.s), a(c.x, c.i), c.i, how="+="))], (c.x, c.s)),
        r"in i: s\[\] is read, and nothing was written to s",
    ),
    "a running sum behind its loop": (
        lambda c: ([
            set_(a(c.r), ONE), over(c.i, set_(a(c.r), a(c.x, c.i), c.i, how="+=")),
            over(c.j, set_(a(c.y, c.j), a(c.r), c.j, prefix=frozenset([c.r]))),
        ], (c.x, c.y, c.r)),
        r"in j: the running value r\[\] is read outside of the loop it runs in",
    ),
    "looked-up places out of order": (
        lambda c: ([
            over(c.i, set_(a(c.y, c.i), ONE, c.i)),
            *[over(c.j, set_(a(c.y, Lookup(a(c.places, c.j), N, 1)), ONE, c.j), piece=piece, ends=(1, N - 1))
              for piece in (Piece.BORDERS, Piece.INTERIOR)],
        ], (c.x, c.places, c.y)),
        "is not written in the order of j",
    ),
    "an output without its last element": (
        lambda c: ([copied(c, c.y, c.x, c.short)], (c.x, c.y)), r"the output y is not written at \[9\]",
    ),
    "lanes that share an element": (
        lambda c: ([
            set_(a(c.s), ONE), over(c.i, set_(a(c.s), a(c.x, c.i), c.i, how="+="), walk=Walk.LANES),
        ], (c.x, c.s)),
        r"in i: lanes of i share s\[\], which each of them writes",
    ),
    "lanes that meet": (
        lambda c: ([copied(c, c.y, c.x), over(
            c.short, set_(a(c.y, c.short), ONE, c.short, how="+="), set_(a(c.y, c.short + 1), ONE, c.short, how="+="),
            walk=Walk.LANES,
        )], (c.x, c.y)),
        r"lanes of i share y\[i\], which each of them writes",
    ),
    "lanes whose sum is another": (
        lambda c: ([set_(a(c.s), ONE), over(
            c.i, set_(a(c.s), a(c.x, c.i), c.i, how="+="), walk=Walk.LANES, sums=(("maximum", c.s),),
        )], (c.x, c.s)),
        "lanes of i take s apart as a maximum, and it is used otherwise",
    ),
    "lanes whose last value is wanted": (
        lambda c: ([over(c.i, set_(a(c.r), a(c.x, c.i), c.i), walk=Walk.LANES), set_(a(c.s), a(c.r))], (c.x, c.s, c.r)),
        "lanes of i have r for themselves, and it is touched outside of them",
    ),
    "threads that share an element": (
        lambda c: ([set_(a(c.s), ONE), team(set_(a(c.s), a(c.x, c.i), c.i, how="+="), axis=c.i)], (c.x, c.s)),
        r"in t i: threads share s\[\], which each of them writes",
    ),
    "threads that share a buffer": (
        shared_buffer, r"in t i: threads share u\[0\], which each of them writes",
    ),
    "a register of two functions": (
        lambda c: ([Outlined((set_(a(c.r), ONE),)), Outlined((set_(a(c.s), a(c.r)),))], (c.s, c.r)),
        "the register r is used in several functions",
    ),
    "a slot too small": (lambda c: slots(c, size=72), r"t:float64\[10\] stands in a slot of 72 bytes"),
    "two alive in one slot": (lambda c: slots(c, one=True), "t and u have one slot, and both are alive in i"),
    "slots that overlap": (lambda c: slots(c, second=72), "the slots of t and u overlap"),
    "a slot beyond the workspace": (lambda c: slots(c, second=192), "u ends at byte 272 of a workspace of 256"),
    "a test of what nobody has written": (
        lambda c: ([While(a(c.r), (set_(a(c.r), ONE),)), set_(a(c.s), ONE)], (c.s, c.r)),
        r"in while: r\[\] is read, and nothing was written to r",
    ),
    "an index of a test beyond": (
        lambda c: ([over(c.i, set_(a(c.y, c.i), ONE, c.i), Cond(a(c.x, c.i + 1), ()))], (c.x, c.y)),
        r"is 10, outside of an extent of 10",
    ),
    "no memory": (
        lambda c: [[*found, more] for found, more in zip(slots(c), (copied(c, c.row, c.x), c.row), strict=True)],
        r"row:float64\[10\] has no memory",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_program_is_found(kind: str) -> None:
    make, message = BROKEN[kind]
    case = Case()
    body, arrays = make(case)
    with pytest.raises(VerifyError, match=f"^f, after allocate: .*{message}"):
        check(body, *arrays, stage="allocate", workspace=256, storage=case.storage)


def test_right_programs_are_right() -> None:
    """What the broken ones are made of: tiles, slots, shares of threads, borders, lanes."""
    c = Case()
    check([copied(c, c.t, c.x), copied(c, c.y, c.t)], c.x, c.y, c.t)
    body, arrays = tiles(c)
    check(body, *arrays, storage=c.storage)
    c = Case()
    body, arrays = slots(c)
    check(body, *arrays, stage="allocate", workspace=256, storage=c.storage)
    c = Case()
    check([team(set_(a(c.y, c.i), a(c.x, c.i), c.i), axis=c.i)], c.x, c.y)
    c = Case()
    check([set_(a(c.s), ONE), over(
        c.i, set_(a(c.s), a(c.x, c.i), c.i, how="+="), walk=Walk.LANES, sums=(("+", c.s),),
    )], c.x, c.s)
    c = Case()
    places = (2, N - 2)
    check([
        over(c.i, set_(a(c.y, c.i), a(c.x, c.i), c.i), piece=Piece.BORDERS, ends=places),
        over(c.j, set_(a(c.y, c.j), a(c.x, c.j), c.j), piece=Piece.INTERIOR, ends=places),
    ], c.x, c.y)


def test_what_a_branch_writes_is_there_in_that_branch_alone() -> None:
    """Read in the same branch it is certain, after the branch it is undecided, whatever the other one does."""
    c = Case()
    one, two = set_(a(c.r), ONE), set_(a(c.s), a(c.r))
    start = set_(a(c.s), ONE)
    assert not check([start, Cond(ONE, (one, two))], c.s, c.r).undecided
    assert not check([one, While(a(c.r), (one, two)), start], c.s, c.r).undecided
    assert list(check([start, Cond(ONE, (one,), (two,))], c.s, c.r).undecided) == [
        "in no loop: whether all of r[] is written before it is read"
    ]
    assert check([Cond(ONE, (one,)), two], c.s, c.r).undecided
    assert check([While(a(c.x, 0), (one,)), two], c.x, c.s, c.r).undecided


def test_what_is_undecided_is_counted_and_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """`x[3]` of n elements is inside where the call has checked it: it is tried at such extents only."""
    c = Case()
    place = Lookup(a(c.places, c.i), N, 0)
    two = over(c.i, set_(a(c.y, c.i), a(c.x, (place.symbol + c.i) // 2), c.i))
    assert list(check([two], c.places, c.x, c.y).undecided) == ["in i: where floor(_i/2 + _lookup/2) goes"]
    monkeypatch.setenv("SYMGRAD_VERIFY", "1")
    made = sg.jit(lambda x: x[3] * x, specs=("f64[n]",)).lower(sg.spec("f64[n]")).stages.of("loops")
    assert made.undecided == ("lambda_, after lower: 3 < n",)
    assert "# not verified, " in loops_as_text(made)


def test_a_value_of_an_index_needs_no_memory() -> None:
    c = Case()
    check([over(c.i, set_(a(c.y, c.i), IndexValue(c.i, DOUBLE), c.i))], c.x, c.y)


def test_routines_write_more_than_they_are_given() -> None:
    """The pivots of a factorization stand in rows beyond the matrix."""
    def loss(A: Any, b: Any) -> Any:
        return np.sum(np.linalg.solve(A, b)) + np.linalg.slogdet(A)[1] + np.sum(np.linalg.inv(A))

    for specs in (("f64[5,5]", "f64[5]"), ("f64[n,n]", "f64[n]")):
        made = sg.value_and_grad(loss, argnums=(0, 1), specs=specs, options=sg.Options(verify=True))
        assert "routine(" in loops_as_text(made.lower(*map(sg.spec, specs)).stages.of("loops"))


def test_what_a_pass_leaves_is_asked_again_where_the_rest_has_changed() -> None:
    """Sections that are known from the pass before are no more right than what is around them."""
    c = Case()
    first, last = copied(c, c.t, c.x), copied(c, c.y, c.t)
    one, two = set_(a(c.r), ONE), set_(a(c.s), a(c.r))
    arrays, body = (c.x, c.y, c.s, c.t, c.r), (first, last, one, two)
    right = LoopProgram("f", (c.x,), (c.y, c.s), arrays, body)
    for changed, words in (
        ({"body": body[1:]}, "is read, and nothing was written to t"),
        ({"body": (last, first, one, two)}, "is read, and nothing was written to t"),
        ({"body": (first, one, two)}, "the output y is not written"),
        ({"body": (*body, first)}, "stands in the program twice"),
        ({"body": (first, last, Outlined((one,)), Outlined((two,)))}, "the register r is used in several functions"),
        ({"arrays": arrays[:3]}, "none of the program's arrays"),
        ({"storage": StorageMap({c.t: c.t.stored({}, is_memory=False)})}, "of which one element is stored"),
    ):
        verifier = Verifier()
        verifier.check(right, "pass")
        with pytest.raises(VerifyError, match=words):
            verifier.check(replace(right, **changed), "next")
    parts = verifier.check(replace(right, body=(first, Outlined((last, one, two)))), "parts")
    assert verifier.check(replace(parts, body=body), "again").body is body


def found_next(right: LoopProgram, words: str, **changed: Any) -> None:
    """What is wrong after the next pass is found as if that were the first one."""
    fresh, verifier = Verifier(), Verifier()
    verifier.check(right, "pass")
    for one in (fresh, verifier):
        with pytest.raises(VerifyError, match=words):
            one.check(replace(right, **changed), "allocate")


def test_a_broken_item_is_found_beside_those_that_are_unchanged() -> None:
    """In each of three sections in turn, what is inside of a loop being the same objects."""
    c = Case()
    first, last = copied(c, c.t, c.x), copied(c, c.y, c.t)
    inner = set_(a(c.u, c.i), a(c.t, c.i), c.i)
    loop = over(c.i, inner, set_(a(c.s), a(c.u, c.i), c.i, how="max="))
    arrays = (c.x, c.y, c.s, c.t, c.u)
    start = set_(a(c.s), ONE)
    right = LoopProgram("f", (c.x,), (c.y, c.s), arrays, (first, start, loop, last))
    for place, other, words in (
        (0, copied(c, c.t, c.x, c.short), r"t\[i\] is read, and was not written at \[9\]"),
        (1, set_(a(c.t, 0), ONE), r"s\[\] is read, and nothing was written to s"),
        (2, loop.with_(body=loop.body[::-1]), r"u\[i\] is read, and nothing was written to u"),
        (2, loop.with_(body=(inner, over(c.j, loop.body[1]))), r"s\[\] max= once too often for each j"),
        (2, loop.with_(walk=Walk.LANES), r"lanes of i share s\[\], which each of them writes"),
        (3, over(c.short, *last.body, members=tuple(last.members)), "a loop of 9 for the axis i of 10"),
    ):
        body = [*right.body]
        body[place] = other
        found_next(right, words, body=tuple(body))


def test_statements_are_asked_again_where_loops_around_them_have_changed() -> None:
    """The statements are the same objects; what changes is where a loop runs, or how."""
    c = Case()
    write, read = set_(a(c.t, c.i), a(c.x, c.i), c.i), set_(a(c.y, c.j), a(c.t, c.j), c.j)
    one, two = over(c.i, write), over(c.j, read)
    right = LoopProgram("f", (c.x,), (c.y,), (c.x, c.y, c.t), (one, two))
    short = one.with_(axis=c.short, members=frozenset([c.short, c.i]))
    found_next(right, "a loop of 9 for the axis i of 10", body=(short, two))
    inside = one.with_(piece=Piece.INTERIOR, ends=(1, N))
    found_next(right, r"t\[j\] is read, and was not written at \[0\]", body=(inside, two))
    found_next(right, r"the output y is not written at \[0\]", body=(one, two.with_(piece=Piece.INTERIOR, ends=(1, N))))
    found_next(right, "walks a tile of a loop that is not around it", body=(one, two.with_(window=Tile(c.i, 4))))
    both = over(c.i, write, read, members=(c.j,))
    found_next(replace(right, body=(both,)), "nothing was written to t", body=(both.with_(body=(read, write)),))
    again = over(Axis("k", 2), two)
    words = r"lanes of k share y\[j\], which each of them writes"
    found_next(replace(right, body=(one, again)), words, body=(one, again.with_(walk=Walk.LANES)))
    lanes = two.with_(walk=Walk.LANES)
    verifier = Verifier()
    for body in ((one, two), (one, lanes), (one, lanes.with_(poll=8)), (one.with_(poll=8), two)):
        verifier.check(replace(right, body=body), "marks")  # marks alone break nothing
    marked = two.with_(poll=8)
    with pytest.raises(VerifyError, match="stands in the program twice"):
        verifier.check(replace(right, body=(one, marked, marked)), "twice")


def test_arrays_are_asked_again_where_they_are_stored_in_another_way() -> None:
    """Statements and loops are the same objects."""
    c = Case()
    write, read = set_(a(c.t, c.i), a(c.x, c.i), c.i), set_(a(c.y, c.i), a(c.t, c.i), c.i)
    together = LoopProgram("f", (c.x,), (c.y,), (c.x, c.y, c.t), (over(c.i, write, read),))
    element = StorageMap({c.t: c.t.stored({}, is_memory=False)})
    Verifier().check(replace(together, storage=element))
    right = LoopProgram("f", (c.x,), (c.y,), (c.x, c.y, c.t), (copied(c, c.t, c.x), copied(c, c.y, c.t)))
    found_next(right, "of which one element is stored", storage=element)
    slot = Slot(Place.WORKSPACE, DOUBLE, 72)
    found_next(right, "stands in a slot of 72 bytes", storage=StorageMap({c.t: c.t.whole._replace(slot=slot)}))
    found_next(right, r"t:float64\[10\] has no memory", storage=StorageMap())
    c = Case()
    body, arrays = slots(c)
    held = LoopProgram("f", (c.x,), (c.y,), arrays, tuple(body), storage=c.storage, workspace=256)
    verifier = Verifier()
    verifier.check(held, "allocate")
    shared = StorageMap({array: storage._replace(slot=c.storage[c.t].slot) for array, storage in c.storage.items()})
    with pytest.raises(VerifyError, match="t and u have one slot, and both are alive"):
        verifier.check(replace(held, storage=shared), "again")
    thread = team(set_(a(c.u, 0), a(c.x, c.i), c.i), set_(a(c.y, c.i), a(c.u, 0), c.i), axis=c.i)
    alone = c.u.whole._replace(slot=Slot(Place.WORKSPACE, DOUBLE, 80, step=80, private=True))
    storage = StorageMap({c.u: alone})
    whole = LoopProgram("f", (c.x,), (c.y,), (c.x, c.y, c.u), (thread,), storage=storage, workspace=256)
    common = StorageMap({c.u: alone._replace(slot=Slot(Place.WORKSPACE, DOUBLE, 80))})
    found_next(whole, r"threads share u\[0\], which each of them writes", storage=common)


def test_after_what_was_wrong_all_is_asked_again() -> None:
    c = Case()
    wrong = LoopProgram("f", (c.x,), (c.y,), (c.x, c.y), (copied(c, c.y, c.x, c.short),))
    verifier = Verifier()
    for _ in range(2):
        with pytest.raises(VerifyError, match="the output y is not written"):
            verifier.check(wrong, "pass")
