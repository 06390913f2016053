"""Decompositions: what NumPy and SciPy give of any matrix, and derivatives to second order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

import symgrad as sg
from symgrad.errors import ArgumentValueError, LinAlgError, SymgradError, UnsupportedError
from symgrad.ops.linalg.products import NotSquare
from tests.ops.test_linalg import BOTH
from tests.table import GENTLY, richardson

LINALG: Any = np.linalg

SHAPES = [(0, 0), (0, 3), (3, 0), (1, 1), (1, 5), (5, 1), (2, 2), (4, 3), (3, 4), (9, 9), (33, 20), (20, 33), (70, 70),
          (110, 97), (97, 110)]  # these are decomposed by halves
VALUES: dict[Any, str] = {np.float64: "f64", np.float32: "f32"}


def decomposed(a: Any, b: Any) -> dict[str, Any]:
    """Decompose a square matrix and any other one in every way."""
    upper = np.linalg.eigh(a, "U")
    parts = {"eigh": tuple(np.linalg.eigh(a)), "upper": tuple(upper), "eigvalsh": np.linalg.eigvalsh(a)}
    for mode in ("reduced", "complete"):
        parts[f"qr {mode}"] = tuple(np.linalg.qr(b, mode))
    for full in (False, True):
        parts[f"svd {full}"] = tuple(np.linalg.svd(b, full_matrices=full))
    return parts | {"r": np.linalg.qr(b, "r"), "svdvals": np.linalg.svd(b, compute_uv=False)}


@pytest.fixture(scope="module", params=[*VALUES], ids=[*VALUES.values()])
def compiled(request) -> Any:
    """Compile all of it once, with extents that are not known."""
    kind = VALUES[request.param]
    return request.param, sg.jit(decomposed, specs=(f"{kind}[n,n]", f"{kind}[m,p]"))


def special(kind: str, m: int, n: int) -> Any:
    """Make a matrix of a kind that decompositions may find hard."""
    rng, i, j = np.random.default_rng(m + 40 * n), np.arange(m)[:, None], np.arange(n)
    return {
        "normal": lambda: rng.normal(size=(m, n)), "huge": lambda: 1e30 * rng.normal(size=(m, n)),
        "tiny": lambda: 1e-30 * rng.normal(size=(m, n)), "zero": lambda: np.zeros((m, n)), "one": lambda: np.eye(m, n),
        "rank one": lambda: np.ones((m, n)), "graded": lambda: rng.normal(size=(m, n)) * np.exp(-i - 2.0 * j),
        "other way": lambda: rng.normal(size=(m, n)) * np.exp(i - m + 2.0 * (j - n)),
        "nilpotent": lambda: np.eye(m, n, k=1),
        "integers": lambda: rng.integers(-1, 2, (m, n)), "Hilbert": lambda: 1 / (i + j + 1.0),
        "a column of zeros": lambda: rng.normal(size=(m, n)) * (j > 0), "mirrored": lambda: np.eye(m, n)[::-1],
        "rank three": lambda: rng.normal(size=(m, 3)) @ rng.normal(size=(3, n)),
        "equal values": lambda: turned(rng, m) @ np.eye(m, n) @ turned(rng, n),
        "close values": lambda: turned(rng, m) @ (np.eye(m, n) * (1 + 1e-12 * j)) @ turned(rng, n),
        "hardly coupled": lambda: np.eye(m, n) * (j % 7) + 1e-9 * (np.eye(m, n, k=1) + np.eye(m, n, k=-1)),
        "Kahan": lambda: 0.9**i * (np.eye(m, n) - 0.4 * np.triu(np.ones((m, n)), 1)),
    }[kind]()


def turned(rng: Any, n: int) -> Any:
    """Make an orthogonal matrix."""
    return np.linalg.qr(rng.normal(size=(n, n)))[0]


KINDS = ["normal", "huge", "tiny", "zero", "one", "rank one", "graded", "other way", "nilpotent", "integers", "Hilbert",
         "a column of zeros", "mirrored", "rank three", "equal values", "close values", "hardly coupled", "Kahan"]


def small(found: Any, dtype: Any) -> None:
    """Check that a difference is rounding, of a matrix whose elements are about one."""
    found = np.asarray(found)
    assert np.max(np.abs(found), initial=0) <= 4 * np.finfo(dtype).eps * (1 + sum(found.shape)), found


@pytest.mark.parametrize("kind", KINDS)
def test_of_any_matrix(compiled: Any, kind: str) -> None:
    """A decomposition multiplies to its matrix, its vectors are orthonormal, its values are NumPy's."""
    dtype, function = compiled
    for shape in SHAPES:
        a, b = [special(kind, *s).astype(dtype) for s in ((shape[0], shape[0]), shape)]
        sizes = [float(np.max(np.abs(x), initial=0)) or 1.0 for x in (a, b)]
        found = function(a, b)
        a, b = a / sizes[0], b / sizes[1]
        for name, lower in (("eigh", np.tril(a) + np.tril(a, -1).T), ("upper", np.triu(a) + np.triu(a, 1).T)):
            w, v = [np.asarray(x, float) for x in found[name]]
            largest = np.max(np.abs(lower).sum(0), initial=1)
            small((v * (w / sizes[0]) @ v.T - lower) / largest, dtype)
            small(v.T @ v - np.eye(len(a)), dtype)
            small((w / sizes[0] - np.linalg.eigvalsh(lower)) / largest, dtype)
        assert np.array_equal(found["eigvalsh"], found["eigh"][0])
        for mode in ("reduced", "complete"):
            q, r = [np.asarray(x, float) for x in found[f"qr {mode}"]]
            assert [q.shape, r.shape] == [x.shape for x in np.linalg.qr(b, mode)]
            small(q @ (r / sizes[1]) - b, dtype)
            small(q.T @ q - np.eye(q.shape[1]), dtype)
            assert not np.any(np.tril(r, -1))
        small(np.abs(found["r"] / sizes[1]) - np.abs(found["qr reduced"][1] / sizes[1]), dtype)
        largest = np.max(np.abs(b).sum(0), initial=1)
        for full in (False, True):
            u, s, v = [np.asarray(x, float) for x in found[f"svd {full}"]]
            assert [u.shape, s.shape, v.shape] == [x.shape for x in np.linalg.svd(b, full_matrices=full)]
            small((u[:, : len(s)] * (s / sizes[1]) @ v[: len(s)] - b) / largest, dtype)
            small(u.T @ u - np.eye(u.shape[1]), dtype)
            small(v @ v.T - np.eye(len(v)), dtype)
            small((s / sizes[1] - np.linalg.svd(b, compute_uv=False)) / largest, dtype)
            assert np.array_equal(s, found["svdvals"])


