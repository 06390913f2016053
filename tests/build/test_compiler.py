"""Compiler runs: bounded, killed cleanly, tried again at -O1, and errors that name the user's line."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from pathlib import Path

import pytest

from symgrad.build.load import build
from symgrad.build.toolchain import process
from symgrad.build.toolchain.compiler import compile_library
from symgrad.build.toolchain.find import find
from symgrad.errors import SymgradWarning, ToolchainError
from symgrad.options import Options
from tests.build.sources import finish, source_of

# Runs a command when the compiler is given a program of ours (not the probe) at -O3, or at any level.
OURS = 'case "$*" in *probe*|*--version*) ;; {pattern}) {command};; esac'
AT_O3 = "*-O3*"
ALWAYS = "*"


def options_of(compiler, pattern, command):
    return Options(compiler=compiler(OURS.format(pattern=pattern, command=command)))


def build_with(options, source):
    tools = find(options)
    assert tools is not None
    return build(source, tools, options)


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


@pytest.mark.parametrize("cached", [True, False])
def test_the_c_stands_beside_the_library(tools, source, cached, folder):
    library = compile_library(source, tools, Options(cache=cached))
    assert [path.name for path in sorted(library.parent.glob("twice.*"))] == ["twice.c", "twice.so"]
    assert library.with_suffix(".c").read_text() == source.text
    assert (folder in library.parents) == cached


def test_a_failure_at_o3_is_compiled_at_o1_with_one_warning(compiler, source):
    options = options_of(compiler, AT_O3, "echo internal compiler error >&2; exit 4")
    with pytest.warns(SymgradWarning, match="at -O3 .exit status 4.*-O1") as said:
        library = build_with(options, source)
    assert len(said) == 1
    x = library.ffi.new("double[]", [1.0, 3.0])
    assert library.function(x, 2) == 0
    assert list(x) == [2.0, 6.0]


def test_a_compiler_too_slow_at_o3_is_killed_and_tried_at_o1(compiler, source, monkeypatch, tmp_path):
    pids = tmp_path / "pids"
    monkeypatch.setenv("SYMGRAD_COMPILE_SECONDS", "1")
    options = options_of(compiler, AT_O3, f"sleep 60 & echo $$ $! > {pids}; wait")
    with pytest.warns(SymgradWarning, match="stopped after 1 s"):
        library = build_with(options, source)
    assert library.function is not None
    for pid in pids.read_text().split():
        wait_for(lambda pid=pid: not alive(pid))


def test_an_error_names_the_op_and_the_line(tools):
    text = (
        "#include <stdint.h>\nint32_t f(double *x)\n{\n    /* model.py:13 multiply */\n    x[0] *= 2;\n"
        "    /* model.py:14 exp */\n    x[0] = not_declared;\n    /* model.py:15 log */\n    return 0;\n}\n"
    )
    with pytest.raises(ToolchainError, match=r"model\.py:14 exp") as caught:
        build(source_of(text, "f", "int32_t f(double *x);"), tools, Options())
    message = str(caught.value)
    assert "not_declared" in message
    assert "model.py:13" not in message.partition("it said")[0]
    assert "model.py:15" not in message.partition("it said")[0]
    assert "instead:" in message
    assert isinstance(caught.value, RuntimeError)


def test_an_error_finds_the_comment_at_the_end_of_its_own_line(tools):
    text = "int f(void)\n{\n    int a = 1; /* model.py:1 */\n    return b; /* model.py:14 add */\n}\n"
    with pytest.raises(ToolchainError, match=r"made from model\.py:14 add;"):
        build(source_of(text, "f", "int32_t f(void);"), tools, Options())


def test_a_compiler_that_always_fails_is_an_error_with_what_it_said(compiler, source):
    say = "echo program.c:7:5: error: no registers left in here >&2; seq 1000 >&2; exit 1"
    with pytest.raises(ToolchainError, match=r"model\.py:14") as caught:
        build_with(options_of(compiler, ALWAYS, say), source)
    assert "no registers left" in str(caught.value)
    assert len(str(caught.value)) < 2000


def test_without_a_line_number_the_error_names_what_was_compiled(compiler):
    source = source_of(links=tuple(f"model.py:{line} exp" for line in range(14, 40)))
    with pytest.raises(ToolchainError, match=r"model\.py:14 exp, .*, \.\.\.;"):
        build_with(options_of(compiler, ALWAYS, "kill -SEGV $$"), source)


def test_a_compiler_that_writes_nothing_is_an_error(compiler, source):
    with pytest.raises(ToolchainError, match="wrote no library"):
        build_with(options_of(compiler, ALWAYS, "exit 0"), source)


def test_a_failure_leaves_nothing_behind(compiler, source, folder, tmp_path, monkeypatch):
    options = options_of(compiler, ALWAYS, "touch left; exit 1")
    assert find(options) is not None
    before, temporary = sorted(folder.iterdir()), tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with pytest.raises(ToolchainError):
        build_with(options, source)
    assert sorted(folder.iterdir()) == before
    assert list(temporary.iterdir()) == []


def test_memory_is_bounded_in_the_compiler_and_its_children(compiler, source, monkeypatch, tmp_path):
    seen = tmp_path / "seen"
    monkeypatch.setenv("SYMGRAD_COMPILE_BYTES", str(2**30))
    # The child is there before the bound is: it gets one of its own.
    command = f"sh -c 'sleep 0.1; ulimit -v >> {seen}' & sleep 0.1; ulimit -v >> {seen}; wait"
    build_with(options_of(compiler, AT_O3, command), source)
    assert seen.read_text().split() == [str(2**20)] * 2


def test_a_compiler_that_takes_too_much_memory_fails(tmp_path):
    code = "import time; time.sleep(0.1); x = bytearray(2 ** 30)"
    finished = process.run(("python3", "-c", code), tmp_path, 20, 2**28)
    assert finished.status == 1
    assert "MemoryError" in finished.output


def test_a_program_that_escapes_with_the_pipe_does_not_hold_us(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "_REAP_SECONDS", 0.2)
    escaping = "setsid sleep 5 & sleep 60"
    start = time.monotonic()
    assert process.run(("sh", "-c", escaping), tmp_path, 0.3, 2**32).status is None
    assert time.monotonic() - start < 3


def test_ctrl_c_kills_the_compiler_and_leaves_nothing(compiler, python, folder, tmp_path):
    pids, temporary = tmp_path / "pids", tmp_path / "temporary"
    temporary.mkdir()
    command = f"sleep 60 & echo $$ $! > {pids}.new; mv {pids}.new {pids}; wait"
    mine = compiler(OURS.format(pattern=ALWAYS, command=command))
    code = (
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it\n"
        "from symgrad.options import Options\n"
        "from symgrad.build.toolchain.find import find\n"
        "from symgrad.build.load import build\n"
        "from tests.build.sources import source_of\n"
        "options = Options(compiler=sys.argv[1])\n"
        "tools = find(options)\n"
        "build(source_of(), tools, options)\n"
    )
    running = python(code, mine, TMPDIR=str(temporary))
    wait_for(pids.exists)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=10)
    assert "KeyboardInterrupt" in err
    for pid in pids.read_text().split():
        wait_for(lambda pid=pid: not alive(pid))
    assert list(temporary.iterdir()) == []
    assert [path.name for path in folder.iterdir() if not path.name.startswith("record-")] == []


def test_the_compilers_temporary_files_stay_in_our_folder(compiler, source, tmp_path):
    seen = tmp_path / "seen"
    build_with(options_of(compiler, AT_O3, f"echo $TMPDIR > {seen}"), source)
    where = Path(seen.read_text().strip())
    assert where.parent.name.startswith("symgrad-")
    assert not where.exists()


def test_the_private_folder_is_private_and_goes_with_the_process(python, tmp_path):
    code = "from symgrad.build.toolchain import process; print(process.scratch_folder())"
    out, _ = finish(python(code, TMPDIR=str(tmp_path)))
    assert Path(out.strip()).parent.parent == tmp_path
    assert list(tmp_path.glob("symgrad-*")) == []
    assert process.scratch_folder().stat().st_mode & 0o077 == 0


def test_a_forked_child_does_not_delete_its_parents_folder(python, tmp_path):
    code = (
        "import os, sys\n"
        "from symgrad.build.toolchain import process\n"
        "mine = process.scratch_folder()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    sys.exit(int(process.scratch_folder() == mine))\n"
        "print(os.waitpid(child, 0)[1], mine.is_dir())\n"
    )
    assert finish(python(code, TMPDIR=str(tmp_path)))[0].split() == ["0", "True"]
    assert list(tmp_path.glob("symgrad-*")) == []


def test_folders_of_killed_processes_go(python, tmp_path):
    for name, age in (("symgrad-old", 100), ("symgrad-new", 10), ("other-old", 100), ("symgrad-thesis", 1e6)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "program.c").write_text("x")
        lock = tmp_path / name / (".symgrad-compiles-here" if name != "symgrad-thesis" else "notes")
        lock.write_text("")
        for path in (lock, lock.parent):
            os.utime(path, (time.time() - age,) * 2)
    finish(python("from symgrad.build.toolchain import process; process.scratch_folder()", TMPDIR=str(tmp_path)))
    assert sorted(path.name for path in tmp_path.glob("*-*")) == ["other-old", "symgrad-new", "symgrad-thesis"]


def test_many_folders_hold_one_file_open(python):
    code = "import os; from symgrad.build.toolchain import process\n[process.scratch_folder() for _ in range(9)]\n"
    before, after = (finish(python(text + "print(len(os.listdir('/proc/self/fd')))"))[0] for text in
                     (code.replace("9", "1"), code))
    assert before == after


def test_threads_compile_side_by_side(tools):
    sources = [source_of(f"int f{k}(void) {{ return {k % 4}; }}", f"f{k}", f"int32_t f{k}(void);") for k in range(8)]
    answers = {}

    def one(k):
        answers[k] = build(sources[k % 4], tools, Options()).function()

    threads = [threading.Thread(target=one, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {k: k % 4 for k in range(8)}


def test_file_names_are_plain_words(tools):
    long = "f" * 300
    library = compile_library(source_of(f"int {long}(void) {{ return 1; }}", long), tools, Options())
    assert library.name == "program.so"
    assert library.with_suffix(".c").is_file()


@pytest.mark.parametrize("value", ["much", "-1", "nan", "inf"])
def test_a_bound_that_is_no_number_is_said_once(monkeypatch, tools, source, value):
    monkeypatch.setenv("SYMGRAD_COMPILE_SECONDS", value)
    with pytest.warns(SymgradWarning, match="SYMGRAD_COMPILE_SECONDS") as said:
        assert build(source, tools, Options()).function is not None
    assert len(said) == 1
