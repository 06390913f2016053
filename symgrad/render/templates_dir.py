"""Where the Jinja templates are: inside the package in a wheel, beside it in a checkout and an editable install."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parents[1]

TEMPLATES = next(folder for folder in (PACKAGE / "templates", PACKAGE.parent / "templates") if folder.is_dir())
