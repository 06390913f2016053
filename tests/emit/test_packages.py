"""Emitted packages: their tests pass, bit for bit, without a warning, under sanitizers, as C99, C11 and C++."""

from __future__ import annotations

import ctypes
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

import symgrad as sg
from tests.emit.conftest import LOSS, PACKAGES, make
from tests.night import some

GXX, CLANG, MAKE = (shutil.which(name) for name in ("g++", "clang", "make"))
GCC = shutil.which("gcc") or ""
PROFILES = ("embedded", "fast")
pytestmark = pytest.mark.skipif(MAKE is None or not GCC, reason="needs make and gcc")
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wdouble-promotion", "-Wshadow", "-pedantic", "-Werror"]


def syntax(folder, compiler, *flags, name):
    """Ask a compiler for warnings alone."""
    command = [compiler, *flags, *WARNINGS, "-fsyntax-only", f"{name}.c", f"test_{name}.c"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


BY_DAY = {(name, PROFILES[turn % 2]) for turn, name in enumerate(PACKAGES)}
EACH = pytest.mark.parametrize(("name", "profile"), [
    pytest.param(name, profile, marks=[] if (name, profile) in BY_DAY else pytest.mark.nightly)
    for profile in PROFILES for name in PACKAGES
])
"""By day each package in one of the profiles, in turn."""


@EACH
def test_make_check(copied, name, profile):
    folder = copied(name, profile)
    ran = make(folder, "check", "CC=gcc", "EXACT=1" if profile == "embedded" else "EXACT=")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"\d recorded calls?.*: all agree\n$", ran.stdout)
    assert ran.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", some(PACKAGES, of=3))
def test_sanitizers(copied, name):
    ran = make(copied(name), "sanitize", "CC=gcc")
    assert ran.returncode == 0, ran.stdout + ran.stderr


@EACH
def test_no_warning_in_any_dialect(packages, name, profile):
    folder = packages(name, profile).folder
    ways = [[GCC, "-std=c99"], [GCC, "-std=c11", f"-D{name.upper()}_CHECK"]]
    ways += [[GXX, "-x", "c++", "-std=c++11"]] if GXX else []
    if profile == "fast":  # the other knows no OpenMP
        ways += [[GCC, "-std=c99", "-fopenmp"]]
        ways += [[GXX, "-x", "c++", "-std=c++17", "-fopenmp"]] if GXX else []
    ways += [[CLANG, "-std=c99"], [CLANG, "-x", "c++", "-std=c++17"]] if CLANG else []
    for compiler, *flags in ways:
        ran = syntax(folder, compiler, *flags, name=name)
        assert ran.returncode == 0, f"{compiler} {flags}: {ran.stderr[:2000]}"


@pytest.mark.skipif(CLANG is None, reason="needs clang")
@pytest.mark.parametrize("name", PACKAGES)
def test_make_check_with_clang(copied, name):
    ran = make(copied(name), "check", "CC=clang")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_same_numbers_as_python_to_the_last_bit(packages, model, tmp_path):
    """The recorded numbers are those of a call in Python, printed so that C reads the same bits."""
    package = packages("loss")
    text = (package.folder / "test_loss.c").read_text()
    case = re.search(r"static int loss_value_and_grad_case1\(void\)\n\{(.*?)\n\}", text, re.DOTALL)
    assert case is not None

    def array(name):
        found = re.search(rf"const double {name}\[\] = \{{ (.*?) \}};", case[1])
        assert found is not None
        return np.array([float(number) for number in found[1].split(", ")])

    w, y = array("in_w"), array("in_y")
    function = sg.value_and_grad(model.loss, options=sg.Options(portable=True))
    value, gradient = function(w, array("in_X").reshape(y.size, w.size), y)
    assert array("want_value").tobytes() == np.asarray(value).tobytes()
    assert array("want_w_bar").tobytes() == gradient.tobytes()


