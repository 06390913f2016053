"""Random Python loops: states, rows, tables, lists, writes into arrays, values of a copy or two before, odd steps."""

from __future__ import annotations

import linecache
from contextlib import suppress
from random import Random
from typing import Any, NamedTuple

import numpy as np

UNARY = ("np.sin({})", "np.tanh({})", "0.5 * {}", "np.cos({} + 0.3)", "{} / (1.0 + {} * {})", "np.exp(-{} * {})",
         "np.where({} > 0.5, np.sqrt(np.maximum({}, 0.5) - 0.5), 0.2)")
BINARY = ("0.6 * {} + 0.3 * {}", "{} * 0.5 - {} * 0.4", "np.sin({}) * {}", "np.maximum({}, {})",
          "np.where({} > {}, 0.2, 0.7)", "np.hypot({}, {}) * 0.5")


class Loop(NamedTuple):
    """A program whose loops are Python's, as text.

    Attributes:
        text: it defines `program`.
        args: its arguments.
    """

    text: str
    args: tuple[Any, ...]

    def function(self) -> Any:
        """Define the program, with lines that a trace can name."""
        name = f"<random loop {hash(self.text)}>"
        linecache.cache[name] = len(self.text), None, self.text.splitlines(keepends=True), name
        space: dict[str, Any] = {}
        exec(compile(self.text, name, "exec"), space)
        return space["program"]


class _Writer:
    """A loop's body while it is written."""

    def __init__(self, rng: Random, vector: bool) -> None:
        self.rng, self.vector = rng, vector
        self.lines: list[str] = []
        self.known = ["a", "b"]

    def value(self) -> str:
        """Choose something that a line may read."""
        rng = self.rng
        kind = rng.randrange(15)
        if kind < 5:
            return rng.choice(self.known)
        rows = "[:, {}]" if self.vector else "[{}]"
        return {
            5: "x" + rows.format("t"), 6: "x" + rows.format("len(seen) - 1 - t"), 7: "x" + rows.format("seen[t]"),
            8: "w", 9: "c[t % 3]", 10: "0.01 * t", 11: "y" + rows.format("2 * t"),
            12: "np.where(seen[t] % 3 > 0, w, 0.3)", 13: "np.sin(w * c[seen[t] % 3])",  # equal ones, at some steps
            14: f"np.where(seen[t] % 4 > 0, {rng.choice(self.known)}, 0.1)",
        }[kind]

    def line(self, depth: int = 0) -> None:
        """Write a line, or a loop within the loop."""
        rng, pad = self.rng, "    " * (2 + depth)
        name = f"v{len(self.known)}"
        kind = rng.randrange(10)
        if kind < 3:
            value = self.value()
            self.lines.append(f"{pad}{name} = {rng.choice(UNARY).replace('{}', f'({value})')}")
        elif kind < 8 or depth:
            one, other = self.value(), self.value()
            self.lines.append(f"{pad}{name} = {rng.choice(BINARY).format(f'({one})', f'({other})')}")
        else:
            self.lines += [f"{pad}{name} = {self.value()}", f"{pad}for _ in range({rng.choice([2, 3, 35])}):"]
            self.lines.append(f"{pad}    {name} = {rng.choice(BINARY).format(name, self.value())}")
        self.known.append(name)


ODD = (
    "if t == {at}: a = a * 0.5",
    "if t > {at}: a = np.sin(a)",
    "if t % {every} == 0: b = b + 0.1",
    "a = np.sin(a) if t == {at} else np.cos(a)",
    "if t in {{3, {at}}}: out[t] = a",
    "if t == 0: first = a\n        b = b + 0.1 * first",
    "if t < {at}: continue",
    "if t == {last}: break",
    "a, b = b, a",
    "b = b[::-1] if np.ndim(b) and t >= {at} else b",
)
"""Steps that are not like the others."""


def random_loop(seed: int) -> Loop:
    """Write a program of a loop, which may have loops within; NumPy runs it."""
    for k in range(20):
        loop = _drawn(Random(1000 * seed + k))
        with suppress(ValueError):
            loop.function()(*loop.args)
            return loop
    raise AssertionError(seed)


