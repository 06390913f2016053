"""The gradient of a loss by those of its parameters that it uses, by their paths: the first half of a step."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from symgrad.api.modes.derivatives import loss_at, with_gradient
from symgrad.api.trees import leaves_by_path, without_twins
from symgrad.errors import ArgumentError, ArgumentValueError
from symgrad.trace import optree
from symgrad.trace.lines import definition
from symgrad.trace.signature import Signature


def below(paths: Sequence[str], names: Sequence[str], setting: str = "frozen") -> set[str]:
    """Return the paths that a setting names, with all below them.

    Raises:
        ArgumentValueError: a name is of no parameter.
    """
    found: set[str] = set()
    for one in names:
        named = [path for path in paths if f"{path}/".startswith(f"{one}/")]
        if not named:
            raise ArgumentValueError(
                f"compile_step({setting}=...): {one!r} names no parameter", instead=f"some of {', '.join(paths)}"
            )
        found.update(named)
    return found


def value_and_gradient(
    fun: Any, signature: Signature, leaves: list[Any], *, frozen: tuple[str, ...], has_aux: bool, sparse: bool | str,
    carried: str | None,
) -> tuple[Any, OrderedDict[str, Any]]:
    """Derive a loss by the parameters that it uses and that are not frozen: ``(value, {path: gradient})``.

    What it gives anew stands among the gradients, which are in the order of the parameters.
    """
    point = loss_at(fun, signature, leaves, has_aux=has_aux or carried is not None)
    inputs, places = point.program.inputs, [k for k, place in enumerate(signature.positions) if place == 0]
    paths = without_twins(["/".join(map(str, path)) for path in signature.tree.child(0).child(0).paths()])
    anew = set() if carried is None else below(paths, [carried], "carried")
    stay = below(paths, frozen)
    if both := sorted(stay & anew):
        raise ArgumentError(
            f"compile_step(frozen=..., carried=...): {both[0]} is in both", instead="frozen= or carried= without it")
    used = {*replace(point.program, inputs=(), outputs=point.program.outputs[:1]).nodes()}
    own = dict(zip(paths, places, strict=True))
    wanted = {path: k for path, k in own.items() if path not in stay | anew and inputs[k] in used}
    for path, k in wanted.items():
        if inputs[k].dtype.kind != "f":
            raise ArgumentError(
                f"the parameter {path or 'params'} is {inputs[k].dtype.name}: it has no gradient",
                instead=f"an array of floats, or frozen=({path!r},)",
            )
    if not wanted:
        raise ArgumentError(
            f"{point.program.name}() uses no parameter that is not frozen: of {', '.join(paths) or 'none'}, frozen "
            f"{', '.join(frozen) or 'none'}{f', carried {carried}' * bool(carried)}",
            instead="a loss of its first argument, and fewer paths in frozen=",
        )
    results, bars = with_gradient(point, [*wanted.values()], sparse=sparse)
    value: Any = optree.tree_unflatten(point.tree, results)
    grads = dict(zip(wanted, bars, strict=True))
    if carried is not None:
        value, new = value
        if has_aux:
            if not isinstance(new, tuple) or len(new) != 2:
                raise ArgumentError(
                    f"compile_step(carried={carried!r}, has_aux=True) of a loss that returns no (number, (new, "
                    "extras))", line=definition(fun))
            new, value = new[0], (value, new[1])
        found = {f"{carried}/{path}" if path else carried: leaf for path, leaf in leaves_by_path(new).items()}
        carry = {path: inputs[own[path]] for path in anew}
        there, gives = [{f"{path} {x.dtype}{x.shape}" for path, x in one.items()} for one in (carry, found)]
        if there != gives:
            shown = [", ".join(sorted(one)) or "nothing" for one in (gives, there)]
            raise ArgumentError(
                f"compile_step(carried={carried!r}): the loss gives {shown[0]} anew, and the parameters are {shown[1]}",
                line=definition(fun), instead="(number, new) of the same structure, shapes and types")
        grads |= found
    return value, OrderedDict([(path, grads[path]) for path in paths if path in grads])