def glued(n: int, between: float) -> Any:
    """Put Wilkinson's matrices of 21 rows, whose values are pairs but for roundings, beside each other."""
    i = np.arange(n)
    return np.diag(np.abs(i % 21 - 10.0)) + sum(np.diag(np.where(i[1:] % 21, 1.0, between), k) for k in (-1, 1))


def large(kind: str, n: int) -> Any:
    """Make a matrix of a kind that is hard to put together of halves."""
    rng, i, one = np.random.default_rng(n), np.arange(n), np.eye(n)
    q, (d, e) = turned(rng, n), 10.0 ** rng.uniform(-15, 0, (2, n))
    return {
        "clusters": lambda: q * (i % 3 + 1e-13 * i) @ q.T, "pairs": lambda: q * (i // 2.0) @ q.T,
        "graded": lambda: q * 10.0 ** (-i / 8) @ q.T, "rank five": lambda: q * (i < 5) @ q.T,
        "glued hardly": lambda: glued(n, 1e-14), "glued": lambda: glued(n, 1e-4),
        "of any size": lambda: np.diag(d) + np.diag(e[1:], 1), "arrow": lambda: np.diag(i) + one[0] + one[:, :1],
        "second differences": lambda: 2 * one - np.eye(n, k=1) - np.eye(n, k=-1),
        "largest numbers": lambda: 1e300 * rng.normal(size=(n, n)),
        "least numbers": lambda: 1e-300 * rng.normal(size=(n, n)),
    }[kind]()


LARGE = {
    96: ("pairs", "glued", "of any size", "arrow", "second differences", "largest numbers", "least numbers"),
    79: ("pairs",), 171: ("clusters", "graded", "glued hardly"), 300: ("rank five",),
}


def test_of_large_matrices() -> None:
    """Those that are decomposed by halves, beside a batch's other one: the parts multiply to it and are orthonormal."""
    def both_of(a: Any) -> Any:
        return np.linalg.eigh(a), np.linalg.svd(a[..., 1:], full_matrices=False)

    decompose, eps = sg.jit(both_of, specs=("f64[b,n,n]",)), np.finfo(float).eps
    for n, kinds in LARGE.items():
        for kind in kinds:
            given = large(kind, n)
            size = np.max(np.abs(given))
            parts = decompose(np.stack([given.T, given]))
            for k, a in enumerate((given.T / size, given / size)):
                (w, v), (u, s, t) = [[x[k] for x in each] for each in parts]
                w, s = w / size, s / size
                symmetric = np.tril(a) + np.tril(a, -1).T
                allowed = n * eps * (1 + np.max(np.abs(w)))
                assert np.max(np.abs(symmetric @ v - v * w)) < allowed, (kind, n)
                assert np.max(np.abs(a[:, 1:] @ t.T - u * s)) < allowed, (kind, n)
                for x in (v, u, t):
                    assert np.max(np.abs(x.T @ x - np.eye(x.shape[1]))) < n * eps, (kind, n)
                assert np.max(np.abs(w - np.linalg.eigvalsh(symmetric))) < allowed, (kind, n)
                assert np.all(np.diff(w) >= 0)
                assert np.all(np.diff(s) <= 0)


def test_derivatives_of_large_matrices() -> None:
    """Of functions whose derivatives are known without a decomposition, at values of which many are there twice."""
    rng, n = np.random.default_rng(13), 97
    q, c, way = turned(rng, n), *rng.normal(size=(2, n, n))
    a, way = q * (1 + np.arange(n) // 2 / n) @ q.T, way + way.T

    def cubes(a: Any) -> Any:
        w, v = np.linalg.eigh(a)
        return np.sum(c * (v * w**3 @ v.T))

    def again(b: Any) -> Any:
        u, s, v = np.linalg.svd(b, full_matrices=False)
        return np.sum(c[:, :-1] * (u * s**3 @ v))

    def all_of(a: Any, way: Any) -> Any:
        return (sg.grad(cubes)(a), sg.hvp(lambda a: np.sum(np.linalg.eigvalsh(a) ** 3))(a, way),
                sg.grad(again)(a[:, 1:]), sg.hvp(lambda b: np.sum(np.linalg.svdvals(b) ** 4))(a[:, 1:], way[:, 1:]))

    compiled: Any = sg.jit(all_of, options=GENTLY)
    found = compiled(a, way)
    b, d, w = a[:, 1:], c[:, :-1], way[:, 1:]
    of_c = c + c.T
    wanted = [a @ a @ of_c + a @ of_c @ a + of_c @ a @ a, 3 * (a @ way + way @ a),
              d @ b.T @ b + b @ d.T @ b + b @ b.T @ d, 4 * (w @ b.T @ b + b @ w.T @ b + b @ b.T @ w)]
    lower = [wanted[0] - np.diag(np.diag(wanted[0])) / 2, 2 * wanted[1] - np.diag(np.diag(wanted[1]))]
    for one, other in zip(found, [np.tril(x) for x in lower] + wanted[2:], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_the_interpreter_gives_the_same_vectors() -> None:
    """The signs of vectors are the same in C and without it; those of Q are NumPy's, too."""
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 6, 6)), rng.normal(size=(2, 5, 3))
    in_c, interpreted = sg.jit(decomposed)(a, b), sg.jit(decomposed, options=sg.Options(compiler="none"))(a, b)
    for name, found in in_c.items():
        for one, other in zip(found, interpreted[name], strict=True):
            same = slice(3) if name == "svd True" and one.shape[-1] == 5 else slice(None)
            np.testing.assert_allclose(one[..., same], other[..., same], atol=1e-13)
    for mode in ("reduced", "complete"):
        np.testing.assert_allclose(in_c[f"qr {mode}"][0], np.linalg.qr(b, mode)[0], atol=1e-14)


def functions(a: Any, b: Any, c: Any, ones: Any) -> dict[str, Any]:
    """Call what is made of decompositions: of a square matrix, a higher one, a wider one, and right-hand sides."""
    found = {f"cond {p}": np.linalg.cond(a, p) for p in (None, 2, -2, 1, -1, "fro", np.inf, -np.inf)}
    found |= {f"norm {p}": np.linalg.norm(b, p) for p in (2, -2, "nuc")}
    found |= {f"matrix_norm {p}": np.linalg.matrix_norm(c, ord=p) for p in (2, -2, "nuc")}
    for name, x in (("square", a), ("high", b), ("wide", c), ("rank", b @ c)):
        found[f"pinv {name}"] = np.linalg.pinv(x, 1e-6)
    p, q, rank, s = np.linalg.lstsq(c, ones[:4], rcond=None)
    return found | {
        "lstsq": np.linalg.lstsq(b, ones, rcond=None)[0], "lstsq b": np.linalg.lstsq(b, b * ones[:, None], rcond=-1)[0],
        "wide": p, "rest": q, "rank": rank, "s": s, "ranks": np.linalg.matrix_rank(b @ c),
        "cond b": np.linalg.cond(b), "hermitian": np.linalg.svd(a, compute_uv=False, hermitian=True),
        "pinv h": np.linalg.pinv(a, hermitian=True), "tol": np.linalg.matrix_rank(b, tol=1.5),
        "none": np.linalg.matrix_rank(ones), "multi": np.linalg.multi_dot([c, b, c, ones[:, None]]),
        "power": np.linalg.matrix_power(a, -3), "inv": np.linalg.tensorinv(a, 1),
        "rtol": np.linalg.matrix_rank(b, rtol=0.5), "solve": np.linalg.tensorsolve(a, ones[: a.shape[0]]),
        "scipy": [scipy.linalg.pinv(b), scipy.linalg.pinv(c, return_rank=True)[1], scipy.linalg.lstsq(b, ones)[0],
                  *scipy.linalg.polar(b), *scipy.linalg.polar(c, "left"), scipy.linalg.svdvals(b),
                  scipy.linalg.eigvalsh(a, a @ a.T + np.eye(4)), scipy.linalg.eigvalsh(a, lower=False),
                  np.abs(scipy.linalg.eigh(a, c[:, :4] @ c[:, :4].T + np.eye(4), lower=False)[1]),
                  *scipy.linalg.qr(b, pivoting=True), *scipy.linalg.qr(c, pivoting=True, mode="economic"),
                  *scipy.linalg.qr(b), *scipy.linalg.qr(b, mode="economic"), *scipy.linalg.qr(c, mode="r"),
                  np.abs(scipy.linalg.svd(b)[0][:, :4]), scipy.linalg.svd(c)[1],
                  scipy.linalg.eigh(a, eigvals_only=True)],
    }


def given() -> tuple[Any, ...]:
    rng = np.random.default_rng(3)
    return rng.normal(size=(4, 4)), rng.normal(size=(6, 4)), rng.normal(size=(4, 6)), rng.normal(size=6)


@BOTH
def test_functions_of_decompositions(options: Any) -> None:
    arrays = given()
    wanted = functions(*arrays)
    for name, found in sg.jit(functions, options=options)(*arrays).items():
        several = name == "scipy"
        for one, other in zip(found if several else [found], wanted[name] if several else [wanted[name]], strict=True):
            assert np.shape(one) == np.shape(other), name
            assert np.asarray(one).dtype.kind == np.asarray(other).dtype.kind, name
            np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11, err_msg=name)


