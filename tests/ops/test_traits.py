"""Traits of ops: what their declarations say, and what is found out by trying them."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
import sympy

import symgrad as sg
from symgrad.ir.node import Node
from symgrad.ir.op import Composite, Elementwise, Structured
from symgrad.ops import OPS, load
from symgrad.ops.arrays.contract import einsum
from symgrad.ops.arrays.reduce import sum_
from symgrad.ops.batched import each as each_
from symgrad.ops.declare.calculus import cotangents
from symgrad.ops.declare.domains import SPECIAL
from symgrad.ops.declare.forms import one_axis_more
from symgrad.ops.declare.spelling import pattern
from symgrad.ops.declare.traits import Traits, chooses, traits, truth
from tests.ops.test_structured import concrete_params, traced, values

load()
ARRAYS = [op for op in OPS.values() if isinstance(op, (Structured, Composite))]
RNG = np.random.default_rng(5)
EXTREME = np.array([0.0, 1e-8, -1e-8, 0.5, -0.5, 2.5, -2.5, 30.0, -30.0])


def calls(op: Any, *, edges: bool = True) -> Any:
    """Yield nodes of an op in the programs that it is declared with: operands, parameters, the result's shape."""
    for case in (*op.sample, *(op.edges if edges else ())):
        arrays = case.draw(RNG)
        with np.errstate(all="ignore"):
            program = traced(case.call, arrays)
            found, dims = values(program, arrays)
        for node in program.nodes():
            if node.op is op:
                yield [np.asarray(found[i]) for i in node.inputs], concrete_params(node, dims), np.shape(found[node])


def tuples(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def having(trait: str) -> Any:
    ops = [op for op in ARRAYS if getattr(op, trait, False)]
    return pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in ops])


@having("moves")
def test_a_condition_moves_as_a_cotangent_does(op: Any) -> None:
    for xs, params, shape in calls(op):
        condition = RNG.random(shape) < 0.5
        moved = tuples(op.vjp(condition, None, *xs, **params))
        floats = tuples(op.vjp(condition.astype(float), None, *xs, **params))
        for one, other in zip(moved, floats, strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                np.testing.assert_array_equal(np.not_equal(one, 0), np.not_equal(other, 0))


@having("regular")
def test_what_is_regular_is_finite(op: Any) -> None:
    """Value and rule at zeros and at large and small numbers; of an op in index notation, no minus comes in."""
    for given, params, _ in calls(op):
        xs = [RNG.choice(EXTREME, x.shape) if x.dtype.kind == "f" else x for x in given]
        if any(x.dtype.kind != "f" for x in xs) or op.nondiff or 0 in [d for x in xs for d in x.shape]:
            continue
        y = np.asarray(op.evaluate(*xs, **params))
        assert np.isfinite(y).all()
        if op.vjp is not None:
            parts = tuples(op.vjp(np.ones_like(y), y, *xs, **params))
            assert all(np.isfinite(p).all() for p in parts if p is not None)
        if isinstance(op, Structured):
            assert np.all(np.asarray(op.evaluate(*[np.abs(x) for x in xs], **params)) >= 0)


@having("rows")
def test_what_takes_rows_says_which(op: Any) -> None:
    told = []
    for case in (*op.sample, *op.edges):
        arrays = case.draw(RNG)
        program = traced(case.call, arrays)
        found, _ = values(program, arrays)
        for node in [node for node in program.nodes() if node.op is op]:
            rows = op.rows(node)
            if rows is not None:
                told.append(np.shape(found[node]))
                at = found[rows] if isinstance(rows, Node) else rows
                np.testing.assert_array_equal(found[node], np.asarray(found[node.inputs[0]])[at])
    assert told


@having("used")
def test_what_is_not_used_has_no_cotangent(op: Any) -> None:
    for xs, params, _ in calls(op):
        y = np.asarray(op.evaluate(*xs, **params))
        with np.errstate(all="ignore"):
            parts = tuples(op.vjp(np.ones_like(y), y, *xs, **params))
        for used, part in zip(tuples(op.used(y, *xs, **params)), parts, strict=True):
            assert not np.any(part[~used])
            assert np.all(used | ~np.isnan(xs[0]))


@pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in ARRAYS if op.vjp is not None and not op.nondiff])
def test_what_others_determine_has_no_cotangent(op: Any) -> None:
    """And what has none is declared so: then loops keep it, and push nothing through it."""
    slope = {} if op.equals is None else {"slope": None}
    for xs, params, shape in calls(op, edges=False):
        y = None if op.evaluate is None else np.asarray(op.evaluate(*xs, **params))
        parts = tuples(op.vjp(np.ones(shape), y, *xs, **params, **slope))
        none = {k for k, (x, part) in enumerate(zip(xs, parts, strict=True)) if part is None and x.dtype.kind == "f"}
        assert none == {*op.determined} or (op.name == "assemble" and none <= {0})  # all of it may be written over


