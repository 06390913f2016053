"""Both halves of a step in one call of C: which arrays go where, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from symgrad.api.call.function import Entry, Function, Short
from symgrad.api.trees import Tree
from symgrad.build.call import MISS
from symgrad.build.steps import Given, Half, Steps
from symgrad.build.threads import threads
from symgrad.errors import ArgumentError, ArgumentValueError
from symgrad.ir.program import Program
from symgrad.render.source import MEET
from symgrad.trace import optree
from symgrad.trace.structures import flattened

NUMPYS: dict[type, Callable[[Any], Any]] = {float: np.float64, int: np.int64}
"""What NumPy has for Python's numbers."""
COUNT = 2
"""The place of the count among what a `RowSparse` is made of."""

COUNTED = frozenset({"t", "hyper"})
"""What a state holds that has no value for each parameter."""


def part(tree: Tree, structure: Any, moved: Sequence[int]) -> Tree:
    """Leave out of a tree that has the structure of the parameters what does not move: None stands there."""
    leaves, found = flattened(tree)
    if found != structure:
        return tree
    return optree.tree_unflatten(structure, [leaf if k in moved else None for k, leaf in enumerate(leaves)])


def parts(params: Tree, state: Tree, moved: Sequence[int]) -> tuple[Tree, Tree]:
    """Leave out of parameters and of a state what does not move."""
    if not isinstance(state, dict):
        raise ArgumentError(f"a state that is {type(state).__name__}, and no dict", instead="opt.init(params)")
    structure = flattened(params)[1]
    kept = {name: part(tree, structure, moved) for name, tree in state.items() if name not in COUNTED}
    return part(params, structure, moved), {**state, **kept}


def leaves_kept(params: Tree, state: Tree, moved: Sequence[int]) -> tuple[list[int], Any]:
    """Return which leaves of ``(params, state)`` `parts` keeps, and the structure of that."""
    leaves, tree = flattened((params, state))
    numbered: Any = optree.tree_unflatten(tree, [*map(np.int64, range(len(leaves)))])  # objects hold them as arrays
    found, structure = flattened(parts(numbered[0], numbered[1], moved))
    return [*map(int, found)], structure


def owned(leaf: Any) -> Any:
    """Copy an array as C writes one: row by row, in native byte order."""
    if not isinstance(leaf, np.ndarray):
        return leaf
    return np.array(leaf, None if leaf.dtype.isnative else leaf.dtype.newbyteorder("=").str, order="C")


class Moved(NamedTuple):
    """The update of those parameters that move, compiled.

    Attributes:
        entry: its function.
        serves: answers `MISS` once the optimizer has changed.
        inputs: for each of its arrays the leaf of ``(params, state)``, or (negative, from -1 on) the gradient.
        results: for each of its results the leaf.
        fits: each result has the shape and the type of its leaf, in whose memory it is written.
        slopes: of each gradient arrays as it is given, those of a `RowSparse` one after the other.
    """

    entry: Entry
    serves: Short
    inputs: list[int]
    results: list[int]
    fits: bool
    slopes: list[list[Any]]

    @property
    def is_alone(self) -> bool:
        """Whether it is compiled, has no ways, and writes in place."""
        return self.entry.call.is_compiled and not self.entry.taken and self.fits

    def run(self, leaves: list[Any], grads: Sequence[Any], *, donate: bool) -> None:
        """Update leaves of ``(params, state)`` by gradients: in place, or copies of them."""
        if not donate:
            self.copy(leaves)
        slopes = flattened([*grads])[0]
        arrays = self.entry.call.in_place([leaves[k] if k >= 0 else slopes[-1 - k] for k in self.inputs])
        for k in self.results:
            if not isinstance(leaves[k], np.ndarray):
                leaves[k] = arrays[self.inputs.index(k)][()]

    def copy(self, leaves: list[Any]) -> None:
        """Put copies in the places of arrays that are written, so that in place has the bits of new arrays."""
        for k in self.results:
            leaves[k] = owned(leaves[k])


