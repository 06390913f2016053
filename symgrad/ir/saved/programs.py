"""Programs as JSON: what may be kept in files and pickles. It is verified when it is read, and never executed."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from symgrad.errors import Derived, Line, SerializationError
from symgrad.ir.index import shapes
from symgrad.ir.index.bounds import obligations
from symgrad.ir.names import identifier
from symgrad.ir.node import SEVERAL, Constant, Graph, Node, Requirement
from symgrad.ir.op import Control, Op, Result, Structured
from symgrad.ir.program import Program
from symgrad.ir.saved.dims import dim_from_json, dim_to_json

VERSION = 1
"""Of the schema; a file of another version is refused."""

TEXT = 1 << 28
"""A file has at most so many characters."""

Reader: TypeAlias = "Callable[[Any, str], Any]"
"""What reads a field, given its content and its place."""

NODES, RANK, WORDS, ELEMENTS, DEPTH = 1 << 21, 64, 4096, 1 << 60, 32
"""Bounds of what is read: nodes, axes, the length of a string, the elements of an array, loops in loops."""

DTYPES = ("bool", *[f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)], "float32", "float64")


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
    rows = {name: "".join([f",\n{json.dumps(item)}" for item in items])[1:] for name, items in lists.items()}
    parts = [json.dumps(head)[1:-1], *[f'"{name}": [{text}]' for name, text in rows.items()]]
    return "{" + ",\n".join(parts) + "}\n"


def record(program: Program) -> dict[str, Any]:
    """Describe a program by numbers, texts, lists and dicts, as `dumps` writes it."""
    if program.scope is not None:
        raise SerializationError(f"{program.name} is nested in another trace: its constants are not its own")
    lines: dict[tuple[Any, ...], int] = {}
    described = _program_record(program, lines)
    required = [
        {"index": dim_to_json(r.index), "extent": dim_to_json(r.extent), "axis": r.axis, "otherwise": r.otherwise}
        | ({} if r.line is None else {"line": _line_row(r.line, lines)})
        for r in program.requirements
    ]
    return {
        "format": "symgrad program", "version": VERSION, "name": program.name, "inputs": described["inputs"],
        "outputs": described["outputs"], "labels": list(program.labels), "requirements": required,
        "lines": list(lines), "nodes": described["nodes"],
    }


def _program_record(program: Program, lines: dict[tuple[Any, ...], int]) -> dict[str, Any]:
    """Describe a program that another one holds, whose lines are among those of the whole."""
    nodes = program.nodes()
    number = {node: k for k, node in enumerate(nodes)}
    rows = []
    for node in nodes:
        row: dict[str, Any] = {"op": node.op.name}
        if node.inputs:
            row["inputs"] = [number[i] for i in node.inputs]
        for name in node.op.params:
            if name not in KINDS and name not in BODIES:
                raise SerializationError(f"the parameter {name!r} of {node.op.name} has no form in a saved program")
        if node.params:
            row["params"] = {
                name: _program_record(value, lines) if isinstance(value, Program) else _value_record(value)
                for name, value in node.named.items()
            }
        if node.line is not None:
            row["line"] = _line_row(node.line, lines)
        rows.append(row)
    return {
        "name": program.name, "inputs": [number[i] for i in program.inputs],
        "outputs": [number[o] for o in program.outputs], "nodes": rows,
    }


def _line_row(line: Line, lines: dict[tuple[Any, ...], int]) -> int:
    """Return a line's row: itself, and of a derivative (`symgrad.errors.Derived`) a suffix and the row of its owner."""
    owners = [line]
    while owners[-1].owner is not None:
        owners.append(owners[-1].owner)
    row: int | None = None
    for one in reversed(owners):
        key = (*one, one.suffix, *([] if row is None else [row])) if one.suffix else tuple(one)
        row = lines.setdefault(key, len(lines))
    return row  # type: ignore[return-value]  # there is one line at least


