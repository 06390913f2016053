"""Errors of functions without a file show their line, and tracebacks end in the user's code."""

from __future__ import annotations

import importlib
import json
import linecache
import os
import subprocess
import sys
import textwrap
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import SymgradError
from tests.trace.programs import run

X = np.ones(3)
TWO = """
def loss(x):
    return {}
"""


def test_functions_of_exec_and_eval_show_their_line():
    """Texts that are run have one name and the same numbers of lines; each shows its own."""
    for wrong in ("float(np.sum(x))", "np.roots(x)[0]"):
        text, names = TWO.format(wrong), {"np": np}
        exec(text, names)
        with pytest.raises(SymgradError) as caught:
            run(names["loss"], X)
        assert caught.value.line == ("<string>", 3, f"return {wrong}")
    function = eval("lambda x: float(x[0])")  # noqa: S307 - as people do
    with pytest.raises(SymgradError, match=r"<string>:1\n      lambda x: float\(x\[0\]\)"):
        run(function, X)


@dataclass(order=True, unsafe_hash=True)
class Held:
    values: Any


OF_ATTRS = """
def __init__(self, values):
    self.values = convert(values)
"""


def class_of_attrs(converter: Any) -> Any:
    """Make a class as attrs does: its methods are a text that runs with a copy of the module's names."""
    names = {**globals(), "convert": converter}
    exec(compile(OF_ATTRS, "<attrs generated methods test_texts.Converted>", "exec"), names)
    return type("Converted", (), {"__module__": __name__, "__init__": names["__init__"]})


ConvertedToFloat = class_of_attrs(float)
WRITTEN: dict[str, tuple[Any, str]] = {
    "equal": (lambda x: x if Held(x) == Held(X) else -x, "np.any(x) or np.all(x)"),
    "less": (lambda x: x if Held(x) < Held(X) else -x, "np.any(x) or np.all(x)"),
    "hash": (lambda x: x * hash(Held(x)), "a key that is a plain number or string"),
    "converted": (lambda x: ConvertedToFloat(x[0]).values * x, "no converter, or converter=np.asarray"),
}
ConvertedToArray = class_of_attrs(np.asarray)


@pytest.mark.parametrize("name", WRITTEN)
def test_methods_that_dataclasses_and_attrs_write_are_no_lines_of_the_users(name):
    function, instead = WRITTEN[name]
    with pytest.raises(SymgradError) as caught:
        sg.jit(function, options=sg.Options(compiler="none"))(X)
    line = caught.value.line
    assert line is not None
    assert (line.file, caught.value.instead) == (__file__, instead)
    assert name != "converted" or "float() in ConvertedToFloat(), as converter=float, needs" in str(caught.value)


def test_converters_of_attrs_are_traced():
    function = lambda x: ConvertedToArray([x[0], x[1]]).values * ConvertedToArray(x).values.sum()  # noqa: E731
    np.testing.assert_array_equal(sg.jit(function, options=sg.Options(compiler="none"))(X), function(X))


def test_a_text_that_is_another_is_not_shown():
    def made() -> Any:
        names: dict[str, Any] = {"np": np}
        exec(TWO.format("flo" + "at(np.std(x))"), names)
        return names["loss"]

    other = TWO.format("float(np.prod(x))")
    with pytest.raises(SymgradError) as caught:
        run(made(), X)
    assert "prod" in other
    assert caught.value.line == ("<string>", 3, "in loss")
    assert str(caught.value).splitlines()[1:4] == [
        "  at <string>:3", "      in loss", "  instead: the value itself, without float()"]


