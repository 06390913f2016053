"""The cache: private, atomic, checked before use, bounded, shared by processes, and never a blocker."""

from __future__ import annotations

import os
import stat
import time
from dataclasses import replace

import pytest

from symgrad.build.cache import store as cache
from symgrad.build.load import build
from symgrad.build.toolchain.compiler import compile_library
from symgrad.errors import SymgradWarning
from symgrad.options import Options
from tests.build.sources import BUILD, TWICE, entries, finish, forget, source_of, works


def test_the_second_build_runs_no_compiler(tools, source, folder, runs):
    first = build(source, tools, Options())
    second = build(source, tools, Options())
    assert len(runs) == 1
    assert works(first)
    assert works(second)
    assert second.library_path == first.library_path
    assert folder in first.library_path.parents


def test_the_folder_is_made_private(tools, source, tmp_path, monkeypatch):
    new = tmp_path / "some" / "where"
    monkeypatch.setenv("SYMGRAD_CACHE_DIR", str(new))
    before = os.umask(0)
    try:
        library = compile_library(source, tools, Options())
    finally:
        os.umask(before)
    assert stat.S_IMODE(new.stat().st_mode) == 0o700
    assert stat.S_IMODE(library.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(library.stat().st_mode) == 0o600


def test_the_default_is_the_users_cache_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("SYMGRAD_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.location().name == "symgrad"
    assert tmp_path in cache.location().parents


@pytest.mark.parametrize("part", ["text", "identity", "flags", "libraries", "cpu"])
def test_the_key_covers_all_that_the_library_depends_on(tools, source, part, runs):
    build(source, tools, Options())
    changed = {
        "identity": replace(tools, identity="other"), "flags": replace(tools, flags=(*tools.flags, "-DX")),
        "libraries": replace(tools, libraries=("-lm", "-lm")), "cpu": replace(tools, cpu="other"),
    }
    build(source_of(TWICE + "/* */\n") if part == "text" else source, changed.get(part, tools), Options())
    assert len(runs) == 2


def test_key_parts_do_not_run_together():
    assert cache.key("ab", "c") != cache.key("a", "bc")
    assert cache.key("ab") != cache.key("a", "b")
    assert cache.key("1:a") != cache.key("a")


def test_without_the_cache_nothing_is_read_or_written(tools, source, folder, runs):
    build(source, tools, Options())
    library = build(source, tools, Options(cache=False))
    assert works(library)
    assert len(runs) == 2
    assert folder not in library.library_path.parents
    assert library.c_path.read_text() == source.text


def test_sixteen_processes_at_once_compile_once(python, compiler, tmp_path, folder):
    log = tmp_path / "log"
    mine = compiler(f'case "$*" in *probe*|*--version*) echo probe;; *) echo twice;; esac >> {log}; sleep 0.2')
    started = [python(BUILD, mine, SYMGRAD_COMPILE_SECONDS="30") for _ in range(16)]
    results = [finish(one) for one in started]
    assert [out.strip() for out, _ in results] == ["[2.0, 6.0]"] * 16
    assert [err for _, err in results] == [""] * 16
    assert log.read_text().split().count("twice") == 1
    assert log.read_text().split().count("probe") <= 8  # one process's questions
    assert len(entries(folder)) == 1


def test_two_that_store_the_same_do_no_harm(tools, source, folder, tmp_path):
    library = compile_library(source, tools, Options(cache=False))
    store = cache.open_store()
    assert store is not None
    key = cache.key("same")
    assert store.add(key, library) == store.add(key, library) == folder / key / "twice.so"
    assert store.find(key, "twice.so") == folder / key / "twice.so"
    assert entries(folder) == [folder / key]


def test_a_lock_that_is_held_for_long_is_not_waited_for(tools, source, folder, monkeypatch):
    monkeypatch.setenv("SYMGRAD_COMPILE_SECONDS", "0.3")
    store = cache.open_store()
    assert store is not None
    key = cache.key(source.text, tools.identity, *tools.flags, *tools.libraries, tools.cpu)
    with store.lock(key, 1):
        assert works(build(source, tools, Options()))


def test_one_at_a_time_has_the_lock(folder):
    store = cache.open_store()
    assert store is not None
    with store.lock("k", 1):
        assert cache._acquire(folder / "lock-k") is None
    descriptor = cache._acquire(folder / "lock-k")
    assert descriptor is not None
    cache._release(folder / "lock-k", descriptor)
    assert entries(folder) == []


def filled(store, count, size, age):
    """Add entries of `size` bytes; the k-th was last used `age - k` seconds ago."""
    made = []
    for k in range(count):
        source = store._folder.parent / f"made{k}"
        source.mkdir(exist_ok=True)
        (source / "f.so").write_bytes(bytes(size))
        (source / "f.c").write_bytes(b"")
        made.append(store.add(cache.key(f"entry {k}"), source / "f.so").parent)
        os.utime(made[-1], (time.time() - age + k,) * 2)
    return made


def test_the_least_recently_used_are_evicted(folder, monkeypatch):
    monkeypatch.setenv("SYMGRAD_CACHE_BYTES", "100000")
    store = cache.open_store()
    assert store is not None
    made = filled(store, 8, 10_000, 1000)
    assert store.find(made[0].name, "f.so") == made[0] / "f.so"  # used just now
    forget()
    store = cache.open_store()
    assert store is not None
    more = filled_one(store, "more", 60_000)
    kept = [path for path in made if path.exists()]
    assert kept == [made[0], *made[-1:]]
    assert more.exists()
    assert cache.info().bytes <= 100_000


def filled_one(store, name, size):
    source = store._folder.parent / name
    source.mkdir()
    (source / "f.so").write_bytes(bytes(size))
    (source / "f.c").write_bytes(b"")
    return store.add(cache.key(name), source / "f.so").parent


def test_one_process_that_stores_much_stays_within_the_bound(monkeypatch):
    monkeypatch.setenv("SYMGRAD_CACHE_BYTES", "100000")
    store = cache.open_store()
    assert store is not None
    filled(store, 60, 10_000, 1000)
    assert cache.info().bytes <= 100_000


def test_the_folder_is_counted_rarely(monkeypatch):
    """Once, and again when a part of the bound has been added; else a full folder is gone through for each few."""
    looks = []
    real = cache._evict

    def noted(*args):
        looks.append(args)
        return real(*args)

    monkeypatch.setattr(cache, "_evict", noted)
    monkeypatch.setenv("SYMGRAD_CACHE_BYTES", "6400000")
    store = cache.open_store()
    assert store is not None
    filled(store, 120, 2_000, 1000)
    assert len(looks) == 3


def test_the_newest_stays_also_where_the_file_server_has_another_time(tools, source, monkeypatch):
    monkeypatch.setenv("SYMGRAD_CACHE_BYTES", "0")
    now = time.time() + 1000
    monkeypatch.setattr(time, "time", lambda: now)
    first = compile_library(source, tools, Options())
    second = compile_library(source_of(TWICE + "\n"), tools, Options())
    assert second.exists()
    assert not first.exists()


def test_an_entry_beyond_the_bound_is_still_used(tools, source, monkeypatch):
    monkeypatch.setenv("SYMGRAD_CACHE_BYTES", "0")
    assert works(build(source, tools, Options()))
    assert works(build(source, tools, Options()))


def test_info_and_clear(tools, source, folder):
    mine = folder / "notes.txt"
    mine.write_text("the user's own file")
    assert cache.info().entries == 0
    build(source, tools, Options())
    build(source_of(TWICE + "\n"), tools, Options())
    told = cache.info()
    assert told.folder == folder
    assert told.entries == 2
    assert told.limit == 512 * 2**20
    assert told.problem is None
    mine.write_text("")
    assert told.bytes == sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert cache.clear() == told.bytes
    assert list(folder.iterdir()) == [mine]
    assert cache.info().bytes == 0
    assert works(build(source, tools, Options()))


def test_info_and_clear_make_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("SYMGRAD_CACHE_DIR", str(tmp_path / "not there"))
    assert cache.info() == cache.Info(tmp_path / "not there", 0, 0, 512 * 2**20, None)
    assert cache.clear() == 0
    assert not (tmp_path / "not there").exists()


def test_a_record_that_is_replaced_while_it_is_read_is_not_damaged(folder, monkeypatch):
    """What was opened has no name any more; threads that compile at once warned of that."""
    store, opened = cache.open_store(), os.fdopen
    assert store is not None
    store.record("a" * 64, b"old")

    def replaced(descriptor, *args):
        monkeypatch.setattr(os, "fdopen", opened)
        store.record("a" * 64, b"new")
        return opened(descriptor, *args)

    monkeypatch.setattr(os, "fdopen", replaced)
    assert [store.recall("a" * 64) for _ in range(2)] == [b"old", b"new"]


def test_records_come_back_whole_or_not_at_all(folder):
    store = cache.open_store()
    assert store is not None
    store.record(cache.key("r"), b"a\nb\n\xff")
    assert store.recall(cache.key("r")) == b"a\nb\n\xff"
    path = folder / f"record-{cache.key('r')}"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.warns(SymgradWarning, match=r"record-\w+ is damaged"):
        assert store.recall(cache.key("r")) is None
    assert store.recall(cache.key("never")) is None
