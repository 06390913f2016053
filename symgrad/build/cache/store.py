"""The libraries compiled before, on disk: content-addressed, private, checked before use, bounded in size.

An entry is a folder named by the SHA-256 of what its library was made from; it holds the library, its C and
a checksum of its name and of all that is in it, and appears by one rename. Small records (what the probe found) are
files of their own, whose checksum covers their names too: what is exchanged or renamed is as good as damaged.
Nothing else in the folder is ever read, counted or deleted: ``SYMGRAD_CACHE_DIR`` may name a folder in use.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from symgrad.build import limits
from symgrad.build.cache import private
from symgrad.errors import warn_once

_OURS = re.compile(r"(?:[0-9a-f]{64}|record-[0-9a-f]{64}|(?:tmp|lock)-[0-9A-Za-z-]+)")
_KEPT = re.compile(r"(?:record-)?[0-9a-f]{64}")
_CHECKSUM = "sha256"
_FORMAT = b"symgrad cache 2"  # part of every key: what an older symgrad kept otherwise is not found
_STALE_SECONDS = 3600.0  # a temporary entry this old was left by a killed process
_JUST_USED_SECONDS = 10.0  # another process may be between checking such an entry and loading it
_FILL = 0.9  # eviction goes on to this part of the bound, so that it is not needed again at once
_LOOK_AGAIN = 1 / 64  # of the bound is added between two counts of the folder: others add to it too
_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class Info:
    """The state of the cache: its folder, entries (compiled libraries), bytes, bound, and why it is not used, if so."""

    folder: Path
    entries: int
    bytes: int
    limit: int
    problem: str | None


def key(*parts: str) -> str:
    """Hash what a library depends on."""
    return _sha256(_FORMAT, *[part.encode("utf-8", "surrogateescape") for part in parts]).decode()


def location() -> Path:
    """Return where the cache is: ``SYMGRAD_CACHE_DIR``, or the user's cache folder of this system."""
    chosen = os.environ.get("SYMGRAD_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("symgrad", appauthor=False))


def open_store() -> Store | None:
    """Open the cache; None, with one warning, where its folder cannot be used safely (looked at once a process)."""
    folder = location()
    if folder in _stores and folder.is_dir():
        return _stores[folder]
    try:
        # One by one: mkdir(parents=True) makes parents by the umask alone, so that others might replace the folder.
        for missing in reversed([path for path in (folder, *folder.parents) if not os.path.lexists(path)]):
            with contextlib.suppress(FileExistsError):
                missing.mkdir(mode=0o700)
        problem = _why_unsafe(folder)
    except OSError as error:
        problem = f"it cannot be created ({error})"
    if problem is None:
        return _stores.setdefault(folder, Store(folder))
    _say_uncached(folder, problem)
    return None


def info() -> Info:
    """Count what the cache holds, without creating or changing anything."""
    folder = location()
    problem = _why_unsafe(folder) if os.path.lexists(folder) else None
    entries = [] if problem else _stored_entries(folder)
    libraries = sum(not path.name.startswith("record-") for _, _, path in entries)
    return Info(folder, libraries, sum(size for _, size, _ in entries), limits.cache_bytes(), problem)


def clear() -> int:
    """Delete all that symgrad keeps on disk and return the bytes freed; other files in the folder stay."""
    folder = location()
    if not os.path.lexists(folder) or _why_unsafe(folder) is not None:
        return 0
    before = sum(size for _, size, _ in _stored_entries(folder))
    for path in _list_folder(folder):
        if _OURS.fullmatch(path.name):
            _delete_entry(path)
    return before - sum(size for _, size, _ in _stored_entries(folder))


class Store:
    """The cache in a folder that was found private and fit for use."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._bytes: int | None = None
        self._added = 0

    def find(self, key: str, name: str) -> Path | None:
        """Return the library of an entry that is whole, and this one; None where there is none (or a damaged one)."""
        entry = self._folder / key
        library = entry / name
        for _ in range(2):  # another process may have put another one there between two of its files
            try:
                if not stat.S_ISDIR(entry.lstat().st_mode):
                    return None
            except OSError:
                return None
            with contextlib.suppress(OSError):
                data, text, expected = map(private.content, (library, library.with_suffix(".c"), entry / _CHECKSUM))
                if _entry_checksum(key, library, data, text) == expected:
                    _touch(entry)
                    return library
        warn_once(f"damaged {entry}", f"the cache entry {entry} is damaged; it is compiled again")
        return None

    def add(self, key: str, library: Path) -> Path | None:
        """Keep copies of a library and its C, in place of a damaged entry; None where that fails."""
        try:
            c = library.with_suffix(".c")
            files = {library.name: library.read_bytes(), c.name: c.read_bytes()}
            files[_CHECKSUM] = _entry_checksum(key, library, *files.values())
            temporary, entry = self._temporary(), self._folder / key
            try:
                temporary.mkdir(mode=0o700)
                for name, content in files.items():
                    _write_file(temporary / name, content)
                _delete_entry(entry)
                temporary.rename(entry)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
        except OSError as error:
            _say_uncached(self._folder, f"it cannot be written ({error})")
            return None
        self._count(sum(map(len, files.values())), entry)
        return entry / library.name

    def recall(self, key: str) -> bytes | None:
        """Read a record; None where there is none (or a damaged one)."""
        path = self._folder / f"record-{key}"
        try:
            expected, _, content = private.content(path).partition(b"\n")
        except FileNotFoundError:
            return None
        except OSError:
            expected = content = b""
        if _record_checksum(key, content) != expected:
            warn_once(f"damaged {path}", f"the cache's record {path} is damaged; it is made again")
            return None
        _touch(path)
        return content

    def record(self, key: str, content: bytes) -> None:
        """Keep a record; where that fails it is not kept, with one warning for the folder."""
        temporary = self._temporary()
        try:
            try:
                _write_file(temporary, _record_checksum(key, content) + b"\n" + content)
                temporary.replace(self._folder / f"record-{key}")
            finally:
                temporary.unlink(missing_ok=True)
        except OSError as error:
            _say_uncached(self._folder, f"it cannot be written ({error})")

    @contextlib.contextmanager
    def lock(self, key: str, seconds: float) -> Iterator[None]:
        """Be the only process (and thread) that makes `key`; after `seconds` go on alike, as twice is not wrong."""
        path = self._folder / f"lock-{key}"
        deadline = time.monotonic() + seconds
        while (descriptor := _acquire(path)) is None and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        try:
            yield
        finally:
            if descriptor is not None and descriptor >= 0:
                _release(path, descriptor)

    def _temporary(self) -> Path:
        return self._folder / f"tmp-{os.getpid()}-{os.urandom(8).hex()}"

    def _count(self, size: int, newest: Path) -> None:
        """Add to the known size of the cache; where it may be above the bound, look and evict."""
        limit = limits.cache_bytes()
        with self._lock:
            self._added += size
            if self._bytes is None or self._added > limit * _LOOK_AGAIN or self._bytes + self._added > limit:
                self._bytes, self._added = _evict(self._folder, newest), 0


_stores: dict[Path, Store] = {}
os.register_at_fork(after_in_child=_stores.clear)  # another thread may have held a lock when the process forked


def _why_unsafe(folder: Path) -> str | None:
    """Say why libraries found in this folder could be another user's, or None."""
    try:
        status, parents = folder.lstat(), private.exposed(folder)
    except OSError as error:
        return f"it cannot be read ({error})"
    problems = {
        "it is a symbolic link": stat.S_ISLNK(status.st_mode),
        "it is not a folder": not stat.S_ISDIR(status.st_mode),
        "it belongs to another user": status.st_uid != os.getuid(),
        f"other users may write to it (chmod go-w {folder})": private.writers(folder, status),
    }
    return next((problem for problem, found in problems.items() if found), parents)


def _say_uncached(folder: Path, problem: str) -> None:
    warn_once(
        f"uncached {folder}",
        f"the cache folder {folder} is not used: {problem}. Each process compiles again; "
        "set SYMGRAD_CACHE_DIR to a folder that is yours alone.",
    )


def _list_folder(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _stored_entries(folder: Path) -> list[tuple[float, int, Path]]:
    """List the entries and records: when each was last used, its bytes, and where it is."""
    found = []
    for path in _list_folder(folder):
        if _KEPT.fullmatch(path.name):
            with contextlib.suppress(OSError):  # evicted by another process since
                status = path.lstat()
                inside = path.iterdir() if stat.S_ISDIR(status.st_mode) else [path]
                size = sum(one.lstat().st_size for one in inside)
                found.append((status.st_mtime, size, path))
    return found


def _evict(folder: Path, newest: Path) -> int:
    """Delete what killed processes left, and the least recently used beyond the bound; return the bytes that stay."""
    now = time.time()
    for path in _list_folder(folder):
        if _OURS.fullmatch(path.name) and not _KEPT.fullmatch(path.name):
            with contextlib.suppress(OSError):
                if path.lstat().st_mtime < now - _STALE_SECONDS:
                    _delete_entry(path)
    entries = sorted(_stored_entries(folder))
    total, limit = sum(size for _, size, _ in entries), limits.cache_bytes()
    if total <= limit:
        return total
    for used, size, path in entries:
        if total <= limit * _FILL or used > now - _JUST_USED_SECONDS:
            break
        if path != newest:
            _delete_entry(path)
            total -= size
    return total


def _delete_entry(path: Path) -> None:
    """Delete an entry or file; an entry vanishes in one rename first, so that nobody reads half of it."""
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            away = path.with_name(f"tmp-{os.getpid()}-{os.urandom(8).hex()}")
            path.rename(away)
            shutil.rmtree(away, ignore_errors=True)
        else:
            path.unlink()


def _write_file(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _touch(path: Path) -> None:
    """Note that it was used now (on a read-only file system nothing is evicted either)."""
    with contextlib.suppress(OSError):
        os.utime(path)


def _sha256(*parts: bytes) -> bytes:
    """Hash contents, each with its length, so that no two lists run together."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(b"%d:" % len(part))
        digest.update(part)
    return digest.hexdigest().encode()


def _entry_checksum(key: str, library: Path, data: bytes, text: bytes) -> bytes:
    """Hash an entry with its key, its kind and the names of its files: no other's file or folder has it."""
    return _sha256(b"entry", key.encode(), library.name.encode(), library.with_suffix(".c").name.encode(), data, text)


def _record_checksum(key: str, content: bytes) -> bytes:
    return _sha256(b"record", key.encode(), content)


def _acquire(path: Path) -> int | None:
    """Take the lock file: its descriptor; None while another holds it; -1 where the file system has no locks."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        return -1
    held = private.locked(descriptor)
    with contextlib.suppress(FileNotFoundError):  # its holder deleted it since we opened it
        if held and os.fstat(descriptor).st_ino == path.stat().st_ino:
            return descriptor
    os.close(descriptor)
    return -1 if held is None else None


def _release(path: Path, descriptor: int) -> None:
    import fcntl

    with contextlib.suppress(OSError):
        path.unlink()
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # a child forked meanwhile has the descriptor too
    os.close(descriptor)
