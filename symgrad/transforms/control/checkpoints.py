"""Loops in runs: what reverse mode keeps of a run is what is carried into it; its steps are computed again.

Runs may be made of runs: with d levels of them, a loop of T steps keeps in proportion to T**(1 / (d + 1)), and each
step is computed d times more (A. Griewank, 1992, whose binomial schedule is the best; equal runs keep little more).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod
from typing import Any

from symgrad.errors import ArgumentValueError
from symgrad.ir.index.shapes import size, upper
from symgrad.ir.node import Graph, Node
from symgrad.ir.program import Program
from symgrad.ops.arrays.joining import concatenate
from symgrad.ops.arrays.views import reshape
from symgrad.ops.control import call, result, scan
from symgrad.ops.declare import leaves
from symgrad.options import memory_amount
from symgrad.trace.state import Trace, passing
from symgrad.trace.tracer import Tracer
from symgrad.transforms.build import input_like, make, rows_from
from symgrad.transforms.derive.control import Pulled, levels, square_runs
from symgrad.transforms.derive.vjp import Cotangent
from symgrad.transforms.tuned import RUNS_DEEP


def lengths(checkpoint: Any, steps: Any, state: Sequence[Node]) -> list[int]:
    """Return how long runs are, and the runs of these, for what the user asked of a loop that carries some values."""
    if checkpoint == "all":
        return []
    whole = isinstance(checkpoint, int) and not isinstance(checkpoint, bool) and checkpoint > 0
    if checkpoint != "sqrt" and not whole:
        raise ArgumentValueError(f"checkpoint={checkpoint!r}", instead='"all", "sqrt", or the steps of a run')
    if steps is None:
        return [*(levels(checkpoint) if whole else square_runs(state))]
    known_steps(steps, f"checkpoint={checkpoint!r}")
    return [ceil(steps**0.5) if checkpoint == "sqrt" else checkpoint] if steps else []


def known_steps(steps: Any, what: str) -> None:
    """Check that the number of steps is a number."""
    if type(steps) is not int:
        raise ArgumentValueError(
            f"{what} of a loop of {steps} steps", instead="the extent as a number in the spec",
        )


def run_lengths(body: Program, fixed: int, carried: int, steps: Any, memory: str | int) -> list[int]:
    """Return how long runs are so that reverse mode keeps no more than some memory."""
    most = memory_amount(memory)
    if steps is not None:
        known_steps(steps, f"memory={memory!r}")
    floats = [x.dtype.kind == "f" for x in body.inputs]
    state = sum([_bytes(x) for x in body.inputs[fixed : fixed + carried]])
    with passing(Trace(Graph(), body.name)) as trace:
        gs = [Cotangent(Tracer(y, trace)) for y in body.outputs]
        plan = Pulled(trace, body, floats, gs, fixed, carried, floats)  # with all guards there may be
    each = sum(map(_bytes, plan.stacked))
    least = 0
    if steps is None:  # however many there are, runs of runs of as many keep what they begin with
        for reach in map(levels, range(max(2, most // max(1, each)), 0, -1)):
            least = reach[-1] * (state * (len(reach) - 1) + each)
            if least <= most:
                return [*reach]
    for depth in range(RUNS_DEEP + 1 if steps is not None else 0):
        kept, *runs = nested_runs(steps, depth, state, each)
        if kept <= most:
            return runs
        least = min(least or kept, kept)
    raise ArgumentValueError(f"memory={memory!r} is less than any runs keep", instead=f"{least} bytes at least")


def nested_runs(steps: int, depth: int, state: int, each: int) -> list[Any]:
    """Return the bytes that reverse mode keeps with so many levels of runs, at least, and how long the runs are.

    A run is a number of those of the next level, so that only steps of the last one may be left over: of T steps in
    runs of n, where T // n = a * b * ..., it keeps a + b + ... states and what n steps need, and as many as are left.
    """
    if not depth:
        return [steps * each]
    found = []
    for run in range(2, 2 * ceil(steps ** (1 / (depth + 1))) + 2):
        counts = _factors(steps // run, depth)
        kept = state * (sum(counts) + 5 * depth) + each * (run + steps % run)  # each level carries, there and back
        found += [(kept, *[run * prod(counts[k:]) for k in range(1, depth + 1)])] if counts else []
    return [*min(found, default=(steps * each,))]


def _factors(n: int, many: int) -> list[int]:
    """Return so many factors of a number that are nearly equal; nothing where they would be ones."""
    if many == 1:
        return [n] if n > 1 else []
    near = n ** (1 / many)
    for factor in sorted(range(2, int(4 * near) + 1), key=lambda f: max(f / near, near / f)):
        rest = _factors(n // factor, many - 1) if n % factor == 0 else []
        if rest:
            return [factor, *rest]
    return []


def _bytes(node: Node) -> int:
    return upper(size(node.shape)) * node.dtype.itemsize


def _results_of(graph: Graph, node: Node, count: int) -> list[Node]:
    return [make(graph, result, node, number=k) for k in range(count)]


def scanned(
    graph: Graph, body: Program, given: Sequence[Node], steps: Any, fixed: int, carried: int, reverse: bool,
    runs: Sequence[int],
) -> list[Node]:
    """Make the results of a scan in runs, each of which is computed again where it is gone back."""
    last = fixed + carried
    if not runs or runs[0] >= steps:
        made = make(graph, scan, *given, body=body, length=steps, fixed=fixed, carried=carried, reverse=reverse)
        return _results_of(graph, made, len(body.outputs))
    run, count = runs[0], steps // runs[0]
    rows = given[last:]
    whole = [rows_from(graph, x, 0, count * run) for x in rows]
    rest = [rows_from(graph, x, count * run, steps - count * run) for x in rows]
    rows_of_runs = [make(graph, reshape, x, shape=(count, run, *x.shape[1:])) for x in whole]
    inner = Graph()
    inputs = [input_like(inner, f"x{k}", x) for k, x in enumerate(given[:last])]
    inputs += [
        leaves.make_input(inner, f"x{k}", x.shape[1:], x.dtype, x.line) for k, x in enumerate(rows_of_runs, last)
    ]
    segment = Program(
        tuple(inputs), tuple(scanned(inner, body, inputs, run, fixed, carried, reverse, runs[1:])), f"{body.name}_run",
    )
    own = Graph()  # of a run that is gone back nothing is kept: it is called again
    inputs = [input_like(own, x.param("name"), x) for x in inputs]
    called = make(own, call, *inputs, body=segment)
    again = Program(tuple(inputs), tuple(_results_of(own, called, len(segment.outputs))), segment.name)
    state, parts = [*given[fixed:last]], []
    for first in (False, True) if not reverse else (True, False):
        if not first:
            made = make(
                graph, scan, *given[:fixed], *state, *rows_of_runs, body=again, length=count, fixed=fixed,
                carried=carried, reverse=reverse,
            )
            found = _results_of(graph, made, len(body.outputs))
            ys = [make(graph, reshape, y, shape=(count * run, *y.shape[2:])) for y in found[carried:]]
        elif steps % run:
            left = [*given[:fixed], *state, *rest]
            found = scanned(graph, body, left, steps % run, fixed, carried, reverse, runs[1:])
            ys = found[carried:]
        else:
            continue
        state = found[:carried]
        parts.append(ys)
    parts = parts[::-1] if reverse else parts
    return [
        *state,
        *[make(graph, concatenate, *each, axis=0) if len(each) > 1 else each[0] for each in zip(*parts, strict=True)],
    ]
