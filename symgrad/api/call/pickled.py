"""How a `Function` is pickled: by name where Python can import it, else as the printable programs it was compiled to.

Never as machine code. A function that has a name (defined in a module, as for pickling any Python function) is
found again by it and traced again where it is unpickled. A lambda or a closure is not: its compiled signatures are
kept, each as a program in the JSON of `symgrad.ir.saved.programs`, which is verified when it is read; the function that
comes back serves exactly these signatures, and closed-over values are the constants they were when it was traced.
"""

from __future__ import annotations

import inspect
import sys
import types
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from symgrad.api.call.arguments import Arguments, show_signature
from symgrad.api.call.results import handed_out
from symgrad.errors import ArgumentError
from symgrad.ir.shapes import is_static
from symgrad.pipeline import NAMES, Stages
from symgrad.trace.signature import Signature, Spec
from symgrad.trace.state import active

if TYPE_CHECKING:
    from symgrad.api.call.compilations import Entry
    from symgrad.ir.program import Program
    from symgrad.options import Options


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
    mode: str


class Absent:
    """Stands for a Python function that stayed behind: its name, its parameters, and the programs it was compiled to.

    A `Function` of it serves the signatures of these. They are read and verified when they are needed.
    """

    def __init__(self, origin: Origin, saved: tuple[Saved, ...]) -> None:
        """Bear the function's name."""
        self.origin, self.saved = origin, saved
        self.__name__, self.__qualname__, self.__module__, self.__doc__, signature, self.symgrad_mode = origin
        if signature is not None:
            self.__signature__ = signature

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what it was made of."""
        return Absent, (self.origin, self.saved)

    def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        """Refuse.

        Raises:
            ArgumentError: always.
        """
        raise self.behind("it is called inside of another traced function")

    def signatures(self) -> list[Signature]:
        """List the signatures it was compiled for."""
        return [_signature(saved, loads_here(saved)) for saved in self.saved]

    def opened(self) -> list[Signature]:
        """List those of them that have open extents."""
        return [one for one in self.signatures() if not all(is_static(spec.shape) for spec in one.specs)]

    def staged(self, signature: Signature, options: Options) -> tuple[Stages, Any, Any, Any]:
        """Return what `Function` makes by tracing: the stages, the program, how its results are handed out, their tree.

        Raises:
            ArgumentError: it was not compiled for this signature, or the rules are others now.
        """
        if active.outside:
            raise self.behind("it is called inside of a block of override_gradient")
        for saved in self.saved:
            program = loads_here(saved)
            if _signature(saved, program) == signature:
                break
        else:
            raise self.behind(f"it is called with {show_signature(signature)}")
        stages = Stages(options)
        stages.kept.update(dict.fromkeys(NAMES[:3], program))  # the stages before stayed behind
        unflatten = handed_out(saved.results, program.outputs)
        if options.debug_nans:
            from symgrad.transforms.debug_nans import watched

            bare = replace(program, outputs=program.outputs[:-1], labels=program.labels[:-1])
            program, unflatten = watched(bare, unflatten)
        stages.keep("optimized", program)
        return stages, program, unflatten, saved.results

    def behind(self, what: str) -> ArgumentError:
        """Compose the error of a call that needs the Python function."""
        kept = "; ".join(map(show_signature, self.signatures()))
        return ArgumentError(
            f"{self.__name__}() was unpickled without its Python code: it serves ({kept}) only, and {what}",
            instead="define it with def at the top of a module, which is then imported where it is unpickled",
        )


def reduced(
    function: Any, fun: Any, plain: Any, arguments: Arguments, options: Options, entries: list[Entry],
) -> str | tuple[Any, ...]:
    """Return what a function is pickled as: its own name, or what it is made of, for `parts`.

    Args:
        function: what is pickled; the rest is what it is made of.
        fun: the Python function, or a mode of one.
        plain: the Python function.
        arguments: which of its arguments are static, what its specs are.
        options: compiler and the like.
        entries: what it was compiled for, with the values captured that it would capture now.

    Raises:
        ArgumentError: it has no name to find it by, and was not compiled for anything yet.
    """
    if _named(function) is function:
        return str(getattr(function, "__qualname__", ""))  # a decorated function: found where it stands
    static = tuple(sorted(arguments.static, key=str))
    if not isinstance(plain, (types.FunctionType, Absent)) or _named(plain) is plain:
        return fun, options, static, arguments.fixed_to, arguments.dynamic
    saved = tuple([_saved(e.signature, e.built.program, e.tree) for e in entries])
    if isinstance(fun, Absent):
        compiled = [e.signature for e in entries]
        saved += tuple([s for s, of in zip(fun.saved, fun.signatures(), strict=True) if of not in compiled])
    if not saved:
        raise ArgumentError(
            f"{arguments.name}() cannot be pickled: it has no name in its module, and was not compiled yet",
            instead="define it with def at the top of a module, or call it once before",
        )
    return Absent(_origin(fun), saved), options, static, arguments.fixed_to is not None, arguments.dynamic


def parts(
    fun: Any, options: Options, static: tuple[int | str, ...], fixed: Signature | bool | None, dynamic: Any,
) -> tuple[Any, Arguments, Options]:
    """Return what a function is made of, of what it was pickled as."""
    numbers, names = [s for s in static if isinstance(s, int)], [s for s in static if isinstance(s, str)]
    arguments = Arguments(fun, numbers, names, dynamic=dynamic)
    signature = fun.signatures()[0] if fixed is True else fixed
    return fun, arguments.fixed(signature) if isinstance(signature, Signature) else arguments, options


def loads_here(saved: Saved) -> Program:
    """Read a saved program with symgrad's ops."""
    from symgrad.ir.saved.programs import loads
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
    from symgrad.ir.saved.programs import dumps

    weak = tuple([s.weak for s in signature.specs])
    return Saved(
        dumps(program), signature.tree, weak, signature.names, signature.paths, signature.statics, signature.positions,
        results, tuple([s.array for s in signature.specs]),
    )


def _signature(saved: Saved, program: Program) -> Signature:
    kinds = zip(program.inputs, saved.weak, saved.arrays, strict=True)
    specs = tuple([Spec(i.shape, i.dtype, weak, array=array) for i, weak, array in kinds])
    return Signature(saved.tree, specs, saved.names, saved.paths, saved.statics, saved.positions)


def _origin(fun: Any) -> Origin:
    if isinstance(fun, Absent):
        return fun.origin
    signature = inspect.signature(fun)
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    return Origin(
        fun.__name__, fun.__qualname__, fun.__module__, fun.__doc__,
        signature.replace(parameters=plain, return_annotation=inspect.Signature.empty),
        getattr(fun, "symgrad_mode", "jit"),
    )
