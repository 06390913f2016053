"""docs/performance.md: its Python runs, and what it shows is what is generated."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from symgrad.options import Purpose
from symgrad.pipeline import passes

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The variables after the page's Python has run as the file loss.py."""
    script = tmp_path_factory.mktemp("page") / "loss.py"
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    script.write_text("\n".join(blocks), encoding="utf-8")
    return runpy.run_path(str(script))


def test_its_python_runs_and_is_right(page):
    X, y = page["X"], page["y"]
    np.testing.assert_allclose(page["value"], np.log(2), rtol=1e-14)
    np.testing.assert_allclose(page["gradient"], X.T @ (-0.5 * y) / len(y), rtol=1e-11, atol=1e-15)
    assert page["library"].is_file()


@pytest.mark.parametrize(("title", "stage"), [("the loops", "loops"), ("the C", "c")])
def test_it_shows_what_is_generated(page, title, stage, request):
    made = page["lowered"].as_text(stage).rstrip("\n") + "\n"
    text = PAGE.read_text(encoding="utf-8")
    pattern = rf"(<!-- begin: {title} of loss.py, .*?-->\n```\w+\n)(.*?)(```\n<!-- end -->)"
    begin, shown, end = re.findall(pattern, text, re.DOTALL)[0]
    if request.config.getoption("--update-golden"):
        PAGE.write_text(text.replace(begin + shown + end, begin + made + end), encoding="utf-8")
        shown = made
    assert shown == made, "if the new text is right: make test ARGS=--update-golden"


def test_what_it_says_of_the_command_is_so():
    from benchmarks.__main__ import main

    options = set(re.findall(r"--[a-z][a-z-]+", PAGE.read_text(encoding="utf-8")))
    known = {option for parameter in main.params for option in parameter.opts}
    assert options & known >= {"--only", "--json", "--quick", "--no-torch"}
    assert options - known <= {"--update-golden", "--no-show-raw-insn"}


def test_each_pass_that_may_be_left_out_has_its_row():
    """What is for time gains 5 % on some program, but where no workload has a use for it."""
    table = PAGE.read_text(encoding="utf-8").partition("\n| pass |")[2].partition("\n\n")[0]
    every = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    rows = {name: cells for name, *cells in every}
    wanted = [(one.name, one.purpose.value) for one in passes() if one.purpose is not Purpose.NECESSITY]
    assert [(name, cells[0]) for name, cells in rows.items()] == wanted
    short = {name for name, (what, _, gain, *_) in rows.items() if what == "time" and float(gain.split()[0]) < 1.05}
    assert short == {"blas"}, "it is for those who ask for it"
