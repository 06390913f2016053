"""``report.json``: what a package is, computes and needs, and what it was made of."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from symgrad.api.report import cost_of, memory_of
from symgrad.emit.cores import body, stack_bound, stages
from symgrad.emit.files import FORMAT, checksum
from symgrad.ir.text import as_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from symgrad.emit.module import Function
    from symgrad.emit.request import Request
    from symgrad.render.package import ModuleView


def report(
    view: ModuleView, functions: Sequence[Function], asked: Request, texts: Mapping[str, str], skipped: Sequence[str],
) -> dict[str, Any]:
    """Describe a package."""
    programs = [as_text(made.derived.lowered.program) for made in functions]
    made_of = [view.version, view.name, view.profile, *[made.name for made in functions], *programs]
    return {
        "format": FORMAT,
        "generator": f"symgrad {view.version}",
        "module": view.name,
        "profile": view.profile,
        "functions": [_function(made, asked, made.name in skipped) for made in functions],
        "provenance": hashlib.sha256("\0".join(made_of).encode(errors="backslashreplace")).hexdigest(),
        "files": {name: checksum(text) for name, text in texts.items()},
    }


def _function(made: Function, asked: Request, skipped: bool) -> dict[str, Any]:
    text = body([made.core])
    kept = stages(made.core, text)
    cost, memory = cost_of(kept), memory_of(kept)
    units = asked.units or {}

    def arrays(of: Sequence[Any]) -> list[dict[str, Any]]:
        found = [{"name": a.name, "dtype": a.dtype.name, "shape": [_plain(dim) for dim in a.shape]} for a in of]
        return [one | ({"unit": units[one["name"]]} if one["name"] in units else {}) for one in found]

    return {
        "name": made.name,
        "of": made.derived.call.name,
        "what": made.derived.what,
        "wrt": list(made.derived.wrt),
        "reads": arrays(made.core.loops.inputs),
        "writes": arrays(made.core.loops.results),
        "flops": _plain(cost.flops),
        "operations": {name: _plain(number) for name, number in {**cost.operations, **cost.calls}.items()},
        "bytes": {"read": _plain(cost.read), "written": _plain(cost.written)},
        "loops": cost.loops,
        "statements": cost.statements,
        "workspace": _plain(made.core.loops.workspace),
        "stack": {"arrays": memory.stack, "bound": stack_bound(text)},
        "finite_differences": made.derived.base is not None and not skipped,
    }


def _plain(dim: Any) -> Any:
    """Give a number as it is, and an expression of extents as text."""
    return dim if type(dim) is int else int(dim) if dim.is_Integer else str(dim)
