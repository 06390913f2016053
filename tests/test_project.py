"""The project's promises about itself: its source, its README, its wheel."""

from __future__ import annotations

import ast
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import textwrap
import venv
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from symgrad.ops import load
from symgrad.ops.declare.forms import OPS
from tests import lint

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PACKAGE = sorted((ROOT / "symgrad").rglob("*.py"))


def name(path):
    return str(path.relative_to(ROOT))


def complaints(check, path):
    found = check(ast.parse(path.read_text(encoding="utf-8")))
    return [f"{name(path)}:{line}: {what}" for line, what in found]


def test_there_is_something_to_check():
    assert ROOT / "symgrad" / "options.py" in PACKAGE


def test_the_order_of_reading_names_modules_that_are_there():
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8").partition("## The order of reading")[2]
    named, rows = [], text.partition("\n## ")[0].splitlines()
    assert len(rows) < 2 * 55  # two pages
    for row in rows:
        folder = ROOT / "symgrad"
        for path in re.findall(r"`([\w/]+\.py)`", row):  # a name alone stands in the folder of the one before
            folder = (ROOT / "symgrad" / path).parent if "/" in path else folder
            named.append(folder / Path(path).name)
    assert len(named) > 40
    assert [name(path) for path in named if path not in PACKAGE] == []


WORDS = {"add", "all", "any", "call", "cond", "constant", "each", "extent", "guard", "input", "max", "min", "multiply",
         "place", "places", "result", "scan", "subtract", "sum", "where"}
"""Names of ops that are the words for other things as well: literals of these are not counted."""

OP_MENTIONS = 120
"""How often the package may name an op outside of `ops/`, as a literal or by comparing with it: what is true of an op
is said where it is declared, and passes ask for that. There were 633 literals when this began to be counted."""


def test_what_is_true_of_an_op_is_said_on_the_op():
    load()
    outside = [path for path in PACKAGE if "ops" not in path.parts]
    found = [where for path in outside for where in complaints(partial(lint.named_ops, names={*OPS} - WORDS), path)]
    assert len(found) < OP_MENTIONS, "\n".join(found)


@pytest.mark.parametrize(("source", "count"), [
    ("if node.op.name == 'reshape': pass", 1),
    ("from symgrad.ops.arrays.views import reshape\nreshape(x), node.op in {reshape, 3}, node.op is not reshape", 2),
    ("from symgrad.ops.declare import leaves\nfrom symgrad import ops\nx is leaves.constant, y is ops.log, ops.log", 2),
    ("reshape = 1\nif x == reshape: pass", 0),
])
def test_mentions_of_ops_are_counted(source, count):
    assert len([*lint.named_ops(ast.parse(source), {*OPS} - WORDS)]) == count


@pytest.mark.parametrize("path", PACKAGE, ids=name)
def test_text_never_becomes_code(path):
    assert complaints(lint.code_from_text, path) == []


@pytest.mark.parametrize("path", sorted((ROOT / "symgrad" / "render").rglob("*.py")), ids=name)
def test_c_stands_in_templates_only(path):
    assert complaints(lint.c_in_python, path) == []


@pytest.mark.parametrize(
    "code",
    [
        "eval(text)",
        "run = exec",
        "import builtins; builtins.exec(text)",
        "sympy.sympify(text)",
        "from sympy import S; S(text)",
        "parse_expr(text)",
        "sympy.lambdify(x, y)",
        "import pickle; pickle.loads(data)",
        "from pickle import loads",
        "subprocess.run(command, shell=True)",
        "subprocess.run(command, shell=flag)",
        "os.system(command)",
        "np.load(path, allow_pickle=True)",
    ],
)
def test_the_lint_sees_code_from_text(code):
    assert list(lint.code_from_text(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "S.One",
        "sympify(value, strict=True)",
        "subprocess.run(arguments, shell=False)",
        "pickle.dumps(value)",
        "def compile(fun): ...",
        "'eval of this text is only a word'",
    ],
)
def test_the_lint_lets_pass(code):
    assert list(lint.code_from_text(ast.parse(code))) == []


def test_the_lint_sees_punctuation():
    assert list(lint.c_in_python(ast.parse("x = 'for (;;)'")))
    assert not list(lint.c_in_python(ast.parse('def f():\n    """A; b."""\n    return f"{x} + {y}"')))


# ------------------------------------------------------------------------------------------------------- README


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def readme(tmp_path_factory):
    """The variables after the README's Python has run as the file loss.py."""
    script = tmp_path_factory.mktemp("readme") / "loss.py"
    script.write_text("\n".join(blocks(README.read_text(encoding="utf-8"), "python")), encoding="utf-8")
    return runpy.run_path(str(script))


