"""What a function's code reads, by its bytecode: names, attributes, keys, modules, objects as a whole."""

from __future__ import annotations

import dis
import types
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from symgrad.trace.lines import NB_SUBSCR

Paths = frozenset[tuple[Any, ...]]
EVERY: Paths = frozenset({()})

SHOWN = frozenset({"__format__", "__str__", "__repr__"})
"""Methods that make a text of an object."""
WHOLE = frozenset({"asdict", "astuple", "fields", "repr", "copy", "deepcopy", "replace", "evolve", "dir"})
"""What reads all attributes of an object."""
_BY_NAME = frozenset({
    "getattr", "hasattr", "attrgetter", "itemgetter", "methodcaller", "vars", "globals", "__dict__", "__getattribute__",
})
"""What reads attributes, keys and globals by texts in the code."""
_FINDS_MODULES = frozenset({"import_module", "__import__", "modules"})
"""What finds modules by texts in the code."""
_CATCHES = frozenset({"AttributeError", "Exception", "BaseException", "suppress"})
"""What code names that goes on where an attribute is missing."""
_COMPUTE = frozenset({"getattr", "attrgetter", "vars", "__dict__", "__getattribute__"})


_ORDERS = frozenset({
    "min", "max", "sorted", "sort", "index", "count", "remove", "set", "frozenset", "bisect", "bisect_left",
    "bisect_right", "insort", "heapify", "heappush", "heappop", "heapreplace", "nsmallest", "nlargest", "groupby",
    "eq", "ne", "lt", "le", "gt", "ge", "contains", "countOf", "indexOf", "hash", "get", "pop", "setdefault",
})
"""What compares what it is given, or looks it up."""


class Import(NamedTuple):
    """A module that code imports, or finds by a text.

    Attributes:
        level: how many dots stand before its name.
        attribute: what is imported from it; None for the module itself.
        alias: the name that it has in the code; None for none.
    """

    level: int
    module: str
    attribute: str | None = None
    alias: str | None = None


class CodeReads(NamedTuple):
    """What code reads: each with the constant keys that follow, ``a["b"][0]``, of every time that it is read.

    Attributes:
        following: by the name of something, the attributes that are read of what has it.
        texts: names that are read where they may be missing, as by ``getattr(o, "name", None)``.
        imports: modules.
        compares: something is compared, put in order or looked up.
        whole: objects are read whole, or by names that are computed.
    """

    names: dict[str, Paths]
    attributes: dict[str, Paths]
    following: dict[str, frozenset[str]]
    texts: frozenset[str]
    imports: tuple[Import, ...]
    compares: bool
    whole: bool


_NAMES = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"})
_SILENT = frozenset({"EXTENDED_ARG", "NOP", "PUSH_NULL", "CACHE", "PRECALL"})
_LOOKUPS = (["LOAD_CONST", "BINARY_SUBSCR"], ["LOAD_CONST", "BINARY_OP"], ["LOAD_CONST", "STORE_SUBSCR"])
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"})
_READS = _NAMES | _ATTRIBUTES


@lru_cache(maxsize=1024)  # of a lambda in a loop, and of a method of many objects, the code is one
def code_reads(code: types.CodeType) -> CodeReads:
    """List what a function and the functions inside of it read."""
    names: dict[str, Paths] = {}
    attributes: dict[str, Paths] = {}
    following: dict[str, frozenset[str]] = {}
    imports: list[Import] = []
    caught: set[str] = set()
    codes = [code]
    for each in codes:
        codes += [constant for constant in each.co_consts if isinstance(constant, types.CodeType)]
    local = {name for each in codes for name in each.co_cellvars}
    listed = [[i for i in dis.get_instructions(each) if i.opname not in _SILENT] for each in codes]
    for every in listed:
        imports += _imports(every)
    aliases = {one.alias for one in imports}
    for each, every in zip(codes, listed, strict=True):
        for k, i in enumerate(every):
            name = i.argval[-1] if isinstance(i.argval, tuple) and i.argval else i.argval
            is_read = i.opname in _READS or (
                i.opname.startswith(("LOAD_FAST", "LOAD_DEREF")) and name in aliases)
            if not is_read or not name.isidentifier():  # pytest's, which rewrites assertions
                continue
            is_local = i.opname not in _ATTRIBUTES and (i.opname.startswith("LOAD_FAST") or name in local)
            if (not is_local or name in aliases) and k + 1 < len(every) and every[k + 1].opname in _ATTRIBUTES:
                following[name] = following.get(name, frozenset()) | {every[k + 1].argval}
            if is_local:
                continue
            path: tuple[Any, ...] = ()
            at = k + 1
            while at + 1 < len(every) and every[at].opname in {"LOAD_CONST", "LOAD_SMALL_INT"} and (
                not isinstance(every[at].argval, slice)  # a constant from Python 3.14 on: of all elements
            ) and (
                every[at + 1].opname == "BINARY_SUBSCR"
                or (every[at + 1].opname == "BINARY_OP" and every[at + 1].arg == NB_SUBSCR)
            ):
                path, at = (*path, every[at].argval), at + 2
            if not path and [one.opname for one in every[at : at + 2]] == ["LOAD_CONST", "STORE_SUBSCR"]:
                continue  # a key that is set
            into = attributes if i.opname in _ATTRIBUTES else names
            into[name] = into.get(name, frozenset()) | {path}
        for name in _made_texts(every):
            following[name] = following.get(name, frozenset()) | SHOWN
        if not _CATCHES.isdisjoint(each.co_names):
            caught |= {i.argval for i in every if i.opname in _ATTRIBUTES}
    read = {*names, *attributes} | {name for each in codes for name in each.co_names}
    said = [one for each in codes for one in each.co_consts if isinstance(one, str)]
    said = [one for one in said if all(map(str.isidentifier, one.split(".")))]
    texts = {part for one in said for part in one.split(".")} if read & _BY_NAME else set()
    for known in (names, attributes):
        known.update({name: known.get(name, frozenset()) | EVERY for name in texts})
    imports += [Import(0, one) for one in said] if read & _FINDS_MODULES else []
    for every in listed:
        for before, i in pairwise(every):
            if i.opname == "MATCH_CLASS":  # case Layer(rate=r)
                attributes.update(dict.fromkeys(before.argval, EVERY))
    compares = bool(read & _ORDERS) or any(i.opname in {"COMPARE_OP", "CONTAINS_OP"} for e in listed for i in e)
    whole = bool({*names} & WHOLE) or any(_computes_names([*dis.get_instructions(each)]) for each in codes)
    return CodeReads(names, attributes, following, frozenset(texts | caught), (*imports,), compares, whole)


