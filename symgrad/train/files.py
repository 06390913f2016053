"""Files of arrays: one npz with the structure of its trees as JSON, checked field by field when it is read."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from symgrad import tree_flatten, tree_map, tree_paths
from symgrad.errors import ArgumentError, SerializationError

FORMAT, VERSION = "symgrad arrays", 1
HEAD = "symgrad.json"
"""The member of the npz that holds the structure."""
LONGEST = 2**16 - 16
"""Bytes of a member's name: there are two for their number."""


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
        ArgumentError: a leaf needs pickle, the structure has no form in JSON, or a key none in a zip, naming it; or
            `path` is there, and no file: a folder, a device.
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
        leaves += [_stored(name, at, leaf, arrays) for at, leaf in named(name, tree)]
    head = {"format": FORMAT, "version": VERSION, "trees": described, "leaves": leaves}
    arrays[HEAD] = np.array(json.dumps({**head, "sha256": _digest(head)}).encode())
    with _replaced(Path(path).resolve()) as file, zipfile.ZipFile(file, "w") as archive:
        for field, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{field}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def named(name: str, tree: Any) -> list[tuple[str, Any]]:
    """List the leaves of a tree with their paths, which begin with its name."""
    return [*zip([f"{name}/{path}".rstrip("/") for path in tree_paths(tree)], tree_flatten(tree)[0], strict=True)]


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


def _stored(tree: str, path: str, leaf: Any, arrays: dict[str, Any]) -> dict[str, Any]:
    """Describe a leaf, and put it among the arrays of the file, where it is no number of Python's."""
    if type(leaf) in {bool, int, float}:
        value = leaf.hex() if type(leaf) is float else str(int(leaf))
        return {"path": path, "kind": type(leaf).__name__, "value": value, "tree": tree}
    plain = isinstance(leaf, (np.ndarray, np.generic)) and not isinstance(leaf, np.ma.MaskedArray)
    array = np.asarray(leaf) if plain else np.array(None)
    if array.dtype.kind not in "biufcSUmM":
        what = f"the dtype {array.dtype}" if plain else f"{type(leaf).__name__}"
        raise ArgumentError(f"save(): {path} is of {what}, which is kept by pickle alone", instead="arrays of numbers")
    if "\0" in path or any("\ud800" <= letter <= "\udfff" for letter in path) or len(path.encode()) > LONGEST:
        raise ArgumentError(
            f"save(): {path[:200]!r} holds an array, and no member of a zip can be called so",
            instead=f"keys without NUL and lone surrogates, of at most {LONGEST} bytes",
        )
    field = path
    while field in arrays or field == HEAD:  # two leaves may have one path
        field += "~"
    arrays[field] = array
    kind = "array" if isinstance(leaf, np.ndarray) else "number"
    return {"path": path, "kind": kind, **_described(array), "tree": tree, "field": field}


def _described(array: Any) -> dict[str, Any]:
    """Return what is verified of an array when it is read."""
    whole: Any = np.ascontiguousarray(array).reshape(-1)
    digest = hashlib.sha256(whole.view(np.uint8) if whole.nbytes else b"").hexdigest()
    return {"dtype": array.dtype.str, "shape": [*array.shape], "sha256": digest}


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
    beside = path.with_name(f".{path.name}.part")
    with contextlib.ExitStack() as ends:
        folder = os.open(path.parent, os.O_RDONLY)
        ends.callback(os.close, folder)
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(folder, fcntl.LOCK_EX)
            ends.callback(fcntl.flock, folder, fcntl.LOCK_UN)  # a child forked meanwhile has the descriptor, too
        ends.callback(beside.unlink, missing_ok=True)
        with beside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)


# -- reading


