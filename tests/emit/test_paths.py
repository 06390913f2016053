"""Packages of functions with Python's conditions on values: the paths of examples, and a status for any other."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.emit.conftest import PACKAGES, STEPPED, STEPS, make

pytestmark = pytest.mark.skipif(shutil.which("make") is None or not shutil.which("gcc"), reason="needs make and gcc")
NO_PATH = -4
SAID = "a condition of the Python function comes to something else than in all examples of the package"
X = {"x": "f64[n]"}


def sign(x):
    if np.sum(x) > 0:
        return np.sum(x * x)
    return x[2] * 3.0


def compiled(package, function, arguments, results, profile="embedded"):
    """Build a package's C as a library, and return a function of arrays by its status and results."""
    name = package.name
    flags = ["-std=c99", "-O2", "-ffp-contract=off", "-fPIC", "-shared"]
    library = package.folder / f"{name}_tried.so"
    subprocess.run(["gcc", *flags, str(package.folder / f"{name}.c"), "-o", str(library), "-lm"], check=True)
    c = ctypes.CDLL(str(library))
    size = getattr(c, f"{function}_workspace_bytes")
    size.restype = ctypes.c_int64

    def call(*values):
        arrays = [np.ascontiguousarray(v, d) for v, d in zip(values, arguments, strict=True)]
        out = [np.full(shape(*arrays), np.nan) for shape in results]
        numbers = [ctypes.c_int64(arrays[0].size), *[ctypes.c_int32(2)] * (profile == "fast")]
        space = np.full(size(*numbers) + 8, 255, np.uint8)
        places = [ctypes.c_void_p(a.ctypes.data) for a in (*arrays, *out)]
        status = getattr(c, function)(*places, *numbers, ctypes.c_void_p(space.ctypes.data))
        return status, out

    error = getattr(c, f"{name}_error")
    error.restype = ctypes.c_char_p
    return call, lambda status: error(status).decode()


