"""How the results of a compiled function, a list of arrays, become what the user gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import optree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from symgrad.ir.node import Node


def handed_out(tree: Any, outputs: Sequence[Node]) -> Callable[[list[Any]], Any]:
    """Return how a list of results gets the structure of what was traced; the fewer steps, the faster is a call.

    Args:
        tree: the structure.
        outputs: what the results are computed by.
    """
    if tree.is_leaf():
        return lambda results: finished(results[0])
    children = tree.children()
    if tree.type is tuple and len(children) == 2 and children[0].is_leaf():
        if children[1].is_leaf():
            return value_and_array if not outputs[0].shape and outputs[1].shape else _pair
        if children[1].type is tuple and all(child.is_leaf() for child in children[1].children()):
            return _value_and_gradients
    return lambda results: optree.tree_unflatten(tree, [finished(r) for r in results])


def finished(result: Any) -> Any:
    """Give numbers as NumPy's scalars, as NumPy's functions do."""
    return result if result.ndim else result[()]


def _pair(results: Sequence[Any]) -> tuple[Any, Any]:
    """Give two arrays or numbers."""
    return finished(results[0]), finished(results[1])


def value_and_array(results: Sequence[Any]) -> tuple[Any, Any]:
    """Give a number and an array: how a loss and its gradient are returned."""
    return results[0][()], results[1]


def _value_and_gradients(results: list[Any]) -> Any:
    value, *gradients = [r if r.ndim else r[()] for r in results]
    return value, tuple(gradients)