def update_of(
    function: Function[..., Any], params: Tree, state: Tree, moved: Sequence[int], grads: Sequence[Any], *,
    donate: bool,
) -> Moved:
    """Compile an optimizer's update of some parameters, into the memory of what it changes.

    Of the gradients, one for each of these, only what they are matters. Where a result has another shape or type, it is
    an error with `donate`.
    """
    tree, parameters = flattened((params, state))[1], len(flattened(params)[0])
    own, structure = leaves_kept(params, state, moved)
    given = parts(params, state, moved)
    slopes = flattened([*grads])[0]
    of_params = flattened(given[0])[1].num_leaves
    results: list[int] = []
    fits = True

    def change(program: Program, made: Any) -> Program:
        nonlocal fits
        if made != structure:
            raise ArgumentError("the update gives parameters and state in another structure than it was given")
        places = {leaf: k if k < of_params else k + len(slopes) for k, leaf in enumerate(own)}
        stay = [program.inputs[places[leaf]] is node for leaf, node in zip(own, program.results, strict=True)]
        for leaf, node, same in zip(own, program.results, stay, strict=True):
            was = program.inputs[places[leaf]]
            if (was.shape, was.dtype) == (node.shape, node.dtype):
                results.extend([] if same else [leaf])
                continue
            if donate:
                name = shown(tree.accessors()[leaf].codify(""))
                raise ArgumentError(
                    f"donate=True: the new {name} is {node.dtype}{node.shape}, and the old one {was.dtype}{was.shape}",
                    instead="donate=False",
                )
            fits = False
        if not fits:
            return program
        labels = program.labels and [name for name, same in zip(program.labels, stay, strict=False) if not same]
        outputs = [node for node, same in zip(program.results, stay, strict=True) if not same]
        pairs = [(places[leaf], k) for k, leaf in enumerate(results)]
        count = len(program.results)
        return replace(
            program, outputs=(*outputs, *program.guards), labels=(*labels, *program.labels[count:]),
            donated=tuple(pairs), spread=frozenset([k for k, leaf in enumerate(results) if leaf < parameters]),
        )

    entry, serves = function.variant(change, given[0], optree.tree_unflatten(flattened(given[0])[1], grads), given[1])
    inputs = [*own[:of_params], *range(-1, -1 - len(slopes), -1), *own[of_params:]]
    return Moved(entry, serves, inputs, results, fits, [flattened(one)[0] for one in grads])


class Fused:
    """A step for arrays of some shapes.

    Attributes:
        tree: the structure of ``(params, state, batch)``.
        donate: what it is given is written; else copies of it.
        key: what it is planned for.
        unused: paths of the parameters that the loss does not use.
        tables: where the number of rows stands of gradients that are rows, by their paths.
    """

    key: Any = None
    unused: list[str] = []  # noqa: RUF012 - each is given its own

    def __init__(
        self, gradient: tuple[Entry, list[Any], Short], update: Moved, params: Tree, state: Tree, batch: Any, *,
        finite: bool, donate: bool, rows: int = 0, ordered: bool = False,
    ) -> None:
        """Plan a step; with `rows` the batch is all there is, and so many of its rows are taken each time.

        Where they are `ordered`, an array of places is the last of the batch.
        """
        entry, example, serves = gradient
        self.names = [accessor.codify("") for accessor in flattened((params, state, batch))[1].accessors()]
        leaves, self.tree = flattened((params, state, batch))
        self.donate = donate
        self.serves, self.update = (serves, update.serves), update
        outer = [one.call.outside or list for one in (entry, update.entry)]
        self.outside: tuple[Callable[[], list[Any]], ...] = (*outer,)
        first = Half(entry.call, entry.call.planned(entry.call.arrays(example)))
        shapes = [np.shape(leaf) for leaf in leaves]
        kinds = [np.dtype(np.asarray(leaf).dtype.str) for leaf in leaves]
        slopes = [np.asarray(leaf) for one in update.slopes for leaf in one]
        second_inputs = [
            *[np.empty(shapes[k], kinds[k]) if k >= 0 else np.empty(slopes[-1 - k].shape, slopes[-1 - k].dtype)
              for k in update.inputs],
            *update.entry.call.read(),
        ]
        second = Half(update.entry.call, update.entry.call.planned(second_inputs))
        count, both = flattened(params)[1].num_leaves, flattened((params, state))[1].num_leaves
        given = []
        ports = first.call.interface.inputs
        for k, leaf in enumerate(leaves):
            kind: tuple[type, ...] = () if isinstance(leaf, np.ndarray) else (type(leaf),)
            place = k if k < count else k - both + count if k >= both else -1
            second_place = update.inputs.index(k) if k in update.inputs else -1
            dtype = ports[place].dtype if place >= 0 else kinds[k]
            if kind and place < 0:  # of the state: Python's numbers are as good as NumPy's
                kind += tuple([one for one, numpys in NUMPYS.items() if numpys in kind])
            is_order = ordered and k == len(leaves) - 1
            by_rows = bool(rows) and k >= both and not is_order
            width = dtype.itemsize * prod(shapes[k][1:])
            moves = rows * width if is_order or (by_rows and not ordered) else 0
            given.append(Given(dtype, shapes[k], place, second_place, kind, k in update.results, by_rows, moves))
        for half, call in enumerate((first.call, second.call)):
            start = len(call.interface.inputs) - len(self.outside[half]())
            for k, port in enumerate(call.interface.inputs[start:], start):
                array = self.outside[half]()[k - start]
                given.append(Given(port.dtype, array.shape, *((k, -1) if half == 0 else (-1, k))))
                self.names.append(f"{call.signature.paths[k]}, an array from outside")
        self.values, slopes_tree = entry.tree.children()
        outputs = self.values.num_leaves
        begin = len(ports)
        results = [
            Given(first.call.interface.outputs[k].dtype, first.plan.outputs[k], begin + k) for k in range(outputs)
        ]
        paths = ["/".join(map(str, path)) for path in flattened(params)[1].paths()]
        order = [paths[k] for k in update.inputs[: len(update.slopes)]]
        numbers = iter(range(len(update.slopes), len(update.slopes) + len(slopes)))
        places = {path: [next(numbers) for _ in one] for path, one in zip(order, update.slopes, strict=True)}
        between: list[tuple[int, int]] = []
        self.tables: dict[str, int] = {}
        for path, one in zip(slopes_tree.entries(), slopes_tree.children(), strict=True):
            if not one.is_leaf():
                self.tables[path] = begin + outputs + len(between) + COUNT
            of = [*places[path], *[-1] * one.num_leaves][: one.num_leaves]  # an open extent is none of the update's
            between += [(begin + outputs + k, place) for k, place in enumerate(of, len(between))]
        self.halves = (entry, example), (update.entry, second_inputs)
        self.steps = Steps(first, second, given, results, between, finite=finite, rows=rows)
        self.numbers = [k for k, leaf in enumerate(leaves) if type(leaf) is int]
        self.integers = entry.call.integers if self.numbers else None

    @property
    def touched(self) -> dict[str, int]:
        """How many rows the gradients by tables had in the last step."""
        return {path: self.steps.integer(place) for path, place in self.tables.items()}

    @property
    def is_current(self) -> bool:
        """Whether the functions are still those of the loss and the optimizer."""
        return self.steps.is_current and all(serves(()) is not MISS for serves in self.serves)

    def __call__(self, leaves: list[Any], state: Tree) -> Any:
        """Take one step: ``(code, params, state, value)``; None where the arguments are others, or the path is."""
        if self.integers is not None:
            if any(type(leaves[k]) is not int for k in self.numbers):
                return None
            count = self.tree.child(0).num_leaves
            self.integers.check([*leaves[:count], *leaves[count + self.tree.child(1).num_leaves :]])
        if not self.donate:
            self.update.copy(leaves)
        found = self.steps.one(self.with_outside(leaves))
        if found is None:
            return None
        code, results = found
        if code == MEET:
            self.refuse_shared(leaves)
        value = results[0] if self.values.is_leaf() else optree.tree_unflatten(self.values, results)
        return (code, *self.put_back(leaves, state), value)

    def many(self, leaves: list[Any], results: Sequence[Any], begin: int, batches: int) -> int | None:
        """Take a step for each of some batches, see `Steps.many`; numbers that are written stand in the leaves."""
        code = self.steps.many(self.with_outside(leaves), [*results], begin, batches)
        if code == MEET:
            self.refuse_shared(leaves)
        return code

    @property
    def value(self) -> tuple[Any, list[Any]]:
        """The structure of what the loss returns, and what its leaves are like."""
        ports, shapes = self.steps.halves[0].call.interface.outputs, self.steps.halves[0].plan.outputs
        found = zip(ports, shapes[: self.values.num_leaves], strict=False)
        return self.values, [np.broadcast_to(np.zeros((), port.dtype), shape) for port, shape in found]

    def with_outside(self, leaves: list[Any]) -> list[Any]:
        """Add the arrays that the functions read from outside."""
        for outside in self.outside:
            leaves += outside()
        return leaves

    def put_back(self, leaves: list[Any], state: Tree) -> tuple[Tree, Tree]:
        """Give leaves their structure; where the old ones were written, the dict of the state is the old one, too."""
        new_params, new_state, _ = optree.tree_unflatten(self.tree, leaves[: self.tree.num_leaves])
        if not self.donate:
            return new_params, new_state
        state.update(new_state)
        return new_params, state

    def refuse_shared(self, leaves: list[Any]) -> None:
        """Raise what names the arrays that C found to share memory."""
        arrays = [(k in self.update.results, (self.shown(k), leaf))
                  for k, leaf in enumerate(leaves) if isinstance(leaf, np.ndarray)]
        check_apart(*[[array for is_written, array in arrays if is_written is one] for one in (True, False)])

    def shown(self, k: int) -> str:
        """Name a leaf as the user would."""
        return shown(self.names[k])


