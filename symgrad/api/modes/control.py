"""Loops and branches that stay loops and branches: `scan` and its kin."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from symgrad.api.modes.mode import Point, at, derived, described
from symgrad.errors import ArgumentError, ArgumentValueError, ShapeError
from symgrad.ir.index.shapes import show
from symgrad.ir.names import identifier
from symgrad.ir.node import Node
from symgrad.ir.op import Control
from symgrad.ir.program import Program
from symgrad.ops.control import call as call_op
from symgrad.ops.control import cond as cond_op
from symgrad.ops.control import counted, result, while_
from symgrad.trace import optree
from symgrad.trace.control.rounds import unpacked
from symgrad.trace.lines import definition, user_line
from symgrad.trace.nested import settled
from symgrad.trace.numpy.creation import counting
from symgrad.trace.signature import Signature, Spec, flatten
from symgrad.trace.state import Trace, current, public
from symgrad.trace.tracer import Extent, Tracer, as_node, cast
from symgrad.transforms.build import make
from symgrad.transforms.control import checkpoints
from symgrad.transforms.derive.control import lifted


@public
def scan(
    f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any = None, length: int | None = None, *,
    reverse: bool = False, checkpoint: str | int = "all", memory: str | int | None = None,
) -> tuple[Any, Any]:
    """Apply a function again and again, to what it carried on the time before and to the next rows of arrays.

    It is one loop, in the program and in C, however many steps it has, and its derivative is a loop the other way:
    ``for x in xs: carry, y = f(carry, x)``, as JAX's ``lax.scan``.

    Args:
        f: ``f(carry, x) -> (carry, y)``: the carry keeps its structure, shapes and dtypes; `y` is what is stacked.
        init: what is carried into the first step: arrays and numbers in tuples, lists and dicts. A Python number takes
            the dtype that `f` gives it.
        xs: arrays with one row for each step, in a structure, or None.
        length: the number of steps; needed where `xs` has no arrays.
        reverse: go from the last row to the first; what is stacked has the rows' order all the same.
        checkpoint: what reverse mode keeps: ``"all"`` that a step back reads; a number: only what is carried into each
            run of so many steps, which are computed again when they are gone back; ``"sqrt"``: runs of as many steps as
            there are runs.
        memory: instead, the bytes that may be kept, a number or ``"1MB"``, ``"64 KiB"``: runs, and runs of runs, are as
            long as that allows.

    Returns:
        ``(carry, ys)``: what the last step carried on, and the rows that the steps gave, stacked along a first axis.

    Raises:
        ArgumentError: `f` returns no pair, or carries on another structure.
        ArgumentValueError: there is neither a row nor a length.
        ShapeError: arrays of `xs` differ in length, or what is carried changes shape or dtype.
        ArgumentValueError: `checkpoint` or `memory` is none of these, or no run is short enough for `memory`.

    >>> import numpy as np, symgrad as sg
    >>> sg.scan(lambda total, x: (total + x, total), 0.0, np.array([1.0, 2.0, 3.0]))
    (np.float64(6.0), array([0., 1., 3.]))
    """
    how = {"length": length, "reverse": reverse, "checkpoint": checkpoint, "memory": memory}
    return _apply_or_compile(_scan, f, init, xs, **how)  # type: ignore[no-any-return]  # a pair


def _apply_or_compile(rule: Callable[..., Any], f: Any, *args: Any, **settings: Any) -> Any:
    """Apply a rule to traced values; where nothing is traced, compile it."""
    if current() is not None:
        return rule(f, *args, **settings)
    return derived(f, _of_traced, _rule_signature(rule), loop=rule, **settings)(*args)


@functools.cache
def _rule_signature(rule: Callable[..., Any]) -> inspect.Signature:
    """Return what a rule is given besides a function and settings."""
    _, *found = inspect.signature(rule).parameters.values()
    return inspect.Signature([p for p in found if p.kind is p.POSITIONAL_OR_KEYWORD])


def _of_traced(f: Any, signature: Signature, leaves: list[Any], *, loop: Callable[..., Any], **settings: Any) -> Any:
    args, _ = signature.join(leaves)
    return loop(f, *args, **settings)


def _scan(f: Any, init: Any, xs: Any, *, length: Any, reverse: bool, checkpoint: Any, memory: Any) -> Any:
    outer = current()
    assert outer is not None  # noqa: S101 - called while tracing
    signature, leaves = described(f, (init, xs), {})
    carried = signature.tree.child(0).child(0).num_leaves
    steps = _number_of_steps(signature, carried, length)
    if type(steps) is not int and (memory is not None or checkpoint != "all"):
        return _scan_in_runs(f, init, xs, Extent(steps, outer), reverse, checkpoint, memory)
    rows = [replace(s, shape=s.shape[1:]) for s in signature.specs[carried:]]
    point = _traced_step("sg.scan", f, signature, leaves, carried, rows)
    (body,), reads = lifted(point.program)
    given = [*reads, *_carried_nodes(outer, leaves, body.inputs[len(reads) :], carried)]
    fixed = len(reads)
    with at_user_line(outer):
        runs = _runs_of(body, fixed, carried, steps, checkpoint, memory)
        made = checkpoints.scanned(outer.graph, body, given, steps, fixed, carried, bool(reverse), runs)
    return optree.tree_unflatten(point.tree, [Tracer(y, outer) for y in made])


def _scan_in_runs(f: Any, init: Any, xs: Any, steps: Any, reverse: bool, checkpoint: Any, memory: Any) -> Any:
    """Make a scan of an open number of steps a loop that counts them, in runs as long whatever their number is."""
    outer: Any = current()
    leaves, tree = flatten(xs)
    rows: list[Any] = [Tracer(as_node(outer, leaf), outer) for leaf in leaves]

    def step(state: Any) -> Any:
        k, carry = state
        at = steps - 1 - k if reverse else k
        found = f(carry, optree.tree_unflatten(tree, [row[at] for row in rows]))
        if type(found) is tuple and flatten(found[1:])[0]:
            extent = getattr(steps, "dim", steps)
            raise ArgumentError(
                f"checkpoint= and memory= of sg.scan over an open extent {extent}, whose steps give rows to be stacked",
                line=definition(f), instead="return carry, None; or the extent as a number in the spec",
            )
        return k + 1, found[0]

    return _while_or_counted("sg.scan", step, (np.int64(0), init), checkpoint, memory, count=steps)[1], None


def _runs_of(body: Program, fixed: int, carried: int, steps: Any, checkpoint: Any, memory: Any) -> list[int]:
    """Return how long runs are, of which only what is carried into them is kept."""
    if memory is None:
        return checkpoints.lengths(checkpoint, steps, body.inputs[fixed : fixed + carried])
    return checkpoints.run_lengths(body, fixed, carried, steps, memory)


@contextmanager
def at_user_line(outer: Trace) -> Iterator[None]:
    """Let nodes have the user's line meanwhile."""
    graph = outer.graph
    before, graph.line = graph.line, user_line() or graph.line
    try:
        yield
    finally:
        graph.line = before


