"""`check_grads`: compiled gradients against numerical ones, element by element.

A `Projection` is the function as one of floating-point arrays that returns one number, plain and compiled. A
`Reference` differentiates the plain one: by the complex step, or by central differences extrapolated to step zero.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial, update_wrapper
from inspect import signature
from typing import Any, NamedTuple

import numpy as np

from symgrad.api.call.arguments import Arguments
from symgrad.api.call.function import Function
from symgrad.api.modes.derivatives import grad, jit
from symgrad.api.modes.linearize import jvp
from symgrad.api.rules.define import SHAPE
from symgrad.errors import ArgumentError, ArgumentValueError, GradientCheckError, NoGradient, interrupts
from symgrad.ir.op import Elementwise, Op
from symgrad.ops import load
from symgrad.ops.declare.forms import ANSWERS
from symgrad.options import Options
from symgrad.trace.overrides import noted
from symgrad.trace.signature import flatten
from symgrad.trace.state import public

Arrays = list[np.ndarray[Any, Any]]


TINY = 1e-20
"""The complex step: its square is lost beside any number, so no difference is taken and nothing cancels."""

STEP, LEVELS, ENOUGH = 0.02, 8, 1e-11
EPSILON = float(np.finfo(np.float64).eps)


def extrapolated(along: Callable[[float], Any], step: float) -> tuple[Any, Any]:
    """Differentiate at 0 by central differences of halved steps, extrapolated.

    (C. J. F. Ridders, Accurate computation of F'(x) and F'(x) F''(x), Advances in Engineering Software 4, 1982.)

    Args:
        along: a function of a number; its values are numbers or arrays.
        step: the largest step.

    Returns:
        The derivative, and for each element an estimate of its error: what two neighbours in the tableau of
        extrapolations differ by, and what rounding of the values leaves.

    >>> value, error = extrapolated(lambda t: np.exp(1 + t), 0.02)
    >>> bool(abs(value - np.e) < 1e-11), bool(error < 1e-10)
    (True, True)
    """
    best: Any = np.nan
    error: Any = np.inf
    before: list[Any] = []
    for level in range(LEVELS):
        h = step / 2**level
        above, below = along(h), along(-h)
        first = (above - below) / (2 * h)
        if not np.all(np.isfinite(first)):
            before = []  # outside of the function's domain: begin again, nearer
            continue
        noise = EPSILON * np.maximum(np.abs(above), np.abs(below)) / h
        row = [first]
        for k, old in enumerate(before, 1):
            row.append(row[-1] + (row[-1] - old) / (4**k - 1))
            found = np.maximum(np.abs(row[k] - row[k - 1]), np.abs(row[k] - old)) + noise
            better = found < error
            best, error = np.where(better, row[k], best), np.where(better, found, error)
        before = row
        if np.all(error <= ENOUGH * np.abs(best)):
            break
    return best, error


def scale(x: Any) -> Any:
    """Return how large a step of 1 may be: a number's own size, so that a positive one stays positive; 1 at zero."""
    size = np.abs(x)
    return np.where((size > 0) & np.isfinite(size), size, 1.0)


class Reference:
    """A function of arrays that returns one number, in plain NumPy, and its derivatives along directions."""

    def __init__(self, fun: Callable[[Arrays], Any], point: Arrays, step: float | None) -> None:
        self.fun, self.point, self.step = fun, point, step or STEP
        self.complex = False
        self.why_not = ""

    def value(self, point: Sequence[Any]) -> Any:
        """Evaluate, without floating-point warnings."""
        with np.errstate(all="ignore"):
            return self.fun(list(point))

    def moved(self, direction: Arrays, by: complex) -> Arrays:
        """Return the point moved along a direction."""
        return [x + by * d for x, d in zip(self.point, direction, strict=True)]

    def central(self, direction: Arrays, start: float = 1.0) -> tuple[float, float]:
        """Differentiate by differences: the best of some largest steps, `start` being the size of the moved numbers."""
        best, error = np.nan, np.inf
        for step in sorted({self.step * min(start, 1.0), self.step * start, 0.01 * self.step * start}, reverse=True):
            found, estimate = extrapolated(lambda t: self.value(self.moved(direction, t)), step)
            if estimate < error:
                best, error = float(found), float(estimate)
            if error <= 10 * ENOUGH * abs(best):
                break
        return best, error

    def try_complex(self, direction: Arrays) -> None:
        """Find out whether the function takes complex numbers and is analytic in them, along a random direction.

        The real part must be the real function's, and the derivative that of differences.
        """
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", np.exceptions.ComplexWarning)
                value = self.value(self.moved(direction, 1j * TINY))
            slope = float(np.imag(value) / TINY)
            real = float(self.value(self.point))
        except Exception as raised:
            if interrupts(raised):
                raise
            said = " ".join(str(raised).split())[:120]
            self.why_not = f"with complex arguments it raises {type(raised).__name__}: {said}"
            return
        if not abs(float(np.real(value)) - real) <= 1e-12 * abs(real):
            self.why_not = "with complex arguments its real part is another one"
            return
        central, error = self.central(direction)
        if np.isfinite(central) and not self.agree(slope, central, error):
            self.why_not = "it is not analytic: it drops or changes imaginary parts (abs, real, norm)"
            return
        self.complex = True

    @staticmethod
    def agree(slope: float, central: float, error: float) -> bool:
        """Whether a complex step's result is what differences find."""
        return abs(slope - central) <= 10 * error + 1e-6 * max(abs(slope), abs(central))


