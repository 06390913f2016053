"""Programs as JSON: what may be kept in files and pickles. It is verified when it is read, and never executed."""

from __future__ import annotations

import base64
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.errors import SerializationError
from symgrad.ir import shapes
from symgrad.ir.bounds import obligations
from symgrad.ir.node import Constant, Graph, Requirement
from symgrad.ir.op import Structured
from symgrad.ir.program import Program
from symgrad.ir.saved import fields
from symgrad.ir.saved.dims import dim_to_json
from symgrad.ir.saved.fields import DTYPES, ELEMENTS, KINDS, NODES, RANK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from symgrad.errors import Line
    from symgrad.ir.node import Node
    from symgrad.ir.op import Op

VERSION = 1
"""Of the schema; a file of another version is refused."""

TEXT = 1 << 28
"""A file has at most so many characters."""


# -- writing


def dumps(program: Program) -> str:
    """Write a program as JSON, one node a line.

    Raises:
        SerializationError: a parameter of an op has no form in the file.

    Example:
        >>> import symgrad as sg
        >>> from symgrad.ops import OPS
        >>> program = sg.jit(lambda x: x * x).lower(sg.spec("f64[3]")).program
        >>> [node.op.name for node in loads(dumps(program), OPS).nodes()]
        ['input', 'multiply']
    """
    head = record(program)
    lists = {name: head.pop(name) for name in ("requirements", "lines", "nodes")}
    parts = [json.dumps(head)[1:-1], *[f'"{name}": [{_one_a_line(items)}]' for name, items in lists.items()]]
    return "{" + ",\n".join(parts) + "}\n"


def record(program: Program) -> dict[str, Any]:
    """Describe a program by numbers, texts, lists and dicts, as `dumps` writes it.

    Raises:
        SerializationError: a parameter of an op has no form in the file.
    """
    if program.scope is not None:
        raise SerializationError(f"{program.name} is nested in another trace: its constants are not its own")
    nodes = program.nodes()
    number = {node: k for k, node in enumerate(nodes)}
    lines: dict[Line, int] = {}
    rows = []
    for node in nodes:
        row = _row(node, number)
        if node.line is not None:
            row["line"] = lines.setdefault(node.line, len(lines))
        rows.append(row)
    required = [
        {"index": dim_to_json(r.index), "extent": dim_to_json(r.extent), "axis": r.axis, "otherwise": r.otherwise}
        | ({} if r.line is None else {"line": lines.setdefault(r.line, len(lines))})
        for r in program.requirements
    ]
    return {
        "format": "symgrad program", "version": VERSION, "name": program.name,
        "inputs": [number[i] for i in program.inputs], "outputs": [number[o] for o in program.outputs],
        "labels": list(program.labels), "requirements": required, "lines": list(lines), "nodes": rows,
    }


def _one_a_line(items: Any) -> str:
    return ",\n".join(["", *map(json.dumps, items)])[1:]


def _row(node: Node, number: Mapping[Node, int]) -> dict[str, Any]:
    row: dict[str, Any] = {"op": node.op.name}
    if node.inputs:
        row["inputs"] = [number[i] for i in node.inputs]
    if node.params:
        row["params"] = {k: _param(node, k, v) for k, v in zip(node.op.params, node.params, strict=True)}
    return row


def _param(node: Node, name: str, value: Any) -> Any:
    if name not in KINDS:
        raise SerializationError(f"the parameter {name!r} of {node.op.name} has no form in a saved program")
    return _written(value)


def _written(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_written(item) for item in value]
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, Constant):
        array = value.array
        data = array.astype(array.dtype.newbyteorder("<")).tobytes()
        return {"dtype": array.dtype.name, "shape": list(array.shape), "data": base64.b64encode(data).decode("ascii")}
    if isinstance(value, (bool, str)):
        return value
    return dim_to_json(value)


# -- reading


