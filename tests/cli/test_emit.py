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
