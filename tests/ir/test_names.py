"""The filter for names: what the headers of this machine's compilers define, and what ops print, is no name."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from symgrad.ir.names import CALLED, identifier
from symgrad.ops import OPS, load

OWN = "math stdbool stddef stdint stdio stdlib string"
"""Headers that a package includes, and its test."""
STANDARD = f"""{OWN} assert complex ctype errno fenv float inttypes iso646 limits locale setjmp signal stdalign stdarg
stdatomic stdnoreturn time uchar wchar wctype"""


def macros(command, headers):
    """Ask a compiler for the macros that are replaced wherever they stand."""
    text = "".join(f"#include <{header}.h>\n" for header in headers.split())
    ran = subprocess.run([*command, "-dM", "-E", "-"], input=text, capture_output=True, text=True, check=True)
    return set(re.findall(r"^#define ([A-Za-z]\w*)(?: |$)", ran.stdout, re.MULTILINE))


@pytest.mark.parametrize(
    ("command", "headers"),
    [("gcc -std=gnu17", OWN), ("g++ -x c++ -std=gnu++17", OWN), ("gcc -std=c11", STANDARD)],
)
def test_macros_are_no_names(command, headers):
    words = command.split()
    if shutil.which(words[0]) is None:
        pytest.skip(f"needs {words[0]}")
    found = macros(words, headers)
    assert "EOF" in found
    assert [name for name in sorted(found) if identifier(name) == name] == []


def test_what_ops_call_is_no_name():
    load()
    spelled = [c for op in OPS.values() for c in (getattr(op, "c", None) or {}).values()]
    called = {c for c in spelled if c.isidentifier()}
    called |= {name for c in spelled for name in re.findall(r"\b([a-z]\w*)(?=\(|\{f\})", c)} - {"sizeof"}
    assert {"exp", "fabs", "hypot"} <= called
    ours = {name for name in called if name.startswith("sg_")}
    assert [name for name in sorted(called - ours) if not CALLED.fullmatch(name)] == []
    assert not {name for name in called if identifier(name) == name}


@pytest.mark.parametrize("name", ["EOF", "M_PI", "for", "sg_x", "SG_X", "v1", "a__b", "_x", "x_", "__", "1", "é", ""])
def test_a_name_that_was_made_is_one(name):
    made = identifier(name)
    assert identifier(made) == made
    assert identifier(name, {made}) != made
    assert "__" not in identifier(name, {made})
