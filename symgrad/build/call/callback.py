"""A compiled function as SciPy's callback: an adapter in C around it, in whose user data arrays are bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.build import load
from symgrad.build.call.bound import as_it_lies
from symgrad.build.toolchain.find import find
from symgrad.errors import ArgumentError, ArgumentValueError
from symgrad.ir.requirements import require
from symgrad.ir.saved.dims import evaluated
from symgrad.render.adapter import PARAMETERS, WORKSPACE, adapted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from symgrad.build.call.call import Call
    from symgrad.render.source import Source

RESULT = (np.dtype(np.float64), ())
"""What a callback returns: one number."""


def callback(
    call: Call, source: Source, name: str, extra: Sequence[np.ndarray[Any, Any]], signature: str | None, *,
    vector: bool,
) -> Any:
    """Make a `scipy.LowLevelCallable`.

    Args:
        call: of the compilation for the numbers and the extra arguments.
        source: its C.
        name: the function's.
        extra: the arguments after the numbers, which are kept alive.
        signature: one of SciPy's; None chooses it.
        vector: the numbers come as one array, not as an argument each.

    Raises:
        ArgumentError: the function returns no float64 number, or an array would have to be converted.
        ArgumentValueError: the signature does not fit the function, or it needs too much workspace.
    """
    from scipy import LowLevelCallable

    interface, specs = call.interface, call.signature.specs
    if [port[:2] for port in interface.outputs] != [RESULT]:
        found = ", ".join(f"{p.dtype.name}[{','.join(map(str, p.shape))}]" for p in interface.outputs)
        raise ArgumentError(f"{name}() returns {found}; a callback of SciPy's returns one float64 number")
    first = len(specs) - len(extra)
    leading = specs[0].shape[0] if vector else first
    triples = zip(extra, specs[first:], call.signature.paths[first:], strict=True)
    arrays = [as_it_lies(*each) for each in triples]
    pointers = [*[a.T if s.fortran else a for a, s in zip(arrays, specs[first:], strict=True)], *interface.data]
    chosen = _signature(signature, name, leading=leading, vector=vector, pointers=bool(pointers))
    every = [*[np.zeros(s.shape) for s in specs[:first]], *arrays]
    sizes = {str(dim): size for dim, size in require(call.program, every).items()}
    workspace = evaluated(interface.workspace, {**sizes, "threads": 1})
    if workspace > WORKSPACE:
        raise ArgumentValueError(
            f"{call.program.name}() needs {workspace} bytes of workspace, and a callback has no more than "
            f"{WORKSPACE} on the stack of its caller", instead="smaller arrays",
        )
    counts = len(interface.inputs), len(interface.outputs), len(interface.data)
    adapter = adapted(
        source, chosen, -leading if vector else leading, counts, [sizes[d] for d in interface.dims], workspace,
        polled=interface.polled,
    )
    toolchain = find(call.options)
    assert toolchain is not None  # noqa: S101 - it compiled the function
    library = load.build(adapter, toolchain, call.options)
    return LowLevelCallable(library.function, load.user_data(pointers) if pointers else None, chosen)


def _signature(asked: str | None, name: str, *, leading: int, vector: bool, pointers: bool) -> str:
    """Choose a signature, or check the one that was asked for."""
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
