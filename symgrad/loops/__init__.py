"""From programs to loops: lower, fuse, schedule, store."""

from __future__ import annotations