@pytest.fixture(scope="module")
def both(packages, model, tmp_path_factory):
    """The package's C, compiled, and Python's function with the same extents open."""
    folder = packages("loss").folder
    library = tmp_path_factory.mktemp("both") / "loss.so"
    flags = ["-std=c99", "-O2", "-ffp-contract=off", "-fPIC", "-shared"]
    subprocess.run(["gcc", *flags, str(folder / "loss.c"), "-o", str(library), "-lm"], check=True)
    c = ctypes.CDLL(str(library))
    c.loss_value_and_grad_workspace_bytes.restype = ctypes.c_int64
    specs = ("f64[d]", "f64[n,d]", "f64[n]")
    return c, sg.value_and_grad(model.loss, specs=specs, options=sg.Options(portable=True))


@pytest.mark.parametrize("n", [1, 64, 65, 257, 1000, 3000])
def test_the_c_gives_python_s_bits_beyond_every_tile(both, n):
    """Where Python leaves the same extents open, and whatever the workspace held."""
    (c, function), d = both, 5
    rng = np.random.default_rng(n)
    w, X, y = rng.normal(size=d), rng.normal(size=(n, d)), rng.normal(size=n)
    extents = [ctypes.c_int64(d), ctypes.c_int64(n)]
    workspace = np.full(c.loss_value_and_grad_workspace_bytes(*extents) + 8, 255, np.uint8)
    value, gradient = np.full(1, np.nan), np.full(d, np.nan)
    places = [ctypes.c_void_p(a.ctypes.data) for a in (w, X, y, value, gradient)]
    assert c.loss_value_and_grad(*places, *extents, ctypes.c_void_p(workspace.ctypes.data)) == 0
    python = function(w, X, y)
    assert value.tobytes() == np.asarray(python[0]).tobytes()
    assert gradient.tobytes() == python[1].tobytes()


def without_comments(text):
    return re.sub(r'"[^"\n]*"', "", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL))


@EACH
def test_what_the_c_does_not_hold(packages, name, profile):
    folder = packages(name, profile).folder
    for file in (f"{name}.c", f"{name}_check.h"):
        text = without_comments((folder / file).read_text())
        assert not re.search(r"\b(malloc|calloc|realloc|alloca|free|printf|Python)\b", text)
        bare = re.sub(r"static (inline|const|__attribute__)", "", text)
        assert not re.search(r"^\s*static [^(]*;", bare, re.MULTILINE), "a static that can change"
        assert not re.search(r"^\s+\w+ \w+\[[^\]]*[a-z_]", text, re.MULTILINE), "an array of variable length"
        assert set(re.findall(r"#include <(.*?)>", text)) <= {"math.h", "stddef.h"}
    if profile == "embedded":
        assert "omp" not in without_comments((folder / f"{name}.c").read_text())


@pytest.mark.parametrize("profile", PROFILES)
def test_single_precision_has_no_double(packages, profile):
    text = without_comments((packages("loss_single", profile).folder / "loss_single.c").read_text())
    assert not re.search(r"\bdouble\b", text)
    assert not re.search(r"(?<![\w.])\d+\.\d*(?:e[-+]?\d+)?(?![\w.])", text)


