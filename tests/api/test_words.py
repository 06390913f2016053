"""The report in words: what is fused, what waits for what, what is shared, and where slopes are infinite."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg


def report(function, *specs, grad=False, **options):
    made = (sg.value_and_grad if grad else sg.jit)(function, options=sg.Options(**options))
    return made.lower(*map(sg.spec, specs)).report()


def section(text, title):
    """The lines under a title."""
    return text.split(f"\n{title}\n")[1].split("\n\n")[0] if f"\n{title}\n" in text else ""


def line_of(function, offset):
    return f"test_words.py:{function.__code__.co_firstlineno + offset}"


def normalized(x):
    shifted = x - np.max(x)
    return np.exp(shifted)


def test_a_loop_that_waits_for_a_maximum() -> None:
    text = report(normalized, "f64[n]", threads=1)
    first = line_of(normalized, 1)
    assert f"2. over n in tiles of 1024, as lanes: {first}, {line_of(normalized, 2)}" in text
    assert f"after loop 1: {first} needs the whole maximum of {first}" in text


def mirrored(x):
    y = np.sin(x)
    return np.exp(y[::-1]) + y


def test_a_value_that_is_read_at_other_places() -> None:
    text = report(mirrored, "f64[n]", threads=1)
    assert f"{line_of(mirrored, 2)} reads the values of {line_of(mirrored, 1)} at other places" in text
    assert f"y (workspace): [n] float64, {line_of(mirrored, 1)}, from statement 0 to" in section(text, "Memory")
    assert "peak 64*floor(n/8 + 63/64) bytes" in text


def running(x):
    total = np.cumsum(x)
    return np.sum(total * total[::-1])


def test_a_running_total() -> None:
    assert f"reads the running total of {line_of(running, 1)}" in report(running, "f64[n]", threads=1)


def test_threads_and_why_not() -> None:
    assert "loop 1 is shared among threads where n >= " in section(report(np.exp, "f64[n]"), "Threads")
    assert "loop 1 is serial: fewer than" in section(report(np.exp, "f64[100]"), "Threads")
    off = section(report(lambda x: np.sum(np.exp(x)), "f64[n]", threads=1), "Threads")
    assert "or threads are off" in off


def test_what_runs_in_lanes() -> None:
    function = sg.jit(lambda x: (np.exp(x), np.sin(np.sum(x))))
    function(np.ones(100))
    said = section(function.report(), "Math functions")
    assert "exp: by the vector library" in said or "exp: in lanes where the compiler can" in said
    assert "sin: one at a time" in said


def test_a_product() -> None:
    assert "a matrix product in register blocks" in report(lambda a, b: a @ b, "f64[64,64]", "f64[64,64]")


# -------------------------------------------------------------------------------------------------------- slopes


def guarded(x):
    inside = x > 0
    root = np.sqrt(x)
    return np.sum(np.where(inside, root, 0.0))


def bare(x):
    return np.sum(np.sqrt(x))


def half(x):
    root = np.sqrt(x)
    return np.sum(np.where(x > 0, root, 0.0)) + np.sum(root)


def test_a_guarded_slope() -> None:
    said = section(report(guarded, "f64[n]", grad=True), "Slopes")
    assert said.strip() == (
        f"sqrt at {line_of(guarded, 2)} has infinite slope at 0, guarded by where at {line_of(guarded, 3)}"
    )


@pytest.mark.parametrize("loss", [bare, half])
def test_a_slope_that_nothing_guards(loss) -> None:
    said = section(report(loss, "f64[n]", grad=True), "Slopes")
    assert f"sqrt at {line_of(loss, 1)} has infinite slope at 0, and nothing guards it" in said


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (lambda x: np.sum(np.log(x)), "log at"),
        (lambda x: np.sum(1 / x), "no slope where the divisor is 0"),
        (lambda x: np.sum(np.arcsin(x)), "infinite slope at -1 and 1"),
        (lambda x: np.sum(np.arctanh(x)), "infinite slope at -1 and 1"),
        (lambda x: np.sum(np.log1p(x)), "infinite slope at -1"),
        (lambda x: np.sum(np.arccosh(x)), "infinite slope at 1"),
    ],
)
def test_slopes_by_operation(loss, words) -> None:
    assert words in section(report(loss, "f64[n]", grad=True), "Slopes")


@pytest.mark.parametrize(
    "loss",
    [
        lambda x: np.sum(np.sqrt(1 + x * x)),
        lambda x: np.sum(np.log(np.exp(x) + 1e-9)),
        lambda x: np.sum(x / np.maximum(np.abs(x), 1e-3)),
        lambda x: np.sum(np.sin(x)),
    ],
)
def test_what_has_a_slope_everywhere_is_not_named(loss) -> None:
    assert section(report(loss, "f64[n]", grad=True), "Slopes") == ""


def test_without_a_derivative_there_are_no_slopes() -> None:
    assert "Slopes" not in report(bare, "f64[n]")


def test_a_report_is_the_same_twice_and_needs_a_compilation() -> None:
    function = sg.value_and_grad(guarded)
    with pytest.raises(sg.SymgradError, match="has not been compiled yet"):
        function.report()
    function(np.ones(9))
    assert function.report() == function.report() == sg.value_and_grad(guarded).lower(np.ones(9)).report() != ""
