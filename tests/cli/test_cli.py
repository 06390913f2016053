"""The terminal program: what it prints, byte for byte, its exit codes, and one line for each thing that is wrong."""

from __future__ import annotations

import importlib.util
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from symgrad.cli import doctor, ops
from symgrad.cli.main import cli, main
from symgrad.ops import OPS
from symgrad.pipeline import NAMES
from tests.cli.refused import KNOWN, REFUSED, X

ROOT = Path(__file__).parents[2]
SPECS = ["--arg", "params.w=f64[d]", "--arg", "X=f64[n,d]", "--arg", "y=f64[n]"]


@pytest.fixture(autouse=True)
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


def process(*words, **options):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "symgrad", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, **options)


def imported(path):
    spec = importlib.util.spec_from_file_location("losses_of_a_test", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# -- show


@pytest.mark.parametrize("stage", [*NAMES, "report"])
def test_show_prints_what_as_text_gives(run, losses, capsys, stage):
    module = imported(losses)
    specs = {"w": sg.spec("f64[d]")}, sg.spec("f64[n,d]"), sg.spec("f64[n]")
    made = sg.value_and_grad(module.loss).lower(*specs)
    wanted = made.report() if stage == "report" else made.as_text(stage)
    capsys.readouterr()
    code, out, err = run("show", "losses.py:loss", *SPECS, "--stage", stage)
    assert (code, out) == (0, wanted)
    assert err.split("\n")[:2] == ["the file is imported", "the loss is called"], "what the user prints is not C"


@pytest.mark.parametrize(
    ("words", "transform"),
    [([], sg.value_and_grad), (["--grad"], sg.grad), (["--value"], sg.jit),
     (["--value-and-grad", "--wrt", "X"], lambda f: sg.value_and_grad(f, 1)),
     (["--grad", "--wrt", "X, params"], lambda f: sg.grad(f, (1, 0))), (["--hessian"], sg.hessian),
     (["--jacfwd"], sg.jacfwd), (["--jacrev", "--wrt", "y"], lambda f: sg.jacrev(f, 2))],
)
def test_what_is_derived(run, losses, capsys, words, transform):
    made = transform(imported(losses).loss)
    wanted = made.lower({"w": sg.spec("f64[d]")}, sg.spec("f64[n,d]"), sg.spec("f64[n]")).as_text("optimized")
    capsys.readouterr()
    assert run("show", "losses.py:loss", *SPECS, "--stage", "optimized", *words)[:2] == (0, wanted)


def test_defaults_are_settings(run):
    _, two, _ = run("show", "losses.py:quadratic", "--arg", "x=f64[n]", "--stage", "traced", "--value")
    assert "np.square(x)" in two or "x ** " in two
    assert '"int' not in two
    code, both, _ = run("show", "losses.py:with_list", "--arg", "x=f64[n]", "--stage", "traced", "--value")
    assert code == 0
    assert "y" not in re.findall(r"def with_list\((.*)\)", both)[0]


def test_a_compiled_function_is_shown_as_it_is(run):
    _, jitted, _ = run("show", "losses.py:compiled", "--arg", "x=f64[n]", "--stage", "optimized")
    _, value, _ = run("show", "losses.py:quadratic", "--arg", "x=f64[n]", "--stage", "optimized", "--value")
    _, derived, _ = run("show", "losses.py:compiled", "--arg", "x=f64[n]", "--stage", "optimized", "--grad")
    assert jitted == value != derived


def test_a_dotted_name_and_a_path(run, losses):
    folder = losses.parent / "sub.folder"
    folder.mkdir()
    losses.rename(folder / "losses.py")
    code, out, _ = run("show", f"{folder / 'losses.py'}:Model.energy", "--arg", "x=f32[3]", "--stage", "traced")
    assert code == 0
    assert 'def energy(x: "float32[3]")' in out


def test_a_file_imports_its_neighbours(run, losses):
    (losses.parent / "neighbour_of_losses.py").write_text("import numpy as np\nhalf = 0.5\n")
    losses.write_text("from neighbour_of_losses import *\ndef f(x): return np.sum(x) * half\n")
    assert run("show", "losses.py:f", "--arg", "x=f64[3]")[0] == 0


# -- check


def test_check_of_a_right_gradient(run):
    code, out, _ = run("check", "losses.py:loss", *SPECS, "--arg", "scale=f64[]")
    assert code == 0
    assert re.fullmatch(r"loss: 48 derivatives agree, order 1 \(central differences\) and order 2 .*\n", out)
    assert run("check", "losses.py:loss", *SPECS, "--arg", "scale=f64[]")[1] == out, "the same check each time"


def test_check_with_sizes_and_modes(run):
    words = ["check", "losses.py:quadratic", "--arg", "x=f64[n,n]", "--size", "n=2", "--order", "1"]
    assert "4 derivatives agree, order 1 (complex step);" in run(*words)[1]
    assert "4 derivatives agree, order 1 (central differences);" in run(*words, "--mode", "central")[1]
    assert run(*words, "--rtol", "1e-6", "--atol", "1e-9", "--seed", "3")[0] == 0


def test_check_at_positive_arguments(run):
    code, out, _ = run("check", "losses.py:logarithms", "--arg", "x=f64[n]")
    assert code == 0
    assert "at positive arguments" in out


def test_check_of_float32_and_indices(run):
    assert run("check", "losses.py:integer", "--arg", "i=i64[k]", "--arg", "x=f32[n]")[0] == 0


def test_check_of_a_wrong_gradient(run, monkeypatch):
    monkeypatch.setattr(OPS["square"], "partials", lambda x, _y: 2 * x * (1 + 1e-6))
    monkeypatch.setattr(OPS["square"], "vjp", None)
    code, out, err = run("check", "losses.py:quadratic", "--arg", "x=f64[n]")
    assert code == 1
    assert out.startswith("the derivative of quadratic() by x[")
    assert "complex step" in out
    assert err == "the file is imported\n"


# -- doctor, cache, ops


def test_cache_alone_shows_its_help(run):
    code, out, err = run("cache")
    assert (code, err) == (0, "")
    assert "clear" in out
    assert "info" in out


def test_doctor_tells_what_there_is(run):
    code, out, err = run("doctor")
    assert (code, err) == (0, "")
    told = dict(re.split(r"  +", line, maxsplit=1) for line in out.splitlines())
    always = {"symgrad", "Python", "processor", "threads", "compiler", "BLAS of NumPy", "BLAS of SciPy", "cache"}
    assert always <= set(told)
    assert told["package numpy"] == np.__version__
    assert told["cache"] == os.environ["SYMGRAD_CACHE_DIR"]
    if not told["compiler"].startswith("none"):
        probed = {"compiler version", "flags", "OpenMP", "SIMD functions", "fused multiply-add", "vector width"}
        assert probed <= set(told)
        assert told["permutations"].startswith(("right", "wrong, of eight doubles"))
        assert "-ffast-math" not in told["flags"]
        width = "(256 bits|512 bits|the compiler's choice): (there is one width|.* us with 512)"
        assert re.fullmatch(width, told["vector width"])


def test_doctor_without_a_compiler(run, monkeypatch):
    monkeypatch.setenv("CC", "/no/such/compiler")
    code, out, _ = run("doctor")
    assert code == 0
    assert re.search(r"^compiler +none: programs run by NumPy", out, re.MULTILINE)


def test_doctor_knows_the_dependencies():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    listed = re.search(r"^dependencies = \[\n(.*?)^\]", project, re.MULTILINE | re.DOTALL)
    assert listed is not None
    assert tuple(re.findall(r'"(\w+)', listed[1])) == doctor.PACKAGES


def test_cache(run, tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("SYMGRAD_CACHE_DIR", str(folder))
    assert "not made yet" in run("cache", "info")[1]
    assert not folder.exists()
    sg.jit(lambda x: x + 1)(np.ones(3))
    told = run("cache", "info")[1]
    assert re.search(r"cache state +writable\n", told)
    if sg.jit(lambda x: x)._options.compiler != "none" and "0 libraries" not in told:
        assert "1 libraries" in told
    assert run("cache", "clear")[1].endswith(f" freed in {folder}\n")
    assert " 0 libraries" in run("cache", "info")[1]
    folder.chmod(0o777)
    assert "not used: other users may write to it" in run("cache", "info")[1]


def test_ops_are_the_declarations(run):
    code, out, _ = run("ops")
    assert code == 0
    head, *lines = out.splitlines()
    assert head.split() == ["name", "answers", "kind", "derivative", "C"]
    assert [line.split()[0] for line in lines] == [op.name for op in OPS.values() if op.kind != "leaf"]
    rows = {row[0]: row[1:] for row in ops.declared()}
    assert rows["sin"] == ["np.sin", "elementwise", "cos(x)", "sin"]
    assert rows["multiply"] == ["np.multiply", "elementwise", "y, x", "{0} * {1}"]
    assert rows["erf"][:3] == ["scipy.special.erf", "elementwise", "2*exp(-x**2)/sqrt(pi)"]
    assert rows["floor"][2] == "0"
    assert rows["sum"] == ["np.sum", "structured", "rule", "loops"]
    assert rows["logsumexp"][0] == "scipy.special.logsumexp"
    assert rows["place"][0] == "", "np.place is something else"


def test_ops_counted_and_as_markdown(run):
    counts = dict(line.rsplit(maxsplit=1) for line in run("ops", "--stats")[1].splitlines())
    assert int(counts["operations"]) == len(ops.declared())
    kinds = ("elementwise", "structured", "composite", "control")
    assert sum(int(counts[k]) for k in kinds) == int(counts["operations"])
    lines = run("ops", "--markdown")[1].splitlines()
    assert lines[:2] == ["| name | answers | kind | derivative | C |", "| --- | --- | --- | --- | --- |"]
    assert {line.count("|") for line in lines} == {6}


def test_version_and_help(run):
    assert run("--version") == (0, f"symgrad {sg.__version__}\n", "")
    assert run()[1] == run("--help")[1]
    assert "show" in run()[1]


# -- what is wrong, in one line

@pytest.mark.parametrize(("words", "message"), REFUSED, ids=[f"{' '.join(w)[:40]} {m[:30]}" for w, m in REFUSED])
def test_what_cannot_be_done_is_one_line(run, tmp_path, words, message):
    (tmp_path / "notes.txt").write_text("f = 1\n")
    (tmp_path / "syntax.py").write_text("def f(:\n")
    (tmp_path / "raises.py").write_text("f = 1\n1 / 0\n")
    (tmp_path / "exits.py").write_text("import sys\nsys.exit(3)\n")
    (tmp_path / "needs.py").write_text("import no_such_package\n")
    (tmp_path / "relative.py").write_text("from . import losses\n")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "Makefile").write_text("mine")
    before = {path.name for path in tmp_path.iterdir()} | {"__pycache__"}
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert {path.name for path in tmp_path.iterdir()} <= before, "nothing is left behind"
    said = [line for line in err.splitlines() if not line.startswith("the ")]
    assert len(said) == 1, err
    assert said[0].startswith("symgrad: ")
    assert message in said[0]


def test_debug_shows_the_traceback(run):
    code, _, err = run("show", "losses.py:broken", *X, "--debug")
    assert code == 2
    assert "Traceback (most recent call last)" in err
    assert err.endswith("NameError: name 'undefined_name' is not defined\n")
    assert run("--debug", "show", "losses.py:broken", *X)[2].count("Traceback") == 1


# -- as a process


def test_as_a_module_and_without_a_terminal():
    done = process("show", "losses.py:quadratic", *KNOWN, "--stage", "loops")
    assert (done.returncode, done.stderr) == (0, "the file is imported\n")
    assert "\x1b" not in done.stdout
    wrong = process("show", "losses.py:broken", *KNOWN)
    assert wrong.returncode == 2
    assert "Traceback" not in wrong.stderr


@pytest.mark.parametrize("command", ["show", "check", "emit"])
def test_interrupting_ends_cleanly(command):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-m", "symgrad", command, "losses.py:slow", "--arg", "x=f64[]"]
    words += ["--out", "out"] if command == "emit" else []
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - a background job ignores it
    ) as started:
        assert started.stderr is not None
        assert started.stderr.readline() == "the file is imported\n"
        time.sleep(0.5)
        started.send_signal(signal.SIGINT)
        try:
            out, err = started.communicate(timeout=20)
        finally:
            started.kill()
    assert (started.returncode, out, err) == (130, "", "symgrad: interrupted\n")