def _value_record(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_value_record(item) for item in value]
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, Constant):
        array = value.array
        data = array.astype(array.dtype.newbyteorder("<")).tobytes()
        read = {key: text for key, text in (("name", value.name), ("path", value.path)) if text}
        record = {"dtype": array.dtype.name, "shape": list(array.shape), "data": base64.b64encode(data).decode("ascii")}
        return {**record, **read}
    if isinstance(value, (bool, str)) or value is None:
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
    data = _read_record(_parsed(text), "the file")
    if data.get("format") != "symgrad program" or data.get("version") != VERSION:
        raise _wrong("version", f"a symgrad program of version {VERSION} is expected")
    _only(
        data, "the file", "format", "version", "name", "inputs", "outputs", "labels", "requirements", "lines", "nodes"
    )
    lines: list[Line] = []
    for k, row in enumerate(_read_items(data, "lines")):
        lines.append(_read_line(row, f"lines[{k}]", lines))
    reader = _Reader(ops, lines)
    name, inputs, outputs = reader.program(data)
    rows = enumerate(_read_items(data, "requirements"))
    required = [reader.requirement(row, f"requirements[{k}]") for k, row in rows]
    reader.finish(inputs)
    labels = tuple([_read_name(text, f"labels[{k}]") for k, text in enumerate(_read_items(data, "labels"))])
    if labels and len(labels) != len(outputs):
        raise _wrong("labels", "there must be one for each output, or none")
    return Program(inputs, outputs, name, tuple(dict.fromkeys([*required, *reader.found])), labels=labels)


