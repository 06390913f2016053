"""The C function itself: its address, its prototype, and as a callback of SciPy's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.errors import ArgumentError, ArgumentValueError
from symgrad.trace.signature import spec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from symgrad.api.arguments import Arguments, Call
    from symgrad.api.compilations import Entry
    from symgrad.build.interface import Interface
    from symgrad.build.load import Library
    from symgrad.options import Options

RESULT = (np.dtype(np.float64), ())
"""What a callback returns: one number."""


class Native:
    """What a `Function` gives to callers of its C: Python's part is over once they have it."""

    __name__: str
    _arguments: Arguments
    _options: Options

    if TYPE_CHECKING:

        def _ran(self) -> Entry: ...
        def _find(self, call: Call) -> Entry: ...

    @property
    def address(self) -> int:
        """The address of the C function that ran last, whose declaration is `prototype`. It stays for the process.

        Raises:
            ArgumentError: nothing was compiled yet, or NumPy interprets the function.
        """
        return compiled_parts(self._ran(), self.__name__)[1].address

    @property
    def prototype(self) -> str:
        """The declaration of the C function that ran last.

        >>> import numpy as np, symgrad as sg
        >>> f = sg.jit(np.exp)
        >>> _ = f(1.0)
        >>> f.prototype
        'int32_t sg_exp_(const double *x, double *out0, const int32_t threads, char *workspace)'

        Raises:
            ArgumentError: nothing was compiled yet, or NumPy interprets the function.
        """
        return compiled_parts(self._ran(), self.__name__)[0].prototype

    def low_level_callable(self, *extra: Any, size: int | None = None, signature: str | None = None) -> Any:
        """Make a `scipy.LowLevelCallable`, which SciPy's integrators and filters call without Python.

        The function takes one number (``double (double)``) or several (``double (int, double *)``), or one array of
        `size` numbers, and returns one number. It runs in one thread; a failed check gives NaN.

        Args:
            extra: the function's arguments after those, arrays or numbers: they are passed as user data (``void *``),
                kept alive, and read at each call, so that new values can be written into the arrays.
            size: the numbers come as one array of so many.
            signature: another one of SciPy's; ``"int (double *, intptr_t, double *, void *)"`` is that of
                `scipy.ndimage.generic_filter`, with the footprint's number of elements as `size`.

        Raises:
            ArgumentError: there is no compiler, the function returns no float64 number, or an array of `extra` would
                have to be converted.
            ArgumentValueError: the signature does not fit the function, or it needs too much workspace.

        >>> import numpy as np, scipy.integrate, symgrad as sg
        >>> f = sg.jit(lambda x, a: np.exp(-a * x) * np.sin(x))
        >>> round(scipy.integrate.quad(f.low_level_callable(2.0), 0, np.inf)[0], 9)
        0.2
        """

        def find(args: tuple[Any, ...]) -> Entry:
            return self._find(self._arguments.split(args, {}))

        return low_level_callable(find, self._arguments, self._options, extra, size, signature)


def compiled_parts(entry: Entry, name: str) -> tuple[Interface, Library]:
    """Return what was compiled.

    Raises:
        ArgumentError: there is no C compiler, and NumPy interprets the function.
    """
    if entry.built.interface is None or entry.built.library is None:
        raise ArgumentError(f"{name}() is interpreted by NumPy: there is no C function", instead="a C compiler")
    return entry.built.interface, entry.built.library