def test_readme_runs_and_is_right(readme):
    loss, X, y, w = (readme[name] for name in ("loss", "X", "y", "starts"))
    tanh = np.tanh(w @ X.T)
    np.testing.assert_allclose(readme["slopes"], 2 * ((tanh - y) * (1 - tanh**2)) @ X, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(readme["fit"].fun, loss(readme["fit"].x, X, y), rtol=1e-14)
    np.testing.assert_allclose(readme["fit"].x, [0.5, -1.0], atol=4 * np.max(readme["spread"]))
    assert np.max(readme["spread"]) < 0.1


def test_readme_shows_the_loop_of_its_c(readme, request):
    """The C for a plain compiler: what ran here may use fused multiply-adds and a vector library."""
    c = sg.value_and_grad(readme["loss"]).lower(np.zeros(2), readme["X"], readme["y"]).as_text("c")
    (loop,) = re.findall(r"^    for \(.*?^    }\n", c, re.DOTALL | re.MULTILINE)
    made, text = textwrap.dedent(loop), README.read_text(encoding="utf-8")
    begin, shown, end = re.findall(r"(<!-- begin: the loop .*?-->\n```c\n)(.*?)(```\n<!-- end -->)", text, re.DOTALL)[0]
    if request.config.getoption("--update-golden"):
        README.write_text(text.replace(begin + shown + end, begin + made + end), encoding="utf-8")
        shown = made
    assert shown == made, "if the new C is right: make test ARGS=--update-golden"


def test_readme_is_short_before_it_says_what_is_refused():
    """Three lines of a loss, about ten of C, and what SciPy needs before either."""
    text = README.read_text(encoding="utf-8").partition("## Limits")[0]
    (listing, fit), (loop,) = blocks(text, "python"), blocks(text, "c")
    assert text.index("minimize(sg.value_and_grad(loss), start, jac=True)") < text.index("```")
    assert len(listing.partition("def ")[2].splitlines()) == 3
    assert len(loop.splitlines()) <= 12
    assert "minimize(" in fit
    assert "stand-in" not in text


@pytest.mark.skipif(shutil.which("make") is None or shutil.which("gcc") is None, reason="needs make and gcc")
def test_readme_emits_a_package_that_passes_its_tests(readme, tmp_path):
    (commands,) = [block for block in blocks(README.read_text(encoding="utf-8"), "sh") if "emit" in block]
    shutil.copy(readme["loss"].__code__.co_filename, tmp_path / "loss.py")
    for command in commands.splitlines():
        words = shlex.split(command)
        words = [sys.executable, "-m", *words] if words[0] == "symgrad" else words
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        ran = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
    assert "all agree" in ran.stdout


def test_readme_commands_exist():
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    commands = re.findall(r"\bmake ([a-z]+)", README.read_text(encoding="utf-8"))
    assert {"demo", "test"} <= set(commands) <= set(targets)


def test_readme_links_lead_somewhere():
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_changelog_begins_with_this_version():
    versions = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert re.fullmatch(rf"{re.escape(sg.__version__)}(, in development|, \d{{4}}-\d\d-\d\d)", versions[0])
    assert f'version = "{sg.__version__}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_what_changed_stands_in_its_section():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    kinds = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
    for version in text.split("\n## ")[1:]:
        sections = re.findall(r"^### (.*)$", version, re.MULTILINE)
        assert sections == [kind for kind in kinds if kind in sections]
    assert re.findall(rf"^- (?:{'|'.join(kinds)}):", text, re.MULTILINE) == []


# -------------------------------------------------------------------------------------------------------- wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel that the README's command builds."""
    folder = tmp_path_factory.mktemp("wheel")
    (command,) = re.findall(r"^python -m (pip wheel .*)$", README.read_text(encoding="utf-8"), re.MULTILINE)
    words = [sys.executable, "-m", *shlex.split(command.replace("dist", str(folder))), "--no-build-isolation"]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return path


def test_wheel_content(wheel):
    content = set(zipfile.ZipFile(wheel).namelist())
    package = {path.relative_to(ROOT).as_posix() for path in PACKAGE} | {"symgrad/py.typed", "symgrad_start.py"}
    package |= {path.relative_to(ROOT).as_posix() for path in (ROOT / "symgrad").rglob("*.c")}  # the toolchain's probes
    package.add("symgrad/build/toolchain/watch.sh")
    templates = {
        f"symgrad/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "templates").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert templates
    assert package | templates <= content
    strangers = {name for name in content - package - templates if ".dist-info/" not in name}
    assert strangers == set()


def test_an_index_shows_no_link_that_leads_nowhere(wheel):
    """An index has the README alone: its links to files of the repository are their paths there."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        shown = archive.read(name).decode()
    assert "Description-Content-Type: text/markdown" in shown
    assert "docs/tutorial.md" in shown
    urls = dict(re.findall(r"^Project-URL: (\w+), (\S+)$", shown, re.MULTILINE))
    assert urls.keys() == {"Homepage", "Documentation", "Repository", "Changelog"}
    assert "git+http" not in README.read_text(encoding="utf-8"), "a checkout or a wheel is what is tried"
    assert re.findall(r"\]\((?!https?:)[^)]*\)", shown) == []


@pytest.mark.slow
def test_wheel_works_in_a_fresh_environment(wheel, tmp_path):
    """Installed outside the tree, the wheel's own templates make C; the dependencies are this environment's."""
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-index", "--no-deps", str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    (site,) = (tmp_path / "env").glob("lib/*/site-packages")
    # Paths in a .pth file are added, .pth files there are not followed: the checkout's editable install stays out.
    dependencies = {str(Path(path).resolve()) for path in sys.path if path.endswith(("site-packages", "dist-packages"))}
    (site / "dependencies.pth").write_text("\n".join(sorted(dependencies)), encoding="utf-8")
    script = textwrap.dedent("""
        import numpy as np, symgrad as sg
        from symgrad.render.templates import TEMPLATES
        value, grad = sg.value_and_grad(lambda x: np.sum(np.exp(x)))(np.zeros(3))
        assert value == 3.0 and (grad == 1.0).all(), (value, grad)
        print(sg.__file__, TEMPLATES, sep="\\n")
    """)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        [str(python), "-c", script], cwd=tmp_path, env=environment, check=False, capture_output=True, text=True,
    )
    assert done.returncode == 0, done.stderr
    assert [Path(line).is_relative_to(tmp_path) for line in done.stdout.split()] == [True, True]
    program = subprocess.run(
        [str(python.with_name("symgrad")), "--version"], env=environment, check=True, capture_output=True, text=True,
    )
    assert program.stdout == f"symgrad {sg.__version__}\n"
