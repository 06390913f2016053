"""A step as a package of C: its recorded calls agree with Python's step."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

import symgrad as sg

FILE = """
import numpy as np, symgrad as sg

def loss(p, x, y):
    return np.mean((x @ p["W"] + p["b"] - y) ** 2)

step = sg.compile_step(loss, sg.optim.adam(0.01))
"""


def check(folder):
    done = subprocess.run(["make", "-C", folder, "check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_step_is_emitted(tmp_path):
    """With its state and the count in it; of arrays the call is recorded, too."""
    def loss(p, x, y):
        return np.mean(sg.nn.softmax_cross_entropy(x @ p["W"] + p["b"], y))

    opt, rng = sg.optim.momentum(0.1), np.random.default_rng(0)
    params = {"W": rng.normal(size=(5, 3)), "b": np.zeros(3)}
    batch = rng.normal(size=(8, 5)), rng.integers(0, 3, 8)
    step = sg.compile_step(loss, opt)
    sg.emit(step, (params, opt.init(params), *batch), tmp_path / "train")
    assert "recorded calls: all agree" in check(tmp_path / "train")
    header = (tmp_path / "train" / "train.h").read_text()
    assert "const int64_t *t," in header
    assert "double *result_0_W," in header
    assert "an index is out of bounds for an axis of size 3" in header


def test_the_command_line_makes_the_state(tmp_path):
    (tmp_path / "train.py").write_text(FILE)
    words = ["params.W=f64[5,3]", "params.b=f64[3]", "x=f64[n,5]", "y=f64[n,3]"]
    named = [part for word in words for part in ("--arg", word)]
    for given, code, said in ((named, 0, "make -C"), (named[4:], 2, "argument params has no spec")):
        command = [sys.executable, "-m", "symgrad", "emit", "train.py:step", *given, "--out", "made"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        assert said in done.stdout + done.stderr
    assert "all agree" in check(tmp_path / "made")
