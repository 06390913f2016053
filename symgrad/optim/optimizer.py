"""What an optimizer is: links, each two functions on structures of arrays, and a state that holds all they keep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from symgrad import RowSparse, tree_flatten, tree_map, tree_paths
from symgrad.errors import ArgumentError, ArgumentValueError

Tree = Any
Init = Callable[[Tree], dict[str, Tree]]
Update = Callable[[Tree, Tree, dict[str, Tree], Any, dict[str, Any]], tuple[Tree, Tree, dict[str, Tree]]]


@dataclass(frozen=True)
class Schedule:
    """A hyper-parameter that changes with the number of updates.

    Attributes:
        function: ``function(t, **numbers)``, in NumPy; `t` counts the updates that were done before.
        numbers: its numbers, which the state holds as ``hyper["learning_rate/steps"]``: changing one compiles nothing.
    """

    function: Callable[..., Any]
    numbers: Mapping[str, float] = field(default_factory=dict)

    def __call__(self, t: Any) -> Any:
        """Return the value after `t` updates; of an array of numbers of updates, as for a plot, an array."""
        found = self.function(t, **self.numbers)
        return found + np.zeros(np.shape(t)) if np.ndim(t) else as_number(found)


@dataclass(frozen=True)
class Link:
    """One of the steps of an optimizer.

    Attributes:
        init: ``init(params)``: what it keeps, by name; each like the parameters, or a number.
        update: ``update(params, grads, state, t, hyper) -> (params, grads, state)`` for the next link.
        hyper: its hyper-parameters: numbers and schedules.
        rows: whether it takes a `RowSparse` for a gradient; else it gets the whole array.
        asks: whether that costs it less than the whole array.
        lazy: whether it leaves the other rows as they are, which a gradient of zeros would change.
    """

    init: Init
    update: Update
    hyper: Mapping[str, Any]
    rows: bool = False
    asks: bool = False
    lazy: bool = False


@dataclass(frozen=True)
class Optimizer:
    """Changes parameters by gradients: one link, or several in a chain.

    Its state is a dict: ``t``, how many updates were done (int64); ``hyper``, the hyper-parameters as numbers, which
    may be changed at any time; and by name what the links keep, in the structure of the parameters. A name that a
    link before has used gets ``_2`` behind it. All of it is NumPy: called with arrays it computes, called in a traced
    function it is compiled.

    >>> import numpy as np, symgrad as sg
    >>> opt = sg.optim.momentum(0.1, 0.9)
    >>> params = {"w": np.array([1.0, 2.0])}
    >>> state = opt.init(params)
    >>> params, state = opt.update(params, {"w": np.array([0.1, -0.3])}, state)
    >>> params["w"], state["t"], state["momentum"]["w"]
    (array([0.99, 2.03]), np.int64(1), array([ 0.1, -0.3]))
    """

    links: tuple[Link, ...]

    @property
    def takes_rows(self) -> bool:
        """Whether it is to be given a `RowSparse` for a table of which rows are taken."""
        return any(link.asks for link in self.links)

    @property
    def is_lazy(self) -> bool:
        """Whether its update by rows is another one than by the whole array."""
        return any(link.lazy for link in self.links)

    @cached_property
    def _names(self) -> list[tuple[dict[str, str], dict[str, str]]]:
        """Of each link, what the state calls what it keeps and its hyper-parameters."""
        slots = [one.init(np.zeros(1)) if len(self.links) > 1 else {} for one in self.links]
        return [*zip(_with_own_names(slots), _with_own_names([one.hyper for one in self.links]), strict=True)]

    def init(self, params: Tree) -> dict[str, Any]:
        """Make the state before the first update.

        Args:
            params: arrays and numbers in a structure.

        Returns:
            The state, see `Optimizer`.
        """
        state: dict[str, Any] = {"t": np.int64(0), "hyper": {}}
        for link, (slots, names) in zip(self.links, self._names, strict=True):
            for name, value in link.hyper.items():
                of = {f"{names[name]}/{n}": v for n, v in value.numbers.items()} if isinstance(value, Schedule) else {}
                plain = {} if callable(value) else {names[name]: value}
                state["hyper"] |= {one: _double(one, v) for one, v in (of | plain).items()}
            kept = {slots.get(name, name): tree for name, tree in _returned("init", link.init(params), dict).items()}
            if reserved := state.keys() & kept.keys():
                raise ArgumentValueError(
                    f"an optimizer keeps {reserved.pop()!r}", instead="another name than t and hyper"
                )
            state |= kept
        return state

    def update(self, params: Tree, grads: Tree, state: dict[str, Any]) -> tuple[Tree, dict[str, Any]]:
        """Change parameters by their gradients.

        Args:
            params: as `init` was given.
            grads: a gradient for each, in the same structure: an array of its shape, or a `RowSparse`.
            state: what `init` gave, or the update before. Nothing is written into any of the three.

        Returns:
            ``(params, state)``: new ones; every array has the type it had.

        Raises:
            ArgumentError: gradients and parameters differ in structure or shape, a gradient is None, a parameter is not
                of floats, or the state is none, another optimizer's or one of other parameters.
            ArgumentValueError: a hyper-parameter in the state is no number.
        """
        _check(params, grads)
        if not isinstance(state, Mapping):
            raise ArgumentError(f"an optimizer's state that is {state!r:.60}", instead="opt.init(params)")
        try:
            old, t = {**state}, _number("the state's t", state["t"], "how many updates were done")
            kept = {name: value for name, value in old.items() if name not in {"t", "hyper"}}
            new = params
            for link, (slots, names) in zip(self.links, self._names, strict=True):
                hyper = {name: _setting_at(value, names[name], state["hyper"], t) for name, value in link.hyper.items()}
                own = {name: kept[slots[name]] for name in slots} if slots else kept
                given = grads if link.rows else tree_map(_whole, params, grads)
                new, changed, own = _returned("update", link.update(new, given, own, t, hyper), tuple, list)
                grads = grads if changed is given else changed
                kept |= {slots.get(name, name): tree for name, tree in own.items()}
        except KeyError as error:
            raise ArgumentError(
                f"the state of another optimizer: it holds no {error}", instead="opt.init(params), or what this one's "
                "update returned",
            ) from None
        if kept.keys() != old.keys() - {"t", "hyper"}:
            raise ArgumentError(
                f"an optimizer's update gives the state {[*kept]}, and was given {[*old.keys() - {'t', 'hyper'}]}",
                instead="what its init gives",
            )
        kept = {name: tree_map(_as_before, old[name], tree) for name, tree in kept.items()}
        return tree_map(_as_before, params, new), {"t": state["t"] + 1, "hyper": {**state["hyper"]}, **kept}


def optimizer(init: Init | None, update: Update, **hyper: Any) -> Optimizer:
    """Make an optimizer of two functions in NumPy.

    Args:
        init: ``init(params)`` gives what it keeps, by name; None keeps nothing.
        update: ``update(params, grads, state, t, hyper)`` gives new ``(params, grads, state)``; `t` counts the updates
            done before, a Python integer; ``hyper["learning_rate"]`` and the others are Python's numbers, which leave
            single precision single.
        hyper: the hyper-parameters with their values: numbers, or functions of `t`, as those of `symgrad.optim`.

    Returns:
        An `Optimizer`, also for `chain`.

    Lion (X. Chen et al., Symbolic Discovery of Optimization Algorithms, 2023) is

    >>> import numpy as np, symgrad as sg
    >>> def init(params):
    ...     return {"m": sg.tree_map(np.zeros_like, params)}
    >>> def update(params, grads, state, t, hyper):
    ...     rate, b1, b2 = hyper["learning_rate"], hyper["b1"], hyper["b2"]
    ...     step = lambda p, g, m: p - rate * np.sign(b1 * m + (1 - b1) * g)
    ...     m = sg.tree_map(lambda m, g: b2 * m + (1 - b2) * g, state["m"], grads)
    ...     return sg.tree_map(step, params, grads, state["m"]), grads, {"m": m}
    >>> lion = sg.optim.optimizer(init, update, learning_rate=0.1, b1=0.9, b2=0.99)
    >>> params, state = lion.update(np.ones(2), np.array([2.0, -3.0]), lion.init(np.ones(2)))
    >>> params
    array([0.9, 1.1])
    """
    return Optimizer((Link(init or (lambda _: {}), update, hyper),))


def chain(*parts: Optimizer) -> Optimizer:
    """Put optimizers one after the other: each gets the parameters and gradients as the one before left them.

    >>> import numpy as np, symgrad as sg
    >>> opt = sg.optim.chain(sg.optim.clip_by_global_norm(1.0), sg.optim.sgd(0.5), sg.optim.ema(0.9))
    >>> params, state = opt.update(np.zeros(2), np.array([3.0, 4.0]), opt.init(np.zeros(2)))
    >>> params, state["ema"]
    (array([-0.3, -0.4]), array([-0.03, -0.04]))
    """
    if not parts or not all(isinstance(part, Optimizer) for part in parts):
        raise ArgumentValueError("chain() takes optimizers", instead="chain(clip_by_global_norm(1.0), adam(1e-3))")
    return Optimizer(tuple([link for part in parts for link in part.links]))


def as_number(value: Any) -> Any:
    """Return a number without axes as Python's, which promotes weakly."""
    return value.item() if hasattr(value, "item") else value


