"""`fuse`: which axes are one loop, and which statements share it.

Two axes are one class when an access reads one with the bare loop variable of the other. For a class, sweeps
happen at odd times; a statement that does not iterate over it has an even time. Statements with one time are
one loop. Inside it the same question is asked again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from symgrad.ir.graphs import Partition
from symgrad.ir.index.notation import Access, Axis, How, Number, Role, Statement, accesses, looked_up
from symgrad.ir.index.shapes import upper
from symgrad.loops.cost import element_count, estimate
from symgrad.loops.fusion.tile import swept_loops, tile_rows
from symgrad.loops.machine import (
    ALIVE,
    BLOCKED,
    CALL,
    CANDIDATES,
    FAR_BYTES,
    HEAVY,
    MANY_CLASSES,
    NEAR_BYTES,
    PAYS,
    SIDE_BY_SIDE,
    SMALL_WORK,
    TILE_BLOCKS,
    TINY,
)
from symgrad.loops.program import Array, Item, Items, Loop, LoopProgram
from symgrad.loops.statements.products import batch_axes, is_block, stays_product
from symgrad.loops.statements.unroll import around_lanes


class Classes(Partition[Axis]):
    """Axes that are one loop variable, with the statements of each class.

    A union that would put two axes of one statement into one class is refused.
    """

    def __init__(self, statements: Sequence[Statement], graph: DependenceGraph) -> None:
        """Unite axes: along what is computed first, along inputs last."""
        super().__init__({axis: axis for s in statements for axis in s.axes})
        self.users: dict[Axis, set[int]] = {axis: set() for axis in self}
        for k, statement in enumerate(statements):
            for axis in statement.axes:
                self.users[axis].add(k)
        for k in range(len(statements)):
            for writer, access in graph.needs[k]:
                self.along(statements[writer].target, access)
        readers: dict[tuple[Array, bool], Access] = {}
        for statement in statements:
            for access in accesses(statement.value):
                if access.array.is_given:
                    self.along(readers.setdefault((access.array, access.flat), access), access)

    def along(self, other: Access, access: Access) -> None:
        """Unite the axes by which an array is touched here and there, but for those that a routine walks itself."""
        if access.flat == other.flat:
            for theirs, ours in zip(other.indices, access.indices, strict=True):
                a, b = (self.find(theirs), self.find(ours)) if theirs in self and ours in self else (None, None)
                if a is None or b is None or a is b or a.extent != b.extent:
                    continue
                few, many = sorted((self.users[a], self.users[b]), key=len)
                if many.isdisjoint(few):  # else a statement has both
                    self[b], self.users[a] = a, many
                    del self.users[b]
                    many |= few


class DependenceGraph:
    """Who writes what before whom: for each statement, what it depends on and by which access.

    An array's writers follow each other, so a reader depends on the last of them alone. What is written at looked-up
    places of an output that is to have an input's memory waits for all that reads the input before.

    Attributes:
        needs: for each statement, the writers of what it reads, and by which access.
        users: for each statement, who needs it, and by which access.
        given: for each statement, the inputs and constants that it reads.
        long: for each extent, the statements that touch arrays with a dimension of it, and these arrays.
        guards: the statements that decide that a call goes another way: the earlier, the less was done for nothing.
    """

    def __init__(self, statements: Sequence[Statement], donated: Sequence[tuple[Array, Array]] = ()) -> None:
        self.statements = statements
        memory = {target: source for source, target in donated}
        for s in reversed(statements) if donated else ():
            if s.target.array in memory and isinstance(s.value, Access) and s.value.indices == s.target.indices:
                memory.setdefault(s.value.array, memory[s.target.array])  # of which it is a copy: they become one
        readers: dict[Array, list[int]] = {source: [] for source, _ in donated}
        self.needs: list[list[tuple[int, Access]]] = []
        self.users: list[list[tuple[int, Access]]] = [[] for _ in statements]
        last: dict[Array, int] = {}
        self.guards = {k for k, s in enumerate(statements) if s.role is Role.GUARD}
        failing: list[tuple[int, Access]] = []  # the first one in program order decides what a call says
        for k, statement in enumerate(statements):
            found = [(last[a.array], a) for a in statement.reads if a.array in last]
            before = last.get(statement.target.array)
            if before is not None:
                found.append((before, statement.target))
            if self.guards and statement.may_fail:
                found += failing[-1:]
                failing.append((k, statement.target))
            if statement.target.array in memory and statement.target.is_indirect:
                apart = Access(statement.target.array, (0,), flat=True)
                found += [(reader, apart) for reader in readers[memory[statement.target.array]]]
            for array in {access.array for access in statement.reads} & readers.keys():
                readers[array].append(k)
            self.needs.append(found)
            for writer, access in found:
                self.users[writer].append((k, access))
            last[statement.target.array] = k
        self.given = [{a.array: None for a in s.reads if a.array.is_given} for s in statements]
        self.long: dict[Any, dict[int, list[Array]]] = {}
        for k, s in enumerate(statements):
            for array in dict.fromkeys([access.array for access in s.touched]):
                for dim in dict.fromkeys(array.shape):
                    self.long.setdefault(dim, {}).setdefault(k, []).append(array)
        self.prefixed = [k for k, s in enumerate(statements) if s.prefix]

    def running(self, members: Container[int]) -> set[Array]:
        """Collect the running values that statements read."""
        return {array for k in self.prefixed if k in members for array in self.statements[k].prefix}


def components(beside: Mapping[Any, Iterable[Any]]) -> list[list[Any]]:
    """Return the strongly connected parts of a graph, each after those that lie beside it (R. Tarjan, 1972).

    Args:
        beside: for each node those that an edge leads to; all of them are nodes.
    """
    found: list[list[Any]] = []
    number: dict[Any, int] = {}
    low: dict[Any, int] = {}
    path: list[Any] = []  # of what is in no part yet
    for start in beside:
        todo = [] if start in number else [(start, iter(beside[start]))]
        if todo:
            number[start] = low[start] = len(number)
            path.append(start)
        while todo:
            node, ahead = todo[-1]
            for other in ahead:
                if other not in number:
                    number[other] = low[other] = len(number)
                    path.append(other)
                    todo.append((other, iter(beside[other])))
                    break
                low[node] = min(low[node], low[other])
            else:
                todo.pop()
                if todo:
                    low[todo[-1][0]] = min(low[todo[-1][0]], low[node])
                if low[node] == number[node]:
                    place = len(path) - 1
                    while path[place] is not node:
                        place -= 1
                    found.append(path[place:])
                    del path[place:]
                    low.update(dict.fromkeys(found[-1], len(beside)))  # done: no edge into it leads back
    return found


def looked_up_rows(s: Statement) -> set[Axis]:
    """Find the axes by which a statement looks up rows that are not tiny: along them it walks in leaps."""
    found: set[Axis] = set()
    for access in (s.target, *accesses(s.value)):
        last = access.indices[-1] if access.indices and not access.flat else None
        if isinstance(last, Axis) and upper(last.extent) > TINY:
            found |= {p for table in looked_up(access.indices) for p in table.parts} - {last}
    return found


class Times:
    """The times of some statements for one class: odd for those that iterate over it, even for the others.

    As early as possible and as late as possible are both right; what lives from one sweep to a later one, and what is
    read again, decides between them.
    """

    def __init__(self, fusion: Fusion, members: list[int], chosen: Axis, iterates: dict[int, bool]) -> None:
        self.fusion, self.members, self.chosen, self.iterates = fusion, members, chosen, iterates
        self.needs, self.users, self.guards = fusion.graph.needs, fusion.graph.users, fusion.graph.guards
        found: dict[int, list[Array]] = fusion.graph.long.get(chosen.extent, {})
        self.long = {k: found[k] for k in members if k in found}

    def best(self) -> dict[int, int]:
        """Return the times of which least is stored and read again; as early as possible, where nothing else counts."""
        early: dict[int, int] = {}
        for k in self.members:
            early[k] = self.earliest(k, early)
        last = max(early.values(), default=0)
        if last < 2 or not self.long:  # one sweep: there is nothing to choose
            return early
        late: dict[int, int] = {}
        for k in reversed(self.members):
            late[k] = early[k] if k in self.guards else max(early[k], self.latest(k, late, last))
        stored = self.move(early, last, later=True)
        return early if stored <= self.move(late, last, later=False) else late

    def earliest(self, k: int, time: dict[int, int]) -> int:
        """Return the first time after what a statement needs."""
        if not self.iterates[k]:
            t = 0
            for writer, _ in self.needs[k]:
                theirs = time.get(writer, 0)
                if theirs > t:
                    t = theirs + theirs % 2
            return t
        t = 1
        for writer, access in self.needs[k]:
            theirs = time.get(writer, 0)
            if theirs % 2 == 0:
                t = max(t, theirs + 1)
            else:
                t = max(t, theirs if self.fusion.local(writer, k, access, self.chosen) else theirs + 2)
        return t

    def latest(self, k: int, time: dict[int, int], last: int) -> int:
        """Return the last time before what needs a statement."""
        if not self.iterates[k]:
            t = last - last % 2
            for user, _ in self.users[k]:
                theirs = time.get(user, t)
                if theirs < t:
                    t = theirs - theirs % 2
            return t
        t = last - (last % 2 == 0)
        for user, access in self.users[k]:
            if user not in time:
                continue
            theirs = time[user]
            if theirs % 2 and self.fusion.local(k, user, access, self.chosen):
                t = min(t, theirs)
            else:
                t = min(t, theirs - 2 if theirs % 2 else theirs - 1)
        return t

    def move(self, time: dict[int, int], last: int, *, later: bool) -> int:
        """Move one statement after the other where that costs less; later also where it costs the same.

        Returns:
            The bytes of long arrays that are kept or read again, once for each further sweep.
        """
        touching: dict[Array, Counter[int]] = {}  # of each long array, how many statements of each time touch it
        for k, arrays in self.long.items():
            for array in arrays:
                touching.setdefault(array, Counter())[time[k]] += 1
        running = self.fusion.graph.running(time)
        for k in reversed(self.members) if later else self.long:
            s = self.fusion.statements[k]
            if k in self.guards or (running and (s.prefix or s.target.array in running)):
                continue  # a running value and what reads it are one loop
            here = time[k]
            there = self.latest(k, time, last) if later else self.earliest(k, time)
            if there == here or (there > here) != later:
                continue
            mine = self.long.get(k, ())
            more = sum([array_bytes(a) * ((there not in touching[a]) - (touching[a][here] == 1)) for a in mine])
            if more < 0 or (later and more == 0):
                time[k] = there
                for array in mine:
                    times = touching[array]
                    times[there] += 1
                    times[here] -= 1
                    if not times[here]:
                        del times[here]
        return sum([(len(times) - 1) * array_bytes(array) for array, times in touching.items()])


def array_bytes(array: Array) -> int:
    """Estimate an array's bytes."""
    return array.elements * array.dtype.itemsize


