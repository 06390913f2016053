"""Saved programs: the same numbers and the same C as before, and an error with a place for what is damaged (R34)."""

from __future__ import annotations

import base64
import json
import random
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import IndexOutOfBounds, SerializationError
from symgrad.ir.evaluate import evaluate
from symgrad.ir.index.bounds import obligations
from symgrad.ir.node import Graph
from symgrad.ir.op import Structured
from symgrad.ir.program import Program
from symgrad.ir.requirements import require
from symgrad.ir.saved.programs import BODIES, KINDS, dumps, loads
from symgrad.ops import OPS, load
from symgrad.options import Options
from symgrad.pipeline import Stages, loops_and_c

WEIGHTS = np.linspace(-1.0, 1.0, 12).reshape(3, 4).tolist()  # a list: arrays would be inputs


def logistic(w, X, y):
    return np.mean(np.logaddexp(0.0, -y * (X @ w)))


def shapes(x):
    joined = np.concatenate([x, x[::-1]]).reshape(-1)
    return np.sum(joined[1:] * joined[:-1]) + np.trace(x) + np.sum(x[:, ::2]) ** 2 + np.sum(np.diag(x, 1))


def lookups(x, i):
    rows = np.where(x > 0, x, np.exp(x))[i]
    return np.sum(rows * np.array(WEIGHTS[0][:3])) + np.max(np.cumsum(x)) + np.sum(x[np.array([0, 2])] * np.float32(2))


def inside(x):
    return x[3] * x[0] + np.sum(x[1:4])


PROGRAMS = {
    "logistic": (logistic, ("f64[d]", "f64[n,d]", "f64[n]"), ((3,), (5, 3), (5,))),
    "static": (logistic, ("f32[3]", "f32[5,3]", "f32[5]"), ((3,), (5, 3), (5,))),
    "shapes": (shapes, ("f64[n,m]",), ((4, 5),)),
    "known shapes": (shapes, ("f64[3,4]",), ((3, 4),)),
    "lookups": (lookups, ("f64[n,3]", "i64[k]"), ((4, 3), (2,))),
    "inside": (inside, ("f64[n]",), ((6,),)),
}


@cache
def lowered(name):
    fun: Any = PROGRAMS[name][0]
    specs: Any = PROGRAMS[name][1]
    return sg.value_and_grad(fun).lower(*map(sg.spec, specs))


def arrays(name):
    rng = np.random.default_rng(0)
    specs, drawn = PROGRAMS[name][1:]
    kinds = [sg.spec(s).dtype for s in specs]
    pairs = zip(drawn, kinds, strict=True)
    return [rng.integers(0, 2, s) if k.kind == "i" else rng.normal(size=s).astype(k) for s, k in pairs]


def c_of(program):
    return loops_and_c(Stages(Options()), program)[1].text


