"""Linear algebra: what NumPy and SciPy give, its derivatives, and what is refused or fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

import symgrad as sg
from symgrad.errors import ArgumentValueError, DtypeError, LinAlgError, ShapeError, SymgradError
from symgrad.ops.linalg.products import NotSquare

INTERPRETED = sg.Options(compiler="none")
BOTH = pytest.mark.parametrize("options", [None, INTERPRETED], ids=["C", "interpreter"])
TRIANGULAR, CHO = sg.linalg.solve_triangular, sg.linalg.cho_solve
SIZES = (0, 1, 2, 3, 5, 8, 9, 50, 65, 300)


def drawn(n: int, dtype: Any = np.float64) -> tuple[Any, ...]:
    """Draw a positive definite matrix, any matrix, a vector, three columns and more columns than rows."""
    rng = np.random.default_rng(n)
    a = rng.normal(size=(n, n))
    arrays = (a @ a.T + n * np.eye(n), a + np.eye(n), *[rng.normal(size=s) for s in ((n,), (n, 3), (n, n + 5))])
    return tuple([np.asarray(x, dtype) for x in arrays])


def flat(P: Any) -> Any:
    """Scale a matrix so that its triangles with a unit diagonal are not far from a unit matrix."""
    return P / np.asarray(P.shape[0] ** 2 + 1.0, P.dtype)


def everything(P: Any, A: Any, b: Any, few: Any, many: Any) -> dict[str, Any]:
    """Call everything there is, of triangles in every way."""
    found = {
        "cholesky": np.linalg.cholesky(P), "upper": np.linalg.cholesky(P, upper=True), "inv": np.linalg.inv(P),
        "det": np.linalg.det(A), "slogdet": tuple(np.linalg.slogdet(A)), "power": np.linalg.matrix_power(P, -2),
        "columns": np.linalg.solve(P.T, many[:, ::2]), "transposed": np.linalg.solve(A.T, few),
    }
    for name, right in (("b", b), ("few", few), ("many", many)):
        found |= {f"solve {name}": np.linalg.solve(A, right)}
        for lower in (False, True):
            found[f"cho {name} {lower}"] = CHO((np.linalg.cholesky(P, upper=not lower), lower), right)
            for trans in (0, "T"):
                for unit in (False, True):
                    x = TRIANGULAR(flat(P), right, trans, lower, unit)
                    found[f"triangular {name} {lower} {trans} {unit}"] = x
    return found




@pytest.fixture(scope="module", params=[np.float64, np.float32], ids=["f64", "f32"])
def compiled(request) -> Any:
    """Compile all of it once, with extents that are not known."""
    kind = {np.float64: "f64", np.float32: "f32"}[request.param]
    specs = [f"{kind}[{shape}]" for shape in ("n,n", "n,n", "n", "n,3", "n,m")]
    return request.param, sg.jit(everything, specs=tuple(specs))


def agree(found: Any, wanted: Any, tolerance: float, name: str) -> None:
    """Compare with the largest element."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape, name
    assert found.dtype == wanted.dtype, name
    scale = np.max(np.abs(wanted[np.isfinite(wanted)]), initial=1e-30)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * scale, err_msg=name)


@pytest.mark.parametrize("n", SIZES)
def test_values_with_unknown_extents(compiled: Any, n: int) -> None:
    """One compiled function serves every size: blocks, parts of blocks, one element, none."""
    dtype, function = compiled
    arrays = drawn(n, dtype)
    with np.errstate(all="ignore"):  # a determinant in single precision
        wanted = {name: np.asarray(value) for name, value in everything(*arrays).items()}
    wanted |= {f"triangular {name} {lower} {trans} {unit}": scipy.linalg.solve_triangular(
        flat(arrays[0]), right, trans=trans, lower=lower, unit_diagonal=unit)
        for name, right in zip(("b", "few", "many"), arrays[2:], strict=True)
        for lower in (False, True) for trans in (0, "T") for unit in (False, True) if n}
    for name, value in function(*arrays).items():
        agree(np.asarray(value), wanted[name], (1e-11 if dtype is np.float64 else 3e-3) * (1 + n / 50), name)


@pytest.mark.parametrize("n", [1, 2, 3, 8, 9, 50])
@BOTH
def test_values_with_known_extents(n: int, options: Any) -> None:
    arrays = drawn(n)
    wanted = everything(*arrays)
    for name, value in sg.jit(everything, options=options)(*arrays).items():
        agree(np.asarray(value), np.asarray(wanted[name]), 1e-11 * (1 + n / 50), name)


def test_layouts() -> None:
    """Fortran order, every other element, a row of a larger array, reversed."""
    P, A, b, few, many = drawn(9)

    def solved(P, A, b, few):
        return np.linalg.cholesky(P), np.linalg.solve(A, b), np.linalg.solve(A[::-1], few[::-1])

    function = sg.jit(solved)
    wide = np.zeros((18, 27))
    wide[::2, ::3] = A
    for given in (
        (np.asfortranarray(P), np.asfortranarray(A), b, np.asfortranarray(few)), (P, wide[::2, ::3], many[:, 3], few),
        (P, A.T, np.repeat(b, 2)[::2], few[::-1]),
    ):
        for found, wanted in zip(function(*given), solved(*given), strict=True):
            agree(found, wanted, 1e-13, "")


