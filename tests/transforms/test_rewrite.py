"""Tables of rewrites: every pair fires, changes no bit or gains digits, and has the derivative of what it replaces."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
import sympy

import symgrad as sg
from symgrad.ir.evaluate import evaluate
from symgrad.ir.node import Graph
from symgrad.ir.op import Elementwise
from symgrad.ir.program import Program, copied, rebuild
from symgrad.ir.text import as_text
from symgrad.ir.verify import verify
from symgrad.ops.declare import leaves
from symgrad.ops.declare.forms import OPS
from symgrad.pipeline import uncollected
from symgrad.trace.numpy.protocols import install
from symgrad.trace.state import Trace, passing
from symgrad.trace.tracer import Tracer, as_node
from symgrad.transforms.build import literal, make
from symgrad.transforms.derive.vjp import gradient
from symgrad.transforms.rewrite.cheaper import CHEAPER, SIGNS, signs
from symgrad.transforms.rewrite.engine import (
    NUMBER,
    PARAM,
    VALUE,
    Pair,
    Rule,
    Run,
    Table,
    Term,
    Variable,
    Viewed,
    arguments,
    rule,
)
from symgrad.transforms.rewrite.safer import SAFER

sg.ops.load()
install()

PARAMS: dict[str, list[Any]] = {
    "axes": [(0,), (1,), (0, 1)], "n": [3, 4, -2], "s": [(6,), (2,), (3,)], "dtype": [None], "shape": [(2, 3)],
    "wide": [(2, 3), (4, 2, 3)], "order": [(0, 1), (1, 0)], "outer": [(0, 1), (1, 0)],
}
"""What the variables of these names are tried with, where they are parameters."""

NUMBERS = (0, 0.5, -0.5, 1, 2, -1, 3, -2, -7, True, False)

POINTS = np.array([0.0, 5e-324, 3e-310, 1e-300, 1e-20, 1e-9, 1e-4, 0.3, 0.7, 1.0, 1.6, 3.0, 17.0, 37.0, 300.0, 1e200,
                   1.7e308, np.inf])
POINTS = np.array([*POINTS, *-POINTS, np.nan])


class Case(NamedTuple):
    """A rule, and what its variables stand for but for those of values.

    Attributes:
        what, instead: both sides, as functions of the values.
        term: the first side, as it is recorded.
        fixed: what is no value.
        names: the values.
    """

    what: Any
    instead: Any
    term: Term
    fixed: dict[str, Any]
    names: list[str]


def rules(table: Table) -> list[Any]:
    written = [each for each in table.rules if isinstance(each, Rule)]
    return [pytest.param(r, id=repr(next(iter(r.pairs())))) for r in written]


def cases(r: Rule) -> list[Case]:
    kinds = {name: r.variables.get(name, VALUE) for name in arguments(r.what)}
    names = [name for name, kind in kinds.items() if kind == VALUE]
    others = {
        name: PARAMS[name] if kind == PARAM else NUMBERS if kind == NUMBER else sorted(kind, key=repr)
        for name, kind in kinds.items() if kind != VALUE
    }
    found = []
    for chosen in product(*others.values()):
        fixed = dict(zip(others, chosen, strict=True))
        variables = {name: Variable(name, VALUE) for name in names}
        what, instead = [side(function, fixed, names) for function in (r.what, r.instead)]
        term = r.what(*[{**fixed, **variables}[name] for name in kinds])
        found.append(Case(what, instead, term, fixed, names))
    return found


def side(function: Any, fixed: dict[str, Any], names: list[str]) -> Any:
    """Return one side as a function of the values, as a user writes it: NumPy's own functions cast numbers."""
    written = {k: v.numpy if isinstance(getattr(v, "numpy", None), np.ufunc) else v for k, v in fixed.items()}

    def of_values(*xs: Any) -> Any:
        known = {"dtype": xs[0].dtype} if "dtype" in written else {}
        return function(*[{**written, **known, **dict(zip(names, xs, strict=True))}[n] for n in arguments(function)])

    return of_values