class _Reader:
    """Makes the nodes of one program, each verified when its inputs are known; a held program has one of its own."""

    def __init__(self, ops: Mapping[str, Op], lines: list[Line], depth: int = 0) -> None:
        self.ops, self.lines, self.depth = ops, lines, depth
        self.graph = Graph(interned=False)  # node for node what was written
        self.nodes: list[Node] = []
        self.names: set[str] = set()
        self.symbols: dict[str, str] = {}
        self.found: list[Requirement] = []

    def program(self, data: dict[str, Any], path: str = "") -> tuple[str, tuple[Node, ...], tuple[Node, ...]]:
        """Read the name, the inputs and the outputs of a program, and before these its nodes."""
        dot = f"{path}." if path else ""
        for k, row in enumerate(_read_items(data, "nodes", path)):
            self.node(row, f"{dot}nodes[{k}]")

        def listed(name: str) -> tuple[Node, ...]:
            places = enumerate(_read_items(data, name, path))
            return tuple([self.nodes[_read_position(n, f"{dot}{name}[{k}]", len(self.nodes))] for k, n in places])

        inputs, outputs = listed("inputs"), listed("outputs")
        if any(node.dtype is SEVERAL for node in outputs):
            raise _wrong(f"{dot}outputs", "there is one with several results, which is no value")
        return _read_name(data.get("name"), f"{dot}name"), inputs, outputs

    def held(self, value: Any, path: str) -> Program:
        """Read a program that a node holds."""
        data = _read_record(value, path)
        _only(data, path, "name", "inputs", "outputs", "nodes")
        if self.depth == DEPTH:
            raise _wrong(path, f"more than {DEPTH} programs within each other")
        reader = _Reader(self.ops, self.lines, self.depth + 1)
        name, inputs, outputs = reader.program(data, path)
        reader.arguments(inputs, f"{path}.inputs")
        for dim in [dim for node in inputs for dim in node.shape]:
            self.note(dim, f"{path}.inputs")
        for symbol, place in reader.symbols.items():
            self.symbols.setdefault(symbol, place)
            if symbol in reader.names:
                raise _wrong(place, f"{symbol!r} stands for two things")
        self.found += reader.found
        return Program(inputs, outputs, name)

    def node(self, row: Any, path: str) -> None:
        row = _read_record(row, path)
        _only(row, path, "op", "inputs", "params", "line")
        op = self.ops.get(row["op"]) if isinstance(row.get("op"), str) else None
        if op is None:
            raise _wrong(f"{path}.op", f"no op {row.get('op')!r:.60}")
        before = len(self.nodes)
        places = enumerate(_read_items(row, "inputs", path))
        inputs = tuple([self.nodes[_read_position(n, f"{path}.inputs[{k}]", before)] for k, n in places])
        params = self.params(op, _read_record(row.get("params", {}), f"{path}.params"), f"{path}.params")
        line = self.line(row, path)
        if not isinstance(op, Result) and any(i.dtype is SEVERAL for i in inputs):
            raise _wrong(path, f"{op.name} of what has several results, not of one of them")
        try:
            shape, dtype = op.infer(*inputs, **params)
            kinds = op.results(*inputs, **params) if isinstance(op, Control) else [(shape, dtype)]
        except Exception as error:  # noqa: BLE001 - whatever a shape rule says to what it was not made for
            raise _wrong(path, f"{op.name} cannot be: {error}") from None
        for kind in kinds:
            self.fits(*kind, path)
        highest = max([*params.get("axes", ()), params.get("axis", -1), -1])
        if highest >= max([len(shape), *[len(i.shape) for i in inputs]]):
            raise _wrong(f"{path}.params", f"{op.name} has no axis {highest}")
        made = self.graph.node(op, inputs, tuple(params.values()), tuple(shape), dtype, line)
        if op.name == "input":
            self.enter(made, path)
        elif isinstance(op, Structured):
            try:
                self.found += obligations(made, op.body(made))
            except Exception as error:  # noqa: BLE001 - likewise
                raise _wrong(path, f"{op.name} cannot be: {error}") from None
        self.nodes.append(made)

    def params(self, op: Op, given: dict[str, Any], path: str) -> dict[str, Any]:
        _only(given, path, *op.params)
        found: dict[str, Any] = {}
        for name in op.params:
            if name in given and name in BODIES:
                found[name] = self.held(given[name], f"{path}.{name}")
                continue
            if name not in given or name not in KINDS:  # the second: an op whose parameter nobody can check yet
                raise _wrong(f"{path}.{name}", f"{op.name} needs the parameter {name!r}")
            found[name] = KINDS[name](given[name], f"{path}.{name}")
            if name == "params":
                found[name] = self.inner(found["of"], found[name], f"{path}.{name}")
            self.note(found[name], f"{path}.{name}")
        return found

    def inner(self, of: str, values: list[Any], path: str) -> tuple[Any, ...]:
        """Read the parameters of the op that is applied to each example."""
        op = self.ops.get(of)
        if not isinstance(op, Structured) or len(values) != len(op.params):
            raise _wrong(path, f"{len(values)} parameters for {of!r:.60}, which is applied to each")
        return tuple(self.params(op, op.named(tuple(values)), path).values())

    def enter(self, node: Node, path: str) -> None:
        name = node.param("name")
        if name in self.names or name in self.symbols:
            raise _wrong(f"{path}.params.name", f"{name!r} stands for two things")
        self.names.add(name)

    def fits(self, shape: Any, dtype: np.dtype[Any], path: str) -> None:
        known = [d for d in shape if type(d) is int]
        if dtype.name not in DTYPES or len(shape) > RANK or min(known, default=0) < 0 or math.prod(known) > ELEMENTS:
            raise _wrong(path, f"there is no array {dtype}{shapes.show(tuple(shape))}")

    def note(self, value: Any, path: str) -> None:
        """Remember the unknown extents in a parameter, to see in the end that some input has each."""
        stack = [value]
        while stack:
            item = stack.pop()
            if isinstance(item, tuple):
                stack.extend(item)
            for symbol in getattr(item, "free_symbols", ()):
                self.symbols.setdefault(symbol.name, path)

    def arguments(self, inputs: tuple[Node, ...], path: str) -> None:
        leaves = [node for node in self.nodes if node.is_input]
        if len(set(inputs)) != len(inputs) or set(inputs) != set(leaves):
            raise _wrong(path, "they must be the input nodes, each once")

    def finish(self, inputs: tuple[Node, ...]) -> None:
        self.arguments(inputs, "inputs")
        known = {dim.name for dim in shapes.bare([node.shape for node in inputs])}
        for name, path in self.symbols.items():
            if name not in known:
                raise _wrong(path, f"no input has the extent {name!r}")
            if name in self.names:
                raise _wrong(path, f"{name!r} stands for two things")

    def requirement(self, row: Any, path: str) -> Requirement:
        row = _read_record(row, path)
        _only(row, path, "index", "extent", "axis", "otherwise", "line")
        index, extent = [_read_dim(row.get(name), f"{path}.{name}") for name in ("index", "extent")]
        self.note((index, extent), path)
        otherwise = _word(row.get("otherwise", ""), f"{path}.otherwise")
        return Requirement(index, extent, _axis(row.get("axis"), f"{path}.axis"), self.line(row, path), otherwise)

    def line(self, row: dict[str, Any], path: str) -> Line | None:
        return self.lines[_read_position(row["line"], f"{path}.line", len(self.lines))] if "line" in row else None


