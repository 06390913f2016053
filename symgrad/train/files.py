"""Files of arrays: one npz with the structure of its trees as JSON, checked field by field when it is read."""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from symgrad.api.trees import tree_leaves, tree_map, tree_paths
from symgrad.errors import ArgumentError, SerializationError

FORMAT, VERSION = "symgrad arrays", 1
HEAD = "symgrad.json"
"""The member of the npz that holds the structure."""

_PYTHON = (bool, int, float)


# -- writing


def save(path: str | os.PathLike[str], /, **trees: Any) -> None:
    """Write structures of arrays and numbers to one file, whole or not at all.

    The file is an npz, which ``np.load(path, allow_pickle=False)`` reads, too: an array a leaf, by its path
    (``"params/layer/W"``), and ``"symgrad.json"``, the structure with a checksum of each leaf and of itself. It is
    written beside `path` and takes its place in one step, so that a process that is killed leaves the one before.
    Equal content gives equal files.

    Args:
        path: where; a file that is there is replaced.
        trees: dicts, lists and tuples of arrays, numbers, texts and None. Of other objects, as dataclasses, the arrays
            are kept, and `load` needs `like` to make them again.

    Raises:
        ArgumentError: a leaf needs pickle, or the structure has no form in JSON, naming it; or `path` is there, and no
            file: a folder, a device.
        OSError: it cannot be written; what was there stays.

    >>> import numpy as np, symgrad as sg, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "model.npz")
    >>> sg.save(path, params={"W": np.eye(2), "b": np.zeros(2)}, seen=1000)
    >>> sg.load(path)["params"]["W"]
    array([[1., 0.],
           [0., 1.]])
    >>> np.load(path).files
    ['params/W', 'params/b', 'symgrad.json']
    """
    arrays: dict[str, Any] = {}
    leaves: list[dict[str, Any]] = []
    described = {}
    for name, tree in trees.items():
        numbers = itertools.count(float(len(leaves)))  # floats are leaves of objects, too
        described[name] = _structure(tree_map(lambda _, count=numbers: next(count), tree), name)
        for at, leaf in named(name, tree):
            record, array = _leaf(at, leaf)
            record["tree"] = name
            if array is not None:
                while at in arrays or at == HEAD:  # two leaves may have one path
                    at += "~"  # noqa: PLW2901
                record["field"], arrays[at] = at, array
            leaves.append(record)
    head: dict[str, Any] = {"format": FORMAT, "version": VERSION, "trees": described, "leaves": leaves}
    head["sha256"] = _digest(head)
    arrays[HEAD] = np.array(json.dumps(head).encode())
    with _replaced(Path(path).resolve()) as file, zipfile.ZipFile(file, "w") as archive:
        for field, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{field}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def named(name: str, tree: Any) -> list[tuple[str, Any]]:
    """List the leaves of a tree with their paths, which begin with its name."""
    return [*zip([f"{name}/{path}".rstrip("/") for path in tree_paths(tree)], tree_leaves(tree), strict=True)]


def _structure(tree: Any, path: str) -> Any:
    """Describe a tree whose leaves are their numbers."""
    kind = type(tree)
    if tree is None or kind is float:
        return None if tree is None else int(tree)
    if kind is str:
        return {"text": tree}
    if kind in {list, tuple}:
        return {kind.__name__: [_structure(part, f"{path}/{k}") for k, part in enumerate(tree)]}
    if kind is dict:
        for key in tree:
            if type(key) not in {str, int}:
                raise ArgumentError(f"save(): {path} is a dict with the key {key!r}", instead="texts and integers")
        return {"dict": [[key, _structure(part, f"{path}/{key}")] for key, part in tree.items()]}
    if not tree_paths(tree):
        raise ArgumentError(f"save(): {path} is {tree!r:.60}, no array or number", instead="arrays and what makes them")
    return {"object": kind.__qualname__}


