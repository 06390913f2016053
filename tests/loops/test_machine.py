"""The pages of constants: each one says what it counts and where the number comes from, and none stands elsewhere."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import symgrad
from symgrad.loops import machine
from symgrad.transforms import tuned

ORIGINS = ("Counted", "Measured", "Tried", "Chosen", "As `", "likewise")

OTHERS = {
    "EVEN", "POINTS", "BOXES", "SMALL_STEPS", "LARGE_STEPS",  # what is checked, and where the verifier tries
    "WIDE", "WORTH", "NARROW", "INT32",  # how C is written
    "NEAR", "POWER", "FACTOR",  # what ops are tried at, and numbers that are factors
    "READY", "OTHER", "KNOWN", "PARAMETERS", "STACK_WORKSPACE", "SURE",  # proofs and interfaces
    "MEET", "NOT_FINITE", "UPDATE",  # what steps of training return
    "NEXT_CONDITION",  # a variable's name
}
"""Numbers that are not chosen for speed."""


def constants(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the numbers a module names, each with what follows it."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.Assign) and not any(
            isinstance(n, (ast.Call, ast.Dict, ast.Set, ast.List)) for n in ast.walk(node.value)
        ) and any(isinstance(n, ast.Constant) and type(n.value) in {int, float} for n in ast.walk(node.value)):
            told = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            yield ast.unparse(node.targets[0]).strip("()"), str(told)


PAGES = [Path(inspect.getfile(page)) for page in (machine, tuned)]
PAGE = {name: told for page in PAGES for name, told in constants(page)}


@pytest.mark.parametrize("name", PAGE)
def test_a_constant_says_where_it_comes_from(name: str) -> None:
    assert any(origin in PAGE[name] for origin in ORIGINS), PAGE[name]


def test_no_other_module_has_one() -> None:
    package = Path(inspect.getfile(symgrad)).parent
    files = [f for room in ("loops", "render", "transforms") for f in sorted((package / room).rglob("*.py"))]
    found = {f"{f.stem}.{name}" for f in files if f not in PAGES for name, _ in constants(f) if name not in OTHERS}
    assert found == set()
