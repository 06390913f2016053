"""What Python's own functions make of many numbers: `max` and `min` are a choice after the other, and no branches.

Of a list that only some steps of a loop append to, and of which nothing is asked but `sum`, `len`, `max`, `min`, the
last item and whether it has any, a loop carries these in its place (`Accumulator`): however many items there are.

`sum`, `any`, `all`, `max` and `min` of a generator expression are the loop of statements that they are. Python's own
are C, which takes from a generator whatever it yields: nobody sees what is carried, and where a condition stands. The
expression is written as a `for` statement around them, ``for v in x: if v > 0: total = total + v``, from the user's
source and with the user's lines. That is a loop like any other one.
"""

from __future__ import annotations
import __future__

import ast
import dis
import functools
import gc
import inspect
import linecache
import operator
from collections.abc import Callable, Collection, Sequence
from functools import cache, lru_cache
from types import CellType, CodeType, FrameType, FunctionType, GeneratorType
from typing import Any

import numpy as np

from symgrad.ir.node import Node
from symgrad.ops.elementwise.selection import where
from symgrad.trace.constants import constant
from symgrad.trace.lines import asks_for_caller, is_user_code
from symgrad.trace.nested import settled
from symgrad.trace.state import Trace
from symgrad.trace.tracer import Tracer, as_node, outcome

EXACT = 1 << 53
"""Integers up to it are floats."""


def are_alike(trace: Trace, numbers: Sequence[Any]) -> bool:
    """Whether numbers, some of them traced, are of one dtype; plain ones may be of it where they keep their value."""
    traced = [one for one in numbers if type(one) is Tracer]
    if len({one.dtype for one in traced if one.owner is trace and one.is_number}) != 1:
        return False
    dtype = traced[0].dtype
    plain = [one for one in numbers if type(one) is not Tracer]
    fits = {int, float} if dtype.kind == "f" else {int} if dtype == np.int64 else set[type]()
    return (
        dtype.kind in "fiu" and all(one.owner is trace and one.is_number for one in traced)
        and all(type(one) in fits and not (type(one) is int and abs(one) > EXACT) for one in plain)
    )


@asks_for_caller
def _choice(
    original: Callable[..., Any], further: Callable[[Any, Any], Any], trace: Trace, frame: FrameType, *args: Any,
    **how: Any,
) -> Any:
    """Return the first of some numbers that no other one is further than, as Python finds it."""
    if len(args) == 1 and type(args[0]) is Accumulator:
        return args[0].values[original.__name__] if args[0] else original((), **how)
    if len(args) == 1 and not how and (found := folded(original.__name__, frame, args[0])) is not None:
        return found
    numbers = args if len(args) != 1 else [*args[0]]
    if how or not are_alike(trace, numbers):
        return original(*(args if len(args) != 1 else (numbers,)), **how)
    best: Any = numbers[0]
    kinds = {one.weak for one in numbers if type(one) is Tracer}
    for one in numbers[1:]:
        best = np.where(further(one, best), one, best)
        best.weak = kinds.pop() if len(kinds) == 1 else None
    return best


