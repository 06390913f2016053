"""Functions of scipy.special that give all orders up to a known one, with their derivatives.

SciPy's 1e300 where one is infinite is kept. Formulas are DLMF's, by their numbers there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.errors import ArgumentValueError, UnsupportedError
from symgrad.ops.declare.forms import Late, answers, is_traced
from symgrad.ops.numpy.reductions import floating
from symgrad.ops.scipy import compiled, special

INFINITE = 1e300


def _scalar_argument(name: str, x: Any) -> Any:
    x = floating(x, np.float64)
    if x.ndim:
        raise ArgumentValueError(f"scipy.special.{name}: arguments must be scalars", instead="sg.vmap over several")
    return x


def _order(name: str, v: Any) -> tuple[int, float]:
    """Return the whole part of a known order and the rest."""
    if is_traced(v) or np.ndim(v) or not v >= 0:
        raise UnsupportedError(
            f"scipy.special.{name} of traced numbers takes one known order, which is not negative",
            instead="a Python number, and a Python loop over several")
    return int(v), float(v) - int(v)


# -- Legendre functions of the second kind


def _legendre_second(n: int, x: Any) -> tuple[list[Any], list[Any]]:
    """Return those of the degrees up to n, and their slopes (14.10.3).

    Beyond 1 they are the least solution of their recurrence: quotients of neighbours go down from the last one, which
    is one of hypergeometric functions (14.3.7, in a form of which SciPy's hyp2f1 has all digits).
    """
    near = np.abs(x) < 1.001  # where the recurrence loses no digits upwards
    inner, outer = np.where(near, x, 0.5), np.where(near, 2.0, x)
    size = np.abs(outer)
    beyond = np.maximum(np.abs(x), 1) - 1
    far = np.copysign(0.5 * np.log1p(2 / np.where(beyond == 0, 1, beyond)), x)
    found = [np.where(beyond == 0, np.arctanh(np.where(np.abs(x) < 1, x, 0.5)), far)]
    up, before = inner * found[0] - 1, found[0]
    quotients: Any = {}
    if n:
        base = size + np.sqrt((size - 1) * (size + 1))
        last, first = [compiled.hyp2f1(0.5, k + 1, k + 1.5, 1 / np.square(base)) for k in (n, n - 1)]
        quotients[n] = np.copysign(n / (n + 0.5) / base * last / first, outer)
    for k in range(n - 1, 0, -1):
        quotients[k] = k / ((2 * k + 1) * outer - (k + 1) * quotients[k + 1])
    for k in range(1, n + 1):
        found.append(np.where(near, up, quotients[k] * found[-1]))
        up, before = ((2 * k + 1) * inner * up - k * before) / (k + 1), up
    rest = (1 - x) * (1 + x)
    return found, [1 / rest, *[k * (found[k - 1] - x * found[k]) / rest for k in range(1, n + 1)]]


def _unless_at_one(z: Any, found: list[Any]) -> Any:
    return np.where(np.abs(z) == 1, INFINITE, np.stack(found))


@answers(Late("lqn"))
def lqn(n: Any, z: Any) -> Any:
    """As `scipy.special.lqn`."""
    z = floating(z, np.float64)
    values, slopes = _legendre_second(special._degree("lqn", n), z)  # noqa: SLF001 - of the same room
    return _unless_at_one(z, values), _unless_at_one(z, slopes)


@answers(Late("lqmn"))
def lqmn(m: Any, n: Any, z: Any) -> Any:
    """As `scipy.special.lqmn`: of the orders 0 and 1 by those of order 0, of others by 14.10.1 and 14.10.6."""
    z = floating(z, np.float64)
    orders, degrees = [special._degree("lqmn", k) for k in (m, n)]  # noqa: SLF001 - of the same room
    side = np.where(np.abs(z) < 1, 1.0, -1.0)
    rest = side * (1 - z) * (1 + z)
    root = np.sqrt(rest)
    row, sloped = _legendre_second(degrees, z)
    rows, slopes = [row], [sloped]
    for i in range(1, orders + 1):
        if i == 1:
            rows.append([-side * root * slope for slope in sloped])
        else:
            rows.append([-2 * (i - 1) * z / root * rows[-1][j] - side * (j + i - 1) * (j - i + 2) * rows[-2][j]
                         for j in range(degrees + 1)])
        slopes.append([side * i * z / rest * rows[i][j] + (i + j) * (j - i + 1) / root * rows[i - 1][j]
                       for j in range(degrees + 1)])
    return tuple([np.stack([_unless_at_one(z, each) for each in of]) for of in (rows, slopes)])


# -- characteristic values of spheroidal wave functions


def _of_degrees(name: str, function: Callable[..., Any]) -> None:
    """Answer with the values of the degrees from m to n."""

    def values(m: Any, n: Any, c: Any) -> Any:
        first, last = special._degree(name, m), special._degree(name, n)  # noqa: SLF001 - of the same room
        c = _scalar_argument(name, c)
        if last < first:
            raise ArgumentValueError("Modes must be integers.")
        return np.stack([function(first, k, c) for k in range(first, last + 1)])

    answers(Late(name))(values)


_of_degrees("pro_cv_seq", compiled.pro_cv)
_of_degrees("obl_cv_seq", compiled.obl_cv)

# -- Bessel functions of a number


@answers(Late("lmbda"))
def lmbda(v: Any, x: Any) -> Any:
    """As `scipy.special.lmbda`, by 10.16.9; its derivative at 0 is 0, where SciPy's of order 1 is 0.5."""
    (whole, rest), x = _order("lmbda", v), _scalar_argument("lmbda", x)
    every = [k + rest + 1 for k in range(whole + 2)]
    values = [compiled.hyp0f1(k, -0.25 * x * x) for k in every]
    return np.stack(values[:-1]), np.stack([-x / (2 * k) * after for k, after in zip(every, values[1:], strict=False)])


@answers(Late("riccati_jn"))
def riccati_jn(n: Any, x: Any) -> Any:
    """As `scipy.special.riccati_jn`, by 10.51.2."""
    degree, x = special._degree("riccati_jn", n), _scalar_argument("riccati_jn", x)  # noqa: SLF001 - of the same room
    spherical = [special._FORMULAS["special._ufuncs._spherical_jn"](k, x) for k in range(degree + 2)]  # noqa: SLF001
    slopes = [(k + 1) * spherical[k] - x * spherical[k + 1] for k in range(degree + 1)]
    return np.stack([x * value for value in spherical[:-1]]), np.stack(slopes)


@answers(Late("riccati_yn"))
def riccati_yn(n: Any, x: Any) -> Any:
    """As `scipy.special.riccati_yn`, by 10.51.1 and 10.51.2; left of 0 SciPy's are those at 0."""
    degree, x = special._degree("riccati_yn", n), _scalar_argument("riccati_yn", x)  # noqa: SLF001 - of the same room
    inside = x >= 1e-60
    at = np.where(inside, x, 1)
    values, slopes = [-np.cos(at)], [np.sin(at)]
    for k in range(1, degree + 1):
        after = (2 * k - 1) / at * values[-1] - (values[-2] if k > 1 else np.sin(at))
        slopes.append(values[-1] - k / at * after)
        values.append(after)
    first = (-1.0, -INFINITE), (0.0, INFINITE)
    return tuple([np.stack([np.where(inside, value, ends[k > 0]) for k, value in enumerate(of)])
                  for of, ends in zip((values, slopes), first, strict=True)])


def _cylinder(name: str, function: Callable[..., Any]) -> None:
    """Answer with a parabolic cylinder function of orders one apart, and its derivatives."""

    def cylinder(v: Any, x: Any) -> Any:
        (whole, rest), x = _order(name, v), _scalar_argument(name, x)
        every = [function(k + rest, x) for k in range(max(whole, 1) + 1)]
        return tuple([np.stack(each) for each in zip(*every, strict=True)])

    answers(Late(name))(cylinder)


_cylinder("pbdv_seq", compiled.pbdv)
_cylinder("pbvv_seq", compiled.pbvv)
