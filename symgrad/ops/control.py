"""Ops that hold programs, loops and branches, and what all of them are: several results, each a value of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, reduce
from operator import or_
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from symgrad.errors import FAILED, LEADING_ZERO, NEGATIVE_POWER, NOT_FINITE, NOT_NUMBERS, Missed, ShapeError
from symgrad.ir.evaluate import in_time
from symgrad.ir.graphs import in_turn, reachable
from symgrad.ir.index.notation import Access, Body, How, Number, Role, Statement, Temporary, axes_of
from symgrad.ir.index.shapes import Dim, Shape
from symgrad.ir.node import SEVERAL, Node
from symgrad.ir.op import Control, Result
from symgrad.ir.program import Program, bodies
from symgrad.ops.declare.domains import case
from symgrad.ops.declare.forms import BOOL, INT, OPS, apply, enter, structured


def _result_infer(several: Node, *, number: int) -> tuple[Shape, Any]:
    if not isinstance(several.op, Control):
        raise ShapeError(f"a result of {several.op.name}, which has one")
    found = several.op.results(*several.inputs, **several.named)
    if not 0 <= number < len(found):
        raise ShapeError(f"result {number} of {several.op.name}, which has {len(found)}")
    return found[number]


result = enter(Result(
    "result", ("number",), evaluate=lambda several, number: several[number], infer=_result_infer, sample=(), edges=(),
))


By = Callable[[Node], Sequence[Node]]


def needed(node: Node) -> Sequence[Node]:
    """Return what a node is made of: of one of several results, what that one is."""
    return _of_several(node, needed) if isinstance(node.op, Result) else node.inputs


def differentiated(node: Node) -> Sequence[Node]:
    """Return the values by which a node may have a derivative that is not zero, and integers beside them."""
    op = node.op
    if node.dtype.kind != "f" or op.nondiff:
        return ()
    if isinstance(op, Result):
        return _of_several(node, differentiated)
    return [i for k, i in enumerate(node.inputs) if k not in op.determined] if op.determined else node.inputs


def _of_several(node: Node, by: By) -> Sequence[Node]:
    several: Any = node.inputs[0]
    flags = several.op.needs(node.param("number"), by, **several.named)
    return [i for i, flag in zip(several.inputs, flags, strict=True) if flag]


def read_by(program: Program, outputs: Iterable[Node], by: By = needed) -> set[Node]:
    """Return the inputs of a program that some of its outputs are made of."""
    return reachable(outputs, by).keys() & {*program.inputs}


_reads: WeakKeyDictionary[Program, dict[By, tuple[int, ...]]] = WeakKeyDictionary()


def _read(body: Program, outputs: Iterable[int], by: By = needed) -> int:
    """Return which inputs of a body some of its outputs are made of: bit k stands for input k."""
    def held(one: Program) -> list[Program]:
        controls = [node for node in one.nodes() if isinstance(node.op, Control)]
        return [each for node in controls for each in bodies(node) if by not in _reads.get(each, ())]

    if by not in _reads.get(body, ()):  # found once for all outputs, and first for what is held, however deep
        done: set[Program] = set()
        for one in in_turn(body, held, done):
            known = {x: 1 << k for k, x in enumerate(one.inputs)}
            for node in one.nodes():
                if node not in known:
                    known[node] = reduce(or_, [known[i] for i in by(node)], 0)
            _reads.setdefault(one, {})[by] = tuple([known[y] for y in one.outputs])
            done.add(one)
    reads = _reads[body][by]
    return reduce(or_, [reads[k] for k in outputs], 0)


def closure(body: Program, wanted: Iterable[int], fixed: int, carried: int, by: By = needed) -> set[int]:
    """Return the outputs of a loop's body that some of them are made of, in any number of steps."""
    found = more = {*wanted}
    while more:
        read = _read(body, more, by) >> fixed
        more = {k for k in range(carried) if read >> k & 1} - found
        found = found | more
    return found


def control(*, name: str, params: tuple[str, ...], results: Any, evaluate: Any, **fields: Any) -> Control:
    """Declare an op of several results."""

    def infer(*inputs: Node, **named: Any) -> tuple[Shape, Any]:
        results(*inputs, **named)
        return (), SEVERAL

    return enter(Control(name, params, evaluate=evaluate, infer=infer, results=results, sample=(), edges=(), **fields))


