"""A package of C, from what is asked for to its files: what `emit` and the command line share."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from symgrad.api.call.arguments import Argnums
from symgrad.api.report import cost_of, memory_of
from symgrad.build.toolchain.capabilities import KEEPS_JUMPS
from symgrad.build.toolchain.compiler import rows_of_eight
from symgrad.emit import functions as code
from symgrad.emit import record
from symgrad.emit.derive import derive
from symgrad.emit.files import FORMAT, REPORT, Package, checksum, refuse_foreign, write_files
from symgrad.errors import ArgumentError, ArgumentValueError, Line, warn
from symgrad.ir.names import comment, identifier
from symgrad.ir.text import as_text
from symgrad.options import TEAM, Options
from symgrad.pipeline import Stages
from symgrad.render.package import ModuleView, files, with_rows
from symgrad.render.source import Source
from symgrad.version import __version__

if TYPE_CHECKING:
    from symgrad.emit.derive import Specialization
    from symgrad.emit.functions import Cores, Exported

RESERVED = frozenset((
    "all", "assert", "c", "check", "clean", "complex", "ctype", "dl", "errno", "fenv", "float", "gcc", "help",
    "install", "inttypes", "iso646", "limits", "locale", "m", "math", "omp", "package", "pthread", "rt", "sanitize",
    "setjmp", "signal", "stdalign", "stdarg", "stdatomic", "stdbool", "stdc", "stddef", "stdint", "stdio", "stdlib",
    "stdnoreturn", "string", "test", "tgmath", "threads", "time", "uchar", "unistd", "util", "wchar", "wctype",
))
"""Names of targets, of the standard's headers, and of libraries that every program links."""

LIBRARY = frozenset(
    """abort abs accept access acos acosh alarm aligned_alloc asctime asin asinh atan atan2 atanh atexit atof atoi atol
    atoll bcmp bcopy bind brk bsearch bzero cabs cacos carg casin catan cbrt ccos ceil cexp chdir chmod chown chroot
    clearerr clock clog clone close closedir conj connect copysign cos cosh cpow creal crypt csin csqrt ctan ctime
    daemon difftime dirname div dprintf drem dup dup2 encrypt environ erf erfc err errx exit exp exp10 exp2 expm1 fabs
    fchmod fclose fcntl fdim fdopen feof ferror fflush ffs fgetc fgetpos fgets fileno finite floor fma fmax fmin fmod
    fopen fork fprintf fputc fputs fread free freopen frexp fscanf fseek fsetpos fstat fsync ftell ftime ftruncate ftw
    fwrite gamma getc getchar getcwd getenv getopt getpid gets getuid glob gmtime hypot ilogb index ioctl isatty
    isalnum isalpha isblank iscntrl isdigit isgraph islower isprint ispunct isspace isupper isxdigit j0 j1 jn kill
    labs ldexp ldiv lgamma link listen llabs lldiv llrint llround localeconv localtime log log10 log1p log2 logb
    longjmp lrint lround lseek lstat malloc calloc realloc mblen mbtowc memccpy memchr memcmp memcpy memmove mempcpy
    memset mkdir mktime mmap modf mount munmap nan nearbyint nextafter nexttoward nice open opendir optarg optind
    pause perror pipe poll popen pow printf putc putchar putenv puts qsort quick_exit raise rand random read readdir
    readlink realpath reboot recv remainder remove remquo rename rewind rindex rint rmdir round sbrk scalb scalbln
    scalbn scanf select send setbuf setenv setlocale setvbuf shutdown significand sin sincos sinh sleep snprintf
    socket splice sprintf sqrt srand srandom sscanf stat statfs stime strcat strchr strcmp strcoll strcpy strdup
    strerror strlen strncat strncmp strncpy strpbrk strrchr strspn strstr strtod strtok strtol strtoul strxfrm swab
    symlink sync syscall sysconf system tan tanh tee tgamma times timezone tmpfile tmpnam tolower toupper trunc
    truncate tzset umask uname ungetc unlink unsetenv usleep vfork vfprintf vprintf vsnprintf vsprintf wait waitpid
    warn warnx write y0 y1 yn""".split()  # noqa: SIM905 - as in ir/names.py
) | frozenset(
    f"{name}f" for name in
    """acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh drem erf erfc exp exp10 exp2 expm1 fabs fdim
    finite floor fma fmax fmin fmod frexp gamma hypot ilogb j0 j1 jn ldexp lgamma llrint llround log log10 log1p log2
    logb lrint lround modf nan nearbyint nextafter nexttoward pow remainder remquo rint round scalb scalbln scalbn
    significand sin sincos sinh sqrt tan tanh tgamma trunc y0 y1 yn""".split()  # noqa: SIM905 - likewise
)
"""Functions of C's library and of POSIX: a function of a package has its name, and would be linked in their place."""