def low_level_callable(
    find: Callable[[tuple[Any, ...]], Entry], arguments: Arguments, options: Options, extra: Sequence[Any],
    size: int | None, signature: str | None,
) -> Any:
    """Make what `Function.low_level_callable` returns; `find` compiles for arguments."""
    from symgrad.api.bind import as_it_lies

    leading = _leading(arguments, len(extra)) if size is None else size
    numbers = [spec("f64[]")] * leading if size is None else [spec(f"f64[{leading}]")]
    kept = [np.asarray(value) for value in extra]
    entry = find((*numbers, *kept))
    interface, _ = compiled_parts(entry, arguments.name)
    if [port[:2] for port in interface.outputs] != [RESULT]:
        found = ", ".join(f"{p.dtype.name}[{','.join(map(str, p.shape))}]" for p in interface.outputs)
        raise ArgumentError(f"{arguments.name}() returns {found}; a callback of SciPy's returns one float64 number")
    specs, paths = entry.signature.specs[len(numbers) :], entry.signature.paths[len(numbers) :]
    bound = [as_it_lies(*each) for each in zip(kept, specs, paths, strict=True)]
    pointers = [*[a.T if s.fortran else a for a, s in zip(bound, specs, strict=True)], *interface.data]
    chosen = _signature(signature, arguments.name, leading=leading, vector=size is not None, pointers=bool(pointers))
    shapes = [np.zeros(s.shape) for s in entry.signature.specs[: len(numbers)]]
    return _made(entry, options, [*shapes, *bound], pointers, chosen, len(numbers) if size is None else -leading)


def _leading(arguments: Arguments, extra: int) -> int:
    """Count the parameters that the caller passes numbers for: those without a default, before the extra ones."""
    signature = arguments.signature
    every = [] if signature is None else signature.parameters.values()
    required = [p for p in every if p.default is p.empty and p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}]
    if len(required) <= extra:
        raise ArgumentError(
            f"{arguments.name}() has {len(required)} parameters without a default, and {extra} are given",
            instead="one number at least for the caller to pass, or size= for an array of them",
        )
    return len(required) - extra


def _signature(asked: str | None, name: str, *, leading: int, vector: bool, pointers: bool) -> str:
    """Choose a signature, or check the one that was asked for."""
    from symgrad.render.adapter import PARAMETERS

    one = leading == 1 and not vector
    if asked is None:
        asked = f"double ({'double' if one else 'int, double *'}{', void *' if pointers else ''})"
    chosen = " ".join(asked.replace("*", " *").replace("(", " (").split()).replace("( ", "(").replace(" )", ")")
    chosen = chosen.replace("npy_intp", "intptr_t").replace(" ,", ",")
    if chosen not in PARAMETERS:
        raise ArgumentValueError(f"{asked!r} is no signature of a callback", instead=" or ".join(PARAMETERS))
    if PARAMETERS[chosen][0] == "double x" and not one:
        instead = chosen.replace("double (double", "double (int, double *")
        raise ArgumentValueError(f"{name}() takes {leading} numbers, and {chosen!r} passes one", instead=instead)
    if pointers and "void *" not in chosen:
        raise ArgumentValueError(
            f"{name}() has arguments or constants beside its numbers, and {chosen!r} passes no user data",
            instead=f"{chosen[:-1]}, void *)",
        )
    return chosen


def _made(
    entry: Entry, options: Options, arrays: Sequence[np.ndarray[Any, Any]], pointers: Sequence[np.ndarray[Any, Any]],
    signature: str, numbers: int,
) -> Any:
    """Compile the adapter, and make SciPy's object, which keeps the arrays alive."""
    from scipy import LowLevelCallable

    from symgrad.build.call import require
    from symgrad.build.load import build, user_data
    from symgrad.build.toolchain import find
    from symgrad.ir.dims import evaluated
    from symgrad.render.adapter import WORKSPACE, adapted

    interface, _ = compiled_parts(entry, entry.built.program.name)
    sizes = {str(dim): size for dim, size in require(entry.built.program, arrays).items()}
    workspace = evaluated(interface.workspace, {**sizes, "threads": 1})
    if workspace > WORKSPACE:
        raise ArgumentValueError(
            f"{entry.built.program.name}() needs {workspace} bytes of workspace, and a callback has no more than "
            f"{WORKSPACE} on the stack of its caller", instead="smaller arrays",
        )
    source = adapted(
        entry.built.stages.of("c"), signature, numbers,
        (len(interface.inputs), len(interface.outputs), len(interface.data)), [sizes[d] for d in interface.dims],
        workspace, polled=interface.polled,
    )
    toolchain = find(options)
    assert toolchain is not None  # noqa: S101 - it compiled the function
    library = build(source, toolchain, options)
    return LowLevelCallable(library.function, user_data(pointers) if pointers else None, signature)
