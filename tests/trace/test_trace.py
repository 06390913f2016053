"""Traces: the lines of their nodes, their size, speed and threads."""

from __future__ import annotations

import functools
import threading
from time import process_time

import numpy as np

from symgrad.errors import SymgradError
from symgrad.ir.text import as_text
from symgrad.trace.lines import is_user_code
from tests.trace.programs import agree, run, traced

V = np.array([1.0, 2.0, 3.5])
M = np.arange(12.0).reshape(3, 4) / 7


# -- lines


def test_lines_of_nodes_are_the_users():
    def fun(v, m):
        a = v * 2
        b = np.add(
            a,
            np.exp(v),
        )
        c = functools.reduce(lambda x, y: x + y, b)
        d = np.array([c, 1.0])
        d[0] = np.mean(m)
        return d.sum()

    start = fun.__code__.co_firstlineno
    made = traced(fun, V, M).program
    lines = {node.op.name: (node.line.file, node.line.number - start) for node in made.nodes() if node.line is not None}
    assert {file for file, _ in lines.values()} == {__file__}
    assert lines["multiply"][1] == 1
    assert lines["exp"][1] == 4
    assert lines["set_slice"][1] == 8
    texts = {node.line.text for node in made.nodes() if node.op.name == "add" and node.line.number - start == 6}
    assert texts == {"c = functools.reduce(lambda x, y: x + y, b)"}


def test_libraries_are_not_the_user():
    assert is_user_code(__file__)
    assert is_user_code("<stdin>")
    assert is_user_code("/home/somebody/scipy/model.py")
    assert not is_user_code(np.__file__)
    assert not is_user_code(functools.__file__)
    assert not is_user_code(SymgradError.__init__.__code__.co_filename)


# -- size, speed, threads


def chain(x):
    for _ in range(50_000):
        x = x * 1.0001
        x = x + 0.5
    return x


def test_a_long_chain_is_fast():
    started = process_time()
    made = traced(chain, 1.0)
    seconds = process_time() - started
    assert len(made.program.nodes()) == 100_003
    assert seconds < 5, (
        f"{seconds:.2f} s for 100,000 operations"
    )  # 1.5 s, verification included, where nothing else runs


def test_deep_views_and_writes_need_no_recursion():
    def fun(v):
        a = np.zeros(3)
        for k in range(2000):
            a[k % 3] = a[(k + 1) % 3] + v[0]
        b = a
        for _ in range(300):
            b = b[::-1]
        b[0] = 7
        return a

    agree(fun, V)


def test_equal_expressions_are_one_node():
    made = traced(lambda v: [np.exp(v) * 2 for _ in range(10)], V).program
    assert len(made.nodes()) == 4


def test_zeros_of_either_sign_stay_apart():
    (value,) = run(lambda x: 1 / (x * -0.0) + 0 * (x * 0.0), np.float64(1.0))
    assert value == -np.inf


def test_threads_trace_at_once_and_alike():
    def fun(v, m):
        a = np.zeros((3, 3))
        for k in range(60):
            a[k % 3] = v * k + m[k % 3, :3]
            v = np.array([v[0], *np.exp(v[1:] * 0.01)])
        return a.T @ v, np.sum([v[0], 1.0])

    expected = as_text(traced(fun, V, M).program)
    barrier = threading.Barrier(8)
    texts: list[str] = []

    def work():
        barrier.wait(30)
        texts.extend(as_text(traced(fun, V, M).program) for _ in range(3))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == [expected] * 24
