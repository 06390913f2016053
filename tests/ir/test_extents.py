"""Extents of one unknown: one form for what is equal, and where two of them are."""

from __future__ import annotations

import random
from typing import Any

import pytest
import sympy

from symgrad.ir.index.extents import Meeting, at, canonical, meeting

n, m = sympy.symbols("n m", integer=True, nonnegative=True)
Max, Min, Mod, floor, ceiling = sympy.Max, sympy.Min, sympy.Mod, sympy.floor, sympy.ceiling


@pytest.mark.parametrize(
    ("extents", "form"),
    [
        ([Max(0, n - 1) + Min(1, n), n // 2 + (n + 1) // 2, Min(n, Max(1, n))], n),
        ([n // 3 + (n + 1) // 3 + (n + 2) // 3], n),
        ([Max(0, Max(0, n - 1) - 1), Max(0, n - 2), Max(0, Min(n, n - 2))], Max(0, n - 2)),
        ([ceiling(Max(0, n - 1) / 2), Max(0, -(n // 2) + Min(n, 2 * (n // 2))), n // 2], floor(n / 2)),
        ([3 * Max(0, n - 1), Max(0, 3 * n - 3)], Max(0, 3 * n - 3)),
        ([n - Max(0, n - 1), Min(1, n), Min(1, 2 * n)], Min(1, n)),
        ([2 * n - 1 + Max(0, 1 - n), Max(0, 2 * n - 1)], Max(0, 2 * n - 1)),
        ([n * (n + 1), n**2 + n], n**2 + n),
        ([n * (m + 1), n * m + n], n * m + n),
        ([Min(n, 2 * (n // 2)), 2 * (n // 2)], 2 * floor(n / 2)),
        ([Max(n, 100)], Max(100, n)),
    ],
    ids=str,
)
def test_what_is_equal_has_one_form(extents: list[Any], form: Any) -> None:
    assert {canonical(sympy.sympify(e)) for e in extents} == {form}


def drawn(rng: random.Random, depth: int) -> Any:
    """Draw an extent: sums, minima, maxima, quotients and remainders of n."""
    kind = rng.randrange(7 if depth else 2)
    if kind < 2:
        return n if kind == 0 else sympy.Integer(rng.randrange(-6, 7))
    one = drawn(rng, depth - 1)
    if kind < 5:
        return (sympy.Add, Max, Min)[kind - 2](one, drawn(rng, depth - 1))
    return rng.choice([one // 2, one // 3, one % 2, one % 5] if kind == 5 else [-one, 2 * one, 3 * one])


@pytest.mark.parametrize("seed", range(5))
def test_a_form_is_equal_everywhere_and_its_own(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(200):
        extent = sympy.sympify(drawn(rng, 4))
        form = canonical(extent)
        assert canonical(form) == form, (extent, form)
        for k in (*range(60), 509, 512, 777, 1001, 5003):
            assert at(form, {n: k}) == at(extent, {n: k}), (extent, form, k)


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        (Max(1, n), n, Meeting({n: 1})), (n - 2, Max(0, n - 2), Meeting({n: 2})), (n, Max(3, n), Meeting({n: 3})),
        ((n + 1) // 2, n // 2, Meeting({n: 0}, Mod(n, 2))), (2 * ((n + 1) // 2), n + 1, Meeting({n: 0}, Mod(n + 1, 2))),
        (3 * (n // 3), n, Meeting({n: 0}, Mod(n, 3))), (Min(5, n), 5, Meeting({n: 5})),
        (m * n + m, m * n - m * Max(0, 1 - n) + m, Meeting({m: 0, n: 1})),
        (Max(0, m - 2) * Max(0, n - 2), Max(0, m * n - 2 * m - 2 * n + 4), Meeting({m: 2, n: 2})),
        (n, 5, None), (n, m, None), (n, n + 1, None), (n, 2 * n, None), (n % 3, n % 2, None),
    ],
    ids=str,
)
def test_where_extents_meet(one: Any, other: Any, found: Meeting | None) -> None:
    assert meeting(one, other) == found == meeting(other, one)


@pytest.mark.parametrize("seed", range(3))
def test_extents_meet_where_it_is_said(seed: int) -> None:
    rng, met = random.Random(seed), 0
    for _ in range(300):
        one, other = [sympy.sympify(drawn(rng, 3)) for _ in range(2)]
        found = meeting(one, other) if (one - other).free_symbols else None
        if found is None:
            continue
        met += 1
        rest = sympy.Integer(0) if found.rest is None else found.rest
        for k in range(found.least.get(n, 0), 80):
            equal, said = at(one, {n: k}) == at(other, {n: k}), at(rest, {n: k}) == 0
            assert equal == said or (equal and k < 40), (one, other, found, k)  # small ones may be equal by chance
    assert met > 5