class Fired(NamedTuple):
    """A case with the program that is written for it, before and after."""

    case: Case
    before: Any
    after: Any
    given: list[Any]


def fired(r: Rule, table: Table, drawn: Any, wrap: Any = lambda x: x) -> list[Fired]:
    """Trace what a rule is for, and rewrite it; leave out where that is not what is written instead."""
    found = []
    for case in cases(r):
        given = [drawn(name) for name in case.names]
        if max(case.fixed.get("axes", (0,))) >= len(case.fixed.get("s", given[0].shape)):
            continue
        if len(case.fixed.get("order", given[0].shape)) != given[0].ndim:
            continue
        try:
            before, wanted = [
                traced(lambda *xs, f=side: f(*map(wrap, xs)), given) for side in (case.what, case.instead)
            ]
        except sg.SymgradError:
            continue  # there is no such program: a reshape that does not fit, a power that NumPy refuses
        after = table(before)
        is_constant = not any(node.inputs for node in wanted.nodes()) and wanted.outputs[0] not in wanted.inputs
        if text(before) != text(after) and (is_constant or text(tidy(after)) == text(tidy(table(wanted)))):
            verify(after)
            found.append(Fired(case, before, after, given))
    return found


def traced(function: Any, arrays: list[Any]) -> Program:
    graph = Graph()
    params = [(f"x{k}", x.shape, x.dtype) for k, x in enumerate(arrays)]
    inputs = [graph.node(leaves.input_, (), each, *each[1:]) for each in params]
    with passing(Trace(graph, "program")) as trace:
        result = as_node(trace, function(*[Tracer(node, trace) for node in inputs]))
    return Program(tuple(inputs), (result,))


def text(program: Any) -> str:
    return as_text(program, lines=False)


def tidy(program: Any) -> Any:
    return signs(CHEAPER(program))


# -- after derivation: no bit changes

SHAPES = (POINTS.shape, (2, 3), (2, 1), (1, 3))


def drawn(name: str, dtype: Any, shape: tuple[int, ...]) -> Any:
    """Draw a variable: special values along one axis, everyday ones where there are more; `p` is a condition."""
    rng = np.random.default_rng([ord(c) for c in name])
    shape = (shape[0], 1) if name in {"s", "m"} and len(shape) > 1 else shape
    if name == "p" or np.dtype(dtype).kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if len(shape) > 1:
        return np.asarray(rng.choice([-0.0, 0.0, 1.5, -2.25, 3.7, -5.1, 0.3], shape)).astype(dtype)
    with np.errstate(all="ignore"):
        return (POINTS if name == "x" else rng.permuted(POINTS)).astype(dtype)


def changes(r: Rule, table: Table) -> list[str]:
    """List where a rule changes bits; that it fires nowhere is listed, too."""
    found, tried = [], 0
    for dtype in [t for t in ("f8", "f4", "i8", "i2", "u4", "?") if np.dtype(t).kind in r.kinds]:
        for shape in SHAPES:
            for each in fired(r, table, lambda name, t=dtype, s=shape: drawn(name, t, s)):
                tried += 1
                one, other = [evaluate(program, each.given)[0] for program in (each.before, each.after)]
                if each.case.term.op.name == "sum":  # that of one -0.0 is 0.0 in NumPy, see cheaper.py
                    one, other = one + 0.0, other + 0.0
                if not same_bits(one, other):
                    found.append(f"{dtype}{shape} {each.case.fixed}: {one} {other}")
    return found if tried else ["it never fires"]


def same_bits(one: Any, other: Any) -> bool:
    """Whether two arrays have the same bits, but for those of NaN."""
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    if one.dtype.kind == "f":
        if not np.array_equal(np.isnan(one), np.isnan(other)):
            return False
        one, other = [np.where(np.isnan(x), 0, x) for x in (one, other)]
    return bool(one.tobytes() == other.tobytes())


@pytest.mark.parametrize("r", [r for r in rules(CHEAPER) if "isfinite(m)" not in r.id])  # that is in test_softmax
def test_cheaper_changes_no_bit(r):
    assert changes(r, CHEAPER) == []


