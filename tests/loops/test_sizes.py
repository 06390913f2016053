"""Programs of the sizes that tiles, blocks and threads have: every pass on loops is verified, and nothing is compiled.

A sum was wrong where an extent was just two tiles, which no small program has.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import symgrad as sg

scan: Any = sg.scan
SIZES = (1, 3, 4, 8, 16, 20, 31, 32, 33, 48, 63, 64, 65, 96, 100, 127, 128, 129, 192, 200, 256, 257, 512, 784)
"""Around vectors, blocks (4), the shortest tiles (8, 32), tiles (64) and sweeps that are one tile (128)."""

POWERS = 8, 16, 32, 64, 128, 256

MOST = 3_000_000
"""Elements of an array."""


def net(X, W, b, V):
    return np.sum(np.tanh(X @ W + b) @ V)


def regression(X, W, b, Y):
    z = X @ W + b
    z = z - np.max(z, axis=1, keepdims=True)
    return np.mean(np.log(np.sum(np.exp(z), axis=1)) - np.sum(Y * z, axis=1))


def attention(x, q, k, v):
    s = np.einsum("bid,bjd->bij", x @ q, x @ k)
    p = np.exp(s - np.max(s, axis=-1, keepdims=True))
    return np.mean(np.einsum("bij,bjd->bid", p / np.sum(p, axis=-1, keepdims=True), x @ v) ** 2)


def heads(x, q, k, v):
    of = [np.einsum("btd,dhe->bhte", x, w) for w in (q, k, v)]
    s = np.einsum("bhte,bhse->bhts", of[0], of[1])
    return np.mean(np.einsum("bhts,bhse->bthe", np.exp(s), of[2]) ** 2)


def mixer(x, W, V):
    x = x + np.tanh(x.transpose(0, 2, 1) @ W).transpose(0, 2, 1)
    return np.mean(np.tanh(x @ V) ** 2)


def recurrent(h, W, U, xs):
    def step(h, x):
        z = x @ W + h @ U
        h = np.tanh(z[:, : h.shape[1]]) * z[:, h.shape[1] :]
        return h, h

    return np.sum(scan(step, h, xs)[1] ** 2)


def kernel(X, Z, w):
    squares = np.sum(X**2, axis=1)[:, None] + np.sum(Z**2, axis=1) - 2 * X @ Z.T
    return np.sum(np.exp(-squares) @ w)


def normalized(X, W, V, g):
    H = X @ W
    H = g * (H - np.mean(H, axis=0)) / np.sqrt(np.var(H, axis=0) + 1e-5)
    return np.sum(np.maximum(H, 0) @ V)


def whitened(X, A):
    L = np.tril(A)
    return np.sum((X @ L) ** 2) + np.sum(L.T @ L)


def images(x, k, W):
    seen = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2))
    h = np.maximum(np.einsum("nyxcij,ijco->nyxo", seen, k), 0)
    return np.mean((np.mean(h, axis=(1, 2)) @ W) ** 2)


def bilinear(x, y, A):
    return np.mean(np.einsum("bi,ijk,bj->bk", x, A, y) ** 2)


def embedded(E, W, ids):
    return np.mean(np.tanh(E[ids] @ W) ** 2)


PROGRAMS: dict[Any, tuple[str, ...]] = {
    net: ("nd", "dk", "k", "kc"), regression: ("nd", "dk", "k", "nk"), attention: ("btd", "dk", "dk", "dk"),
    heads: ("btd", "dhe", "dhe", "dhe"), mixer: ("btd", "tt", "dd"), recurrent: ("bh", "dg", "hg", "tbd"),
    kernel: ("nd", "md", "mc"), normalized: ("nd", "dk", "kc", "k"), whitened: ("nd", "dd"),
    images: ("nyxc", "33co", "om"), bilinear: ("ni", "nj", "ijk"), embedded: ("vd", "dk", "nt"),
}


def drawn(program, seed):
    """Draw an extent for each axis: every other program has powers of two."""
    rng = np.random.default_rng(seed)
    axes = dict.fromkeys("".join(PROGRAMS[program]))
    return {axis: int(rng.choice(SIZES if seed % 2 else POWERS)) for axis in axes}


def verified(program, sizes, dtype="f64", threads=2):
    """Schedule a gradient for some sizes."""
    sizes = {**sizes, "3": 3, "g": 2 * sizes.get("h", 0), "y": 8, "x": 9}
    shapes = [[sizes[axis] for axis in axes] for axes in PROGRAMS[program]]
    if max(map(math.prod, shapes)) > MOST:
        return
    dtypes = [dtype, dtype, "i64" if program is embedded else dtype, dtype]
    specs = [sg.spec(f"{one}[{','.join(map(str, shape))}]") for one, shape in zip(dtypes, shapes, strict=False)]
    wrt = tuple([k for k, one in enumerate(specs) if one.dtype.kind == "f"])
    options = sg.Options(threads=threads, verify=True)
    sg.value_and_grad(program, wrt, options=options).lower(*specs).as_text("loops")


KNOWN = [
    (recurrent, {"b": 64, "t": 20, "d": 128, "h": 128}), (recurrent, {"b": 64, "t": 20, "d": 64, "h": 128}),
    # the verifier itself: it remembered an array that was gone, and took a sum's life for that of its copies
    (recurrent, {"b": 32, "t": 256, "d": 64, "h": 64}), (whitened, {"n": 128, "d": 128}),
]


@pytest.mark.parametrize(("program", "sizes"), KNOWN)
def test_sizes_that_were_wrong(program, sizes):
    """Threads wrote the same sum, each all of it: a sweep of 128 rows became one tile, which none of them shared."""
    verified(program, sizes)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_sizes_of_tiles_and_blocks(program):
    for seed in range(6):
        verified(program, drawn(program, seed))
    verified(program, drawn(program, 0), "f32", threads=1)


@pytest.mark.nightly
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_many_sizes_of_tiles_and_blocks(program):
    for seed in range(6, 300):
        verified(program, drawn(program, seed), ("f64", "f32")[seed % 3 == 0], 2 - (seed % 5 == 0))