COMPILER = re.compile(r"[\w./+=:,@ -]{1,200}")
"""What a compiler's name may consist of: it goes into a Makefile."""

PROFILES = {"embedded": code.PORTABLE, "fast": Options()}

NOT_FINITE = 10_000
"""The first status of a value that is not finite."""

WHY = (
    "finite differences of the function did not agree with its derivative where they were tried, as is right where "
    "the derivative is meant to be another one"
)

CONSTANTS = ("CBLAS", "OK", "NEGATIVE_EXTENT", "TOO_LARGE", "BAD_THREADS", "CHECK", "SIMD", "H")
"""Constants and macros of a package, behind its name."""


# -- what a package should be


@dataclass(frozen=True)
class Request:
    """What a package should be, apart from its functions; errors write settings as those of `cli`, or of Python."""

    out: Path
    name: str
    profile: str
    options: Options
    python: bool = False
    line_directives: bool = False
    cc: str = ""
    units: Mapping[str, str] | None = None
    sizes: Mapping[str, int] | None = None
    seed: int = 0
    cli: bool = False

    @property
    def fast(self) -> bool:
        """Whether it has threads and vectors."""
        return self.profile == "fast"


def setting(name: str, value: Any, *, cli: bool) -> str:
    """Write a setting as an argument of Python, or as an option.

    >>> setting("name", "loss", cli=False), setting("name", "loss", cli=True)
    ("name='loss'", '--name loss')
    """
    if not cli:
        return f"{name}={value!r}"
    return f"--{name} {','.join(value) if isinstance(value, tuple) else value}"


def request(
    out: str | Path, *, name: str | None, profile: str, cc: str | None, blas: bool = False, cli: bool = False,
    **further: Any,
) -> Request:
    """Check what a package should be."""
    if not str(out):
        raise ArgumentValueError("the folder to write has no name", instead="build/loss_grad, for example")
    folder = Path(out)
    chosen = folder.name if name is None else name
    if not chosen or identifier(chosen) != chosen or not chosen.isascii():
        raise ArgumentValueError(
            f"{chosen!r} cannot name a module of C",
            instead=f"{setting('name', identifier(chosen or 'module'), cli=cli)}, for example",
        )
    if chosen in RESERVED | LIBRARY:
        raise ArgumentValueError(
            f"a module of C cannot be named {chosen!r}: a header, a library, a function of C's or a target of make has "
            "that name", instead=setting("name", f"{chosen}_module", cli=cli),
        )
    if profile not in PROFILES:
        raise ArgumentValueError(f"there is no profile {profile!r}", instead=" or ".join(PROFILES))
    if cc is not None and not COMPILER.fullmatch(cc):
        raise ArgumentValueError(f"{cc!r} is no compiler's name", instead='"gcc", "zig cc -target aarch64-linux-musl"')
    if blas and profile != "fast":
        raise ArgumentValueError(
            f"the profile {profile!r} is C and nothing else, and calls no BLAS",
            instead=setting("profile", "fast", cli=cli),
        )
    options = replace(PROFILES[profile], blas=blas)
    return Request(folder, chosen, profile, options, cc=(cc or "").strip(), cli=cli, **further)


# -- from functions to files


