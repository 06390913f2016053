"""How an op is declared: one call gives its meaning, derivative, C and tests.

Three kinds: `elementwise`, `structured`, `composite`. Each call enters the op into `OPS` (by name) and
into `ANSWERS` (by the NumPy or SciPy function it answers), which is all the rest of symgrad looks at.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from symgrad.errors import DtypeError, UnsupportedError
from symgrad.ir.index import shapes
from symgrad.ir.index.notation import Apply, Value
from symgrad.ir.index.shapes import Shape
from symgrad.ir.node import Node
from symgrad.ir.op import Composite, Elementwise, Leaf, Op, Structured
from symgrad.ops.declare import spelling
from symgrad.ops.declare.domains import ANY, PAIRS, SPECIAL

FLOATS = frozenset([np.dtype(np.float32), np.dtype(np.float64)])


class Late:
    """A function of SciPy's by its name, of scipy.special where that names no other module: ``Late("linalg.solve")``.

    A method is named behind a colon: ``Late("stats._distn_infrastructure:rv_continuous._logcdf")``.

    Importing SciPy takes 0.2 s, which only a program that uses it shall pay. It is imported when this is called, or
    asked about other dtypes than one float's. Who calls `scipy.special.erf` has imported it: then, and not before,
    `answer_scipy` enters what was declared for the name.

    >>> Late("erf").resolve_dtypes((np.dtype("f4"), None))
    (dtype('float32'), dtype('float32'))
    """

    nout = 1

    def __init__(self, name: str, nin: int = 1, formula: Callable[..., Any] | None = None) -> None:
        """Name it and say how many arguments it takes, and a formula until SciPy is there: of what rewrites make."""
        module, _, self.__name__ = name.rpartition(":" if ":" in name else ".")
        self.module, self.nin, self.__doc__ = f"scipy.{module or 'special'}", nin, None
        self.formula = formula

    @property
    def function(self) -> Any:
        """SciPy's function."""
        return operator.attrgetter(self.__name__)(import_module(self.module))

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call it."""
        if self.formula is not None and self.module not in sys.modules:
            return self.formula(*args, **options)
        return self.function(*args, **options)

    def resolve_dtypes(self, kinds: tuple[Any, ...]) -> tuple[Any, ...]:
        """Find a ufunc's loop, the result's dtype last: where all arguments have one floating dtype, that."""
        first, *others = kinds[: self.nin]
        if first in FLOATS and all(kind == first for kind in others):
            return (first,) * (self.nin + 1)
        return self.function.resolve_dtypes(kinds)  # type: ignore[no-any-return]


AnyOp = TypeVar("AnyOp", bound=Op)

OPS: dict[str, Op] = {}
"""Every op by its name."""

LIBRARY: dict[str, Elementwise] = {}
"""Ops by their names of which the value is that of another library's compiled code, which C calls by its address.

Nothing is promised of them but their slopes; they are tested in a table of their own.
"""

ANSWERS: dict[Any, Any] = {}
"""What answers a NumPy or SciPy function: an elementwise op, or a Python function with NumPy's signature."""

ALSO: list[str] = []
"""Modules of further rooms that answer functions, in terms of modes: imported before the first trace."""

WAITING: dict[str, dict[str, Any]] = {}
"""What answers functions of SciPy's modules that nobody has imported yet, by the module and the function's name."""

SCIPYS: dict[Any, Any] = {}
"""What answers SciPy's functions, also those that SciPy alone calls, which mean something in its domain alone."""

INSIDE: dict[str, dict[str, Callable[[Any], Any]]] = {}
"""What makes, of names in SciPy's own modules, what stands there while its Python runs on traced values."""

BOOL, INT = np.dtype(bool), np.dtype(np.int64)

COMPILED = frozenset(np.dtype(t) for t in "?bhilqBHILQfd")
"""The dtypes symgrad compiles."""

PARTS = (
    "the real and the imaginary part as two real arrays, in formulas of real arithmetic, as docs/coming_from.md has an "
    "example of"
)
"""What is written in the place of complex numbers."""