@pytest.mark.parametrize("r", rules(SIGNS))
def test_signs_change_no_bit(r):
    assert changes(r, SIGNS) == []


# -- before derivation: digits are gained, and none is lost

DIGITS = 360
"""So many are computed with, for 1 + exp(-750) to be exact."""

NEAR = np.array([1e-20, 1e-9, 1e-4, 0.3, 0.5 + 1e-10, 0.7, 1 - 1e-10, 1.6, 3.0, 17.0, 37.0, 300.0, 750.0, 1e160])
NEAR = np.array([0.0, *NEAR, *-NEAR])

BETTER = {
    "power": "costs less than a library's pow", "maximum": "has the derivative 0 at a tie",
    "absolute(x)": "has no kink in the second derivative", "where(equal(x, 0)": "is the sum that a norm is the root of",
}
"""Why a rule is there that gains no digits, by what stands in what it replaces."""


def exact(term: Any, at: dict[str, Any]) -> Any:
    """Compute a term with many digits, by what the ops say they are."""
    if isinstance(term, Variable):
        return at[term.name]
    if not isinstance(term, Term):
        return sympy.Float(float(term), DIGITS)
    op: Any = term.op
    values = [exact(i, at) for i in term.inputs]
    if op.name == "where":
        return values[1] if values[0] else values[2]
    return values[0] ** term.params[0] if op.name == "power_int" else op.value(*values)


class Exact(NamedTuple):
    """Values and derivatives by x (None at kinks), at the points that have them among ordinary numbers."""

    points: list[int]
    values: list[Any]
    slopes: list[Any]


def references(each: Fired, wrap: Any) -> Exact:
    found, h = Exact([], [], []), sympy.Float(10, DIGITS) ** -150
    for k, row in enumerate(zip(*each.given, strict=True)):
        at = {name: sympy.Float(float(v), DIGITS) for name, v in zip(each.case.names, row, strict=True)}
        sides = [at, *[at | {"x": at["x"] + step} for step in (h, -h)]]
        try:
            values = [exact(each.case.term, {n: wrap(v) for n, v in side.items()}).evalf(DIGITS) for side in sides]
            is_ordinary = all(v.is_real and v.is_finite and abs(v) < 1e300 for v in values)
        except (OverflowError, ZeroDivisionError, TypeError):
            continue
        if is_ordinary:
            value, up, down = values
            found.points.append(k)
            found.values.append(value)
            slope = (up - down) / (2 * h)
            found.slopes.append(slope if abs(up - 2 * value + down) / h < max(abs(slope) / 10**6, 10**-100) else None)
    return found


def errors(found: Any, wanted: list[Any]) -> Any:
    """Return relative errors in units of the last place, of numbers that may be infinite; 0 where nothing is wanted."""
    def error(f: Any, w: Any) -> float:
        if w is None or not np.isfinite(f):
            return 0.0 if w is None else np.inf
        return float(min(abs(sympy.Float(float(f), DIGITS) - w) / max(abs(w), 1e-300) * 2**52, 1e300))

    return np.array([error(f, w) for f, w in zip(found, wanted, strict=True)])


def lost(r: Rule, table: Table) -> list[str]:
    """List where an elementwise rule is worse than what it replaces, in value or derivative; or that none is better."""
    for wrap in (lambda x: x, lambda x: x * x + x * x):
        found = fired(r, table, lambda name: NEAR if name == "x" else np.roll(NEAR, 7), wrap)
        if found:
            break
    problems, gained = [] if found else ["it never fires"], not found
    for each in found:
        gained |= any(part in repr(each.case.term) for part in BETTER)
        wanted = references(each, wrap)
        k = each.case.names.index("x")
        before, after = [
            evaluate(program, each.given) + evaluate(gradient(summed(program), [k]), each.given)
            for program in (each.before, each.after)
        ]
        for name, sides, exactly in zip(
            ("value", "derivative"), zip(before, after, strict=True), (wanted.values, wanted.slopes), strict=True,
        ):
            one, other = [errors(x[wanted.points], exactly) for x in sides]
            size = np.sum(np.abs(each.given), axis=0)[wanted.points]  # an exponential's error grows with what it is of
            worse = other > np.maximum(16 + np.minimum(size, 1000), 2 * one)
            problems += [
                f"{name} {each.case.fixed} at {NEAR[wanted.points[j]]}: {one[j]} {other[j]}"
                for j in np.nonzero(worse)[0]
            ]
            gained |= bool(np.any(one > 1000 * np.maximum(other, 1)))
    return problems if gained else [*problems, "nothing is better"]