def _traced_step(
    what: str, f: Any, signature: Signature, leaves: list[Any], carried: int, rows: Sequence[Spec], pair: bool = True,
) -> Point:
    """Trace what a loop does in each step, whose first `carried` arguments it returns as their next values.

    Python numbers take the dtype that they get; so it may be traced twice.
    """
    carries, names = signature.specs[:carried], _with_names(f, signature)
    before = signature.tree.child(0).child(0)
    while True:
        point = at(f, signature, leaves, seen=replace(signature, specs=(*carries, *rows), names=names), step=True)
        after = point.tree
        if pair:
            parts = point.tree.children()
            if point.tree.type is not tuple or len(parts) != 2:
                raise ArgumentError(
                    f"the function of {what} returns a pair (carry, y)", line=definition(f),
                    instead="return carry, None",
                )
            after = parts[0]
        if before != after:
            raise ArgumentError(
                f"the function of {what} is given {before} and returns {after} in its place", line=definition(f),
            )
        made = tuple([
            replace(spec, dtype=node.dtype, weak=None) if spec.weak is not None and spec.shape == node.shape else spec
            for spec, node in zip(carries, point.program.outputs, strict=False)
        ])
        if [s.dtype for s in made] == [s.dtype for s in carries]:
            break
        carries = made
    for path, spec, node in zip(signature.paths, carries, point.program.outputs, strict=False):
        if (spec.shape, spec.dtype) != (node.shape, node.dtype):
            raise ShapeError(
                f"{what} carries {path}, {spec.dtype.name} of shape {show(spec.shape)}, and its function returns "
                f"{node.dtype.name} of shape {show(node.shape)} in its place",
                line=node.line, instead="an initial value of that shape and dtype",
            )
    return point


