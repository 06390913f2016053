"""What is true of an elementwise op: parity, commutativity, linearity, what it makes of signs of zeros and of NaN.

None of it is declared. A trait is found out by trying the op at numbers, when it is first asked for; the tests confirm
each one of each op on the bits of its C, and parity and commutativity with SymPy where the op has a formula. A user's
op, which no test has seen, has none.
"""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from symgrad.ir.op import Elementwise, Op
from symgrad.ops.declare.forms import OPS

POSITIVE = (0.0, 0.3, 1.0, 2.5, 37.0, np.inf, 1e-8, 0.5, 1.7, 3.0, 5.5, 1000.0)
FIRST_OF_MANY = 6
"""What an op is tried at, and the opposite; of more than two arguments at the first few, for tuples are many."""

STEPS = np.array([0.25, 1.75, -2.5, 5.125, 3.5, -0.875, 7.5]), np.array([2.875, -0.75, 4.5, 1.25, -3.5, -6.125, -1.5])
"""Numbers whose sums are exact, and 0 among these: what is a rounding away from a linear function is not near 0."""


class Traits(NamedTuple):
    """What is true of an elementwise op, for given parameters.

    Attributes:
        parity: for each argument, 1 where the function is even in it, -1 where it is odd, 0 where it is neither.
        joint: its parity in all arguments together.
        keeps_zeros: by its parities, a zero has the sign that they say.
        commutes: the arguments may change places.
        sees_zero: for each argument, whether it tells a zero's sign: by more than the sign of a zero.
        sees_nan: it tells the sign of a NaN.
        linear: it is linear in all floating-point arguments together, whatever the others are.
        slopes: of a linear op of such arguments alone, its partial derivatives.
        positive: it is never negative.
        keeps_sign: it is not negative where none of its arguments is.
    """

    parity: tuple[int, ...]
    joint: int = 0
    keeps_zeros: bool = False
    commutes: bool = False
    sees_zero: tuple[bool, ...] = ()
    sees_nan: bool = True
    linear: bool = False
    slopes: tuple[float, ...] = ()
    positive: bool = False
    keeps_sign: bool = False


def kinds(op: Elementwise) -> list[str]:
    """Return of which kind each argument is: "float", "int" or "bool"."""
    return [domain.dtype for domain in (op.sample if type(op.sample) is tuple else (op.sample,) * op.arity)]


@lru_cache(maxsize=4096)  # a user's op need not live for ever
def traits(op: Elementwise, params: tuple[Any, ...] = ()) -> Traits:
    """Try an elementwise op."""
    if OPS.get(op.name) is not op:
        return Traits((0,) * op.arity, sees_zero=(True,) * op.arity)
    of = kinds(op)
    floats = [k for k, kind in enumerate(of) if kind == "float"]
    positive = POSITIVE[: FIRST_OF_MANY if op.arity > 2 else None]
    numbers = {"float": (*positive, *[-v for v in positive], np.nan), "int": range(-4, 9), "bool": (False, True)}
    x = [np.array(column) for column in zip(*product(*[numbers[kind] for kind in of]), strict=True)]
    named = op.named(params)

    def at(*given: Any) -> Any:
        return np.asarray(op.evaluate(*given, **named))

    def with_one(k: int, value: Any) -> Any:
        return at(*[value if j == k else v for j, v in enumerate(x)])

    with np.errstate(all="ignore"):
        linear = _tried_linear(of, at)
        y = at(*x)
        turned = {k: with_one(k, -x[k]) for k in floats}
        parity = tuple([_parity(y, turned[k]) if k in turned and op.mirrors else 0 for k in range(op.arity)])
        return Traits(
            parity=parity,
            joint=_parity(y, at(*[-v if k in turned else v for k, v in enumerate(x)])) if floats and op.mirrors else 0,
            keeps_zeros=all(_tried_keeping_zeros(parity[k], y, turned[k]) for k in floats if parity[k]),
            commutes=op.commutes and op.arity == 2 and len({*of}) == 1 and _nearly_equal(y, at(*x[::-1])),
            sees_zero=tuple([k in turned and not _equals(*[
                with_one(k, np.where(x[k] == 0, zero, x[k])) for zero in (0.0, -0.0)
            ]) for k in range(op.arity)]),
            sees_nan=not all(_equals(with_one(k, np.full(y.shape, np.nan)), with_one(k, np.full(y.shape, -np.nan)))
                             for k in floats),
            linear=linear,
            slopes=tuple([float(at(*unit)) for unit in np.eye(op.arity)]) if linear and len(floats) == op.arity else (),
            positive=not np.any(y < 0), keeps_sign=not np.any(at(*map(np.abs, x)) < 0),
        )


