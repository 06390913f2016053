"""Recorded calls: arguments drawn for specs, what Python computes for them, and how far finite differences are off."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from symgrad.api.arguments import as_inputs
from symgrad.errors import SymgradError
from symgrad.ir.evaluate import concrete
from symgrad.ir.shapes import symbol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from symgrad.api.lowered import Lowered
    from symgrad.emit.derive import Derived

    Array = np.ndarray[Any, Any]
    Arrays = dict[str, Array]

SIZES = (5, 3, 4, 2, 6, 7)
"""What open extents are, in the order in which they appear."""

LONG = 67
"""What the first of them is once more: more than one tile, and no multiple of anything."""

MOST = 20_000
"""A call with more numbers than this is recorded at the smaller sizes alone."""

WRITTEN = 400
"""An array of more elements is not written down: its test computes it by a `Formula`."""

TRIES = 12
"""Arguments are drawn so often until all numbers are finite, and finite differences agree."""

STEP = {"f8": 1e-5, "f4": 2.0**-7}
TOLERANCE = {"f8": 1e-6, "f4": 2e-2}
"""The step of finite differences, and how far they may be off, relative to the terms they are made of."""


class Formula(NamedTuple):
    """Numbers that Python and C compute alike: ``low + width * u``, u a hash of the element's number."""

    seed: int
    low: float
    width: float

    def values(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Compute them; integers are 0 and 1."""
        mask = np.uint64(0xFFFFFFFF)
        h = (np.arange(prod(shape), dtype=np.uint64) + np.uint64(self.seed)) * np.uint64(2654435761) & mask
        h = (h ^ h >> np.uint64(15)) * np.uint64(2246822519) & mask
        h = (h ^ h >> np.uint64(13)) >> np.uint64(8)
        values = self.low + self.width * (h / 2.0**24) if dtype.kind == "f" else h & np.uint64(1)
        return np.asarray(values, dtype).reshape(shape)


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
        self._run = lowered.compile()._ran().run  # noqa: SLF001 - the flat call, without the user's structures

    def __call__(self, inputs: Mapping[str, Array]) -> Arrays:
        """Call it with what it takes of `inputs`."""
        arrays = as_inputs([inputs[name] for name in self.signature.names], self.signature)
        found = [np.asarray(result) for result in self._run(arrays)]
        return dict(zip(self.outputs, found, strict=True))


def open_extents(lowered: Lowered) -> list[str]:
    """Name the open extents, in the order in which the arguments have them."""
    every: list[Any] = [dim for spec in lowered.signature.specs for dim in spec.shape if type(dim) is not int]
    return list(dict.fromkeys([s.name for dim in every for s in sorted(dim.free_symbols, key=str)]))


def extents_of_cases(names: Sequence[str], given: Mapping[str, int]) -> list[dict[str, int]]:
    """Choose the extents of the recorded calls: those given or small ones, then longer ones, ones, and zeros."""
    first = {name: given.get(name, SIZES[k % len(SIZES)]) for k, name in enumerate(names)}
    if not names:
        return [first]
    others: list[dict[str, int]] = [{**first, names[0]: LONG}, dict.fromkeys(names, 1), {**first, names[-1]: 0}]
    return [first, *[{**one, **given} for one in others if {**one, **given} != first]]


def draw(
    lowered: Lowered, extents: Mapping[str, int], rng: np.random.Generator, *, positive: bool,
) -> tuple[Arrays, dict[str, Formula]]:
    """Draw normal numbers, or positive ones; integers are 0 and 1, which any extent but 0 takes as indices."""
    sizes = {symbol(name): value for name, value in extents.items()}
    shapes = [concrete(tuple(spec.shape), sizes) for spec in lowered.signature.specs]
    named = zip(lowered.signature.names, lowered.signature.specs, shapes, strict=True)
    return drawn({name: (shape, spec.dtype) for name, spec, shape in named}, rng, positive=positive)


def drawn(wanted: Mapping[str, Any], rng: np.random.Generator, *, positive: bool) -> tuple[Arrays, dict[str, Formula]]:
    """Draw arrays of shapes and dtypes, the large ones by a formula."""
    found: Arrays = {}
    formulas: dict[str, Formula] = {}
    for name, (shape, dtype) in wanted.items():
        if prod(shape) > WRITTEN:
            ends = (0.25, 1.5) if positive else (-2.0, 4.0)
            formulas[name] = Formula(int(rng.integers(1 << 20)), *ends)
            found[name] = formulas[name].values(shape, dtype)
        elif dtype.kind == "f":
            found[name] = np.asarray(rng.uniform(0.3, 1.7, shape) if positive else rng.normal(size=shape), dtype)
        else:
            found[name] = np.asarray(rng.integers(0, 2, shape), dtype)
    return found, formulas


def recorded(derived: Derived, run: Runner, given: Mapping[str, int], seed: int) -> list[Case]:
    """Record calls at several extents; the first with finite results, where there are any."""
    cases: list[Case] = []
    names = open_extents(derived.lowered)
    for extents in extents_of_cases(names, given):
        rng = np.random.default_rng(seed)
        found: Case | None = None
        for attempt in range(TRIES if not cases else 2):
            inputs, formulas = draw(derived.lowered, extents, rng, positive=attempt % 2 == 1)
            if cases and sum(a.size for a in inputs.values()) > MOST:
                break
            outputs = _outputs(run, inputs, needed=not cases)
            if outputs is None:
                break
            found = found if found is not None and attempt else Case(extents, inputs, outputs, formulas)
            if _finite(outputs):
                found = Case(extents, inputs, outputs, formulas)
                break
        cases += [] if found is None else [found]
    return cases


def _outputs(run: Runner, inputs: Arrays, *, needed: bool) -> Arrays | None:
    """Call, unless the function refuses these extents (an extremum of nothing, an index beyond the end)."""
    try:
        return run(inputs)
    except (SymgradError, IndexError):
        if needed:
            raise
        return None


def _finite(outputs: Arrays) -> bool:
    return all(np.isfinite(a).all() for a in outputs.values() if a.dtype.kind == "f")


# -- finite differences


def difference(derived: Derived, run: Runner, base: Runner, given: Mapping[str, int], seed: int) -> Difference | None:
    """Find arguments at which finite differences agree with what is emitted; None where they do at none."""
    extents = extents_of_cases(open_extents(derived.lowered), given)[0]
    rng = np.random.default_rng(seed)
    for attempt in range(TRIES):
        inputs, formulas = draw(derived.lowered, extents, rng, positive=attempt % 2 == 1)
        wanted = {name: (inputs[name].shape, inputs[name].dtype) for name in derived.wrt}
        directions, along = drawn(wanted, rng, positive=False)
        if derived.form == "push":
            dots = dict(zip(derived.wrt, derived.tangents, strict=True))
            directions = {name: inputs[dot] for name, dot in dots.items()}
            along = {name: formulas[dot] for name, dot in dots.items() if dot in formulas}
        kind = "f4" if derived.narrow else "f8"
        at = Case(extents, inputs, run(inputs), formulas)
        step = STEP[kind] / max(1.0, sqrt(sum(a.size for a in directions.values())) / 4)
        found = Difference(at, directions, along, step, TOLERANCE[kind])
        if _finite(found.case.outputs) and all(off <= 0.1 for off in compared(derived, base, found)):
            return found
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
