"""Shares of exponentials: exp(x - logsumexp(x)) is exp(x - max) over their sum, where both lie along the same axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

import symgrad as sg

Array = np.ndarray[Any, Any]


def by_hand(x: Array) -> Any:
    m = np.max(x, axis=1, keepdims=True)
    return np.exp(x - (np.log(np.sum(np.exp(x - m), axis=1, keepdims=True)) + m))


def by_hand_across(x: Array) -> Any:
    m = np.max(x, axis=1, keepdims=True)
    return np.exp(x - (np.log(np.sum(np.exp(x - m), axis=1)) + m[:, 0]))


def shifted_across(x: Array) -> Any:
    m = np.max(x, axis=1)
    return np.exp(x - m - np.log(np.sum(np.exp(x - m), axis=1))[:, None])


FORMS: dict[str, Callable[[Array], Any]] = {
    "rows": lambda x: np.exp(x - special.logsumexp(x, axis=1)[:, None]),
    "columns": lambda x: np.exp(x - special.logsumexp(x, axis=0)),
    "rows' sums along columns": lambda x: np.exp(x - special.logsumexp(x, axis=1)),
    "columns' sums along rows": lambda x: np.exp(x - special.logsumexp(x, axis=0)[:, None]),
    "transposed": lambda x: np.exp(x.T - special.logsumexp(x, axis=1)),
    "of the transposed": lambda x: np.exp(x - special.logsumexp(x.T, axis=1)),
    "log_softmax": lambda x: np.exp(special.log_softmax(x, axis=0).T),
    "by hand": by_hand,
    "by hand, across": by_hand_across,
    "shifted across": shifted_across,
    "without a shift": lambda x: np.exp(x - np.log(np.sum(np.exp(x), axis=1))),
}


@pytest.mark.parametrize("name", FORMS)
def test_squares_have_no_axis_to_tell_the_sums_by(name: str) -> None:
    form, x = FORMS[name], np.random.default_rng(0).normal(size=(5, 5))
    np.testing.assert_allclose(sg.jit(form)(x), form(x), rtol=1e-13)
    weights = np.random.default_rng(1).normal(size=(5, 5))
    sg.check_grads(lambda x: np.sum(form(x) * weights), (x,), order=2)


def shifted(x: Array, stop: Any) -> Any:
    return special.logsumexp(x - stop(np.max(x, axis=-1, keepdims=True)), axis=-1)


def shifted_where_finite(x: Array, stop: Any) -> Any:
    m = stop(np.max(x, axis=-1, keepdims=True))
    return special.logsumexp(x - np.where(np.isfinite(m), m, 0.0), axis=-1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("form", [shifted, shifted_where_finite])
def test_what_its_largest_was_subtracted_from_is_not_shifted_again(form: Any, dtype: Any) -> None:
    """One maximum and one exponential for value and gradient; rows that are not finite are as they were."""
    inf = np.inf
    rows = np.array([
        [0, 1, 2], [-inf, 0, 1], [-inf, -inf, -inf], [inf, 0, 1], [inf, inf, 0], [np.nan, 0, 1], [1000, 0, -1000],
    ], dtype)
    for stop in (sg.stop_gradient, lambda m: m):
        f, plain = [
            sg.value_and_grad(lambda x: np.sum(form(x, stop)), options=sg.Options(without=left))  # noqa: B023
            for left in ((), ("divide_exponentials", "cheaper"))
        ]
        for row in rows:
            (value, slope), (same, slopes) = f(row[None]), plain(row[None])
            np.testing.assert_allclose(value, same, rtol=1e-6)
            np.testing.assert_allclose(slope, slopes, rtol=1e-5, atol=1e-6)
    text = sg.value_and_grad(lambda x: np.sum(form(x, sg.stop_gradient))).lower(rows).as_text()
    assert (text.count("np.max("), text.count("np.exp(")) == (1, 1)


def test_three_axes() -> None:
    x = np.random.default_rng(2).normal(size=(4, 6, 6))

    def across(x: Array) -> Any:
        return np.exp(x - special.logsumexp(x, axis=2)[:, None, :])

    np.testing.assert_allclose(sg.jit(across)(x), across(x), rtol=1e-13)


@pytest.mark.parametrize("name", ["rows", "columns", "by hand"])
def test_one_exponential(name: str) -> None:
    text = sg.jit(FORMS[name]).lower(np.ones((5, 5))).as_text("optimized")
    assert text.count("np.exp(") == 1
