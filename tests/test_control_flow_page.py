"""docs/control_flow.md: its Python runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = (Path(__file__).parent.parent / "docs" / "control_flow.md").read_text()


def test_the_page_runs():
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(block, "control_flow.md", "exec"), names)
    assert names["by_p"].shape == (2,)
