"""Random programs: compiled, interpreted and plain NumPy agree, gradients are derivatives, passes change nothing.

`--programs N` tries N of them, `--fresh` others than last time. A failure prints a script that shows it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ShapeError
from symgrad.options import Purpose
from symgrad.pipeline import passes
from tests.programs import Written, changed, leaves, random_open_program, random_program
from tests.table import INTERPRETED, richardson

SEEDS = range(36)
NIGHTLY = (18, 24, 30)

Array = np.ndarray[Any, Any]


def scale(arrays: Sequence[Array]) -> float:
    return max([1.0, *[float(np.max(np.abs(a), initial=0.0)) for a in arrays]])


def apart(one: Sequence[Array], two: Sequence[Array]) -> float:
    """Return the largest difference, infinite where shapes or booleans differ."""
    worst = 0.0
    for a, b in zip(one, two, strict=True):
        if a.shape != b.shape:
            return float("inf")
        if a.dtype.kind != "f" or b.dtype.kind != "f":
            worst = worst if np.array_equal(a, b) else float("inf")
        elif a.size:
            gap = np.abs(a.astype(np.longdouble) - b.astype(np.longdouble))
            worst = max(worst, float("inf") if np.isnan(gap).any() else float(np.max(gap)))
    return worst


def ulp_away(a: Array, rng: np.random.Generator) -> Array:
    """Move every element to one of its neighbours."""
    towards = np.where(rng.random(a.shape) < 0.5, -np.inf, np.inf)
    return np.asarray(np.nextafter(a, towards.astype(a.dtype)))


class Reference:
    """What plain NumPy and long double say about one program, with bounds for the rounding of a computation.

    Attributes:
        values: the results in plain NumPy.
        slopes: the loss's derivative by every floating-point argument, from differences in long double.
        tolerance: what rounding may change in a result, from how results move when the inputs move by an ulp.
    """

    def __init__(self, written: Written) -> None:
        self.written = written
        self.program, self.loss = written.functions()
        self.wide = np.dtype(np.float32) not in {a.dtype for a in leaves(written.args)} and "F32" not in self._body()
        with np.errstate(all="ignore"):
            self.values = [np.asarray(r) for r in self.program(*written.args)]
        self.rounding = 1e-12 if self.wide else 2e-5
        self.tolerance = self.rounding * scale(self.values) + 64 * self.moved(self.program)

    def _body(self) -> str:
        return self.written.text.split("F32 = np.float32", 1)[1]

    def moved(self, function: Callable[..., Any]) -> float:
        """Move the inputs by an ulp, thrice; return how far the results go, rounding of NumPy's own included."""
        rng = np.random.default_rng(1)

        def nudge(a: Array) -> Array:
            return ulp_away(a, rng) if a.dtype.kind == "f" else a

        def results(args: Any) -> list[Array]:
            with np.errstate(all="ignore"):
                return [r for r in leaves(function(*args)) if r.dtype.kind == "f"]

        here = results(self.written.args)
        return max(apart(here, results(changed(self.written.args, nudge))) for _ in range(3))

    @cache  # noqa: B019 - it lives as long as its test
    def slopes(self) -> tuple[list[Array], float]:
        """Differentiate the loss by differences, element by element; also return how far off that may be."""
        _, loss = self.written.functions(np.longdouble)
        wide: Any = np.longdouble
        if not self.fine(loss):
            wide = np.float64
            _, loss = self.written.functions(wide)
        args = changed(self.written.args, lambda a: a.astype(wide) if a.dtype.kind == "f" else a)
        flat = list(leaves(tuple([args[k] for k in self.written.argnums])))
        found = [np.zeros_like(a) for a in flat]
        error = 0.0
        step = 2e-4 if wide is np.longdouble else 2e-3
        for slope, array in zip(found, flat, strict=True):
            for place in np.ndindex(array.shape):

                def at(h: float, array: Array = array, place: tuple[int, ...] = place) -> Any:
                    before = array[place]
                    array[place] += h
                    with np.errstate(all="ignore"):
                        value = loss(*args)
                    array[place] = before
                    return value

                slope[place] = richardson(at, step)
                error = max(error, abs(float(slope[place] - richardson(at, step / 2))))
        return found, 4 * error

    def fine(self, loss: Callable[..., Any]) -> bool:
        """Whether NumPy computes a loss in long double (SciPy's functions have no such loops)."""
        args = changed(self.written.args, lambda a: a.astype(np.longdouble) if a.dtype.kind == "f" else a)
        try:
            with np.errstate(all="ignore"):
                return np.asarray(loss(*args)).dtype == np.longdouble
        except TypeError:
            return False


