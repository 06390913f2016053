"""Dataclasses, attrs classes and the user's other objects as structures of arguments and results, like dicts.

So are namespaces of Python's own, and classes that are made of `dict`, `list` and `tuple`.
A class is registered when its first object is met. What an object holds of arrays and floats, and of containers and
objects with such in them, are its branches; what else it holds (integers, names, functions) belongs to its kind, and
objects that differ in it are compiled for apart. An object inside of the traced function is a new one of the same
class, made without its ``__init__``. Texts, functions, members of enumerations and other settings are such kinds
without branches.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import is_dataclass
from enum import Enum
from functools import cached_property, lru_cache, partial
from operator import getitem
from types import BuiltinFunctionType, EllipsisType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from symgrad.errors import ArgumentError
from symgrad.trace import optree
from symgrad.trace.lines import is_user_code

NAMESPACE = "symgrad"

_PLAIN = (np.ndarray, np.generic, bool, int, float)
_SETTINGS = (
    str, bytes, slice, range, type, Enum, np.dtype, np.ufunc, EllipsisType, FunctionType, MethodType,
    BuiltinFunctionType, partial, ModuleType,
)
_NEVER = (*_SETTINGS, complex, set, frozenset)
_ITEMS = (OrderedDict, defaultdict, dict, list, tuple)

_lock = threading.Lock()
_patterns: list[tuple[Callable[[type], bool], Callable[[Any], Any], Callable[[type, Any, Any], Any]]] = []
_of_pattern: set[type] = set()
_known: dict[type, bool] = dict.fromkeys((np.ndarray, bool, int, float, np.float64, np.float32, np.int64), False)


class Fixed:
    """What an object holds beside arrays and floats, as a part of its kind."""

    def __init__(self, value: Any) -> None:
        """Hold it."""
        self.value = value

    def __eq__(self, other: object) -> bool:
        """Equal what is the same, or of one type and equal."""
        if not isinstance(other, Fixed):
            return NotImplemented
        return self.value is other.value or (type(self.value) is type(other.value) and bool(self.value == other.value))

    def __hash__(self) -> int:
        return hash(type(self.value))

    def __repr__(self) -> str:
        return repr(self.value)


def patterned(
    fits: Callable[[type], bool], apart: Callable[[Any], Any], together: Callable[[type, Any, Any], Any],
) -> None:
    """Say how classes are structures of which only the first branch has derivatives: the others say where it stands.

    Args:
        fits: whether a class is one of these.
        apart: gives of an object its branches, what belongs to its kind, and the branches' names.
        together: makes an object of its class, its kind and its branches.
    """
    _patterns.append((fits, apart, together))


def is_pattern(value: Any) -> bool:
    """Whether something is a structure by itself that stands for one array: a RowSparse, a sparse matrix."""
    return any(fits(type(value)) for fits, *_ in _patterns)


def places_in(tree: Any) -> set[int]:
    """Return which leaves of a structure say where elements stand: those of patterns, but the first of each."""
    found: set[int] = set()
    level, start = [tree], 0
    while level:
        one = level.pop()
        if one.is_leaf():
            start += 1
        elif one.type in _of_pattern:
            found.update(range(start + 1, start + one.num_leaves))
            start += one.num_leaves
        else:
            level += reversed(one.children())
    return found


def flattened(tree: Any, *, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], Any]:
    """Flatten a tree to its leaves and its structure; the classes of its objects are registered as they are met.

    What `is_leaf` says to be one is not looked into.
    """
    while True:
        try:
            leaves, structure = optree.tree_flatten(tree, is_leaf, namespace=NAMESPACE)
        except RecursionError:
            raise ArgumentError("an object that holds itself, somewhere in its attributes, as an argument or a result",
                                instead="its arrays in a dict") from None
        met = [leaf for leaf in leaves if _known.get(type(leaf)) is not False and _registered(leaf)]
        if all(is_leaf is not None and is_leaf(leaf) for leaf in met):
            return leaves, structure


@lru_cache(maxsize=256)
def key_orders(tree: Any) -> Callable[[Any], tuple[Any, ...]] | None:
    """Make what returns the orders of keys in dicts of a structure, which code that goes through them sees.

    Returns:
        A function of a value of this structure: for each dict of several keys its keys, () where they stand as leaves
        do; and () where all do. None where there is no such dict: then a call asks for nothing.
    """
    level: list[tuple[int, Any, Any, Any]] = [(-1, None, None, tree)]
    for number, (_, _, _, one) in enumerate(level):
        kind = one.type or object
        get = getitem if kind in _ITEMS or kind is deque else _item if issubclass(kind, (*_ITEMS, deque)) else getattr
        level += [(number, entry, get, part) for entry, part in zip(one.entries(), one.children(), strict=True)]
    of_many = [part.type in {dict, defaultdict} and part.num_children > 1 for *_, part in level]
    needed = [*of_many]
    for number in range(len(level) - 1, 0, -1):
        needed[level[number][0]] |= needed[number]
    if not needed[0]:
        return None
    places = {number: k for k, number in enumerate(number for number, one in enumerate(needed) if one)}
    ways = [(get, places[parent], entry) for parent, entry, get, _ in [level[k] for k in places if k]]
    usual = [(places[k], tuple(level[k][3].entries())) for k in places if of_many[k]]

    def orders(value: Any) -> tuple[Any, ...]:
        parts = [value]
        for get, within, entry in ways:
            parts.append(get(parts[within], entry))
        found = [() if (keys := tuple(parts[k])) == known else keys for k, known in usual]
        return tuple(found) if any(found) else ()

    return orders


def _item(value: Any, entry: Any) -> Any:
    """Return an element of an object of a class of its own, however that looks up elements; or an attribute."""
    if isinstance(value, dict):
        return dict.__getitem__(value, entry) if dict.__contains__(value, entry) else getattr(value, entry)
    return _base(type(value)).__getitem__(value, entry) if isinstance(entry, int) else getattr(value, entry)


def behind(tree: Any, leaves: Sequence[Any], statics: Iterable[Any]) -> list[Any]:
    """List what comes with arguments that has code: the classes of objects, functions in their attributes, statics."""
    found: list[Any] = []
    level: list[Any] = [optree.tree_unflatten(tree, leaves)] if any(map(_known.get, _kinds(tree) - _of_pattern)) else []
    while level:
        objects = [one for one in level if _known.get(type(one)) and not (_is_setting(one) or is_pattern(one))]
        found += [*map(type, objects), *[one for one in level if callable(one) and _is_setting(one)]]
        held = [*[one for one in level if isinstance(one, dict)], *map(attributes_of, objects)]
        parts = [*[one for one in level if isinstance(one, (list, tuple))], *[one.values() for one in held]]
        level = [part for one in parts for part in one]
    level = [*statics]
    while level:
        found += [one for one in level if not isinstance(one, tuple)]
        level = [part for one in level if isinstance(one, tuple) for part in one]
    return found


def entries_by_place(tree: Any, root: str = "") -> dict[str, tuple[Any, Any]]:
    """Return what dicts, lists and objects hold, with who holds it, by place; what holds itself is looked at once."""
    found: dict[str, tuple[Any, Any]] = {}
    seen: set[int] = set()
    level = [(root, tree)]
    while level:
        place, one = level.pop()
        if id(one) in seen:
            continue
        if isinstance(one, dict):
            parts = [(f"{place}[{key!r}]", part) for key, part in dict.items(one)]
        elif isinstance(one, (list, tuple)):
            parts = [(f"{place}[{k}]", part) for k, part in enumerate(one)]
        elif _known.get(type(one)) and not (_is_setting(one) or is_pattern(one)):
            parts = [(f"{place}.{name}", part) for name, part in attributes_of(one).items()
                     if not isinstance(getattr(type(one), name, None), cached_property)]
        else:
            continue
        seen.add(id(one))
        found |= {name: (one, part) for name, part in parts}
        level += reversed(parts)
    return found


class Met:
    """Objects of the classes in some structures, pickled before these: who reads them has to have met the classes."""

    def __init__(self, *trees: Any) -> None:
        self.samples = [optree.tree_unflatten(tree, [0.0] * tree.num_leaves) for tree in trees
                        if any(map(_known.get, _kinds(tree)))]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the objects."""
        return _met_again, (self.samples,)