@pytest.mark.parametrize("stage", ["traced", "stable", "derived", "optimized"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_round_trip(name, stage):
    program = lowered(name).stages.kept[stage]
    text = dumps(program)
    again = loads(text, OPS)
    assert dumps(again) == text
    assert again.requirements == program.requirements  # those that hold for all extents are proved, not asked
    given = arrays(name)
    for one, other in zip(evaluate(program, given), evaluate(again, given), strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
    for read, written in zip(again.nodes(), program.nodes(), strict=True):
        assert read.line == written.line
        assert read.line is None or (read.line.suffix, read.line.owner) == (written.line.suffix, written.line.owner)
    if stage == "optimized":
        assert c_of(again) == c_of(program)


def test_every_op_and_parameter_has_a_form():
    load()
    unknown = {(op.name, p) for op in OPS.values() for p in op.params if p not in KINDS and p not in BODIES}
    assert unknown == set(), "symgrad/ir/saved/programs.py says what a parameter may be"


def test_constants_keep_their_bits():
    odd = np.array([0.0, -0.0, np.nan, np.inf, 5e-324, 0.1])
    odd[2:3].view(np.uint64)[:] |= 0xABC
    for dtype in ("f8", "f4", "i1", "u8", "?"):
        with np.errstate(all="ignore"):
            value = odd.astype(dtype)
        raw = value.tobytes()

        def chosen(x, raw=raw, dtype=dtype):
            held = np.frombuffer(raw, dtype)
            return np.where(x > 0, held, held[::-1])

        program = sg.jit(chosen).lower(sg.spec("f64[6]")).program
        again = loads(dumps(program), OPS)
        held = [n.params[0].array for n in again.nodes() if n.op.name == "constant" and n.shape == (6,)]
        assert any(h.tobytes() == value.tobytes() for h in held)


def test_lines_name_the_users_file():
    program = lowered("logistic").program
    assert {Path(n.line.file).name for n in program.nodes() if n.line} == {"test_serial.py"}
    assert all(n.line for n in program.nodes() if n.op.kind == "elementwise" and n.inputs)
    assert "np.logaddexp" in {n.op.name: n.line for n in program.nodes()}["logaddexp"].text


def test_eight_threads_trace_the_same_program():
    def one(_):
        low = lowered.__wrapped__("shapes")
        return low.as_text("optimized"), dumps(low.program), c_of(low.program)

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(one, range(8)))) == 1


def test_a_long_chain_takes_linear_time_and_no_recursion():
    def chain(x):
        for _ in range(20_000):
            x = np.sin(x)[::-1]
        return x

    program = sg.jit(chain).lower(sg.spec("f64[5]")).stages.kept["traced"]
    start = perf_counter()
    assert len(loads(dumps(program), OPS).nodes()) > 20_000
    assert perf_counter() - start < 20


# -- what is refused


@cache
def saved_text():
    return dumps(lowered("shapes").stages.kept["traced"])


def saved():
    return json.loads(saved_text())


def find(data, op):
    return next(k for k, node in enumerate(data["nodes"]) if node["op"] == op)


def change(path, value):
    """A change of one field: ``change("nodes.slice.params.index", ...)``, nodes named by their op."""

    def apply(data):
        at = data
        *way, last = path.split(".")
        for step in way:
            at = at[find(data, step)] if at is data["nodes"] else at[int(step) if step.isdigit() else step]
        if value is None:
            del at[last]
        else:
            at[int(last) if last.isdigit() else last] = value

    return apply


DAMAGE = [
    (change("format", "pickle"), "version: a symgrad program"),
    (change("version", 2), "version: a symgrad program"),
    (change("extra", 1), "the file.extra: not expected"),
    (change("name", "f(); system"), "name: "),
    (change("name", "int"), "name: "),
    (change("name", "a\nb"), "name: "),
    (change("nodes", {}), "nodes: a list"),
    (change("nodes.0", []), "an object"),
    (change("nodes.multiply.op", "eval"), ".op: no op 'eval'"),
    (change("nodes.multiply.op", ["multiply"]), ".op: no op"),
    (change("nodes.multiply.code", "1"), ".code: not expected"),
    (change("nodes.multiply.inputs", [1]), "multiply cannot be"),
    (change("nodes.multiply.inputs", [1, 99]), ".inputs[1]: 99 is no place"),
    (change("nodes.multiply.inputs", [1, -1]), ".inputs[1]: -1 is no place"),
    (change("nodes.multiply.inputs", [0, True]), ".inputs[1]: True is no place"),
    (change("nodes.multiply.line", 77), ".line: 77"),
    (change("nodes.input.params.dtype", "float16"), "nodes[0].params.dtype: no dtype 'float16'"),
    (change("nodes.input.params.dtype", "O"), "nodes[0].params.dtype: no dtype"),
    (change("nodes.input.params.name", "for"), "nodes[0].params.name"),
    (change("nodes.input.params.name", "x*/"), "nodes[0].params.name"),
    (change("nodes.input.params.name", "n"), "stands for two things"),
    (change("nodes.input.params.shape", [-1, 2]), "nodes[0].params.shape[0]: -1 is no extent"),
    (change("nodes.input.params.shape", [2.5, 2]), "nodes[0].params.shape[0]"),
    (change("nodes.input.params.shape", [1 << 59, 1 << 59]), "there is no array"),
    (change("nodes.input.params.shape", [{"symbol": "n;"}, 2]), "nodes[0].params.shape[0]: 'n;' is no name"),
    (change("nodes.input.params.shape", [{"call": [1]}, {"symbol": "m"}]), "nothing an extent is made of"),
    (change("requirements", [{"index": {"symbol": "q"}, "extent": 3, "axis": 0}]), "no input has the extent 'q'"),
    (change("requirements", [{"index": 0, "extent": 3, "axis": 0, "if": 1}]), "requirements[0].if: not expected"),
    (change("requirements", [{"index": 0, "extent": 3, "axis": 0, "extremum": []}]), "requirements[0].extremum"),
    (change("labels", ["value", "w_bar"]), "labels: there must be one"),
    (change("labels", ["v;"]), "labels[0]: 'v;' is no name"),
    (change("nodes.sum.params.axes", [9]), "sum has no axis 9"),
    (change("nodes.input.params.shape", None), "nodes[0].params.shape: input needs the parameter"),
    (change("nodes.input.params.more", 1), "nodes[0].params.more: not expected"),
    (change("nodes.slice.params.index", [[0, 1, 0], [0, 1, 1]]), "a step of 0"),
    (change("nodes.slice.params.index", [[0, -1, 1], [0, 1, 1]]), "-1 is no extent"),
    (change("nodes.slice.params.index", [[0, 1], [0, 1, 1]]), "[start, count, step] or [position]"),
    (change("nodes.slice.params.index", [[-1, 1, 1], [0, 1, 1]]), "slice cannot be"),
    (change("nodes.slice.params.index", [[{"symbol": "n"}, 1, 1], [0, 1, 1]]), "slice cannot be"),
    (change("nodes.slice.params.index", [[0, 1, 1]]), "slice cannot be"),
    (change("nodes.sum.params.axes", [0, 0]), "params.axes: an axis is named twice"),
    (change("nodes.sum.params.axes", "01"), "params.axes: a list"),
    (change("nodes.sum.params.axes", [-1]), "params.axes[0]: -1 is no axis"),
    (change("nodes.reshape.params.shape", [7]), "reshape cannot be"),
    (change("nodes.diagonal.params.offset", 1.5), "params.offset: an integer"),
    (change("inputs", []), "inputs: they must be the input nodes"),
    (change("inputs", [0, 0]), "inputs: they must be the input nodes"),
    (change("outputs", [1000]), "outputs[0]: 1000"),
    (change("lines.0", ["a.py", "1", "x"]), "lines[0]: [file"),
    (change("lines.0", ["a.py", 1, "x", "_bat"]), "lines[0]: '_bat' is no suffix"),
    (change("lines.0", ["a.py", 1, "x", "_bar", 0]), "lines[0]: 0 "),
    (change("lines.0", ["a.py\n", 1, "x"]), "lines[0]: a line of printable text"),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGE, ids=[m for _, m in DAMAGE])
def test_damage_is_refused_with_its_place(damage, message):
    data = saved()
    damage(data)
    with pytest.raises(SerializationError) as caught:
        loads(json.dumps(data), OPS)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "nul", '{"format": NaN}', "[" * 100_000, "1" * 10_000, b"{}", None, '{"format": "symgrad program"}'],
    ids=lambda text: repr(text)[:20],
)
def test_what_is_no_program_is_refused(text):
    with pytest.raises(SerializationError):
        loads(text, OPS)


