"""Recorded calls: arguments that suit a function, what Python computes for them, finite differences beside them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.emit.draws import DOMAINS, domains, drawn, extents_of_cases
from symgrad.errors import ArgumentValueError, SymgradError
from symgrad.ir.evaluate import concrete
from symgrad.ir.shapes import symbol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from symgrad.api.call.function import Lowered
    from symgrad.emit.derive import Derived
    from symgrad.emit.draws import Array, Arrays, Formula

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


@dataclass(frozen=True)
class Case:
    """One recorded call: extents, arguments and results by their names in C; and what large arguments are made by."""

    extents: dict[str, int]
    inputs: Arrays
    outputs: Arrays
    formulas: dict[str, Formula]


@dataclass(frozen=True)
class Difference:
    """Finite differences that agree: the call, and the directions by the names of the arrays that are moved."""

    case: Case
    along: Arrays
    formulas: dict[str, Formula]
    step: float
    tolerance: float


class Runner:
    """A lowered function, compiled, to be called with arrays by their names."""

    def __init__(self, lowered: Lowered, outputs: Sequence[str]) -> None:
        """Compile it."""
        self.signature, self.outputs = lowered.signature, outputs
        self._flat = lowered.compile()._ran().call.flat  # noqa: SLF001 - without the user's structures

    def __call__(self, inputs: Mapping[str, Array]) -> Arrays:
        """Call it with what it takes of `inputs`."""
        found = [np.asarray(result) for result in self._flat([inputs[name] for name in self.signature.names])]
        return dict(zip(self.outputs, found, strict=True))


def open_extents(lowered: Lowered) -> list[str]:
    """Name the open extents, in the order in which the arguments have them."""
    every: list[Any] = [dim for spec in lowered.signature.specs for dim in spec.shape if type(dim) is not int]
    return list(dict.fromkeys([s.name for dim in every for s in sorted(dim.free_symbols, key=str)]))


def shapes_at(specs: Iterable[tuple[str, Any]], extents: Mapping[str, int]) -> dict[str, tuple[Any, Any]]:
    """Put numbers into the shapes of arrays, or of nodes."""
    sizes = {symbol(name): value for name, value in extents.items()}
    return {name: (concrete(tuple(one.shape), sizes), one.dtype) for name, one in specs}


def recorded(
    derived: Derived, run: Runner, given: Mapping[str, int], seed: int, workspace: Any, *, threads: bool,
) -> list[Case]:
    """Record calls at several extents, at the arguments of a few tried that give the most finite numbers.

    Args:
        derived: what is recorded.
        run: it, compiled.
        given: extents that are not to be chosen.
        seed: of the arguments.
        workspace: bytes of it, an expression of the extents.
        threads: calls are added that are so long that threads share them.

    Raises:
        SymgradError: the function refuses the arguments of every call.
    """
    cases: list[Case] = []
    refused: SymgradError | IndexError | None = None
    for extents in extents_of_cases(open_extents(derived.lowered), given, threads=threads):
        wanted = shapes_at(zip(derived.lowered.signature.names, derived.lowered.signature.specs, strict=True), extents)
        if cases and not _fits(derived, wanted, extents, workspace):
            continue
        rng, found, share = np.random.default_rng(seed), None, -1.0
        for attempt in range(TRIES):
            try:
                inputs, formulas = drawn(wanted, domains(attempt, wanted, rng), rng)
                outputs = run(inputs)
            except MemoryError as error:
                raise ArgumentValueError(
                    "the arguments of a recorded call do not fit into memory",
                    instead="open extents, f64[n], which are small there",
                ) from error
            except (SymgradError, IndexError) as error:  # an extremum of nothing, an index beyond the end
                refused = refused or error
                continue
            if (finite := _finite(outputs)) > share:
                found, share = Case(extents, inputs, outputs, formulas), finite
            if share == 1.0:
                break
        cases += [] if found is None else [found]
    if not cases and refused is not None:
        raise refused
    return cases


def _fits(derived: Derived, wanted: Mapping[str, Any], extents: Mapping[str, int], workspace: Any) -> bool:
    """Tell a call that is small enough to be recorded."""
    outputs = shapes_at(zip(derived.outputs, derived.lowered.program.outputs, strict=True), extents)
    room = concrete(workspace, {symbol(name): size for name, size in {**extents, "threads": THREADS}.items()})
    written = sum([prod(shape) * dtype.itemsize for shape, dtype in outputs.values()])
    return sum([prod(shape) for shape, _ in wanted.values()]) <= MOST and bool(max(written, room) <= ROOM)


def _finite(outputs: Arrays) -> float:
    """Return how much of the results is finite: a mean over the arrays that have elements."""
    shares = [float(np.isfinite(a).mean()) for a in outputs.values() if a.dtype.kind == "f" and a.size]
    return sum(shares) / len(shares) if shares else 1.0


def never_finite(cases: Sequence[Case]) -> list[str]:
    """Name the results that have numbers, and in no recorded call a finite one; sums of nothing are no numbers."""
    found: dict[str, bool] = {}
    for case in [case for case in cases if 0 not in case.extents.values()]:
        for name, array in case.outputs.items():
            if array.dtype.kind == "f" and array.size:
                found[name] = found.get(name, False) or bool(np.isfinite(array).any())
    return [name for name, finite in found.items() if not finite]


# -- finite differences


def difference(
    derived: Derived, run: Runner, base: Runner, extents: Mapping[str, int], seed: int,
) -> Difference | None:
    """Find arguments at which finite differences agree with what is emitted; None where they do at none."""
    rng = np.random.default_rng(seed)
    wanted = shapes_at(zip(derived.lowered.signature.names, derived.lowered.signature.specs, strict=True), extents)
    for attempt in range(TRIES):
        where = domains(attempt, wanted, rng)
        inputs, formulas = drawn(wanted, where, rng)
        sides = {name: DOMAINS[0]._replace(dominant=where[name].dominant) for name in derived.wrt}
        directions, along = drawn({name: wanted[name] for name in derived.wrt}, sides, rng)
        if derived.form == "push":
            dots = dict(zip(derived.wrt, derived.tangents, strict=True))
            directions = {name: inputs[dot] for name, dot in dots.items()}
            along = {name: formulas[dot] for name, dot in dots.items() if dot in formulas}
        kind = "f4" if derived.narrow else "f8"
        step = STEP[kind] / max(1.0, sqrt(sum(a.size for a in directions.values())) / 4)
        try:
            at = Case(dict(extents), inputs, run(inputs), formulas)
            found = Difference(at, directions, along, step, TOLERANCE[kind])
            if _finite(at.outputs) == 1.0 and all(off <= 0.1 for off in compared(derived, base, found)):
                return found
        except (SymgradError, IndexError):  # as in `recorded`
            continue
    return None


def compared(derived: Derived, base: Runner, at: Difference) -> Iterator[float]:
    """Yield by how much of what is allowed each finite difference is off; the emitted test computes the same."""
    sides = []
    for sign in (1.0, -1.0):
        moved = {name: at.case.inputs[name] + sign * at.step * along for name, along in at.along.items()}
        moved = {name: a.astype(at.case.inputs[name].dtype) for name, a in moved.items()}
        sides.append(base({**at.case.inputs, **moved}))
    floating = [name for name in base.outputs if sides[0][name].dtype.kind == "f"]
    plus, minus = [{name: np.float64(side[name]) for name in floating} for side in sides]
    quotients = {name: (plus[name] - minus[name]) / (2 * at.step) for name in floating}
    out = {name: np.float64(a) for name, a in at.case.outputs.items()}
    along = {name: np.float64(a).ravel() for name, a in at.along.items()}
    if derived.form == "pull":
        bars = dict(zip(floating, derived.tangents, strict=True)) if derived.what == "vjp" else {}
        weights = {name: np.float64(at.case.inputs[bars[name]]) if bars else 1.0 for name in floating}
        terms = [out[f"{name}_bar"].ravel() * along[name] for name in derived.wrt]
        size = sum(np.abs(t).sum() for t in terms) + sum(np.abs(weights[n] * plus[n]).sum() for n in floating)
        quotient = sum((weights[n] * quotients[n]).sum() for n in floating)
        yield _off(quotient - sum(t.sum() for t in terms), at.tolerance * size)
        return
    for k, name in enumerate(floating):
        if derived.form == "push":
            slope = out[slope_of(derived, k, name)]
            size = np.abs(slope)
        else:
            rows = [(out[m].reshape(quotients[name].size, -1) * along[x]) for m, x in
                    zip(matrices(derived, k), derived.wrt, strict=True)]
            slope = sum(r.sum(1) for r in rows).reshape(quotients[name].shape)
            size = sum(np.abs(r).sum(1) for r in rows).reshape(quotients[name].shape)
        largest = np.max(size + np.abs(plus[name]), initial=0.0)
        for off in np.ravel(_off(quotients[name] - slope, at.tolerance * largest)):
            yield float(off)


def _off(error: Any, allowed: Any) -> Any:
    """Divide an error by what is allowed; none at all is always allowed."""
    error = np.abs(error)
    return np.where(error == 0, 0.0, error / np.where(allowed == 0, 1e-300, allowed))


def slope_of(derived: Derived, k: int, name: str) -> str:
    """Name the output that is the tangent of the base's k-th floating-point result."""
    return f"{derived.wrt[k]}_bar_dot" if derived.what == "hvp" else f"{name}_dot"


def matrices(derived: Derived, k: int) -> tuple[str, ...]:
    """Name the outputs that are the matrices of the base's k-th result, by what is differentiated by."""
    count = len(derived.wrt)
    return derived.outputs[k * count : (k + 1) * count]
