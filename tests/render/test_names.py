"""The names of values in C: the user's, unlike each other and unlike what C, its headers and the program mean."""

from __future__ import annotations

import keyword
import re
import shutil
import subprocess
from functools import cache
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.build.cache.artifacts import program_key
from symgrad.build.toolchain.find import find
from symgrad.ir.names import CALLED, MACROS
from tests.render.test_c import COMPILERS, STRICT, without_comments

RNG = np.random.default_rng(3)


def c_of(function: Any, *args: Any) -> str:
    return without_comments(function.lower(*args).as_text("c"))


def declared(text: str) -> set[str]:
    """Name what is declared inside of functions."""
    return set(re.findall(r"^\s+(?:const )?(?:double|float|int64_t|uint8_t|_Bool) (?:\*const )?(?:restrict )?(\w+)",
                          text.partition("int32_t sg_")[2], re.MULTILINE))


def distance(x, mean, scale):
    diff = x - mean
    quad = np.sum(diff * diff * scale, axis=1)
    inner = np.exp(-0.5 * quad) + np.sin(quad)
    return np.sum(np.log(inner + 2.0) * inner)


ARGS = RNG.normal(size=(40, 30)), RNG.normal(size=30), RNG.uniform(1, 2, 30)


def test_values_have_the_users_names_and_cotangents_end_in_bar() -> None:
    names = declared(c_of(sg.value_and_grad(distance, (0, 1, 2)), *ARGS))
    assert {"inner", "quad_bar", "diff_bar"} <= names, names
    assert not [name for name in names if re.fullmatch(r"[vw]\d+", name)]


def over_lines(x, y):
    mixed = np.stack([
        np.sin(x) * y,
        np.cos(y),
    ], axis=1)
    c, s = np.cos(mixed[:, 0]), np.sin(
        mixed[:, 1]
    )
    return np.sum(
        np.exp(c * s)
        * np.cumsum(s),
        axis=0)


def test_lines_of_one_statement_have_one_name() -> None:
    text = sg.value_and_grad(over_lines, (0, 1)).lower(np.ones(50), np.ones(50)).as_text("c")
    names = declared(without_comments(text))
    assert any(name.startswith("mixed") for name in names), names
    assert any(name.startswith("c_s_") for name in names), names
    assert any(name.startswith("result_") for name in names), names
    assert not [name for name in names if re.fullmatch(r"[vw]\d+|axis.*", name)]
    assert re.search(r"test_names\.py:\d+  mixed = np\.stack\(\[ \.\.\. np\.sin\(x\) \* y, \*/", text)


def test_functions_that_are_cut_out_say_of_what() -> None:
    def long(x):
        for _ in range(400):
            x = np.sin(x) * np.cumsum(x)
        return np.sum(x)

    text = sg.jit(long, options=sg.Options(without=("roll",))).lower(np.ones(3)).as_text("c")
    heads = re.findall(r"^/\* a part: test_names\.py:\d+(?: to test_names\.py:\d+)? \*/\nAPART", text, re.MULTILINE)
    assert len(heads) > 1
    named = sg.value_and_grad(lambda x: np.sum((x[1:] - x[:-1]) ** 2), specs=("f64[n]",))
    text = named.lower(sg.spec("f64[n]")).as_text("c")
    assert re.search(r"^/\* all of sg_\w+ where n < \d+ \*/\nAPART", text, re.MULTILINE)


def test_nothing_is_cast_to_what_it_is() -> None:
    def cut(x):
        return np.sum(x.astype(np.int64).astype(np.float64) + x.astype(np.int32) + x.astype(np.int8))

    text = without_comments(sg.jit(cut).lower(np.ones(40)).as_text("c")).partition("int32_t sg_cut")[2]
    assert "(int8_t)sg_int32(" in text
    assert not re.search(r"\((u?int\d+)_t\)sg_\1\b", text)


def test_tangents_end_in_dot() -> None:
    directional = sg.jit(lambda x, mean, scale: sg.jvp(distance, (x, mean, scale), (x, mean, scale)))
    names = declared(c_of(directional, *ARGS))
    assert "inner_dot" in names
    assert any(name.startswith("quad_dot") for name in names), names


