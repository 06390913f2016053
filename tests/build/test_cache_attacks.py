"""What another's file in the cache's place, or a changed one, leads to: it is made again, and never another program."""

from __future__ import annotations

import os
import shutil
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from symgrad.build.cache import store as cache
from tests.build.sources import forget

NAMES = ("f.so", "f.c")
KEYS = {kind: [cache.key(kind, one) for one in ("first", "second")] for kind in ("entry", "record")}


def filled(folder):
    """Two entries, of one function's name, and two records; what each holds."""
    store = cache.Store(folder)
    for place, key in enumerate(KEYS["entry"]):
        made = folder.parent / f"made{place}"
        made.mkdir()
        (made / "f.so").write_bytes(b"machine code %d" % place * 100)
        (made / "f.c").write_bytes(b"text %d" % place)
        store.add(key, made / "f.so")
    for place, key in enumerate(KEYS["record"]):
        store.record(key, b'{"an": "interface %d"}' % place)


def found(folder):
    """What the cache answers for each key: the contents, or None."""
    store = cache.Store(folder)
    entries = [store.find(key, NAMES[0]) for key in KEYS["entry"]]
    told = [None if entry is None else [entry.with_name(name).read_bytes() for name in NAMES] for entry in entries]
    return [*told, *[store.recall(key) for key in KEYS["record"]]]


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def places(folder):
    return sorted([*files(folder), *[folder / key for key in KEYS["entry"]]])


def exchange(one, other):
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def copied(one, other):
    if other.is_dir():
        shutil.rmtree(other)
        shutil.copytree(one, other)
    else:
        shutil.copyfile(one, other)


def hard_link(one, other):
    other.unlink()
    os.link(one, other)


def soft_link(one, other):
    if other.is_dir():
        shutil.rmtree(other)
    else:
        other.unlink()
    other.symlink_to(one)


def renamed(one, other):
    if other.is_dir():
        shutil.rmtree(other)
    one.rename(other)


TWO = {"exchanged": exchange, "copied over": copied, "hard link": hard_link, "link": soft_link, "renamed": renamed}


def cut(content):
    return content[: len(content) // 2]


def flipped(place):
    def flip(content):
        at = place % len(content)
        return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]

    return flip


ONE = {
    "empty": lambda content: content[:0], "half": cut, "without its last byte": lambda content: content[:-1],
    "one more byte": lambda content: content + b"\0", "first bit": flipped(0), "last bit": flipped(-1),
    "a bit in the middle": flipped(70),
}


def answers(kept, folder, attack, *names):
    """Copy a cache, change it, and ask for everything."""
    forget()
    shutil.copytree(kept, folder, symlinks=True)
    attack(*[folder / name for name in names])
    told = found(folder)
    shutil.rmtree(folder)
    return told


@pytest.fixture
def kept(tmp_path):
    """A cache of two entries and two records, and what it answers."""
    folder = tmp_path / "kept" / "cache"
    folder.mkdir(parents=True, mode=0o700)
    filled(folder)
    whole = found(folder)
    assert None not in whole
    return folder, whole


@pytest.mark.filterwarnings("ignore:the cache")
@pytest.mark.parametrize("attack", TWO.values(), ids=TWO)
def test_two_files_for_each_other(kept, tmp_path, attack):
    """Of every two files and folders of a cache: what was changed is not there, and all else is as it was."""
    folder, whole = kept
    tried = 0
    for one, other in combinations([path.relative_to(folder) for path in places(folder)], 2):
        if other.is_relative_to(one) or one.is_relative_to(other):
            continue
        if attack is hard_link and ((folder / one).is_dir() or (folder / other).is_dir()):
            continue
        if attack in {copied, renamed} and (folder / one).is_dir() != (folder / other).is_dir():
            continue
        for pair in ((one, other), (other, one)):
            told = answers(folder, tmp_path / "changed", attack, *pair)
            assert all(now in (None, before) for now, before in zip(told, whole, strict=True)), pair
            assert any(now is None for now in told), pair
            tried += 1
    assert tried >= 30


