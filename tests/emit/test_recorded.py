"""The recorded calls: where they are made, and that mistakes of the C show in them."""

from __future__ import annotations

import re
import shutil
import sys

import numpy as np
import pytest

import symgrad as sg
from symgrad.emit.record import INTERVALS, Formula, extents_of_cases
from symgrad.ir.evaluate import within
from tests.emit.conftest import make

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
N = {"x": "f64[n]"}


def check(package, *words):
    ran = make(package.folder, "check", *words)
    return ran.returncode, ran.stdout + ran.stderr


def test_extents_are_small_long_one_and_zero():
    sizes = extents_of_cases(["n", "d"], {})
    assert sizes[0] == {"n": 5, "d": 3}
    assert {"n": 67, "d": 3} in sizes
    assert {"n": 5, "d": 130} in sizes
    assert {"n": 67, "d": 130} in sizes
    assert sizes[-3:] == [{"n": 1, "d": 1}, {"n": 0, "d": 3}, {"n": 5, "d": 0}]
    assert {"n": 5, "d": 30011} in extents_of_cases(["n", "d"], {}, threads=True)
    assert all(one["n"] == 9 for one in extents_of_cases(["n", "d"], {"n": 9}))
    assert extents_of_cases([], {}) == [{}]


def test_formulas_give_numbers_of_their_domain():
    for domain in INTERVALS:
        values = Formula(3, domain.low, domain.high - domain.low).values((500,), np.dtype("f8"))
        assert domain.low <= values.min() < values.max() <= domain.high
        assert np.unique(values).size == 500
    matrices = Formula(3, -0.5, 1.0, 20).values((2, 20, 20), np.dtype("f4"))
    np.testing.assert_array_equal(matrices, matrices.swapaxes(1, 2))
    np.linalg.cholesky(matrices)
    assert not np.array_equal(matrices[0], matrices[1])
    assert set(np.ravel(Formula(3, 1.0, 1.0).values((50,), np.dtype("i8")))) == {1, 2}


def factor(A):
    return np.sum(np.log(np.diagonal(np.linalg.cholesky(A))))


@pytest.mark.parametrize(
    ("fun", "specs"),
    [
        (lambda x: np.sum(np.arccosh(x)), N),
        (lambda x: np.sum(np.arctanh(x)), N),
        (lambda x: np.sum(np.sqrt(np.log(np.log(x)))), N),
        (lambda x, y: np.sum(np.arcsin(x) * np.arccosh(y)), {"x": "f64[n]", "y": "f64[n]"}),
        (lambda x, k: np.sum(x / k), {"x": "f64[n]", "k": "i64[n]"}),
        (factor, {"A": "f64[n,n]"}),
    ],
)
def test_draws_find_a_domain(fun, specs, tmp_path):
    package = sg.emit(fun, specs, tmp_path / "domain")
    text = (package.folder / "test_domain.c").read_text()
    assert package.report["functions"][0]["finite_differences"]
    wanted = re.findall(r"want_value\[\] = \{ (.*?) \}", text)
    assert sum(np.isfinite(float(number.replace("NAN", "nan").replace("INFINITY", "inf"))) for number in wanted) >= 3
    code, said = check(package, "EXACT=1")
    assert code == 0, said


def test_no_finite_number_is_said(tmp_path):
    with pytest.warns(sg.SymgradWarning) as warned:
        package = sg.emit(lambda x: np.sum(np.log(-1.0 - x * x)), N, tmp_path / "never")
    assert "never gives no finite value at any arguments that were tried" in str(warned[0].message)
    assert "sizes= and seed= choose others" in str(warned[0].message)
    assert "its test compares NaN with NaN" in (package.folder / "README.md").read_text()
    assert check(package)[0] == 0
    path = package.folder / "never.c"
    path.write_text(re.sub(r"(?m)^(    value\[0\] = ).*;$", r"\g<1>1.0;", path.read_text()))
    code, said = check(package)
    assert code != 0
    assert "value[0] is 1, not nan" in said


def test_what_is_not_written_shows(tmp_path):
    with pytest.warns(sg.SymgradWarning, match="written gives no finite value at any"):
        package = sg.emit(lambda x: np.log(-1.0 - x * x), N, tmp_path / "written", what="value", seed=1)
    path = package.folder / "written.c"
    text = path.read_text()
    assert "value[i_n] = " in text
    path.write_text(text.replace("value[i_n] = ", "if (i_n != 3) value[i_n] = "))
    code, said = check(package)
    assert code != 0
    assert "written: value[3] was not written" in said