def fits(body: Program, inputs: list[tuple[Any, Any]], what: str) -> None:
    """Check what a body is given."""
    taken = [(i.shape, i.dtype) for i in body.inputs]
    if taken != inputs:
        raise ShapeError(f"the body of {what} takes {taken} and is given {inputs}")


# -- scan: a program applied again and again, to what it gave the time before and to the next rows of arrays; and
# `counted`, a scan whose first operand says how many of the rows there are steps for


def _scan_results(
    *inputs: Node, body: Program, length: Dim, fixed: int, carried: int, reverse: bool, rowless: bool = False,
) -> list[tuple[Shape, Any]]:
    """Return the last values that are carried, and what is stacked of each step."""
    del reverse
    if (length is None or rowless) and (not rowless or len(inputs) > fixed + carried or len(body.outputs) > carried):
        raise ShapeError("a loop in runs, or of any number of steps, has no rows")
    if len(inputs) < fixed + carried or len(body.outputs) < carried:
        raise ShapeError(f"a scan that carries {carried} of {len(inputs)} values, and gives {len(body.outputs)}")
    rows = inputs[fixed + carried :]
    if any(x.shape[:1] != (length,) for x in rows):
        raise ShapeError(f"a scan of {length} steps over rows of {[x.shape for x in rows]}")
    given = [(x.shape, x.dtype) for x in inputs[: fixed + carried]] + [(x.shape[1:], x.dtype) for x in rows]
    fits(body, given, "a scan")
    made = [(y.shape, y.dtype) for y in body.outputs]
    if made[:carried] != given[fixed : fixed + carried]:
        raise ShapeError(f"a scan carries {given[fixed : fixed + carried]}, and its body gives {made[:carried]}")
    return [*made[:carried], *[((length, *shape), dtype) for shape, dtype in made[carried:]]]


def _scan_evaluate(
    *arrays: Any, body: Any, length: int | None, fixed: int, carried: int, reverse: bool, count: int | None = None,
) -> list[Any]:
    """Run the body once for each step; what is stacked has the rows' order, whichever way the steps go."""
    constants, state, rows = arrays[:fixed], [*arrays[fixed : fixed + carried]], arrays[fixed + carried :]
    stacked: list[Any] = []
    steps: Any = length if count is None else count
    for t in range(steps)[:: -1 if reverse else 1]:
        found: Sequence[Any] = body(*constants, *state, *[x[t] for x in rows])
        state = [*found[:carried]]
        stacked = stacked or [np.zeros((length, *np.shape(y)), np.asarray(y).dtype) for y in found[carried:]]
        for all_, y in zip(stacked, found[carried:], strict=True):
            all_[t] = y
    if not steps and length is not None:
        stacked = [np.zeros((length, *shape), dtype) for shape, dtype in body.results[carried:]]  # of an interpreted
    return [*state, *stacked]


@lru_cache(maxsize=64)
def _scan_needs(
    index: int, by: By, *, body: Program, length: Dim, fixed: int, carried: int, reverse: bool,
) -> tuple[bool, ...]:
    """Return of what a result is made, in all steps; what is carried is where it begins, too."""
    del length, reverse
    outputs = closure(body, [index], fixed, carried, by)
    read = _read(body, outputs, by)
    return tuple([bool(read >> k & 1) or k - fixed in outputs & {*range(carried)} for k in range(len(body.inputs))])


scan = control(
    name="scan", params=("body", "length", "fixed", "carried", "reverse"), results=_scan_results,
    evaluate=_scan_evaluate, needs=_scan_needs, rounds=lambda length, **_: (length,),
)


def _counted_results(count: Node, *inputs: Node, runs: tuple[int, ...], **named: Any) -> list[tuple[Shape, Any]]:
    """Return the results of a scan."""
    if (count.shape, count.dtype) != ((), INT):
        raise ShapeError(f"a number of steps of {count.dtype.name} and shape {count.shape}")
    return _scan_results(*inputs, **named, rowless=bool(runs) or named["length"] is None)


counted = control(
    name="counted", params=(*scan.params, "runs"), results=_counted_results,
    evaluate=lambda count, *arrays, runs, **named: _scan_evaluate(*arrays, count=int(count), **named),
    needs=lambda index, by, *, runs, **named: (True, *_scan_needs(index, by, **named)),
)
"""With `runs`, reverse mode keeps only what is carried into each run of ``runs[0]`` steps, and of these in the same
way by the others; without, the rows of `length` steps, or, where there is no length, it begins again for each."""


