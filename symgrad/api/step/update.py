"""An optimizer's update of those parameters that have a gradient: in NumPy, and compiled into their memory."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from symgrad.api.call.function import Entry, Function, Short
from symgrad.api.modes.by_path import below
from symgrad.api.modes.derivatives import jit
from symgrad.api.trees import Tree, tree_paths
from symgrad.build.call import MISS
from symgrad.errors import ArgumentError, ArgumentValueError
from symgrad.ir.program import Program
from symgrad.ops.arrays.joining import lift
from symgrad.options import Options
from symgrad.trace import optree
from symgrad.trace.state import active
from symgrad.trace.structures import flattened, key_orders

NUMPYS: dict[type, Callable[[Any], Any]] = {float: np.float64, int: np.int64}
"""What NumPy has for Python's numbers."""
COUNTED = frozenset({"t", "hyper"})
"""What a state holds that has no value for each parameter."""


# -- trees


def with_numpys(tree: Tree) -> Tree:
    """Return Python's numbers as NumPy's, which a step would return: its next call is alike."""
    leaves, structure = flattened(tree)
    if not any(type(leaf) in NUMPYS for leaf in leaves):
        return tree
    return optree.tree_unflatten(structure, [NUMPYS.get(type(leaf), lambda one: one)(leaf) for leaf in leaves])


def settled(state: Tree) -> Tree:
    """Return a state as a step returns it: hyper-parameters, whatever number they were set to, as doubles."""
    hyper = state.get("hyper") if isinstance(state, dict) else None
    if isinstance(hyper, dict) and not all(isinstance(value, np.float64) for value in hyper.values()):
        plain = (int, float, np.number, np.ndarray)
        state = {**state, "hyper": {
            name: np.float64(value) if isinstance(value, plain) and not np.ndim(value) else value
            for name, value in hyper.items()}}
    return with_numpys(state)


def kinds(given: Tree) -> tuple[Any, ...]:
    """Return what tells structures of arrays apart that a step in C is planned for."""
    leaves, structure = flattened(given)
    orders = key_orders(structure)
    order = orders(given) if orders else ()
    return structure, order, *[(type(leaf), getattr(leaf, "dtype", None), np.shape(leaf)) for leaf in leaves]


def moving(params: Tree, state: Tree, moved: Sequence[bool]) -> tuple[list[int], Any]:
    """Return which leaves of ``(params, state)`` are of parameters that move, and the structure of these alone.

    In it None stands for the others; what the state holds that has no value for each parameter belongs to it.
    """
    if not isinstance(state, dict):
        raise ArgumentError(f"a state that is {type(state).__name__}, and no dict", instead="opt.init(params)")
    leaves, tree = flattened((params, state))
    structure = tree.child(0)

    def part(numbers: Tree) -> Tree:
        found, own = flattened(numbers)
        if own != structure:
            return numbers
        return optree.tree_unflatten(structure, [k if moves else None for k, moves in zip(found, moved, strict=True)])

    # Objects hold NumPy's numbers as arrays.
    of_params, of_state = optree.tree_unflatten(tree, [*map(np.int64, range(len(leaves)))])
    kept = {name: numbers if name in COUNTED else part(numbers) for name, numbers in of_state.items()}
    places, found = flattened((part(of_params), kept))
    return [*map(int, places)], found


def updating(optimizer: Any, carried: str | None) -> Callable[..., Any]:
    """Make an optimizer's update, in NumPy, of those parameters that have a gradient by their path.

    The others, and what the state holds for them, it does not see; what the loss gives anew, which stands among the
    gradients, takes its parameter's place.
    """
    def update(params: Tree, state: Tree, grads: dict[str, Any]) -> tuple[Tree, Tree]:
        leaves, tree = flattened((params, state))
        paths = tree_paths(params)
        anew = set() if carried is None else below(paths, [carried], "carried")
        moved = [path in grads and path not in anew for path in paths]
        places, structure = moving(params, state, moved)
        slopes = [grads[path] if moves else None for path, moves in zip(paths, moved, strict=True)]
        of_params, of_state = optree.tree_unflatten(structure, [leaves[k] for k in places])
        after = optimizer.update(of_params, optree.tree_unflatten(tree.child(0), slopes), of_state)
        found, made = flattened(after)
        if made != structure:
            raise ArgumentError("the update gives parameters and state in another structure than it was given")
        for k, leaf in zip(places, found, strict=True):
            leaves[k] = leaf
        for k, path in enumerate(paths):
            if path in anew and path in grads:
                leaves[k] = lift(grads[path]).astype(leaves[k].dtype)
        return optree.tree_unflatten(tree, leaves)  # type: ignore[return-value]

    update.__signature__ = inspect.signature(update)  # type: ignore[attr-defined]
    update.__wrapped__ = optimizer.update  # type: ignore[attr-defined]  # what it reads from outside is noticed
    return update


