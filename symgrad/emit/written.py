"""What `emit` returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Package:
    """What was written.

    Attributes:
        folder: where.
        name: of the module.
        functions: the names of its functions in C.
        files: the names of its files.
        report: what report.json says.
    """

    folder: Path
    name: str
    functions: tuple[str, ...]
    files: tuple[str, ...]
    report: dict[str, Any]
