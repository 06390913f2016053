"""What declarations say of ops for guards: which elements are used, what moves them, what stays finite."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from symgrad.ir.op import Composite, Elementwise, Structured
from symgrad.ops import OPS, load
from symgrad.ops.calculus import cotangents
from symgrad.ops.domains import SPECIAL
from tests.ops.test_structured import concrete_params, traced, values

load()
ARRAYS = [op for op in OPS.values() if isinstance(op, (Structured, Composite))]
RNG = np.random.default_rng(5)
EXTREME = np.array([0.0, 1e-8, -1e-8, 0.5, -0.5, 2.5, -2.5, 30.0, -30.0])


def calls(op: Any) -> Any:
    """Yield nodes of an op in the programs that it is declared with: operands, parameters, the result's shape."""
    for case in (*op.sample, *op.edges):
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


@having("used")
def test_what_is_not_used_has_no_cotangent(op: Any) -> None:
    for xs, params, _ in calls(op):
        y = np.asarray(op.evaluate(*xs, **params))
        with np.errstate(all="ignore"):
            parts = tuples(op.vjp(np.ones_like(y), y, *xs, **params))
        for used, part in zip(tuples(op.used(y, *xs, **params)), parts, strict=True):
            assert not np.any(part[~used])
            assert np.all(used | ~np.isnan(xs[0]))


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