def emit_calls(
    calls: Sequence[Specialization], whats: Sequence[str], wrt: Sequence[Argnums], asked: Request,
) -> Package:
    """Write a package of every derivative of every function."""
    if len(set(whats)) != len(whats) or not whats:
        said = setting("what", tuple(whats), cli=asked.cli)
        raise ArgumentValueError(f"{said} names a derivative twice, or none")
    if len({call.name for call in calls}) != len(calls):
        raise ArgumentError("two functions have one name", instead="other names, or a package for each")
    refuse_foreign(asked.out, {"Makefile": ""})  # before anything is computed
    names = _exported_names([call.plain_name for call in calls], whats, asked, max(len(c.examples) for c in calls))
    target = code.FAST if asked.fast else code.EMBEDDED
    functions: list[Exported] = []
    for call, by in zip(calls, wrt, strict=True):
        for what in whats:
            first = sum(path.statuses for made in functions for path in made.each)
            options = replace(asked.options, paths=max(1, len(call.examples)))
            derivative = derive(what, call, by, options, "--wrt" if asked.cli else "wrt=")
            made = code.exported(names[len(functions)], derivative, asked.options, target, asked.name, first)
            functions.append(made)
    open_extents = {name for made in functions for name in made.extents}
    for name, value in (asked.sizes or {}).items():
        if name not in open_extents:
            written_as = f"--size {name}={value}" if asked.cli else f"sizes={asked.sizes!r}"
            raise ArgumentValueError(
                f"{written_as}: {name} is no open extent of these functions",
                instead=", ".join(sorted(open_extents)) or "none, for all are numbers",
            )
    view, skipped = _module_view(functions, asked)
    texts = files(view)
    if asked.line_directives:
        name = f"{asked.name}.c"
        cores = [path.core for made in functions for path in made.each]
        texts[name] = _with_lines(texts[name], name, {line for core in cores for line in core.lines})
    texts = {name: text if text.endswith("\n") else f"{text}\n" for name, text in texts.items()}
    programs = [as_text(path.lowered.program) for made in functions for path in made.each]
    made_of = [view.version, view.name, view.profile, *[made.name for made in functions], *programs]
    report = {
        "format": FORMAT, "generator": f"symgrad {view.version}", "module": view.name, "profile": view.profile,
        "functions": [_function_report(made, asked, skipped=made.name in skipped) for made in functions],
        "provenance": hashlib.sha256("\0".join(made_of).encode(errors="backslashreplace")).hexdigest(),
        "files": {name: checksum(text.encode()) for name, text in texts.items()},
    }
    texts[REPORT] = json.dumps(report, indent=2) + "\n"
    write_files(asked.out, texts)
    return Package(asked.out, asked.name, tuple([made.name for made in functions]), tuple(texts), report)


def _exported_names(calls: Sequence[str], whats: Sequence[str], asked: Request, paths: int) -> list[str]:
    """Name the functions of C, of at most so many paths, as nothing else in the package, and no macro, is named."""
    pairs = [(call, what) for call in calls for what in whats]
    parts = [[asked.name, *[c] * (len(calls) > 1), *[w] * (len(whats) > 1)] for c, w in pairs]
    names = [identifier("_".join(words)) for words in parts]
    upper = asked.name.upper()
    taken = {f"{asked.name}_error", *[f"{upper}_{end}" for end in CONSTANTS]}
    taken |= {f"{name}_{end}" for name in names for end in ("workspace_bytes", "core", "core_watched", "base")}
    inner = [f"{name}_{end}_{k}" for name in names for end in ("core", "base") for k in range(1, paths + 1)]
    taken |= {f"{name}{end}" for name in inner for end in ("", "_watched")}
    for name, (call, _) in zip(names, pairs, strict=True):
        if name in taken or names.count(name) > 1:
            other = setting("name", f"{asked.name}_module", cli=asked.cli)
            raise ArgumentError(
                f"{call}() would be called {name}, as something else is", instead=f"another name for it, or {other}"
            )
    return names


