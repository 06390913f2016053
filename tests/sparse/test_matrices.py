"""SciPy's sparse matrices: as arguments, as results, and from outside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg

import symgrad as sg

RNG = np.random.default_rng(3)
D = RNG.normal(size=(5, 7)) * (RNG.random((5, 7)) < 0.4)
D[2], D[4, 0] = 0.0, 1.5  # an empty row
W, X, Y, B, R = [RNG.normal(size=shape) for shape in ((7, 3), 7, 5, (5, 7), (3, 5))]
ARRAYS = (sp.csr_array, sp.csc_array, sp.coo_array)
MATRICES = (sp.csr_matrix, sp.csc_matrix, sp.coo_matrix)

BOTH: dict[str, Any] = {
    "S @ W": lambda S: S @ W, "S @ x": lambda S: S @ X, "S.T @ y": lambda S: S.T @ Y, "R @ S": lambda S: R @ S,
    "y @ S": lambda S: Y @ S, "dot": lambda S: S.dot(W) + S.dot(2.0) @ W, "S.T @ (S @ W)": lambda S: S.T @ (S @ W),
    "multiply": lambda S: S.multiply(B).toarray(), "a row": lambda S: S.multiply(X).toarray(),
    "a column": lambda S: S.multiply(Y[:, None]).toarray(), "multiples": lambda S: (2.0 * (-S) / 3.0).toarray(),
    "one number": lambda S: S.multiply(np.ones((1, 1))).toarray(), "sum": lambda S: S.sum(),
    "diagonals": lambda S: (S.diagonal(), S.diagonal(1), S.diagonal(-2), S.diagonal(9), S.trace()),
    "its values": lambda S: np.sin(S.data), "its size": lambda S: S.nnz + S.shape[0] * X,
}
OF_ARRAYS: dict[str, Any] = {
    "sums": lambda S: (S.sum(axis=0), S.sum(1), S.mean(axis=-1), S.mean(), np.sum(S)), "plus": lambda S: (S + B, B + S),
    "minus": lambda S: (S - B, B - S), "elementwise": lambda S: (S * B).toarray(),
}


def flat(value: Any) -> Any:
    return np.concatenate([np.ravel(part) for part in (value if isinstance(value, tuple) else (value,))])


@pytest.mark.parametrize("kind", [*ARRAYS, *MATRICES], ids=lambda kind: kind.__name__)
def test_values_and_derivatives(kind: Any) -> None:
    """Against SciPy's own, and Richardson's differences by the elements; from outside as well."""
    functions = [*BOTH.values(), *(OF_ARRAYS.values() if kind in ARRAYS else [])]
    matrix, direction = kind(D), kind(D)
    direction.data = RNG.normal(size=matrix.nnz)

    def every(S: Any) -> Any:
        return [f(S) for f in functions]

    for found in (sg.jit(every)(matrix), sg.jit(lambda zero: [f(matrix * (1.0 + zero)) for f in functions])(0.0)):
        for one, other in zip(found, every(matrix), strict=True):
            assert flat(one).shape == flat(other).shape
            np.testing.assert_allclose(flat(one), flat(other), rtol=1e-13, atol=1e-13)

    def loss(S: Any) -> Any:
        return sum(np.sum(np.tanh(flat(f(S)))) for f in functions)

    slope = sg.grad(loss)(matrix)
    assert type(slope) is kind
    np.testing.assert_array_equal(slope.indices if kind not in {sp.coo_array, sp.coo_matrix} else slope.row,
                                  matrix.indices if kind not in {sp.coo_array, sp.coo_matrix} else matrix.row)

    def at(h: float, f: Any) -> Any:
        moved = matrix.copy()
        moved.data = matrix.data + h * direction.data
        return f(moved)

    def differences(f: Any) -> Any:
        d = [(at(h, f) - at(-h, f)) / (2 * h) for h in (1e-3, 2e-3)]
        return (4 * d[0] - d[1]) / 3

    np.testing.assert_allclose(slope.data @ direction.data, differences(loss), rtol=1e-8)
    along = sg.hvp(loss)(matrix, direction)
    assert type(along) is kind
    np.testing.assert_allclose(along.data, differences(lambda S: sg.grad(loss)(S).data), rtol=1e-6, atol=1e-8)


def test_modes() -> None:
    matrix = sp.csr_array(D)

    def f(S: Any, x: Any) -> Any:
        return np.sum(np.tanh(S @ x) ** 2)

    value, along = sg.jvp(f, (matrix, X), (matrix, X))
    _, pull = sg.vjp(f, matrix, X)
    by_matrix, by_x = pull(1.0)
    np.testing.assert_allclose(along, by_matrix.data @ matrix.data + by_x @ X, rtol=1e-12)
    np.testing.assert_allclose(sg.linearize(f, matrix, X)[1](matrix, X), along, rtol=1e-12)
    np.testing.assert_allclose(value, f(matrix, X))
    slope, changed = sg.jvp(sg.grad(f), (matrix, X), (matrix, np.zeros(7)))
    np.testing.assert_array_equal(changed.indices, slope.indices)
    many = RNG.normal(size=(6, 7, 3))
    expected = np.stack([matrix @ one for one in many])
    np.testing.assert_allclose(sg.vmap(lambda S, W: S @ W, (None, 0))(matrix, many), expected, atol=1e-13)
    np.testing.assert_allclose(sg.vmap(lambda W: W.T @ matrix.T)(many), expected.swapaxes(1, 2), atol=1e-13)
    hessian = sg.hessian(lambda x: f(matrix, x))(X)
    dense = sg.hessian(lambda x: np.sum(np.tanh(D @ x) ** 2))(X)
    np.testing.assert_allclose(hessian, dense, rtol=1e-11, atol=1e-12)
    for wrong, given in ((lambda S: S.sum(), matrix), (lambda x: 2 * matrix.multiply(x), many[..., 0])):
        with pytest.raises(sg.SymgradError, match="a RowSparse or a sparse matrix"):
            sg.vmap(wrong)(given)


def test_results_are_scipys_and_other_sizes_compile_little() -> None:
    product = sg.jit(lambda S, x: S @ x)
    for k in range(6):
        matrix = sp.random_array((9, 7), density=0.12 * k, rng=RNG, format="csr")
        np.testing.assert_allclose(product(matrix, X), matrix @ X, atol=1e-13)
    assert product.cache_info().compilations <= 3
    twice, turned = sg.jit(lambda S: (2 * S, S.T))(sp.csr_array(D))
    assert (type(twice), type(turned)) == (sp.csr_array, sp.csc_array)
    np.testing.assert_array_equal(turned.toarray(), D.T)
    repeated = sp.coo_array(([1.0, 2.0, 3.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 3))  # (0, 1) twice
    np.testing.assert_array_equal(sg.jit(lambda S: S @ np.arange(3.0))(repeated), [3.0, 0.0])
    slope = sg.grad(lambda S: np.sum(S.multiply(S.toarray()).data))(repeated)
    np.testing.assert_array_equal(slope.data, [6.0, 6.0, 6.0])


@pytest.mark.parametrize(("kind", "other"), [("f4", "f4"), ("f4", "f8"), ("i4", "f8"), ("i4", "i8"), ("f8", "f4")])
def test_types(kind: str, other: str) -> None:
    matrix, x = sp.csr_array((3 * D).astype(kind)), (3 * X).astype(other)
    found, sums = sg.jit(lambda S, x: (S @ x, S.sum(axis=0)))(matrix, x)
    expected = matrix @ x, matrix.sum(axis=0)
    for one, want in zip((found, sums), expected, strict=True):
        assert one.dtype == want.dtype
        np.testing.assert_allclose(one, want, rtol=1e-5, atol=1e-6)


def test_no_dense_matrix_is_made() -> None:
    matrix = sp.random_array((3000, 2000), density=0.002, rng=RNG, format="csr")
    f = sg.value_and_grad(lambda S, W: np.sum(np.tanh(S @ W) ** 2), (0, 1))
    dense = RNG.normal(size=(2000, 4))
    value, (by_matrix, by_dense) = f(matrix, dense)
    assert f.memory(matrix, dense).peak < 3000 * 2000
    inner = np.tanh(matrix @ dense)
    cotangent = 2 * inner * (1 - inner**2)
    np.testing.assert_allclose(value, np.sum(inner**2))
    np.testing.assert_allclose(by_dense, matrix.T @ cotangent, rtol=1e-13, atol=1e-13)
    places = matrix.tocoo()
    row, column = places.row, places.col
    np.testing.assert_allclose(by_matrix.data, np.sum(cotangent[row] * dense[column], 1), rtol=1e-12, atol=1e-13)


def test_columns_are_innermost() -> None:
    """What an element adds to is looked up: that loop has no lanes, and leaps."""
    matrix, product = sp.coo_array(np.ones((5, 70))), sg.jit(lambda S, W: S @ W)
    text = product.lower(matrix, RNG.normal(size=(70, 16))).as_text("loops")
    assert "i<350 tile 64 { i<350 {  }; i<350 { j<16 simd {  } } }" in text
    text = product.lower(matrix.tocsr(), RNG.normal(size=(70, 16))).as_text("loops")
    assert "i<5 { i<16 simd {  }; while { j<16 simd {  } }; i<16 simd {  } }" in text


def test_rows_are_loops_over_their_elements() -> None:
    """Empty rows, one element, none; unknown sizes; verified, and to the same bits with any number of threads."""
    def every(S: Any, x: Any, y: Any) -> list[Any]:
        W = np.stack([x, x * x, 1 - x], axis=1)
        return [S @ x, S.T @ y, S.sum(axis=1), S @ W, S + y[:, None] * x, S.multiply(y[:, None]) @ x, S.diagonal(1)]

    compiled = sg.jit(every, options=sg.Options(verify=True))
    some = sp.csr_array(np.array([[0, 0, 0], [1.5, 0, -2], [0, 0, 0], [0, 3, 0], [0, 0, 0]]))
    sizes = [some, sp.csr_array(some.toarray() * [1, 0, 0]), sp.csr_array((5, 3)), sp.csr_array(np.ones((5, 3)))]
    for one in (*sizes, some.astype(np.float32), sp.csr_array(np.ones((1, 3))), sp.csr_array((0, 3))):
        kind = np.int64 if one.nnz == 3 else np.int32
        one.indptr, one.indices = one.indptr.astype(kind), one.indices.astype(kind)
        x, y = RNG.normal(size=3).astype(one.dtype), RNG.normal(size=one.shape[0]).astype(one.dtype)
        for number, (found, want) in enumerate(zip(compiled(one, x, y), every(one, x, y), strict=True)):
            np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-6, err_msg=f"{one!r}, {number}")
    big = sp.random_array((30_000, 20_000), density=2e-3, rng=RNG, format="csr")
    x, found, threads = RNG.normal(size=20_000), [], sg.get_num_threads()
    product = sg.jit(lambda S, x: S @ x, options=sg.Options(verify=True))
    try:
        for count in (1, 2, 3):
            sg.set_num_threads(count)
            found.append(product(big, x))
    finally:
        sg.set_num_threads(threads)
    assert "threads {" in product.lower(big, x).as_text("loops")
    assert all(np.array_equal(one, found[0]) for one in found)
    np.testing.assert_allclose(found[0], big @ x, rtol=1e-11, atol=1e-12)
    assert product.cost(big, x).flops == 2 * big.nnz
    for part, place in (("indptr", -1), ("indices", big.nnz // 2)):
        wrong = big.copy()
        getattr(wrong, part)[place] = big.nnz + 7
        with pytest.raises(IndexError, match="out of bounds"):
            product(wrong, x)


def test_what_is_outside_may_change() -> None:
    matrix = sp.csr_array(D)
    product = sg.jit(lambda x: matrix @ x)
    before = product(X)
    matrix.data *= 2
    np.testing.assert_allclose(product(X), 2 * before)


@pytest.mark.parametrize("kind", ["csr_array", "csc_array", "coo_array", "lil_array", "dok_array", "dok_matrix"])
def test_places_outside_may_change(kind: str) -> None:
    """Of any kind that makes an array: what is compiled is that of the matrix as it is in each call."""
    matrix, x = getattr(sp, kind)(np.array([[1.0, 2.0], [0.0, 3.0]])), np.array([1.0, 10.0])
    product = sg.jit(lambda x: matrix.toarray() @ x)
    np.testing.assert_array_equal(product(x), [21.0, 30.0])
    if kind == "coo_array":
        matrix.coords[0][0] = 1
    elif kind[:2] == "cs":
        matrix.indices[0] = 1
    else:
        matrix[0, 0] = 7.0
    np.testing.assert_array_equal(product(x), matrix.toarray() @ x)
    assert not np.array_equal(product(x), [21.0, 30.0])


S = sp.csr_array(D)


@pytest.mark.parametrize(("wrong", "message"), [
    (lambda S, _: S @ S, "csr_array.@ of two sparse matrices"), (lambda S, _: S.power(2), "csr_array.power"),
    (lambda S, _: S**2, r"csr_array \*\* x"), (lambda S, _: S[0], "csr_array.__getitem__"),
    (lambda S, _: S.max(), "csr_array.max"), (lambda S, _: S.tocoo(), "csr_array.tocoo"),
    (lambda S, _: abs(S), "csr_array.__abs__"), (lambda S, _: S > 0, "csr_array > x"),
    (lambda S, _: np.asarray(S), "csr_array.__array__"), (lambda S, _: S.multiply(S), "multiply of two sparse"),
    (lambda S, _: S + S, r"csr_array.\+ of two sparse"), (lambda S, x: S @ x[:2], r"\(5, 7\) and an array \(2,\)"),
    (lambda S, x: S.multiply(x[:2]), r"multiply: a matrix \(5, 7\)"),
    (lambda S, x: S + x, r"\(5, 7\) and an array \(7,\)"), (lambda S, _: S.sum(axis=2), "sum"),
    (lambda S, _: S.sum(dtype=int), "sum"), (lambda S, _: S.nothing, "nothing"),
    (lambda S, x: scipy.sparse.linalg.spsolve(S, 2 * x), "spsolve"),
    (lambda _, x: sp.csr_matrix(D).multiply(x).sum(1), "csr_matrix gives an np.matrix"),
    (lambda _, x: sp.csr_matrix(D).multiply(x).todense(), "np.matrix"),
    (lambda _, x: sp.dok_array(D) @ x, "dok_array"),
])
def test_others_are_refused_by_their_names(wrong: Any, message: str) -> None:
    with pytest.raises((sg.SymgradError, AttributeError), match=rf"(?s){message}.*test_matrices.py"):
        sg.jit(wrong)(S, X)


def test_kinds_that_are_no_arguments() -> None:
    for kind in ("dia_array", "bsr_array", "lil_array", "dok_array", "dok_matrix"):
        other = getattr(sp, kind)(D)
        with pytest.raises(sg.SymgradError, match=rf"argument S is scipy.sparse\S+{kind}(?s:.*)S.tocsr\(\)"):
            sg.jit(lambda S: S @ X)(other)
        with pytest.raises(sg.SymgradError, match=rf"{kind}(?s:.*)\['S'\].tocsr\(\)"):
            sg.grad(lambda x, p: np.sum(p["S"] @ x))(X, {"S": other})
        with pytest.raises(sg.SymgradError, match=rf"{kind} @ x has no answer"):
            sg.jit(lambda x, other=other: other @ x)(X)
    assert sg.jit(lambda S: S.shape[0] * isinstance(S, sp.csr_array) * sp.issparse(S) * np.ones(1))(S) == 5
    damaged = sp.csr_array(D)
    damaged.indices[0] = 9
    with pytest.raises(IndexError, match="out of bounds"):
        sg.jit(lambda S: S @ X)(damaged)
    with pytest.raises(sg.SymgradError, match=r"'S\.data', which is int64"):
        sg.grad(lambda S: np.sum(S @ X))(sp.csr_array(D.astype(int)))
