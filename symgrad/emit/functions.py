"""The functions of a package: the C that the compiler makes of each, and what the templates print around it.

A *core* is a function of the package's C that the compiler made. Each exported function has one for its profile, one
that looks at every value, and one of what finite differences are taken of.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any

from symgrad.errors import ArgumentError, Line
from symgrad.ir.index.shapes import bare, symbols
from symgrad.ir.names import comment
from symgrad.ir.program import Program
from symgrad.loops.passes import schedule
from symgrad.loops.program import Array, LoopProgram
from symgrad.loops.statements.lower import lower
from symgrad.loops.storage.allocate import bytes_of, larger
from symgrad.ops import math_functions
from symgrad.ops.control import UNTOLD
from symgrad.ops.declare.spelling import ctype
from symgrad.options import TEAM, Options, Target
from symgrad.pipeline import uncollected
from symgrad.render import render
from symgrad.render.functions import Functions, words_of
from symgrad.render.package import DispatchView, EntryView, ErrorView, PathView, PortView, PythonView, WatchView
from symgrad.render.package import functions_text as printed
from symgrad.render.printer import c_size, index, size_functions
from symgrad.render.views import FunctionView
from symgrad.trace.lines import definition
from symgrad.transforms.debug_nans import WatchedValues, with_flags

if TYPE_CHECKING:
    from symgrad.api.call.function import Lowered
    from symgrad.emit.derive import Derivative, Paths

PORTABLE = Options(portable=True)
EMBEDDED = Target(plain=True, package=True)
FAST = Target(openmp=True, simd_math=frozenset(math_functions()), fma=True, vector_bits=256, package=True)
"""What the C of the two profiles is made for; the same on every machine that it is made on."""

WORDS = {
    "value": "the value of {}", "grad": "the gradient of {}", "value_and_grad": "value and gradient of {}",
    "jvp": "value of {}, and its tangent along a direction", "hvp": "the Hessian of {} times a direction",
    "vjp": "value of {}, and a cotangent of it pulled back", "hessian": "the Hessian of {}",
    "jacobian": "the Jacobian of {}",
}


@dataclass(frozen=True)
class Core:
    """A function of the package's C that the compiler made."""

    name: str
    loops: LoopProgram
    view: FunctionView
    functions: Functions
    target: Target

    @property
    def held(self) -> list[tuple[Array, str]]:
        """Its constants, with their names in the C."""
        said, names = words_of((self.view, *self.functions.parts)), self.functions.names
        return [(array, names[array]) for array in self.loops.constants if names[array] in said]

    @property
    def lines(self) -> set[Line]:
        """The user's lines that its comments may name."""
        both = (self.loops, *([] if self.loops.small is None else [self.loops.small]))
        found = {statement.line for loops in both for statement, _ in loops.paths}
        return {line for line in found if line is not None}


@dataclass(frozen=True)
class Cores:
    """A path of a function: its core, and the one that looks at every value; its first status is after `first`."""

    lowered: Lowered
    core: Core
    watched: Core
    watch: WatchedValues
    first: int

    @property
    def requirements(self) -> list[tuple[int, Any]]:
        """What its extents must satisfy, and is not decided; their statuses follow those of the checks."""
        every = [r for r in self.lowered.program.requirements if not (type(r.index) is int and type(r.extent) is int)]
        return [*enumerate(every, self.first + len(self.core.loops.checks) + 1)]

    @property
    def statuses(self) -> int:
        """How many statuses it has of its own: one for each check and each requirement."""
        return len(self.core.loops.checks) + len(self.requirements)

    @property
    def conditions(self) -> list[str]:
        """What its conditions come to, in words."""
        taken = {} if self.lowered.entry is None else self.lowered.entry.taken
        words = [
            f"the loop at {one.line} ends" if number >= UNTOLD else f"{one.line} comes to {one.outcome}"
            for number, one in taken.items()
        ]
        counts = [(text, len([*same])) for text, same in groupby(words)]
        return [text if count == 1 else f"{text} {count} times" for text, count in counts]


@dataclass(frozen=True)
class Exported:
    """A function of a package: what it derives, its paths, and cores of what finite differences are taken of."""

    name: str
    derivative: Derivative
    each: tuple[Cores, ...]
    bases: tuple[Core, ...]

    @property
    def core(self) -> Core:
        """The core of its first path: those of others read and write the same."""
        return self.each[0].core

    @property
    def branched(self) -> bool:
        """Whether a call may take none of its paths."""
        return self.derivative.lowered.branched

    @property
    def extents(self) -> list[str]:
        """Names of its open extents."""
        return [str(dim) for dim in bare([array.shape for array in self.core.loops.inputs])]

    @property
    def origin(self) -> str:
        """Where the user's function is defined."""
        line = definition(self.derivative.of.fun)
        return f"{self.derivative.of.name}()" + (f" of {line}" if line is not None else "")

    @property
    def paths(self) -> dict[str, str]:
        """How the user writes each argument, by its name."""
        signature = self.derivative.lowered.signature
        return dict(zip(signature.names, signature.paths, strict=True))

    @property
    def summary(self) -> str:
        """What it computes."""
        by = f", by {', '.join(self.paths[name] for name in self.derivative.wrt)}" if self.derivative.wrt else ""
        return c_string(WORDS[self.derivative.what].format(self.origin) + by)


