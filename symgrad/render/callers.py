"""C around a function, for callers with a signature of their own: Python with its objects, SciPy with its callbacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from symgrad.render.source import (
    ADDRESSES,
    KNOWN,
    MEET,
    NOT_FINITE,
    OBJECTS,
    OTHER,
    STEPS,
    UPDATE,
    Source,
)
from symgrad.render.templates import environment

READY = 0x101
"""NumPy's flag bits C_CONTIGUOUS and ALIGNED."""

PARAMETERS = {
    "double (double)": ("double x",),
    "double (double, void *)": ("double x", "void *user_data"),
    "double (int, double *)": ("int n", "double *x"),
    "double (int, double *, void *)": ("int n", "double *x", "void *user_data"),
    "int (double *, intptr_t, double *, void *)": ("double *x", "intptr_t n", "double *value", "void *user_data"),
}
"""The signatures of SciPy's low-level callbacks that can be made, with names for their parameters."""

STACK_WORKSPACE = 1 << 17
"""Bytes of workspace that an adapter may put on its caller's stack: the derivative of a `while` that carries 16 numbers
needs 98 KB, and the smallest stacks of threads have 512."""


def _call_view(
    source: Source, arrays: Sequence[str], extents: Sequence[str], threads: str, workspace: int, *, polled: bool,
    stop: str = "0",
) -> dict[str, Any]:
    """Print how a function is called: with arrays (or their addresses), extents, threads, workspace and a flag."""
    gathered = source.prototype.partition("(")[2].startswith("void *const")
    space = "(char *)workspace" if workspace else "0"
    return {
        "entry": source.entry, "gathered": arrays if gathered else (), "workspace": -(-workspace // 8),
        "arguments": [*(["arrays"] if gathered else arrays), *extents, threads, space, *[stop] * polled],
    }


def with_call(
    source: Source, ranks: Sequence[int], outputs: int, data: int, dims: int, workspace: int, *, polled: bool,
) -> Source:
    """Let a function be called with a tuple of NumPy's arrays, compared with the words of `build.call.Plan`.

    Args:
        source: the program's C.
        ranks: of its inputs.
        outputs: how many they are.
        data: how many constants it is passed.
        dims: how many open extents follow them.
        workspace: bytes of its workspace.
        polled: its last parameter is a flag.
    """
    inputs, dtypes = len(ranks), KNOWN + dims
    count = inputs + outputs + data
    call = _call_view(
        source, [f"arrays[{k}]" for k in range(count)], [f"known[{KNOWN + k}]" for k in range(dims)],
        f"(int32_t)known[{KNOWN - 1}]", workspace, polled=polled,
    )
    return replace(source, objects=source.objects + environment().get_template("objects.c.jinja").render(
        **call, name=source.entry + OBJECTS, other=OTHER, flags=READY, inputs=inputs, outputs=outputs,
        count=count, ranks=ranks, dtypes=dtypes, data=dtypes + inputs, extents=dtypes + inputs + data,
    ))


def with_addresses(source: Source, arrays: int, dims: int, *, polled: bool) -> Source:
    """Let a function be called as each function can be: with the addresses of its arrays, and of its extents."""
    view = _call_view(
        source, [f"arrays[{k}]" for k in range(arrays)], [f"extents[{k}]" for k in range(dims)], "threads", 1,
        polled=polled, stop="stop",
    )
    unused = [name for name, used in (("arrays", arrays), ("extents", dims), ("stop", polled)) if not used]
    made = environment().get_template("addresses.c.jinja").render(
        **view, name=source.entry + ADDRESSES, unused=unused,
    )
    return replace(source, objects=f"{source.objects}{made}")


def steps() -> Source:
    """Print what takes steps of training with two such functions; it is the same for all."""
    text = environment().get_template("step.c.jinja").render(
        other=OTHER, meet=MEET, nan=NOT_FINITE, update=UPDATE,
    )
    return Source(text, STEPS, f"int32_t {STEPS}(intptr_t objects, intptr_t *words, int64_t *done, int32_t *stop)")


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
    ctypes = [word.rpartition("*")[0].strip() for word in source.prototype.partition("(")[2].split(",")]
    many = ctypes[0] == "void *const"
    behind = [*range(len(first), inputs), *range(inputs + outputs, inputs + outputs + data)]
    bound = [f"({'void' if many else ctypes[k]} *)bound[{place}]" for place, k in enumerate(behind)]
    given = inputs - len(first)
    value = "value" if "double *value" in parameters else "&value"
    arrays = [*first, *bound[:given], value, *bound[given:]]
    result, name = signature.partition(" ")[0], f"{source.entry}_adapter"
    text = environment().get_template("adapter.c.jinja").render(
        **_call_view(source, arrays, [*map(str, extents)], "1", workspace, polled=polled), source=source.text,
        name=name, result=result, comment=f"{source.entry} as {signature}", parameters=parameters, bound=bool(bound),
        unused=() if bound or "void *user_data" not in parameters else ("user_data",), count=0 if one else abs(numbers),
    )
    return Source(text, name, f"{result} {name}({', '.join(parameters)})", source.links)
