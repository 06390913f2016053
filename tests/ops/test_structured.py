"""Every structured op and composite, on the cases it is declared with: meaning, body, text and rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from symgrad.ir.evaluate import concrete, evaluate, extents
from symgrad.ir.op import Composite, Structured
from symgrad.ir.text import as_text
from symgrad.ir.verify import verify
from symgrad.ops import OPS, load
from symgrad.trace.signature import Signature, Spec
from symgrad.trace.trace import trace
from tests.notation import run

if TYPE_CHECKING:
    from symgrad.ir.node import Node
    from symgrad.ir.program import Program
    from symgrad.ops.declare.domains import Case

load()
CASES = [
    pytest.param(case, id=f"{op.name}-{kind}{k}")
    for op in OPS.values() if isinstance(op, (Structured, Composite))
    for kind, cases in (("sample", op.sample), ("edge", op.edges)) for k, case in enumerate(cases)
]


def traced(call: Any, arrays: list[Any]) -> Program:
    """Trace a function of arrays, with their extents known."""
    specs = tuple([Spec(a.shape, a.dtype) for a in arrays])
    names = tuple([f"a{k}" for k in range(len(arrays))])
    signature = Signature(None, specs, names, names, (), tuple(range(len(arrays))))
    return verify(trace(call, signature, lambda leaves: call(*leaves), name="f").program)


def values(program: Program, arrays: list[Any]) -> tuple[dict[Node, Any], dict[Any, int]]:
    """Evaluate every node of a program."""
    dims = extents(program, arrays)
    found: dict[Node, Any] = dict(zip(program.inputs, arrays, strict=True))
    for node in program.nodes():
        if node not in found:
            found[node] = node.op.evaluate(*[found[i] for i in node.inputs], **concrete_params(node, dims))
    return found, dims


def concrete_params(node: Node, dims: dict[Any, int]) -> dict[str, Any]:
    """Return a node's parameters, unknown extents replaced."""
    return {k: concrete(v, dims) for k, v in zip(node.op.params, node.params, strict=True)}


def same(found: Any, expected: Any, tolerance: float) -> None:
    """Compare shape, dtype and numbers."""
    expected = np.asarray(expected)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("case", CASES)
def test_a_case_means_what_numpy_means(case: Case, dtype: Any) -> None:
    """The traced program, by the interpreter and as Python text, gives NumPy's values, shape and dtype."""
    arrays = case.draw(np.random.default_rng(3), dtype)
    with np.errstate(all="ignore"):
        expected = case.call(*arrays)
        program = traced(case.call, arrays)
        tolerance = 1e-14 if dtype is np.float64 else 2e-6
        same(evaluate(program, arrays)[0], expected, tolerance)
        names: dict[str, Any] = {}
        exec(as_text(program), names)  # a program's text is Python; that it runs is tested
        same(np.asarray(names["f"](*arrays)[0]), expected, tolerance)


@pytest.mark.parametrize("case", CASES)
def test_a_body_is_what_its_op_computes(case: Case) -> None:
    """Every node's body in index notation, run point by point, gives what the op's NumPy function gives."""
    arrays = case.draw(np.random.default_rng(4))
    with np.errstate(all="ignore"):
        program = traced(case.call, arrays)
        found, dims = values(program, arrays)
        for node in program.nodes():
            if isinstance(node.op, Structured):
                result = run(node.op.body(node), node, [found[i] for i in node.inputs], dims)
                same(result, np.asarray(found[node], node.dtype), 1e-13)


@pytest.mark.parametrize("case", [case for case in CASES if "-sample" in str(case.id)])
def test_a_rule_is_the_derivative(case: Case) -> None:
    """A rule, run on bare arrays, agrees with central differences of the op along a random direction."""
    rng = np.random.default_rng(5)
    arrays = case.draw(rng)
    program = traced(case.call, arrays)
    found, dims = values(program, arrays)
    for node in program.nodes():
        if not isinstance(node.op, (Structured, Composite)) or node.op.vjp is None or node.dtype.kind != "f":
            continue
        inputs, params = [np.asarray(found[i]) for i in node.inputs], concrete_params(node, dims)
        g = rng.normal(size=found[node].shape)
        cotangents = node.op.vjp(g, found[node], *inputs, **params)
        cotangents = cotangents if isinstance(cotangents, tuple) else (cotangents,)
        assert len(cotangents) == len(inputs)
        moves = [rng.normal(size=x.shape) if x.dtype.kind == "f" else np.zeros(x.shape, x.dtype) for x in inputs]
        predicted = 0.0
        for cotangent, move, x in zip(cotangents, moves, inputs, strict=True):
            assert cotangent is None or x.dtype.kind == "f"
            if cotangent is not None:  # none for floats means zero, which the differences see too
                assert np.shape(cotangent) == x.shape
                predicted += float(np.sum(cotangent * move))
        h, ends = 1e-6, []
        for step in (1e-6, -1e-6):
            moved = [x + step * m if x.dtype.kind == "f" else x for x, m in zip(inputs, moves, strict=True)]
            moved = bound(node.op.name, moved)
            ends.append(node.op.evaluate(*moved, **params))
        slope = float(np.sum(g * (ends[0] - ends[1]))) / (2 * h)
        assert predicted == pytest.approx(slope, rel=2e-6, abs=2e-6), node


def bound(name: str, operands: list[Any]) -> list[Any]:
    """Return operands as the rule of an op takes them: with the factors of the first one."""
    first, *rest = operands
    factors = KNOWN.get(name)
    if name == "pinv_solve":
        known = OPS["svd"](first)
        return [first, known, (abs(rest[1]) > 1e-4) / np.where(abs(rest[1]) > 1e-4, known[..., -1], 1), rest[2]]
    if name == "rows_below":
        return [first, rest[0], first @ np.linalg.inv(np.triu(rest[0]))]
    return operands if factors is None else [first, OPS[factors](first), *rest[1:]]


KNOWN = dict.fromkeys(("lu_solve", "det", "logabsdet", "cofactors", "triangles"), "lu") | dict.fromkeys(
    ("eigenvalues", "eigenvectors"), "eigh") | dict.fromkeys(("singular_values", "singular_vectors"), "svd")
"""What the second operand of an op is made of the first by."""


def test_no_module_hides_an_op() -> None:
    """`symgrad.ops.NAME` is the op of that name, not a module beside it."""
    import symgrad.ops

    assert {name for name in OPS if getattr(symgrad.ops, name) is not OPS[name]} == set()
