"""The user's code: which of its lines is running, and who called (compiled code has no frame of its own)."""

from __future__ import annotations

import ast
import builtins
import dis
import functools
import importlib.machinery
import importlib.util
import inspect
import linecache
import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from traceback import walk_tb
from types import CodeType, FrameType, FunctionType, ModuleType, TracebackType
from typing import Any

import numpy as np

from symgrad.errors import Line, SymgradError, Within

# Not by pathlib, which takes 4 ms to import.
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
_ON_TOP = tuple([f"{_HERE}{os.sep}{room}{os.sep}" for room in ("features", "nn", "optim")])
_STANDARD = os.path.dirname(os.path.realpath(os.__file__)) + os.sep  # noqa: PTH120
_SITE = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_foreign: dict[str, bool] = {}
_lines: dict[tuple[str | CodeType, int], Line] = {}

NB_SUBSCR = 26
"""The argument by which BINARY_OP takes an item, from Python 3.14 on."""

_WHOLE = re.compile(r"(return\b|\w[\w.\[\]:, ]* [-+*/@]*= ).*[^,\\]")
"""How a statement begins and ends that goes over one line, where its brackets are closed."""


def is_user_code(filename: str) -> bool:
    """Whether a file is the user's, and none of symgrad, NumPy, SymPy, SciPy or Python's standard library."""
    found = _foreign.get(filename)
    if found is None:
        found = _foreign[filename] = not _is_library(filename)
    return found


def _is_library(filename: str) -> bool:
    inside = ("<frozen ", "<__array_function__", "<stringsource>", *_libraries())  # the last: Cython's own text
    if filename.startswith(inside) or filename.endswith(".pyx"):
        return True
    try:
        real = os.path.realpath(filename)
    except ValueError:  # a lone surrogate, or a null: no file has such a name
        return False
    return real.startswith(_STANDARD) and not any(site in filename for site in _SITE)


@cache
def _libraries() -> tuple[str, ...]:
    """Return the folders of symgrad, NumPy, SymPy and SciPy (which are found, not imported)."""
    specs = [importlib.util.find_spec(name) for name in ("sympy", "scipy")]
    elsewhere = [folder for spec in specs if spec is not None for folder in spec.submodule_search_locations or ()]
    found = [_HERE, os.path.dirname(np.__file__), *elsewhere]  # noqa: PTH120
    return tuple([folder.rstrip(os.sep) + os.sep for folder in found])


@cache
def in_scipy(filename: str) -> bool:
    """Whether a file is SciPy's."""
    return filename.startswith(_libraries()[2:])


@cache
def in_numpy_or_scipy(filename: str) -> bool:
    """Whether a file is NumPy's or SciPy's."""
    return filename.startswith(_libraries()[1:])


@cache
def in_symgrad(filename: str) -> bool:
    """Whether a file is symgrad's, and not written as users write."""
    return filename.startswith(_HERE + os.sep) and not filename.startswith(_ON_TOP)


@cache
def installed(filename: str) -> bool:
    """Whether a file is an installed package's."""
    return any(site in filename for site in _SITE)


def of_the_user(filename: str) -> bool:
    """Whether a module's file is the user's own and no installed package's; an empty name is a session's."""
    return not installed(filename) and not filename.startswith(_STANDARD) and is_user_code(filename)


def is_generated(code: CodeType | None) -> bool:
    """Whether code is a method that `dataclasses` or `attrs` has written: no line of the user's."""
    if code is None or code.co_filename[:1] != "<":
        return False
    if code.co_filename != "<string>":
        return code.co_filename.startswith("<attrs generated")
    qualified = getattr(code, "co_qualname", None)  # from Python 3.11 on
    return code.co_name in _GENERATED if qualified is None else qualified.startswith("__create_fn__.")


_GENERATED = frozenset({
    "__init__", "__repr__", "__eq__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__", "__setattr__", "__delattr__",
})

_ends: dict[int, CodeType] = {}  # by identity: to hash code takes longer than all else that is done for a frame


def ends_here(function: Any) -> Any:
    """Mark a function of symgrad's: what it does by itself is done for no line of the user's, whoever calls it."""
    _ends[id(function.__code__)] = function.__code__
    return function


_asks: dict[int, CodeType] = {}