def test_a_read_before_a_write_shows(tmp_path):
    """The workspace is never zero by chance: what is added to must have been set."""
    def loss(A):
        return np.sum(np.tanh(A.T @ (A @ np.ones(A.shape[1]))))

    package = sg.emit(loss, {"A": "f64[n,n]"}, tmp_path / "zeroed")
    path = package.folder / "zeroed.c"
    text = path.read_text()
    cleared = re.findall(r"(?m)^ +\w+\[[^=]*\] = 0\.0;\n", text)
    assert cleared
    path.write_text(text.replace(cleared[0], "        ;\n", 1))
    code, said = check(package, "WARNINGS=")
    assert code != 0, said


def test_extents_that_are_refused_are_left_out(tmp_path):
    package = sg.emit(lambda x: np.sum(x[40:] * x[50]), N, tmp_path / "fifty")
    text = (package.folder / "test_fifty.c").read_text()
    assert "out_x_bar, 67, space)" in text
    assert "out_x_bar, 5, space)" not in text
    assert package.report["functions"][0]["finite_differences"]
    assert check(package)[0] == 0
    with pytest.raises((IndexError, sg.SymgradError), match="out of bounds"):
        sg.emit(lambda x: np.sum(x[5000]), N, tmp_path / "never")


def test_large_results_are_not_computed(tmp_path):
    """A Jacobian of 67 by 130 by as many would need 600 megabytes; it is recorded where it is small."""
    package = sg.emit(lambda X: np.sin(X), {"X": "f64[n,d]"}, tmp_path / "wide", what="jacobian")  # noqa: PLW0108
    text = (package.folder / "test_wide.c").read_text()
    assert "67, 3, space)" in text
    assert "67, 130, space)" not in text
    assert len(text) < 60_000


def test_threads_share_a_recorded_call(tmp_path):
    """With a second share that is empty, the call that is long enough for threads is wrong."""
    package = sg.emit(lambda x: np.sum(np.exp(x) * np.sin(x)), N, tmp_path / "shared", profile="fast")
    path = package.folder / "shared.c"
    text = path.read_text()
    assert " * t / threads * " in text
    path.write_text(text.replace(" * t / threads * ", " * (t + t) / threads * "))
    code, said = check(package, "WARNINGS=")
    assert code != 0, said


def root(a):
    return sg.while_loop(lambda x: np.abs(x * x - a) > 0, lambda x: 0.5 * (x + a / x), 1.0 + 0.0 * a)  # seldom ends


@pytest.mark.parametrize("fun", [root, lambda a: np.sum(sg.vmap(root)(a))])
def test_a_loop_that_does_not_end_at_drawn_arguments(fun, tmp_path, monkeypatch):
    """The examples are the recorded calls then; without some it is said, and what has ended once is recorded."""
    monkeypatch.setattr(sys.modules["symgrad.emit.record"], "SECONDS", 0.2)
    shape = () if fun is root else (3,)
    specs, ends = {"a": f"f64{[*shape]}"}, np.full(shape, 4.0)
    package = sg.emit(fun, specs, tmp_path / "ends", what="value", examples=[(ends,)])
    text = (package.folder / "test_ends.c").read_text()
    assert "want_value[] = { 2.0 };" in text or "want_value[] = { 6.0 };" in text
    assert text.count("want_value[]") == 1
    assert check(package)[0] == 0
    negative = INTERVALS[0]._replace(low=-2.0, high=-1.0)
    monkeypatch.setattr(sys.modules["symgrad.emit.record"], "INTERVALS", (negative,) * 8)
    said = r"a loop had not ended(.|\n)*test_recorded(.|\n)*while_loop(.|\n)*examples="
    with pytest.raises(sg.SymgradError, match=said):
        sg.emit(fun, specs, tmp_path / "ends", what="value")


def test_finite_differences_of_a_loop_that_does_not_end(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["symgrad.emit.record"], "SECONDS", 0.2)
    monkeypatch.setattr(sys.modules["symgrad.emit.record"], "ENDLESS", 2)

    def exact(a):
        return sg.while_loop(lambda x: x != 8.0, lambda x: x + x, a)

    with pytest.warns(sg.SymgradWarning, match="finite differences of exact.. agree nowhere"):
        package = sg.emit(exact, {"a": "f64[]"}, tmp_path / "powers", examples=[(np.array(1.0),)])
    assert check(package)[0] == 0


@pytest.mark.parametrize("compiler", [None, "none"])
def test_calls_that_are_too_long_are_ended(compiler):
    compiled = sg.jit(root, options=sg.Options(compiler=compiler))
    lowered = compiled.lower(sg.Spec((), np.dtype(float)))
    call = lowered.compile()._ran().call
    assert call.flat([np.float64(4.0)])[0] == 2.0
    with within(0.1), pytest.raises(TimeoutError):
        call.flat([np.float64(-1.0)])
