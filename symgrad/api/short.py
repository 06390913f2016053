"""The short path of a call: which compilations have one, and how arguments come apart there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import optree

from symgrad.api.sizes import bound, words
from symgrad.build.call import unmet
from symgrad.build.direct import MISS, direct
from symgrad.ir.shapes import is_static
from symgrad.trace.signature import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from symgrad.api.captured import Captured
    from symgrad.ir.program import Program
    from symgrad.options import Options
    from symgrad.pipeline import Built
    from symgrad.trace.signature import Signature, Spec

    Short = Callable[[tuple[Any, ...]], Any]


def short_call(
    signature: Signature, built: Built, options: Options, captured: Captured, unflatten: Callable[[list[Any]], Any],
    alone: Container[tuple[int, ...]],
) -> Short | None:
    """Make the shortest call of a compilation, which also looks whether a captured name was bound anew.

    Args:
        signature: what it was compiled for.
        built: what was compiled.
        options: how many threads.
        captured: what it reads that is no argument.
        unflatten: makes what is returned of new arrays.
        alone: extents that have a compilation of their own, and are not called with here.

    Returns:
        A function of the positional arguments, which answers `MISS` where they need more; None without one.
    """
    if not is_plain(signature) or built.interface is None or built.library is None:
        return None
    numbers = [_number(each) for each in signature.specs]
    static = all(is_static(node.shape) for node in built.program.inputs)
    takes = None if static else taken(built.program, alone)
    call = direct(built.interface, built.library, options, numbers, flatten_as(signature.tree), unflatten, takes)
    return captured.watched(call, MISS)


def either(one: Short | None, other: Short | None) -> Short | None:
    """Make a call that tries one, and another one where that misses: first what served the last call."""
    if one is None or other is None:
        return one or other
    pair = [one, other]

    def call(args: tuple[Any, ...]) -> Any:
        result = pair[0](args)
        if result is MISS:
            result = pair[1](args)
            if result is not MISS:
                pair.reverse()
        return result

    return call


def taken(program: Program, alone: Container[tuple[int, ...]]) -> Callable[[Sequence[Any]], dict[str, int] | None]:
    """Make what finds the open extents of a program in the shapes of the inputs that have some.

    It answers None for shapes that do not fit, or that something else was compiled for.
    """
    shapes = [node.shape for node in program.inputs]
    pattern, missing = words(shapes), unmet(program)

    def takes(found: Sequence[Any]) -> dict[str, int] | None:
        given = iter(found)
        full = [shape if is_static(shape) else next(given) for shape in shapes]
        if [*map(len, full)] != [*map(len, shapes)]:
            return None
        extents = tuple([d for shape in full for d in shape])
        names = None if extents in alone else bound(pattern, extents)
        return names if names is not None and not missing(names) else None

    return takes


def _number(spec: Spec) -> type | None:
    """Return the class of a number that C is given as it is; None for an array."""
    return spec.weak or (None if spec.shape or spec.array else np.float64)


def is_plain(signature: Signature) -> bool:
    """Tell a signature of positional arguments whose arrays lie row by row."""
    return (
        not signature.statics and not signature.tree.children()[1].num_leaves
        and not any(s.fortran for s in signature.specs)
        and all(s.shape or s.weak or s.array or s.dtype == np.float64 for s in signature.specs)
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
