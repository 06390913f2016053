"""The short path of a call: which compilations have one, and how arguments come apart there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import optree

from symgrad.build.direct import MISS, direct
from symgrad.trace.signature import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from symgrad.api.captured import Captured
    from symgrad.options import Options
    from symgrad.pipeline import Built
    from symgrad.trace.signature import Signature


def short_call(
    signature: Signature, built: Built, options: Options, captured: Captured, unflatten: Callable[[list[Any]], Any],
) -> Callable[[tuple[Any, ...]], Any] | None:
    """Make the shortest call of a compilation, which also looks whether a captured name was bound anew.

    Returns:
        A function of the positional arguments, which answers `MISS` where they need more; None without one.
    """
    if not is_plain(signature) or built.interface is None or built.library is None:
        return None
    numbers = [each.weak for each in signature.specs]
    call = direct(built.interface, built.library, options, numbers, flatten_as(signature.tree), unflatten)
    return captured.watched(call, MISS)


def is_plain(signature: Signature) -> bool:
    """Tell a signature of positional arguments whose arrays have known extents and lie row by row."""
    return (
        not signature.statics and not signature.tree.children()[1].num_leaves
        and all(not s.fortran and all(type(d) is int for d in s.shape) for s in signature.specs)
    )


def flatten_as(tree: Any) -> Callable[[tuple[Any, ...]], Sequence[Any] | None] | None:
    """Make what flattens positional arguments of one structure; None where each is an array or a number itself."""
    if all(child.is_leaf() for child in tree.children()[0].children()):
        return None
    flatten: Any = optree.tree_flatten
    nothing: dict[str, Any] = {}

    def flat(args: tuple[Any, ...]) -> Sequence[Any] | None:
        leaves, found = flatten((args, nothing), namespace=NAMESPACE)
        return leaves if found == tree else None

    return flat