class Update(NamedTuple):
    """An update of parameters, compiled for arrays of some kinds.

    Attributes:
        entry: its function of parameters, state and gradients.
        serves: answers `MISS` once the optimizer has changed.
        results: for each of its results the leaf of ``(params, state)``, in whose memory it is written; none where one
            has another shape or type than its leaf.
    """

    entry: Entry
    serves: Short
    results: list[int]

    def run(self, leaves: list[Any], slopes: Sequence[Any], *, donate: bool) -> None:
        """Update leaves of ``(params, state)`` by gradients: in place, or copies of them."""
        if not donate:
            self.copy(leaves)
        arrays = self.entry.call.in_place([*leaves, *slopes])
        for k in self.results:
            if not isinstance(leaves[k], np.ndarray):
                leaves[k] = arrays[k][()]

    def copy(self, leaves: list[Any]) -> None:
        """Put copies in the places of arrays that are written, so that in place has the bits of new arrays."""
        for k in self.results:
            leaves[k] = owned(leaves[k])


def owned(leaf: Any) -> Any:
    """Copy an array as C writes one: row by row, in native byte order."""
    if not isinstance(leaf, np.ndarray):
        return leaf
    return np.array(leaf, None if leaf.dtype.isnative else leaf.dtype.newbyteorder("=").str, order="C")


class Updates:
    """The second half of steps: an optimizer's update, compiled for each kind of parameters, state and gradients.

    Attributes:
        known: what it is compiled to.
        has_ways: conditions in it come to this or that, so that it is no one call of C.
    """

    def __init__(self, optimizer: Any, carried: str | None, name: str, options: Options, *, donate: bool) -> None:
        self._name, self._looks, self._donate = name, options.debug_nans, donate
        self._function: Function[..., Any] = jit(updating(optimizer, carried), options=options)
        self.known, self.has_ways, self._lock = dict[Any, Update](), False, threading.RLock()

    def __call__(
        self, params: Tree, grads: dict[str, Any], state: Tree, read: Sequence[tuple[str, Any]] = (),
    ) -> tuple[Tree, Tree]:
        """Update those parameters that have a gradient, and what the state holds for them.

        In place, no array may be in the memory of what is `read`, an array from outside.
        """
        if not grads:
            raise ArgumentError(
                f"there is no parameter to update: the step of {self._name}()", instead="a gradient that is not None"
            )
        if active.entered:
            return self._function(params, state, grads)  # type: ignore[no-any-return]
        usual = settled(state)
        leaves, tree = flattened((params, usual))
        update = self.compiled(params, grads, usual)
        places = update.results if update else moving(params, usual, [path in grads for path in tree_paths(params)])[0]
        if self._donate:
            own = [(f"the gradient of {path}", one) for path, one in grads.items()]
            check_in_place(tree, leaves, places, [*own, *read])
        if update is not None:
            update.run(leaves, flattened(grads)[0], donate=self._donate)
        else:
            new = flattened(self._function(params, usual, grads))[0]
            written = {k: leaves[k] for k in places if self._donate and isinstance(leaves[k], np.ndarray)}
            for k, old in written.items():
                if (new[k].shape, new[k].dtype) != (old.shape, old.dtype):
                    raise refused(tree, k, new[k], old)
            for k, old in written.items():
                np.copyto(old, new[k])
            for k in places:
                leaves[k] = written.get(k, new[k])
        return put_back(tree, leaves, state, self._donate)

    def compiled(self, params: Tree, grads: dict[str, Any], state: Tree) -> Update | None:
        """Find or compile the update by gradients such as these; None where it is not one call of C that writes."""
        if self._looks:
            return None
        key = kinds((params, state, grads))
        with self._lock:
            update = self.known.get(key)
            if update is None or update.serves(()) is MISS:
                update = self.known[key] = self._made(params, state, grads)
                self.has_ways |= bool(update.entry.taken)
        return update if update.entry.call.is_compiled and not update.entry.taken and update.results else None

    def _made(self, params: Tree, state: Tree, grads: dict[str, Any]) -> Update:
        """Compile it into the memory of what it changes.

        Of the gradients only what they are matters. Where a result has another shape or type, it is an error if that
        is to be written.
        """
        tree, results = flattened((params, state))[1], list[int]()

        def change(program: Program, _: Any) -> Program:
            pairs = enumerate(zip(program.inputs, program.results, strict=False))
            changed = {k: (was, node) for k, (was, node) in pairs if was is not node}
            for k, (was, node) in changed.items():
                if (was.shape, was.dtype) != (node.shape, node.dtype):
                    if self._donate:
                        raise refused(tree, k, node, was)
                    return program
            results.extend(changed)
            labels = program.labels and [program.labels[k] for k in results]
            return replace(
                program, outputs=(*[node for _, node in changed.values()], *program.guards),
                labels=(*labels, *program.labels[tree.num_leaves :]),
                donated=tuple([(leaf, k) for k, leaf in enumerate(results)]),
                spread=frozenset([k for k, leaf in enumerate(results) if leaf < tree.child(0).num_leaves]),
            )

        return Update(*self._function.variant(change, params, state, grads), results)


