"""What a package should be, checked."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from symgrad.emit import module as modules
from symgrad.emit.clibrary import LIBRARY, RESERVED
from symgrad.errors import ArgumentValueError
from symgrad.ir.names import identifier

if TYPE_CHECKING:
    from collections.abc import Mapping

    from symgrad.emit.module import Profile

COMPILER = re.compile(r"[\w./+=:,@ -]{1,200}")
"""What a compiler's name may consist of: it goes into a Makefile."""


@dataclass(frozen=True)
class Request:
    """What a package should be, apart from its functions."""

    out: Path
    name: str
    profile: Profile
    python: bool = False
    line_directives: bool = False
    cc: str = ""
    units: Mapping[str, str] | None = None
    sizes: Mapping[str, int] | None = None
    seed: int = 0
    cli: bool = False

    def said(self, name: str, value: Any) -> str:
        """Write a setting as its user does, for messages."""
        return written(name, value, cli=self.cli)


def written(name: str, value: Any, *, cli: bool) -> str:
    """Write a setting as an argument of Python, or as an option.

    >>> written("name", "loss", cli=False), written("name", "loss", cli=True)
    ("name='loss'", '--name loss')
    """
    if not cli:
        return f"{name}={value!r}"
    return f"--{name} {','.join(value) if isinstance(value, tuple) else value}"


def request(
    out: str | Path, *, name: str | None, profile: str, cc: str | None, blas: bool = False, cli: bool = False,
    **further: Any,
) -> Request:
    """Check what a package should be.

    Raises:
        ArgumentValueError: a name is no identifier, there is no such profile, a compiler's name has odd characters.
    """
    if not str(out):
        raise ArgumentValueError("the folder to write has no name", instead="build/loss_grad, for example")
    folder = Path(out)
    chosen = folder.name if name is None else name
    if not chosen or identifier(chosen) != chosen or not chosen.isascii():
        raise ArgumentValueError(
            f"{chosen!r} cannot name a module of C",
            instead=f"{written('name', identifier(chosen or 'module'), cli=cli)}, for example",
        )
    if chosen in RESERVED or chosen in LIBRARY:
        raise ArgumentValueError(
            f"a module of C cannot be named {chosen!r}: a header, a library, a function of C's or a target of make has "
            "that name", instead=written("name", f"{chosen}_module", cli=cli),
        )
    if profile not in modules.PROFILES:
        raise ArgumentValueError(f"there is no profile {profile!r}", instead=" or ".join(modules.PROFILES))
    if cc is not None and not COMPILER.fullmatch(cc):
        raise ArgumentValueError(f"{cc!r} is no compiler's name", instead='"gcc", "zig cc -target aarch64-linux-musl"')
    made = modules.PROFILES[profile]
    if blas and not made.fast:
        raise ArgumentValueError(
            f"the profile {profile!r} is C and nothing else, and calls no BLAS",
            instead=written("profile", "fast", cli=cli),
        )
    made = replace(made, options=replace(made.options, blas=blas))
    return Request(folder, chosen, made, cc=(cc or "").strip(), cli=cli, **further)
