"""`argnums`: which arguments, or parts of them, are differentiated by: positions, names, paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import optree

from symgrad.errors import ArgumentValueError

if TYPE_CHECKING:
    from symgrad.trace.signature import Signature

Argnum = int | str
Argnums = int | str | tuple[int | str, ...]


class Chosen(NamedTuple):
    """One argument or part of one: its structure, and the places of its leaves among all leaves."""

    tree: Any
    leaves: tuple[int, ...]


def listed(argnums: Argnums) -> tuple[Argnum, ...]:
    """Return argnums as a tuple."""
    return tuple(argnums) if isinstance(argnums, (tuple, list)) else (argnums,)


def chosen(argnums: Argnums, signature: Signature, word: str = "argnums=") -> list[Chosen]:
    """Find what is differentiated by.

    Args:
        argnums: positions (from the end, if negative), names, or paths as ``params['w']``.
        signature: the arguments.
        word: what the caller calls it: ``wrt=``, or an option of the command line, ``--wrt``.
    """
    found = [
        _by_path(one, signature, word) if isinstance(one, str) else _by_position(one, signature, word)
        for one in listed(argnums)
    ]
    if not any(one.leaves for one in found):
        known = ", ".join(signature.paths)
        raise ArgumentValueError(f"{quoted(argnums, word)} names no array among the arguments {known}")
    leaves = [leaf for one in found for leaf in one.leaves]
    if len(set(leaves)) != len(leaves):
        raise ArgumentValueError(
            f"{quoted(argnums, word)} names {signature.paths[max(set(leaves), key=leaves.count)]} twice",
            instead="each argument, or part of one, once",
        )
    return found


def quoted(argnums: Argnums, word: str) -> str:
    """Quote what the caller wrote.

    >>> quoted(("w", 1), "argnums="), quoted(("w", "b"), "--wrt")
    ("argnums=('w', 1)", '--wrt w,b')
    """
    return f"{word}{argnums!r}" if word.endswith("=") else f"{word} {','.join(map(str, listed(argnums)))}"


def _by_position(number: int, signature: Signature, word: str) -> Chosen:
    """Find an argument by its position."""
    positional = signature.tree.child(0).children()
    static = {k for k, _ in signature.statics if isinstance(k, int)}
    count = len(positional) + len(static)
    if not -count <= number < count:
        raise ArgumentValueError(
            f"{quoted(number, word)}, where the function was called with {count} positional arguments"
        )
    place = number % count
    if place in static:
        raise ArgumentValueError(f"{quoted(number, word)} is a static argument, which has no gradient")
    child = positional[place - sum(s < place for s in static)]
    return Chosen(child, tuple([k for k, p in enumerate(signature.positions) if p == place]))


def _by_path(name: str, signature: Signature, word: str) -> Chosen:
    """Find an argument, or a part of one, by its path."""
    for leaf, accessor in enumerate(signature.tree.accessors()):
        rest = tuple(accessor)[2:]
        inside = optree.PyTreeAccessor(rest).codify("") if rest else ""
        root = signature.paths[leaf].removesuffix(inside)
        for depth in range(len(rest) + 1):
            part = optree.PyTreeAccessor(rest[:depth]).codify("") if depth else ""
            if root + part == name:
                tree = signature.tree
                for entry in tuple(accessor)[: 2 + depth]:
                    tree = tree.child(tree.entries().index(entry.entry))
                return Chosen(tree, tuple(range(leaf, leaf + tree.num_leaves)))
    raise ArgumentValueError(f"{quoted(name, word)} names none of the arguments {', '.join(signature.paths)}")
