"""What is emitted of a function: its value, a gradient, or a derivative whose tangents are further arguments."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.api.call.arguments import Argnums, chosen_arguments
from symgrad.api.modes import derivatives
from symgrad.api.modes.mode import at, described, function
from symgrad.emit import WHATS
from symgrad.errors import ArgumentError, ArgumentValueError
from symgrad.ir.evaluate import concrete, extents
from symgrad.ir.index.shapes import show, size, symbols
from symgrad.ir.names import identifier
from symgrad.ir.program import Program
from symgrad.options import Options
from symgrad.trace.lines import ends_here
from symgrad.trace.signature import Signature, Spec, leaf_spec, signature_of

if TYPE_CHECKING:
    from symgrad.api.call.function import Function, Lowered

Arrays = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Specialization:
    """A function with specs in the places of its arguments; those named by `static` are settings.

    Attributes:
        examples: values for the arguments that are no settings, by name.
        in_place: so many leaves of the arguments, the first ones, may be the memory of as many results.
    """

    fun: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    static: tuple[str, ...] = ()
    examples: tuple[Mapping[str, Any], ...] = ()
    in_place: int = 0

    @property
    def plain_name(self) -> str:
        """The function's name, as it is."""
        return str(getattr(self.fun, "__name__", type(self.fun).__name__))

    @property
    def name(self) -> str:
        """The function's name, as an identifier."""
        return identifier(self.plain_name)

    @property
    def positions(self) -> list[str]:
        """The names of the arguments that are given by position."""
        signature = signature_of(self.fun)
        return [] if signature is None else [*signature.parameters][: len(self.args)]

    def taking_arrays(self) -> Specialization:
        """Make the arrays that the function reads from outside arguments, after its own, by name."""
        known = self.examples[0] if self.examples else {}
        args = tuple([known.get(name, spec) for name, spec in zip(self.positions, self.args, strict=False)])
        kwargs = {name: known.get(name, spec) for name, spec in self.kwargs.items()}
        fun, arrays = derivatives.jit(self.fun, static_argnames=self.static).taking_arrays(args, kwargs)
        specs = {name: leaf_spec(array, name) for name, array in arrays.items()}
        examples = tuple([{**one, **arrays} for one in self.examples])
        return replace(self, fun=fun, kwargs={**self.kwargs, **specs}, examples=examples)

    @ends_here
    def lower(
        self, derived: Function[..., Any], further: Mapping[str, Spec] | None = None, drawn: Sequence[Arrays] = (),
    ) -> Paths:
        """Lower a derivative of the function for the specs, and `further` ones, drawn for each example."""
        specs, derived = (self.args, {**self.kwargs, **(further or {})}), derived.of_constants()
        if not self.examples:
            return Paths((derived.lower(*specs[0], **specs[1]),))
        calls = []
        for example, more in zip(self.examples, drawn or [{}] * len(self.examples), strict=True):
            args = tuple([example.get(name, spec) for name, spec in zip(self.positions, self.args, strict=False)])
            calls.append((args, {name: {**example, **more}.get(name, spec) for name, spec in specs[1].items()}))
        paths, arrays = derived.lower_paths(specs, calls)
        kinds = [(one.tree, [(y.shape, y.dtype) for y in one.program.results]) for one in paths]
        for path, kind in zip(paths, kinds, strict=True):
            if kind != kinds[0]:
                said = [", ".join([f"{d.name}{show(shape)}" for shape, d in each]) for _, each in (kinds[0], kind)]
                asked = [[*one.entry.taken.values()] for one in (paths[0], path) if one.entry is not None]
                line = next((a.line for a, b in zip(*asked, strict=False) if a != b), None)
                raise ArgumentError(
                    f"{self.name}() returns {said[0]} on one path and {said[1]} on another one, and a function of C "
                    "writes the same arrays in each call", line=line,
                    instead="results of the same structure, shapes and dtypes (0.0 in the place of 0), or a package "
                    "for each path",
                )
        names = paths[0].signature.names
        return Paths(tuple(paths), tuple([dict(zip(names, each, strict=True)) for each in arrays]))


