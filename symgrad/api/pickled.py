"""How a `Function` is pickled: by name where Python can import it, else as the printable programs it was compiled to.

Never as machine code. A function that has a name (defined in a module, as for pickling any Python function) is
found again by it and traced again where it is unpickled. A lambda or a closure is not: its compiled signatures are
kept, each as a program in the JSON of `symgrad.ir.serial`, which is verified when it is read; the function that
comes back serves exactly these signatures, and closed-over values are the constants they were when it was traced.
"""

from __future__ import annotations

import inspect
import sys
import types
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from symgrad.api.arguments import AUTO, Arguments, show_signature
from symgrad.api.function import Function
from symgrad.api.handout import handed_out
from symgrad.api.mode import Mode
from symgrad.errors import ArgumentError
from symgrad.ir.serial import dumps, loads
from symgrad.ir.shapes import is_static
from symgrad.pipeline import NAMES, Stages
from symgrad.trace.signature import Signature, Spec
from symgrad.trace.state import active

if TYPE_CHECKING:
    from symgrad.api.arguments import Leaves
    from symgrad.api.compilations import Entry
    from symgrad.ir.program import Program
    from symgrad.options import Options
    from symgrad.trace.state import Trace


class Saved(NamedTuple):
    """One compiled signature: its program as text, and how arguments and results are put together."""

    text: str
    tree: Any
    weak: tuple[type | None, ...]
    names: tuple[str, ...]
    paths: tuple[str, ...]
    statics: tuple[tuple[str | int, Any], ...]
    positions: tuple[str | int, ...]
    results: Any
    arrays: tuple[bool, ...]


class Origin(NamedTuple):
    """What is known of a function that stayed behind."""

    name: str
    qualname: str
    module: str
    doc: str | None
    signature: inspect.Signature | None
    kind: str = "jit"


def reduced(
    function: Function, fun: Any, arguments: Arguments, options: Options, entries: list[Entry],
) -> str | tuple[Any, ...]:
    """Say how a function is pickled; what `Function.__reduce__` returns.

    Args:
        function: what is pickled; the rest is what it is made of.
        fun: the Python function, or a mode of one.
        arguments: which of its arguments are static, what its specs are.
        options: compiler and the like.
        entries: what it was compiled for, with the values captured that it would capture now.

    Raises:
        ArgumentError: it has no name to find it by, and was not compiled for anything yet.
    """
    if _named(function) is function:
        return str(getattr(function, "__qualname__", ""))  # a decorated function: found where it stands
    static = tuple(sorted(arguments.static, key=str))
    plain = _plain(fun)
    if not isinstance(plain, (types.FunctionType, _Absent)) or _named(plain) is plain:
        return again, (fun, options, static, arguments.fixed_to, arguments.dynamic)
    saved = tuple([_saved(e.signature, e.built.program, e.tree) for e in entries])
    if isinstance(function, Restored):
        compiled = [e.signature for e in entries]
        saved += tuple([s for s in function.saved if _signature(s, loads_here(s)) not in compiled])
    if not saved:
        raise ArgumentError(
            f"{arguments.name}() cannot be pickled: it has no name in its module, and was not compiled yet",
            instead="define it with def at the top of a module, or call it once before",
        )
    fixed = arguments.fixed_to is not None
    return restored, (_origin(fun), options, static, fixed, saved, arguments.dynamic)


def _plain(fun: Any) -> Any:
    """Return the Python function that modes and compiled functions are made of."""
    found: Any = fun
    while type(found) in {Mode, Function}:
        found = found.__wrapped__
    return found


def again(
    fun: Any, options: Options, static: tuple[int | str, ...], fixed: Signature | None, dynamic: Any = AUTO,
) -> Function:
    """Wrap a function that was found by its name."""
    return Function(fun, _arguments(fun, static, fixed, dynamic), options)


def restored(
    origin: Origin, options: Options, static: tuple[int | str, ...], fixed: bool, saved: tuple[Saved, ...],
    dynamic: Any = AUTO,
) -> Restored:
    """Make a function of saved programs."""
    fun = _Absent(origin)
    arguments = _arguments(fun, static, _signature(saved[0], loads_here(saved[0])) if fixed else None, dynamic)
    return Restored(fun, arguments, options, saved)


