"""PyTorch by the names of NumPy and SciPy that the workloads use."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

ON_NUMBERS = {"sqrt", "exp", "log", "sin", "cos"}
"""Functions that the workloads also call with plain numbers."""


class TorchNumPy:
    """PyTorch by NumPy's names, where they differ in more than `axis` and `keepdims`, which it takes."""

    pi = np.pi

    def __init__(self) -> None:
        self.torch = importlib.import_module("torch")

    def __getattr__(self, name: str) -> Any:
        of_tensors = getattr(self.torch, name)
        if name not in ON_NUMBERS:
            return of_tensors
        return lambda x: getattr(np, name)(x) if isinstance(x, (int, float)) else of_tensors(x)

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


class TorchLinalg:
    """Linear algebra by SciPy's names."""

    def __init__(self) -> None:
        self.torch = importlib.import_module("torch")

    def cho_solve(self, c_and_lower: Any, b: Any) -> Any:
        factor, lower = c_and_lower
        return self.torch.cholesky_solve(b[:, None], factor, upper=not lower)[:, 0]
