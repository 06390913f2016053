"""Fixtures of the room's tests: a cache of their own, a compiler probed once, compilers that misbehave, processes."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys

import pytest

from symgrad.build.toolchain import find as toolchain
from symgrad.build.toolchain import process
from symgrad.options import Options
from tests.build.sources import ROOT, forget, source_of


@pytest.fixture(scope="session")
def records(tmp_path_factory):
    """What the probe found out about this machine's compiler, asked once for all tests."""
    folder = tmp_path_factory.mktemp("records") / "cache"
    before = dict(os.environ)
    os.environ["SYMGRAD_CACHE_DIR"] = str(folder)
    os.environ.pop("CC", None)
    try:
        forget()
        assert toolchain.find(Options()) is not None, "these tests need a C compiler"
    finally:
        os.environ.clear()
        os.environ.update(before)
    return folder


@pytest.fixture(autouse=True)
def folder(records, tmp_path, monkeypatch):
    """A cache folder that is new but for the probe's record."""
    new = tmp_path / "cache"
    shutil.copytree(records, new)
    new.chmod(0o700)
    monkeypatch.setenv("SYMGRAD_CACHE_DIR", str(new))
    for name in ("CC", "SYMGRAD_CACHE_BYTES", "SYMGRAD_COMPILE_SECONDS", "SYMGRAD_COMPILE_BYTES", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    forget()
    yield new
    forget()


@pytest.fixture
def source():
    return source_of()


@pytest.fixture
def tools():
    found = toolchain.find(Options())
    assert found is not None
    return found


@pytest.fixture
def compiler(tmp_path):
    """Write a compiler: a shell script that does something first and then is the real one."""

    def write(script, name="mycc"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/bin/sh\n{script}\nexec {shutil.which("cc")} "$@"\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    return write


@pytest.fixture
def python(folder):
    """Start another Python that runs some code with symgrad importable."""

    def start(code, *arguments, **environment):
        return subprocess.Popen(
            [sys.executable, "-W", "always", "-c", code, *map(str, arguments)], text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT), "SYMGRAD_CACHE_DIR": str(folder), **environment},
        )

    return start


@pytest.fixture
def runs(monkeypatch):
    """The compiler runs of this process."""
    seen: list[tuple[str, ...]] = []
    real = process.run

    def run(argv, *rest):
        seen.append(argv)
        return real(argv, *rest)

    monkeypatch.setattr(process, "run", run)
    return seen
