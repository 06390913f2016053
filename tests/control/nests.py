"""Random programs of loops and branches within each other: `sg`'s and Python's own, beside the same in plain Python.

``program(m, ...)`` is called with ``m = sg`` or with `tests.control.programs.Plain`, whose loops are Python's: then
NumPy runs it as it is. States stand in tuples, lists and dicts; conditions look at values, so that other inputs go
other ways.
"""

from __future__ import annotations

import linecache
from random import Random
from typing import Any, NamedTuple

import numpy as np

UNARY = ("np.sin({})", "np.tanh({})", "0.5 * {}", "np.cos({} + 0.3)", "np.exp(-{0} * {0})", "np.sqrt(1.0 + {0} * {0})")
BINARY = ("0.6 * {} + 0.3 * {}", "{} * 0.5 - {} * 0.4", "np.sin({}) * {}", "np.hypot({}, {} + 1.0) * 0.5", "{} * {}",
          "np.where({0} > {1}, 0.2 * {0}, 0.7 * {1})")
FORMS = ("({}, {})", "[{}, {}]", "{{'p': {}, 'q': {}}}")
PARTS = (("[0]", "[1]"), ("[0]", "[1]"), ("['p']", "['q']"))
DEEP = 3


class Nest(NamedTuple):
    """A program as text, and several arguments for it: the last is a number of steps."""

    text: str
    inputs: tuple[tuple[Any, ...], ...]

    def function(self) -> Any:
        """Define the program, with lines that a trace can name."""
        name = f"<random nest {hash(self.text)}>"
        linecache.cache[name] = len(self.text), None, self.text.splitlines(keepends=True), name
        space: dict[str, Any] = {}
        exec(compile(self.text, name, "exec"), space)
        return space["program"]


