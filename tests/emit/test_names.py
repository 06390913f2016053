"""Names from Python in C: every one that C, C++, a compiler or a header has a meaning for compiles all the same."""

from __future__ import annotations

import re
import shutil
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.emit.conftest import make
from tests.emit.test_build_systems import run

GCC, GXX, MAKE = (shutil.which(name) for name in ("gcc", "g++", "make"))
pytestmark = pytest.mark.skipif(GCC is None or MAKE is None, reason="needs gcc and make")

HARD = """auto break_ case char const default do double enum extern float goto inline int long register restrict short
signed sizeof static struct switch typedef typeof union unsigned void volatile bool true false asm main errno complex
imaginary noreturn NAN INFINITY NULL I and_eq bitand bitor compl not_eq or_eq xor xor_eq alignas alignof catch char8_t
char16_t char32_t concept const_cast consteval constexpr constinit co_await co_return co_yield decltype delete
dynamic_cast explicit export friend mutable namespace new noexcept nullptr operator private protected public
reinterpret_cast requires static_assert static_cast template this thread_local throw typeid typename using virtual
wchar_t unix linux i386 FILE stdin stdout stderr size_t ptrdiff_t max_align_t int64_t uint8_t int_fast32_t double_t EOF
BUFSIZ RAND_MAX EXIT_SUCCESS SEEK_SET SG_RESTRICT SG_FMA sg_bytes sg_failed HUGE_VAL M_PI FP_NAN DBL_MAX INT64_MAX
SIGINT EDOM ERANGE near far small interface hyper IN OUT CONST TRUE ERROR copies1
exp log sqrt tanh fabs isnan threads workspace stop np scipy w1 v2 t0 i0 k3 n1""".split()  # noqa: SIM905
HARMLESS = """y0 y1 j0 j1 jn gamma nanf malloc malloc_ printf index time signal abs status bad step space in_x out_y
exact x_ EPS EXP SIGMA value_ lib ffi x_t h_t nearby copies min max""".split()  # noqa: SIM905

USER = """#include <assert.h>
#include <complex.h>
#include <ctype.h>
#include <errno.h>
#include <fenv.h>
#include <inttypes.h>
#include <iso646.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <wchar.h>
#include "names.h"
int main(void) { return names_grad_workspace_bytes() < 0; }
"""


def function(names, body):
    """Make a function with arguments of these names."""
    scope: dict[str, Any] = {"np": np}
    exec(f"def names({', '.join(names)}):\n    return {body}\n", scope)
    return scope["names"]


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    names = HARD + HARMLESS
    loss = function(names, " + ".join(f"{name}.sum()" if k % 2 else f"({name} * {name}).sum()"
                                      for k, name in enumerate(names)))
    specs = dict.fromkeys(names, "f64[2]")
    out = tmp_path_factory.mktemp("names") / "names"
    return sg.emit(loss, specs, out, what=("value", "grad"), wrt=tuple(names), python=True)


def test_every_name_passes_its_check(package):
    ran = make(package.folder, "check", "EXACT=1")
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("ways", [["-std=gnu17"], ["-std=c99", "-pedantic-errors"]])
def test_every_name_where_headers_come_first(package, tmp_path, ways):
    """Compilers' own macros are there in GNU modes alone, where a program may include anything before."""
    (tmp_path / "user.c").write_text(USER)
    assert GCC is not None
    run(GCC, *ways, "-Wall", "-Wextra", "-Werror", f"-I{package.folder}", "user.c", str(package.folder / "names.c"),
        "-lm", "-o", "user", cwd=tmp_path)
    run(str(tmp_path / "user"), cwd=tmp_path)


@pytest.mark.skipif(GXX is None, reason="needs g++")
@pytest.mark.parametrize("standard", ["c++11", "gnu++20", "gnu++23"])
def test_every_name_as_cpp(package, tmp_path, standard):
    (tmp_path / "user.cpp").write_text("#include <vector>\n#include <cstdio>\n" + USER)
    assert GXX is not None
    sources = ["user.cpp", "-x", "c++", str(package.folder / "names.c"), str(package.folder / "test_names.c")]
    run(GXX, f"-std={standard}", "-Wall", "-Wextra", "-Wshadow", "-Werror", f"-I{package.folder}", "-fsyntax-only",
        *sources, cwd=tmp_path)


