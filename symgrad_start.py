"""Where the program ``symgrad`` starts: before the package is imported, which takes a while, Ctrl-C has to be met."""

from __future__ import annotations

import os
import signal
from typing import Any, NoReturn


def run() -> NoReturn:
    """Run the program; until all of it is imported Ctrl-C ends it at once, as nothing was begun."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored, as by nohup
        signal.signal(signal.SIGINT, _leave)
    from symgrad.cli.run import run as run_the_rest

    run_the_rest()


def _leave(*_: Any) -> NoReturn:
    """Leave without an exception: NumPy, while it is imported, makes another one of it."""
    os.write(2, b"symgrad: interrupted\n")
    os._exit(130)