def asks_for_caller(function: Any) -> Any:
    """Mark a stand-in for one of Python's own functions: what that asks of values, the code does that called it."""
    _asks[id(function.__code__)] = function.__code__
    return function


def asking(frame: FrameType) -> FrameType:
    """Return the frame of the code that asks for a value, where a frame may be of a stand-in."""
    while id(frame.f_code) in _asks and frame.f_back is not None:
        frame = frame.f_back
    return frame


def user_frame() -> FrameType | None:
    """Return the innermost frame of the user's code."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - inspect.currentframe is the same, slower
    while frame is not None:
        code = frame.f_code
        users = _foreign.get(code.co_filename)
        if (users or (users is None and is_user_code(code.co_filename))) and not (
            code.co_filename[:1] == "<" and is_generated(code)
        ):
            return frame
        if id(code) in _ends:
            return None
        frame = frame.f_back
    return None


ON_USERS_LINE = "<a plain call>"
_CALL = (lambda function, args, kwargs: function(*args, **kwargs)).__code__.replace(co_name=ON_USERS_LINE)


@functools.lru_cache(maxsize=4096)
def _call_at(file: str, number: int) -> CodeType:
    return _CALL.replace(co_filename=file, co_firstlineno=number)


def on_users_line(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call what computes with plain arrays alone from the user's line: there its warnings point, and are filtered."""
    frame = user_frame()
    if frame is None:
        return function(*args, **kwargs)
    try:
        return FunctionType(_call_at(frame.f_code.co_filename, frame.f_lineno), frame.f_globals)(function, args, kwargs)
    except Exception as error:
        at: Any = error.__traceback__  # of this function, behind which is that frame
        error.__traceback__ = at.tb_next and at.tb_next.tb_next
        raise


def local_name(array: Any) -> str:
    """Return the name by which the user's function that runs knows an array, or what it is a view of, if it has one."""
    frame = user_frame()
    if frame is None or not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        return ""
    wanted = [one for one in (array, getattr(array, "base", None)) if one is not None]
    for name, value in frame.f_locals.items():
        held = value._plain if hasattr(type(value), "begin_traced") else value  # noqa: SLF001 - a local array
        if any(held is one for one in wanted):
            return name if name.isidentifier() else ""
    return ""


def subscripts(frame: FrameType) -> bool:
    """Whether what runs in a frame takes or sets an item or a slice: ``a[i]``."""
    code, at = frame.f_code.co_code, frame.f_lasti
    name = dis.opname[code[at]]
    return "SUBSCR" in name or "SLICE" in name or (name == "BINARY_OP" and code[at + 1] == NB_SUBSCR)


def stores(frame: FrameType) -> bool:
    """Whether what runs in a frame sets an item or a slice: ``a[i] = x``."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]] in {"STORE_SUBSCR", "STORE_SLICE"}


def entries(error: BaseException) -> list[TracebackType]:
    """List the entries of an error's traceback, the innermost last."""
    found, at = [], error.__traceback__
    while at is not None:
        found.append(at)
        at = at.tb_next
    return found


def error_line(error: BaseException) -> Line | None:
    """Return the innermost line of the user's code that an error went through."""
    own = [at for at in walk_tb(error.__traceback__) if (
        is_user_code(at[0].f_code.co_filename) and not is_generated(at[0].f_code))]
    if not own:
        return None
    line = line_at(*own[-1])
    callers = [at for at in own if of_the_user(at[0].f_code.co_filename)] if installed(line.file) else []
    return Within.of(line, line_at(*callers[-1])) if callers else line


