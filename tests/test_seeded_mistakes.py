"""The machinery can fail: mistakes put into rules, bodies and C are found by the table or the random programs."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.ir.index.notation import Access
from symgrad.ops import OPS
from symgrad.ops.arrays.views import unbroadcast
from symgrad.transforms.derive import rules, vjp
from tests import table as t
from tests.programs import random_program
from tests.test_random_programs import check

WITHOUT = sg.Options(cache=False)


def rule_of(name: str) -> Any:
    """Return an op's derivative as ``(g, y, *x, **params)``; it stays, whatever the op is given."""
    op: Any = OPS[name]
    return rules.rule(copy(op))


def scaled(name: str, position: int, factor: float) -> Any:
    """An op's rule with one cotangent multiplied: a wrong sign, or a wrong factor."""
    right = rule_of(name)

    def wrong(g: Any, y: Any, *x: Any, **params: Any) -> Any:
        parts = right(g, y, *x, **params)
        parts = parts if isinstance(parts, tuple) else (parts,)
        return tuple([p * factor if k == position and p is not None else p for k, p in enumerate(parts)])

    return wrong


def dropped(name: str) -> Any:
    """An op's rule that forgets its last input."""
    right = rule_of(name)

    def wrong(g: Any, y: Any, *x: Any, **params: Any) -> Any:
        *parts, _ = right(g, y, *x, **params)
        return (*parts, None)

    return wrong


def turned(name: str) -> Any:
    """An op's rule that takes one input for the other."""
    right = rule_of(name)
    return lambda g, y, *x: tuple(reversed(right(g, y, *x)))


def row_of(name: str) -> t.Row:
    return next(row for row in t.groups("smooth") if row.op.name == name)


def table_finds(name: str) -> bool:
    """Check one op's rows as the table does: the gradient against differences."""
    for row in [row for row in t.groups("smooth") if row.op.name == name]:
        many = t.Many([row], np.dtype(np.float64), t.INTERPRETED)
        [found] = many.gradients()
        weights = many.weights[0]
        expected = t.numerical(lambda *a, row=row, weights=weights: np.sum(row.call(*a) * weights), row.arrays())
        for one, two in zip(found, expected, strict=True):
            if not np.allclose(one, np.asarray(two, float), rtol=1e-9, atol=1e-9):
                return True
    return False


WRONG = {
    "sign of sin": ("sin", lambda: scaled("sin", 0, -1.0)),
    "factor of square": ("square", lambda: scaled("square", 0, 0.5)),
    "a millionth of tanh": ("tanh", lambda: scaled("tanh", 0, 1 + 1e-6)),
    "sign of subtract's second": ("subtract", lambda: scaled("subtract", 1, -1.0)),
    "divide forgets its second": ("divide", lambda: dropped("divide")),
    "multiply forgets its second": ("multiply", lambda: dropped("multiply")),
    "arctan2 swaps": ("arctan2", lambda: turned("arctan2")),
    "maximum gives all to the first": ("maximum", lambda: lambda g, _y, _a, _b: (g, g * 0)),
    "max gives all to all": ("max", lambda: lambda g, _y, x, axes: vjp_spread(g, x, axes)),
    "sum's factor": ("sum", lambda: scaled("sum", 0, 2.0)),
    "einsum forgets its second": ("einsum", lambda: doubled_second("einsum")),
    "transpose is not turned back": ("cumsum", lambda: lambda g, _y, _x, axis: OPS["cumsum"](g, axis=axis)),
}


def vjp_spread(g: Any, x: Any, axes: tuple[int, ...]) -> Any:
    return OPS["broadcast_to"](OPS["expand_dims"](g, axes=axes), shape=x.shape)


def doubled_second(name: str) -> Any:
    right = rule_of(name)

    def wrong(g: Any, y: Any, *x: Any, **params: Any) -> Any:
        parts = right(g, y, *x, **params)
        return parts if not isinstance(parts, tuple) else (*parts[:-1], parts[-1] * 2.0)

    return wrong


