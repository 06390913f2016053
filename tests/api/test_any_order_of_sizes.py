"""What a call gives never depends on the calls before it: every answered function, in several orders of sizes.

Where NumPy does something else for an extent of 0 or 1, or for extents that are equal (`np.squeeze` drops an axis), a
compilation with open extents serves the others alone. So a function is called with many sizes under ``dynamic="auto"``,
with named extents and with specs, and each result is NumPy's.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import permutations
from random import Random
from typing import Any

import numpy as np
import pytest
import scipy.special

import symgrad as sg
from symgrad.ops import load
from symgrad.ops.declare.forms import ANSWERS, answer_scipy
from tests.night import some
from tests.ops.calls import Call, quiet, read
from tests.programs import leaves
from tests.table import INTERPRETED

load()
answer_scipy()

Array = np.ndarray[Any, Any]
Sizes = dict[int, int]

REDUCED = (
    "max", "min", "sum", "prod", "mean", "var", "std", "any", "all", "argmax", "argmin", "cumsum", "cumprod", "amax",
    "amin",
)
FORMS = {
    **{name: [f"np.{name}(a)", f"np.{name}(a, 1)", f"np.{name}(a[0], 0)"] for name in REDUCED},
    "dot": ["np.dot(a, b.T)", "np.dot(a, b[0])"], "inner": ["np.inner(a, b)"], "vdot": ["np.vdot(a, b)"],
    "einsum": ["np.einsum('ij,kj->ik', a, b)", "np.einsum('ij,ij->i', a, b)", "np.einsum('...j,j', a, b[0])"],
    "linspace": ["np.linspace(a[0], b[0], 4)", "np.linspace(0, a[0, 0], a.shape[1])"],
    "real_if_close": ["np.real_if_close(a)"],
    **{name: [f"np.linalg.{name}(a @ b.T + 9 * np.eye(a.shape[0]))"] for name in ("det", "slogdet", "inv")},
    "cholesky": ["np.linalg.cholesky(a @ a.T + 9 * np.eye(a.shape[0]))"],
    "solve": ["np.linalg.solve(a @ a.T + 9 * np.eye(a.shape[0]), b)"],
    "copyto": ["written(np.copyto, a, b)", "written(np.copyto, a, b[0])", "written(np.copyto, a[0], b[:1])"],
    "fill_diagonal": ["written(np.fill_diagonal, a, 2.0)", "written(np.fill_diagonal, a, b[0])"],
    "place": ["written(np.place, a, b > 0, 1.0)"],
    "put": ["written(np.put, a, [0], 1.0)", "written(np.put, a, [1], b)"],
    "putmask": ["written(np.putmask, a, b > 0, 1.0)", "written(np.putmask, a, b > 0, a[0])"],
    "put_along_axis": ["written(np.put_along_axis, a, np.argmax(b, 1)[:, None], 1.0, 1)"],
}
"""Calls of what stands in no other table, for arrays of two axes."""

ASKED = {
    "a branch": "a * 2 if a.shape[0] == 1 else a.T", "a comparison": "a * 2 if a.shape[1] < 2 else a + 1",
    "shapes": "a @ b if a.shape == b.T.shape else a + b.sum()", "a set": "a * 2 if a.shape[0] in {1, 2} else a",
    "len": "a / max(len(a), 1)", "size": "a.sum() / a.size if a.size else a", "truth": "a if a.shape[0] else b",
    "atleast": "np.atleast_3d(a[0]) + np.atleast_2d(b[0])", "broadcast": "a * b[:1] + b[:, :1]",
    "outer": "a[:, None] - b",
    "caught": "tried(lambda: a * b, lambda: a.sum() * b.sum())", "caught product": "tried(lambda: a @ b, lambda: a)",
    "caught index": "tried(lambda: a[1] + 1, lambda: a[0], lambda: b)", "number": "a.sum() * float(a.shape[0])",
    "method": "a.squeeze() * 2", "a row": "np.squeeze(a[:1])", "a column": "np.squeeze(a[:, 1:]) + 1",
    "item": "tried(lambda: a.reshape(-1)[0] * 1, lambda: a)", "range": "sum(a[i].sum() * i for i in range(a.shape[0]))",
    "equal parts": "np.array_equal(a[1:], b[:-1])", "equivalent": "np.array_equiv(a, b[0])",
    "even": "np.split(a, 2)[1] + 1", "uneven": "np.array_split(a, 3, 1)[1] * 2", "one variable": "np.cov(a) * 2",
}
"""What asks for an extent."""


def written(write: Any, a: Any, *rest: Any) -> Any:
    """Write into a copy."""
    a = a + 0
    write(a, *rest)
    return a


def tried(*ways: Callable[[], Any]) -> Any:
    """Go the first way that NumPy goes."""
    try:
        return ways[0]()
    except (ValueError, IndexError):
        return tried(*ways[1:])


def made(name: str, text: str, shapes: tuple[tuple[int, ...], ...] = ((3, 4), (3, 4), (3, 4))) -> Call:
    """Write a call as the table of calls does."""
    names = [n for n in "abc" if re.search(rf"\b{n}\b", text)]
    known = {"np": np, "scipy": scipy, "written": written, "tried": tried}
    function = eval(f"lambda {', '.join(names)}: {text}", known)  # noqa: S307 - text written here
    return Call(name, text, function, shapes[: len(names)], "d", known=False)


def calls() -> Iterator[Call]:
    """List calls of every function that is answered, and of what Python asks of extents."""
    yield from read("calls.txt")
    for name, forms in FORMS.items():
        yield from [made(name, text) for text in forms]
    for function in ANSWERS:
        if isinstance(function, np.ufunc):
            name = function.__name__.removeprefix("_")  # as of zeta, whose function calls the ufunc
            module = "np" if hasattr(np, name) else "scipy.special"
            integers = "int" if function.types[0][0] == "b" and "d" not in "".join(function.types) else "float"
            given = [f"{name}.astype({integers})" for name in "abc"[: function.nin]]
            yield made(function.__name__, f"{module}.{name}({', '.join(given)})", ((3, 4), (4,), (3, 4)))
    for name, text in ASKED.items():
        yield made(name, text)


OTHERWISE = {
    "scipy.special.logsumexp(a, b=b, axis=1, return_sign=True)": "of none the sum, 0, has the sign -1",
    "np.bincount(np.abs(a), b * 0.5, 4)": "of none it counts in integers",
    **dict.fromkeys((
        "[p.coef for p in np.poly1d(a) / np.poly1d(b)]", "[p.coef for p in np.poly1d([1.0, 2.0, 3.0]) / np.poly1d(a)]",
        "[p(0.5) for p in np.polydiv(np.poly1d(a), np.poly1d(b))]"), "of none it divides by 0, and has no rest"),
    "np.nanquantile(with_nan(a), [0.3, 0.9], axis=0, method='nearest')": "of none there is no axis of quantiles",
}
"""Calls that NumPy and SciPy answer otherwise where there are no elements, and how."""

CALLS = [call for call in calls() if any(call.shapes) and call.text not in OTHERWISE]
PARTS = 12


def test_every_answered_function_is_called():
    functions = [f for f in ANSWERS if callable(f)]
    assert {f.__name__ for f in functions} - {call.name for call in calls()} == set()


def draw(call: Call, sizes: Sizes) -> list[Array]:
    """Draw arguments of some sizes."""
    rng = np.random.default_rng(7)
    shapes = [tuple([sizes[d] for d in shape]) for shape in call.shapes]
    if call.kinds[0] == "?":
        return [rng.integers(0, 2, shape).astype(bool) for shape in shapes]
    if call.kinds[0] == "i":
        return [np.asarray(rng.integers(-3, 4, shape), np.int64) for shape in shapes]
    return [np.asarray(rng.uniform(-2.5, 2.5, shape), call.kinds[0]) for shape in shapes]


def orders(call: Call, *, every: bool) -> list[list[Sizes]]:
    """List orders of sizes, each a number for every extent of a call: all small together, then at random."""
    extents = sorted({d for shape in call.shapes for d in shape})
    together = [{d: size + (k if size > 1 else 0) for k, d in enumerate(extents)} for size in (5, 2, 1, 0)]
    rng = Random(call.text)
    mixed = [{d: rng.choice((0, 1, 2, 5, 6)) for d in extents} for _ in range(24 if every else 1)]
    if not every:
        return [[*together, dict.fromkeys(extents, 4), *mixed, *together[:3]]]
    return [[*order, *rng.sample(mixed, 4)] for order in permutations(together)]


def outcome(function: Any, arrays: list[Array]) -> Any:
    """Return what a call gives, or the error."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [np.asarray(leaf) for leaf in leaves(function(*arrays))]
    except Exception as error:  # noqa: BLE001 - any error of NumPy's
        error.__traceback__ = error.__context__ = error.__cause__ = None  # whose frames hold the caller's
        return error


