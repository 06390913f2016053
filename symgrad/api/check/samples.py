"""What `check_grads(op)` calls an op with: arrays from the domain that its declaration says it is tested on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.errors import ArgumentError
from symgrad.ir.op import Elementwise, Op
from symgrad.ops import load
from symgrad.ops.declare.domains import Case, Domain
from symgrad.ops.declare.forms import ANSWERS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SHAPE = (2, 3)
"""Of the arrays for an op that works element by element."""


def domains(name: str, sample: Any, count: int) -> tuple[Domain, ...] | None:
    """Read the `sample` of a user's op: the bounds of every argument, or a pair of bounds for each.

    Raises:
        ArgumentError: it is something else.
    """
    if sample is None:
        return None
    pairs = sample if isinstance(sample, (tuple, list)) and np.ndim(sample) == 2 else (sample,) * count
    good = len(pairs) == count and all(np.shape(p) == (2,) and -np.inf < p[0] < p[1] < np.inf for p in pairs)
    if not good:
        raise ArgumentError(
            f"sample={sample!r} of {name}", instead=f"(low, high), or such a pair for each of {count} arguments"
        )
    return tuple([Domain(float(low), float(high)) for low, high in pairs])


def cases(domain: tuple[Domain, ...] | None, call: Callable[..., Any], shapes: Sequence[tuple[int, ...]]) -> Any:
    """Return what a user's op is checked with: one case, None where it has no domain."""
    return None if domain is None else (Case(call, tuple(shapes), domain),)


def _named(call: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Give a case the name of its op, for messages."""

    def of(*arrays: Any) -> Any:
        return call(*arrays)

    of.__name__ = name
    return of


def drawn(op: Any, seed: int) -> list[tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Return calls of an op, or of what answers a ufunc, and their arguments.

    Raises:
        ArgumentError: it is no op, or one without a domain.
    """
    load()
    found = ANSWERS.get(op) if isinstance(op, np.ufunc) else op
    name = getattr(found, "name", getattr(op, "__name__", repr(op)))
    if not isinstance(found, Op):
        raise ArgumentError(f"check_grads of {name} without arguments", instead=f"check_grads({name}, (x, ...))")
    if found.sample is None:
        raise ArgumentError(
            f"{name} has no domain to draw arguments from",
            instead=f"check_grads({name}, (x, ...)), or sample=(low, high) where the op is defined",
        )
    if isinstance(found, Elementwise) and found.params:
        raise ArgumentError(
            f"{name} has parameters, {', '.join(found.params)}", instead="a function that calls it, and arguments"
        )
    rng = np.random.default_rng(seed)
    if not isinstance(found, Elementwise):
        return [(_named(case.call, name), tuple(case.draw(rng))) for case in found.sample]
    each = found.sample if type(found.sample) is tuple else (found.sample,) * found.arity
    return [(found, tuple([domain.draw(rng, SHAPE) for domain in each]))]
