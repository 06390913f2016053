"""`check_grads`: compiled gradients against numerical ones, element by element."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from symgrad.api.check.differences import EPSILON, Reference, extrapolated, scale
from symgrad.api.check.projection import Projection
from symgrad.errors import ArgumentError, ArgumentValueError, GradientCheckError, NoGradient
from symgrad.ir.op import Elementwise, Op
from symgrad.ops import load
from symgrad.ops.declare.forms import ANSWERS
from symgrad.options import Options
from symgrad.trace.overrides import noted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from symgrad.api.call.function import Function

    Arrays = list[np.ndarray[Any, Any]]

RTOL = {"complex step": 1e-10, "central differences": 1e-8, "float64": 1e-3}
"""How far a right derivative may be off, relative to itself, by what it is compared with."""

LOOSE = 1e-4
"""Differences whose own error is beyond this part of the derivatives do not say much."""

FORWARD = "(in forward mode, along a random direction)"

ROUNDING = 64 * EPSILON
"""What rounding may leave, as a part of the largest numbers about."""

SHAPE = (2, 3)
"""Of the arrays for an op that works element by element."""


@dataclass
class Report:
    """What was checked.

    Attributes:
        name: the function's name.
        orders: which derivatives.
        method: ``complex step`` or ``central differences`` (of order 1; order 2 is always by differences).
        derivatives: how many were compared.
        worst: the largest difference, as a part of what was allowed.
        loose: how many of them the differences could not tell to four digits.
        overridden: the rules that `override_gradient` put in the place of others, in words.
        apart: what is wrong with the derivatives by these rules; without them they agree. Empty where these do, too.
    """

    name: str
    method: str
    orders: tuple[int, ...]
    derivatives: int = 0
    worst: float = 0.0
    loose: int = 0
    overridden: tuple[str, ...] = ()
    apart: str = ""

    def __str__(self) -> str:
        """Print one line."""
        how = [self.method, *["differences of the gradient" for order in self.orders if order > 1]]
        orders = " and ".join([f"order {order} ({by})" for order, by in zip(self.orders, how, strict=True)])
        loose = f"; for {self.loose} of them differences are too inexact to say much" if self.loose else ""
        without = " without the rules that are overridden" if self.apart else ""
        rules = "".join([f"\n  overridden: {rule}" for rule in self.overridden])
        rules += f"\n  with that, {self.apart}" if self.apart else ""
        return (
            f"{self.name}: {self.derivatives} derivatives agree{without}, {orders}; "
            f"the largest error is {self.worst:.2g} of what is allowed{loose}{rules}"
        )


class Difference(NamedTuple):
    """One derivative that is wrong."""

    order: int
    place: str
    compiled: float
    numerical: float
    allowed: float
    method: str

    def size(self) -> float:
        """Return the difference as a part of what is allowed; infinite where there is no number."""
        size = abs(self.compiled - self.numerical) / (self.allowed or 1.0)
        return size if size == size else float("inf")  # noqa: PLR0124 - NaN


def check_grads(
    f: Callable[..., Any], args: tuple[Any, ...] | None = None, order: int = 2,
    modes: str | Iterable[str] = ("fwd", "rev"),
    atol: float | None = None, rtol: float | None = None, eps: float | None = None, *, mode: str | None = None,
    kwargs: dict[str, Any] | None = None, elements: int = 50, seed: int = 0,
    static_argnums: int | Iterable[int] = (), static_argnames: str | Iterable[str] = (),
    options: Options | None = None,
) -> Report:
    """Check the compiled gradients of a function against numerical derivatives of the plain NumPy function.

    A scalar function is checked as it is, any other one by a random cotangent: the gradient of ``sum(c * f(x))``.
    The numerical derivative is the complex step where the function takes complex numbers and is analytic in them
    (that is found out, not believed), and extrapolated central differences with an error estimate elsewhere.
    Order 2 is the gradient of ``sum(v * grad(f)(x))`` for a random v (in forward mode, the gradient's derivative along
    v), against differences of the compiled gradient.
    Arguments of float32 are compared in float64, and the float32 gradient with that.
    Where `override_gradient` is in force, the report names the rules; if these give another derivative, what is checked
    is the function without them, and the report says how they differ.

    Args:
        f: the function, plain or compiled by `jit`; or an op: of `define_op` or `extern`, or a ufunc.
        args: its arguments: arrays, numbers, trees of them; integers and booleans are not differentiated by. An op
            that was defined with a `sample`, and a ufunc, need none: they are drawn from its domain.
        order: 1, or 2 for the first and the second.
        modes: ``"rev"``, reverse mode, element by element; ``"fwd"``, forward mode, along a random direction; or both.
        atol: allow this much more, absolutely.
        rtol: allow this much, relative to the derivative: 1e-10 beside the complex step, 1e-8 beside differences
            (more where these are less exact).
        eps: the largest step of the differences, relative to the number that is moved.
        mode: ``"complex-step"`` or ``"central"`` to have no other; None takes the better one.
        kwargs: arguments by name, which are checked like the others.
        elements: of an argument with more elements, so many are drawn, and all of them are checked at once along
            a random direction.
        seed: of every random draw: the same check each time.
        static_argnums: as for `jit`.
        static_argnames: as for `jit`.
        options: as for `jit`.

    Returns:
        A `Report`, whose text says what was compared and how well it agrees.

    Raises:
        GradientCheckError: a derivative is wrong: the argument and index, both values, what was allowed.
        ArgumentError: there are no arguments, and no domain to draw them from.
        ArgumentValueError: an order or mode there is not, or no complex path where one is asked for.

    >>> import numpy as np, symgrad as sg
    >>> report = sg.check_grads(lambda x: np.sum(np.sin(x) * x), (np.array([0.5, 2.0]),))
    >>> report.method, report.derivatives
    ('complex step', 4)
    >>> sg.check_grads(np.log1p).derivatives
    12
    """
    if order not in {1, 2}:
        raise ArgumentValueError(f"order={order!r}", instead="1 or 2")
    for one in (modes,) if isinstance(modes, str) else modes:
        if one not in {"fwd", "rev"}:
            raise ArgumentValueError(f"modes has {one!r}", instead='modes=("fwd", "rev"), or one of them')
    if mode not in {None, "complex-step", "central"}:
        raise ArgumentValueError(f"mode={mode!r}", instead='"complex-step", "central" or None')
    if args is not None and not isinstance(args, (tuple, list)):
        raise ArgumentError(f"check_grads takes the arguments as a tuple, not {type(args).__name__}", instead="(x,)")
    wanted = frozenset([modes] if isinstance(modes, str) else modes)
    compiled = (kwargs or {}, static_argnums, static_argnames, options or Options(), seed)
    compared = (order, wanted, eps, mode, atol or 0.0, rtol, elements)
    calls = _op_calls(f, seed) if args is None else [(f, tuple(args))]
    first, *others = [_with_overrides(partial(_check_one, call, given, compiled, *compared)) for call, given in calls]
    for other in others:
        first.derivatives += other.derivatives
        first.worst, first.loose = max(first.worst, other.worst), first.loose + other.loose
        first.method = max(first.method, other.method, key="central differences".__eq__)
    return first


def _bearing_name(call: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Give a case the name of its op, for messages."""

    def of(*arrays: Any) -> Any:
        return call(*arrays)

    of.__name__ = name
    return of