def _with_names(f: Any, signature: Signature) -> tuple[str, ...]:
    """Name the leaves of what a step is given as its code does: ``h, c = carry``."""
    code = getattr(f, "__code__", None)
    if code is None or inspect.ismethod(f):
        return signature.names
    names: list[str] = []
    for name, (_, argument, *keys) in zip(signature.names, signature.tree.paths(), strict=True):
        part = unpacked(code, code.co_varnames[argument]) if type(argument) is int else None
        for key in keys:
            part = part[key] if isinstance(part, list) and key in range(len(part)) else None
        names.append(identifier(part if isinstance(part, str) else name, names))
    return tuple(names)


def _carried_nodes(outer: Trace, leaves: Sequence[Any], inputs: Sequence[Node], carried: int) -> list[Node]:
    """Return the nodes of values, those that are carried in the dtype of what carries them."""
    given = [as_node(outer, leaf) for leaf in leaves]
    return [
        cast(outer, node, own.dtype) if k < carried and node.dtype != own.dtype else node
        for k, (node, own) in enumerate(zip(given, inputs, strict=True))
    ]


def _make_results(outer: Trace, op: Control, given: Sequence[Node], count: int, **params: Any) -> list[Tracer]:
    """Make a node at the user's line; return its results."""
    with at_user_line(outer):
        node = make(outer.graph, op, *given, **params)
        return [Tracer(make(outer.graph, result, node, number=k), outer) for k in range(count)]


def _number_of_steps(signature: Signature, carried: int, length: Any) -> Any:
    """Return the number of steps."""
    found: dict[Any, str] = {} if length is None else {getattr(length, "dim", length): "length="}
    for spec, path in zip(signature.specs[carried:], signature.paths[carried:], strict=True):
        if not spec.shape:
            raise ShapeError(f"sg.scan goes along the rows of {path}, which has no axis", instead="an array")
        found.setdefault(spec.shape[0], path)
    if not found:
        raise ArgumentValueError("sg.scan is given no rows", instead="xs=, or length=")
    if len(found) > 1:
        shown = ", ".join([f"{path} has {steps}" for steps, path in found.items()])
        raise ShapeError(f"sg.scan goes along rows of different number: {shown}")
    (steps,) = found
    if type(steps) is int and steps < 0:
        raise ArgumentValueError(f"sg.scan of {steps} steps")
    return steps


@public
def fori_loop(
    lower: Any, upper: Any, body: Callable[[Any, Any], Any], init: Any, *, checkpoint: str | int = "all",
    memory: str | int | None = None,
) -> Any:
    """Apply a function for each number of a range: ``for i in range(lower, upper): value = body(i, value)``.

    Args:
        lower: the first number: an integer, an extent or a traced integer.
        upper: the one behind the last.
        body: ``body(i, value) -> value``, of the structure, shapes and dtypes of `init`.
        init: what the first step is given.
        checkpoint: as for `scan`.
        memory: as for `scan`.

    Returns:
        What the last step returned; `init` where there is none.

    Raises:
        ArgumentError: `body` returns another structure.
        ShapeError: `body` returns another shape or dtype.

    >>> import symgrad as sg
    >>> sg.fori_loop(0, 5, lambda i, total: total + i, 0)
    np.int64(10)
    """
    kept = {"checkpoint": checkpoint, "memory": memory}
    if all(isinstance(end, (int, np.integer)) for end in (lower, upper)):
        return _apply_or_compile(_fori_between, body, init, lower=lower, upper=upper, **kept)
    return _apply_or_compile(_fori, body, lower, upper, init, **kept)


def _fori_between(body: Any, init: Any, *, lower: int, upper: int, **kept: Any) -> Any:
    return _fori(body, lower, upper, init, **kept)


def _fori(body: Any, lower: Any, upper: Any, init: Any, *, checkpoint: Any, memory: Any) -> Any:
    if any(type(end) is Tracer for end in (lower, upper)):
        def step(state: Any) -> Any:
            return state[0] + 1, body(state[0], state[1])

        start: Any = np.asarray(lower, np.int64) if type(lower) is not Tracer else lower.astype(np.int64)
        count = np.maximum(upper - start, 0).astype(np.int64)
        return _while_or_counted("sg.fori_loop", step, (start, init), checkpoint, memory, count=count)[1]
    if any(type(end) is Extent for end in (lower, upper)):
        start, stop = [end.dim if type(end) is Extent else int(end) for end in (lower, upper)]
        rows: Any = counting(start, stop, 1)
    else:
        rows = np.arange(lower, max(lower, upper))
    value, _ = _scan(
        lambda value, i: (body(i, value), None), init, rows, length=None, reverse=False, checkpoint=checkpoint,
        memory=memory,
    )
    return value


