"""Long calls that Ctrl-C ends: C runs on a worker thread, and the main thread waits where Python can interrupt it.

Python runs signal handlers in the main thread, between two of its instructions: not while that thread is in C. So a
call that is predicted to be long runs on one persistent thread. When a handler raises, a flag is set that the C polls.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from symgrad.build.load import ffi

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 0.1
"""Seconds after which a wait is begun anew: some systems interrupt no wait."""

_jobs: SimpleQueue[Job] | None = None  # what the worker takes; None: there is no worker yet
_latest: Job | None = None


class Job:
    """One call of a C function, done by the worker or by nobody."""

    def __init__(self, function: Callable[..., int], arguments: tuple[Any, ...]) -> None:
        self.function, self.arguments = function, arguments
        self.stop = ffi.new("int32_t *")
        self.claim, self.done = threading.Lock(), threading.Lock()
        self.done.acquire()
        self.finished = False
        self.code = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        """Make the call, unless it was given up before."""
        if not self.claim.acquire(blocking=False):
            return
        try:
            self.code = self.function(*self.arguments, self.stop)
        except BaseException as error:  # noqa: BLE001 - it goes on in the thread that waits
            self.error = error
        self.finished = True
        self.done.release()

    def end(self) -> None:
        """Stop it, and wait until the worker has left the function: it writes into the caller's arrays."""
        self.stop[0] = 1
        if self.claim.acquire(blocking=False):  # the worker had not begun, and will not
            self.finished = True
        while not self.finished:
            with suppress(KeyboardInterrupt):  # of an impatient user: what must end is ending
                self.done.acquire(timeout=PATIENCE)

    def result(self) -> int:
        """Wait for it; what a signal's handler raises, such as KeyboardInterrupt, ends the wait."""
        while not self.done.acquire(timeout=PATIENCE):
            pass
        if self.error is not None:
            raise self.error
        return self.code


def interruptible(function: Callable[..., int], *arguments: Any) -> int:
    """Call a C function whose last parameter, which is not among `arguments`, points to the flag that stops it.

    From other threads than the main one, which no signal interrupts, and while the worker is busy (a signal's handler
    may call functions too) it is called directly.
    """
    global _latest  # noqa: PLW0603 - the worker is the process's
    if threading.get_ident() != threading.main_thread().ident or sys.is_finalizing():
        return function(*arguments, ffi.NULL)
    jobs = _jobs if _jobs is not None else _start()
    if jobs is None or (_latest is not None and not _latest.finished):
        return function(*arguments, ffi.NULL)
    job = Job(function, arguments)
    try:
        _latest = job
        jobs.put(job)
        return job.result()
    except BaseException:
        job.end()
        raise
    finally:
        job.arguments = ()  # the worker may hold the job until the next one


def _start() -> SimpleQueue[Job] | None:
    """Start the worker, for the life of the process; None where none can be started any more."""
    global _jobs  # noqa: PLW0603 - the worker is the process's
    jobs: SimpleQueue[Job] = SimpleQueue()
    try:
        threading.Thread(target=_work, args=(jobs,), name="symgrad", daemon=True).start()
    except RuntimeError:  # the interpreter is shutting down, or the system has no thread left
        return None
    _jobs = jobs
    return jobs


def _work(jobs: SimpleQueue[Job]) -> None:
    while True:
        jobs.get().run()


def _forked() -> None:
    global _jobs, _latest  # noqa: PLW0603 - see above: threads do not live on in a child
    _jobs = _latest = None


os.register_at_fork(after_in_child=_forked)