class Fusion:
    """The recursive scheduler: statements to a tree of loops."""

    def __init__(self, lowered: LoopProgram) -> None:
        self.statements = lowered.statements
        self.new: list[Array] = []  # copies of sums
        self.graph = DependenceGraph(self.statements, lowered.donated)
        self.classes = Classes(self.statements, self.graph)
        self.axis_of: list[dict[Axis, Axis]] = [
            {self.classes.find(axis): axis for axis in s.axes} for s in self.statements
        ]
        self.scattered = {s.target.array for s in self.statements if s.target.is_indirect}
        much = {frozenset(own) for own, s in zip(self.axis_of, self.statements, strict=True) if estimate(s) > CALL}
        self.running = {  # beside which so much is computed that it should be lanes, in a loop of its own
            array for own, s in zip(self.axis_of, self.statements, strict=True) if frozenset(own) in much
            for array in s.prefix
        }
        self.asked: tuple[Any, Any, dict[Axis, dict[int, int]]] = (None, None, {})
        self.near: dict[tuple[int, int, Access, Axis], bool] = {}
        self.products = [s.is_contraction for s in self.statements]
        self.large = [
            [a for a in s.touched if not a.flat and len(a.indices) > 1 and array_bytes(a.array) > NEAR_BYTES]
            for s in self.statements
        ]
        self.work = [element_count([a.extent for a in s.axes]) for s in self.statements]
        around = [frozenset([*batch_axes(s), *looked_up_rows(s), *around_lanes(s)]) for s in self.statements]
        pairs = zip(self.axis_of, around, strict=True)
        self.around = {found for own, kept in pairs for found, axis in own.items() if axis in kept}

    def tree(self) -> list[Item]:
        """Build the whole tree."""
        everything = list(range(len(self.statements)))
        remaining = {k: frozenset(self.axis_of[k]) for k in everything}
        return self.block(everything, remaining, outermost=True)

    def block(
        self, members: list[int], remaining: dict[int, frozenset[Axis]], *, outermost: bool = False,
    ) -> list[Item]:
        """Schedule statements with the axes that no loop around them has taken.

        The body of an outermost loop that is not tiny falls into nests of one kind each. Inside of a nest, and for
        tiny loops, the same question is asked again.
        """
        items: list[Item] = []
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
                    items.extend(self.sweep(part, remaining, axis))
                else:
                    parts.extend((t, p, axis) for t, p in reversed(again))
            else:
                inner = {k: remaining[k] - {chosen} for k in part}
                items.append(self.loop(chosen, part, self.block(part, inner)))
        return items

    def sweep(self, part: list[int], remaining: dict[int, frozenset[Axis]], chosen: Axis) -> Items:
        """Make an outermost loop of nests of one kind each, those that share much inside of a second loop."""
        nests: list[Loop] = []
        body: list[Item] = []
        second, pieces = self.second(part, remaining, chosen)
        for time, piece in pieces:
            taken = frozenset([second]) if second is not None and time % 2 else frozenset()
            inner = {k: remaining[k] - taken for k in piece}
            made = [self.nest(group, inner, chosen) for group in self.groups(piece, inner)]
            nests += made
            body += [self.loop(second, piece, [*made])] if second is not None and taken else made
        products = [k for k in part if self.products[k]]
        heavy = (  # products are done one after the other, each of them long
            second is None and any(self.work[k] >= HEAVY * upper(chosen.extent) for k in products)
            and all(stays_product(self.statements[k], self.axis_of[k][chosen]) for k in products)
            and all(axis is not self.axis_of[k][chosen] for k in part for axis, _, _ in self.statements[k].ranges)
        )
        return swept_loops(chosen, nests, tuple(body), self.new, heavy=heavy)

    def second(
        self, part: list[int], remaining: dict[int, frozenset[Axis]], chosen: Axis,
    ) -> tuple[Axis | None, list[tuple[int, list[int]]]]:
        """Choose a second loop inside of a tile: where much lives for one, the class that makes it least.

        It may take the long axes of statements with two besides the outermost. A class that a product has in all of
        its arrays may be one; rows, lanes and depth stay inside.

        Returns:
            The class, None where there is none, and its times.
        """
        axes: dict[int, frozenset[Axis]] = {}
        for k in part:
            long = frozenset([a for a in remaining[k] if upper(a.extent) > TINY and a is not chosen])
            axes[k] = long if len(long) > 1 else frozenset()
        able: dict[Axis, None] = dict.fromkeys([axis for k in part for axis in sorted(axes[k], key=self.order)])
        for k in part:
            for axis in axes[k]:
                if axis in able and not self.outside(k, axis, axes[k]):
                    del able[axis]
        alive = self.alive(part, axes, None)
        if able and alive >= ALIVE:
            best = min(able, key=lambda axis: self.alive(part, axes, axis))
            if 2 * self.alive(part, axes, best) <= alive:
                return best, self.times(part, best, axes)
        return None, [(0, part)]

    def order(self, axis: Axis) -> int:
        """Return which statement has an axis first, so that equal programs give equal loops."""
        return min(self.classes.users[axis])

    def outside(self, k: int, axis: Axis, others: frozenset[Axis]) -> bool:
        """Whether a loop over an axis may stand around a statement: no array is then walked in leaps."""
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
            for access in self.statements[k].touched:
                if access.array.is_temporary:
                    uses.setdefault(access.array, set()).add(time.get(k, 0))
                    if second is not None and second in axes[k]:
                        taken[access.array] = upper(second.extent)
        total = 0
        for array, times in uses.items():
            whole = element_count(array.shape[1:]) * array.dtype.itemsize
            inside = len(times) == 1 and next(iter(times)) % 2 == 1
            total += whole // taken.get(array, 1) if inside else whole
        return total

    def loop(self, chosen: Axis, part: list[int], body: list[Item]) -> Loop:
        """Make the loop over a class."""
        axes = frozenset([self.axis_of[k][chosen] for k in part])
        return Loop(chosen, axes | {chosen}, tuple(body))

    def groups(self, members: list[int], remaining: dict[int, frozenset[Axis]]) -> list[list[int]]:
        """Gather statements that iterate over the same axes and need only what the same iteration makes.

        Tiny axes do not count: they are loops inside of the group's nest. What a sum over further axes starts from
        comes first, so that it stands between no two groups.
        """
        found: list[list[int]] = []
        kinds: list[frozenset[Any]] = []
        place: dict[int, int] = {}
        latest: dict[frozenset[Any], int] = {}
        starts = {
            writer for k in members for writer, access in self.graph.needs[k]
            if access is self.statements[k].target and isinstance(self.statements[writer].value, Number)
            and writer in remaining and len(remaining[writer]) < len(remaining[k]) and not self.graph.needs[writer]
        }
        for k in sorted(members, key=lambda k: k not in starts) if starts else members:
            axes = frozenset([axis for axis in remaining[k] if self.is_long(axis)])
            kind = axes | self.apart(k)
            tiny = [self.axis_of[k][axis] for axis in remaining[k] - axes]
            alone = self.products[k] and (len(axes) > 2 or is_block(self.statements[k], tiny))
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

    def apart(self, k: int) -> frozenset[Any]:
        """Say what keeps a statement from others over its axes: its role, a running sum."""
        s = self.statements[k]
        kinds = {s.role} if s.role is not Role.VALUE else set()
        return frozenset(kinds | {"running"} if (s.prefix | {s.target.array}) & self.running else kinds)

    def is_long(self, axis: Axis) -> bool:
        """Whether an axis is more than a tiny loop inside of a statement's nest, or no other would be lanes there."""
        return upper(axis.extent) > TINY or axis in self.around

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
        if len(self.candidates(members, remaining)[1]) <= MANY_CLASSES:
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
        if len(able) > MANY_CLASSES:  # a long chain of small loops: cut it in the middle, so that this takes n log n
            return self.middle(members, set(able), remaining)
        some = sorted(able, key=lambda axis: (axis is not usual, -work[axis]))[:CANDIDATES]
        best = min(some, key=lambda axis: self.crossing(members, axis, remaining)) if len(some) > 1 else some[0]
        bare = all(self.products[k] or isinstance(self.statements[k].value, (Number, Access)) for k in members)
        if bare and work[best] >= BLOCKED * PAYS:  # threads share tiles out: there should be several
            axes = frozenset([self.axis_of[k].get(best, best) for k in members])
            if upper(best.extent) <= tile_rows([self.statements[k] for k in members], axes):
                return max(able, key=lambda axis: upper(axis.extent))
        return best

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
        return work, [axis for axis, w in work.items() if 2 * w >= most or most < SMALL_WORK]

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

    def best(self, members: list[int], chosen: Axis, remaining: dict[int, frozenset[Axis]]) -> dict[int, int]:
        """Return the times for a class; one that is compared with others and chosen has been asked for."""
        if self.asked[0] is not members or self.asked[1] is not remaining:
            self.asked = members, remaining, {}
        times = self.asked[2]
        if chosen not in times:
            times[chosen] = Times(self, members, chosen, {k: chosen in remaining[k] for k in members}).best()
        return times[chosen]

    def crossing(self, members: list[int], chosen: Axis, remaining: dict[int, frozenset[Axis]]) -> int:
        """Count the elements that live from one time to a later one, and those of inputs read at several times.

        What is written at looked-up places is there as a whole in any case.
        """
        time = self.best(members, chosen, remaining)
        stored: dict[Array, int] = {}
        read: dict[Array, set[int]] = {}
        for k in members:
            here = time[k]
            for writer, access in self.graph.needs[k]:
                if time.get(writer, here) != here and access.array not in self.scattered:
                    stored[access.array] = access.array.elements
            for array in self.graph.given[k]:
                read.setdefault(array, set()).add(here)
        again = sum((len(times) - 1) * array.elements for array, times in read.items())
        leaps = {leap for _, leap in self.leaps(time, chosen, remaining)}
        return sum(stored.values()) + again + sum(array.elements for array, _ in leaps)

    def leaping(self, time: dict[int, int], chosen: Axis, remaining: dict[int, frozenset[Axis]]) -> set[int]:
        """Find sums whose matrix is read in leaps by them alone.

        ``A[j, i] * y[i]`` in the sweep over i that makes ``y[i]``: a piece of every row for each tile, for a vector
        that is not stored. It is better off in a sweep over the rows; unless this one reads those columns anyway.
        """
        readers: dict[tuple[Array, int], set[int]] = {}
        for k, leap in self.leaps(time, chosen, remaining):
            readers.setdefault(leap, set()).add(k)
        alone = {k for (k, *others) in readers.values() if not others}
        running = self.graph.running(time)  # one loop with what reads it
        adding = {k for k in alone if self.statements[k].how == How.ADD}
        return {k for k in adding if self.statements[k].target.array not in running}

    def leaps(
        self, time: dict[int, int], chosen: Axis, remaining: dict[int, frozenset[Axis]],
    ) -> Iterator[tuple[int, tuple[Array, int]]]:
        """Yield the statements that walk large matrices in leaps in tiles of a class, their last axis: which, and when.

        Where no such matrix outlives a sweep, a tile's columns are all there is of each. If these are near, where whole
        matrices would be far, nothing leaps: beside products, around which tiles have some columns at least.
        """
        found: dict[int, list[tuple[int, Array]]] = {}
        for k, here in time.items():
            if not here % 2 or not self.large[k] or self.products[k] or chosen not in remaining[k]:
                continue
            own = self.axis_of[k][chosen]
            long = [self.axis_of[k][a] for a in remaining[k] if a is not chosen]
            for a in self.large[k]:
                if a.indices[-1] is own and element_count([i.extent for i in long if i in a.indices]) >= SIDE_BY_SIDE:
                    found.setdefault(here, []).append((k, a.array))
        if not found:
            return
        outliving = {
            access.array for k, here in time.items() for other, access in (*self.graph.needs[k], *self.graph.users[k])
            if time.get(other) != here
        }
        blocked = {here for k, here in time.items() if self.products[k]}
        for here, leaps in found.items():
            whole = max([array_bytes(array) for _, array in leaps])
            if (
                here not in blocked or 2 * whole < FAR_BYTES or whole * TILE_BLOCKS > NEAR_BYTES * upper(chosen.extent)
                or any(not array.is_temporary or array in outliving for _, array in leaps)
            ):
                yield from [(k, (array, here)) for k, array in leaps]

    def times(
        self, members: list[int], chosen: Axis, remaining: dict[int, frozenset[Axis]],
    ) -> list[tuple[int, list[int]]]:
        """Give every statement its time for a class, and group them by it."""
        time = self.best(members, chosen, remaining)
        leaping = self.leaping(time, chosen, remaining)
        iterates = {k: chosen in remaining[k] for k in members} if leaping else {}
        if leaping and len(leaping) < sum(iterates.values()):
            time = Times(self, members, chosen, iterates | dict.fromkeys(leaping, False)).best()
        groups: dict[int, list[int]] = {}
        for k in members:
            groups.setdefault(time[k], []).append(k)
        return sorted(groups.items())

    def local(self, writer: int, reader: int, access: Access, chosen: Axis) -> bool:
        """Whether a value is read in the very iteration that makes it; asked again and again."""
        key = writer, reader, access, chosen
        found = self.near.get(key)
        if found is not None:
            return found
        made, own = self.axis_of[writer][chosen], self.axis_of[reader][chosen]
        target = self.statements[writer].target
        if access.array in self.statements[reader].prefix or access.flat or target.flat:
            found = access.array in self.statements[reader].prefix
        else:
            pairs = zip(target.indices, access.indices, strict=True)
            same = [ours is own for theirs, ours in pairs if theirs is made]  # two on a diagonal: by rows and columns
            found = (any(same) and all(same)) or self.accumulates(writer, reader, made, own)
        self.near[key] = found
        return found

    def accumulates(self, writer: int, reader: int, made: Axis, own: Axis) -> bool:
        """Whether two statements add to one array along an axis both reduce: their order does not matter."""
        first, second = self.statements[writer], self.statements[reader]
        return (
            first.target.array is second.target.array and first.how == second.how == How.ADD
            and made not in first.target.indices and own not in second.target.indices
            and first.target.array not in {a.array for a in accesses(second.value)}
        )


def fuse(program: LoopProgram) -> LoopProgram:
    """Build the tree of loops; the outermost ones walk in tiles where they are long."""
    fusion = Fusion(program)
    return program.with_body(tuple(fusion.tree()), fusion.new)