def _tried_linear(kinds: list[str], at: Any) -> bool:
    """Whether values of sums are sums of values, and those of multiples multiples, whatever is no float."""
    first, second = STEPS
    for other in (False, True):
        one, two, both, twice = [
            at(*[np.roll(x, k) if kind == "float" else np.full(x.shape, other) for k, kind in enumerate(kinds)])
            for x in (first, second, first + second, 2 * first)
        ]
        if one.dtype.kind != "f" or not (_nearly_equal(both, one + two) and _nearly_equal(twice, 2 * one)):
            return False
    return True


def _parity(y: Any, turned: Any) -> int:
    """Return the parity of a function by its values, and those at the opposite arguments."""
    return 1 if _nearly_equal(y, turned) else -1 if y.dtype.kind == "f" and _nearly_equal(-y, turned) else 0


def _tried_keeping_zeros(parity: int, y: Any, turned: Any) -> bool:
    zeros = y == 0
    return y.dtype.kind != "f" or bool(np.all(np.signbit(parity * y[zeros]) == np.signbit(turned[zeros])))


def _nearly_equal(one: Any, other: Any) -> bool:
    """Whether two results are one but for rounding: NumPy's vectors of a processor need not be as exact as the C."""
    if one.dtype.kind != "f":
        return bool(np.array_equal(one, other))
    return bool(np.allclose(one, other, rtol=1e-12, atol=0, equal_nan=True))


def _equals(one: Any, other: Any) -> bool:
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))


AND, OR, NOT = (False, False, False, True), (False, True, True, True), (True, False)
"""Truth tables."""

CHOICE = (True, False), np.array([2.0, 3.0]), np.array([5.0, 7.0])
"""What choices are tried at."""


@cache
def chooses(op: Op) -> bool:
    """Whether an op is a choice: its second argument where the first, a Boolean, holds, and else the third."""
    if OPS.get(op.name) is not op or not isinstance(op, Elementwise) or op.params or op.arity != len(CHOICE):
        return False
    there = np.array(CHOICE[0])
    return kinds(op)[0] == "bool" and _equals(np.asarray(op.evaluate(there, *CHOICE[1:])), np.where(there, *CHOICE[1:]))


@cache
def truth(op: Op) -> tuple[bool, ...]:
    """Return the truth table of an elementwise op of Booleans: `AND`, `OR`, `NOT`, ...; nothing of any other op."""
    if OPS.get(op.name) is not op or not isinstance(op, Elementwise) or op.params:
        return ()
    table = [np.array(column) for column in zip(*product((False, True), repeat=op.arity), strict=True)]
    try:
        with np.errstate(all="ignore"):
            found = np.asarray(op.evaluate(*table))
    except TypeError:
        return ()
    return tuple(found.tolist()) if found.dtype.kind == "b" else ()


@cache
def growth(op: Op, params: tuple[Any, ...] = ()) -> str:
    """Return what integers that an op makes are no larger than: its last operand, the "most", "sum", "product" of all.

    Of a power of one it is the exponent. Nothing where they may be larger, as of what is no elementwise op.
    """
    if OPS.get(op.name) is not op or not isinstance(op, Elementwise) or len(params) != len(op.params):
        return ""
    numbers = {"bool": (False, True)} if {*kinds(op)} != {"bool"} else {}
    given = [numbers.get(kind, (-100, -7, -3, -2, -1, 0, 1, 2, 3, 5, 100)) for kind in kinds(op)]
    x = [np.array(column) for column in zip(*product(*given), strict=True)]
    try:
        with np.errstate(all="ignore"):
            y = np.abs(op.evaluate(*x, **op.named(params)).astype(np.float64))
    except (TypeError, ValueError):
        return ""
    sizes = np.abs(np.array([one for one in x if one.dtype.kind == "i"], float))
    limits = {"last": sizes[-1:], "most": sizes.max(0, initial=0), "sum": sizes.sum(0), "product": sizes.prod(0)}
    if len(x) == 1:
        limits |= {str(k): sizes[0] ** k for k in range(2, 63) if len(sizes)}
    return next((name for name, limit in limits.items() if limit.size and np.all(y <= limit)), "")
