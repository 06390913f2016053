"""Sums of products in register blocks: any contraction, any strides, any extents, equal to NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg

ONE = sg.Options(threads=1)

# name, function, shapes
CONTRACTIONS = [
    ("rows by columns", lambda a, b: a @ b, [(9, 17), (17, 21)]),
    ("left transposed", lambda a, b: a.T @ b, [(17, 9), (17, 21)]),
    ("right transposed", lambda a, b: a @ b.T, [(9, 17), (21, 17)]),
    ("result transposed", lambda a, b: (a @ b).T + 1.0, [(9, 17), (17, 21)]),
    ("deeper than a panel", lambda a, b: a @ b, [(5, 700), (700, 19)]),
    ("longer than a tile", lambda a, b: a @ b, [(150, 33), (33, 40)]),
    ("batched", lambda a, b: a @ b, [(3, 9, 10), (3, 10, 11)]),
    ("batched against one", lambda a, b: a @ b, [(3, 9, 10), (10, 11)]),
    ("batch last", lambda a, b: np.einsum("ikb,kjb->ijb", a, b), [(9, 10, 5), (10, 11, 5)]),
    ("two summed axes", lambda a, b: np.einsum("ikl,klj->ij", a, b), [(9, 6, 10), (6, 10, 11)]),
    ("clusters", lambda a, b: np.einsum("kde,nke->nkd", a, b), [(12, 9, 9), (40, 12, 9)]),
    ("a part of each", lambda a, b: a[2:, 1:-1] @ b[::2, ::-1], [(12, 12), (20, 18)]),
    ("a diagonal", lambda a, b: np.einsum("iik,kj->ij", a, b), [(9, 9, 10), (10, 11)]),
    ("rows picked", lambda a, b: a[np.array([3, 1, 4, 1, 5, 2])] @ b, [(9, 17), (17, 21)]),
    ("a product with itself", lambda a, _: a @ a.T, [(20, 17), (1,)]),
    ("more after it", lambda a, b: np.tanh(a @ b) @ b.T, [(30, 17), (17, 21)]),
]


def arrays(shapes, dtype, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("f", "shapes"), [c[1:] for c in CONTRACTIONS], ids=[c[0] for c in CONTRACTIONS])
def test_value_and_gradient_are_numpys(f, shapes, dtype):
    a, b = arrays(shapes, dtype)
    compiled = sg.jit(f, options=ONE)
    near = 1e-12 if dtype is np.float64 else 3e-5
    expected = f(a.astype(np.float64), b.astype(np.float64))
    scale = np.max(np.abs(expected))
    np.testing.assert_allclose(compiled(a, b), expected, rtol=near, atol=near * scale)
    assert "sg_product" in compiled.c_source
    weight = np.cos(np.arange(expected.size)).reshape(expected.shape).astype(dtype)
    slopes = sg.grad(lambda a, b: np.sum(weight * f(a, b)), argnums=(0, 1), options=ONE)(a, b)
    for position in range(2):
        direction = arrays(shapes, np.float64, seed=1)[position]
        step = [x.astype(np.float64) for x in (a, b)]
        up, down = ([*step], [*step])
        up[position], down[position] = up[position] + 1e-6 * direction, down[position] - 1e-6 * direction
        slope = (np.sum(weight * f(*up)) - np.sum(weight * f(*down))) / 2e-6
        got = np.sum(slopes[position] * direction)
        size = np.sqrt(np.sum(direction**2) * np.sum(slopes[position].astype(np.float64) ** 2)) + 1.0
        assert abs(got - slope) <= (1e-6 if dtype is np.float64 else 1e-4) * size


EXTENTS = [(0, 5, 6), (1, 1, 1), (4, 0, 4), (7, 9, 0), (8, 16, 16), (65, 257, 33), (9, 1, 40)]


@pytest.mark.parametrize("extents", EXTENTS)
def test_one_binary_for_all_extents(extents):
    n, d, m = extents
    rng = np.random.default_rng(n + d + m)
    x, w = rng.normal(size=(n, d)), rng.normal(size=(d, m))
    product = sg.jit(lambda x, w: x @ w).lower(sg.spec("f64[n,d]"), sg.spec("f64[d,m]")).compile()
    assert "sg_product" in product.c_source
    np.testing.assert_allclose(product(x, w), x @ w, rtol=1e-12, atol=1e-12)


# left, right, whether each is transposed: few columns or rows, which leave lanes along them empty
NARROW = [
    ((64, 803), (803, 10), False, False), ((31, 1700), (1700, 5), False, False), ((90, 400), (4, 400), False, True),
    ((100, 784), (100, 10), True, False), ((19, 900), (80, 900), False, True),
    ((400, 9), (400, 3000), True, False),
]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products_with_few_columns_have_lanes_along_what_is_long(dtype):
    given = [tuple(arrays(shapes[:2], dtype, seed=k)) for k, shapes in enumerate(NARROW)]
    given[0][0][3, 800] = np.inf
    given[3][1][99, 7] = np.nan

    def products(given):
        sides = [each[2:] for each in NARROW]
        turned = [(a.T if s[0] else a, b.T if s[1] else b) for (a, b), s in zip(given, sides, strict=True)]
        x, d = given[3]
        return [a @ b for a, b in turned] + [x.T @ np.tanh(x @ x[:10].T + d)]  # one sweep over the rows of x

    compiled = sg.jit(products, options=ONE)
    near = 1e-12 if dtype is np.float64 else 2e-5
    with np.errstate(invalid="ignore"):
        wanted = products([(a.astype(np.float64), b.astype(np.float64)) for a, b in given])
    for got, expected in zip(compiled(given), wanted, strict=True):
        scale = np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected))
        np.testing.assert_allclose(got, expected, rtol=near, atol=near * scale)
    if dtype is np.float32:  # whose vectors hold more than most of these columns on every machine
        assert compiled.c_source.count("sg_product_narrowf(") > len(NARROW) // 2


# of rows x and a matrix w: whether rows that are looked up are read where they lie
BY_NUMBER = {
    "few columns": (lambda x, w: np.sum(np.tanh(x @ w)), (40, 803), (803, 10), True),
    "columns from the left": (lambda x, w: np.sum(np.tanh(w @ x.T)), (57, 1201), (5, 1201), True),
    "long rows": (lambda x, w: np.sum(np.tanh(x @ w) ** 2), (31, 5000), (5000, 3), False),  # three are loops
    "read besides": (lambda x, w: np.sum(np.tanh(x @ w)) + np.sum(x**2) * np.sum(w), (40, 800), (800, 10), False),
    "many columns": (lambda x, w: np.sum(np.tanh(x @ w)), (40, 300), (300, 64), False),
    "examples apart": (lambda x, w: np.sum(np.tanh(x.reshape(4, 10, 803) @ w)), (40, 803), (803, 10), False),
    "two products": (lambda x, w: np.sum(np.tanh(x @ w) * np.sin(x @ w[::-1])), (40, 803), (803, 10), True),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("threads", [1, 2])
def test_rows_by_number_are_those_of_a_copy(dtype, threads):
    """Twice the same row, the first and the last, numbers from the end; NaN stays in its row."""
    rng, near = np.random.default_rng(3), 1e-11 if dtype is np.float64 else 2e-4
    given = [(w, x) for _, x, w, _ in BY_NUMBER.values()]
    ws, xs = [[rng.normal(size=pair[k]).astype(dtype) * dtype(0.1) for pair in given] for k in range(2)]
    ids = [rng.integers(-len(x), len(x), len(x)) for x in xs]
    for one in ids:
        one[:4] = 0, -1, 7, 7
    xs[0][-2, 5] = np.nan
    functions = [function for function, *_ in BY_NUMBER.values()]

    def slope_of(f):
        return sg.value_and_grad(f, 1)

    def losses(ws, xs, ids):
        return [f(x[i], w) for f, w, x, i in zip(functions, ws, xs, ids, strict=True)]

    def every(ws, xs, ids):
        each = zip(map(slope_of, functions), ws, xs, ids, strict=True)
        return [f(x[i], w) for f, w, x, i in each]

    compiled = sg.jit(every, options=sg.Options(threads=threads, verify=True))
    found, copies = compiled(ws, xs, ids), [x[i] for x, i in zip(xs, ids, strict=True)]
    expected = [f(x, w) for f, x, w in zip(map(slope_of, functions), copies, ws, strict=True)]
    for (value, slope), (other, wanted), name in zip(found, expected, BY_NUMBER, strict=True):
        np.testing.assert_allclose(value, other, rtol=near, err_msg=name)
        scale = np.max(np.abs(wanted), initial=0.0, where=np.isfinite(wanted))
        np.testing.assert_allclose(slope, wanted, rtol=near, atol=near * scale, err_msg=name)
    np.testing.assert_allclose(sg.jit(losses)(ws, xs, ids), [value for value, _ in found], rtol=near)
    with pytest.raises(IndexError, match=r"out of bounds for an axis with size 40: 40 at \[3\]"):
        compiled(ws, xs, [*ids[:3], np.where(np.arange(40) == 3, 40, ids[3]), *ids[4:]])


def test_rows_by_number_in_portable_c_under_vmap_and_in_loops(tmp_path):
    """There are no vectors in portable C; several lists of numbers are several products."""
    rng = np.random.default_rng(4)
    x, w, many = rng.normal(size=(40, 803)), rng.normal(size=(803, 10)), rng.integers(0, 40, (6, 32))
    functions = {
        "parts of lists": lambda x, w, many: x[many[:, :20]] @ w,
        "vmap": lambda x, w, many: sg.vmap(lambda i: x[i[1:]] @ w)(many),
        "scan": lambda x, w, many: sg.scan(lambda c, i: (c + x[i] @ w, np.sum(c)), np.zeros((32, 10)), many)[0],
        "one": lambda x, w, many: x[many[0]] @ w,
    }
    expected = [x[many[:, :20]] @ w, x[many[:, 1:]] @ w, np.sum(x[many] @ w, axis=0), x[many[0]] @ w]
    for options in (sg.Options(), sg.Options(portable=True)):
        found = sg.jit(lambda x, w, many: [f(x, w, many) for f in functions.values()], options=options)(x, w, many)
        for one, other, name in zip(found, expected, functions, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-10, err_msg=name)
    for profile in ("fast", "embedded"):
        specs = ("f64[40,803]", "i64[32]", "f64[803,10]")
        sg.emit(lambda x, i, w: np.sum(x[i] @ w), specs, tmp_path / profile, what="value", name="mm", profile=profile)


def test_a_matrix_by_number_is_no_row():
    rng = np.random.default_rng(5)
    x, w, few = rng.normal(size=(5, 40, 803)), rng.normal(size=(803, 10)) * 0.1, np.array([1, 3, 2, 0, 4, 39])
    functions = [
        lambda k: np.sum(np.tanh(x[k] @ w)), lambda k: np.sum(np.tanh(np.take(x, k, axis=0) @ w)),
        lambda k: np.sum(np.tanh(x[k][few] @ w)), lambda k: np.sum(np.tanh(w.T @ x[k, :, :].T)),
    ]
    for k in (np.int64(3), np.array(3)):
        found = sg.jit(lambda k: [f(k) for f in functions])(k)
        np.testing.assert_allclose(found, [f(3) for f in functions], rtol=1e-11)


@pytest.mark.parametrize("name", [name for name, case in BY_NUMBER.items() if name != "long rows"])
def test_rows_by_number_are_copied_where_others_read_them(name):
    function, x, w, direct = BY_NUMBER[name]
    places = np.zeros(x[0], np.int64)
    given = [np.zeros(shape, np.float32) for shape in (w, x)]  # whose vectors hold more than most of these columns
    gradient: Any = sg.value_and_grad(lambda w, x, places: function(x[places], w), options=ONE)
    gradient(*given, places)
    assert ("sg_product_rowsf(" in gradient.c_source) is direct


def test_a_sum_over_samples_is_taken_by_every_thread():
    x, w = arrays([(3000, 60), (60, 80)], np.float64)
    loss = sg.value_and_grad(lambda w, x: np.sum(np.tanh(x @ w)), options=sg.Options(threads=2))
    value, slope = loss(w, x)
    t = np.tanh(x @ w)
    np.testing.assert_allclose(value, np.sum(t), rtol=1e-12)
    np.testing.assert_allclose(slope, x.T @ (1 - t**2), rtol=1e-10, atol=1e-10)
    assert "num_threads(threads)" in loss.c_source
    again = [loss(w, x)[1] for _ in range(5)]
    assert all(np.array_equal(slope, other) for other in again)


def test_not_finite_operands_stay_in_their_rows_and_columns():
    a, b = arrays([(9, 10), (10, 11)], np.float64)
    a[2, 3], b[4, 5] = np.inf, np.nan
    with np.errstate(invalid="ignore"):  # some builds of NumPy warn of it
        expected = a @ b
    np.testing.assert_array_equal(np.isfinite(sg.jit(lambda a, b: a @ b)(a, b)), np.isfinite(expected))


def test_clusters_of_a_mixture_share_a_second_loop():
    def likelihood(means, roots, x):
        apart = x[:, None, :] - means
        q = np.einsum("kde,nke->nkd", roots, apart)
        logs = -0.5 * np.sum(q**2, axis=2)
        top = np.max(logs, axis=1, keepdims=True)
        return np.sum(np.log(np.sum(np.exp(logs - top), axis=1)) + top[:, 0])

    specs = sg.spec("f64[30,24]"), sg.spec("f64[30,24,24]"), sg.spec("f64[1000,24]")
    lowered = sg.value_and_grad(likelihood, argnums=(0, 1, 2), options=ONE).lower(*specs)
    drawn = lowered.as_text("loops").splitlines()[1]
    assert drawn.count("product") == 3
    without_points = sg.value_and_grad(likelihood, argnums=(0, 1), options=ONE).lower(*specs)
    assert without_points.as_text("loops").splitlines()[1].count("product") == 2  # pulls are summed first
    assert drawn.count("i<1000 tile 32") == 1  # one sweep over the samples
    assert "k<24 { i<1000 product" not in drawn
    assert lowered.as_text("c").count("sg_product(") == 4  # its definition and three calls
