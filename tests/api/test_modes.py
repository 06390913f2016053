"""jvp, vjp, linearize, vmap, jacfwd, jacrev, hessian, hvp: what they mean, how they compose, what they refuse."""

from __future__ import annotations

import gc
import itertools
import weakref
from typing import Any

import numpy as np
import pytest
import scipy.optimize

import symgrad as sg

RNG = np.random.default_rng(3)
X, V = RNG.normal(size=4), RNG.normal(size=4)
A = RNG.normal(size=(3, 4))


def curve(x: Any) -> Any:
    return np.tanh(A @ x) * np.sum(x**2)


def loss(x: Any) -> Any:
    return np.sum(np.sin(x[1:] * x[:-1])) + np.exp(0.3 * x[0]) * x[-1] ** 2


def close(one: Any, other: Any, tolerance: float = 1e-12) -> None:
    np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


# -- the mathematics


def test_jacobians_agree_with_each_other_and_with_pushing_and_pulling():
    forward, reverse = sg.jacfwd(curve)(X), sg.jacrev(curve)(X)
    assert forward.shape == (3, 4)
    close(forward, reverse)
    y, tangent = sg.jvp(curve, (X,), (V,))
    close(y, curve(X))
    close(tangent, forward @ V)
    again, pull = sg.vjp(curve, X)
    close(again, y)
    close(pull(y)[0], y @ forward)
    linear, push = sg.linearize(curve, X)
    close(linear, y)
    close(push(V), tangent)


def test_hessian_is_symmetric_and_hvp_is_hessian_times_vector():
    hessian = sg.hessian(loss)(X)
    close(hessian, hessian.T)
    close(sg.hvp(loss)(X, V), hessian @ V)
    modes: list[Any] = [sg.jacfwd, sg.jacrev, sg.grad]
    for one, other in itertools.product(modes, repeat=2):
        if one is not sg.grad:
            close(one(other(loss))(X), hessian)


def test_a_hessian_is_one_call_of_one_c_function():
    hessian = sg.hessian(loss)
    hessian(X)
    assert hessian.cache_info().compilations == 1
    assert hessian.c_source.count("int32_t sg_loss(") == 1
    assert hessian.c_source.count("for (") < 12


def test_the_c_does_not_depend_on_who_calls():
    first, second = sg.hessian(loss), sg.hessian(loss)
    first(X)
    second(X)
    assert first.c_source == second.c_source
    assert first.c_path == second.c_path


def test_guards_survive_forward_mode_to_second_order():
    def root(x: Any) -> Any:
        return np.where(x > 0, np.sqrt(np.where(x > 0, x, 0)), 0.0)

    def plain(x: Any) -> Any:
        return np.where(x > 0, np.sqrt(x), 0.0)

    x, v = np.array([0.0, 4.0, -1.0]), np.ones(3)
    for f in (root, plain):
        close(sg.jvp(f, (x,), (v,))[1], [0, 0.25, 0])
        close(sg.jvp(lambda x, f=f: sg.jvp(f, (x,), (v,))[1], (x,), (v,))[1], [0, -1 / 32, 0])
        close(sg.hessian(lambda x, f=f: np.sum(f(x)))(x), np.diag([0, -1 / 32, 0]))
        close(sg.vmap(sg.grad(f))(x), [0, 0.25, 0])
        close(sg.grad(lambda x, f=f: np.sum(sg.vmap(f)(x)))(x), [0, 0.25, 0])


def test_ties_kinks_and_integers_in_forward_mode():
    x = np.array([1.0, 2.0, 2.0])
    close(sg.jvp(np.max, (x,), (np.array([5.0, 1.0, 3.0]),))[1], 2.0)
    y, tangent = sg.jvp(lambda x: (x * 2, np.argmax(x)), (x,), (x,))
    close(tangent[0], 2 * x)
    assert tangent[1] == 0
    assert y[1] == 1
    close(sg.jvp(lambda x, n: x * n, (2.0, 3), (1.0, None)), (6.0, 3.0))
    assert sg.vjp(lambda x, n: x * n, 2.0, 3)[1](1.0) == (3.0, 0)