def _drawn(rng: Random) -> Loop:
    seed = rng.randrange(1 << 30)
    draw = np.random.default_rng(seed)
    vector = rng.random() < 0.5
    steps = rng.choice([1, 5, 31, 33, 34, 36, 40, 47, 70])
    writer = _Writer(rng, vector)
    for _ in range(rng.randrange(1, 7)):
        writer.line()
    body = writer.lines
    pad = "        "
    names = writer.known[2:]
    carried = rng.sample(["a", "b"], rng.randrange(1, 3))
    back = rng.random()
    for name in carried:
        body.append(f"{pad}{name} = 0.5 * {name} + 0.4 * {rng.choice(names)}")
    if back < 0.3:
        body.append(f"{pad}a, b = b, 0.5 * a + {rng.choice(names)}")
    elif back < 0.4:
        body.append(f"{pad}a, b, c3 = b, c3, 0.3 * a + 0.3 * {rng.choice(names)}")
    if rng.random() < 0.5:
        text = rng.choice(ODD).format(at=rng.randrange(steps), every=rng.choice([2, 3, 7]), last=max(1, steps - 2))
        body.insert(0 if rng.random() < 0.6 else len(body), pad + text)
    what = rng.randrange(5)
    store = {
        0: "", 1: f"rows.append({rng.choice(names)})", 2: "out[t] = a", 3: "out[t] = out[t - 1] * 0.5 + a",
        4: "view = out[t:t + 2]; view[0] = a; total = total + np.sum(view) * 0.1",
    }[what]
    if store:
        body.append(pad + store)
    if rng.random() < 0.4:
        body.append(f"{pad}total = total + np.sum({rng.choice([*names, 'a'])}) * 0.1")
    if (more := Random(seed)).random() < 0.25:  # a loop in a loop reads what that carries
        inner = f"z = z - 0.2 * (z - 0.5 * a - 0.1 * np.sin({more.choice([*names, 'z', 'b'])} * z))"
        head = f"for _ in range({more.choice([3, 5, 8, 33])}):"
        body += [f"{pad}z = a", f"{pad}{head}", f"{pad}    {inner}", f"{pad}a = z"]
    shape = "(3,)" if vector else "()"
    last = ["np.sum(a * 1.1) + np.sum(b) + total + np.sum(out)"]
    if what == 1:
        whole = "np.sum(np.stack(rows) ** 2) + np.sum(rows[0]) + np.sum(rows[-1])"
        last.append(whole if rng.random() < 0.5 else "sum([np.sum(r) for r in rows])")
    text = "\n".join([
        "import numpy as np", f"seen = np.random.default_rng({seed}).integers(0, {steps}, {steps})", "",
        "def program(a, b, x, y, w, c):", f"    rows, total, c3, first = [], 0.0, np.ones({shape}), 0.0",
        f"    out = np.zeros(({steps} + 1, *{shape}))", f"    for t in range({steps}):", *body,
        *(["    rows = rows or [a]"] if what == 1 else []), f"    return {' + '.join(last)}", "",
    ])
    own = (3,) if vector else ()

    def drawn(*shape: int) -> Any:
        return draw.uniform(0.2, 1.2, shape)

    rows = (*own, steps), (*own, 2 * steps)
    return Loop(text, (drawn(*own), drawn(*own), drawn(*rows[0]), drawn(*rows[1]), drawn(*own), drawn(3)))


GATES = (
    "np.tanh(z[..., :{n}]) * z[..., {n}:]", "np.sin(z[..., {n}:]) + 0.3 * h",
    "z[..., :{n}] / (1.0 + z[..., {n}:] ** 2)",
    "np.where(z[..., {n}:] > 0, h, z[..., :{n}])", "0.5 * h[..., ::-1] + 0.2 * z[..., {n}:]",
)
"""The next state, of sums of products."""

WRITES = ("out[t] = {v}", "out[t + 1] = 0.5 * out[t] + {v}", "out[seen] = {v}", "out[t] += {v}",
          "np.add.at(out, seen, {v})",
          "out[seen] = out[t, ..., ::-1] * {v}", "out[t] = {v}; out[seen] = 0.4 * out[t]", "out = 0.5 * out", "pass")
"""What becomes of an array that is carried."""


class Scan(NamedTuple):
    """A program of a scan, as text: `program(scan, h, U, W, xs, places, out)`, and its arguments."""

    text: str
    args: tuple[Any, ...]

    def function(self, scan: Any) -> Any:
        """Define the program, with `sg.scan` or the same in Python."""
        space: dict[str, Any] = {"scan": scan}
        exec(self.text, space)
        return space["program"]


def random_scan(seed: int) -> Scan:
    """Write a scan of a batch of states, and of an array of which elements are written in each step."""
    rng, draw = Random(seed), np.random.default_rng(seed)
    n, b = rng.choice([3, 9, 12]), rng.choice([(), (2,), (4,), (10,)])
    d, steps = rng.choice([4, 5]), rng.choice([1, 2, 7, 9])
    row = "h[0]" if b else "h"
    values = "{}", "np.sin({})", "0.5 * {} + 0.1", "0.2 * {} + out[t]", "{} * out[seen, ..., ::-1]"
    v = rng.choice(values).format(row)
    ys = rng.sample(["h", "z", "out[t]", "np.sum(out)", "c", "x", "np.max(h)", "h * c"], rng.randrange(1, 4))
    z = "x @ W + h @ U" if rng.random() < 0.7 else "x @ W + np.concatenate([h, h], -1) * 0.3"
    gate = rng.choice(GATES).format(n=n)
    lines = [f"z = {z}", f"h = {gate}", f"c = 0.6 * c + {rng.choice(['h', f'z[..., :{n}]', 'h * c'])}"]
    rng.shuffle(lines[1:])
    lines += ["out = np.copy(out)", rng.choice(WRITES).format(v=v)]
    if rng.random() < 0.5:  # roots, whose slope is infinite where they are not used, of rows and of the step before
        lines.insert(0, "x = np.where(x > 0, root, 0.3 * x)")
        lines += ["c = c + np.where(q > 0.2, r, 0.0)", "q, r = c, np.sqrt(np.maximum(c, 0.2) - 0.2)"]
    text = "\n".join([
        "import numpy as np", "", "def program(h, U, W, xs, places, out):", "    def step(carry, row):",
        "        (h, c, out, q, r), (x, root, seen, t) = carry, row", *[f"        {line}" for line in lines],
        f"        return (h, c, out, q, r), ({', '.join(ys)},)", "",
        f"    rows = xs, np.sqrt(np.maximum(xs, 0.0)), places, np.arange({steps})", "    zero = 0.0 * h",
        f"    (h, c, out, *_), ys = scan(step, (h, zero, out, zero, zero), rows, reverse={rng.random() < 0.3})",
        "    return sum([np.sum(np.cos(y)) for y in (h, c, out, *ys)])", "",
    ])
    shapes = (*b, n), (n, 2 * n), (d, 2 * n), (steps, *b, d)
    h, U, W, xs = [draw.normal(size=shape) / 2 for shape in shapes]
    return Scan(text, (h, U, W, xs, draw.integers(0, steps, steps), draw.normal(size=(steps + 1, n))))
