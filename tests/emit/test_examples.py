"""The examples in C and C++: emitted, built and run by their own Makefiles."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDS = {"embed_c": ("make", "cc"), "embed_cpp": ("make", "cmake", "c++")}


@pytest.mark.slow
@pytest.mark.parametrize("name", NEEDS)
def test_an_example_fits(name, tmp_path):
    missing = [tool for tool in NEEDS[name] if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    shutil.copytree(ROOT / "examples" / name, tmp_path / name, ignore=shutil.ignore_patterns("build"))
    ran = subprocess.run(
        ["make", f"PYTHON={sys.executable}"], cwd=tmp_path / name, env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "all agree" in ran.stdout or "100% tests passed" in ran.stdout
    assert ("of 400 right" if name == "embed_c" else "steps of Newton's method") in ran.stdout
