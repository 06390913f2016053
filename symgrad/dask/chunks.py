"""A loss over chunks: what each worker computes, what travels to it, and in which order its sums are added up."""

from __future__ import annotations

import functools
import hashlib
import inspect
import pickle
import sys
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import add
from typing import Any, NamedTuple

import numpy as np

import symgrad
from symgrad import Function, Options, RowSparse, tree_flatten, tree_paths
from symgrad.errors import ArgumentError, ArgumentValueError, ConcretizationError, LeftBehindError, SymgradError

FAN_IN = 8
"""So many sums are added up in one task, in the order of their chunks."""

_REMEMBERED = 16
"""A worker keeps so many functions."""


def value_and_grad(
    loss: Callable[..., Any], chunked: str | Sequence[str], reduce: str = "mean", *, sparse: bool = False,
    options: Options | None = None, mixed: bool = False,
) -> Chunked:
    """Differentiate a loss over arrays in chunks, which may be larger than memory and lie on many machines.

    Args:
        loss: ``loss(params, *arrays)``, in NumPy, returns one number: of the rows of a chunk.
        chunked: the names of its arguments that come in chunks along their first axis.
        reduce: what the whole is of the chunks' numbers: ``"mean"`` weighs each by its rows, as is right for the mean
            over rows; ``"sum"`` adds them up. Chunks without rows count nothing.
        sparse: gradients by tables of which rows are taken are `RowSparse`, as for `grad`.
        options: as for `jit`. Without it a chunk is computed by one thread: Dask computes several chunks at a time.
        mixed: add up what machines with other processors, compilers, numbers of threads or versions of libraries
            computed, too; then the last bits depend on which machine gets which chunk.

    Returns:
        A function ``(params, *arrays) -> (value, grads)``, with the gradient by `params` in their structure. Arguments
        in chunks are Dask arrays, or lists of an array or `dask.delayed.Delayed` for each chunk; all of them have
        the same chunks, of dense arrays. It computes where Dask does: on the cluster of the active client, or in
        threads here. For the same chunks it gives the same bits for any number of workers, also where some are lost on
        the way.

    Raises:
        ArgumentError: there is no such argument, or one is not in chunks. By the function.
        ArgumentValueError: chunks differ in their rows, all are empty, or machines differ. By the function.

    >>> import dask.array as da, numpy as np, symgrad.dask
    >>> X = da.from_array(np.arange(12.0).reshape(6, 2), chunks=(4, 2))
    >>> mean_square = symgrad.dask.value_and_grad(lambda w, X: np.mean((X @ w) ** 2), chunked=("X",))
    >>> value, slope = mean_square(np.array([1.0, -1.0]), X)
    >>> float(value), slope
    (1.0, array([-10., -12.]))
    """
    names = (chunked,) if isinstance(chunked, str) else tuple(chunked)
    parameters = [*inspect.signature(loss).parameters]
    if not names:
        raise ArgumentError("chunked=() names no argument", instead="sg.value_and_grad, or the names of some")
    for name in names:
        if name not in parameters[1:]:
            raise ArgumentError(
                f"chunked={name!r} is no argument of {loss!r:.60} behind its parameters",
                instead=f"some of {', '.join(parameters[1:])}",
            )
    if reduce not in {"mean", "sum"}:
        raise ArgumentValueError(f"reduce={reduce!r}", instead='"mean" or "sum"')
    places = [parameters.index(name) - 1 for name in names]
    options = Options(threads=1) if options is None else options
    return Chunked(loss, names, places, options, sparse=sparse, mean=reduce == "mean", mixed=mixed)


