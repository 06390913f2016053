"""Compiles the C spelling of every elementwise op, for every loop it has, to one library."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import jinja2
import numpy as np

from symgrad.ops.declare import spelling
from symgrad.render.templates import TEMPLATES

if TYPE_CHECKING:
    from pathlib import Path

    from symgrad.ir.op import Elementwise

FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Wdouble-promotion", "-Werror",
         "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")
COMPILED = "?bBhHiIlLfd"
SEVERAL: dict[str, list[dict[str, Any]]] = {
    "power_int": [{"exponent": n} for n in (-63, -3, -1, 0, 1, 2, 3, 7, 16, 255)],
    "polygamma": [{"order": n} for n in (1, 2, 3, 6)],
    "astype": [{"dtype": np.dtype(char)} for char in COMPILED],
}


class Loop(NamedTuple):
    """One op on arguments of certain dtypes."""

    op: Elementwise
    dtypes: tuple[np.dtype[Any], ...]
    result: np.dtype[Any]
    params: dict[str, Any]

    def __str__(self) -> str:
        given = "".join(f" {value}" for value in self.params.values())
        return f"{self.op.name} {' '.join(d.name for d in self.dtypes)}{given}"


def loops(op: Elementwise) -> list[Loop]:
    """List the loops of an op that symgrad compiles."""
    if isinstance(op.numpy, np.ufunc):
        compiled = [types for types in op.numpy.types if set(types) <= {*COMPILED, *"qQ->"}]
        kinds = [tuple(map(np.dtype, types.split("->")[0])) for types in compiled]
        found = [Loop(op, k, op.numpy.resolve_dtypes((*k, None))[-1], {}) for k in dict.fromkeys(kinds)]
    else:
        choices = product(COMPILED, SEVERAL.get(op.name, [{}]))
        found = [loop for char, params in choices for loop in _own(op, char, params)]
    return [loop for loop in found if spelling.pattern(op.c, loop.dtypes, loop.result) is not None]


def _own(op: Elementwise, char: str, params: dict[str, Any]) -> list[Loop]:
    dtypes = (np.dtype(char),) * op.arity
    if op.name == "where":
        dtypes = (np.dtype(bool), *dtypes[1:])
    if spelling.pattern(op.c, dtypes, dtypes[-1]) is None or (char not in "fd" and params.get("exponent", 0) < 0):
        return []
    node = [type("Typed", (), {"dtype": d, "shape": ()}) for d in dtypes]
    return [Loop(op, dtypes, op.infer(*node, **params)[1], params)]


def source(table: list[Loop]) -> str:
    """Write one C function for each loop."""
    used: dict[tuple[str, str, str], None] = {}
    parts = []
    for k, loop in enumerate(table):
        names = [f"x{i}" for i in range(len(loop.dtypes))]
        chosen = spelling.pattern(loop.op.c, loop.dtypes, loop.result)
        assert chosen is not None
        text = spelling.fill_pattern(chosen, names, loop.dtypes, loop.result, loop.params)
        end = spelling.suffix(loop.dtypes[-1])
        for helper in re.findall(r"\b(sg_\w+)\(", text):
            used[helper.removesuffix(end), spelling.ctype(loop.dtypes[-1]), end] = None
        types = [spelling.ctype(d) for d in loop.dtypes]
        arguments = "".join(f"const {t} *a{i}, " for i, t in enumerate(types))
        reads = " ".join(f"const {t} x{i} = a{i}[k]; (void)x{i};" for i, t in enumerate(types))
        parts.append(f"void f{k}({arguments}{spelling.ctype(loop.result)} *y, int64_t n) {{ /* {loop} */\n"
                     f"    for (int64_t k = 0; k < n; ++k) {{ {reads} y[k] = {text}; }}\n}}")
    return "\n".join(["#include <math.h>\n#include <stdint.h>\n", *_helpers(used), *parts])


def _helpers(used: Any) -> list[str]:
    loader = jinja2.FileSystemLoader(TEMPLATES)
    environment = jinja2.Environment(  # noqa: S701 - C is not HTML
        loader=loader, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    macros: Any = environment.get_template("helpers.c.jinja").module
    return [getattr(macros, name)(t, f) for name, t, f in used]


def compile_all(table: list[Loop], folder: Path, *flags: str) -> list[Any]:
    """Compile a table of loops; return a NumPy function for each."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert compiler is not None
    (folder / "ops.c").write_text(source(table))
    ran = subprocess.run(
        [compiler, *FLAGS, *flags, "-o", str(folder / "ops.so"), str(folder / "ops.c"), "-lm"],
        capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[:4000]
    library = ctypes.CDLL(str(folder / "ops.so"))
    return [_caller(library[f"f{k}"], loop) for k, loop in enumerate(table)]


def _caller(function: Any, loop: Loop) -> Any:
    def call(*arrays: Any) -> Any:
        y = np.empty(len(arrays[0]), loop.result)
        arrays = tuple(np.ascontiguousarray(a, d) for a, d in zip(arrays, loop.dtypes, strict=True))
        function(*[ctypes.c_void_p(a.ctypes.data) for a in (*arrays, y)], ctypes.c_int64(len(y)))
        return y

    return call
