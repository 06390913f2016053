"""Extents as JSON: an integer, or a small tree of sums, products, quotients, minima and maxima of named extents."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from symgrad.errors import SerializationError
from symgrad.ir.index.extents import EVALUATE, fraction
from symgrad.ir.index.notation import Index, start_and_terms
from symgrad.ir.index.shapes import simplified, symbol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

SIZE, DEPTH, LARGEST, HIGHEST = 500, 24, 1 << 62, 16
"""Bounds of a tree that is read: its nodes, its depth, its integers, the exponents in it."""

_WORDS = {
    "Add": "sum", "Mul": "product", "Pow": "power", "floor": "floor", "ceiling": "ceiling", "Max": "max", "Min": "min",
    "Mod": "mod",
}
_BUILD = {word: name for name, word in _WORDS.items()}
_ARGUMENTS = {"power": 2, "floor": 1, "ceiling": 1, "mod": 2, "quotient": 2}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,30}")


def dim_to_json(dim: Any) -> Any:
    """Write an extent or an index of extents.

    >>> from symgrad.ir.index.shapes import symbol
    >>> dim_to_json(symbol("n") * 2 - 1)
    {'sum': [-1, {'product': [2, {'symbol': 'n'}]}]}
    """
    if isinstance(dim, int):
        return dim
    if isinstance(dim, Index):
        start, terms = start_and_terms(dim)
        named = [{"symbol": part.name} if step == 1 else {"product": [step, {"symbol": part.name}]}
                 for part, step in terms.items()]
        return named[0] if start == 0 and len(named) == 1 else {"sum": [*[start] * (start != 0), *named]}
    if getattr(dim, "is_Integer", False):
        return int(dim)
    if getattr(dim, "is_Rational", False):
        return {"quotient": [int(dim.p), int(dim.q)]}
    if getattr(dim, "is_Symbol", False) and dim == symbol(dim.name):
        return {"symbol": dim.name}
    word = _WORDS.get(type(dim).__name__)
    if word is None:
        raise SerializationError(f"the extent {dim!s:.80} has no form in a saved program")
    from sympy import default_sort_key

    ordered = dim.args if word in _ARGUMENTS else sorted(dim.args, key=default_sort_key)
    return {word: [dim_to_json(a) for a in ordered]}


def evaluated(tree: Any, sizes: Mapping[str, int]) -> int:
    """Reckon what `dim_to_json` wrote for known extents, without SymPy.

    >>> evaluated({"sum": [-1, {"product": [2, {"symbol": "n"}]}]}, {"n": 4})
    7
    """
    return int(_number_at(tree, sizes))


def _number_at(tree: Any, sizes: Mapping[str, int]) -> int | Fraction:
    if type(tree) is int:
        return tree
    ((word, content),) = tree.items()
    return sizes[content] if word == "symbol" else _REDUCED[word]([_number_at(item, sizes) for item in content])


_REDUCED = {word: EVALUATE[name] for word, name in _BUILD.items()} | {"quotient": lambda a: fraction(*a)}


def dim_from_json(tree: Any) -> Any:
    """Read what `dim_to_json` wrote.

    Raises:
        ValueError: it is no such tree, or too large.

    >>> dim_from_json({"sum": [-1, {"product": [2, {"symbol": "n"}]}]})
    2*n - 1
    """
    count = [0]
    return simplified(_read_tree(tree, 0, count))


def _read_tree(tree: Any, depth: int, count: list[int]) -> Any:
    count[0] += 1
    if count[0] > SIZE or depth > DEPTH:
        raise ValueError(f"an extent of more than {SIZE} parts or {DEPTH} levels")
    if type(tree) is int:
        if abs(tree) > LARGEST:
            raise ValueError("an integer of more than 62 bits")
        return tree
    if not isinstance(tree, dict) or len(tree) != 1:
        raise ValueError(f"{tree!r:.60} is no extent")
    ((word, content),) = tree.items()
    if word == "symbol":
        if not isinstance(content, str) or not _NAME.fullmatch(content):
            raise ValueError(f"{content!r:.60} is no name of an extent")
        return symbol(content)
    if not isinstance(content, list) or not content or len(content) != _ARGUMENTS.get(word, len(content)):
        raise ValueError(f"{word!r:.60} of {content!r:.60}")
    import sympy

    arguments = [_read_tree(item, depth + 1, count) for item in content]
    if word == "quotient":
        if any(type(a) is not int for a in arguments) or arguments[1] == 0:
            raise ValueError("a quotient is one of two integers")
        return sympy.Rational(*arguments)
    if word not in _BUILD:
        raise ValueError(f"{word!r:.60} is nothing an extent is made of")
    if word == "power" and (type(arguments[1]) is not int or abs(arguments[1]) > HIGHEST):
        raise ValueError(f"an exponent must be an integer of at most {HIGHEST}")
    return getattr(sympy, _BUILD[word])(*arguments)
