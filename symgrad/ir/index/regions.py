"""Regions of arrays: ``(start, count, step)`` or ``(position,)`` for each axis, as slices and writes name them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, TypeAlias

Region: TypeAlias = tuple[tuple[Any, ...], ...]


def whole(shape: Sequence[Any]) -> Region:
    """Return the region that is all of an array."""
    return tuple([(0, dim, 1) for dim in shape])


def is_known(region: Region) -> bool:
    """Whether a region is made of integers alone."""
    return all(type(number) is int for entry in region for number in entry)


def is_point(region: Region) -> bool:
    """Whether a region is one element, given by its positions."""
    return all(len(entry) == 1 for entry in region)


def count(region: Region) -> int:
    """Count the elements of a known region."""
    total = 1
    for entry in region:
        total *= entry[1] if len(entry) == 3 else 1
    return total


def points(region: Region) -> Iterator[tuple[Region, Region]]:
    """List the elements of a known region: where each is in the array, and where in the region."""
    places = [[(e[0] + k * e[2], (k,)) for k in range(e[1])] if len(e) == 3 else [(e[0], ())] for e in region]
    for chosen in product(*places):
        yield tuple([(p,) for p, _ in chosen]), tuple([own for _, own in chosen if own])


def within(inner: Region, outer: Region) -> Region | None:
    """Write a known region as a region of another one that holds all of it; None when it does not."""
    found = []
    for a, b in zip(inner, outer, strict=True):
        if len(b) == 1:
            if a != b:
                return None
            continue
        start, extent, step = b
        first, off = divmod(a[0] - start, step)
        last = first if len(a) == 1 else first + (a[1] - 1) * (a[2] // step)
        if off or not 0 <= first < extent or not 0 <= last < extent or (len(a) == 3 and (a[2] % step or a[1] < 1)):
            return None
        found.append((first,) if len(a) == 1 else (first, a[1], a[2] // step))
    return tuple(found)


def inside(inner: Region, outer: Region) -> Region:
    """Write a region of a region as a region of the array."""
    rest = iter(inner)
    found: list[tuple[Any, ...]] = []
    for entry in outer:
        if len(entry) == 1:
            found.append(entry)
            continue
        start, _, step = entry
        own = next(rest)
        found.append((start + step * own[0],) if len(own) == 1 else (start + step * own[0], own[1], step * own[2]))
    return tuple(found)


def around(region: Region, shape: Sequence[Any]) -> list[Region]:
    """List regions that share no element and are all of an array but one known region of it, whose steps are 1."""
    found: list[Region] = []
    for axis, (entry, dim) in enumerate(zip(region, shape, strict=True)):
        end = entry[0] + (entry[1] if len(entry) == 3 else 1)
        beside = [(0, entry[0], 1), (end, dim - end, 1)]
        before = [(e[0], e[1], 1) if len(e) == 3 else (e[0], 1, 1) for e in region[:axis]]
        found += [(*before, part, *whole(shape[axis + 1 :])) for part in beside if part[1]]
    return found


def hull(entries: Sequence[tuple[int, ...]]) -> tuple[int, int, int]:
    """Return the range of all positions from the first to the last one of some known entries of an axis."""
    bounds = [_axis_bounds(entry)[:2] for entry in entries]
    first = min(low for low, _ in bounds)
    return first, max(high for _, high in bounds) + 1 - first, 1


def disjoint(a: Region, b: Region) -> bool:
    """Whether two known regions share no element for sure: on some axis their bounds or their residues differ."""
    for first, second in zip(a, b, strict=True):
        (low, high, step), (below, above, other) = _axis_bounds(first), _axis_bounds(second)
        if high < below or above < low:
            return True
        if step == other > 1 and (low - below) % step:
            return True
        if below == above and (below - low) % step:
            return True
        if low == high and (low - below) % other:
            return True
    return False


def _axis_bounds(entry: tuple[int, ...]) -> tuple[int, int, int]:
    """Return the first and the last position of an axis, and how far apart they are; nothing lies before itself."""
    if len(entry) == 1:
        return entry[0], entry[0], 1
    start, extent, step = entry
    if extent < 1:
        return 1, 0, 1
    last = start + (extent - 1) * step
    return min(start, last), max(start, last), abs(step)