def examples_for(of: Specialization, examples: Sequence[Any], *, several: bool) -> Specialization:
    """Give a function its examples; of `several` functions, each those that have all of its arguments."""
    wanted = [name for name in (*of.positions, *of.kwargs) if name not in of.static]
    found = []
    for k, example in enumerate(examples, 1):
        by_name = isinstance(example, Mapping)
        given = {**example} if by_name else dict(zip(wanted, example, strict=False))
        wrong = [name for name in given if name not in wanted]
        missing = [name for name in wanted if name not in given]
        if not by_name and len(example) != len(wanted):
            wrong = [f"{len(example)} values"]
        if several and (missing or not by_name):
            continue
        if missing or (wrong and not several):
            said = f"has no {missing[0]}" if missing else f"has {wrong[0]}"
            raise ArgumentError(
                f"example {k} of {of.name}() {said}; its arguments are {', '.join(wanted)}",
                instead="a tuple of values for them, or a dict by name",
            )
        found.append({name: given[name] for name in wanted})
    return replace(of, examples=tuple(found))


@dataclass(frozen=True)
class Paths:
    """A function lowered for specs: a program for each path of its conditions that an example takes, mostly one.

    Attributes:
        examples: the arguments of each example, by their names in C.
    """

    each: tuple[Lowered, ...]
    examples: tuple[Arrays, ...] = ()

    @property
    def branched(self) -> bool:
        """Whether a call may take none of them."""
        return bool(self.program.guards)

    @property
    def signature(self) -> Signature:
        """The arguments, which all have."""
        return self.each[0].signature

    @property
    def program(self) -> Program:
        """The first one's program: results of the others have the same shapes and dtypes."""
        program: Program = self.each[0].program
        return program

    def extents(self, example: Arrays) -> dict[Any, int]:
        """Return the open extents in an example, by their symbols."""
        return extents(self.program, [example[name] for name in self.signature.names])


@dataclass(frozen=True)
class Derivative:
    """One derivative of a function.

    Attributes:
        lowered: it, traced and derived for the specs.
        outputs: a name for each array of the result.
        base: what finite differences are taken of: the function, or its gradient; its results are `base_outputs`.
        form: how the result belongs to these differences: ``pull``, ``push``, ``matrix``, or nothing.
        wrt: names of the arrays it is differentiated by.
        tangents: names of the arrays that are directions or cotangents, in the order of `wrt` or of the results.
    """

    what: str
    of: Specialization
    lowered: Paths
    outputs: tuple[str, ...]
    base: Paths | None = None
    base_outputs: tuple[str, ...] = ()
    form: str = ""
    wrt: tuple[str, ...] = ()
    tangents: tuple[str, ...] = ()

    @property
    def narrow(self) -> bool:
        """Whether something on the way is single precision."""
        return any(node.dtype.str[1:] == "f4" for one in self.lowered.each for node in one.program.nodes())


