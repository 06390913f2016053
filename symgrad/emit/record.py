"""The test of a package: recorded calls, and finite differences, at arguments that suit the functions.

Arguments are drawn, by formulas that Python and C compute alike, until all numbers of a result are finite and the
differences agree; what the test's template prints of both stands at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from symgrad.emit.functions import core_argument, header_type
from symgrad.errors import ArgumentValueError, Missed, SymgradError
from symgrad.ir.evaluate import SIZES, concrete, within
from symgrad.ir.graphs import reachable
from symgrad.ir.index.shapes import bare, symbol
from symgrad.ir.program import Program, bodies
from symgrad.render.package import CaseView, DifferenceView, NumbersView
from symgrad.render.printer import c_literal

if TYPE_CHECKING:
    from symgrad.emit.derive import Arrays, Derivative, Paths
    from symgrad.emit.functions import Exported
    from symgrad.ir.node import Node

Shapes = Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]
Generator = np.random.Generator

LONG = (67, 130)
"""What each is once more: more than one tile, or than two, and no multiple of anything."""

SHARED = 30_011
"""What each is once more in a package with threads: enough work for several."""

WRITTEN = 100
"""An array of more elements is not written down: its test computes it by a `Formula`."""

MOST = 500_000
"""Calls that read more numbers than this are not recorded, but for the first."""

ROOM = 1 << 26
"""Nor those that write more bytes than this, or need so many of workspace."""

THREADS = 2
"""With how many threads a recorded call of a threaded package runs."""

TRIES = 24
"""Arguments are drawn so often until all numbers are finite, and finite differences agree."""

STEP = {"f8": 1e-5, "f4": 2.0**-7}
TOLERANCE = {"f8": 1e-6, "f4": 2e-2}
"""The step of finite differences, and how far they may be off, relative to the terms they are made of."""

RELATIVE = {False: "1e-9", True: "1e-4"}
"""How far a number may be off, relative to itself and to the largest one of its array, on another machine: where
nothing is single precision, and where something is."""

SECONDS, ENDLESS = 1.0, 8
"""How long a call at drawn arguments may take where a loop may never end, and after how many that were too long no more
are tried."""

RECORDED = 80
"""Of a result with more numbers than this, every so many-th is recorded."""


# -- arguments


class Interval(NamedTuple):
    """Where numbers are drawn from: between two ends; integers are `least` and the next.

    `dominant`: square matrices are symmetric, with a large diagonal, and so have an inverse and a Cholesky factor.
    """

    low: float
    high: float
    least: int = 0
    dominant: bool = False


INTERVALS = (
    Interval(-2.0, 2.0), Interval(0.25, 1.75), Interval(-0.7, 0.7), Interval(1.2, 3.0, 1),
    Interval(-0.5, 0.5, dominant=True), Interval(4.0, 30.0, 1), Interval(0.02, 0.1),
)
"""Tried one after the other for all arguments, then mixed: logarithms, arcus functions, Cholesky factors need them."""


class Formula(NamedTuple):
    """Numbers by a formula: ``low + width * u``, u a hash of the element's number.

    With a `side`, elements are those of symmetric matrices of so many rows, which is added to their diagonals.
    """

    seed: int
    low: float
    width: float
    side: int = 0

    def values(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """Compute them, as the emitted test does."""
        if prod(shape) >= 1 << 60:
            raise MemoryError  # of more bytes than there are addresses NumPy says that a value is wrong
        k = np.arange(prod(shape), dtype=np.int64)
        diagonal: Any = 0.0
        if self.side:
            row, column = k // self.side % self.side, k % self.side
            k = np.where(row > column, k - (row - column) * (self.side - 1), k)
            diagonal = np.where(row == column, float(self.side), 0.0)
        mask = np.uint64(0xFFFFFFFF)
        h = (k.astype(np.uint64) + np.uint64(self.seed)) * np.uint64(2654435761) & mask
        h = (h ^ h >> np.uint64(15)) * np.uint64(2246822519) & mask
        h = (h ^ h >> np.uint64(13)) >> np.uint64(8)
        u = h / 2.0**24 if dtype.kind == "f" else np.float64(h & np.uint64(1))
        return np.asarray(self.low + self.width * u + diagonal, dtype).reshape(shape)


def _intervals(attempt: int, names: Iterable[str], rng: Generator) -> dict[str, Interval]:
    """Choose the interval of each argument: one for all in the first attempts, any for each in later ones."""
    if attempt < len(INTERVALS):
        return dict.fromkeys(names, INTERVALS[attempt])
    return {name: INTERVALS[int(rng.integers(len(INTERVALS)))] for name in names}


def _draw_arguments(wanted: Shapes, where: Mapping[str, Interval], rng: Generator) -> tuple[Arrays, dict[str, Formula]]:
    """Draw arrays of shapes and dtypes; formulas are those of the large ones, numbers of the others are short."""
    found: Arrays = {}
    formulas: dict[str, Formula] = {}
    for name, (shape, dtype) in wanted.items():
        seed, interval = int(rng.integers(1 << 20)), where[name]
        if dtype.kind == "f":
            square = interval.dominant and len(shape) > 1 and shape[-1] == shape[-2]
            formula = Formula(seed, interval.low, interval.high - interval.low, shape[-1] if square else 0)
        else:
            formula = Formula(seed, float(interval.least if dtype.kind != "b" else 0), 1.0)
        found[name] = formula.values(shape, dtype)
        if prod(shape) > WRITTEN:
            formulas[name] = formula
        elif dtype.kind == "f":
            found[name] = np.round(found[name], 6)
    return found, formulas


def extents_of_cases(names: Sequence[str], given: Mapping[str, int], *, threads: bool = False) -> list[dict[str, int]]:
    """Choose the open extents of the recorded calls: those given or small ones, each and all long, ones, and zeros.

    With `threads`, calls are added that are so long that threads share the work.
    """
    first = {name: SIZES[k % len(SIZES)] for k, name in enumerate(names)}
    long = {name: LONG[k % len(LONG)] for k, name in enumerate(names)}
    found = [first, *[{**first, name: size} for name, size in long.items()], long]
    found += [{**first, name: SHARED} for name in names if threads]
    found += [dict.fromkeys(names, 1), *[{**first, name: 0} for name in names]]
    pinned = [{name: given.get(name, size) for name, size in one.items()} for one in found]
    return [one for k, one in enumerate(pinned) if one not in pinned[:k]]


# -- calls


@dataclass(frozen=True)
class RecordedCall:
    """Extents, arguments and results by their names in C; the formulas of large arguments; which path it takes."""

    extents: dict[str, int]
    inputs: Arrays
    outputs: Arrays
    formulas: dict[str, Formula]
    path: int = 0


@dataclass(frozen=True)
class FiniteDifference:
    """Finite differences that agree: the call, and the directions by the names of the arrays that are moved.

    Attributes:
        sides: the results of what they are taken of, forward and back, and the path of each.
    """

    call: RecordedCall
    sides: tuple[tuple[Arrays, int], ...]
    along: Arrays
    formulas: dict[str, Formula]
    step: float
    tolerance: float


class Runner:
    """A lowered function, compiled, to be called with arrays by their names."""

    def __init__(self, lowered: Paths, outputs: Sequence[str]) -> None:
        self.signature, self.outputs = lowered.signature, outputs
        entries = [path.entry or path.compile()._ran() for path in lowered.each]  # noqa: SLF001 - its compilation
        self._paths = [entry.call.flat for entry in entries]  # without the user's structures
        self._endless = next((node for path in lowered.each for node in _endless(path.program)), None)
        self._stopped = 0

    def drawn(self, inputs: Mapping[str, np.ndarray[Any, Any]]) -> tuple[Arrays, int]:
        """Call it with arguments for which a loop of any number of rounds may never end.

        Raises:
            ArgumentValueError: the call was stopped, or so many were before.
        """
        if self._endless is None:
            return self(inputs)
        if self._stopped < ENDLESS:
            try:
                with within(SECONDS):
                    return self(inputs)
            except TimeoutError:
                self._stopped += 1
        raise ArgumentValueError(
            f"a loop had not ended after {SECONDS:g} seconds at arguments that were drawn for a recorded call",
            line=self._endless.line, instead="examples=[...] of arguments for which it ends, or a bound on its "
            "rounds: sg.while_loop(..., max_steps=100)",
        )

    def __call__(self, inputs: Mapping[str, np.ndarray[Any, Any]]) -> tuple[Arrays, int]:
        """Call it with what it takes of `inputs`; return the number of its path, too.

        Raises:
            ArgumentValueError: none of its paths fits.
        """
        leaves = [inputs[name] for name in self.signature.names]
        refused: Exception = ArgumentValueError("no example takes the path of these arguments")
        for k, flat in enumerate(self._paths):
            try:
                found = [np.asarray(result) for result in flat(leaves)]
            except Missed:
                continue
            except (SymgradError, IndexError) as error:  # of extents that another path may be fit for
                refused = error
                continue
            return dict(zip(self.outputs, found, strict=True)), k
        raise refused


def _endless(program: Program) -> list[Node]:
    """List the loops of any number of rounds, also those of programs that a program holds."""
    every = reachable([program], lambda one: [held for node in one.nodes() for held in bodies(node)])
    return [node for one in every for node in one.nodes() if node.named.get("most", 0) is None]


def _shapes_at(extents: Mapping[str, int], names: Iterable[str], of: Iterable[Any]) -> Shapes:
    """Evaluate the shapes of specs, or of nodes, at some extents."""
    sizes = {symbol(name): value for name, value in extents.items()}
    return {name: (concrete(tuple(one.shape), sizes), one.dtype) for name, one in zip(names, of, strict=True)}


def recorded(made: Exported, run: Runner, given: Mapping[str, int], seed: int, *, threads: bool) -> list[RecordedCall]:
    """Record the examples, or calls at several extents, some `given`, at drawn arguments.

    Of the few that are tried for each, those count that give the most finite numbers. What the function raises is
    raised where it refuses the arguments of every call.
    """
    signature, program = made.derivative.lowered.signature, made.derivative.lowered.program
    paths, calls = made.derivative.lowered, list[RecordedCall]()
    for inputs in paths.examples:  # one for each path, and what else is not too long to be written down
        results, path = run(inputs)
        if all(call.path != path for call in calls) or sum(a.size for a in inputs.values()) <= MOST:
            sizes = {str(name): size for name, size in paths.extents(inputs).items()}
            calls.append(RecordedCall(sizes, inputs, results, {}, path))
    if calls:
        return calls
    refused: SymgradError | IndexError | None = None
    every: list[Any] = [dim for spec in signature.specs for dim in spec.shape if type(dim) is not int]
    names = list(dict.fromkeys([s.name for dim in every for s in sorted(dim.free_symbols, key=str)]))
    for case in extents_of_cases(names, given, threads=threads):
        wanted = _shapes_at(case, signature.names, signature.specs)
        outputs = _shapes_at(case, made.derivative.outputs, program.results)
        sizes = {symbol(name): size for name, size in {**case, "threads": THREADS}.items()}
        space = concrete(made.core.loops.workspace, sizes)
        written = sum(prod(shape) * dtype.itemsize for shape, dtype in outputs.values())
        if calls and (sum(prod(shape) for shape, _ in wanted.values()) > MOST or max(space, written) > ROOM):
            continue
        rng, found, part = np.random.default_rng(seed), None, -1.0
        for attempt in range(TRIES):
            try:
                inputs, formulas = _draw_arguments(wanted, _intervals(attempt, wanted, rng), rng)
                results, _ = run.drawn(inputs)
            except MemoryError as error:
                raise ArgumentValueError(
                    "the arguments of a recorded call do not fit into memory",
                    instead="open extents, f64[n], which are small there",
                ) from error
            except (SymgradError, IndexError) as error:  # an extremum of nothing, an index beyond the end
                refused = refused or error
                continue
            if (finite := _finite(results)) > part:
                found, part = RecordedCall(case, inputs, results, formulas), finite
            if part == 1.0:
                break
        calls += [] if found is None else [found]
    if not calls and refused is not None:
        raise refused
    return calls


def _finite(outputs: Arrays) -> float:
    """Return how much of the results is finite: a mean over the arrays that have elements."""
    parts = [float(np.isfinite(a).mean()) for a in outputs.values() if a.dtype.kind == "f" and a.size]
    return sum(parts) / len(parts) if parts else 1.0


def never_finite(calls: Sequence[RecordedCall]) -> list[str]:
    """Name the results that have numbers, and in no recorded call a finite one; sums of nothing are no numbers."""
    found: dict[str, bool] = {}
    for call in [call for call in calls if 0 not in call.extents.values()]:
        for name, array in call.outputs.items():
            if array.dtype.kind == "f" and array.size:
                found[name] = found.get(name, False) or bool(np.isfinite(array).any())
    return [name for name, finite in found.items() if not finite]


# -- finite differences


def differences(of: Derivative, run: Runner, calls: Sequence[RecordedCall], seed: int) -> FiniteDifference | None:
    """Find arguments at which finite differences agree with what is emitted; None where they do at none.

    They are those of `calls` where these are examples, else others with the extents of the first one.
    """
    assert of.base is not None  # noqa: S101 - differences are of something
    base, rng = Runner(of.base, of.base_outputs), np.random.default_rng(seed)
    for attempt in range(TRIES):
        at = calls[attempt % len(calls) if of.lowered.examples else 0]
        wanted = _shapes_at(at.extents, of.lowered.signature.names, of.lowered.signature.specs)
        where = _intervals(attempt, wanted, rng)
        inputs, formulas = (at.inputs, at.formulas) if of.lowered.examples else _draw_arguments(wanted, where, rng)
        sides = {name: INTERVALS[0]._replace(dominant=where[name].dominant) for name in of.wrt}
        directions, along = _draw_arguments({name: wanted[name] for name in of.wrt}, sides, rng)
        if of.form == "push":
            dots = dict(zip(of.wrt, of.tangents, strict=True))
            directions = {name: inputs[dot] for name, dot in dots.items()}
            along = {name: formulas[dot] for name, dot in dots.items() if dot in formulas}
        kind = "f4" if of.narrow else "f8"
        step = STEP[kind] / max(1.0, sqrt(sum(a.size for a in directions.values())) / 4)
        try:
            outputs, path = run.drawn(inputs)
            call = RecordedCall(at.extents, inputs, outputs, formulas, path)
            both = tuple([base.drawn({**inputs, **{
                name: (inputs[name] + sign * step * a).astype(inputs[name].dtype) for name, a in directions.items()
            }}) for sign in (1.0, -1.0)])
            found = FiniteDifference(call, both, directions, along, step, TOLERANCE[kind])
            if _finite(call.outputs) == 1.0 and all(off <= 0.1 for off in _differences_off(of, found)):
                return found
        except (SymgradError, IndexError):  # as in `recorded`
            continue
    return None


def _differences_off(of: Derivative, at: FiniteDifference) -> Iterator[float]:
    """Yield by how much of what is allowed each finite difference is off; the emitted test computes the same."""
    inputs, (first, _) = at.call.inputs, at.sides[0]
    floating = [name for name in of.base_outputs if first[name].dtype.kind == "f"]
    plus, minus = [{name: np.float64(side[name]) for name in floating} for side, _ in at.sides]
    quotients = {name: (plus[name] - minus[name]) / (2 * at.step) for name in floating}
    out = {name: np.float64(a) for name, a in at.call.outputs.items()}
    along = {name: np.float64(a).ravel() for name, a in at.along.items()}
    if of.form == "pull":
        bars = dict(zip(floating, of.tangents, strict=True)) if of.what == "vjp" else {}
        weights = {name: np.float64(inputs[bars[name]]) if bars else 1.0 for name in floating}
        terms = [out[f"{name}_bar"].ravel() * along[name] for name in of.wrt]
        size = sum(np.abs(t).sum() for t in terms) + sum(np.abs(weights[n] * plus[n]).sum() for n in floating)
        quotient = sum((weights[n] * quotients[n]).sum() for n in floating)
        yield _off(quotient - sum(t.sum() for t in terms), at.tolerance * size)
        return
    for k, name in enumerate(floating):
        if of.form == "push":
            slope = out[_slope(of, k, name)]
            size = np.abs(slope)
        else:
            rows = [(out[m].reshape(quotients[name].size, -1) * along[x]) for m, x in
                    zip(_matrices(of, k), of.wrt, strict=True)]
            slope = sum(r.sum(1) for r in rows).reshape(quotients[name].shape)
            size = sum(np.abs(r).sum(1) for r in rows).reshape(quotients[name].shape)
        largest = np.max(size + np.abs(plus[name]), initial=0.0)
        for off in np.ravel(_off(quotients[name] - slope, at.tolerance * largest)):
            yield float(off)


def _off(error: Any, allowed: Any) -> Any:
    """Divide an error by what is allowed; none at all is always allowed."""
    error = np.abs(error)
    return np.where(error == 0, 0.0, error / np.where(allowed == 0, 1e-300, allowed))


def _slope(of: Derivative, k: int, name: str) -> str:
    """Name the output that is the tangent of the base's k-th floating-point result."""
    return f"{of.wrt[k]}_bar_dot" if of.what == "hvp" else f"{name}_dot"


