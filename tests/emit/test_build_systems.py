"""Other ways to build a package: CMake, pkg-config, pip, a compiler for another machine."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from tests.emit.conftest import LOSS, make

CMAKE, CTEST, PKG_CONFIG = (shutil.which(name) for name in ("cmake", "ctest", "pkg-config"))
ZIG = importlib.util.find_spec("ziglang")

USER = """cmake_minimum_required(VERSION 3.13)
project(user LANGUAGES CXX)
find_package(loss REQUIRED)
add_executable(user user.cpp)
target_link_libraries(user PRIVATE loss::loss)
"""
CALL = """#include <cstdio>
#include <vector>
#include "loss.h"
int main() {
    std::vector<char> space(1 + loss_value_workspace_bytes(2, 1%s));
    double w[2] = {1, 2}, X[2] = {3, 4}, y[1] = {1}, value[1];
    if (loss_value(w, X, y, value, 2, 1%s, space.data()) != 0) return 1;
    std::printf("%%.17g\\n", value[0]);
    return 0;
}
"""


def run(*command, cwd, **options):
    ran = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, **options)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.slow
@pytest.mark.skipif(CMAKE is None or CTEST is None, reason="needs cmake")
@pytest.mark.parametrize("profile", ["embedded", "fast"])
def test_cmake_builds_tests_installs_and_is_found(copied, model, tmp_path, profile):
    folder = copied("loss", profile)
    run("cmake", "-B", "b", cwd=folder)
    run("cmake", "--build", "b", cwd=folder)
    assert "100% tests passed" in run("ctest", "--test-dir", "b", cwd=folder)
    run("cmake", "--install", "b", "--prefix", str(tmp_path / "prefix"), cwd=folder)
    user = tmp_path / "user"
    user.mkdir()
    (user / "CMakeLists.txt").write_text(USER)
    threads = ", 1" if profile == "fast" else ""
    (user / "user.cpp").write_text(CALL % (threads, threads))
    run("cmake", "-B", "b", f"-DCMAKE_PREFIX_PATH={tmp_path / 'prefix'}", cwd=user)
    run("cmake", "--build", "b", cwd=user)
    packaged = next((tmp_path / "prefix").rglob("loss.pc")).read_text()
    assert f"prefix={tmp_path / 'prefix'}\n" in packaged, "that of the installation, which none was told before"
    value = float(run(str(user / "b" / "user"), cwd=user))
    assert value == pytest.approx(model.loss(np.array([1.0, 2.0]), np.array([[3.0, 4.0]]), np.ones(1)), rel=1e-12)


@pytest.mark.skipif(PKG_CONFIG is None or shutil.which("g++") is None, reason="needs pkg-config and g++")
def test_make_install_and_pkg_config(copied, model, tmp_path):
    folder = copied("loss")
    assert make(folder, "install", f"PREFIX={tmp_path / 'prefix'}").returncode == 0
    installed = {str(p.relative_to(tmp_path / "prefix")) for p in (tmp_path / "prefix").rglob("*") if p.is_file()}
    assert installed == {"include/loss.h", "lib/libloss.a", "lib/pkgconfig/loss.pc"}
    environment = os.environ | {"PKG_CONFIG_PATH": str(tmp_path / "prefix" / "lib" / "pkgconfig")}
    flags = run("pkg-config", "--cflags", "--libs", "loss", cwd=tmp_path, env=environment).split()
    (tmp_path / "user.cpp").write_text(CALL % ("", ""))
    run("g++", "user.cpp", *flags, "-o", "user", cwd=tmp_path)
    value = float(run(str(tmp_path / "user"), cwd=tmp_path))
    assert value == pytest.approx(model.loss(np.array([1.0, 2.0]), np.array([[3.0, 4.0]]), np.ones(1)), rel=1e-12)


@pytest.mark.slow
def test_the_python_package_needs_no_symgrad(model, tmp_path):
    """Built by setuptools as pip would, without a network: what it needs to build is here."""
    pytest.importorskip("setuptools")
    specs = {**LOSS, "W": "f64[d,k]", "labels": "i64[n]", "edges": "f64[n+1]", "weights": "f64[n]"}
    functions = [model.loss, model.softmax, model.length]
    package = sg.emit(functions, specs, tmp_path / "both", what=("value_and_grad",), python=True)
    assert package.functions == ("both_loss", "both_softmax", "both_length")
    run(sys.executable, "setup.py", "-q", "build_ext", "--inplace", cwd=package.folder)
    rng = np.random.default_rng(0)
    w, X, y = rng.normal(size=3), rng.normal(size=(4, 3)), np.sign(rng.normal(size=4))
    value, gradient = sg.value_and_grad(model.loss, options=sg.Options(portable=True))(w, X, y)
    code = (
        "import sys, json, numpy as np, both\n"
        "w, X, y = [np.array(a) for a in json.load(sys.stdin)]\n"
        "value, gradient = both.both_loss(w, X, y)\n"
        "errors = []\n"
        "for call in (lambda: both.both_loss(w[:2], X, y), lambda: both.both_loss(w, X[0], y),\n"
        "             lambda: both.both_loss(w * 1j, X, y), lambda: both.both_softmax(np.eye(3), X, np.full(4, 7)),\n"
        "             lambda: both.both_length(y, y)):\n"
        "    try:\n"
        "        call()\n"
        "    except (TypeError, ValueError) as error:\n"
        "        errors.append(str(error))\n"
        "assert 'symgrad' not in sys.modules\n"
        "assert both.both_length(np.arange(4.0), np.ones(3))[0] == 3 * 2**0.5\n"
        "print(json.dumps([value, gradient.tolist(), errors]))\n"
    )
    given = json.dumps([w.tolist(), X.tolist(), y.tolist()])
    found = json.loads(run(sys.executable, "-c", code, cwd=package.folder, input=given))
    assert found[0] == value
    assert found[1] == gradient.tolist()
    assert found[2][:2] == ["X has shape (4, 3), not (n, 2)", "X has shape (3,), not (n, 3)"]
    assert found[2][2] == "w has dtype complex128, not float64"
    assert found[2][3].endswith("an index is out of bounds for an axis of size k")
    assert found[2][4] == "edges has shape (4,), not (5,)"


@pytest.mark.skipif(ZIG is None, reason="needs the ziglang package")
def test_another_machine(model, tmp_path):
    """Built for 64-bit ARM with musl: nothing here can run it, but it is what it should be."""
    zig = f"{sys.executable} -m ziglang cc -target aarch64-linux-musl"
    package = sg.emit(model.loss, LOSS, tmp_path / "loss", cc=zig, profile="fast")
    ran = make(package.folder, "test_loss")
    assert ran.returncode == 0, ran.stderr
    head = (package.folder / "test_loss").read_bytes()[:20]
    assert head[:4] == b"\x7fELF"
    assert int.from_bytes(head[18:20], "little") == 183, "AArch64"


@pytest.mark.skipif(ZIG is None, reason="needs the ziglang package")
@pytest.mark.parametrize("name", ["loss", "softmax", "pair", "black_scholes"])
def test_clang_of_the_ziglang_package(copied, name):
    ran = make(copied(name), "check", f"CC={sys.executable} -m ziglang cc")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_compiler_stands_in_the_makefile(model, tmp_path):
    package = sg.emit(model.loss, LOSS, tmp_path / "loss", cc="zig cc -target aarch64-linux-musl", profile="fast")
    text = (package.folder / "Makefile").read_text()
    assert "CC = zig cc -target aarch64-linux-musl\n" in text
    assert "AR = zig ar\n" in text
    assert "-march=native" not in text
    assert Path(package.folder / "Makefile").is_file()