def _imports(every: list[dis.Instruction]) -> Iterator[Import]:
    """Yield what instructions import: ``import a.b``, ``import a.b as c``, ``from .a import b as c``."""
    for k, i in enumerate(every):
        if i.opname != "IMPORT_NAME":
            continue
        level, names = every[k - 2].argval, every[k - 1].argval
        behind = every[k + 1 :]
        stored = [one.argval for one in behind if one.opname.startswith("STORE_")]
        if names:
            yield from [Import(level, i.argval, *pair) for pair in zip(names, stored, strict=False)]
        elif stored:
            is_whole = behind[0].opname == "IMPORT_FROM"  # with `as`; else it is the first package
            yield Import(level, i.argval if is_whole else i.argval.partition(".")[0], None, stored[0])


def _made_texts(every: list[dis.Instruction]) -> Iterator[str]:
    """Yield the last name or attribute of what code makes texts of: ``f"{c}"``, ``str(o.c)``, ``"%s" % c``."""
    calls = {"CALL", "CALL_FUNCTION", "CALL_METHOD"}
    code = [i for i in every if i.opname != "CONVERT_VALUE"]
    for k, i in enumerate(code):
        ends = [k - 1]
        if i.opname in {"FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC"}:
            missing = int(i.opname == "FORMAT_WITH_SPEC" or (i.opname == "FORMAT_VALUE" and (i.arg or 0) & 4 > 0))
            while missing > 0 and ends[0] > 0:  # the instructions that make the format
                one = code[ends[0]]
                missing, ends = missing - dis.stack_effect(one.opcode, one.arg), [ends[0] - 1]
        elif i.opname in _READS and i.argval in {"str", "format"}:
            call = next((at for at in range(k, len(code)) if code[at].opname in calls), k)
            ends = [at for at in range(k + 1, call) if code[at + 1].opname not in _ATTRIBUTES]
        elif not (i.opname == "BINARY_OP" and i.argrepr == "%"):
            continue
        yield from [code[at].argval for at in ends if code[at].opname in _READS]


def _computes_names(every: list[dis.Instruction]) -> bool:
    """Whether code reads attributes by a name that is no text in it: ``getattr(o, name)``, ``vars(o)[name]``."""
    call = "PRECALL" if any(i.opname == "PRECALL" for i in every) else "CALL"
    for k, i in enumerate(every):
        if i.opname not in _READS or i.argval not in _COMPUTE:
            continue
        if i.argval in {"vars", "__dict__"}:
            behind = [one for one in every[k + 1 :] if one.opname not in _SILENT]
            at = next((n for n, one in enumerate(behind) if one.opname == "CALL"), -1) if i.argval == "vars" else -1
            if [one.opname for one in behind[at + 1 : at + 3]] not in _LOOKUPS:
                return True
            continue
        depth, is_text, start = 0, False, int(i.argval in {"getattr", "__getattribute__"})
        for one in every[k + 1 :]:
            if one.opname == call and depth == one.arg:
                break
            before, depth = depth, depth + dis.stack_effect(one.opcode, one.arg, jump=False)
            if before == start < depth:
                is_text = one.opname == "LOAD_CONST" and isinstance(one.argval, str)
            elif depth == start + 1 and one.opname not in _SILENT:
                is_text = False  # it is made of the text
        if not is_text:
            return True
    return False


@lru_cache(maxsize=256)
def names_of(kind: type) -> frozenset[str]:
    """Return the attributes that the functions in a class and in the classes above it name."""
    found = [getattr(one, "fget", one) for each in kind.__mro__ for one in vars(each).values()]
    return frozenset([name for one in found if hasattr(one, "__code__") for name in one.__code__.co_names])