def exported(name: str, of: Derivative, options: Options, target: Target, module: str, first: int) -> Exported:
    """Make a function's cores, unless an argument has the name of something else in the C."""
    program = of.lowered.program
    inputs = [node.param("name") for node in program.inputs]
    every = {*inputs, *map(str, symbols(node.shape for node in program.inputs))}
    for taken in every:
        if taken in of.outputs:
            raise ArgumentError(
                f"{of.of.name}() has an argument {taken}, and so is called a result of {of.what}",
                instead=f"another name for {taken}",
            )
        if taken.lower() == module.lower() or taken.lower().startswith(f"{module.lower()}_"):
            raise ArgumentError(
                f"{of.of.name}() has an argument {taken}, a name of the module {module}", instead="another name"
            )
    paths: list[Cores] = []
    for number, path in _numbered(f"{name}_core", of.lowered):
        pairs = [*zip(path.program.inputs[: of.of.in_place], path.program.results, strict=False)]
        whole = replace(path.program, donated=tuple([
            (k, k) for k, (x, y) in enumerate(pairs) if (x.shape, x.dtype) == (y.shape, y.dtype)
        ]))
        core = _make_core(whole, of.outputs, number, options, target)
        flagged, watch = with_flags(_name_results(whole, of.outputs))
        watched = _make_core(flagged, (*of.outputs, "sg_flags"), f"{number}_watched", PORTABLE, EMBEDDED)
        paths.append(Cores(path, core, watched, watch, first + sum(one.statuses for one in paths)))
    bases = [] if of.base is None else _numbered(f"{name}_base", of.base)
    based = [_make_core(path.program, of.base_outputs, number, PORTABLE, EMBEDDED) for number, path in bases]
    return Exported(name, of, tuple(paths), tuple(based))


def _numbered(name: str, paths: Paths) -> list[tuple[str, Lowered]]:
    """Name what is made of each path."""
    return [(f"{name}_{k}" if paths.branched else name, path) for k, path in enumerate(paths.each, 1)]


def _name_results(program: Program, names: Sequence[str]) -> Program:
    """Name the results of a program, among which guards may stand."""
    left = iter(names)
    return replace(program, labels=tuple(["guard" if node.op.decides else next(left) for node in program.outputs]))


def _make_core(program: Program, labels: tuple[str, ...], name: str, options: Options, target: Target) -> Core:
    """Take an optimized program through lower, schedule and the naming of its C."""
    with uncollected():
        loops = schedule(lower(_name_results(program, labels)), options, target)
        aimed = render.aimed(loops, options, target)
        view, functions = render.entry_function(loops, name, aimed)
    return Core(name, loops, view, functions, aimed)


def cores_text(cores: Sequence[Core]) -> str:
    """Print cores as they stand in one file."""
    if not cores:
        return ""
    simd_math = frozenset[str]().union(*[one.target.simd_math for one in cores])
    target = replace(cores[0].target, simd_math=simd_math)
    return printed(render.unit([(one.loops, one.view, one.functions) for one in cores], target))


_TYPE = r"(_Bool|u?int\d+_t|float|double|sg_lanes\w*)"
_ARRAYS = re.compile(rf"^\s+{_TYPE} (\w+\[\d+\][^=;]*);", re.MULTILINE)
_SCALAR = re.compile(rf"^\s+(?:const )?{_TYPE} \*?(?:const )?(?:\w+ )?\w+(?: =|;)", re.MULTILINE)
_BYTES = {"_Bool": 1, "float": 4, "double": 8}


def stack_bound(text: str) -> int:
    """Bound the stack that printed functions need together: arrays, a vector for each scalar, and frames."""
    arrays = 0
    for kind, declared in _ARRAYS.findall(text):
        width = _BYTES.get(kind) or int(re.sub(r"\D", "", kind)) // 8
        arrays += sum([width * int(count) + 64 for count in re.findall(r"\w\[(\d+)\]", declared)])  # 64: aligned
    frames = len(re.findall(r"^\}", text, re.MULTILINE))
    return arrays + 64 * len(_SCALAR.findall(text)) + 512 * frames


