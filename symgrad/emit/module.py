"""From derived functions to what a package's templates print."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from symgrad.emit.cores import EMBEDDED, FAST, PORTABLE, Core, body, core, passed, quoted, watched
from symgrad.errors import ArgumentError
from symgrad.ir.names import comment
from symgrad.loops.storage.allocate import bytes_of
from symgrad.ops.declare.spelling import ctype
from symgrad.options import TEAM, Options
from symgrad.render.package import (
    ArgumentView,
    EntryView,
    ErrorView,
    RequirementView,
    SizeCallView,
    SizeView,
    WatchView,
)
from symgrad.render.render import extents
from symgrad.render.sizes import calls, size
from symgrad.trace.source.lines import definition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from symgrad.emit.derive import Derived
    from symgrad.loops.program import Array
    from symgrad.transforms.debug_nans import Watch

WORDS = {
    "value": "the value of {}", "grad": "the gradient of {}", "value_and_grad": "value and gradient of {}",
    "jvp": "value of {}, and its tangent along a direction", "hvp": "the Hessian of {} times a direction",
    "vjp": "value of {}, and a cotangent of it pulled back", "hessian": "the Hessian of {}",
    "jacobian": "the Jacobian of {}",
}


@dataclass(frozen=True)
class Profile:
    """For what a package is made."""

    name: str
    options: Options

    @property
    def fast(self) -> bool:
        """It has threads and vectors."""
        return self.name == "fast"

    @property
    def blas(self) -> bool:
        """Its large products may be CBLAS's."""
        return self.options.blas


PROFILES = {"embedded": Profile("embedded", PORTABLE), "fast": Profile("fast", Options())}


@dataclass(frozen=True)
class Function:
    """A function of a package: what it derives, and its cores; `first` is added to the numbers of its checks."""

    name: str
    derived: Derived
    core: Core
    watched: Core
    watch: Watch
    base: Core | None
    first: int

    @property
    def extents(self) -> list[str]:
        """Names of its open extents."""
        return [str(dim) for dim in extents(self.core.loops)]

    @property
    def requirements(self) -> list[Any]:
        """What its extents must satisfy."""
        return [r for r in self.derived.lowered.program.requirements if not _decided(r)]

    @property
    def statuses(self) -> int:
        """How many statuses it has of its own: one for each check and each requirement."""
        return len(self.core.loops.checks) + len(self.requirements)


def _decided(requirement: Any) -> bool:
    return type(requirement.index) is int and type(requirement.extent) is int


def function(name: str, derived: Derived, profile: Profile, module: str, first: int) -> Function:
    """Make a function's cores.

    Raises:
        ArgumentError: an argument has the name of something else in the C.
    """
    program = derived.lowered.program
    inputs = [node.param("name") for node in program.inputs]
    every = {*inputs, *[str(s) for node in program.inputs for d in node.shape for s in getattr(d, "free_symbols", ())]}
    for taken in every:
        if taken in derived.outputs:
            raise ArgumentError(
                f"{derived.call.name}() has an argument {taken}, and so is called a result of {derived.what}",
                instead=f"another name for {taken}",
            )
        if taken.lower() == module.lower() or taken.lower().startswith(f"{module.lower()}_"):
            raise ArgumentError(
                f"{derived.call.name}() has an argument {taken}, a name of the module {module}", instead="another name"
            )
    made = core(program, derived.outputs, f"{name}_core", profile.options, FAST if profile.fast else EMBEDDED)
    looking, watch = watched(program, derived.outputs, f"{name}_core_watched")
    base = None
    if derived.base is not None:
        base = core(derived.base.program, base_labels(derived), f"{name}_base", PORTABLE, EMBEDDED)
    return Function(name, derived, made, looking, watch, base, first)


def base_labels(derived: Derived) -> tuple[str, ...]:
    """Name the results that finite differences are taken of."""
    from symgrad.emit.derive import result_names

    assert derived.base is not None  # noqa: S101 - asked only where there is one
    if derived.what in {"hvp", "hessian"}:
        return tuple([f"{name}_bar" for name in derived.wrt])
    return result_names(derived.base, "value")


def summary(derived: Derived) -> str:
    """Say what a function computes."""
    line = definition(derived.call.fun)
    where = f" of {line}" if line is not None else ""
    paths = dict(zip(derived.lowered.signature.names, derived.lowered.signature.paths, strict=True))
    by = f", by {', '.join(paths[name] for name in derived.wrt)}" if derived.wrt else ""
    return quoted(WORDS[derived.what].format(f"{derived.call.name}(){where}") + by)


def shown(dtype: Any) -> str:
    """Name a dtype as the header does, which C++ reads too."""
    return ctype(dtype).replace("_Bool", "bool")


def text_of(array: Array, paths: Mapping[str, str], units: Mapping[str, str]) -> str:
    """Describe an array in the header: name, type, shape, path, unit."""
    shape = "".join(f"[{dim}]" for dim in array.shape) or ", one number"
    path = paths.get(array.name, array.name)
    notes = [f"  ({path})"] if path != array.name else []
    notes += [f"  in {units[array.name]}"] if array.name in units else []
    return comment(f"{array.name}: {shown(array.dtype)}{shape}{''.join(notes)}")


def entry(made: Function, profile: Profile, pad: int, units: Mapping[str, str]) -> EntryView:
    """Describe an exported function."""
    loops, derived = made.core.loops, made.derived
    paths = dict(zip(derived.lowered.signature.names, derived.lowered.signature.paths, strict=True))
    names = made.extents
    dims = [f"int64_t {n}" for n in names]
    parameters = [f"const {shown(a.dtype)} *{a.name}" for a in loops.inputs]
    parameters += [f"{shown(a.dtype)} *{a.name}" for a in loops.outputs]
    threads = ["int32_t threads"] if profile.fast else []
    parameters += [*dims, *threads, "void *workspace"]
    arrays = [*[passed(a, a.name, "const ") for a in loops.inputs], *[passed(a, a.name) for a in loops.outputs]]
    given = [*names, *["threads"] * profile.fast]
    sized: dict[str, list[str]] = {}
    for array in (*loops.inputs, *loops.results):
        if not _fixed(bytes_of(array)):
            sized.setdefault(size(bytes_of(array)), []).append(array.name)
    sizes = [SizeView(", ".join(arrays), text) for text, arrays in sized.items()]
    space = f"{made.name}_workspace_bytes({', '.join(given)})"
    notes = [f"{space} bytes of workspace, aligned as malloc aligns; NULL where that is 0"]
    notes += [f"threads: at most so many, 1 to {TEAM}; the numbers depend on it in their last bits"] if threads else []
    codes = ", or a status from 1 on where an index is out of bounds" if made.statuses else ""
    notes.append(f"returns 0; a negative status for impossible extents{codes}")
    return EntryView(
        made.name, " " * (pad - len(made.name)), made.core.name, summary(derived),
        tuple([ArgumentView(text_of(a, paths, units)) for a in loops.inputs]),
        tuple([ArgumentView(text_of(a, paths, units)) for a in loops.results]), tuple(notes), tuple(parameters),
        tuple(parameters), (*dims, *threads), tuple(given), (*arrays, *given, "(char *)workspace"),
        (*arrays, *given, "workspace"), " || ".join(f"{n} < 0" for n in names),
        " || ".join(f"{n} > SG_LONGEST" for n in names), tuple(sizes), size(loops.workspace),
        not _fixed(loops.workspace), size(made.watched.loops.workspace), not _fixed(made.watched.loops.workspace),
        tuple([RequirementView(_condition(r), code) for code, r in enumerate(made.requirements, _after_checks(made))]),
        made.first,
    )


def _after_checks(made: Function) -> int:
    return made.first + len(made.core.loops.checks) + 1


def _fixed(dim: Any) -> bool:
    return type(dim) is int or bool(dim.is_Integer)


def _condition(requirement: Any) -> str:
    index, extent = requirement.index, requirement.extent
    below = f"{size(index)} < {size(extent)}"
    return below if type(index) is int and index >= 0 else f"{size(index)} >= 0 && {below}"


def errors(functions: Sequence[Function]) -> list[ErrorView]:
    """List the statuses of all checks and requirements."""
    found = []
    for made in functions:
        for check in made.core.loops.checks:
            what = check.what or f"an index is out of bounds for an axis of size {check.extent}"
            text = quoted(f"{check.line}: {what}")
            found.append(ErrorView(made.first + check.number, text, f"{made.name}: {text}"))
        for code, r in enumerate(made.requirements, _after_checks(made)):
            what = r.otherwise or f"index {r.index} is out of bounds for an axis of size {r.extent}"
            text = quoted(f"{r.line}: {what}")
            found.append(ErrorView(code, text, f"{made.name}: {text}"))
    return found


def watch_view(made: Function, first: int) -> WatchView:
    """Describe the core that looks at every value, under the core's own name."""
    values = made.watch.values
    starts: list[int] = [0]
    reads: list[int] = []
    for value in values:
        reads += value.reads
        starts.append(len(reads))
    own = [name for _, name in made.core.arguments]
    given = [name for _, name in made.watched.arguments]
    messages = [
        ErrorView(first + k, quoted(f"{value.line or made.derived.call.name}: {made.watch.message(k)}"))
        for k, value in enumerate(values)
    ]
    return WatchView(
        made.core.name, tuple([f"{kind}{name}" for kind, name in made.core.arguments]),
        tuple(["sg_bad" if name == "sg_flags" else name for name in given]),
        tuple([name for name in own if name not in given]), max(1, len(values)), tuple(starts), tuple(reads or [0]),
        tuple(made.watch.results), first, tuple(messages),
    )


def checked_body(functions: Sequence[Function]) -> str:
    """Print the cores that look at every value."""
    return body([made.watched for made in functions])


def size_calls(views: Sequence[EntryView]) -> tuple[SizeCallView, ...]:
    """List what the printed sizes of functions call, and whether they do in one of the two builds alone."""
    texts = [s.bytes for v in views for s in v.sizes] + [r.condition for v in views for r in v.requirements]
    plain = calls([*texts, *[v.workspace for v in views]])
    checked = calls([*texts, *[v.checked_workspace for v in views]])
    return tuple([
        SizeCallView(name, "" if name in plain and name in checked else "ifdef" if name in checked else "ifndef")
        for name in calls([*plain, *checked])
    ])
