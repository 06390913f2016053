"""Generated C: no warnings, no undefined behaviour, single where single is meant, the same bytes each time."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.build.toolchain.find import find
from symgrad.ir.evaluate import evaluate
from symgrad.ir.op import Elementwise
from symgrad.pipeline import loops_and_c
from symgrad.render.render import passed_constants
from tests import table as t
from tests.night import some
from tests.render import functions as f

COMPILERS = [path for path in map(shutil.which, ("gcc", "clang")) if path]
STRICT = [
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Wdouble-promotion",
    "-Wshadow",
    "-pedantic",
    "-Werror",
    "-fopenmp",
    "-fsyntax-only",
]
GROUPS: dict[str, Callable[[], dict[str, Any]]] = {
    "losses": f.losses,
    "losses f32": lambda: f.losses(np.float32),
    "ops": f.tables,
    "ops f32": lambda: f.tables(np.float32),
    "programs": f.programs,
    "loops": f.loops,
}


@cache
def sources(group: str) -> dict[str, Any]:
    """Render a group as this machine would compile it: the lowered function, its loops and its C."""
    toolchain = find(sg.Options())
    assert toolchain is not None
    found = {}
    for name, (function, args) in (GROUPS | {"own": f.with_c_of_the_users})[group]().items():
        lowered = function.lower(*args)
        lowered.stages.target = toolchain.target
        found[name] = (lowered, args, *loops_and_c(lowered.stages, lowered.program))
    return found


def without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


@pytest.mark.parametrize(("standard", "group"), some(
    [("c99" if (turn + late) % 2 else "c11", group) for turn, group in enumerate(GROUPS) for late in (0, 1)],
))
@pytest.mark.parametrize("compiler", COMPILERS)
def test_no_warning_under_strict_flags(compiler: str, group: str, standard: str) -> None:
    for name, (_, _, _, source) in sources(group).items():
        ran = subprocess.run(
            [compiler, f"-std={standard}", *STRICT, "-x", "c", "-"],
            input=source.text,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, f"{name}:\n{ran.stderr[:3000]}"


IN_DOUBLE = (
    "beta_rise", "bessel_i", "betainc", "dawsn", "erfcx", "erfinv", "expi", "gamma_rise", "gammainc", "lambertw",
    "log_beta", "log_ndtr", "log_rest", "ndtri", "rgamma", "stirling", "stirling_rest", "zeta",
)
"""Functions whose series and fractions lose too many digits in single: they say double, and round at the end."""


def hidden_double(text: str) -> list[str]:
    """List what is double in C, but for the functions that say so, the arguments of their calls, and what they call."""
    names = rf"sg_(?:{'|'.join(IN_DOUBLE)})f\("
    text, said = re.subn(rf"(?ms)^static inline \w+ {names}.*?^\}}\n", "", without_comments(text))
    if said:
        text = re.sub(r"^double \w+\(double(?:, (?:double|int \*))*\);\n", "", text, flags=re.MULTILINE)
        text = re.sub(rf"{names}[^;]*;", "", text)
    return re.findall(r"\bdouble\b|(?<![\w.])\d+\.\d*(?:e[-+]?\d+)?(?![\w.])", text)


@pytest.mark.parametrize("group", ["losses f32", "ops f32"])
def test_no_hidden_double(group: str) -> None:
    """Where every array is single, no C type, no literal and no function is double."""
    checked = 0
    for name, (_, _, loops, source) in sources(group).items():
        arrays = [*loops.inputs, *loops.outputs, *loops.constants, *loops.temporaries]
        if any(a.dtype == np.float64 for a in arrays):  # astype(float64) is one of the ops
            continue
        checked += 1
        assert hidden_double(source.text) == [], name
    assert checked >= 9


def test_each_function_in_double_is_named() -> None:
    """Each op with C of its own, in a module where nothing stands beside it."""
    found: set[str] = set()
    for row in t.samples():
        if isinstance(row.op, Elementwise) and "sg_" in row.op.c.get("f", ""):
            text = without_comments(sg.jit(row.call).lower(*row.arrays(np.float32)).as_text("c"))
            functions = re.findall(r"^static inline \w+ sg_(\w+)f\((.*?)^\}", text, flags=re.DOTALL | re.MULTILINE)
            found.update(name for name, body in functions if re.search(r"\bdouble\b", body))
            assert hidden_double(text) == [], row.name
    assert found == {*IN_DOUBLE}


@pytest.mark.parametrize("group", GROUPS)
def test_no_allocation_no_statics_no_heavy_headers(group: str) -> None:
    for name, (_, _, _, source) in sources(group).items():
        text = without_comments(source.text)
        assert not re.search(r"\b(malloc|calloc|realloc|alloca|free)\b", text), name
        if "sg_scipy_" in text:
            continue  # SciPy's functions are called by pointers, which stand there
        assert not re.search(r"\bstatic (?!const)[^({;]*[;=\[]", text), name
        assert set(re.findall(r"#include <(.*?)>", text)) <= {"math.h", "stdint.h"}, name


def test_no_function_beyond_2000_statements() -> None:
    def chain(x):
        for k in range(1200):
            x = np.sin(x) * (1.0 + 0.001 * k)
        return x

    function = sg.value_and_grad(chain, options=sg.Options(without=("roll",)))
    lowered = function.lower(0.3)
    text = without_comments(lowered.as_text("c"))
    bodies = re.split(r"^\}", text, flags=re.MULTILINE)
    assert len(bodies) > 3
    assert max(body.count(";") for body in bodies) <= 2500, "statements, and the declarations beside them"


SCRIPT = """
import sys
sys.path.insert(0, {root!r})
from tests.render.functions import losses, programs
for group in (losses(), programs(12)):
    for name, (function, args) in group.items():
        sys.stdout.write(function.lower(*args).as_text("c"))