def derive(what: str, of: Specialization, wrt: Argnums, options: Options, word: str = "wrt=") -> Derivative:
    """Trace a function and derive what is asked for; errors call `wrt` by the word that the caller writes.

    Raises:
        SymgradError: what tracing and deriving raise: the loss is no scalar, an argument has no gradient.
        ArgumentValueError: there is no such derivative.
    """
    if what not in WHATS:
        raise ArgumentValueError(f"{what!r} cannot be emitted", instead=f"one of {', '.join(WHATS)}")
    given: dict[str, Any] = {"static_argnames": of.static, "options": options}
    value = of.lower(derivatives.jit(of.fun, **given))
    results = _result_names(value)
    if what == "value":
        return Derivative(what, of, value, results)
    signature = value.signature
    names = tuple([signature.names[k] for part in chosen_arguments(wrt, signature, word) for k in part.leaves])
    bars = tuple([f"{name}_bar" for name in names])
    if what in {"grad", "value_and_grad"}:
        made = of.lower(getattr(derivatives, what)(of.fun, wrt, **given))
        return Derivative(what, of, made, bars if what == "grad" else (*results, *bars), value, results, "pull", names)
    base, base_outputs = value, results
    if what in {"hvp", "hessian"}:
        base, base_outputs = of.lower(derivatives.grad(of.fun, wrt, **given)), bars
    specs = dict(zip(signature.names, signature.specs, strict=True))
    outputs = dict(zip(results, value.program.results, strict=True))
    floating = [name for name, y in outputs.items() if y.dtype.kind == "f"]
    if what in {"hessian", "jacobian"}:
        matrix: Any = derivatives.hessian
        rows = names
        if what == "jacobian":  # in the mode that does less
            height = sum([size(y.shape) for y in outputs.values()])
            width = sum([size(specs[name].shape) for name in names])
            reverse = isinstance(height, int) and (not isinstance(width, int) or height <= width)
            matrix, rows = derivatives.jacrev if reverse else derivatives.jacfwd, results
        labels: list[str] = []
        for pair in itertools.product(rows, names):
            alone = len(rows) == len(names) == 1
            labels.append(what if alone else identifier(f"{what}_{'_'.join(pair)}", labels))
        made = of.lower(matrix(of.fun, wrt, **given))
        return Derivative(what, of, made, tuple(labels), base, base_outputs, "matrix", names)
    # Along directions, or cotangents pulled back: those are arguments after the function's own.
    if what == "vjp":
        further = {identifier(f"{name}_bar"): Spec(outputs[name].shape, outputs[name].dtype) for name in floating}
    else:
        further = {identifier(f"{name}_dot"): Spec(specs[name].shape, specs[name].dtype) for name in names}
    extents = {*map(str, symbols(one.shape for one in signature.specs))}
    for name in further:
        if name in specs or name in extents:
            raise ArgumentError(
                f"{what} adds an argument {name}, and {of.name}() has one, or an extent", instead="another name"
            )
    settings = {"what": what, "wrt": wrt, "further": tuple(further)}
    mode = function(what, of.fun, _derivative_along, settings, **given, signature=_extended_signature(of.fun, further))
    tails = {
        "jvp": (*results, *[f"{name}_dot" for name in floating]), "vjp": (*results, *bars),
        "hvp": tuple([f"{bar}_dot" for bar in bars]),
    }
    form = "pull" if what == "vjp" else "push"
    drawn = [_drawn_directions(further, value.extents(example), k) for k, example in enumerate(value.examples)]
    made = of.lower(mode, further, drawn)
    return Derivative(what, of, made, tails[what], base, base_outputs, form, names, tuple(further))


def _derivative_along(
    fun: Any, signature: Signature, leaves: list[Any], *, what: str, wrt: Argnums, further: tuple[str, ...],
) -> list[Any]:
    """Return the results and a jvp's tangents, or a vjp's cotangents; of a hvp the gradient's tangents."""
    args, kwargs = signature.join(leaves)
    own = {name: value for name, value in kwargs.items() if name not in further}
    given = [kwargs[name] for name in further]
    if what == "hvp":
        fun = derivatives.grad(fun, wrt, static_argnums=signature.static[0], static_argnames=signature.static[1])
    point = at(fun, *described(fun, args, own, signature.static))
    places = [k for one in chosen_arguments(wrt, point.signature) for k in one.leaves]
    floating = [y.dtype.kind == "f" for y in point.results]
    if what == "vjp":
        cotangents = iter(given)
        pulled = point.pull([next(cotangents) if one else None for one in floating])
        return [*point.put(point.program), *[pulled[k] for k in places]]
    tangents = dict(zip(places, given, strict=True))
    pushed = point.push([tangents.get(k) for k in range(len(point.leaves))])
    return pushed if what == "hvp" else [*point.put(point.program), *itertools.compress(pushed, floating)]


def _drawn_directions(specs: Mapping[str, Spec], sizes: Mapping[Any, int], seed: int) -> Arrays:
    """Draw directions or cotangents for an example."""
    rng = np.random.default_rng(seed)
    shapes = {name: concrete(tuple(spec.shape), sizes) for name, spec in specs.items()}
    return {name: np.round(rng.uniform(-2, 2, shape), 6).astype(specs[name].dtype) for name, shape in shapes.items()}


def _result_names(value: Paths) -> tuple[str, ...]:
    """Name the arrays of a function's result: by their places in it, or as the only one."""
    if len(value.program.results) == 1:
        return ("value",)
    names: list[str] = []
    for path in value.each[0].tree.paths():
        names.append(identifier("_".join(["result", *map(str, path)]), names))
    return tuple(names)


def _extended_signature(fun: Callable[..., Any], further: dict[str, Spec]) -> inspect.Signature:
    """Put keyword arguments behind a function's own."""
    signature = signature_of(fun)
    if signature is None:
        raise ArgumentError(f"{getattr(fun, '__name__', fun)} tells no signature", instead="a function in Python")
    parameters = list(signature.parameters.values())
    end = [p for p in parameters if p.kind is p.VAR_KEYWORD]
    added = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in further]
    return signature.replace(parameters=[*parameters[: len(parameters) - len(end)], *added, *end])
