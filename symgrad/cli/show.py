"""``symgrad show``: a function of a file, lowered for the specs on the command line."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

import symgrad as sg
from symgrad.cli import arguments, loading
from symgrad.cli.terminal import Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from symgrad.api.call.function import Lowered


def lowered(target: str, words: Sequence[str], kind: str | None, wrt: str | None) -> Lowered:
    """Trace and derive what the command line names; a compiled function in the file is taken as it is.

    Raises:
        Refused: by what it names.
    """
    fun = loading.function(target)
    call = arguments.call(fun, arguments.specs(words))
    if isinstance(fun, sg.Function) and kind is None and wrt is None:
        made = fun
    elif kind == "jit":
        if wrt is not None:
            raise Refused("--wrt says what to differentiate by, and --value differentiates nothing")
        made = sg.jit(fun, static_argnames=call.static)
    else:
        transform = getattr(sg, kind or "value_and_grad")
        made = transform(fun, arguments.argnums(wrt, call), static_argnames=call.static)
    with contextlib.redirect_stdout(sys.stderr):  # what the function prints while it is traced
        return made.lower(*call.args, **call.kwargs)