# -- derivatives


def separate(a: Any) -> Any:
    """Draw values apart, so that differences see no kink."""
    return np.sin(a) + 2 * np.eye(*a.shape) * np.arange(1, a.shape[1] + 1)


def svd_invariant(b: Any) -> Any:
    return sum(np.sum(np.cos(2 * x) * x**2) for x in np.linalg.svd(separate(b), full_matrices=False))


def sines(parts: Any) -> Any:
    return sum(np.sum(np.sin(x)) for x in parts)


def rest(columns: Any) -> Any:
    """Return what the columns that make up a basis say, whichever they are."""
    return np.sum(np.tanh(columns[:, 4:] @ columns[:, 4:].T) * np.arange(6))


# Of a square matrix, a higher one, and a wider one: a function and the places of its arguments.
LOSSES: dict[str, tuple[Any, tuple[int, ...]]] = {
    "eigh": (lambda a: np.sum(np.cos(np.linalg.eigh(separate(a))[1]) * np.linalg.eigh(separate(a), "U")[0]), (0,)),
    "eigvalsh": (lambda a: np.sum(np.sin(np.linalg.eigvalsh(separate(a)))), (0,)),
    "svd square": (svd_invariant, (0,)), "svd": (svd_invariant, (1,)), "svd wide": (svd_invariant, (2,)),
    "svd full": (lambda b: rest(np.linalg.svd(separate(b))[0]), (1,)),
    "qr": (lambda b: sines(np.linalg.qr(separate(b))), (1,)),
    "qr wide": (lambda c: sines(np.linalg.qr(separate(c))), (2,)),
    "qr complete": (lambda b: rest(np.linalg.qr(separate(b), "complete")[0]), (1,)),
    "pinv": (lambda *x: sines(map(np.linalg.pinv, x)), (0, 1, 2)),
    "pinv of rank 4": (lambda b, c: np.sum(np.sin(np.linalg.pinv(b @ c, rcond=1e-8))), (1, 2)),
    "lstsq": (lambda b, c: np.sum(np.linalg.lstsq(b, np.tanh(c.T))[0] ** 3 * c.T[:4, :4]), (1, 2)),
    "lstsq wide": (lambda a, c: np.sum(np.linalg.lstsq(c, np.tanh(a[0]))[0] ** 3), (0, 2)),
    "cond": (lambda a: sum(np.linalg.cond(a, p) for p in (None, -2, 1, -1, "fro", np.inf)), (0,)),
    "cond of a higher one": (np.linalg.cond, (1,)),
    "norms": (lambda *x: sum(np.linalg.norm(each, p) ** 2 for each in x for p in (2, -2, "nuc")), (0, 1, 2)),
    "polar": (lambda b: sines(scipy.linalg.polar(b)), (1,)),
    "generalized": (lambda a, c: np.sum(np.sin(scipy.linalg.eigh(separate(a), c @ c.T + np.eye(4))[1] ** 2)), (0, 2)),
    "products": (lambda a, b, c: np.sum(np.sin(np.linalg.multi_dot([c, b, np.linalg.matrix_power(a, 3)]))), (0, 1, 2)),
}


