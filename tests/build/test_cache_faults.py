"""What may go wrong with the cache: damage, foreign folders, disks read-only or full, killed processes."""

from __future__ import annotations

import errno
import os
import shutil
import time
import warnings
from pathlib import Path

import pytest

from symgrad.build.cache import private
from symgrad.build.cache import store as cache
from symgrad.build.load import build
from symgrad.build.toolchain.compiler import compile_library
from symgrad.errors import SymgradWarning
from symgrad.options import Options
from tests.build.sources import BUILD, TWICE, entries, forget, source_of, works

DAY = 86_400


def truncate(entry):
    library = next(entry.glob("*.so"))
    library.write_bytes(library.read_bytes()[:4096])


def flip(entry):
    library = next(entry.glob("*.so"))
    data = bytearray(library.read_bytes())
    data[len(data) // 2] ^= 1
    library.write_bytes(data)


def lose_library(entry):
    next(entry.glob("*.so")).unlink()


def lose_checksum(entry):
    (entry / "sha256").unlink()


def lose_c(entry):
    next(entry.glob("*.c")).unlink()


def empty_checksum(entry):
    (entry / "sha256").write_bytes(b"")


def become_file(entry):
    shutil.rmtree(entry)
    entry.write_text("not a folder")


@pytest.mark.parametrize("harm", [truncate, flip, lose_library, lose_checksum, lose_c, empty_checksum])
def test_a_damaged_entry_is_compiled_again_with_one_warning(tools, source, folder, runs, harm):
    entry = compile_library(source, tools, Options()).parent
    harm(entry)
    with pytest.warns(SymgradWarning, match="damaged") as said:
        assert works(build(source, tools, Options()))
    assert len(said) == 1
    assert len(runs) == 2
    assert works(build(source, tools, Options()))
    assert len(runs) == 2
    assert entries(folder) == [entry]


@pytest.mark.parametrize("stays", [False, True])
def test_what_another_process_takes_or_replaces_meanwhile_is_not_damaged(tools, source, folder, monkeypatch, stays):
    library = compile_library(source, tools, Options())
    store, content, asked = cache.open_store(), private.content, []
    assert store is not None

    def changing(path):
        found = content(path)
        asked.append(path)
        if len(asked) == 1:
            library.write_bytes(found + b"more")
            store.add(library.parent.name, library)  # of another compiler, say
            if not stays:
                shutil.rmtree(library.parent)
        return found

    monkeypatch.setattr(private, "content", changing)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = store.find(library.parent.name, library.name)
    assert (found is not None) is stays


def test_a_file_where_an_entry_should_be_is_replaced(tools, source, folder, runs):
    entry = compile_library(source, tools, Options()).parent
    become_file(entry)
    assert works(build(source, tools, Options()))
    assert entries(folder) == [entry]
    assert len(runs) == 2


def link(folder):
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to(folder.with_name("elsewhere"))


def open_to_the_world(folder):
    folder.chmod(0o707)


def open_to_the_group(folder):
    folder.chmod(0o770)


def replaceable(folder):
    folder.parent.chmod(0o777)


def a_file(folder):
    shutil.rmtree(folder)
    folder.write_text("")


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (link, "symbolic link"), (open_to_the_world, "may write to it"), (open_to_the_group, "may write to it"),
        (replaceable, "parent"), (a_file, "not a folder"),
    ],
)
def test_a_folder_that_is_not_private_is_not_used(tools, source, folder, runs, harm, reason):
    build(source, tools, Options())
    harm(folder)
    before = entries(folder) if folder.is_dir() else None
    forget()
    with pytest.warns(SymgradWarning, match=reason) as said:
        library = build(source, tools, Options())
    assert works(library)
    assert folder not in library.library_path.parents
    build(source, tools, Options())
    assert len(said) == 1
    assert len(runs) == 3
    assert (entries(folder) if folder.is_dir() else None) == before
    assert reason in str(cache.info().problem)
    assert cache.clear() == 0