def _number(what: str, value: Any, instead: str = "a number, or a function of t that returns one") -> Any:
    """Return a number as Python's, or refuse what is none."""
    kind = value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype
    if np.ndim(value) or kind.kind not in "biuf":
        found = f" has the shape {np.shape(value)}" if np.ndim(value) else f"={value!r:.60}"  # it may be traced
        raise ArgumentValueError(f"{what}{found}", instead=instead)
    return as_number(value)


def _setting_at(value: Any, name: str, hyper: Mapping[str, Any], t: Any) -> Any:
    if isinstance(value, Schedule):
        numbers = {n: _number(f"the hyper-parameter {name}/{n}", hyper[f"{name}/{n}"]) for n in value.numbers}
        return _number(f"the hyper-parameter {name}", value.function(t, **numbers))
    return _number(f"the hyper-parameter {name}", value(t) if callable(value) else hyper[name])


def _double(name: str, value: Any) -> Any:
    """Return a hyper-parameter as the state holds it."""
    return np.float64(_number(f"the hyper-parameter {name}", value))


def _returned(what: str, found: Any, *kinds: Any) -> Any:
    """Refuse what a function of a user's own has returned by mistake."""
    if not isinstance(found, kinds) or (dict not in kinds and len(found) != 3):
        raise ArgumentError(
            f"an optimizer's {what} returned {found!r:.60}",
            instead="a dict of what it keeps, by name" if dict in kinds else "(params, grads, state)",
        )
    return found