def test_batches_broadcast() -> None:
    """A matrix for many right-hand sides, a right-hand side for many matrices, as NumPy."""
    rng = np.random.default_rng(2)
    A, one = rng.normal(size=(4, 1, 5, 5)) + 4 * np.eye(5), rng.normal(size=(5, 5)) + 4 * np.eye(5)
    b, v = rng.normal(size=(3, 5, 2)), rng.normal(size=5)

    def solved(A, one, b, v):
        found = [np.linalg.solve(A, b), np.linalg.solve(one, b), np.linalg.solve(A, v), np.linalg.inv(A)]
        return [*found, np.linalg.det(A), *np.linalg.slogdet(A), np.linalg.cholesky(A @ np.swapaxes(A, -1, -2))]

    for found, wanted in zip(sg.jit(solved)(A, one, b, v), solved(A, one, b, v), strict=True):
        agree(found, wanted, 1e-13, "")
    low = np.tril(A)
    x = sg.jit(lambda low, b: TRIANGULAR(low, b, lower=True))(low, b)
    np.testing.assert_allclose(low @ x, np.broadcast_to(b, x.shape), atol=1e-13)
    np.testing.assert_allclose(TRIANGULAR(low, b, lower=True), x, atol=1e-14)


@pytest.mark.parametrize("threads", [1, 2])
def test_large_batches(threads: int) -> None:
    """Batches are shared out among threads; each matrix is done by one, so that the bits are the same."""
    rng = np.random.default_rng(3)
    A, b = rng.normal(size=(60_000, 4, 4)) + 4 * np.eye(4), rng.normal(size=(60_000, 4))

    def loss(A, b):
        return np.sum(np.linalg.solve(A, b[..., None]) ** 2)

    function = sg.value_and_grad(loss, options=sg.Options(threads=threads))
    value, slope = function(A, b)
    x = np.linalg.solve(A, b[..., None])
    assert value == pytest.approx(np.sum(x**2), rel=1e-12)
    wanted = -np.linalg.solve(np.swapaxes(A, -1, -2), 2 * x) @ np.swapaxes(x, -1, -2)
    agree(slope, wanted, 1e-12, "")
    assert np.array_equal(slope, sg.grad(loss, options=sg.Options(threads=1))(A, b))
    assert ("omp parallel" in function.c_source) == (threads != 1)
    A[41_000, 2] = 0
    with pytest.raises(LinAlgError, match="Singular matrix"):
        function(A, b)


# -- what fails


FAILING: dict[str, tuple[Any, Any, str]] = {
    "solve": (lambda a: np.linalg.solve(a, a[0]), np.ones((3, 3)), "Singular matrix"),
    "inv": (np.linalg.inv, np.zeros((2, 2)), "Singular matrix"),
    "batch": (np.linalg.inv, np.stack([np.eye(2), np.ones((2, 2))]), "Singular matrix"),
    "cholesky": (np.linalg.cholesky, np.diag([1.0, -1.0]), "Matrix is not positive definite"),
    "not definite": (np.linalg.cholesky, np.ones((70, 70)) - 1e-3 * np.eye(70), "Matrix is not positive definite"),
    "triangular": (lambda a: TRIANGULAR(a, a[0]), np.diag([1.0, 0.0, 1.0]), "Singular matrix"),
    "only a gradient": (sg.grad(lambda a: np.sum(np.linalg.inv(a))), np.ones((3, 3)), "Singular matrix"),
    "named": (sg.jit(np.linalg.inv, specs=("f64[n,n]",)), np.ones((3, 3)), "Singular matrix"),
}


@pytest.mark.parametrize("name", FAILING)
@BOTH
def test_what_numpy_refuses_at_run_time_is_refused(name: str, options: Any) -> None:
    function, given, message = FAILING[name]

    def called(a):
        return function(a)

    with pytest.raises(np.linalg.LinAlgError, match=message) as error:
        sg.jit(called, options=options)(given)
    assert isinstance(error.value, SymgradError)
    assert error.value.line is not None
    assert error.value.line.file == __file__


def test_failures_of_other_calls() -> None:
    """Of bound calls, and of calls of few arguments."""
    function: Any = sg.jit(np.linalg.inv)
    assert np.array_equal(function(np.eye(2)), np.eye(2))
    for _ in range(3):
        with pytest.raises(LinAlgError, match=r"Singular matrix\n  at .*test_linalg.py"):
            function(np.ones((2, 2)))
    a = np.eye(2)
    bound = function.bind(a)
    bound()
    a[...] = 1
    with pytest.raises(LinAlgError, match="Singular matrix"):
        bound()


