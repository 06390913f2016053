"""docs/tracing.md: its Python runs, and the assertions in it hold."""

from __future__ import annotations

import linecache
import re
from pathlib import Path
from typing import Any

PAGE = (Path(__file__).parent.parent / "docs" / "tracing.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_page_runs():
    assert len(BLOCKS) == 5
    names: dict[str, Any] = {}
    for number, block in enumerate(BLOCKS):
        name = f"<tracing.md {number}>"
        linecache.cache[name] = (len(block), None, block.splitlines(keepends=True), name)
        exec(compile(block, name, "exec"), names)
