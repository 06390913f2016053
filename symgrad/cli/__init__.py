"""The terminal program: ``symgrad show``, ``check``, ``doctor``, ``cache``, ``ops``."""

from __future__ import annotations
