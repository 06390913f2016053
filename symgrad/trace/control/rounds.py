"""What the user's code says of a loop: where a condition stands, which names are read, what else may change."""

from __future__ import annotations

import dis
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from inspect import CO_OPTIMIZED, CO_VARARGS, CO_VARKEYWORDS
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.trace.lines import is_user_code

if TYPE_CHECKING:
    from symgrad.trace.control.branches import Moment


@cache
def position(code: CodeType, at: int) -> Any:
    """Return where an instruction stands in the source: a compiler may repeat a loop's condition behind its body."""
    every = getattr(code, "co_positions", None)
    if every is None:
        return next((line for first, end, line in code.co_lines() if first <= at < end), None)
    return list(every())[at // 2]


@cache
def _flow(code: CodeType) -> tuple[list[dis.Instruction], dict[int, int], list[list[int]]]:
    """Return the instructions of a code, the place of each by its offset, and the places that may follow each."""
    every = list(dis.get_instructions(code))
    number = {i.offset: k for k, i in enumerate(every)}
    after: list[list[int]] = []
    for k, i in enumerate(every):
        leaves = i.opname.startswith(("RETURN_", "RAISE_", "RERAISE", "JUMP_")) and "IF" not in i.opname
        after.append([] if leaves or k + 1 == len(every) else [k + 1])
        if i.opcode in _JUMPS:
            after[-1].append(number[i.argval])
    return every, number, after


@cache
def begun_at(code: CodeType, at: int) -> int:
    """Return where the instruction begins that a frame is in: Python 3.11 is behind it while it calls Python."""
    every, number, _ = _flow(code)
    return at if at in number else max([i.offset for i in every if i.offset <= at], default=at)


@cache
def _handles(code: CodeType) -> bool:
    """Whether a code has handlers of exceptions."""
    every, _, _ = _flow(code)
    return bool(getattr(code, "co_exceptiontable", b"")) or any(i.opname.startswith("SETUP_") for i in every)


@cache
def _alive(code: CodeType) -> list[frozenset[str]] | None:
    """Return the names that may be read, before they are set, from each instruction on; None where any may be.

    A counter that is read to be counted on alone (``n += 1``) is read by nobody.
    """
    every, _, after = _flow(code)
    if _handles(code) or not code.co_flags & CO_OPTIMIZED:
        return None  # a handler goes on from anywhere; a module's names others read
    reads, counts = _round_reads(code), {k for k in range(len(every) - 3) if _counts_on(every[k : k + 4])}
    alive: list[frozenset[str]] = [frozenset()] * len(every)
    changed = True
    while changed:
        changed = False
        for k in reversed(range(len(every))):
            sets = {str(every[k].argval)} if every[k].opname == "STORE_FAST" else set[str]()
            later = frozenset[str]().union(*[alive[n] for n in after[k + 3]]) if k in counts else reads[k]
            found = (reads[k] & later) | frozenset[str]().union(*[alive[n] for n in after[k]]) - sets
            changed |= found != alive[k]
            alive[k] = found
    return alive


def _counts_on(words: list[dis.Instruction]) -> bool:
    """Whether instructions are an assignment such as ``n += 1``, of a variable and a number that stands there."""
    first, second, third, last = words
    return (
        first.opname.startswith("LOAD_FAST") and second.opname in {"LOAD_CONST", "LOAD_SMALL_INT"}
        and type(second.argval) in {int, float} and third.opname.startswith(("BINARY_OP", "BINARY_ADD", "BINARY_SUB",
                                                                             "INPLACE_ADD", "INPLACE_SUB"))
        and last.opname == "STORE_FAST" and last.argval == first.argval
        and not any(one.is_jump_target for one in (second, third, last))
    )


@cache
def _round_reads(code: CodeType) -> list[frozenset[str]]:
    every, _, _ = _flow(code)
    return [frozenset(map(str, i.argval if isinstance(i.argval, tuple) else (i.argval,)))
            if i.opname.startswith(("LOAD_", "STORE_FAST_", "DELETE_")) else frozenset() for i in every]


@cache
def _pending(code: CodeType) -> list[frozenset[str]]:
    """Return the names read for what is on the stack before each instruction, as ``n`` in ``n + (1 if c else 2)``."""
    every, _, after = _flow(code)
    reads = _round_reads(code)
    hidden = {i.argval for i in every if i.opname == "LOAD_FAST_AND_CLEAR"}  # names of comprehensions: no statements
    pending: list[frozenset[str]] = [frozenset()] * len(every)
    stack = [*range(len(every))]
    while stack:
        k = stack.pop()
        i = every[k]
        inner = every[k - 1].opname in {"COPY", "DUP_TOP"} or i.argval in hidden
        ends = i.opname.startswith("STORE_") and not inner  # a statement; in the same word another may begin
        found = (frozenset() if ends else pending[k]) | (reads[k] if "LOAD_" in i.opname else frozenset())
        for n in after[k]:
            if n > k and not found <= pending[n]:  # where a loop begins the stack is what it was before the first round
                pending[n] |= found
                stack.append(n)
    return pending


@cache
def names_alive(code: CodeType, at: int, *, inside: bool = False) -> frozenset[str]:
    """Return the names that may be read, before they are set, after an instruction, or were for what waits for it.

    Of a `for` that takes its next item these are those of a round, or of what comes behind the loop as well.
    """
    _, number, after = _flow(code)
    alive = _alive(code)
    if alive is None or at not in number:
        return frozenset[str]().union(*_round_reads(code))
    waits = _pending(code)[number[at]] & {*code.co_varnames}
    ahead = after[_past_prefix(code, at)][: 1 if inside else None]
    return waits.union(*[alive[n] for n in ahead], code.co_cellvars, code.co_freevars)


@cache
def carried_names(code: CodeType, head: int) -> tuple[str, ...]:
    """Return the variables that a loop sets, and that may be read from its beginning on before they are."""
    _, number, _ = _flow(code)
    alive = _alive(code)
    read = frozenset[str]().union(*_round_reads(code)) if alive is None else alive[number[head]]
    return tuple([name for name in _set_in(code, head) if name in read or name in code.co_cellvars])


@cache
def _loops(code: CodeType) -> dict[int, tuple[int, int]]:
    """Map where rounds of loops begin to the first and the last instructions of these.

    That is behind the condition of a `while`, which is repeated at its end; a `continue` goes back before it.
    """
    found: dict[int, tuple[int, int]] = {}
    for i in _flow(code)[0]:
        if "JUMP" in i.opname and isinstance(i.argval, int) and i.argval <= i.offset:
            begin, end = found.get(i.argval, (i.argval, -1))
            found[i.argval] = begin, max(end, i.offset)
    for head in sorted(found):
        begin, end = found[head]
        for other in [other for other in found if begin < other <= end < found[other][1]]:
            found[other] = min(begin, found[other][0]), found[other][1]
            found.pop(head, None)
    return found


@cache
def loops_around(code: CodeType, at: int) -> tuple[tuple[int, int], ...]:
    """Return where the loops begin and end that an instruction stands in, the innermost first."""
    around = [(head, end) for head, (begin, end) in _loops(code).items() if begin <= at <= end]
    return tuple(sorted(around, reverse=True))


def is_in_loop(code: CodeType, head: int, at: int) -> bool:
    """Whether an instruction stands in a loop."""
    begin, end = _loops(code).get(head, (0, -1))
    return begin <= at <= end


def loop_around(code: CodeType, at: int) -> tuple[int, int]:
    """Return where the innermost loop begins and ends that an instruction stands in; nowhere without one."""
    return next(iter(loops_around(code, at)), (-1, -1))


def runs_out(code: CodeType, at: int) -> int | None:
    """Return where the `for` that an instruction stands in takes its next item; None in others."""
    every, number, _ = _flow(code)
    head, _ = loop_around(code, at)
    first = every[_past_prefix(code, head)] if head in number else None
    return first.offset if first is not None and first.opname == "FOR_ITER" else None


def range_over(moment: Moment) -> range | None:
    """Return what the `for` goes over that asked a condition, if that is a range of plain numbers; else None."""
    code, head = moment.code, runs_out(moment.code, moment.at)
    every = [i for i in _flow(code)[0] if i.opname not in _IDLE]
    k = next((k for k, i in enumerate(every) if i.offset == head), 0)
    call = every[k - 2]
    count = call.argval if call.opname.startswith("CALL") and every[k - 1].opname == "GET_ITER" else None
    if not isinstance(count, int) or not 0 < count <= min(k, 3):
        return None
    function, *given = every[k - 3 - count : k - 2]
    own = moment.globals.get("range", range)
    if (function.opname, function.argval) != ("LOAD_GLOBAL", "range") or getattr(own, "original", own) is not range:
        return None
    changed = _set_in(code, loop_around(code, moment.at)[0])
    numbers: list[Any] = [
        i.argval if i.opname in {"LOAD_CONST", "LOAD_SMALL_INT"}
        else moment.globals.get(i.argval) if i.opname == "LOAD_GLOBAL"
        else moment.variables.get((i.argval, None, 0)) if i.opname.startswith("LOAD_") and i.argval not in changed
        else None for i in given
    ]
    return range(*numbers) if all(type(number) is int for number in numbers) else None


def round_number(moment: Moment) -> int | None:
    """Return in which round such a `for` asked; None where its variable is no plain number, or set elsewhere, too."""
    over, every = range_over(moment), _flow(moment.code)[0]
    head = runs_out(moment.code, moment.at)
    takes = next((i for i in every if i.offset > (head or 0) and i.opname not in _IDLE), None)
    if over is None or takes is None or not takes.opname.startswith("STORE_FAST"):
        return None
    name = takes.argval[0] if isinstance(takes.argval, tuple) else takes.argval  # newer ones do two things at once
    item = moment.variables.get((name, None, 0))
    once = _assigned(moment.code, loop_around(moment.code, moment.at)[0]).count(name) == 1
    return over.index(item) if type(item) is int and item in over and once else None


def begins_again(asked: Sequence[Moment]) -> list[int]:
    """Return where a `for` over a range begins anew among moments at which it asked in each round, if this is known."""
    numbers = [-1 if (number := round_number(one)) is None else number for one in asked]
    return [] if -1 in numbers else [k for k in range(1, len(asked)) if numbers[k] != numbers[k - 1] + 1]


@cache
def falls_out(code: CodeType, head: int) -> tuple[int, frozenset[int]]:
    """Return where a `for` goes on that runs out, and the instructions by which a `break` goes on there as well."""
    every, number, _ = _flow(code)
    first = number[every[_past_prefix(code, head)].argval]
    if every[first].opname == "END_FOR":
        first += 1 + (every[first + 1].opname in _POPS)

    def settled(k: int) -> int:
        while every[k].opname in _GOES_ON:
            k = number[every[k].argval] if every[k].opcode in _JUMPS else k + 1
        return every[k].offset

    pops = [k for k, i in enumerate(every[:-1]) if i.opname in _POPS and head <= i.offset]
    return settled(first), frozenset([every[k].offset for k in pops if settled(k + 1) == settled(first)])


_POPS = frozenset({"POP_TOP", "POP_ITER"})
_GOES_ON = frozenset({"JUMP_FORWARD", "JUMP_ABSOLUTE", "JUMP_BACKWARD", "NOP", "EXTENDED_ARG"})


def _past_prefix(code: CodeType, at: int) -> int:
    """Return the place of the instruction that begins somewhere: far jumps have a prefix or two."""
    every, number, _ = _flow(code)
    return next(k for k in range(number[at], len(every)) if every[k].opname != "EXTENDED_ARG")


@cache
def goes_round(code: CodeType, head: int) -> frozenset[int]:
    """Return the instructions of a loop from which it may go on to another round."""
    every, number, after = _flow(code)
    found = {number[head]} if head in number else set[int]()
    inside = [k for k, i in enumerate(every) if is_in_loop(code, head, i.offset)]
    count = 0
    while len(found) > count:
        count = len(found)
        found |= {k for k in inside if not found.isdisjoint(after[k])}
    return frozenset([every[k].offset for k in found])


def led_to(code: CodeType, at: int, outcome: Any) -> int:
    """Return the instruction that follows where a condition that an instruction asks comes to something; -1 if none."""
    every, number, _ = _flow(code)
    k = number[at] + ("IF_" not in every[number[at]].opname)
    i = every[min(k, len(every) - 1)]
    if not i.opname.endswith(("IF_TRUE", "IF_FALSE")) or "OR_POP" in i.opname:
        return -1
    return int(i.argval) if i.opname.endswith("IF_TRUE") == outcome else every[k + 1].offset


@cache
def turns(code: CodeType, *, fors: bool = False) -> dict[Any, tuple[int, bool]]:
    """Map the places of conditions by which a `while` ends to it, and to what they come to where it goes on.

    With `fors` come those by which a `for` is left.
    """
    every, _, _ = _flow(code)
    found = {}
    for i in every:
        head, _ = loop_around(code, i.offset)
        if head >= 0 and "IF_" in i.opname and (fors or runs_out(code, i.offset) is None):
            goes_on, ends = [led_to(code, i.offset, side) in goes_round(code, head) for side in (True, False)]
            if goes_on is not ends:
                found[position(code, i.offset)] = head, goes_on
    return found


def names_behind(code: CodeType, at: int) -> frozenset[str]:
    """Return the names that may be read, before they are set, from where a statement begins on."""
    _, number, _ = _flow(code)
    alive = _alive(code)
    if alive is None:
        return frozenset[str]().union(*_round_reads(code))
    return alive[number[at]].union(code.co_cellvars, code.co_freevars)


@cache
def left_names(code: CodeType, head: int, at: int) -> tuple[str, ...]:
    """Return the variables that a loop sets and that may be read where it is left."""
    return tuple([name for name in _set_in(code, head) if name in names_behind(code, at)])


def _set_in(code: CodeType, head: int) -> list[str]:
    """List the variables that a loop sets."""
    return [*dict.fromkeys(_assigned(code, head))]


def _assigned(code: CodeType, head: int) -> list[str]:
    """List the variables that a loop sets, as often as it does; one instruction may do two things with such."""
    every, number, _ = _flow(code)
    _, end = loop_around(code, head)
    found: list[str] = []
    for i in every[number[head] :]:
        if i.offset <= end and (i.opname.startswith("STORE_FAST") or sets_own_cell(code, i)):
            kinds = i.opname.split("_FAST")
            names = i.argval if isinstance(i.argval, tuple) else (i.argval,)
            found += [name for kind, name in zip(kinds, names, strict=False) if kind.endswith(("STORE", "STORE_DEREF"))]
    return found


def sets_own_cell(code: CodeType, i: dis.Instruction) -> bool:
    """Whether an instruction sets a variable of its code that functions in it read, as comprehensions do."""
    return i.opname == "STORE_DEREF" and i.argval in code.co_cellvars


@cache
def _words(code: CodeType) -> list[tuple[str, Any]]:
    """List what a code does and with what; one instruction may do two things with local variables."""
    words: list[tuple[str, Any]] = []
    for i in dis.get_instructions(code):
        kinds = re.findall("(?:LOAD|STORE|DELETE)_FAST", i.opname) if isinstance(i.argval, tuple) else [i.opname]
        words += zip(kinds, i.argval if len(kinds) > 1 else (i.argval,), strict=False)
    return words


@cache
def reduced_lists(code: CodeType) -> dict[str, frozenset[str]]:
    """Map lists that only a code has in its hands to what it asks of them: `sum`, `len`, `max`, `min`, ``last``.

    >>> def f(x):
    ...     out, kept = [], []
    ...     big = []
    ...     for v in x:
    ...         if v > 1: big.append(v); kept.append(v)
    ...     return sum(big) / len(big), kept
    >>> {name: sorted(asked) for name, asked in reduced_lists(f.__code__).items()}
    {'big': ['len', 'sum']}
    """
    if not {"locals", "vars", "eval", "exec"}.isdisjoint(code.co_names):
        return {}
    words = [word for word in _words(code) if word[0] not in _IDLE]
    found: dict[str, set[str]] = {}
    more = bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
    others = {*code.co_cellvars, *code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + more]}
    for k, (kind, name) in enumerate(words):
        if "_FAST" not in kind:
            continue
        (before, function), (after, argument), (then, _) = words[k - 1], *[*words, _END, _END][k + 1 : k + 3]
        if kind == "STORE_FAST" and before in {"BUILD_LIST", "LIST_EXTEND"}:
            found.setdefault(name, set())
        elif "LOAD" in kind and argument == "append" and after in {"LOAD_ATTR", "LOAD_METHOD"}:
            pass
        elif "LOAD" in kind and ("IF_" in after or after == "UNARY_NOT"):
            found.setdefault(name, set()).add("len")
        elif "LOAD" in kind and (after, argument) in _CALLS and before == "LOAD_GLOBAL" and function in _REDUCES:
            found.setdefault(name, set()).add(function)
        elif "LOAD" in kind and (after, argument, then) == ("LOAD_CONST", -1, "BINARY_SUBSCR"):
            found.setdefault(name, set()).add("last")
        else:
            others.add(name)
    return {name: frozenset(asked) for name, asked in found.items() if name not in others}


