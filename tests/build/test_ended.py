"""However Python ends while a compiler runs: the compiler ends too, and its folder goes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from symgrad.build.toolchain import process
from tests.build.sources import ROOT, finish
from tests.build.test_compiler import ALWAYS, OURS, alive, wait_for

# What the compiler does when it is given a program of ours: it starts another program, tells who they are, and stays.
STAYS = "{first} sleep 60 & echo $$ $! > {told}/$$.new; mv {told}/$$.new {told}/$$; wait; wait; wait"
IGNORES = "trap '' TERM HUP INT;"

BUILD = """
import signal, sys, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from symgrad.options import Options
from symgrad.build.toolchain.find import find
from symgrad.build.load import build
from tests.build.sources import TWICE, source_of
options = Options(compiler=sys.argv[1])
tools = find(options)
def one(k):
    build(source_of(TWICE + "/* %d */" % k), tools, options)
"""
ALONE = BUILD + "one(0)\n"
THREADS = BUILD + """
for k in range(3):
    threading.Thread(target=one, args=(k,)).start()
"""
BEHIND = BUILD + """
import os, time
threading.Thread(target=one, args=(0,), daemon=True).start()
while not os.listdir(sys.argv[2]):
    time.sleep(0.01)
"""
RAISES = BUILD + """
import os, time
def interrupt(*_):
    raise ValueError("of the program's own handler")
signal.signal(signal.SIGTERM, interrupt)
one(0)
"""
FORKED = BUILD + """
import os, time
threading.Thread(target=one, args=(0,), daemon=True).start()
while not os.listdir(sys.argv[2]):
    time.sleep(0.01)
if os.fork() == 0:
    time.sleep(30)
    os._exit(0)
