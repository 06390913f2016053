"""`save` and `load`: the same bits and types again, or the field that is wrong."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import re
import zipfile
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ArgumentError, SerializationError


@dataclasses.dataclass
class Layer:
    W: Any
    b: Any


NAN = np.array([0x7FF8000000001234], np.uint64).view(np.float64)
PARAMS = {
    "a": [np.eye(2), np.array([1, -0.0], np.float32)], "b": (np.int64(3), 2.5, True, None, "relu"),
    7: {"x": np.ones((0, 3))},
}
TREES = {
    "params": PARAMS, "state": {"t": np.int64(4), "hyper": {"rate": np.float64(0.1)}}, "path": 2**80, "text": "adam",
    "nan": (NAN, float("nan"), -0.0, float("inf")), "order": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "kinds": [np.array(3.0), np.array([1 + 2j]), np.array(["ä", "b"]), np.array([1], "datetime64[s]"), np.array(b"x")],
    "a/b": {"c/d": np.zeros(1)}, "a": {"b": {"c": {"d": np.ones(1)}}}, "empty": {}, "nothing": None,
    "swapped": np.arange(3, dtype=">i2"), "symgrad.json": np.array(1),
}


def same(a, b):
    """Whether two trees are equal in every type and bit."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return [*a] == [*b] and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, (np.ndarray, np.generic)):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return repr(a) == repr(b)


@pytest.fixture
def path(tmp_path):
    sg.save(tmp_path / "model.npz", **TREES)
    return tmp_path / "model.npz"


def test_every_bit_and_type_comes_back(path):
    found = sg.load(path)
    assert same(found, TREES)
    assert found["params"]["a"][0].flags.writeable
    assert same(sg.load(path, like=TREES), TREES)
    assert [*path.parent.iterdir()] == [path]


def test_equal_content_gives_equal_files_and_numpy_reads_them(path):
    before = path.read_bytes()
    sg.save(path, **TREES)
    assert path.read_bytes() == before
    with np.load(path, allow_pickle=False) as read:
        assert np.array_equal(read["params/a/0"], np.eye(2))
        assert {read[name].dtype.kind for name in read.files} <= {*"biufcSUM"}
        head = json.loads(read["symgrad.json"].item())
    assert head["format"] == "symgrad arrays"


def test_objects_come_back_into_what_is_like_them(tmp_path):
    sg.save(tmp_path / "m", layer=Layer(np.ones(2), 3.0))
    with pytest.raises(SerializationError, match=r"layer is an object of the class Layer: load\(path, like="):
        sg.load(tmp_path / "m")
    found = sg.load(tmp_path / "m", like={"layer": Layer(np.zeros(2), 0.0)})["layer"]
    assert (type(found), found.W.tolist(), found.b) == (Layer, [1.0, 1.0], 3.0)


def test_texts_are_the_files_and_stand_where_they_are_wanted(tmp_path):
    path, W = tmp_path / "m", np.ones(2)
    sg.save(path, p={"W": W, "kind": "relu", "more": [("a", 1.0), None]}, name="new")
    like = {"p": {"kind": "tanh", "more": (["b", 0.0], None), "W": W}, "name": "old"}
    found = sg.load(path, like=like)
    assert same(found, {"p": {"kind": "relu", "more": (["a", 1.0], None), "W": W}, "name": "new"})
    sg.save(path, layer=Layer(W, "relu"))
    assert sg.load(path, like={"layer": Layer(W, "tanh")})["layer"].b == "tanh"  # no file holds it
    sg.save(path, odd={"a\0b": 1.0, "\ud800": "\ud801"})  # what is no array has no name in the zip
    assert sg.load(path) == {"odd": {"a\0b": 1.0, "\ud800": "\ud801"}}


@pytest.mark.parametrize(("like", "message"), [
    ({"kind": None}, "p/kind is a text in the file, and not wanted"),
    ({"none": "relu"}, "p/none is wanted as a text, and none in the file"),
    ({"other": "relu"}, "p/other is wanted, and not in the file"),
])
def test_texts_that_stand_elsewhere_are_refused(tmp_path, like, message):
    tree = {"W": np.ones(2), "kind": "relu", "none": None}
    sg.save(tmp_path / "m", p=tree)
    with pytest.raises(SerializationError, match=message):
        sg.load(tmp_path / "m", like={"p": tree | like})
    with pytest.raises(SerializationError, match="p/kind is in the file, and not wanted"):
        sg.load(tmp_path / "m", like={"p": {"W": np.ones(2), "none": None}})


def test_no_bit_can_be_changed_unseen(tmp_path):
    """Of every third byte: what is read is refused with its field, or it is what was written."""
    trees = {"p": {"W": np.arange(3.0), "b": 0.5}, "t": np.int64(1)}
    path = tmp_path / "m.npz"
    sg.save(path, **trees)
    content, seen = path.read_bytes(), []
    for k in range(0, len(content), 3):
        path.write_bytes(content[:k] + bytes([content[k] ^ (1 << k % 8)]) + content[k + 1 :])
        try:
            found = sg.load(path)
        except SerializationError as error:
            seen.append(str(error))
        else:
            assert same(found, trees), k
    assert [text for text in seen if not re.search(r": p/W |: t |: symgrad\.json|: cut short", text)] == []
    assert len(seen) > 0.2 * len(content)
    for k in range(0, len(content), 53):
        path.write_bytes(content[:k])
        with pytest.raises(SerializationError, match="cut short"):
            sg.load(path)


