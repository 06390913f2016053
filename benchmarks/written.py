"""The C of all workloads as files, and which of it a change of symgrad altered."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any

import symgrad as sg

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

LINES = 12
"""So many lines of a difference are shown."""


def texts(works: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """Yield the C of each workload and of its directional derivative, for a plain target: the same on every machine."""
    for work in works:
        function, args = work.function, work.arguments()
        made = {"": sg.jit(function) if work.by is None else sg.value_and_grad(function, argnums=work.by)}
        if work.by is not None:
            made[" jvp"] = sg.jit(_directional(function, work.by))
        for kind, each in made.items():
            name = re.sub(r"[^A-Za-z0-9^.]+", "_", f"{work.name}{kind}")
            yield f"{name}.c", each.lower(*args).as_text("c")


def _directional(function: Any, by: Any) -> Any:
    places = by if isinstance(by, tuple) else (by,)

    def directional(*given: Any) -> Any:
        def moved(*some: Any) -> Any:
            whole = list(given)
            for place, value in zip(places, some, strict=True):
                whole[place] = value
            return function(*whole)

        some = tuple([given[place] for place in places])
        return sg.jvp(moved, some, some)

    directional.__name__ = function.__name__
    return directional


def write(works: Iterable[Any], folder: Path) -> int:
    """Write the C of workloads; return how many files."""
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for name, text in texts(works):
        (folder / name).write_text(text, encoding="utf-8")
        count += 1
    return count


def altered(works: Iterable[Any], folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the files of a folder that would be written otherwise now, each with the lines that differ."""
    for name, text in texts(works):
        path = folder / name
        before = path.read_text(encoding="utf-8") if path.is_file() else ""
        if before != text:
            found = difflib.unified_diff(before.splitlines(), text.splitlines(), lineterm="", n=0)
            yield name, [line for line in found if line[:1] in "+-" and line[:3] not in {"+++", "---"}]