class Chunked:
    """A loss over chunks, and the functions that it was compiled to: one for each structure of arguments."""

    symgrad_mode = "value_and_grad"  # as `compile_step` asks

    def __init__(
        self, loss: Any, names: Sequence[str], places: Sequence[int], options: Options, *, sparse: bool, mean: bool,
        mixed: bool,
    ) -> None:
        self._loss, self._names, self._places = loss, names, places
        self._options, self._sparse, self._mean, self._mixed = options, sparse, mean, mixed
        self._made: dict[Any, Function[..., Any]] = {}
        self._alone: set[Any] = set()
        self.__name__, self.__doc__ = getattr(loss, "__name__", "loss"), getattr(loss, "__doc__", None)

    def __call__(self, params: Any, *arrays: Any) -> tuple[Any, Any]:
        """Compute the value and the gradient."""
        key, *given = self._split(params, arrays)
        try:
            whole = self._whole(self._function(key), *given)
        except ConcretizationError:
            if key in self._alone:
                raise
            self._alone.add(key)  # the number of rows is asked for: each is compiled for itself
            del self._made[key]
            return self(params, *arrays)
        by = whole.rows if self._mean else 1
        grads = [_scaled(g, np.divide, by) for g in whole.grads]
        return whole.value / by, key[0].unflatten(grads)

    def watching(self) -> Callable[..., None]:
        """Return what raises where a NaN or an infinity begins, of the first chunk that has one: it is brought here."""
        def watched(params: Any, *arrays: Any) -> None:
            key, leaves, others, chunks = self._split(params, arrays)
            for k in self._whole(self._function(key), leaves, others, chunks).infinite:
                self._trace(self._function(key).watching(), leaves, others, chunks, k)

        return watched

    def _split(self, params: Any, arrays: Sequence[Any]) -> tuple[tuple[Any, Any], list[Any], list[Any], list[Any]]:
        """Return the structures of parameters and of arguments in one piece, their leaves, and the chunks."""
        if len(arrays) <= max(self._places, default=0):
            raise ArgumentError(f"{self.__name__}() over chunks of {', '.join(self._names)}, and these are not given")
        blocks = [_blocks(name, arrays[k]) for name, k in zip(self._names, self._places, strict=True)]
        counts = {name: len(of) for name, of in zip(self._names, blocks, strict=True)}
        if {*counts.values()} == {0}:
            raise ArgumentValueError(f"{self.__name__}() over no chunks", instead="one at least")
        if len({*counts.values()}) != 1:
            raise ArgumentValueError(f"arguments have other numbers of chunks: {counts}", instead="X.rechunk(...)")
        leaves, structure = tree_flatten(params)
        for path, leaf in zip(tree_paths(params), leaves, strict=True):
            if (kind := np.asarray(leaf).dtype).kind != "f":
                name = path or "params"
                raise ArgumentError(f"the parameter {name} is {kind}: it has no gradient", instead="an array of floats")
        others, rest = tree_flatten([one for k, one in enumerate(arrays) if k not in self._places])
        return (structure, rest), leaves, others, [*zip(*blocks, strict=True)]

    def _whole(self, made: Any, leaves: Any, others: Any, chunks: Any) -> Part:
        """Add up the chunks' numbers, as often as there are paths to be traced."""
        sent = Sent.of(made)
        if sent is None and any(self._trace(made, leaves, others, chunks, k) for k in range(len(chunks))):
            sent = Sent.of(made)
        whole = Part() if sent is None else self._summed(sent, leaves, others, chunks)
        while whole.missed:
            self._trace(made, leaves, others, chunks, whole.missed[0])
            whole = self._summed(Sent.of(made), leaves, others, chunks)
        if not whole.rows:
            raise ArgumentValueError(f"all {len(chunks)} chunks are empty", instead="rows in one of them")
        return whole

    def _function(self, key: tuple[Any, Any]) -> Function[..., Any]:
        """Return what is compiled: of leaves, as the classes of structures stay here."""
        if key not in self._made:
            (structure, rest), loss, places = key, self._loss, self._places

            def of_leaves(leaves: Any, others: Any, *chunks: Any) -> Any:
                found, parts = iter(rest.unflatten(others)), dict(zip(places, chunks, strict=True))
                count = len(parts) + rest.num_children
                arrays = [parts[k] if k in parts else next(found) for k in range(count)]
                return loss(structure.unflatten(leaves), *arrays)

            functools.update_wrapper(of_leaves, loss, updated=()).__name__ = self.__name__  # for messages
            named = ["params", "arrays", *[f"{name}_" * (name in {"params", "arrays"}) or name for name in self._names]]
            of_leaves.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
                [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in named])
            opened = key not in self._alone and dict.fromkeys(range(2, len(named)), "rows,...")
            self._made[key] = symgrad.value_and_grad(
                of_leaves, sparse=self._sparse, dynamic=opened, options=self._options)
        return self._made[key]

    def _trace(self, made: Any, leaves: Any, others: Any, chunks: Any, k: int) -> bool:
        """Compute a chunk here, by which its path gets known; return whether it has rows."""
        import dask

        return _computed(made, leaves, others, k, dask.compute(*chunks[k]))[0] > 0

    def _summed(self, sent: Any, leaves: Any, others: Any, chunks: Any) -> Part:
        """Add up the chunks' numbers, in a tree that depends on how many there are."""
        import dask
        from dask.delayed import delayed

        name = f"symgrad-{uuid.uuid4().hex}"
        job = delayed(Job(sent, leaves, others, self._mean), name=name, traverse=False)
        one, added = delayed(_part, pure=False, traverse=False), delayed(_added, pure=False)
        level = [one(job, k, *chunk) for k, chunk in enumerate(chunks)]
        while len(level) > 1:
            level = [added(level[k : k + FAN_IN], self._mixed) for k in range(0, len(level), FAN_IN)]
        # Only where it is imported: what it sets by itself, imported in here, would be forgotten behind this line.
        large = {"distributed.admin.large-graph-warning-threshold": "1 TB"} if "distributed" in sys.modules else {}
        with dask.config.set(large):
            (whole,) = dask.compute(level[0])
        return whole  # type: ignore[no-any-return]