def every(*x: Any) -> Any:
    return np.stack([loss(*[x[k] for k in places]) for loss, places in LOSSES.values()])


def test_derivatives_to_second_order() -> None:
    """Of all at once: gradients, and Hessians times a direction, against differences; forward against reverse."""
    rng = np.random.default_rng(5)
    at = given()[:3]
    way = tuple([rng.normal(size=x.shape) for x in at])

    def along(h: float) -> Any:
        return tuple([x + h * w for x, w in zip(at, way, strict=True)])

    def slopes(*x: Any) -> Any:
        found = []
        for loss, places in LOSSES.values():
            g = sg.grad(loss, argnums=tuple(range(len(places))))(*[x[k] for k in places])
            found.append(sum(np.sum(one * way[k]) for one, k in zip(g, places, strict=True)))
        return np.stack(found)

    def orders(*x: Any) -> Any:
        return slopes(*x), sg.jvp(every, x, way)[1], sg.jvp(slopes, x, way)[1]

    compiled: Any = sg.jit(orders, options=sg.Options(compiler="none"))
    first, forward, second = compiled(*at)
    np.testing.assert_allclose(first, forward, rtol=1e-9)
    wanted = richardson(lambda h: every(*along(h)), 1e-3)
    bent = richardson(lambda h: compiled(*along(h))[0], 1e-3)
    for k, name in enumerate(LOSSES):
        assert first[k] == pytest.approx(wanted[k], rel=1e-7, abs=1e-8), name
        assert second[k] == pytest.approx(bent[k], rel=1e-6, abs=1e-7), name


