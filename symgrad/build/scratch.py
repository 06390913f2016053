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
_folders: dict[int, Path] = {}


def folder() -> Path:
    """Make a new empty folder that only this user can enter; it is gone when the process ends."""
    import tempfile  # with random and more: a process that finds all in the cache needs no folder

    with _lock:
        # By process: a forked child must neither share nor delete its parent's.
        root = _folders.get(os.getpid())
        if root is None or not root.is_dir():
            root = Path(tempfile.mkdtemp(prefix=_PREFIX))
            _folders[os.getpid()] = root
            atexit.register(_remove, root, os.getpid())
            _sweep(root.parent)
        return Path(tempfile.mkdtemp(dir=root))


def _remove(root: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(root, ignore_errors=True)


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


def _renew_lock() -> None:
    global _lock  # noqa: PLW0603 - another thread may have held it when the process forked
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)