@pytest.mark.filterwarnings("ignore:.*made anew")
@pytest.mark.parametrize("profile", ["embedded", "fast"])
def test_a_call_takes_the_path_of_numpy_or_none(packages, model, profile):
    """At random arguments: the numbers of NumPy, a failed check of the path that fits, or no path."""
    call, text = compiled(
        packages("stepped", profile), "stepped_value_and_grad", ("f8", "i8", "f8"),
        (lambda *_: (), lambda x, *_: x.shape, lambda *_: ()), profile,
    )
    rng, seen = np.random.default_rng(1), set()
    for _ in range(300):
        n = int(rng.integers(1, 6))
        x, k, a = rng.normal(size=n) * 10.0 ** rng.integers(-1, 3), int(rng.integers(0, 4)), rng.uniform(0.1, 2.0)
        status, (value, by_x, by_a) = call(x, k, a)
        try:
            wanted = model.stepped(x, k, a)
        except IndexError:
            assert status > 0
            assert "out of bounds for an axis of size n" in text(status)
            seen.add("check" if 0 < np.sum(x) * a <= 1 else "extent")
            continue
        assert status == 0
        seen.add("value")
        np.testing.assert_allclose(value, wanted, rtol=1e-12)
        _, gradients = sg.value_and_grad(model.stepped, argnums=(0, 2))(x, k, a)
        np.testing.assert_allclose(by_x, gradients[0], rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(by_a, gradients[1], rtol=1e-11, atol=1e-12)
    assert seen == {"check", "extent", "value"}


def test_a_path_of_no_example_has_a_status(tmp_path):
    package = sg.emit(sign, X, tmp_path / "sign", what="value", examples=[(np.ones(3),)])
    call, text = compiled(package, "sign", ("f8",), (lambda *_: (),))
    assert call(np.ones(5))[0] == 0
    assert call(-np.ones(5))[0] == NO_PATH
    assert text(NO_PATH) == SAID
    header = (package.folder / "sign.h").read_text()
    assert "SIGN_NO_PATH = -4 /* a condition" in header
    assert " * 1. test_paths.py:" in header
    assert "where no path fits" in header
    readme = (package.folder / "README.md").read_text()
    assert "1 of `sign`. A call that takes another one returns `SIGN_NO_PATH`" in readme
    (path,) = package.report["functions"][0]["paths"]
    assert path["conditions"][0].startswith("test_paths.py:")
    assert path["conditions"][0].endswith("comes to True")
    assert path["flops"]


def test_a_failed_guard_says_which_path_is_next(packages):
    text = (packages("stepped").folder / "stepped.c").read_text()
    body = text[text.index("static int32_t stepped_value_core(\n") :]
    body = body[: body.index("\n}\n")]
    assert "case 1: sg_path = 2; break; /* model.py:" in body
    assert "case 2: sg_path = 3; break; /* model.py:" in body


def test_every_path_is_recorded_and_compared(packages):
    text = (packages("forked").folder / "test_forked.c").read_text()
    for what in ("grad", "hvp", "jacobian"):
        assert all(f"static int forked_{what}_case{k}(void)" in text for k in (1, 2))
        assert all(f"static int forked_{what}_differences{k}(void)" in text for k in (1, 2))


def test_examples_of_functions_without_conditions_are_recorded_calls_alone(tmp_path):
    def square(x):
        return np.sum(x * x)

    plain = sg.emit(square, X, tmp_path / "plain" / "square")
    more = sg.emit(square, X, tmp_path / "more" / "square", examples=[(np.ones(8),)])
    texts = [[(made.folder / name).read_bytes() for name in plain.files] for made in (plain, more)]
    differing = [name for name, one, other in zip(plain.files, *texts, strict=True) if one != other]
    assert differing == ["test_square.c", "README.md", "report.json"]
    assert "NO_PATH" not in (plain.folder / "square.h").read_text()
    assert make(more.folder, "check").returncode == 0


def test_packages_are_the_same_each_time(packages, model, tmp_path):
    function, specs, settings = PACKAGES["stepped"]
    again = sg.emit(getattr(model, function), specs, tmp_path / "stepped", **settings)
    for name in again.files:
        assert (again.folder / name).read_bytes() == (packages("stepped").folder / name).read_bytes(), name


def test_several_functions_have_their_own_paths(tmp_path):
    def other(y):
        return y[0] if y[0] > 1 else np.sum(y**2)

    examples = [{"x": np.ones(3)}, {"x": -np.ones(3), "y": np.array([2.0, 1.0])}, {"y": np.zeros(2)}]
    package = sg.emit([sign, other], {**X, "y": "f64[m]"}, tmp_path / "two", what=("value", "grad"), examples=examples)
    assert [len(f["paths"]) for f in package.report["functions"]] == [2, 2, 2, 2]
    ran = make(package.folder, "check", "EXACT=1")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_an_integer_of_values_is_a_path(tmp_path):
    def head(x):
        return np.sum(x[: int(x[0])] ** 2)

    package = sg.emit(head, X, tmp_path / "heads", what="grad", examples=[(np.full(5, 2.5),), (np.full(5, 3.5),)])
    call, _ = compiled(package, "heads", ("f8",), (lambda x: x.shape,))
    assert call(np.full(9, 2.25))[1][0].tolist() == [4.5, 4.5] + [0.0] * 7
    assert call(np.full(9, 3.25))[1][0].tolist() == [6.5, 6.5, 6.5] + [0.0] * 6
    assert call(np.full(9, 4.25))[0] == NO_PATH


@pytest.mark.slow
def test_the_python_package_raises(tmp_path):
    pytest.importorskip("setuptools")
    package = sg.emit(sign, X, tmp_path / "sign", what="value", python=True, examples=[(np.ones(3),)])
    subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=package.folder, check=True)
    code = "import numpy as np, sign\nassert sign.sign(np.ones(4)) == 4\nsign.sign(-np.ones(4))"
    ran = subprocess.run([sys.executable, "-c", code], cwd=package.folder, capture_output=True, text=True, check=False)
    assert ran.stderr.splitlines()[-1] == f"ValueError: {SAID}"


