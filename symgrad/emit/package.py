"""From derived functions to the files of a package: what `emit` and the command line share."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

from symgrad.build.toolchain.compiler import rows_of_eight
from symgrad.emit import module as modules
from symgrad.emit.cores import body, quoted
from symgrad.emit.derive import derive
from symgrad.emit.directives import with_lines
from symgrad.emit.files import REPORT, Package, refuse_foreign, write
from symgrad.emit.python import python_view
from symgrad.emit.recorded import case, difference, formula_types, refusals
from symgrad.emit.report import report
from symgrad.emit.samples import Runner, never_finite, recorded
from symgrad.emit.samples import difference as find_difference
from symgrad.errors import ArgumentError, ArgumentValueError, SymgradWarning
from symgrad.ir.names import identifier
from symgrad.options import TEAM
from symgrad.render.package import ModuleView, SettingView, files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from symgrad.api.call.argnums import Argnums
    from symgrad.emit.derive import Call
    from symgrad.emit.module import Function
    from symgrad.emit.request import Request

NOT_FINITE = 10_000
"""The first status of a value that is not finite."""

WHY = (
    "finite differences of the function did not agree with its derivative where they were tried, as is right where "
    "the derivative is meant to be another one"
)

CONSTANTS = ("CBLAS", "OK", "NEGATIVE_EXTENT", "TOO_LARGE", "BAD_THREADS", "CHECK", "SIMD", "H")
"""Constants and macros of a package, behind its name."""


def emit_calls(calls: Sequence[Call], whats: Sequence[str], wrt: Sequence[Argnums], asked: Request) -> Package:
    """Write a package of every derivative of every function."""
    if len(set(whats)) != len(whats) or not whats:
        raise ArgumentValueError(f"{asked.said('what', tuple(whats))} names a derivative twice, or none")
    if len({call.name for call in calls}) != len(calls):
        raise ArgumentError("two functions have one name", instead="other names, or a package for each")
    refuse_foreign(asked.out, {"Makefile": ""})  # before anything is computed
    names = exported([call.plain_name for call in calls], whats, asked)
    functions: list[Function] = []
    for call, by in zip(calls, wrt, strict=True):
        for what in whats:
            first = sum(made.statuses for made in functions)
            derived = derive(what, call, by, asked.profile.options, "--wrt" if asked.cli else "wrt=")
            functions.append(modules.function(names[len(functions)], derived, asked.profile, asked.name, first))
    _check_sizes(functions, asked)
    view, skipped = module_view(functions, asked)
    texts = files(view)
    if asked.line_directives:
        name = f"{asked.name}.c"
        texts[name] = with_lines(texts[name], name, {line for made in functions for line in made.core.lines})
    texts = {name: text if text.endswith("\n") else f"{text}\n" for name, text in texts.items()}
    told = report(view, functions, asked, texts, skipped)
    texts[REPORT] = json.dumps(told, indent=2) + "\n"
    write(asked.out, texts)
    return Package(asked.out, asked.name, tuple([made.name for made in functions]), tuple(texts), told)


def exported(calls: Sequence[str], whats: Sequence[str], asked: Request) -> list[str]:
    """Name the functions of C.

    Raises:
        ArgumentError: one would have the name of something else in the package, or of a macro.
    """
    pairs = [(call, what) for call in calls for what in whats]
    parts = [[asked.name, *[c] * (len(calls) > 1), *[w] * (len(whats) > 1)] for c, w in pairs]
    names = [identifier("_".join(words)) for words in parts]
    upper = asked.name.upper()
    taken = {f"{asked.name}_error", *[f"{upper}_{end}" for end in CONSTANTS]}
    taken |= {f"{name}_{end}" for name in names for end in ("workspace_bytes", "core", "core_watched", "base")}
    for name, (call, _) in zip(names, pairs, strict=True):
        if name in taken or names.count(name) > 1:
            raise ArgumentError(
                f"{call}() would be called {name}, as something else is",
                instead=f"another name for it, or {asked.said('name', f'{asked.name}_module')}",
            )
    return names


def module_view(functions: Sequence[Function], asked: Request) -> tuple[ModuleView, list[str]]:
    """Collect what the templates print; say of which functions no finite difference agreed."""
    from symgrad import __version__

    upper = asked.name.upper()
    pad = max(len(made.name) for made in functions)
    units = _units(asked.units or {}, functions)
    entries = [modules.entry(made, asked.profile, pad, units) for made in functions]
    watches, first = [], NOT_FINITE
    for made in functions:
        watches.append(modules.watch_view(made, first))
        first += len(made.watch.values)
    cases, differences, skipped, remarks = _tests(functions, asked)
    bases = [made.base for made in functions if made.base is not None and made.name not in skipped]
    main = body([made.core for made in functions])
    origin = ", ".join(dict.fromkeys(quoted(_origin(made)) for made in functions))
    tolerances = sorted({o.relative for c in cases for o in c.outputs if o.relative not in {"", "0.0"}}) or ["0"]
    view = ModuleView(
        name=asked.name, upper=upper, version=__version__, origin=origin, description=quoted(entries[0].summary),
        profile=asked.profile.name, threads=asked.profile.fast, blas=asked.profile.blas, team=TEAM, body=main,
        check_body=modules.checked_body(functions), base_body=body(bases), entries=tuple(entries),
        watches=tuple(watches), errors=tuple(modules.errors(functions)), not_finite=NOT_FINITE,
        calls=modules.size_calls(entries), cases=tuple(cases),
        case_count=len(cases), formula_types=formula_types(cases, differences), differences=tuple(differences),
        refusals=tuple([r for made in functions for r in refusals(made, asked.profile, upper)]),
        tolerances=tuple(tolerances), **building(asked, main), cc=asked.cc, ar=_archiver(asked.cc),
        remarks=tuple(remarks),
        python=tuple([python_view(made, asked.profile) for made in functions]) if asked.python else (),
    )
    return view, skipped


def building(asked: Request, text: str) -> dict[str, Any]:
    """Choose what make, CMake and the linker are told."""
    exact = "-ffp-contract=off"
    if not asked.profile.fast:
        return {
            "settings": (SettingView("OPT", f"-O2 {exact}"),), "cmake_flags": (exact,), "link_flags": ("-lm",),
            "python_flags": ("-O2", exact),
        }
    whole = "-fno-tree-slp-vectorize"  # gcc 12.2 permutes vectors of AVX-512 wrong, and loops are no slower for it
    flags = ("-fno-math-errno", "-fno-trapping-math", exact, whole)
    settings = (
        SettingView("OPT", " ".join(("-O3", *flags))), SettingView("ARCH", "" if asked.cc else "-march=native"),
        SettingView("OPENMP", "" if asked.cc else "-fopenmp"),
    )
    return {
        "settings": settings, "cmake_flags": flags, "link_flags": ("-lm", "-fopenmp"),
        "width": 256 if rows_of_eight(text) else 512,  # or it does so in loops
        "python_flags": ("-O3", *flags, "-fopenmp"),
    }


def _origin(made: Function) -> str:
    from symgrad.trace.source.lines import definition

    line = definition(made.derived.call.fun)
    return f"{made.derived.call.name}() of {line}" if line is not None else f"{made.derived.call.name}()"


def _archiver(cc: str) -> str:
    """Name the archiver that belongs to a compiler: zig brings its own."""
    words = cc.split()
    return " ".join([*words[: words.index("cc")], "ar"]) if "cc" in words[1:] else ""


def _units(units: Mapping[str, str], functions: Sequence[Function]) -> dict[str, str]:
    """Check units, and make them fit for comments."""
    known = {a.name for made in functions for a in (*made.core.loops.inputs, *made.core.loops.outputs)}
    for name in units:
        if name not in known:
            raise ArgumentValueError(f"a unit for {name}, which is no array here", instead=", ".join(sorted(known)))
    return {name: quoted(unit) for name, unit in units.items()}


def _check_sizes(functions: Sequence[Function], asked: Request) -> None:
    known = {name for made in functions for name in made.extents}
    for name, value in (asked.sizes or {}).items():
        if name not in known:
            written_as = f"--size {name}={value}" if asked.cli else f"sizes={asked.sizes!r}"
            raise ArgumentValueError(
                f"{written_as}: {name} is no open extent of these functions",
                instead=", ".join(sorted(known)) or "none, for all are numbers",
            )


def _tests(functions: Sequence[Function], asked: Request) -> tuple[list[Any], list[Any], list[str], list[str]]:
    """Record calls and finite differences; list functions without the latter, and remarks on both."""
    cases, differences, skipped, remarks = [], [], [], []
    sizes = asked.sizes or {}
    for made in functions:
        derived, workspace = made.derived, made.core.loops.workspace
        run = Runner(derived.lowered, derived.outputs)
        calls = recorded(derived, run, sizes, asked.seed, workspace, threads=asked.profile.fast)
        cases += [case(made, at, number, asked.profile) for number, at in enumerate(calls, 1)]
        if nowhere := never_finite(calls):
            text = f"{made.name} gives no finite {' and no finite '.join(nowhere)} at any arguments that were tried"
            remarks.append(f"`{made.name}`: {text}; its test compares NaN with NaN.")
            others = "--size and --seed" if asked.cli else "sizes= and seed="
            message = f"{text}: its test compares NaN with NaN; {others} choose others"
            warnings.warn(message, SymgradWarning, stacklevel=4)
        if derived.base is None:
            continue
        base = Runner(derived.base, modules.base_labels(derived))
        found = find_difference(derived, run, base, calls[0].extents, asked.seed)
        if found is not None:
            differences.append(difference(made, found, asked.profile))
            continue
        skipped.append(made.name)
        remarks.append(f"`{made.name}` is compared with recorded numbers alone: {WHY}.")
        warnings.warn(
            f"finite differences of {derived.call.name}() agree nowhere with what {made.name} computes: its test "
            "compares recorded numbers alone", SymgradWarning, stacklevel=4,
        )
    return cases, differences, skipped, remarks
