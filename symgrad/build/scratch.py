"""The process's private temporary folder: compilers work there, and libraries that cannot be cached live there."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import stat
import threading
import time
from pathlib import Path

_PREFIX = "symgrad-"
_STALE_SECONDS = 86400.0
_lock = threading.Lock()
_folders: list[Path] = []  # of this process; a forked child must neither share nor delete its parent's


def folder() -> Path:
    """Make a new empty folder that only this user can enter; it is gone when the process ends, if not before."""
    import tempfile  # with random and more: a process that finds all in the cache needs no folder

    made = Path(tempfile.mkdtemp(prefix=_PREFIX))
    with _lock:
        _folders.append(made)
        first = len(_folders) == 1
    if first:
        _sweep(made.parent)
    return made


@atexit.register
def _remove() -> None:
    for made in _folders:
        shutil.rmtree(made, ignore_errors=True)


def _sweep(parent: Path) -> None:
    """Delete what killed processes of this user left here more than a day ago."""
    oldest = time.time() - _STALE_SECONDS
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if not entry.name.startswith(_PREFIX):
                continue
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and status.st_mtime < oldest:
                shutil.rmtree(entry.path, ignore_errors=True)


def _forked() -> None:
    global _lock  # noqa: PLW0603 - another thread may have held it when the process forked
    _lock = threading.Lock()
    _folders.clear()


os.register_at_fork(after_in_child=_forked)
