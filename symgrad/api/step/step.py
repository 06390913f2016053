"""`compile_step`: from a loss and an optimizer to a function that takes parameters one step further."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from symgrad.api.call.function import CacheInfo, Function
from symgrad.api.modes.derivatives import jit, loss_at, with_gradient
from symgrad.api.modes.mode import function
from symgrad.errors import ArgumentError, ArgumentValueError, NonFiniteError
from symgrad.options import Options
from symgrad.trace import optree
from symgrad.trace.signature import Signature
from symgrad.trace.structures import flattened

Tree = Any
COUNTED = frozenset({"t", "hyper"})
"""What a state holds that has no value for each parameter."""


def compile_step(
    loss: Callable[..., Any], optimizer: Any, *, donate: bool = False, frozen: Iterable[str] = (),
    on_nan: str | None = None, has_aux: bool = False, options: Options | None = None,
) -> Step:
    """Compile a loss, its gradient and an optimizer's update.

    Args:
        loss: ``loss(params, *batch)`` returns one number; `params` are arrays in a structure.
        optimizer: one of `symgrad.optim`, or a chain of them.
        donate: write the new parameters and the new state into the arrays of the old ones.
        frozen: paths of parameters that stay as they are: ``"layer/W"``, or ``"layer"`` for all below it.
        on_nan: ``"raise"``: a step whose value or gradient is NaN or infinite raises NonFiniteError, and leaves
            parameters and state as they were.
        has_aux: `loss` returns ``(number, extras)``, and so a step gives ``(value, extras)`` in the place of its value.
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
    return Step(loss, optimizer, paths, options or Options(), donate=donate, raises=on_nan is not None, has_aux=has_aux)


class Step:
    """A compiled step of training; `compile_step` makes it.

    It is made of two functions: the value and the gradient of the loss, and the update of what they are by. The second
    begins when the first has ended, so that whatever the first one refuses leaves parameters and state as they were.
    """

    def __init__(
        self, loss: Callable[..., Any], optimizer: Any, frozen: tuple[str, ...], options: Options, *, donate: bool,
        raises: bool, has_aux: bool,
    ) -> None:
        self._settings = {"frozen": frozen, "has_aux": has_aux}
        self._loss, self._options, self._raises, self._donate = loss, options, raises, donate
        self._frozen = frozen
        self._gradient = function("step", loss, _value_and_gradient, self._settings, options=options)
        self._update: Function[..., Any] = jit(optimizer.update, options=options)
        self._unused: list[str] | None = None
        self.__name__ = self._gradient.__name__

    def __call__(self, params: Tree, state: Tree, *batch: Any) -> tuple[Tree, Tree, Any]:
        """Take one step.

        Args:
            params: arrays in a structure.
            state: what ``optimizer.init(params)`` gave, or the step before.
            batch: the further arguments of the loss.

        Returns:
            ``(params, state, value)``: the new ones, and the loss before.
        """
        params = _numbers_as_arrays(params)
        value, grads = self._value_and_gradient(params, batch)
        return (*self._updated(params, grads, state), value)

    def gradients(self, params: Tree, *batch: Any) -> tuple[Any, Tree]:
        """Return the loss and its gradient: the first half of a step.

        Returns:
            ``(value, grads)``: gradients in the structure of the parameters, None for those that are frozen or unused.
        """
        params = _numbers_as_arrays(params)
        value, grads = self._value_and_gradient(params, batch)
        leaves, structure = flattened(params)
        return value, optree.tree_unflatten(structure, [grads.get(path) for path, _ in _named(structure, leaves)])

    def apply(self, params: Tree, grads: Tree, state: Tree) -> tuple[Tree, Tree]:
        """Update parameters by gradients: the second half of a step.

        Args:
            params: the parameters.
            grads: what `gradients` gave, or made of it; what is None there stays as it is.
            state: the optimizer's state.

        Returns:
            ``(params, state)``: the new ones.
        """
        params = _numbers_as_arrays(params)
        leaves, structure = flattened(params)
        try:
            given = structure.flatten_up_to(grads)
        except ValueError as error:
            raise ArgumentError(f"gradients in another structure than the parameters: {error}") from None
        found = {path: g for (path, _), g in zip(_named(structure, leaves), given, strict=True) if g is not None}
        return self._updated(params, found, state)

    @property
    def unused(self) -> list[str]:
        """The paths of parameters that the loss of the last step did not use: a step leaves them as they are.

        Raises:
            ArgumentError: no step was taken yet.
        """
        if self._unused is None:
            raise ArgumentError(f"the step of {self.__name__}() has not been called yet", instead="call it first")
        return self._unused

    def cache_info(self) -> CacheInfo:
        """Return for which signatures the step was compiled, and why each was needed."""
        return self._gradient.cache_info()

    # -- the halves

    def _value_and_gradient(self, params: Tree, batch: tuple[Any, ...]) -> tuple[Any, dict[str, Any]]:
        """Return the value and the gradients by path."""
        value, grads = self._gradient(params, *batch)
        if self._raises and not all(np.isfinite(leaf).all() for leaf in flattened((value, grads))[0]):
            self._raise_not_finite(params, batch)
        leaves, structure = flattened(params)
        named = _named(structure, leaves)
        stay = _frozen([path for path, _ in named], self._frozen)
        self._unused = [path for path, _ in named if path not in grads and path not in stay]
        return value, grads

    def _raise_not_finite(self, params: Tree, batch: tuple[Any, ...]) -> None:
        """Find the line where it began."""
        options = replace(self._options, debug_nans=True)
        function("step", self._loss, _value_and_gradient, self._settings, options=options)(params, *batch)
        raise NonFiniteError(f"the loss or the gradient of {self.__name__}() holds NaN or Inf")

    def _updated(self, params: Tree, grads: dict[str, Any], state: Tree) -> tuple[Tree, Tree]:
        """Update those parameters that have a gradient, and what the state holds for them."""
        leaves, structure = flattened(params)
        named = _named(structure, leaves)
        moved = [k for k, (path, _) in enumerate(named) if path in grads]
        if not moved:
            raise ArgumentError(f"there is no parameter to update: the step of {self.__name__}()")
        kept = {name: _part(tree, structure, moved) for name, tree in state.items() if name not in COUNTED}
        given = [grads.get(path) for path, _ in named]
        new, after = self._update(
            _part(params, structure, moved), optree.tree_unflatten(structure, given), {**state, **kept}
        )
        back = {name: _whole(state[name], after[name], structure, moved) for name in kept}
        return _whole(params, new, structure, moved), {**after, **back}