time.sleep(30)
"""

ENDS = {
    "SIGTERM": (ALONE, signal.SIGTERM, -15, 1), "SIGHUP": (ALONE, signal.SIGHUP, -1, 1),
    "SIGKILL": (ALONE, signal.SIGKILL, -9, 1), "Ctrl-C": (ALONE, signal.SIGINT, -2, 1),
    "SIGTERM, three in threads": (THREADS, signal.SIGTERM, -15, 3),
    "SIGKILL, three in threads": (THREADS, signal.SIGKILL, -9, 3),
    "a handler that raises": (RAISES, signal.SIGTERM, 1, 1),
    "an end while another thread compiles": (BEHIND, None, 0, 1),
    "SIGTERM, and a forked child that lives on": (FORKED, signal.SIGTERM, -15, 1),
}


def ended(running):
    """The status a process ends with; what it wrote is not waited for: a forked child may live on."""
    status = running.wait(timeout=20)
    running.stdout.close()
    running.stderr.close()
    return status


@pytest.mark.parametrize("ignores", [False, True], ids=["", "that ignores signals"])
@pytest.mark.parametrize(("code", "sent", "status", "count"), ENDS.values(), ids=ENDS)
def test_the_compiler_ends_and_its_folder_goes(compiler, python, tmp_path, code, sent, status, count, ignores):
    told, temporary = tmp_path / "told", tmp_path / "temporary"
    told.mkdir()
    temporary.mkdir()
    mine = compiler(OURS.format(pattern=ALWAYS, command=STAYS.format(first=IGNORES * ignores, told=told)))
    running = python(code, mine, told, TMPDIR=str(temporary))
    wait_for(lambda: len([*told.glob("*[0-9]")]) == count or running.poll() is not None)
    if sent is not None:
        running.send_signal(sent)
    assert ended(running) == status
    for pid in " ".join(path.read_text() for path in told.iterdir()).split():
        wait_for(lambda pid=pid: not alive(pid))
    wait_for(lambda: list(temporary.iterdir()) == [])


def test_the_command_line_too(compiler, tmp_path, folder):
    told, temporary, model = tmp_path / "told", tmp_path / "temporary", tmp_path / "model.py"
    told.mkdir()
    temporary.mkdir()
    model.write_text("import numpy as np\ndef loss(w):\n    return np.sum(w * w)\n")
    mine = compiler(OURS.format(pattern=ALWAYS, command=STAYS.format(first=IGNORES, told=told)))
    words = ["check", f"{model}:loss", "--arg", "w=f64[3]"]
    running = subprocess.Popen(
        [sys.executable, "-c", "from symgrad_start import run; run()", *words], stdout=subprocess.PIPE, text=True,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT), "CC": mine, "TMPDIR": str(temporary)},
    )
    wait_for(lambda: [*told.glob("*[0-9]")] or running.poll() is not None, 30)
    running.send_signal(signal.SIGTERM)
    _, err = running.communicate(timeout=20)
    assert running.returncode == -signal.SIGTERM, err
    for pid in " ".join(path.read_text() for path in told.iterdir()).split():
        wait_for(lambda pid=pid: not alive(pid))
    wait_for(lambda: list(temporary.iterdir()) == [])


@pytest.fixture
def place(tmp_path):
    made = tmp_path / "place"
    made.mkdir()
    return made


def test_what_a_program_returns_and_says_comes_through(place):
    said = process.run(("sh", "-c", "echo out; echo err >&2; echo $# $0 $1; exit 7", "a b", "c'd"), place, 10, 2**32)
    assert said == process.Finished(7, "out\nerr\n1 a b c'd\n")
    assert process.run(("sh", "-c", "read x; echo $?"), place, 10, 2**32).output == "1\n", "there is no input"
    assert process.run(("sh", "-c", "kill -SEGV $$"), place, 10, 2**32).status == 128 + signal.SIGSEGV
    assert process.run(("no-such-program",), place, 10, 2**32).status == 127
    assert [*place.iterdir()] == []


def test_without_a_shell_it_runs_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert process.run((sys.executable, "-c", "print(7)"), tmp_path, 10, 2**32) == process.Finished(0, "7\n")


@pytest.mark.parametrize("then", ["", "sleep 60"], ids=["with all else", "alone"])
def test_a_shell_that_somebody_ends_leaves_nothing_running(place, tmp_path, then):
    """The folder stays: the next try works there."""
    pids = tmp_path / "pids"
    finished = process.run(("sh", "-c", f"echo $$ > {pids}; kill -9 $PPID; {then}"), place, 1, 2**32)
    assert finished.status == (None if then else -9)
    wait_for(lambda: not alive(pids.read_text().strip()))
    time.sleep(0.1)
    assert place.is_dir()


SCRATCH = "from symgrad.build.toolchain.process import scratch_folder"
HOLDS = f"{SCRATCH}; import time; print(scratch_folder(), flush=True); time.sleep(60)"


def old(path, seconds=100):
    """Let a process's folder seem to have been made some time ago."""
    os.utime(path / ".symgrad-compiles-here", (time.time() - seconds,) * 2)


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_the_next_process_deletes_what_a_killed_one_left_and_no_other(python, place, sent):
    holding, killed = [python(HOLDS, TMPDIR=str(place)) for _ in range(2)]
    kept, left = [Path(one.stdout.readline().strip()).parent for one in (holding, killed)]
    killed.send_signal(sent)
    assert ended(killed) == -sent
    old(kept)
    old(left)
    (place / "symgrad-linked").symlink_to(kept)
    finish(python(f"{SCRATCH}; scratch_folder()", TMPDIR=str(place)))
    assert kept.is_dir()
    assert not left.exists()
    holding.kill()
    ended(holding)


def test_without_locks_age_tells(place, monkeypatch):
    import fcntl

    def refuse(*_):
        raise OSError("no locks here")

    for name, age in (("symgrad-old", 90_000), ("symgrad-new", 100)):
        (place / name).mkdir()
        (place / name / ".symgrad-compiles-here").write_text("")
        old(place / name, age)
    monkeypatch.setattr(fcntl, "flock", refuse)
    process._delete_leftovers(place)
    assert [path.name for path in place.iterdir()] == ["symgrad-new"]