def native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a dtype in this machine's byte order, or refuse what symgrad does not compile."""
    if dtype in COMPILED:
        return dtype
    found = np.dtype(dtype.newbyteorder("=").str) if dtype.kind in "biuf" else dtype
    if found in COMPILED:
        return found
    if dtype == np.dtype(object):
        raise UnsupportedError(
            "an object array meets a traced array; it may hold traced values that symgrad cannot see",
            instead="np.array([...]) or np.stack of the values, without dtype=object",
        )
    if dtype.kind == "c":
        raise UnsupportedError(
            f"complex numbers ({dtype}) meet a traced array; symgrad compiles real numbers", instead=PARTS,
        )
    raise UnsupportedError(
        f"an array of dtype {dtype_shown(dtype)} meets a traced array; symgrad compiles bool, integers, float32 and "
        "float64", instead=as_numbers(dtype, "a"),
    )


def dtype_shown(dtype: np.dtype[Any]) -> str:
    """Name a dtype, and say what it holds where that is no number."""
    what = {"U": " (texts)", "S": " (bytes)", "M": " (dates)", "m": " (times)"}.get(dtype.kind, "")
    return f"{dtype}{what}"


def as_numbers(dtype: np.dtype[Any], name: str) -> str:
    """Say what to write in the place of an array of a dtype that is not compiled."""
    if dtype.kind in "US":
        return f"their numbers, np.unique({name}, return_inverse=True)[1], or a mask, {name} == 'x', made outside"
    if dtype.kind in "mM":
        return f"seconds from a moment on, ({name} - {name}[0]) / np.timedelta64(1, 's'), made outside"
    if dtype.names:
        return f"its fields, {name}[{dtype.names[0]!r}], each an array"
    return f"{name}.astype(np.float64)"


LOOPS: dict[str, Callable[..., Any]] = {}
"""What goes along an axis whose extent is unknown, a loop or a batch, which `api` makes: ``scan`` and ``vmap``."""


_DECLARING: dict[str, dict[str, Any]] = {}
"""The variables of the module that declared an op."""


def enter(op: AnyOp) -> AnyOp:
    """Enter an op into the table of all; again where a timeout or Ctrl-C broke off the import of its module."""
    frame = sys._getframe(1)  # noqa: SLF001 - the module that is imported
    while frame.f_code.co_name != "<module>" and frame.f_back is not None:
        frame = frame.f_back
    module, before = frame.f_globals, _DECLARING.setdefault(op.name, frame.f_globals)
    if op.name in OPS and (before is module or before.get("__name__") != module.get("__name__")):
        raise ValueError(f"op {op.name!r} is declared twice")
    _DECLARING[op.name] = module
    if not isinstance(op, Leaf) and (op.sample is None or op.edges is None):
        raise ValueError(f"op {op.name!r} needs sample= and edges=: without them nothing would test it")
    OPS[op.name] = op
    return op


def _answer(function: Any, answer: Any) -> None:
    if isinstance(function, Late):
        WAITING.setdefault(function.module, {})[function.__name__] = answer
    else:
        ANSWERS[function] = answer


def answer_scipy() -> int:
    """Enter what answers functions of SciPy's modules that somebody has imported; return how many modules still wait.

    A function that this version of SciPy does not have is never asked for.
    """
    for module in [name for name in WAITING if name in sys.modules]:
        functions = vars(import_module(module))  # it waits where another thread is half-way
        for name, answer in WAITING.get(module, {}).items():
            first, *rest = name.split(".")
            function = functools.reduce(lambda found, part: getattr(found, part, None), rest, functions.get(first))
            if function is None:
                continue
            function = getattr(function, "original", function)  # a trace may have put its own in the place
            SCIPYS[function] = answer
            if not getattr(answer, "__module__", "").startswith(("symgrad.ops.scipy", "symgrad.api")):
                ANSWERS[function] = answer
            if isinstance(answer, Elementwise):
                answer.numpy = answer.evaluate = function
        WAITING.pop(module, None)
    return len(WAITING)


