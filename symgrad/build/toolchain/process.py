"""Run another program as an argument list, bounded in time and memory, and leave nothing of it behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

_REAP_SECONDS = 5.0

_LONGEST = 2e6
"""Seconds that may be waited for: poll() counts milliseconds in 32 bits."""


@dataclass(frozen=True)
class Finished:
    """How a program ended: its exit status (None when it was stopped for taking too long) and what it wrote."""

    status: int | None
    output: str


def run(argv: tuple[str, ...], folder: Path, seconds: float, memory: int) -> Finished:
    """Run `argv` in `folder` (also its temporary folder) and wait at most `seconds`.

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


_held: set[int] = set()  # our ends of the pipes: a forked child must not hold them open


def _forked() -> None:
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_forked)


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
    try:
        import resource
    except ImportError:
        return
    if not hasattr(resource, "prlimit"):
        return
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        try:
            _, hard = resource.prlimit(one, resource.RLIMIT_AS)
            bound = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
            resource.prlimit(one, resource.RLIMIT_AS, (bound, hard))
            waiting += map(int, Path(f"/proc/{one}/task/{one}/children").read_text().split())
        except (OSError, ValueError):
            continue  # it has ended, or the kernel does not tell children
