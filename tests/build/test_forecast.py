"""What a compilation takes is said before it begins, and refused where it is too much."""

from __future__ import annotations

import io
import re
import sys
import time
import warnings

import numpy as np
import pytest

import symgrad as sg
from symgrad.build import limits, progress
from symgrad.errors import ArgumentValueError, CompileTimeError, SymgradWarning
from symgrad.loops.cost import ProgramSizes, at_least, expected


def swing(x, steps):
    angle, speed = x[0], x[1]
    for _ in range(steps):
        speed = speed - 0.01 * np.sin(angle)  # the line that makes the copies
        angle = angle + 0.01 * speed
    return angle


def options(**chosen):
    """Copies stay copies: as a loop, they would take no time."""
    return sg.Options(cache=False, without=("roll",), **chosen)


def compiled(steps, chosen):
    return sg.grad(lambda x: swing(x, steps), options=chosen)(np.array([0.5, 0.1]))


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_more_takes_longer():
    small = ProgramSizes(statements=10, looped=0, calls=0, loops=0, lanes=0, tiles=0, threads=0)
    for field in ("statements", "looped", "lanes"):
        more = expected(small._replace(**{field: getattr(small, field) + 100}))
        assert more.seconds > expected(small).seconds
        assert more.bytes > expected(small).bytes
    assert at_least(10).seconds > expected(small).seconds, "what comes before the compiler, too"


def test_a_million_copies_are_refused_before_anything_is_scheduled(monkeypatch):
    from symgrad.loops import passes

    monkeypatch.setattr(passes, "schedule", lambda *_: pytest.fail("loops were made"))
    with pytest.raises(CompileTimeError) as caught:
        compiled(600, options(compile_seconds=0.5))
    message = str(caught.value)
    taken = r"compiling \w+ is expected to take 2 s and \d+ MB, and Options\(compile_seconds=0.5\) allows less: "
    found = re.match(taken + r"the trace has ([\d,]+) operations, ([\d,]+) of them made by the line below", message)
    assert found
    operations, copies = found.groups()
    assert 600 <= int(copies.replace(",", "")) < int(operations.replace(",", ""))
    assert "speed = speed - 0.01 * np.sin(angle)  # the line that makes the copies" in message
    assert "instead: operations on whole arrays" in message
    assert isinstance(caught.value, RuntimeError)


def test_what_only_its_loops_show_is_refused_before_the_compiler_runs(monkeypatch):
    """Many loops in lanes: few operations, and long to compile."""
    from symgrad.build.toolchain import process

    def layers(x):
        for _ in range(40):
            x = np.tanh(np.cumsum(x))
        return np.sum(x)

    few = len(sg.jit(layers).lower(np.ones(70)).program.nodes())
    bound = at_least(few).seconds * 1.2
    compiled(1, options())  # the compiler is known now
    monkeypatch.setattr(process, "run", lambda *_: pytest.fail("the compiler ran"))
    with pytest.raises(CompileTimeError, match=r"x = np\.tanh"):
        sg.jit(layers, options=options(compile_seconds=bound))(np.ones(70))


def test_more_memory_than_the_compiler_may_have_is_refused(monkeypatch):
    compiled(1, options())  # the compiler is known now
    monkeypatch.setenv("SYMGRAD_COMPILE_BYTES", str(41 * 2**20))
    with pytest.raises(CompileTimeError, match="and SYMGRAD_COMPILE_BYTES=42991616 allows less"):
        compiled(600, options())


@pytest.mark.parametrize("seconds", [None, 1e9])
def test_a_bound_may_be_lifted(seconds):
    gradient = compiled(3, options(compile_seconds=seconds))
    assert np.array_equal(gradient, compiled(3, sg.Options(compiler="none")))


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan"), "5", True])
def test_a_bound_is_a_number_of_seconds(seconds):
    with pytest.raises(ArgumentValueError, match=r"compile_seconds=.*\n  instead: a number of seconds above 0"):
        sg.Options(compile_seconds=seconds)


class Notebook(io.StringIO):
    __module__ = "ipykernel.iostream"


def test_progress_is_shown_on_a_terminal_and_in_a_notebook_and_nowhere_else(monkeypatch, caplog):
    monkeypatch.setattr(progress, "FIRST", 0.0)
    monkeypatch.setattr(progress, "AGAIN", 0.001)
    caplog.set_level("INFO", "symgrad")
    for stream in (Terminal(), Notebook(), io.StringIO(), None):
        caplog.clear()
        monkeypatch.setattr(sys, "stderr", stream)
        compiled(12, options())
        said = re.fullmatch(r"compiled \S+\(\) in [\d.]+ s: (\w[\w ]* [\d.]+ s(, |$)){3}", caplog.messages[-1])
        assert said
        assert len(caplog.messages) == 1
        if stream is None or type(stream) is io.StringIO:
            assert not (stream and stream.getvalue())
            continue
        for _ in range(100):  # it goes away a moment after the compilation
            if (text := stream.getvalue()).endswith(" \r"):
                break
            time.sleep(0.01)
        assert text.endswith("\r" + " " * 79 + "\r")
        assert "\n" not in text
        lines = [line.rstrip() for line in text.split("\r") if line.strip()]
        assert all(re.match(r"symgrad: compiling \S+\(\): \w[\w ]*, [\d.]+ s", line) for line in lines)
        assert {"tracing", "the C compiler"} <= {line.split(": ")[2].split(",")[0] for line in lines}


def test_what_is_expected_is_said():
    with progress.shown_progress("f()"):
        now = progress._active.now
        assert now is not None
        progress.reached("c")
        progress.expect(7.0)
        assert re.fullmatch(r"symgrad: compiling f\(\): the C compiler, 0\.\d s of about 7 s", now.line())
        with progress.shown_progress("inner()"):
            assert progress._active.now is now
    assert progress._active.now is None


def test_what_takes_long_warns_with_its_line(monkeypatch):
    monkeypatch.setattr(limits, "WARNED", 0.0)
    words = r"to take \d+ s and \d+ MB \(\d+ of its \d+ operations are made by test_forecast\.py:\d+: \w+ = "
    with pytest.warns(SymgradWarning, match=words) as said:
        compiled(7, options())
    assert len(said) == 1


def test_what_is_cached_is_not_announced(monkeypatch, tmp_path):
    monkeypatch.setenv("SYMGRAD_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(limits, "WARNED", 0.0)
    x = np.array([0.5, 0.1])
    with pytest.warns(SymgradWarning, match="is expected to take"):
        sg.grad(lambda x: swing(x, 9))(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sg.grad(lambda x: swing(x, 9))(x)
