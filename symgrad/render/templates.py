"""The Jinja templates: inside the package in a wheel, beside it in a checkout and an editable install."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import jinja2

PACKAGE = Path(__file__).parents[1]

TEMPLATES = next(folder for folder in (PACKAGE / "templates", PACKAGE.parent / "templates") if folder.is_dir())


@cache
def environment() -> jinja2.Environment:
    """Load the templates: undefined names are errors, and nothing is escaped, for the result is C."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), undefined=jinja2.StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True, autoescape=False,  # noqa: S701 - C, not HTML
    )