"""


@pytest.mark.slow
def test_the_same_bytes_in_every_process() -> None:
    root = str(Path(__file__).parents[2])
    texts = []
    for seed in ("0", "12345"):
        ran = subprocess.run(
            [sys.executable, "-c", SCRIPT.format(root=root)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        )
        texts.append(ran.stdout)
    assert len(texts[0]) > 10_000
    assert texts[0] == texts[1]


# -- sanitizers: the C with a main() of its own, on recorded inputs


def literal(array: np.ndarray[Any, Any]) -> str:
    """Write an array's elements as C."""
    kinds: dict[str, Any] = {"f": lambda v: float(v).hex(), "b": lambda v: str(int(v)), "i": str, "u": str}
    return ", ".join(kinds[array.dtype.kind](v) for v in np.ravel(array).tolist()) or "0"


def ctype(dtype: Any) -> str:
    names = {"float64": "double", "float32": "float", "bool": "uint8_t"}
    return names.get(dtype.name, f"{dtype.name}_t")


NEAR = """static int near(double a, double b) {{
    return a == b || (a != a && b != b) || fabs(a - b) <= {} * (1.0 + fabs(b));
}}"""


def inputs_of(lowered: Any, args: Any) -> list[Any]:
    """List the arrays that the C is given: the arguments, and those that the function reads from outside."""
    captured = lowered._function._captured
    call = lowered._function._arguments.split(args, {})
    pairs = zip(call.leaves, lowered.signature.specs, strict=True)
    arrays = [np.array(leaf, spec.dtype, order="F" if spec.fortran else "C") for leaf, spec in pairs]
    return [*arrays, *map(captured.state.array, captured.read)]