# -- while_: a program applied again and again, as long as another one says so


def _while_results(
    *inputs: Node, test: Program, body: Program, fixed: int, most: Dim, runs: tuple[int, ...],
) -> list[tuple[Shape, Any]]:
    """Return how many steps there were, the last values that are carried, and what is stacked of each step."""
    given = [(x.shape, x.dtype) for x in inputs]
    carried = len(inputs) - fixed
    if carried < 0:
        raise ShapeError(f"a loop with {fixed} values that stay, of {len(inputs)}")
    if len(body.outputs) > carried and (most is None or runs):
        raise ShapeError("a loop in runs, or of any number of steps, stacks nothing")
    fits(test, given, "a loop's condition")
    fits(body, given, "a loop")
    if [(y.shape, y.dtype.kind) for y in test.outputs] != [((), "b")]:
        raise ShapeError("a loop's condition is one Boolean")
    made = [(y.shape, y.dtype) for y in body.outputs]
    if made[:carried] != given[fixed:]:
        raise ShapeError(f"a loop carries {given[fixed:]}, and its body gives {made[:carried]}")
    return [((), INT), *made[:carried], *[((most, *shape), dtype) for shape, dtype in made[carried:]]]


def _while_evaluate(*arrays: Any, test: Any, body: Any, fixed: int, most: int | None, runs: Any) -> list[Any]:
    del runs
    constants, state, steps = arrays[:fixed], arrays[fixed:], 0
    stacked: list[Any] = []
    while (most is None or steps < most) and test(*constants, *state)[0]:
        found = body(*constants, *state)
        state = found[: len(state)]
        stacked = stacked or [np.zeros((most, *np.shape(y)), np.asarray(y).dtype) for y in found[len(state) :]]
        for rows, y in zip(stacked, found[len(state) :], strict=True):
            rows[steps] = y
        steps += 1
        in_time()
    if not steps and most is not None:
        stacked = [np.zeros((most, *shape), dtype) for shape, dtype in getattr(body, "results", ())[len(state) :]]
    return [np.int64(steps), *state, *stacked]


@lru_cache(maxsize=64)
def _while_needs(
    index: int, by: By, *, test: Program, body: Program, fixed: int, most: Dim, runs: tuple[int, ...],
) -> tuple[bool, ...]:
    """Return of what a result is made in all steps, and what says how many there are."""
    del most, runs
    carried = len(body.inputs) - fixed
    asked = _read(test, [0], by)
    wanted = {k for k in range(carried) if asked >> fixed + k & 1} | ({index - 1} if index else set())
    outputs = closure(body, wanted, fixed, carried, by)
    read = asked | _read(body, outputs, by)
    return tuple([bool(read >> k & 1) or k - fixed in outputs for k in range(len(body.inputs))])


while_ = control(
    name="while_", params=("test", "body", "fixed", "most", "runs"), results=_while_results, evaluate=_while_evaluate,
    needs=_while_needs,
)
"""After `most` steps it ends, if that is not None, and its body may give more than what is carried: that is stacked, a
row a step, and rows of no step hold nothing. `runs` are those of `counted`, which its derivative is made of."""


# -- cond: one of two programs; call: a program where it stands, whose derivative runs it again and keeps nothing


def _branch_results(inputs: Sequence[Node], what: str, *held: Program) -> list[tuple[Shape, Any]]:
    """Return the results of either."""
    for body in held:
        fits(body, [(x.shape, x.dtype) for x in inputs], what)
    made = [[(y.shape, y.dtype) for y in body.outputs] for body in held]
    if made[0] != made[-1]:
        raise ShapeError(f"a branch gives {made[0]} or {made[-1]}")
    return made[0]


def _cond_results(test: Node, *inputs: Node, then: Program, other: Program) -> list[tuple[Shape, Any]]:
    if test.shape != () or test.dtype.kind != "b":
        raise ShapeError(f"a branch by {test.dtype.name} of shape {test.shape}")
    return _branch_results(inputs, "a branch", then, other)