def _matrices(of: Derivative, k: int) -> tuple[str, ...]:
    """Name the outputs that are the matrices of the base's k-th result, by what is differentiated by."""
    count = len(of.wrt)
    return of.outputs[k * count : (k + 1) * count]


# -- what the test's template prints


def _numbers_view(
    name: str, array: Any, formula: Formula | None = None, *, values: bool = True, **further: Any,
) -> NumbersView:
    """Print an array's numbers, which C reads back to the last bit, or what it computes them by."""
    kind = header_type(array.dtype)
    if formula is not None:
        made = (str(formula.seed), repr(formula.low), repr(formula.width), str(formula.side))
        return NumbersView(name, kind, array.size, (), formula=made, **further)
    printed = tuple([c_literal(v, array.dtype) for v in np.ravel(array)]) if values else ()
    return NumbersView(name, kind, array.size, printed, **further)


def case_view(made: Exported, at: RecordedCall, number: int, *, threads: bool) -> CaseView:
    """Describe a recorded call."""
    sizes = [str(at.extents[name]) for name in made.extents]
    sizes += [str(THREADS)] * threads
    inputs = [_numbers_view(a.name, at.inputs[a.name], at.formulas.get(a.name)) for a in made.core.loops.inputs]
    outputs = []
    for name, array in [(a.name, at.outputs[a.name]) for a in made.core.loops.outputs]:  # with what they may be off by
        relative = RELATIVE[made.derivative.narrow] if array.dtype.kind == "f" else "0.0"
        finite = np.abs(array[np.isfinite(array)]) if array.dtype.kind == "f" else np.zeros(0)
        allowed = repr(float(relative) * float(np.max(finite, initial=0.0)))
        step = -(-array.size // RECORDED) or 1
        view = _numbers_view(name, np.ravel(array)[::step], allowed=allowed, relative=relative, step=step)
        outputs.append(replace(view, count=array.size, recorded=view.count))
    arguments = [f"in_{a.name}" for a in inputs] + [f"out_{a.name}" for a in outputs] + [*sizes, "space"]
    return CaseView(
        f"{made.name}_case{number}", made.name, tuple(inputs), tuple(outputs), tuple(sizes), tuple(arguments),
        finite=all(np.isfinite(a).all() for a in at.outputs.values() if a.dtype.kind == "f"),
    )


def difference_view(made: Exported, at: FiniteDifference, *, threads: bool) -> DifferenceView:
    """Describe a finite difference."""
    of, base, sizes = made.derivative, made.bases[0], at.call.extents
    along = [_numbers_view(name, a, at.formulas.get(name), bar=f"{name}_bar") for name, a in at.along.items()]
    floating = [(n, a) for n, a in zip(of.base_outputs, base.loops.outputs, strict=True) if a.dtype.kind == "f"]
    weights = dict(zip([n for n, _ in floating], of.tangents, strict=False)) if of.what == "vjp" else {}
    shapes = {symbol(name): value for name, value in sizes.items()}

    def empty(name: str, array: Any, **further: Any) -> NumbersView:
        blank = np.empty(concrete(tuple(array.shape), shapes), array.dtype)
        return _numbers_view(name, blank, values=False, **further)

    results = [
        empty(
            name, array, weight=weights.get(name, ""), slope=_slope(of, k, name) if of.form == "push" else "",
            rows=_matrices(of, k) if of.form == "matrix" else (),
        )
        for k, (name, array) in enumerate(floating)
    ]
    given = {a.name: f"{'moved' if a.name in at.along else 'in'}_{a.name}" for a in base.loops.inputs}
    inputs = [core_argument(a, given[a.name], "const ") for a in base.loops.inputs]
    passed = [str(sizes[str(dim)]) for dim in bare([array.shape for array in base.loops.inputs])]
    plus, minus = [
        f"{made.bases[path].name}({', '.join([*inputs, *results_, *passed, 'scratch'])})"
        for side, (_, path) in zip(("plus", "minus"), at.sides, strict=True)
        for results_ in [[core_argument(a, f"{side}_{a.name}") for a in base.loops.outputs]]
    ]
    name = f"{made.name}_differences{at.call.path + 1 if made.branched else ''}"
    space = max([concrete(one.loops.workspace, shapes) for one in made.bases])
    return DifferenceView(
        name, case_view(made, at.call, 0, threads=threads), of.form, plus, minus, tuple(along),
        tuple([empty(a.name, a) for a in base.loops.results]), tuple(results), int(space), repr(at.step),
        repr(at.tolerance),
    )


def refusals(made: Exported, upper: str, *, threads: bool) -> list[tuple[str, str]]:
    """List calls that must be refused."""
    names = made.extents
    if not names:
        return []
    team = ["1"] * threads
    pointers = ["NULL"] * (len(made.core.loops.inputs) + len(made.core.loops.outputs))

    def call(*sizes: str) -> str:
        return f"{made.name}({', '.join([*pointers, *sizes, *team, 'NULL'])})"

    found = [(call(*["-1" if other == name else "1" for other in names]), f"{upper}_NEGATIVE_EXTENT") for name in names]
    most = ["INT64_MAX"] * len(names)
    asked = f"{made.name}_workspace_bytes({', '.join([*most, *team])})"
    return [*found, (call(*most), f"{upper}_TOO_LARGE"), (asked, f"{upper}_TOO_LARGE")]


def formula_types(cases: Sequence[CaseView], differences: Sequence[DifferenceView]) -> tuple[str, ...]:
    """List the types of the arrays that the test computes."""
    every = [a for c in (*cases, *[d.case for d in differences]) for a in c.inputs]
    every += [a for d in differences for a in d.along]
    return tuple(sorted({a.ctype for a in every if a.formula}))
