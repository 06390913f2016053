"""Repeats among a program's nodes: runs whose words equal those one period later, and copies that lack some nodes.

A graph holds equal nodes once, and no dead ones: a copy lacks what another copy, or another line, has made, and the
last copies what nobody reads. It is put back at its place, so that all copies are alike.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise, product, takewhile
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from symgrad.ir.graphs import reachable
from symgrad.ir.index.shapes import is_static, size
from symgrad.ir.node import Graph, Node
from symgrad.ir.op import Control, Elementwise, Leaf, Result
from symgrad.ir.program import Program, bodies
from symgrad.ir.text import as_text
from symgrad.ops.arrays.views import slice_
from symgrad.options import FEWEST
from symgrad.transforms.tuned import COUNTS, LONG_COPIES, LOOP_WEIGHT, PEELED, PERIODS

Copies = Sequence[Sequence[Node]]
"""The nodes of copies of a step, in which what is at one place is a copy of each other."""

CopyName = tuple[int, int, int]
"""What a node is called in a copy."""


def may_repeat(nodes: Sequence[Node], least: int) -> bool:
    """Whether so many nodes are of one op and line: most programs have not that many, which costs next to nothing."""
    for each in (attrgetter("op"), attrgetter("op", "line")):
        most = max(Counter(map(each, nodes)).values(), default=0)
        if most < FEWEST:
            return False
    return most >= least or sum(map(_weight, nodes)) >= LONG_COPIES * least


def _weight(node: Node) -> int:
    """Return how long a node takes to compile, beside an elementwise one; what is small is written out."""
    if isinstance(node.op, (Elementwise, Leaf, Result, Control)) or node.op.view:
        return 1
    large = any(not is_static(one.shape) or size(one.shape) >= LOOP_WEIGHT for one in (node, *node.inputs))
    return LOOP_WEIGHT if large else 1


def enough(copies: int, step: Sequence[Node], least: int) -> bool:
    """Whether copies of a step are a loop: there are many, or they take long to compile."""
    return copies >= least or (copies >= FEWEST and copies * sum(map(_weight, step)) >= LONG_COPIES * least)


def made_once(program: Program) -> set[Node]:
    """Return the nodes that no other is like: of their op, line, shape and dtype."""
    kinds = [*map(attrgetter("op", "line", "shape", "dtype"), program.nodes())]
    count = Counter(kinds)
    return {node for node, kind in zip(program.nodes(), kinds, strict=True) if count[kind] == 1}


def in_front(program: Program, some: Collection[Node]) -> list[Node]:
    """List a program's nodes, first those of some that are made of such and inputs: the first copy makes them."""
    early: set[Node] = set()
    rest = []
    for node in program.nodes():
        if isinstance(node.op, Leaf) or (node in some and not node.op.decides and early.issuperset(node.inputs)):
            early.add(node)
        else:
            rest.append(node)
    return [*filter(early.__contains__, program.nodes()), *rest]


def read_far(program: Program, nodes: Sequence[Node], even: tuple[int, int, int]) -> set[Node]:
    """Return the nodes that all copies of a repeat read: one much later does, or only such nodes do."""
    start, period, copies = even
    end, far = start + period * copies, 2 * (PEELED + 1) * period
    inside = nodes[:end]
    place = {node: k for k, node in enumerate(inside)}
    own = {i for node in program.nodes() if node not in place for i in node.inputs}.union(program.outputs)
    last = {i: k for k, node in enumerate(inside) for i in node.inputs}  # by their places: the last one stays
    for node in reversed(inside):
        if last.get(node, 0) - place[node] > far:
            own.discard(node)
        elif node in own:
            own.update(node.inputs)
    return {node for node in inside if node not in own}


def _copy_word(node: Node) -> Any:
    """Return what a node has in common with its copies: all but what it is made of, and where a slice begins."""
    params: Any = node.params
    if node.op is slice_:
        params = tuple([entry[1:] for entry in node.params[0]])
    elif isinstance(node.op, Control):
        held = reachable(bodies(node), lambda body: [own for one in body.nodes() for own in bodies(one)])
        ops = [one.op for body in held for one in body.nodes()]  # several may have one name in a text
        params = (*ops, *[as_text(p, lines=False) if isinstance(p, Program) else p for p in params])
    return node.op, params, len(node.inputs), node.shape, node.dtype, node.line


