"""Arrays that a function reads from outside: by globals, closures, attributes, defaults. `Outside` stands for one.

Functions of NumPy's and SciPy's that stand in such places have their stand-ins there meanwhile, too.

While a trace is active the places that hold such arrays hold stand-ins. In the trace that reads it a stand-in is an
input of the program, whose array each call reads anew; in other threads, and after the last trace, it is its array.
Where Python needs its values, the trace takes them as constants, and calls compare the array as a whole.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from symgrad.ir.node import Graph, Node
from symgrad.ir.program import Program, replaced
from symgrad.ops.declare import leaves
from symgrad.trace.inplace.local import Plain, Standing
from symgrad.trace.inplace.views import written_outside
from symgrad.trace.nested import settled
from symgrad.trace.numpy.replaced import held_for
from symgrad.trace.signature import by_columns
from symgrad.trace.state import active, current, during
from symgrad.trace.tracer import Tracer


class Outside(Standing):
    """An array from outside: traced in a trace that reads it, its array elsewhere."""

    __slots__ = ("array", "name")

    def __init__(self, array: Plain, name: str) -> None:
        """Stand for an array, which the user finds by this name."""
        self.array, self.name = array, name

    def _reads(self) -> Reads | None:
        trace = current()
        reads: Reads | None = None if trace is None else trace.graph.outside
        return reads if reads is not None and id(self) in reads.plain else None

    def settle(self) -> Any:
        """Return what it is here: a traced array, or a plain one."""
        if id(self) in active.given:
            return settled(active.given[id(self)])
        reads = self._reads()
        if reads is None:
            return self.array
        node = reads.nodes.get(id(self))
        if node is None:
            reads.compared.add(id(self))
            return reads.plain[id(self)]
        reads.asked.add(node)
        trace: Any = current()
        made = Tracer(node, trace, origin=self.name)
        made.is_array = True
        return made

    lent = settle

    def written(self, *, traced: bool = False) -> Plain:  # noqa: ARG002 - it stays as it is
        """Return the array to be written into; a trace refuses."""
        if self._reads() is not None:
            raise written_outside(self.name, self.array.dtype, self.array.shape)
        return self.array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        value = self.settle()
        if type(value) is Tracer:
            value = value.__array__()
        return np.array(value, dtype) if copy else value if dtype is None else value.astype(dtype, copy=False)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and not name.startswith("__array_"):
            raise AttributeError(f"'numpy.ndarray' object has no attribute {name!r}")
        return getattr(self.settle(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in {"array", "name"}:
            object.__setattr__(self, name, value)
        else:
            setattr(self.written(), name, settled(value))

    def __getitem__(self, index: Any) -> Any:
        return self.settle()[settled(index)]

    def __len__(self) -> int:
        return len(self.settle())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.settle())

    def __copy__(self, _memo: Any = None) -> Any:
        return self.settle().copy()

    __deepcopy__ = __copy__

    def __reduce__(self) -> Any:
        return self.array.__reduce__()

    def shown(self) -> Any:
        """Return its array: the values are asked for."""
        return np.asarray(self)

    def __bytes__(self) -> bytes:
        return np.asarray(self).tobytes()


class Slot(NamedTuple):
    """Where something stands: how it is read, and how something else is put there."""

    holder: Any
    key: Any
    get: Callable[[Any], Any]
    put: Callable[[Any, Any], None]


class _InPlace:
    """How many traces are active, the slots that hold stand-ins meanwhile, what they held and hold.

    Attributes:
        others: by the identity of what is there and is no `Outside`, what was there: tuples and functions.
    """

    lock = threading.Lock()
    count = 0
    slots: ClassVar[dict[tuple[int, Any], tuple[Slot, Any, Any]]] = {}
    others: ClassVar[dict[int, Any]] = {}


@contextmanager
def standing(places: Sequence[tuple[Slot, tuple[int, ...], str]]) -> Iterator[list[Outside | None]]:
    """Put stand-ins in the place of arrays and functions until the last trace has ended.

    An array is in a slot, or somewhere in tuples that are, and has a name. Yield what stands for each, None for
    functions and for an array that is gone meanwhile.
    """
    here = _InPlace
    with here.lock:
        here.count += 1
        new = [place for place in places if (id(place[0].holder), place[0].key) not in here.slots]
        for slot, path, name in new:
            known = here.slots.get((id(slot.holder), slot.key))
            original = slot.get(slot.key) if known is None else known[1]
            made = _with_stand_in(original if known is None else known[2], path, name)
            here.slots[id(slot.holder), slot.key] = slot, original, made
        for slot, _, _ in new:
            _, original, made = here.slots[id(slot.holder), slot.key]
            if made is not original:
                slot.put(slot.key, made)
            if type(made) is not Outside:
                here.others[id(made)] = original
        found = [_at(here.slots[id(slot.holder), slot.key][2], path) for slot, path, _ in places]
    try:
        yield [one if type(one) is Outside else None for one in found]
    finally:
        with here.lock:
            here.count -= 1
            if not here.count:
                for slot, original, made in here.slots.values():
                    if made is not original and slot.get(slot.key) is made:  # others may be of immutable types
                        slot.put(slot.key, original)
                here.slots.clear()
                here.others.clear()


def given(values: Sequence[tuple[Outside | None, Any]]) -> AbstractContextManager[None]:
    """Let stand-ins stand for other values, in this thread."""
    return during(active, given=active.given | {id(one): value for one, value in values if one is not None})


def _with_stand_in(value: Any, path: tuple[int, ...], name: str) -> Any:
    if path:
        first, *rest = path
        parts = [_with_stand_in(part, tuple(rest), name) if k == first else part for k, part in enumerate(value)]
        return tuple.__new__(type(value), parts)
    if type(value) is Outside:
        return value
    return Outside(value, name) if isinstance(value, np.ndarray) else held_for(value)


def _at(value: Any, path: tuple[int, ...]) -> Any:
    for k in path:
        value = value[k] if isinstance(value, tuple) and k < len(value) else None
    return value


def plain(value: Any) -> Any:
    """Return what a stand-in stands for; anything else as it is."""
    return value.array if type(value) is Outside else _InPlace.others.get(id(value), value)


class Reading(NamedTuple):
    """An array that a function may read from outside.

    Attributes:
        number: its place among the arrays that the function may read.
        name: an identifier for it.
        by_value: it is a constant of the trace.
    """

    number: int
    stand_in: Outside
    name: str
    by_value: bool


class Reads:
    """What stand-ins are in the traces of one graph.

    Attributes:
        nodes: the inputs that they are, by the stand-ins' identities.
        plain: their arrays, not to be written.
        compared: the stand-ins whose values were constants somewhere.
        asked: the inputs that the function had in its hands, if for their shapes alone.
    """

    def __init__(self, graph: Graph, readings: Sequence[Reading]) -> None:
        """Make an input of each, before any other node: programs that are nested in the trace read them too."""
        self.nodes: dict[int, Node] = {}
        self.plain: dict[int, Plain] = {}
        self.compared: set[int] = set()
        self.asked: set[Node] = set()
        self.readings = readings
        for _, stand_in, name, by_value in readings:
            array = self.plain[id(stand_in)] = stand_in.array.view(np.ndarray)
            array.setflags(write=False)
            if not by_value:
                dtype = np.dtype(array.dtype.newbyteorder("=").str)
                params = name, array.shape, dtype
                self.nodes[id(stand_in)] = graph.node(leaves.input_, (), params, array.shape, dtype)
        self.found = {node: key for key, node in self.nodes.items()}

    def name_of(self, array: Plain) -> tuple[str, str]:
        """Return the name of an array that is one of these, or a copy of one, and what the user reads it by."""
        for _, stand_in, name, _ in self.readings:
            one = self.plain[id(stand_in)]
            if one is array or (one.shape == array.shape and np.array_equal(one, array)):
                return name, stand_in.name
        return "", ""

    def part_of(self, array: Plain) -> tuple[str, str]:
        """Return the name of an array that is a part of one of these, as far as it is known of which."""
        parts = [one for one in self.readings if np.may_share_memory(self.plain[id(one.stand_in)], array)]
        return (parts[0].name, f"part of {parts[0].stand_in.name}") if len(parts) == 1 else ("", "")

    def values(self) -> dict[Node, Plain]:
        """Return the arrays of the inputs."""
        return {node: self.plain[key] for node, key in self.found.items()}

    def read_by(self, program: Program) -> Program:
        """Return a program with the inputs that the function read, after its own.

        They are those that it reads, and those that were asked for their shapes alone, which calls compare.
        """
        every = replace(program, inputs=(*program.inputs, *self.found))
        read = {*every.outputs, *[i for node in every.nodes() for i in node.inputs]}
        shapes = {node for node in self.asked if self.found[node] not in self.compared}
        inputs = [node for node in self.found if node in read or node in shapes]
        columns = [node.param("name") for node in inputs if by_columns(self.plain[self.found[node]])]
        return replace(program, inputs=(*program.inputs, *inputs), fortran=program.fortran | {*columns})

    def numbers(self, program: Program) -> list[int]:
        """Return which arrays a program reads, by their places, in the order of its last inputs."""
        places = {id(reading.stand_in): reading.number for reading in self.readings}
        return [places[self.found[node]] for node in program.inputs if node in self.found]

    def known(self) -> list[int]:
        """Return of which arrays the values were asked for, by their places."""
        return [reading.number for reading in self.readings if id(reading.stand_in) in self.compared]

    def compare(self, nodes: Sequence[Node]) -> None:
        """Note that values of inputs were asked for."""
        self.compared.update([self.found[node] for node in nodes])


def constants_for(program: Program, arrays: Sequence[Plain]) -> Program:
    """Put constants in the place of a program's last inputs."""
    if not arrays:
        return program
    graph, count = Graph(), len(program.inputs) - len(arrays)
    inputs = tuple([graph.node(n.op, (), n.params, n.shape, n.dtype, n.line) for n in program.inputs[:count]])
    values = [
        leaves.make_constant(graph, array.astype(node.dtype), name=node.param("name"))
        for node, array in zip(program.inputs[count:], arrays, strict=True)
    ]
    return replace(program, inputs=inputs, outputs=tuple(replaced(graph, program, [*inputs, *values])))