def c_string(text: str) -> str:
    """Make text safe inside of a C string."""
    return comment(text).replace('"', "'")


def header_type(dtype: Any) -> str:
    """Name a dtype as the header does, which C++ reads too."""
    return ctype(dtype).replace("_Bool", "bool")


def core_argument(array: Array, name: str, constness: str = "") -> str:
    """Print an array of the header's types as a core takes it: Booleans are bytes there."""
    return f"({constness}uint8_t *){name}" if array.dtype.kind == "b" else name


# -- what the templates print


def entry_view(made: Exported, pad: int, units: Mapping[str, str], *, threads: bool) -> EntryView:
    """Describe an exported function."""
    loops, names = made.core.loops, made.extents
    memory = dict(loops.donated)

    def argument(array: Array) -> str:
        shape = "".join(f"[{dim}]" for dim in array.shape) or ", one number"
        path = made.paths.get(array.name, array.name)
        notes = f"  ({path})" if path != array.name else ""
        notes += f"  in {units[array.name]}" if array.name in units else ""
        notes += "".join([f"  (may be {own.name} itself)" for own, made in loops.donated if made.name == array.name])
        return comment(f"{array.name}: {header_type(array.dtype)}{shape}{notes}")

    def is_open(dim: Any) -> bool:
        return not (type(dim) is int or dim.is_Integer)

    dims, team = [f"int64_t {n}" for n in names], ["int32_t threads"] * threads
    parameters = [f"const {header_type(a.dtype)} *{a.name}" for a in loops.inputs]
    parameters += [*[f"{header_type(a.dtype)} *{a.name}" for a in loops.outputs], *dims, *team, "void *workspace"]
    results = [core_argument(a, a.name) for a in loops.outputs]
    given = [*names, *["threads"] * threads]
    example = [*[core_argument(a, a.name, "const ") for a in loops.inputs], *results, *given]
    arrays = [core_argument(a, *((memory[a].name,) if a in memory else (a.name, "const "))) for a in loops.inputs]
    arrays += [core_argument(a, a.name) for a in loops.outputs if a not in memory.values()]
    sized: dict[str, list[str]] = {}
    for array in (*loops.inputs, *loops.results):
        if is_open(bytes_of(array.shape, array.dtype)):
            sized.setdefault(c_size(bytes_of(array.shape, array.dtype)), []).append(array.name)
    space = f"{made.name}_workspace_bytes({', '.join(given)})"
    notes = [*render.work(loops)]
    if made.branched:
        notes = [f"has {len(made.each)} paths, by Python's conditions on values:"]
        for k, path in enumerate(made.each, 1):
            notes += [f"{k}. {'; '.join([*path.conditions, *render.work(path.core.loops)])}"]
    notes += [f"{space} bytes of workspace, aligned as malloc aligns; NULL where that is 0"]
    notes[:0] = [
        f"holds  {name}: {header_type(a.dtype)}{''.join([f'[{dim}]' for dim in a.shape])}{render.source_of(a)}"
        for core in [path.core for path in made.each] for a, name in core.held
    ]
    again = max(path.core.loops.again for path in made.each)
    notes += [f"steps of loops that keep little are computed {1 + again} times"] if again else []
    notes += [f"threads: at most so many, 1 to {TEAM}; the numbers depend on it in their last bits"] * threads
    codes = " or where no path fits" if made.branched else ""
    codes += ", or a status from 1 on where a check fails" if error_views([made]) else ""
    notes.append(f"returns 0; a negative status for impossible extents{codes}")
    workspace = larger([path.core.loops.workspace for path in made.each])
    watched = larger([path.watched.loops.workspace for path in made.each])
    return EntryView(
        name=made.name, pad=" " * (pad - len(made.name)), core=f"{made.name}_core", summary=made.summary,
        reads=tuple(map(argument, loops.inputs)), writes=tuple(map(argument, loops.results)), notes=tuple(notes),
        parameters=tuple(parameters), extents=(*dims, *team), extent_names=tuple(given),
        arguments=(*arrays, *given, "(char *)workspace"), example=(*example, "workspace"),
        copies=tuple([(to.name, own.name, c_size(bytes_of(own.shape, own.dtype))) for own, to in loops.donated]),
        negative=" || ".join(f"{n} < 0" for n in names), huge=" || ".join(f"{n} > SG_LONGEST" for n in names),
        sizes=tuple([(", ".join(arrays), text) for text, arrays in sized.items()]),
        workspace=c_size(workspace), grows=is_open(workspace), checked_workspace=c_size(watched),
        checked_grows=is_open(watched), first=0 if made.branched else made.each[0].first,
        requirements=() if made.branched else _requirements(made.each[0]),
        dispatch=_dispatch(made) if made.branched else None,
    )


