"""`fit`: a loop of steps with batches, validation, progress and checkpoints, which goes on where it was ended."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from math import isnan
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from symgrad import Step, tree_map
from symgrad.errors import ArgumentError, ArgumentValueError, NonFiniteError, SymgradError
from symgrad.train.batches import Given, Rows, arguments
from symgrad.train.files import Contents, named, save

_TOGETHER = 0.05
"""Seconds of steps that are one call, at most, so that Ctrl-C need not wait."""

_LINE = 'compile_step(..., on_nan="raise"), whose error names the line that made it'


def fit(
    step: Callable[..., Any], params: Any, state: Any, data: Any, *, epochs: int = 1, batch: int | None = None,
    seed: int = 0, checkpoint: str | os.PathLike[str] | None = None, every: int | None = None,
    callbacks: Sequence[Callable[..., Any]] = (), validation: Any = None, patience: int | None = None,
) -> tuple[Any, Any, dict[str, Any]]:
    """Train: take a step for each batch of each epoch.

    Args:
        step: ``params, state, value = step(params, state, *batch)``, as `compile_step` makes it.
        params: parameters to begin with.
        state: the optimizer's state to begin with.
        data: with `batch`, an array or a tuple of arrays and structures of arrays with as many rows each, whose rows
            are drawn in another order in each epoch; the name of an ``.npy`` file in the place of an array, or of an
            ``.npz`` file of all of them, is mapped into memory. Without `batch`, an iterable of batches, each a tuple
            of arguments, gone through in each epoch.
        epochs: how often to go through the data.
        batch: rows of a batch; the last one of an epoch has what is left.
        seed: with the number of the epoch it decides the order of the rows, on every platform and with every NumPy.
        checkpoint: a file to keep parameters, state and history in. Where it exists, training goes on from it, to the
            bits that it would have come to without being ended; seed, batch and rows have to be the same, `epochs`
            may be more, and `params` and `state` say only what is expected in the file.
        every: write the checkpoint after so many steps; without it after each epoch.
        callbacks: each is called as ``f(step, value, params, state)`` after a step, the first of which is 1.
        validation: arguments of the loss behind the parameters, whose loss is computed after each epoch (`step` has to
            have ``gradients``); or a function of the parameters that returns a number.
        patience: end when the validation has not become less in so many epochs. The last parameters are returned.

    Returns:
        ``(params, state, history)``; of `history`, ``"value"`` has the loss before each step, ``"validation"`` a number
        for each epoch, and both those from before the checkpoint, too.

    Raises:
        NonFiniteError: the loss is NaN, or a parameter or a part of the state is NaN or infinite where a checkpoint
            would be written or training ends, and was not so at the start; steps of
            ``compile_step(..., on_nan="raise")`` name the line.
        SerializationError: the checkpoint is damaged, or of another training; naming the field.
        KeyboardInterrupt: by Ctrl-C, after the running step has ended and the checkpoint is written (a twentieth of a
            second of steps where no callbacks look between them, for these are one call); by a second one at once.

    >>> import numpy as np, symgrad as sg
    >>> opt = sg.optim.sgd(0.1)
    >>> gradient = sg.value_and_grad(lambda w, x, y: np.mean((x @ w - y) ** 2))
    >>> def step(w, state, x, y):
    ...     value, slope = gradient(w, x, y)
    ...     return *opt.update(w, slope, state), value
    >>> x = np.random.default_rng(0).normal(size=(64, 2))
    >>> w, state, history = sg.fit(step, np.zeros(2), opt.init(np.zeros(2)), (x, x @ [1.0, 2.0]), epochs=20, batch=16)
    >>> w.round(3), len(history["value"])
    (array([1., 2.]), 80)
    """
    counts: dict[str, Any] = {"epochs": epochs, "batch": batch, "every": every, "patience": patience}
    for name, number in counts.items():
        if number is not None and (not isinstance(number, (int, np.integer)) or number < (name != "epochs")):
            raise ArgumentValueError(f"fit({name}={number!r})", instead=f"an integer from {int(name != 'epochs')} on")
    if callable(callbacks) or not all(map(callable, callbacks)):
        raise ArgumentError(f"fit(callbacks={callbacks!r:.60})", instead="functions in a list: callbacks=[f]")
    if (every and not checkpoint) or (patience and validation is None):
        what, of = ("patience", "validation") if patience and validation is None else ("every", "checkpoint")
        raise ArgumentError(f"fit({what}=...) without {of}=...", instead=f"both, or no {what}")
    source: Any = Given(data, epochs) if batch is None else Rows(data, int(batch), seed)
    held_out = None if validation is None or callable(validation) else arguments(validation)
    gradients: Any = getattr(step, "gradients", None)
    if held_out is not None and gradients is None:
        raise ArgumentError(
            "fit(validation=...) of arrays, and the step has no gradients()",
            instead="sg.compile_step(loss, optimizer), or a function of the parameters",
        )
    fixed = {"seed": seed, "batch": source.each, "rows": source.count}
    values: list[float] = []
    validations: list[float] = []
    kinds: set[Any] = set()
    epoch = done = 0
    pace = np.inf  # seconds of a step
    together = isinstance(step, Step) and source.lie
    begun = _not_finite(params, state)

    def some() -> int:
        """Return how many steps may be one call: nobody looks at what is between them."""
        until = every - len(values) % every if every else np.inf
        return max(1, int(min(_TOGETHER / pace, until))) if together and not callbacks else 1

    def take(params: Any, state: Any, chosen: Any, count: int) -> tuple[Any, Any, Any]:
        """Take steps; those by rows all in one way, whatever is timed or looked at: another one rounds otherwise."""
        if not together:
            return step(params, state, *source.batch(chosen))  # type: ignore[no-any-return]
        params, state, value = _taken_together(step, params, state, source, chosen)
        return params, state, value if count > 1 else tree_map(lambda one: one[0], value)

    def is_ended() -> bool:
        """Whether all epochs are over, or so many went by since the least validation; NaN is not small."""
        least = int(np.argmin([np.inf if isnan(v) else v for v in (*validations, np.inf)]))
        return epoch >= epochs or (patience is not None and len(validations) - least > patience)

    def keep() -> None:
        for path in _not_finite(params, state):
            if path not in begun:
                what = f"after step {len(values)} {path} holds NaN or Inf, and it held none at the start"
                raise NonFiniteError(f"fit(): {what}", instead=_LINE)
        if checkpoint:
            numbers = {"epoch": epoch, "done": done, "kinds": len(kinds)}
            came_to = {"value": np.array(values), "validation": np.array(validations)}
            save(checkpoint, params=params, state=state, fit=fixed | numbers | came_to)

    if checkpoint and Path(checkpoint).exists():
        params, state, at = _resumed(checkpoint, fixed, params, state)
        begun += _not_finite(params, state)
        epoch, done, values, validations = at["epoch"], at["done"], at["value"].tolist(), at["validation"].tolist()
        if not is_ended():
            kinds = _as_before(take, source, at["kinds"], params, state)
            if held_out is not None and validations:
                gradients(params, *held_out)
    else:
        keep()  # what cannot be written is known before the first step
    with _interrupts() as interrupted, _shown(epochs, source.batches) as show:
        while not is_ended():
            for count, chosen in source.epoch(epoch, done, some):
                began = perf_counter()
                params, state, value = take(params, state, chosen, count)
                pace = (perf_counter() - began) / count
                kinds.add(source.kind(chosen))
                done += count
                new = _losses(value, count)
                for number, one in enumerate(new, len(values) + 1):
                    if isnan(one):
                        what = f"fit(): the loss before step {number} (of epoch {epoch + 1}) is NaN"
                        raise NonFiniteError(what, instead=_LINE)
                values += new
                for callback in callbacks:
                    callback(len(values), value, params, state)
                show(epoch, len(values), values[-1])
                if interrupted or (every and len(values) % every == 0):
                    keep()
                if interrupted:
                    where = f"; {checkpoint} goes on from there" if checkpoint else ""
                    raise KeyboardInterrupt(f"fit() was ended after step {len(values)}{where}")
            if not done:
                raise ArgumentValueError(f"fit(): no batches in epoch {epoch + 1}", instead="an iterable of some")
            epoch, done = epoch + 1, 0
            if validation is not None:
                found = validation(params) if held_out is None else gradients(params, *held_out)[0]
                validations += _losses(found)
            if not every or is_ended():
                keep()
    return params, state, {"value": np.array(values), "validation": np.array(validations)}


def _taken_together(step: Any, params: Any, state: Any, source: Rows, rows: Any) -> tuple[Any, Any, Any]:
    """Take a step for each batch of rows by one call; what one refuses, it refuses by itself, in its own words."""
    try:
        return step.epoch(params, state, *source.arrays, batch=source.each, order=rows)  # type: ignore[no-any-return]
    except SymgradError as error:
        told: Any = error
        step(told.params, told.state, *source.batch(rows[told.batch * source.each :]))
        raise


def _not_finite(params: Any, state: Any) -> list[str]:
    """List the paths of parameters and of what the state holds that are NaN or infinite somewhere."""
    leaves = [(path, np.asarray(leaf)) for path, leaf in [*named("params", params), *named("state", state)]]
    return [path for path, array in leaves if array.dtype.kind == "f" and not np.isfinite(array).all()]


def _losses(value: Any, count: int = 1) -> list[float]:
    """Return the losses of so many steps, which may have extras beside them."""
    found = value[0] if isinstance(value, tuple) else value
    if np.shape(found) != ((count,) if count > 1 else ()):
        raise ArgumentValueError(f"fit(): a loss of the shape {np.shape(found)}", instead="one number, np.mean of it")
    return [*map(float, np.ravel(found))]


def _resumed(checkpoint: Any, fixed: dict[str, int], params: Any, state: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Read a checkpoint of the same training."""
    found = Contents(checkpoint)
    at = found.tree("fit") if "fit" in found.trees else {}
    if not at:
        raise ArgumentValueError(
            f"fit(): {checkpoint} is a file of save(), and no checkpoint", instead="the name of a new file")
    for name, value in fixed.items():
        if at.get(name) != value:
            raise ArgumentValueError(
                f"fit(): the checkpoint {checkpoint} has {name} {at.get(name)}, and this call {value}",
                instead="the call that wrote it, or another checkpoint=",
            )
    return found.like("params", params), found.like("state", state), at