@having("running")
def test_what_is_running_looks_back_alone(op: Any) -> None:
    for xs, params, shape in calls(op):
        axis = params.get("axis", len(shape) - 1)
        for k in range(shape[axis] - 1):
            later = tuple([slice(k + 1, None) if a == axis else slice(None) for a in range(len(shape))])
            others = [x.copy() for x in xs]
            for x in others:
                x[later] += 1.0
            before = tuple([slice(k + 1) if a == axis else slice(None) for a in range(len(shape))])
            one, other = op.evaluate(*xs, **params), op.evaluate(*others, **params)
            np.testing.assert_array_equal(one[before], other[before])


@having("stacked")
def test_matrices_of_a_stack_stay_apart(op: Any) -> None:
    for xs, params, _ in calls(op):
        twice = [np.stack([x, x]) for x in xs]
        with np.errstate(all="ignore"):
            one = np.asarray(op.evaluate(*xs, **params))
            two = np.asarray(op.evaluate(*twice, **params))
        np.testing.assert_allclose(two, np.stack([one, one]), rtol=1e-12, atol=1e-12)


@having("labels")
def test_labels_say_what_is_multiplied_and_summed(op: Any) -> None:
    for xs, params, _ in calls(op):
        terms, result = op.labels(**params)
        summed = np.einsum(f"{','.join(terms)}->{result}", *xs)
        np.testing.assert_allclose(op.evaluate(*xs, **params), summed, rtol=1e-12)


@having("columns")
def test_columns_stay_apart(op: Any) -> None:
    for xs, params, _ in calls(op):
        with np.errstate(all="ignore"):
            one = np.asarray(op.evaluate(*xs, **params))
            for k in op.columns:
                for column in range(one.shape[-1]):
                    other = [x.copy() for x in xs]
                    other[k][..., column] += 1.0
                    two = np.asarray(op.evaluate(*other, **params))
                    np.testing.assert_allclose(np.delete(one, column, -1), np.delete(two, column, -1), rtol=1e-12)


STRUCTURED = [op for op in ARRAYS if isinstance(op, Structured) and op is not each_]


@pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in STRUCTURED])
def test_linear_is_what_the_declaration_says(op: Any) -> None:
    """In each operand by itself: of all that move elements in their one array of numbers, else of what is declared."""
    seen: dict[int, bool] = {}
    for xs, params, shape in calls(op, edges=False):
        for k, x in enumerate(xs):
            if x.dtype.kind == "f" and 0 not in [*shape, *x.shape]:
                other = x[..., ::-1] if x.ndim else 2 * x
                given = [[v if j == k else y for j, y in enumerate(xs)] for v in (x, other, 0 * x, x + other)]
                try:
                    with np.errstate(all="ignore"):
                        one, two, none, both = [np.asarray(op.evaluate(*g, **params), float) for g in given]
                except (np.linalg.LinAlgError, IndexError):  # of no matrix, or places that are none
                    seen[k] = False
                else:
                    sums = np.allclose(none, 0) and np.allclose(both, one + two, rtol=1e-8)
                    seen[k] = seen.get(k, True) and bool(sums)
    if op.view or op.moves:
        assert op.linear == ()
    else:
        assert [k for k, linear in seen.items() if linear] == [k for k in seen if k in op.linear]


@pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in STRUCTURED if op is not einsum])
def test_parameters_of_a_batch(op: Any) -> None:
    """One axis more in front of all operands: by its own parameters, or by index notation where those do not say it."""
    found = []
    for xs, params, _ in calls(op, edges=False):
        twice = [np.stack([x, x[::-1] if x.ndim and x.dtype.kind == "f" and not op.stacked else x]) for x in xs]
        rank = np.ndim(op.evaluate(*xs, **params))
        beside = [(1,) * (rank - x.ndim + 1) if op.aligned else () for x in twice]
        given = [np.reshape(x, (2, *ones, *x.shape[1:])) for x, ones in zip(twice, beside, strict=True)]
        try:
            many = op.evaluate(*given, **(op.batched or one_axis_more)(2, **params))
            one = [op.evaluate(*[x[k] for x in twice], **params) for k in (0, 1)]
            found.append(np.shape(many) == np.shape(one) and np.allclose(many, one, rtol=1e-12))
        except (TypeError, ValueError, IndexError, StopIteration, sg.SymgradError):
            found.append(False)
    assert all(found) == (op.batched is not None)


@pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in STRUCTURED if op.view or op is sum_])
def test_whole_and_ordered_are_what_the_declaration_says(op: Any) -> None:
    """Whether every element is in the result, whatever the parameters are; and whether a view is a reshape."""
    whole, ordered, repeats = True, op.view, False
    for xs, params, _ in calls(op):
        marks = np.arange(1.0, 1.0 + xs[0].size).reshape(xs[0].shape)
        y = np.asarray(op.evaluate(marks, **params))
        there = {*y.ravel()} == {*marks.ravel()} if op.view else np.isclose(y.sum(), marks.sum())
        whole &= bool(there or not y.size)
        ordered &= np.array_equal(y.ravel(), marks.ravel())
        repeats |= op.view and len({*y.ravel()}) < y.size
    assert (whole, ordered, repeats) == (op.whole, op.ordered, op.repeats)


VIEWS = [op for op in STRUCTURED if op.put is not None or (op.view and op.whole and not op.repeats)]


@pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in VIEWS])
def test_what_is_written_through_a_view_is_read_there(op: Any) -> None:
    """What puts values back changes what the view shows of the array, and nothing else."""
    for xs, params, shape in calls(op):
        values = RNG.permutation(np.arange(1.0, 1.0 + np.prod(shape, dtype=int))).reshape(shape)
        put = op.put if op.put is not None else lambda x, v, **params: op.vjp(v, None, x, **params)
        written = np.asarray(put(xs[0] * 0, values, *xs[1:], **params))
        marks = np.asarray(put(xs[0] * 0 == 0, values == 0, *xs[1:], **params))  # False where it was written
        there = np.asarray(op.evaluate(marks, *xs[1:], **params))
        assert not there.any()
        assert set(written[~marks.astype(bool)]) <= set(values.ravel())
        assert not np.any(written[marks.astype(bool)])


PICKING = [op for op in OPS.values() if isinstance(op, Elementwise) and op.used is not None]


@pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in PICKING])
def test_where_an_elementwise_op_picks_another_its_rule_gives_zero(op: Any) -> None:
    floats = [*product(SPECIAL, repeat=op.arity - (op.name == "where"))]
    points = [(c, *p) for p in floats for c in (True, False)] if op.name == "where" else floats
    x = [np.array(column) for column in zip(*points, strict=True)]
    with np.errstate(all="ignore"):
        y = op.evaluate(*x)
        parts = cotangents(op, np.ones_like(y), y, *x)
    for used, part in zip(tuples(op.used(y, *x)), parts, strict=True):
        if used is not None:
            np.testing.assert_array_equal(part[~used], 0)
            assert used.any()
            assert not used.all()


# -- what is found out of elementwise ops by trying them, on the bits of the C


class Tried(NamedTuple):
    """An elementwise op with parameters, the kinds of its arguments, and points of its domain and far from it."""

    op: Any
    params: dict[str, Any]
    kinds: list[str]

    @property
    def name(self) -> str:
        return "-".join(map(str, (self.op.name, *self.params.values())))

    @property
    def traits(self) -> Traits:
        return traits(self.op, tuple(self.params.values()))

    def points(self, dtype: Any) -> list[Any]:
        rng = np.random.default_rng(len(self.name))
        special = np.array([*SPECIAL, 3.0, 37.0])
        numbers = [*np.array([*np.broadcast_arrays(*np.ix_(*[special] * self.op.arity))]).reshape(self.op.arity, -1)]
        for row in numbers:
            row[rng.random(row.size) < 0.02] *= -1.0
        wide = [rng.normal(size=600) * 10.0 ** rng.integers(-30, 30, 600) for _ in numbers]
        near = [rng.uniform(-4.0, 4.0, 1400) for _ in numbers]
        casts = {"float": lambda x: x.astype(dtype), "bool": lambda x: x > 0}
        with np.errstate(all="ignore"):
            columns = zip(self.kinds, numbers, wide, near, strict=True)
            return [casts[kind](np.concatenate(parts)) for kind, *parts in columns]


