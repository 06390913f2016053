"""A compilation's interface in the cache: found by the optimized program, whole or not at all."""

from __future__ import annotations

import json
import shutil
from dataclasses import fields, replace

import numpy as np
import pytest

import symgrad as sg
from symgrad.api.call.function import Function
from symgrad.build.cache import artifacts
from symgrad.build.cache import store as cache
from symgrad.errors import IndexOutOfBounds, SymgradWarning
from symgrad.ir.program import Program
from symgrad.options import Options, Target
from tests.build.sources import forget

TABLE = np.arange(4000.0)


def lookup(x, k):
    return np.sum(np.tanh(x)[k] * np.take(TABLE, k))


def made(*specs, fun=lookup, **options):
    """A function as a new process has it."""
    forget()
    return sg.value_and_grad(fun, options=sg.Options(threads=1, **options), specs=specs or None)


def record(folder):
    """The record of the only interface there is."""
    (found,) = [p for p in folder.glob("record-*") if b"symgrad interface" in p.read_bytes()]
    return found


def schedules(function: Function) -> bool:
    return "loops" in function._ran().built.stages.kept


X, K = np.linspace(-1.0, 1.0, 4000), np.arange(4000)


@pytest.mark.parametrize("specs", [(), ("f64[n]", "i64[n]")], ids=["static", "symbolic"])
def test_a_second_process_makes_no_loops_and_no_c(folder, specs):
    first, second = made(*specs), made(*specs)
    expected = first(X, K)
    assert schedules(first)
    value, gradient = second(X, K)
    assert not schedules(second)
    assert value == expected[0]
    assert np.array_equal(gradient, expected[1])
    assert second.c_path == first.c_path
    assert second.c_source == first.c_source
    behind = first.c_path.read_text().removeprefix(first.c_source)
    assert "sg_lookup_addresses(" in behind  # what steps of training call
    assert ("sg_lookup_objects(" in behind) is bool(specs)  # what Python calls, of open extents alone here
    assert schedules(second), "made when they are asked for"


def test_a_function_with_the_name_of_a_helper(folder):
    def expit(x):
        return np.sum(1 / (1 + np.exp(-x)))

    first, second = made(fun=expit), made(fun=expit)
    assert first(X)[0] == second(X)[0]
    assert not schedules(second)


def test_checks_say_the_same(folder):
    said = []
    for function in (made(), made()):
        with pytest.raises(IndexOutOfBounds, match="out of bounds for an axis with size 4000") as error:
            function(X, K + 1)
        said.append(str(error.value))
        assert "np.tanh(x)[k] * np.take" in said[-1]
    assert said[0] == said[1]


def test_what_the_key_covers(folder, tools):
    def key(fun=lambda x: np.sum(x * 2.0), spec="f64[3]", options=None, tools=tools):
        return artifacts.program_key(sg.jit(fun).lower(sg.spec(spec)).program, tools, options or Options())

    def named(x):
        return np.sum(x * 2.0)

    double = lambda x: np.sum(x * 2.0)  # noqa: E731 - on a line of its own
    found = [
        key(), key(double), key(named), key(lambda x: np.sum(x * 3.0)), key(lambda x: np.sum(2.0 * x)),
        key(double, "f64[4]"), key(double, "f32[3]"), key(double, "f64[n]"), key(double, options=Options(threads=2)),
        key(double, options=Options(precise=True)), key(double, tools=replace(tools, identity="another")),
        key(double, tools=replace(tools, target=Target())), key(double, tools=replace(tools, flags=("-O1",))),
        key(double, tools=replace(tools, cpu="another")),
    ]
    assert None not in found
    assert len(set(found)) == len(found)
    assert key(double) == found[1]


def test_the_key_covers_every_field_of_a_program():
    """What `dumps` writes and the layout of inputs; a nested program is not kept. A new field must be thought of."""
    covered = {"inputs", "outputs", "name", "requirements", "labels", "fortran", "rules", "scope", "start", "donated",
               "spread"}
    covered |= {"again", "moments", "forks"}  # of what was traced; nothing of it is left where a program is compiled
    assert {field.name for field in fields(Program)} == covered


