"""Writes the generated C of every workload: ``python -m benchmarks.sources folder``.

Two folders, made before and after a change, say by ``diff -rq`` which programs it altered. Nothing is compiled.
"""

from __future__ import annotations

import re
from pathlib import Path

import click

import symgrad as sg
from benchmarks.workloads import OTHERS, PROMISED


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--only", multiple=True, metavar="NAME", help="Only workloads whose name contains this; may be repeated.")
def main(folder: Path, only: tuple[str, ...]) -> None:
    """Write the C of every workload into a folder, a file each."""
    folder.mkdir(parents=True, exist_ok=True)
    for work in (*PROMISED, *OTHERS):
        if only and not any(part in work.name for part in only):
            continue
        function = sg.jit(work.function) if work.by is None else sg.value_and_grad(work.function, argnums=work.by)
        source = function.lower(*work.arguments()).as_text("c")
        (folder / (re.sub(r"\W+", "_", work.name) + ".c")).write_text(source, encoding="utf-8")
        click.echo(work.name)


if __name__ == "__main__":
    main()
