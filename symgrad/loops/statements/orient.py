"""`orient`: temporaries have their axes in the order of the inputs and outputs they are computed with.

``x.T - np.mean(x.T, axis=1)[:, None]`` would be stored by columns of x, and whatever loop makes it walks one of the two
in leaps. In index notation the order of an array's dimensions is nobody's business but the memory's: so what walks
along the last axis of an input has that axis last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from symgrad.ir.graphs import Partition
from symgrad.ir.index.notation import Access, Axis, Statement, everywhere, linear
from symgrad.loops.program import Array, LoopProgram, temporary


def orient(program: LoopProgram) -> LoopProgram:
    """Put the axis last in temporaries which is last in most of what is given; products walk factors as they lie."""
    last = _last_dimensions(program.statements)
    if not last:
        return program
    orders = {a: (*[k for k in range(len(a.shape)) if k != d], d) for a, d in last.items()}
    made = {a: temporary(a.name, tuple([a.shape[d] for d in order]), a) for a, order in orders.items()}

    def turned(access: Access) -> Access:
        order = orders.get(access.array)
        return access if order is None else Access(made[access.array], tuple([access.indices[d] for d in order]))

    access, index = everywhere(turned)
    running = {array for s in program.statements for array in s.prefix}  # statements of one such are in one loop

    def change(s: Statement) -> Statement:
        if all(a.array not in made for a in s.touched):
            return s
        places = {axis: k for k, axis in reversed([*enumerate(access(s.target).indices)])}
        ordered = sorted(s.axes, key=lambda axis: places.get(axis, len(places)))
        stays = s.prefix or s.target.array in running
        return s.mapped(access, index, axes=s.axes if stays else tuple(ordered))

    body = tuple(map(change, program.statements))
    return program.with_(body=body, arrays=tuple([made.get(a, a) for a in program.arrays]))


def _last_dimensions(statements: Sequence[Statement]) -> dict[Array, int]:
    """Find the temporaries that should have another dimension last, and which."""
    classes = Partition[Any]()
    fixed: set[Array] = set()
    matrices: dict[Array, None] = {}
    votes: dict[Any, dict[Array, None]] = {}
    copies = {s.target.array for s in statements if isinstance(s.value, Access) and s.value.is_indirect}
    # copies of rows that are looked up for products alone, which walk them as they lie
    factors = copies - {access.array for s in statements if not s.is_contraction for access in s.reads}
    for s in statements:
        fixed |= s.prefix
        for access in s.touched:
            array = access.array
            if len(array.shape) < 2:
                continue
            if array.is_temporary:
                matrices.setdefault(array)
                if access.flat or s.routine is not None:
                    fixed.add(array)
                    continue
                for d, i in enumerate(access.indices):
                    if type(i) is Axis:
                        classes.join((array, d), i)
            elif access.flat or s.is_contraction or s.target.array in factors:
                continue
            elif (form := linear(access.indices[-1])) is not None:
                axes = [part for part, step in form.terms if type(part) is Axis and step == 1]
                if len(axes) == len(form.terms) == 1:
                    votes.setdefault(axes[0], {})[array] = None
    weight: dict[Any, dict[Array, None]] = {}
    for axis, arrays in votes.items():
        weight.setdefault(classes.find(axis), {}).update(arrays)
    found: dict[Array, int] = {}
    for array in matrices:
        if array not in fixed:
            every = [weight.get(classes.find((array, d)), ()) for d in range(len(array.shape))]
            weights = [sum(a.elements for a in arrays) for arrays in every]
            best = max(range(len(weights)), key=lambda d: (weights[d], d))
            if weights[best] > weights[-1]:
                found[array] = best
    return found

