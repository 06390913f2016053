"""`times`: in which sweep over a class each statement belongs.

Sweeps happen at odd times; what does not iterate over the class has an even time. As early as possible and as late as
possible are both right; what lives from one sweep to a later one, and what is read again, decides between them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from symgrad.loops.lower import elements

if TYPE_CHECKING:
    from symgrad.ir.notation import Axis
    from symgrad.loops.fuse import Fusion
    from symgrad.loops.program import Array


class Times:
    """The times of some statements for one class."""

    def __init__(self, fusion: Fusion, members: list[int], chosen: Axis, iterates: dict[int, bool]) -> None:
        """Find which arrays are as long as a sweep."""
        self.fusion, self.members, self.chosen, self.iterates = fusion, members, chosen, iterates
        self.needs, self.users = fusion.graph.needs, fusion.graph.users
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
            late[k] = max(early[k], self.latest(k, late, last))
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

    def touching(self, time: dict[int, int]) -> dict[Array, dict[int, int]]:
        """Count, for each long array, the statements of each time that touch it."""
        found: dict[Array, dict[int, int]] = {}
        for k, arrays in self.long.items():
            here = time[k]
            for array in arrays:
                times = found.setdefault(array, {})
                times[here] = times.get(here, 0) + 1
        return found

    def move(self, time: dict[int, int], last: int, *, later: bool) -> int:
        """Move one statement after the other where that costs less; later also where it costs the same.

        Returns:
            The bytes of long arrays that are kept or read again, once for each further sweep.
        """
        touching = self.touching(time)
        running = self.fusion.graph.running(time)
        for k in reversed(self.members) if later else self.long:
            s = self.fusion.statements[k]
            if running and (s.prefix or s.target.array in running):
                continue  # a running value and what reads it are one loop
            here = time[k]
            there = self.latest(k, time, last) if later else self.earliest(k, time)
            if there == here or (there > here) != later:
                continue
            arrays = self.long.get(k, ())
            more = sum([size(a) * ((there not in touching[a]) - (touching[a][here] == 1)) for a in arrays])
            if more < 0 or (later and more == 0):
                time[k] = there
                for array in arrays:
                    times = touching[array]
                    times[there] = times.get(there, 0) + 1
                    times[here] -= 1
                    if not times[here]:
                        del times[here]
        return sum([(len(times) - 1) * size(array) for array, times in touching.items()])


def size(array: Array) -> int:
    """Estimate an array's bytes."""
    return elements(array.shape) * array.dtype.itemsize
