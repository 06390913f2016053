"""`fuse`: which axes are one loop, and which statements share it.

Two axes are one class when an access reads one with the bare loop variable of the other. For a class, sweeps
happen at odd times; a statement that does not iterate over it has an even time. Statements with one time are
one loop. Inside it the same question is asked again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from symgrad.ir.notation import Axis, Lookup, Number, accesses, parts
from symgrad.ir.shapes import upper
from symgrad.loops.classes import Graph, classify, components, looked_up_rows, read_accesses
from symgrad.loops.lower import elements
from symgrad.loops.products import batch_axes, is_product
from symgrad.loops.program import Loop
from symgrad.loops.threads import CALL, operations
from symgrad.loops.times import Times

if TYPE_CHECKING:
    from symgrad.ir.notation import Access
    from symgrad.loops.program import Array, Item, LoopProgram


TINY = 8
"""A loop of at most so many iterations is no reason for a nest of its own."""

MANY = 16
"""With more classes of much the same work, none of them is the one to choose."""

SMALL = 4096
"""Classes that all carry less work are much the same."""

ALIVE = 4096
"""With fewer bytes alive for one iteration, tiles are long enough without a second loop."""

LEAP = 1 << 16
"""An array of at most so many bytes is near enough to be walked in any order."""

ROWS = 128
"""So many rows are too many to walk side by side, a piece of each at a time."""

HEAVY = 1 << 13
"""An iteration with a product of so many numbers shares no tile with others."""

CANDIDATES = 4
"""So many classes are compared for the outermost loop."""


class Sweep(NamedTuple):
    """An outermost loop.

    Attributes:
        axis: what it walks.
        nests: its loops over a tile of the axis, in order.
        body: the same nests, some of them inside of loops over a second axis.
        heavy: an iteration does products of its own, and much work: no other shares its tile.
    """

    axis: Axis
    nests: list[Loop]
    body: list[Item]
    heavy: bool


class Fusion:
    """The recursive scheduler: statements to a tree of loops."""

    def __init__(self, lowered: LoopProgram) -> None:
        """Classify the axes and weigh the statements."""
        self.statements = lowered.statements
        self.graph = Graph(self.statements)
        self.classes = classify(self.statements, self.graph)
        self.axis_of: list[dict[Axis, Axis]] = [
            {self.classes.find(axis): axis for axis in s.axes} for s in self.statements
        ]
        self.scattered = {
            s.target.array for s in self.statements
            if any(isinstance(p, Lookup) for i in s.target.indices for p in parts(i))
        }
        self.prefixes = {array for s in self.statements for array in s.prefix}
        self.running = self.running_apart()
        self.products = [is_product(s) for s in self.statements]
        self.work = [elements([a.extent for a in s.axes]) for s in self.statements]
        around = [frozenset([*batch_axes(s), *looked_up_rows(s, TINY)]) for s in self.statements]
        pairs = zip(self.axis_of, around, strict=True)
        self.around = {found for own, kept in pairs for found, axis in own.items() if axis in kept}

    def tree(self) -> list[Any]:
        """Build the whole tree."""
        everything = list(range(len(self.statements)))
        remaining = {k: frozenset(self.axis_of[k]) for k in everything}
        return self.block(everything, remaining, outermost=True)

    def block(self, members: list[int], remaining: dict[int, frozenset[Axis]], *, outermost: bool = False) -> list[Any]:
        """Schedule statements with the axes that no loop around them has taken.

        An outermost loop that is not tiny becomes a `Sweep`: its body falls into nests of one kind each. Inside of
        a nest, and for tiny loops, the same question is asked again.
        """
        items: list[Any] = []
        parts: list[tuple[int, list[int], Any]] = [(0, members, None)]
        while parts:
            time, part, chosen = parts.pop()
            if time % 2 == 0:
                islands = self.islands(part, remaining)
                if len(islands) > 1:
                    parts.extend((0, island, None) for island in reversed(islands))
                    continue
                outer = self.choose(part, remaining)
                if outer is None:
                    items.extend(self.statements[k] for k in part)
                else:
                    parts.extend((t, p, outer) for t, p in reversed(self.times(part, outer, remaining)))
            elif outermost and self.is_long(chosen):
                axis = self.choose(part, remaining, chosen) or chosen  # alone it may be better off along another one
                again = self.times(part, axis, remaining)
                if axis is chosen or len(again) == 1:
                    items.append(self.sweep(part, remaining, axis))
                else:
                    parts.extend((t, p, axis) for t, p in reversed(again))
            else:
                inner = {k: remaining[k] - {chosen} for k in part}
                items.append(self.loop(chosen, part, self.block(part, inner)))
        return items

    def sweep(self, part: list[int], remaining: dict[int, frozenset[Axis]], chosen: Axis) -> Sweep:
        """Make the body of an outermost loop: nests of one kind each, those that share much inside of a second loop."""
        nests: list[Loop] = []
        body: list[Item] = []
        second = self.second(part, remaining, chosen)
        pieces = [(0, part)] if second is None else self.times(part, second, self.second_axes(part, remaining, chosen))
        for time, piece in pieces:
            taken = frozenset([second]) if second is not None and time % 2 else frozenset()
            inner = {k: remaining[k] - taken for k in piece}
            made = [self.nest(group, inner, chosen) for group in self.groups(piece, inner)]
            nests += made
            body += [self.loop(second, piece, [*made])] if second is not None and taken else made
        return Sweep(chosen, nests, body, second is None and self.is_heavy(part, chosen))

    def is_heavy(self, part: list[int], chosen: Axis) -> bool:
        """Tell a class along which products are done one after the other, each of them long."""
        walked = [k for k in part if self.products[k]]
        if any(axis is self.axis_of[k][chosen] for k in part for axis, _, _ in self.statements[k].ranges):
            return False
        alone = all(self.axis_of[k][chosen] in batch_axes(self.statements[k]) for k in walked)
        return alone and any(self.work[k] >= HEAVY * upper(chosen.extent) for k in walked)

    def second_axes(
        self, part: list[int], remaining: dict[int, frozenset[Axis]], chosen: Axis,
    ) -> dict[int, frozenset[Axis]]:
        """Leave to each statement the long axes a second loop may take: of those with two besides the outermost."""
        long = {k: frozenset([a for a in remaining[k] if upper(a.extent) > TINY and a is not chosen]) for k in part}
        return {k: axes if len(axes) > 1 else frozenset() for k, axes in long.items()}

    def second(self, part: list[int], remaining: dict[int, frozenset[Axis]], chosen: Axis) -> Axis | None:
        """Choose a second loop inside of a tile: where much lives for one, the class that makes it least.

        A class that a product has in all of its arrays may be one; rows, lanes and depth stay inside.
        """
        axes = self.second_axes(part, remaining, chosen)
        able: dict[Axis, None] = dict.fromkeys([axis for k in part for axis in sorted(axes[k], key=self.order)])
        for k in part:
            for axis in axes[k]:
                if axis in able and not self.outside(k, axis, axes[k]):
                    del able[axis]
        alive = self.alive(part, axes, None)
        if not able or alive < ALIVE:
            return None
        best = min(able, key=lambda axis: self.alive(part, axes, axis))
        return best if 2 * self.alive(part, axes, best) <= alive else None

    def order(self, axis: Axis) -> int:
        """Return which statement has an axis first, so that equal programs give equal loops."""
        return min(self.classes.users[axis])

    def outside(self, k: int, axis: Axis, others: frozenset[Axis]) -> bool:
        """Tell whether a loop over an axis may stand around a statement: no array is then walked in leaps."""
        s = self.statements[k]
        own = self.axis_of[k][axis]
        rest = {self.axis_of[k][other] for other in others} - {own}
        found = [s.target, *[a for a in accesses(s.value) if not a.flat]]
        if self.products[k] and not all(own in a.indices for a in (s.target, *accesses(s.value))):
            return False
        return not any(a.indices and a.indices[-1] is own and rest & set(a.indices) for a in found)

    def alive(self, part: list[int], axes: dict[int, frozenset[Axis]], second: Axis | None) -> int:
        """Count the bytes that live for one iteration, under a second loop."""
        time = {} if second is None else {k: t for t, piece in self.times(part, second, axes) for k in piece}
        uses: dict[Array, set[int]] = {}
        taken: dict[Array, int] = {}
        for k in part:
            for access in [self.statements[k].target, *read_accesses(self.statements[k])]:
                if access.array.kind == "temporary":
                    uses.setdefault(access.array, set()).add(time.get(k, 0))
                    if second is not None and second in axes[k]:
                        taken[access.array] = upper(second.extent)
        total = 0
        for array, times in uses.items():
            whole = elements(array.shape[1:]) * array.dtype.itemsize
            inside = len(times) == 1 and next(iter(times)) % 2 == 1
            total += whole // taken.get(array, 1) if inside else whole
        return total

    def loop(self, chosen: Axis, part: list[int], body: list[Item]) -> Loop:
        """Make the loop over a class."""
        axes = frozenset([self.axis_of[k][chosen] for k in part])
        return Loop(chosen, axes | {chosen}, body)

    def groups(self, members: list[int], remaining: dict[int, frozenset[Axis]]) -> list[list[int]]:
        """Gather statements that iterate over the same axes and need only what the same iteration makes.

        Tiny axes do not count: they are loops inside of the group's nest. What a sum over further axes starts from
        comes first, so that it stands between no two groups.
        """
        found: list[list[int]] = []
        kinds: list[frozenset[Any]] = []
        place: dict[int, int] = {}
        latest: dict[frozenset[Any], int] = {}
        for k in self.starts_first(members, remaining):
            axes = frozenset([axis for axis in remaining[k] if self.is_long(axis)])
            kind = axes | self.apart(k)
            alone = len(axes) > 2 and self.products[k]
            least = 0
            for writer, access in self.graph.needs[k]:
                if writer in place:
                    at = place[writer]
                    together = kinds[at] == kind and all(self.local(writer, k, access, axis) for axis in axes)
                    least = max(least, at if together else at + 1)
            where = latest.get(kind, -1)
            if where < least or alone:
                where = latest[kind] = len(found)
                found.append([])
                kinds.append(kind)
            found[where].append(k)
            place[k] = where
            if alone:
                del latest[kind]
        return found

    def running_apart(self) -> set[Array]:
        """Find the running sums beside which so much is computed that it should be lanes, in a loop of its own."""
        much = {frozenset(own) for own, s in zip(self.axis_of, self.statements, strict=True) if operations(s) > CALL}
        scans = [(own, s) for own, s in zip(self.axis_of, self.statements, strict=True) if s.prefix]
        return {array for own, s in scans if frozenset(own) in much for array in s.prefix}

    def apart(self, k: int) -> frozenset[str]:
        """Name what keeps a statement from others over the same axes: a running sum, or a flag that is no lanes."""
        s = self.statements[k]
        flag = (
            s.how in {"|=", "&="} and s.target.array not in self.prefixes
            and any(a.indices and a.indices[-1] not in s.target.indices for a in s.reads)
        )
        words = {s.note or s.how} if s.note or flag else set()
        return frozenset(words | {"running"} if (s.prefix | {s.target.array}) & self.running else words)

    def is_long(self, axis: Axis) -> bool:
        """Tell an axis that is no tiny loop inside of a statement's nest, where no other would be lanes."""
        return upper(axis.extent) > TINY or axis in self.around

    def starts_first(self, members: list[int], remaining: dict[int, frozenset[Axis]]) -> list[int]:
        """Put numbers that a statement over more axes adds to before everything else."""
        starts = {
            writer for k in members for writer, access in self.graph.needs[k]
            if access is self.statements[k].target and isinstance(self.statements[writer].value, Number)
            and writer in remaining and len(remaining[writer]) < len(remaining[k]) and not self.graph.needs[writer]
        }
        return sorted(members, key=lambda k: k not in starts) if starts else members

    def nest(self, members: list[int], remaining: dict[int, frozenset[Axis]], chosen: Axis) -> Loop:
        """Make a perfect nest of a group: the chosen class, what is parallel, what is reduced; then tiny loops."""
        axes = [axis for axis in remaining[members[0]] if self.is_long(axis) and axis is not chosen]
        reduced = {
            axis for k in members for axis in axes if self.axis_of[k][axis] not in self.statements[k].target.indices
        }
        order = [chosen, *sorted(axes, key=lambda axis: (axis in reduced, self.position(axis, members[0])))]
        inner = {k: remaining[k] - set(order) for k in members}
        nest = self.loop(order[-1], members, self.block(members, inner))
        for axis in reversed(order[:-1]):
            nest = self.loop(axis, members, [nest])
        return nest

    def position(self, axis: Axis, member: int) -> int:
        """Return where a statement has an axis, so that equal programs give equal loops."""
        return self.statements[member].axes.index(self.axis_of[member][axis])

    def islands(self, members: list[int], remaining: dict[int, frozenset[Axis]]) -> list[list[int]]:
        """Part a long chain of small loops where no loop could join both sides, in an order that serves all needs.

        Statements that share a class belong together, and so does what is needed by some of them and needs others.
        Each part asks on its own: to ask all of them about each class would take the square of their number.
        """
        if len(self.candidates(members, remaining)[1]) <= MANY:
            return [members]
        beside: dict[Any, list[Any]] = {k: [] for k in members}
        for k in members:
            for axis in self.axis_of[k]:
                if axis in remaining[k]:
                    beside[k].append(axis)
                    beside.setdefault(axis, []).append(k)
            beside[k] += [writer for writer, _ in self.graph.needs[k] if writer in beside]
        found = [sorted([k for k in part if type(k) is int]) for part in components(beside)]
        return [part for part in found if part]

    def choose(
        self, members: list[int], remaining: dict[int, frozenset[Axis]], usual: Axis | None = None,
    ) -> Axis | None:
        """Choose the class of the outermost loop: of those with much work, the one that stores least between sweeps.

        Where nothing speaks for another, it is the usual one.
        """
        work, able = self.candidates(members, remaining)
        if len(work) <= 1:
            return next(iter(work), None)
        if any(self.products[k] for k in members):  # a tiny axis is a block's rows or lanes, inside
            able = [axis for axis in able if self.is_long(axis)] or able
        if len(able) > MANY:  # a long chain of small loops: cut it in the middle, so that this takes n log n
            return self.middle(members, set(able), remaining)
        able = sorted(able, key=lambda axis: (axis is not usual, -work[axis]))[:CANDIDATES]
        return min(able, key=lambda axis: self.crossing(members, axis, remaining)) if len(able) > 1 else able[0]

    def candidates(
        self, members: list[int], remaining: dict[int, frozenset[Axis]],
    ) -> tuple[dict[Axis, int], list[Axis]]:
        """Return the work along each class, and the classes of much the same work as the one with most."""
        work: dict[Axis, int] = {}
        for k in members:
            for axis in self.axis_of[k]:
                if axis in remaining[k]:
                    work[axis] = work.get(axis, 0) + self.work[k]
        most = max(work.values(), default=0)
        return work, [axis for axis, w in work.items() if 2 * w >= most or most < SMALL]

    def middle(self, members: list[int], able: set[Axis], remaining: dict[int, frozenset[Axis]]) -> Axis:
        """Return the class of the most statements, of equals the one that comes up nearest to the middle."""
        count: dict[Axis, int] = dict.fromkeys(able, 0)
        distance: dict[Axis, int] = {}
        for place, k in enumerate(members):
            for axis in self.axis_of[k]:
                if axis in able and axis in remaining[k]:
                    count[axis] += 1
                    far = abs(2 * place - len(members))
                    distance[axis] = min(far, distance.get(axis, far))
        return min(distance, key=lambda axis: (-count[axis], distance[axis]))

    def crossing(self, members: list[int], chosen: Axis, remaining: dict[int, frozenset[Axis]]) -> int:
        """Count the elements that live from one time to a later one, and those of inputs read at several times.

        What is written at looked-up places is there as a whole in any case.
        """
        time = Times(self, members, chosen, {k: chosen in remaining[k] for k in members}).best()
        stored: dict[Array, int] = {}
        read: dict[Array, set[int]] = {}
        for k in members:
            here = time[k]
            for writer, access in self.graph.needs[k]:
                if time.get(writer, here) != here and access.array not in self.scattered:
                    stored[access.array] = elements(access.array.shape)
            for array in self.graph.given[k]:
                read.setdefault(array, set()).add(here)
        again = sum((len(times) - 1) * elements(array.shape) for array, times in read.items())
        leaps = {(a, time[k]) for k in members if time[k] % 2 for a in self.leaps(k, chosen, remaining[k])}
        return sum(stored.values()) + again + sum(elements(array.shape) for array, _ in leaps)

    def leaping(self, time: dict[int, int], chosen: Axis, remaining: dict[int, frozenset[Axis]]) -> set[int]:
        """Find sums whose matrix is read in leaps by them alone.

        ``A[j, i] * y[i]`` in the sweep over i that makes ``y[i]``: a piece of every row for each tile, for a vector
        that is not stored. It is better off in a sweep over the rows; unless this one reads those columns anyway.
        """
        readers: dict[tuple[Array, int], set[int]] = {}
        for k, t in time.items():
            if t % 2:
                for array in self.leaps(k, chosen, remaining[k]):
                    readers.setdefault((array, t), set()).add(k)
        alone = {k for (k, *others) in readers.values() if not others}
        running = self.graph.running(time)  # one loop with what reads it
        return {k for k in alone if self.statements[k].how == "+=" and self.statements[k].target.array not in running}

    def leaps(self, k: int, chosen: Axis, remaining: frozenset[Axis]) -> list[Array]:
        """List the large matrices a statement walks in leaps when it runs in tiles of a class: their last axis."""
        if self.products[k] or chosen not in remaining:
            return []
        s, own = self.statements[k], self.axis_of[k][chosen]
        long = [self.axis_of[k][a] for a in remaining if a is not chosen]
        return [
            a.array for a in (s.target, *s.reads)
            if not a.flat and a.indices[-1:] == (own,) and elements([i.extent for i in long if i in a.indices]) >= ROWS
            and elements(a.array.shape) * a.array.dtype.itemsize > LEAP
        ]

    def times(
        self, members: list[int], chosen: Axis, remaining: dict[int, frozenset[Axis]],
    ) -> list[tuple[int, list[int]]]:
        """Give every statement its time for a class, and group them by it."""
        iterates = {k: chosen in remaining[k] for k in members}
        time = Times(self, members, chosen, iterates).best()
        leaping = self.leaping(time, chosen, remaining)
        if leaping and len(leaping) < sum(iterates.values()):
            time = Times(self, members, chosen, iterates | dict.fromkeys(leaping, False)).best()
        groups: dict[int, list[int]] = {}
        for k in members:
            groups.setdefault(time[k], []).append(k)
        return sorted(groups.items())

    def local(self, writer: int, reader: int, access: Access, chosen: Axis) -> bool:
        """Tell whether a value is read in the very iteration that makes it."""
        if access.array in self.statements[reader].prefix:
            return True
        made, own = self.axis_of[writer][chosen], self.axis_of[reader][chosen]
        if access.flat:
            return False
        pairs = zip(self.statements[writer].target.indices, access.indices, strict=True)
        same = [ours is own for theirs, ours in pairs if theirs is made]  # two on a diagonal: by rows and by columns
        return (any(same) and all(same)) or self.accumulates(writer, reader, made, own)

    def accumulates(self, writer: int, reader: int, made: Axis, own: Axis) -> bool:
        """Tell two statements that add to one array along an axis both reduce: their order does not matter."""
        first, second = self.statements[writer], self.statements[reader]
        return (
            first.target.array is second.target.array and first.how == second.how == "+="
            and made not in first.target.indices and own not in second.target.indices
            and first.target.array not in {a.array for a in accesses(second.value)}
        )



def fuse(lowered: LoopProgram) -> list[Item | Sweep]:
    """Build the tree of loops of a lowered program, its outermost loops as sweeps for `tile`."""
    return Fusion(lowered).tree()