# -- in place


def put_back(tree: Any, leaves: list[Any], state: Tree, donate: bool) -> tuple[Tree, Tree]:
    """Give new parameters and state their structure; where the old ones were written, the state's dict is the old one.

    There may be more leaves than those of ``(params, state, batch)``.
    """
    made: Any = optree.tree_unflatten(tree, leaves[: tree.num_leaves])
    if not donate:
        return made[0], made[1]
    state.update(made[1])
    return made[0], state


def refused(tree: Any, leaf: int, new: Any, old: Any) -> ArgumentError:
    """Compose the error of a leaf of ``(params, state)`` that cannot be written into the old one."""
    kinds = [f"{one.dtype}{one.shape}" for one in (new, old)]
    return ArgumentError(
        f"donate=True: the new {shown(tree.accessors()[leaf])} is {kinds[0]}, and the old one {kinds[1]}",
        instead="donate=False",
    )


def shown(accessor: Any) -> str:
    """Name a leaf of ``(params, state, batch)`` as the user would."""
    return f"{('params', 'state', 'batch')[accessor[0].entry]}{accessor[1:].codify('')}"


def outside(call: Any) -> list[tuple[str, Any]]:
    """List the arrays that a function reads from outside, with their names."""
    arrays, paths = [] if call.outside is None else call.outside(), call.signature.paths
    names = [f"{path}, an array from outside" for path in paths[len(paths) - len(arrays) :]]
    return [*zip(names, arrays, strict=True)]


def check_in_place(tree: Any, leaves: Sequence[Any], written: Sequence[int], read: Sequence[tuple[str, Any]]) -> None:
    """Check that some leaves of ``(params, state, batch)`` can be written in place, while all others are read.

    Raises:
        ArgumentError: one is read-only, or its elements do not lie one behind the other.
        ArgumentValueError: two share memory.
    """
    named = [(shown(one), leaf) for one, leaf in zip(tree.accessors(), leaves, strict=True)]
    own = [named[k] for k in written if isinstance(leaves[k], np.ndarray)]
    others = [*[pair for k, pair in enumerate(named) if k not in written], *read]
    for k, (name, one) in enumerate(own):
        instead = f"{name}.copy(), or donate=False"
        if not one.flags.writeable:
            raise ArgumentError(f"donate=True: {name} is read-only", instead=instead)
        if not (one.flags.c_contiguous and one.flags.aligned and one.dtype.isnative):
            raise ArgumentError(
                f"donate=True: {name} does not lie row by row, aligned and in native byte order (its strides are "
                f"{one.strides})", instead=instead,
            )
        for other, array in (*own[k + 1 :], *others):
            if isinstance(array, np.ndarray) and np.may_share_memory(one, array):
                raise ArgumentValueError(f"donate=True: {name} shares memory with {other}", instead=instead)