@pytest.mark.filterwarnings("ignore:the cache")
@pytest.mark.parametrize("change", ONE.values(), ids=ONE)
def test_one_file_changed(kept, tmp_path, change):
    folder, whole = kept
    for name in [path.relative_to(folder) for path in files(folder)]:
        told = answers(folder, tmp_path / "changed", lambda path: path.write_bytes(change(path.read_bytes())), name)
        assert [now is None for now in told].count(True) == 1, name
        assert all(now in (None, before) for now, before in zip(told, whole, strict=True)), name


@pytest.mark.filterwarnings("ignore:the cache")
@pytest.mark.parametrize("change", [
    lambda path: path.chmod(0o602), lambda path: path.chmod(0o620), lambda path: os.link(path, path.with_name("too")),
    lambda path: os.chown(path, 12345, -1),
], ids=["everybody may write", "its group may write", "a second name", "another's"])
def test_a_file_that_others_can_change(kept, tmp_path, change):
    if os.getuid() != 0:
        pytest.skip("needs root, who may give files away")
    folder, _ = kept
    for name in [path.relative_to(folder) for path in files(folder)]:
        told = answers(folder, tmp_path / "changed", change, name)
        assert [now is None for now in told].count(True) == 1, name


@pytest.mark.filterwarnings("ignore:the cache")
@pytest.mark.parametrize("kind", ["record", "entry", "library"])
def test_programs_exchanged_give_their_own_numbers(folder, tmp_path, monkeypatch, kind):
    """Two programs of one name and one prototype, what is kept of them exchanged: once another's numbers came."""

    def made():
        return [sg.value_and_grad(f) for f in (lambda x: np.sum(x * x), lambda x: np.sum(x * x * x))]

    x = np.array([1.0, 2.0, 3.0])
    for function in made():
        function(x)
    other = tmp_path / "other"  # where it lies is no part of it; the loader knows the paths of what is loaded
    shutil.copytree(folder, other)
    records = [path for path in other.glob("record-*") if b"symgrad interface" in path.read_bytes()]
    entries = [path for path in other.iterdir() if path.is_dir()]
    libraries = [next(entry.glob("*.so")) for entry in entries]
    exchange(*{"record": records, "entry": entries, "library": libraries}[kind])
    monkeypatch.setenv("SYMGRAD_CACHE_DIR", str(other))
    forget()
    first, second = made()
    assert first(x)[0] == 14.0
    assert second(x)[0] == 36.0
    assert np.array_equal(second(x)[1], 3 * x * x)


# -- folders on the way

def give(path, mode, owner=0):
    os.chown(path, owner, -1)
    path.chmod(mode)


ME, OTHER = 1234, 5678

WAYS = {
    # the grandparent, the parent (mode, owner), and what is said
    "private": ((0o755, 0), (0o755, ME), None),
    "another's parent": ((0o755, 0), (0o755, OTHER), "parent belongs to another user"),
    "another's grandparent": ((0o755, OTHER), (0o755, ME), "grandparent belongs to another user"),
    "a group's parent": ((0o755, 0), (0o775, ME), "its group may write to its parent .*/parent "),
    "a group's grandparent": ((0o775, 0), (0o755, ME), "its group may write to its parent .*/grandparent "),
    "everybody's parent": ((0o755, 0), (0o757, ME), "everybody may write to its parent .*/parent "),
    "everybody's grandparent": ((0o777, 0), (0o700, ME), "everybody may write to its parent .*/grandparent "),
    "as /tmp": ((0o1777, 0), (0o755, ME), None),
    "in /tmp": ((0o755, 0), (0o1777, 0), None),
    "another's in /tmp": ((0o1777, 0), (0o755, OTHER), "parent belongs to another user"),
    "another's /tmp": ((0o755, 0), (0o1777, OTHER), "parent belongs to another user"),
    "a group's, as /tmp": ((0o1775, 0), (0o700, ME), None),
}