def test_no_function_calls_itself(packages):
    for name in PACKAGES:
        text = without_comments((packages(name).folder / f"{name}.c").read_text())
        definition = re.compile(r"^[a-z]\w* [^\n]*?\b(\w+)\([^;{]*?\)\s*\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
        for function, body in definition.findall(text):
            assert not re.search(rf"\b{function}\(", body), function


def test_extents_that_no_array_has(copied, tmp_path):
    """Negative and overflowing extents give a status, and nothing is touched."""
    folder = copied("loss")
    (folder / "extents.c").write_text("""
#include "loss.h"
#include <stdio.h>
int main(void) {
    const int64_t wide[] = { -1, 0, INT64_C(1) << 47, (INT64_C(1) << 47) + 1, INT64_MAX, INT64_MIN };
    for (int k = 0; k < 6; ++k) {
        const int64_t bytes = loss_grad_workspace_bytes(wide[k], 1);
        printf("%lld %d %s\\n", (long long)bytes, loss_grad(0, 0, 0, 0, wide[k] == 0 ? 1 : wide[k], -1, 0),
            loss_error((int32_t)(bytes < 0 ? bytes : 0)));
    }
    return 0;
}
""")
    built = subprocess.run(
        [GCC, "-std=c99", "-fsanitize=undefined", "extents.c", "loss.c", "-lm", "-o", "extents"], cwd=folder,
        capture_output=True, text=True, check=False,
    )
    assert built.returncode == 0, built.stderr
    ran = subprocess.run([folder / "extents"], capture_output=True, text=True, check=True)
    lines = ran.stdout.splitlines()
    assert ran.stderr == ""
    assert [line.split()[0] for line in lines[:2]] == ["-1", "0"]
    assert int(lines[2].split()[0]) >= 0
    assert [line.split()[:2] for line in lines[3:5]] == [["-2", "-1"]] * 2
    assert lines[4].endswith("an array of these extents is larger than memory can be")
    assert lines[5].endswith("an extent is negative")


def test_an_index_out_of_bounds_has_a_status(copied):
    folder = copied("softmax")
    header = (folder / "softmax.h").read_text()
    assert re.search(r"/\* 1: softmax_value: model.py:\d+: an index is out of bounds for an axis of size k \*/",
                     header)
    (folder / "bad.c").write_text("""
#include "softmax.h"
#include <stdio.h>
static char space[1 << 20];
int main(void) {
    double W[2] = {0, 0}, X[1] = {1}, value[1], bar[2];
    int64_t labels[1] = {2};
    int32_t status = softmax_value(W, X, labels, value, 1, 2, 1, space);
    puts(softmax_error(status));
    status = softmax_value_and_grad(W, X, labels, value, bar, 1, 2, 1, space);
    puts(softmax_error(status));
    puts(softmax_error(99));
    return status;
}
""")
    command = [GCC, "-std=c99", "bad.c", "softmax.c", "-lm", "-o", "bad"]
    subprocess.run(command, cwd=folder, check=True)
    ran = subprocess.run([folder / "bad"], capture_output=True, text=True, check=False)
    first, second, third = ran.stdout.splitlines()
    assert re.fullmatch(r"model.py:\d+: an index is out of bounds for an axis of size k", first)
    assert second == first
    assert third == "no status of softmax"
    assert ran.returncode > 1, "a number of its own"


def test_an_extremum_of_nothing_has_a_status(copied):
    folder = copied("largest")
    text = (folder / "largest.h").read_text()
    assert "np.max along axis 0 of no elements" in text
    assert "index 2 is out of bounds for an axis of size n" in text


def test_where_a_nan_began(copied):
    """As `Options(debug_nans=True)` says it: not what `where` guards, but what a result comes from."""
    folder = copied("root")
    (folder / "nan.c").write_text("""
#include "root.h"
#include <stdio.h>
int main(void) {
    double x[3] = {2.0, 0.5, 3.0}, bar[3];
    char space[4096];
    int32_t status = root_grad(x, bar, 3, space);
    printf("%d\\n", status);
    x[1] = 0.0;
    status = root_grad(x, bar, 3, space);
    printf("%d %s\\n", status >= 10000, root_error(status));
    return 0;
}
""")
    for flags, wanted in ((["-DROOT_CHECK"], r"0\n1 model.py:\d+: .* NaN or Inf, and so does a result of root\(\)\n"),
                          ([], r"0\n0 success\n")):
        command = [GCC, "-std=c99", *flags, "nan.c", "root.c", "-lm", "-o", "nan"]
        subprocess.run(command, cwd=folder, check=True)
        ran = subprocess.run([folder / "nan"], capture_output=True, text=True, check=True)
        assert re.fullmatch(wanted, ran.stdout), ran.stdout


@pytest.mark.parametrize("name", ["loss", "softmax", "black_scholes"])
def test_the_build_that_looks_for_nan_computes_the_same(copied, name):
    ran = make(copied(name), "check", "CHECK=1", "CC=gcc")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_stack_bound_holds(copied):
    for name in ("loss", "softmax", "network", "gammas"):
        folder = copied(name, "fast")
        bound = max(f["stack"]["bound"] for f in json.loads((folder / "report.json").read_text())["functions"])
        for level in ("-O0", "-O3"):
            command = [GCC, "-std=c99", level, "-march=native", "-fopenmp", "-fstack-usage", "-c", f"{name}.c"]
            subprocess.run(command, cwd=folder, check=True)
            used = re.findall(r"\t(\d+)\t(static|dynamic,bounded)", (folder / f"{name}.su").read_text())
            assert max(int(number) for number, _ in used) <= bound


def test_report(packages):
    report = json.loads((packages("loss").folder / "report.json").read_text())
    assert report["format"] == "symgrad package 1"
    by_name = {f["name"]: f for f in report["functions"]}
    both = by_name["loss_value_and_grad"]
    assert both["reads"][0] == {"name": "w", "dtype": "float64", "shape": ["d"], "unit": "1/m"}
    assert both["writes"] == [
        {"name": "value", "dtype": "float64", "shape": []}, {"name": "w_bar", "dtype": "float64", "shape": ["d"]},
    ]
    assert "4*d*n" in both["flops"]
    assert both["stack"]["bound"] > both["stack"]["arrays"] > 0
    assert all(f["finite_differences"] for f in report["functions"] if f["what"] != "value")
    assert re.fullmatch("[0-9a-f]{64}", report["provenance"])
    assert set(report["files"]) == set(packages("loss").files) - {"report.json"}


def test_the_header_says_what_there_is(packages):
    text = (packages("loss").folder / "loss.h").read_text()
    assert " * reads  w: double[d]  in 1/m\n" in text
    assert " * writes w_bar: double[d]\n" in text
    assert 'extern "C" {' in text
    assert "value and gradient of loss() of model.py:7, by w" in text
    network = (packages("network").folder / "network.h").read_text()
    assert "(params['layers'][0][0])" in network
    assert "hessian_" in network


def test_extents_are_said_as_they_are_of_small_arrays_too(tmp_path):
    """Loops are made for large extents apart, where ``x[1:]`` has n - 1 elements; for n = 0 it has none."""
    package = sg.emit(lambda x: np.tanh(np.diff(x)), {"x": "f64[n]"}, tmp_path / "steps", what="vjp", python=True)
    header = (package.folder / "steps.h").read_text()
    assert " * reads  value_bar: double[Max(0, n - 1)]\n * writes value: double[Max(0, n - 1)]\n" in header
    assert "value = np.empty([max(_extents['n'] - 1, 0)], " in (package.folder / "steps" / "__init__.py").read_text()
    assert package.report["functions"][0]["writes"][0]["shape"] == ["Max(0, n - 1)"]


def test_comments_name_the_users_lines(packages):
    text = (packages("loss").folder / "loss.c").read_text()
    assert "/* model.py:8  z = X @ w */" in text
    assert "/* model.py:11 */" in text or "/* model.py:11  return" in text
    assert {"z", "margin", "z_bar"} <= {*re.findall(r"\w+", text)}, "values are named after what the user assigns"


def test_functions_share_helpers(packages):
    text = (packages("loss").folder / "loss.c").read_text()
    assert text.count("static inline double sg_expit(") == 1
    assert len(re.findall(r"^int32_t loss_\w+\($", text, re.MULTILINE)) == 8


def test_pointers_and_pragmas_stand_behind_macros(packages):
    text = (packages("loss", "fast").folder / "loss.c").read_text()
    plain = re.findall(r"^\s*#\s*pragma (.*)", text, re.MULTILINE)
    others = [pragma for pragma in plain if not pragma.startswith("clang fp")]  # which stand under #ifdef __clang__
    assert others == ['GCC optimize("no-thread-jumps")'], "and that one for gcc alone"
    assert "SG_PRAGMA(omp simd" in text
    assert "SG_PRAGMA(omp parallel for" in text
    assert not re.search(r"\brestrict\b(?!\n)", re.sub(r"#define.*", "", without_comments(text)))


def test_specs_give_open_extents_for_every_size(packages):
    """One function serves every extent, 0 and 1 included: its test has calls of each."""
    text = (packages("loss").folder / "test_loss.c").read_text()
    calls = re.findall(r"loss_grad\(in_w, in_X, in_y, out_w_bar, (\d+), (\d+), space\)", text)
    assert {("5", "0"), ("1", "1"), ("67", "3")} <= {*calls}


@pytest.mark.parametrize("file", ["Makefile", "CMakeLists.txt"])
def test_fast_packages_are_built_with_what_the_compiler_needs(packages, file):
    """Without contraction bits stay; with vectors of statements gcc 12.2 permutes elements wrong under AVX-512."""
    text = (packages("loss", "fast").folder / file).read_text()
    assert "-ffp-contract=off" in text
    assert "-fno-tree-slp-vectorize" in text
    assert "-fno-tree-loop-distribute-patterns" in text
    assert "--param=max-jump-thread-duplication-stmts=0 -DSG_KEEPS_JUMPS" in text
    assert "-mprefer-vector-width=512" in text


def test_fast_packages_keep_gcc_from_threading_jumps_whoever_compiles_them(packages):
    text = (packages("loss", "fast").folder / "loss.c").read_text()
    assert text.index('#pragma GCC optimize("no-thread-jumps")') < text.index("SG_PRAGMA(omp simd")
    assert "#pragma GCC" not in (packages("loss").folder / "loss.c").read_text()


def test_threads_are_checked(copied):
    header = (copied("loss", "fast") / "loss.h").read_text()
    assert "LOSS_BAD_THREADS = -3" in header
    assert "int32_t threads" in header


def test_finite_differences_that_disagree_are_said(model, tmp_path):
    with pytest.warns(sg.SymgradWarning, match=r"agree nowhere with what stopped computes"):
        package = sg.emit(model.stopped, {"x": "f64[4]"}, tmp_path / "stopped", what="grad")
    assert "compared with recorded numbers alone" in (package.folder / "README.md").read_text()
    assert package.report["functions"][0]["finite_differences"] is False
    assert make(package.folder, "check").returncode == 0


def test_a_wrong_number_fails_the_check(copied):
    folder = copied("gammas")
    path = folder / "test_gammas.c"
    text = path.read_text()
    path.write_text(re.sub(r"(want_value\[\] = \{ )(\d)", lambda m: f"{m[1]}1{m[2]}", text, count=1))
    ran = make(folder, "check")
    assert ran.returncode != 0
    assert re.search(r"gammas: value\[0\] is .*, not 1", ran.stdout)


def test_a_wrong_derivative_fails_the_check(copied):
    folder = copied("loss")
    path = folder / "loss.c"
    text = path.read_text()
    assert "w_bar[i_d] = " in text
    path.write_text(text.replace("w_bar[i_d] = ", "w_bar[i_d] = 1.001 * "))
    ran = make(folder, "check")
    assert ran.returncode != 0
    assert "finite differences give" in ran.stdout


def test_large_arrays_are_computed_not_written(packages):
    """By a formula that Python and C share; of large results, every so many-th number is recorded."""
    path = packages("large").folder / "test_large.c"
    assert path.stat().st_size < 60_000
    text = path.read_text()
    assert "= made_float(60000, " in text


def test_same_bytes_again(packages, model, tmp_path):
    again = sg.emit(model.loss, LOSS, tmp_path / "loss", **PACKAGES["loss"][2])
    for name in again.files:
        assert (again.folder / name).read_bytes() == (packages("loss").folder / name).read_bytes(), name
