"""Random programs in every mode: forward against reverse, second order both ways, batches against loops."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.night import some
from tests.programs import Written, changed, leaves, random_open_program, random_program
from tests.table import GENTLY, INTERPRETED

pytestmark = pytest.mark.filterwarnings("ignore:.* reads what eval")  # random programs are texts

SEEDS = range(5000, 5018)
NIGHTLY = (5006, 5012, 5018)


def rounding(written: Written) -> float:
    """Return how far results may be apart, as a part of the largest numbers that are added."""
    narrow = written.text.count("F32") > 1 or np.dtype(np.float32) in {a.dtype for a in leaves(written.args)}
    return 3e-5 if narrow else 1e-11


def drawn(tree: Any, seed: int) -> Any:
    """Draw a direction: an array of each array's shape and dtype, None for those of integers."""
    rng = np.random.default_rng(seed)

    def draw(a: Any) -> Any:
        return np.asarray(rng.uniform(-1, 1, a.shape), a.dtype) if a.dtype.kind == "f" else None

    return changed(tree, draw)


def product(one: Any, other: Any) -> tuple[Any, Any]:
    """Return the sum of products over two trees, and the size of what is added."""
    pairs = [(a, b) for a, b in zip(flat(one), flat(other), strict=True) if a is not None and b is not None]
    terms = [np.asarray(1.0) * np.sum(a * b) for a, b in pairs]
    sizes = [np.asarray(1.0) * np.sum(np.abs(a * b)) for a, b in pairs]
    return sum(terms, start=0.0), sum(sizes, start=0.0)


def flat(tree: Any) -> list[Any]:
    if isinstance(tree, (tuple, list)):
        return [leaf for item in tree for leaf in flat(item)]
    return [leaf for key in sorted(tree) for leaf in flat(tree[key])] if isinstance(tree, dict) else [tree]


def both_ways(written: Written, args: Any, v: Any, u: Any, w: Any) -> Any:
    """Compute <J v, w> and <v, J' w>, then <u, H v> and <v, H u>, forward over reverse and reverse over forward."""
    program, loss = written.functions()
    _, pushed = sg.jvp(program, args, v)
    _, pull = sg.vjp(program, *args)

    def gradient(*floats: Any) -> Any:
        return sg.grad(loss, argnums=written.argnums)(*merged(args, floats, written.argnums))

    def slope(*floats: Any) -> Any:
        return sg.jvp(loss, merged(args, floats, written.argnums), v)[1]

    chosen = [tuple([tree[k] for k in written.argnums]) for tree in (args, v, u)]
    forward = sg.jvp(gradient, chosen[0], chosen[1])[1]
    mirrored = sg.jvp(gradient, chosen[0], chosen[2])[1]
    reverse = sg.grad(slope, argnums=tuple(range(len(chosen[0]))))(*chosen[0])
    return (
        product(pushed, w), product(pull(w), v), product(forward, chosen[2]), product(mirrored, chosen[1]),
        product(reverse, chosen[2]),
    )


def merged(args: Any, floats: Sequence[Any], argnums: Sequence[int]) -> tuple[Any, ...]:
    by_place = dict(zip(argnums, floats, strict=True))
    return tuple([by_place.get(k, a) for k, a in enumerate(args)])


def test_forward_and_reverse(seeds: range) -> None:
    check_both_ways([random_program(seed) for seed in seeds])


def check_both_ways(programs: Sequence[Written]) -> None:
    """Compare forward with reverse mode, and second order in three ways, of all programs in one module."""
    given = []
    for p in programs:
        with np.errstate(all="ignore"):
            results = tuple([np.asarray(r) for r in p.functions()[0](*p.args)])
        given.append((p.args, drawn(p.args, 1), drawn(p.args, 2), drawn(results, 3)))

    def computed(given: Any) -> Any:
        return [both_ways(p, *one) for p, one in zip(programs, given, strict=True)]

    for p, found in zip(programs, sg.jit(computed, options=GENTLY)(given), strict=True):
        (jv, size), (jw, other), *second = [(float(value), float(scale)) for value, scale in found]
        assert abs(jv - jw) <= rounding(p) * max(size, other, 1.0), p.script(f"<J v, w> is {jv}, <v, J' w> is {jw}")
        values, sizes = zip(*second, strict=True)
        apart = max(values) - min(values)
        assert apart <= 10 * rounding(p) * max(*sizes, 1.0), p.script(f"<u, H v> in three ways: {values}")