_IDLE = frozenset({"EXTENDED_ARG", "PRECALL", "CACHE", "NOP", "PUSH_NULL", "TO_BOOL", "RESUME"})
_REDUCES = frozenset({"sum", "len", "max", "min"})
_CALLS = ("CALL", 1), ("CALL_FUNCTION", 1)
_END = "", None


def breaks(code: CodeType, at: int, outcomes: Mapping[int, Any]) -> bool:
    """Whether a loop is left, for no other round, after a condition in it; `outcomes` are those asked from there on."""
    every, number, after = _flow(code)
    head, _ = loop_around(code, at)
    handled = _handles(code)  # a loop may go on after what it raises
    stack, seen = [number[at]], set[int]()
    while stack:
        k = stack.pop()
        i = every[k]
        if i.offset == head or (handled and "RAISE" in i.opname):
            return False
        if k in seen or not is_in_loop(code, head, i.offset):
            continue
        seen.add(k)
        asked = every[k - 1] if k and every[k - 1].opname in {"TO_BOOL", "COMPARE_OP"} and (
            every[k - 1].offset in outcomes) else i  # from Python 3.13 on what compares may ask
        if asked.offset in outcomes and "IF_" in i.opname:
            stack.append(number[i.argval] if ("IF_TRUE" in i.opname) == outcomes[asked.offset] else k + 1)
        else:
            stack += after[k]
    return True


