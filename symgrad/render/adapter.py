"""A function of the signature that another library calls, around one of ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from symgrad.render.render import environment
from symgrad.render.source import Source

if TYPE_CHECKING:
    from collections.abc import Sequence

PARAMETERS = {
    "double (double)": ("double x",),
    "double (double, void *)": ("double x", "void *user_data"),
    "double (int, double *)": ("int n", "double *x"),
    "double (int, double *, void *)": ("int n", "double *x", "void *user_data"),
    "int (double *, intptr_t, double *, void *)": ("double *x", "intptr_t n", "double *value", "void *user_data"),
}
"""The signatures of SciPy's low-level callbacks that can be made, with names for their parameters."""

WORKSPACE = 1 << 16
"""Bytes of workspace that an adapter may put on its caller's stack."""


@dataclass(frozen=True)
class AdapterView:
    """What the template prints: `count` numbers come by `x`; the other arguments are behind `user_data` if `bound`.

    Of many arrays the addresses are `gathered`, and `arguments` are what follows them.
    """

    name: str
    result: str
    comment: str
    parameters: tuple[str, ...]
    unused: tuple[str, ...]
    entry: str
    arguments: tuple[str, ...]
    count: int
    bound: bool
    workspace: int
    gathered: tuple[str, ...] = ()


def adapted(
    source: Source, signature: str, numbers: int, counts: tuple[int, int, int], extents: Sequence[int],
    workspace: int, *, polled: bool,
) -> Source:
    """Print a program with an adapter to a signature after it.

    Args:
        source: the program's C.
        signature: one of `PARAMETERS`.
        numbers: how many numbers come first, an argument each; if negative, so many as one array.
        counts: how many inputs, outputs and passed constants its function has.
        extents: the values of its unknown extents.
        workspace: bytes of its workspace.
        polled: its last parameter is a flag.
    """
    parameters = PARAMETERS[signature]
    one = parameters[0] == "double x"
    first = ["x"] if numbers < 0 else ["&x"] if one else [f"&x[{k}]" for k in range(numbers)]
    inputs, outputs, data = counts
    ctypes = [word.rpartition("*")[0] for word in source.prototype.partition("(")[2].split(",")]
    many = ctypes[0].strip() == "void *const"
    behind = [*range(len(first), inputs), *range(inputs + outputs, inputs + outputs + data)]
    bound = [f"({'void' if many else ctypes[k].strip()} *)bound[{place}]" for place, k in enumerate(behind)]
    given = inputs - len(first)
    arrays = [*first, *bound[:given], "value" if "double *value" in parameters else "&value", *bound[given:]]
    more = [*map(str, extents), "1", "(char *)workspace" if workspace else "0", *["0"] * polled]
    arguments = ["arrays", *more] if many else [*arrays, *more]
    view = AdapterView(
        f"{source.entry}_adapter", signature.partition(" ")[0], f"{source.entry} as {signature}", parameters,
        () if bound or "void *user_data" not in parameters else ("user_data",), source.entry, tuple(arguments),
        0 if one else abs(numbers), bool(bound), -(-workspace // 8), tuple(arrays) if many else (),
    )
    text = environment().get_template("adapter.c.jinja").render(source=source.text, adapter=view)
    declared = f"{view.result} {view.name}({', '.join(parameters)})"
    return Source(text, view.name, declared, source.links)