def summed(program: Any) -> Any:
    """Return a program's sum, of which the derivative is that of each element."""
    graph = Graph()
    copy = rebuild(program, copied, into=graph)
    y = copy.outputs[0]
    return replace(copy, outputs=(make(graph, "sum", y, axes=tuple(range(len(y.shape)))),))


def is_elementwise(term: Any) -> bool:
    return not isinstance(term, Term) or (isinstance(term.op, Elementwise) and all(map(is_elementwise, term.inputs)))


@pytest.mark.parametrize("r", [r for r in rules(SAFER) if "viewed(" not in r.id])  # those are in test_stabilize
def test_safer_gains_digits_and_loses_none(r):
    if is_elementwise(next(iter(r.pairs())).what):
        assert lost(r, SAFER) == []
        return
    def drawn_2d(name: str) -> Any:
        return drawn(name, float, (2, 3))

    found = fired(r, SAFER, drawn_2d) or fired(r, SAFER, drawn_2d, np.sin)  # some are of what has a derivative
    assert found
    for each in found:
        np.testing.assert_allclose(evaluate(each.after, each.given), evaluate(each.before, each.given), rtol=1e-14)


# -- rewriting ends, and takes time in proportion


def ranks(table: Table) -> dict[str, int]:
    """Number ops so that each pair writes one of a lower number at its root, or of the same and something smaller."""
    pairs = [pair for pair in table.pairs if isinstance(pair, Pair) and isinstance(pair.instead, Term)]
    found: dict[str, int] = Counter()
    for _ in range(len(OPS)):
        before = dict(found)
        for pair in pairs:
            low = found[pair.instead.op.name]
            least = low if is_smaller(pair.instead, pair.what) else low + 1
            found[pair.what.op.name] = max(found[pair.what.op.name], least)
        if found == before:
            return found
    raise AssertionError(f"these may never end: {[p for p in pairs if found[p.what.op.name] == max(found.values())]}")


def is_smaller(one: Any, other: Any) -> bool:
    """Whether a term has fewer ops than another one, and no variable more often: it is smaller whatever these are."""
    ones, others = Counter(parts(one)), Counter(parts(other))
    return ones["op"] < others["op"] and all(ones[name] <= others[name] for name in ones)


def parts(term: Any) -> list[str]:
    """List a term's variables; each op, and each number, is an "op", and so is what is made of numbers alone."""
    if isinstance(term, Variable) and term.kind == VALUE:
        return [f"variable {term.name}"]
    if isinstance(term, Viewed):
        return parts(term.term)
    inner = [part for i in term.inputs for part in parts(i)] if isinstance(term, Term) else []
    return ["op", *(inner if any(part != "op" for part in inner) else [])]


@pytest.mark.parametrize("table", [SAFER, CHEAPER, SIGNS])
def test_a_program_that_no_rule_fits_is_not_made_anew(table):
    program = sg.jit(lambda x, y: np.sum(x * y + x) - np.log(y[0])).lower(np.ones(3), np.ones(3)).program
    assert table(program) is program


@pytest.mark.parametrize("table", [SAFER, CHEAPER, SIGNS])
def test_rewriting_ends(table):
    assert max(ranks(table).values()) < 5


def test_rules_in_a_circle_are_found():
    circle = Table(rule(lambda x, y: x + y, lambda x, y: x - -y), rule(lambda x, y: x - -y, lambda x, y: y + x))
    with pytest.raises(AssertionError, match=r"may never end: \[add\(x, y\) -> subtract"):
        ranks(circle)