class Restored(Function):
    """An unpickled function whose Python stayed behind: it serves the signatures it was compiled for."""

    def __init__(
        self, fun: Any, arguments: Arguments, options: Options, saved: tuple[Saved, ...],
    ) -> None:
        """Keep the programs; they are read and verified when they are needed."""
        super().__init__(fun, arguments, options)
        self.saved = saved
        self._compilations.saved = self._open_ones

    def _open_ones(self) -> list[Signature]:
        """List the signatures with open extents."""
        found = [_signature(saved, loads_here(saved)) for saved in self.saved]
        return [one for one in found if not all(is_static(spec.shape) for spec in one.specs)]

    def _staged(self, signature: Signature) -> tuple[Stages, Any, Any, Any]:
        if active.outside:
            raise self._behind("it is called inside of a block of override_gradient")
        for saved in self.saved:
            program = loads_here(saved)
            if _signature(saved, program) == signature:
                return self._kept(program, saved.results)
        raise self._behind(f"it is called with {show_signature(signature)}")

    def _kept(self, program: Program, results: Any) -> tuple[Stages, Any, Any, Any]:
        stages = Stages(self._options)
        stages.kept.update(dict.fromkeys(NAMES[:3], program))  # the stages before stayed behind
        unflatten = handed_out(results, program.outputs)
        if self._options.debug_nans:
            from symgrad.transforms.watch import watched

            bare = replace(program, outputs=program.outputs[:-1], labels=program.labels[:-1])
            program, unflatten = watched(bare, unflatten)
        stages.keep("optimized", program)
        return stages, program, unflatten, results

    def _inline(self, outer: Trace, call: Leaves) -> Any:  # noqa: ARG002
        raise self._behind("it is called inside of another traced function")

    def _behind(self, what: str) -> ArgumentError:
        kept = "; ".join(show_signature(_signature(s, loads_here(s))) for s in self.saved)
        return ArgumentError(
            f"{self._arguments.name}() was unpickled without its Python code: it serves ({kept}) only, and {what}",
            instead="define it with def at the top of a module, which is then imported where it is unpickled",
        )


class _Absent:
    """Stands for the Python function that stayed behind: its name, its parameters."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.__name__, self.__qualname__, self.__module__, self.__doc__, signature, self.kind = origin
        if signature is not None:
            self.__signature__ = signature

    def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        raise ArgumentError(f"{self.__name__}() was unpickled without its Python code")


def loads_here(saved: Saved) -> Program:
    """Read a saved program with symgrad's ops."""
    from symgrad.ops import OPS, load

    load()
    return loads(saved.text, OPS)


def _named(value: Any) -> Any:
    """Return what stands where a function says that it is defined."""
    found = sys.modules.get(getattr(value, "__module__", None) or "")
    for part in str(getattr(value, "__qualname__", "")).split("."):
        found = getattr(found, part, None)
    return found


def _saved(signature: Signature, program: Program, results: Any) -> Saved:
    weak = tuple([s.weak for s in signature.specs])
    return Saved(
        dumps(program), signature.tree, weak, signature.names, signature.paths, signature.statics, signature.positions,
        results, tuple([s.array for s in signature.specs]),
    )


def _signature(saved: Saved, program: Program) -> Signature:
    kinds = zip(program.inputs, saved.weak, saved.arrays, strict=True)
    specs = tuple([Spec(i.shape, i.dtype, weak, array=array) for i, weak, array in kinds])
    return Signature(saved.tree, specs, saved.names, saved.paths, saved.statics, saved.positions)


def _arguments(fun: Any, static: tuple[int | str, ...], fixed: Signature | None, dynamic: Any) -> Arguments:
    numbers, names = [s for s in static if isinstance(s, int)], [s for s in static if isinstance(s, str)]
    arguments = Arguments(fun, numbers, names, dynamic=dynamic)
    return arguments if fixed is None else arguments.fixed(fixed)


def _origin(fun: Any) -> Origin:
    if isinstance(fun, _Absent):
        return fun.origin
    signature = inspect.signature(fun)
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    return Origin(
        fun.__name__, fun.__qualname__, fun.__module__, fun.__doc__,
        signature.replace(parameters=plain, return_annotation=inspect.Signature.empty), getattr(fun, "kind", "jit"),
    )
