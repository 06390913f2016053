"""What `check_grads` checks: a function as one of floating-point arrays that returns one number, plain and compiled."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.api.call.arguments import Arguments
from symgrad.api.call.function import Function
from symgrad.api.check.differences import scale
from symgrad.api.modes.derivatives import grad, jit
from symgrad.api.modes.linearize import jvp
from symgrad.errors import ArgumentError
from symgrad.trace.signature import flatten

if TYPE_CHECKING:
    from collections.abc import Callable

    from symgrad.options import Options

    Arrays = list[np.ndarray[Any, Any]]


class Projection:
    """The function as one of floating-point arrays and the rest, that returns one number: plain and compiled."""

    def __init__(
        self, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], static_argnums: Any,
        static_argnames: Any, options: Options, seed: int,
    ) -> None:
        """Take the arguments apart, evaluate the function once and draw its cotangent."""
        static: list[Any] = []
        self.fun, self.plain = f, f
        while isinstance(self.plain, Function) and self.plain._mode == "jit":  # noqa: SLF001 - a sibling
            static += list(self.plain._arguments.static)  # noqa: SLF001
            self.plain = self.plain._fun  # noqa: SLF001
        numbers = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
        names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
        static += [*numbers, *names]
        by_name = [s for s in static if isinstance(s, str)]
        self.arguments = Arguments(f, [s for s in static if isinstance(s, int)], by_name)
        self.name, self.options, self.rng = self.arguments.name, options, np.random.default_rng(seed)
        call = self.arguments.split(args, kwargs)
        self.signature = self.arguments.describe(call)
        self.leaves = call.leaves
        self.places = [k for k, s in enumerate(self.signature.specs) if s.dtype.kind == "f"]
        if not self.places:
            raise ArgumentError(f"{self.name}() has no floating-point argument to differentiate by")
        self.paths = [self.signature.paths[k] for k in self.places]
        self.given = [self.leaves[k] for k in self.places]
        self.others = [leaf for k, leaf in enumerate(self.leaves) if k not in self.places]
        self.wide = [np.array(leaf, np.float64) for leaf in self.given]
        self.narrow = any(self.signature.specs[k].dtype == np.float32 for k in self.places)
        self.weights = self._weights()

    def direction(self) -> Arrays:
        """Draw a direction, each number moved in proportion to its size."""
        return [scale(x) * np.where((v := self.rng.normal(size=x.shape)) == 0, 1.0, v) for x in self.wide]

    def call(self, fun: Callable[..., Any], floats: Any, others: Any) -> Any:
        """Call the function, or its plain form, with the arguments put together again."""
        leaves = list(others)
        for place, value in zip(self.places, floats, strict=True):
            leaves.insert(place, value)
        args, kwargs = self.signature.join(leaves)
        return fun(*args, **kwargs)

    def _weights(self) -> list[Any]:
        """Draw the cotangent: an array for each floating-point result, 1 for a function that returns one number."""
        with np.errstate(all="ignore"):
            leaves, _ = flatten(self.call(self.plain, self._copies(self.wide), self._others()))
        results = [np.asarray(leaf) for leaf in leaves]
        if not any(r.dtype.kind == "f" for r in results):
            raise ArgumentError(f"{self.name}() returns no floating-point number to differentiate")
        if len(results) == 1 and results[0].shape == ():
            return [1.0]
        drawn = [self.rng.normal(size=r.shape).astype(np.float32).astype(np.float64) for r in results]
        return [w if r.dtype.kind == "f" else None for w, r in zip(drawn, results, strict=True)]

    def projected(self, result: Any) -> Any:
        """Make one number of a result: the sum of its elements times the cotangent's."""
        leaves, _ = flatten(result)
        if len(self.weights) == 1 and isinstance(self.weights[0], float):
            return leaves[0]
        total: Any = None
        for leaf, weight in zip(leaves, self.weights, strict=True):
            if weight is not None:
                dtype = np.dtype(getattr(leaf, "dtype", np.float64))
                term = np.sum(leaf * (weight.astype(dtype) if dtype.kind == "f" else weight))
                total = term if total is None else total + term
        return total

    def _copies(self, floats: Arrays) -> list[Any]:
        """Copy what the plain function gets: it may write into it."""
        pairs = zip(floats, self.given, strict=True)
        return [x.copy() if isinstance(given, np.ndarray) else x[()] for x, given in pairs]

    def _others(self) -> list[Any]:
        return [leaf.copy() if isinstance(leaf, np.ndarray) else leaf for leaf in self.others]

    def number(self, floats: Arrays) -> Any:
        """Evaluate by plain NumPy."""
        return np.asarray(self.projected(self.call(self.plain, self._copies(floats), self._others())))[()]

    @cached_property
    def gradient(self) -> Function:
        """The compiled gradient, a function of (floats, others)."""

        def checked(floats: Any, others: Any) -> Any:
            return self.projected(self.call(self.fun, floats, others))

        return grad(checked, options=self.options)

    def along(self, modes: frozenset[str], order: int) -> Function:
        """Compile what else is checked, in one module: derivatives along a direction d, and the gradient's along v.

        Returns:
            A function of (floats, d, v, others). Its results are a number ``pushed``, by forward mode; and for the
            second order ``rev``, the gradient of the gradient along v, and ``fwd``, by forward mode.
        """
        gradient = self.gradient

        def derivatives(floats: Any, d: Any, v: Any, others: Any) -> Any:
            def number(floats: Any) -> Any:
                return self.projected(self.call(self.fun, floats, others))

            def slope(floats: Any) -> Any:
                parts = [np.sum(g * one) for g, one in zip(gradient(floats, others), v, strict=True)]
                return sum(parts[1:], start=parts[0])

            found: dict[str, Any] = {}
            if "fwd" in modes:
                found["pushed"] = jvp(number, (floats,), (d,))[1]
            if order > 1 and "rev" in modes:
                found["rev"] = grad(slope)(floats)
            if order > 1 and "fwd" in modes:
                found["fwd"] = jvp(lambda floats: gradient(floats, others), (floats,), (v,))[1]
            return found

        return jit(derivatives, options=self.options)
