"""The process's private temporary folders: compilers work there, and libraries that cannot be cached live there.

Each is locked as long as its process lives: what a killed one left is known by that, and deleted by the next.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import stat
import threading
import time
from pathlib import Path

from symgrad.build import private
from symgrad.build.notice import warn_once

_PREFIX = "symgrad-"
_NEW_SECONDS = 60.0  # a folder so new may not be locked yet
_STALE_SECONDS = 86400.0  # one so old, where the file system has no locks
_PLACES = ("/tmp", "/var/tmp")  # noqa: S108 - where other users might replace a folder in the chosen one
_lock = threading.Lock()
_folders: dict[Path, int] = {}  # with locks; of this process: a forked child must neither share nor delete its parent's
_swept: set[Path] = set()


def folder() -> Path:
    """Make a new empty folder that only this user can enter; it is gone when the process ends, if not before."""
    made = _new()
    descriptor = os.open(made, os.O_RDONLY)
    _locked(descriptor)
    with _lock:
        _folders[made] = descriptor
        first = made.parent not in _swept
        _swept.add(made.parent)
    if first:
        _sweep(made.parent)
    return made


def remove(made: Path) -> None:
    """Delete a folder that `folder` made."""
    with _lock:
        descriptor = _folders.pop(made, None)
    shutil.rmtree(made, ignore_errors=True)
    if descriptor is not None:
        os.close(descriptor)


@atexit.register
def _remove() -> None:
    for made in list(_folders):
        remove(made)


def _new() -> Path:
    """Make a folder where no other user can replace it: in the system's temporary folder, if that is one."""
    import tempfile  # with random and more: a process that finds all in the cache needs no folder

    usual, problem = tempfile.gettempdir(), None
    for place in dict.fromkeys([usual, *_PLACES]):
        with contextlib.suppress(OSError):
            made = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
            found = private.exposed(made)
            if found is None:
                return made
            problem = problem or found
            made.rmdir()
    said = f"symgrad compiles in {usual}, and {problem}. Set TMPDIR to a folder that is yours alone."
    warn_once(f"temporary {usual}", said)
    return Path(tempfile.mkdtemp(prefix=_PREFIX))


def _sweep(parent: Path) -> None:
    """Delete what killed processes of this user left here."""
    now = time.time()
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if not entry.name.startswith(_PREFIX):
                continue
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and status.st_mtime < now - _NEW_SECONDS:
                with contextlib.suppress(OSError):
                    descriptor = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW)
                    ended = _locked(descriptor)
                    if ended or (ended is None and status.st_mtime < now - _STALE_SECONDS):
                        shutil.rmtree(entry.path, ignore_errors=True)
                    os.close(descriptor)


def _locked(descriptor: int) -> bool | None:
    """Lock a folder as long as this process lives; whether nobody else has, None where the system cannot say."""
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _forked() -> None:
    global _lock  # noqa: PLW0603 - another thread may have held it when the process forked
    _lock = threading.Lock()
    for descriptor in _folders.values():
        os.close(descriptor)  # the parent's lock stays, until the parent ends
    _folders.clear()


os.register_at_fork(after_in_child=_forked)