@pytest.mark.parametrize("mistake", WRONG)
def test_the_table_finds_wrong_rules(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, wrong = WRONG[mistake]
    assert not table_finds(name), "the right rule passes"
    monkeypatch.setattr(OPS[name], "vjp", wrong())
    assert table_finds(name)


def programs_find(words: str, options: sg.Options = t.INTERPRETED, seeds: range = range(120)) -> bool:
    """Check programs that use an op, as the random test does."""
    chosen = [written for written in map(random_program, seeds) if words in written.text][:20]
    assert chosen, f"no program among {seeds} says {words}"
    reports = [report for report in (failure(written, options) for written in chosen) if report]
    assert all("def program(" in report and "args = (" in report for report in reports), (
        "a failure is its own bug report"
    )
    return bool(reports)


def failure(written: Any, options: sg.Options) -> str:
    """Return what the random test says about a program, nothing when it passes."""
    try:
        check([written], options)
    except AssertionError as error:
        return str(error)
    return ""


IN_PROGRAMS = {
    "sin(": ("sin", lambda: scaled("sin", 0, -1.0)),
    " * ": ("multiply", lambda: dropped("multiply")),
    "tanh": ("tanh", lambda: scaled("tanh", 0, 1 + 1e-6)),
    "cumsum": ("cumsum", lambda: scaled("cumsum", 0, -1.0)),
    "concatenate": ("concatenate", lambda: scaled("concatenate", 0, 0.5)),
    "hypot": ("hypot", lambda: dropped("hypot")),
}


@pytest.mark.parametrize("words", IN_PROGRAMS)
def test_random_programs_find_wrong_rules(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not programs_find(words)
    name, wrong = IN_PROGRAMS[words]
    monkeypatch.setattr(OPS[name], "vjp", wrong())
    assert programs_find(words)


def test_a_guard_dropped_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without guards the gradient of where(x > 0, sqrt(x), 0) is NaN at 0, and the values tell."""

    def loss(x):
        return np.sum(np.where(x > 0, np.sqrt(x), 0.0))

    x = np.array([4.0, 0.0, -1.0])
    assert np.array_equal(sg.grad(loss, options=t.INTERPRETED)(x), [0.25, 0.0, 0.0])
    monkeypatch.setattr(vjp, "selected", lambda _trace, _guard, part: part)
    assert not np.array_equal(sg.grad(loss, options=t.INTERPRETED)(x), [0.25, 0.0, 0.0])


def test_a_sum_that_is_not_taken_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broadcast operand's cotangent that keeps its stretched shape does not pass."""
    gradient = sg.grad(lambda b: np.sum(b * np.arange(6.0).reshape(2, 3)), options=t.INTERPRETED)
    assert np.array_equal(gradient(np.ones(3)), [3.0, 5.0, 7.0])
    monkeypatch.setattr(vjp, "unbroadcast", lambda g, shape: unbroadcast(g, shape) * 0.5)
    gradient = sg.grad(lambda b: np.sum(b * np.arange(6.0).reshape(2, 3)), options=t.INTERPRETED)
    assert not np.array_equal(gradient(np.ones(3)), [3.0, 5.0, 7.0])


# -- wrong loops: the interpreter is right, the C is not


def one_early(body: Any) -> Any:
    """A body that reads its last axis one element further on."""

    def wrong(node: Any) -> Any:
        right = body(node)
        [statement] = right.statements
        access = statement.value
        last = access.indices[-1]
        moved = replace_last(access, last)
        return replace(right, statements=(replace(statement, value=moved),))

    return wrong


def replace_last(access: Access, last: Any) -> Access:
    from symgrad.ir.index.notation import as_index

    if not hasattr(last, "symbol"):
        return access
    return Access(access.array, (*access.indices[:-1], as_index(last.symbol - 1)), access.flat)


def without_start(body: Any) -> Any:
    """A reduction that forgets where it starts."""

    def wrong(node: Any) -> Any:
        right = body(node)
        return replace(
            right,
            statements=tuple(
                [replace(s, value=replace_number(s.value)) if s.how == "=" else s for s in right.statements]
            ),
        )

    return wrong


def replace_number(value: Any) -> Any:
    return value._replace(value=1) if hasattr(value, "_replace") else replace(value, value=1)


@pytest.mark.parametrize(("name", "words"), [("sum", "np.sum"), ("einsum", "@")])
def test_a_wrong_body_is_found(name: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    op: Any = OPS[name]
    monkeypatch.setattr(op, "body", without_start(op.body))
    assert programs_find(words, WITHOUT)


def test_an_index_one_off_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    op: Any = OPS["slice"]
    monkeypatch.setattr(op, "body", one_early(op.body))
    assert programs_find("::", WITHOUT)


def test_wrong_c_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    op: Any = OPS["sin"]
    monkeypatch.setattr(op, "c", {"f": "cos"})
    row = row_of("sin")
    [value] = t.Many([row], np.dtype(np.float64), WITHOUT).values()
    assert not np.allclose(value, np.sin(row.arrays()[0]))