def _as_before(take: Any, source: Any, count: int, params: Any, state: Any) -> set[Any]:
    """Take a step for each shape of batches that there was, in their order, of copies.

    What a function is compiled for depends on the shapes it has met before, and last bits on what it is compiled for.
    """
    kinds: set[Any] = set()
    samples = (chosen for _, chosen in source.epoch(0, 0, lambda: 1))
    while len(kinds) < count and (chosen := next(samples, None)) is not None:
        if source.kind(chosen) not in kinds:
            kinds.add(source.kind(chosen))
            take(*tree_map(copy, (params, state)), chosen, 1)
    return kinds


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Note a Ctrl-C in the place of raising KeyboardInterrupt; the second one raises it."""
    noted: list[int] = []
    usual = signal.default_int_handler
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is usual

    def note(number: int, _: Any) -> None:
        noted.append(number)
        signal.signal(signal.SIGINT, usual)

    with ExitStack() as ends:
        if ours:
            signal.signal(signal.SIGINT, note)
            ends.callback(signal.signal, signal.SIGINT, usual)
        yield noted


@contextmanager
def _shown(epochs: int, batches: int | None) -> Iterator[Callable[[int, int, float], None]]:
    """Draw how far it is on a terminal, from the first step on; elsewhere say nothing."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    epoch, loss = "epoch {task.fields[epoch]}", "loss {task.fields[loss]:.6g}"
    bar = Progress(epoch, BarColumn(), MofNCompleteColumn(), loss, TimeRemainingColumn(), console=Console(stderr=True))
    task = bar.add_task("fit", total=None if batches is None else batches * epochs, epoch=1, loss=np.nan)

    def show(epoch: int, count: int, value: float) -> None:
        bar.update(task, completed=count, epoch=epoch + 1, loss=value)
        bar.start()

    try:
        yield show
    finally:
        bar.stop()
