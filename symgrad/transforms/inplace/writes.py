"""`gather_writes`: n writes into an array become one node of n pieces, and what is read in between is found there.

``out[0] = a; out[1] = b; out[2] = out[1] + c`` is traced as one new array for each write. Here the writes are kept as
pieces, regions that share no element, each with its value: a read of a piece is its value, whatever else was written,
and the array itself is assembled once, where it is used as a whole. So n writes cost n, in the gradient too.
(Writes through traced indices are joined then, `scatters`.)
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from symgrad.ir.index import regions, shapes
from symgrad.ir.index.regions import Region
from symgrad.ir.index.shapes import is_static
from symgrad.ir.node import Graph, Node
from symgrad.ir.program import Program, afresh, copied, rebuild
from symgrad.ops.arrays.updates import assemble
from symgrad.ops.arrays.views import set_slice, slice_
from symgrad.transforms.build import literal, make, shaped
from symgrad.transforms.inplace.scatters import gather_scatters
from symgrad.transforms.tuned import PIECES


def gather_writes(program: Program) -> Program:
    """Find reads among the writes before them; assemble arrays of their pieces.

    >>> import numpy as np, symgrad as sg
    >>> def f(x):
    ...     out = np.zeros(2)
    ...     out[0] = x
    ...     out[1] = out[0] * 2
    ...     return out
    >>> print(sg.jit(f).lower(3.0).as_text("stable").split("(x")[1].split("return")[0].count("out["))
    0
    """
    if set_slice not in program.ops:
        return gather_scatters(program)
    writes = _Writes()
    graph = afresh(program)
    made = rebuild(program, writes.rewritten, into=graph)
    return gather_scatters(replace(made, outputs=tuple([writes.whole(graph, node) for node in made.outputs])))


class _Pieces:
    """What was written into one array, in order: regions that share no element, each with its values over time."""

    def __init__(self, base: Node) -> None:
        self.base = base
        self.length = 0
        self.written: dict[Region, list[tuple[int, Node]]] = {}
        self.wide: dict[Any, dict[Region, None]] = {}  # no single elements, by their form: of one form none meet

    def value(self, region: Region, length: int) -> Node | None:
        """Return what stood at a region, written as one piece, after so many writes."""
        found = None
        for number, value in self.written.get(region, ()):
            if number >= length:
                break
            found = value
        return found

    def meeting(self, region: Region, length: int) -> list[Region]:
        """List the pieces that may share elements with a region; of single elements one is enough to know."""
        own = _form(region)
        found = []
        for form, some in self.wide.items():
            if form != own:
                one = _one_of(form, region)
                found += [wide for wide in (some if one is None else [one] if one in some else [])
                          if self.written[wide][0][0] < length and not regions.disjoint(wide, region)]
        if regions.is_point(region):
            return found
        if regions.count(region) <= PIECES:
            places = (place for place, _ in regions.points(region))
            return found + [p for p in places if p in self.written and self.written[p][0][0] < length][:1]
        others = (p for p in self.written if regions.is_point(p) and self.written[p][0][0] < length)
        return found + [p for p in others if not regions.disjoint(p, region)][:1]

    def add(self, region: Region, value: Node) -> None:
        """Write a piece."""
        self.written.setdefault(region, []).append((self.length, value))
        self.length += 1
        if not regions.is_point(region):
            self.wide.setdefault(_form(region), {})[region] = None

    def are_many(self, region: Region) -> bool:
        """Whether a region would be compared with too many pieces."""
        own = _form(region)
        each = [1 if _one_of(form, region) else len(some) for form, some in self.wide.items() if form != own]
        return sum(each) >= PIECES


def _form(region: Region) -> Any:
    """Return what regions have in common that are equal or share no element: all but the places of single ones."""
    return tuple([entry if len(entry) > 1 else None for entry in region])


def _one_of(form: Any, region: Region) -> Region | None:
    """Return which region of a form alone may share elements with another region; None where several may."""
    if any(own is None and len(entry) > 1 for own, entry in zip(form, region, strict=True)):
        return None
    return tuple([entry if own is None else own for own, entry in zip(form, region, strict=True)])


class _Version(NamedTuple):
    """An array after so many writes."""

    pieces: _Pieces
    length: int

    def parts(self) -> list[tuple[Region, Node]]:
        """List the pieces with their values."""
        found = [(region, self.pieces.value(region, self.length)) for region in self.pieces.written]
        return [(region, value) for region, value in found if value is not None]


class _Writes:
    """The versions of arrays, by the nodes that stand for them until they are assembled."""

    def __init__(self) -> None:
        self.versions: dict[Node, _Version] = {}
        self.assembled: dict[Node, Node] = {}

    def rewritten(self, graph: Graph, node: Node, inputs: tuple[Node, ...]) -> Node:
        """Make a node anew: a write becomes a piece, a read is looked up, what else reads an array has it assembled."""
        if node.op is set_slice and is_static(node.shape) and regions.is_known(node.params[0]):
            return self.written(graph, inputs[0], inputs[1], node.params[0])
        if node.op is slice_ and inputs[0] in self.versions and regions.is_known(node.params[0]):
            return self.read(graph, inputs[0], node.params[0])
        return copied(graph, node, tuple([self.whole(graph, i) for i in inputs]))

    def written(self, graph: Graph, x: Node, value: Node, region: Region) -> Node:
        """Write; what was written into a view of the array, which is now put back, is written into the array."""
        if region == regions.whole(x.shape):
            return value
        view = self.versions.get(value)
        if view is None or self.read(graph, x, region) is not view.pieces.base:
            return self.put(graph, x, region, value)
        for own, part in view.parts():
            x = self.put(graph, x, regions.inside(own, region), part)
        return x

    def put(self, graph: Graph, x: Node, region: Region, value: Node) -> Node:
        """Add a piece, or write into the one piece that holds the region; else start over from the assembled array."""
        version = self.versions.get(x)
        if version is None or x in self.assembled or version.length != version.pieces.length:
            version = _Version(_Pieces(self.whole(graph, x)), 0)
        pieces, length = version
        made = make(graph, set_slice, x, value, index=region)
        if region not in pieces.written:
            meeting = [] if pieces.are_many(region) else pieces.meeting(region, length)
            own = regions.within(region, meeting[0]) if len(meeting) == 1 else None
            if own is not None:
                before: Node = pieces.value(meeting[0], length)  # type: ignore[assignment]  # it is written
                region, value = meeting[0], self.written(graph, before, value, own)
            elif meeting or pieces.are_many(region):
                pieces = _Pieces(self.whole(graph, x))
        pieces.add(region, value)
        self.versions[made] = _Version(pieces, pieces.length)
        return made

    def read(self, graph: Graph, x: Node, region: Region) -> Node:
        """Return a region of an array: a piece, a part of one, single elements together, or what no write has met."""
        while x in self.versions:
            version = self.versions[x]
            pieces, length = version
            found = pieces.value(region, length)
            if found is not None:
                return found
            if pieces.are_many(region):
                x = self.whole(graph, x)
                break
            meeting = pieces.meeting(region, length)
            own = regions.within(region, meeting[0]) if len(meeting) == 1 else None
            if own is not None:
                x, region = pieces.value(meeting[0], length), own  # type: ignore[assignment]  # it is written
            elif not meeting:
                x = pieces.base
            elif not all(map(regions.is_point, meeting)) or regions.count(region) > PIECES:
                x = self.whole(graph, x)
            else:
                return self.gathered(graph, version, region)
        return x if region == regions.whole(x.shape) else make(graph, slice_, x, index=region)

    def gathered(self, graph: Graph, version: _Version, region: Region) -> Node:
        """Assemble a region of single elements and of what stood around them."""
        found = [(own, version.pieces.value(place, version.length)) for place, own in regions.points(region)]
        around = make(graph, slice_, version.pieces.base, index=region)
        return assembled(graph, around, [(own, value) for own, value in found if value is not None])

    def whole(self, graph: Graph, node: Node) -> Node:
        """Return an array as one node, assembled of its pieces."""
        version = self.versions.get(node)
        if version is None:
            return node
        if node not in self.assembled:
            parts = [(region, self.whole(graph, value)) for region, value in version.parts()]
            self.assembled[node] = assembled(graph, version.pieces.base, parts)
        return self.assembled[node]


def assembled(graph: Graph, base: Node, parts: list[tuple[Region, Node]]) -> Node:
    """Put pieces into an array; where they are all of it, the array before does not matter."""
    if sum(regions.count(region) for region, _ in parts) == shapes.size(base.shape):
        base = shaped(graph, literal(graph, 0, base.dtype), base.shape)
    values = [value for _, value in parts]
    return make(graph, assemble, base, *values, indices=tuple([region for region, _ in parts]))