def known_by(value: Any) -> Any:
    """Return what a variable is told apart by: 0.0 is not -0.0, nor is 1.0 or True 1."""
    return repr(value) if type(value) is float else (type(value), value)


@cache
def unpacked(code: CodeType, argument: str) -> Any:
    """Return how a function names the parts of an argument, as in ``h, (m, P) = carry``; the argument if it does not.

    >>> def step(carry, x):
    ...     h, (m, P) = carry
    >>> unpacked(step.__code__, "carry"), unpacked(step.__code__, "x")
    (['h', ['m', 'P']], 'x')
    """
    words = _words(code)
    begin = [k for k, (kind, value) in enumerate(words) if kind == "UNPACK_SEQUENCE" and words[k - 1][1] == argument]
    rest = iter(words[begin[0] :] if begin else ())

    def parsed() -> Any:
        kind, value = next(rest)
        if kind == "UNPACK_SEQUENCE":
            return [parsed() for _ in range(value)]
        return value if kind in {"STORE_FAST", "STORE_DEREF"} else None

    return parsed() if begin else argument


def remembers(moment: Moment) -> bool:
    """Whether rounds may go another way by what is no variable: attributes, globals, iterators, objects of the user's.

    Functions that are called by their names are looked into. A generator expression has no state but where it is: one
    that rounds go on with is a variable.
    """
    codes = [(moment.code, moment.globals)]
    seen: set[CodeType] = set()
    looked_into: set[FunctionType] = set()  # one that calls itself, or another that calls it, has itself around it
    opaque = [value.value for value in moment.variables.values() if type(value).__name__ == "Opaque"]
    plain: list[tuple[Any, CodeType]] = [(value, moment.code) for value in opaque]
    while codes:
        code, names = codes.pop()
        if code in seen:
            continue
        seen.add(code)
        for i in _flow(code)[0]:
            yields = (i.opname, code.co_name) == ("YIELD_VALUE", "<genexpr>")
            if (i.opname in _CHANGES and not yields and not sets_own_cell(code, i)) or (
                i.opname in {"LOAD_GLOBAL", "LOAD_NAME"} and i.argval in _WALKS
            ) or (i.argval in _SPACES and i.opname.startswith("LOAD_")):
                return True
            if i.opname in {"LOAD_GLOBAL", "LOAD_NAME"} and i.argval in names and i.argval.isidentifier():
                plain.append((names[i.argval], code))
        codes += [(one, names) for one in code.co_consts if isinstance(one, CodeType)]
        while plain:
            value, user = plain.pop()
            if not isinstance(value, FunctionType):  # one has what it wraps from the code around it
                value = getattr(value, "__wrapped__", value)
            if isinstance(value, FunctionType):
                if value not in looked_into and is_user_code(value.__code__.co_filename):
                    looked_into.add(value)
                    codes.append((value.__code__, value.__globals__))
                    defaults = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
                    plain += [(one, value.__code__) for one in (*contents(value).values(), *defaults)]
            elif isinstance(value, BuiltinFunctionType):  # a method of a list changes the list
                plain += [] if isinstance(value.__self__, ModuleType) else [(value.__self__, user)]
            elif isinstance(value, tuple):
                plain += [(one, user) for one in value]
            elif isinstance(value, ModuleType):
                if is_user_code(getattr(value, "__file__", None) or "<frozen "):
                    plain += [(vars(value)[name], user) for name in user.co_names if name in vars(value)]
            elif isinstance(value, type):  # the user's may count its calls
                home = sys.modules.get(value.__module__)
                if is_user_code(getattr(home, "__file__", None) or "<frozen "):
                    return True
            elif not isinstance(value, _STILL) and not type(value).__module__.startswith(("symgrad", "numpy", "scipy")):
                return True
    return False


_JUMPS = frozenset({*dis.hasjrel, *dis.hasjabs})
_CHANGES = frozenset({"STORE_ATTR", "STORE_GLOBAL", "STORE_DEREF", "DELETE_ATTR", "DELETE_GLOBAL", "YIELD_VALUE"})
_WALKS = frozenset({"next", "iter", "setattr", "exec", "eval", "globals", "vars", "locals"})
_SPACES = frozenset({"__dict__", "__globals__", "__closure__", "__defaults__", "__kwdefaults__"})
_STILL = (
    BuiltinFunctionType, np.ndarray, np.generic, np.ufunc, np.dtype, str, bool, int, float, type(None), range, slice,
)
"""What keeps nothing that a call of it could change; an array that is written while a function is traced is refused."""


def contents(function: FunctionType) -> dict[str, Any]:
    """Return what a function has from the code around it, as far as it is set, by the names."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):
            found[name] = cell.cell_contents
    return found