class Projection:
    """The function as one of floating-point arrays and the rest, that returns one number: plain and compiled."""

    def __init__(
        self, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], static_argnums: Any,
        static_argnames: Any, options: Options, seed: int,
    ) -> None:
        static: list[Any] = [static_argnums] if isinstance(static_argnums, int) else [*static_argnums]
        self.fun, self.plain = f, f
        while isinstance(self.plain, Function) and self.plain._mode == "jit":  # noqa: SLF001 - a sibling
            static += self.plain._arguments.static  # noqa: SLF001
            self.plain = self.plain._fun  # noqa: SLF001
        self.arguments = Arguments(f, static, static_argnames)
        self.name, self.options, self.rng = self.arguments.name, options, np.random.default_rng(seed)
        call = self.arguments.split(args, kwargs)
        self.signature = self.arguments.describe(call)
        self.leaves = call.leaves
        self.places = [k for k, s in enumerate(self.signature.specs) if s.dtype.kind == "f"]
        if not self.places:
            raise ArgumentError(f"{self.name}() has no floating-point argument to differentiate by")
        self.paths = [self.signature.paths[k] for k in self.places]
        self.given = [self.leaves[k] for k in self.places]
        self.others = [leaf for k, leaf in enumerate(self.leaves) if k not in self.places]
        self.wide = [np.array(leaf, np.float64) for leaf in self.given]
        self.narrow = any(self.signature.specs[k].dtype == np.float32 for k in self.places)
        self.weights = self._weights()

    def direction(self) -> Arrays:
        """Draw a direction, each number moved in proportion to its size."""
        return [scale(x) * np.where((v := self.rng.normal(size=x.shape)) == 0, 1.0, v) for x in self.wide]

    def call(self, fun: Callable[..., Any], floats: Any, others: Any) -> Any:
        """Call the function, or its plain form, with the arguments put together again."""
        leaves = list(others)
        for place, value in zip(self.places, floats, strict=True):
            leaves.insert(place, value)
        args, kwargs = self.signature.join(leaves)
        return fun(*args, **kwargs)

    def _weights(self) -> list[Any]:
        """Draw the cotangent: an array for each floating-point result, 1 for a function that returns one number."""
        with np.errstate(all="ignore"):
            leaves, _ = flatten(self.call(self.plain, self._copies(self.wide), self._others()))
        results = [np.asarray(leaf) for leaf in leaves]
        if not any(r.dtype.kind == "f" for r in results):
            raise ArgumentError(f"{self.name}() returns no floating-point number to differentiate")
        if len(results) == 1 and results[0].shape == ():
            return [1.0]
        drawn = [self.rng.normal(size=r.shape).astype(np.float32).astype(np.float64) for r in results]
        return [w if r.dtype.kind == "f" else None for w, r in zip(drawn, results, strict=True)]

    def projected(self, result: Any) -> Any:
        """Make one number of a result: the sum of its elements times the cotangent's."""
        leaves, _ = flatten(result)
        if len(self.weights) == 1 and isinstance(self.weights[0], float):
            return leaves[0]
        total: Any = None
        for leaf, weight in zip(leaves, self.weights, strict=True):
            if weight is not None:
                dtype = np.dtype(getattr(leaf, "dtype", np.float64))
                term = np.sum(leaf * (weight.astype(dtype) if dtype.kind == "f" else weight))
                total = term if total is None else total + term
        return total

    def _copies(self, floats: Arrays) -> list[Any]:
        """Copy what the plain function gets: it may write into it."""
        pairs = zip(floats, self.given, strict=True)
        return [x.copy() if isinstance(given, np.ndarray) else x[()] for x, given in pairs]

    def _others(self) -> list[Any]:
        return [leaf.copy() if isinstance(leaf, np.ndarray) else leaf for leaf in self.others]

    def number(self, floats: Arrays) -> Any:
        """Evaluate by plain NumPy."""
        return np.asarray(self.projected(self.call(self.plain, self._copies(floats), self._others())))[()]

    @cached_property
    def gradient(self) -> Function[..., Any]:
        """The compiled gradient, a function of (floats, others)."""

        def checked(floats: Any, others: Any) -> Any:
            return self.projected(self.call(self.fun, floats, others))

        return grad(self._reaching(checked), options=self.options)

    def along(self, modes: frozenset[str], order: int) -> Function[..., Any]:
        """Compile what else is checked, in one module: derivatives along a direction d, and the gradient's along v.

        Returns:
            A function of (floats, d, v, others). Its results are a number ``pushed``, by forward mode; and for the
            second order ``rev``, the gradient of the gradient along v, and ``fwd``, by forward mode.
        """
        gradient = self.gradient

        def derivatives(floats: Any, d: Any, v: Any, others: Any) -> Any:
            def number(floats: Any) -> Any:
                return self.projected(self.call(self.fun, floats, others))

            def slope(floats: Any) -> Any:
                parts = [np.sum(g * one) for g, one in zip(gradient(floats, others), v, strict=True)]
                return sum(parts[1:], start=parts[0])

            found: dict[str, Any] = {}
            if "fwd" in modes:
                found["pushed"] = jvp(number, (floats,), (d,))[1]
            if order > 1 and "rev" in modes:
                found["rev"] = grad(slope)(floats)
            if order > 1 and "fwd" in modes:
                found["fwd"] = jvp(lambda floats: gradient(floats, others), (floats,), (v,))[1]
            return found

        return jit(self._reaching(derivatives), options=self.options)

    def _reaching(self, made: Any) -> Any:
        """Let what is made of the function say so: SciPy's functions in closures are replaced while it is traced."""
        made.__signature__ = signature(made)
        made.__name__ = getattr(self.fun, "__name__", made.__name__)
        return update_wrapper(made, self.fun, assigned=(), updated=())