def kinds(op: Any) -> list[str]:
    return [d.dtype for d in (op.sample if type(op.sample) is tuple else (op.sample,) * op.arity)]


PARAMS: dict[str, list[dict[str, Any]]] = {
    "power_int": [{"exponent": n} for n in (3, 2, 1, 0, -1, -2)], "polygamma": [{"order": 1}],
    "astype": [{"dtype": np.dtype(t)} for t in ("f8", "f4", "i4", "?")],
}
TRIED = [
    Tried(op, params, kinds(op)) for op in OPS.values() if isinstance(op, Elementwise) and "int" not in kinds(op)
    and "float" in kinds(op) for params in PARAMS.get(op.name, [{}])
]
BINARY = [row for row in TRIED if row.op.arity == 2]


@cache
def compiled(arity: int) -> Any:
    """Compile all ops of so many arguments: one function of their points."""
    rows = [row for row in TRIED if row.op.arity == arity]
    calls = [row.op.numpy if isinstance(row.op.numpy, np.ufunc) else row.op for row in rows]
    return sg.jit(lambda points: [
        call(*x, **row.params) for row, call, x in zip(rows, calls, points, strict=True)
    ])


@cache
def turned(how: Any, dtype: Any, arity: int) -> dict[str, Any]:
    """Return what the C of each op makes of its points, turned in some way."""
    rows = [row for row in TRIED if row.op.arity == arity]
    found = compiled(arity)([how(row, row.points(dtype)) for row in rows])
    return dict(zip([row.name for row in rows], found, strict=True))


def at(row: Tried, how: Any, dtype: Any) -> Any:
    return turned(how, dtype, row.op.arity)[row.name]


def given(_row: Tried, x: list[Any]) -> list[Any]:
    return x


def magnitudes(row: Tried, x: list[Any]) -> list[Any]:
    return [np.abs(v) if row.kinds[k] == "float" else v for k, v in enumerate(x)]


@cache
def opposite(*which: int) -> Any:
    return lambda row, x: [-v if k in which and row.kinds[k] == "float" else v for k, v in enumerate(x)]


@cache
def zeros(which: int, sign: float) -> Any:
    return lambda row, x: [
        np.where(v == 0, np.copysign(v, sign), v) if k == which and row.kinds[k] == "float" else v
        for k, v in enumerate(x)
    ]


@cache
def nans(sign: float) -> Any:
    return lambda row, x: [
        np.where(np.isnan(v), np.copysign(v, sign), v) if row.kinds[k] == "float" else v for k, v in enumerate(x)
    ]


def swapped(_row: Tried, x: list[Any]) -> list[Any]:
    return x[::-1]


def equal(one: Any, other: Any, *, zeros: bool = False) -> bool:
    """Whether results are equal bit by bit, but for signs of NaN, and of zeros where these do not matter."""
    floats = one.dtype.kind == "f"
    if zeros and floats and np.any((np.signbit(one) != np.signbit(other))[one == 0]):
        return False
    return bool(np.array_equal(one, other, equal_nan=floats))


def each(rows: Any) -> Any:
    return pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in rows])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@each(TRIED)
def test_traits_hold_on_the_bits_of_the_c(row: Tried, dtype: Any) -> None:
    """What is said is so at all points; what is not said is not so at one."""
    known, y = row.traits, at(row, given, dtype)
    for k, parity in enumerate(known.parity):
        if row.kinds[k] == "float":
            other = at(row, opposite(k), dtype)
            evenly, oddly = equal(y, other), y.dtype.kind == "f" and equal(y, -other)
            assert {1: evenly, -1: oddly, 0: not (evenly or oddly) or not row.op.mirrors}[parity]
            if parity and known.keeps_zeros:
                assert equal(y, parity * other if y.dtype.kind == "f" else other, zeros=True)
            assert known.sees_zero[k] or equal(at(row, zeros(k, 1.0), dtype), at(row, zeros(k, -1.0), dtype))
            assert not known.sees_zero[k] or not equal(at(row, zeros(k, 1.0), dtype), at(row, zeros(k, -1.0), dtype))
    assert known.positive != np.any(y < 0)
    assert known.keeps_sign != np.any(at(row, magnitudes, dtype) < 0)
    other = at(row, opposite(*range(row.op.arity)), dtype)
    if known.joint:
        assert equal(y, known.joint * other if y.dtype.kind == "f" else other)
    assert known.sees_nan != equal(at(row, nans(1.0), dtype), at(row, nans(-1.0), dtype))