def check_apart(written: Sequence[tuple[str, Any]], read: Sequence[tuple[str, Any]]) -> None:
    """Check that named arrays that are written share no memory with each other, or with those that are read.

    Raises:
        ArgumentValueError: two do.
    """
    for k, (name, one) in enumerate(written):
        for other, array in (*written[k + 1 :], *read):
            if np.may_share_memory(one, array):
                raise ArgumentValueError(
                    f"donate=True: {name} shares memory with {other}", instead=f"{name}.copy(), or donate=False"
                )


def with_numbers(report: Callable[[Any], Any], half: tuple[Entry, Sequence[Any]]) -> Any:
    """Make a report of a half, with numbers in the place of open extents."""
    from symgrad.api.report import with_extents

    (entry, arrays), call = half, half[0].call
    count = threads(call.options) if call.interface.threaded else 1
    read = call.arrays(arrays[: len(entry.signature.specs)])
    return with_extents(report(entry.built.stages), entry.built.program, read, {}, count)


def shown(path: str) -> str:
    """Name a leaf of ``(params, state, batch)``.

    >>> shown("[0]['W']"), shown("[2][1]")
    ("params['W']", 'batch[1]')
    """
    for root, name in (("[0]", "params"), ("[1]", "state"), ("[2]", "batch")):
        if path.startswith(root):
            return f"{name}{path[len(root):]}"
    return path