def test_a_closed_pipe_ends_quietly():
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "symgrad", "ops"], stdout=writing, stderr=subprocess.PIPE, text=True, env=environment,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_colours_on_a_terminal():
    inner, outer = pty.openpty()
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "COLUMNS": "200"}
    environment.pop("NO_COLOR", None)
    words = [sys.executable, "-m", "symgrad", "show", "losses.py:quadratic", *KNOWN]
    with subprocess.Popen(words, stdout=outer, stderr=subprocess.DEVNULL, env=environment) as started:
        os.close(outer)
        shown = b""
        while True:
            try:
                part = os.read(inner, 65536)
            except OSError:  # Linux says so at the end of a terminal
                break
            if not part:
                break
            shown += part
    os.close(inner)
    assert started.returncode == 0
    text = shown.decode().replace("\r\n", "\n")
    assert "\x1b[" in text
    assert re.sub(r"\x1b\[[0-9;]*m", "", text) == process("show", "losses.py:quadratic", *KNOWN).stdout


@pytest.mark.parametrize(("before", "code", "said"), [
    ("default_int_handler", 130, "symgrad: interrupted\n"), ("SIG_IGN", 7, ""),
])
def test_an_interrupt_before_the_package_is_imported(tmp_path, before, code, said):
    (tmp_path / "numpy.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nraise SystemExit(7)\n")
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    text = f"import signal; signal.signal(signal.SIGINT, signal.{before}); from symgrad_start import run; run()"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", said)


