"""docs/inplace.md: its Python runs, and the assertions in it hold."""

from __future__ import annotations

import linecache
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).parent.parent / "docs" / "inplace.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.filterwarnings("ignore:divide by zero")
def test_the_page_runs():
    assert len(BLOCKS) == 7
    names: dict[str, Any] = {}
    for number, block in enumerate(BLOCKS):
        name = f"<inplace.md {number}>"
        linecache.cache[name] = (len(block), None, block.splitlines(keepends=True), name)
        exec(compile(block, name, "exec"), names)