@each(BINARY)
def test_arguments_that_may_change_places(row: Tried) -> None:
    y, other = at(row, given, np.float64), at(row, swapped, np.float64)
    if row.op.commutes:
        assert row.traits.commutes == equal(y, other, zeros=row.op.used is None)


@each([row for row in TRIED if row.op.value is not None and not row.params])
def test_parity_and_commutativity_by_sympy(row: Tried) -> None:
    x = [sympy.Symbol(f"x{k}", real=True) for k in range(row.op.arity)]
    known, value = row.traits, row.op.value(*x)
    if value.has(sympy.Max, sympy.Min, sympy.floor, sympy.ceiling, sympy.Rel, sympy.Piecewise, sympy.atan2):
        return
    for k, parity in enumerate(known.parity):
        other = row.op.value(*[-v if j == k else v for j, v in enumerate(x)])
        vanish = {p: sympy.simplify((value - p * other).rewrite(sympy.exp)) == 0 for p in (1, -1)}
        found = [p for p in (1, -1) if vanish[p]]
        assert (found == ([parity] if parity else [])) if row.op.mirrors else (found and not parity)
    if row.op.arity == 2:
        assert known.commutes == (row.op.commutes and sympy.simplify(value - row.op.value(*x[::-1])) == 0)


@each([row for row in TRIED if row.op.log or row.op.logs])
def test_logarithms_of_elementwise_ops(row: Tried) -> None:
    x = [RNG.random(99) < 0.5 if kind == "bool" else RNG.uniform(0.1, 3.0, 99) for kind in row.kinds]
    of_logarithms = [v if kind == "bool" else np.log(v) for v, kind in zip(x, row.kinds, strict=True)]
    found = row.op.log(*x, **row.params) if row.op.log else row.op.logs(*of_logarithms, **row.params)
    np.testing.assert_allclose(found, np.log(row.op.evaluate(*x, **row.params)), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in ARRAYS if op.log or op.logs])
def test_logarithms_of_array_ops(op: Any) -> None:
    for xs, params, _ in calls(op, edges=False):
        x = np.abs(xs[0]) + 0.1
        found = op.log(x, **params) if op.log else op.logs(np.log(x), **params)
        np.testing.assert_allclose(found, np.log(op.evaluate(x, **params)), rtol=1e-12, atol=1e-14)


@each(TRIED)
def test_linear_is_of_which_sums_are_sums(row: Tried) -> None:
    rng = np.random.default_rng(3)
    one, two = [[(rng.integers(-64, 64, 99) / 8.0) for _ in row.kinds] for _ in range(2)]
    fixed = [rng.random(99) < 0.5 for _ in row.kinds]
    points = [
        [v if kind == "float" else c for v, c, kind in zip(x, fixed, row.kinds, strict=True)]
        for x in (one, two, [a + b for a, b in zip(one, two, strict=True)])
    ]
    with np.errstate(all="ignore"):
        first, second, both = [np.asarray(row.op.evaluate(*x, **row.params)) for x in points]
    if row.traits.linear:
        np.testing.assert_allclose(both, first + second, rtol=1e-12)
    else:
        # near 0, too: nextafter is a rounding away from its first argument
        assert both.dtype.kind != "f" or not np.allclose(both, first + second, rtol=1e-9, atol=0, equal_nan=True)


@pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in OPS.values() if isinstance(op, Elementwise)])
def test_truth_tables_on_the_c(op: Any) -> None:
    columns = [np.array(column) for column in zip(*product((False, True), repeat=op.arity), strict=True)]
    bools = (np.dtype(bool),) * op.arity
    if truth(op) and pattern(op.c, bools, bools[0]) is not None:
        assert tuple(sg.jit(op)(*columns).tolist()) == truth(op)


def test_choices() -> None:
    assert [op.name for op in OPS.values() if chooses(op)] == ["where"]


def test_of_a_users_op_nothing_is_known() -> None:
    mine = sg.extern("mine", "double mine(double x) { return x; }", lambda x: x)
    assert traits(mine) == Traits((0,), sees_zero=(True,))
    assert truth(mine) == ()


# -- a wrong trait is found


def nothing_put(x: Any, value: Any, *others: Any, **params: Any) -> Any:
    return x