def test_a_deep_extent_is_refused():
    tree: Any = {"symbol": "n"}
    for _ in range(100):
        tree = {"max": [1, tree]}
    data = saved()
    data["nodes"][0]["params"]["shape"][0] = tree
    with pytest.raises(SerializationError, match="levels"):
        loads(json.dumps(data), OPS)


@pytest.mark.parametrize("tree", [{"power": [2, 10**9]}, {"power": [10**18, 17]}, {"quotient": [1, 0]}, 1 << 70])
def test_a_huge_extent_is_refused(tree):
    data = saved()
    data["nodes"][0]["params"]["shape"][0] = tree
    with pytest.raises(SerializationError):
        loads(json.dumps(data), OPS)


CONSTANTS: list[tuple[Any, str]] = [
    ({"dtype": "float64", "shape": [2], "data": "AAAA"}, "3 bytes"),
    ({"dtype": "float64", "shape": [-1], "data": ""}, "bytes"),
    ({"dtype": "bool", "shape": [1], "data": base64.b64encode(b"\x07").decode()}, "neither 0 nor 1"),
    ({"dtype": "float64", "shape": [], "data": "!"}, "base64"),
    ({"dtype": "float64", "shape": [], "data": 3}, "0 bytes"),
    ({"dtype": "object", "shape": [], "data": ""}, "no dtype 'object'"),
    ([1.0], "an object"),
]