@pytest.mark.slow
def test_every_name_in_the_python_package(package, tmp_path):
    pytest.importorskip("setuptools")
    folder = shutil.copytree(package.folder, tmp_path / "names")
    run(sys.executable, "setup.py", "-q", "build_ext", "--inplace", cwd=folder)
    count = len(HARD + HARMLESS)
    code = f"import names, numpy as np; print(names.names_value(*[np.ones(2)] * {count}))"
    assert float(run(sys.executable, "-c", code, cwd=folder)) == 2 * count


def test_greek_letters_have_names(tmp_path):
    loss = function(["λ", "Σ", "θ", "größe", "señal"], "np.sum(λ * Σ + θ * größe * señal)")
    package = sg.emit(loss, dict.fromkeys(["λ", "Σ", "θ", "größe", "señal"], "f64[n]"), tmp_path / "greek")
    header = (package.folder / "greek.h").read_text()
    for name in ("lambda_", "Sigma", "theta", "grosse", "senal"):
        assert f"const double *{name}," in header
    assert "senal: double[n]" in header
    assert make(package.folder, "check").returncode == 0


def test_harmless_names_stay(package):
    header = (package.folder / "names.h").read_text()
    for name in HARMLESS:
        assert f"const double *{name}," in header, name


@pytest.mark.parametrize("name", ["unix", "EOF", "size_t", "char8_t", "SG_N", "exp", "class", "workspace", "sg_n"])
def test_extents_are_refused_in_one_line(name, tmp_path):
    with pytest.raises(sg.SymgradError, match=f"'{name}' cannot name an extent(.|\n)*instead: {name}_"):
        sg.emit(np.sum, (f"f64[{name}]",), tmp_path / "out")


@pytest.mark.parametrize("name", ["error", "OK", "loss_workspace_bytes", "loss_core"])
def test_functions_with_the_name_of_something_else(name, tmp_path):
    loss, other = function(["x"], "np.sum(x)"), function(["x"], "np.sum(x)")
    loss.__name__, other.__name__ = "loss", name
    with pytest.raises(sg.SymgradError, match=rf"{name}\(\) would be called MM_{name}, as something else is"):
        sg.emit([loss, other], {"x": "f64[n]"}, tmp_path / "MM")


def test_functions_may_have_names_of_c(tmp_path):
    found = []
    for name in ("union", "exp", "for_", "<lambda>"):
        def loss(x):
            return np.sum(x * x)

        loss.__name__ = name
        found.append(loss)
    package = sg.emit(found, {"x": "f64[n]"}, tmp_path / "several")
    assert package.functions == ("several_union", "several_exp", "several_for_", "several_lambda")
    assert make(package.folder, "check").returncode == 0


@pytest.mark.parametrize("name", ["read", "nanf", "malloc", "exit", "index", "y0"])
def test_a_module_is_no_function_of_the_c_library(name, tmp_path):
    with pytest.raises(sg.SymgradError, match=rf"cannot be named '{name}'(.|\n)*name='{name}_module'"):
        sg.emit(function(["x"], "np.sum(x)"), {"x": "f64[n]"}, tmp_path / name)


@pytest.mark.parametrize("name", ["malloc_", "reader", "x_", "gammas"])
def test_a_module_of_a_harmless_name(name, tmp_path):
    assert sg.emit(function(["x"], "np.sum(x)"), {"x": "f64[n]"}, tmp_path / name, what="value").functions == (name,)