def _met_again(samples: list[Any]) -> Met:
    flattened(samples)
    return Met()


def _kinds(tree: Any) -> set[Any]:
    """Return the classes that a structure is made of."""
    kinds: set[Any] = set()
    level = [tree]
    while level:
        kinds.update([one.type for one in level])
        level = [child for one in level if not one.is_leaf() for child in one.children()]
    return kinds


def _registered(value: Any) -> bool:
    """Register the class of a leaf, if it is one of objects that have attributes; return whether it was."""
    kind = type(value)
    with _lock:
        if kind in _known:
            return _known[kind]
        own = next((entry[1:] for entry in _patterns if entry[0](kind)), None)
        apart: Any = None
        together: Any = None
        entry: Any = optree.GetAttrEntry
        if own is not None:
            apart, together = own
            _of_pattern.add(kind)
        elif _is_setting(value):
            apart, together = lambda setting: ((), Fixed(setting), ()), lambda _kind, fixed, _parts: fixed.value
        elif _is_structure(value) and issubclass(kind, _ITEMS):
            apart, together = _items_apart, _items_together
            entry = optree.MappingEntry if issubclass(kind, dict) else optree.SequenceEntry
        elif _is_structure(value):
            apart, together = _apart, _together
        _known[kind] = apart is not None
        if apart is not None:
            optree.register_pytree_node(
                kind, apart, partial(together, kind), path_entry_type=entry, namespace=NAMESPACE,
            )
        return _known[kind]


