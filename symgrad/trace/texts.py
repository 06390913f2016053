"""Lines of code that has no file: of ``exec``, of ``python -c`` and of a program that Python reads from its input."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from types import CodeType, FrameType

_LONGEST = 1 << 20
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def line_of_text(frame: FrameType, number: int) -> str:
    """Return a line of the text that a frame's code was compiled from; nothing where that is not found.

    The text of ``exec`` is looked for in the variables of all functions that are running; a text counts if it has the
    function at its place.
    """
    inner: FrameType | None = frame
    while inner is not None and inner.f_code.co_name.endswith(("comp>", "expr>")):  # a comprehension's own
        inner = inner.f_back
    if inner is None:
        return ""
    program = inner.f_code.co_name == "<module>" and inner.f_back is None
    for text in _programs(inner.f_code.co_filename) if program else (*_programs("<"), *_variables(inner)):
        if program or _defines(text, inner.f_code):
            lines = text.splitlines()
            return lines[number - 1].strip() if number <= len(lines) else ""
    return ""


def _programs(file: str) -> Iterator[str]:
    """Return the program's own text, if it has no file."""
    if file in {"<", "<string>"} and "-c" in sys.orig_argv[:-1]:
        yield sys.orig_argv[sys.orig_argv.index("-c") + 1]
    if file in {"<", "<stdin>"}:
        try:
            yield os.pread(0, _LONGEST, 0).decode(errors="replace")  # of a file, from where it begins
        except OSError:  # a pipe or a terminal
            return


def _variables(frame: FrameType) -> Iterator[str]:
    """Return the texts that functions and their variables hold, from the innermost function outwards."""
    at: FrameType | None = frame
    while at is not None:
        for held in (at.f_code.co_consts, at.f_locals.values(), at.f_globals.values()):
            yield from [value for value in tuple(held) if type(value) is str and len(value) < _LONGEST]
        at = at.f_back


def _defines(text: str, code: CodeType) -> bool:
    """Whether a text defines the function of a code object at its line, with its arguments and the names in it."""
    if ("lambda" if code.co_name == "<lambda>" else code.co_name) not in text:
        return False
    try:
        nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, _FUNCTIONS)]
    except (SyntaxError, ValueError, RecursionError):
        return False
    return any(_is(node, code) for node in nodes)


def _is(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, code: CodeType) -> bool:
    first = min([node.lineno, *[one.lineno for one in getattr(node, "decorator_list", ())]])
    words = {getattr(part, name, None) for part in ast.walk(node) for name in ("id", "attr", "arg", "name")}
    named = getattr(node, "name", "<lambda>")
    return (named, first) == (code.co_name, code.co_firstlineno) and {*code.co_names, *code.co_varnames} <= words
