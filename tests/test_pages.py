"""Pages of docs/ that are read first: their Python runs and prints what they show, and their lists are whole."""

from __future__ import annotations

import contextlib
import inspect
import io
import linecache
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad import errors
from symgrad.api.call.function import Lowered

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n((?:    [^\n]*\n)+))?", re.DOTALL | re.MULTILINE)


def run(page, request, file="page.py"):
    """Run a page's Python as one file, comparing what each block prints with the indented lines behind it."""
    path = DOCS / f"{page}.md"
    text = path.read_text(encoding="utf-8")
    space: dict[str, Any] = {"__name__": Path(file).stem}
    source = "".join(found[1] + "\n" for found in BLOCK.finditer(text))
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    line, made, since = 0, "", 0
    for found in BLOCK.finditer(text):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * line + found[1], file, "exec"), space)
        line += found[1].count("\n") + 1
        shown = "".join(f"    {row}\n" for row in printed.getvalue().splitlines())
        made += text[since:found.start()] + f"```python\n{found[1]}```\n" + (f"\n{shown}" if shown else "")
        since = found.end()
    check(path, text, made + text[since:], request)
    return space, source


def check(path, text, made, request):
    if request.config.getoption("--update-golden"):
        path.write_text(made, encoding="utf-8")
        text = made
    assert text == made, "if the new page is right: make test ARGS=--update-golden"


@pytest.fixture(scope="module")
def tutorial(request):
    return run("tutorial", request, "decay.py")


def test_the_tutorial_finds_what_is_true(tutorial):
    space, _ = tutorial
    found = space["unravel"](space["fit"].x)
    for name, number in space["truth"].items():
        assert abs(found[name] - number) < 2 * space["spread"][name]


def test_the_tutorial_shows_its_c(tutorial, request):
    space, _ = tutorial
    made = space["gradient"].lower(space["guess"], space["t"], space["sound"]).as_text("c")
    path = DOCS / "tutorial.md"
    text = path.read_text(encoding="utf-8")
    begin, shown, end = re.findall(r"(<!-- begin: the C .*?-->\n```c\n)(.*?)(```\n<!-- end -->)", text, re.DOTALL)[0]
    check(path, text, text.replace(begin + shown + end, begin + made + end), request)


@pytest.mark.skipif(shutil.which("make") is None or shutil.which("gcc") is None, reason="needs make and gcc")
def test_the_tutorials_package_gives_the_same_bits(tutorial, tmp_path):
    space, source = tutorial
    (tmp_path / "decay.py").write_text(source, encoding="utf-8")
    text = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    (program,) = [block for block in re.findall(r"```c\n(.*?)```", text, re.DOTALL) if "int main" in block]
    (commands,) = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    for command in commands.replace("\\\n", " ").splitlines():
        words = shlex.split(command)
        words = [sys.executable, "-m", *words] if words[0] == "symgrad" else words
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        ran = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
    assert "all agree" in ran.stdout
    (tmp_path / "main.c").write_text(program)
    build = ["gcc", "-std=c99", "-Wall", "-Werror", "-Ibuild/bell", "main.c", "build/bell/libbell.a"]
    subprocess.run([*build, "-lm", "-o", "main"], cwd=tmp_path, check=True)
    found = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout.split()
    bell = {"loudness": 1.0, "fading": 1.0, "pitch": 13.0, "phase": 0.0}
    portable = sg.value_and_grad(space["loss"], options=sg.Options(portable=True))
    value, slopes = portable(bell, np.array([0.0, 0.1, 0.2]), np.array([1.4, 0.1, -1.2]))
    assert [float(number) for number in found] == [value, *(slopes[name] for name in sorted(slopes))]


# -- docs/environment.md


def variables_read():
    """Names of environment variables in the package: in lines that ask the environment, and by their prefixes."""
    for path in sorted((ROOT / "symgrad").rglob("*.py")):
        for line in path.read_text(encoding="utf-8").splitlines():
            named = r"(?:SYMGRAD|OMP|GOMP)_[A-Z_]+|[A-Z][A-Z_]+" if re.search(r"\b(environ|getenv)\b", line) else (
                r"(?:SYMGRAD|OMP|GOMP)_[A-Z_]+")
            yield from re.findall(rf"[\"']({named})[\"']", line)


def test_every_environment_variable_has_its_row():
    page = (DOCS / "environment.md").read_text(encoding="utf-8")
    rows = {*re.findall(r"^\| `([A-Z_]+)` \|", page.partition("## What symgrad sets")[0], re.MULTILINE)}
    of_others = {"XDG_CACHE_HOME", "NO_COLOR", "SYMGRAD_TESTS_OPTIMIZED", "SYMGRAD_TESTS_FIRST"}
    found = {*variables_read()} - {"LC_ALL"}
    assert {"CC", "PATH", "OMP_NUM_THREADS", "SYMGRAD_CACHE_DIR"} <= found
    assert rows - of_others == found


# -- docs/coming_from.md


def test_what_is_spelled_how_runs_and_is_there(request):
    run("coming_from", request)
    text = (DOCS / "coming_from.md").read_text(encoding="utf-8")
    named = {*re.findall(r"\bsg\.(\w+)", text)} - {"linalg"}
    assert len(named) > 20
    assert sorted(named - {*sg.__all__}) == []


