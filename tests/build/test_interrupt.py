"""Ctrl-C ends a long call soon, and the function can be called again."""

from __future__ import annotations

import os
import signal
import threading
import time
from functools import partial

import numpy as np
import pytest

import symgrad as sg
from symgrad.build import call as interrupt
from symgrad.build.call import WorkerCall, interruptible
from symgrad.errors import interrupts
from tests.build.sources import finish
from tests.table import INTERPRETED

PROGRAM = """
import os, signal, sys, threading, time
import numpy as np
import symgrad as sg

def energy(x):
    return np.sum(np.exp(-((x[:, None] - x) ** 2)))

def exact(x):
    d = x[:, None] - x
    e = np.exp(-d * d)
    return np.sum(e), np.sum(-4 * d * e, axis=1)

f = sg.value_and_grad(energy, specs=("f64[n]",), options=sg.Options(threads=int(sys.argv[1])))
x = np.random.default_rng(0).normal(size=200_000)
f(x[:10])
sent = []

def interrupt(after):
    time.sleep(after)
    sent.append(time.perf_counter())
    os.kill(os.getpid(), signal.SIGINT)
"""


@pytest.mark.parametrize("count", [1, 2])
def test_a_long_call_ends_and_the_next_one_is_right(python, count):
    """Half a minute's work; each of two interrupts ends it within the fifth of a second that was promised."""
    code = PROGRAM + (
        "for k in range(2):\n"
        "    threading.Thread(target=interrupt, args=(0.3,)).start()\n"
        "    try:\n"
        "        f(x)\n"
        "        print('it was not interrupted')\n"
        "    except KeyboardInterrupt:\n"
        "        print(time.perf_counter() - sent[-1] < 0.2)\n"
        "    for n in (20, 3000):\n"
        "        for got, want in zip(f(x[:n]), exact(x[:n])):\n"
        "            np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-9)\n"
        "print([t.name for t in threading.enumerate()].count('symgrad'))\n"
    )
    assert finish(python(code, count))[0].split() == ["True", "True", "1"]


def test_a_handler_of_its_own_and_calls_inside_of_it(python):
    """A handler that does not raise ends nothing; one that raises another exception does; both may call functions."""
    code = PROGRAM + (
        "class Timeout(Exception): pass\n"
        "def handler(number, frame):\n"
        "    calls.append(float(f(x[:4000])[0]))\n"
        "    if len(calls) == 2:\n"
        "        raise Timeout\n"
        "    signal.setitimer(signal.ITIMER_REAL, 0.2)\n"
        "calls = []\n"
        "signal.signal(signal.SIGALRM, handler)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.2)\n"
        "try:\n"
        "    f(x)\n"
        "except Timeout:\n"
        "    print(len(calls), calls[0] == calls[1] == float(f(x[:4000])[0]))\n"
    )
    assert finish(python(code, 1))[0].split() == ["2", "True"]


def test_a_forked_child_has_a_worker_of_its_own_and_the_parent_exits(python):
    code = PROGRAM + (
        "first = float(f(x[:3000])[0])\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    same = float(f(x[:3000])[0]) == first\n"
        "    alive = [t.name for t in threading.enumerate()].count('symgrad')\n"
        "    os._exit(0 if same and alive == 1 else 1)\n"
        "print(os.waitpid(child, 0)[1])\n"
    )
    assert finish(python(code, 1))[0].split() == ["0"]


def test_a_call_while_python_exits(python):
    code = PROGRAM + "import atexit\natexit.register(lambda: print(float(f(x[:3000])[0]) > 0))\n"
    assert finish(python(code, 1))[0].split() == ["True"]


# -- the pieces


@pytest.fixture
def _new(monkeypatch):
    monkeypatch.setattr(interrupt, "_jobs", None)
    monkeypatch.setattr(interrupt, "_latest", None)


@pytest.mark.usefixtures("_new")
def test_the_main_thread_uses_one_worker_and_others_none():
    seen = []

    def function(*arguments):
        seen.append((threading.current_thread().name, arguments[:-1], bool(arguments[-1])))
        return len(seen)

    assert [interruptible(function, 1, 2), interruptible(function)] == [1, 2]
    other = threading.Thread(target=interruptible, args=(function, 3), name="other")
    other.start()
    other.join()
    assert seen == [("symgrad", (1, 2), True), ("symgrad", (), True), ("other", (3,), False)]


@pytest.mark.usefixtures("_new")
def test_an_exception_in_the_worker_is_the_callers():
    def function(*_):
        raise OverflowError("an extent")

    for _ in range(2):
        with pytest.raises(OverflowError, match="an extent"):
            interruptible(function)
    assert interruptible(lambda _: 7) == 7