def agree(found: Any, expected: Any) -> bool:
    """Whether two outcomes are equal, or both errors."""
    if isinstance(found, Exception) or isinstance(expected, Exception):
        return isinstance(found, Exception) and isinstance(expected, Exception)
    pairs = zip(found, expected, strict=True)
    return len(found) == len(expected) and all(
        a.shape == b.shape and a.dtype == b.dtype and np.allclose(a, b, rtol=1e-10, atol=1e-10, equal_nan=True)
        for a, b in pairs
    )


def compare(call: Call, order: list[Sizes]) -> None:
    """Call one function with a sequence of sizes, and compare each result with NumPy's.

    What is refused for these sizes alone is refused after any others as well. With extents the user named, more may be
    refused, and nothing is another result.
    """
    def program(*arrays: Any) -> Any:
        return quiet(call.call, *arrays)

    parameters = [inspect.Parameter(f"p{k}", inspect.Parameter.POSITIONAL_ONLY) for k in range(len(call.shapes))]
    program.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    named = {f"p{k}": ",".join([f"e{d}" for d in shape]) for k, shape in enumerate(call.shapes)}
    kind = {"d": "f64", "f": "f32", "i": "i64", "?": "bool"}[call.kinds[0]]
    specs = tuple([f"{kind}[{axes}]" for axes in named.values()])
    learnt = sg.jit(program, options=INTERPRETED)
    others: list[Any] = [sg.jit(program, options=INTERPRETED, dynamic=named)]
    with suppress(sg.SymgradError):
        others.append(sg.jit(program, options=INTERPRETED, specs=specs))
    for k, sizes in enumerate(order):
        arrays = draw(call, sizes)
        expected, found = outcome(call.call, arrays), outcome(learnt, arrays)

        def words(k: int = k, arrays: Any = arrays, found: Any = found, expected: Any = expected) -> str:
            return f"{call.text} with shapes {[a.shape for a in arrays]} after {order[:k]}: {found} is not {expected}"

        if isinstance(found, Exception) or isinstance(expected, Exception):
            alone = outcome(sg.jit(program, options=INTERPRETED, dynamic=False), arrays)
            assert agree(found, alone), words()
        else:
            assert agree(found, expected), words()
        for function in others:
            result = outcome(function, arrays)
            if isinstance(result, Exception):
                assert isinstance(result, sg.SymgradError), words()
            else:
                assert agree(result, expected if isinstance(found, Exception) else found), f"named: {result}; {words()}"


@pytest.mark.parametrize("part", some(range(PARTS), of=3))
def test_any_order_of_sizes(part):
    for call in CALLS[part::PARTS]:
        for order in orders(call, every=False):
            compare(call, order)


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(PARTS))
def test_every_order_of_sizes(part):
    for call in CALLS[part::PARTS]:
        for order in orders(call, every=True):
            compare(call, order)