@public
def while_loop(
    cond: Callable[[Any], Any], body: Callable[[Any], Any], init: Any, *, max_steps: int | None = None,
    checkpoint: str | int = "all", memory: str | int | None = None,
) -> Any:
    """Apply a function as long as another one says so: ``while cond(value): value = body(value)``.

    Args:
        cond: ``cond(value)``, one Boolean.
        body: ``body(value) -> value``, of the structure, shapes and dtypes of `init`.
        init: what the first step is given.
        max_steps: the loop ends after so many steps, and reverse mode keeps so many rows of what a step back reads.
            Without, it keeps what is carried into runs of steps, and computes the steps of a run again.
        checkpoint: as for `scan`.
        memory: as for `scan`.

    Returns:
        The first value of which `cond` is false.

    Raises:
        ArgumentError: `body` returns another structure, or `cond` no Boolean.
        ShapeError: `body` returns another shape or dtype.

    >>> import symgrad as sg
    >>> sg.while_loop(lambda x: x > 1.0, lambda x: x / 2, 10.0)
    np.float64(0.625)
    """
    kept = {"checkpoint": checkpoint, "memory": memory}
    return _apply_or_compile(_while, body, init, cond=cond, max_steps=max_steps, **kept)


def _while(body: Any, init: Any, *, cond: Any, max_steps: Any, checkpoint: Any, memory: Any) -> Any:
    instead = "a number that is large enough for every size, or max_steps=None, which needs no bound"
    if type(max_steps) is Extent:
        raise max_steps.refuse("max_steps=, by which memory is planned,", f"{instead}; or ")
    whole = isinstance(max_steps, (int, np.integer)) and type(max_steps) is not bool and max_steps >= 0
    if not whole and max_steps is not None:
        raise ArgumentError(
            f"max_steps={max_steps!r} of sg.while_loop is no number of steps", line=user_line(), instead=instead,
        )
    return _while_or_counted("sg.while_loop", body, init, checkpoint, memory, test=cond, most=max_steps)


def _while_or_counted(
    what: str, body: Any, init: Any, checkpoint: Any, memory: Any, *, test: Any = None, most: Any = None,
    count: Any = None,
) -> Any:
    """Make a loop of as many steps as a value says, or as a condition holds."""
    outer = current()
    assert outer is not None  # noqa: S101 - called while tracing
    signature, leaves = described(body, (init,), {})
    carried = signature.tree.num_leaves
    point = _traced_step(what, body, signature, leaves, carried, (), pair=False)
    tests: list[Program] = []
    if test is not None:
        inputs = point.program.inputs
        specs = tuple([replace(s, dtype=x.dtype, weak=None) for s, x in zip(signature.specs, inputs, strict=True)])
        tests.append(at(test, signature, leaves, seen=replace(signature, specs=specs)).program)
        if [(y.shape, y.dtype.kind) for y in tests[0].outputs] != [((), "b")]:
            shown = ", ".join([f"{y.dtype.name} of shape {show(y.shape)}" for y in tests[0].outputs])
            raise ArgumentError(
                f"the condition of {what} returns {shown}, not one Boolean", line=definition(test),
                instead="a comparison, np.any or np.all",
            )
    (step, *tests), reads = lifted(point.program, *tests)
    given = [*reads, *_carried_nodes(outer, leaves, step.inputs[len(reads) :], carried)]
    fixed = len(reads)
    with at_user_line(outer):
        named = {"body": step, "fixed": fixed, "runs": tuple(_runs_of(step, fixed, carried, most, checkpoint, memory))}
    if tests:
        found = _make_results(outer, while_, given, 1 + carried, **named, test=tests[0], most=most)[1:]
    else:
        given.insert(0, as_node(outer, count))
        found = _make_results(outer, counted, given, carried, **named, length=None, carried=carried, reverse=False)
    return optree.tree_unflatten(point.tree, found)