@pytest.mark.usefixtures("_new")
def test_without_a_thread_to_be_had_it_is_called_directly(monkeypatch):
    def refuse(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert interruptible(lambda stop: int(not stop)) == 1


def test_a_job_that_was_given_up_never_runs():
    job = WorkerCall(lambda _: pytest.fail("it ran"), ())
    job.end()
    job.run()
    assert job.finished
    assert job.stop[0] == 1


def test_a_job_is_waited_for_once_it_has_begun():
    began = threading.Event()

    def function(stop):
        began.set()
        while not stop[0]:
            time.sleep(0.001)
        time.sleep(0.05)
        done.append(True)
        return -1

    done: list[bool] = []
    job = WorkerCall(function, ())
    threading.Thread(target=job.run).start()
    began.wait()
    job.end()
    assert done == [True]
    assert job.code == -1


# -- what is polled


def source(function, *args, **options):
    return function(*args[:1], **options).lower(*args[1:]).as_text("c")


@pytest.mark.parametrize(("size", "polled"), [(50, False), (20_000, True)])
def test_only_what_may_be_long_polls(size, polled):
    text = source(sg.grad, lambda x: np.sum(np.exp(x[:, None] - x)), np.zeros(size))
    assert ("const volatile int32_t *stop" in text) == ("sg_stopped(stop)" in text) == polled


@pytest.mark.parametrize("function", [
    lambda a, b: a @ b,
    lambda a, b: np.cumsum(np.sum(a, axis=1)) + np.sum(b),
    lambda a, b: np.tanh(a) @ np.exp(b),
])
def test_open_extents_poll_and_a_null_pointer_is_no_wish(function):
    """Called from a thread there is no flag, from the main thread there is one: the same numbers."""
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2000, 70)), rng.normal(size=(70, 400))
    compiled = sg.jit(function, specs=("f64[n,k]", "f64[k,m]"))
    found = [compiled(a, b)]
    other = threading.Thread(target=lambda: found.append(compiled(a, b)))
    other.start()
    other.join()
    expected = sg.jit(function, options=INTERPRETED)(a, b)
    assert "sg_stopped(stop)" in compiled.c_source
    for one in found:
        np.testing.assert_allclose(one, expected, rtol=1e-11, atol=1e-12)
    assert np.array_equal(*found)


def test_an_argument_called_stop():
    compiled = sg.grad(lambda stop: np.sum(np.exp(stop[:, None] - stop)), specs=("f64[n]",))
    np.testing.assert_allclose(compiled(np.zeros(3)), 0.0, atol=1e-15)
    assert "*restrict stop_," in compiled.c_source


def test_the_flag_makes_c_return():
    """Set before the call, it ends each kind of loop at once, with -1."""
    for function in (lambda x: np.sum(np.exp(x[:, None] - x)), lambda x: np.sum(np.cumsum(x))):
        for count in (1, 2):
            compiled = sg.value_and_grad(function, specs=("f64[n]",), options=sg.Options(threads=count))
            compiled(np.zeros(3))
            library = compiled._ran().built.library
            assert library is not None
            n = 5000
            x, value, gradient = np.zeros(n), np.zeros(()), np.zeros(n)
            pointers = [library.ffi.from_buffer("double[]", a) for a in (x, value, gradient)]
            scratch = library.ffi.new("char[]", 1 << 24)
            stop = library.ffi.new("int32_t *", 1)
            began = time.perf_counter()
            code = library.function(*pointers, n, count, scratch, stop)
            assert code == -1
            assert time.perf_counter() - began < 5
            stop[0] = 0
            assert library.function(*pointers, n, count, scratch, stop) == 0
            assert value == function(x)


def test_the_children_of_a_fork_have_no_worker():
    assert interruptible(lambda _: 5) == 5
    child = os.fork()
    if child == 0:
        os._exit(0 if interrupt._jobs is None and interrupt._latest is None else 1)
    assert os.waitpid(child, 0)[1] == 0


class Timeout(Exception):  # noqa: N818 - as people's timeouts are
    def __call__(self, *_):
        raise self


def ended(*_):
    raise Timeout


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="of POSIX")
@pytest.mark.parametrize("handler", [ended, Timeout(), Timeout().__call__, partial(ended, 1)])
def test_what_a_handler_raises_while_loops_are_traced_is_raised(handler):
    """A timeout in any run of the function, also in those that try what a loop is, is no answer of that run."""
    runs, at = [0], [0]

    def passed():
        runs[0] += 1
        if runs[0] == at[0]:
            signal.raise_signal(signal.SIGUSR1)

    def branching(x):
        passed()
        total = 0.0
        while x > 1:
            x = x / 2 if x > 8 else x / 4
            total = total + x
        return total

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        sg.jit(branching)(1e4)
        several = runs[0]
        assert several > 1
        for k in range(1, several + 1):
            runs[0], at[0] = 0, k
            with pytest.raises(Timeout):
                sg.jit(branching)(1e4)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_what_has_nothing_to_do_with_what_ran():
    assert interrupts(MemoryError())
    assert not interrupts(ValueError())
    with pytest.raises(MemoryError) as caught:  # which the code's own number asked for
        np.zeros(1 << 50)
    assert not interrupts(caught.value)


def test_ops_are_declared_after_their_import_was_broken_off(python):
    code = (
        "import numpy as np\nimport symgrad as sg\nfrom symgrad.ops.declare import forms\n"
        "from symgrad.ops import load\n"
        "class Breaking(dict):\n"
        "    count = 0\n"
        "    def setdefault(self, *pair):\n"
        "        self.count += 1\n"
        "        if self.count in (20, 90):\n"
        "            raise KeyboardInterrupt\n"
        "        return super().setdefault(*pair)\n"
        "forms._DECLARING = Breaking()\n"
        "for _ in range(2):\n"
        "    try:\n        load()\n"
        "    except KeyboardInterrupt:\n        print('ended')\n"
        "print(sg.grad(lambda x: np.sum(np.sin(x)))(np.zeros(2)))\n"
    )
    assert finish(python(code))[0].splitlines() == ["ended"] * 2 + ["[1. 1.]"]
