"""``symgrad emit``: functions of files, as a package of C."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from symgrad.cli import arguments, loading
from symgrad.cli.terminal import Refused
from symgrad.emit.derive import Call
from symgrad.emit.package import emit_calls
from symgrad.emit.request import request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from symgrad.emit.files import Package

def emitted(
    targets: Sequence[str], words: Sequence[str], wrt: str | None, whats: Sequence[str], sizes: Sequence[str],
    units: Sequence[str], out: str, options: dict[str, Any],
) -> Package:
    """Write the package that the command line describes.

    Raises:
        Refused: by what it names.
    """
    if not targets:
        raise Refused("no function is named: write FILE.py:function")
    if not out.strip():
        raise Refused("--out names no folder: write build/loss_grad, for example")
    asked = request(
        Path(out).absolute(), cli=True, sizes=arguments.sizes(sizes), units=dict(_pair(u) for u in units), **options
    )
    given = arguments.specs(words)
    calls, by = [], []
    used: set[str] = set()
    for target in targets:
        fun = loading.function(target)
        own = given if len(targets) == 1 else _own(fun, given)
        used.update(own)
        found = arguments.call(fun, own)
        calls.append(Call(fun, found.args, found.kwargs, found.static))
        by.append(arguments.argnums(wrt, found))
    for name in given:
        if name not in used:
            raise Refused(f"--arg {name}: no function has such an argument")
    with contextlib.redirect_stdout(sys.stderr):  # what the functions print while they are traced
        return emit_calls(calls, whats, by, asked)


def _own(fun: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Take the specs of a function's own arguments: of several functions each has some."""
    from symgrad.trace.signature import signature_of

    signature = signature_of(fun)
    known = signature.parameters if signature is not None else {}
    return {name: value for name, value in given.items() if name in known}


def _pair(word: str) -> tuple[str, str]:
    name, equals, unit = word.partition("=")
    if not equals or not name.isidentifier() or not unit.strip():
        raise Refused(f"--unit {word!r}: write NAME=UNIT, such as speed=m/s")
    return name, unit.strip()
