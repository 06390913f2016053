"""Options and fixtures of every test.

`pytest --update-golden` rewrites expected files, `--programs N` sets how many random programs are tried, with
`--fresh` from a seed that changes; with `--optimized` all C is compiled as users' functions are.
"""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import scipy.special  # noqa: F401 - before an op is declared: the tests compare with its functions

if TYPE_CHECKING:
    from symgrad.build.toolchain.find import Toolchain
    from symgrad.options import Options

ROOT = Path(__file__).parents[1]
OWN_CACHE = pytest.StashKey[str]()
TABLES = pytest.StashKey[dict[str, dict[Any, list[Any]]]]()
LEVELS = dict.fromkeys((
    "tests/benchmarks/", "tests/dask/", "tests/emit/", "tests/render/", "tests/build/", "tests/loops/test_products",
    "tests/loops/test_tiles", "tests/ops/test_elementwise", "tests/test_random_programs", "tests/test_random_writes",
    "tests/test_regressions", "tests/test_accuracy", "tests/test_rows", "tests/test_hard_points",
    "tests/api/test_mode_costs", "tests/api/test_bind", "tests/control/test_random_scans", "symgrad/",
), "-O3") | dict.fromkeys((
    "tests/loops/", "tests/ops/test_casts", "tests/ops/test_traits", "tests/sparse/", "tests/step/", "tests/train/",
    "tests/test_ops_table",
), "-O1")
"""How these are compiled by day, when the compiler takes a third of the time of all tests.

As users' functions are: what is about the C and its time, and random programs. At -O1, which has loops in lanes, too:
loops, and what compares bits of one computation with those of another. All others without optimization: what they ask
is what a program computes, of small arrays.
"""

LONG, PART = 4, 6
"""Of a table with so many cases two are tried by day and one of so many others, and the rest is left to the night."""

DENSE = ("tests/test_ops_table", "tests/ops/", "tests/test_hard_points", "tests/scipy/test_functions")
DENSE_LONG, DENSE_PART = 24, 3
"""Of tables with a case for an operation or a function, which take a tenth of a second each, more are tried."""

TOGETHER = 6
"""So many random programs stand in one test, and in one module of C."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("symgrad")
    group.addoption("--update-golden", action="store_true", help="write what is generated over what was expected")
    group.addoption("--programs", type=int, default=None, metavar="N", help="how many random programs to try")
    group.addoption("--optimized", action="store_true", help="compile all C as users' functions are")
    group.addoption("--fresh", action="store_true", help="draw random programs from a fresh seed (it is printed)")


def pytest_configure(config: pytest.Config) -> None:
    """Keep the user's compilation cache out of it, and verify every program between stages and after every loop pass.

    A SYMGRAD_CACHE_DIR that is set is respected: it saves a developer the compiler runs of the last time.
    """
    if "SYMGRAD_CACHE_DIR" not in os.environ:
        config.stash[OWN_CACHE] = os.environ["SYMGRAD_CACHE_DIR"] = tempfile.mkdtemp(prefix="symgrad-tests-")
    os.environ.setdefault("SYMGRAD_VERIFY", "1")
    gc.set_threshold(2_000_000, 10, 20)  # each compilation leaves that much, which lives as long as its test
    if config.getoption("--optimized"):
        os.environ["SYMGRAD_TESTS_OPTIMIZED"] = "1"
    if config.getoption("--fresh"):
        now = int(time.time()) * 1_000_000
        os.environ.setdefault("SYMGRAD_TESTS_FIRST", str(now))  # for every process of the run


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave most cases of long tables to the night, unless files or cases are asked for."""
    tables: dict[str, list[pytest.Item]] = {}
    for item in items:
        if "[" in item.nodeid and item.get_closest_marker("nightly") is None:
            tables.setdefault(item.nodeid.partition("[")[0], []).append(item)
    is_whole = [*config.args] == config.getini("testpaths") and not config.getoption("keyword")
    for name, cases in tables.items() if is_whole else ():
        long, part = (DENSE_LONG, DENSE_PART) if name.startswith(DENSE) else (LONG, PART)
        for k, case in enumerate(cases if len(cases) >= long else ()):
            if k % part and k != len(cases) - 1:
                case.add_marker("nightly")


def pytest_collection_finish() -> None:
    """Leave twenty thousand tests out of what the collector looks through after each compilation."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def gently(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile each test as `LEVELS` says; at night, and with --optimized, all as users' functions are."""
    by_day = "not nightly" in request.config.getoption("markexpr") and not request.config.getoption("--optimized")
    level = next((level for start, level in LEVELS.items() if request.node.nodeid.startswith(start)), "-O0")
    if by_day and level != "-O3":
        from symgrad.build.toolchain import find as toolchain

        as_ever = toolchain.find

        def find(options: Options) -> Toolchain | None:
            found = as_ever(options)
            return found and replace(found, flags=tuple([level if flag == "-O3" else flag for flag in found.flags]))

        monkeypatch.setattr(toolchain, "find", find)


def pytest_unconfigure(config: pytest.Config) -> None:
    folder = config.stash.get(OWN_CACHE, None)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
        os.environ.pop("SYMGRAD_CACHE_DIR", None)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give random programs their seeds: the module's `SEEDS`, or as many as --programs says; a range to each test.

    Ranges that begin with one of the module's `NIGHTLY` take long and are left to the night.
    """
    if "seeds" in metafunc.fixturenames:
        usual: range = metafunc.module.SEEDS
        count = metafunc.config.getoption("--programs") or len(usual)
        first = int(os.environ["SYMGRAD_TESTS_FIRST"]) if metafunc.config.getoption("--fresh") else usual.start
        ranges = [range(k, min(k + TOGETHER, first + count)) for k in range(first, first + count, TOGETHER)]
        late = getattr(metafunc.module, "NIGHTLY", ())
        marked = [pytest.param(r, marks=[pytest.mark.nightly] * (r.start in late)) for r in ranges]
        metafunc.parametrize("seeds", marked, ids=str)


@pytest.fixture
def tried(request: pytest.FixtureRequest) -> Callable[[str], tuple[Any, ...]]:
    """Return the values of a parameter that this run tries in this test, with all other parameters as they are here.

    What is compiled for all of them at once need not be compiled for those that are left to the night.
    """
    items: list[Any] = request.session.items

    def key(item: Any, name: str) -> Any:
        return item.nodeid.partition("[")[0], *[(k, id(v)) for k, v in item.callspec.params.items() if k != name]

    def values(name: str) -> tuple[Any, ...]:
        tables = request.session.stash.setdefault(TABLES, {})
        if name not in tables:
            tables[name] = {}
            for item in items:
                if name in getattr(getattr(item, "callspec", None), "params", ()):
                    tables[name].setdefault(key(item, name), []).append(item.callspec.params[name])
        return tuple(tables[name][key(request.node, name)])

    return values


@pytest.fixture
def together(tried: Callable[[str], tuple[Any, ...]], row: Any) -> tuple[Any, ...]:
    """Return the rows of a table that stand in one module with a test's own, of those that this run tries."""
    from tests.table import MODULE

    rows = tried("row")
    start = rows.index(row) // MODULE * MODULE
    return rows[start : start + MODULE]


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with `tests/golden/NAME`, or write it there under --update-golden."""

    def check(name: str, text: str) -> None:
        path = ROOT / "tests" / "golden" / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        if not path.exists():
            pytest.fail(f"{path.relative_to(ROOT)} does not exist: run pytest --update-golden and review it")
        assert text == path.read_text(encoding="utf-8"), "if the new text is right: pytest --update-golden"

    return check
