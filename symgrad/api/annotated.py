"""Specs from annotations of jaxtyping's: what is compiled where a command or `emit` is told no shapes."""

from __future__ import annotations

import inspect
import re
import typing
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.api.annotations import hints
from symgrad.errors import ArgumentValueError
from symgrad.ops.declare import COMPILED
from symgrad.trace.signature import Spec, bind, extent_of

if TYPE_CHECKING:
    from collections.abc import Callable

WIDEST = ("float64", "int64", "uint64", "bool")
"""What ``Float``, ``Int``, ``UInt`` and ``Bool`` are: NumPy's own choice."""

_EXTENT = re.compile(r"\d+|[A-Za-z]\w*(\+[1-9]\d{0,8})?")


def annotated_specs(fun: Callable[..., Any], given: Any = ()) -> dict[str, Any]:
    """Read a spec for each argument that has none, has no default, and is annotated by jaxtyping.

    Args:
        fun: the function.
        given: names of arguments that need none.

    Returns:
        A `Spec` for an array, a tree of them for a tuple, a NamedTuple or a TypedDict, by the arguments' names.

    Raises:
        ArgumentValueError: an annotation is one of jaxtyping's and leaves a dtype or an axis open.
    """
    signature, known = bind(fun), hints(fun)
    if signature is None or not known:
        return {}
    plain = [
        p.name for p in signature.parameters.values()
        if p.default is p.empty and p.kind not in {p.VAR_KEYWORD, p.VAR_POSITIONAL} and p.name not in given
    ]
    found = {name: _tree(known[name], name) for name in plain if name in known}
    return {name: tree for name, tree in found.items() if tree is not None}


def _tree(hint: Any, name: str) -> Any:
    """Read one annotation, by the depth of its structures; None where jaxtyping says nothing in it."""
    if isinstance(getattr(hint, "dim_str", None), str):
        return _spec(hint, name)
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is tuple and Ellipsis not in arguments:
        parts = [_tree(part, f"{name}[{k}]") for k, part in enumerate(arguments)]
        return None if None in parts else tuple(parts)
    if not (inspect.isclass(hint) and (hasattr(hint, "_fields") or typing.is_typeddict(hint))):
        return None
    fields = {key: _tree(part, f"{name}.{key}") for key, part in typing.get_type_hints(hint).items()}
    return None if None in fields.values() else hint(**fields)


def _spec(hint: Any, name: str) -> Spec:
    dtypes = hint.dtypes if isinstance(hint.dtypes, (tuple, list)) else ()
    dtype = dtypes[0] if len(dtypes) == 1 else next((wide for wide in WIDEST if wide in dtypes), "")
    words = [word.rsplit("=", maxsplit=1)[-1] for word in hint.dim_str.split()]
    if dtype not in {kind.name for kind in COMPILED} or not all(map(_EXTENT.fullmatch, words)):
        raise ArgumentValueError(
            f"the annotation {hint.__name__} of {name} leaves a dtype or an axis open that has to be known",
            instead='Float64[np.ndarray, "n d"], with names and numbers alone',
        )
    return Spec(tuple([extent_of(word) for word in words]), np.dtype(dtype))
