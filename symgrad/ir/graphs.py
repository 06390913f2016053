"""Walks through graphs of nodes, axes or expressions, by explicit stacks: a chain may be longer than Python's."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


class Partition(dict[T, T]):
    """Things that are joined two by two into classes: each knows another one of its class, and one itself."""

    def find(self, item: T) -> T:
        """Return the one that stands for an item's class."""
        self.setdefault(item, item)
        while self[item] is not item:
            self[item] = item = self[self[item]]
        return item

    def join(self, one: T, other: T) -> None:
        """Make two classes one; what stood for the other's stands for both."""
        self[self.find(one)] = self.find(other)


def reachable(starts: Iterable[T], beside: Callable[[T], Iterable[T]]) -> dict[T, None]:
    """Collect some nodes, and all that edges lead to from them.

    >>> [*reachable([6], lambda n: [n // 2] if n else [])]
    [6, 3, 1, 0]
    """
    found = dict.fromkeys(starts)
    stack = [*found]
    while stack:
        for other in beside(stack.pop()):
            if other not in found:
                found[other] = None
                stack.append(other)
    return found


def in_turn(start: T, needs: Callable[[T], Iterable[T]], known: Container[T]) -> Iterator[T]:
    """Yield what is needed for a node and not known yet, each after what it needs itself; the caller makes it known.

    >>> known = {0: 0}
    >>> for n in in_turn(3, lambda n: [n - 1, n - 2 if n > 1 else 0], known):
    ...     known[n] = n + known[n - 1]
    >>> known
    {0: 0, 1: 1, 2: 3, 3: 6}
    """
    stack = [start]
    while stack:
        missing = () if stack[-1] in known else [node for node in needs(stack[-1]) if node not in known]
        stack += missing
        if not missing:
            node = stack.pop()
            if node not in known:
                yield node
