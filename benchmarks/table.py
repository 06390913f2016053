"""Prints what was measured: rich's table on a terminal, aligned columns elsewhere, JSON for programs."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.run import Row

HEAD = (
    "workload", "symgrad", "JAX", "JAX/sg", "promised", "cold", "JAX's", "torch", "torch/sg", "Dr.Jit/sg", "sg/C",
    "compile", "JAX's", "workspace", "C lines", "error",
)


def time_of(seconds: float | None) -> str:
    """Print a time.

    >>> time_of(3.4e-3), time_of(8.15e-7), time_of(None)
    ('3.40 ms', '0.81 us', '-')
    """
    if seconds is None:
        return "-"
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1 or unit == "us":
            return f"{seconds * factor:.{2 if seconds * factor < 100 else 0}f} {unit}"
    raise AssertionError


def size_of(count: int | None) -> str:
    """Print a number of bytes.

    >>> size_of(0), size_of(2048), size_of(3 * 2**20), size_of(None)
    ('0', '2.0 kB', '3.0 MB', '-')
    """
    if count is None:
        return "-"
    for factor, unit in ((2**20, "MB"), (2**10, "kB")):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return str(count)


def ratio_of(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"


def cells(row: Row) -> list[str]:
    """Spell one row."""
    torch = time_of(row.seconds.get("torch")) + (" eager" if row.notes.get("torch", "").startswith("eager") else "")
    error = "failed" if row.error is None else f"{row.error:.0e}{'' if row.agrees else ' WRONG'}"
    return [
        row.name, time_of(row.seconds.get("symgrad")), time_of(row.seconds.get("jax")),
        ratio_of(row.ratio("jax", "symgrad")), "-" if row.least is None else f"{row.least:g}",
        time_of(row.cold.get("symgrad")), time_of(row.cold.get("jax")),
        torch, ratio_of(row.ratio("torch", "symgrad")), ratio_of(row.ratio("drjit", "symgrad")),
        ratio_of(row.ratio("symgrad", "c")), time_of(row.compile_seconds.get("symgrad")),
        time_of(row.compile_seconds.get("jax")), size_of(row.workspace), str(row.c_lines or "-"), error,
    ]


def misses(row: Row) -> set[str]:
    """Name the columns where a promise is not kept."""
    found = set()
    faster, slower = row.ratio("jax", "symgrad"), row.ratio("symgrad", "c")
    if faster is not None and faster < (row.least or 1.0):
        found.add("JAX/sg")
    if slower is not None and slower > 1.2:
        found.add("sg/C")
    if not row.agrees:
        found.add("error")
    return found


def plain(title: str, rows: Sequence[Row]) -> str:
    """Align columns; a star stands at what misses its promise."""
    lines = [list(HEAD)]
    for row in rows:
        missed = misses(row)
        lines.append([cell + "*" * (name in missed) for name, cell in zip(HEAD, cells(row), strict=True)])
    widths = [max(len(line[k]) for line in lines) for k in range(len(HEAD))]
    text = "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines)
    return f"{title}\n{text}\n{summary(rows)}\n"


def summary(rows: Sequence[Row]) -> str:
    """Print the geometric mean and the minimum of JAX's time by symgrad's."""
    ratios = [ratio for row in rows if (ratio := row.ratio("jax", "symgrad")) is not None]
    if not ratios:
        return "no peer to compare with"
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return f"JAX / symgrad: geometric mean {mean:.2f}, minimum {min(ratios):.2f}, of {len(ratios)}"


BUSY = 0.1
"""Cores used by other programs beyond which a call of as many threads as cores waits for one of them."""


def remarks(rows: Sequence[Row]) -> list[str]:
    """Say what the table has no room for."""
    lines = []
    for row in rows:
        lines += [f"{row.name}: {peer}: {note}" for peer, note in row.notes.items() if note not in {"", "compile"}]
        if row.others > BUSY:
            lines.append(f"{row.name}: other programs used {row.others:.1f} cores meanwhile: measure again")
    return lines


def rich_table(title: str, rows: Sequence[Row]) -> Any:
    """Make the table for a terminal; what misses its promise is red."""
    from rich import box
    from rich.table import Table

    shown = Table(title=title, caption=summary(rows), box=box.SIMPLE)
    for k, name in enumerate(HEAD):
        shown.add_column(name, justify="right" if k else "left", no_wrap=True)
    for row in rows:
        missed = misses(row)
        shown.add_row(*[f"[red]{c}[/]" if name in missed else c for name, c in zip(HEAD, cells(row), strict=True)])
    return shown


def write_json(path: Path, groups: dict[str, list[Row]]) -> None:
    """Write everything that was measured, and with what."""
    described = {
        name: [asdict(row) | {"jax_ratio": row.ratio("jax", "symgrad"), "c_ratio": row.ratio("symgrad", "c"),
                              "agrees": row.agrees} for row in rows]
        for name, rows in groups.items()
    }
    path.write_text(json.dumps({"machine": machine(), **described}, indent=1) + "\n", encoding="utf-8")


def machine() -> dict[str, Any]:
    """Say what was measured on and with."""
    import symgrad as sg
    from symgrad.build.threads import threads
    from symgrad.build.toolchain import find as toolchain

    found = toolchain.find(sg.Options())
    versions = {package: version(package) for package in ("symgrad", "numpy", "jax", "torch", "drjit")}
    return {
        "system": f"{platform.system()} {platform.machine()}", "python": platform.python_version(),
        "threads": threads(sg.Options()), "versions": versions,
        "compiler": found.version if found else "none", "flags": " ".join(found.flags) if found else "",
    }


def version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "missing"
