"""A step as a package of C: its recorded calls agree with Python's step."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys

import numpy as np

import symgrad as sg
from symgrad.trace.structures import flattened

FILE = """
import numpy as np, symgrad as sg

def loss(p, x, y):
    return np.mean((x @ p["W"] + p["b"] - y) ** 2)

step = sg.compile_step(loss, sg.optim.adam(0.01), on_nan="raise")
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
    assert "recorded call: all agree" in check(tmp_path / "train")
    header = (tmp_path / "train" / "train.h").read_text()
    assert "const int64_t *t," in header
    assert "double *result_0_W," in header
    assert "an index is out of bounds for an axis of size 3" in header
    assert {name for name, _ in lines(tmp_path / "train")} == {"test_emitted.py"}


def lines(folder):
    """The lines that a package names."""
    return {line for path in folder.iterdir() for line in re.findall(r"(\w+\.py):(\d+)", path.read_text("latin-1"))}


def test_a_donated_step_is_emitted_in_place(tmp_path):
    """Given the same pointers for what it reads and writes, it trains where parameters and state stand."""
    def loss(p, ids, y):
        return np.mean(sg.nn.softmax_cross_entropy(np.tanh(p["E"][ids]) @ p["W"] + p["b"], y))

    opt, rng = sg.optim.adam(0.1, sparse="lazy"), np.random.default_rng(0)
    params = {"E": rng.normal(size=(5000, 4)), "W": rng.normal(size=(4, 3)), "b": np.zeros(3)}
    state, batch = opt.init(params), (np.array([3, 4999, 3, 7]), np.array([0, 2, 1, 1]))
    step = sg.compile_step(loss, opt, donate=True, on_nan="raise")
    (name,) = sg.emit(step, (params, state, *batch), tmp_path / "train").functions
    assert "recorded call: all agree" in check(tmp_path / "train")
    assert "result_0_E: double[5000][4]  (may be params_E itself)" in (tmp_path / "train" / "train.h").read_text()
    made = ["cc", "-O1", "-std=c99", "-shared", "-fPIC", "train.c", "-o", "train.so", "-lm"]
    subprocess.run(made, cwd=tmp_path / "train", check=True)
    library = ctypes.CDLL(str(tmp_path / "train" / "train.so"))
    space = getattr(library, f"{name}_workspace_bytes")
    space.restype = ctypes.c_int64
    workspace, value = np.empty(space(), np.uint8), np.zeros(())
    assert workspace.size < 5000  # of a table of 160,000 bytes
    own = [np.array(leaf) for leaf in flattened((params, state))[0]]

    def run(*batch):
        arrays = [*own, *batch, *own, value, workspace]
        return getattr(library, name)(*[ctypes.c_void_p(a.ctypes.data) for a in arrays])

    for _ in range(5):
        assert run(*batch) == 0
        params, state, expected = step(params, state, *batch)
        np.testing.assert_allclose(value, expected, rtol=1e-13)
    for one, other in zip(own, flattened((params, state))[0], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13)
    before = [a.copy() for a in own]
    assert run(np.array([3, 5000, 3, 7]), batch[1]) > 0
    assert run(batch[0], np.array([0, 2, 1, 3])) > 0
    assert all(np.array_equal(one, other) for one, other in zip(own, before, strict=True))
    before[1][0] = own[1][0] = np.nan  # of the weights; what NaN would reach is not written
    status = run(*batch)
    library.train_error.restype = ctypes.c_char_p
    assert re.fullmatch(rb"loss_step\(\) of test_emitted.py:\d+: the loss or the gradient is NaN or infinite",
                        library.train_error(status))
    assert all(np.array_equal(one, other, equal_nan=True) for one, other in zip(own, before, strict=True))


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
    assert lines(tmp_path / "made") == {("train.py", "4"), ("train.py", "5")}  # the loss, and nothing of symgrad's
