"""Random programs, written out as Python source text, so that a failure is its own bug report.

A program is grown line by line: a line is kept when plain NumPy runs it at the drawn arguments and its value is tame
(finite, of everyday size, away from kinks). `F32` stands for float32, so that a check can run the text in long double.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from tests.growth import SIZE, Growth, Unfit
from tests.program_lines import ASKING, KINDS, OPEN
from tests.writers import OPEN_NAMES, OPEN_TEXT

Array = np.ndarray[Any, Any]

HEAD = "import numpy as np\nimport scipy.special\n\nF32 = np.float32\n"


@dataclass(frozen=True)
class Written:
    """One program with its arguments.

    Attributes:
        text: ``def program(...)`` and ``def loss(...)``.
        args: the arguments it was grown at.
        argnums: the arguments that can be differentiated by.
        specs: a spec for each argument, with named extents, where the program was grown for them.
        resized: arguments of other extents.
    """

    seed: int
    text: str
    args: tuple[Any, ...]
    argnums: tuple[int, ...]
    specs: tuple[str, ...] = ()
    resized: tuple[Any, ...] = ()

    def functions(self, narrow: Any = np.float32) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Compile the text: `program` and `loss`; `narrow` is what `F32` stands for."""
        name = f"<program {self.seed}{' of named extents' if self.specs else ''}>"
        linecache.cache[name] = (len(self.text), None, self.text.splitlines(keepends=True), name)
        names: dict[str, Any] = {}
        exec(compile(self.text, name, "exec"), names)
        names["F32"] = narrow
        return names["program"], names["loss"]

    def script(self, what: str) -> str:
        """Return a script that shows what is wrong."""
        return (
            f"\n{what}\nTo see it, run:\n\n{self.text}\nargs = {_literal(self.args)}\nimport symgrad as sg\n"
            f"with np.printoptions(precision=17):\n    print(program(*args), sg.jit(program)(*args), sep='\\n')\n"
            f"    print(sg.value_and_grad(loss, argnums={self.argnums})(*args))\n"
        )


def _literal(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_literal, value))},)"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {_literal(v)}" for k, v in value.items()) + "}"
    return f"np.array({value.tolist()!r}, np.{value.dtype}).reshape({value.shape})"


def random_program(
    seed: int, *, more: Any = (), functions: tuple[str, dict[str, Any]] = ("", {}), long: bool = False,
) -> Written:
    """Grow a program of 1 to 30 lines from a seed; of `more` kinds of lines, which call functions, given as text.

    A `long` one has axes that differ by few, that fill lanes, and that loops are cut at the ends of.
    """
    rng = Random(seed)
    g = Growth(rng, functions=functions[1], size=9000 if long else SIZE)
    draw = np.random.default_rng(seed)
    extents = [rng.choice([64, 65, 66, 67] if long else [0, 1, 2, 3, 3, 4, 5, 6]) for _ in range(3)]
    args: list[Any] = []
    parameters: list[str] = []
    argnums = []
    for k in range(rng.randrange(1, 5)):
        kind = rng.choice(["f8"] * 8 + ["f4", "i8", "?"]) if k else "f8"
        arrays = {n: _drawn(draw, rng, extents, kind, g.size) for n in (["w", "b"] if rng.random() < 0.3 else ["x"])}
        name = f"p{k}"
        for key, array in arrays.items():
            own = f"{name}{key}"
            g.values[own] = array
            g.lines.append(f'{own} = {name}["{key}"]' if len(arrays) > 1 else f"{own} = {name}")
        parameters.append(name)
        args.append(arrays if len(arrays) > 1 else arrays["x"])
        if kind in {"f8", "f4"}:
            argnums.append(k)
    grow(g, [*KINDS, *more], rng.randrange(1, 31))
    return Written(seed, HEAD + functions[0] + _text(g, parameters), tuple(args), tuple(argnums))


def _drawn(draw: np.random.Generator, rng: Random, extents: list[int], kind: str, size: int) -> Array:
    shape = tuple([rng.choice([*extents, 1]) for _ in range(rng.choice([0, 1, 1, 2, 2, 2, 3]))])
    if int(np.prod(shape)) > (60 if size == SIZE else size):
        shape = shape[:2]
    if kind == "i8":
        return draw.integers(0, max(1, min([e for e in extents if e] or [1])), shape)
    if kind == "?":
        return np.asarray(draw.integers(0, 2, shape), bool)
    values = np.asarray(draw.uniform(-2, 2, shape))
    return np.asarray(values + np.copysign(0.05, values), kind)