def test_other_files_of_symgrad_are_another_key(folder, tools, monkeypatch):
    program = sg.jit(lambda x: x * 2.0).lower(1.0).program
    first = artifacts.program_key(program, tools, Options())
    monkeypatch.setattr(artifacts, "_own_files", lambda: "as if a file had changed")
    assert artifacts.program_key(program, tools, Options()) != first


def test_symgrads_own_files() -> None:
    listed = artifacts._own_files()
    for name in ("symgrad/loops/statements/lower.py", "symgrad/build/cache/artifacts.py", "templates/program.c.jinja"):
        assert f"/{name} " in listed


def test_what_is_not_kept(folder, tools, monkeypatch):
    program = sg.jit(lambda x: x * 2.0).lower(1.0).program
    assert artifacts.program_key(program, tools, Options(cache=False)) is None
    monkeypatch.setattr(artifacts, "_DATA", 4)
    assert artifacts.program_key(program, tools, Options()) is None, "too many constants"
    monkeypatch.undo()
    monkeypatch.setattr(artifacts, "own", lambda: frozenset([program.inputs[0].op]))
    assert artifacts.program_key(program, tools, Options()) is None, "an op of the user's"


CHANGES = {
    "truncated": lambda text: text[:-9],
    "no object": lambda _: "[]",
    "another version": lambda text: text.replace("interface 3", "interface 0"),
    "a field more": lambda text: text.replace("{", '{"more": 1, ', 1),
    "a library by path": lambda text: json.dumps(json.loads(text) | {"library": "../" * 21 + "x"}),
    "no such constant": lambda text: json.dumps(json.loads(text) | {"data": [0]}),
    "another entry": lambda text: json.dumps(json.loads(text) | {"entry": "system"}),
    "another prototype": lambda text: json.dumps(json.loads(text) | {"prototype": "int system(char *)"}),
    "an unknown extent": lambda text: json.dumps(json.loads(text) | {"workspace": {"symbol": "m"}}),
    "an unknown word": lambda text: json.dumps(json.loads(text) | {"workspace": {"exec": [1]}}),
    "less than nothing": lambda text: json.dumps(json.loads(text) | {"workspace": -1}),
    "a number for a truth": lambda text: json.dumps(json.loads(text) | {"threaded": 1}),
    "half a check": lambda text: json.dumps(json.loads(text) | {"checks": [["4", ["f.py", 1], ""]]}),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("signed", [True, False], ids=["signed", "unsigned"])
def test_a_damaged_record_is_made_anew_with_one_warning(folder, change, signed):
    expected = made()(X, K)
    path = record(folder)
    content = path.read_bytes().partition(b"\n")[2]
    changed = change(content.decode()).encode()
    key = path.name.removeprefix("record-")
    path.write_bytes(cache._record_checksum(key, changed if signed else content) + b"\n" + changed)
    function = made()
    with pytest.warns(SymgradWarning, match="record .*is damaged") as said:
        value, gradient = function(X, K)
    assert len(said) == 1
    assert (value, gradient.tolist()) == (expected[0], expected[1].tolist())
    assert schedules(function)
    assert path.read_bytes().partition(b"\n")[2] == content, "it is whole again"
    again = made()
    again(X, K)
    assert not schedules(again)


def test_a_library_that_is_gone_is_made_anew(folder):
    first = made()
    expected = first(X, K)
    shutil.rmtree(first.c_path.parent)
    second = made()
    assert second(X, K)[0] == expected[0]
    assert schedules(second)


def test_a_damaged_library_is_made_anew(folder):
    first = made()
    expected = first(X, K)
    path = first._ran().built.library.library_path
    content = path.read_bytes()
    path.unlink()  # it is loaded: another file in its place, not another content
    path.write_bytes(content[:-1] + b"?")
    with pytest.warns(SymgradWarning, match="is damaged"):
        assert made()(X, K)[0] == expected[0]


def test_a_folder_for_dumps_gets_every_stage(folder, tmp_path, monkeypatch):
    made()(X, K)
    monkeypatch.setenv("SYMGRAD_DUMP", str(tmp_path / "dump"))
    made()(X, K)
    assert [p.name.split(".")[2] for p in sorted((tmp_path / "dump").iterdir())] == [
        "traced", "stable", "derived", "optimized", "loops", "c"
    ]
