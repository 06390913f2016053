"""How many threads a call may use, and what a forked child may."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from symgrad.build import threads as module
from symgrad.build.load import end_team
from symgrad.build.threads import get_num_threads, set_num_threads, short_waits, threads
from symgrad.errors import ArgumentValueError
from symgrad.options import Options
from tests.build.sources import ROOT, finish

SUM = (
    "import os, sys\n"
    "from symgrad.build.load import build\n"
    "from symgrad.build.threads import get_num_threads, set_num_threads, threads\n"
    "from symgrad.build.toolchain.find import find\n"
    "from symgrad.options import Options\n"
    "from tests.build.sources import source_of\n"
    "text = '''#include <stdint.h>\n"
    "int32_t count(double *x, const int64_t n, const int32_t threads) {\n"
    "#pragma omp parallel for num_threads(threads)\n"
    "    for (int64_t i = 0; i < n; ++i) x[i] += 1.0;\n"
    "    return 0;\n"
    "}\n'''\n"
    "options = Options()\n"
    "library = build(source_of(text, 'count', 'int32_t count(double *x, const int64_t n, const int32_t threads);'),"
    " find(options), options)\n"
    "x = library.ffi.new('double[]', 1000)\n"
    "call = lambda: library.function(x, 1000, threads(options))\n"
)


@pytest.fixture(autouse=True)
def _as_new(monkeypatch):
    for name, value in (("_chosen", None), ("_used", False), ("_serial", False)):
        monkeypatch.setattr(module, name, value)
    module._count_cores.cache_clear()


def test_the_cores_this_process_may_use(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3, 5}, raising=False)
    assert threads(Options()) == 3


def test_without_affinity_all_cores(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert threads(Options()) == 7


def test_at_most_as_many_as_there_are_places_for(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(1000)), raising=False)
    monkeypatch.setattr(module, "_count_cores", lambda: 1000)
    assert threads(Options()) == get_num_threads() == 256
    assert threads(Options(threads=256)) == 256
    for call in (lambda: threads(Options(threads=257)), lambda: set_num_threads(257)):
        with pytest.raises(ValueError, match="257 is not a number of threads, an integer from 1 to 256"):
            call()


def test_the_option_goes_before_the_setting_before_the_environment(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "6")
    assert threads(Options()) == 6
    assert get_num_threads() == 6
    set_num_threads(5)
    assert threads(Options()) == get_num_threads() == 5
    assert threads(Options(threads=4)) == 4
    assert set_num_threads(None).previous == 5
    assert threads(Options()) == 6


def test_a_setting_for_a_block():
    set_num_threads(7)
    with set_num_threads(3) as count:
        assert count == threads(Options()) == 3
        with pytest.raises(ZeroDivisionError), set_num_threads(2):
            _ = 1 / 0
        assert get_num_threads() == 3
    assert get_num_threads() == 7
    assert repr(set_num_threads(1)) == "<threads: 1, before: 7>"


@pytest.mark.parametrize(
    ("value", "count"), [("3", 3), ("4,2", 4), (" 2 ", 2), ("", 9), ("0", 9), ("-1", 9), ("all", 9)],
)
def test_omp_num_threads(monkeypatch, value, count):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(9)), raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert threads(Options()) == count


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "2"])
def test_a_number_of_threads_is_a_positive_integer(value):
    with pytest.raises(ArgumentValueError, match="number of threads"):
        set_num_threads(value)
    if value is not True:
        with pytest.raises(ArgumentValueError, match="number of threads"):
            threads(Options(threads=value))


def test_a_forked_child_of_a_process_that_used_threads_works_and_is_serial(python):
    code = SUM + (
        "set_num_threads(4)\n"
        "assert threads(options) == 4 and call() == 0\n"
        "sys.stdout.flush()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    assert threads(options) == threads(Options(threads=8)) == 1\n"
        "    assert call() == 0 and set(x[0:1000]) == {2.0}\n"
        "    set_num_threads(4)\n"
        "    assert get_num_threads() == threads(options) == 1\n"
        "    assert call() == 0\n"
        "    grandchild = os.fork()\n"
        "    if grandchild == 0:\n"
        "        os._exit(0 if threads(options) == 1 and call() == 0 else 1)\n"
        "    assert os.waitpid(grandchild, 0)[1] == 0\n"
        "    sys.stderr.flush()\n"
        "    os._exit(0)\n"
        "print(os.waitpid(child, 0)[1], threads(options), call())\n"
    )
    out, err = finish(python(code), seconds=20)
    assert out.split() == ["0", "4", "0"]
    assert err.count("set_num_threads(4) has no effect") == 1


def test_a_forked_child_may_ask_for_threads_where_none_ran_before(python):
    code = SUM + (
        "set_num_threads(1)\n"
        "assert call() == 0\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    assert threads(options) == threads(Options(threads=8)) == 1\n"
        "    set_num_threads(3)\n"
        "    assert get_num_threads() == threads(options) == 3\n"
        "    os._exit(call())\n"
        "print(os.waitpid(child, 0)[1])\n"
    )
    assert finish(python(code), seconds=20) == ("0\n", "")


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 2),
        ("0::/a/b\n", {"a/cpu.max": "100000 100000\n", "a/b/cpu.max": "max 100000\n"}, 1),
        ("0::/elsewhere\n", {"cpu.max": "300000 100000\n"}, 3),
        ("1:cpu,cpuacct:/\n2:memory:/x\n", {"cpu,cpuacct/cpu.cfs_quota_us": "200000\n",
                                           "cpu,cpuacct/cpu.cfs_period_us": "100000\n"}, 2),
        ("1:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 9),
        ("0::/\n", {"cpu.max": "50000 100000\n"}, 1),
        ("0::/\n", {"cpu.max": "damaged\n"}, 9),
        ("", {}, 9),
    ],
)
def test_the_quota_of_the_control_group(monkeypatch, tmp_path, groups, files, expected):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "mine").write_text(groups)
    monkeypatch.setattr(module, "_GROUPS", tmp_path)
    monkeypatch.setattr(module, "_MINE", tmp_path / "mine")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(9)), raising=False)
    assert get_num_threads() == expected


POOL = """
import multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor
from symgrad.build.threads import get_num_threads, set_num_threads, short_waits, threads
from symgrad.options import Options

