"""Packages of C: functions that `api/` compiles, written as files that need no Python."""

from __future__ import annotations