def _requirements(path: Cores) -> tuple[tuple[str, int], ...]:
    """Print what extents must satisfy, each with its status."""
    found = []
    for code, requirement in path.requirements:
        at, extent = requirement.index, requirement.extent
        below = f"{c_size(at)} < {c_size(extent)}"
        found.append((below if type(at) is int and at >= 0 else f"{c_size(at)} >= 0 && {below}", code))
    return tuple(found)


def _dispatch(made: Exported) -> DispatchView:
    """Describe the function that tries the paths: a guard that fails says which may fit."""
    entries = [path.lowered.entry for path in made.each if path.lowered.entry is not None]
    numbers = {id(entry): k for k, entry in enumerate(entries, 1)}
    views = []
    for k, path in enumerate(made.each):
        misses = []
        for check in path.core.loops.checks:
            if type(check.what) is int:
                following, _ = entries[k].known(check.what, entries[: k + 1])
                misses.append((check.number, numbers.get(id(following), 0), comment(str(check.line))))
        views.append(PathView(path.core.name, path.first, _requirements(path), tuple(misses)))
    given = made.core.functions.arguments
    return DispatchView(
        tuple([f"{kind}{name}" for kind, name in given]), tuple([name for _, name in given]), tuple(views)
    )


def error_views(functions: Sequence[Exported]) -> list[ErrorView]:
    """List the statuses of all checks and requirements."""
    found = []
    for of, path in [(made, path) for made in functions for path in made.each]:
        said = [
            (path.first + c.number, c, c.what or f"an index is out of bounds for an axis of size {c.extent}")
            for c in path.core.loops.checks if type(c.what) is str
        ]
        said += [
            (code, r, r.otherwise or f"index {r.index} is out of bounds for an axis of size {r.extent}")
            for code, r in path.requirements
        ]
        for code, about, what in said:
            text = c_string(f"{about.line or of.origin}: {what}")
            found.append(ErrorView(code, text, f"{of.name}: {text}"))
    return found


def watch_view(made: Cores, of: str, first: int) -> WatchView:
    """Describe the core that looks at every value, under the core's own name."""
    values, parameters = made.watch.values, made.core.functions.arguments
    starts = [0, *accumulate([len(value.reads) for value in values])]
    reads = [number for value in values for number in value.reads]
    given = [name for _, name in made.watched.functions.arguments]
    messages = [
        ErrorView(first + k, c_string(f"{value.line or of}: {made.watch.message(k)}")) for k, value in enumerate(values)
    ]
    return WatchView(
        made.core.name, tuple([f"{kind}{name}" for kind, name in parameters]),
        tuple(["sg_bad" if name == "sg_flags" else name for name in given]),
        tuple([name for _, name in parameters if name not in given]), max(1, len(values)), tuple(starts),
        tuple(reads or [0]), tuple(made.watch.results), first, tuple(messages),
    )


def size_calls(views: Sequence[EntryView]) -> tuple[tuple[str, str], ...]:
    """List what the printed sizes of functions call, and whether they do in one of the two builds alone."""
    texts = [text for v in views for _, text in v.sizes] + [text for v in views for text, _ in v.requirements]
    texts += [text for v in views if v.dispatch for path in v.dispatch.paths for text, _ in path.requirements]
    plain = size_functions([*texts, *[v.workspace for v in views]])
    checked = size_functions([*texts, *[v.checked_workspace for v in views]])
    return tuple([
        (name, "" if name in plain and name in checked else "ifdef" if name in checked else "ifndef")
        for name in size_functions([*plain, *checked])
    ])


def python_view(made: Exported, *, threads: bool) -> PythonView:
    """Describe a function of the Python package."""

    def port(array: Array) -> PortView:
        known = [f"{dim}" if isinstance(dim, int) else f'"{dim}"' if dim.is_Symbol else "None" for dim in array.shape]
        return PortView(
            array.name, array.dtype.name, tuple(map(str, array.shape)), "".join(f"{one}, " for one in known).strip(),
            tuple(map(python_size, array.shape)), header_type(array.dtype), computed="None" in known,
        )

    inputs, outputs = tuple(map(port, made.core.loops.inputs)), tuple(map(port, made.core.loops.results))
    parameters = (*[one.name for one in inputs], *["threads=1"] * threads)
    return PythonView(made.name, made.summary, parameters, inputs, outputs, tuple(made.extents))


def python_size(dim: Any) -> str:
    """Print an extent as Python, of the extents that a call has noted.

    >>> from symgrad.ir.index.shapes import symbol
    >>> python_size(2 * symbol("n") - 1)
    "2*_extents['n'] - 1"
    """
    text = index(dim, lambda part: f"_extents['{part.name}']")
    return text.replace(" / ", " // ").replace("sg_larger", "max").replace("sg_smaller", "min")