def trouble(x, w_bar):
    double = x * 2.0
    i = np.sin(double) + w_bar
    k = np.cumsum(i)
    t = np.cumsum(k * i)
    M_PI = np.tanh(t)
    sin = np.cumsum(M_PI * t)
    EOF = np.exp(-sin * sin)
    threads = np.cumsum(EOF[::-1])
    sg_flag = np.sqrt(threads) + threads
    i0 = np.cumsum(sg_flag)
    i_first = np.tanh(0.01 * i0) + np.tanh(np.sum(i0))
    x = np.cumsum(i_first * x)
    größe = x * np.sum(x) + EOF  # noqa: PLC2401 - as people write
    memcpy = np.cumsum(größe)
    x_1 = np.sin(memcpy) * memcpy + x
    return np.sum(x_1 * t) + np.sum(k)


def test_no_name_means_something_else() -> None:
    function = sg.value_and_grad(trouble, (0, 1))
    args = RNG.uniform(0.1, 0.2, 30), RNG.uniform(0.1, 0.2, 30)
    text = c_of(function, *args)
    for name in declared(text):
        assert not keyword.iskeyword(name)
        assert name not in {"double", "threads", "workspace", "stop", "memcpy_"}, name
        assert not CALLED.fullmatch(name), name
        assert not MACROS.fullmatch(name), name
        assert name.isascii()
    np.testing.assert_allclose(function(*args)[0], trouble(*args), rtol=1e-12)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_compilers_take_them(compiler: str) -> None:
    text = sg.value_and_grad(trouble, (0, 1)).lower(np.ones(30), np.ones(30)).as_text("c")
    ran = subprocess.run([compiler, "-std=c11", *STRICT, "-x", "c", "-"], input=text, capture_output=True, text=True,
                         check=False)
    assert ran.returncode == 0, ran.stderr[:2000]


def test_a_line_that_runs_often_numbers_its_values() -> None:
    def steps(y):
        for _ in range(4):
            y = y + np.sin(y) * np.sum(y)
        return np.sum(y * y)

    text = c_of(sg.value_and_grad(steps), np.ones(5))
    names = re.findall(r"^\s+(?:const )?double (\w+)(?:\[\d+\])?(?: =|;)", text, re.MULTILINE)
    assert len(names) == len(set(names)), "each name is declared once"


def test_memory_is_called_as_in_c() -> None:
    function = sg.jit(lambda x: np.cumsum(np.exp(x)[::-1]) * np.exp(x), specs=("f64[n]",))
    function(np.ones(7))
    text = function.c_source
    for buffer in function.memory().buffers:
        assert re.search(rf"\b{buffer.name}\b", text), buffer.name


def test_the_key_of_the_cache_covers_what_names_are_made_of() -> None:
    """Two programs that differ in names alone are two keys: a library is found for the C that belongs to it."""
    toolchain = find(sg.Options())
    if toolchain is None or shutil.which("gcc") is None:
        pytest.skip("no compiler")

    def one(x):
        inner = np.sin(x)
        return np.sum(inner * inner)

    gradient, twice = sg.grad(one).lower(np.ones(3)), sg.grad(one).lower(np.ones(3))
    keys = [program_key(made.program, toolchain, sg.Options()) for made in (gradient, twice)]
    assert keys[0] is not None
    assert keys[0] == keys[1]
    assert any(node.line is not None and node.line.suffix == "_bar" for node in gradient.program.nodes())
    for node in gradient.program.nodes():
        if node.line is not None and node.line.suffix:
            node.line = tuple.__new__(type(node.line).__mro__[1], node.line)  # the same line, no derivative's
    assert program_key(gradient.program, toolchain, sg.Options()) != keys[1]