def is_sparse(kind: type) -> bool:
    """Whether a class is that of SciPy's sparse arrays and matrices."""
    return kind.__module__.startswith("scipy.sparse")


def _is_setting(value: Any) -> bool:
    """Whether something is a text, a function or the like, which belongs to the kind of arguments."""
    return isinstance(value, _SETTINGS) or (callable(value) and type(value).__module__.startswith("symgrad."))


def _is_structure(value: Any) -> bool:
    kind = type(value)
    if isinstance(value, (*_PLAIN, *_NEVER)) or kind.__module__.startswith("symgrad.") or hasattr(kind, "__array__"):
        return False
    if is_sparse(kind):  # one of them is made of `dict`
        return False
    if is_dataclass(kind) or hasattr(kind, "__attrs_attrs__") or isinstance(value, (SimpleNamespace, *_ITEMS)):
        return True
    if any((one.__module__, one.__name__) == ("argparse", "Namespace") for one in kind.__mro__):
        return True
    module = sys.modules.get(kind.__module__)
    file = getattr(module, "__file__", None)
    # A module that is not loaded is a text that was run.
    own = module is None or kind.__module__ == "__main__" if file is None else is_user_code(file)
    has_place = hasattr(value, "__dict__") or bool(attributes_of(value))
    return own and has_place and not issubclass(kind, BaseException)


def attributes_of(value: Any) -> dict[str, Any]:
    """Return an object's attributes, those in slots too."""
    slots = [name for kind in type(value).__mro__ for name in _names(kind.__dict__.get("__slots__", ()))]
    return {name: getattr(value, name) for name in slots if hasattr(value, name)} | getattr(value, "__dict__", {})


def _names(slots: Any) -> list[str]:
    return [name for name in ([slots] if isinstance(slots, str) else slots) if name not in {"__dict__", "__weakref__"}]


def _branches(value: Any) -> bool:
    """Whether an attribute holds arrays or floats, itself or somewhere in it."""
    kind = type(value)
    if isinstance(value, (np.ndarray, np.generic, float)) or kind.__module__.startswith("symgrad."):
        return True
    if isinstance(value, (list, tuple, dict)):
        return any(map(_branches, value.values() if isinstance(value, dict) else value))
    return not _is_setting(value) and (_known[kind] if kind in _known else _registered(value))


def _apart(value: Any) -> tuple[Any, Any, Any]:
    held = attributes_of(value)
    names = tuple([name for name, part in held.items() if _branches(part)])
    rest = tuple([(name, Fixed(part)) for name, part in held.items() if name not in names])
    return [held[name] for name in names], (names, rest), names


def _together(kind: type, data: Any, parts: Any) -> Any:
    base: Any = SimpleNamespace if issubclass(kind, SimpleNamespace) else object
    return _with_attributes(base.__new__(kind), data, parts)


def _with_attributes(made: Any, data: Any, parts: Any) -> Any:
    names, rest = data
    for name, part in [*zip(names, parts, strict=True), *[(name, _copied_containers(one.value)) for name, one in rest]]:
        if isinstance(getattr(type(made), name, None), property):  # which reads it, as of the results of SciPy's tests
            made.__dict__[name] = part
        else:
            object.__setattr__(made, name, part)
    return made


def _items_apart(value: Any) -> tuple[Any, Any, Any]:
    """Take a dict, a list or a tuple of a class of its own apart: its items, and then its attributes."""
    base: Any = _base(type(value))
    keys = (*base.__iter__(value),) if isinstance(value, dict) else (*range(len(value)),)
    items = [base.__getitem__(value, key) for key in keys]
    by_attributes = getattr(value, "__dict__", None) is value  # of which the items are the attributes
    parts, data, names = ([], ((), ()), ()) if by_attributes else _apart(value)
    if isinstance(value, defaultdict):
        data = data[0], (*data[1], ("default_factory", Fixed(value.default_factory)))
    return [*items, *parts], (keys, by_attributes, data), (*keys, *names)


def _base(kind: type) -> Any:
    return next(one for one in _ITEMS if issubclass(kind, one))


def _items_together(kind: type, data: Any, parts: Any) -> Any:
    keys, by_attributes, attributes = data
    base: Any = _base(kind)
    items = parts[: len(keys)]
    made: Any = tuple.__new__(kind, items) if base is tuple else base.__new__(kind)
    if base is list:
        list.extend(made, items)
    elif base is not tuple:
        for key, item in zip(keys, items, strict=True):
            base.__setitem__(made, key, item)
    if by_attributes:
        made.__dict__ = made
    return _with_attributes(made, attributes, parts[len(keys) :])


def _copied_containers(value: Any) -> Any:
    """Copy lists and dicts, so that what a traced function appends is not in those of the caller."""
    if type(value) is list:
        return [*map(_copied_containers, value)]
    return {name: _copied_containers(part) for name, part in value.items()} if type(value) is dict else value
