"""Makes a callable of a workload for each of the compilers that are compared."""

from __future__ import annotations

import importlib
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
    """Tell whether a package is installed."""
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
    import jax.scipy.special as special

    jax.config.update("jax_enable_x64", True)  # noqa: FBT003 - JAX's signature
    fun = rebound(work.function, {"np": jnp, "special": special})
    function = jax.jit(fun if work.by is None else jax.value_and_grad(fun, argnums=work.by))
    placed = jax.tree.map(jnp.asarray, arguments)
    return Peer(lambda: jax.block_until_ready(function(*placed)), leaves)


class TorchNumPy:
    """PyTorch by NumPy's names, where they differ in more than `axis` and `keepdims`, which it takes."""

    pi = np.pi

    def __init__(self) -> None:
        self.torch = importlib.import_module("torch")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.torch, name)

    def sqrt(self, x: Any) -> Any:
        return np.sqrt(x) if isinstance(x, (int, float)) else self.torch.sqrt(x)

    def exp(self, x: Any) -> Any:
        return np.exp(x) if isinstance(x, (int, float)) else self.torch.exp(x)

    def cos(self, x: Any) -> Any:
        return np.cos(x) if isinstance(x, (int, float)) else self.torch.cos(x)

    def sin(self, x: Any) -> Any:
        return np.sin(x) if isinstance(x, (int, float)) else self.torch.sin(x)

    def log(self, x: Any) -> Any:
        return np.log(x) if isinstance(x, (int, float)) else self.torch.log(x)

    def logaddexp(self, a: Any, b: Any) -> Any:
        return self.torch.logaddexp(*self._both(a, b))

    def maximum(self, a: Any, b: Any) -> Any:
        return self.torch.maximum(*self._both(a, b))

    def max(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return self.torch.amax(x, axis, keepdims)

    def var(self, x: Any, axis: Any = None) -> Any:
        return self.torch.var(x, axis, correction=0)

    def cumsum(self, x: Any) -> Any:
        return self.torch.cumsum(x, 0)

    def eye(self, n: int) -> Any:
        return self.torch.eye(n, dtype=self.torch.float64)

    def array(self, rows: Any) -> Any:
        make, kind = self.torch.as_tensor, self.torch.float64
        return self.torch.stack([self.torch.stack([make(x, dtype=kind) for x in row]) for row in rows])

    def _both(self, a: Any, b: Any) -> Any:
        known = a if isinstance(a, self.torch.Tensor) else b
        return [self.torch.as_tensor(x, dtype=known.dtype) for x in (a, b)]


class TorchSpecial:
    """torch.special by SciPy's names."""

    def __init__(self) -> None:
        self.torch = importlib.import_module("torch")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.torch.special, name)

    def logsumexp(self, x: Any, axis: int = -1, keepdims: bool = False) -> Any:
        return self.torch.logsumexp(x, axis, keepdims)


def torch(work: Workload, arguments: tuple[Any, ...], compiled: bool) -> Peer:
    """Make PyTorch's version, compiled or eager: the loss, then `torch.autograd.grad`."""
    import optree
    import torch

    torch.set_num_threads(sg_threads())
    torch._dynamo.reset()  # noqa: SLF001 - else a workload's shapes would be dynamic after another's
    names = {"np": TorchNumPy(), "special": TorchSpecial()}
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
