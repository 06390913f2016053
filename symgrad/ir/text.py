"""A program's text: Python that can be read, compared, pasted and run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from symgrad.ir.index.shapes import bare
from symgrad.ir.names import identifier
from symgrad.ir.node import Constant, Node
from symgrad.ir.program import Program, bodies

HEADER = "import numpy as np\nimport scipy.special\nfrom symgrad import ops\n"


def as_text(program: Program, *, lines: bool = True) -> str:
    """Print a program as a Python module with one function (with the user's lines as comments)."""
    return "\n".join([HEADER, "", *_function_lines(program, program.name, lines), ""])


def _function_lines(program: Program, called: str, lines: bool) -> list[str]:
    """Print a program as a function, and before a node that holds programs these."""
    within: dict[Program, str] = {}
    names: dict[Node, str] = {node: node.param("name") for node in program.inputs}
    found = bare([node.shape for node in program.inputs])
    body = [f"{dim} = {names[program.inputs[k]]}.shape[{axis}]" for dim, (k, axis) in found.items()]
    for node in program.nodes():
        if node in names:
            continue
        names[node] = f"v{len(names) - len(program.inputs)}"
        for held in bodies(node):
            if held not in within:
                within[held] = identifier(held.name, [*names.values(), *within.values()])
                body += _function_lines(held, within[held], lines)
        text = f"{names[node]} = {expression(node, [names[i] for i in node.inputs], within)}"
        body.append(f"{text}  # {node.line}" if lines and node.line is not None else text)
    outputs = ", ".join(names[o] for o in program.results)
    body.append(f"return {outputs}{',' if len(program.results) == 1 else ''}")
    parameters = [f'{names[i]}: "{i.dtype.name}[{",".join(map(str, i.shape))}]"' for i in program.inputs]
    head = f"def {called}({', '.join(parameters)}):"
    return [head, *["    " + line for line in body]]


def expression(node: Node, names: list[str], within: Mapping[Program, str] | None = None) -> str:
    """Print one node, given the names of its inputs and of the programs that it holds."""
    if node.op.text is not None:
        return node.op.text(node, names)
    called = within or {}
    params = [
        f"{name}={called[value] if isinstance(value, Program) else show(value)}"
        for name, value in zip(node.op.params, node.params, strict=True)
    ]
    return f"ops.{node.op.name}({', '.join(names + params)})"


def show(value: Any) -> str:
    """Print a parameter as Python source."""
    if isinstance(value, np.dtype):
        return f'"{value.name}"'
    if isinstance(value, Constant):
        return constant_text(value.array)
    if isinstance(value, tuple):
        inner = ", ".join(map(show, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, str):
        return repr(value)
    return str(value)


def constant_text(array: np.ndarray[Any, Any]) -> str:
    """Print an array as NumPy source that gives its exact value back."""
    if array.ndim == 0:
        item = array.item()
        text = repr(item) if array.dtype.kind in "biu" or np.isfinite(array) else f'float("{item}")'
        return f"np.{array.dtype.name}({text})" if array.dtype.kind != "b" else f"np.bool({text})"
    values = np.array2string(
        array, separator=", ", threshold=array.size + 1, floatmode="unique", max_line_width=1 << 30
    )
    values = values.replace("nan", "np.nan").replace("inf", "np.inf").replace("\n", "")
    return f'np.array({values}, dtype="{array.dtype.name}").reshape({array.shape})'
