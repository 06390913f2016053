"""jit, grad, value_and_grad."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import optree

from symgrad.api.call.argnums import Argnums, chosen
from symgrad.api.call.arguments import AUTO, Arguments
from symgrad.api.call.function import Function
from symgrad.api.modes.mode import function
from symgrad.api.modes.point import at
from symgrad.errors import ArgumentError
from symgrad.options import Options
from symgrad.transforms.derive.vjp import gradient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from symgrad.trace.signature import Signature


def jit(
    fun: Callable[..., Any], *, static_argnums: int | Iterable[int] = (), static_argnames: str | Iterable[str] = (),
    specs: Any = None, dynamic: Any = AUTO, options: Options | None = None,
) -> Function:
    """Compile a NumPy function.

    Args:
        fun: takes and returns arrays, numbers, and tuples, lists, dicts of them.
        static_argnums: positions of arguments that are settings: hashable, part of the signature, never traced.
        static_argnames: their names.
        specs: compile once for these specs: a tuple for the arguments, or a dict by name; ``"f64[n,d]"`` leaves
            extents open. Without it, every new dtype and structure is compiled when it comes.
        dynamic: which extents one compilation leaves open. ``"auto"``: those that change from one call to another;
            extents that were equal in all calls are taken to be equal. False: none, every new shape is compiled.
            A dict names axes by argument, ``{"X": "n,d", "y": "n"}`` (a position, a name, or a path as
            ``"params['w']"``); extents of one name must be equal, ``_`` and numbers stay numbers.
        options: compiler, threads and the like.

    Returns:
        A `Function` with the same arguments and results; values have NumPy's promoted dtype.

    >>> import numpy as np, symgrad as sg
    >>> f = sg.jit(lambda x: np.sqrt(np.sum(x * x)))
    >>> float(f(np.array([3.0, 4.0])))
    5.0
    """
    arguments = Arguments(fun, static_argnums, static_argnames, specs, dynamic)
    return Function(fun, arguments, options or Options())


def grad(
    fun: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False,
    static_argnums: int | Iterable[int] = (), static_argnames: str | Iterable[str] = (), specs: Any = None,
    dynamic: Any = AUTO, options: Options | None = None,
) -> Function:
    """Compile the gradient of a function that returns one floating-point number.

    Args:
        fun: the loss.
        argnums: the argument to differentiate by, or a tuple of them: a position, a name, or the path of a part, as
            ``"params['w']"``.
        has_aux: `fun` returns ``(loss, extras)``; the result is ``(gradient, extras)``.
        static_argnums: as for `jit`.
        static_argnames: as for `jit`.
        specs: as for `jit`.
        dynamic: as for `jit`.
        options: as for `jit`.

    Returns:
        A `Function` that returns the gradient: the structure, shapes and dtypes of the argument (a tuple of such
        for a tuple of `argnums`).

    Raises, when called:
        ArgumentError: the loss is no scalar, or an argument to differentiate by is not floating point.
        NoGradient: a function on the way has no derivative.

    >>> import numpy as np, symgrad as sg
    >>> sg.grad(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
    array([ 3., 12.])
    """
    return function(
        "grad", fun, _grad, {"argnums": argnums, "has_aux": has_aux, "value": False},
        static_argnums, static_argnames, specs, dynamic, options,
    )


def value_and_grad(
    fun: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False,
    static_argnums: int | Iterable[int] = (), static_argnames: str | Iterable[str] = (), specs: Any = None,
    dynamic: Any = AUTO, options: Options | None = None,
) -> Function:
    """Compile a loss together with its gradient, as one fused program.

    The arguments are those of `grad`; the result is ``(value, gradient)``, which is what
    ``scipy.optimize.minimize(..., jac=True)`` takes, or ``((value, extras), gradient)`` with `has_aux`.

    >>> import numpy as np, symgrad as sg
    >>> value, gradient = sg.value_and_grad(lambda x: np.sum(x * x))(np.array([1.0, 2.0]))
    >>> float(value), gradient
    (5.0, array([2., 4.]))
    """
    return function(
        "value_and_grad", fun, _grad, {"argnums": argnums, "has_aux": has_aux, "value": True},
        static_argnums, static_argnames, specs, dynamic, options,
    )


# -- on traced values


def _grad(
    fun: Any, signature: Signature, leaves: list[Any], *, argnums: Argnums, has_aux: bool, value: bool,
) -> Any:
    """The gradient of a loss, with its value or without."""
    point = at(fun, signature, leaves, has_aux=has_aux)
    children = point.tree.children()
    if point.has_aux:
        if point.tree.type is not tuple or len(children) != 2 or children[0].num_leaves != 1:
            raise ArgumentError("has_aux=True needs a function that returns a pair (loss, extras)")
    elif point.tree.num_leaves != 1 or children:
        raise ArgumentError(
            f"grad needs a function that returns one floating-point number; {point.program.name}() returns a "
            f"structure of {point.tree.num_leaves} arrays",
            instead="return the loss alone, or (loss, extras) with has_aux=True",
        )
    wanted = chosen(argnums, point.signature)
    program = point.derive(partial(gradient, wrt=[k for one in wanted for k in one.leaves]))
    own, bars = point.program.outputs, program.outputs
    names = ["value", *[f"aux{k}" for k in range(1, len(own))]]
    outputs = (*own, *bars) if value else (*bars, *own[1:])
    results = point.put(replace(program, outputs=outputs))
    labels = (*names, *program.labels) if value else (*program.labels, *names[1:])
    point.outer.labels[tuple([r.node for r in results])] = labels
    rest = iter(results[len(own) :] if value else results)
    found = tuple([optree.tree_unflatten(one.tree, [next(rest) for _ in one.leaves]) for one in wanted])
    slope = found if isinstance(argnums, (tuple, list)) else found[0]
    if value:
        return optree.tree_unflatten(point.tree, results[: len(own)]), slope
    return (slope, optree.tree_unflatten(point.parts[1], [*rest])) if has_aux else slope