def main_of(lowered: Any, args: Any, loops: Any, source: Any, results: list[Any]) -> str:
    """Write a program that calls the function once, on heap arrays of exact size, and compares what it wrote."""
    inputs = inputs_of(lowered, args)
    single = any(node.dtype == np.float32 for node in lowered.program.nodes())
    lines, names = [], []
    for k, array in enumerate([*inputs, *passed_constants(loops)]):
        lines.append(f"static const {ctype(array.dtype)} given{k}[] = {{ {literal(array)} }};")
    body = []
    for k, array in enumerate([*inputs, *passed_constants(loops)]):
        kind = ctype(array.dtype)
        body.append(f"{kind} *in{k} = malloc({array.nbytes or 1}); memcpy(in{k}, given{k}, {array.nbytes});")
    for k, array in enumerate(results):
        lines.append(f"static const {ctype(array.dtype)} wanted{k}[] = {{ {literal(array)} }};")
        body.append(f"{ctype(array.dtype)} *out{k} = malloc({array.nbytes or 1});")
    body.append(f"char *workspace = malloc({int(loops.workspace) or 1});")
    names = [*[f"in{k}" for k in range(len(inputs))], *[f"out{k}" for k in range(len(results))]]
    names += [f"in{len(inputs) + k}" for k in range(len(passed_constants(loops)))]
    stop = ["0"] * loops.polled
    given = names
    if re.search(rf"{source.entry}\(\s*void \*const \*arrays", source.text):  # of many arrays it takes a table
        body.append(f"void *const arrays[] = {{ {', '.join(names)} }};")
        given = ["arrays"]
    body.append(f"if ({source.entry}({', '.join([*given, '1', 'workspace', *stop])}) != 0) return 1;")
    for k, array in enumerate(results):
        body.append(
            f"for (int i = 0; i < {array.size}; ++i) if (!near((double)out{k}[i], (double)wanted{k}[i])) return 2;"
        )
    frees = [f"free({name});" for name in [*names, "workspace"]]
    return "\n".join(
        [
            "#include <stdlib.h>\n#include <string.h>",
            source.text,
            NEAR.format("1e-6" if single else "1e-9"),
            *lines,
            "int main(void) {",
            *body,
            *frees,
            "return 0; }\n",
        ]
    )


@pytest.mark.slow
@pytest.mark.parametrize("group", ["losses", "ops", "programs", "own", "loops"])
def test_sanitizers_find_nothing(group: str, tmp_path: Path) -> None:
    """AddressSanitizer and UndefinedBehaviorSanitizer, on arrays that are exactly as long as they should be.

    What is written is what the interpreter says.
    """
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None or not _sanitizes(compiler, tmp_path):
        pytest.skip("no compiler with sanitizers")
    for number, (name, (lowered, args, loops, source)) in enumerate(list(sources(group).items())[:12]):
        results = evaluate(lowered.program, inputs_of(lowered, args))
        path = tmp_path / f"{number}.c"
        path.write_text(main_of(lowered, args, loops, source, results))
        flags = [
            "-std=gnu11",
            "-O0",  # half of -O1's time, and what is undefined is not optimized away before it is seen
            "-g1",  # lines, and no variables: a third of the time, the same report
            "-fsanitize=address,undefined",
            "-fno-sanitize-recover=all",
            "-ffp-contract=off",
            "-w",
        ]
        subprocess.run([compiler, *flags, str(path), "-o", str(tmp_path / "run"), "-lm"], check=True)
        ran = subprocess.run([str(tmp_path / "run")], capture_output=True, text=True, check=False)
        assert ran.returncode == 0, f"{name}: exit {ran.returncode}\n{ran.stderr[:3000]}"


def _sanitizes(compiler: str, folder: Path) -> bool:
    path = folder / "empty.c"
    path.write_text("int main(void) { return 0; }\n")
    built = subprocess.run(
        [compiler, "-fsanitize=address,undefined", str(path), "-o", str(folder / "empty")],
        capture_output=True,
        check=False,
    )
    return built.returncode == 0 and subprocess.run([str(folder / "empty")], check=False).returncode == 0
