"""The compiler's process: in a private folder, bounded in time and memory; nothing of either is left behind.

All folders lie in one of this Python process's, where libraries that cannot be cached live too. A file in that one is
locked as long as Python lives: what a killed process left is known by it, and deleted by the next one. A folder without
the file is nobody's but the user's, whatever its name.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import resource
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from symgrad.build.cache import private
from symgrad.errors import warn_once

_PREFIX = "symgrad-"
_LOCK = ".symgrad-compiles-here"  # watch.sh names it too
_NEW_SECONDS = 60.0  # a folder so new may not be locked yet
_STALE_SECONDS = 86400.0  # one so old, where the file system has no locks
_PLACES = ("/tmp", "/var/tmp")  # noqa: S108 - where other users might replace a folder in the chosen one
_REAP_SECONDS = 5.0
_LONGEST = 2e6  # seconds that may be waited for: poll() counts milliseconds in 32 bits

_mutex = threading.Lock()
_home: tuple[Path, int] | None = None  # with its lock; a forked child must neither share nor delete its parent's
_held: set[int] = set()  # our ends of pipes to running compilers: a forked child must not hold them open


def scratch_folder() -> Path:
    """Make a new empty folder that only this user can enter; it is gone when the process ends, if not before."""
    global _home  # noqa: PLW0603 - one a process
    with _mutex:
        if _home is None or not _home[0].is_dir():  # who cleans the temporary folder may have taken it
            made = _new_home()
            descriptor = os.open(made / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            private.locked(descriptor)
            _home = made, descriptor
            _delete_leftovers(made.parent)
        return Path(tempfile.mkdtemp(dir=_home[0]))


def _new_home() -> Path:
    """Make a folder where no other user can replace it: in the system's temporary folder, if that is one."""
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


def _delete_leftovers(parent: Path) -> None:
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
                    ended = private.locked(descriptor)
                    if ended or (ended is None and age > _STALE_SECONDS):
                        shutil.rmtree(entry.path, ignore_errors=True)
                os.close(descriptor)


@dataclass(frozen=True)
class Finished:
    """How a program ended: its exit status (None when it was stopped for taking too long) and what it wrote."""

    status: int | None
    output: str


def run(argv: tuple[str, ...], folder: Path, seconds: float, memory: int) -> Finished:
    """Run `argv` in `folder` (also its temporary folder) and wait at most `seconds`; -1 where it cannot be started.

    It gets a session of its own, so that a Ctrl-C reaches it through us alone and ends its children too. If this
    process ends in any way, even by SIGKILL, `watch.sh` ends it and deletes the folder: our end of a pipe closes then.
    Threads compile side by side, so nothing runs between fork and exec: the memory bound is set right after.
    """
    environment = {**os.environ, "LC_ALL": "C", "TMPDIR": str(folder)}
    shell = shutil.which("sh")
    watched = () if shell is None else (shell, str(Path(__file__).with_name("watch.sh")), str(folder))
    theirs, ours = os.pipe()
    _held.add(ours)
    try:
        try:
            process = subprocess.Popen(
                (*watched, *argv), cwd=folder, env=environment, stdin=theirs if watched else subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
            )
        except OSError as error:
            return Finished(-1, str(error))
        finally:
            os.close(theirs)
        try:
            _bound_memory(process.pid, memory)
            output, _ = process.communicate(timeout=min(seconds, _LONGEST))
        except subprocess.TimeoutExpired:
            _stop(process)
            return Finished(None, f"stopped after {seconds:g} s")
        except BaseException:
            _stop(process)
            raise
        if process.returncode < 0:  # somebody ended the shell alone
            _stop(process)
    finally:
        _held.discard(ours)
        os.close(ours)
    return Finished(process.returncode, output.decode(errors="replace"))


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Kill the program with all that it started, and collect it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        # A bound here too: a child that left the session may hold the pipe open.
        process.communicate(timeout=_REAP_SECONDS)
    if process.stdout is not None:
        process.stdout.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=_REAP_SECONDS)


def _bound_memory(pid: int, memory: int) -> None:
    """Bound the address space of a process just started and of what it has started already (the rest inherits)."""
    waiting = [pid] if hasattr(resource, "prlimit") else []
    while waiting:
        one = waiting.pop()
        try:
            _, hard = resource.prlimit(one, resource.RLIMIT_AS)
            bound = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
            resource.prlimit(one, resource.RLIMIT_AS, (bound, hard))
            waiting += map(int, Path(f"/proc/{one}/task/{one}/children").read_text().split())
        except (OSError, ValueError):
            continue  # it has ended, or the kernel does not tell children


@atexit.register
def _remove_home() -> None:
    if _home is not None:
        shutil.rmtree(_home[0], ignore_errors=True)
        os.close(_home[1])


def _forget_home() -> None:
    global _mutex, _home  # noqa: PLW0603 - another thread may have held it when the process forked
    _mutex = threading.Lock()
    if _home is not None:
        os.close(_home[1])  # the parent's lock stays, until the parent ends
        _home = None
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_forget_home)