def mixed(x):
    return np.sum(x) if x[0] > 0 else x


REFUSED = [
    (sign, X, None, r"a condition (.|\n)*instead: .*for sg.emit examples=\[...\] \(--example FILE.npz\)"),
    (sign, X, [{"y": np.ones(3)}], r"example 1 of sign\(\) has no x; its arguments are x"),
    (sign, X, [{"x": np.ones(3), "y": 1}], r"example 1 of sign\(\) has y; its arguments are x"),
    (sign, X, [(np.ones(3),), (np.ones(3), 2)], r"example 2 of sign\(\) has 2 values; its arguments are x"),
    (sign, X, [(np.ones((2, 2)),)], r"argument x is f64\[2,2\], where sign\(\) was compiled for f64\[n\]"),
    (sign, {"x": "f64[3]"}, [(np.ones(4),)], r"argument x is f64\[4\]: axis 0 must be 3"),
    (sign, X, [(-np.ones(2),)], "index 2 is out of bounds for axis 0 with size 2"),
    (mixed, X, [(np.ones(3),), (-np.ones(3),)],
     r"mixed\(\) returns float64\(\) on one path and float64\(n,\) on another one(.|\n)*x\[0\] > 0"),
]


@pytest.mark.parametrize(("fun", "specs", "examples", "message"), REFUSED)
def test_what_is_refused(tmp_path, fun, specs, examples, message):
    with pytest.raises(sg.SymgradError, match=message):
        sg.emit(fun, specs, tmp_path / "refused", what="value", examples=examples or ())
    assert not any(tmp_path.iterdir())


def test_the_command_line_reads_examples(model, tmp_path):
    from symgrad.cli.main import main

    files = []
    for k, (x, i, a) in enumerate(STEPS):
        files += ["--example", str(tmp_path / f"{k}.npz")]
        np.savez(files[-1], x=x, k=i, a=a)
    specs = [word for name, spec in STEPPED.items() for word in ("--arg", f"{name}={spec}")]
    words = ["emit", f"{model.__file__}:stepped", *specs, *files, "--wrt", "x,a", "--what", "value", "--out"]
    assert main([*words, str(tmp_path / "stepped")]) == 0
    report = json.loads((tmp_path / "stepped" / "report.json").read_text())
    assert len(report["functions"][0]["paths"]) == 3


def test_the_command_line_reads_examples_of_structures(tmp_path, capsys):
    from symgrad.cli.main import main

    (tmp_path / "nested.py").write_text(
        "import numpy as np\n\n\ndef f(params, x, scale=2.0):\n"
        "    return scale * np.sum(x) if params['w'][0] > 0 else params['b'] * x[0]\n"
    )
    values: dict[str, Any] = {"params.w": np.ones(2), "params.b": 3.0, "x": np.ones(4)}
    np.savez(tmp_path / "one.npz", **values)
    specs = ["--arg", "params.w=f64[2]", "--arg", "params.b=f64[]", "--arg", "x=f64[n]", "--what", "grad"]
    words = ["emit", f"{tmp_path / 'nested.py'}:f", *specs, "--wrt", "x", "--out", str(tmp_path / "nested")]
    assert main([*words, "--example", str(tmp_path / "one.npz")]) == 0
    assert "NESTED_NO_PATH" in (tmp_path / "nested" / "nested.h").read_text()
    np.savez(tmp_path / "less.npz", x=np.ones(4))
    assert main([*words, "--example", str(tmp_path / "less.npz")]) == 2
    assert "example 1 of f() has no params; its arguments are params, x" in capsys.readouterr().err
    assert main([*words, "--example", str(tmp_path / "none.npz")]) == 2
    assert "none.npz: it cannot be read as a file of numpy.savez" in capsys.readouterr().err