@BOTH
def test_nan_is_no_failure(options: Any) -> None:
    nan = np.full((3, 3), np.nan)
    assert np.all(np.isnan(sg.jit(np.linalg.inv, options=options)(nan)))
    assert np.all(np.isnan(sg.jit(np.linalg.cholesky, options=options)(nan)[np.tri(3) > 0]))


REFUSED: list[tuple[Any, tuple[Any, ...], Any, str]] = [
    (np.linalg.inv, ((2, 3),), NotSquare, r"inv: Last 2 dimensions of the array must be square, not \(2, 3\)"),
    (np.linalg.cholesky, ((3,),), NotSquare, "1-dimensional array given. Array must be at least two-dimensional"),
    (np.linalg.det, ((),), NotSquare, "0-dimensional array given"),
    (np.linalg.slogdet, ((4, 5),), NotSquare, r"slogdet: .*\(4, 5\)"),
    (np.linalg.solve, ((2, 3), (3,)), NotSquare, r"solve: .*\(2, 3\)"),
    (np.linalg.solve, ((3, 3), (4,)), ShapeError, r"solve: a matrix \(3, 3\) and right-hand sides \(4,\) do not fit"),
    (np.linalg.solve, ((3, 3), (2, 3)), ShapeError, r"solve: a matrix \(3, 3\) and right-hand sides \(2, 3\) do not"),
    (np.linalg.solve, ((3, 3), ()), ShapeError, r"right-hand sides \(\) do not fit"),
    (np.linalg.solve, ((2, 3, 3), (4, 3, 1)), ShapeError, r"\(2, 3, 3\) and .* \(4, 3, 1\) do not fit"),
    (TRIANGULAR, ((2, 2), (3,)), ShapeError, r"solve_triangular: a matrix \(2, 2\) and right-hand sides \(3,\)"),
    (TRIANGULAR, ((2, 3), (3,)), NotSquare, r"solve_triangular: .*\(2, 3\)"),
    (lambda a, b: CHO((a, True), b), ((2, 2), (3,)), ShapeError, r"cho_solve: a matrix \(2, 2\)"),
    (lambda a, b: CHO((a, True), b), ((2, 3), (3,)), NotSquare, r"cho_solve: .*\(2, 3\)"),
    (lambda a, b: TRIANGULAR(a, b, trans="X"), ((2, 2), (2,)), ArgumentValueError, r"trans='X'\)(.|\n)*\"T\""),
]


@pytest.mark.parametrize(("function", "shapes", "kind", "message"), REFUSED)
def test_what_is_refused_while_tracing(function: Any, shapes: Any, kind: Any, message: str) -> None:
    def called(*arrays):
        return function(*arrays)

    with pytest.raises(kind, match=message) as error:
        sg.jit(called)(*[np.ones(shape) for shape in shapes])
    assert error.value.line.file == __file__


# -- plain arrays, dtypes


def test_of_plain_arrays() -> None:
    """`sg.linalg` works on arrays without a trace; SciPy's functions on those that a traced function has."""
    P, _, b, few, _ = drawn(4)
    factor = sg.linalg.cho_factor(P)
    np.testing.assert_allclose(np.triu(scipy.linalg.cho_factor(P)[0]), factor[0], rtol=1e-14)
    np.testing.assert_allclose(CHO(factor, b), np.linalg.solve(P, b), rtol=1e-13)
    np.testing.assert_allclose(CHO(sg.linalg.cho_factor(P, lower=True), few), np.linalg.solve(P, few), rtol=1e-12)
    np.testing.assert_allclose(TRIANGULAR(P, b), scipy.linalg.solve_triangular(P, b), rtol=1e-14)
    known = scipy.linalg.cho_factor(P)
    inside = sg.jit(lambda v: v @ scipy.linalg.cho_solve(known, b) + v @ CHO(known, v))
    assert inside(b) == pytest.approx(2 * b @ np.linalg.solve(P, b))
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        TRIANGULAR(np.zeros((2, 2)), b[:2])
    for kind in (np.float16, np.complex128):
        with pytest.raises(DtypeError, match=f"array type {np.dtype(kind)} is unsupported"):
            TRIANGULAR(np.eye(2, dtype=kind), b[:2])


@pytest.mark.parametrize("kinds", ["ff", "df", "fd", "if", "id", "?i", "bf", "dd"])
def test_dtypes_are_numpys(kinds: str) -> None:
    a, b = np.asarray([[2, 1], [1, 1]], kinds[0]), np.asarray([1, 3], kinds[1])

    def found(a, b):
        return np.linalg.solve(a, b), np.linalg.inv(a), np.linalg.det(a), np.linalg.slogdet(a)[1]

    if kinds[0] == "?":
        a = np.array([[True, True], [False, True]])
    for ours, numpys in zip(sg.jit(found)(a, b), found(a, b), strict=True):
        assert np.asarray(ours).dtype == np.asarray(numpys).dtype
        np.testing.assert_allclose(ours, numpys, rtol=1e-6, atol=1e-6)
