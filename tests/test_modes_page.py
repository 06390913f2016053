"""docs/modes.md: its Python runs, and what it shows is what there is."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import symgrad as sg
from symgrad.transforms.derive import jvp

PAGE = (Path(__file__).parent.parent / "docs" / "modes.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_page_runs_and_prints_what_it_shows(capsys):
    names: dict[str, Any] = {}
    for block in BLOCKS:
        exec(compile(block, "modes.md", "exec"), names)
    printed = capsys.readouterr().out
    shown = re.search(r"    v0 = np\.sin.*?return v6,", PAGE, re.DOTALL)
    assert shown is not None
    assert re.sub(r"  #.*", "", printed[printed.index("    v0") :]).strip() == shown[0].strip()
    assert names["sg"] is sg


def test_the_twenty_lines_are_the_projects_own():
    """Every statement of the page's `pushforward` stands, word for word but for names of new inputs, in the project."""
    code = inspect.getsource(jvp.pushforward)
    lines = "reverse = pullback(program, wrt, of, linear=True, held=", "forward = pullback(reverse,", "linear=True)"
    for line in lines:
        assert line in PAGE
        assert line in code