def test_programs_without_a_file_show_their_line(tmp_path):
    program = textwrap.dedent("""
        import numpy as np, symgrad as sg

        def loss(x):
            return float(np.sum(x**2))

        sg.grad(loss)(np.ones(3))
    """)
    (tmp_path / "program").write_text(program)
    environment = {key: value for key, value in os.environ.items() if key != "SYMGRAD_VERIFY"}
    environment["PYTHONPATH"] = str(Path(sg.__file__).parents[1])
    for words, file in ((["-c", program], "<string>"), ([], "<stdin>")):
        with (tmp_path / "program").open() as given:
            done = subprocess.run([sys.executable, *words], stdin=given, capture_output=True, text=True,
                                  env=environment, cwd=tmp_path, check=False)
        said = done.stderr.splitlines()
        assert said[-3:] == [
            f"  at {file}:5", "      return float(np.sum(x**2))",
            "  instead: return np.sum(x**2): the compiled function returns a number of NumPy's",
        ]
        shown = [line for line in said if line.startswith("  File ")]
        assert shown[-1] == f'  File "{file}", line 5, in loss'
        assert len(shown) == 3, "the call, the compiled function, the line"


def test_a_program_from_a_pipe_names_the_function_in_which_the_line_is():
    program = (
        "import numpy as np, symgrad as sg\n"
        "def inner(y): return float(y)\n"
        "def loss(x): return inner(np.sum(x))\n"
        "sg.grad(loss)(np.ones(3))\n")
    done = subprocess.run([sys.executable, "-"], input=program, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-3:] == [
        "  at <stdin>:2", "      in inner", "  instead: the value itself, without float()"]


def test_a_line_of_an_installed_package_stands_beside_the_users(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "hardnumbers.py").write_text("def rounded(x):\n    return float(x)\n")
    monkeypatch.syspath_prepend(folder)
    module = importlib.import_module("hardnumbers")
    with pytest.raises(SymgradError) as caught:
        run(lambda x: module.rounded(x[0]), X)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("hardnumbers.rounded(...): float() needs the value")
    assert lines[1:3] == [f"  at {folder}/hardnumbers.py:2", "      return float(x)"]
    assert lines[3].startswith(f"  called at {__file__}:")
    assert lines[4] == "      run(lambda x: module.rounded(x[0]), X)"


def test_the_traceback_ends_in_the_cell(monkeypatch):
    """As IPython runs a cell: its text is in linecache, and its name is that of no file."""
    monkeypatch.delenv("SYMGRAD_VERIFY")
    cell, name = TWO.format("np.sum(np.roots(x))"), "<ipython-input-1-0123456789ab>"
    linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
    names: dict[str, Any] = {"np": np}
    exec(compile(cell, name, "exec"), names)
    with pytest.raises(SymgradError) as caught:
        sg.value_and_grad(names["loss"])(X)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [(frame.filename, frame.name) for frame in frames[2:]] == [(name, "loss")]
    assert frames[-1].line == "return np.sum(np.roots(x))"


@pytest.mark.parametrize("text", [
    "sg.grad(loss)(np.arange(3))", "sg.grad(loss)(x, x)", "sg.grad(lambda x, y: np.sum(x * y))(x)", "sg.grad(loss)({})",
    "sg.jit(loss, specs=('f6[n]',))(x)", "sg.spec('f6[n]')", "sg.grad(loss, argnums=3)(x)",
    "sg.vmap(lambda x, y: x * y)(x, np.ones(2))", "sg.jvp(loss, (x,), (np.ones(2),))", "sg.vjp(loss, np.array('a'))",
    "sg.hvp(loss)(x, np.ones(5))", "sg.jit(loss).lower('f6')", "sg.jit(loss).bind('a')", "sg.scan(loss, 0.0, x)",
    "sg.check_grads(loss, ('a',))", "sg.grad(lambda x: x)(x)", "sg.grad(lambda x: np.sum(x[5:][0]))(x)",
    "sg.jit(lambda x: x / 0.0, options=sg.Options(debug_nans=True))(x)",
])
def test_the_traceback_of_every_call_ends_in_the_cell(monkeypatch, text):
    """Whatever is wrong: an argument, their number, a spec, a shape, what the function does or returns."""
    monkeypatch.delenv("SYMGRAD_VERIFY")
    cell = f"loss = lambda x: np.sum(x)\n{text}\n"
    name = "<ipython-input-2-0123456789ab>"
    with pytest.raises(SymgradError) as caught:
        exec(compile(cell, name, "exec"), {"np": np, "sg": sg, "x": X})
    assert traceback.extract_tb(caught.value.__traceback__)[-1].filename == name