def copy_words(nodes: Sequence[Node]) -> Any:
    """Number nodes, those that may be copies of each other alike."""
    known: dict[Any, int] = {}
    return np.array([known.setdefault(_copy_word(node), len(known)) for node in nodes])


def repeats(nodes: Sequence[Node], words: Any, least: int) -> list[tuple[int, int, int]]:
    """List runs that equal themselves one period later, as ``(start, period, copies)``, the longest first."""
    order = np.argsort(words, kind="stable")  # of each word, its places in order
    alike = words[order]
    near = np.zeros(len(nodes), int)
    for step in (1, 2, 3, 4, 5, 6, 8):  # a line may stand in a copy several times
        gaps = (order[step:] - order[:-step])[alike[step:] == alike[:-step]]
        near += np.bincount(gaps, minlength=len(nodes))
    gaps, of = order[1:] - order[:-1], alike[1:]  # or, in loops in loops, only once in all that an outer one repeats
    same = of == alike[:-1]
    apart, further = np.zeros(len(nodes), int), np.zeros(len(nodes), int)
    pairs, places = _count_apart(apart, of[same], gaps[same]), order[1:][same]
    again = np.argsort(pairs, kind="stable")  # a word that stands everywhere may be further off once in each
    pairs, gaps = pairs[again], np.diff(places[again])
    same = pairs[1:] == pairs[:-1]
    _count_apart(further, pairs[1:][same], gaps[same])
    likely = [np.argsort(-one, kind="stable")[:PERIODS] for one in (near, apart, further)]
    periods = [int(one) for own, by in zip(likely, (near, apart, further), strict=True) for one in own if by[one]]
    found = []
    for period in dict.fromkeys(periods):
        for first, copies in _runs(words, period, FEWEST):
            if enough(copies, nodes[first : first + period], least):
                found.append((first, period, copies))
    return sorted(found, key=_longest_first)


def _count_apart(counts: Any, words: Any, gaps: Any) -> Any:
    """Count in each gap the nodes between words so far apart, of the word of which most are; return pairs' numbers."""
    pairs, number, often = np.unique(words * len(counts) + gaps, return_inverse=True, return_counts=True)
    np.maximum.at(counts, pairs % len(counts), often * (pairs % len(counts)))
    return number