def shortened(error: Exception) -> Exception:
    """Return an error with a traceback without symgrad's frames, unless it is a fault of symgrad's.

    What symgrad refuses ends in the user's line; what the user's code or a library raises has their frames.
    """
    refused = isinstance(error, SymgradError)
    if not refused and raised_in_symgrad(error):
        return error
    made: TracebackType | None = None
    for one in reversed(entries(error)):
        name = one.tb_frame.f_code.co_filename
        again = made is not None and made.tb_frame is one.tb_frame  # the line that an error begins with, see there
        if (is_user_code(name) and not again) if refused else not name.startswith(_HERE + os.sep):
            made = TracebackType(made, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return error.with_traceback(made)


def raised_in_library(error: BaseException) -> bool:
    """Whether a library raised an error, and not the user's code."""
    files = [frame.f_code.co_filename for frame, _ in walk_tb(error.__traceback__)]
    files = files[:-1] if isinstance(error, SymgradError) and files[-1:] and is_user_code(files[-1]) else files
    return bool(files) and not is_user_code(files[-1])


def raised_by_statement(error: BaseException) -> bool:
    """Whether a `raise` of the user's code raised an error: what it says are the user's words."""
    at = entries(error)[-1:]
    return bool(at) and is_user_code(at[0].tb_frame.f_code.co_filename) and (
        dis.opname[at[0].tb_frame.f_code.co_code[at[0].tb_lasti]] == "RAISE_VARARGS")


def called_last(error: BaseException) -> tuple[str, Any]:
    """Return the name and the value of what the line called that raised an error, if that is a compiled function."""
    last = entries(error)[-1:]
    own = bool(last) and is_user_code(last[0].tb_frame.f_code.co_filename)
    return called(last[0].tb_frame, last[0].tb_lasti) if own else ("", None)


_through: set[CodeType] = set()


def passes_on(function: Any) -> Any:
    """Mark a function of symgrad's that calls what it stands for: an error of that is not symgrad's."""
    _through.add(function.__code__)
    return function


def raised_in_symgrad(error: BaseException) -> bool:
    """Whether an error came through symgrad's code after the user's last line."""
    found = False
    for frame, _ in walk_tb(error.__traceback__):
        name = frame.f_code.co_filename
        if frame.f_code in _through:
            continue
        found = name.startswith(_HERE + os.sep) or (found and not is_user_code(name))
    return found


def definition(function: object) -> Line | None:
    """Return the line where a user's function is defined."""
    code = getattr(inspect.unwrap(function) if callable(function) else None, "__code__", None)
    if code is None:
        return None
    number = code.co_firstlineno
    return Line(code.co_filename, number, linecache.getline(code.co_filename, number).strip())


def user_line() -> Line | None:
    """Return the line of the user's code that is running, None when there is none on the stack."""
    frame = user_frame()
    if frame is None:
        return None
    line = line_at(frame, frame.f_lineno)
    caller = caller_of(frame) if installed(frame.f_code.co_filename) else None
    return line if caller is None else Within.of(line, line_at(caller, caller.f_lineno))


def caller_of(frame: FrameType) -> FrameType | None:
    """Return the innermost frame of the user's own code around a frame of an installed package's."""
    at = frame.f_back
    while at is not None and not of_the_user(_file_of(at)):
        at = at.f_back
    return at


def _file_of(frame: FrameType) -> str:
    """Return the file of a frame's code; of a text that was run, that of the module it was run in."""
    name = frame.f_code.co_filename
    module = sys.modules.get(str(frame.f_globals.get("__name__"))) if name[:1] == "<" else None
    return getattr(module, "__file__", None) or name


def line_at(frame: FrameType, number: int) -> Line:
    """Return a line of a frame's code."""
    file = frame.f_code.co_filename
    is_text = file[:1] in {"", "<"}
    of = frame.f_code if is_text else file  # texts that are run have one name
    found = _lines.get((of, number))
    if found is None:
        text = statement(file, number) or (line_of_text(frame, number) if is_text else "")
        if not text and frame.f_code.co_name != "<module>":  # of a program from a pipe, whose text is gone
            text = f"in {frame.f_code.co_name}"
        found = _lines[of, number] = Line(file, number, text)
    return found


def statement(file: str, number: int) -> str:
    """Return a line's text; of a statement over several lines, its first line stands before: ``x = f( ... y,``."""
    text = linecache.getline(file, number).strip()
    if _WHOLE.fullmatch(text) and all(text.count(a) == text.count(b) for a, b in ("()", "[]", "{}")):
        return text
    first = _continued(file).get(number)
    return text if first is None else f"{linecache.getline(file, first).strip()} ... {text}"


@cache
def _continued(file: str) -> dict[int, int]:
    """Map each line that goes on with a statement to the line where that begins; of compound ones, only inside."""
    found: dict[int, int] = {}
    try:
        stack: list[ast.AST] = [ast.parse("".join(linecache.getlines(file)))]
    except (SyntaxError, ValueError, RecursionError):
        return found
    while stack:
        for node in ast.iter_child_nodes(stack.pop()):
            if hasattr(node, "body") and not isinstance(node, ast.expr):
                stack.append(node)
            elif isinstance(node, ast.stmt):
                found.update(dict.fromkeys(range(node.lineno + 1, (node.end_lineno or 0) + 1), node.lineno))
    return found


# -- lines of code that has no file: of `exec`, of ``python -c`` and of a program that Python reads from its input


_LONGEST = 1 << 20
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def line_of_text(frame: FrameType, number: int) -> str:
    """Return a line of the text that a frame's code was compiled from; nothing where that is not found.

    The text of ``exec`` is looked for in the variables of all functions that are running; a text counts if it has the
    function at its place.
    """
    inner: FrameType | None = frame
    while inner is not None and inner.f_code.co_name.endswith(("comp>", "expr>")):  # a comprehension's own
        inner = inner.f_back
    if inner is None:
        return ""
    program = inner.f_code.co_name == "<module>" and inner.f_back is None
    for text in _programs(inner.f_code.co_filename) if program else (*_programs("<"), *_variables(inner)):
        if program or _defines(text, inner.f_code):
            lines = text.splitlines()
            return lines[number - 1].strip() if number <= len(lines) else ""
    return ""


def _programs(file: str) -> Iterator[str]:
    """Return the program's own text, if it has no file."""
    if file in {"<", "<string>"} and "-c" in sys.orig_argv[:-1]:
        yield sys.orig_argv[sys.orig_argv.index("-c") + 1]
    if file in {"<", "<stdin>"}:
        try:
            yield os.pread(0, _LONGEST, 0).decode(errors="replace")  # of a file, from where it begins
        except OSError:  # a pipe or a terminal
            return


def _variables(frame: FrameType) -> Iterator[str]:
    """Return the texts that functions and their variables hold, from the innermost function outwards."""
    at: FrameType | None = frame
    while at is not None:
        for held in (at.f_code.co_consts, at.f_locals.values(), at.f_globals.values()):
            yield from [value for value in tuple(held) if type(value) is str and len(value) < _LONGEST]
        at = at.f_back


def _defines(text: str, code: CodeType) -> bool:
    """Whether a text defines the function of a code object at its line, with its arguments and the names in it."""
    if ("lambda" if code.co_name == "<lambda>" else code.co_name) not in text:
        return False
    try:
        nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, _FUNCTIONS)]
    except (SyntaxError, ValueError, RecursionError):
        return False
    for node in nodes:
        first = min([node.lineno, *[one.lineno for one in getattr(node, "decorator_list", ())]])
        words = {getattr(part, name, None) for part in ast.walk(node) for name in ("id", "attr", "arg", "name")}
        named = getattr(node, "name", "<lambda>")
        if (named, first) == (code.co_name, code.co_firstlineno) and {*code.co_names, *code.co_varnames} <= words:
            return True
    return False


