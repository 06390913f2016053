"""What the project asks of its own source beyond ruff and mypy, as functions that return complaints."""

from __future__ import annotations

import ast
import pkgutil
from collections.abc import Iterator
from typing import Any

from symgrad.ir.op import Op

# Each of these turns text into code, or may.
FORBIDDEN_NAMES = frozenset({"eval", "exec", "execfile", "__import__", "parse_expr", "lambdify"})
FORBIDDEN_ATTRIBUTES = frozenset(
    {
        ("builtins", "eval"),
        ("builtins", "exec"),
        ("os", "system"),
        ("os", "popen"),
        ("marshal", "load"),
        ("marshal", "loads"),
        ("pickle", "load"),
        ("pickle", "loads"),
        ("pickle", "Unpickler"),
        ("subprocess", "getoutput"),
        ("subprocess", "getstatusoutput"),
    },
)
C_PUNCTUATION = frozenset("{};#")


def code_from_text(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Places where text from outside could become code: eval, exec, sympify, pickle loads, a shell."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (node.module, alias.name) in FORBIDDEN_ATTRIBUTES:
                    yield node.lineno, f"from {node.module} import {alias.name}"
        elif isinstance(node, ast.Name) and node.id in FORBIDDEN_NAMES:
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if (owner, node.attr) in FORBIDDEN_ATTRIBUTES or node.attr in {"parse_expr", "lambdify"}:
                yield node.lineno, f"{owner}.{node.attr}"
        elif isinstance(node, ast.Call):
            yield from _calls_that_parse(node)


def _calls_that_parse(call: ast.Call) -> Iterator[tuple[int, str]]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    options = {keyword.arg: keyword.value for keyword in call.keywords}
    if name in {"sympify", "S"} and not _is_true(options.get("strict")):
        yield call.lineno, f"{name}(...) parses text: build the expression, or pass strict=True"
    if "shell" in options and not _is_false(options["shell"]):
        yield call.lineno, "shell="
    if _is_true(options.get("allow_pickle")):
        yield call.lineno, "allow_pickle=True"


def _is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _is_false(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def c_in_python(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """String literals with C's punctuation, docstrings left out: in render/ all of C stands in the templates."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            found = C_PUNCTUATION & set(node.value)
            if found:
                yield node.lineno, f"{node.value!r} holds {' '.join(sorted(found))}"


def named_ops(tree: ast.AST, names: set[str]) -> Iterator[tuple[int, str]]:
    """Literals that are names of ops, and comparisons with an op that is imported."""
    imported = {
        alias.asname or alias.name: f"{node.module}.{alias.name}" for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("symgrad") for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in names:
            yield node.lineno, str(node.value)
        for side in (node.left, *node.comparators) if isinstance(node, ast.Compare) else ():
            for one in side.elts if isinstance(side, (ast.Tuple, ast.List, ast.Set)) else (side,):
                if isinstance(_meant(ast.unparse(one), imported), Op):
                    yield side.lineno, ast.unparse(node)


def _meant(text: str, imported: dict[str, str]) -> Any:
    """Return what an imported name is, or an attribute of one; None for anything else."""
    first, *rest = text.split(".")
    if first not in imported or len(rest) > 1 or not all(map(str.isidentifier, rest)):
        return None
    try:
        return pkgutil.resolve_name(".".join((imported[first], *rest)))
    except (ImportError, AttributeError):
        return None