@public
def cond(pred: Any, on_true: Callable[..., Any], on_false: Callable[..., Any], *operands: Any) -> Any:
    """Call one of two functions: ``on_true(*operands) if pred else on_false(*operands)``, and only that one.

    Args:
        pred: a Boolean or a number, without axes.
        on_true: called where `pred` is true.
        on_false: called elsewhere; it returns the same structure, shapes and dtypes.
        operands: arrays and numbers in tuples, lists and dicts; what the functions close over needs not be among them.

    Returns:
        What the function returns. Only that one is computed, and differentiated. Under `vmap`, where each example has a
        condition of its own, both are computed and one is chosen, as `np.where` does: the other one's infinities and
        NaN reach neither value nor derivative.

    Raises:
        ArgumentError: `pred` has axes, or the functions return different structures.
        ShapeError: the functions return different shapes or dtypes.

    >>> import numpy as np, symgrad as sg
    >>> root = sg.grad(lambda x: sg.cond(x > 0, np.sqrt, lambda x: 0.0 * x, x))
    >>> float(root(4.0)), float(root(-1.0))
    (0.25, 0.0)
    """
    outer = current()
    traced = outer is not None and hasattr(type(settled(pred)), "__symgrad_bind__")
    test: Any = Tracer(as_node(outer, pred), outer) if outer is not None and traced else pred
    if shape := test.node.shape if traced else np.shape(pred):
        raise ArgumentError(f"the condition of sg.cond has shape {show(shape)}", instead="np.any or np.all of it")
    if outer is None or not traced:
        return (on_true if pred else on_false)(*operands)
    sides: list[Point] = []
    leaves: list[Any] = []
    for f in (on_true, on_false):
        signature, leaves = described(f, operands, {})
        sides.append(at(f, signature, leaves, alike=[False] * len(leaves), step=True))
    first, second = sides
    if first.tree != second.tree:
        raise ArgumentError(
            f"the functions of sg.cond return {first.tree} and {second.tree}", line=definition(on_false),
        )
    for k, (a, b) in enumerate(zip(first.program.outputs, second.program.outputs, strict=True)):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            raise ShapeError(
                f"the functions of sg.cond return {a.dtype.name} of shape {show(a.shape)} and {b.dtype.name} of shape "
                f"{show(b.shape)}, as result {k}", line=b.line, instead="the same shape and dtype from both",
            )
    (then, other), reads = lifted(first.program, second.program)
    given = [*reads, *[as_node(outer, leaf) for leaf in leaves]]
    found = _make_results(outer, cond_op, [(test != 0).node, *given], len(then.outputs), then=then, other=other)
    return optree.tree_unflatten(first.tree, found)


def checkpoint(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Keep nothing of a function for reverse mode but its arguments: its derivative computes it again.

    Args:
        fun: takes and returns arrays and numbers in tuples, lists and dicts.

    Returns:
        A function of the same arguments and value, whose derivative takes less memory and more time.

    >>> import numpy as np, symgrad as sg
    >>> layer = sg.checkpoint(lambda x: np.sin(np.sin(np.sin(x))))
    >>> float(sg.grad(lambda x: layer(layer(x)))(0.0))
    1.0
    """

    @functools.wraps(fun)
    def called(*args: Any, **kwargs: Any) -> Any:
        outer = current()
        if outer is None:
            return fun(*args, **kwargs)
        signature, leaves = described(fun, args, kwargs)
        point = at(fun, signature, leaves)
        (body,), reads = lifted(point.program)
        given = [*reads, *[as_node(outer, leaf) for leaf in leaves]]
        return optree.tree_unflatten(point.tree, _make_results(outer, call_op, given, len(body.outputs), body=body))

    return called


@public
def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """Call one of several functions: ``branches[index](*operands)``; an index beyond either end is the one at that end.

    The arguments and the result are those of `cond`; `index` is an integer without axes.

    >>> import symgrad as sg
    >>> sg.switch(1, [lambda x: x, lambda x: 2 * x, lambda x: 3 * x], 5.0)
    10.0
    """
    if not branches:
        raise ArgumentValueError("sg.switch of no functions")
    if len(branches) == 1:
        return branches[0](*operands)
    half = len(branches) // 2
    return cond(
        index < half, lambda *x: switch(index, branches[:half], *x),
        lambda *x: switch(index - half, branches[half:], *x), *operands,
    )
