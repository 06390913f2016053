"""The program that tests a package: recorded calls and finite differences as what its template prints."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.emit.cores import passed
from symgrad.emit.module import base_labels
from symgrad.emit.samples import THREADS, matrices, slope_of
from symgrad.ir.evaluate import concrete
from symgrad.ir.shapes import symbol
from symgrad.ops.declare.spelling import ctype
from symgrad.render.package import CaseView, DifferenceView, NumbersView, RefusalView
from symgrad.render.printer import literal
from symgrad.render.render import extents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from symgrad.emit.cores import Core
    from symgrad.emit.draws import Formula
    from symgrad.emit.module import Function, Profile
    from symgrad.emit.samples import Case, Difference

RELATIVE = {False: "1e-9", True: "1e-4"}
"""How far a number may be off, relative to itself and to the largest one of its array, on another machine: where
nothing is single precision, and where something is."""

RECORDED = 80
"""Of a result with more numbers than this, every so many-th is recorded."""


def numbers(
    name: str, array: Any, formula: Formula | None = None, *, values: bool = True, **further: Any,
) -> NumbersView:
    """Print an array's numbers, which C reads back to the last bit, or what it computes them by."""
    kind = ctype(array.dtype).replace("_Bool", "bool")
    if formula is not None:
        made = (str(formula.seed), repr(formula.low), repr(formula.width), str(formula.side))
        return NumbersView(name, kind, array.size, (), formula=made, **further)
    printed = tuple([literal(v, array.dtype) for v in np.ravel(array)]) if values else ()
    return NumbersView(name, kind, array.size, printed, **further)


def result(name: str, array: Any, *, narrow: bool) -> NumbersView:
    """Print a recorded result, with what it may be off by."""
    relative = RELATIVE[narrow] if array.dtype.kind == "f" else "0.0"
    finite = np.abs(array[np.isfinite(array)]) if array.dtype.kind == "f" else np.zeros(0)
    largest = float(finite.max()) if finite.size else 0.0
    step = -(-array.size // RECORDED) or 1
    view = numbers(name, np.ravel(array)[::step], allowed=repr(float(relative) * largest), relative=relative, step=step)
    return replace(view, count=array.size, recorded=view.count)


def case(made: Function, at: Case, number: int, profile: Profile) -> CaseView:
    """Describe a recorded call."""
    sizes = [str(at.extents[name]) for name in made.extents]
    sizes += [str(THREADS)] * profile.fast
    inputs = [numbers(a.name, at.inputs[a.name], at.formulas.get(a.name)) for a in made.core.loops.inputs]
    narrow = made.derived.narrow
    outputs = [result(a.name, at.outputs[a.name], narrow=narrow) for a in made.core.loops.outputs]
    arguments = [f"in_{a.name}" for a in inputs] + [f"out_{a.name}" for a in outputs] + [*sizes, "space"]
    return CaseView(
        f"{made.name}_case{number}", made.name, tuple(inputs), tuple(outputs), tuple(sizes), tuple(arguments),
        finite=all(np.isfinite(a).all() for a in at.outputs.values() if a.dtype.kind == "f"),
    )


def difference(made: Function, at: Difference, profile: Profile) -> DifferenceView:
    """Describe a finite difference."""
    derived, base = made.derived, made.base
    assert base is not None  # noqa: S101 - differences are of something
    called = case(made, at.case, 0, profile)
    along = [numbers(name, a, at.formulas.get(name), bar=f"{name}_bar") for name, a in at.along.items()]
    floating = [(n, a) for n, a in zip(base_labels(derived), base.loops.outputs, strict=True) if a.dtype.kind == "f"]
    weights = dict(zip([n for n, _ in floating], derived.tangents, strict=False)) if derived.what == "vjp" else {}
    shapes = {symbol(name): value for name, value in at.case.extents.items()}
    results = []
    for k, (name, array) in enumerate(floating):
        empty = np.empty(concrete(tuple(array.shape), shapes), array.dtype)
        results.append(numbers(
            name, empty, values=False, weight=weights.get(name, ""),
            slope=slope_of(derived, k, name) if derived.form == "push" else "",
            rows=matrices(derived, k) if derived.form == "matrix" else (),
        ))
    buffers = [
        numbers(a.name, np.empty(concrete(tuple(a.shape), shapes), a.dtype), values=False) for a in base.loops.results
    ]
    sides = [_arguments(base, at.case.extents, {*at.along}, side) for side in ("plus", "minus")]
    workspace = concrete(base.loops.workspace, shapes)
    return DifferenceView(
        f"{made.name}_differences", called, derived.form, base.name, sides[0], sides[1], tuple(along), tuple(buffers),
        tuple(results), int(workspace), repr(at.step), repr(at.tolerance),
    )


def _arguments(base: Core, sizes: Mapping[str, int], moved: set[str], side: str) -> tuple[str, ...]:
    inputs = [passed(a, f"{'moved' if a.name in moved else 'in'}_{a.name}", "const ") for a in base.loops.inputs]
    outputs = [passed(a, f"{side}_{a.name}") for a in base.loops.outputs]
    return (*inputs, *outputs, *[str(sizes[str(dim)]) for dim in extents(base.loops)], "scratch")


def refusals(made: Function, profile: Profile, upper: str) -> list[RefusalView]:
    """List calls that must be refused."""
    names = made.extents
    if not names:
        return []
    threads = ["1"] * profile.fast
    pointers = ["NULL"] * (len(made.core.loops.inputs) + len(made.core.loops.outputs))

    def call(*sizes: str) -> str:
        return f"{made.name}({', '.join([*pointers, *sizes, *threads, 'NULL'])})"

    found = []
    for k in range(len(names)):
        sizes = ["-1" if j == k else "1" for j in range(len(names))]
        found.append(RefusalView(call(*sizes), f"{upper}_NEGATIVE_EXTENT"))
    most = ["INT64_MAX"] * len(names)
    asked = f"{made.name}_workspace_bytes({', '.join([*most, *threads])})"
    return [*found, RefusalView(call(*most), f"{upper}_TOO_LARGE"), RefusalView(asked, f"{upper}_TOO_LARGE")]


def formula_types(cases: Sequence[CaseView], differences: Sequence[DifferenceView]) -> tuple[str, ...]:
    """List the types of the arrays that the test computes."""
    every = [a for c in (*cases, *[d.case for d in differences]) for a in c.inputs]
    every += [a for d in differences for a in d.along]
    return tuple(sorted({a.ctype for a in every if a.formula}))
