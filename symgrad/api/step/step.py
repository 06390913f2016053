"""`compile_step`: from a loss and an optimizer to a function that takes parameters one step further."""

from __future__ import annotations

import functools
import inspect
import operator
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.api.call.function import AT_HAND, CacheInfo, Function
from symgrad.api.modes.derivatives import jit, loss_at, with_gradient
from symgrad.api.modes.mode import function
from symgrad.api.sparse.rows import RowSparse
from symgrad.api.step.epoch import Values, ahead, in_order, order_of, rows_at, rows_of, same_rows
from symgrad.api.step.fused import (
    COUNTED,
    NUMPYS,
    Fused,
    Moved,
    check_apart,
    leaves_kept,
    owned,
    parts,
    shown,
    update_of,
    with_numbers,
)
from symgrad.api.trees import Tree, gradients_by_path, leaves_by_path, tree_map, tree_paths, without_twins
from symgrad.build.call import MISS
from symgrad.errors import ArgumentError, ArgumentValueError, NonFiniteError, SymgradError
from symgrad.ops.arrays.joining import lift
from symgrad.ops.control import finite
from symgrad.ops.declare.forms import is_traced
from symgrad.options import Options
from symgrad.render.source import NOT_FINITE
from symgrad.trace import optree
from symgrad.trace.lines import definition, user_line
from symgrad.trace.signature import Signature, Spec, leaf_spec, signature_of
from symgrad.trace.state import active
from symgrad.trace.structures import flattened, is_pattern

if TYPE_CHECKING:
    from symgrad.api.report import Cost, Memory

def compile_step(
    loss: Callable[..., Any], optimizer: Any, *, donate: bool = False, frozen: Iterable[str] = (),
    on_nan: str | None = None, has_aux: bool = False, carried: str | None = None, options: Options | None = None,
) -> Step:
    """Compile a loss, its gradient and an optimizer's update.

    Args:
        loss: ``loss(params, *batch)`` returns one number; `params` are arrays in a structure. Or what gives the
            gradients itself, as ``sg.value_and_grad(loss)`` does: then the halves are two calls, and a
            parameter that the loss does not use has a gradient of zeros.
        optimizer: one of `symgrad.optim`, or a chain of them.
        donate: write the new parameters and the new state into the arrays of the old ones.
        frozen: paths of parameters that stay as they are: ``"layer/W"``, or ``"layer"`` for all below it.
        on_nan: ``"raise"``: a step whose value or gradient is NaN or infinite raises NonFiniteError, and leaves
            parameters and state as they were; emitted, it returns a status.
        has_aux: `loss` returns ``(number, extras)``, and so a step gives ``(value, extras)`` in the place of its value.
        carried: the path of parameters that the loss gives anew and that have no gradient, as the statistics of
            `symgrad.nn.batch_norm`: `loss` returns ``(number, new)``, with `has_aux` ``(number, (new, extras))``. With
            `on_nan` these have to be finite, too.
        options: compiler, threads and the like.

    Returns:
        A `Step`, called as ``params, state, value = step(params, state, *batch)``.

    >>> import numpy as np, symgrad as sg
    >>> opt = sg.optim.sgd(0.1)
    >>> step = sg.compile_step(lambda p, x, y: np.mean((x @ p["w"] - y) ** 2), opt)
    >>> params, x = {"w": np.array([1.0, 2.0])}, np.eye(2)
    >>> params, state, value = step(params, opt.init(params), x, np.zeros(2))
    >>> params["w"], float(value)
    (array([0.9, 1.8]), 2.5)
    """
    if not callable(getattr(optimizer, "update", None)):
        raise ArgumentError(
            f"compile_step() of the optimizer {optimizer!r:.60}, which has no update()", instead="sg.optim.sgd(0.1)"
        )
    if on_nan not in {None, "raise"}:
        raise ArgumentValueError(f"compile_step(on_nan={on_nan!r})", instead='None or "raise"')
    paths = (frozen,) if isinstance(frozen, str) else tuple(frozen)
    if carried is not None and not isinstance(carried, str):
        raise ArgumentError(f"compile_step(carried={carried!r})", instead='one path: "run", for all below it')
    settings = {"frozen": paths, "has_aux": has_aux, "carried": carried}
    return Step(loss, optimizer, settings, options or Options(), donate=donate, raises=on_nan is not None)


class Step:
    """A compiled step of training; `compile_step` makes it.

    It is made of two functions: the value and the gradient of the loss, and the update of what they are by. The second
    begins when the first has ended, so that whatever the first one refuses leaves parameters and state as they were.

    Attributes:
        donate: the new parameters and the new state are written into the arrays of the old ones.
    """

    def __init__(
        self, loss: Callable[..., Any], optimizer: Any, settings: dict[str, Any], options: Options, *, donate: bool,
        raises: bool,
    ) -> None:
        sparse = "auto" if getattr(optimizer, "takes_rows", False) else False
        self._settings = {**settings, "sparse": sparse}
        self._loss, self._options, self._raises, self.donate = loss, options, raises, donate
        self._frozen, self._optimizer = settings["frozen"], optimizer
        mode = getattr(loss, "symgrad_mode", getattr(getattr(loss, "__wrapped__", None), "symgrad_mode", None))
        self._is_apart = mode == "value_and_grad"  # it gives the gradients itself, wherever it computes them
        awake = replace(options, awake=True)
        self._gradient = function("step", loss, _value_and_gradient, self._settings, options=awake)
        self._ordered = function("step", in_order(loss), _value_and_gradient, self._settings, options=awake)
        carried = settings["carried"]
        if carried is not None and self._is_apart:
            raise ArgumentError(
                f"compile_step(carried={carried!r}) of what gives its gradients itself", instead="the loss itself")
        update = optimizer.update if carried is None else _update_carrying(optimizer, carried)
        self._update: Function[..., Any] = jit(update, options=options)
        self._unused: list[str] | None = None
        self._touched: Fused | dict[str, int] = {}
        self._fused: tuple[Fused, ...] = ()
        self._epochs: dict[Any, Fused] = {}
        self._updates: dict[Any, Moved] = {}
        self._lock = threading.RLock()
        self.__name__ = self._gradient.__name__

    def __call__(self, params: Tree, state: Tree, *batch: Any) -> tuple[Tree, Tree, Any]:
        """Take one step.

        Args:
            params: arrays in a structure.
            state: what ``optimizer.init(params)`` gave, or the step before.
            batch: the further arguments of the loss.

        Returns:
            ``(params, state, value)``: the new ones, and the loss before. With ``donate=True`` the arrays are those
            that were given, and so is the dict of the state.

        Raises:
            ArgumentError: with ``donate=True`` an array cannot be written in place.
            ArgumentValueError: with ``donate=True`` an array that is written shares memory with another one.
            NonFiniteError: with ``on_nan="raise"``; nothing was written.
        """
        if not active.entered:
            found: tuple[Tree, Tree, Any] | None = self._in_c(params, state, batch)
            if found is not None:
                return found
        params = _parameters(params)
        value, grads = self._value_and_gradient(params, batch)
        return (*self._moved(params, grads, state, self._arrays_outside(params, batch)), value)

    def _in_c(self, params: Tree, state: Tree, batch: tuple[Any, ...]) -> Any:
        """Take a step by one call of C; None where the halves are called apart."""
        leaves, tree = flattened((params, state, batch))
        for fused in self._fused:
            if fused.tree == tree and fused.is_current:
                found = fused([*leaves], state)
                if found is not None:
                    return self._taken(fused, found, params, batch)
        with self._lock:
            known, usual = [*self._fused], (_parameters(params), _settled(state), batch)
            made, again = self._planned(*usual), flattened(usual)[0]
            if made is None or (made in known and all(map(operator.is_, again, leaves))):
                return None
            self._fused = (made, *[one for one in known if one is not made][: AT_HAND - 1])
        found = made(again, state)
        return None if found is None else self._taken(made, found, params, batch)

    def _taken(self, fused: Fused, found: tuple[Any, ...], params: Tree, batch: tuple[Any, ...]) -> Any:
        """Hand out a step that C took."""
        code, *result = found
        if code == NOT_FINITE:
            self._raise_not_finite(params, batch)
        if self._fused[0] is not fused:
            self._fused = (fused, *[one for one in self._fused if one is not fused])
        self._unused, self._touched = fused.unused, fused
        return tuple(result)

    def _planned(
        self, params: Tree, state: Tree, batch: Any, rows: int = 0, part: Any = None, order: Any = None,
    ) -> Any:
        """Plan steps in C; None where there is no C, or the update has ways.

        With `rows` the batch is all there is, and `part` some of its rows, in an `order` if there is one.
        """
        if self._is_apart or self._options.debug_nans:  # what looks into every value is called by itself
            return None
        ordered = order is not None
        gradient, given = self._ordered if ordered else self._gradient, batch if part is None else part
        entry, leaves, serves = gradient.serving(params, *given, *[order] * ordered)
        call = entry.call
        if not call.is_compiled or any(port.fortran for port in call.interface.inputs) or entry.signature.statics:
            return None
        named, used = tree_paths(params), entry.tree.child(1).entries()
        moved = [k for k, path in enumerate(named) if path in used]
        grads = _gradients_of(entry, leaves, params)
        slopes = [grads[named[k]] for k in moved]
        update = self._update_of(params, state, moved, slopes)
        if not update.is_alone:
            return None
        key = id(entry), id(update), tuple([_kind(leaf) for leaf in flattened(batch)[0]])
        for fused in self._fused if not rows else ():
            if fused.key == key and fused.is_current:
                return fused
        donate = self.donate or rows > 0
        fused = Fused(
            (entry, leaves, serves), update, params, state, batch, finite=self._raises, donate=donate, rows=rows,
            ordered=ordered,
        )
        fused.key = key
        stay = _named(named, self._frozen)
        fused.unused = [path for path in named if path not in used and path not in stay]
        return fused

    def epoch(
        self, params: Tree, state: Tree, *arrays: Any, batch: int, order: Any = None,
    ) -> tuple[Tree, Tree, Any]:
        """Take a step for each batch of rows: all those of one size in one call of C.

        Args:
            params: arrays in a structure.
            state: the optimizer's state.
            arrays: the further arguments of the loss, for all rows: a batch has some of the rows of each.
            batch: how many rows a batch has; the last one has what is left.
            order: the rows in the order in which they are taken, a permutation or a part of one, or some twice; None
                takes each as it comes.

        Returns:
            ``(params, state, values)``: the new ones, and the loss of each batch before its update, as one array.

        Raises:
            ArgumentError: something in `arrays` has no rows, or a traced function calls it.
            ArgumentValueError: arrays differ in the number of rows, `batch` or `order` is none.
            SymgradError: what a batch raises. Its attribute ``batch`` is the number of that batch, ``params`` and
                ``state`` are those before it, and ``values`` the losses until then.
        """
        if active.entered:
            raise ArgumentError("epoch() in a traced function", line=user_line(), instead="sg.scan of the step")
        params, plain = _parameters(params), tree_map(rows_of, arrays)
        total, batch = same_rows(plain, batch), int(batch)
        rows = None if order is None else order_of(order, total)
        count = total if rows is None else len(rows)
        if not self.donate:
            params, state = tree_map(owned, (params, state))
        given, gradient = plain, self._gradient if rows is None else self._ordered
        if rows is not None:  # behind the order, a batch of places that are asked for, and not read
            rows = np.concatenate([rows, np.zeros(min(batch, count), np.int64)])
            given = (*plain, rows)
        values = Values(-(-count // batch))
        while values.done < values.count:
            begin = values.done * batch
            size = min(batch, count - begin)
            beside = [] if rows is None else [np.arange(size + ahead(plain, size)) % size]
            try:
                leaves, tree = flattened((params, _settled(state), given))
                key = rows is None, tree, size, tuple(map(_kind, leaves))
                fused, code = self._epochs.pop(key, None), None
                if fused is None or not fused.is_current:
                    part = rows_at(plain, rows, begin, size)
                    fused = self._planned(params, _settled(state), given, size, part, *beside)
                if fused is not None:
                    self._unused, self._touched = fused.unused, fused
                    try:
                        code = fused.many(leaves, values.of(*fused.value), begin, (count - begin) // size)
                    finally:
                        values.done += fused.steps.done
                        params, state = fused.put_back(leaves, state)
                    if code is not None:  # the path that was taken
                        with self._lock:
                            self._epochs = dict([*self._epochs.items(), (key, fused)][-AT_HAND:])
                if code == 0:
                    continue
                part = rows_at(plain, rows, values.done * batch, size)
                if code is not None:
                    self._raise_not_finite(params, part)
                if fused is None:
                    params, state, value = self(params, state, *part)
                else:  # on another path, which the gradient by itself finds, or makes; the next ones try that first
                    value, grads = self._value_and_gradient(params, (*part, *beside), gradient.along)
                    params, state = self._moved(params, grads, state)
                values.put(value)
            except BaseException as error:  # noqa: BLE001 - whatever it is, what was done until then is not lost
                told: Any = error
                if isinstance(error, SymgradError):
                    told = type(error)(f"batch {values.done}: {error.what}", line=error.line, instead=error.instead)
                told.batch, told.params, told.state, told.values = values.done, params, state, values.so_far()
                try:
                    raise told from None
                finally:
                    del told  # this frame and its traceback would hold each other, and the parameters
        return params, state, values.so_far()

    def gradients(self, params: Tree, *batch: Any) -> tuple[Any, Tree]:
        """Return the loss and its gradient: the first half of a step.

        Returns:
            ``(value, grads)``: gradients in the structure of the parameters, None for those that are frozen or unused.
        """
        params = _parameters(params)
        value, grads = self._value_and_gradient(params, batch)
        return value, optree.tree_unflatten(flattened(params)[1], [*map(grads.get, tree_paths(params))])

    def apply(self, params: Tree, grads: Tree, state: Tree) -> tuple[Tree, Tree]:
        """Update parameters by gradients: the second half of a step.

        Args:
            params: the parameters.
            grads: what `gradients` gave, or made of it, which becomes of the parameters' types; what is None there
                stays as it is.
            state: the optimizer's state.

        Returns:
            ``(params, state)``: the new ones.
        """
        params = _parameters(params)
        return self._moved(params, gradients_by_path(params, grads), state)

    def as_function(self) -> Callable[..., Any]:
        """Return a function in Python of what a step takes, and of what it gives: to trace, or to emit."""
        def stepped(*args: Any) -> Any:
            return self(*args)

        own = signature_of(self._loss)
        names = [] if own is None else [*own.parameters.values()][1:]
        first = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("params", "state")]
        stepped.__name__ = stepped.__qualname__ = f"{self.__name__}_step"
        stepped.__wrapped__ = self._loss  # type: ignore[attr-defined]  # the user's lines are the loss's
        stepped.__signature__ = inspect.Signature([*first, *names])  # type: ignore[attr-defined]
        return stepped

    def state_of(self, params: Tree) -> Tree:
        """Describe by specs the state that belongs to parameters, which may be specs themselves."""
        empty = tree_map(lambda one: np.zeros(one.shape, one.dtype) if isinstance(one, Spec) else one, params)
        return tree_map(lambda one: leaf_spec(one, "state"), self._optimizer.init(empty))

    @property
    def unused(self) -> list[str]:
        """The paths of parameters that the loss of the last step did not use: a step leaves them as they are.

        Raises:
            ArgumentError: no step was taken yet.
        """
        if self._unused is None:
            raise ArgumentError(f"the step of {self.__name__}() has not been called yet", instead="call it first")
        return self._unused

    @property
    def touched_rows(self) -> dict[str, int]:
        """How many rows the gradients of the last step had, by the paths of tables of which the loss takes rows.

        Of these the optimizer is given a `RowSparse`, if that costs it less: `sgd`, `adagrad`, and those with
        ``sparse="lazy"``.
        """
        return self._touched.touched if isinstance(self._touched, Fused) else self._touched

    def cache_info(self) -> CacheInfo:
        """Return for which signatures the step was compiled, and why each was needed."""
        found = CacheInfo(*map(operator.add, self._gradient.cache_info(), self._ordered.cache_info()))
        reasons = (*found.reasons, *["the update is of other arrays"] * max(0, len(self._updates) - 1))
        return found._replace(compilations=len(reasons), reasons=reasons)

    def memory(self, params: Tree, state: Tree, *batch: Any) -> Memory:
        """List what a step in C needs besides its arguments and results: gradients, and the workspace of both halves.

        Raises:
            ArgumentError: NumPy interprets the step, the optimizer has conditions on traced values, or the loss gives
                its gradients itself.
        """
        from symgrad.api.report import Memory, memory_of

        fused = self._in_one_call(params, state, batch)
        first, second = [with_numbers(memory_of, half) for half in fused.halves]
        stack = max(first.stack, second.stack)
        return Memory(
            fused.steps.bytes + stack, fused.steps.bytes, stack, (*first.buffers, *second.buffers), first.recomputation,
        )

    def cost(self, params: Tree, state: Tree, *batch: Any) -> Cost:
        """Count what a step does, see `Function.cost`.

        Raises:
            ArgumentError: NumPy interprets the step, the optimizer has conditions on traced values, or the loss gives
                its gradients itself.
        """
        from symgrad.api.report import Cost, cost_of

        first, second = [with_numbers(cost_of, half) for half in self._in_one_call(params, state, batch).halves]
        return Cost(*[_summed(getattr(first, name), getattr(second, name)) for name in Cost.__dataclass_fields__])

    def _in_one_call(self, params: Tree, state: Tree, batch: tuple[Any, ...]) -> Fused:
        found: Fused | None = self._planned(_parameters(params), _settled(state), batch)
        if found is None:
            raise ArgumentError(
                f"the step of {self.__name__}() is not one call of C",
                instead="compile_step() of the loss itself: what gives the gradients is a call of its own"
                if self._is_apart else
                "a C compiler, an optimizer without conditions on traced values, and no debug_nans",
            )
        return found

    # -- the halves

    def _value_and_gradient(
        self, params: Tree, batch: tuple[Any, ...], gradient: Callable[..., Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Return the value and the gradients by path."""
        if self._is_apart:
            value, given = self._loss(params, *batch)
            grads = gradients_by_path(params, given)
            for path in _named(tree_paths(params), self._frozen):
                grads.pop(path, None)
        else:
            value, grads = (gradient or self._gradient)(params, *batch)
        if self._raises:
            value, grads = self._finite(value, grads, params, batch)
        named = tree_paths(params)
        stay = _named(named, self._frozen)
        self._unused = [path for path in named if path not in grads and path not in stay]
        if not active.entered:
            self._touched = {path: int(one.count) for path, one in grads.items() if isinstance(one, RowSparse)}
        return value, grads

    def _finite(
        self, value: Any, grads: dict[str, Any], params: Tree, batch: tuple[Any, ...],
    ) -> tuple[Any, dict[str, Any]]:
        """Return value and gradients that are finite: of traced ones the call looks, before it reads any of them."""
        number = value[0] if self._settings["has_aux"] else value
        leaves, tree = flattened((number, grads))
        good = functools.reduce(np.logical_and, [np.all(np.isfinite(leaf)) for leaf in leaves])
        if not is_traced(good):
            if not good:
                self._raise_not_finite(params, batch)
            return value, grads
        good = finite(good)
        read = [np.where(good, leaf, np.nan) if lift(leaf).dtype.kind == "f" else leaf for leaf in leaves]
        number, grads = optree.tree_unflatten(tree, read)  # type: ignore[assignment]
        return (number, *value[1:]) if self._settings["has_aux"] else number, grads

    def _raise_not_finite(self, params: Tree, batch: tuple[Any, ...]) -> None:
        """Find the line where it began."""
        made = self._loss if self._is_apart else self._gradient
        if hasattr(made, "watching"):  # a function with the mark of `value_and_grad` may be anybody's
            made.watching()(params, *batch)
        raise NonFiniteError(f"the loss or the gradient of {self.__name__}() holds NaN or Inf")

    def _arrays_outside(self, params: Tree, batch: tuple[Any, ...]) -> list[tuple[str, Any]]:
        """List the arrays that the loss reads from outside, where some are written in place, with their names."""
        if not self.donate or self._is_apart or active.entered:
            return []
        entry, *_ = self._gradient.serving(params, *batch)
        arrays = [] if entry.call.outside is None else entry.call.outside()
        paths = entry.call.signature.paths[len(entry.call.signature.paths) - len(arrays) :]
        return [(f"{path}, an array from outside", one) for path, one in zip(paths, arrays, strict=True)]

    def _moved(
        self, params: Tree, grads: dict[str, Any], state: Tree, outside: Sequence[tuple[str, Any]] = (),
    ) -> tuple[Tree, Tree]:
        """Update those parameters that have a gradient, and what the state holds for them."""
        structure, named = flattened(params)[1], tree_paths(params)
        moved = [k for k, path in enumerate(named) if path in grads]
        if not moved:
            raise ArgumentError(
                f"there is no parameter to update: the step of {self.__name__}()", instead="a gradient that is not None"
            )
        donate = self.donate and not active.entered
        if donate:
            _check_donated(params, state, moved, grads, outside)
        if not active.entered and not self._options.debug_nans:
            slopes = [grads[named[k]] for k in moved]
            update = self._update_of(params, state, moved, slopes)
            if update.is_alone:
                leaves, tree = flattened((params, _settled(state)))
                update.run(leaves, slopes, donate=donate)
                new, after = optree.tree_unflatten(tree, leaves)
                if donate:
                    state.update(after)
                return new, state if donate else after
        of_params, of_state = parts(params, state, moved)
        new, after = self._update(of_params, optree.tree_unflatten(structure, [*map(grads.get, named)]), of_state)
        new, after = _both_whole((params, state), (new, after), structure, moved)
        return _put_in_place((params, state), (new, after)) if donate else (new, after)

    def _update_of(self, params: Tree, state: Tree, moved: Sequence[int], grads: Sequence[Any]) -> Moved:
        """Find or compile the update of some parameters by gradients such as these."""
        state = _settled(state)
        leaves, tree = flattened((params, state, [*grads]))
        key = tree, tuple([_kind(leaf) for leaf in leaves]), tuple(moved)
        with self._lock:
            update = self._updates.get(key)
            if update is None or update.serves(()) is MISS:
                made = update_of(self._update, params, state, moved, grads, donate=self.donate)
                update = self._updates[key] = made
            return update


def _whole(old: Tree, new: Tree, structure: Any, moved: Sequence[int]) -> Tree:
    """Put what has moved into its place again."""
    leaves, found = flattened(old)
    if found != structure:
        return new
    for k, leaf in zip(moved, flattened(new)[0], strict=True):
        leaves[k] = leaf
    return optree.tree_unflatten(structure, leaves)


def _both_whole(
    old: tuple[Tree, Tree], new: tuple[Tree, Tree], structure: Any, moved: Sequence[int],
) -> tuple[Tree, dict[str, Any]]:
    """Put what has moved of parameters and of a state into its place again."""
    (params, state), (of_params, of_state) = old, new
    back = {name: _whole(state[name], of_state[name], structure, moved) for name in of_state if name not in COUNTED}
    return _whole(params, of_params, structure, moved), {**of_state, **back}


def _update_carrying(optimizer: Any, carried: str) -> Callable[..., Any]:
    """Make an update that takes what the loss gives anew, which stands among the gradients, and updates the others."""

    def update(params: Tree, grads: Tree, state: Tree) -> tuple[Tree, Tree]:
        leaves, structure = flattened(params)
        named, slopes = tree_paths(params), structure.flatten_up_to(grads)
        moved = [k for k, path in enumerate(named) if not f"{path}/".startswith(f"{carried}/")]
        of_params, of_state = parts(params, state, moved)
        own = [slope if k in moved else None for k, slope in enumerate(slopes)]
        new = optimizer.update(of_params, optree.tree_unflatten(structure, own), of_state)
        given = [leaf if k in moved else lift(slope).astype(leaf.dtype)
                 for k, (leaf, slope) in enumerate(zip(leaves, slopes, strict=True))]
        return _both_whole((optree.tree_unflatten(structure, given), state), new, structure, moved)

    return update


def _gradients_of(entry: Any, leaves: list[Any], params: Tree) -> dict[str, Any]:
    """Return gradients as a compiled function gives them, by path, of zeros that take no memory."""
    call, tree = entry.call, entry.tree.child(1)
    shapes = call.planned(call.arrays(leaves)).outputs
    made = [np.broadcast_to(np.zeros((), port.dtype), shape)
            for port, shape in zip(call.interface.outputs, shapes, strict=False)]
    found = optree.tree_unflatten(tree, made[entry.tree.child(0).num_leaves :][: tree.num_leaves])
    known = leaves_by_path(params)
    return {path: one.of_shape(known[path].shape) if isinstance(one, RowSparse) else one for path, one in found.items()}


def _parameters(params: Tree) -> Tree:
    """Return parameters as a step returns them.

    Raises:
        ArgumentError: one is a sparse matrix, or rows of an array: optimizers update arrays.
    """
    for path, leaf in leaves_by_path(params).items():
        if is_pattern(leaf):
            raise ArgumentError(
                f"the parameter {path or 'params'} is a {leaf.__class__.__name__}, and a step updates arrays",
                instead="S as a further argument of the loss, where it stays as it is; or its elements S.data as the "
                "parameter p: C = S.tocoo() outside, np.add.at(y, C.row, p * x[C.col]) in the place of y = S @ x",
            )
    return _with_numpys(params)


def _with_numpys(tree: Tree) -> Tree:
    """Return Python's numbers as NumPy's, which a step would return: its next call is alike."""
    leaves, structure = flattened(tree)
    if not any(type(leaf) in NUMPYS for leaf in leaves):
        return tree
    return optree.tree_unflatten(structure, [NUMPYS.get(type(leaf), lambda one: one)(leaf) for leaf in leaves])


def _settled(state: Tree) -> Tree:
    """Return a state as a step returns it: hyper-parameters, whatever number they were set to, as doubles."""
    hyper = state.get("hyper") if isinstance(state, dict) else None
    if not isinstance(hyper, dict) or all(isinstance(value, np.float64) for value in hyper.values()):
        return _with_numpys(state)
    doubles = {name: np.float64(value) if _is_rate(value) else value for name, value in hyper.items()}
    return _with_numpys({**state, "hyper": doubles})


def _is_rate(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) or (isinstance(value, np.ndarray) and not value.ndim)


def _summed(one: Any, other: Any) -> Any:
    """Add counts; those by name, name by name."""
    if isinstance(one, Mapping):
        return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}
    return one + other


def _kind(leaf: Any) -> tuple[Any, ...]:
    """Return what tells leaves apart that a step in C is planned for."""
    return type(leaf), getattr(leaf, "dtype", None), np.shape(leaf)


def _check_donated(
    params: Tree, state: Tree, moved: Sequence[int], grads: Mapping[str, Any], outside: Sequence[tuple[str, Any]],
) -> None:
    """Check that arrays can be written in place.

    Raises:
        ArgumentError: one is read-only, or its elements do not lie one behind the other.
        ArgumentValueError: two share memory, or one and a gradient or an array from outside do.
    """
    leaves, tree = flattened((params, state))
    accessors = tree.accessors()
    of = [k for k in leaves_kept(params, state, moved)[0] if isinstance(leaves[k], np.ndarray)]
    arrays = [(shown(accessors[k].codify("")), leaves[k]) for k in of]
    for name, array in arrays:
        flags, instead = array.flags, f"{name}.copy(), or donate=False"
        if not flags.writeable:
            raise ArgumentError(f"donate=True: {name} is read-only", instead=instead)
        if not (flags.c_contiguous and flags.aligned and array.dtype.isnative):
            raise ArgumentError(
                f"donate=True: {name} does not lie row by row, aligned and in native byte order (its strides are "
                f"{array.strides})", instead=instead,
            )
    slopes = [(f"the gradient of {path}", slope) for path, slope in grads.items() if isinstance(slope, np.ndarray)]
    check_apart(arrays, [*slopes, *outside])


def _put_in_place(old: tuple[Tree, Tree], new: tuple[Tree, Tree]) -> tuple[Tree, Tree]:
    """Write new parameters and a new state into the arrays of the old ones."""
    (before, tree), (after, made) = flattened(old), flattened(new)
    names = [shown(one.codify("")) for one in tree.accessors()]
    if tree != made:
        raise ArgumentError("donate=True: the update changes the structure of the state", instead="donate=False")
    pairs = [*zip(before, after, strict=True)]
    for name, (one, other) in zip(names, pairs, strict=True):
        if np.shape(one) != np.shape(other) or np.asarray(one).dtype != np.asarray(other).dtype:
            raise ArgumentError(f"donate=True: the new {name} has another shape or type", instead="donate=False")
    for one, other in pairs:
        if isinstance(one, np.ndarray) and one is not other:
            np.copyto(one, other)
    leaves = [one if isinstance(one, np.ndarray) else other for one, other in pairs]
    params, state = optree.tree_unflatten(tree, leaves)
    old[1].update(state)
    return params, old[1]


def _named(paths: Sequence[str], names: Sequence[str], setting: str = "frozen") -> set[str]:
    """Return the paths that a setting names, with all below them.

    Raises:
        ArgumentValueError: a name is of no parameter.
    """
    found: set[str] = set()
    for one in names:
        below = [path for path in paths if path == one or path.startswith(f"{one}/")]
        if not below:
            raise ArgumentValueError(
                f"compile_step({setting}=...): {one!r} names no parameter", instead=f"some of {', '.join(paths)}"
            )
        found.update(below)
    return found


def _value_and_gradient(
    fun: Any, signature: Signature, leaves: list[Any], *, frozen: tuple[str, ...], has_aux: bool, sparse: bool | str,
    carried: str | None,
) -> tuple[Any, dict[str, Any]]:
    """Derive a loss by the parameters that it uses and that are not frozen: ``(value, {path: gradient})``.

    What it gives anew stands among the gradients.
    """
    point = loss_at(fun, signature, leaves, has_aux=has_aux or carried is not None)
    places = [k for k, place in enumerate(signature.positions) if place == 0]
    tree = signature.tree.child(0).child(0)
    paths = without_twins(["/".join(map(str, path)) for path in tree.paths()])
    anew = set() if carried is None else _named(paths, [carried], "carried")
    stay, inputs = _named(paths, frozen), point.program.inputs
    if both := sorted(stay & anew):
        raise ArgumentError(
            f"compile_step(frozen=..., carried=...): {both[0]} is in both", instead="frozen= or carried= without it")
    stay |= anew
    used = {*replace(point.program, inputs=(), outputs=point.program.outputs[:1]).nodes()}
    wanted = {path: k for path, k in zip(paths, places, strict=True) if path not in stay and inputs[k] in used}
    for path, k in wanted.items():
        if inputs[k].dtype.kind != "f":
            raise ArgumentError(
                f"the parameter {path or 'params'} is {inputs[k].dtype.name}: it has no gradient",
                instead=f"an array of floats, or frozen=({path!r},)",
            )
    if not wanted:
        raise ArgumentError(
            f"{point.program.name}() uses no parameter that is not frozen: of {', '.join(paths) or 'none'}, frozen "
            f"{', '.join(frozen) or 'none'}{f', carried {carried}' * bool(carried)}",
            instead="a loss of its first argument, and fewer paths in frozen=",
        )
    results, bars = with_gradient(point, [*wanted.values()], sparse=sparse)
    value, grads = optree.tree_unflatten(point.tree, results), dict(zip(wanted, bars, strict=True))
    if carried is None:
        return value, grads
    number, new = value
    if has_aux:
        if not isinstance(new, tuple) or len(new) != 2:
            raise ArgumentError(
                f"compile_step(carried={carried!r}, has_aux=True) of a loss that returns no (number, (new, extras))",
                line=definition(fun))
        new, extras = new
    own = {path: inputs[k] for path, k in zip(paths, places, strict=True) if path in anew}
    found = {f"{carried}/{path}" if path else carried: leaf for path, leaf in leaves_by_path(new).items()}
    was, made = [{path: f"{x.dtype}{x.shape}" for path, x in one.items()} for one in (own, found)]
    if was != made:
        there, gives = [", ".join([f"{path} {kind}" for path, kind in one.items()]) or "nothing" for one in (was, made)]
        raise ArgumentError(
            f"compile_step(carried={carried!r}): the loss gives {gives} anew, and the parameters are {there}",
            line=definition(fun), instead="(number, new) of the same structure, shapes and types")
    return (number, extras) if has_aux else number, grads | found