@pytest.mark.parametrize("text", [
    "sg.jit(loss)(x)", "sg.jit(loss).lower(x)", "sg.jit(loss).bind(x)", "sg.jit(loss).cost(x)",
    "sg.vmap(loss)(x[None])", "sg.jit(loss).memory(x)", "sg.jit(loss).to_sympy(x)", "sg.vjp(loss, x)",
    "sg.scan(lambda c, _: (loss(c), c), x, x)", "sg.fori_loop(0, 3, lambda k, c: loss(c), x)", "sg.hessian(loss)(x)",
    "sg.while_loop(lambda c: c[0] < 1, loss, x)", "sg.jit(lambda x: sg.cond(x[0] > 0, loss, np.sum, x))(x)",
    "sg.emit(loss, (x,), out)", "sg.linearize(loss, x)", "sg.jvp(loss, (x,), (x,))",
])
def test_one_frame_of_symgrads_stands_between_the_call_and_the_line_that_is_refused(monkeypatch, tmp_path, text):
    monkeypatch.delenv("SYMGRAD_VERIFY")
    names: dict[str, Any] = {"np": np, "sg": sg, "x": X, "out": tmp_path}
    exec("def loss(x):\n    return np.sum(np.roots(x))", names)
    assert between(text, names)[0] == "loss"


@pytest.mark.parametrize("text", [
    "f.lower('a')", "f.lower()", "f.bind('a')", "f.bind(sg.spec('f64[3]'))", "f.c_source", "f.address",
    "f.prototype", "f.report()", "f.cost()", "f.report(1)", "f.low_level_callable(signature='f')",
    "sg.vjp(h, 'a')", "sg.vjp(h, x)[1](np.ones(2))", "sg.check_grads(h, ('a',))",
    "sg.linearize(h, x)[1]('a')", "sg.jvp(h, x, x)",
    "sg.scan(h, 0.0, x)", "g(x, np.array([7]))",
])
def test_one_frame_of_symgrads_stands_below_a_call_that_is_refused(monkeypatch, text):
    """Also where C answers a call, which has been compiled before."""
    monkeypatch.delenv("SYMGRAD_VERIFY")
    g = sg.jit(lambda x, k: x[k])
    g(X, np.array([1]))
    names = {"np": np, "sg": sg, "x": X, "f": sg.jit(np.sin), "g": g, "h": lambda x: 2 * np.sin(x)}
    assert between(text, names)[0] in {"<module>", "<lambda>"}


def between(text: str, names: dict[str, Any]) -> list[str]:
    """Return the names of the last frame, and of symgrad's, of which there is one at most."""
    with pytest.raises((SymgradError, TypeError)) as caught:
        exec(text, names)
    frames = traceback.extract_tb(caught.value.__traceback__)
    own = [frame.name for frame in frames if frame.filename.startswith(str(Path(sg.__file__).parent))]
    assert len(own) <= 1
    users = [frame.name for frame in frames if frame.name not in own]
    return [users[-1], *own]


@pytest.mark.parametrize(("text", "last"), [
    ("unknown(x)", "loss"), ("{}['a'] + x", "loss"), ("x.no_such_attribute", "loss"), ("json.loads('{')", "raw_decode"),
    ("x", ""), ("(x[0], x)", ""),
])
def test_no_traceback_has_symgrads_frames(monkeypatch, text, last):
    """Neither what Python or a library raises in the user's code, nor what is refused as a whole."""
    monkeypatch.delenv("SYMGRAD_VERIFY")
    names: dict[str, Any] = {"json": json}
    exec(TWO.format(text), names)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - each raises another one
        sg.value_and_grad(names["loss"])(X)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [frame.name for frame in frames if frame.filename.startswith(str(Path(sg.__file__).parent))] == ["__call__"]
    assert not last or frames[-1].name == last


def test_warnings_point_at_the_users_line():
    rng = np.random.default_rng(0)
    noisy = sg.jit(lambda x: x + rng.normal(size=3), options=sg.Options(compiler="none"))
    with pytest.warns(sg.SymgradWarning, match="draws from the random generator 'rng'") as found:
        noisy(X)
    assert Path(found[0].filename) == Path(__file__)
