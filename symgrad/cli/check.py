"""``symgrad check``: a function's gradients at random arguments of the specs on the command line."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import optree

import symgrad as sg
from symgrad.cli import arguments, loading
from symgrad.errors import GradientCheckError
from symgrad.trace.signature import flatten

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from symgrad.cli.arguments import Call


def checked(
    target: str, words: Sequence[str], extents: Sequence[str], seed: int, options: dict[str, Any],
) -> tuple[str, bool]:
    """Check what the command line names: what to print, and whether the gradients are right."""
    fun = loading.function(target)
    call = arguments.call(fun, arguments.specs(words))
    sizes = arguments.sizes(extents)
    with contextlib.redirect_stdout(sys.stderr):
        drawn, note = arguments.data(call, sizes, np.random.default_rng(seed)), ""
        if not _finite(fun, drawn):
            drawn = arguments.data(call, sizes, np.random.default_rng(seed), positive=True)
            note = " (at positive arguments: elsewhere the value is no finite number)"
        try:
            report = sg.check_grads(
                fun, drawn.args, kwargs=drawn.kwargs, seed=seed, static_argnames=drawn.static, **options
            )
        except GradientCheckError as error:
            return f"{error}{note}", False
    return f"{report}{note}", True


def _finite(fun: Callable[..., Any], call: Call) -> bool:
    args, kwargs = _copied(call.args), _copied(call.kwargs)
    with np.errstate(all="ignore"):
        leaves, _ = flatten(fun(*args, **kwargs))
    return all(np.all(np.isfinite(leaf)) for leaf in map(np.asarray, leaves) if leaf.dtype.kind == "f")


def _copied(tree: Any) -> Any:
    leaves, structure = flatten(tree)
    copies = [leaf.copy() if isinstance(leaf, np.ndarray) else leaf for leaf in leaves]
    return optree.tree_unflatten(structure, copies)
