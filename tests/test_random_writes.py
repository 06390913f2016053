"""Random programs that compute in place: NumPy's values, right gradients, forward mode against reverse."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.programs import Written, changed, leaves, random_program
from tests.table import INTERPRETED
from tests.test_random_programs import apart, check, scale
from tests.writers import KINDS, NAMES, TEXT

SEEDS = range(24)


def writing_program(seed: int) -> Written:
    return random_program(seed, more=KINDS, functions=(TEXT, NAMES))


def test_the_programs_write() -> None:
    texts = [writing_program(seed).text.split("def program")[1] for seed in SEEDS]
    for function in NAMES.keys() - {"np", "__builtins__"}:
        assert any(function in text for text in texts), function


def test_programs(seeds: range) -> None:
    check([writing_program(seed) for seed in seeds])


def direction(draw: np.random.Generator, like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.asarray(draw.uniform(-1, 1, like.shape), like.dtype)


def test_forward_is_reverse(seeds: range) -> None:
    """<J v, w> is <v, J' w> of the loss, whose only w is 1."""
    for seed in seeds:
        written = writing_program(seed)
        _, loss = written.functions()
        draw = np.random.default_rng(seed)
        args = written.args

        def of(*by: Any, loss: Any = loss, written: Written = written, args: Any = args) -> Any:
            rest = dict(zip(written.argnums, by, strict=True))
            return loss(*[rest.get(k, a) for k, a in enumerate(args)])

        by = tuple([args[k] for k in written.argnums])
        v = changed(by, partial(direction, draw))
        tangent = sg.jvp(of, by, v)[1]
        gradient = sg.grad(of, argnums=tuple(range(len(by))), options=INTERPRETED)(*by)
        terms = [np.sum(g * t) for g, t in zip(leaves(gradient), leaves(v), strict=True)]
        narrow = "F32" in written.text.split("F32 = np.float32", 1)[1] or any(a.dtype == np.float32 for a in leaves(by))
        size = scale([np.asarray(t) for t in [*leaves(gradient), tangent]])
        gap = apart([np.asarray(tangent, float)], [np.asarray(sum(terms), float)])
        assert gap <= (2e-4 if narrow else 1e-10) * size * max(1, len(terms)), written.script(f"{tangent} {sum(terms)}")


def test_a_wrong_write_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs can fail: with reads that ignore the last write, they do."""
    from symgrad.transforms.inplace import writes

    real = writes._Writes.read
    rng = Random(0)

    def forgetting(self: Any, graph: Any, x: Any, region: Any) -> Any:
        version = self.versions.get(x)
        if version is not None and rng.random() < 0.5:
            x = version.pieces.base
        return real(self, graph, x, region)

    monkeypatch.setattr(writes._Writes, "read", forgetting)
    programs = [writing_program(seed) for seed in SEEDS]
    with pytest.raises(AssertionError):
        any(check([written], INTERPRETED) for written in programs)  # type: ignore[func-returns-value]
