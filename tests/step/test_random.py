"""Random trainings: structures, dtypes, layouts, optimizers, orders. An epoch is its steps, and those their halves."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import symgrad as sg
from symgrad.trace import optree
from tests.step.test_step import LAYOUTS, same

optim = sg.optim


class Pair(NamedTuple):
    a: Any
    b: Any


METHODS: list[Any] = [
    lambda s: optim.sgd(0.1, sparse=s), lambda s: optim.momentum(0.1, nesterov=True, sparse=s),
    lambda s: optim.adam(0.1, sparse=s), lambda s: optim.adam(0.1, eps_mode="paper", sparse=s),
    lambda s: optim.adamw(0.1, 0.1, mask=lambda p: "a" in p, sparse=s), lambda s: optim.lion(0.01, sparse=s),
    lambda s: optim.ftrl(0.1, l1=0.01, sparse=s), lambda s: optim.rmsprop(0.1, momentum=0.5, centered=True, sparse=s),
    lambda s: optim.adagrad(0.1, sparse=s), lambda s: optim.amsgrad(0.1, sparse=s),
    lambda s: optim.nadam(optim.cosine_decay(0.1, 10), sparse=s), lambda s: optim.adagrad_da(0.1, sparse=s),
    lambda s: optim.adadelta(1.0, sparse=s), lambda s: optim.adamax(0.1, sparse=s),
    lambda s: optim.proximal_sgd(0.1, 0.01, sparse=s),
]
BEFORE = (None, None, optim.clip_by_value(0.5), optim.clip_by_norm(1.0), optim.clip_by_global_norm(1.0))
SHAPES = ((3,), (2, 3), (), (1,), (4, 1, 2), (0, 3), (5,))


def drawn(rng: Any, dtype: Any, depth: int = 0) -> Any:
    """Draw arrays and numbers in a structure."""
    kind = rng.integers(6) if depth < 3 else 0
    if kind < 2:
        return dtype(rng.normal()) if rng.integers(8) == 0 else rng.normal(size=SHAPES[rng.integers(7)]).astype(dtype)
    parts = [drawn(rng, dtype, depth + 1) for _ in range(2)]
    return [parts, {"a": parts[0], "k": parts[1]}, Pair(*parts), tuple(parts)][rng.integers(4)]


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:all of p")  # a lazy optimizer is exact there
@pytest.mark.parametrize("seed", range(30))
def test_an_epoch_is_its_steps_and_a_step_its_halves(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype, table = (np.float64, np.float32)[rng.integers(2)], rng.integers(3)
    params = {"t": drawn(rng, dtype), "w": rng.normal(size=3).astype(dtype), "idle": np.ones(2, dtype),
              "E": rng.normal(size=(7, 3)).astype(dtype)}
    rows, batch = int(rng.integers(1, 12)), int(rng.integers(1, 6))
    x, ids = rng.normal(size=(rows, 3)).astype(dtype), rng.integers(0, 7, rows)
    order = None if rng.integers(2) else rng.permutation(rows)
    method = METHODS[rng.integers(len(METHODS))](("exact", "lazy")[rng.integers(2)])
    links = [BEFORE[rng.integers(len(BEFORE))], method, optim.ema(0.9) if rng.integers(3) == 0 else None]
    opt = optim.chain(*[link for link in links if link is not None])
    settings: dict[str, Any] = {"on_nan": (None, "raise")[rng.integers(2)], "frozen": ("idle",) * int(rng.integers(2))}

    def loss(p: Any, x: Any, ids: Any) -> Any:
        found: list[Any] = []
        sg.tree_map(lambda a: found.append(np.sum(np.sin(a)) * x[0, 0]), p["t"])
        taken = np.sum(np.sin(p["E"][ids]) * x) if table else 0.0
        return sum(found) + np.sum((x @ p["w"]) ** 2) + taken + (np.sum(p["E"] ** 2) if table > 1 else 0.0)

    def begun() -> tuple[Any, Any]:
        p = sg.tree_map(np.copy, params)
        return p, opt.init(p)

    def laid() -> tuple[Any, Any]:
        lay = [*LAYOUTS.values()][rng.integers(len(LAYOUTS))]
        return sg.tree_map(lambda a: lay(a) if np.ndim(a) else a, begun())  # type: ignore[no-any-return]

    taken = np.arange(rows) if order is None else order
    batches = [taken[k : k + batch] for k in range(0, rows, batch)]
    one, other, values = begun(), begun(), []
    step, halves = [sg.compile_step(loss, opt, **settings) for _ in range(2)]
    for at in batches:
        *new, value = step(*one, x[at], ids[at])
        one = new[0], new[1]
        values.append(value)
        other = halves.apply(other[0], halves.gradients(other[0], x[at], ids[at])[1], other[1])
    assert same(one, other)
    parts, found = ([*one], values) if order is None else ([*begun()], [])
    for at in batches if order is not None else ():  # an epoch in parts: steps up to rounding
        *parts, some = step.epoch(*parts, x, ids, batch=batch, order=at)
        found.append(some[0])
    near = 1e-9 if dtype is np.float64 else 1e-3
    for a, b in zip(*[optree.tree_leaves((tree, v)) for tree, v in ((parts, found), (one, values))], strict=True):
        np.testing.assert_allclose(a, b, rtol=near, atol=near)
    for donate, start in ((False, begun()), (True, begun()), (False, laid())):
        whole = sg.compile_step(loss, opt, donate=donate, **settings)
        before = sg.tree_map(np.copy, start)
        params_, state, together = whole.epoch(*start, x, ids, batch=batch, order=order)
        assert same((params_, {**state}), (parts[0], {**parts[1]}))
        assert together.tolist() == found
        assert donate or same(start, before)