RTOL = {"complex step": 1e-10, "central differences": 1e-8, "float64": 1e-3}
"""How far a right derivative may be off, relative to itself, by what it is compared with."""

LOOSE = 1e-4
"""Differences whose own error is beyond this part of the derivatives do not say much."""

FORWARD = "(in forward mode, along a random direction)"

ROUNDING = 64 * EPSILON
"""What rounding may leave, as a part of the largest numbers about."""


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


@public
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
    for name, number in (("atol", atol), ("rtol", rtol), ("eps", eps)):
        if number is not None and not 0 <= number < float("inf"):
            raise ArgumentValueError(f"{name}={number!r}", instead="a number from 0 on")
    if args is not None and not isinstance(args, (tuple, list)):
        raise ArgumentError(f"check_grads takes the arguments as a tuple, not {type(args).__name__}", instead="(x,)")
    wanted = frozenset([modes] if isinstance(modes, str) else modes)

    def once(call: Callable[..., Any], given: tuple[Any, ...]) -> Report:
        problem = Projection(call, given, kwargs or {}, static_argnums, static_argnames, options or Options(), seed)
        reference = Reference(problem.number, problem.wide, eps)
        if mode != "central":
            reference.try_complex(problem.direction())
            if mode == "complex-step" and not reference.complex:
                what = f"{problem.name}() has no complex path: {reference.why_not}"
                raise ArgumentValueError(what, instead='mode="central"')
        method = "complex step" if reference.complex else "central differences"
        report = Report(problem.name, method, (1, 2)[:order])
        _Comparison(problem, reference, report, atol or 0.0, rtol, elements).all(wanted)
        return report

    def checked(*call: Any) -> Report:
        """Check a call with the rules in force; where these give another derivative, also without them, and say so."""
        apart = ""
        with noted() as seen:
            try:
                report = once(*call)
            except (GradientCheckError, NoGradient) as error:
                if not seen:
                    raise
                apart = error.what
        if apart:
            with noted(heed=False):
                report = once(*call)
        report.overridden, report.apart = tuple(seen), apart
        return report

    first, *others = [checked(*call) for call in (_op_calls(f, seed) if args is None else [(f, tuple(args))])]
    for other in others:
        first.derivatives += other.derivatives
        first.worst, first.loose = max(first.worst, other.worst), first.loose + other.loose
        first.method = max(first.method, other.method, key="central differences".__eq__)
    return first


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
        calls: list[Any] = [(partial(case.call), tuple(case.draw(rng))) for case in found.sample]
        for call, _ in calls:
            call.__name__ = name  # for messages
        return calls
    each = found.sample if type(found.sample) is tuple else (found.sample,) * found.arity
    return [(found, tuple([domain.draw(rng, SHAPE) for domain in each]))]


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
                self.second(d, v, exact, along, modes)

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
            parts, before = [g * d for g, d in zip(self.gradients, direction, strict=True)], self.report.derivatives
            floor = ROUNDING * max(sum(float(np.sum(np.abs(p))) for p in parts), value)
            expected = sum(float(np.sum(p)) for p in parts)
            self.judge(1, lambda _: place, found, expected, 0.0, floor, "reverse mode", "complex step")
            self.report.derivatives = before  # the same derivatives once more
        self.finish()

    def compare(self, place: str, compiled: float, direction: Arrays, start: float, floor: float) -> bool:
        """Compare one number with what the reference finds along a direction."""
        method, error = self.report.method, 0.0
        if self.reference.complex:
            numerical = float(np.imag(self.reference.value(self.reference.moved(direction, 1j * TINY))) / TINY)
            if not _agree(compiled, numerical, self.allowed(compiled, numerical, 0.0, floor, method)):
                central, estimate = self.reference.central(direction, start)
                if not self.reference.agree(numerical, central, estimate):  # not analytic just here
                    method, numerical, error = "central differences", central, estimate
        else:
            numerical, error = self.reference.central(direction, start)
        return self.judge(1, lambda _: place, compiled, numerical, error, floor, method, method)

    def judge(
        self, order: int, place: Callable[[int], str], compiled: Any, numerical: Any, error: Any, floor: float,
        method: str, kind: str,
    ) -> bool:
        """Note how derivatives, each at its place, agree with what a method finds, and those that do not."""
        allowed = self.allowed(compiled, numerical, error, floor, kind)
        compiled, numerical, error, allowed = map(np.atleast_1d, (compiled, numerical, error, allowed))
        same = _agree(compiled, numerical, allowed)
        with np.errstate(invalid="ignore"):
            apart = np.abs(compiled - numerical)
        good = same & np.isfinite(apart) & (allowed > 0)
        self.report.derivatives += same.size
        self.report.worst = max(self.report.worst, float(np.max(apart[good] / allowed[good], initial=0.0)))
        size = np.maximum(np.maximum(np.abs(compiled), np.abs(numerical)), floor / ROUNDING)
        self.report.loose += int(np.sum(error > LOOSE * size))
        for at in map(int, np.flatnonzero(~same)):
            one, other, most = [float(array.flat[at]) for array in (compiled, numerical, allowed)]
            self.wrong.append(Difference(order, place(at), one, other, most, method))
        return bool(same.all())

    def second(self, d: Arrays, v: Arrays, found: Any, derivatives: Function[..., Any], modes: frozenset[str]) -> None:
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
        single: Any = {}
        if problem.narrow:  # the same for the arguments as they were given, some in single precision
            dtypes = [np.asarray(x).dtype for x in problem.given]
            narrow = [tuple([np.asarray(*one) for one in zip(some, dtypes, strict=bool(some))]) for some in (d, v)]
            single = derivatives(tuple(problem.given), *narrow, others)
        for mode in [one for one in ("rev", "fwd") if one in modes]:
            exact = _in_float64(found[mode])
            parts = zip(problem.wide, exact, np.split(numerical, sizes), np.split(error, sizes), strict=True)
            before, how = self.report.derivatives, f" {FORWARD}" * (mode == "fwd")
            for k, (x, h, n, e) in enumerate(parts):
                places = partial(self.element, k, how)
                self.judge(2, places, h.ravel(), n, e, _floor(h, along, x), method, "central differences")
            if problem.narrow:
                self.narrowed(2, single[mode], exact)
            self.finish()
            if mode == "fwd" and "rev" in modes:  # the same derivatives once more
                self.report.derivatives = before

    def narrowed(self, order: int, found: Any, exact: Arrays) -> None:
        """Compare what was computed in float32 with the same in float64."""
        for k, (narrow, wide) in enumerate(zip(_in_float64(found), exact, strict=True)):
            floor = 64 * float(np.finfo(np.float32).eps) * _largest_finite(wide)
            places, method = partial(self.element, k, ""), "the same in float64"
            self.judge(order, places, narrow, wide, np.zeros(wide.shape), floor, method, "float64")

    def element(self, k: int, how: str, at: int) -> str:
        """Write an element as the user would, by its number, and how it was derived."""
        return self.place(k, (at, at + 1)) + how

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


def _largest_finite(x: Any) -> float:
    finite = np.abs(x[np.isfinite(x)]) if x.ndim else np.abs(x) * np.isfinite(x)
    return float(np.max(finite, initial=0.0))


def _floor(g: Any, value: float, x: Any) -> float:
    """Return what rounding alone may leave: that of the largest derivative, and of the value where all cancel."""
    size = value / max(1.0, _largest_finite(x)) if np.isfinite(value) else 0.0
    return ROUNDING * max(_largest_finite(g), size)


def _agree(one: Any, other: Any, allowed: Any) -> Any:
    """Whether values of derivatives agree; an infinity or NaN only with the same."""
    with np.errstate(invalid="ignore"):
        near = (np.abs(one - other) <= allowed) & np.isfinite(allowed)
    return (one == other) | (np.isnan(one) & np.isnan(other)) | near