def _leaf(path: str, leaf: Any) -> tuple[dict[str, Any], Any]:
    """Describe a leaf; and its array, where it is no number of Python's."""
    if type(leaf) in _PYTHON:
        value = leaf.hex() if type(leaf) is float else str(int(leaf))
        return {"path": path, "kind": type(leaf).__name__, "value": value}, None
    plain = isinstance(leaf, (np.ndarray, np.generic)) and not isinstance(leaf, np.ma.MaskedArray)
    array = np.asarray(leaf) if plain else np.array(None)
    if array.dtype.kind not in "biufcSUmM":
        what = f"the dtype {array.dtype}" if plain else f"{type(leaf).__name__}"
        raise ArgumentError(f"save(): {path} is of {what}, which is kept by pickle alone", instead="arrays of numbers")
    kind = "array" if isinstance(leaf, np.ndarray) else "number"
    described = {"dtype": array.dtype.str, "shape": list(array.shape), "sha256": _checksum(array)}
    return {"path": path, "kind": kind, **described}, array


def _checksum(array: Any) -> str:
    whole: Any = np.ascontiguousarray(array).reshape(-1)
    return hashlib.sha256(whole.view(np.uint8) if whole.nbytes else b"").hexdigest()


def _digest(head: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps({**head, "sha256": ""}, sort_keys=True).encode()).hexdigest()


@contextlib.contextmanager
def _replaced(path: Path) -> Iterator[Any]:
    """Open a file that takes the place of another one when all of it is on the disk.

    Its folder is locked meanwhile: what another process writes to the same path comes before or after, and what a
    killed one left is written over.
    """
    import fcntl

    if path.exists() and not path.is_file():
        raise ArgumentError(f"save(): {path} is no file, which another one may take the place of", instead="a file")
    folder = os.open(path.parent, os.O_RDONLY)
    beside = path.with_name(f".{path.name}.part")
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(folder, fcntl.LOCK_EX)
        try:
            with beside.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(folder, fcntl.LOCK_UN)  # a child forked meanwhile has the descriptor, too
        os.close(folder)


# -- reading