def _parsed(text: Any) -> Any:
    def no_constant(word: str) -> Any:
        raise ValueError(f"{word} stands in no saved program")

    if not isinstance(text, str) or len(text) > TEXT:
        raise SerializationError(f"a saved program is text of at most {TEXT} characters")
    try:
        return json.loads(text, parse_constant=no_constant)
    except (ValueError, RecursionError) as error:
        raise SerializationError(f"a saved program must be JSON: {str(error)[:200]}") from None


# -- what each field may be, with the place of one that is wrong in the error


def _wrong(path: str, what: str) -> SerializationError:
    return SerializationError(f"{path}: {what}")


def _read_record(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(path, "an object is expected")
    return value


def _only(given: dict[str, Any], path: str, *names: str) -> None:
    for name in given:
        if name not in names:
            raise _wrong(f"{path}.{name:.60}", f"not expected here (known: {', '.join(names) or 'none'})")


def _read_items(data: dict[str, Any], name: str, path: str = "") -> list[Any]:
    """Read a list, empty where there is none."""
    value = data.get(name, [])
    if not isinstance(value, list) or len(value) > NODES:
        raise _wrong(f"{path}.{name}" if path else name, f"a list of at most {NODES} is expected")
    return value


def _read_position(value: Any, path: str, count: int) -> int:
    """Read a number of something that stands before."""
    if type(value) is not int or not 0 <= value < count:
        raise _wrong(path, f"{value!r:.40} is no place among the {count} before it")
    return value


def _field_reader(holds: Callable[[Any], object], otherwise: str, of: Reader = lambda value, _: value) -> Reader:
    """Make what reads a field: as another kind of field, of which something more must hold."""

    def read(value: Any, path: str) -> Any:
        found = of(value, path)
        if not holds(found):
            raise _wrong(path, otherwise.format(value))
        return found

    return read


def _tuple(kind: Reader, most: int = RANK) -> Reader:
    def read(value: Any, path: str) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) > most:
            raise _wrong(path, f"a list of at most {most} is expected")
        return tuple([kind(item, f"{path}[{k}]") for k, item in enumerate(value)])

    return read


_word = _field_reader(
    lambda v: isinstance(v, str) and len(v) <= WORDS and v.isprintable(), "a line of printable text is expected"
)
_integer = _field_reader(lambda v: type(v) is int and abs(v) < ELEMENTS, "an integer is expected, not {!r:.40}")
_axis = _field_reader(lambda v: 0 <= v < RANK, "{} is no axis", of=_integer)
_places = _field_reader(lambda v: 0 <= v < NODES, "{} is no number of values", of=_integer)
_step = _field_reader(lambda v: v != 0, "a step of 0", of=_integer)
_run = _field_reader(lambda v: v > 0, "a run of {} steps", of=_integer)
_boolean = _field_reader(lambda v: type(v) is bool, "true or false is expected, not {!r:.40}")
_parameters = _field_reader(lambda v: isinstance(v, list), "a list of parameters is expected")
_read_name = _field_reader(lambda v: identifier(v) == v, "{!r:.60} is no name that symgrad gives", of=_word)
_read_axes = _field_reader(lambda v: len(set(v)) == len(v), "an axis is named twice", of=_tuple(_axis))
_contraction = _field_reader(
    lambda v: isinstance(v, str) and len(v) <= WORDS and re.fullmatch(r"[A-Za-z]*(,[A-Za-z]*)*->[A-Za-z]*", v),
    "{!r:.60} is no contraction, such as 'ij,jk->ik'",
)
_read_subscripts = _field_reader(
    lambda v: all(len(set(labels)) == len(labels) for labels in re.split(",|->", v)),
    "a label stands twice in one term of {!r:.60}", of=_contraction,
)


