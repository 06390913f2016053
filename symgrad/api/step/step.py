"""`compile_step`: from a loss and an optimizer to a function that takes parameters one step further."""

from __future__ import annotations

import functools
import inspect
import operator
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.api.call.function import AT_HAND, CacheInfo
from symgrad.api.modes.by_path import below, value_and_gradient
from symgrad.api.modes.mode import function
from symgrad.api.sparse.rows import RowSparse
from symgrad.api.step.epoch import Batches, in_order
from symgrad.api.step.fused import ALL, Fused, Rows, gradients_like
from symgrad.api.step.update import Updates, kinds, outside, owned, put_back, settled, with_numpys
from symgrad.api.trees import Tree, gradients_by_path, leaves_by_path, tree_map, tree_paths
from symgrad.errors import ArgumentError, ArgumentValueError, NonFiniteError
from symgrad.ops.arrays.joining import lift
from symgrad.ops.control import finite
from symgrad.ops.declare.forms import is_traced
from symgrad.options import Options
from symgrad.render.source import NOT_FINITE
from symgrad.trace import optree
from symgrad.trace.lines import user_line
from symgrad.trace.signature import Spec, leaf_spec, signature_of
from symgrad.trace.state import active
from symgrad.trace.structures import flattened, is_pattern

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
        # What a gradient by a table is to be, see `with_gradient`.
        rows = getattr(optimizer, "takes_rows", False) and ("lazy" if optimizer.is_lazy else "auto")
        self._gradient, self._ordered = [
            function("step", of, value_and_gradient, settings | {"sparse": rows}, options=replace(options, awake=True))
            for of in (loss, in_order(loss))
        ]
        self._last: Fused | SimpleNamespace | None = None  # what took the last step
        self._fused: tuple[Fused, ...] = ()
        self._lock = threading.RLock()
        self.__name__ = self._gradient.__name__
        self._update = Updates(optimizer, carried, self.__name__, options, donate=donate)

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
        found = None if active.entered else self._in_c((params, state, batch), Fused.__call__)
        if found is None:
            return self._by_halves(_parameters(params), state, batch)
        code, *result = found
        if code == NOT_FINITE:
            self._raise_not_finite(params, batch)
        return tuple(result)

    def _in_c(
        self, given: tuple[Tree, Tree, Any], run: Callable[[Fused, list[Any], Tree], Any], rows: Rows = ALL,
        sample: Callable[[], Any] | None = None,
    ) -> Any:
        """Take steps by one call of C, planned where that is new; None where the halves are called apart.

        Args:
            given: parameters, state and batch.
            run: called with what is planned for such arguments, their leaves, and the state; None where they are others
                in spite of that, or the path is.
            rows: what batches are of what is given.
            sample: one of them.
        """
        leaves, tree = flattened(given)
        for fused in self._fused:
            if fused.is_of(rows, tree, given) and fused.is_current:
                found = run(fused, [*leaves], given[1])
                if found is not None:
                    self._try_first(fused)
                    return found
        usual = _parameters(given[0]), settled(given[1]), given[2]
        with self._lock:
            planned = self._planned(usual, rows, sample)
            if planned is None:
                return None
            self._try_first(planned)
        return run(planned, flattened(usual)[0], given[1])

    def _try_first(self, fused: Fused) -> None:
        """Note what took steps: the next ones try it first, then those before."""
        self._last = fused
        if not self._fused or self._fused[0] is not fused:
            self._fused = (fused, *[one for one in self._fused if one is not fused][: KEPT - 1])

    def _planned(self, given: tuple[Tree, Tree, Any], rows: Rows, sample: Callable[[], Any] | None) -> Fused | None:
        """Plan steps in C, see `_in_c`; None where there is no C, or the update has ways."""
        # What looks into every value is called by itself, and so is what has paths of its own.
        if self._is_apart or self._options.debug_nans or self._update.has_ways:
            return None
        size, ordered, _ = rows
        params, state, batch = given
        gradient, taken = self._ordered if ordered else self._gradient, batch if sample is None else sample()
        entry, leaves, serves = gradient.serving(params, *taken, along=True)
        call = entry.call
        if not call.is_compiled or any(port.fortran for port in call.interface.inputs) or entry.signature.statics:
            return None
        plan = call.planned(call.arrays(leaves))
        grads = gradients_like(entry, plan, params)
        update = self._update.compiled(params, grads, state)
        if update is None:
            return None
        key = id(entry), id(update), size, ordered, kinds(given)
        for fused in self._fused:
            if fused.key == key and fused.is_current:
                return fused
        return Fused(
            key, (entry, plan, serves), update, given, grads, self._without(params, grads), rows,
            finite=self._raises, donate=self.donate or size > 0,
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
        params, on = _parameters(params), Batches(arrays, batch, order)
        if not self.donate:
            params, state = tree_map(owned, (params, state))

        def run(fused: Fused, leaves: list[Any], _: Tree) -> int | None:
            nonlocal params, state
            before = on.done
            try:
                code = fused.many(leaves, on)
            finally:
                params, state = put_back(fused.tree, leaves, state, True)
            return 0 if code is None and on.done > before else code  # those on another path come next

        try:
            while on.done < on.count:
                usual = params, settled(state), on.given
                rows = len(on.rows), order is not None, kinds(usual)
                code = self._in_c(usual, run, rows, on.sample)
                if code is None:
                    params, state, value = self._by_halves(params, state, on.part())
                    on.put(value)
                elif code:
                    self._raise_not_finite(params, on.part())
        except BaseException as error:  # noqa: BLE001 - whatever it is, what was done until then is not lost
            raise on.stopped(error, params, state) from None
        return params, state, on.values()

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
        return self._update(params, gradients_by_path(params, grads), state)

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
        reasons = (*found.reasons, *["the update is of other arrays"] * max(0, len(self._update.known) - 1))
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
        found: Fused | None = self._planned((_parameters(params), settled(state), batch), ALL, None)
        if found is None:
            raise ArgumentError(
                f"the step of {self.__name__}() is not one call of C",
                instead="compile_step() of the loss itself: what gives the gradients is a call of its own"
                if self._is_apart else
                "a C compiler, an optimizer without conditions on traced values, and no debug_nans",
            )
        return found

    # -- the halves

    def _by_halves(self, params: Tree, state: Tree, batch: tuple[Any, ...]) -> tuple[Tree, Tree, Any]:
        """Take a step by a call for the gradient and one for the update."""
        value, grads = self._value_and_gradient(params, batch)
        in_place = self.donate and not (self._is_apart or active.entered)
        read = outside(self._gradient.serving(params, *batch)[0].call) if in_place else []
        return (*self._update(params, grads, state, read), value)

    def _value_and_gradient(self, params: Tree, batch: tuple[Any, ...]) -> tuple[Any, dict[str, Any]]:
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
            value, grads = self._gradient(params, *batch)
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
    return with_numpys(params)