# -- what a worker does


class Part(NamedTuple):
    """The sum over some chunks.

    Attributes:
        rows: of these chunks.
        value: the sum of their values, each times its rows for a mean.
        grads: likewise, leaf by leaf; nothing where there are no rows.
        missed: numbers of chunks whose path of branches, or whose shapes, the function was not compiled for.
        infinite: the number of the first chunk whose value or gradient is NaN or infinite, if there is one.
        machine: what decides about the last bits where it was computed, see `Function.machine`.
    """

    rows: int = 0
    value: Any = 0.0
    grads: tuple[Any, ...] = ()
    missed: tuple[int, ...] = ()
    infinite: tuple[int, ...] = ()
    machine: Mapping[str, str] = {}


class Job(NamedTuple):
    """What all chunks have in common: it travels once to each worker."""

    sent: Sent
    leaves: list[Any]
    others: list[Any]
    mean: bool


@dataclass(frozen=True)
class Sent:
    """A function on its way: pickled as its programs, and made once on each worker.

    Attributes:
        function: the function.
        key: a hash of its programs.
        how: what makes it, and of what.
    """

    function: Any
    key: str
    how: tuple[Any, ...]

    @classmethod
    def of(cls, made: Function[..., Any]) -> Sent | None:
        """Take a function as it is now: its paths, and what it reads from outside; None where it is not compiled so."""
        try:
            how = made.as_programs()
        except ArgumentError:
            return None
        return cls(made, hashlib.sha256(pickle.dumps(how[1])).hexdigest(), how)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the programs."""
        return _received, (self.key, self.how)


_functions: dict[str, Any] = {}
_lock = threading.Lock()


def _received(key: str, how: tuple[Any, ...]) -> Sent:
    """Make a function that came, or take the one that was made when it came before."""
    with _lock:
        make, of = how
        made = _functions[key] = _functions.pop(key, None) or make(*of)
        for old in [*_functions][:-_REMEMBERED]:
            del _functions[old]
    return Sent(made, key, how)


def _part(job: Job, k: int, *blocks: Any) -> Part:
    """Compute one chunk."""
    try:
        rows, found = _computed(job.sent.function, job.leaves, job.others, k, blocks)
    except LeftBehindError:
        return Part(missed=(k,))
    if not rows:
        return Part()
    value, grads = found
    numbers = [value, *[g.rows if isinstance(g, RowSparse) else g for g in grads]]
    infinite = () if all(np.isfinite(one).all() for one in numbers) else (k,)
    weight = rows if job.mean else 1
    weighted = tuple([_scaled(g, np.multiply, weight) for g in grads])
    return Part(rows, float(value) * weight, weighted, (), infinite, job.sent.function.machine)


def _computed(made: Any, leaves: Any, others: Any, k: int, blocks: Sequence[Any]) -> tuple[int, Any]:
    """Return the rows of a chunk, and what a function gives for it where there are some."""
    arrays = [np.asanyarray(block) for block in blocks]
    for block, array in zip(blocks, arrays, strict=True):
        if array.dtype == object and not array.ndim:
            what = f"chunk {k} is {type(block).__name__}, and no array"
            raise ArgumentError(what, instead="dense arrays, S.toarray() of sparse ones")
    counts = {array.shape[:1] for array in arrays}
    if len(counts) != 1 or () in counts:
        shown = ", ".join([str(array.shape) for array in arrays])
        raise ArgumentValueError(f"the arrays of chunk {k} have the shapes {shown}", instead="as many rows in each")
    ((rows,),) = counts
    try:
        return rows, made(leaves, others, *arrays) if rows else None
    except SymgradError as error:
        raise type(error)(f"chunk {k}: {error.what}", line=error.line, instead=error.instead) from None


def _scaled(grad: Any, function: Any, by: int) -> Any:
    """Multiply or divide a gradient in its own precision."""
    if isinstance(grad, RowSparse):
        return grad.map(lambda rows: function(rows, by, dtype=grad.dtype))
    return function(grad, by, dtype=grad.dtype)[()]


def _added(parts: Sequence[Part], mixed: bool) -> Part:
    """Add up sums in their order."""
    missed = tuple([k for part in parts for k in part.missed])
    full = [part for part in parts if part.rows]
    if missed or not full:
        return Part(missed=missed)
    total, *others = full
    for part in others:
        one, other = total.machine, part.machine
        if one != other and not mixed:
            differ = [f"{name}: {one.get(name)} and {other.get(name)}" for name in {**one, **other}
                      if one.get(name) != other.get(name)]
            raise ArgumentValueError(
                f"chunks were computed by machines that differ, so the last bits would depend on which machine gets "
                f"which chunk. {'; '.join(differ)}",
                instead="machines of one kind, or mixed=True",
            )
        grads, infinite = tuple(map(add, total.grads, part.grads)), total.infinite or part.infinite
        total = Part(total.rows + part.rows, total.value + part.value, grads, (), infinite, one)
    return total


# -- what chunks there are


def _blocks(name: str, array: Any) -> list[Any]:
    """List an argument's chunks."""
    if isinstance(array, (list, tuple)):
        return [*array]
    if not hasattr(array, "to_delayed") or not hasattr(array, "numblocks"):
        raise ArgumentError(
            f"{name} is {type(array).__name__}, and not in chunks",
            instead="a dask array, or a list with an array or dask.delayed for each chunk",
        )
    if not array.ndim or any(count != 1 for count in array.numblocks[1:]):
        raise ArgumentValueError(
            f"{name} is in {array.numblocks} chunks: they have to lie along its first axis alone",
            instead=f"{name}.rechunk({{0: rows, 1: -1}})",
        )
    return [*array.to_delayed().ravel()]
