"""`Op`: what every operation of the IR can be asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from symgrad.ir.index.notation import Body
    from symgrad.ir.index.shapes import Shape
    from symgrad.ir.node import Node

    Rule = Callable[..., Any]


@dataclass(eq=False, repr=False)
class Op:
    """An operation; `symgrad.ops` declares one object of a subclass for each.

    Attributes:
        name: unique; the word of the printed program.
        params: the names of a node's parameters.
        evaluate: its meaning: ``evaluate(*arrays, **params)`` in NumPy.
        infer: shape and dtype of the result: ``infer(*inputs, **params)``, raising ShapeError with both shapes.
        vjp: the rule ``vjp(g, y, *x, **params)``, one cotangent for each input (a tuple when there are several;
            None where there is none), written in NumPy; None: the adjoint of its body is taken.
        equals: of a rule that divides by differences of values, which may be equal: these values and a direction,
            ``equals(*x)``. The rule gets the cotangent's tangent along it, too: ``vjp(..., slope=)``, or None; and
            within a loop or a branch `probe`, the cotangent if those of the program's results were any numbers.
        nondiff: its derivative is zero wherever there is one (comparisons, floor, argmax): no cotangent goes through.
        determined: operands that the others determine, as factors of a matrix: its rule is one by the others alone,
            and gives None for them.
        used: which elements of its inputs the result is made of, where it picks: ``used(y, *x, **params)`` returns a
            condition for each input (a tuple when there are several; None: all). Elsewhere the rule gives zero.
        text: how a node prints in Python, given the names of its inputs; None: as a call of the op.
        log: the logarithm of its value, ``log(*x, **params)``, where that is positive by its form.
        logs: the same of the logarithms of its operands that are floats, ``logs(*logarithms, **params)``.

    Of what works on arrays (of an elementwise op it is found out by trying, see `symgrad.ops.declare.traits`):

    Attributes:
        view: the result is the operand's elements in another order: never computed, only substituted.
        moves: its rule moves and adds cotangents and does nothing else, so that conditions on them go the same way.
        regular: each element is one of the operands', or a sum of products of them: where they are finite, so are the
            result and the rule, and where they are not negative, the result is not. Of a composite: value and rule
            are finite where the operands are.
        running: an element is made of those before it and its own, along the parameter `axis`, or the last axis.
        stacked: it is applied to each matrix of stacks of them.
        whole: it moves elements and leaves none of its operands' out, whatever its parameters are.
        columns: operands of which each column goes into the same column of the result and no other.
        linear: operands in each of which, whatever the others are, the result is linear; not of what moves elements.
        labels: of a sum of products, the labels of the axes of each operand and of the result, ``labels(**params)``.
        batched: its parameters where every operand has one more axis in front, ``batched(size, **params)``; None where
            no parameters say so, and index notation must.
        many: a batch where some operands have the axis, ``many(mapped, *xs, **params)``; None as for `batched`.
        aligned: operands stand at the last axes of the result, as in broadcasting.
        put: of what picks elements of its first operand, that array once they have other values:
            ``put(x, value, *others, **params)``; a view that is `whole` needs none: its rule puts them back.
        rows: which rows of its first operand a node is, ``rows(node)``: an operand, a number, or several numbers; None
            for others.
        segments: of what says of each element in which segment it is, the operand that says where these begin, and
            behind them where the last one ends.
        repeats: of a view, that elements may be in it several times: nothing can be written through it.
        ordered: of a view, that it has all elements in the same order: a reshape.
        copies: of a view, that NumPy may need memory for it all the same.
        limits: of what gives integers, the least and the greatest there may be: ``limits(node)``.
        decides: a node says whether the program is the one for a call, and is no result of it.
    """

    name: str
    params: tuple[str, ...] = ()
    evaluate: Callable[..., Any] = None  # type: ignore[assignment]
    infer: Callable[..., tuple[Shape, np.dtype[Any]]] = None  # type: ignore[assignment]
    vjp: Rule | None = None
    equals: Rule | None = None
    nondiff: bool = False
    determined: tuple[int, ...] = ()
    used: Rule | None = None
    text: Callable[[Node, list[str]], str] | None = None
    log: Rule | None = None
    logs: Rule | None = None
    numpy: Any = None
    sample: Any = None
    edges: tuple[Any, ...] = ()
    doc: str = field(default="")
    view: bool = False
    moves: bool = False
    regular: bool = False
    running: bool = False
    stacked: bool = False
    whole: bool = False
    columns: tuple[int, ...] = ()
    linear: tuple[int, ...] = ()
    labels: Any = None
    batched: Callable[..., dict[str, Any]] | None = None
    many: Callable[..., Any] | None = None
    aligned: bool = False
    put: Callable[..., Any] | None = None
    rows: Callable[[Node], Any] | None = None
    segments: int | None = None
    repeats: bool = False
    ordered: bool = False
    copies: bool = False
    limits: Callable[[Node], tuple[Any, Any]] | None = None
    decides: bool = False

    kind = "op"

    @property
    def __name__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}>"

    def named(self, values: tuple[Any, ...]) -> dict[str, Any]:
        """Return the values of parameters by their names."""
        return dict(zip(self.params, values, strict=True))

    def __call__(self, *inputs: Any, **params: Any) -> Any:
        """Apply the op: traced where an input is traced, by NumPy where none is."""
        for value in inputs:
            bind = getattr(type(value), "__symgrad_bind__", None)
            if bind is not None:
                return bind(value, self, inputs, params)
        return self.evaluate(*inputs, **params)


@dataclass(eq=False, repr=False)
class Leaf(Op):
    """A node without inputs: an argument, a constant, an extent."""

    kind = "leaf"


@dataclass(eq=False, repr=False)
class Elementwise(Op):
    """One scalar function, applied along broadcast inputs.

    Attributes:
        arity: how many inputs.
        value: the function as a SymPy expression: a callable of `arity` symbols, or None.
        partials: a callable ``(x1, ..., y) -> tuple`` of the partial derivatives, in NumPy words; None: what its
            linearity says, or SymPy's.
        c: C spelling by kind of dtype: ``{"f": ...}``; a bare name is called with C's suffix for float.
        lanes: C spelling where exp has vector variants: an inlined function of exp may beat the library's own,
            and what a compiler does to a call may keep it from lanes.
        infix: Python's operator, where there is one.
        steep: where the slope is infinite or missing: of which argument, in words, and whether that is at 0.
        commutes: its arguments may change places to the last bit of the C, where they may in mathematics.
        mirrors: it is even or odd to the last bit of the C, where it is in mathematics.
        exact: it takes Python's integers as numbers, whatever the other's dtype holds.
        source: C text of the user's that its spelling calls.
        library: the function of SciPy's that its spelling calls, by its name and its type in C.
        moderate: NumPy's (SciPy's) function may not end at enormous arguments, and is not tried there.
    """

    arity: int = 1
    value: Callable[..., Any] | None = None
    partials: Callable[..., tuple[Any, ...]] | None = None
    c: dict[str, str] = field(default_factory=dict)
    lanes: str = ""
    infix: str | None = None
    steep: tuple[int, str, bool] | None = None
    exact: bool = False
    commutes: bool = True
    mirrors: bool = True
    source: str = ""
    library: str = ""
    moderate: bool = False

    kind = "elementwise"


@dataclass(eq=False, repr=False)
class Structured(Op):
    """An array operation with a body in index notation: ``body(node) -> Body``."""

    body: Callable[[Node], Body] = None  # type: ignore[assignment]

    kind = "structured"


@dataclass(eq=False, repr=False)
class Control(Op):
    """An op that runs programs, which are parameters of its nodes, and has several results: `result` gives each.

    Its node has no shape and the dtype `SEVERAL`; ``evaluate(*arrays, **params)`` returns a list. Its rule is
    ``vjp(gs, active, *x, **params)``: of each result the cotangent or None, of each input whether its own is wanted.

    Attributes:
        results: shape and dtype of each result, of the same arguments as `infer`.
        zeros: which results are zero, given which operands are: ``zeros(zero, **params)``.
        needs: of which operands a result is made: ``needs(index, by, **params)``, where ``by(node)`` says that of the
            nodes of its programs.
        batch: itself for many, see `symgrad.transforms.derive.control`.
        rounds: the extents of how often its program runs, where that is known before: none for once.
        push: tangents of the results, given a node, one of each operand or None, the numbers of the results that are
            wanted, and what pushes a program forward: ``push(node, tangents, of, pushforward)``.
    """

    results: Callable[..., list[tuple[Shape, np.dtype[Any]]]] = None  # type: ignore[assignment]
    zeros: Callable[..., list[bool]] = None  # type: ignore[assignment]
    needs: Callable[..., tuple[bool, ...]] = None  # type: ignore[assignment]
    batch: Callable[..., Any] = None  # type: ignore[assignment]
    push: Callable[..., list[Any]] = None  # type: ignore[assignment]
    rounds: Callable[..., tuple[Any, ...]] | None = None

    kind = "control"


@dataclass(eq=False, repr=False)
class Result(Op):
    """Takes one of the results of such an op, by its number."""

    kind = "control"


@dataclass(eq=False, repr=False)
class Composite(Op):
    """A NumPy function of other ops that has a rule of its own; it is inlined after derivation.

    Attributes:
        body: the function.
        override: in words, the rule of the user's that it has in the place of its own.
    """

    body: Callable[..., Any] = None  # type: ignore[assignment]
    override: str = ""

    kind = "composite"

    def rule(self, vjp: Callable[..., Any]) -> Callable[..., Any]:
        """Give it a derivative rule; decorate the rule with this."""
        self.vjp = vjp
        return vjp