def _module_view(functions: Sequence[Exported], asked: Request) -> tuple[ModuleView, list[str]]:
    """Collect what the templates print; say of which functions no finite difference agreed."""
    upper, fast = asked.name.upper(), asked.fast
    pad = max(len(made.name) for made in functions)
    known = {a.name for made in functions for a in (*made.core.loops.inputs, *made.core.loops.outputs)}
    for name in asked.units or {}:
        if name not in known:
            raise ArgumentValueError(f"a unit for {name}, which is no array here", instead=", ".join(sorted(known)))
    units = {name: code.c_string(unit) for name, unit in (asked.units or {}).items()}
    entries = [code.entry_view(made, pad, units, threads=fast) for made in functions]
    watches, first, paths = [], NOT_FINITE, [path for made in functions for path in made.each]
    for made in functions:
        for path in made.each:
            watches.append(code.watch_view(path, made.derivative.of.name, first))
            first += len(path.watch.values)
    # Recorded calls and finite differences: of a function where none agree, the package says so.
    cases, compared, skipped, remarks = [], [], [], []
    for made in functions:
        derivative = made.derivative
        run = record.Runner(derivative.lowered, derivative.outputs)
        calls = record.recorded(made, run, asked.sizes or {}, asked.seed, threads=fast)
        cases += [record.case_view(made, at, number, threads=fast) for number, at in enumerate(calls, 1)]
        if nowhere := record.never_finite(calls):
            text = f"{made.name} gives no finite {' and no finite '.join(nowhere)} at any arguments that were tried"
            remarks.append(f"`{made.name}`: {text}; its test compares NaN with NaN.")
            others = "--size and --seed" if asked.cli else "sizes= and seed="
            warn(f"{text}: its test compares NaN with NaN; {others} choose others")
        if derivative.base is None:
            continue
        for k in range(len(made.each)):
            own = [call for call in calls if call.path == k]
            if own and (found := record.differences(derivative, run, own, asked.seed)) is not None:
                compared.append(record.difference_view(made, found, threads=fast))
                continue
            skipped.append(made.name)
            where = f" on path {k + 1}" if made.branched else ""
            remarks.append(f"`{made.name}`{where} is compared with recorded numbers alone: {WHY}.")
            warn(
                f"finite differences of {derivative.of.name}() agree nowhere with what {made.name} computes{where}: "
                "its test compares recorded numbers alone"
            )
    spoken = " ".join([call for one in compared for call in (one.plus, one.minus)])
    bases = [base for made in functions for base in made.bases if f"{base.name}(" in spoken]
    main, words = code.cores_text([path.core for path in paths]), asked.cc.split()
    origin = ", ".join(dict.fromkeys(code.c_string(made.origin) for made in functions))
    tolerances = sorted({o.relative for c in cases for o in c.outputs if o.relative not in {"", "0.0"}}) or ["0"]
    view = ModuleView(
        name=asked.name, upper=upper, version=__version__, origin=origin, profile=asked.profile, threads=fast,
        description=code.c_string(entries[0].summary), blas=asked.options.blas, team=TEAM, body=main,
        check_body=code.cores_text([path.watched for path in paths]), base_body=code.cores_text(bases),
        entries=tuple(entries), watches=tuple(watches), errors=tuple(code.error_views(functions)),
        not_finite=NOT_FINITE, calls=code.size_calls(entries), cases=tuple(cases), case_count=len(cases),
        formula_types=record.formula_types(cases, compared), differences=tuple(compared),
        refusals=tuple([r for made in functions for r in record.refusals(made, upper, threads=fast)]),
        tolerances=tuple(tolerances), **_building(asked, main), cc=asked.cc, remarks=tuple(remarks),
        ar=" ".join([*words[: words.index("cc")], "ar"]) if "cc" in words[1:] else "",  # zig brings its own archiver
        python=tuple([code.python_view(made, threads=fast) for made in functions]) if asked.python else (),
    )
    return view, skipped