class _Writer:
    """A program while it is written; `rows` are things with as many rows as `x` has, one for each scope."""

    def __init__(self, rng: Random) -> None:
        self.rng, self.lines, self.count, self.plain = rng, list[str](), 0, True

    def new(self, start: str = "v") -> str:
        self.count += 1
        return f"{start}{self.count}"

    def put(self, depth: int, text: str) -> None:
        self.lines += ["    " * (1 + depth) + line for line in text.split("\n")]

    def value(self, known: list[str]) -> str:
        rng = self.rng
        one, other = rng.choice(known), rng.choice(known)
        text = rng.choice(UNARY).format(f"({one})") if rng.random() < 0.5 else rng.choice(BINARY).format(one, other)
        return f"({text})"

    def body(self, depth: int, nest: int, known: list[str], lines: int) -> None:
        """Write some lines; what they assign is known after."""
        for _ in range(lines):
            kinds = [self.assign, self.cond, self.scan, self.while_, self.fori, self.python]
            weights = [4, 1, 1, 1, 1, 1] if nest < DEEP else [4, 1, 0, 0, 0, 0]
            self.rng.choices(kinds, weights)[0](depth, nest, known)

    def assign(self, depth: int, _: int, known: list[str]) -> None:
        name = self.new()
        self.put(depth, f"{name} = {self.value(known)}")
        known.append(name)

    def test(self, value: str) -> str:
        return f"np.sum({value}) > {self.rng.choice([0.1, 0.5, 0.9, 1.4])}"

    def cond(self, depth: int, _: int, known: list[str]) -> None:
        name, one, other = self.new(), self.value(known), self.rng.choice(known)
        test = self.test(self.rng.choice(known))
        if self.plain and self.rng.random() < 0.5:
            self.put(depth, f"if {test}:\n    {name} = {one}\nelse:\n    {name} = {self.value(known)}")
        elif self.rng.random() < 0.3:
            sides = ", ".join([f"lambda u: {self.value([*known, 'u'])}" for _ in range(3)])
            self.put(depth, f"{name} = m.switch(k % 4 - 1, [{sides}], {other})")
        else:
            sides = f"lambda u: {self.value([*known, 'u'])}, lambda u: {self.value([*known, 'u'])}"
            self.put(depth, f"{name} = m.cond({test}, {sides}, {other})")
        known.append(name)

    def state(self, known: list[str]) -> tuple[str, tuple[str, str], str]:
        """Choose what a loop carries: a form, its parts, where it begins."""
        form = self.rng.randrange(3)
        return FORMS[form], PARTS[form], FORMS[form].format(self.rng.choice(known), self.value(known))

    def inner(self, depth: int, nest: int, known: list[str], form: str, more: list[str]) -> str:
        """Write a loop's body; return its next state."""
        was, self.plain = self.plain, False
        own = [*known, *more]
        self.body(depth, nest + 1, own, self.rng.randrange(1, 3))
        self.plain = was
        fresh = [name for name in own if name not in known]
        return form.format(f"0.5 * {more[0]} + 0.3 * {self.rng.choice(fresh)}", self.value(fresh))

    def scan(self, depth: int, nest: int, known: list[str]) -> None:
        f, c, r, state, ys = [self.new(w) for w in "fcrsy"]
        form, (p, q), begin = self.state(known)
        pair = self.rng.random() < 0.3
        self.put(depth, f"def {f}({c}, {r}):")
        row = f"{r}[0]" if pair else r
        next_ = self.inner(depth + 1, nest, known, form, [f"{c}{p}", f"{c}{q}", row])
        self.put(depth + 1, f"return {next_}, {row} * {c}{q}")
        rows = "(x, x * 0.5)" if pair else "x"
        more = ", reverse=True" * (self.rng.random() < 0.3)
        self.put(depth, f"{state}, {ys} = m.scan({f}, {begin}, {rows}{more})")
        total = self.new()
        self.put(depth, f"{total} = np.sum({ys}, axis=0) * 0.2 + {state}{p}")
        known += [total, f"{state}{q}"]

    def while_(self, depth: int, nest: int, known: list[str]) -> None:
        f, t, s, state = [self.new(w) for w in "ftsw"]
        form, (p, q), begin = self.state(known)
        most = self.rng.choice(["4", "7", "n"])
        self.put(depth, f"def {t}({s}):\n    return (np.sum(np.abs({s}[0]{p})) > 0.4) & ({s}[1] < {most})")
        self.put(depth, f"def {f}({s}):")
        next_ = self.inner(depth + 1, nest, known, form, [f"{s}[0]{p}", f"{s}[0]{q}"])
        self.put(depth + 1, f"return {next_}, {s}[1] + 1")
        bound = self.rng.choice(["", ", max_steps=6"])
        self.put(depth, f"{state} = m.while_loop({t}, {f}, ({begin}, 0){bound})[0]")
        known += [f"{state}{p}", f"{state}{q}"]

    def fori(self, depth: int, nest: int, known: list[str]) -> None:
        f, i, s, state = [self.new(w) for w in "fisw"]
        form, (p, q), begin = self.state(known)
        self.put(depth, f"def {f}({i}, {s}):")
        next_ = self.inner(depth + 1, nest, known, form, [f"{s}{p}", f"{s}{q}", f"(0.1 * {i} * w)", f"x[{i} % len(x)]"])
        self.put(depth + 1, f"return {next_}")
        lower, upper = self.rng.choice(["0", "1"]), self.rng.choice(["n", "5"])
        self.put(depth, f"{state} = m.fori_loop({lower}, {upper}, {f}, {begin})")
        known += [f"{state}{p}", f"{state}{q}"]

    def python(self, depth: int, nest: int, known: list[str]) -> None:
        """Write a Python loop, over numbers or over rows, that may end early."""
        a, out, t = self.new("a"), self.new("l"), self.new("t")
        rows = self.rng.random() < 0.5
        self.put(depth, f"{a}, {out} = {self.value(known)}, []")
        steps = self.rng.choice([3, 6, 40])
        self.put(depth, f"for {t}, row in enumerate(x):" if rows else f"for {t} in range({steps}):")
        odds = ["", "", f"if {t} == 1: continue", f"if {t} == 2: break", f"if {t} > 3: {a} = np.sin({a})"]
        odd = self.rng.choice([*odds, f"if {t} == 2: return np.sum({a})"] if not depth else odds)
        self.put(depth + 1, f"{out}.append({a})")
        if odd:
            self.put(depth + 1, odd)
        own = [*known, a, *["row"] * rows]
        self.body(depth + 1, max(nest + 1, DEEP - 1), own, 1)
        self.put(depth + 1, f"{a} = 0.5 * {a} + 0.2 * {own[-1]}")
        name = self.new()
        self.put(depth, f"{name} = np.sum(np.stack({out}), axis=0) * 0.1")
        known += [a, name]


def random_nest(seed: int) -> Nest:
    """Write a program of loops and branches, with five inputs."""
    rng = Random(seed)
    writer = _Writer(rng)
    vector, steps = rng.random() < 0.5, rng.choice([1, 2, 3, 5])
    known = ["a", "b", "w"]
    writer.body(0, 0, known, rng.randrange(2, 5))
    last = " + ".join([f"np.sum({name}) * {0.3 + 0.1 * k:.1f}" for k, name in enumerate(known[-4:])])
    head = ["import numpy as np", "", "def program(m, a, b, w, x, k, n):"]
    text = "\n".join([*head, *writer.lines, f"    return {last}", ""])
    draw = np.random.default_rng(seed)
    own = (3,) if vector else ()

    def inputs(number: int) -> tuple[Any, ...]:
        shapes = own, own, own, (steps, *own)
        drawn = [draw.uniform(-1.2, 1.2, shape) for shape in shapes]
        return (*drawn, int(draw.integers(0, 6)), (3, 0, 1, 6, 4)[number])

    return Nest(text, tuple(map(inputs, range(5))))