def drawn_back(f: Any, w: Any, v: Any) -> Any:
    """Return the gradient of sum(c * f(A)) for a symmetric A, given what c is between its vectors."""
    gap = w[:, None] - w
    near = np.abs(gap) < 1e-9
    slopes = np.where(near, np.cos((w[:, None] + w) / 2), (f(w)[:, None] - f(w)) / np.where(near, 1, gap))
    return slopes * v


@pytest.mark.parametrize("options", [GENTLY, sg.Options(compiler="none")], ids=["C", "interpreter"])
def test_equal_values(options: Any) -> None:
    """What is smooth there has its derivative: functions of vectors their first, functions of values their second."""
    rng = np.random.default_rng(7)
    q, c, way = [np.linalg.qr(rng.normal(size=(4, 4)))[0] + 0, *rng.normal(size=(2, 4, 4))]
    way = way + way.T

    def symmetric(a: Any) -> Any:
        return (a + np.swapaxes(a, -1, -2)) / 2

    def function(a: Any) -> Any:  # of a symmetric matrix
        w, v = np.linalg.eigh(symmetric(a))
        return np.sum(c * ((v * np.sin(w)) @ v.T))

    def projected(a: Any) -> Any:  # on the vectors of a value that is there twice
        v = np.linalg.eigh(symmetric(a))[1][:, 2:]
        return np.sum(c * (v @ v.T))

    def again(b: Any, p: int) -> Any:  # b (b' b)^k for p = 2 k + 1
        u, s, v = np.linalg.svd(b, full_matrices=False)
        return np.sum(c[:, :3] * ((u * s**p) @ v))

    def of_values(a: Any) -> Any:
        return np.sum(np.linalg.eigvalsh(symmetric(a)) ** 3)

    def squares(b: Any) -> Any:
        return np.sum(np.linalg.svd(b, compute_uv=False) ** 2)

    def all_of(a: Any, b: Any, way: Any) -> Any:
        found = [*[sg.grad(f)(a) for f in (function, projected, of_values)], sg.hvp(of_values)(a, way),
                 *[sg.grad(again)(b, p) for p in (1, 3)]]
        if options is GENTLY:  # in C some of them, which are compiled in a few seconds
            return found
        return [*found, sg.grad(squares)(b), sg.hvp(squares)(b, way[:, :3]),
                sg.grad(lambda b: np.linalg.norm(b, "nuc"))(b), sg.hvp(function)(a, way)]

    compiled: Any = sg.jit(all_of, options=options)
    cubic = sg.grad(lambda b: np.sum(c[:, :3] * (b @ b.T @ b)), options=options)
    pair = symmetric(q * [1.0, 1, 3, 3] @ q.T)
    lowrank = np.outer(q[0], q[1][:3])
    for a, b in ((2 * np.eye(4), 2 * np.eye(4, 3)), (pair, lowrank), (np.zeros((4, 4)), np.zeros((4, 3)))):
        w, v = np.linalg.eigh(a)
        found = compiled(a, b, way)
        wanted = [v @ drawn_back(np.sin, w, v.T @ symmetric(c) @ v) @ v.T, None, 3 * a @ a, 3 * (a @ way + way @ a),
                  c[:, :3], cubic(b), 2 * b, 2 * way[:, :3]]
        if a is pair:
            p = v[:, 2:] @ v[:, 2:].T
            wanted[1] = symmetric(2 * (np.eye(4) - p) @ symmetric(c) @ p) / 2  # 2 is the gap
        for one, other in zip(found, wanted, strict=False):
            if other is not None:
                np.testing.assert_allclose(one, other, atol=1e-12)
        for one in found[8:9]:
            assert np.all(np.isfinite(one))
        for one in found[9:]:  # the slope of a limit is not known, and says so
            assert not np.any(np.isfinite(one))