class Accumulator:
    """Stands for a list of numbers in the code that made it.

    Attributes:
        values, count: what is asked of the items, and how many there are, as of now.
        kind: their dtype, and what they are in Python's arithmetic; None where none is known yet.
        learn: told of another kind.
    """

    def __init__(self, trace: Trace, asked: Collection[str], kind: Any, learn: Callable[[Any], None]) -> None:
        """Begin without items."""
        self.trace, self.kind, self.learn = trace, kind, learn
        dtype, weak = kind or (np.dtype(np.int64), int)
        self.values: dict[str, Any] = {
            name: Tracer(constant(trace, np.zeros((), dtype)), trace, weak=weak) for name in sorted({*asked} - {"len"})
        }
        self.count: Any = Tracer(constant(trace, np.int64(0)), trace, weak=int)

    def append(self, value: Any) -> None:
        """Reckon with one item more."""
        value = settled(value)
        kind: Any = type(value) in {int, float} and (np.dtype(type(value)), type(value))
        if type(value) is Tracer and value.is_number and value.owner is self.trace and value.dtype.kind in "fiu":
            kind = value.dtype, value.weak
        own, count = self.values, self.count
        numbers = [*own.values()]
        if numbers and kind != self.kind and not (kind and self.kind and are_alike(self.trace, [value, numbers[0]])):
            self.learn(kind)
        self.count = count + 1
        made: dict[str, Callable[[Any], Any]] = {
            "sum": lambda total: total + value,
            "max": lambda most: np.where(np.logical_or(count == 0, value > most), value, most),
            "min": lambda least: np.where(np.logical_or(count == 0, value < least), value, least),
            "last": lambda _: self._own(as_node(self.trace, value)),
        }
        for name, before in own.items():
            own[name] = made[name](before)
            own[name].weak = before.weak

    def _own(self, node: Node) -> Tracer:
        """Return a value as a node of its own, as each variable of a loop is one."""
        there = as_node(self.trace, self.count > 0)
        return Tracer(self.trace.graph.node(where, (there, node, node), (), (), node.dtype), self.trace)

    def __bool__(self) -> bool:
        return bool(outcome(self.count > 0, "a list", "np.where(count > 0, a, b) with a count of its items"))

    def __getitem__(self, index: int) -> Any:
        return self.values["last"] if self else [][index]  # as Python refuses it


EXTREMES: dict[str, Callable[..., Any]] = {
    "max": functools.partial(_choice, max, operator.gt), "min": functools.partial(_choice, min, operator.lt),
}
"""`max` and `min` of a trace, a frame and what they are called with."""


# -- generator expressions


FOLDED = frozenset({"sum", "any", "all", "max", "min"})
"""What is written so."""
_FUTURE = __future__.annotations.compiler_flag
_ROWS, _ITEM, _TOTAL = "_symgrad_rows", "_symgrad_item", "_symgrad_total"


def folded(name: str, frame: FrameType, generator: Any, *start: Any) -> Any:
    """Return what a function makes of a generator expression that has not begun; None where it is none of the user's.

    What it reads of the variables of the frame that has made it is the loop's own, if no function in there sets it.
    """
    if type(generator) is not GeneratorType or generator.gi_code.co_name != "<genexpr>":
        return None
    code, own_frame = generator.gi_code, generator.gi_frame
    if own_frame is None or inspect.getgeneratorstate(generator) != inspect.GEN_CREATED:
        return None
    if not is_user_code(code.co_filename) or code not in frame.f_code.co_consts:
        return None
    maker = frame.f_code
    own = tuple([one for one in code.co_freevars if one in maker.co_cellvars and not _is_set_inside(maker, one)])
    loop = _loop_code(code, code.co_filename, name, own)
    cells = [one for one in gc.get_referents(generator, own_frame) if type(one) is CellType]
    held = dict(zip(code.co_freevars[::-1], cells[::-1], strict=False))
    known = own_frame.f_locals
    if loop is None or not {*code.co_freevars} <= {*held} & {*known}:
        return None
    closure = tuple([held[one] for one in loop.co_freevars])
    function = FunctionType(loop, own_frame.f_globals, code.co_name, None, closure)
    try:
        return function(*[known[one] for one in own], [known[".0"]], *start)
    except StopIteration as error:
        raise RuntimeError("generator raised StopIteration") from error  # as Python does


@cache
def _is_set_inside(code: CodeType, name: str) -> bool:
    """Whether a function within a code sets a variable of it."""
    inner = [one for one in code.co_consts if isinstance(one, CodeType) and name in one.co_freevars]
    return any(
        _is_set_inside(one, name) or any(i.argval == name and i.opname in _SETS for i in dis.get_instructions(one))
        for one in inner
    )


_SETS = frozenset({"STORE_DEREF", "DELETE_DEREF"})


