"""The Jinja templates: inside the package in a wheel, beside it in a checkout and an editable install."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import jinja2
import jinja2.bccache

PACKAGE = Path(__file__).parents[1]

TEMPLATES = next(folder for folder in (PACKAGE / "templates", PACKAGE.parent / "templates") if folder.is_dir())


SETTINGS: dict[str, Any] = {
    "undefined": jinja2.StrictUndefined, "trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True,
    "autoescape": False, "auto_reload": False,
}
"""Undefined names are errors, and nothing is escaped, for the result is C."""


MACRO = re.compile(r"^.% macro (sg_\w+)\(.*?^.% endmacro %.\n", re.DOTALL | re.MULTILINE)
"""A macro that prints a C function. The dots are braces of Jinja."""


class Loader(jinja2.FileSystemLoader):
    """Templates by their names; ``file:sg_name`` is a file without the macros of other C functions.

    To compile all of a file for one of them takes Jinja 40 ms.
    """

    def get_source(self, environment: jinja2.Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        """Return a template's text, its file, and whether that is as it was."""
        file, _, name = template.partition(":")
        text, path, is_same = super().get_source(environment, file)
        return MACRO.sub(lambda m: m[0] if name in {"", m[1]} else "", text), path, is_same


@cache
def environment() -> jinja2.Environment:
    """Load the templates."""
    return jinja2.Environment(loader=Loader(TEMPLATES), **SETTINGS)  # noqa: S701 - C, not HTML


class Kept(jinja2.BytecodeCache):
    """Templates that are compiled already: to compile all that a program needs takes a tenth of a second.

    They lie where Python keeps the bytecode of modules, once for an installation. Where it may not write there, they
    are kept as programs are.

    Attributes:
        recall: what was kept under some words.
        record: keeps bytes under some words.
    """

    def __init__(self, recall: Callable[..., bytes | None], record: Callable[..., None]) -> None:
        self.recall, self.record = recall, record

    def words(self, bucket: jinja2.bccache.Bucket) -> tuple[str, ...]:
        """Say what a compiled template depends on: its file, its text, Jinja, Python, and how it is compiled."""
        return bucket.key, bucket.checksum, jinja2.__version__, jinja2.bccache.bc_magic.hex(), repr(SETTINGS)

    def load_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        """Fill a bucket with what was kept."""
        words = self.words(bucket)
        try:
            content = Path(cache_from_source(str(TEMPLATES / f"{bucket.key}.py"))).read_bytes()
        except (OSError, NotImplementedError):
            content = b""
        digest = _digest_of(words)  # what lies beside the templates must be made of the same words
        found = content[len(digest) :] if content.startswith(digest) else b""
        kept = found or self.recall(*words)
        if kept is not None:
            bucket.bytecode_from_string(kept)

    def dump_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        """Keep what was compiled."""
        words, content = self.words(bucket), bucket.bytecode_to_string()
        if not _is_written(bucket.key, _digest_of(words) + content):
            self.record(content, *words)


def _digest_of(words: tuple[str, ...]) -> bytes:
    return hashlib.sha256("\0".join(words).encode()).digest()


def _is_written(key: str, content: bytes) -> bool:
    """Whether it could be written there: at once as a whole, for other processes read and write it, too."""
    if sys.dont_write_bytecode:
        return False
    try:
        path = Path(cache_from_source(str(TEMPLATES / f"{key}.py")))
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, made = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            Path(made).chmod(TEMPLATES.stat().st_mode & 0o666)  # whoever may read the templates
            Path(made).replace(path)
        except OSError:
            Path(made).unlink(missing_ok=True)
            raise
    except (OSError, NotImplementedError):
        return False
    return True
