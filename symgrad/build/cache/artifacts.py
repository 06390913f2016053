"""The artifact cache: beside each library its `Interface`, found by the optimized program.

A process that finds it there schedules no loops and renders no C. The key covers the program (structure, constants,
the user's lines that the C quotes), the options, the toolchain, the processor, and symgrad's own files.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import cache as once
from pathlib import Path
from typing import TYPE_CHECKING, Any

from symgrad.build.cache import store as cache
from symgrad.build.call import FailedCheck, Interface, open_extents, ports
from symgrad.build.load import Library, load_library
from symgrad.build.toolchain.compiler import library_name
from symgrad.errors import Line, SerializationError, warn_once
from symgrad.ir.program import Program
from symgrad.ir.saved.dims import evaluated
from symgrad.ir.saved.programs import record as described
from symgrad.ops import own
from symgrad.options import Options

if TYPE_CHECKING:
    from symgrad.build.toolchain.find import Toolchain

FORMAT = "symgrad interface 3"
_PLAIN = {"entry": str, "prototype": str, "workspace": object, "threaded": bool, "work": object, "polled": bool}
_FIELDS = {"format", "library", "data", "checks", *_PLAIN}
_DATA = 1 << 24
"""A program with more bytes of constants is not looked up: that would take longer than to compile it."""


def program_key(program: Program, toolchain: Toolchain, options: Options) -> str | None:
    """Identify what a program compiles to; None where it is not known by its ops' names, or not to be kept."""
    if not options.cache or sum(c.nbytes for c in _constants(program).values()) > _DATA:
        return None
    if not {node.op for node in program.nodes()} <= own():
        return None
    try:
        text = json.dumps(described(program))
    except SerializationError:
        return None
    chosen = repr(replace(options, compile_seconds=None))
    target = repr(vars(toolchain.target) | {"simd_math": sorted(toolchain.target.simd_math)})
    return cache.key(
        FORMAT, text, repr(sorted(program.fortran)), repr(program.rules), repr(program.donated),
        repr(sorted(program.spread)), chosen, target, toolchain.identity, *toolchain.flags, *toolchain.libraries,
        toolchain.cpu, _own_files(),
    )


@once
def _own_files() -> str:
    """Name symgrad's own files by size and time of change: another symgrad makes other C."""
    package = Path(__file__).parents[2]
    folders = [package, package.parent / "templates"]
    found = [(root, name) for folder in folders for root, _, names in os.walk(folder) for name in names]
    files = [Path(root, name) for root, name in found if name.endswith((".py", ".jinja"))]
    return "; ".join(sorted(f"{file} {(s := file.stat()).st_size} {s.st_mtime_ns}" for file in files))


def _constants(program: Program) -> dict[int, Any]:
    return {k: node.params[0].array for k, node in enumerate(program.nodes()) if node.is_constant}


def keep(key: str, program: Program, interface: Interface, library: Library) -> None:
    """Keep how a compiled program is called, if its library is in the cache."""
    store = cache.open_store()
    places = {id(array): place for place, array in _constants(program).items()}
    folder = library.c_path.parent.name
    if store is None or len(folder) != 64 or any(id(array) not in places for array in interface.data):
        return
    record = {name: getattr(interface, name) for name in _PLAIN} | {
        "format": FORMAT, "library": folder, "data": [places[id(array)] for array in interface.data],
        "checks": interface.checks,
    }
    store.record(key, json.dumps(record).encode())


def keep_templates() -> None:
    """Let templates be compiled once on a machine."""
    from symgrad.render.templates import Kept, environment

    store = cache.open_store()
    environment().bytecode_cache = None if store is None else Kept(
        lambda *words: store.recall(cache.key("template", *words)),
        lambda content, *words: store.record(cache.key("template", *words), content),
    )


def recall(key: str, program: Program) -> tuple[Interface, Library] | None:
    """Find how a program is called, and load its library; None where it must be compiled."""
    store = cache.open_store()
    content = None if store is None else store.recall(key)
    if store is None or content is None:
        return None
    try:
        fields = json.loads(content)
        found = _take_apart(fields, program)
        library = store.find(fields["library"], library_name(found.entry))
        return None if library is None else (found, load_library(library, found.entry, found.prototype))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, ArithmeticError):
        warn_once(f"interface {key}", f"the cache's record {key[:12]} is damaged; its program is compiled again")
    except OSError:  # the library does not load, or was evicted meanwhile
        pass
    return None


def _take_apart(fields: Any, program: Program) -> Interface:
    """Take a record apart; any exception where it is not what `keep` wrote."""
    plain = {name: fields[name] for name in _PLAIN}
    names = (f"sg_{program.name}", f"sg_{program.name}_")  # the latter where the former is a helper's
    if (
        fields.keys() != _FIELDS or fields["format"] != FORMAT or not set(fields["library"]) <= {*"0123456789abcdef"}
        or any(kind is not object and type(plain[name]) is not kind for name, kind in _PLAIN.items())
        or plain["entry"] not in names
    ):
        raise ValueError("not a record of this version")
    constants, extents = _constants(program), open_extents(program)
    ones = dict.fromkeys(extents, 1)
    if any(evaluated(plain[size], {**ones, "threads": 1}) < 0 for size in ("workspace", "work")):
        raise ValueError("not a size")
    checks = []
    for extent, line, what in fields["checks"]:
        evaluated(extent, ones)
        if type(what) not in {str, int} or (line is not None and [*map(type, line)] != [str, int, str]):
            raise ValueError("not a check")
        checks.append(FailedCheck(extent, None if line is None else Line(*line), what))
    inputs, outputs = ports(program)
    data = tuple([constants[place] for place in fields["data"]])
    return Interface(**plain, inputs=inputs, outputs=outputs, data=data, dims=extents, checks=tuple(checks))