class Batch:
    """Programs that are compiled together."""

    def __init__(self, programs: Sequence[Written]) -> None:
        self.references = [Reference(written) for written in programs]
        self.args = [written.args for written in programs]
        self.by = [tuple([w.args[k] for k in w.argnums]) for w in programs]
        self.rest = [tuple([a for k, a in enumerate(w.args) if k not in w.argnums]) for w in programs]
        self.made: dict[sg.Options, Any] = {}

    def values(self, options: sg.Options) -> list[list[Array]]:
        """Run all programs in one module."""

        def programs(args: Any) -> Any:
            return [reference.program(*a) for reference, a in zip(self.references, args, strict=True)]

        return [[np.asarray(r) for r in results] for results in sg.jit(programs, options=options)(self.args)]

    def derived(self, options: sg.Options) -> Any:
        """Derive the sum of all losses in one module, once."""
        if options in self.made:
            return self.made[options]

        def total(by: Any, rest: Any) -> Any:
            found: Any = 0.0
            for reference, one, two in zip(self.references, by, rest, strict=True):
                first, second = iter(one), iter(two)
                args = [next(first if k in reference.written.argnums else second) for k in range(len(one) + len(two))]
                found = found + reference.loss(*args)
            return found

        return self.made.setdefault(options, sg.grad(total, options=options))

    def gradients(self, options: sg.Options, by: Any = None) -> list[list[Array]]:
        """Compute the gradients of all losses, at other arguments if these are given."""
        found = self.derived(options)(self.by if by is None else by, self.rest)
        return [list(leaves(gradients)) for gradients in found]


def compare(batch: Batch, what: str, found: Any, expected: Any, tolerances: Sequence[float]) -> None:
    """Fail with the script of the program whose results are too far apart."""
    for reference, one, two, tolerance in zip(batch.references, found, expected, tolerances, strict=True):
        gap = apart(one, two)
        assert gap <= tolerance, reference.written.script(  # arrays are printed only where they differ
            f"{what} differ by {gap:.3g}, where {tolerance:.3g} is rounding:\n{one}\n{two}"
        )


def check(programs: Sequence[Written], options: sg.Options | None = None) -> None:
    """Check programs in one module; when it does not compile, one by one."""
    batch = Batch(programs)
    try:
        values, interpreted = batch.values(options or sg.Options()), batch.values(INTERPRETED)
        gradients, slopes = batch.gradients(options or sg.Options()), batch.gradients(INTERPRETED)
    except Exception as error:
        if len(programs) > 1:
            for written in programs:
                check([written], options)
        raise AssertionError(programs[0].script(f"{type(error).__name__}: {error}")) from error
    expected = [reference.values for reference in batch.references]
    for reference, one in zip(batch.references, values, strict=True):
        assert [r.dtype for r in one] == [r.dtype for r in reference.values], reference.written.script("dtypes differ")
    tolerances = [reference.tolerance for reference in batch.references]
    compare(batch, "compiled and NumPy's values", values, expected, tolerances)
    compare(batch, "interpreted and NumPy's values", interpreted, expected, tolerances)
    for reference, one in zip(batch.references, slopes, strict=True):
        assert all(np.isfinite(g).all() for g in one), reference.written.script(f"a gradient is not finite:\n{one}")
    bounds = gradient_bounds(batch, slopes)
    compare(batch, "compiled and interpreted gradients", gradients, slopes, bounds)
    numerical = [reference.slopes() for reference in batch.references]
    loose = [
        bound + error + (1e-10 if reference.wide else 1e-4) * scale(slope)
        for bound, (_, error), reference, slope in zip(bounds, numerical, batch.references, slopes, strict=True)
    ]
    compare(batch, "compiled gradients and differences", gradients, [n for n, _ in numerical], loose)


def gradient_bounds(batch: Batch, slopes: list[list[Array]]) -> list[float]:
    """Return what rounding may change in each gradient."""
    rng = np.random.default_rng(2)

    def nudge(a: Array) -> Array:
        return ulp_away(a, rng)

    moved = batch.gradients(INTERPRETED, [changed(by, nudge) for by in batch.by])
    return [
        reference.rounding * scale(here) + 64 * apart(here, there)
        for reference, here, there in zip(batch.references, slopes, moved, strict=True)
    ]


def test_programs(seeds: range) -> None:
    """Values against NumPy, gradients against differences, both compiled and interpreted."""
    check([random_program(seed) for seed in seeds])


def test_loops_of_long_axes(seeds: range) -> None:
    """Their ends are peeled, their parts aligned and tiled: the verifier finds what is read and was not written.

    And run: gcc 12.2 lost terms of their sums, of one program in some hundred.
    """
    batch = Batch([random_program(seed, long=True) for seed in seeds[:3]])
    try:
        values, gradients = batch.values(sg.Options()), batch.gradients(sg.Options())
        slopes = batch.gradients(INTERPRETED)
    except Exception as error:
        scripts = [reference.written.script(f"{type(error).__name__}: {error}") for reference in batch.references]
        raise AssertionError("one of these:\n" + "\n".join(scripts)) from error
    expected, tolerances = zip(*[(one.values, one.tolerance) for one in batch.references], strict=True)
    compare(batch, "values of long axes", values, expected, tolerances)
    compare(batch, "compiled and interpreted gradients of long axes", gradients, slopes, gradient_bounds(batch, slopes))


LEFT_OUT = [one.name for one in passes() if one.purpose not in {Purpose.NECESSITY, Purpose.DIGITS}]