def test_a_folder_of_another_user_is_not_used(tools, source, monkeypatch):
    me = os.getuid()
    forget()
    monkeypatch.setattr(os, "getuid", lambda: me + 1)
    with pytest.warns(SymgradWarning, match="another user"):
        assert works(build(source, tools, Options()))


def test_a_folder_that_cannot_be_made_is_done_without(tools, source, monkeypatch, runs):
    monkeypatch.setenv("SYMGRAD_CACHE_DIR", "/proc/symgrad/cache")
    with pytest.warns(SymgradWarning, match="cannot be created") as said:
        assert works(build(source, tools, Options()))
    assert works(build(source, tools, Options()))  # a second warning would be an error here
    assert len(said) == 1
    assert len(runs) == 2


def refusing(monkeypatch, folder, code):
    """Make every write below `folder` fail as a read-only or full file system does (root passes mode bits)."""
    def refuse(path):
        if folder in Path(path).parents:
            raise OSError(code, os.strerror(code), str(path))

    make, opened = Path.mkdir, os.open
    monkeypatch.setattr(Path, "mkdir", lambda path, *rest, **more: (refuse(path), make(path, *rest, **more))[1])

    def open_(path, flags, *rest, **more):
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            refuse(path)
        return opened(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", open_)


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EDQUOT], ids=errno.errorcode.get)
def test_a_read_only_or_full_folder_is_done_without(tools, source, folder, monkeypatch, runs, code):
    refusing(monkeypatch, folder, code)
    with pytest.warns(SymgradWarning, match="cannot be written") as said:
        assert works(build(source, tools, Options()))
    assert works(build(source, tools, Options()))  # a second warning would be an error here
    assert len(said) == 1
    assert len(runs) == 2
    assert entries(folder) == []


def test_what_a_read_only_folder_holds_is_used(tools, source, folder, monkeypatch, runs):
    build(source, tools, Options())
    refusing(monkeypatch, folder, errno.EROFS)
    assert works(build(source, tools, Options()))
    assert len(runs) == 1


def test_a_disk_that_fills_while_writing_leaves_nothing(tools, source, folder, monkeypatch):
    written: list[Path] = []
    write = cache._write_file

    def fill(path, content):
        if written:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(path)
        write(path, content)

    monkeypatch.setattr(cache, "_write_file", fill)
    with pytest.warns(SymgradWarning, match="No space left"):
        assert works(build(source, tools, Options()))
    assert entries(folder) == []


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_process_killed_while_writing_leaves_nothing_harmful(python, folder, tools, source, runs, tmp_path, after):
    kill = (
        "import os, signal\n"
        "from symgrad.build.cache import store as cache\n"
        "write, written = cache._write_file, []\n"
        "def stop(path, content):\n"
        f"    if len(written) == {after}:\n"
        "        write(path, content[: len(content) // 2])\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    written.append(path)\n"
        "    write(path, content)\n"
        "cache._write_file = stop\n"
    )
    killed = python(kill + BUILD, TMPDIR=str(tmp_path))
    killed.communicate(timeout=30)
    assert killed.returncode == -9
    left = entries(folder)
    assert {path.name.partition("-")[0] for path in left} == {"tmp", "lock"}
    assert works(build(source, tools, Options()))
    assert len(runs) == 1
    left = [path for path in left if path.exists()]
    assert len(left) == 1  # the lock is taken over
    os.utime(left[0], (time.time() - DAY,) * 2)
    forget()
    build(source_of(TWICE + "\n"), tools, Options())
    assert not left[0].exists()


def test_an_entry_evicted_between_check_and_load_is_compiled(tools, source, monkeypatch, runs):
    compile_library(source, tools, Options())
    find = cache.Store.find

    def find_and_lose(self, key, names):
        entry = find(self, key, names)
        if entry is not None:
            shutil.rmtree(entry.parent)
        return entry

    monkeypatch.setattr(cache.Store, "find", find_and_lose)
    assert works(build(source, tools, Options()))
    assert len(runs) == 2
