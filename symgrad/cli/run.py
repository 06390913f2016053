"""``symgrad`` as a process: how it ends."""

from __future__ import annotations

import signal
import sys
from collections import namedtuple
from typing import NoReturn

INTERRUPTED = 130


def run() -> NoReturn:
    """Run the program and leave with its exit code: 130 by Ctrl-C, at whatever moment that comes."""
    try:
        from symgrad.cli.main import main

        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # no longer what `symgrad_start` does
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = main()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done, and Python takes a while to end
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.stderr.write("symgrad: interrupted\n")
        code = INTERRUPTED
    if code == INTERRUPTED:
        # CPython ends by the signal itself after an interrupt in a text that it ran, as of a dataclass while a module
        # is imported, though it was caught, until it has run another one
        namedtuple("Run", ())  # noqa: PYI024
    sys.exit(code)
