"""scipy.special is not imported for those who do not use it, and answered as soon as it is."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.special

from symgrad.ops.declare.forms import Late


def run(text: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(Path(__file__).parents[2])}, cwd=Path(__file__).parent,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


HEAD = """
import sys
import numpy as np, symgrad as sg

def f(x):
    return np.sum(1 / (1 + np.exp(-x)) + np.logaddexp(0, x))

sg.grad(f).lower(sg.spec("f32[2]"))
assert "scipy.special" not in sys.modules
o = sg.Options(compiler="none")
"""


def test_what_derivatives_use_of_it_needs_no_import() -> None:
    assert "expit(" in run(HEAD + "print(sg.grad(f).lower(sg.spec('f32[2]')).as_text('derived'))")


@pytest.mark.parametrize("line", ["scipy.special.erf(x)", "scipy.special.softmax(x)", "scipy.special.xlogy(x, 2)"])
def test_imported_after_the_first_trace(line: str) -> None:
    text = HEAD + f"""
import scipy.special
g = lambda x: {line}
x = np.array([0.5, 1.5])
assert np.allclose(sg.jit(g, options=o)(x), g(x), rtol=1e-15)
"""
    run(text)


@pytest.mark.parametrize("name", ["erf", "softmax"])
def test_imported_by_the_function_itself(name: str) -> None:
    text = HEAD + f"""
def g(x):
    from scipy.special import {name}
    return {name}(x)

x = np.array([0.5, 1.5])
assert np.allclose(sg.jit(g, options=o)(x), g(x), rtol=1e-15)
"""
    run(text)


def test_dtypes_beyond_one_float_are_asked_of_scipy() -> None:
    f4, f8, i8 = map(np.dtype, ("f4", "f8", "i8"))
    for kinds in ((f4, f4, None), (f8, f8, None), (f4, f8, None), (f4, float, None), (i8, f4, None), (i8, i8, None)):
        assert Late("xlogy", 2).resolve_dtypes(kinds) == scipy.special.xlogy.resolve_dtypes(kinds)
    assert Late("erf").resolve_dtypes((i8, None)) == (f8, f8)


def test_programs_without_it_run_without_it() -> None:
    """What rewrites make of them has a formula: the import took longer than all of the first call."""
    said = run(HEAD + """
print(repr(sg.value_and_grad(f, options=o)(np.array([0.3, -2.0]))[1].tolist()))
assert "scipy.special" not in sys.modules
""")
    expit = scipy.special.expit(np.array([0.3, -2.0]))
    np.testing.assert_allclose(ast.literal_eval(said), expit * (1 - expit) + expit, rtol=1e-14)


def test_formulas_until_it_is_imported() -> None:
    said = run(HEAD + """
from symgrad.ops.elementwise import special
for dtype in "f4", "f8":
    x = np.array([0.0, -0.0, 0.3, -0.3, 5.0, -5.0, 40.0, -40.0, 800.0, -800.0, np.inf, -np.inf, np.nan], dtype)
    with np.errstate(all="ignore"):
        for op in special.expit, special.log_expit:
            print(op.name, dtype, x.tobytes().hex(), op.evaluate(x).tobytes().hex())
assert "scipy.special" not in sys.modules
""")
    for line in said.splitlines():
        name, dtype, *values = line.split()
        x, found = [np.frombuffer(bytes.fromhex(each), dtype) for each in values]
        expected, kind = getattr(scipy.special, name)(x), np.finfo(dtype)
        np.testing.assert_allclose(found, expected, rtol=float(4 * kind.eps), atol=float(kind.tiny))
    assert len(said.splitlines()) == 4
