"""Packages that the tests look at, each emitted and built once."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg

STRICT = "WARNINGS=-Werror -Wall -Wextra -Wconversion -Wdouble-promotion -Wshadow -pedantic"
WHATS = ("value", "grad", "value_and_grad", "jvp", "vjp", "hvp", "hessian", "jacobian")
LOSS = {"w": "f64[d]", "X": "f64[n,d]", "y": "f64[n]"}
PARAMS = {"layers": [("f64[3,2]", "f64[2]"), ("f64[2,2]", "f64[2]")], "scale": "f64[]"}
STEPPED = {"x": "f64[n]", "k": "i64[]", "a": "f64[]"}
STEPS = [
    (np.full(2, 1.5), np.int64(0), 2.0), (np.array([0.5, -0.25, 0.125]), np.int64(1), 1.5),
    (np.linspace(-70.0, 1.0, 67), np.int64(0), 1.0), (np.array([0.25, 0.5, 0.75, 1.0]), np.int64(1), 2.0),
]
SPOT = dict.fromkeys(("spot", "strike", "time", "rate", "volatility"), "f64[n]")


def single(specs):
    """Replace double by single precision."""
    return {name: text.replace("f64", "f32") for name, text in specs.items()}


PACKAGES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "loss": ("loss", LOSS, {"what": WHATS, "units": {"w": "1/m"}}),
    "loss_single": ("loss", single(LOSS), {"what": WHATS}),
    "softmax": ("softmax", {"W": "f64[d,k]", "X": "f64[n,d]", "labels": "i64[n]"},
                {"what": ("value", "value_and_grad", "hvp")}),
    "network": ("network", {"params": PARAMS, "x": "f64[n,3]"},
                {"what": ("value_and_grad", "hessian"), "wrt": ("params['layers'][0]", "params['scale']")}),
    "pair": ("pair", {"x": "f32[n]", "k": "i32[n]"}, {"what": ("value", "jvp", "vjp", "jacobian"), "wrt": "x"}),
    "largest": ("largest", {"x": "f64[n]"}, {"what": ("value", "grad")}),
    "root": ("root", {"x": "f64[n]"}, {"what": ("grad", "hessian")}),
    "gammas": ("gammas", {"x": "f64[7]"}, {}),
    "chosen": ("chosen", {"x": "f64[n,2]", "mask": "bool[n,2]"}, {"what": "value"}),
    "black_scholes": ("black_scholes", SPOT, {"wrt": ("spot", "volatility")}),
    "mixed": ("mixed", {"x": "f64[n]"}, {"what": ("value", "jvp", "vjp")}),
    "large": ("loss", {"w": "f64[30]", "X": "f32[2000,30]", "y": "f64[2000]"}, {"what": ("value_and_grad", "vjp")}),
    "solved": ("solved", {"A": "f64[n,n]", "b": "f64[n]"}, {}),
    "stepped": ("stepped", STEPPED, {"what": ("value", "value_and_grad"), "wrt": ("x", "a"), "examples": STEPS}),
    "forked": ("forked", {"x": "f64[n]", "a": "f32[]"}, {"what": WHATS, "wrt": ("x", "a"), "examples": [
        (np.array([1.5, 2.0]), np.float32(2.0)), {"x": np.array([-1.0, 0.5, 0.25]), "a": np.float32(0.5)},
    ]}),
    "keyed": ("keyed", {"x": "f64[n]", "threads": "f64[]", "v1": "f64[]", "workspace": "f64[]"}, {}),
}
"""Packages: the function of the model, its specs, and what else `emit` is told."""


def imported(folder):
    """Import the model from a file of its own."""
    path = folder / "model.py"
    shutil.copy(Path(__file__).with_name("model.txt"), path)
    spec = importlib.util.spec_from_file_location("model_of_the_tests", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make(folder, *words):
    """Run make, with all warnings as errors."""
    return subprocess.run(["make", "-s", STRICT, *words], cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    return imported(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def packages(tmp_path_factory, model):
    """Emit by name and profile, each once."""
    root = tmp_path_factory.mktemp("packages")
    made = {}

    def package(name, profile="embedded"):
        if (name, profile) not in made:
            function, specs, settings = PACKAGES[name]
            out = root / profile / name
            made[name, profile] = sg.emit(getattr(model, function), specs, out, profile=profile, **settings)
        return made[name, profile]

    return package


@pytest.fixture
def copied(packages, tmp_path):
    """A package in a folder of its own, to be built there."""

    def package(name, profile="embedded"):
        folder = tmp_path / f"{name}_{profile}"
        shutil.copytree(packages(name, profile).folder, folder, dirs_exist_ok=True)
        return folder

    return package