OPEN: dict[str, tuple[Any, tuple[str, str]]] = {
    "slices": (lambda X, u: np.sum(sg.vmap(lambda x: np.sum(np.exp((u[1:] - u[:-1]) * x) * np.sin(u[1:])))(X)),
               ("f64[n]", "f64[m]")),
    "steps": (lambda A, u: np.sum(np.cumsum(A[::2, 1:], axis=1) ** 2) + np.sum(u[2:-3] * u[5:]),
              ("f64[n,m]", "f64[k]")),
    "sorted": (lambda A, u: np.sum(np.convolve(u, A[0]) ** 2) + np.sum(np.sort(A, 1)[:, :-1]), ("f64[n,m]", "f64[k]")),
    "flat": (lambda A, u: np.sum(np.sin(A.reshape(-1))[:-1] * np.cos(A.reshape(-1))[1:]) * np.max(u),
             ("f64[n,m]", "f64[k]")),
    "products": (lambda A, u: np.sum(np.tanh(A @ A.T @ A) @ A.T) + np.mean(np.outer(np.exp(u), A.sum(0)) ** 2),
                 ("f64[n,m]", "f64[k]")),
    "ends": (lambda A, u: np.sum(u[-3:] ** 2) + np.sum(np.roll(A, 1, 0) * A) + np.sum(np.outer(u, u)[1:, 1:] ** 2),
             ("f64[n,m]", "f64[k]")),
}
"""Functions whose extents are unknown and whose loops go over parts of them."""

SIZES = re.compile(
    r"sg_(?:larger|smaller)\([mnk\d *+-]+\)|\([mnk\d *+-]+\) [/%] \d+|\((?:\w+\*)?[mnk](?: [+-] (?:\w+\*)?\w+){2,}\)")
"""Sizes beyond an extent and a number."""

PRODUCTS = re.compile(r"(?<![\w*])(?:\d+\*)?([mnk]\*[mnk])\b")
"""What products of extents begin with, alone or in longer ones."""


@cache
def of_open(name: str) -> Any:
    function, specs = OPEN[name]
    return sg.value_and_grad(function, argnums=(0, 1)).lower(*map(sg.spec, specs))


def test_nobody_asks_twice_in_a_row_whether_to_stop() -> None:
    texts = [without_comments(of_open(name).as_text("c")) for name in OPEN]
    assert any("sg_work_ends();\n    if (sg_stopped(stop)) return -1;" in text for text in texts), "it is asked"
    for text in texts:
        assert not re.search(r"if \(sg_stopped\(stop\)\) return -1;\s+if \(sg_stopped", text)


@pytest.mark.parametrize("name", OPEN)
def test_sizes_stand_once_in_a_function(name: str) -> None:
    lowered = of_open(name)
    text = without_comments(lowered.as_text("c"))
    bodies = [body.partition("\n}\n")[0] for body in re.split(r"\)\n\{\n", text)[1:]]
    assert "$" not in text
    assert sum(len(SIZES.findall(body)) for body in bodies) >= 5
    for body in bodies:
        found = SIZES.findall(body)
        assert len(found) == len(set(found)), sorted(found)
        products = PRODUCTS.findall(body)
        assert len(products) == len(set(products)), sorted(products)
        named = re.findall(r"const int64_t (size\d+) = .*;", body)
        assert named == [f"size{k}" for k in range(1, len(named) + 1)]
        assert all(len(re.findall(rf"\b{size}\b", body)) > 2 for size in named), "its name is used twice"
    for compiler in COMPILERS:
        ran = subprocess.run([compiler, "-std=c11", *STRICT, "-x", "c", "-"], input=lowered.as_text("c"),
                             capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr[:3000]
    if name == "slices":
        compiled = lowered.compile()
        for n, m in ((1, 1), (3, 2), (5, 2100)):
            X, u = np.linspace(-1, 1, n), np.sin(np.arange(m))
            value, (of_x, of_u) = compiled(X, u)
            d = np.diff(u)
            each = np.exp(d * X[:, None]) * np.sin(u[1:])
            slopes = np.sum(X[:, None] * each, axis=0)
            np.testing.assert_allclose(value, np.sum(each), rtol=1e-11)
            np.testing.assert_allclose(of_x, np.sum(d * each, axis=1), rtol=1e-9, atol=1e-11)
            wanted = np.zeros(m)
            wanted[1:] += slopes + np.sum(np.exp(d * X[:, None]) * np.cos(u[1:]), axis=0)
            wanted[:-1] -= slopes
            np.testing.assert_allclose(of_u, wanted, rtol=1e-9, atol=1e-11)