def test_batches(seeds: range) -> None:
    check_batches([random_program(seed) for seed in seeds])


def check_batches(programs: Sequence[Written]) -> None:
    """Compare batches of values and gradients with what each example gives."""
    given = []
    for p in programs:
        scales = (1.0, 1.001, 0.999)
        examples = [changed(p.args, partial(scaled, by=s)) for s in scales]
        given.append((stacked(examples), examples))

    def mapped(batches: Any) -> Any:
        found = []
        for p, batch in zip(programs, batches, strict=True):
            program, loss = p.functions()
            found.append((sg.vmap(program)(*batch), sg.vmap(sg.grad(loss, argnums=p.argnums))(*batch)))
        return found

    def single(args: Any) -> Any:
        found = []
        for p, one in zip(programs, args, strict=True):
            program, loss = p.functions()
            found.append((program(*one), sg.grad(loss, argnums=p.argnums)(*one)))
        return found

    each = sg.jit(single, options=GENTLY)
    loops = [each([examples[k] for _, examples in given]) for k in range(3)]
    batches = sg.jit(mapped, options=GENTLY)([batch for batch, _ in given])
    for p, found, looped in zip(programs, batches, zip(*loops, strict=True), strict=True):
        for k, one in enumerate(looped):
            for batch, own in zip(flat(found), flat(one), strict=True):
                scale = max(1.0, float(np.max(np.abs(own), initial=0.0)))
                far = float(np.max(np.abs(np.asarray(batch[k], float) - np.asarray(own, float)), initial=0.0))
                assert far <= 100 * rounding(p) * scale, p.script(f"example {k} of a batch is off by {far}")


def scaled(a: Any, by: float) -> Any:
    return np.asarray(a * by, a.dtype) if a.dtype.kind == "f" else a


def stacked(examples: list[Any]) -> Any:
    first = examples[0]
    if isinstance(first, (tuple, list)):
        return tuple([stacked(list(items)) for items in zip(*examples, strict=True)])
    if isinstance(first, dict):
        return {key: stacked([one[key] for one in examples]) for key in first}
    return np.stack(examples)


@pytest.mark.parametrize("start", some([6100, 6000], turn=2))
def test_hundreds_of_arrays(start: int) -> None:
    """Many programs as one function of one tree: by each kind of call, values and gradients are NumPy's."""
    programs = [random_program(seed) for seed in range(start, start + 75)]
    args = tuple([p.args for p in programs])

    def together(args: Any) -> Any:
        found = []
        for p, one in zip(programs, args, strict=True):
            program, loss = p.functions()
            found.append((program(*one), sg.grad(loss, argnums=p.argnums)(*one)))
        return found

    function = sg.jit(together, options=GENTLY)
    wanted = sg.jit(together, options=INTERPRETED)(args)
    assert len(flat(args)) + len(flat(wanted)) > 398
    apart = changed(args, lambda a: np.stack([a, a], -1)[..., 0])
    for found in (function(args), function(args), function(apart), function.bind(args)()):
        for p, own, other in zip(programs, found, wanted, strict=True):
            for one, two in zip(flat(own), flat(other), strict=True):
                scale = max(1.0, float(np.max(np.abs(two), initial=0.0)))
                far = float(np.max(np.abs(np.asarray(one, float) - np.asarray(two, float)), initial=0.0))
                assert far <= 100 * rounding(p) * scale, p.script(f"it is off by {far}")


@pytest.mark.parametrize("seed", range(8))
def test_unknown_extents(seed: int) -> None:
    """One compilation of forward mode and of a batch serves every extent."""
    written = random_open_program(seed)
    program, _ = written.functions()
    count = len(written.args)
    pushed = sg.jit(lambda *a: sg.jvp(program, a[:count], a[count:])[1], specs=(*written.specs, *written.specs))
    batch = sg.vmap(program, specs=tuple([s.replace("[", "[batch,").replace(",]", "]") for s in written.specs]))
    for args in (written.args, *written.resized):
        v = drawn(args, 1)
        expected = sg.jvp(program, args, v)[1]
        for one, other in zip(flat(pushed(*args, *v)), flat(expected), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)
        with np.errstate(all="ignore"):
            plain = program(*args)
        for one, other in zip(flat(batch(*[np.stack([a, a]) for a in args])), flat(plain), strict=True):
            np.testing.assert_allclose(one[1], other, rtol=1e-11, atol=1e-11)
    assert pushed.cache_info().compilations == batch.cache_info().compilations == 1
