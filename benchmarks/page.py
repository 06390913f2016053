"""Makes the tables of docs/benchmarks.md of figures that were measured: ``python -m benchmarks.page a.json b.json``.

A long table may be measured in parts, at different times; the last measurement of a workload counts. The last
column says how many cores other programs used meanwhile.
"""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from benchmarks import table
from benchmarks.run import Row

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- begin: {}, written by python -m benchmarks.page -->\n", "<!-- end -->"


def read(paths: tuple[Path, ...]) -> dict[str, dict[str, Row]]:
    """Read rows by set and by name."""
    known = {field.name for field in fields(Row)}
    found: dict[str, dict[str, Row]] = {"promised": {}, "others": {}}
    for path in paths:
        figures: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        for name, rows in found.items():
            for each in figures.get(name, []):
                row = Row(**{key: value for key, value in each.items() if key in known})
                rows[row.name] = row
    return found


def in_order(rows: dict[str, Row], name: str) -> list[Row]:
    """List rows in the order of the workloads' own lists."""
    from benchmarks.workloads import OTHERS, PROMISED

    return [rows[work.name] for work in {"promised": PROMISED, "others": OTHERS}[name] if work.name in rows]


def markdown(rows: list[Row]) -> str:
    """Print a table; figures that miss what was promised are bold."""
    lines = [[*table.HEAD, "others"], ["---"] + ["---:"] * len(table.HEAD)]
    for row in rows:
        missed = table.misses(row)
        shown = zip(table.HEAD, table.cells(row), strict=True)
        lines.append([*[f"**{cell}**" if name in missed else cell for name, cell in shown], f"{row.others:.1f}"])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + f"\n{table.summary(rows)}.\n"


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--write", is_flag=True, help="Write the tables into docs/benchmarks.md.")
def main(paths: tuple[Path, ...], write: bool) -> None:
    """Print the tables of docs/benchmarks.md of what was measured."""
    text = PAGE.read_text(encoding="utf-8")
    for name, rows in read(paths).items():
        shown = markdown(in_order(rows, name))
        click.echo(shown)
        begin = BEGIN.format(name)
        pattern = re.compile(re.escape(begin) + ".*?" + re.escape(END), re.DOTALL)
        text = pattern.sub(lambda _: begin + shown + END, text)  # noqa: B023 - used at once
    if write:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