def loads(text: str, ops: Mapping[str, Op]) -> Program:
    """Read a program that `dumps` wrote, and verify all of it.

    Args:
        text: the JSON.
        ops: the ops it may use, by name (`symgrad.ops.OPS`).

    Returns:
        The program. Where it is not certain for all extents that it stays inside of its arrays, conditions are
        added to its requirements, which every call checks.

    Raises:
        SerializationError: naming the place: ``nodes[3].op``.
    """
    data = fields.record(_parsed(text), "the file")
    if data.get("format") != "symgrad program" or data.get("version") != VERSION:
        raise fields.wrong("version", f"a symgrad program of version {VERSION} is expected")
    fields.only(
        data, "the file", "format", "version", "name", "inputs", "outputs", "labels", "requirements", "lines", "nodes"
    )
    lines = [fields.line(row, f"lines[{k}]") for k, row in enumerate(fields.items(data, "lines", NODES))]
    reader = _Reader(ops, lines)
    for k, row in enumerate(fields.items(data, "nodes", NODES)):
        reader.node(row, f"nodes[{k}]")
    nodes = reader.nodes

    def listed(name: str) -> tuple[Node, ...]:
        places = enumerate(fields.items(data, name, NODES))
        return tuple([nodes[fields.position(n, f"{name}[{k}]", len(nodes))] for k, n in places])

    inputs, outputs = listed("inputs"), listed("outputs")
    rows = enumerate(fields.items(data, "requirements", NODES))
    required = [reader.requirement(row, f"requirements[{k}]") for k, row in rows]
    reader.finish(inputs)
    name = fields.name(data.get("name"), "name")
    labels = tuple([fields.name(text, f"labels[{k}]") for k, text in enumerate(fields.items(data, "labels", NODES))])
    if labels and len(labels) != len(outputs):
        raise fields.wrong("labels", "there must be one for each output, or none")
    return Program(inputs, outputs, name, tuple(dict.fromkeys([*required, *reader.found])), labels=labels)


