"""Views, copies and writes of random programs: what NumPy has afterwards, or a refusal, never another value."""

from __future__ import annotations

import collections
import linecache
import random
import re
from typing import Any

import numpy as np
import pytest
import scipy.special

from symgrad.errors import SymgradError
from tests.trace.programs import run
from tests.trace.view_or_copy import TABLE

V = np.array([0.5, 1.5, 2.5])
M = np.arange(9.0).reshape(3, 3) / 4 + 0.1
INDICES = (1, np.array(0), np.array([1, 0, -1, 1]))
"""An integer, an array without axes, and several integers: `i`, `k` and `q`."""

MAKE = """
np.zeros((3, 3))|np.ones(4)|np.array(v)|np.array(m)|v + 1|m * 2|m @ m|np.full((2, 3), v[0])|np.copy(v)|m.T + 1
np.array([v, v])|np.arange(4.0)|np.eye(3)|np.zeros((2, 3, 2))|m.T @ m.T|np.stack([v, v])|np.array(2.0)|np.zeros(())
m.sum(axis=0)|np.array([[v[0], 1.0], [2.0, v[1]]])|v[0] * 2|m[0] + 0|np.where(m > 1, m, 0)|np.zeros_like(m)
np.ones(3) * 0|np.concatenate([v, v])|m.copy()|np.tile(v, 2)|np.asfortranarray(np.ones((2, 3)))
"""

VIEW = """
{a}[1:]|{a}[::-1]|{a}.T|{a}.reshape(-1)|{a}.ravel()|{a}[0]|np.flip({a})|{a}[None]|{a}[...]|np.asarray({a})|{a}[()]
np.ascontiguousarray({a})|np.squeeze({a})|np.swapaxes({a}, 0, -1)|np.atleast_2d({a})|np.transpose({a})|np.real({a})
{a}.flatten()|np.moveaxis({a}, 0, -1)|{a}[:, 0]|{a}[..., 0]|{a}[0, ...]|{a}[[0, 1]]|{a}[:, [1, 0]]
{a}.astype(float)|{a}.astype(float, copy=False)|np.array({a}, copy=None)|{a}.copy()|np.copy({a})
np.expand_dims({a}, 0)|{a}.squeeze()|np.reshape({a}, {a}.shape)|{a}.swapaxes(0, -1)|np.diagonal({a})|{a}.conj()
{a}.real|np.split({a}, [1])[0]|+{a}|np.roll({a}, 0)|np.clip({a}, None, 100)|np.repeat({a}, 1)|np.pad({a}, 0)
np.tile({a}, 1)|np.concatenate([{a}])|np.sum({a}, axis=())|np.nan_to_num({a})|np.broadcast_to({a}, {a}.shape)
np.array({a})|np.array({a}, ndmin=2)|np.triu({a})|np.atleast_1d({a})|{a}.transpose(*range({a}.ndim))|np.rot90({a})
np.rollaxis({a}, -1)|np.array_split({a}, 2)[0]|np.hstack([{a}])|np.vstack([{a}])|np.asanyarray({a})|np.diag({a})
np.where(True, {a}, {a})|list({a})[0]|next(iter({a}))|np.cumsum({a})|np.maximum({a}, {a})
{a}.reshape((1,) + {a}.shape)|{a}.reshape({a}.shape[::-1])|{a}.reshape(-1, order="F")|np.take({a}, [0, 1], axis=0)
{a}|{a}.mT|np.squeeze({a}[None])|np.stack([{a}])[0]|np.fliplr({a})|np.ravel({a}, "F")|np.column_stack([{a}, {a}])
np.meshgrid({a}, {a})[0]|np.broadcast_arrays({a}, {a})[0]|np.round({a}, 9)|np.block({a})|np.matrix_transpose({a})
np.flipud({a})|np.hsplit({a}, 1)[0]|np.select([{a} > 0], [{a}])|np.atleast_3d({a})|np.positive({a})
np.real_if_close({a})|np.conj({a})|np.average({a}, axis=0)
"""

WRITE = """
{a}[0] = {v}|{a}[1:] = {v}|{a}[...] = {v}|{a} += {v}|{a} *= 2|{a}.fill({v})|np.add({a}, {v}, out={a})|{a}[:, 0] = {v}
{a}[{a} > 1] = {v}|{a}[-1] -= {v}|{a}[::2] *= {v}|{a}[..., 0] = {v}|{a}[0] = {b}|{a} += {b}|{a}[...] = {b}
{a}[:] = {b}[::-1]|{a}[1:] = {a}[:-1]|{a} = {a} + {v}|{a} -= {a}[0]|np.copyto({a}, {v})|{a}.T[0] = {v}
{a}.ravel()[0] = {v}|{a}.flat[0] = {v}|{a}[None][0] = {v}|for r in {a}: r += {v}|{a}[0], {a}[1] = {a}[1], {a}[0]
{a}[[0, 1]] = {v}|{a}[[0, 0]] += {v}|{a}.T += {v}|np.fill_diagonal({a}, {v})|{a}[[1, 0]] = {b}|{a}[i] = {v}
{a}[i] += {v}|{a}[i][0] = {v}|{a}[:, i][-1] = {v}|{a}[i] = {b}[0]|{a}[i, 0] = {v}|np.add({a}[i], {v}, out={a}[i])
np.copyto({a}[i], {v})|{a}[i].fill({v})|{a}[..., i] *= 2|{a}[q] = {v}|{a}[k] = {v}|for j in q: {a}[j] += {v}
for j in q: {a}[j][0] *= 2|for j in q: {a}[j, ...][-1:] = {v}|{a}[k] += {v}|{a}[k][0] = {v}
{a}[i], {a}[0] = {a}[0], {a}[i]|{a}[np.argmax({b}[0])] = {v}|w = {a}[i]; w -= {v}; w[0] = {v}
np.multiply({b}[i], 2, {a}[i])|w = {a}[i]; {a}[0] = {v}; w += {b}[-1]|w = {a}.T[..., i]; {a}[i] = w; w *= 2
np.put({a}[i], [0, 1], {v})|{a}[i][...] = {a}[0]|w = np.swapaxes({a}, 0, -1)[i]; w[w > 1] = 0; w += w[0]
{a}[i:][0] = {v}|w = {a}[i, None]; w[0, 0] = {v}
"""