def load(path: str | os.PathLike[str], like: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Read what `save` wrote.

    Args:
        path: the file.
        like: trees by name. What is in the file must have their structures, shapes and dtypes, and is returned in
            them; needed for objects, as dataclasses. Without it, trees are dicts, lists and tuples.

    Returns:
        The trees by name: arrays and numbers with the very bits and types that were saved.

    Raises:
        SerializationError: the file is damaged, cut short, no file of `save`'s, or not like `like`; naming the field.
        OSError: there is no such file, or it cannot be read.

    >>> import numpy as np, symgrad as sg, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "model.npz")
    >>> sg.save(path, params={"W": np.ones((2, 3))})
    >>> sg.load(path, like={"params": {"W": np.ones((3, 2))}})
    Traceback (most recent call last):
        ...
    symgrad.errors.SerializationError: ...model.npz: params/W has the shape (2, 3), and (3, 2) is wanted
    """
    found = Contents(path)
    if like is None:
        return {name: found.tree(name) for name in found.trees}
    for name in [*like, *found.trees]:
        if name not in found.trees or name not in like:
            _refuse(path, name, "is wanted, and not in the file" if name in like else "is in the file, and not wanted")
    return {name: found.like(name, tree) for name, tree in like.items()}


class Contents:
    """What is in a file, read and verified.

    Attributes:
        trees: their descriptions by name.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read it whole."""
        try:
            archive = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OverflowError) as error:
            raise SerializationError(f"{path}: cut short, or no file that save() wrote ({error})") from None
        self.path = path
        with archive:
            head = _head(archive, path)
            self.trees, self._records = head["trees"], head["leaves"]
            self._leaves = [_read_leaf(archive, record, path) for record in self._records]
            fields = {*[record["field"] for record in self._records if "field" in record], HEAD}
            for field in [name.removesuffix(".npy") for name in archive.namelist()]:
                if field not in fields:
                    _refuse(path, field, "is in the file, and its structure has no such leaf")

    def tree(self, name: str) -> Any:
        """Make a tree as the file describes it."""
        return _made(self.trees[name], self._leaves, self.path, name)

    def like(self, name: str, tree: Any) -> Any:
        """Put the leaves of a tree of the file into one that is given, after a look at paths, shapes and dtypes."""
        own = [k for k, record in enumerate(self._records) if record["tree"] == name]
        wanted, there = named(name, tree), [self._records[k]["path"] for k in own]
        paths = [at for at, _ in wanted]
        for at in paths:
            if at not in there:
                _refuse(self.path, at, "is wanted, and not in the file")
        if paths != there:
            _refuse(self.path, next((at for at in there if at not in paths), name), "is in the file, and not wanted")
        for (at, one), k in zip(wanted, own, strict=True):
            for what, of in (("shape", np.shape), ("dtype", _dtype)):
                if of(self._leaves[k]) != of(one):
                    _refuse(self.path, at, f"has the {what} {of(self._leaves[k])}, and {of(one)} is wanted")
        rest = iter([self._leaves[k] for k in own])
        return tree_map(lambda _: next(rest), tree)


def _refuse(path: Any, field: str, what: str) -> NoReturn:
    raise SerializationError(f"{path}: {field} {what}")


def _head(archive: zipfile.ZipFile, path: Any) -> dict[str, Any]:
    """Read the structure, and verify that it is what was written."""
    text = _member(archive, HEAD, path)
    try:
        head = json.loads(text.item())
    except (ValueError, TypeError) as error:
        _refuse(path, HEAD, f"is no JSON ({error})")
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        _refuse(path, f"{HEAD}: format", f"is not {FORMAT!r}")
    if head.get("version") != VERSION:
        _refuse(path, f"{HEAD}: version", f"is {head.get('version')!r}, and {VERSION} is read")
    if head.get("sha256") != _digest(head):
        _refuse(path, f"{HEAD}: sha256", "is not that of its content: it was changed")
    return head


def _member(archive: zipfile.ZipFile, field: str, path: Any) -> Any:
    try:
        content = archive.read(f"{field}.npy")  # and its cyclic redundancy check
        return np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    except KeyError:
        _refuse(path, field, "is missing: no file that save() wrote, or a part of one")
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever zipfile and NumPy say to bytes that nobody wrote
        _refuse(path, field, f"is damaged ({error})")


def _read_leaf(archive: zipfile.ZipFile, record: dict[str, Any], path: Any) -> Any:
    kind = record["kind"]
    if "value" in record:
        value = record["value"]
        return float.fromhex(value) if kind == "float" else bool(int(value)) if kind == "bool" else int(value)
    array = _member(archive, record["field"], path)
    for name, found in (("dtype", array.dtype.str), ("shape", [*array.shape]), ("sha256", _checksum(array))):
        if record[name] != found:
            _refuse(path, record["path"], f"is damaged: its {name} is {found}, and {record[name]} was written")
    return array if kind == "array" else array[()]


def _made(tree: Any, leaves: list[Any], path: Any, name: str) -> Any:
    """Make a tree of its description."""
    if tree is None:
        return None
    if isinstance(tree, int):
        return leaves[tree]
    ((kind, parts),) = tree.items()
    if kind == "text":
        return parts
    if kind == "dict":
        return {key: _made(part, leaves, path, f"{name}/{key}") for key, part in parts}
    if kind == "object":
        _refuse(path, name, f"is an object of the class {parts}: load(path, like=...) makes it")
    made = [_made(part, leaves, path, f"{name}/{k}") for k, part in enumerate(parts)]
    return tuple(made) if kind == "tuple" else made


def _dtype(leaf: Any) -> Any:
    return leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype
