"""`compile_step`: from a loss and an optimizer to a function that takes parameters one step further."""

from __future__ import annotations

import functools
import inspect
import operator
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.api.call.function import AT_HAND, CacheInfo, Function
from symgrad.api.modes.by_path import below, value_and_gradient
from symgrad.api.modes.derivatives import jit
from symgrad.api.modes.mode import function
from symgrad.api.sparse.rows import RowSparse
from symgrad.api.step.epoch import Values, ahead, in_order, ordered_rows, rows_at, rows_of, same_rows
from symgrad.api.step.fused import NUMPYS, Fused, gradients_like
from symgrad.api.step.update import (
    Update,
    check_in_place,
    compiled,
    moving,
    outside,
    owned,
    refused,
    updating,
)
from symgrad.api.trees import Tree, gradients_by_path, leaves_by_path, tree_map, tree_paths
from symgrad.build.call import MISS
from symgrad.errors import ArgumentError, ArgumentValueError, NonFiniteError, SymgradError
from symgrad.ops.arrays.joining import lift
from symgrad.ops.control import finite
from symgrad.ops.declare.forms import is_traced
from symgrad.options import Options
from symgrad.render.source import NOT_FINITE
from symgrad.trace import optree
from symgrad.trace.lines import user_line
from symgrad.trace.signature import Spec, leaf_spec, signature_of
from symgrad.trace.state import active
from symgrad.trace.structures import flattened, is_pattern, key_orders

if TYPE_CHECKING:
    from symgrad.api.report import Cost, Memory

KEPT = 2 * AT_HAND
"""So many plans are tried, the last one first: of steps, and of the batches of epochs and what is left of them."""



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
        self._loss, self._optimizer, self._options = loss, optimizer, options
        self._frozen, self._has_aux, carried = settings["frozen"], settings["has_aux"], settings["carried"]
        self._raises, self.donate = raises, donate
        mode = getattr(loss, "symgrad_mode", getattr(getattr(loss, "__wrapped__", None), "symgrad_mode", None))
        self._is_apart = mode == "value_and_grad"  # it gives the gradients itself, wherever it computes them
        if carried is not None and self._is_apart:
            raise ArgumentError(
                f"compile_step(carried={carried!r}) of what gives its gradients itself", instead="the loss itself")
        settings = {**settings, "sparse": _rows_for(optimizer)}
        self._gradient, self._ordered = [
            function("step", of, value_and_gradient, settings, options=replace(options, awake=True))
            for of in (loss, in_order(loss))
        ]
        self._update: Function[..., Any] = jit(updating(optimizer, carried), options=options)
        self._last: Fused | SimpleNamespace | None = None  # what took the last step
        self._fused: tuple[Fused, ...] = ()
        self._updates: dict[Any, Update] = {}
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
        found = None if active.entered else self._in_c(params, state, batch)
        if found is not None:
            return found  # type: ignore[no-any-return]
        return self._by_halves(_parameters(params), state, batch, self._gradient, self._gradient)

    def _in_c(self, params: Tree, state: Tree, batch: tuple[Any, ...]) -> Any:
        """Take a step by one call of C; None where the halves are called apart."""
        leaves, tree = flattened((params, state, batch))
        for fused in self._fused:
            if not fused.rows and fused.is_of(tree, (params, state, batch)) and fused.is_current:
                found = fused([*leaves], state)
                if found is not None:
                    break
        else:
            with self._lock:
                known, usual = self._fused, (_parameters(params), _settled(state), batch)
                fused, again = self._planned(*usual), flattened(usual)[0]
                if fused is None or (fused in known and all(map(operator.is_, again, leaves))):
                    return None
                self._try_first(fused)
            found = fused(again, state)
            if found is None:
                return None
        self._try_first(fused)
        code, *result = found
        if code == NOT_FINITE:
            self._raise_not_finite(params, batch)
        return tuple(result)

    def _try_first(self, fused: Fused) -> None:
        """Note what took steps: the next ones try it first, then those before."""
        self._last = fused
        if not self._fused or self._fused[0] is not fused:
            self._fused = (fused, *[one for one in self._fused if one is not fused][: KEPT - 1])

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
        plan = call.planned(call.arrays(leaves))
        grads = gradients_like(entry, plan, params)
        update = self._compiled(params, grads, state)
        if not update.is_alone:
            return None
        key = id(entry), id(update), rows, ordered, _kinds((params, state, batch))
        for fused in self._fused:
            if fused.key == key and fused.is_current:
                return fused
        return Fused(
            key, (entry, plan, serves), update, (params, state, batch), self._without(params, grads),
            finite=self._raises, donate=self.donate or rows > 0, rows=rows, ordered=ordered,
        )

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
        rows = None if order is None else ordered_rows(order, total)
        count = total if rows is None else len(rows)
        if not self.donate:
            params, state = tree_map(owned, (params, state))
        ordered, given = rows is not None and not self._is_apart, plain
        if ordered:  # behind the order, a batch of places that are asked for, and not read
            given = (*plain, np.concatenate([rows, np.zeros(min(batch, count), np.int64)]))
        gradient, values = self._ordered if ordered else self._gradient, Values(-(-count // batch))
        missed = None  # of which a batch has taken another path
        while values.done < values.count:
            begin = values.done * batch
            size = min(batch, count - begin)
            beside = [np.arange(size + ahead(plain, size)) % size] * ordered
            try:
                usual, code = (params, _settled(state), given), None
                leaves, kinds = flattened(usual)[0], _kinds(usual)
                known = [one for one in self._fused if one.rows == size and one is not missed]
                fused = next((one for one in known if one.key[3:] == (ordered, kinds) and one.is_current), None)
                if fused is None:
                    fused = self._planned(*usual, size, rows_at(plain, rows, begin, size), *beside)
                if fused is not None:
                    self._try_first(fused)
                    try:
                        code = fused.many(leaves, values.room(*fused.value), begin, (count - begin) // size)
                    finally:
                        values.done += fused.steps.done
                        params, state = fused.put_back(leaves, state)
                if code == 0:
                    continue
                missed, part = fused, rows_at(plain, rows, values.done * batch, size)
                if code is not None:
                    self._raise_not_finite(params, part)
                # The gradient by itself finds the path, or makes it.
                params, state, value = self._by_halves(params, state, (*part, *beside), gradient, gradient.along)
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
        value, grads = self._value_and_gradient(params, batch, self._gradient)
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
        if self._last is None:
            raise ArgumentError(f"the step of {self.__name__}() has not been called yet", instead="call it first")
        return self._last.unused

    @property
    def touched_rows(self) -> dict[str, int]:
        """How many rows the gradients of the last step had, by the paths of tables of which the loss takes rows.

        Of these the optimizer is given a `RowSparse`, if that costs it less: `sgd`, `adagrad`, and those with
        ``sparse="lazy"``.
        """
        return {} if self._last is None else self._last.touched

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
        from symgrad.api.report import memory_of

        fused = self._in_one_call(params, state, batch)
        first, second = fused.reported(memory_of)
        workspace, stack = fused.steps.bytes, max(first.stack, second.stack)
        return replace(  # type: ignore[no-any-return]
            first, peak=workspace + stack, workspace=workspace, stack=stack, buffers=first.buffers + second.buffers)

    def cost(self, params: Tree, state: Tree, *batch: Any) -> Cost:
        """Count what a step does, see `Function.cost`.

        Raises:
            ArgumentError: NumPy interprets the step, the optimizer has conditions on traced values, or the loss gives
                its gradients itself.
        """
        from symgrad.api.report import cost_of

        return operator.add(*self._in_one_call(params, state, batch).reported(cost_of))  # type: ignore[no-any-return]

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

    def _by_halves(
        self, params: Tree, state: Tree, batch: tuple[Any, ...], gradient: Function[..., Any], call: Callable[..., Any],
    ) -> tuple[Tree, Tree, Any]:
        """Take a step by a call for the gradient and one for the update."""
        value, grads = self._value_and_gradient(params, batch, call)
        read: list[tuple[str, Any]] = []
        if self.donate and not (self._is_apart or active.entered):
            read = outside(gradient.serving(params, *batch)[0].call)
        return (*self._moved(params, grads, state, read), value)

    def _value_and_gradient(
        self, params: Tree, batch: tuple[Any, ...], call: Callable[..., Any],
    ) -> tuple[Any, dict[str, Any]]:
        """Return the value and the gradients by path."""
        if self._is_apart:
            value, given = self._loss(params, *batch)
            if self._has_aux and not (isinstance(value, tuple) and len(value) == 2):
                raise ArgumentError(
                    "compile_step(has_aux=True) of what gives its gradients itself, and no (number, extras)",
                    instead="sg.value_and_grad(loss, has_aux=True), or no has_aux")
            grads: dict[str, Any] = gradients_by_path(params, given)
            for path in below(tree_paths(params), self._frozen):
                grads.pop(path, None)
        else:
            value, grads = call(params, *batch)
        if self._raises:
            value, grads = self._finite(value, grads, params, batch)
        tables = {} if active.entered else {
            path: int(one.count) for path, one in grads.items() if isinstance(one, RowSparse)}
        self._last = SimpleNamespace(unused=self._without(params, grads), touched=tables)
        return value, grads

    def _without(self, params: Tree, grads: dict[str, Any]) -> list[str]:
        """List the parameters that have no gradient, and are not frozen."""
        paths = tree_paths(params)
        stay = below(paths, self._frozen)
        return [path for path in paths if path not in grads and path not in stay]

    def _finite(
        self, value: Any, grads: dict[str, Any], params: Tree, batch: tuple[Any, ...],
    ) -> tuple[Any, dict[str, Any]]:
        """Return value and gradients that are finite: of traced ones the call looks, before it reads any of them."""
        number = value[0] if self._has_aux else value
        leaves, tree = flattened((number, grads))
        good = functools.reduce(np.logical_and, [np.all(np.isfinite(leaf)) for leaf in leaves])
        if not is_traced(good):
            if not good:
                self._raise_not_finite(params, batch)
            return value, grads
        good = finite(good)
        read = [np.where(good, leaf, np.nan) if lift(leaf).dtype.kind == "f" else leaf for leaf in leaves]
        number, grads = optree.tree_unflatten(tree, read)  # type: ignore[assignment]
        return (number, *value[1:]) if self._has_aux else number, grads

    def _raise_not_finite(self, params: Tree, batch: tuple[Any, ...]) -> None:
        """Find the line where it began."""
        made = self._loss if self._is_apart else self._gradient
        if hasattr(made, "watching"):  # a function with the mark of `value_and_grad` may be anybody's
            made.watching()(params, *batch)
        raise NonFiniteError(f"the loss or the gradient of {self.__name__}() holds NaN or Inf")

    def _moved(
        self, params: Tree, grads: dict[str, Any], state: Tree, read: Sequence[tuple[str, Any]] = (),
    ) -> tuple[Tree, Tree]:
        """Update those parameters that have a gradient, and what the state holds for them.

        In place, no array may be in the memory of what is `read`, an array from outside.
        """
        if not grads:
            raise ArgumentError(
                f"there is no parameter to update: the step of {self.__name__}()", instead="a gradient that is not None"
            )
        donate, usual = self.donate and not active.entered, state if active.entered else _settled(state)
        (leaves, tree), slopes = flattened((params, usual)), flattened(grads)[0]
        update = None if active.entered or self._options.debug_nans else self._compiled(params, grads, usual)
        is_alone = update is not None and update.is_alone
        places: list[int] = []
        if donate or not is_alone:
            places, _ = moving(params, usual, [path in grads for path in tree_paths(params)])
        if donate:
            own = [(f"the gradient of {path}", one) for path, one in grads.items()]
            check_in_place(tree, leaves, places, [*own, *read])
        if update is not None and is_alone:
            update.run(leaves, slopes, donate=donate)
        else:
            new = flattened(self._update(params, usual, grads))[0]
            written = {k: leaves[k] for k in places if donate and isinstance(leaves[k], np.ndarray)}
            for k, old in written.items():
                if (new[k].shape, new[k].dtype) != (old.shape, old.dtype):
                    raise refused(tree, k, new[k], old)
            for k, old in written.items():
                np.copyto(old, new[k])
            for k in places:
                leaves[k] = written.get(k, new[k])
        new_params, new_state = optree.tree_unflatten(tree, leaves)
        if donate:
            state.update(new_state)
        return new_params, state if donate else new_state

    def _compiled(self, params: Tree, grads: dict[str, Any], state: Tree) -> Update:
        """Find or compile the update of parameters by gradients such as these."""
        key = _kinds((params, state, grads))
        with self._lock:
            update = self._updates.get(key)
            if update is None or update.serves(()) is MISS:
                update = self._updates[key] = compiled(self._update, params, state, grads, donate=self.donate)
            return update


def _rows_for(optimizer: Any) -> bool | str:
    """Return what a gradient by a table is to be, see `with_gradient`."""
    if not getattr(optimizer, "takes_rows", False):
        return False
    return "lazy" if optimizer.is_lazy else "auto"


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
    if isinstance(hyper, dict) and not all(isinstance(value, np.float64) for value in hyper.values()):
        plain = (int, float, np.number, np.ndarray)
        state = {**state, "hyper": {
            name: np.float64(value) if isinstance(value, plain) and not np.ndim(value) else value
            for name, value in hyper.items()}}
    return _with_numpys(state)


def _kinds(given: Tree) -> tuple[Any, ...]:
    """Return what tells structures of arrays apart that a step in C is planned for."""
    leaves, structure = flattened(given)
    orders = key_orders(structure)
    order = orders(given) if orders else ()
    return structure, order, *[(type(leaf), getattr(leaf, "dtype", None), np.shape(leaf)) for leaf in leaves]