class _Reader:
    """Makes the nodes of one file, each verified when its inputs are known."""

    def __init__(self, ops: Mapping[str, Op], lines: list[Line]) -> None:
        self.ops, self.lines = ops, lines
        self.graph = Graph(share=False)  # node for node what was written
        self.nodes: list[Node] = []
        self.names: set[str] = set()
        self.symbols: dict[str, str] = {}
        self.found: list[Requirement] = []

    def node(self, row: Any, path: str) -> None:
        row = fields.record(row, path)
        fields.only(row, path, "op", "inputs", "params", "line")
        op = self.ops.get(row["op"]) if isinstance(row.get("op"), str) else None
        if op is None:
            raise fields.wrong(f"{path}.op", f"no op {row.get('op')!r:.60}")
        before = len(self.nodes)
        places = enumerate(fields.items(row, "inputs", NODES, path))
        inputs = tuple([self.nodes[fields.position(n, f"{path}.inputs[{k}]", before)] for k, n in places])
        params = self.params(op, fields.record(row.get("params", {}), f"{path}.params"), f"{path}.params")
        line = self.line(row, path)
        try:
            shape, dtype = op.infer(*inputs, **params)
        except Exception as error:  # noqa: BLE001 - whatever a shape rule says to what it was not made for
            raise fields.wrong(path, f"{op.name} cannot be: {error}") from None
        self.fits(shape, dtype, path)
        highest = max([*_named_axes(params), -1])
        if highest >= max([len(shape), *[len(i.shape) for i in inputs]]):
            raise fields.wrong(f"{path}.params", f"{op.name} has no axis {highest}")
        made = self.graph.node(op, inputs, tuple(params.values()), tuple(shape), dtype, line)
        if op.name == "input":
            self.enter(made, path)
        elif isinstance(op, Structured):
            try:
                self.found += obligations(made, op.body(made))
            except Exception as error:  # noqa: BLE001 - likewise
                raise fields.wrong(path, f"{op.name} cannot be: {error}") from None
        self.nodes.append(made)

    def params(self, op: Op, given: dict[str, Any], path: str) -> dict[str, Any]:
        fields.only(given, path, *op.params)
        found = {}
        for name in op.params:
            if name not in given or name not in KINDS:  # the second: an op whose parameter nobody can check yet
                raise fields.wrong(f"{path}.{name}", f"{op.name} needs the parameter {name!r}")
            found[name] = KINDS[name](given[name], f"{path}.{name}")
            if name == "params":
                found[name] = self.inner(found["of"], found[name], f"{path}.{name}")
            self.note(found[name], f"{path}.{name}")
        return found

    def inner(self, of: str, values: tuple[Any, ...], path: str) -> tuple[Any, ...]:
        """Read the parameters of the op that is applied to each example."""
        op = self.ops.get(of)
        if not isinstance(op, Structured) or len(values) != len(op.params):
            raise fields.wrong(path, f"{len(values)} parameters for {of!r:.60}, which is applied to each")
        return tuple(self.params(op, dict(zip(op.params, values, strict=True)), path).values())

    def enter(self, node: Node, path: str) -> None:
        name = node.param("name")
        if name in self.names or name in self.symbols:
            raise fields.wrong(f"{path}.params.name", f"{name!r} stands for two things")
        self.names.add(name)

    def fits(self, shape: Any, dtype: np.dtype[Any], path: str) -> None:
        known = [d for d in shape if type(d) is int]
        if dtype.name not in DTYPES or len(shape) > RANK or min(known, default=0) < 0 or math.prod(known) > ELEMENTS:
            raise fields.wrong(path, f"there is no array {dtype}{shapes.show(tuple(shape))}")

    def note(self, value: Any, path: str) -> None:
        """Remember the unknown extents in a parameter, to see in the end that some input has each."""
        stack = [value]
        while stack:
            item = stack.pop()
            if isinstance(item, tuple):
                stack.extend(item)
            for symbol in getattr(item, "free_symbols", ()):
                self.symbols.setdefault(symbol.name, path)

    def finish(self, inputs: tuple[Node, ...]) -> None:
        leaves = [node for node in self.nodes if node.op.name == "input"]
        if len(set(inputs)) != len(inputs) or set(inputs) != set(leaves):
            raise fields.wrong("inputs", "they must be the input nodes, each once")
        dims: list[Any] = [dim for node in leaves for dim in node.shape]
        known = {dim.name for dim in dims if getattr(dim, "is_Symbol", False)}
        for name, path in self.symbols.items():
            if name not in known:
                raise fields.wrong(path, f"no input has the extent {name!r}")
            if name in self.names:
                raise fields.wrong(path, f"{name!r} stands for two things")

    def requirement(self, row: Any, path: str) -> Requirement:
        row = fields.record(row, path)
        fields.only(row, path, "index", "extent", "axis", "otherwise", "line")
        index, extent = [fields.dim(row.get(name), f"{path}.{name}") for name in ("index", "extent")]
        self.note((index, extent), path)
        otherwise = fields.word(row.get("otherwise", ""), f"{path}.otherwise")
        return Requirement(index, extent, fields.axis(row.get("axis"), f"{path}.axis"), self.line(row, path), otherwise)

    def line(self, row: dict[str, Any], path: str) -> Line | None:
        return self.lines[fields.position(row["line"], f"{path}.line", len(self.lines))] if "line" in row else None


def _named_axes(params: dict[str, Any]) -> tuple[int, ...]:
    return (*params.get("axes", ()), *([params["axis"]] if "axis" in params else []))


def _parsed(text: Any) -> Any:
    if not isinstance(text, str) or len(text) > TEXT:
        raise SerializationError(f"a saved program is text of at most {TEXT} characters")
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise SerializationError(f"a saved program must be JSON: {str(error)[:200]}") from None


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} stands in no saved program")
