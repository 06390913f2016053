"""Compiled templates are kept as the bytecode of modules is, or with programs, and are what Jinja compiles."""

from __future__ import annotations

import sys
from typing import Any

import jinja2
import pytest

from symgrad.render.templates import SETTINGS, TEMPLATES, Kept, Loader

NAMES = ("program.c.jinja", "product.c.jinja:sg_product", "emit/Makefile.jinja")


class Counting(jinja2.Environment):
    """Counts what is compiled."""

    def __init__(self, kept: dict[tuple[str, ...], bytes]) -> None:
        super().__init__(loader=Loader(TEMPLATES), **SETTINGS)
        self.compiled = 0
        self.bytecode_cache = Kept(
            lambda *words: kept.get(words), lambda content, *words: kept.update({words: content}),
        )

    def compile(self, *args: Any, **kwargs: Any) -> Any:
        self.compiled += 1
        return super().compile(*args, **kwargs)


def loaded(kept: dict[tuple[str, ...], bytes]) -> int:
    """Load templates in a new environment, and say how many were compiled."""
    environment = Counting(kept)
    for name in NAMES:
        assert environment.get_template(name).root_render_func is not None
    return environment.compiled


@pytest.fixture
def beside(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "bytecode"))
    folder = (tmp_path / "bytecode").joinpath(*TEMPLATES.absolute().parts[1:])
    return lambda: sorted(folder.iterdir())


def test_templates_are_compiled_once_for_an_installation(beside):
    kept: dict[tuple[str, ...], bytes] = {}
    assert (loaded(kept), loaded(kept), loaded({})) == (len(NAMES), 0, 0)
    assert len(beside()) == len(NAMES)
    assert not kept


@pytest.mark.parametrize("damage", [lambda _: b"", lambda content: bytes(32) + content[32:]])
def test_what_was_made_of_other_words_is_compiled_again(beside, damage):
    loaded({})
    for path in beside():
        path.write_bytes(damage(path.read_bytes()))
    assert (loaded({}), loaded({})) == (len(NAMES), 0)
    assert len(beside()) == len(NAMES)


def test_where_python_keeps_no_bytecode_they_are_kept_with_programs(beside, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    kept: dict[tuple[str, ...], bytes] = {}
    assert (loaded(kept), loaded(kept), loaded({})) == (len(NAMES), 0, len(NAMES))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (tmp_path / "bytecode").write_text("no folder can be made here")
    other: dict[tuple[str, ...], bytes] = {}
    assert (loaded(other), loaded(other)) == (len(NAMES), 0)
    assert other.keys() == kept.keys()
