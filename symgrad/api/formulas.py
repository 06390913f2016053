"""`from_sympy`: a SymPy expression as a compiled function."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from operator import methodcaller
from typing import Any

import numpy as np

from symgrad.api.call.function import Function
from symgrad.api.modes.derivatives import jit
from symgrad.errors import ArgumentError, ShapeError, UnsupportedError
from symgrad.ir.names import identifier
from symgrad.ops import load
from symgrad.ops.declare.calculus import in_numpy, no_word, word_of
from symgrad.ops.declare.forms import shape_of
from symgrad.trace import optree


def from_sympy(expression: Any, args: Sequence[Any] | None = None, **settings: Any) -> Function[..., Any]:
    """Compile a SymPy expression, or a tuple, list, dict or matrix of expressions.

    It is evaluated as NumPy code with one value for each part that occurs several times, and derived as any other
    function: ``sg.grad(sg.from_sympy(...))``.

    Args:
        expression: what to compute, of real numbers. Sums and products run over whole numbers, from one known bound to
            another. What NumPy has no function for is written by others, where SymPy knows how.
        args: what the arguments stand for, one each, or the only one: a symbol (of a number, or of an array: then the
            result has an element for each), an ``IndexedBase``, a ``MatrixSymbol``, anything else that occurs in the
            expression (``q(t)``, ``Derivative(q(t), t)``), or a list, tuple or matrix of such, for one array of them.
            Without it, the free symbols by name. Extents of an ``IndexedBase`` or a ``MatrixSymbol`` that are symbols
            are those of the array.
        settings: those of `jit`.

    Returns:
        A `Function` of the arguments, which have the symbols' names. A matrix of expressions gives an array of its
        shape; where entries are arrays themselves, their axes come first. Of float32 arguments the result is float32.

    Raises:
        ArgumentError: it is no expression, a symbol in it is none of the arguments, or one of them stands there twice.
        UnsupportedError: a function of SymPy's has no form in NumPy that symgrad compiles.
        ShapeError: when called, an array has not the shape of its ``IndexedBase``, ``MatrixSymbol`` or list.

    >>> import numpy as np, sympy, symgrad as sg
    >>> x, k = sympy.symbols("x k")
    >>> f = sg.from_sympy(sympy.exp(-k * x) * sympy.sin(x), (x, k))
    >>> float(f(1.0, 0.5)), float(sg.grad(f)(0.0, 0.5))
    (0.5103..., 1.0)
    >>> f(np.array([0.0, np.pi / 2]), 0.0)
    array([0., 1.])
    """
    import sympy

    load()
    leaves, structure = optree.tree_flatten(_immutable(expression))
    whole = sympy.Tuple(*map(_sympified, leaves))
    if isinstance(args, sympy.Basic) and not isinstance(args, sympy.Tuple) and not hasattr(args, "tolist"):
        args = (args,)
    if args is None:
        args = sorted((s for s in whole.free_symbols if isinstance(s, (sympy.Symbol, sympy.MatrixSymbol))), key=str)
    keys = [key for arg in args for key, _ in _element_places(_immutable(arg))]
    if len({*keys}) < len(keys):
        raise ArgumentError(f"from_sympy: {next(k for k in keys if keys.count(k) > 1)} is two arguments")
    whole = _with_words(whole, {*keys, *[dim for key in keys for dim in getattr(key, "shape", None) or ()]})
    names: list[str] = []
    for k, arg in enumerate(args):
        own = str(arg) if hasattr(arg, "name") else f"x{k}"
        if own in [str(other) for other in args[:k] if hasattr(other, "name")]:
            raise ArgumentError(
                f"from_sympy: two symbols are called {own}, of other assumptions",
                instead=f"sympy.Symbol({own!r}), made once, or two names")
        names.append(own if own.isidentifier() and not keyword.iskeyword(own) else identifier(own, names))
    signature = inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names])

    def formula(*values: Any, **named: Any) -> Any:
        known: dict[Any, Any] = {}
        for arg, value in zip(args, signature.bind(*values, **named).args, strict=True):
            for key, place in _element_places(_immutable(arg), value):
                known[key] = value[place] if place else value
                shape, actual = getattr(key, "shape", ()), np.shape(known[key])
                for k, dim in enumerate(shape or ()):  # extents that its symbol has
                    if len(actual) != len(shape) or (dim.is_Integer and actual[k] != int(dim)):
                        raise ShapeError(f"the argument {key} has the shape {shape_of(known[key])}, not {tuple(shape)}")
                    if dim.is_Symbol:
                        known.setdefault(dim, actual[k])
        return optree.tree_unflatten(structure, list(in_numpy(whole, known)))

    formula.__signature__ = signature  # type: ignore[attr-defined]
    return jit(formula, **settings)


def _sympified(leaf: Any) -> Any:
    """Make a number SymPy's; what is no expression is refused, a text too: its symbols would be other ones."""
    import sympy

    try:
        return sympy.sympify(leaf, strict=True)
    except sympy.SympifyError:
        what = f"{leaf!r}" if isinstance(leaf, str) else f"a {type(leaf).__name__}"
        raise ArgumentError(
            f"from_sympy: {what} is no SymPy expression",
            instead="one made of sympy.symbols, or sympy.sympify of a text",
        ) from None


