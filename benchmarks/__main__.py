"""``python -m benchmarks``: every workload beside JAX, PyTorch, Dr.Jit and hand-written C, in one table."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

SETS = {"promised": "What was promised", "others": "The same classes of program in other formulations"}


@click.command()
@click.option("--only", multiple=True, metavar="NAME", help="Only workloads whose name contains this; may be repeated.")
@click.option("--set", "chosen", type=click.Choice(list(SETS)), help="Only one of the two sets.")
@click.option("--quick", is_flag=True, help="Small workloads only, and short: does it all still work?")
@click.option("--seconds", type=float, default=2.0, show_default=True, help="How long a workload is timed, about.")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write all figures there.")
@click.option("--no-jax", is_flag=True, help="Without JAX.")
@click.option("--no-torch", is_flag=True, help="Without PyTorch.")
@click.option("--no-drjit", is_flag=True, help="Without Dr.Jit.")
@click.option("--no-c", is_flag=True, help="Without the hand-written C.")
@click.option("--ablate", is_flag=True, help="Leave out one pass after the other, and say what each is worth.")
@click.option("--first", type=int, default=0, metavar="N", help="First calls alone, beside JAX's, the least of N.")
@click.option("--formulations", is_flag=True, help="Beside three rewritings of each: how far apart are their speeds?")
@click.option("--list", "listing", is_flag=True, help="List the workloads.")
@click.option("--c", "c", type=click.Path(file_okay=False, path_type=Path), help="Only write their C to this folder.")
@click.option("--c-against", "c_against", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Only show which of the C in this folder would be written otherwise now.")
def main(
    only: tuple[str, ...], chosen: str | None, quick: bool, seconds: float, json_path: Path | None, ablate: bool,
    formulations: bool, first: int, listing: bool, c: Path | None, c_against: Path | None, **without: bool,
) -> None:
    """Time value and gradient of every workload, interleaved with the peers that are installed.

    Ends with 1 when a result is wrong, with 130 on Ctrl-C (after printing what was measured by then). No time is ever
    an error: a star, or red, marks what misses its promise.
    """
    groups = selected(only, chosen, quick, loops=ablate)
    if listing:
        click.echo("\n".join(work.name for works in groups.values() for work in works))
        return
    if not any(groups.values()):
        raise click.UsageError(f"no workload is called {' or '.join(only) or 'so'}; --list shows them all")
    if c is not None or c_against is not None:
        show_c([work for works in groups.values() for work in works], c, c_against)
        return
    if first:
        begun([work for works in groups.values() for work in works], first)
        return
    wanted = frozenset(name for name in ("jax", "torch", "drjit", "c") if not without[f"no_{name}"])
    folder = tempfile.mkdtemp(prefix="symgrad-bench-")  # compile times are those of a cold cache
    os.environ["SYMGRAD_CACHE_DIR"] = folder
    rows: dict[str, list[Any]] = {name: [] for name in groups}
    status = 0
    try:
        if ablate:
            ablated(groups, 0.1 if quick else seconds)
            return
        if formulations:
            sys.exit(rewritten(groups, 0.1 if quick else seconds))
        measure(groups, rows, wanted, 0.1 if quick else seconds)
    except KeyboardInterrupt:
        status = 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report(rows, json_path)
    sys.exit(status or int(not all(row.agrees for found in rows.values() for row in found)))


def begun(works: list[Any], repeats: int) -> None:
    """Print what first calls take."""
    from benchmarks import first

    with progress(len(works)) as step:
        found = first.first_calls(works, repeats, step)
    click.echo(first.table(found))


def show_c(works: list[Any], folder: Path | None, against: Path | None) -> None:
    """Write the C of workloads, or show what differs from what was written before."""
    from benchmarks import written

    if against is not None:
        found = list(written.altered(works, against))
        for name, lines in found:
            click.echo("\n".join([f"{name}: {len(lines)} lines", *lines[: written.LINES]]))
        click.echo(f"{len(found)} files differ")
    if folder is not None:
        click.echo(f"{written.write(works, folder)} files")


def selected(only: tuple[str, ...], chosen: str | None, quick: bool, *, loops: bool) -> dict[str, list[Any]]:
    """List the workloads that are asked for, by set; the loops of `benchmarks.loops` too where passes are left out."""
    from benchmarks.loops import PROGRAMS
    from benchmarks.workload import Workload
    from benchmarks.workloads import OTHERS, PROMISED

    found = {"promised": PROMISED, "others": OTHERS}
    if loops:
        found["loops"] = tuple([Workload(one.name, one.function, one.draw, one.by) for one in PROGRAMS])

    return {
        name: [
            work for work in works
            if (work.small or not quick) and (not only or any(part.lower() in work.name.lower() for part in only))
        ]
        for name, works in found.items() if chosen in {None, name}
    }


def measure(
    groups: dict[str, list[Any]], rows: dict[str, list[Any]], wanted: frozenset[str], seconds: float,
) -> None:
    """Measure every workload into `rows`."""
    from benchmarks.run import measured

    warm_up(wanted)
    with progress(sum(map(len, groups.values()))) as step:
        for name, works in groups.items():
            for work in works:
                step(work.name)
                rows[name].append(measured(work, wanted, seconds))


def ablated(groups: dict[str, list[Any]], seconds: float) -> None:
    """Print what each pass is worth."""
    from benchmarks import ablation

    works = [work for found in groups.values() for work in found]
    with progress(len(works)) as step:
        worths = ablation.ablate(works, seconds, step)
    click.echo(ablation.table(worths))


def rewritten(groups: dict[str, list[Any]], seconds: float) -> int:
    """Print how far apart the speeds of formulations are; return 1 where one has other results."""
    from benchmarks.formulations import markdown, measured

    works = [work for found in groups.values() for work in found]
    rows = []
    with progress(len(works)) as step:
        for work in works:
            step(work.name)
            rows.append(measured(work, seconds))
    click.echo(markdown(rows))
    return int(not all(row.agrees for row in rows))


def warm_up(wanted: frozenset[str]) -> None:
    """Import everything and probe the compiler: what a process does once belongs to no workload's compile time."""
    import numpy as np

    import symgrad as sg

    sg.grad(np.sin)(1.5)
    if "jax" in wanted and importlib.util.find_spec("jax") is not None:
        import jax

        jax.jit(jax.numpy.sin)(1.5)


def progress(total: int) -> Any:
    """Show how far it is on a terminal; elsewhere be quiet."""
    if not sys.stderr.isatty():
        def silent(name: str) -> None:
            del name

        return nullcontext(silent)
    return Shown(total)


class Shown:
    """A bar with the workload's name, while a `with` block runs."""

    def __init__(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description:32}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("", total=total)
        self._done = -1

    def __enter__(self) -> Callable[[str], None]:
        self._bar.start()
        return self._step

    def _step(self, name: str) -> None:
        self._done += 1
        self._bar.update(self._task, description=name, completed=self._done)

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


def report(rows: dict[str, list[Any]], json_path: Path | None) -> None:
    """Print both tables, and write the JSON."""
    from benchmarks import table

    for name, found in rows.items():
        if not found:
            continue
        if sys.stdout.isatty():
            from rich.console import Console

            Console().print(table.rich_table(SETS[name], found))
        else:
            click.echo(table.plain(SETS[name], found))
        for line in table.remarks(found):
            click.echo(line)
    if json_path is not None:
        table.write_json(json_path, rows)


if __name__ == "__main__":
    main()