def _op_calls(op: Any, seed: int) -> list[tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Return calls of an op, or of what answers a ufunc, and their arguments."""
    load()
    found = ANSWERS.get(op) if isinstance(op, np.ufunc) else op
    name = getattr(found, "name", getattr(op, "__name__", repr(op)))
    if not isinstance(found, Op):
        raise ArgumentError(f"check_grads of {name} without arguments", instead=f"check_grads({name}, (x, ...))")
    if found.sample is None:
        raise ArgumentError(
            f"{name} has no domain to draw arguments from",
            instead=f"check_grads({name}, (x, ...)), or sample=(low, high) where the op is defined",
        )
    if isinstance(found, Elementwise) and found.params:
        raise ArgumentError(
            f"{name} has parameters, {', '.join(found.params)}", instead="a function that calls it, and arguments"
        )
    rng = np.random.default_rng(seed)
    if not isinstance(found, Elementwise):
        return [(_bearing_name(case.call, name), tuple(case.draw(rng))) for case in found.sample]
    each = found.sample if type(found.sample) is tuple else (found.sample,) * found.arity
    return [(found, tuple([domain.draw(rng, SHAPE) for domain in each]))]


def _check_one(
    call: Callable[..., Any], args: tuple[Any, ...], compiled: tuple[Any, ...], order: int, modes: frozenset[str],
    eps: float | None, mode: str | None, atol: float, rtol: float | None, elements: int,
) -> Report:
    """Check one call, with the rules that are in force now."""
    problem = Projection(call, args, *compiled)
    reference = Reference(problem.number, problem.wide, eps)
    if mode != "central":
        reference.try_complex(problem.direction())
        if mode == "complex-step" and not reference.complex:
            what = f"{problem.name}() has no complex path: {reference.why_not}"
            raise ArgumentValueError(what, instead='mode="central"')
    method = "complex step" if reference.complex else "central differences"
    report = Report(problem.name, method, (1, 2)[:order])
    _Comparison(problem, reference, report, atol, rtol, elements).all(modes)
    return report


def _with_overrides(checked: Callable[[], Report]) -> Report:
    """Check with the rules in force; where these give another derivative, also without them, and say so."""
    apart = ""
    with noted() as seen:
        try:
            report = checked()
        except (GradientCheckError, NoGradient) as error:
            if not seen:
                raise
            apart = error.what
    if apart:
        with noted(heed=False):
            report = checked()
    report.overridden, report.apart = tuple(seen), apart
    return report


@dataclass
class _Comparison:
    """The comparison of all derivatives of one problem."""

    problem: Projection
    reference: Reference
    report: Report
    atol: float
    rtol: float | None
    elements: int
    wrong: list[Difference] = field(default_factory=list)
    gradients: Arrays | None = None

    def all(self, modes: frozenset[str]) -> None:
        """Compare all orders in these modes."""
        problem, second = self.problem, len(self.report.orders) > 1
        if "rev" in modes:
            self.first()
        if "fwd" in modes or second:
            d, v = problem.direction() if "fwd" in modes else [], problem.direction() if second else []
            v = [one.astype(np.float32).astype(np.float64) for one in v] if problem.narrow else v
            along = problem.along(modes, len(self.report.orders))  # all that is left, computed at once
            exact = along(tuple(problem.wide), tuple(d), tuple(v), tuple(problem.others))
            if "fwd" in modes:
                self.forward(d, float(exact["pushed"]))
            if second:
                self.second(v, exact, partial(self.in_single, along, d, v), modes)

    def first(self) -> None:
        """Compare the gradient."""
        problem = self.problem
        compiled = problem.gradient
        found = _in_float64(compiled(tuple(problem.wide), tuple(problem.others)))
        value = abs(float(self.reference.value(problem.wide)))
        for k, (x, g) in enumerate(zip(problem.wide, found, strict=True)):
            floor, count = _floor(g, value, x), x.size
            drawn = range(count) if count <= self.elements else problem.rng.choice(count, self.elements, replace=False)
            for place in sorted(map(int, drawn)):
                self.along(k, (place, place + 1), np.ones(count), g, floor)
            if count > self.elements and not self.wrong:
                self.along(k, (0, count), problem.rng.choice([-1.0, 1.0], count), g, floor)
        if problem.narrow:
            self.narrowed(1, compiled(tuple(problem.given), tuple(problem.others)), found)
        self.finish()
        self.gradients = found

    def along(self, k: int, span: tuple[int, int], signs: Any, g: Any, floor: float) -> None:
        """Compare the derivative along a direction in one argument; where it is wrong, halve to one element."""
        low, high = span
        x, one = self.problem.wide[k], span[1] - span[0] == 1
        part = np.zeros(x.size)
        part[low:high] = signs[low:high] * (1.0 if one else scale(x.ravel()[low:high]))
        direction = [np.zeros_like(other) for other in self.problem.wide]
        direction[k] = part.reshape(x.shape)
        compiled = float(np.sum((g * direction[k]).ravel()[low:high]))
        floor_here = floor * float(np.sqrt(high - low) * np.max(np.abs(part)))
        start = float(scale(x.ravel()[low])) if one else 1.0
        if self.compare(self.place(k, span), compiled, direction, start, floor_here) or one:
            return
        whole, middle = self.wrong.pop(), (low + high) // 2
        before = len(self.wrong)
        for half in ((low, middle), (middle, high)):
            if len(self.wrong) == before:
                self.along(k, half, signs, g, floor)
        if len(self.wrong) == before:  # only together are they wrong by more than is allowed
            self.wrong.append(whole)

    def forward(self, direction: Arrays, found: float) -> None:
        """Compare forward mode along a direction: with the gradients that were just checked, or numerically."""
        problem = self.problem
        value = abs(float(self.reference.value(problem.wide)))
        value = value if np.isfinite(value) else 0.0
        place = f"all of it {FORWARD}"
        if self.gradients is None:
            self.compare(place, found, direction, 1.0, ROUNDING * max(abs(found), value))
        else:
            parts = [g * d for g, d in zip(self.gradients, direction, strict=True)]
            floor = ROUNDING * max(sum(float(np.sum(np.abs(p))) for p in parts), value)
            expected = sum(float(np.sum(p)) for p in parts)
            allowed = float(self.allowed(found, expected, 0.0, floor, "complex step"))
            if not _agree(found, expected, allowed):
                self.wrong.append(Difference(1, place, found, expected, allowed, "reverse mode"))
        self.finish()

    def compare(self, place: str, compiled: float, direction: Arrays, start: float, floor: float) -> bool:
        """Compare one number with what the reference finds along a direction."""
        method, error = self.report.method, 0.0
        if self.reference.complex:
            numerical = self.reference.complex_step(direction)
            if not _agree(compiled, numerical, float(self.allowed(compiled, numerical, 0.0, floor, method))):
                central, estimate = self.reference.central(direction, start)
                if not self.reference.agree(numerical, central, estimate):  # not analytic just here
                    method, numerical, error = "central differences", central, estimate
        else:
            numerical, error = self.reference.central(direction, start)
        allowed = float(self.allowed(compiled, numerical, error, floor, method))
        self.report.derivatives += 1
        if not _agree(compiled, numerical, allowed):
            self.wrong.append(Difference(1, place, compiled, numerical, allowed, method))
            return False
        if np.isfinite(compiled - numerical) and allowed > 0:
            self.report.worst = max(self.report.worst, abs(compiled - numerical) / allowed)
        self.report.loose += error > LOOSE * max(abs(compiled), abs(numerical), floor / ROUNDING)
        return True

    def second(self, v: Arrays, found: Any, narrow: Callable[[], Any], modes: frozenset[str]) -> None:
        """Compare the derivative of the gradient along a direction v, in reverse mode and in forward mode."""
        problem, method = self.problem, "differences of the compiled gradient"
        gradient, others = problem.gradient, tuple(problem.others)
        sizes = np.cumsum([x.size for x in problem.wide])[:-1]

        def slope(t: float) -> Any:
            parts = gradient(tuple([x + t * d for x, d in zip(problem.wide, v, strict=True)]), others)
            return np.concatenate([np.ravel(p) for p in parts])

        numerical, error = extrapolated(slope, self.reference.step)
        here = np.split(slope(0.0), sizes)
        along = sum(float(np.sum(np.abs(g * d.ravel()))) for g, d in zip(here, v, strict=True))
        along = max(along, abs(float(self.reference.value(problem.wide))))
        single = narrow() if problem.narrow else {}
        for mode in [one for one in ("rev", "fwd") if one in modes]:
            exact = _in_float64(found[mode])
            parts = zip(problem.wide, exact, np.split(numerical, sizes), np.split(error, sizes), strict=True)
            before = self.report.derivatives
            for k, (x, h, n, e) in enumerate(parts):
                self.all_of(2, k, h, n.reshape(x.shape), e.reshape(x.shape), _floor(h, along, x), method, mode)
            if problem.narrow:
                self.narrowed(2, single[mode], exact)
            self.finish()
            if mode == "fwd" and "rev" in modes:  # the same derivatives once more
                self.report.derivatives = before

    def in_single(self, along: Function, *directions: Arrays) -> Any:
        """Compute derivatives along directions of the arguments as they were given, some in single precision."""
        given = self.problem.given
        d, v = [
            tuple([np.asarray(one, np.asarray(x).dtype) for one, x in zip(some, given, strict=True)]) if some else ()
            for some in directions
        ]
        return along(tuple(given), d, v, tuple(self.problem.others))

    def narrowed(self, order: int, found: Any, exact: Arrays) -> None:
        """Compare what was computed in float32 with the same in float64."""
        for k, (narrow, wide) in enumerate(zip(_in_float64(found), exact, strict=True)):
            floor = 64 * float(np.finfo(np.float32).eps) * _largest(wide)
            self.all_of(order, k, narrow, wide, np.zeros(wide.shape), floor, "the same in float64")

    def all_of(
        self, order: int, k: int, compiled: Any, numerical: Any, error: Any, floor: float, method: str,
        mode: str = "rev",
    ) -> None:
        """Compare the derivatives by all elements of one argument."""
        how = f" {FORWARD}" if mode == "fwd" else ""
        kind = "float64" if method.endswith("float64") else "central differences"
        allowed = np.atleast_1d(self.allowed(compiled, numerical, error, floor, kind))
        compiled, numerical, error = np.atleast_1d(compiled), np.atleast_1d(numerical), np.atleast_1d(error)
        with np.errstate(invalid="ignore"):
            apart = np.abs(compiled - numerical)
            same = ((apart <= allowed) & np.isfinite(allowed)) | (compiled == numerical)
        same |= np.isnan(compiled) & np.isnan(numerical)
        self.report.derivatives += same.size
        good = same & np.isfinite(apart) & (allowed > 0)
        self.report.worst = max(self.report.worst, float(np.max(apart[good] / allowed[good], initial=0.0)))
        size = np.maximum(np.maximum(np.abs(compiled), np.abs(numerical)), floor / ROUNDING)
        self.report.loose += int(np.sum(error > LOOSE * size))
        for at in np.flatnonzero(~same):
            one, other, most = [float(array.flat[at]) for array in (compiled, numerical, allowed)]
            place = self.place(k, (int(at), int(at) + 1)) + how
            self.wrong.append(Difference(order, place, one, other, most, method))

    def allowed(self, one: Any, other: Any, error: Any, floor: float, kind: str) -> Any:
        """Return how far two values of one derivative may be apart."""
        rtol = RTOL[kind] if self.rtol is None else max(self.rtol, RTOL["float64"] * (kind == "float64"))
        return rtol * np.maximum(np.abs(one), np.abs(other)) + 10 * error + floor + self.atol

    def place(self, k: int, span: tuple[int, int]) -> str:
        """Write an element as the user would: ``params['w'][3, 1]``."""
        x, path = self.problem.wide[k], self.problem.paths[k]
        if x.ndim == 0:
            return path
        index = ", ".join(str(int(i)) for i in np.unravel_index(span[0], x.shape))
        return f"{path}[{index}]" if span[1] - span[0] == 1 else f"{path} (all of it, along a random direction)"

    def finish(self) -> None:
        """Raise for the worst of what is wrong, if anything is."""
        if not self.wrong:
            return
        worst = max(self.wrong, key=Difference.size)
        width = max(len(worst.method), len("compiled"))
        why = f"\n  (no complex step: {self.reference.why_not})" if self.reference.why_not else ""
        raise GradientCheckError(
            f"the derivative of {self.problem.name}() by {worst.place} is wrong (order {worst.order}, "
            f"{len(self.wrong)} wrong of {self.report.derivatives} checked)\n"
            f"  {'compiled':{width}}  {worst.compiled!r}\n"
            f"  {worst.method:{width}}  {worst.numerical!r}\n"
            f"  they differ by {abs(worst.compiled - worst.numerical):.3g}, and {worst.allowed:.3g} is allowed{why}"
        )


def _in_float64(found: Any) -> Arrays:
    return [np.asarray(g, np.float64) for g in found]


def _largest(x: Any) -> float:
    finite = np.abs(x[np.isfinite(x)]) if x.ndim else np.abs(x) * np.isfinite(x)
    return float(np.max(finite, initial=0.0))


def _floor(g: Any, value: float, x: Any) -> float:
    """Return what rounding alone may leave: that of the largest derivative, and of the value where all cancel."""
    size = value / max(1.0, _largest(x)) if np.isfinite(value) else 0.0
    return ROUNDING * max(_largest(g), size)


def _agree(one: float, other: float, allowed: float) -> bool:
    """Whether two values of a derivative agree; an infinity or NaN only with the same."""
    return one == other or (np.isnan(one) and np.isnan(other)) or bool(abs(one - other) <= allowed < np.inf)