ERRORS: dict[str, tuple[Any, Any, type[Exception], str]] = {
    "eigh": (np.linalg.eigh, np.diag([1.0, np.nan]), LinAlgError, "Eigenvalues did not converge"),
    "infinite": (np.linalg.eigvalsh, np.diag([1.0, np.inf]), LinAlgError, "Eigenvalues did not converge"),
    "svd": (np.linalg.svd, np.array([[1.0, np.nan]]), LinAlgError, "SVD did not converge"),
    "of one in a batch": (
        lambda a: np.linalg.norm(a, "nuc", (1, 2)), np.array([[[1.0]], [[np.inf]]]), LinAlgError, "SVD did not"),
    "large": (np.linalg.eigh, np.where(np.eye(99, k=-9), np.nan, 1.0), LinAlgError, "Eigenvalues did not converge"),
    "large in a batch": (
        np.linalg.svd, np.stack([np.ones((97, 99)), np.full((97, 99), np.inf)]), LinAlgError, "SVD did not converge"),
    "not square": (np.linalg.eigh, np.ones((2, 3)), NotSquare, r"eigh: .*\(2, 3\)"),
    "a vector": (np.linalg.svd, np.ones(3), NotSquare, "svd: 1-dimensional array"),
    "no matrix": (np.linalg.qr, np.ones(3), NotSquare, "qr: 1-dimensional array"),
    "triangle": (lambda a: LINALG.eigh(a, "X"), np.eye(2), ArgumentValueError, "UPLO argument must be 'L' or 'U'"),
    "mode": (lambda a: LINALG.qr(a, "no"), np.eye(2), ArgumentValueError, "Unrecognized mode 'no'"),
    "raw": (lambda a: np.linalg.qr(a, "raw"), np.eye(2), UnsupportedError, "mode='raw'"),
    "scipy raw": (lambda a: scipy.linalg.qr(a, mode="raw"), np.eye(2), UnsupportedError, "mode='raw'"),
    "some": (lambda a: scipy.linalg.eigh(a, subset_by_index=[0, 0]), np.eye(2), UnsupportedError, "some eigenvalues"),
    "rows": (lambda a: np.linalg.lstsq(a, a[:1]), np.eye(2), LinAlgError, r"lstsq: \(2, 2\) and \(1, 2\)"),
    "both": (lambda a: np.linalg.pinv(a, 1e-3, rtol=1e-3), np.eye(2), ArgumentValueError, "can't be both set"),
    "empty": (np.linalg.cond, np.ones((0, 2)), LinAlgError, "cond is not defined on empty arrays"),
    "side": (lambda a: scipy.linalg.polar(a, "up"), np.eye(2), ArgumentValueError, "either 'right' or 'left'"),
}