AT_IMPORT = get_num_threads()

def ask(_):
    before = AT_IMPORT, threads(Options()), threads(Options(threads=3))
    set_num_threads(2)
    return (*before, threads(Options()))

if __name__ == "__main__":
    with ProcessPoolExecutor(1, multiprocessing.get_context(sys.argv[1])) as pool:
        print(*pool.submit(ask, 0).result())
"""


@pytest.mark.parametrize(("method", "environment", "expected"), [
    ("spawn", {}, ["1 1 3 2"]),
    ("forkserver", {}, ["1 1 1 2", "1 1 3 2"]),  # its server may have imported the main module, and so symgrad
    ("spawn", {"OMP_NUM_THREADS": "5"}, ["5 5 3 2"]),
    ("fork", {"OMP_NUM_THREADS": "5"}, ["5 1 1 2"]),
])
def test_workers_of_a_pool_of_processes(tmp_path, method, environment, expected):
    """One core each, unless the environment or the worker says otherwise; of a fork, only the worker."""
    script = tmp_path / "pool.py"
    script.write_text(POOL)
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, script, method]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() in expected


def test_short_waits_leave_the_environment_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    with short_waits():
        assert int(os.environ["GOMP_SPINCOUNT"]) < 300_000
        assert os.environ["OMP_WAIT_POLICY"] == "active", "else two teams would not wait at all"
        assert int(os.environ["KMP_BLOCKTIME"]) < 200, "else LLVM's runtime would wait for ever by that"
    assert not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys()
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    with short_waits():
        assert "GOMP_SPINCOUNT" not in os.environ, "what the user chose goes before"


def test_python_ends_while_threads_look_for_work() -> None:
    """They did so in code that was no longer there: libgomp's, which only our libraries use."""
    code = """if True:
        import numpy as np, symgrad as sg
        f = sg.jit(lambda x: np.sum(np.exp(x)), options=sg.Options(threads=2))
        for _ in range(3):
            f(np.ones(1_000_000))
    """
    environment = os.environ | {"OMP_WAIT_POLICY": "active", "GOMP_SPINCOUNT": "10000000000"}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted there")
def test_a_team_is_ended_and_begun_again() -> None:
    """Where two threads of Python have teams, libgomp counts more threads than processors, and lets them sleep."""
    def count() -> int:
        return len([*Path("/proc/self/task").iterdir()])

    x = np.ones(1_000_000)
    f = sg.jit(lambda x: np.sum(np.exp(x)), options=sg.Options(threads=2))
    with set_num_threads(2):
        end_team()
        alone = count()
        value, tries = f(x), 0
        while count() <= alone and (tries := tries + 1) < 200:  # the first calls find threads asleep
            f(x)
        busy = count()
        assert busy > alone
        end_team()
        end = time.monotonic() + 10
        while count() >= busy and time.monotonic() < end:
            time.sleep(0.001)
        assert count() < busy
        assert f(x) == value
