"""docs/scipy.md: its Python runs and prints what the page shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = (Path(__file__).parents[2] / "docs" / "scipy.md").read_text(encoding="utf-8")


def test_the_page_runs_and_prints_what_it_shows(capsys: Any) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(block, "scipy.md", "exec"), names)
    shown = re.search(r"```\n\n((?:    .*\n)+)", PAGE)
    assert shown is not None
    assert capsys.readouterr().out == re.sub("^    ", "", shown[1], flags=re.MULTILINE)
