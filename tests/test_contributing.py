"""The ways of a newcomer that CONTRIBUTING.md shows, each gone on a copy of the tree."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]


class Way(NamedTuple):
    """What a section adds, by file, and the program that must run then."""

    title: str
    added: tuple[tuple[str, str, str, str], ...]
    then: str

    @property
    def files(self) -> set[str]:
        """Where more than a line is added."""
        return {name for how, name, *_ in self.added if how != "into"}

    @property
    def lines(self) -> list[str]:
        """Lines that go into files of the tree, but those that import what the way adds."""
        lines = [line for how, _, _, code in self.added if how == "into" for line in code.splitlines()]
        return [line for line in lines if not line.startswith("from ")]


def ways() -> list[Way]:
    """Read the sections that end in a program to run."""
    found = []
    for section in re.split(r"^###? ", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        title, _, text = section.partition("\n")
        head = r"# (append to|new file|into|then) ?(\S*)(?: before `(.*?)`)?"
        blocks = re.findall(rf"```python\n{head}\n(.*?)```", text, re.DOTALL)
        if any(how == "then" for how, *_ in blocks):
            added = tuple([block for block in blocks if block[0] != "then"])
            found.append(Way(title, added, "\n".join(code for how, *_, code in blocks if how == "then")))
    return found


WAYS = ways()


def walked(way: Way, folder: Path) -> subprocess.CompletedProcess[str]:
    """Go the way on a copy of the tree, in a process of its own."""
    for room in ("symgrad", "templates"):
        shutil.copytree(ROOT / room, folder / room)  # bytecode too: what is not changed is not compiled again
    for how, name, before, code in way.added:
        path = folder / name
        assert path.exists() == (how != "new file"), name
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if how == "into":
            assert text.count(f"{before}\n") == 1, before
            text = text.replace(f"{before}\n", f"{code}{before}\n")
        else:
            text += f"\n\n{code}" if text else code
        path.write_text(text, encoding="utf-8")
    (folder / "then.py").write_text(way.then, encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": str(folder), "SYMGRAD_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "-W", "error", str(folder / "then.py")]
    return subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.title)
def test_each_way_leads_there(way: Way, tmp_path: Path) -> None:
    done = walked(way, tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.title)
def test_it_is_one_file_and_the_program_needs_it(way: Way, tmp_path: Path) -> None:
    assert len(way.files) == 1
    assert len(way.lines) == ("loop pass" in way.title)  # one line, that says when it is run
    assert walked(way._replace(added=()), tmp_path).returncode != 0


def test_every_newcomer_has_a_way() -> None:
    words = ("elementwise", "body", "rewrite", "loop pass", "mode")
    assert [word for word in words if not any(word in way.title for way in WAYS)] == []