# -- errors and calls


def located(error: Exception) -> Exception:
    """Add the user's line to an error that has none."""
    if isinstance(error, SymgradError) and error.line is None:
        return type(error)(error.what, line=user_line(), instead=error.instead)
    return error


_EXTENSIONS = tuple(importlib.machinery.EXTENSION_SUFFIXES)


def calls(frame: FrameType, name: str, function: Any) -> bool:
    """Whether the user's code in a frame calls `function`, which it knows as `name`.

    What an ``__array__`` makes goes to compiled code, which wants a plain array. When compiled code calls back into
    Python, the frame is that of the user's function that called the compiled code, and the call that runs there is of
    something else.
    """
    code = frame.f_code
    if not may_trace(code.co_filename) or code.co_name == "__array__":
        return False
    names = callee(code, frame.f_lasti)
    if names is None:  # unknown: Python 3.10, or a call of an expression
        return name in code.co_names or name in code.co_freevars or name in code.co_varnames
    last = names[-1] if names else ""
    return last == name or frame.f_locals.get(last, frame.f_globals.get(last)) is function


def called(frame: FrameType, at: int | None = None) -> tuple[str, Any]:
    """Return the last name of what a frame calls, and what it is: a name's value, or an attribute of a library's."""
    names, values = _path(frame, at)
    return (names[-1], values[-1]) if names else ("", None)