@pytest.mark.parametrize("table", [SAFER, CHEAPER])
def test_time_is_in_proportion_to_the_program(table, monkeypatch):
    looked, matches = [], Pair.__call__

    def looking(pair: Pair, run: Run, node: Any) -> Any:
        looked.append(pair)
        return matches(pair, run, node)

    monkeypatch.setattr(Pair, "__call__", looking)

    work = []
    for count in (100, 100_000):
        graph = Graph()
        x = node = graph.node(leaves.input_, (), ("x", (), np.dtype(float)), (), np.dtype(float))
        one = literal(graph, 1, float)
        for _ in range(count // 4):  # log1p(-x), and x * 1, as users write them
            product = make(graph, "multiply", make(graph, "sin", node), one)
            node = make(graph, "log", make(graph, "subtract", one, product))
        looked.clear()
        new = Graph()
        with uncollected():
            rebuild(Program((x,), (node,)), Run(table).rewritten, into=new)
        work.append((len(looked) / count, len(new) / count))
    assert work[1] <= work[0]


# -- wrong rules are found; a rule's sides are functions of its variables, also where a function of NumPy's would do
# ruff: noqa: PLW0108

WRONG: dict[str, tuple[Any, Any, Any]] = {
    "the sign of a zero": (changes, rule(lambda x: x + 0.0, lambda x: x), "nan"),
    "an infinity": (changes, rule(lambda x: x * 0, lambda: 0.0), "nan"),
    "rounding": (changes, rule(lambda x, y, z: (x + y) + z, lambda x, y, z: x + (y + z)), "e"),
    "integers": (changes, rule(lambda x, y: (x * y) // y, lambda x, y: x + y - y, kinds="i"), "i8"),
    "a number that is not so": (changes, rule(lambda c, x: c * (c * x), lambda c, x: c * c * x, c=NUMBER), "f8"),
    "never": (changes, rule(lambda x: x + 1, lambda x: x + 1), "it never fires"),
    "a sign": (lost, rule(lambda x: np.sqrt(x * x), lambda x: x), "value"),
    "digits": (lost, rule(lambda x: np.expm1(x), lambda x: np.exp(x) - 1), "value"),
    "an overflow": (lost, rule(lambda x: np.logaddexp(0, x), lambda x: np.log(1 + np.exp(x))), "value"),
    "a derivative": (lost, rule(lambda x: np.absolute(x), lambda x: np.sqrt(x * x)), "derivative"),
    "nothing": (lost, rule(lambda x: np.sin(x) / np.cos(x), lambda x: np.tan(x)), "nothing is better"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_found(name):
    check, wrong, said = WRONG[name]
    assert said in "".join(check(wrong, Table(wrong)))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16])
@pytest.mark.parametrize("wide", [np.int64, np.uint64, np.int16, np.uint8])
def test_comparisons_with_numbers_that_no_element_is_are_decided(dtype: Any, wide: Any) -> None:
    """Compilers warn of them; where a cast wraps, nothing is concluded."""
    ends = np.iinfo(dtype)
    x = np.array([ends.min, 0, 1, ends.max], dtype)
    held = [n for n in (ends.min - 1, ends.min, 0, 200, ends.max, ends.max + 1)
            if np.iinfo(wide).min <= n <= np.iinfo(wide).max]
    compared = [np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal]

    def table(x: Any) -> Any:
        return [f(x.astype(wide), np.array(n, wide)) for f in compared for n in held] + [f(n, x.astype(wide)) for f in
            compared for n in map(wide, held)]

    lowered = sg.jit(table).lower(x)
    for found, wanted in zip(evaluate(lowered.program, [x]), table(x), strict=True):
        np.testing.assert_array_equal(found, wanted)
    if np.can_cast(dtype, wide) and ends.max < np.iinfo(wide).max:
        assert f"== {ends.max + 1}" not in lowered.as_text()