@lru_cache(maxsize=64)
def _branch_needs(index: int, by: By, **held: Program) -> tuple[bool, ...]:
    """Return of what a result is made on either side."""
    read = reduce(or_, [_read(body, [index], by) for body in held.values()])
    (count,) = {len(body.inputs) for body in held.values()}
    return tuple([bool(read >> k & 1) for k in range(count)])


call = control(
    name="call", params=("body",), results=lambda *inputs, body: _branch_results(inputs, "a call", body),
    evaluate=lambda *arrays, body: body(*arrays), needs=_branch_needs, rounds=lambda **_: (),
)

cond = control(
    name="cond", params=("then", "other"), results=_cond_results,
    evaluate=lambda test, *arrays, then, other: (then if test else other)(*arrays),
    needs=lambda index, by, **held: (True, *_branch_needs(index, by, **held)),
)


# -- guard: what a condition came to where Python branched on it; where it comes to something else, the call leaves


OUT = Access(-1, ())
UNTOLD = 1 << 20
"""From here on number the guards of loops: which of Python's conditions came to something else there, nobody knows."""


def _guard_infer(x: Node, *, outcome: Any, number: int) -> tuple[Shape, Any]:
    if x.shape != () or x.dtype.kind not in "biu" or number < 0:
        raise ShapeError(f"guard {number} of {x.dtype.name}{list(x.shape)}, which can not come to {outcome!r}")
    return (), np.dtype(bool)


def _guard_evaluate(x: Any, *, outcome: Any, number: int) -> Any:
    if x != outcome:
        raise Missed(number)
    return np.True_


def _guard_body(node: Node) -> Body:
    outcome, number = node.params
    kind, read = node.inputs[0].dtype, Access(0, ())
    other: Any = read
    if outcome is True:
        other = apply("logical_not", kind, read, dtype=node.dtype)
    elif outcome is not False:
        other = apply("not_equal", kind, read, Number(outcome, kind), dtype=node.dtype)
    return Body((Statement(OUT, How.CHECK, other, (), node.line, Role.GUARD, failure=number),))


guard = structured(
    name="guard", params=("outcome", "number"), infer=_guard_infer, evaluate=_guard_evaluate, body=_guard_body,
    nondiff=True, sample=(), edges=(), decides=True,
)


# -- checks in the run, as an index's is: where one of what was looked at is not so, the call is refused


def _checked(name: str, what: str, condition: Callable[[Any], Any], doc: str) -> Any:
    """Make an op of conditions that all hold, or the call is refused with `what`; they hold of what it is tried on."""

    def evaluate(x: Any) -> Any:
        if not np.all(x):
            raise FAILED[what](what)
        return np.ones_like(x)

    def body(node: Node) -> Body:
        count, axes = Access(-2, ()), axes_of(node.shape)
        bad = apply("where", INT, apply("logical_not", BOOL, Access(0, axes)), Number(1, INT), Number(0, INT))
        good = apply("equal", INT, count, Number(0, INT), dtype=BOOL)  # reads the count, so that it comes behind
        return Body((
            Statement(count, How.SET, Number(0, INT), (), node.line),
            Statement(count, How.ADD, bad, axes, node.line),
            Statement(count, How.CHECK, count, (), node.line, failure=what),
            Statement(Access(-1, axes), How.SET, good, axes, node.line),
        ), (Temporary((), INT),))

    def square(x: Any) -> Any:
        return np.where(OPS[name](condition(x)), x * x, np.nan)

    return structured(
        name=name, infer=lambda x: (x.shape, BOOL), evaluate=evaluate, body=body, nondiff=True,
        sample=(case(square, (3, 2)),), edges=(case(square, (0,)), case(square, ())), doc=doc,
    )


finite = _checked(
    "finite", NOT_FINITE, np.isfinite,
    "Conditions that all hold: where one does not, a value is NaN or infinite, and the call is refused.",
)
leads = _checked(
    "leads", LEADING_ZERO, lambda x: x * x >= 0,
    "Conditions that all hold: where one does not, a recurrence is divided by 0, and the call is refused.",
)
natural = _checked(
    "natural", NEGATIVE_POWER, lambda x: x * x >= 0,
    "Conditions that all hold: where one does not, an integer's exponent is negative, and the call is refused.",
)
numbers = _checked(
    "numbers", NOT_NUMBERS, np.isfinite,
    "Conditions that all hold: where one does not, an array has an infinite element or NaN, and the call is refused.",
)
