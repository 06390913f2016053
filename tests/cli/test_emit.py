"""``symgrad emit``: a package from the command line."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from symgrad.cli.main import main

SPECS = ["--arg", "params.w=f64[d]", "--arg", "X=f64[n,d]", "--arg", "y=f64[n]"]


@pytest.fixture
def losses(tmp_path, monkeypatch):
    """The file with the losses, in a folder of its own, which is the current one."""
    shutil.copy(Path(__file__).with_name("losses.txt"), tmp_path / "losses.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path / "losses.py"


@pytest.fixture
def run(capsys):
    def program(*words):
        code = main([*words])
        out, err = capsys.readouterr()
        return code, out, err

    return program


def test_emit_writes_a_package(run, losses):
    words = ["emit", "losses.py:loss", *SPECS, "--wrt", "params.w", "--out", "build/loss_grad", "--unit", "y=1"]
    code, out, err = run(*words)
    assert (code, out) == (0, "loss_grad in build/loss_grad: make -C build/loss_grad check\n")
    assert err.split("\n")[0] == "the file is imported"
    package = losses.parent / "build" / "loss_grad"
    header = (package / "loss_grad.h").read_text()
    assert " * writes w_bar: double[d]\n" in header
    assert "(params['w'])" in header
    assert "y: double[n]  in 1" in header
    before = {path.name: path.read_bytes() for path in package.iterdir()}
    assert run(*words)[0] == 0
    assert {path.name: path.read_bytes() for path in package.iterdir()} == before
    if shutil.which("make") and shutil.which("cc"):
        ran = subprocess.run(["make", "check"], cwd=package, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr


def test_emit_of_several_functions_and_derivatives(run, losses):
    words = ["--arg", "x=f64[n]", "--what", "value", "--what", "jvp", "--out", "both", "--profile", "fast"]
    code, out, _ = run("emit", "losses.py:quadratic", "losses.py:vector", *words)
    assert code == 0
    assert out.startswith("both_quadratic_value, both_quadratic_jvp, both_vector_value, both_vector_jvp in both")
    assert (losses.parent / "both" / "both.h").is_file()


def test_wrt_names_arguments_that_are_given_by_keyword_alone(run, losses):
    words = ["emit", "losses.py:loss", *SPECS, "--arg", "scale=f64[]", "--out", "one"]
    assert run(*words, "--wrt", "scale,params.w")[0] == 0
    header = (losses.parent / "one" / "one.h").read_text()
    assert " * writes scale_bar: double, one number\n * writes w_bar: double[d]\n" in header
    assert run("emit", "losses.py:keyed", "--arg", "x=f64[n]", "--out", "two")[0] == 0, "the first one by itself"
    assert "x_bar" in (losses.parent / "two" / "two.h").read_text()
    part, whole = [run("show", "losses.py:loss", *SPECS, "--grad", "--wrt", by)[:2] for by in ("params.w", "params")]
    assert part == whole
    assert part[0] == 0


ANNOTATED = """
from typing import NamedTuple
import numpy as np
from jaxtyping import Float, Float32, Float64, Int64
Array = np.ndarray

class Params(NamedTuple):
    w: Float64[Array, "d"]
    b: Float64[Array, ""]

def loss(w: Float64[Array, "d"], X: Float64[Array, "n d"], y: Float64[Array, "n"], rate: float = 0.5):
    return np.sum((X @ w - y) ** 2) * rate

def structured(params: Params, pair: tuple[Float32[Array, "n 3"], Int64[Array, "n"]]):
    return np.sum(params.w) * params.b + np.sum(pair[0]) + np.sum(pair[1])

def loose(x: Float[Array, "n *rest"]):
    return np.sum(x)

def wide(x: Float[Array, "n=4"]):
    return np.sum(x)

def length(edges: Float64[Array, "n+1"], weights: Float64[Array, "n"]):
    return np.sum(np.diff(edges) * weights)
"""


def test_emit_reads_annotations(run, losses):
    pytest.importorskip("jaxtyping")
    (losses.parent / "typed.py").write_text(ANNOTATED)
    assert run("emit", "typed.py:loss", "--out", "one")[0] == 0
    header = (losses.parent / "one" / "one.h").read_text()
    assert " * reads  X: double[n][d]\n" in header
    assert run("emit", "typed.py:loss", "--arg", "X=f64[n,7]", "--arg", "w=f64[7]", "--out", "two")[0] == 0
    header = (losses.parent / "two" / "two.h").read_text()
    assert " * reads  X: double[n][7]\n" in header, "--arg wins"
    assert " * reads  y: double[n]\n" in header
    assert run("emit", "typed.py:structured", "--out", "three", "--wrt", "params.w")[0] == 0
    header = (losses.parent / "three" / "three.h").read_text()
    assert "float[n][3]  (pair[0])" in header
    assert "int64_t[n]  (pair[1])" in header
    assert run("emit", "typed.py:wide", "--out", "four")[0] == 0
    assert "double[4]" in (losses.parent / "four" / "four.h").read_text()
    assert run("emit", "typed.py:length", "--out", "five")[0] == 0
    assert " * reads  edges: double[n + 1]\n" in (losses.parent / "five" / "five.h").read_text()
    code, out, _ = run("show", "typed.py:loss", "--stage", "traced")
    assert code == 0
    assert 'X: "float64[n,d]"' in out


def test_an_annotation_that_says_too_little(run, losses):
    pytest.importorskip("jaxtyping")
    (losses.parent / "typed.py").write_text(ANNOTATED)
    code, _, err = run("emit", "typed.py:loose", "--out", "one")
    assert code == 2
    assert err == (
        "symgrad: the annotation Float[ndarray, 'n *rest'] of x leaves a dtype or an axis open that has to be known: "
        'write Float64[np.ndarray, "n d"], with names and numbers alone, or --arg\n'
    )
    assert run("emit", "typed.py:loose", "--arg", "x=f64[n]", "--out", "one")[0] == 0