def test_passes_change_nothing(seeds: range) -> None:
    """Every pass that is for no digits left out, one at a time and all: the same results, whatever runs them."""
    batch = Batch([random_program(seed) for seed in seeds])
    values, slopes = [reference.values for reference in batch.references], batch.gradients(INTERPRETED)
    tolerances = [reference.tolerance for reference in batch.references]
    bounds = gradient_bounds(batch, slopes)
    chosen = LEFT_OUT[seeds.start // len(seeds) % 10 :: 10]  # ten tests have them all
    for without in [(*LEFT_OUT,), *[(name,) for name in chosen]]:
        for options in (sg.Options(compiler="none", without=without), sg.Options(without=without)):
            compare(batch, f"values without {without}", batch.values(options), values, tolerances)
            compare(batch, f"gradients without {without}", batch.gradients(options), slopes, bounds)


def test_named_extents(seeds: range) -> None:
    """One binary for named extents gives, at several sizes, what a compilation for each size gives."""
    for seed in seeds[:2]:
        written = random_open_program(seed)
        program, loss = written.functions()
        try:
            whole = sg.jit(program, specs=written.specs)
            derived = sg.value_and_grad(loss, argnums=written.argnums, specs=written.specs)
            for args in (written.args, *written.resized):
                with np.errstate(all="ignore"):
                    values = [np.asarray(r) for r in program(*args)]
                static = sg.value_and_grad(loss, argnums=written.argnums, options=INTERPRETED)(*args)
                _near(written, list(leaves(whole(*args))), values)
                _near(written, list(leaves(derived(*args))), list(leaves(static)))
        except Exception as error:
            if isinstance(error, ShapeError) and seed not in SEEDS:
                continue  # extents that are equal and that SymPy does not prove equal are refused, never wrong
            words = f"with specs {written.specs}: {type(error).__name__}: {error}"
            raise AssertionError(written.script(words)) from error
        assert whole.cache_info().compilations == derived.cache_info().compilations == 1


@pytest.mark.filterwarnings("ignore:program.*was compiled", "ignore:loss.*was compiled")
def test_any_order_of_sizes(seeds: range) -> None:
    """Sizes in any order, 0 and 1 and equal ones among them, give what each gives alone: no call depends on another.

    Nor on calls in between whose shapes do not fit: nothing is learnt from those.
    """
    for seed in seeds[:3]:
        written = random_open_program(seed, asking=True)
        program, loss = written.functions()
        by, options = written.argnums, sg.Options() if seed == seeds.start else INTERPRETED
        order = [written.args, *written.resized]
        Random(seed).shuffle(order)
        named = {f"p{k}": spec[4:-1] for k, spec in enumerate(written.specs)}
        whole, disturbed = sg.jit(program, options=options), sg.jit(program, options=INTERPRETED)
        derived = sg.value_and_grad(loss, argnums=by, options=options)
        insisting = [_unless_refused(sg.jit, program, options=INTERPRETED, **given)
                     for given in ({"specs": written.specs}, {"dynamic": named})]
        try:
            alone = [
                _unless_refused(sg.value_and_grad(loss, argnums=by, options=INTERPRETED, dynamic=False), *args)
                for args in order
            ]
            again = [*zip(order, alone, strict=True)]
            for before, (args, static) in zip([*order[-1:], *order, *order], (*again, *again[:3]), strict=False):
                with np.errstate(all="ignore"):
                    values = [np.asarray(r) for r in program(*args)]
                if static is None:
                    assert _unless_refused(derived, *args) is None
                    continue
                _near(written, list(leaves(whole(*args))), values)
                _near(written, list(leaves(derived(*args))), list(leaves(static)))
                _near(written, list(leaves(disturbed(*args))), values)
                _fails_as_numpy(program, disturbed, [*args[:1], *before[1:]])
                assert disturbed.cache_info().signatures == whole.cache_info().signatures
                for function in insisting:
                    found = None if function is None else _unless_refused(function, *args)
                    if found is not None:
                        _near(written, list(leaves(found)), values)
        except Exception as error:
            shapes = [[a.shape for a in args] for args in order]
            raise AssertionError(written.script(f"with shapes {shapes}: {type(error).__name__}: {error}")) from error


def _fails_as_numpy(program: Callable[..., Any], function: Callable[..., Any], args: Sequence[Array]) -> None:
    """Call a function with arrays whose shapes do not fit, if they do not."""
    try:
        with np.errstate(all="ignore"):
            program(*args)
    except (ValueError, IndexError) as error:
        if re.search(r"index -?\d+ is out of bounds for axis", str(error)):
            return  # of other values these shapes may fit, and are learnt
        with pytest.raises((ValueError, IndexError)):
            function(*args)


def _unless_refused(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function; None where symgrad refuses."""
    try:
        return function(*args, **kwargs)
    except sg.SymgradError:
        return None


def _near(written: Written, found: list[Array], expected: list[Array]) -> None:
    size = scale(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        if not np.allclose(a, b, rtol=1e-10, atol=1e-10 * size, equal_nan=True):  # a script takes long
            words = written.script(f"with specs {written.specs}")
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10 * size, err_msg=words)
