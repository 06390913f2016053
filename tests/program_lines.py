"""The kinds of lines that random programs are grown from."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from tests.growth import Growth, Unfit, clear, run


def number(rng: Random) -> str:
    """Write an everyday number."""
    return str(rng.choice([0.5, -0.75, 1.25, 2, -1, 0.3, 3]))


UNARY = (
    "np.tanh({0})",
    "np.sin({0})",
    "np.cos({0})",
    "np.exp(-{0} * {0})",
    "np.exp(0.3 * {0})",
    "np.sqrt(1.0 + {0} * {0})",
    "np.log1p({0} ** 2)",
    "np.arctan({0})",
    "{0} ** 2",
    "{0} ** 3",
    "-{0}",
    "1 / (2.5 + np.sin({0}))",
    "np.expm1(0.5 * {0})",
    "np.square({0}) * 0.25",
    "np.sinh(0.4 * {0})",
    "np.log(1.5 + np.cos({0}))",
    "scipy.special.expit({0})",
    "scipy.special.erf({0})",
    "scipy.special.dawsn({0})",
    "scipy.special.erfcx(1.5 + np.sin({0}))",
    "scipy.special.exprel(0.4 * {0})",
    "scipy.special.j0({0})",
    "scipy.special.expi(2.0 + np.cos({0}))",
    "scipy.special.lambertw(1.5 + np.sin({0})).real",
    "scipy.special.pseudo_huber(0.7, {0})",
    "np.arcsinh({0})",
    "(1.0 + {0} ** 2) ** -0.5",
    "np.logaddexp(0.0, {0})",
    "np.cosh(0.3 * {0})",
    "2 ** (0.3 * {0})",
    "np.exp2(0.2 * {0})",
    "np.cbrt(2.0 + np.sin({0}))",
    "np.reciprocal(2.0 + np.cos({0}))",
    "scipy.special.log_expit({0})",
    "np.log2(3.0 + np.sin({0}))",
    "np.positive({0})",
    "np.deg2rad({0}) * 9.0",
    "np.tan(np.sin({0}))",
    "np.arccos(0.8 * np.sin({0}))",
    "np.log10(2.0 + np.cos({0}))",
    "np.degrees({0}) * 0.05",
    "np.radians({0}) * 9.0",
    "np.rad2deg({0}) * 0.02",
    "scipy.special.erfc({0})",
    "scipy.special.erfinv(0.8 * np.sin({0}))",
    "scipy.special.gamma(2.5 + np.sin({0}))",
    "scipy.special.gammaln(1.5 + np.cos({0}))",
    "scipy.special.digamma(2.0 + np.sin({0}))",
    "scipy.special.polygamma(1, 2.5 + np.cos({0}))",
    "scipy.special.zeta(3.0 + np.sin({0}))",
    "scipy.special.exp1(1.5 + np.sin({0}))",
    "scipy.special.i0(0.3 * {0})",
    "scipy.special.i1e({0})",
    "scipy.special.ndtr({0})",
    "scipy.special.log_ndtr({0})",
    "scipy.special.ndtri(0.5 + 0.4 * np.sin({0}))",
    "scipy.special.log1p(0.5 * np.cos({0}))",
)
BINARY = (
    "{0} + {1}",
    "{0} - {1}",
    "{0} * {1}",
    "{0} * {1}",
    "{0} / (1.5 + {1} * {1})",
    "np.arctan2({0}, 1.0 + {1} * {1})",
    "np.hypot({0}, 1.0 + {1} ** 2)",
    "np.logaddexp({0}, {1})",
    "(1.2 + np.sin({0})) ** {1}",
    "{0} * np.exp(-np.square({1}))",
    "scipy.special.xlogy({0}, 1.0 + {1} ** 2)",
    "np.subtract({0}, 0.5 * {1})",
    "np.divide({0}, 2.0 + np.cos({1}))",
    "np.nextafter({0}, {1})",
    "np.logaddexp2({0}, {1})",
    "np.copysign(0.5 + {0} ** 2, 1.5 + np.cos({1}))",
    "scipy.special.xlog1py({0}, {1} ** 2)",
    "scipy.special.gammainc(1.5 + np.sin({0}), 0.1 + {1} ** 2)",
    "scipy.special.gammaincc(1.5 + np.cos({0}), 0.5 + {1} ** 2)",
    "scipy.special.betainc(1.5 + np.sin({0}), 2.0, 0.5 + 0.3 * np.cos({1}))",
    "scipy.special.stdtr(2.5 + np.cos({0}), {1})",
)


def unary(g: Growth) -> None:
    g.line(g.rng.choice(UNARY).format(g.pick()))


def binary(g: Growth) -> None:
    a = g.pick()
    g.line(g.rng.choice(BINARY).format(*g.rng.sample([a, g.partner(a)], 2)))


def with_number(g: Growth) -> None:
    g.line(
        g.rng.choice(["{0} * {1}", "{0} + {1}", "{1} - {0}", "{0} / {1}", "{1} * {0} + {0}"]).format(
            g.pick(), number(g.rng)
        )
    )


def axes(g: Growth, name: str) -> str:
    """Write an ``axis=`` argument."""
    ndim = g.values[name].ndim
    choices = [None, *range(-ndim, ndim), *([(0, 1), (-1, 0)] if ndim > 1 else [])]
    return repr(g.rng.choice(choices))


def reduction(g: Growth) -> None:
    a = g.pick()
    axis, keep = axes(g, a), g.rng.choice(["", "", ", keepdims=True"])
    form = g.rng.choice(
        [
            "np.sum({0}, axis={1}{2})",
            "np.mean({0}, axis={1}{2})",
            "np.sum({0} * {0}, axis={1}{2}) * 0.2",
            "np.var({0}, axis={1}{2})",
            "np.prod(np.cos({0}) + 0.1, axis={1}{2})",
            "{0}.sum(axis={1}{2})",
            "{0}.mean({1}{2})",
            "np.log(np.sum(np.exp({0}), axis={1}{2}))",
        ]
    )
    g.line(form.format(a, axis, keep))


def extremum(g: Growth) -> None:
    a = g.pick(ndim=1)
    axis = g.rng.randrange(g.values[a].ndim)
    ordered = np.sort(g.values[a], axis)
    clear(np.diff(ordered, axis=axis))
    g.line(
        g.rng.choice(["np.max({0}, axis={1})", "np.min({0}, axis={1}, keepdims=True)", "{0}.max({1})"]).format(a, axis)
    )


def ordered(g: Growth) -> None:
    """Sorted elements, medians, quantiles, tables: the order is the same near by."""
    a = g.pick(ndim=1)
    values = g.values[a]
    if 0 in values.shape or 1 in values.shape:
        raise Unfit
    clear(np.diff(np.sort(values, None)), np.abs(np.subtract.outer(values.ravel(), [-1.5, 0.1, 1.2])))
    form = g.rng.choice([
        "np.sort({0}, axis={1})", "np.median({0}, axis={1})", "np.quantile({0}, [0.2, 0.77], axis={1}, method='hazen')",
        "np.take_along_axis({0}, np.argsort({0}, axis={1}, kind='stable'), axis={1}) * {0}", "np.sort({0}, axis=None)",
        "np.interp({0}, np.array([-1.5, 0.1, 1.2]), np.array([0.3, -1.0, 0.5]))", "np.percentile({0}, 41)",
        "np.searchsorted(np.array([-1.5, 0.1, 1.2]), {0}) * {0}", "np.nanmedian({0}, axis={1}, keepdims=True)",
        "np.histogram({0}, bins=np.array([-1.5, 0.1, 1.2]), weights={0} ** 2)[0]",
    ])
    g.line(form.format(a, g.rng.randrange(values.ndim)))


def kinked(g: Growth) -> None:
    a = g.pick()
    b = g.partner(a)
    va, vb = g.values[a], g.values[b]
    choice = g.rng.randrange(7)
    if choice < 3:
        clear(va - vb)
        forms = [("np.maximum({0}, {1})", "np.fmin({0}, {1})"), ("np.minimum({0}, {1})",),
                 ("np.where({0} > {1}, {0}, 2.0 * {1})",)]
        g.line(g.rng.choice(forms[choice]).format(a, b))
    elif choice == 3:
        clear(va)
        g.line(
            g.rng.choice(
                [
                    "np.abs({0})",
                    "np.maximum({0}, 0)",
                    "np.where({0} > 0, np.sqrt(np.abs({0})), 0.0)",
                    "np.sign({0}) * {0}",
                    "np.sqrt({0} * {0})",
                    "np.sqrt(np.square({0}) * 4.0)",
                    "({0} ** 2) ** 0.5",
                    "np.log({0} ** 2)",
                    "np.log2({0} * {0}) * 0.3",
                    "np.log({0} ** 4) * 0.2",
                    "np.fabs({0})",
                    "np.heaviside({0}, 0.5) * {0}",
                    "np.copysign(0.5 + {0} ** 2, {0})",
                    "np.signbit({0}) * {0}",
                ]
            ).format(a)
        )
    elif choice == 4:
        clear(va - 0.7, va + 0.6)
        g.line(f"np.clip({a}, -0.6, 0.7)")
    elif choice == 5:
        clear(va - 0.2)
        g.line(f"np.where({a} > 0.2, {b}, {a} * {number(g.rng)})")
    else:
        clear(va * 2 - np.rint(va * 2), va * 2 - np.floor(va * 2) - 0.5)
        g.line(g.rng.choice(["np.floor({0} * 2) * {0}", "{0} - np.rint({0} * 2)", "np.trunc({0} * 2) + {0}",
                             "np.ceil({0} * 2) - {0}", "np.fmod({0}, 0.5) * {0}"]).format(a))


def view(g: Growth) -> None:
    a = g.pick("fib", ndim=1)
    ndim = g.values[a].ndim
    order = list(range(ndim))
    g.rng.shuffle(order)
    axis = g.rng.randrange(-ndim, ndim)
    g.line(
        g.rng.choice(
            [
                "{0}.T",
                "np.transpose({0}, {1})",
                "np.flip({0}, {2})",
                "np.expand_dims({0}, {2})",
                "{0}[None]",
                "{0}[..., None]",
                "np.swapaxes({0}, 0, {2})",
                "np.moveaxis({0}, {2}, 0)",
                "np.roll({0}, 2, {2})",
                "np.ravel({0})",
                "{0}.reshape(-1)",
                "np.squeeze({0})" if not g.symbolic else "np.transpose({0})",
                "np.roll({0}, -1)" if not g.symbolic else "{0}.T",
                "{0}.copy()",
            ]
        ).format(a, tuple(order), axis)
    )


def sliced(g: Growth) -> None:
    a = g.pick("fib", ndim=1)
    parts = []
    for extent in g.shape(a):
        if g.symbolic:
            parts.append(g.rng.choice([":", ":", "1:", ":-1", "::2", "::-1", "0", "-1", "1::2", "-2:"]))
            continue
        start, stop = g.rng.randrange(-extent - 1, extent + 1), g.rng.randrange(-extent - 1, extent + 2)
        step = g.rng.choice([1, 1, 2, 3, -1, -2])
        point = str(g.rng.randrange(-extent, extent)) if extent else ":"
        parts.append(
            g.rng.choice([":", f"{start}:", f":{stop}", f"{start}:{stop}:{step}", f"::{step}", "None, :", point])
        )
    if g.rng.random() < 0.2:
        parts = [*parts[: g.rng.randrange(len(parts))], "..."]
    g.line(f"{a}[{', '.join(parts)}]")


def shaped(g: Growth) -> None:
    a = g.pick("fib")
    value = g.values[a]
    choice = g.rng.randrange(6)
    if choice == 0:
        g.line(f"np.reshape({a}, {factored(g.rng, value.size)})")
    elif choice == 1:
        g.line(f"np.broadcast_to({a}, {(g.rng.randrange(1, 4), *value.shape)})")
    elif choice == 2:
        g.line(f"np.tile({a}, {g.rng.choice([2, (2, 1), (1, 3)])})")
    elif choice == 3 and value.ndim:
        g.line(f"np.repeat({a}, {g.rng.randrange(1, 4)}, axis={g.rng.randrange(value.ndim)})")
    elif choice == 4:
        g.line(f"np.pad({a}, {g.rng.randrange(0, 3)})")
    else:
        g.line(f"np.{g.rng.choice(['tril', 'triu', 'diagonal', 'trace'])}({a})")


def factored(rng: Random, size: int) -> tuple[int, ...]:
    """Write a size as a product."""
    if size == 0:
        return rng.choice([(0,), (2, 0), (0, 3), (1, 0, 2)])
    divisors = [d for d in range(1, size + 1) if size % d == 0]
    first = rng.choice(divisors)
    return rng.choice([(first, size // first), (first, -1), (size,), (first, 1, size // first)])


def contraction(g: Growth) -> None:
    a = g.pick(ndim=1)
    b = g.pick(ndim=1)
    forms = [
        "{0} @ {1}",
        "{0} @ {1}.T",
        "np.dot({0}, {1})",
        "np.outer({0}, {1})",
        "np.inner({0}, {1})",
        "{1}.T @ {0}",
        "np.tensordot({0}, {1}, 1)",
        "np.einsum('ij,jk->ik', {0}, {1})",
        "np.einsum('ij,ij->j', {0}, {1})",
        "{0} @ {0}.T",
        "np.einsum('ij,kj->ik', {0}, {1})",
        "np.einsum('i,i', {0}, {1})",
        "np.einsum('ii->i', {0} @ {0}.T)",
        "np.einsum('ij->ji', {0})",
        "np.einsum('i,ij,j->', {0}, {1}, {0})",
        "np.einsum('...i,i->...', {0}, {1})",
        "np.matmul({0}, {1})",
        "np.einsum('bij,bjk->bik', {0}, {1})",
        "np.vdot({0}, {1})",
    ]
    g.line(g.rng.choice(["{0}", "{0} * 0.2"]).format(g.rng.choice(forms).format(a, b)))


def gathered(g: Growth) -> None:
    a = g.pick("fib", ndim=1)
    extent = g.shape(a)[0]
    if extent == 0:
        raise Unfit
    index = [g.rng.randrange(-extent, extent) for _ in range(g.rng.randrange(1, 6))]
    last = g.shape(a)[-1]
    positions = [g.rng.randrange(max(last, 1)) for _ in index]
    g.line(
        g.rng.choice(
            [
                "{0}[np.array({1})]",
                "np.take({0}, {1}, axis=0)",
                "{0}[..., np.array({2})]",
                "{0}[{1}]",
                "{0}[np.array({1}), :]",
                "{0}[np.array({1}), np.array({2})]",
                "{0}[np.array({1})[:, None], np.array({2})]",
            ]
        ).format(a, index, positions)
    )


def indexed(g: Growth) -> None:
    """Index by an argument."""
    a = g.pick(ndim=1)
    i = g.pick("i", ndim=1)
    g.line(g.rng.choice(["{0}[{1}]", "np.take({0}, {1}, axis=0)"]).format(a, i))


def placed(g: Growth) -> None:
    """Write at places of which some come twice, and add there."""
    a = g.pick(ndim=1)
    b = next((n for n in reversed(g.values) if g.shape(n) == g.shape(a)[:1]), a)
    function = g.rng.choice(["place", "place_pairs", "add_at_places"])
    g.line(f"{function}({a}, np.argsort({b}, axis=0, kind='stable') // 2)")


def joined(g: Growth) -> None:
    a = g.pick("f")
    b = g.partner(a)
    forms = [
        "np.concatenate([{0}, {1}])",
        "np.stack([{0}, {1}], axis=-1)",
        "np.concatenate([{0}, {0}, {1}], axis=-1)",
        "np.stack([{0}, {1}, {0}])",
        "np.array([{0}, {1}])",
        "np.hstack([{0}, {1}])",
        "np.vstack([{0}, {1}])",
        "np.concatenate([{0}, {0}[..., :1]], axis=-1)",  # one longer
        "np.append({0}, 0.5)",
    ]
    g.line(g.rng.choice(forms).format(a, b))


def running(g: Growth) -> None:
    a = g.pick(ndim=1)
    axis = g.rng.randrange(-g.values[a].ndim, g.values[a].ndim)
    g.line(
        g.rng.choice(
            ["np.cumsum({0}, axis={1})", "np.cumsum({0}, {1}) * 0.3", "np.cumprod(np.cos({0}) + 0.2, axis={1})"]
        ).format(a, axis)
    )


def converted(g: Growth) -> None:
    a = g.pick()
    clear(g.values[a] - 0.1)
    clear(g.values[a] - np.rint(g.values[a]))
    g.line(
        g.rng.choice(
            [
                "{0}.astype(F32)",
                "{0}.astype(np.float64)",
                "{0} > 0.1",
                "({0} > 0.1) * {0}",
                "({0} > 0.1).astype(np.float64)",
                "{0}.astype(np.int64)",
                "{0}.astype(np.int64) * {0}",
                "{0}.astype(np.int32) * {0}",
                "{0}.astype(np.int8) + 0.5 * {0}",
                "{0} <= 0.1",
            ]
        ).format(a)
    )


def whole(g: Growth) -> None:
    a = g.pick("ib")
    b = g.partner(a, "ib")
    x = g.pick()
    forms = [
        "{0} + {1}",
        "{0} * {1}",
        "{0} * {2}",
        "np.sum({0})",
        "np.maximum({0}, {1})",
        "np.where({0} > 0, {2}, 0.5)",
        "{0} % 3",
        "{0} // 2",
        "np.where({0}, {2}, -{2})",
        "{0} == {1}",
        "np.sum({0} * {2})",
        "~{0}",
        "np.any({0})",
        "{0} & {1}",
        "{0} ^ {1}",
        "np.logical_xor({0}, {1})",
        "({0} + 3) << 2",
        "({0} + 9) >> 1",
        "np.bincount(np.ravel({0}) % 3, minlength=3)",
    ]
    g.line(g.rng.choice(forms).format(a, b, x))


def position(g: Growth) -> None:
    a = g.pick(ndim=1)
    clear(np.diff(np.sort(g.values[a], axis=0), axis=0))
    g.line(g.rng.choice(["np.argmax({0}, axis=0)", "np.argmin({0}, axis=0)", "np.all({0} > -1, axis=0)"]).format(a))


def asked(g: Growth) -> None:
    """Ask for an extent: whether it is 0 or 1, even, or another one."""
    a = g.pick(ndim=1)
    forms = [
        "np.squeeze({0})",
        "{0}.squeeze() * 0.5",
        "np.cov({0}, ddof=0)",
        "np.cov({0}, rowvar=False, ddof=0) * 0.5",
        "np.where(np.array_equal({0}, {1}), {0}, -0.5 * {0})",
        "np.where(np.array_equiv({0}, {1}), 0.5, 2.0) * {0}",
        "np.array_split({0}, 2)[1]",
        "{0} * 2.0 if {0}.shape[0] == 1 else {0} - 0.5",
        "{0} - 0.5 if {0}.shape[-1] < 2 else -{0}",
        "{0} if {0}.size else {0} + 1.0",
        "{0} * 0.5 if {0}.shape == {1}.shape else {0} * 2.0",
        "np.broadcast_arrays({0}, {1})[1] * 0.5",
        "np.atleast_3d({0})",
        "np.reshape({0}, ({0}.shape[0], -1))",
        "{0}[{0}.shape[0] - 3 :]",
        "{0}[3 - {0}.shape[0] :]",
        "{0}[-{0}.shape[0] :]",
        "{0}[..., -({0}.shape[-1] // 2) :] * 0.5",
        "{0}[: -{0}.shape[0] // 2]",
        "{0}[{0}.shape[0] - {1}.size :]",
        "{0}[-{0}.shape[0] // 2]",
        "np.roll({0}, -{0}.shape[0] // 2, 0)",
        "{0} * (3 - {0}.shape[0]) // 4",
        # what fits for all sizes but some
        "np.reshape({0}, (-1, 2))[:, 0]",
        "np.ravel({0}).reshape(2, -1) * 0.5",
        "np.stack([{0}[::2], {0}[1::2]], axis=-1)",
        "{0}[::2] + 0.3 * {0}[1::2]",
        "np.concatenate([{0}[1::2], {0}[::2]]) - {0}",
        "np.diff({0}, axis=0) * np.ones({0}.shape[0] - 1).reshape((-1,) + (1,) * ({0}.ndim - 1))",
        "np.concatenate([np.diff({0}, axis=0), {0}[:1]]) * {0}",
        "np.ravel({0}).reshape({0}.size // 3, 3)",
        "np.outer({0}, {0}).ravel()[{0}.size :] * np.ones({0}.size * ({0}.size - 1))",
        "np.concatenate([{0}, {0}[:1]])[: {0}.shape[0]] + {0}",
        "np.concatenate([{0}[: {0}.shape[0] // 2], {0}[{0}.shape[0] // 2 :]]) * {0}",
        "np.where({0}[1:] > 0.2, {0}[1:], np.zeros(({0}.shape[0] - 1,) + {0}.shape[1:]))",
    ]
    g.line(g.rng.choice(forms).format(a, g.rng.choice([g.pick("f"), g.partner(a)])))


POLES = (
    "np.sqrt({0})",
    "np.log({0})",
    "0.3 / {0}",
    "{0} ** 0.4",
    "{0} ** -0.5",
    "np.cbrt({0})",
    "np.arcsin(1.0 - {0})",
    "np.arccosh(1.0 + {0})",
    "0.5 * np.arctanh(1.0 - {0})",
    "{0} * np.log({0})",
    "np.sqrt({0} * {0} + {0} ** 2)",
    "{0} / np.sqrt({0} * {0})",
    "np.sin({0}) / {0}",
    "np.log({0}) ** 2",
    "scipy.special.logit(1.0 - {0})",
    "np.tanh(0.2 / {0})",
    "np.linalg.norm({0}[..., None] * np.array([3.0, 4.0]), axis=-1)",
    "np.log(np.sqrt({0}))",
    "np.hypot(np.sqrt({0}), np.log({0}))",
)
"""Functions with a pole at 0, which is there or in their slope; the argument is else from 0.1 to 0.5."""


def poled(g: Growth, a: str, used: Any, pole: str) -> tuple[list[str], str]:
    """Write lines that take a function which has a pole at every element that is not used."""
    n = len(g.values)
    inner = f"u{n} = (0.3 + 0.2 * np.sin({a})) * np.array({used.astype(float).tolist()})"
    return [inner, f"q{n} = {pole.format(f'u{n}')}"], f"q{n}"


def selection(g: Growth, shape: tuple[int, ...]) -> str:
    """Write a line that selects, moves or adds elements of ``q``."""
    rng, rank = g.rng, len(shape)
    if not rank or 0 in shape:
        raise Unfit
    axis = rng.randrange(rank)
    extent = shape[axis]
    places = [rng.randrange(-extent, extent) for _ in range(rng.randrange(1, 4))]
    rows = [rng.randrange(shape[0]) for _ in places]
    start, step = rng.randrange(extent), rng.choice([1, 1, 2, -1])
    cut = [":"] * axis + [rng.choice([f"{start}:", f":{start + 1}", f"{start}::{step}", f"{start}"])]
    mask = np.array([rng.random() < 0.5 for _ in range(int(np.prod(shape)))]).reshape(shape).tolist()
    forms = [
        f"q = q[{', '.join(cut)}]",
        f"q = q[{', '.join(cut)}]",
        f"q = np.take(q, {places}, axis={axis})",
        f"q = q[np.array({rows})]",
        f"q = np.ravel(q)[{sorted({*rows, *[abs(p) for p in places]})}]",
        f"q = q[{rng.randrange(shape[0])}] + q[{rng.randrange(shape[0])}]",
        f"q = q[np.array({mask})]",
        f"q = np.where(np.array({mask}), q, 0.5)",
        f"q = np.flip(q, {axis})",
        "q = q.T",
        f"q = np.roll(q, 1, {axis})",
        f"q = np.sum(q, axis={axis})",
        f"q = np.cumsum(q, axis={axis})",
        f"q = np.cumprod(q, axis={axis})",
        f"q = np.prod(q, axis={axis})",
        f"q = scipy.special.logsumexp(q, axis={axis})",
        f"q = np.pad(q, 1)[{'1:, ' * (rank - 1)}1:]",
        f"q = np.concatenate([q, 2.0 * q[:1]], axis=0)[{rng.randrange(2)}:]",
        f"q = np.repeat(q, 2, axis={axis})",
        f"q = q.copy()\nq[{', '.join(cut)}] = 0.5",
        f"q = q.copy()\nq[np.array({rows})] = 0.25",
        f"t = np.zeros({shape[0] + 2})\nt[1:-1] += np.ravel(q)[:{shape[0]}]\nq = t",
        f"q = q @ np.full(({shape[-1]}, 2), 0.5)",
        f"q = np.einsum('i...->i', q) * {number(rng).removeprefix('-')}",
    ]
    if rank > 1:
        k = rng.randrange(-1, 2)
        more = ["np.triu(q, {0})", "np.tril(q, {0})", "np.diagonal(q, {0})", "np.trace(q)"]
        more.append("np.full((2, {1}), 0.5) @ q")
        forms += [f"q = {form.format(k, shape[-2])}" for form in more]
        forms.append(f"q = q[np.triu_indices({shape[0]}, {k}, {shape[1]})]")
    return rng.choice(forms)


def left_out(g: Growth) -> None:
    """Put poles on the elements that the lines after leave out, and on no others."""
    a = g.pick(ndim=1)
    shape = g.shape(a)
    size = int(np.prod(shape))
    if not 2 <= size <= 36:
        raise Unfit
    units = list(np.eye(size).reshape(size, *shape))
    nothing, picked, others = np.zeros(shape), [], {}
    for _ in range(g.rng.randrange(1, 5)):
        other = g.pick() if g.rng.random() < 0.25 else None
        if other is not None and g.shape(other) in {(), nothing.shape}:
            line = f"q = q * {other}"
            others[other] = 1.0
        else:
            line = selection(g, nothing.shape)
        picked.append(line)
        sums = re.sub(r"np\.prod|scipy\.special\.logsumexp", "np.sum", line).replace("cumprod", "cumsum")
        nothing, *units = [np.asarray(run([sums], {"q": q, **others})["q"]) for q in (nothing, *units)]
    used = np.array([bool(np.any(unit != nothing)) for unit in units]).reshape(shape)
    if used.all() or not used.any():
        raise Unfit
    lines, q = poled(g, a, used, g.rng.choice(POLES))
    for line in "\n".join(picked).split("\n"):
        lines.append(re.sub(r"\bq\b", q, re.sub(r"\bt\b", f"t{len(g.values)}", line)))
    g.several(lines, q)


def outdone(g: Growth) -> None:
    """Put poles on elements that no extremum picks."""
    a = g.pick(ndim=1)
    shape = g.shape(a)
    if not 2 <= int(np.prod(shape)) <= 36:
        raise Unfit
    used = np.array([g.rng.random() < 0.6 for _ in range(int(np.prod(shape)))]).reshape(shape)
    lowest = ("np.sqrt({0})", "np.log({0})", "-0.1 / {0}", "{0} ** 0.4", "np.cbrt({0})", "np.log(np.sqrt({0}))")
    lines, q = poled(g, a, used, g.rng.choice(lowest))
    value = run(lines, g.values)[q]
    axis, limit = g.rng.randrange(len(shape)), round(g.rng.uniform(np.min(value[used], initial=1.0), 1.0), 3)
    form, along = g.rng.choice(
        [
            ("np.max({0}, axis={1})", axis),
            ("-np.min(-{0}, axis={1}, keepdims=True)", axis),
            ("np.max({0})", None),
            ("np.maximum({0}, {2})", None),
            ("np.clip({0}, {2}, 3.0)", None),
            ("np.minimum(-{0}, -{2})", None),
            ("np.fmax({2}, {0})", None),
        ]
    )
    if "max({0}" in form or "min(-{0}, a" in form:
        if not np.all(np.any(used, axis=along)):
            raise Unfit
        apart = np.where(used, value, -10.0 - np.arange(value.size).reshape(shape))
        clear(np.diff(np.sort(apart, axis=along), axis=-1 if along is None else along))
    clear(value[used] - limit)
    g.several([*lines, f"{q} = {form.format(q, axis, limit)}"], q)


def narrow(g: Growth) -> None:
    """Numbers in small and unsigned types: casts of negative ones, bounds and comparisons beyond the type, powers."""
    a = g.pick()
    clear(g.values[a] - np.rint(g.values[a]))
    small = f"({a} * 3).astype(np.{g.rng.choice(['uint8', 'int8', 'uint16', 'uint32', 'uint64', 'int32'])})"
    forms = [
        "{0}",
        "{0} > -1",
        "{0} == 300",
        "np.clip({0}, -3, 300)",
        "np.power({0}, True)",
        "np.max({0}, initial=0)",
        "np.min({0})",
        "({0} < 2**40) * {1}",
        "np.where({0} != -2, {1}, 0.5)",
    ]
    g.line(g.rng.choice(forms).format(small, a))


def mixed_ranks(g: Growth) -> None:
    """Functions of arrays of one axis and of several, and of numbers along an axis."""
    a = g.pick(ndim=1)
    b = g.pick(ndim=1)
    if 0 in (*g.shape(a), *g.shape(b)):
        raise Unfit  # NumPy divides by the sum of no weights
    forms = [
        "np.trapezoid({0}, np.cumsum(1.0 + {1} * {1}, axis=-1))",
        "np.average({1}, axis=-1, weights=2.0 + np.sin({0}))",
        "np.sum(np.sum({0}), axis=0)",
        "np.max(np.sum({0}), axis=-1)",
        "scipy.special.logsumexp(np.sum({0}), keepdims=True)",
        "np.float_power(np.abs({0}) + 0.5, 0.5)",
    ]
    g.line(g.rng.choice(forms).format(a, b))


def neighbours(g: Growth) -> None:
    """What is made of elements beside each other, or of all of a row."""
    a = g.pick(ndim=1)
    forms = [
        "np.convolve({0}, {1}) * 0.3",
        "np.correlate({0}, {1}, 'full') * 0.3",
        "np.convolve(np.array([0.5, -0.25]), {0}, 'same')",
        "np.lib.stride_tricks.sliding_window_view({0}, 2, axis={2})",
        "np.lib.stride_tricks.sliding_window_view({0}, 2, axis={2})[::-2]",
        "np.gradient({0}, axis={2})",
        "np.diff({0}, axis={2})",
        "np.delete({0}, 0, axis={2})",
        "np.insert({0}, 1, 0.5, axis={2})",
        "np.linspace({0}, 0.5, 4)",
        "scipy.special.softmax({0}, axis={2})",
        "scipy.special.log_softmax({0}, axis={2})",
        "np.nanmean({0}, axis={2})",
        "np.nanvar({0}, axis={2})",
        "np.linalg.vector_norm(1.5 + np.sin({0}), axis={2}, ord=3)",
        "np.cross({0}, {1}[..., ::-1]) * 0.2",
        "np.kron({0}, {1}) * 0.3",
        "np.trapezoid({0}, dx=0.5, axis={2})",
    ]
    g.line(g.rng.choice(forms).format(a, g.partner(a), g.rng.randrange(-g.values[a].ndim, g.values[a].ndim)))


KINDS: list[tuple[Callable[[Growth], None], int]] = [
    (unary, 18),
    (binary, 22),
    (with_number, 5),
    (reduction, 12),
    (extremum, 4),
    (kinked, 7),
    (view, 9),
    (sliced, 9),
    (shaped, 7),
    (contraction, 12),
    (gathered, 5),
    (indexed, 3),
    (joined, 6),
    (running, 5),
    (converted, 4),
    (whole, 5),
    (position, 2),
    (left_out, 8),
    (outdone, 4),
    (narrow, 4),
    (mixed_ranks, 3),
    (ordered, 4),
    (neighbours, 6),
]
OPEN: list[tuple[Callable[[Growth], None], int]] = [
    (unary, 18),
    (binary, 22),
    (with_number, 5),
    (reduction, 12),
    (kinked, 5),
    (view, 9),
    (sliced, 6),
    (contraction, 12),
    (joined, 4),
    (running, 5),
    (extremum, 3),
    (placed, 3),
]
"""Kinds of lines whose text holds no extent."""
ASKING: list[tuple[Callable[[Growth], None], int]] = [
    *OPEN,
    (asked, 16),
]
"""And those that ask for one: where extents are open, some calls are compiled apart, or refused."""