@pytest.mark.parametrize("name", ERRORS)
@BOTH
def test_what_is_refused(name: str, options: Any) -> None:
    function, given, kind, message = ERRORS[name]

    def called(a):
        return function(a)

    with pytest.raises(kind, match=message) as error:
        sg.jit(called, options=options)(given)
    assert isinstance(error.value, SymgradError)
    assert error.value.line is not None
    assert error.value.line.file == __file__


def test_of_batches() -> None:
    """What `vmap` makes of a gradient is that of each, with extents that are not known, too."""
    rng = np.random.default_rng(9)

    def loss(a: Any, b: Any) -> Any:
        w, v = np.linalg.eigh(a)
        u, s, t = np.linalg.svd(b, full_matrices=False)
        total = np.sum(np.sin(w) * v**2) + np.sum(u**2) + np.sum(s[:, None] * t**4)
        return total + np.sum(np.linalg.qr(b)[1] ** 2) + np.linalg.matrix_rank(b) * np.sum(b)

    slopes: Any = sg.grad(loss, argnums=(0, 1), specs=("f64[n,n]", "f64[m,k]"), options=GENTLY)
    a, b = rng.normal(size=(3, 4, 4)), rng.normal(size=(3, 3, 5))
    together: Any = sg.vmap(sg.grad(loss, argnums=(0, 1)), options=GENTLY)(a, b)
    for found, *each in zip(together, *map(slopes, a, b), strict=True):
        np.testing.assert_allclose(found, np.stack(each), atol=1e-12)


def test_a_pseudo_inverse_that_is_cut_has_no_derivative():
    """Golub's and Pereyra's is that of a matrix of the rank; one that is cut to it has further singular values."""
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(5, 3)), rng.normal(size=5)
    deficient = a @ rng.normal(size=(3, 3)) @ np.diag([1.0, 1.0, 0.0]) @ rng.normal(size=(3, 3))
    for f in (
        lambda a, cut: np.sum(np.sin(np.linalg.pinv(a, rcond=cut))),
        lambda a, cut: np.sum(np.linalg.lstsq(a, b, rcond=cut)[0] ** 2),
    ):
        values = sg.jit(f, static_argnums=1)
        slopes = sg.grad(f, static_argnums=1)
        np.testing.assert_allclose(values(a, 0.5), f(a, 0.5), rtol=1e-12)
        assert np.all(np.isnan(slopes(a, 0.5)))
        assert np.all(np.isfinite(slopes(a, 1e-9)))
        assert np.all(np.isfinite(slopes(deficient, 1e-9)))
