"""A hand-written C source, and what else the room's tests share."""

from __future__ import annotations

from pathlib import Path

from symgrad.build import cache, notice, toolchain
from symgrad.render.source import Source

ROOT = Path(__file__).parents[2]

TWICE = """\
#include <stdint.h>

/* Twice each number. */
int32_t twice(double *x, const int64_t n)
{
    for (int64_t i = 0; i < n; ++i) {
        x[i] *= 2.0; /* model.py:14 */
    }
    return 0;
}
"""


def source_of(text=TWICE, entry="twice", prototype="int32_t twice(double *x, const int64_t n);", links=()):
    return Source(text=text, entry=entry, prototype=prototype, links=links)


def forget():
    """Make this process as new: nothing found, nothing warned about."""
    notice._said.clear()
    toolchain._found.clear()
    cache._stores.clear()


def finish(process, seconds=60):
    out, err = process.communicate(timeout=seconds)
    assert process.returncode == 0, err
    return out, err
