"""Writing a package: all of it or nothing, and never over a file that was not written by `emit`."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from symgrad.errors import ArgumentValueError

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


def checksum(content: bytes) -> str:
    """Identify a file's content."""
    return hashlib.sha256(content).hexdigest()


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write files into a folder, which is made, or holds an earlier package.

    They are written beside it first. A new folder appears under its name at once; in an old one file after file is
    replaced, and all are put back where that fails or is interrupted.
    """
    stale = refuse_foreign(folder, files)
    above = [parent for parent in folder.parents if not parent.exists()]
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            fresh = beside / "new"
            for name, text in files.items():
                (fresh / name).parent.mkdir(parents=True, exist_ok=True)
                (fresh / name).write_text(text, encoding="utf-8")
            if folder.exists():
                _replace(folder, fresh, beside / "old", [*files], stale)
            else:
                fresh.rename(folder)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    except BaseException as error:
        for parent in above:  # the innermost first; what somebody else put there meanwhile stays
            with contextlib.suppress(OSError):
                parent.rmdir()
        if isinstance(error, OSError):
            raise ArgumentValueError(f"{folder} cannot be written: {error.strerror}") from error
        raise


def refuse_foreign(folder: Path, files: Mapping[str, str]) -> list[str]:
    """Refuse to replace files but of an earlier package, as they were written; return those that this one has not."""
    if not folder.exists() and not folder.is_symlink():
        return []
    if not folder.is_dir():
        raise ArgumentValueError(f"{folder} is a file", instead="the name of a folder, new or of an earlier package")
    written = _manifest(folder)

    def is_whole(name: str) -> bool:
        path = folder / name
        return not path.is_symlink() and path.is_file() and checksum(path.read_bytes()) == written[name]

    for name in files:
        path = folder / name
        if not (path.exists() or path.is_symlink()) or (name == REPORT and written):
            continue
        if name not in written or not is_whole(name):
            how = "was changed since symgrad emit wrote it" if name in written else "was not written by symgrad emit"
            raise ArgumentValueError(f"{path} {how}, and would be replaced", instead="another folder, or move it")
    return [name for name in written if name not in files and is_whole(name)]


def _manifest(folder: Path) -> dict[str, str]:
    """Read what an earlier package consists of; nothing where there is none, or its report is damaged."""
    try:
        report: Any = json.loads((folder / REPORT).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(report, dict) or report.get("format") != FORMAT or not isinstance(report.get("files"), dict):
        return {}
    paths = {Path(name): value for name, value in report["files"].items() if isinstance(value, str)}
    inside = {path: value for path, value in paths.items() if ".." not in path.parts and not path.is_absolute()}
    return {path.as_posix(): value for path, value in inside.items()}


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