# -- called with arrays: compiled once, kept as long as the function


def test_calling_again_compiles_nothing():
    def f(x: Any) -> Any:
        return np.sin(x)

    for k in range(3):
        sg.jvp(f, (X + k,), (V,))
        _, pull = sg.vjp(f, X + k)
        pull(V)
        sg.linearize(f, X)[1](V)
    from symgrad.api.modes import mode

    kept = mode._derived[id(f)][1]
    assert kept
    assert [one.cache_info().compilations for one in kept.values()] == [1] * len(kept)


def test_what_was_derived_does_not_keep_the_function_alive():
    def make() -> Any:
        big = np.zeros(3)

        def f(x: Any) -> Any:
            return x * big

        sg.jvp(f, (np.ones(3),), (np.ones(3),))
        return weakref.ref(f)

    gone = make()
    gc.collect()
    assert gone() is None


def test_methods_are_derived_once_an_object():
    class Model:
        def __init__(self, rate: float) -> None:
            self.rate = rate

        def value(self, x: Any) -> Any:
            return x * self.rate

    slow, fast = Model(2.0), Model(5.0)
    for _ in range(2):
        assert sg.jvp(slow.value, (1.0,), (1.0,))[1] == 2
        assert sg.jvp(fast.value, (1.0,), (1.0,))[1] == 5


def test_a_pulling_back_remembers_the_arguments_as_they_were():
    x = X.copy()
    _, pull = sg.vjp(lambda x: x**2, x)
    x[:] = 0
    close(pull(V)[0], 2 * X * V)


def test_a_global_bound_anew_is_noticed():
    scale = [np.array(2.0)]
    for value in (2.0, 3.0):
        factor = np.array(value)
        assert sg.jvp(lambda x: x * factor, (1.0,), (1.0,))[1] == value  # noqa: B023 - it is called here
    assert scale


# -- arguments and results


def test_has_aux():
    def f(x: Any) -> Any:
        return np.sum(x**2), {"n": x[0]}

    value, tangent, aux = sg.jvp(f, (X,), (V,), has_aux=True)
    close((value, tangent, aux["n"]), (np.sum(X**2), 2 * X @ V, X[0]))
    value, pull, aux = sg.vjp(f, X, has_aux=True)
    close(value, np.sum(X**2))
    close(pull(1.0)[0], 2 * X)
    assert aux["n"] == X[0]
    value, push, aux = sg.linearize(f, X, has_aux=True)
    close((value, push(V)), (np.sum(X**2), 2 * X @ V))
    for jacobian in (sg.jacfwd, sg.jacrev, sg.grad):
        slopes, aux = jacobian(f, has_aux=True)(X)
        close(slopes, 2 * X)
        assert aux["n"] == X[0]
    second, aux = sg.hessian(f, has_aux=True)(X)
    close(second, 2 * np.eye(4))
    assert aux["n"] == X[0]


def test_trees_and_argnums():
    def f(p: Any, z: Any) -> Any:
        return {"a": p["w"] ** 2 * z, "b": np.sum(p["w"])}

    p = {"w": X}
    for jacobian in (sg.jacfwd, sg.jacrev):
        both = jacobian(f, argnums=(0, 1))(p, 2.0)
        close(both["a"][0]["w"], np.diag(4 * X))
        close(both["a"][1], X**2)
        close(both["b"][0]["w"], np.ones(4))
        close(both["b"][1], 0.0)
        close(jacobian(f, argnums="p['w']")(p, 2.0)["b"], np.ones(4))
        close(jacobian(f, argnums=-1)(p, 2.0)["a"], X**2)
        close(jacobian(f, argnums="z")(p, z=2.0)["a"], X**2)
    second = sg.hessian(lambda p: np.sum(p["a"] * p["b"]))({"a": X, "b": V})
    close(second["a"]["b"], np.eye(4))
    close(second["a"]["a"], np.zeros((4, 4)))


