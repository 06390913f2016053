"""The C of a package changes little where the loss changes little; ``#line`` names the user's lines."""

from __future__ import annotations

import difflib
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import symgrad as sg
from tests.emit.conftest import LOSS, SPOT, make

MODEL = Path(__file__).with_name("model.txt").read_text()


def emitted(text, folder, function="loss", specs=None, **settings):
    """Emit a function of a text, and return its C."""
    folder.mkdir()
    path = folder / "model.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(f"model_in_{folder.name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return sg.emit(getattr(module, function), specs or LOSS, folder / "loss", **settings)


def lines(text):
    return text.splitlines()


@pytest.mark.parametrize(
    ("old", "new", "most"),
    [
        ("OFFSET * np.sum(w**2)", "2.0 * np.sum(w**2)", 8),
        ("OFFSET * np.sum(w**2)", "OFFSET * np.sum(np.abs(w))", 12),
        ("margin = -y * z", "margin = -y * z + 0.5", 12),
        ("margin = -y * z", "margin = -y * np.sinh(z)", 12),
        ("    z = X @ w\n", "    # z\n    z = X @ w\n", 40),
    ],
)
def test_a_change_of_one_line_changes_little(tmp_path, old, new, most):
    """Added and removed lines of some 180; a line that is added moves the numbers of those after it in comments."""
    assert old in MODEL
    before, after = [
        (emitted(text, tmp_path / name).folder / "loss.c").read_text()
        for name, text in (("before", MODEL), ("after", MODEL.replace(old, new, 1)))
    ]
    changed = [line for line in difflib.unified_diff(lines(before), lines(after), n=0) if line[:1] in "+-"]
    changed = [line for line in changed if not line.startswith(("+++", "---"))]
    assert 0 < len(changed) <= most, "\n".join(changed)


@pytest.mark.parametrize("profile", ["embedded", "fast"])
@pytest.mark.parametrize(
    ("function", "old", "added", "most"),
    [
        ("loss", "    z = X @ w\n", "    z = z + 0.5\n", 28),
        ("black_scholes", "    total = volatility * np.sqrt(time)\n", "    rate = rate * 1.01\n", 12),
        ("black_scholes", "    total = volatility * np.sqrt(time)\n", "    unused = np.sinh(rate)\n", 0),
        ("root", "    inner = x - 1.0\n", "    x = np.abs(x)\n", 16),
    ],
)
def test_a_line_that_is_added_renames_nothing(tmp_path, function, old, added, most, profile):
    """Of the numbers of lines, which move, nothing is counted: what is left is what the line computes."""
    assert old in MODEL
    specs = {"loss": LOSS, "root": {"x": "f64[n]"}, "black_scholes": SPOT}[function]
    before, after = [
        re.sub(r"model\.py:\d+", "model.py", (emitted(text, tmp_path / name, function, specs, profile=profile).folder
                                             / "loss.c").read_text())
        for name, text in (("before", MODEL), ("after", MODEL.replace(old, old + added, 1)))
    ]
    changed = [line for line in difflib.unified_diff(lines(before), lines(after), n=0) if line[:1] in "+-"]
    changed = [line for line in changed if not line.startswith(("+++", "---"))]
    assert len(changed) <= most, "\n".join(changed)


@pytest.mark.parametrize("profile", ["embedded", "fast"])
def test_line_directives_name_the_users_lines(tmp_path, profile):
    package = emitted(MODEL, tmp_path / "lines", line_directives=True, profile=profile)
    folder = package.folder
    text = (folder / "loss.c").read_text()
    assert set(re.findall(r'#line (\d+) "model\.py"', text)) == {"8", "9", "10", "11"}
    for number, line in enumerate(lines(text), 1):
        own = re.fullmatch(r'#line (\d+) "loss\.c"', line)
        assert own is None or int(own[1]) == number + 1, "what follows a function has its own lines again"
    if shutil.which("make") is None:
        pytest.skip("no make")
    ran = make(folder, "check")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    broken = folder / "broken.c"
    assert re.search(r"^ +(const )?double z\w* = ", text, re.MULTILINE)
    broken.write_text(re.sub(r"(double z\w* = )", r"\1undeclared + ", text, count=1))
    said = subprocess.run(["gcc", "-c", "broken.c"], cwd=folder, capture_output=True, text=True, check=False).stderr
    assert "model.py:8:" in said


def test_the_same_bytes_in_every_process(tmp_path):
    code = (
        "import sys; sys.path.insert(0, {root!r})\n"
        "import numpy as np, symgrad as sg\n"
        "def f(a, b): return np.sum(np.tanh(a @ b) ** 2) + np.max(a)\n"
        "sg.emit(f, dict(a='f64[n,k]', b='f64[k]'), {out!r}, what=('grad', 'hvp', 'value'), wrt=('a', 'b'))\n"
    )
    found = []
    for seed in ("0", "7"):
        out = tmp_path / seed / "module"
        (tmp_path / "program.py").write_text(code.format(root=str(Path(__file__).parents[2]), out=str(out)))
        environment = {"PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin"}
        subprocess.run([sys.executable, "program.py"], cwd=tmp_path, env=environment, check=True)
        found.append({path.name: path.read_bytes() for path in out.iterdir()})
    assert found[0] == found[1]


def test_values_of_returned_lines_have_names_too(tmp_path: Path) -> None:
    """What is returned without a name is the result: a line before it renumbers nothing."""
    lines = ["import numpy as np", "def f(x):", "    y = np.sin(x)", "    return np.sum(y * np.exp(y) / (1 + x))", ""]
    before = emitted("\n".join(lines), tmp_path / "one", "f", ("f64[n]",))
    after = emitted("\n".join([*lines[:2], "    x = np.cos(x)", *lines[2:]]), tmp_path / "two", "f", ("f64[n]",))
    for package in (before, after):
        text = (package.folder / f"{package.name}.c").read_text()
        assert "result_1" in text
        assert not re.search(r"\bv\d+\b", text)