def spelled(frame: FrameType, at: int | None = None) -> str:
    """Return what a frame calls as its line says it, with the module's full name: ``scipy.stats.norm.fit``."""
    names, values = _path(frame, at)
    known = names and isinstance(values[0], ModuleType) and values[-1] is not None
    return ".".join((values[0].__name__, *names[1:])) if known else ""


def _path(frame: FrameType, at: int | None) -> tuple[tuple[str, ...], list[Any]]:
    """Return the names in what a frame calls and the value of each, None behind what is the user's or a result."""
    at = frame.f_lasti if at is None else at  # in Python 3.11, while it calls Python, behind the instruction
    code = frame.f_code
    names = callee(code, max([one.offset for one in dis.get_instructions(code) if one.offset <= at])) or ()
    values: list[Any] = []
    for k, name in enumerate(names):
        if not k:
            outer = frame.f_globals.get(name, getattr(builtins, name, None)) if name else None
            values.append(frame.f_locals.get(name, outer))
            continue
        known = isinstance(values[-1], ModuleType) or type(values[-1]).__module__.startswith(("numpy", "scipy"))
        values.append(getattr(values[-1], name, None) if known and name else None)
    return names, values


def place_of(instruction: dis.Instruction) -> tuple[Any, Any] | None:
    """Return where the expression of an instruction begins and ends in the source, where Python says it (from 3.11)."""
    at: Any = getattr(instruction, "positions", None)
    return None if at is None or None in at else (at[::2], at[1::2])


@functools.lru_cache(maxsize=4096)
def callee(code: CodeType, at: int) -> tuple[str, ...] | None:
    """Return the names in the expression that is called at an instruction, none for no call, None when unknown.

    An expression's instructions have its place in the source: what is called starts where the call starts and ends
    before it, and it is the longest that does. A call or an element in it has no name: ``f(x).mean`` is f, "", mean.
    """
    found: list[tuple[tuple[int, int], str]] = []
    start = end = None
    for instruction in reversed(list(dis.get_instructions(code))):
        place = place_of(instruction)
        if place is None:
            if instruction.offset == at:
                return None
            continue
        first, last = place
        if instruction.offset == at:
            if "CALL" not in instruction.opname:  # Python 3.11 calls classes before CALL, in PRECALL
                return ()
            start, end = first, last
        elif end is not None and first == start and last < end:
            if instruction.opname.startswith("LOAD_"):
                if (one := (last, str(instruction.argval))) not in found:  # the condition of a `while` stands twice
                    found.append(one)
            elif (last, "") not in found and instruction.opname not in _NO_VALUES:
                found.append((last, ""))
    return tuple([name for _, name in sorted(found)]) if any(name for _, name in found) else None


_NO_VALUES = frozenset({"CACHE", "NOP", "COPY_FREE_VARS", "PUSH_NULL", "RESUME", "KW_NAMES", "PRECALL", "EXTENDED_ARG"})


_SAYS = frozenset({
    "print", "pprint", "pp", "write", "writelines", "warn", "breakpoint", "set_description", "set_postfix",
})
_LOGS = frozenset({"debug", "info", "warning", "error", "critical", "exception"})
_SAYING = frozenset({"logging", "warnings", "traceback", "pdb", "bdb"})
"""What tells people something: functions, methods of loggers, and modules of Python's own."""
_TEXTS = frozenset({"str", "repr", "ascii", "format", "join", "map"})
_IN_TEXTS = frozenset({"__repr__", "__str__", "__format__", "<genexpr>", "<listcomp>"})
"""What makes texts of texts: functions, and code that is called for one."""
_USES = frozenset({"BINARY_SUBSCR", "STORE_SUBSCR", "DELETE_SUBSCR", "COMPARE_OP", "CONTAINS_OP"})
_SAID = re.compile(r"(raise|assert|print\(|warnings\.|log\w*\.) ?.*")


def is_said(frame: FrameType) -> bool:
    """Whether a text that is made in a frame is for people alone: it is printed, logged, or the message of an error."""
    at: FrameType | None = frame
    while at is not None and not at.f_code.co_filename.startswith(_HERE + os.sep):
        code = at.f_code
        if at.f_globals.get("__name__") in _SAYING or _is_said_at(code, at.f_lasti, at.f_lineno):
            return True
        if is_user_code(code.co_filename) and code.co_name not in _IN_TEXTS:
            return False
        at = at.f_back
    return False