@cache
def loop_dtypes(ufunc: np.ufunc | Late, kinds: tuple[Any, ...]) -> tuple[np.dtype[Any], ...]:
    """Return the dtypes of the inputs and the output of the loop that NumPy would run for a ufunc.

    `kinds` are dtypes, or ``int``, ``float`` for Python scalars, which are weak (NEP 50).
    """
    try:
        found = ufunc.resolve_dtypes((*kinds, *[None] * ufunc.nout))
    except TypeError as error:
        raise DtypeError(f"np.{ufunc.__name__} has no loop for {', '.join(map(_dtype_name, kinds))}") from error
    if all(dtype.kind == "O" for dtype in found[: len(kinds)]):  # Python integers alone, which NumPy compares exactly
        found = ufunc.resolve_dtypes((*map(np.dtype, kinds), *[None] * ufunc.nout))
    for dtype in found:
        if dtype not in COMPILED:
            raise DtypeError(
                f"np.{ufunc.__name__} of {', '.join(map(_dtype_name, kinds))} computes in {dtype}, "
                "which symgrad does not compile",
                instead="convert the argument first, e.g. x.astype(np.float64)",
            )
    return tuple(found)


def _dtype_name(kind: Any) -> str:
    return kind.name if isinstance(kind, np.dtype) else f"Python {kind.__name__}"


def elementwise(
    *,
    numpy: Any,
    c: str | Mapping[str, str],
    sample: Any = ANY,
    edges: tuple[Any, ...] | None = None,
    ddx: Callable[..., Any] | None = None,
    name: str | None = None,
    result: Any = None,
    arity: int | None = None,
    doc: str = "",
    **fields: Any,
) -> Elementwise:
    """Declare a scalar function that works along broadcast arrays.

    Args:
        numpy: the ufunc it answers, which gives its meaning and its dtype rule; or any callable, with `result`.
        c: the C spelling. A bare name is a math.h function; ``"{0} + {1}"`` is a pattern; a dict tells kinds
            apart: ``f`` floating, ``i`` signed, ``u`` unsigned, ``b`` bool (of the last argument); see `spelling`.
        sample: a domain, or one for each argument, that tests draw from.
        edges: special arguments (numbers, or tuples of them) whose value must be NumPy's to the last bit or 4 ULP;
            those of `domains.SPECIAL` or `domains.PAIRS` unless they are given.
        ddx: the partial derivatives in NumPy words, a callable of ``(x1, ..., y)``: one value, or a tuple; None in
            the tuple where there is none. Where calculus of `value` alone would be inaccurate or slow.
        result: dtype rule where `numpy` is no ufunc: a callable of the inputs' dtypes.
        fields: more of `Elementwise`: value, vjp, nondiff, used, log, logs, lanes, infix, steep, exact, commutes, ...
    """
    ufunc = numpy if isinstance(numpy, (np.ufunc, Late)) else None
    arity = arity or (ufunc.nin if ufunc else 1)
    given: Any = {1: SPECIAL, 2: PAIRS}.get(arity) if edges is None else edges
    op = Elementwise(
        name or numpy.__name__, evaluate=numpy, numpy=numpy, sample=sample, edges=given, partials=ddx,
        arity=arity, c=spelling.by_kind(c), doc=doc or first_line(numpy), **fields,
    )

    def infer(*inputs: Node, **params: Any) -> tuple[Shape, np.dtype[Any]]:
        if len(inputs) != op.arity:
            raise TypeError(f"{op.name} takes {op.arity} arguments, not {len(inputs)}")
        shape = shapes.broadcast(*[x.shape for x in inputs])
        if ufunc is None:
            return shape, result(*[x.dtype for x in inputs], **params)
        kinds = tuple([x.dtype for x in inputs])
        loop = loop_dtypes(ufunc, kinds)
        if loop[: op.arity] != kinds:
            raise DtypeError(f"{op.name} of {', '.join(k.name for k in kinds)} has no loop without a cast")
        return shape, loop[op.arity]

    if ufunc is not None:
        known, module = ufunc.__name__, ufunc.module if isinstance(ufunc, Late) else "np"
    else:
        known, module = op.name, "np" if getattr(np, op.name, None) is numpy else "ops"

    def text(node: Node, names: list[str]) -> str:
        from symgrad.ir.text import show

        if op.infix is not None:
            return f" {op.infix} ".join(names) if op.arity > 1 else f"{op.infix}{names[0]}"
        extra = [f"{k}={show(v)}" for k, v in zip(op.params, node.params, strict=True)]
        return f"{module}.{known}({', '.join(names + extra)})"

    op.infer, op.text = infer, text
    enter(op)
    if ufunc is not None:
        _answer(ufunc, op)
    return op