def test_argnums_by_name_and_path():
    def f(params: Any, x: Any, *, rate: Any = 1.0) -> Any:
        return np.sum(params["w"][0] * x) * rate + params["w"][1]

    params = {"w": (X, np.array(2.0))}
    close(sg.grad(f, argnums="x")(params, V), X)
    close(sg.grad(f, argnums="params['w'][0]")(params, V), V)
    both = sg.grad(f, argnums=("rate", "params['w']"))(params, V, rate=3.0)
    close(both[0], X @ V)
    close(both[1][0], 3 * V)
    assert both[1][1] == 1
    value, slopes = sg.value_and_grad(f, argnums=("x",))(params, V)
    close(value, f(params, V))
    close(slopes[0], X)
    with pytest.raises(ValueError, match=r"argnums='y' names none of the arguments params\['w'\]\[0\], params"):
        sg.grad(f, argnums="y")(params, V)


def test_static_arguments_and_specs():
    def f(x: Any, n: int) -> Any:
        return x**n

    close(sg.jacfwd(f, static_argnums=1)(X, 3), np.diag(3 * X**2))
    close(sg.jacrev(f, static_argnames="n")(X, n=2), np.diag(2 * X))
    close(sg.vmap(f, static_argnums=1)(X, 3), X**3)
    close(sg.vmap(f, (0, None), static_argnums=1)(X, 3), X**3)
    close(sg.hvp(lambda x, n: np.sum(x**n), static_argnums=2)(X, V, 3), 6 * X * V)
    close(sg.hessian(lambda x, n: np.sum(x**n), static_argnums=1)(X, 3), np.diag(6 * X))


def rosenbrock(x: Any) -> Any:
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def test_hvp_fits_scipy():
    x0 = np.array([-1.2, 1.0, 0.7])
    found = scipy.optimize.minimize(
        sg.value_and_grad(rosenbrock), x0, jac=True, hessp=sg.hvp(rosenbrock), method="trust-ncg",
        options={"gtol": 1e-10},
    )
    close(found.x, np.ones(3), 1e-8)
    close(sg.hvp(rosenbrock)(x0, V[:3]), scipy.optimize.rosen_hess_prod(x0, V[:3]))
    close(sg.hessian(rosenbrock)(x0), scipy.optimize.rosen_hess(x0))


def test_the_interpreter_agrees():
    plain = sg.Options(compiler="none")
    close(sg.hessian(loss, options=plain)(X), sg.hessian(loss)(X))
    index = np.array([[0, 1], [2, -1], [3, 3]])
    close(sg.vmap(lambda x, i: x[i] * 2, (None, 0), options=plain)(X, index), X[index] * 2)


# -- what is refused