@pytest.fixture
def somebody(tmp_path, monkeypatch):
    """A cache folder of a user who is not root, two folders below one that is."""
    if os.getuid() != 0:
        pytest.skip("needs root, who may give files away")
    grandparent = tmp_path / "grandparent"
    folder = grandparent / "parent" / "cache"
    folder.mkdir(parents=True)
    give(folder, 0o700, ME)
    monkeypatch.setattr(os, "getuid", lambda: ME)
    return folder


@pytest.mark.parametrize(("grandparent", "parent", "said"), WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("linked", [False, True], ids=["straight", "by a link"])
def test_every_folder_on_the_way_is_looked_at(somebody, tmp_path, monkeypatch, grandparent, parent, said, linked):
    give(somebody.parents[1], *grandparent)
    give(somebody.parents[0], *parent)
    folder = somebody
    if linked:
        (tmp_path / "link").symlink_to(somebody.parent)
        folder = tmp_path / "link" / ".." / "parent" / "cache"
    monkeypatch.setenv("SYMGRAD_CACHE_DIR", str(folder))
    if said is None:
        assert cache.info().problem is None
        assert cache.open_store() is not None
    else:
        with pytest.warns(sg.errors.SymgradWarning, match=said) as warned:
            assert cache.open_store() is None
        assert "SYMGRAD_CACHE_DIR" in str(warned[0].message)


def test_a_link_that_another_may_turn_is_no_way(somebody, tmp_path):
    for folder in somebody.parents[:2]:
        give(folder, 0o755, ME)
    link = tmp_path / "link"
    link.symlink_to(somebody.parent)
    assert cache._why_unsafe(link / "cache") is None
    os.chown(link, OTHER, -1, follow_symlinks=False)
    assert "belongs to another user" in str(cache._why_unsafe(link / "cache"))
    link.unlink()
    link.symlink_to(link)
    assert "cannot be read" in str(cache._why_unsafe(link / "cache"))


class Named:
    def __init__(self, **fields):
        vars(self).update(fields)


@pytest.mark.parametrize(("group", "members", "fits"), [
    ("ada", [], True), ("ada", ["ada"], True), ("ada", ["bob"], False), ("staff", [], False),
])
def test_a_group_of_the_users_own_may_write(somebody, monkeypatch, group, members, fits):
    """Where new files are a private group's to write (umask 002), as on many Linuxes."""
    import grp
    import pwd

    monkeypatch.setattr(pwd, "getpwuid", lambda _: Named(pw_name="ada"))
    monkeypatch.setattr(grp, "getgrgid", lambda _: Named(gr_name=group, gr_mem=members))
    for folder in (somebody, *somebody.parents[:2]):
        give(folder, 0o775, ME)
    assert (cache._why_unsafe(somebody) is None) == fits


def test_a_process_looks_once(folder, tools, monkeypatch):
    from symgrad.build.cache import private

    looked: list[Path] = []
    real = private.exposed

    def exposed(path):
        looked.append(path)
        return real(path)

    monkeypatch.setattr(private, "exposed", exposed)
    forget()
    for k in range(3):
        sg.jit(lambda x, k=k: x + k)(1.0)
    assert [path for path in looked if path == folder] == [folder]


def test_a_temporary_folder_that_others_may_replace_is_not_compiled_in(tmp_path, monkeypatch, tools, source):
    import tempfile

    from symgrad.build.toolchain import process

    for name in ("open", "shut"):
        (tmp_path / name).mkdir()
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "open"))
    monkeypatch.setattr(process, "_PLACES", (str(tmp_path / "shut"),))
    monkeypatch.setattr(process, "_home", None)
    made = process.scratch_folder()
    assert made.parent.parent == tmp_path / "shut"
    shutil.rmtree(made)
    monkeypatch.setattr(process, "_home", None)
    monkeypatch.setattr(process, "_PLACES", ())
    with pytest.warns(sg.errors.SymgradWarning, match="everybody may write to its parent .*TMPDIR"):
        made = process.scratch_folder()
    assert made.parent.parent == tmp_path / "open"
    shutil.rmtree(made)
    assert not made.exists()
    assert not Path(tmp_path / "shut" / made.name).exists()