def _read_line(value: Any, path: str, before: list[Line]) -> Line:
    if not isinstance(value, list) or not 3 <= len(value) <= 5 or type(value[1]) is not int:
        raise _wrong(path, "[file, number, text] is expected, and of a derivative a suffix and the row of its owner")
    line = Line(_word(value[0], path), value[1], _word(value[2], path))
    if len(value) == 3:
        return line
    if value[3] not in {"_bar", "_dot"}:
        raise _wrong(path, f"{value[3]!r:.60} is no suffix of a derivative")
    derived = Derived.of(line, before[_read_position(value[4], path, len(before))] if len(value) == 5 else None)
    derived.suffix = value[3]
    return derived


def _read_dim(value: Any, path: str) -> Any:
    try:
        return dim_from_json(value)
    except (ValueError, TypeError, ZeroDivisionError, OverflowError) as error:
        raise _wrong(path, str(error)) from None


_read_extent = _field_reader(lambda v: type(v) is not int or 0 <= v < ELEMENTS, "{} is no extent", of=_read_dim)


def _read_dtype(value: Any, path: str) -> np.dtype[Any]:
    if not isinstance(value, str) or value not in DTYPES:
        raise _wrong(path, f"no dtype {value!r:.40}; one of {', '.join(DTYPES)}")
    return np.dtype(value)


def _read_interval(value: Any, path: str) -> tuple[Any, ...]:
    """Read one axis of a slice: ``[start, count, step]`` or ``[position]``."""
    entry: tuple[Any, ...] = _tuple(_read_dim, 3)(value, path)
    if len(entry) == 3:  # start, count, step
        _read_extent(value[1], f"{path}[1]")
        _step(value[2], f"{path}[2]")
    elif len(entry) != 1:
        raise _wrong(path, "[start, count, step] or [position] is expected")
    return entry


def _read_constant(value: Any, path: str) -> Constant:
    data = _read_record(value, path)
    _only(data, path, "dtype", "shape", "data", "name", "path")
    kind = _read_dtype(data.get("dtype"), f"{path}.dtype")
    shape = _tuple(_integer)(data.get("shape"), f"{path}.shape")
    text = data.get("data")
    try:
        content = base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        raise _wrong(f"{path}.data", "it is not base64") from None
    if min(shape, default=0) < 0 or len(content) != math.prod(shape) * kind.itemsize:
        raise _wrong(f"{path}.data", f"{len(content)} bytes for {kind}{shapes.show(shape)}")
    if kind.kind == "b" and content.strip(b"\0\1"):
        raise _wrong(f"{path}.data", "a boolean is neither 0 nor 1")
    name = _read_name(data["name"], f"{path}.name") if "name" in data else ""
    read = _word(data["path"], f"{path}.path") if "path" in data else ""
    return Constant(np.frombuffer(content, kind.newbyteorder("<")).astype(kind).reshape(shape), name, read)


KINDS: dict[str, Reader] = {
    "name": _read_name, "dtype": _read_dtype, "value": _read_constant, "subscripts": _read_subscripts, "of": _word,
    "shape": _tuple(_read_extent), "dim": _read_dim, "axes": _read_axes, "axis": _axis,
    "index": _tuple(_read_interval), "indices": _tuple(_tuple(_read_interval), NODES), "step": _step,
    "mapped": _tuple(_boolean, NODES), "params": _parameters, "runs": _tuple(_run, NODES),
    **dict.fromkeys(("extent", "count", "rows"), _read_extent),
    **dict.fromkeys(("length", "most"), lambda v, path: None if v is None else _read_extent(v, path)),
    **dict.fromkeys(("offset", "k", "exponent", "order", "wrt"), _integer),
    **dict.fromkeys(("fixed", "carried", "number"), _places), **dict.fromkeys(("sizes", "orders"), _tuple(_integer)),
    **dict.fromkeys(("upper", "unique", "lower", "unit", "trans", "checked", "reverse", "right", "complete"), _boolean),
    "outcome": _field_reader(lambda v: type(v) is bool or (type(v) is int and abs(v) < 1 << 63), "no outcome {!r:.40}"),
}
"""What an op's parameter of each name may be."""

BODIES = frozenset(["body", "test", "then", "other"])
"""The names of parameters that are programs."""
