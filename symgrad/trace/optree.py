"""optree's functions for nested dicts, lists and objects; it is imported (10 ms) when one is first called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optree import (
        GetAttrEntry,
        PyTreeAccessor,
        broadcast_prefix,
        register_pytree_node,
        tree_flatten,
        tree_map,
        tree_unflatten,
    )

__all__ = [
    "GetAttrEntry", "PyTreeAccessor", "broadcast_prefix", "register_pytree_node", "tree_flatten", "tree_map",
    "tree_unflatten",
]


def __getattr__(name: str) -> Any:
    """Import one of its names, which is this module's own from then on."""
    import optree

    return globals().setdefault(name, getattr(optree, name))
