"""jit, grad, value_and_grad; jacfwd, jacrev, hessian, hvp: modes over a basis, and one inside of the other."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from symgrad.api.call.arguments import AUTO, Argnums, Arguments, Chosen, chosen_arguments
from symgrad.api.call.function import Function, P, R
from symgrad.api.modes.mode import Point, at, described, function, matched
from symgrad.api.sparse.rows import RowSparse
from symgrad.errors import ArgumentError, ArgumentValueError, warn_once
from symgrad.ir.index import shapes
from symgrad.ir.node import Node
from symgrad.ir.program import Program
from symgrad.ops.arrays.copies import filled
from symgrad.ops.arrays.views import broadcast_to, embed_diagonal, reshape
from symgrad.options import Options
from symgrad.trace import optree
from symgrad.trace.lines import definition
from symgrad.trace.signature import Signature, flatten, signature_of
from symgrad.trace.tracer import Tracer, as_node
from symgrad.transforms.derive.batch import batch
from symgrad.transforms.derive.jvp import pullback, pushforward
from symgrad.transforms.derive.tables import row_gradient, rows_first, table_uses
from symgrad.transforms.derive.vjp import gradient
from symgrad.transforms.rewrite.contractions import without_units


def jit(
    fun: Callable[P, R], *, static_argnums: int | Iterable[int] = (), static_argnames: str | Iterable[str] = (),
    specs: Any = None, dynamic: Any = AUTO, options: Options | None = None,
) -> Function[P, R]:
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
    fun: Callable[P, Any], argnums: Argnums = 0, *, has_aux: bool = False, sparse: bool | str = False,
    static_argnums: int | Iterable[int] = (), static_argnames: str | Iterable[str] = (), specs: Any = None,
    dynamic: Any = AUTO, options: Options | None = None,
) -> Function[P, Any]:
    """Compile the gradient of a function that returns one floating-point number.

    Args:
        fun: the loss.
        argnums: the argument to differentiate by, or a tuple of them: a position, a name, or the path of a part, as
            ``"params['w']"``.
        has_aux: `fun` returns ``(loss, extras)``; the result is ``(gradient, extras)``.
        sparse: the gradient by an array of which `fun` takes rows, ``E[ids]`` or ``np.take(E, ids, axis=0)``, also in
            the steps of `scan`, is a `RowSparse`, and costs as much as these rows, however many there are; one of
            which all is used as well, or rows of ``np.tanh(E)``, is refused, or has a plain gradient with ``"auto"``.
        static_argnums, static_argnames, specs, dynamic, options: as for `jit`.

    Returns:
        A `Function` that returns the gradient: the structure, shapes and dtypes of the argument (a tuple of such
        for a tuple of `argnums`).

    Raises, when called:
        ArgumentError: the loss is no scalar, an argument to differentiate by is not floating point, or with `sparse`
            an array of which rows are taken is used otherwise, too.
        NoGradient: a function on the way has no derivative.

    >>> import numpy as np, symgrad as sg
    >>> sg.grad(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
    array([ 3., 12.])
    """
    return function(
        "grad", fun, _grad, {"argnums": argnums, "has_aux": has_aux, "value": False, "sparse": _checked_sparse(sparse)},
        static_argnums, static_argnames, specs, dynamic, options,
    )


def value_and_grad(
    fun: Callable[P, R], argnums: Argnums = 0, *, has_aux: bool = False, sparse: bool | str = False,
    static_argnums: int | Iterable[int] = (), static_argnames: str | Iterable[str] = (), specs: Any = None,
    dynamic: Any = AUTO, options: Options | None = None,
) -> Function[P, tuple[R, Any]]:
    """Compile a loss together with its gradient, as one fused program.

    The arguments are those of `grad`; the result is ``(value, gradient)``, which is what
    ``scipy.optimize.minimize(..., jac=True)`` takes, or ``((value, extras), gradient)`` with `has_aux`.

    >>> import numpy as np, symgrad as sg
    >>> value, gradient = sg.value_and_grad(lambda x: np.sum(x * x))(np.array([1.0, 2.0]))
    >>> float(value), gradient
    (5.0, array([2., 4.]))
    """
    return function(
        "value_and_grad", fun, _grad,
        {"argnums": argnums, "has_aux": has_aux, "value": True, "sparse": _checked_sparse(sparse)},
        static_argnums, static_argnames, specs, dynamic, options,
    )


# -- on traced values


def _checked_sparse(sparse: bool | str) -> bool | str:
    if sparse not in (False, True, "auto"):
        raise ArgumentValueError(f"sparse={sparse!r}", instead='True, False or "auto"')
    return sparse


def _grad(
    fun: Any, signature: Signature, leaves: list[Any], *, argnums: Argnums, has_aux: bool, value: bool,
    sparse: bool | str,
) -> Any:
    point = loss_at(fun, signature, leaves, has_aux=has_aux)
    wanted = _chosen_floats("gradient", point, argnums)
    results, slopes = with_gradient(point, [k for one in wanted for k in one.leaves], value=value, sparse=sparse)
    rest = iter(slopes)
    found = tuple([optree.tree_unflatten(one.tree, [next(rest) for _ in one.leaves]) for one in wanted])
    slope = found if isinstance(argnums, (tuple, list)) else found[0]
    if value:
        return optree.tree_unflatten(point.tree, results), slope
    return (slope, optree.tree_unflatten(point.parts[1], results)) if has_aux else slope


def loss_at(fun: Any, signature: Signature, leaves: list[Any], *, has_aux: bool) -> Point:
    """Trace a function at traced arguments, and check that it returns one number, or a pair of that and extras."""
    point = at(fun, signature, leaves, has_aux=has_aux)
    children = point.tree.children()
    if point.has_aux:
        if point.tree.type is not tuple or len(children) != 2 or children[0].num_leaves != 1:
            raise ArgumentError(
                "has_aux=True needs a function that returns a pair (loss, extras)", line=definition(fun),
            )
    elif point.tree.num_leaves != 1 or children:
        raise ArgumentError(
            f"grad needs a function that returns one floating-point number; {point.program.name}() returns "
            + (f"a structure of {point.tree.num_leaves} arrays" if point.tree.num_leaves else "no array"),
            line=definition(fun), instead=_the_loss_of(fun),
        )
    return point


def _the_loss_of(fun: Any) -> str:
    """Return what to write in the place of a function that returns no number, which may be a derivative itself."""
    mode = getattr(getattr(fun, "__wrapped__", fun), "symgrad_mode", "jit")
    if mode not in {"grad", "value_and_grad"}:
        return "return the loss alone, or (loss, extras) with has_aux=True"
    return f'what this is the sg.{mode} of, for that is derived here; or sg.emit(..., what="value") of this'


def with_gradient(
    point: Point, wrt: list[int], *, value: bool = True, sparse: bool | str = False,
) -> tuple[list[Any], list[Any]]:
    """Return what the function of a point returned, leaf by leaf, without the loss if not `value`; and its gradient.

    The gradient is by the leaves `wrt` of the arguments; by tables that `sparse` says it is of their rows: True, where
    others are refused, "lazy", where a warning names them, or "auto".
    """
    stays = point.fixed  # of these a gradient has the argument's own
    moved = [k for k in wrt if k not in stays]
    if sparse:
        point = replace(point, program=point.derive(partial(rows_first, wrt=moved)))
    tables = {k: takes for k in moved if sparse and (takes := _takes(point, k, moved, sparse))}
    own, more = point.program.outputs, list[Any]()
    if tables:
        program = point.derive(partial(row_gradient, wrt=moved, tables=tables))
        own, bars = program.outputs[: len(own)], program.outputs[len(own) :]
        more = [point.zeros(x, -0.0) for x in program.inputs[len(point.leaves) :]]
    else:
        program = point.derive(partial(gradient, wrt=moved))
        bars = program.outputs
    names = ["value", *[f"aux{k}" for k in range(1, len(own))]]
    outputs = (*own, *bars) if value else (*bars, *own[1:])
    results = point.put(replace(program, outputs=outputs), more)
    labels = (*names, *program.labels) if value else (*program.labels, *names[1:])
    if program.labels:
        point.outer.labels[tuple([r.node for r in results])] = labels
    first = len(own) if value else len(bars)
    others, found = (results[:first], results[first:]) if value else (results[first:], results[:first])
    rest = iter(found)
    slopes = []
    for k in wrt:
        parts = [next(rest) for _ in 2 * tables.get(k, [])]
        slopes.append(point.leaves[k] if k in stays else _row_gradient(point, k, parts) if parts else next(rest))
    return others, slopes


def _takes(point: Point, k: int, wrt: list[int], sparse: bool | str) -> list[Node]:
    """Return what takes rows of an array alone; none where its gradient is to be a plain one."""
    inputs, path = point.program.inputs, point.signature.paths[k]
    found = table_uses(point.program, inputs[k], [inputs[j] for j in wrt], ranges=sparse is True)
    if found.takes and not (found.others or found.behind or found.apart):
        return found.takes
    if sparse == "auto" or not (found.takes or found.behind or found.apart):
        return []
    dense, said = found.apart[0] if found.apart else (
        found.others[0], "all of {} is used, and rows are taken of " + ("it" if found.takes else "what is made of it"))
    lines = [f" at {node.line}" for node in (*found.takes, *found.behind)[:1] if not found.apart]
    if sparse == "lazy":
        words = f"{said.format(path)}{''.join(lines)}; the gradient is a plain one, by which a lazy optimizer is exact"
        warn_once(words, f'{words}\n  at {dense.line}\n  instead: rows alone, or an optimizer with sparse="exact"')
        return []
    raise ArgumentError(
        f"sparse=True: {said.format(path)}{''.join(lines)}", line=dense.line,
        instead=f'rows alone, and these first, as np.tanh({path}[ids]); or a plain gradient by sparse="auto"',
    )


def _row_gradient(point: Point, k: int, parts: list[Any]) -> RowSparse:
    """Make the gradient by a table of what was taken of it: rows of each gather, followed by their places."""
    table = Tracer(as_node(point.outer, point.leaves[k]), point.outer)
    every = [np.ravel(at) for at in parts[1::2]]
    rows = [np.reshape(x, (*at.shape, *table.shape[1:])) for x, at in zip(parts[::2], every, strict=True)]
    return RowSparse.added(np.concatenate(every), np.concatenate(rows), table.shape)


def jacfwd(
    fun: Callable[P, Any], argnums: Argnums = 0, has_aux: bool = False, *,
    static_argnums: int | Iterable[int] = (), static_argnames: str | Iterable[str] = (), specs: Any = None,
    dynamic: Any = AUTO, options: Options | None = None,
) -> Function[P, Any]:
    """Compile the Jacobian of a function, column by column: forward mode for all columns at once.

    Args:
        fun: takes and returns floating-point arrays, numbers, and trees of them.
        argnums: the argument to differentiate by, or a tuple of them: a position, a name, or the path of a part.
        has_aux: `fun` returns ``(result, extras)``; then so does the Jacobian.
        static_argnums, static_argnames, specs, dynamic, options: as for `jit`.

    Returns:
        A `Function` that returns, for each array of the result and each of the argument, an array of the result's
        shape followed by the argument's: a tree of the result's structure that holds trees of the argument's.

    Raises, when called:
        ArgumentError: an argument to differentiate by, or a result, is not floating point.
        NoGradient: a function on the way has no derivative.

    >>> import numpy as np, symgrad as sg
    >>> sg.jacfwd(lambda x: x**2)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    settings = {"argnums": argnums, "has_aux": has_aux}
    return function("jacfwd", fun, _jacfwd, settings, static_argnums, static_argnames, specs, dynamic, options)


def jacrev(
    fun: Callable[P, Any], argnums: Argnums = 0, has_aux: bool = False, *,
    static_argnums: int | Iterable[int] = (), static_argnames: str | Iterable[str] = (), specs: Any = None,
    dynamic: Any = AUTO, options: Options | None = None,
) -> Function[P, Any]:
    """Compile the Jacobian of a function, row by row: reverse mode for all rows at once.

    The arguments and the result are those of `jacfwd`; it is the better one where results are fewer than arguments.

    >>> import numpy as np, symgrad as sg
    >>> sg.jacrev(lambda x: np.array([x[0] * x[1], x[1]]))(np.array([2.0, 3.0]))
    array([[3., 2.],
           [0., 1.]])
    """
    settings = {"argnums": argnums, "has_aux": has_aux}
    return function("jacrev", fun, _jacrev, settings, static_argnums, static_argnames, specs, dynamic, options)


def hessian(
    fun: Callable[P, Any], argnums: Argnums = 0, has_aux: bool = False, *,
    static_argnums: int | Iterable[int] = (), static_argnames: str | Iterable[str] = (), specs: Any = None,
    dynamic: Any = AUTO, options: Options | None = None,
) -> Function[P, Any]:
    """Compile the Hessian of a function, as one program: ``jacfwd(jacrev(fun))``.

    The arguments are those of `jacfwd`; the result has, for each array of the function's, the argument's structure
    twice: arrays of shape ``(*result, *argument, *argument)``.

    >>> import numpy as np, symgrad as sg
    >>> sg.hessian(lambda x: x[0] ** 2 * x[1])(np.array([1.0, 3.0]))
    array([[6., 2.],
           [2., 0.]])
    """
    given: dict[str, Any] = {"static_argnums": static_argnums, "static_argnames": static_argnames, "options": options}
    return jacfwd(jacrev(fun, argnums, has_aux, **given), argnums, has_aux, specs=specs, dynamic=dynamic, **given)


def hvp(
    fun: Callable[..., Any], *, has_aux: bool = False, static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (), dynamic: Any = AUTO, options: Options | None = None,
) -> Function[..., Any]:
    """Compile the Hessian of a loss times a vector, at about twice the cost of the gradient.

    Args:
        fun: the loss, a function that returns one floating-point number.
        has_aux: `fun` returns ``(loss, extras)``; the result is ``(product, extras)``.
        static_argnums: as for `jit`, positions among the arguments of the function that is returned.
        static_argnames: as for `jit`.
        dynamic: as for `jit`.
        options: as for `jit`.

    Returns:
        A `Function` of ``(x, v, *others)``: the Hessian by the first argument x, times v, which has the structure of
        x. So ``scipy.optimize.minimize(..., hessp=sg.hvp(f))`` takes it.

    >>> import numpy as np, symgrad as sg
    >>> sg.hvp(lambda x: np.sum(x**3))(np.array([1.0, 2.0]), np.array([1.0, 1.0]))
    array([ 6., 12.])
    """
    return function(
        "hvp", fun, _hvp, {"has_aux": has_aux}, static_argnums, static_argnames, None, dynamic, options,
        signature=_with_direction(signature_of(fun)),
    )


def _with_direction(signature: inspect.Signature | None) -> inspect.Signature | None:
    """Put the direction behind the first parameter."""
    if signature is None or not signature.parameters:
        return None
    first, *others = signature.parameters.values()
    if first.kind not in {first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD}:
        return None
    name = next(n for n in ("v", "direction", "along") if all(p.name != n for p in (first, *others)))
    first = first.replace(kind=first.POSITIONAL_ONLY, default=first.empty)
    return signature.replace(parameters=[first, inspect.Parameter(name, first.POSITIONAL_ONLY), *others])


# -- on traced values


def _chosen_floats(what: str, point: Point, argnums: Argnums) -> list[Chosen]:
    """Find what a derivative is by, which must be floating-point numbers."""
    wanted, signature = chosen_arguments(argnums, point.signature), point.signature
    leaves = [k for one in wanted for k in one.leaves if k not in point.fixed]
    floats = [signature.paths[k] for k in leaves if signature.specs[k].dtype.kind == "f"]
    for k in leaves:
        spec, path = signature.specs[k], signature.paths[k]
        if spec.dtype.kind != "f":
            number = f"float({path})" if spec.weak is int else f"{path}.astype(np.float64)"
            others = f"argnums={floats[0] if len(floats) == 1 else (*floats,)!r}" if floats else ""
            raise ArgumentError(
                f"the {what} with respect to {path!r}, which is {spec.dtype.name}: a derivative needs floating point",
                instead=f"{number}, or {others or 'leave it out of argnums'}",
            )
    return wanted


def _wanted_arguments(point: Point, argnums: Argnums) -> list[Chosen]:
    """Find what the Jacobian is by; check that, and what it is of."""
    wanted = _chosen_floats("Jacobian", point, argnums)
    for y in point.results:
        if y.dtype.kind != "f":
            raise ArgumentError(
                f"the Jacobian of {point.program.name}(), which returns {y.dtype.name}: a derivative needs floating "
                "point", line=y.line, instead="has_aux=True for what is not to be derived",
            )
    return wanted


def _as_trees(point: Point, wanted: list[Chosen], argnums: Argnums, blocks: dict[tuple[int, int], Any]) -> Any:
    """Give the blocks, by the result's and the argument's leaf, their structure; with the extras, if there are."""
    rows = []
    for r in range(len(point.results)):
        parts = [optree.tree_unflatten(one.tree, [blocks[r, k] for k in one.leaves]) for one in wanted]
        rows.append(tuple(parts) if isinstance(argnums, (tuple, list)) else parts[0])
    jacobian = optree.tree_unflatten(point.parts[0], rows)
    return (jacobian, point.value()[1]) if point.has_aux else jacobian


def _jacfwd(fun: Any, signature: Signature, leaves: list[Any], *, argnums: Argnums, has_aux: bool) -> Any:
    """`jacfwd` on traced values: every unit tangent of every array pushed forward."""
    point = at(fun, signature, leaves, has_aux=has_aux)
    wanted, inputs, blocks = _wanted_arguments(point, argnums), point.program.inputs, {}
    every = range(len(point.results))
    for k in [leaf for one in wanted for leaf in one.leaves]:
        pushed = _over_basis(point, partial(pushforward, wrt=[k], of=every), inputs[k])
        for r, (y, columns) in enumerate(zip(point.results, pushed, strict=True)):
            last = np.moveaxis(columns, 0, -1) if columns.ndim > len(y.shape) else columns
            blocks[r, k] = _reshaped(last, (*y.shape, *inputs[k].shape))
    return _as_trees(point, wanted, argnums, blocks)


def _jacrev(fun: Any, signature: Signature, leaves: list[Any], *, argnums: Argnums, has_aux: bool) -> Any:
    """`jacrev` on traced values: every unit cotangent of every array pulled back."""
    point = at(fun, signature, leaves, has_aux=has_aux)
    wanted, inputs, blocks = _wanted_arguments(point, argnums), point.program.inputs, {}
    leaves = [leaf for one in wanted for leaf in one.leaves]
    for r, y in enumerate(point.results):
        if y.shape == ():
            pulled: list[Any] = point.put(point.derive(partial(gradient, wrt=leaves, output=r)))
        else:
            pulled = _over_basis(point, partial(pullback, wrt=leaves, of=[r], units=True), y)
        for k, rows in zip(leaves, pulled, strict=True):
            blocks[r, k] = _reshaped(rows, (*y.shape, *inputs[k].shape))
    return _as_trees(point, wanted, argnums, blocks)


def _over_basis(point: Point, make: Callable[[Program], Program], of: Node) -> list[Any]:
    """Apply a linear map to every unit vector of its last input; the results are along a new first axis."""
    linear = point.derive(make)
    if of.shape == ():
        return point.put(linear, [np.ones((), of.dtype)])
    size = shapes.size(of.shape)
    eye = embed_diagonal(filled(point.zeros(of), 1, (size,), of.dtype), offset=0, shape=(size, size))
    basis = _reshaped(eye, (size, *of.shape))
    with point.outer.graph.apart():
        program, many = batch(linear, [False] * (len(linear.inputs) - 1) + [True], size)
    found = point.put(program, [basis], without_units)
    full = zip(found, many, strict=True)
    return [y if m else broadcast_to(y, shape=(size, *y.node.shape)) for y, m in full]


def _reshaped(x: Any, shape: Any) -> Any:
    return x if x.node.shape == shape else reshape(x, shape=shape)


def _hvp(fun: Any, signature: Signature, leaves: list[Any], *, has_aux: bool = False) -> Any:
    args, kwargs = signature.join(leaves)
    if len(args) < 2:
        raise ArgumentError(f"hvp takes (x, v, *others), and was called with {len(args)} arguments")
    x, v, *others = args
    numbers, names = [n - (n > 0) for n in signature.static[0]], signature.static[1]  # v has the position 1
    slope = grad(fun, has_aux=has_aux, static_argnums=numbers, static_argnames=names)
    point = at(slope, *described(slope, (x, *others), kwargs, (numbers, names)), has_aux=has_aux)
    along = matched(flatten(x)[1], v, "directions")
    pushed = point.push([*along, *[None] * (len(point.leaves) - len(along))])
    product = optree.tree_unflatten(point.parts[0], pushed)
    return (product, point.value()[1]) if has_aux else product