REFUSED: dict[str, tuple[Any, str]] = {
    "primals": (lambda: sg.jvp(curve, X, V), "jvp takes its primals as a tuple, not ndarray"),
    "structure": (lambda: sg.jvp(curve, (X,), (V, V)), "the tangents do not have the structure of what they belong to"),
    "shape": (lambda: sg.jvp(curve, (X,), (V[:2],)), r"the tangent of x has shape \(2,\), and x has shape \(4,\)"),
    "dtype": (lambda: sg.jvp(curve, (X,), (V.astype("f4"),)), "the tangent of x is float32, and x is float64"),
    "integer": (lambda: sg.jvp(lambda x, n: x * n, (X, 2), (V, 1)), "n is int64, and has no tangent"),
    "cotangent": (lambda: sg.vjp(curve, X)[1](V), r"the cotangent of result has shape \(4,\), and result has shape"),
    "aux": (lambda: sg.jvp(curve, (X,), (V,), has_aux=True), r"has_aux=True needs a function that returns a pair"),
    "jacobian by": (lambda: sg.jacfwd(lambda n: n * 2.0)(3), "the Jacobian with respect to 'n', which is int64"),
    "jacobian of": (lambda: sg.jacrev(np.argmax)(X), "returns int64: a derivative needs floating point"),
    "hvp": (lambda: sg.hvp(lambda *a: np.sum(a[0]))(X), r"hvp takes \(x, v, \*others\), and was called with 1"),
    "argnum": (lambda: sg.jacrev(curve, argnums=1)(X), "argnums=1, where the function was called with 1 positional"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str):
    call, message = REFUSED[case]
    with pytest.raises(sg.SymgradError, match=message):
        call()


# -- rules of the user's own


def test_a_rule_that_is_not_linear_is_refused_in_forward_mode_by_its_name():
    @sg.custom_vjp
    def clipped(x: Any) -> Any:
        return x * 1.0

    @sg.custom_vjp
    def shifted(x: Any) -> Any:
        return x * 1.0

    clipped.defvjp(lambda x: (x, None), lambda _, g: (np.clip(g, -1, 1),))
    shifted.defvjp(lambda x: (x, None), lambda _, g: (g + 1.0,))
    for f in (clipped, shifted):
        close(sg.grad(lambda x, f=f: np.sum(0.5 * f(x)))(X), np.full(4, 0.5 if f is clipped else 1.5))
        with pytest.raises(sg.NoGradient, match=f"the rule of {f.__name__} is not linear in the cotangent"):
            sg.jvp(lambda x, f=f: 2 * f(x), (X,), (V,))


def test_linear_rules_go_forward_and_into_batches():
    @sg.custom_vjp
    def tenfold(x: Any, w: Any) -> Any:
        return np.sin(x) * w

    tenfold.defvjp(lambda x, w: (tenfold(x, w), (x, w)), lambda r, g: (10 * g * np.cos(r[0]) * r[1], g * np.sin(r[0])))
    close(sg.jvp(tenfold, (X, V), (V, X))[1], 10 * np.cos(X) * V * V + np.sin(X) * X)
    for axes, w in (((0, 0), V), ((0, None), 2.0)):
        close(sg.vmap(tenfold, axes)(X, w), np.sin(X) * w)
        close(sg.vmap(sg.grad(tenfold), axes)(X, w), 10 * np.cos(X) * w)
        total = sg.grad(lambda x, w, axes=axes: np.sum(sg.vmap(tenfold, axes)(x, w)), argnums=(0, 1))(X, w)
        close(total[0], 10 * np.cos(X) * w)
        close(total[1], np.sin(X) if axes[1] == 0 else np.sum(np.sin(X)))

    def overridden(x: Any) -> Any:
        with sg.override_gradient("square", lambda g, _y, _x: 100 * g):
            return np.square(x)

    close(sg.vmap(sg.grad(overridden))(X), np.full(4, 100.0))
    close(sg.grad(lambda x: np.sum(sg.vmap(overridden)(x)))(X), np.full(4, 100.0))


def test_hvp_passes_extras_through():
    x, v = np.array([1.0, 2.0]), np.array([0.5, -1.0])
    for compiler in (None, "none"):
        options = sg.Options(compiler=compiler)
        compiled = sg.hvp(lambda x, s: (np.sum(s * x**3), {"n": 2 * x}), has_aux=True, options=options)
        product, extras = compiled(x, v, 3.0)
        np.testing.assert_allclose(product, 18 * x * v)
        assert extras["n"].tolist() == [2, 4]


def test_vectors_that_are_made_in_a_trace() -> None:
    """Arrays of creation functions, as tangents and cotangents."""
    A, x = np.arange(6.0).reshape(2, 3), np.array([0.1, 0.2, -0.1])

    def g(x: Any) -> Any:
        return np.sin(A @ x)

    slope = np.cos(A @ x)[:, None] * A
    assert np.allclose(sg.jit(lambda x: sg.vjp(g, x)[1](np.ones(2))[0])(x), slope.sum(0))
    assert np.allclose(sg.jit(lambda x: sg.jvp(g, (x,), (np.ones(3),))[1])(x), slope.sum(1))
    assert np.allclose(sg.jit(lambda x: sg.linearize(g, x)[1](np.ones(3)))(x), slope.sum(1))
    turned = sg.grad(lambda x: np.sum(sg.vjp(g, x)[1](np.ones(2))[0]))(x)
    assert np.allclose(turned, -np.sin(A @ x) * A.sum(1) @ A)