def transposed(subscripts: str) -> tuple[list[str], str]:
    terms, result = subscripts.split("->")
    return terms.split(","), result[::-1]


DECLARED: dict[str, tuple[str, str, Any, Any]] = {
    "linear, though it is not": ("prod", "linear", (0,), test_linear_is_what_the_declaration_says),
    "linear, and not declared": ("recurrence", "linear", (), test_linear_is_what_the_declaration_says),
    "linear in another operand": ("solve_triangular", "linear", (0,), test_linear_is_what_the_declaration_says),
    "parameters that do not say it": ("gather", "batched", one_axis_more, test_parameters_of_a_batch),
    "parameters that would say it": ("sum", "batched", None, test_parameters_of_a_batch),
    "parameters that say something else": ("transpose", "batched", one_axis_more, test_parameters_of_a_batch),
    "labels of another product": ("einsum", "labels", transposed, test_labels_say_what_is_multiplied_and_summed),
    "nothing is written back": ("slice", "put", nothing_put, test_what_is_written_through_a_view_is_read_there),
    "elements that are left out": ("slice", "whole", True, test_whole_and_ordered_are_what_the_declaration_says),
    "elements that are not": ("reshape", "whole", False, test_whole_and_ordered_are_what_the_declaration_says),
    "another order": ("transpose", "ordered", True, test_whole_and_ordered_are_what_the_declaration_says),
    "products, for sums of them": ("cumprod", "moves", True, test_a_condition_moves_as_a_cotangent_does),
    "a rule with poles": ("logsumexp", "running", True, test_what_is_running_looks_back_alone),
    "its logarithm": ("prod", "logs", lambda x, axes: OPS["max"](x, axes=axes), test_logarithms_of_array_ops),
}


@pytest.mark.parametrize("mistake", DECLARED)
def test_a_wrong_declaration_is_found(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, trait, wrong, check = DECLARED[mistake]
    if trait not in {"moves", "running"}:
        check(OPS[name])
    monkeypatch.setattr(OPS[name], trait, wrong)
    with pytest.raises((AssertionError, TypeError, ValueError, IndexError)):
        check(OPS[name])


FOUND: dict[str, tuple[str, dict[str, Any], Any]] = {
    "odd": ("exp", {"parity": (-1,)}, test_traits_hold_on_the_bits_of_the_c),
    "even": ("sin", {"parity": (1,)}, test_traits_hold_on_the_bits_of_the_c),
    "neither": ("cos", {"parity": (0,)}, test_traits_hold_on_the_bits_of_the_c),
    "zeros with a sign": ("sign", {"keeps_zeros": True}, test_traits_hold_on_the_bits_of_the_c),
    "blind for zeros": ("reciprocal", {"sees_zero": (False,)}, test_traits_hold_on_the_bits_of_the_c),
    "not blind for zeros": ("exp", {"sees_zero": (True,)}, test_traits_hold_on_the_bits_of_the_c),
    "blind for NaN": ("copysign", {"sees_nan": False}, test_traits_hold_on_the_bits_of_the_c),
    "never negative": ("tanh", {"positive": True}, test_traits_hold_on_the_bits_of_the_c),
    "negative": ("exp", {"positive": False}, test_traits_hold_on_the_bits_of_the_c),
    "not negative of what is not": ("subtract", {"keeps_sign": True}, test_traits_hold_on_the_bits_of_the_c),
    "opposite together": ("maximum", {"joint": -1}, test_traits_hold_on_the_bits_of_the_c),
}


@pytest.mark.parametrize("mistake", FOUND)
def test_a_wrong_trait_is_found(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, wrong, check = FOUND[mistake]
    row = next(row for row in TRIED if row.op.name == name)
    said = row.traits._replace(**wrong)
    monkeypatch.setattr(Tried, "traits", property(lambda _row: said))
    with pytest.raises(AssertionError):
        check(row, np.float64)


@pytest.mark.parametrize(("name", "commutes"), [("subtract", True), ("add", False)])
def test_a_wrong_order_is_found(name: str, commutes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    row = next(row for row in BINARY if row.op.name == name)
    said = row.traits._replace(commutes=commutes)
    monkeypatch.setattr(Tried, "traits", property(lambda _row: said))
    for check in (test_arguments_that_may_change_places, test_parity_and_commutativity_by_sympy):
        with pytest.raises(AssertionError):
            check(row)
