"""What the user's code says of a loop: where a condition stands, which names are read, what else may change."""

from __future__ import annotations

import dis
from functools import cache
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.trace.lines import is_user_code

if TYPE_CHECKING:
    from symgrad.trace.branches import Moment


@cache
def position(code: CodeType, at: int) -> Any:
    """Return where an instruction stands in the source: a compiler may repeat a loop's condition behind its body."""
    every = getattr(code, "co_positions", None)
    if every is None:
        return next((line for first, end, line in code.co_lines() if first <= at < end), None)
    return list(every())[at // 2]


@cache
def names_read(code: CodeType) -> frozenset[str]:
    """Return the names that a code reads."""
    return frozenset([str(i.argval) for i in dis.get_instructions(code) if i.opname.startswith("LOAD_")])


@cache
def runs_out(code: CodeType, at: int) -> bool:
    """Whether an instruction stands in a `for` loop, which ends by itself."""
    instructions = list(dis.get_instructions(code))
    back = [i for i in instructions if "JUMP" in i.opname and isinstance(i.argval, int) and i.argval <= at <= i.offset]
    inner = max([i.argval for i in back], default=None)
    return next((i.opname for i in instructions if i.offset == inner), "FOR_ITER") == "FOR_ITER"


def remembers(moment: Moment) -> bool:
    """Whether rounds may go another way by what is no variable: attributes, globals, iterators, objects of the user's.

    Functions that are called by their names are looked into.
    """
    codes = [(moment.code, moment.globals)]
    seen: set[CodeType] = set()
    plain = [value.value for value in moment.variables.values() if type(value).__name__ == "Opaque"]
    while codes:
        code, names = codes.pop()
        if code in seen:
            continue
        seen.add(code)
        for i in dis.get_instructions(code):
            if i.opname in _CHANGES or (i.opname in {"LOAD_GLOBAL", "LOAD_NAME"} and i.argval in _WALKS):
                return True
            if i.opname in {"LOAD_GLOBAL", "LOAD_NAME"} and i.argval in names:
                plain.append(names[i.argval])
        codes += [(one, names) for one in code.co_consts if isinstance(one, CodeType)]
        while plain:
            value = plain.pop()
            value = getattr(value, "__wrapped__", value)
            if isinstance(value, FunctionType):
                if is_user_code(value.__code__.co_filename):
                    codes.append((value.__code__, value.__globals__))
                    plain += [cell.cell_contents for cell in value.__closure__ or () if _is_full(cell)]
            elif not isinstance(value, _STILL) and not type(value).__module__.startswith(("symgrad", "numpy", "scipy")):
                return True
    return False


_CHANGES = frozenset({"STORE_ATTR", "STORE_GLOBAL", "STORE_DEREF", "DELETE_ATTR", "DELETE_GLOBAL", "YIELD_VALUE"})
_WALKS = frozenset({"next", "iter", "setattr", "exec", "eval"})
_STILL = (ModuleType, type, BuiltinFunctionType, np.ndarray, np.generic, np.ufunc, np.dtype, str, bool, int, float,
          type(None), tuple, list, dict, range, slice)
"""What keeps nothing that a call of it could change, or is looked at from moment to moment."""


def _is_full(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False