def _part(tree: Tree, structure: Any, moved: Sequence[int]) -> Tree:
    """Leave out of a tree that has the structure of the parameters what does not move: None stands there."""
    leaves, found = flattened(tree)
    if found != structure:
        return tree
    return optree.tree_unflatten(structure, [leaf if k in moved else None for k, leaf in enumerate(leaves)])


def _whole(old: Tree, new: Tree, structure: Any, moved: Sequence[int]) -> Tree:
    """Put what has moved into its place again."""
    leaves, found = flattened(old)
    if found != structure:
        return new
    for k, leaf in zip(moved, flattened(new)[0], strict=True):
        leaves[k] = leaf
    return optree.tree_unflatten(structure, leaves)


def _numbers_as_arrays(params: Tree) -> Tree:
    """Return Python's numbers among parameters as NumPy's, which a step would return: its next call is alike."""
    leaves, structure = flattened(params)
    if not any(type(leaf) is float for leaf in leaves):
        return params
    return optree.tree_unflatten(structure, [np.float64(one) if type(one) is float else one for one in leaves])


def _named(structure: Any, leaves: Sequence[Any]) -> list[tuple[str, Any]]:
    """Pair paths with leaves."""
    return [("/".join(map(str, path)), leaf) for path, leaf in zip(structure.paths(), leaves, strict=True)]


def _frozen(paths: Sequence[str], frozen: Sequence[str]) -> set[str]:
    """Return the paths that stay as they are.

    Raises:
        ArgumentValueError: one that is frozen names no parameter.
    """
    found: set[str] = set()
    for one in frozen:
        below = [path for path in paths if path == one or path.startswith(f"{one}/")]
        if not below:
            raise ArgumentValueError(
                f"compile_step(frozen=...): {one!r} names no parameter", instead=f"some of {', '.join(paths)}"
            )
        found.update(below)
    return found


def _value_and_gradient(
    fun: Any, signature: Signature, leaves: list[Any], *, frozen: tuple[str, ...], has_aux: bool,
) -> tuple[Any, dict[str, Any]]:
    """Derive a loss by the parameters that it uses and that are not frozen: ``(value, {path: gradient})``."""
    point = loss_at(fun, signature, leaves, has_aux=has_aux)
    places = [k for k, place in enumerate(signature.positions) if place == 0]
    tree = signature.tree.child(0).child(0)
    paths = ["/".join(map(str, path)) for path in tree.paths()]
    stay, inputs = _frozen(paths, frozen), point.program.inputs
    used = {*replace(point.program, inputs=(), outputs=point.program.outputs[:1]).nodes()}
    wanted = {path: k for path, k in zip(paths, places, strict=True) if path not in stay and inputs[k] in used}
    for path, k in wanted.items():
        if inputs[k].dtype.kind != "f":
            raise ArgumentError(
                f"the parameter {path} is {inputs[k].dtype.name}: it has no gradient", instead=f"frozen=({path!r},)"
            )
    if not wanted:
        raise ArgumentError(f"{point.program.name}() uses no parameter that is not frozen")
    results, bars = with_gradient(point, [*wanted.values()])
    return optree.tree_unflatten(point.tree, results), dict(zip(wanted, bars, strict=True))