def one_axis_more(size: Any, **params: Any) -> dict[str, Any]:
    """Return parameters that mean the same of operands with one more axis in front, by the names that they have."""

    def whole(index: tuple[Any, ...]) -> tuple[Any, ...]:
        return ((0, size, 1), *index)

    moved: dict[str, Callable[[Any], Any]] = {
        "axis": lambda axis: axis + 1, "axes": lambda axes: tuple([axis + 1 for axis in axes]), "index": whole,
        "indices": lambda indices: tuple([whole(index) for index in indices]), "shape": lambda shape: (size, *shape),
    }
    return {name: moved[name](value) if name in moved else value for name, value in params.items()}


def structured(
    *, name: str, infer: Callable[..., tuple[Shape, Any]], evaluate: Callable[..., Any], body: Callable[..., Any],
    sample: Any, edges: tuple[Any, ...], batched: Callable[..., dict[str, Any]] | None = one_axis_more, **fields: Any,
) -> Structured:
    """Declare an array operation with a body in index notation.

    Args:
        infer: ``infer(*nodes, **params) -> (shape, dtype)``.
        evaluate: its meaning in NumPy, ``evaluate(*arrays, **params)``.
        body: ``body(node) -> Body``: statements of index notation over operands 0, 1, ... and the result -1.
        sample: cases (see `domains.case`) that the generated table runs.
        edges: cases with special values.
        batched: its parameters where every operand has one more axis in front; by their names where it is left away.
        fields: more of `Op`: its parameters' names, its rule, and what is true of it.
    """
    return enter(Structured(
        name, infer=infer, evaluate=evaluate, body=body, sample=sample, edges=edges, batched=batched, **fields))


def composite(
    *, name: str, infer: Callable[..., tuple[Shape, Any]], sample: Any, edges: tuple[Any, ...],
    **fields: Any,
) -> Callable[[Callable[..., Any]], Composite]:
    """Declare a function of other ops that has a derivative rule of its own; decorate its body with this.

    The body is plain NumPy of ``(*x, **params)``; ``@op_name.rule`` decorates the rule, and `fields` are more of `Op`.
    """

    def declare(body: Callable[..., Any]) -> Composite:
        return enter(Composite(
            name, evaluate=body, infer=infer, sample=sample, edges=edges, body=body, batched=one_axis_more,
            doc=first_line(body), **fields))

    return declare


def name_apart(name: str) -> str:
    """Name an op of the user's: never as one of symgrad's, which passes know by their names."""
    from symgrad.ops import load

    load()
    while name in OPS:
        name += "_"
    return name


def leaf(name: str, params: tuple[str, ...], infer: Any, evaluate: Any, text: Any = None) -> Leaf:
    """Declare a node without inputs."""
    return enter(Leaf(name, params, evaluate=evaluate, infer=infer, text=text, nondiff=True))


