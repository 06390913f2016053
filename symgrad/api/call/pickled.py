"""How a `Function` is pickled: by name where Python can import it, else as the printable programs it was compiled to.

Never as machine code. A function that has a name (defined in a module, as for pickling any Python function) is
found again by it and traced again where it is unpickled. A lambda or a closure is not: its compiled signatures are
kept, each as a program in the JSON of `symgrad.ir.saved.programs`, which is verified when it is read; the function that
comes back serves exactly these signatures, and closed-over values are the constants they were when it was traced.
"""

from __future__ import annotations

import sys
import types
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from symgrad.api.call.arguments import Arguments, show_signature
from symgrad.errors import ArgumentError
from symgrad.ir.shapes import is_static
from symgrad.pipeline import NAMES, Stages
from symgrad.trace.signature import Signature, signature_of
from symgrad.trace.state import active

if TYPE_CHECKING:
    from symgrad.api.call.function import Entry
    from symgrad.ir.program import Program
    from symgrad.options import Options


class Saved(NamedTuple):
    """One compiled signature: its program as text, what its arguments were, and the structure of its results."""

    text: str
    signature: Signature
    results: Any

    def program(self) -> Program:
        """Read the program with symgrad's ops."""
        from symgrad.ir.saved.programs import loads
        from symgrad.ops import OPS, load

        load()
        specs = zip(self.signature.names, self.signature.specs, strict=True)
        return replace(loads(self.text, OPS), fortran=frozenset([name for name, spec in specs if spec.fortran]))


class Absent:
    """Stands for a Python function that stayed behind: its name, its parameters, and the programs it was compiled to.

    A `Function` of it serves the signatures of these. They are read and verified when they are needed.
    """

    def __init__(self, fun: Any, saved: tuple[Saved, ...]) -> None:
        self.saved = saved
        self.__name__, self.__qualname__, self.__module__ = fun.__name__, fun.__qualname__, fun.__module__
        self.__doc__, self.symgrad_mode = fun.__doc__, getattr(fun, "symgrad_mode", "jit")
        signature = signature_of(fun)
        if signature is not None:
            plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
            self.__signature__ = signature.replace(parameters=plain, return_annotation=signature.empty)

    def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        """Refuse."""
        raise self.behind("it is called inside of another traced function")

    def opened(self) -> list[Signature]:
        """List the signatures with open extents that it was compiled for."""
        every = [saved.signature for saved in self.saved]
        return [one for one in every if not all(is_static(spec.shape) for spec in one.specs)]

    def recalled(self, signature: Signature, stages: Stages) -> tuple[Program, Any]:
        """Return what tracing and optimizing made of it, and the structure of its result."""
        if active.outside:
            raise self.behind("it is called inside of a block of override_gradient")
        saved = next((one for one in self.saved if one.signature == signature), None)
        if saved is None:
            raise self.behind(f"it is called with {show_signature(signature)}")
        program = saved.program()
        if stages.options.debug_nans:
            program = replace(program, outputs=program.outputs[:-1], labels=program.labels[:-1])
        stages.kept.update(dict.fromkeys(NAMES[:3], program))  # the stages before stayed behind
        return stages.keep("optimized", program), saved.results

    def behind(self, what: str) -> ArgumentError:
        """Compose the error of a call that needs the Python function."""
        kept = "; ".join([show_signature(saved.signature) for saved in self.saved])
        return ArgumentError(
            f"{self.__name__}() was unpickled without its Python code: it serves ({kept}) only, and {what}",
            instead="define it with def at the top of a module, which is then imported where it is unpickled",
        )


def pickled_as(
    function: Any, fun: Any, plain: Any, arguments: Arguments, options: Options, entries: list[Entry],
) -> str | tuple[Any, ...]:
    """Return what a function is pickled as: its own name, or what it is made of, for `restored`.

    Args:
        function: what is pickled; the rest is what it is made of.
        fun: the Python function, or a mode of one.
        plain: the Python function.
        arguments: which of its arguments are static, what its specs are.
        options: compiler and the like.
        entries: what it was compiled for, with the values captured that it would capture now.
    """
    if _found_by_name(function) is function:
        return str(getattr(function, "__qualname__", ""))  # a decorated function: found where it stands
    static = tuple(sorted(arguments.static, key=str))
    if not isinstance(plain, (types.FunctionType, Absent)) or _found_by_name(plain) is plain:
        return fun, options, static, arguments.fixed_to, arguments.dynamic
    from symgrad.ir.saved.programs import dumps

    saved = tuple([Saved(dumps(e.built.program), e.signature, e.tree) for e in entries])
    if isinstance(fun, Absent):
        compiled = [e.signature for e in entries]
        saved += tuple([one for one in fun.saved if one.signature not in compiled])
    if not saved:
        raise ArgumentError(
            f"{arguments.name}() cannot be pickled: it has no name in its module, and was not compiled yet",
            instead="define it with def at the top of a module, or call it once before",
        )
    return Absent(fun, saved), options, static, arguments.fixed_to is not None, arguments.dynamic


def restored(
    fun: Any, options: Options, static: tuple[int | str, ...], fixed: Signature | bool | None, dynamic: Any,
) -> tuple[Any, Arguments, Options]:
    """Return what a function is made of, of what it was pickled as."""
    numbers, names = [s for s in static if isinstance(s, int)], [s for s in static if isinstance(s, str)]
    arguments = Arguments(fun, numbers, names, dynamic=dynamic)
    signature = fun.saved[0].signature if fixed is True else fixed
    return fun, arguments.fixed(signature) if isinstance(signature, Signature) else arguments, options


def _found_by_name(value: Any) -> Any:
    found = sys.modules.get(getattr(value, "__module__", None) or "")
    for part in str(getattr(value, "__qualname__", "")).split("."):
        found = getattr(found, part, None)
    return found
