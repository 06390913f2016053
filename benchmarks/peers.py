"""Makes a callable of a workload for each of the compilers that are compared."""

from __future__ import annotations

import importlib.util
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.workload import Workload


@dataclass(frozen=True)
class Peer:
    """One compiler's version of a workload.

    Attributes:
        call: computes value and gradient; everything is placed and bound beforehand.
        results: what a call returned, as NumPy arrays in the order value, gradients; empty when they are not compared.
        note: how it was compiled, where there is a choice.
    """

    call: Callable[[], Any]
    results: Callable[[Any], list[Any]]
    note: str = ""


def there(package: str) -> bool:
    """Whether a package is installed."""
    return importlib.util.find_spec(package) is not None


def rebound(function: Any, names: dict[str, Any]) -> Any:
    """Copy a module's function with other meanings of the module's names: `np` may be jax.numpy."""
    meanings = {**function.__globals__, **names}
    for name, value in function.__globals__.items():
        if isinstance(value, types.FunctionType) and value.__module__ == function.__module__:
            meanings[name] = types.FunctionType(value.__code__, meanings, name)
    return types.FunctionType(function.__code__, meanings, function.__name__)


def leaves(result: Any) -> list[Any]:
    """Flatten a value with its gradients, dicts by sorted keys."""
    if isinstance(result, (tuple, list)):
        return [leaf for part in result for leaf in leaves(part)]
    if isinstance(result, dict):
        return [leaf for key in sorted(result) for leaf in leaves(result[key])]
    return [np.asarray(result)]


def symgrad(work: Workload, arguments: tuple[Any, ...]) -> tuple[Peer, Any]:
    """Make symgrad's version; the function too, for its C and its workspace."""
    function = sg.jit(work.function) if work.by is None else sg.value_and_grad(work.function, argnums=work.by)
    return Peer(lambda: function(*arguments), leaves), function


def jax(work: Workload, arguments: tuple[Any, ...]) -> Peer:
    """Make JAX's version; its arrays are on its device before the clock starts."""
    import jax
    import jax.numpy as jnp
    from jax.scipy import linalg, special

    jax.config.update("jax_enable_x64", True)
    fun = rebound(work.function, {"np": jnp, "special": special, "linalg": linalg})
    function = jax.jit(fun if work.by is None else jax.value_and_grad(fun, argnums=work.by))
    placed = jax.tree.map(jnp.asarray, arguments)
    return Peer(lambda: jax.block_until_ready(function(*placed)), leaves)


def torch(work: Workload, arguments: tuple[Any, ...], compiled: bool) -> Peer:
    """Make PyTorch's version, compiled or eager: the loss, then `torch.autograd.grad`."""
    import optree
    import torch

    from benchmarks.torch_names import TorchLinalg, TorchNumPy, TorchSpecial

    torch.set_num_threads(sg_threads())
    torch._dynamo.reset()  # noqa: SLF001 - else a workload's shapes would be dynamic after another's
    names = {"np": TorchNumPy(), "special": TorchSpecial(), "linalg": TorchLinalg()}
    loss = rebound(work.function, names)
    placed = [optree.tree_map(lambda a: torch.as_tensor(np.ascontiguousarray(a).reshape(a.shape)), a)
              for a in arguments]
    by = () if work.by is None else (work.by,) if isinstance(work.by, int) else work.by
    wanted = [leaf for k in by for leaf in optree.tree_leaves(placed[k])]
    for leaf in wanted:
        leaf.requires_grad_()
    run = torch.compile(loss) if compiled else loss

    def call() -> Any:
        value = run(*placed)
        return (value, *torch.autograd.grad(value, wanted)) if wanted else (value,)

    return Peer(call, lambda r: [a.detach().numpy() for a in r], "compile" if compiled else "eager")


def sg_threads() -> int:
    """Count the threads that symgrad uses, so that others use as many."""
    from symgrad.build.threads import threads

    return threads(sg.Options())