def answers(
    *functions: Any, writes: int | None = None, neutral: dict[str, Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a Python function with NumPy's signature as what answers these NumPy functions when traced.

    Args:
        functions: what it answers.
        writes: the place of the argument that it writes into, if there is one.
        neutral: elements of arguments that change no result, for what is not there; of a function that has no result
            without elements a callable, which makes it of the dtype. A function with ``where=`` needs none.
    """

    def enter(function: Any) -> Callable[..., Any]:
        function.writes, function.neutral = writes, neutral
        function.__name__ = function.__qualname__ = functions[0].__name__  # in what Python says of wrong arguments
        for answered in functions:
            _answer(answered, function)
        return function  # type: ignore[no-any-return]

    return enter


def apply(name: str, kind: np.dtype[Any], *args: Value, dtype: np.dtype[Any] | None = None) -> Apply:
    """Apply an elementwise op, in a body, to values of one dtype; the result's is the same unless it is given."""
    op: Any = OPS[name]
    return Apply(op, args, dtype or kind, kind)


def is_traced(value: Any) -> bool:
    """Whether a value is a traced array, or an unknown extent."""
    return hasattr(type(value), "__symgrad_bind__")


def shape_of(value: Any) -> Shape:
    """Return a shape as parameters hold it: integers and SymPy expressions."""
    node = getattr(value, "node", None)
    return tuple(np.shape(value)) if node is None else node.shape


def equal(one: Any, other: Any, traced: Any, otherwise: str) -> bool:
    """Whether two extents are equal; what depends on an open one is asked of the trace, see `Trace.equal`.

    Args:
        one, other: the extents.
        traced: what may be a traced array; where none is, extents are numbers.
        otherwise: what to say of a call where they are equal although that was taken not to be.
    """
    if type(one) is type(other) is int:
        return one == other
    same: bool = traced.owner.equal(one, other, otherwise)
    return same


def extents_fit(a: Any, b: Any, one: Any, other: Any) -> bool:
    """Whether an extent of one array equals one of another's, where that decides what is done with them."""
    shown = " and ".join([shapes.show(shape_of(x)) for x in (a, b)])
    why = f"whether the shapes {shown} fit together is asked, and in this call alone they may"
    return equal(one, other, a if is_traced(a) else b, why)


def same_shape(a: Any, b: Any) -> bool:
    """Whether two arrays have one shape, where that decides what is done with them."""
    pairs = zip(shape_of(a), shape_of(b), strict=False)
    return bool(a.ndim == b.ndim and all(extents_fit(a, b, one, other) for one, other in pairs))


def dims(shape: Any) -> Shape:
    """Turn a shape as users write it (a number, a tuple, an array; with extents) into integers and expressions."""
    if issubclass(type(shape), np.ndarray):
        shape = shape.tolist()
    entries = shape if isinstance(shape, (tuple, list)) else (shape,)
    return tuple([
        d.dim if hasattr(d, "dim") else d.as_index() if hasattr(type(d), "as_index") else operator.index(d)
        for d in entries
    ])


def normal_axis(axis: Any, ndim: int) -> int:
    """Count an axis from the front."""
    if type(axis) in {bool, np.bool}:
        raise TypeError("an integer is required for the axis")
    position = operator.index(axis)
    if not -ndim <= position < ndim:
        raise np.exceptions.AxisError(position, ndim)
    return position % ndim


def normal_axes(axis: Any, ndim: int, *, listed: bool = False) -> tuple[int, ...]:
    """Turn NumPy's ``axis=`` (None, an integer, a tuple; `listed`, also a list) into axes counted from the front."""
    if axis is None:
        return tuple(range(ndim))
    axes = axis if isinstance(axis, (tuple, list) if listed else tuple) else (axis,)
    found = tuple(sorted([normal_axis(a, ndim) for a in axes]))
    if len(set(found)) != len(found):
        raise ValueError("duplicate value in 'axis'")
    return found


def summed_dtype(x: Any, dtype: Any) -> Any:
    """Return the dtype NumPy sums in: small integers and booleans in int64."""
    if dtype is not None:
        return np.dtype(dtype)
    kind = x.dtype
    if kind.kind in "bi" and kind.itemsize <= INT.itemsize:
        return INT
    return np.dtype(np.uint64) if kind.kind == "u" else kind


def first_line(function: Any) -> str:
    """Return the first sentence of a docstring that is one."""
    lines = [line.strip() for line in (getattr(function, "__doc__", "") or "").splitlines()]
    return next((line for line in lines if line.endswith(".")), "")


UNSET: Any = np._NoValue  # noqa: SLF001 - NumPy's mark of an argument left away


def is_unset(value: Any) -> bool:
    """Whether an argument was left away, or given as None."""
    return value is None or value is UNSET


def refuse(function: str, **keywords: Any) -> None:
    """Refuse keywords of a NumPy function whose meaning would be lost."""
    for name, value in keywords.items():
        if not is_unset(value) and not (name == "where" and value is True):
            raise UnsupportedError(f"np.{function}(..., {name}=...) on traced arrays", instead=f"leave {name}= away")
