"""Random programs with Python's own conditions: what is compiled is what NumPy gives, on whichever path."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from tests.control.branching import Branching, at, disagreements, flips, random_branching

INTERPRETED, COMPILED = sg.Options(compiler="none", paths=500), sg.Options(flags=("-O0",), paths=500)
PLAIN = (20000, 20003, 20007, 20051)


def wrong(seeds, options, count=5, **kind):
    """List what differs, of values and, but for every fourth program, of gradients, on so many arguments."""
    return [
        line for seed in seeds
        for line in disagreements(random_branching(seed, **kind), options, gradients=seed % 4 > 0, count=count)
    ]


def test_the_search_leaves_a_path_at_each_condition():
    """The fifth one needs three numbers to move, none too far; the last one needs far more than is drawn."""
    text = """
def program(x, A, n, i):
    if «n > 2»: return x[0]
    for k in range(3):
        if «x[k] > 1.0»: return x[k]
    if «x[0] + x[1] + x[2] > 2.9»: return 2.0
    return x[1] if «A[4, 2] * x[3] < -50.0» else x[2]
"""
    first = at(Branching(text, 0), (np.zeros(4), np.ones((5, 3)), 0, np.zeros(4, int)))
    assert [*flips(Branching(text, 0), first)] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("start", range(0, 12, 4))
def test_interpreted(start):
    assert not wrong(range(start, start + 4), INTERPRETED)


def test_each_condition_is_left():
    assert not wrong(range(30, 33), INTERPRETED, 40)


@pytest.mark.parametrize("seed", PLAIN)
def test_loops_that_decide_by_plain_numbers(seed):
    assert not wrong((seed,), INTERPRETED, plain=True)


@pytest.mark.parametrize("seed", range(30000, 30003))
def test_loops_that_ask_in_a_function_and_append(seed):
    assert not wrong((seed,), INTERPRETED, rounds=True)


@pytest.mark.parametrize("seed", [40000, 40001, 40002, 40146])
def test_loops_that_are_left_with_hidden_state(seed):
    assert not wrong((seed,), INTERPRETED, left=True)


@pytest.mark.parametrize("seed", range(50000, 50003))
def test_loops_with_a_while_in_their_rounds(seed):
    assert not wrong((seed,), INTERPRETED, turning=True)


@pytest.mark.parametrize("seed", range(60000, 60003))
def test_loops_whose_lists_grow_on_some_steps(seed):
    assert not wrong((seed,), INTERPRETED, grown=True)


@pytest.mark.parametrize("seed", [70000, 70001])
def test_loops_in_loops_that_are_left(seed):
    assert not wrong((seed,), INTERPRETED, nested=True)


@pytest.mark.parametrize("seed", [80000, 80001])
def test_loops_as_people_keep_state_in_them(seed):
    assert not wrong((seed,), INTERPRETED, habits=True)


@pytest.mark.parametrize("seed", [90000, 90001, 90002])
def test_loops_that_ask_the_same(seed):
    assert not wrong((seed,), INTERPRETED, repeated=True)


def test_a_condition_is_asked_again_in_a_way_that_is_tried():
    """A KeyError, once."""
    assert not wrong((2316,), INTERPRETED)


def test_the_ends_of_short_loops_stay_seen_where_loops_are_found_around():
    """A path did not take the call it was made for, and was made again 500 times: it had more rounds than the call."""
    assert not wrong((2747,), INTERPRETED)


def test_a_guard_that_raises_hides_no_other():
    """Programs that asked for an index behind a condition, on a path whose first condition is another one."""
    assert not wrong((6634, 6822), INTERPRETED)


def test_a_function_that_calls_itself_is_looked_into_once():
    """The first call did not end."""
    assert not wrong((80200,), INTERPRETED, habits=True)


def test_in_c():
    assert not wrong((20, 21), COMPILED)


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(0, 3000, 20))
def test_many(start):
    assert not wrong(range(start, start + 20), INTERPRETED, 40)


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(20000, 20500, 10))
def test_many_that_decide_by_plain_numbers(start):
    assert not wrong(range(start, start + 10), INTERPRETED, plain=True)


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(30000, 30400, 10))
def test_many_that_ask_in_a_function_and_append(start):
    assert not wrong(range(start, start + 10), INTERPRETED, rounds=True)


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(40000, 40400, 10))
def test_many_that_are_left_with_hidden_state(start):
    assert not wrong(range(start, start + 10), INTERPRETED, left=True)


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(50000, 50400, 10))
def test_many_with_a_while_in_their_rounds(start):
    assert not wrong(range(start, start + 10), INTERPRETED, turning=True)


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(60000, 60400, 10))
def test_many_whose_lists_grow_on_some_steps(start):
    assert not wrong(range(start, start + 10), INTERPRETED, grown=True)


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(70000, 70400, 10))
def test_many_loops_in_loops_that_are_left(start):
    assert not wrong(range(start, start + 10), INTERPRETED, nested=True)


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(80000, 80400, 10))
def test_many_as_people_keep_state_in_them(start):
    assert not wrong(range(start, start + 10), INTERPRETED, habits=True)


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(90000, 90400, 10))
def test_many_that_ask_the_same(start):
    assert not wrong(range(start, start + 10), INTERPRETED, repeated=True)


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(5000, 5200, 4))
def test_many_in_c(start):
    assert not wrong(range(start, start + 4), COMPILED)