def parts_apart(
    nodes: Sequence[Node], found: Sequence[tuple[int, int, int]], least: int,
) -> list[tuple[int, int, int]]:
    """List parts of repeats between values that many copies read, and repeats of such parts.

    A loop in a loop reads what the outer one carries: there one part ends, and the next one begins.
    """
    place = {node: k for k, node in enumerate(nodes)}
    edges = [(place[i], k) for k, node in enumerate(nodes) for i in node.inputs if i in place]
    made, read = np.array(edges, int).reshape(-1, 2).T
    every: dict[tuple[int, int, int], None] = {}
    runs = [*found]
    for start, period, copies in runs:  # it grows, by longer periods
        end = start + period * copies
        own = slice(*np.searchsorted(read, [start, end]))
        of, by = made[own] - start, read[own] - start
        cuts = (start + 1 + np.unique(of[(of >= 0) & (by // period - of // period > 2)])).tolist()
        for first, last in pairwise([start, *cuts, end]) if cuts else ():
            every[first, period, (last - first) // period] = None
        for outer, times in Counter(b - a for a, b in pairwise(cuts)).most_common(1):
            if outer > 2 * period and outer % period == 0 and times >= FEWEST - 1:
                first = next(a for a, b in pairwise(cuts) if b - a == outer)
                first -= outer if first - outer >= start else 0
                runs.append((first, outer, (end - first) // outer))
                every[runs[-1]] = None
    enough_of = [one for one in every if one[2] >= FEWEST and enough(one[2], nodes[one[0] : one[0] + one[1]], least)]
    return sorted(enough_of, key=_longest_first)


def _longest_first(run: tuple[int, int, int]) -> tuple[int, int]:
    _, period, copies = run
    return -period * copies, period


def _runs(words: Any, period: int, least: int = 1) -> list[tuple[int, int]]:
    """List where words equal those one period later: where that begins, and the number of copies."""
    same = np.concatenate([[False], words[:-period] == words[period:], [False]])
    edges = np.flatnonzero(same[1:] != same[:-1])
    first, copies = edges[::2], (edges[1::2] - edges[::2]) // period + 1
    many = copies >= least
    return [*zip(first[many].tolist(), copies[many].tolist(), strict=True)]


def copies_of(nodes: Sequence[Node], begin: int, period: int, copies: int) -> tuple[Sequence[int], Copies]:
    """Cut a run into its copies, and say where they begin: with no part of what the one before made."""
    shift = next((k for k in range(period) if not isinstance(nodes[begin + k].op, Result)), 0)
    begins = [begin + shift + k * period for k in range(copies - (shift > 0))]
    return begins, [nodes[first : first + period] for first in begins]


def uneven(
    nodes: Sequence[Node], words: Any, least: int, most: int = 0,
) -> Iterator[tuple[Sequence[int], Copies, Iterator[tuple[Sequence[int], Copies]]]]:
    """Yield repeats whose copies lack nodes that equal others: where each begins, and all with these in their places.

    Behind these come others of as many copies of the same code. They have more than `most` nodes. What all copies have
    shows where each begins. A node that is missing is what the nodes that read it elsewhere read. What no one reads of
    the last copies is made for nothing: it is a loop all the same.
    """
    count = np.bincount(words)[words]
    apart = ~np.array([isinstance(node.op, Result) for node in nodes])
    usual = [often for often, _ in Counter(count[(count >= FEWEST) & apart].tolist()).most_common(COUNTS)]
    for often, fewer in product(usual, (PEELED, 0)):  # 0: the last copy may lack what others have
        some = (count < often) & (count >= often - PEELED) & apart
        if not fewer and not some.any():
            continue
        common = np.flatnonzero(((count == often) & apart) | (some & (fewer > 0)))
        period = len({*words[common].tolist()})
        runs = _runs(words[common], period)
        first, copies = max(runs, key=itemgetter(1), default=(0, 0))
        begins = common[first : first + copies * period : period].tolist()
        if copies < FEWEST or not enough(copies, nodes[begins[0] : begins[1]], least):
            continue
        length = begins[1] - begins[0]
        if begins[-1] - begins[0] + 2 * max(b - a for a, b in pairwise(begins)) <= most:
            continue
        whole_last = np.array_equal(words[begins[0] : begins[1]], words[begins[-1] : begins[-1] + length])
        if whole_last and len({b - a for a, b in pairwise(begins)}) == 1:
            continue  # they are all alike
        others = [common[k : k + n * period : period].tolist() for k, n in runs if n == copies and k != first]
        pattern = {*words[common].tolist()}
        led = _led(begins, words, pattern, length)
        for starts in (begins, led) if led != begins else (begins,):
            filled = _filled(_named_nodes(nodes, words, starts))
            if filled is not None and len({node for copy in filled for node in copy}.intersection(nodes)) > most:
                alike = others if starts is begins else [_led(own, words, pattern, length) for own in others]
                every = ((own, _filled(_named_nodes(nodes, words, own))) for own in alike)
                yield starts, filled, ((own, copies) for own, copies in every if copies is not None)


def _led(begins: Sequence[int], words: Any, common: Collection[int], most: int) -> list[int]:
    """Let copies begin with nodes before what all of them have, if the first one has such nodes before it, too."""
    lead: set[int] = {*words[max(0, begins[0] - most) : begins[0]].tolist()}
    inside = {*words[begins[0] : begins[-1]].tolist()} - {*common}
    found = []
    for begin in begins:
        while begin and words[begin - 1] in lead and words[begin - 1] in inside:
            begin -= 1  # noqa: PLW2901
        found.append(begin)
    return found


def _named_nodes(nodes: Sequence[Node], words: Any, starts: Sequence[int]) -> list[dict[CopyName, Node]]:
    """Return of each copy its nodes by their word, the array that a slice is of, and how often such came before."""
    last = min(len(nodes), starts[-1] + 2 * max(b - a for a, b in pairwise(starts)))  # it has no more than the others
    arrays = np.array([
        node.inputs[0].number if node.op is slice_ and isinstance(node.inputs[0].op, Leaf) else 0
        for node in nodes[starts[0] : last]
    ])
    known: dict[bytes, list[CopyName]] = {}  # most copies are alike
    found = []
    for first, end in pairwise([*starts, last]):
        pairs = np.stack((words[first:end], arrays[first - starts[0] : end - starts[0]]))
        names = known.get(pairs.tobytes())
        if names is None:
            often: Counter[tuple[int, int]] = Counter()
            names = known[pairs.tobytes()] = []
            for word, array in pairs.T.tolist():
                names.append((word, array, often[word, array]))
                often[word, array] += 1
        found.append(dict(zip(names, nodes[first:end], strict=True)))
    return found


def _filled(copies: list[dict[CopyName, Node]]) -> Copies | None:
    """Return copies of equal length, of some that lack nodes; the last ones may be none."""
    longest: dict[CopyName, Node] = max(copies[:-1], key=len)
    place = {name: (j, 0) for j, name in enumerate(longest)}
    for copy in copies[:-1]:
        before = 0
        for name in copy:
            before, _ = place.setdefault(name, (before, len(place)))
    order = sorted(place, key=place.__getitem__)
    copies[-1] = dict(takewhile(lambda one: one[0] in place, copies[-1].items()))
    if len(order) * len(copies) > 2 * sum(map(len, copies)):
        return None
    own = {node: (k, name) for k, copy in enumerate(copies) for name, node in copy.items()}
    likes = {name: node for copy in copies for name, node in copy.items()}
    readers: dict[Any, list[Any]] = defaultdict(list)  # by name: who reads it, as which operand, how many copies later
    reads: dict[Any, Any] = {}  # by name and operand: how many copies before and by what name, or what all read
    for name in order:
        column = [(k, copy[name]) for k, copy in enumerate(copies) if name in copy]
        for a in range(len(column[0][1].inputs)):
            read = [(k, node.inputs[a]) for k, node in column]
            maybe = {(k - own[i][0], own[i][1]) for k, i in read if i in own and 0 <= k - own[i][0] <= 2}
            for back, of in sorted(maybe):
                if all(k < back or copies[k - back].get(of, i) is i for k, i in read):
                    readers[of].append((name, a, back))
                    reads[name, a] = back, of
                    break
            else:
                reads[name, a] = read[0][1] if all(i is read[0][1] for _, i in read) else None
    end = len(copies)
    for k, copy in reversed([*enumerate(copies)]):
        for name in [name for name in reversed(order) if name not in copy]:
            late = [(copies[k + back], reader, a) for reader, a, back in readers[name] if k + back < len(copies)]
            found = next((other[reader].inputs[a] for other, reader, a in late if reader in other), None)
            if found is not None and _copy_word(found)[:-1] == _copy_word(likes[name])[:-1]:
                copy[name] = found
        for name in [name for name in order if name not in copy]:
            made = _unread(name, likes[name], k, copies, reads) if k >= len(copies) - PEELED else None
            if made is not None:
                copy[name] = made
            elif k < len(copies) - PEELED:
                return None
            else:
                end = k  # it is no whole copy
    return [[copy[name] for name in order] for copy in copies[:end]]


def _unread(
    name: CopyName, like: Node, k: int, copies: Sequence[dict[CopyName, Node]], reads: dict[Any, Any],
) -> Node | None:
    """Make the node of a copy that no one reads, if what it reads is known, and a call cannot fail by it alone."""
    found = [reads[name, a] for a in range(len(like.inputs))]
    inputs = [of if isinstance(of, Node) else copies[k - of[0]].get(of[1]) if of else None for of in found]
    given = tuple([node for node in inputs if node is not None])
    if len(given) < len(inputs) or any(copy[name].params != like.params for copy in copies if name in copy):
        return None
    made = Graph(interned=False).node(like.op, given, like.params, like.shape, like.dtype, like.line)
    asked = [k for k in range(len(given)) if k not in made.op.linear]  # two that differ only in others fail alike
    alone = may_fail(made) and not any(
        node.op is made.op and node.params == made.params and all(node.inputs[k] is given[k] for k in asked)
        for node in copies[k].values()
    )
    return None if alone or isinstance(made.op, Control) else made


def may_fail(node: Node) -> bool:
    """Whether the call may fail by a node: by an index, or by a matrix."""
    return node.op.stacked or (
        not isinstance(node.op, Elementwise) and any(i.dtype.kind in "iu" for i in node.inputs[1:])
    )