def test_the_page_of_sympy_runs(request):
    run("sympy", request)


def test_the_page_of_layers_runs(request):
    run("layers", request)


def test_the_page_of_columns_runs(request):
    run("features", request)


def test_the_page_of_sparse_gradients_and_matrices_runs(request):
    run("sparse", request)


def test_the_page_of_training_runs(request):
    run("training", request)


def test_the_page_of_fit_runs(request):
    run("fit", request)


def test_the_page_of_scale_runs(request):
    run("scale", request)


# -- docs/api.md

GROUPS = {
    "Compile and differentiate": ("jit", "grad", "value_and_grad", "jacfwd", "jacrev", "hessian", "hvp", "vmap"),
    "Differentiate at a point": ("jvp", "vjp", "linearize", "gradients", "stop_gradient"),
    "Train": ("compile_step", "Step", "RowSparse"),
    "Loops and branches": ("scan", "fori_loop", "while_loop", "cond", "switch", "checkpoint"),
    "Check": ("check_grads",),
    "Formulas in SymPy": ("from_sympy",),
    "Packages of C": ("emit", "Package"),
    "Rules and operations of your own": (
        "custom_vjp", "custom_jvp", "override_gradient", "named", "define_op", "extern"),
    "Structures, shapes and types": (
        "tree_map", "tree_paths", "tree_flatten", "ravel_pytree", "spec", "Spec", "Tracer"),
    "As many as are asked for": ("unique", "nonzero", "flatnonzero", "argwhere"),
    "Choices": ("Options", "set_num_threads", "get_num_threads"),
    "Errors and warnings": ("SymgradError", "SymgradWarning", "NoGradient"),
    "Linear algebra that NumPy does not have: `symgrad.linalg`": ("linalg",),
    "Optimizers: `symgrad.optim`": ("optim",),
    "Layers and losses: `symgrad.nn`": ("nn",),
    "Columns of tables: `symgrad.features`": ("features",),
    "Train, and keep what was trained": ("fit", "save", "load"),
    "Data beyond one machine: `symgrad.dask`": ("dask",),
    "Compiled functions": ("Function",),
}


def public(kind):
    """Names of a class or module that are no one else's and no secret, with what they are."""
    for name, value in vars(kind).items():
        mine = getattr(value, "fget", value)
        home = kind.__name__ if inspect.ismodule(kind) else kind.__module__
        if name[0] == "_" or not inspect.isfunction(mine):
            continue
        if mine.__module__ == home or (hasattr(kind, "__path__") and mine.__module__.startswith(f"{home}.")):
            yield name, value


def first_sentence(value):
    return " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split()).replace("``", "`").replace("|", r"\|")


def row(name, value, *, prefix=""):
    """A name with its signature, linked to the source, and the first sentence of its docstring."""
    mine: Any = inspect.unwrap(getattr(value, "fget", value))
    signature = ""
    if not isinstance(value, property) and not (inspect.isclass(value) and issubclass(value, Exception)):
        of = inspect.signature(value)
        bare = [one.replace(annotation=one.empty) for one in of.parameters.values() if one.name != "self"]
        signature = str(of.replace(parameters=bare, return_annotation=of.empty)).replace("|", r"\|")
    path = Path(inspect.getsourcefile(mine) or "").relative_to(ROOT).as_posix()
    return f"| [`{prefix}{name}{signature}`](../{path}) | {first_sentence(mine)} |\n"


def api():
    yield "# Every public name\n\nThis page is made from the docstrings (`make test ARGS=--update-golden`). Each name "
    yield "leads to its source.\nThe docstring there has more: the arguments, what is returned and raised, and "
    yield "an example. `help(sg.grad)` shows it, too.\n"
    head = "\n| name | what it does |\n|---|---|\n"
    for title, names in GROUPS.items():
        yield f"\n## {title}\n"
        for name in names:
            value = getattr(sg, name)
            if inspect.ismodule(value) or value is sg.Function:
                prefix = "f." if value is sg.Function else ""
                yield f"\n{first_sentence(value)}\n{head}"
                yield from (row(of, one, prefix=prefix) for of, one in public(value))
            else:
                yield (head if name == names[0] else "") + row(name, value)
    yield "\n`f.lower(...)` gives a `Lowered`, which is not compiled yet:\n" + head
    yield from (row(of, one, prefix="lowered.") for of, one in public(Lowered))
    yield "\nEvery error is a `SymgradError` and one of Python's or NumPy's own. They are in `symgrad.errors`:\n" + head
    own = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, errors.SymgradError)]
    for kind in own[1:]:
        bases = [f"`{base.__name__}`" for base in kind.__bases__ if not issubclass(base, errors.SymgradError)]
        yield row(kind.__name__, kind).replace(" | ", f" | {' and '.join(bases)}: " if bases else " | ", 1)


def test_the_page_of_public_names_is_that_of_the_docstrings(request):
    path = DOCS / "api.md"
    check(path, path.read_text(encoding="utf-8"), "".join(api()), request)


def test_no_public_name_is_missing():
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(sg.__all__)
