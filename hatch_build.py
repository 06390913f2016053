"""The README as a package index shows it, which has no files beside it: a link to one is its path in plain text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

NOTE = "The files in docs/ and examples/ that this page names are in the source distribution.\n"


class CustomMetadataHook(MetadataHookInterface):
    """Fills in ``readme``, which pyproject.toml calls dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the readme: no relative link is left, and a note says where the files are."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = re.sub(r"\[[^]]+\]\((?!https?:)([^)]+)\)", r"`\1`", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": f"{text}\n{NOTE}"}
