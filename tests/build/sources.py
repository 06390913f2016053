"""A hand-written C source, and what else the room's tests share."""

from __future__ import annotations

from pathlib import Path

from symgrad import errors
from symgrad.build.cache import store as cache
from symgrad.build.toolchain import find as toolchain
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


# A program for another process: builds the source above and calls it.
BUILD = (
    "import sys\n"
    "from symgrad.options import Options\n"
    "from symgrad.build.toolchain.find import find\n"
    "from symgrad.build.load import build\n"
    "from tests.build.sources import source_of\n"
    "options = Options(compiler=sys.argv[1] if len(sys.argv) > 1 else None)\n"
    "tools = find(options)\n"
    "library = build(source_of(), tools, options)\n"
    "x = library.ffi.new('double[]', [1.0, 3.0])\n"
    "assert library.function(x, 2) == 0\n"
    "print(list(x))\n"
)


def forget():
    """Make this process as new: nothing found, nothing warned about."""
    errors._said.clear()
    toolchain._found.clear()
    cache._stores.clear()


def works(library):
    x = library.ffi.new("double[]", [1.0, 3.0])
    return library.function(x, 2) == 0 and list(x) == [2.0, 6.0]


def entries(folder):
    return sorted(path for path in folder.iterdir() if not path.name.startswith("record-"))


def finish(process, seconds=60):
    out, err = process.communicate(timeout=seconds)
    assert process.returncode == 0, err
    return out, err