def test_results_and_blocks_have_names_of_their_own(tmp_path):
    def loss(a, a_b, b_c, c):
        return {"u": {"v_w": a * c}, "u_v": {"w": np.sum(a_b * b_c)}}

    package = sg.emit(loss, dict.fromkeys(("a", "a_b", "b_c", "c"), "f64[n]"), tmp_path / "blocks",
                      what=("value", "jacobian"), wrt=("a", "a_b", "b_c", "c"))
    assert [one["name"] for one in package.report["functions"][0]["writes"]] == ["result_u_v_w", "result_u_v_w_2"]
    ran = make(package.folder, "check")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_an_argument_may_have_the_name_of_an_extern_function(tmp_path):
    weight = sg.extern("weight", "double weight(double x) { return 2.0 * x; }", lambda x: 2.0 * x,
                       vjp=lambda g: 2.0 * g)

    loss = function(["weight", "x"], "np.sum(op(x)) * weight")
    loss.__globals__["op"] = weight
    package = sg.emit(loss, {"weight": "f64[]", "x": "f64[n]"}, tmp_path / "weighted")
    ran = make(package.folder, "check")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_macros_of_windows_are_no_names_of_arguments(tmp_path):
    """There <windows.h> makes `small` a char and `IN` nothing; extents keep such names in a program."""
    words = ["small", "near", "interface", "IN"]
    package = sg.emit(function(words, "np.sum(small * near * interface * IN)"), dict.fromkeys(words, "f64[n]"),
                      tmp_path / "windows")
    header = (package.folder / "windows.h").read_text()
    for word in words:
        assert f"const double *{word}_," in header
    product = sg.jit(lambda a, b: a @ b, specs=("f64[IN,OUT]", "f64[OUT]"))
    np.testing.assert_array_equal(product(np.ones((2, 3)), np.ones(3)), [3.0, 3.0])


def test_directions_of_arguments_with_an_underscore(tmp_path):
    """In C an argument called exp is exp_, and its direction exp_dot."""
    loss = function(["exp"], "np.sum(exp * exp)")
    package = sg.emit(loss, {"exp": "f64[n]"}, tmp_path / "squares", what=("jvp", "vjp", "hvp"))
    assert "const double *exp_dot" in (package.folder / "squares.h").read_text()
    ran = make(package.folder, "check", "EXACT=1")
    assert ran.returncode == 0, ran.stdout + ran.stderr


RNG = np.random.default_rng(0)
W, PLACES, SETTINGS = RNG.random((40, 3)), RNG.permutation(40), {"W": RNG.random(40), "größe": RNG.random(40)}
MODEL = SimpleNamespace(layers=[RNG.random((40, 3)), {"double": RNG.random(40)}], bias=RNG.random(40))


def reads_arrays(x: Any, scale: Any = RNG.random(40)) -> Any:  # noqa: B008 - a default is what is looked at
    i, value = np.log(MODEL.bias), np.sqrt(MODEL.bias)  # names that loops and results of the C have
    hidden = np.tanh(W @ x)[PLACES] * SETTINGS["W"] + MODEL.layers[0] @ x * MODEL.layers[1]["double"]
    hidden = hidden * SETTINGS["größe"] + i * x[0] + value * x[1]
    return np.sum(hidden * scale + W[:, 1] * x[2] + np.exp(MODEL.bias) * x[1])


HOLDS = {
    "W": "", "W_2": "(part of W)", "PLACES": "", "SETTINGS_W": "(SETTINGS['W'])", "grosse": "(SETTINGS['größe'])",
    "MODEL_layers_0": "(MODEL.layers[0])", "double_": "(MODEL.layers[1]['double'])", "i": "", "value_2": "(value)",
    "scale": "(reads_arrays.scale)", "c10": "(at test_names.py)",
}
"""What stands in the header beside the constants' names, which are without a name only where the array has none."""


def test_arrays_that_a_function_reads_have_their_names(tmp_path):
    """Names of the user's, made valid and unlike; the header says of each how the user's code reads it."""
    sg.emit(reads_arrays, ("f64[3]",), tmp_path, name="held")
    assert make(tmp_path, "check").returncode == 0
    header, text = [(tmp_path / f"held.{end}").read_text() for end in "hc"]
    said = dict(re.findall(r" \* holds  held_core_(\w+): [\w\[\]]+ *(.*)", header))
    found = set(re.findall(r"static const \w+ held_core_(\w+)\[", text))
    assert found == said.keys()
    assert {name: re.sub(":[0-9]+", "", rest) for name, rest in said.items()} == HOLDS