SIZES = (
    (5, 3, 4), (6, 8, 3), (2, 5, 7), (1, 2, 3), (40, 1, 33), (0, 9, 1), (3, 65, 0), (33, 34, 9), (1, 1, 1), (2, 2, 1),
)
"""Extents of programs with named ones: those they are grown at, then those they are run at as well."""


def random_open_program(seed: int, *, asking: bool = False) -> Written:
    """Grow a program whose extents have names; its text holds no extent, and it runs at others too.

    With `asking`, it may do something else for some extents than for others.
    """
    rng = Random(seed)
    g = Growth(rng, symbolic=True, functions=OPEN_NAMES)
    draw = np.random.default_rng(seed)
    sizes = [dict(zip("nmk", each, strict=True)) for each in SIZES]
    forms: list[tuple[Any, ...]] = [("n",), ("n", "m"), ("m",), ("m", "k"), (), ("n", 3), ("k", "n"), ("n", "m", "k")]
    shapes = [rng.choice(forms) for _ in range(rng.randrange(1, 4))]
    drawn = []
    for at in sizes:
        arrays = [draw.uniform(-2, 2, [at[d] if isinstance(d, str) else d for d in shape]) for shape in shapes]
        drawn.append(tuple([np.asarray(a) for a in arrays]))
    g.values, *g.elsewhere = [{f"p{k}": array for k, array in enumerate(arrays)} for arrays in drawn]
    grow(g, ASKING if asking else OPEN, rng.randrange(1, 16))
    specs = tuple([f"f64[{','.join(map(str, shape))}]" for shape in shapes])
    text = HEAD + OPEN_TEXT + _text(g, [f"p{k}" for k in range(len(shapes))])
    return Written(seed, text, drawn[0], tuple(range(len(shapes))), specs, tuple(drawn[1:]))


def grow(g: Growth, kinds: list[tuple[Callable[[Growth], None], int]], lines: int) -> None:
    """Add lines; those that do not fit are drawn again, but not forever."""
    makers, weights = zip(*kinds, strict=True)
    target = len(g.lines) + lines
    for _ in range(lines * 25):
        if len(g.lines) >= target:
            return
        try:
            g.rng.choices(makers, weights)[0](g)
        except Unfit:
            continue


def _text(g: Growth, parameters: list[str]) -> str:
    names = list(g.values)
    unused = [n for n in names if n not in g.used]
    results = [n for n in unused if g.values[n].dtype.kind == "f"][-3:] or [names[-1]]
    results += [n for n in unused if g.values[n].dtype.kind != "f"][-2:]
    if g.rng.random() < 0.3:
        results.append(g.rng.choice(names))
    floats = [n for n in names if g.values[n].dtype.kind == "f"]
    smooth = [r for r in dict.fromkeys(results) if r in floats] or floats[-1:]
    results = list(dict.fromkeys([*results, *smooth]))
    lines = "\n".join(f"    {line}" for line in g.lines)
    weights = [0.7, -0.3, 1.1, 0.5]
    taken = [f"np.sum({r}) * {weights[results.index(r) % 4]}" for r in smooth]
    return (
        f"\n\ndef program({', '.join(parameters)}):\n{lines}\n    return {', '.join(results)},\n"
        f"\n\ndef loss({', '.join(parameters)}):\n    {', '.join(results)}, = program({', '.join(parameters)})\n"
        f"    return {' + '.join(taken)}\n"
    )


def leaves(args: Any) -> Iterator[Array]:
    """List the arrays of arguments or results, in order."""
    if isinstance(args, (tuple, list)):
        for item in args:
            yield from leaves(item)
    elif isinstance(args, dict):
        for key in sorted(args):
            yield from leaves(args[key])
    else:
        yield np.asarray(args)


def changed(args: Any, change: Callable[[Array], Array]) -> Any:
    """Apply a function to every array of arguments."""
    if isinstance(args, (tuple, list)):
        return tuple([changed(item, change) for item in args])
    if isinstance(args, dict):
        return {key: changed(args[key], change) for key in sorted(args)}
    return change(args)
