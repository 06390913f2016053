"""The printer of expressions: no parentheses but those that C needs, and the same tree when C reads it."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pycparser import c_ast, c_parser

from symgrad.ops.declare.forms import OPS
from symgrad.ops.declare.spelling import ctype, fill_pattern, pattern
from symgrad.render.printer import Level, Printed, c_number, in_c, index
from tests.render.test_c import COMPILERS, STRICT

F8, F4, I8, B1 = map(np.dtype, ("f8", "f4", "i8", "?"))
NUMBERS = ("add", "subtract", "multiply", "divide", "negative", "square", "reciprocal", "exp", "arctan2", "absolute")
OF: dict[Any, tuple[str, ...]] = {
    F8: NUMBERS, F4: NUMBERS, B1: ("logical_and", "logical_or", "logical_not", "logical_xor"),
    I8: ("add", "subtract", "multiply", "negative", "bitwise_and", "bitwise_or", "invert", "maximum"),
}
COMPARISONS = ("less", "less_equal", "equal", "not_equal", "greater")


def leaf(dtype: np.dtype[Any], draw: random.Random) -> tuple[Printed, str]:
    """Return a name or a number, as it is printed and with parentheses."""
    if draw.random() < 0.7 or dtype == B1:
        name = f"{dtype.kind}{dtype.itemsize}_{draw.randrange(3)}"
        return Printed(name), name
    value = c_number(draw.choice([-2, -1, 0, 3]) * (0.5 if dtype.kind == "f" else 1), dtype)
    return value, f"({value.text})"


def tree(dtype: np.dtype[Any], depth: int, draw: random.Random) -> tuple[Printed, str]:
    """Return a random expression, as it is printed and with parentheses around every operation."""
    if depth == 0:
        return leaf(dtype, draw)
    kind = draw.random()
    if kind < 0.2:
        name, dtypes = "where", [B1, dtype, dtype]
    elif dtype == B1 and kind < 0.6:
        name, dtypes = draw.choice(COMPARISONS), [draw.choice([F8, I8])] * 2
    elif dtype != B1 and kind < 0.3:
        name, dtypes = "astype", [draw.choice([F8, F4]) if dtype.kind == "f" else I8]
    else:
        name = draw.choice(OF[dtype])
        dtypes = [dtype] * OPS[name].arity  # type: ignore[attr-defined]  # they are elementwise
    op: Any = OPS[name]
    c = pattern(op.c, dtypes, dtype)
    assert c is not None
    many = [k for k in range(len(dtypes)) if not c.isidentifier() and c.count(f"{{{k}}}") > 1]
    parts = [leaf(d, draw) if k in many else tree(d, depth - 1, draw) for k, d in enumerate(dtypes)]
    whole = fill_pattern(c, [f"({text})" for _, text in parts], dtypes, dtype)
    return in_c(c, [value for value, _ in parts], dtypes, dtype)[0], f"({whole})"


def parsed(text: str) -> Any:
    """Read an expression as C does: nested tuples, in which parentheses are gone."""

    def plain(node: c_ast.Node) -> Any:
        own = tuple([getattr(node, name) for name in node.attr_names])
        return type(node).__name__, own, tuple([plain(child) for _, child in node.children()])

    types = "typedef int int64_t, uint64_t, _Boolean;"
    return plain(c_parser.CParser().parse(f"{types} int x = {text};").ext[-1].init)


def trees(count: int) -> list[tuple[np.dtype[Any], Printed, str]]:
    """Draw expressions."""
    draw = random.Random(11)
    dtypes = [draw.choice([F8, F4, I8, B1]) for _ in range(count)]
    return [(dtype, *tree(dtype, draw.randrange(1, 5), draw)) for dtype in dtypes]


def test_what_is_printed_parses_back_to_the_same_tree() -> None:
    for _, value, whole in trees(600):
        assert parsed(value.text) == parsed(whole), (value.text, whole)


def pairs(text: str) -> list[tuple[int, int]]:
    """List the pairs of parentheses that only group: no calls, no casts."""
    opened, found = [], []
    for k, character in enumerate(text):
        if character == "(":
            opened.append(k)
        elif character == ")":
            found.append((opened.pop(), k))
    return [(a, b) for a, b in found if (a == 0 or not (text[a - 1].isalnum() or text[a - 1] == "_"))
            and text[a + 1 : b] not in {"double", "float", "int64_t", "uint64_t"}]


def test_no_parentheses_are_superfluous() -> None:
    """Without any one pair C reads another tree, or compilers warn: of logic in logic, of bits, of nested choices."""
    for _, value, _ in trees(300):
        for a, b in pairs(value.text):
            inside = value.text[a + 1 : b]
            without = value.text[:a] + inside + value.text[b + 1 :]
            same = "--" not in without and parsed(without) == parsed(value.text)
            assert not same or any(sign in inside for sign in ("&&", "||", "&", "|", "?", "==", "!=", "<", ">")), (
                value.text, without)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_compilers_have_nothing_to_say(compiler: str) -> None:
    names = {d: [f"{d.kind}{d.itemsize}_{k}" for k in range(3)] for d in (F8, F4, I8, B1)}
    parameters = ", ".join(f"{ctype(d)} {name}" for d, each in names.items() for name in each)
    unused = " ".join(f"(void){name};" for each in names.values() for name in each)
    lines = ["#include <math.h>", "#include <stdint.h>"]
    for k, (dtype, value, _) in enumerate(trees(200)):
        lines.append(f"{ctype(dtype)} f{k}({parameters});")
        lines.append(f"{ctype(dtype)} f{k}({parameters}) {{ {unused} return {value.text}; }}")
    flags = [*STRICT, "-Wno-overflow", "-Wno-div-by-zero", "-Wno-tautological-compare"]
    ran = subprocess.run(
        [compiler, "-std=c11", *flags, "-x", "c", "-"], input="\n".join(lines), capture_output=True, text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[:3000]


def test_the_same_numbers_as_python(tmp_path: Path) -> None:
    """What is printed computes, bit for bit, what NumPy does operation by operation (sums in a fixed order)."""
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no compiler")
    draw = random.Random(5)
    values = {f"x{k}": draw.uniform(-3, 3) for k in range(4)}
    signs = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}

    def both(depth: int) -> tuple[Printed, float]:
        if depth == 0:
            name = draw.choice([*values])
            return Printed(name), values[name]
        name = draw.choice([*signs, "negative"])
        op: Any = OPS[name]
        parts = [both(draw.randrange(depth)) for _ in range(op.arity)]
        with np.errstate(all="ignore"):
            found = float(op.numpy(*[np.float64(number) for _, number in parts]))
        return in_c(op.c["f"], [text for text, _ in parts], [F8] * op.arity, F8)[0], found

    cases = [both(6) for _ in range(200)]
    lines = [f"double {name} = {value!r};" for name, value in values.items()]
    checks = "".join(
        f"    {{ double y = {text.text}; if (memcmp(&y, &wanted[{k}], 8) && !(y != y && wanted[{k}] != wanted[{k}])) "
        f"return {k + 1 if k < 200 else 200}; }}\n" for k, (text, _) in enumerate(cases))
    wanted = ", ".join("NAN" if v != v else ("-" if v < 0 else "") + "HUGE_VAL" if np.isinf(v) else v.hex()
                       for _, v in cases)
    path = tmp_path / "cases.c"
    path.write_text("\n".join([
        "#include <math.h>\n#include <string.h>", *lines, f"double wanted[] = {{ {wanted} }};",
        f"int main(void) {{\n{checks}    return 0;\n}}\n"]))
    subprocess.run([compiler, "-O1", "-ffp-contract=off", str(path), "-o", str(tmp_path / "run"), "-lm"], check=True)
    ran = subprocess.run([str(tmp_path / "run")], check=False)
    assert ran.returncode == 0, cases[ran.returncode - 1]


def test_signs_do_not_meet() -> None:
    minus, x = OPS["negative"].c["f"], Printed("x")  # type: ignore[attr-defined]
    once = in_c(minus, [x], [F8], F8)[0]
    assert in_c(minus, [once], [F8], F8)[0].text == "-(-x)"
    assert in_c(minus, [c_number(-1.0, F8)], [F8], F8)[0].text == "-(-1.0)"
    assert in_c("{0} - {1}", [x, once], [F8, F8], F8)[0].text == "x - -x"
    assert once.level is Level.UNARY
    assert index(-1, str) == "-1"
