"""Names from outside never become C unchecked; a folder is written whole or not at all, and nobody's file is lost."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.emit import files
from tests.emit.conftest import make

ROOT = Path(__file__).parents[2]


def square(x):
    return np.sum(x * x)


def cube(x):
    return np.sum(x * x * x)


def small(out, **settings):
    return sg.emit(square, {"x": "f64[n]"}, out, **settings)


def everything(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# -- names


@pytest.mark.parametrize("name", ["for", "a b", "1st", "x;y", "../up", "naïve", "sg_mine", "a__b", "", "*/", "exp"])
def test_a_name_must_be_an_identifier(tmp_path, name):
    with pytest.raises(sg.SymgradError, match="cannot name a module of C"):
        small(tmp_path / "out", name=name)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["math", "stdio", "m", "c", "test", "all", "install", "clean", "check"])
def test_a_name_of_a_header_a_library_or_a_target_is_refused(tmp_path, name):
    with pytest.raises(sg.SymgradError, match=rf"cannot be named '{name}'(.|\n)*name='{name}_module'"):
        small(tmp_path / name)
    assert not any(tmp_path.iterdir())


def test_a_folder_needs_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(sg.SymgradError, match="the folder to write has no name"):
        small("", name="loss")
    assert not any(tmp_path.iterdir())


def test_a_list_of_arguments_is_as_good_as_a_tuple(tmp_path):
    def product(x, y):
        return np.sum(x * x * y)

    specs = {"x": "f64[n]", "y": "f64[n]"}
    one = sg.emit(product, specs, tmp_path / "one" / "both", wrt=["x", "y"], what="hvp")
    two = sg.emit(product, specs, tmp_path / "two" / "both", wrt=("x", "y"), what="hvp")
    assert (one.folder / "both.c").read_bytes() == (two.folder / "both.c").read_bytes()


def test_a_folder_whose_name_is_none_needs_another(tmp_path):
    with pytest.raises(sg.SymgradError, match=r"'my-loss' cannot name a module of C\n  instead: name='my_loss'"):
        small(tmp_path / "my-loss")
    assert small(tmp_path / "my-loss", name="my_loss").functions == ("my_loss",)


@pytest.mark.parametrize("word", ["gcc; rm -rf /", "gcc $(id)", "gcc\nall:", "`id`", "gcc # x", "gcc 'a b'"])
def test_a_compiler_must_be_plain_words(tmp_path, word):
    with pytest.raises(sg.SymgradError, match="is no compiler's name"):
        small(tmp_path / "out", cc=word)


def test_keys_and_files_become_identifiers_and_comments(tmp_path):
    """A key or a file that tries to leave its comment, its string or its name stays inside."""
    key = 'w"]; system("id"); /* */ //'
    code = f'import numpy as np\ndef f(p):\n    return np.log(np.sum(p[{key!r}] ** 2))  # */ system("id") \\\n'
    path = tmp_path / 'mo"del*.py'
    path.write_text(code)
    scope: dict[str, Any] = {}
    exec(compile(code, str(path), "exec"), scope)
    package = sg.emit(scope["f"], {"p": {key: "f64[n]"}}, tmp_path / "out", wrt=f"p[{key!r}]",
                      units={}, line_directives=True)
    for name in package.files:
        if name.endswith((".c", ".h")):
            text = re.sub(r"/\*.*?\*/", "", (package.folder / name).read_text(), flags=re.DOTALL)
            assert "system" not in re.sub(r'"[^"\n]*"', "", text)
            assert all(line.count('"') % 2 == 0 for line in text.splitlines() if "#line" not in line)
    assert make(package.folder, "check").returncode == 0


def test_a_unit_stays_in_its_comment(tmp_path):
    package = small(tmp_path / "out", units={"x": 'm*/ #include "/etc/passwd"\n#define x'})
    header = (package.folder / "out.h").read_text()
    assert re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL).count("passwd") == 0
    with pytest.raises(sg.SymgradError, match="a unit for z, which is no array here"):
        small(tmp_path / "other", units={"z": "m"})


def test_an_argument_named_as_something_of_the_module(tmp_path):
    def f(out_value):
        return np.sum(out_value)

    with pytest.raises(sg.SymgradError, match="an argument out_value, a name of the module out"):
        sg.emit(f, {"out_value": "f64[n]"}, tmp_path / "out")

    def g(w, w_bar):
        return np.sum(w * w_bar)

    with pytest.raises(sg.SymgradError, match="an argument w_bar, and so is called a result"):
        sg.emit(g, {"w": "f64[n]", "w_bar": "f64[n]"}, tmp_path / "out")

    def h(w, w_dot):
        return np.sum(w * w_dot)

    with pytest.raises(sg.SymgradError, match="jvp adds an argument w_dot"):
        sg.emit(h, {"w": "f64[n]", "w_dot": "f64[n]"}, tmp_path / "out", what="jvp")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"what": "slope"}, "'slope' cannot be emitted"), ({"what": ()}, "names a derivative twice, or none"),
     ({"what": ("grad", "grad")}, "names a derivative twice"), ({"profile": "slow"}, "there is no profile 'slow'"),
     ({"wrt": "y"}, "^wrt='y' names none of the arguments x"), ({"wrt": 3}, "^wrt=3, where the function"),
     ({"wrt": ("x", 0)}, r"^wrt=\('x', 0\) names x twice"), ({"name": "m"}, "instead: name='m_module'"),
     ({"what": ("grad", "grad")}, "^what=\\('grad', 'grad'\\) names")],
)
def test_what_is_asked_for_must_exist(tmp_path, settings, message):
    with pytest.raises(sg.SymgradError, match=message):
        small(tmp_path / "out", **settings)
    assert not any(tmp_path.iterdir())


def test_two_functions_of_one_name(tmp_path):
    with pytest.raises(sg.SymgradError, match="two functions have one name"):
        sg.emit([square, square], {"x": "f64[n]"}, tmp_path / "out")


def test_a_loss_that_is_no_number(tmp_path):
    with pytest.raises(sg.SymgradError, match="grad needs a function that returns one floating-point number"):
        sg.emit(lambda x: x, {"x": "f64[n]"}, tmp_path / "out")
    assert not any(tmp_path.iterdir())


# -- files


def test_a_new_folder_and_the_same_once_more(tmp_path):
    out = tmp_path / "deep" / "out"
    package = small(out)
    before = everything(out)
    assert {str(path) for path in before} == {*package.files}
    small(out)
    assert everything(out) == before
    assert [path.name for path in out.parent.iterdir()] == ["out"]


def test_foreign_files_stay_and_own_ones_are_replaced(tmp_path):
    out = tmp_path / "out"
    small(out, python=True)
    (out / "mine.txt").write_text("mine")
    (out / "b").mkdir()
    sg.emit(cube, {"x": "f64[n]"}, out)
    assert (out / "mine.txt").read_text() == "mine"
    assert (out / "b").is_dir()
    assert "cube" in (out / "out.h").read_text()
    assert not (out / "pyproject.toml").exists(), "what the new package has not is gone"


def test_a_file_of_somebody_else_is_not_replaced(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "Makefile").write_text("mine")
    with pytest.raises(sg.SymgradError, match="Makefile was not written by symgrad emit, and would be replaced"):
        small(out)
    assert everything(tmp_path) == {Path("out/Makefile"): b"mine"}
    (out / "Makefile").unlink()
    (out / "out.c").write_text("mine")
    with pytest.raises(sg.SymgradError, match=r"out\.c was not written by symgrad emit"):
        small(out)
    assert everything(tmp_path) == {Path("out/out.c"): b"mine"}


def test_a_file_that_was_changed_is_not_replaced(tmp_path):
    out = tmp_path / "out"
    small(out)
    (out / "out.c").write_text("mine")
    before = everything(out)
    with pytest.raises(sg.SymgradError, match=r"out\.c was changed since symgrad emit wrote it"):
        sg.emit(cube, {"x": "f64[n]"}, out)
    assert everything(out) == before


def test_links_are_not_followed(tmp_path):
    out = tmp_path / "out"
    small(out)
    (tmp_path / "elsewhere").write_bytes((out / "out.c").read_bytes())
    (out / "out.c").unlink()
    (out / "out.c").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(sg.SymgradError, match="was changed since"):
        sg.emit(cube, {"x": "f64[n]"}, out)
    assert b"square" in (tmp_path / "elsewhere").read_bytes() or (tmp_path / "elsewhere").stat().st_size


@pytest.mark.parametrize("report", ["{", "[]", '{"format": "symgrad package 1", "files": {"../../x": "y"}}', "null"])
def test_a_damaged_report_owns_nothing(tmp_path, report):
    out = tmp_path / "out"
    small(out)
    (out / "report.json").write_text(report)
    with pytest.raises(sg.SymgradError, match="was not written by symgrad emit"):
        small(out)


def test_a_file_in_the_place_of_the_folder(tmp_path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(sg.SymgradError, match="out is a file"):
        small(tmp_path / "out")
    with pytest.raises(sg.SymgradError, match="cannot be written"):
        small(tmp_path / "out" / "below")
    assert everything(tmp_path) == {Path("out"): b"mine"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "closed").mkdir(mode=0o555)
    with pytest.raises(sg.SymgradError, match="cannot be written"):
        small(tmp_path / "closed" / "out")


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("at", [1, 5])
def test_nothing_is_left_where_writing_fails(tmp_path, monkeypatch, error, at):
    calls = []
    write_text = Path.write_text

    def failing(self, *args, **kwargs):
        calls.append(self)
        if len(calls) == at:
            raise error
        return write_text(self, *args, **kwargs)

    monkeypatch.setattr(Path, "write_text", failing)
    with pytest.raises((sg.SymgradError, KeyboardInterrupt)):
        small(tmp_path / "new" / "folders" / "out")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("at", [1, 4])
def test_the_old_package_stays_where_replacing_fails(tmp_path, monkeypatch, error, at):
    out = tmp_path / "out"
    small(out)
    before = everything(tmp_path)
    calls = []
    real = os.replace

    def failing(*args):
        calls.append(args)
        if len(calls) == at:
            raise error
        return real(*args)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises((sg.SymgradError, KeyboardInterrupt)):
        sg.emit(cube, {"x": "f64[n]"}, out)
    assert everything(tmp_path) == before


def test_ctrl_c_leaves_nothing_behind(tmp_path):
    """A process that is interrupted while it traces, and so before anything is written."""
    (tmp_path / "slow.py").write_text(
        "import time\nimport numpy as np\ndef f(x):\n    open('started', 'w').close()\n    time.sleep(60)\n"
        "    return np.sum(x)\n"
    )
    command = [sys.executable, "-m", "symgrad", "emit", "slow.py:f", "--arg", "x=f64[n]", "--out", "out"]
    running = subprocess.Popen(
        command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - a background job ignores it
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "started").exists():
        assert time.monotonic() < deadline
        assert running.poll() is None
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert said == "symgrad: interrupted\n"
    assert {path.name for path in tmp_path.iterdir()} - {"__pycache__"} == {"slow.py", "started"}


def test_the_manifest_lists_what_is_there(tmp_path):
    package = small(tmp_path / "out")
    listed = json.loads((package.folder / "report.json").read_text())["files"]
    assert {name: files.checksum((package.folder / name).read_bytes()) for name in listed} == listed
    assert shutil.which("make") is None or make(package.folder, "check").returncode == 0