def _immutable(tree: Any) -> Any:
    """Make SymPy's matrices immutable: these are expressions; lists of them are structures."""
    import sympy

    if isinstance(tree, sympy.Tuple):
        return tuple(map(_immutable, tree.args))
    if isinstance(tree, (list, tuple)):
        return type(tree)(map(_immutable, tree))
    if isinstance(tree, dict):
        return {key: _immutable(value) for key, value in tree.items()}
    if isinstance(tree, sympy.MatrixBase):
        return sympy.ImmutableDenseMatrix(tree)
    return sympy.ImmutableDenseNDimArray(tree) if isinstance(tree, sympy.NDimArray) else tree


def _element_places(arg: Any, value: Any = None) -> Iterator[tuple[Any, tuple[int, ...]]]:
    """List what an argument stands for, each with its place in it; look at its shape where there is a value."""
    if not isinstance(arg, (list, tuple)) and not hasattr(arg, "tolist"):
        yield arg, ()
        return
    items = np.array(arg.tolist() if hasattr(arg, "tolist") else arg, dtype=object)
    if value is not None and shape_of(value) != items.shape:
        raise ShapeError(f"the argument for {arg} has the shape {shape_of(value)}, not {items.shape}")
    yield from ((item, place) for place, item in np.ndenumerate(items))


def _with_words(whole: Any, known: set[Any]) -> Any:
    """Write parts that have no word by others that have; look whether each part has one, before anything is called."""
    import sympy

    while (found := {part: _otherwise(part, known) for part in _without_word(whole, known)}):
        for part, other in found.items():
            if other is None:
                doing = isinstance(part, (sympy.Derivative, sympy.Integral, sympy.Limit, sympy.Subs))
                instead = f"{part}.doit()" if doing else "other functions: sympy.hyperexpand, .rewrite(...)"
                raise UnsupportedError(f"from_sympy: {no_word(part)}", instead=instead)
        whole = whole.xreplace(found)
    return whole


def _otherwise(part: Any, known: set[Any]) -> Any:
    """Write an expression by others that have words, as SymPy can in one of several ways; None where it cannot.

    Integrals and limits are left: nobody knows how long SymPy takes for them.
    """
    import sympy

    ways: list[Callable[[], Any]] = [
        part.doit, lambda: sympy.expand_func(part), lambda: part.args[1].as_relational(part.args[0]),
        partial(methodcaller("as_explicit"), part),
        *[partial(part.rewrite, other) for other in (sympy.Piecewise, sympy.gamma, sympy.erf, sympy.zeta)],
    ]
    if isinstance(part, (sympy.Integral, sympy.Limit)):
        return None
    inside: set[Any] = set()
    with suppress(ArgumentError):  # of a variable that is bound
        inside.update(_without_word(sympy.Tuple(*part.args), known))
    for way in ways:
        with suppress(Exception):
            made = sympy.sympify(way(), strict=True)
            if made != part and inside.issuperset(_without_word(made, known)):
                return made
    return None


def _without_word(whole: Any, known: set[Any]) -> list[Any]:
    """List the outermost parts that have no word."""
    import sympy

    seen, stack, found = {*known}, [whole], []
    while stack:
        part = stack.pop()
        if part in seen or part.is_Number or part.is_NumberSymbol:
            continue
        seen.add(part)
        seen.update(part.variables if isinstance(part, (sympy.Sum, sympy.Product, sympy.Lambda)) else ())
        if part.is_Symbol or isinstance(part, (sympy.IndexedBase, sympy.MatrixSymbol)):
            raise ArgumentError(f"{part} is none of the arguments of the expression", instead="it in args")
        if not isinstance(part, (sympy.Tuple, sympy.Lambda)) and word_of(part) is None:  # not of results and limits
            found.append(part)
            continue
        stack.extend(part.flat() if hasattr(part, "flat") else part.args)
    return found
