"""Writing a package: all of it or nothing, and never over a file that was not written by `emit`."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from symgrad.errors import ArgumentValueError

if TYPE_CHECKING:
    from collections.abc import Mapping

REPORT = "report.json"
"""The file that lists the others, with their checksums."""

FORMAT = "symgrad package 1"


@dataclass(frozen=True)
class Package:
    """What was written.

    Attributes:
        folder: where.
        name: of the module.
        functions: the names of its functions in C.
        files: the names of its files.
        report: what report.json says.
    """

    folder: Path
    name: str
    functions: tuple[str, ...]
    files: tuple[str, ...]
    report: dict[str, Any]


def checksum(text: str) -> str:
    """Identify a file's text."""
    return hashlib.sha256(text.encode()).hexdigest()


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files into a folder, which is made, or holds an earlier package.

    They are written beside it first. A new folder appears under its name at once; in an old one file after file is
    replaced, and all are put back where that fails or is interrupted.

    Raises:
        ArgumentValueError: a file is there that `write` did not write, or was changed since, or no folder can be made.
    """
    stale = refuse_foreign(folder, files)
    above = [parent for parent in folder.parents if not parent.exists()]
    try:
        _write_beside(folder, files, stale)
    except BaseException as error:
        for parent in above:  # the innermost first; what somebody else put there meanwhile stays
            with contextlib.suppress(OSError):
                parent.rmdir()
        if isinstance(error, OSError):
            raise ArgumentValueError(f"{folder} cannot be written: {error.strerror}") from error
        raise


def _write_beside(folder: Path, files: Mapping[str, str], stale: list[str]) -> None:
    """Write into a folder beside, and move from there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        fresh = beside / "new"
        for name, text in files.items():
            path = fresh / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        if folder.exists():
            _replace(folder, fresh, beside / "old", [*files], stale)
        else:
            fresh.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def refuse_foreign(folder: Path, files: Mapping[str, str]) -> list[str]:
    """Check that only files of an earlier package would be replaced.

    Returns:
        Files of that package which this one has not.

    Raises:
        ArgumentValueError: there is another file in the way.
    """
    if not folder.exists() and not folder.is_symlink():
        return []
    if not folder.is_dir():
        raise ArgumentValueError(f"{folder} is a file", instead="the name of a folder, new or of an earlier package")
    written = _manifest(folder)
    for name in files:
        path = folder / name
        if not path.exists() and not path.is_symlink():
            continue
        if name == REPORT and written:
            continue
        if name not in written:
            raise ArgumentValueError(
                f"{path} was not written by symgrad emit, and would be replaced", instead="another folder, or move it"
            )
        if path.is_symlink() or not path.is_file() or _sum_of(path) != written[name]:
            raise ArgumentValueError(
                f"{path} was changed since symgrad emit wrote it, and would be replaced",
                instead="another folder, or move it",
            )
    gone = [name for name in written if name not in files and (folder / name).is_file()]
    return [name for name in gone if not (folder / name).is_symlink() and _sum_of(folder / name) == written[name]]


def _sum_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _manifest(folder: Path) -> dict[str, str]:
    """Read what an earlier package consists of; nothing where there is none, or its report is damaged."""
    try:
        report: Any = json.loads((folder / REPORT).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(report, dict) or report.get("format") != FORMAT or not isinstance(report.get("files"), dict):
        return {}
    listed = {name: value for name, value in report["files"].items() if isinstance(value, str)}
    return {name: value for name, value in listed.items() if _inside(name)}


def _inside(name: str) -> bool:
    path = Path(name)
    return ".." not in path.parts and not path.is_absolute()


def _replace(folder: Path, fresh: Path, old: Path, names: list[str], stale: list[str]) -> None:
    """Replace files one by one, keeping the old ones until all are in their places."""
    kept: list[str] = []
    placed: list[str] = []
    try:
        for name in [*names, *stale]:
            if (folder / name).exists():
                (old / name).parent.mkdir(parents=True, exist_ok=True)
                kept.append(name)
                shutil.copy2(folder / name, old / name)
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            placed.append(name)
            os.replace(fresh / name, folder / name)  # noqa: PTH105 - Path.replace says nothing of being atomic
        for name in stale:
            (folder / name).unlink()
    except BaseException:
        for name in placed:
            if name not in kept:
                (folder / name).unlink(missing_ok=True)
        for name in kept:
            if (old / name).exists():
                os.replace(old / name, folder / name)  # noqa: PTH105
        raise