@pytest.mark.parametrize(("value", "message"), CONSTANTS, ids=[m for _, m in CONSTANTS])
def test_damaged_constants(value, message):
    data = json.loads(dumps(sg.jit(lambda x: x + np.array(WEIGHTS)).lower(sg.spec("f64[4]")).program))
    data["nodes"][find(data, "constant")]["params"]["value"] = value
    with pytest.raises(SerializationError, match=message):
        loads(json.dumps(data), OPS)


def test_labels_that_are_none_are_refused():
    data = json.loads(dumps(lowered("logistic").program))
    place = find(data, "einsum")
    for bad in ("mk,k->q", "mk,k", "mk->m", "m;,k->m", "mm,k->m", ""):
        data["nodes"][place]["params"]["subscripts"] = bad
        with pytest.raises(SerializationError, match=rf"nodes\[{place}\]"):
            loads(json.dumps(data), OPS)


def test_an_index_that_may_lie_outside_is_checked_at_each_call():
    """A file that leaves out its requirements gets those that matter back."""
    program = lowered("inside").stages.kept["traced"]
    again = loads(dumps(replace(program, requirements=())), OPS)
    for x in (np.ones(4), np.ones(9)):
        require(again, [x])
        np.testing.assert_array_equal(evaluate(again, [x])[0], evaluate(program, [x])[0])
    with pytest.raises(IndexOutOfBounds, match="index 3 is out of bounds for axis 0 with size 3"):
        require(again, [np.ones(3)])


def test_an_empty_slice_outside_asks_for_nothing():
    """x[5:] of three elements is empty: no index is touched."""
    program = sg.jit(lambda x: np.sum(x[5:])).lower(sg.spec("f64[n]")).program
    again = loads(dumps(replace(program, requirements=())), OPS)
    for n in (0, 3, 5, 8):
        require(again, [np.ones(n)])
        assert evaluate(again, [np.ones(n)])[0] == max(0, n - 5)


def test_a_nested_program_is_not_saved():
    program = lowered("inside").program
    with pytest.raises(SerializationError, match="nested"):
        dumps(replace(program, scope=Graph()))


@pytest.mark.parametrize("stage", ["traced", "derived"])
def test_random_damage_is_refused_or_harmless(stage):
    """Integers of a file changed at random: an error with a place, or a program that evaluates inside of its arrays."""
    rng = random.Random(0)
    refused = 0
    source = dumps(lowered("known shapes").stages.kept[stage])
    for _ in range(150):
        data = json.loads(source)
        node = rng.choice([n for n in data["nodes"] if n.get("params")])
        node["params"] = damaged(node["params"], rng)
        program = loaded(json.dumps(data))
        refused += program is None
        if program is not None:
            given = [np.ones(leaf.shape) for leaf in program.inputs]
            require(program, given)
            evaluate(program, given)  # NumPy's IndexError would fail the test
    assert 30 < refused < 150


def loaded(text):
    try:
        return loads(text, OPS)
    except SerializationError as error:
        if re.match(r"nodes\[|inputs|requirements", str(error)):
            return None
        raise


def damaged(value, rng):
    if isinstance(value, dict):
        key = rng.choice(list(value))
        return value | {key: damaged(value[key], rng)}
    if isinstance(value, list) and value:
        k = rng.randrange(len(value))
        return [*value[:k], damaged(value[k], rng), *value[k + 1 :]]
    return value + rng.choice([-3, -1, 1, 2, 40]) if type(value) is int else value


def test_every_sampled_body_stays_inside():
    """The bounds' algebra has no false alarm on the bodies of honest programs."""
    load()
    for name in PROGRAMS:
        for stage in ("traced", "derived", "optimized"):
            program: Program = lowered(name).stages.kept[stage]
            for node in program.nodes():
                if isinstance(node.op, Structured):
                    assert set(obligations(node, node.op.body(node))) <= set(program.requirements)