@cache
def _loop_code(code: CodeType, _file: str, name: str, own: tuple[str, ...]) -> CodeType | None:
    """Write the loop of a generator expression; None where no source is there that Python makes the same code of.

    Codes are equal in several files.
    """
    expression = _expression(code, name)
    if expression is None:
        return None
    begin, each, last = _WRITTEN[name]
    body = _placed(each, expression.elt, expression.elt)
    for depth, part in reversed([*enumerate(expression.generators)]):
        for condition in reversed(part.ifs):
            body = [ast.copy_location(ast.If(condition, body, []), condition)]
        rows: Any = _placed(f"{_ROWS}.pop()", part.iter)[0]  # and no name holds it
        source = part.iter if depth else rows.value
        body = [ast.copy_location(ast.For(part.target, source, body, []), part.target)]
    names = [*own, _ROWS, *([_TOTAL] if name == "sum" else [])]
    whole = [*_placed(begin, expression), *body, *_placed(last, expression)]
    (loop,) = _codes(code, _function("loop", names, whole), "loop", expression)
    return loop.replace(co_name=code.co_name) if {*loop.co_freevars} <= {*code.co_freevars} else None


def _expression(code: CodeType, name: str) -> ast.GeneratorExp | None:
    """Find the source of a generator expression that is written in a function's call, where no one else has it."""
    for call in ast.walk(_tree(code.co_filename)):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == name and call.args):
            continue
        node = call.args[0]
        if isinstance(node, ast.GeneratorExp) and node.lineno == code.co_firstlineno:
            inside = [*ast.walk(node)]
            named = any(isinstance(one, ast.NamedExpr) for one in inside)
            looks = any(isinstance(one, ast.Name) and one.id in _LOOKS for one in inside)
            if not named and not looks and code in _codes(code, ast.copy_location(ast.Return(node), node), "", node):
                return node
    return None


_LOOKS = frozenset({"locals", "vars", "dir", "eval", "exec"})
"""Functions that see which names there are."""


@lru_cache(maxsize=16)
def _tree(filename: str) -> ast.Module:
    try:
        return ast.parse("".join(linecache.getlines(filename)))
    except SyntaxError:
        return ast.Module([], [])


def _codes(code: CodeType, body: ast.stmt, name: str, at: ast.expr) -> list[CodeType]:
    """Compile a statement where a code's free variables are a function's; return the codes of functions in it."""
    every = [body, ast.Return(ast.Name(name, ast.Load()))] if name else [body]
    outer = ast.copy_location(_function("closure", list(code.co_freevars), every), at)
    imports = [one for one in _tree(code.co_filename).body if isinstance(one, (ast.Import, ast.ImportFrom))]
    module = ast.fix_missing_locations(ast.Module([*imports, outer], []))  # calls of what is imported are other code
    made = compile(module, code.co_filename, "exec", code.co_flags & _FUTURE, dont_inherit=True)
    (closure,) = [one for one in made.co_consts if isinstance(one, CodeType)]
    return [one for one in closure.co_consts if isinstance(one, CodeType)]


def _function(name: str, names: list[str], body: list[Any]) -> ast.FunctionDef:
    made: Any = ast.parse(f"def {name}({', '.join(names)}): ...").body[0]
    made.body = body
    return made  # type: ignore[no-any-return]


def _placed(text: str, at: ast.expr, item: ast.expr | None = None) -> list[ast.stmt]:
    """Return statements with a place in the user's source, and an item in the place of ``...``."""

    class Placing(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            if item is not None and isinstance(node, ast.Constant) and node.value is ...:
                return item
            return self.generic_visit(ast.copy_location(node, at))

    made: ast.Module = Placing().visit(ast.parse(text))
    return made.body


_ADDED, _KEPT = f"{_ITEM} = ...; {_TOTAL} = {_TOTAL} + {_ITEM}", f"{_ITEM} = ...; {_TOTAL}.append({_ITEM})"
_WRITTEN: dict[str, tuple[str, str, str]] = {
    "sum": ("", _ADDED, f"return {_TOTAL}"),
    "any": ("", "if ...: return True", "return False"), "all": ("", "if not ...: return False", "return True"),
    **{name: (f"{_TOTAL} = []", _KEPT, f"return {name}({_TOTAL})") for name in ("max", "min")},
}
"""How it begins, what is done with each item, and how it ends."""