VALUES = ("v[0]", "1.0", "v[1] * 2", "3", "v[0] + 1")


def choices(text):
    return [entry for line in text.strip().splitlines() for entry in line.split("|")]


MAKES, VIEWS, WRITES = choices(MAKE), choices(VIEW), choices(WRITE)
CALLS = [call for kind in ("view", "copy", "either") for call in TABLE[kind]]
ROWS = [call for call in CALLS if re.search(r"\b[ik]\b", call)]
"""Views and copies of the table, and those by a traced integer."""


def executed(lines):
    """Run lines by NumPy: what the names stand for afterwards."""
    names: dict[str, Any] = {"np": np, "scipy": scipy, "v": V.copy(), "m": M.copy()}
    names.update(zip("ikq", INDICES, strict=True))
    exec("\n".join(lines), names)
    return names


def valid(lines, name):
    """Whether NumPy runs these lines, leaves the arguments alone, and gives `name` an array of floats."""
    try:
        names = executed(lines)
        if (copied := re.sub(r"^(x\d+\[.*?\]) = (.*)", r"\1 = np.array(\2)", lines[-1])) != lines[-1]:
            other = executed([*lines[:-1], copied])
            if any(not np.array_equal(names[n], other[n], equal_nan=True) for n in names if re.fullmatch(r"x\d+", n)):
                return False  # NumPy stores a column into a row that crosses it element by element, without a copy
    except Exception:  # noqa: BLE001 - NumPy refuses it
        return False
    alone = np.array_equal(names["v"], V) and np.array_equal(names["m"], M)
    value = names.get(name, V)
    return alone and isinstance(value, (np.ndarray, np.generic)) and value.dtype == float


def random_program(rng, length):
    """Write a program line by line, each of which NumPy accepts."""
    lines: list[str] = []
    names: list[str] = []
    while len(lines) < length:
        kind = rng.random()
        target = f"x{len(names)}" if kind < 0.6 or not names else None
        if not names or kind < 0.2:
            line = f"{target} = {rng.choice(MAKES)}"
        elif target:
            line = f"{target} = {rng.choice(rng.choice([VIEWS, CALLS, ROWS])).format(a=rng.choice(names))}"
        else:
            line = rng.choice(WRITES).format(a=rng.choice(names), b=rng.choice(names), v=rng.choice(VALUES))
        if valid([*lines, line], target):
            lines.append(line)
            names += [target] if target else []
    text = ["def program(v, m, i, k, q):", *["    " + line for line in lines], f"    return [{', '.join(names)}]"]
    return text, names


def compiled(lines, seed):
    """Make the function, with its source where tracebacks and lines find it."""
    source, name = "\n".join([*lines, ""]), f"<aliasing {seed}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    names: dict[str, Any] = {"np": np, "scipy": scipy}
    exec(compile(source, name, "exec"), names)
    return names["program"], source, name


def check(seed, length):
    """Compare one random program with NumPy; return "ok" or the refusal's class."""
    lines, names = random_program(random.Random(seed), length)
    fun, source, file = compiled(lines, seed)
    want = fun(V.copy(), M.copy(), *INDICES)
    try:
        got = run(fun, V, M, *INDICES)
    except SymgradError as error:
        refusal: SymgradError | None = error
    else:
        refusal = None
    if refusal is not None:
        assert refusal.line is not None, f"{refusal}\n{source}"
        assert refusal.line.file == file, f"{refusal}\n{source}"
        return type(refusal).__name__
    for name, g, w in zip(names, got, want, strict=True):
        size = np.max(np.abs(w), where=np.isfinite(w), initial=0.0)  # zeros of factors are rounding's, on any machine
        what = f"seed {seed}: {name} in\n{source}"
        np.testing.assert_allclose(g, w, rtol=1e-12, atol=1e-13 * size, err_msg=what, strict=False)
        assert g.shape == np.shape(w), f"seed {seed}: {name} in\n{source}"
    return "ok"


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value", "ignore:divide by zero")
@pytest.mark.parametrize("length", [3, 5, 9])
def test_random_programs(length, pytestconfig):
    count = pytestconfig.getoption("--programs") or 500
    first = random.SystemRandom().randrange(1 << 30) if pytestconfig.getoption("--fresh") else 0
    found = collections.Counter(check(first + k, length) for k in range(count))
    assert found["ok"] > count * {3: 0.8, 5: 0.7, 9: 0.45}[length], f"first seed {first}: {found}"


def test_the_check_can_fail(monkeypatch):
    from symgrad.trace.numpy import indexing

    real = indexing.getitem
    monkeypatch.setattr("symgrad.trace.tracer.Tracer.__getitem__", lambda self, index: np.copy(real(self, index)))
    with pytest.raises(AssertionError):
        collections.Counter(check(seed, 5) for seed in range(300))
