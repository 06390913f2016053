"""docs/shapes.md: its Python runs, and the assertions in it hold."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_page_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "shapes.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 3
    script = tmp_path / "page.py"  # a file: lines of code are quoted in errors
    script.write_text("\n".join(blocks))
    subprocess.run([sys.executable, str(script)], check=True, cwd=ROOT, env=None, timeout=120)