# -- the documentation


def test_the_page_tells_every_command_and_option():
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for name, command in cli.commands.items():
        assert f"symgrad {name}" in page
        for one in [command, *getattr(command, "commands", {}).values()]:
            for option in one.params:
                for spelled in option.opts if option.param_type_name == "option" else []:
                    assert f"`{spelled}" in page, f"{name} {spelled}"


def test_the_pages_messages_are_those_that_come():
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    table = page.split("## What it says when something is wrong")[1]
    shown = re.findall(r"^\| `symgrad ([^`]+)` \| `([^`]+)` \|$", table, re.MULTILINE)
    assert len(shown) >= 8
    known = {" ".join(words): message for words, message in REFUSED}
    for words, message in shown:
        assert message in known[words] or known[words] in message, words


@pytest.mark.parametrize(("text", "code"), [
    ('exec("raise KeyboardInterrupt")', 130), ("raise KeyboardInterrupt", 130),
    ("import atexit, os, signal\natexit.register(os.kill, os.getpid(), signal.SIGINT)", 0),
], ids=["in a text that is run", "while the file is imported", "when all is done"])
def test_an_interrupt_at_an_odd_moment_is_130_or_too_late(tmp_path, text, code):
    """CPython ends by the signal itself after the first of them, though it is caught, and after the last one."""
    (tmp_path / "odd.py").write_text(f"import numpy as np\n{text}\ndef f(x): return np.sum(x)\n")
    done = process("emit", "odd.py:f", "--arg", "x=f64[n]", "--out", "out/sums", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (code, "symgrad: interrupted\n" if code else "")
    assert (tmp_path / "out").exists() == (code == 0)