def _check(params: Tree, grads: Tree) -> None:
    """Refuse what has no gradient, and what is not of floats."""
    own, found = [dict(zip(tree_paths(tree), tree_flatten(tree)[0], strict=True)) for tree in (params, grads)]
    if len(own) < len(paths := tree_paths(params)):
        twice = next(path for k, path in enumerate(paths) if path in paths[:k])
        raise ArgumentValueError(f"two parameters are called {twice!r}", instead="keys whose paths differ")
    for path in found:
        if path not in own:
            raise ArgumentError(f"a gradient of {path or 'an array'}, and the parameters are {', '.join(own)}")
    for path, one in own.items():
        kind = one.dtype if hasattr(one, "dtype") else np.asarray(one).dtype
        if path not in found:
            raise ArgumentError(
                f"there is no gradient of {path or 'params'}", instead="step.apply(...), which leaves it as it is",
            )
        if np.shape(found[path]) != np.shape(one):
            raise ArgumentError(
                f"the gradient of {path or 'params'} has shape {np.shape(found[path])}, and the parameter "
                f"{np.shape(one)}", instead="a gradient by this parameter",
            )
        if kind.kind != "f":
            raise ArgumentError(
                f"the parameter {path or 'params'} is {kind.name}, and optimizers change floats",
                instead="an array of floats (two of them for a complex one), or no parameter",
            )


def _whole(_: Any, grad: Any) -> Any:
    return grad.to_dense() if isinstance(grad, RowSparse) else grad


def _as_before(old: Any, new: Any) -> Any:
    """Return what is new as the type that it was."""
    dtype = getattr(old, "dtype", None)
    return new if dtype is None or new.dtype == dtype else new.astype(dtype)


def _with_own_names(groups: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Name what each of some dicts holds so that no two have one name."""
    taken: set[str] = set()
    found = []
    for group in groups:
        names = {}
        for name in group:
            count = 2
            names[name] = name
            while names[name] in taken:
                names[name], count = f"{name}_{count}", count + 1
            taken.add(names[name])
        found.append(names)
    return found