def _building(asked: Request, text: str) -> dict[str, Any]:
    """Choose what make, CMake and the linker are told."""
    level, flags, openmp, settings, width = "-O2", ["-ffp-contract=off"], list[str](), dict[str, str](), 512
    if asked.fast:
        # gcc 12.2 permutes vectors of AVX-512 wrong, and copies known constants wrong; loops are no slower without. The
        # last two stand for the pragma of the C, which keeps sums whole however it is compiled, and is slower.
        whole = ("-fno-tree-slp-vectorize", "-fno-tree-loop-distribute-patterns", KEEPS_JUMPS, "-DSG_KEEPS_JUMPS")
        level, flags, openmp = "-O3", ["-fno-math-errno", "-fno-trapping-math", *flags, *whole], ["-fopenmp"]
        settings = {"ARCH": "" if asked.cc else "-march=native", "OPENMP": "" if asked.cc else "-fopenmp"}
        width = 256 if rows_of_eight(text) else 512  # or it does so in loops
    return {
        "settings": {"OPT": " ".join((level, *flags)), **settings}, "cmake_flags": tuple(flags), "width": width,
        "link_flags": ("-lm", *openmp), "python_flags": (level, *flags, *openmp),
    }


NOTE = re.compile(r"\s+/\* (\S.*?:\d+)(?:  .*)? \*/")


def _with_lines(text: str, name: str, lines: set[Line]) -> str:
    """Put ``#line`` before every line of C that follows a comment with one of the user's `lines`.

    What follows a function belongs to the file of the C again, which has a name.
    """
    known = {comment(str(line)): line for line in lines}
    rows: list[tuple[str, str, int]] = []
    now: Line | None = None
    printed = 0
    for line in text.splitlines():
        note = NOTE.fullmatch(line)
        if note is not None and note[1] in known:
            now = known[note[1]]
        elif now is not None and line == "}":
            printed += 2
            rows.append((line, name, printed))  # the number of the line after the directive
            now = None
            continue
        elif now is not None and line.strip() and not line.lstrip().startswith(("#", "/*")):
            printed += 2
            rows.append((line, comment(str(now)).rpartition(":")[0].replace('"', "'"), now.number))
            continue
        printed += 1
        rows.append((line, "", 0))
    return with_rows(rows)


def _function_report(made: Exported, asked: Request, *, skipped: bool) -> dict[str, Any]:
    """Describe a function, for ``report.json``: what it computes, does and needs."""
    loops, units = made.core.loops, asked.units or {}

    def plain(dim: Any) -> Any:  # a number as it is, and an expression of extents as text
        return dim if type(dim) is int else int(dim) if dim.is_Integer else str(dim)

    def arrays(of: Sequence[Any]) -> list[dict[str, Any]]:
        found = [{"name": a.name, "dtype": a.dtype.name, "shape": [plain(dim) for dim in a.shape]} for a in of]
        return [one | ({"unit": units[one["name"]]} if one["name"] in units else {}) for one in found]

    def needs(path: Cores) -> dict[str, Any]:
        text, core = code.cores_text([path.core]), path.core
        stages = Stages(asked.options)
        stages.kept |= {"loops": core.loops, "c": Source(text, core.name, "", memory=core.functions.memory)}
        cost, memory = cost_of(stages), memory_of(stages)
        return {
            "flops": plain(cost.flops),
            "operations": {name: plain(number) for name, number in {**cost.operations, **cost.calls}.items()},
            "bytes": {"read": plain(cost.read), "written": plain(cost.written)},
            "loops": cost.loops, "statements": cost.statements,
            "workspace": plain(core.loops.workspace),
            "stack": {"arrays": memory.stack, "bound": code.stack_bound(text)},
        }

    paths = {"paths": [{"conditions": path.conditions, **needs(path)} for path in made.each]}
    return {
        "name": made.name, "of": made.derivative.of.name, "what": made.derivative.what,
        "wrt": list(made.derivative.wrt), "reads": arrays(loops.inputs), "writes": arrays(loops.results),
        **(paths if made.branched else needs(made.each[0])),
        "finite_differences": made.derivative.base is not None and not skipped,
    }
