"""The process's private temporary folder: compilers work in it, and libraries that cannot be cached live there.

A file in it is locked as long as its process lives. What a killed process left is known by that file, and deleted by
the next one; a folder without it is nobody's but the user's, whatever its name.
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

from symgrad.build.cache import private
from symgrad.build.notice import warn_once

_PREFIX = "symgrad-"
_LOCK = ".symgrad-compiles-here"  # watch.sh names it too
_NEW_SECONDS = 60.0  # a folder so new may not be locked yet
_STALE_SECONDS = 86400.0  # one so old, where the file system has no locks
_PLACES = ("/tmp", "/var/tmp")  # noqa: S108 - where other users might replace a folder in the chosen one
_lock = threading.Lock()
_home: tuple[Path, int] | None = None  # with its lock; a forked child must neither share nor delete its parent's


def folder() -> Path:
    """Make a new empty folder that only this user can enter; it is gone when the process ends, if not before."""
    import tempfile  # with random and more: a process that finds all in the cache needs no folder

    global _home  # noqa: PLW0603 - one a process
    with _lock:
        if _home is None or not _home[0].is_dir():  # who cleans the temporary folder may have taken it
            made = _new()
            descriptor = os.open(made / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            _locked(descriptor)
            _home = made, descriptor
            _sweep(made.parent)
        return Path(tempfile.mkdtemp(dir=_home[0]))


def remove(made: Path) -> None:
    """Delete a folder that `folder` made."""
    shutil.rmtree(made, ignore_errors=True)


@atexit.register
def _remove() -> None:
    if _home is not None:
        shutil.rmtree(_home[0], ignore_errors=True)
        os.close(_home[1])


def _new() -> Path:
    """Make a folder where no other user can replace it: in the system's temporary folder, if that is one."""
    import tempfile

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
            if not entry.name.startswith(_PREFIX) or not entry.is_dir(follow_symlinks=False):
                continue
            with contextlib.suppress(OSError):
                descriptor = os.open(Path(entry.path, _LOCK), os.O_RDWR | os.O_NOFOLLOW)
                status = os.fstat(descriptor)
                age = now - status.st_mtime
                if stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid() and age > _NEW_SECONDS:
                    ended = _locked(descriptor)
                    if ended or (ended is None and age > _STALE_SECONDS):
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
    global _lock, _home  # noqa: PLW0603 - another thread may have held it when the process forked
    _lock = threading.Lock()
    if _home is not None:
        os.close(_home[1])  # the parent's lock stays, until the parent ends
        _home = None


os.register_at_fork(after_in_child=_forked)