def load(path: str | os.PathLike[str], like: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Read what `save` wrote.

    Args:
        path: the file.
        like: trees by name. What is in the file must have their structures, shapes and dtypes, and is returned in
            them; needed for objects, as dataclasses. Numbers and texts are the file's, but for texts in objects, which
            no file holds. Without it, trees are dicts, lists and tuples.

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
    found.expect([*like], [*found.trees])
    return {name: found.like(name, tree) for name, tree in like.items()}


class Contents:
    """What is in a file, read and verified.

    Attributes:
        trees: their descriptions by name.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read it whole."""
        self.path = path
        try:
            archive = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OverflowError) as error:
            raise SerializationError(f"{path}: cut short, or no file that save() wrote ({error})") from None
        with archive:
            head = self._head(archive)
            self.trees: dict[str, Any] = head["trees"]
            self._leaves = [(record, self._leaf(archive, record)) for record in head["leaves"]]
            fields = {HEAD, *[record.get("field") for record, _ in self._leaves]}
            for field in [name.removesuffix(".npy") for name in archive.namelist()]:
                if field not in fields:
                    self._refuse(field, "is in the file, and its structure has no such leaf")

    def tree(self, name: str) -> Any:
        """Make a tree as the file describes it."""
        return self._made(self.trees[name], name)

    def like(self, name: str, tree: Any) -> Any:
        """Put leaves and texts of a tree of the file into one that is given, after a look at paths, shapes, dtypes."""
        wanted = named(name, tree)
        found = [(record["path"], leaf) for record, leaf in self._leaves if record["tree"] == name]
        paths, there = [at for at, _ in wanted], [at for at, _ in found]
        self.expect(paths, there)
        if paths != there:  # in another order, or two leaves have one path
            self._refuse(name, "is in the file, and not wanted")
        traits: dict[str, Any] = {"shape": np.shape, "dtype": lambda one: getattr(one, "dtype", np.asarray(one).dtype)}
        for (at, one), (_, leaf) in zip(wanted, found, strict=True):
            for what, of in traits.items():
                if of(leaf) != of(one):
                    self._refuse(at, f"has the {what} {of(leaf)}, and {of(one)} is wanted")
        rest = iter([leaf for _, leaf in found])
        return tree_map(lambda _: next(rest), self._with_texts(tree, self.trees[name], name))

    def _with_texts(self, tree: Any, there: Any, path: str) -> Any:
        """Put the texts that the file describes into a tree that is given."""
        kind, parts = next(iter(there.items())) if isinstance(there, dict) else ("leaf", ())
        if (kind == "text") is not (type(tree) is str):
            text = "is a text in the file, and not wanted", "is wanted as a text, and none in the file"
            self._refuse(path, text[type(tree) is str])
        if kind == "text" or type(tree) not in {dict, list, tuple} or kind not in {"dict", "list", "tuple"}:
            return parts if kind == "text" else tree
        pairs = dict(parts if kind == "dict" else enumerate(parts))
        own = tree if type(tree) is dict else dict(enumerate(tree))
        self.expect([f"{path}/{key}" for key in own], [f"{path}/{key}" for key in pairs])
        made = {key: self._with_texts(part, pairs.get(key), f"{path}/{key}") for key, part in own.items()}
        return made if type(tree) is dict else type(tree)(made.values())

    def expect(self, wanted: Sequence[str], there: Sequence[str]) -> None:
        """Refuse what is only wanted, or only there."""
        differ = {*wanted} ^ {*there}
        for at in filter(differ.__contains__, [*wanted, *there]):
            self._refuse(at, "is wanted, and not in the file" if at in wanted else "is in the file, and not wanted")

    def _refuse(self, field: str, what: str) -> NoReturn:
        raise SerializationError(f"{self.path}: {field} {what}")

    def _head(self, archive: zipfile.ZipFile) -> dict[str, Any]:
        """Read the structure, and verify that it is what was written."""
        text = self._array(archive, HEAD)
        try:
            head = {**json.loads(text.item())}
        except (ValueError, TypeError) as error:
            self._refuse(HEAD, f"is no JSON ({error})")
        checks = (
            ("format", FORMAT, f"is not {FORMAT!r}"),
            ("version", VERSION, f"is {head.get('version')!r}, and {VERSION} is read"),
            ("sha256", _digest(head), "is not that of its content: it was changed"),
        )
        for name, wanted, what in checks:
            if head.get(name) != wanted:
                self._refuse(f"{HEAD}: {name}", what)
        return head

    def _leaf(self, archive: zipfile.ZipFile, record: dict[str, Any]) -> Any:
        if "value" in record:
            kind, value = record["kind"], record["value"]
            return float.fromhex(value) if kind == "float" else {"int": int, "bool": bool}[kind](int(value))
        array = self._array(archive, record["field"])
        for name, found in _described(array).items():
            if record[name] != found:
                self._refuse(record["path"], f"is damaged: its {name} is {found}, and {record[name]} was written")
        return array if record["kind"] == "array" else array[()]

    def _array(self, archive: zipfile.ZipFile, field: str) -> Any:
        try:
            with archive.open(f"{field}.npy") as member:  # whose end has a cyclic redundancy check
                return np.lib.format.read_array(member, allow_pickle=False)
        except KeyError:
            self._refuse(field, "is missing: no file that save() wrote, or a part of one")
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever zipfile and NumPy say to bytes that nobody wrote
            self._refuse(field, f"is damaged ({error})")

    def _made(self, tree: Any, path: str) -> Any:
        """Make a tree of its description."""
        if tree is None or isinstance(tree, int):
            return None if tree is None else self._leaves[tree][1]
        ((kind, parts),) = tree.items()
        if kind == "object":
            self._refuse(path, f"is an object of the class {parts}: load(path, like=...) makes it")
        if kind == "text":
            return parts
        pairs = parts if kind == "dict" else enumerate(parts)
        made = {key: self._made(part, f"{path}/{key}") for key, part in pairs}
        return made if kind == "dict" else {"list": list, "tuple": tuple}[kind](made.values())
