"""The files of a package of C: what its templates see, and their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from symgrad.render.templates import environment


@dataclass(frozen=True)
class ErrorView:
    """A status: the text that a function returns for it, quoted for C, and the comment in the header."""

    code: int
    text: str
    note: str = ""


@dataclass(frozen=True)
class PathView:
    """A path of a function.

    Attributes:
        core: the function of it.
        first: what is added to the numbers of its checks.
        requirements: what extents must satisfy, each with the status that is returned if no other path fits.
        misses: the numbers of its guards, each with the number of the path that is tried next, 0 for none, and a line.
    """

    core: str
    first: int
    requirements: tuple[tuple[str, int], ...]
    misses: tuple[tuple[int, int, str], ...]


@dataclass(frozen=True)
class DispatchView:
    """A function that tries paths, each with its own arguments."""

    parameters: tuple[str, ...]
    arguments: tuple[str, ...]
    paths: tuple[PathView, ...]


@dataclass(frozen=True)
class EntryView:
    """An exported function around a `core` that the compiler made.

    Attributes:
        pad: spaces behind its name, where names stand in a column.
        reads, writes: lines of the header on arrays.
        parameters: its parameters.
        extents, extent_names: those of them that size arrays; with ``threads``, where there are any.
        arguments: what the core is called with.
        sizes: the bytes of arrays, each with their names, as C that cannot overflow.
        requirements: what extents must satisfy, each with the status that is returned if they do not.
        first: what is added to the numbers of its checks.
        grows, checked_grows: the workspace depends on extents.
        dispatch: its core, where that tries paths.
        copies: results that are written in place, with the arguments that are copied there if that is elsewhere, and
            how many bytes.
    """

    name: str
    pad: str
    core: str
    summary: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    notes: tuple[str, ...]
    parameters: tuple[str, ...]
    extents: tuple[str, ...]
    extent_names: tuple[str, ...]
    arguments: tuple[str, ...]
    example: tuple[str, ...]
    negative: str
    huge: str
    sizes: tuple[tuple[str, str], ...]
    workspace: str
    grows: bool
    checked_workspace: str
    checked_grows: bool
    requirements: tuple[tuple[str, int], ...]
    first: int
    dispatch: DispatchView | None = None
    copies: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True)
class WatchView:
    """A core that looks at every value, `count` of them; `starts`, `reads`, `results` are tables of their numbers."""

    core: str
    parameters: tuple[str, ...]
    arguments: tuple[str, ...]
    unused: tuple[str, ...]
    count: int
    starts: tuple[int, ...]
    reads: tuple[int, ...]
    results: tuple[int, ...]
    first: int
    messages: tuple[ErrorView, ...]


@dataclass(frozen=True)
class NumbersView:
    """An array of recorded numbers, as literals; its place in a finite difference, where it has one.

    Attributes:
        formula: the seed, low end and width of what its elements are computed by, where they are not written down.
        step, recorded: every so many-th of its elements is recorded, and how many are.
        allowed, relative: how much of an absolute and of a relative error is none.
        bar: the cotangent of it.
        weight: the cotangent that it is weighted with.
        slope: its tangent.
        rows: the matrices that have a row for each of its elements.
    """

    name: str
    ctype: str
    count: int
    values: tuple[str, ...]
    formula: tuple[str, ...] = ()
    step: int = 1
    recorded: int = 0
    allowed: str = ""
    relative: str = ""
    bar: str = ""
    weight: str = ""
    slope: str = ""
    rows: tuple[str, ...] = ()


@dataclass(frozen=True)
class CaseView:
    """A recorded call."""

    name: str
    function: str
    inputs: tuple[NumbersView, ...]
    outputs: tuple[NumbersView, ...]
    extents: tuple[str, ...]
    arguments: tuple[str, ...]
    finite: bool


@dataclass(frozen=True)
class DifferenceView:
    """A derivative that differences of two calls are compared with; `results` are the floating-point ones."""

    name: str
    case: CaseView
    form: str
    plus: str
    minus: str
    along: tuple[NumbersView, ...]
    buffers: tuple[NumbersView, ...]
    results: tuple[NumbersView, ...]
    workspace: int
    step: str
    tolerance: str


@dataclass(frozen=True)
class PortView:
    """An array of a Python function: its dtype, its extents in words, as a tuple's elements, and as expressions.

    Attributes:
        computed: some extent is neither a number nor a name.
    """

    name: str
    dtype: str
    shape: tuple[str, ...]
    key: str
    sizes: tuple[str, ...]
    ctype: str
    computed: bool


@dataclass(frozen=True)
class PythonView:
    """A function of the Python package."""

    name: str
    summary: str
    parameters: tuple[str, ...]
    inputs: tuple[PortView, ...]
    outputs: tuple[PortView, ...]
    extents: tuple[str, ...]


@dataclass(frozen=True)
class ModuleView:
    """A package: its functions, their C, and what its tests and build files say.

    Attributes:
        body, check_body, base_body: C that the compiler made: the cores, those that look at every value, and those
            that finite differences are taken of.
        not_finite: the first status of a value that is not finite.
        threads: functions take a number of threads, of at most `team`.
        calls: the functions that sizes call, each with ``ifdef`` or ``ifndef`` where only one of the two builds has a
            use for it.
        refusals: calls with extents that no array has, each with the status that it must return.
        settings: the variables of the Makefile.
        blas: large products are CBLAS's where the C is compiled with it.
    """

    name: str
    upper: str
    version: str
    origin: str
    description: str
    profile: str
    threads: bool
    blas: bool
    team: int
    body: str
    check_body: str
    base_body: str
    entries: tuple[EntryView, ...]
    watches: tuple[WatchView, ...]
    errors: tuple[ErrorView, ...]
    not_finite: int
    calls: tuple[tuple[str, str], ...]
    cases: tuple[CaseView, ...]
    case_count: int
    formula_types: tuple[str, ...]
    differences: tuple[DifferenceView, ...]
    refusals: tuple[tuple[str, str], ...]
    tolerances: tuple[str, ...]
    settings: Mapping[str, str]
    cmake_flags: tuple[str, ...]
    link_flags: tuple[str, ...]
    cc: str
    ar: str
    remarks: tuple[str, ...]
    python: tuple[PythonView, ...] = ()
    python_flags: tuple[str, ...] = ()
    width: int = 512

    @property
    def branched(self) -> bool:
        """Whether a function has paths."""
        return any(entry.dispatch for entry in self.entries)

    @property
    def forgets(self) -> bool:
        """Whether a recorded result is floating point."""
        return any(a.ctype in {"double", "float"} and a.count for case in self.cases for a in case.outputs)


FILES: Mapping[str, str] = {
    "NAME.c": "module.c", "NAME.h": "module.h", "NAME_check.h": "check.h", "test_NAME.c": "test.c",
    "Makefile": "Makefile", "CMakeLists.txt": "CMakeLists.txt", "NAMEConfig.cmake.in": "Config.cmake.in",
    "NAME.pc.in": "package.pc.in", "README.md": "README.md",
}
"""The files of every package, and their templates."""

PYTHON: Mapping[str, str] = {
    "pyproject.toml": "pyproject.toml", "setup.py": "setup.py", "NAME_build.py": "build.py",
    "NAME/__init__.py": "init.py",
}
"""Those of its Python package."""


def files(module: ModuleView) -> dict[str, str]:
    """Print the files of a package.

    Returns:
        Their texts by their names; names are relative, with ``/`` between folders.
    """
    wanted = {**FILES, **(PYTHON if module.python else {})}
    return {
        name.replace("NAME", module.name): environment().get_template(f"emit/{template}.jinja").render(module=module)
        for name, template in wanted.items()
    }


def functions_text(view: dict[str, object]) -> str:
    """Print functions of a translation unit (of `render.unit`), without its head."""
    from symgrad.render.views import SourceView

    source = SourceView("", (), **view)  # type: ignore[arg-type]  # as `unit` made it
    return environment().get_template("program.c.jinja").render(source=source).rstrip("\n") + "\n"


def with_rows(rows: Sequence[tuple[str, str, int]]) -> str:
    """Print lines of C, each with the file and the number of the line that it says to be from."""
    return environment().get_template("emit/lines.jinja").render(rows=rows)
