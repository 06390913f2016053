"""The Python package around a package of C: what its template prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from symgrad.emit.module import shown, summary
from symgrad.render.package import PortView, PythonView
from symgrad.render.printer import index

if TYPE_CHECKING:
    from symgrad.emit.module import Function, Profile
    from symgrad.loops.program import Array


def python_view(made: Function, profile: Profile) -> PythonView:
    """Describe a function of the Python package."""
    inputs = [_port(array) for array in made.core.loops.inputs]
    outputs = [_port(array) for array in made.core.loops.results]
    parameters = [port.name for port in inputs] + ["threads=1"] * profile.fast
    return PythonView(
        made.name, summary(made.derived), tuple(parameters), tuple(inputs), tuple(outputs), tuple(made.extents)
    )


def _port(array: Array) -> PortView:
    shape = tuple([str(dim) for dim in array.shape])
    known = [f"{dim}" if isinstance(dim, int) else f'"{dim}"' if dim.is_Symbol else "None" for dim in array.shape]
    return PortView(
        array.name, array.dtype.name, shape, "".join(f"{one}, " for one in known).strip(),
        tuple(map(size, array.shape)), shown(array.dtype), computed="None" in known,
    )


def size(dim: Any) -> str:
    """Print an extent as Python, of the extents that a call has noted.

    >>> from symgrad.ir.shapes import symbol
    >>> size(2 * symbol("n") - 1)
    "2*_extents['n'] - 1"
    """
    text = index(dim, lambda part: f"_extents['{part.name}']")
    return text.replace(" / ", " // ").replace("sg_larger", "max").replace("sg_smaller", "min")