def rewritten(path, change):
    """Write the npz again with another content, and correct sums of the zip's own."""
    with zipfile.ZipFile(path) as archive:
        fields = {name: archive.read(name) for name in archive.namelist()}
    change(fields)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in fields.items():
            archive.writestr(name, content)


def head(**changed):
    def change(fields):
        text = json.loads(np.load(io.BytesIO(fields["symgrad.json.npy"])).item())
        out = io.BytesIO()
        np.save(out, np.array(json.dumps(text | changed).encode()))
        fields["symgrad.json.npy"] = out.getvalue()
    return change


@pytest.mark.parametrize(("change", "message"), [
    (lambda f: f.pop("params/W.npy"), "params/W is missing"),
    (lambda f: f.update({"params/W.npy": f["params/b.npy"]}), r"params/W is damaged: its shape is \[2\], and \[2, 2\]"),
    (lambda f: f.update({"params/W.npy": f["params/W.npy"][:-1]}), "params/W is damaged"),
    (lambda f: f.update({"params/W.npy": f["params/W.npy"][:-1] + b"\1"}), "params/W is damaged: its sha256"),
    (lambda f: f.update({"more.npy": f["params/W.npy"]}), "more is in the file, and its structure has no such leaf"),
    (lambda f: f.pop("symgrad.json.npy"), "symgrad.json is missing: no file that save"),
    (head(format="other"), "symgrad.json: format is not 'symgrad arrays'"),
    (head(version=2), "symgrad.json: version is 2, and 1 is read"),
    (head(trees={}), "symgrad.json: sha256 is not that of its content"),
])
def test_a_changed_file_is_refused_with_the_field(tmp_path, change, message):
    path = tmp_path / "m.npz"
    sg.save(path, params={"W": np.eye(2), "b": np.ones(2)})
    rewritten(path, change)
    with pytest.raises(SerializationError, match=message):
        sg.load(path)


@pytest.mark.parametrize(("like", "message"), [
    ({"params": {"W": np.eye(3), "b": np.ones(2)}}, r"params/W has the shape \(2, 2\), and \(3, 3\) is wanted"),
    ({"params": {"W": np.eye(2, dtype="f"), "b": np.ones(2)}}, "params/W has the dtype float64, and float32 is wanted"),
    ({"params": {"W": np.eye(2)}}, "params/b is in the file, and not wanted"),
    ({"params": {"W": np.eye(2), "b": np.ones(2), "c": 1.0}}, "params/c is wanted, and not in the file"),
    ({"params": {"W": np.eye(2), "b": np.ones(2)}, "state": 1.0}, "state is wanted, and not in the file"),
    ({}, "params is in the file, and not wanted"),
    ({"params": {"W": {"x": np.eye(2)}, "b": np.ones(2)}}, "params/W/x is wanted, and not in the file"),
])
def test_what_is_unlike_is_refused_with_the_field(tmp_path, like, message):
    sg.save(tmp_path / "m", params={"W": np.eye(2), "b": np.ones(2)})
    with pytest.raises(SerializationError, match=message):
        sg.load(tmp_path / "m", like=like)


@pytest.mark.parametrize(("tree", "message"), [
    ({"x": np.array([None])}, "p/x is of the dtype object, which is kept by pickle alone"),
    ({"x": np.ma.masked_equal([1, 2], 2)}, "p/x is of MaskedArray"),
    ({"x": {1.5: 1.0}}, "p/x is a dict with the key 1.5"),
    ({"x": np.sin}, "p/x is <ufunc 'sin'>, no array or number"),
    ({"x": np.zeros(1, [("a", "f8")])}, "p/x is of the dtype"),
    ({"a\0b": np.ones(2)}, r"'p/a\\x00b' holds an array, and no member of a zip can be called so\n.*without NUL"),
    ({"a\0b": np.ones(2), "a\0c": np.ones(2)}, r"'p/a\\x00b' holds an array"),
    ({"x": {"\ud800": np.ones(2)}}, r"'p/x/\\ud800' holds an array"),
    ({"x" * 2**16: np.ones(2)}, "'p/xx(.|\n)*at most 65520 bytes"),
])
def test_what_needs_pickle_is_refused_and_the_file_before_stays(tmp_path, tree, message):
    sg.save(tmp_path / "m", p=1.0)
    with pytest.raises(ArgumentError, match=message):
        sg.save(tmp_path / "m", p=tree)
    assert sg.load(tmp_path / "m") == {"p": 1.0}
    assert [*tmp_path.iterdir()] == [tmp_path / "m"]


def test_a_file_that_cannot_be_written_leaves_the_one_before(tmp_path, monkeypatch):
    sg.save(tmp_path / "m", p=1.0)
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("no space")))
    with pytest.raises(OSError, match="no space"):
        sg.save(tmp_path / "m", p=2.0)
    assert sg.load(tmp_path / "m") == {"p": 1.0}
    with pytest.raises(FileNotFoundError):
        sg.load(tmp_path / "none")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for other in ("folder", "pipe"):
        with pytest.raises(ArgumentError, match=f"{other} is no file"):
            sg.save(tmp_path / other, p=1.0)
    assert (tmp_path / "pipe").is_fifo()
    (tmp_path / "text").write_text("hello")
    with pytest.raises(SerializationError, match="text: cut short, or no file that save"):
        sg.load(tmp_path / "text")
    np.savez(tmp_path / "other.npz", W=np.eye(2))
    with pytest.raises(SerializationError, match=r"other\.npz: symgrad\.json is missing"):
        sg.load(tmp_path / "other.npz")
