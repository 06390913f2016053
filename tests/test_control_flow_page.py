"""docs/control_flow.md: its Python runs."""

from __future__ import annotations

import linecache
import re
from pathlib import Path
from typing import Any

PAGE = (Path(__file__).parent.parent / "docs" / "control_flow.md").read_text()


def test_the_page_runs():
    names: dict[str, Any] = {}
    for place, block in enumerate(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)):
        name = f"<control_flow.md, {place}>"
        linecache.cache[name] = len(block), None, block.splitlines(keepends=True), name  # as of a cell of a notebook
        exec(compile(block, name, "exec"), names)
    assert names["by_p"].shape == (2,)
