"""A lone surrogate, which no encoding has, in the names of functions, keys, files and lines."""

from __future__ import annotations

import linecache
from pathlib import Path
from typing import Any

import numpy as np

import symgrad as sg

LONE = "\ud800x"
X = np.arange(3.0)


def named() -> Any:
    """Make a function of such a name, of a file of such a name, with a line that holds one."""
    lines = ["def f(x):\n", f"    return x * 2  # {LONE}\n"]
    made: dict[str, Any] = {}
    exec(compile("".join(lines).replace(LONE, ""), "<lone>", "exec"), made)
    function = made["f"]
    function.__code__ = function.__code__.replace(co_filename=f"<{LONE}>")
    linecache.cache[f"<{LONE}>"] = (1, None, lines, LONE)
    function.__name__ = LONE
    return function


def test_names_and_keys() -> None:
    f = named()
    assert (sg.jit(f)(X) == 2 * X).all()
    assert (sg.jit(lambda p: {LONE: f(p[LONE])})({LONE: X})[LONE] == 2 * X).all()
    assert (sg.jit(lambda **p: p[LONE] + 1)(**{LONE: X}) == X + 1).all()
    lowered = sg.jit(f).lower(X)
    for stage in ("traced", "stable", "optimized", "loops", "c"):
        lowered.as_text(stage).encode()


def test_packages(tmp_path: Path) -> None:
    f = named()
    sg.emit(lambda x: np.sum(f(x)), ("f64[3]",), tmp_path / "made", name="made", line_directives=True)
    assert list((tmp_path / "made").rglob("*.c"))