@functools.lru_cache(maxsize=4096)
def _is_said_at(code: CodeType, at: int, number: int) -> bool:
    """Whether what uses the text that an instruction makes tells it, or raises: the first that is not a text again."""
    every = list(dis.get_instructions(code))
    own = place_of(max([one for one in every if one.offset <= at], key=lambda one: one.offset))
    if own is None:  # Python 3.10
        return _SAID.match(linecache.getline(code.co_filename, number).strip()) is not None
    around = [(place, one) for one in every if (place := place_of(one)) and place[0] <= own[0] and own[1] <= place[1]]
    if any(one.opname == "RAISE_VARARGS" for _, one in around):
        return True
    for _, one in sorted(around, key=lambda pair: (pair[0][1], [-k for k in pair[0][0]])):
        if one.opname in _USES or (one.opname == "BINARY_OP" and one.arg == NB_SUBSCR):
            return False
        calls = one.opname.startswith("CALL") and "INTRINSIC" not in one.opname
        names = (callee(code, one.offset) or ("",)) if calls else ()
        if names and names[-1] not in _TEXTS:
            return names[-1] in _SAYS or (len(names) > 1 and names[-1] in _LOGS)
    return False


UFUNC_METHODS = frozenset({"reduce", "accumulate", "reduceat", "outer", "at"})
_PREFIXES = frozenset({"EXTENDED_ARG", "CACHE"})


@functools.lru_cache(maxsize=4096)
def loaded_for_calls(code: CodeType) -> frozenset[int]:
    """Return where instructions load an attribute that is called at once, or by a ufunc's method, and nobody else gets.

    Of the expressions that begin where the attribute does, the next longer one is the call. Python 3.10 has no places:
    there the value is the callable of the first instruction that takes it from the stack. In Python 3.12 a frame may
    be at the end of an instruction that calls Python.
    """
    every = list(dis.get_instructions(code))
    ends: dict[Any, list[tuple[Any, bool]]] = {}
    for i in every:
        if (place := place_of(i)) is not None:
            is_other = not i.opname.startswith("CALL") or "INTRINSIC" in i.opname
            ends.setdefault(place[0], []).append((place[1], is_other))
    found: set[int] = set()
    for k, i in reversed([*enumerate(every)]):
        is_called = i.opname == "LOAD_METHOD"
        if i.opname == "LOAD_ATTR" and (place := place_of(i)) is not None:
            longer = [one for one in ends.get(place[0], ()) if one[0] > place[1]]
            is_called = not min(longer, default=(None, True))[1]
        elif i.opname == "LOAD_ATTR":
            is_called = _takes_first(every[k + 1 :])
        then = next((one for one in every[k + 1 :] if one.opname not in _PREFIXES), i)
        by_method = i.opname == "LOAD_ATTR" and then.argval in UFUNC_METHODS and then.offset in found
        if is_called or by_method:
            found.update(range(i.offset, every[k + 1].offset))
    return frozenset(found)


def _takes_first(instructions: list[dis.Instruction]) -> bool:
    """Whether a call is what takes the stack's last value first, as what it calls (in Python 3.10)."""
    depth = 1
    for i in instructions:
        depth += dis.stack_effect(i.opcode, i.arg, jump=False)
        if depth <= 1:
            return depth == 1 and i.opname.startswith("CALL_FUNCTION")
    return False


@functools.cache
def may_trace(filename: str) -> bool:
    """Whether code of a file may be given local arrays: the user's, and libraries without compiled modules.

    A library with compiled modules may hand an array to C code, which wants NumPy's own. Symgrad's own layers, columns
    and optimizers are written as users write.
    """
    if filename.startswith(_ON_TOP):
        return True
    if not is_user_code(filename):
        return False
    for folder in ("site-packages", "dist-packages"):
        head, found, tail = filename.partition(f"{os.sep}{folder}{os.sep}")
        if found:
            package = f"{head}{found}{tail.partition(os.sep)[0]}{os.sep}"
            files = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
            return not any(file.startswith(package) and file.endswith(_EXTENSIONS) for file in files)
    return True
