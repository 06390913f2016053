"""Random loops over rows of arrays of any length: what rounds keep, set on conditions, count and compare.

Compiled for some sizes, one after the other, they give what NumPy gives; one signature serves all sizes, unless a loop
is left by a `break` or has integers beyond 64 bits.
"""

from __future__ import annotations

import linecache
import random
from typing import Any

import numpy as np
import pytest

import symgrad as sg

SEEDS = range(12)
SIZES = (5, 6, 9, 3, 12, 7, 8, 4, 10, 2, 50)
FEW = 3
"""Signatures: the first size, all of them, and one that is too short."""
HEADS = {
    "for v in x:": ["v"], "for t in range(len(x)):": ["x[t]"], "for t in range(1, len(x)):": ["x[t]", "x[t - 1]"],
    "for t, v in enumerate(x):": ["v", "x[t]"], "for v, w in zip(x[1:], x):": ["v", "w"],
    "for v in reversed(x):": ["v"], "for t in range(x.shape[0] - 1):": ["x[t]", "x[t + 1]"], "for v in x[1:]:": ["v"],
}
BEGINS = {"first": "x[0]", "zero": "0.0", "below": "-1e3", "count": "0"}


class Loop:
    """A loop with up to three variables, some of which count."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.head = self.one(HEADS)
        self.terms = HEADS[self.head]
        names = "abc"[: self.rng.randint(1, 3)]
        self.kinds = {name: self.one(BEGINS) for name in names}
        self.floats = [name for name, kind in self.kinds.items() if kind != "count"]
        body = [f"    {name} = {BEGINS[kind]}" for name, kind in self.kinds.items()] + [f"    {self.head}"]
        for _ in range(self.rng.randint(1, 3)):
            body += [f"        {line}" for line in self.statement()]
        total = " + ".join(f"{k + 1}.0 * {name}" for k, name in enumerate(names))
        self.text = "\n".join(["def f(x):", *body, f"    return {total} + 0.0 * x[0]", ""])
        self.is_for_any = "break" not in self.text and "= 3 *" not in self.text  # Python's integers have any size
        file = f"<loop {seed}>"
        linecache.cache[file] = (len(self.text), None, self.text.splitlines(keepends=True), file)
        scope: dict[str, Any] = {"np": np}
        exec(compile(self.text, file, "exec"), scope)
        self.f = scope["f"]

    def one(self, some):
        return self.rng.choice([*some])

    def value(self):
        term = self.one(self.terms)
        every = [term, f"abs({term})", f"np.tanh({term})", f"{term} * {self.one(self.kinds)}"]
        return self.one([*every, *[f"{term} - 0.5 * {name}" for name in self.floats]])

    def condition(self):
        term = self.one(self.terms)
        every = [f"{term} > {self.one(['0', '0.5', '-0.3'])}", f"0 < {term} < 1"]
        for name, kind in self.kinds.items():
            every += [f"{name} > 2"] if kind == "count" else [f"{term} > {name}", f"{name} * {term} < 0"]
        return self.one(every)

    def sets(self):
        name = self.one(self.kinds)
        if self.kinds[name] == "count":
            return self.one([
                f"{name} = {name} + 1", f"{name} += 1", f"{name} = {'t' if ' t' in self.head else '0'}",
                f"{name} = 3 * {name} + 1",
            ])
        new = self.value()
        return self.one([
            f"{name} = {new}", f"{name} = {name} + {new}", f"{name} = 0.7 * {name} + {new}",
            f"{name} = max({name}, {new})", f"{name} = min({name}, {new})",
        ])

    def statement(self):
        kind = self.rng.random()
        if kind < 0.45:
            return [self.sets()]
        if kind < 0.55:
            return [f"if {self.condition()}: continue"]
        if kind < 0.6:
            return [f"if {self.condition()}: break"]
        lines = [f"if {self.condition()}:", *[f"    {self.sets()}" for _ in range(self.rng.randint(1, 2))]]
        lines += [f"elif {self.condition()}:", f"    {self.sets()}"] * (self.rng.random() < 0.25)
        return lines + ["else:", f"    {self.sets()}"] * (self.rng.random() < 0.4)


def check(seed: int, options: sg.Options) -> None:
    loop, rng = Loop(seed), np.random.default_rng(seed)
    compiled = sg.value_and_grad(loop.f, options=options)
    for n in SIZES:
        x, way = rng.normal(size=(2, n))
        value, slope = compiled(x)
        assert np.isclose(value, loop.f(x), rtol=1e-9), (n, loop.text)
        coarse, fine = [(loop.f(x + h * way) - loop.f(x - h * way)) / (2 * h) for h in (1e-5, 1e-6)]
        if np.isclose(coarse, fine, rtol=1e-6, atol=1e-6):  # all conditions go the same way there
            least = 1e-5 + 1e-9 * abs(value)
            assert np.isclose(slope @ way, fine, rtol=1e-5, atol=least), (n, loop.text)
    signatures = compiled.cache_info().signatures
    assert len(signatures) <= FEW or not loop.is_for_any, (signatures, loop.text)


@pytest.mark.filterwarnings("ignore:.*was compiled:symgrad.errors.SymgradWarning")
def test_interpreted(seeds):
    for seed in seeds:
        check(seed, sg.Options(compiler="none", paths=60))


@pytest.mark.filterwarnings("ignore:.*was compiled:symgrad.errors.SymgradWarning")
@pytest.mark.parametrize("seed", [1001, 1002])
def test_in_c(seed):
    check(seed, sg.Options(flags=("-O0",), paths=60))
