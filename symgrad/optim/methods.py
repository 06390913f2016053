"""The optimizers: of each, what it keeps of a parameter, and how it changes it.

Definitions and defaults are TensorFlow's (`tf.train`) where it has the method, else those of the paper that is named.
Every number may be a schedule. In the formulas `p` is a parameter, `g` its gradient, and `n` counts updates from 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, reduce
from typing import Any

import numpy as np

from symgrad import RowSparse, tree_flatten, tree_map, tree_paths
from symgrad.errors import ArgumentError, ArgumentValueError
from symgrad.optim.optimizer import Link, Optimizer, as_number

Number = float | Callable[[Any], Any]
Mask = Callable[[str], bool]


def elementwise(
    step: Callable[..., tuple[Any, ...]], kept: Mapping[str, Number | None], sparse: str = "exact", *,
    still: bool = False, mask: Mask | None = None, **hyper: Any,
) -> Optimizer:
    """Make an optimizer that does the same to every element of every parameter.

    Args:
        step: ``step(p, g, t, hyper, *kept)``: the new parameter, and what it keeps.
        kept: what it keeps, with the number it begins with; None for the parameter as it is.
        sparse: what becomes of rows that are not in a `RowSparse`: "exact", what a gradient of zeros makes of them, or
            "lazy", nothing.
        still: a gradient of zeros changes nothing, so both are the same.
        mask: of which parameters ``hyper["weight_decay"]`` shrinks elements before each step, by their path.
        hyper: its hyper-parameters.
    """
    if sparse not in {"exact", "lazy"}:
        raise ArgumentValueError(f"sparse={sparse!r}", instead='"exact" or "lazy"')

    def init(params: Any) -> dict[str, Any]:
        return {name: tree_map(partial(_begun_like, start=start), params) for name, start in kept.items()}

    def update(params: Any, grads: Any, state: Any, t: Any, hyper: Any) -> tuple[Any, Any, dict[str, Any]]:
        own, paths = [_like(params, state[name], name) for name in kept], iter(tree_paths(params))

        def stepped(p: Any, g: Any, *own: Any) -> tuple[Any, ...]:
            path = next(paths)
            shrinks = "weight_decay" in hyper and (mask is None or mask(path))

            def plain(g: Any, p: Any, *own: Any) -> tuple[Any, ...]:
                left = p * (1.0 - hyper["learning_rate"] * hyper["weight_decay"]) if shrinks else p
                return step(left, g, t, hyper, *own)

            if not isinstance(g, RowSparse):
                return plain(g, p, *own)
            elsewhere = None if sparse == "lazy" or (still and not shrinks) else plain(np.zeros_like(p), p, *own)
            return g.updated((p, *own), plain, elsewhere)

        made = tree_map(stepped, params, grads, *own)
        params, *own = [tree_map(lambda _, each, k=k: each[k], params, made) for k in range(len(kept) + 1)]
        return params, grads, dict(zip(kept, own, strict=True))

    lazy = sparse == "lazy"
    return Optimizer((Link(init, update, hyper, rows=True, asks=still or lazy, lazy=lazy and not still),))


def sgd(learning_rate: Number, *, sparse: str = "exact") -> Optimizer:
    """Descend along the gradient: ``p - learning_rate * g``.

    >>> import numpy as np, symgrad as sg
    >>> opt = sg.optim.sgd(0.1)
    >>> opt.update(np.array([1.0, 2.0]), np.array([0.1, -0.3]), opt.init(np.zeros(2)))[0]
    array([0.99, 2.03])
    """
    def step(p: Any, g: Any, _: Any, h: Any) -> tuple[Any, ...]:
        return (p - h["learning_rate"] * g,)

    return elementwise(step, {}, sparse, still=True, learning_rate=learning_rate)


def momentum(
    learning_rate: Number, momentum: Number = 0.9, nesterov: bool = False, *, sparse: str = "exact",
) -> Optimizer:
    """Descend along a sum of gradients that fades: ``a = momentum * a + g``, ``p - learning_rate * a``.

    With `nesterov` ``p - learning_rate * (g + momentum * a)`` (I. Sutskever et al., 2013). It keeps the sum as
    ``momentum``.
    """
    def step(p: Any, g: Any, _: Any, h: Any, a: Any) -> tuple[Any, ...]:
        a = h["momentum"] * a + g
        return p - h["learning_rate"] * (g + h["momentum"] * a if nesterov else a), a

    return elementwise(step, {"momentum": 0.0}, sparse, learning_rate=learning_rate, momentum=momentum)


def adagrad(learning_rate: Number, initial_accumulator: float = 0.1, *, sparse: str = "exact") -> Optimizer:
    """Divide by the root of the sum of all squares so far (J. Duchi et al., 2011).

    It keeps the sum, ``a = a + g**2``, as ``accumulator``, and is ``p - learning_rate * g / sqrt(a)``.
    """
    def step(p: Any, g: Any, _: Any, h: Any, a: Any) -> tuple[Any, ...]:
        a = a + g * g
        return p - h["learning_rate"] / np.sqrt(a) * g, a

    kept = {"accumulator": initial_accumulator}
    return elementwise(step, kept, sparse, still=True, learning_rate=learning_rate)


def proximal_adagrad(
    learning_rate: Number, initial_accumulator: float = 0.1, l1: Number = 0.0, l2: Number = 0.0, *,
    sparse: str = "exact",
) -> Optimizer:
    """Take a step of `adagrad`, then of `proximal_sgd` for the penalties, at the element's own rate."""
    def step(p: Any, g: Any, _: Any, h: Any, a: Any) -> tuple[Any, ...]:
        a = a + g * g
        rate = h["learning_rate"] / np.sqrt(a)
        return _proximal(p - rate * g, rate, h), a

    return elementwise(step, {"accumulator": initial_accumulator}, sparse, learning_rate=learning_rate, l1=l1, l2=l2)


def proximal_sgd(
    learning_rate: Number, l1: Number = 0.0, l2: Number = 0.0, *, sparse: str = "exact",
) -> Optimizer:
    """Take a step of `sgd`, then minimize ``l1 * |p| + l2 / 2 * p**2`` near it (J. Duchi, Y. Singer, FOBOS, 2009)."""
    def step(p: Any, g: Any, _: Any, h: Any) -> tuple[Any, ...]:
        return (_proximal(p - h["learning_rate"] * g, h["learning_rate"], h),)

    return elementwise(step, {}, sparse, learning_rate=learning_rate, l1=l1, l2=l2)


def adagrad_da(
    learning_rate: Number, initial_accumulator: float = 0.1, l1: Number = 0.0, l2: Number = 0.0, *,
    sparse: str = "exact",
) -> Optimizer:
    """Average dual gradients (J. Duchi et al., 2011): parameters are a function of the sums of gradients and squares.

    They are ``-learning_rate * sign(G) * max(|G| - l1 * n, 0) / (l2 * n * learning_rate + sqrt(a))`` of the sums `G`
    and `a`, which it keeps as ``gradient_accumulator`` and ``gradient_squared_accumulator``; what the parameters were
    at first does not matter.
    """
    def step(p: Any, g: Any, t: Any, h: Any, total: Any, a: Any) -> tuple[Any, ...]:  # noqa: ARG001 - see above
        total, a, rate = total + g, a + g * g, h["learning_rate"]
        shrunk = np.sign(total) * np.maximum(np.abs(total) - h["l1"] * (t + 1), 0.0)
        return -rate * shrunk / (h["l2"] * (t + 1) * rate + np.sqrt(a)), total, a

    kept = {"gradient_accumulator": 0.0, "gradient_squared_accumulator": initial_accumulator}
    return elementwise(step, kept, sparse, learning_rate=learning_rate, l1=l1, l2=l2)


def ftrl(
    learning_rate: Number, initial_accumulator: float = 0.1, l1: Number = 0.0, l2: Number = 0.0, *,
    sparse: str = "exact",
) -> Optimizer:
    """Follow the regularized leader (H. McMahan et al., Ad click prediction, 2013); `l1` makes parameters zero.

    It keeps ``accum``, the sum of squares, and ``linear``. At a rate of 0, as a `warmup` begins with, nothing changes.
    """
    def step(p: Any, g: Any, _: Any, h: Any, a: Any, z: Any) -> tuple[Any, ...]:
        rests, l1 = h["learning_rate"] == 0.0, h["l1"]  # `linear` would be infinite
        rate = as_number(np.where(rests, 1.0, h["learning_rate"]))
        n = a + g * g
        linear = z + g - (np.sqrt(n) - np.sqrt(a)) / rate * p
        moved = (l1 * np.sign(linear) - linear) / (np.sqrt(n) / rate + 2.0 * h["l2"])
        new = np.where(np.abs(linear) > l1, moved, 0.0), n, linear
        return tuple([np.where(rests, old, one)[()] for old, one in zip((p, a, z), new, strict=True)])

    kept = {"accum": initial_accumulator, "linear": 0.0}
    return elementwise(step, kept, sparse, learning_rate=learning_rate, l1=l1, l2=l2)


def adadelta(
    learning_rate: Number = 0.001, rho: Number = 0.95, eps: Number = 1e-8, *, sparse: str = "exact",
) -> Optimizer:
    """Scale by the sizes of updates and gradients of late (M. Zeiler, 2012).

    It keeps ``accum``, a mean of ``g**2``, and ``accum_update``, of ``u**2`` with the update
    ``u = sqrt(accum_update + eps) / sqrt(accum + eps) * g``.
    """
    def step(p: Any, g: Any, _: Any, h: Any, a: Any, d: Any) -> tuple[Any, ...]:
        rho, eps = h["rho"], h["eps"]
        a = rho * a + (1.0 - rho) * g * g
        u = np.sqrt(d + eps) / np.sqrt(a + eps) * g
        return p - h["learning_rate"] * u, a, rho * d + (1.0 - rho) * u * u

    kept = {"accum": 0.0, "accum_update": 0.0}
    return elementwise(step, kept, sparse, learning_rate=learning_rate, rho=rho, eps=eps)


def rmsprop(
    learning_rate: Number, decay: Number = 0.9, eps: Number = 1e-10, momentum: Number = 0.0, centered: bool = False,
    initial_scale: float = 1.0, *, sparse: str = "exact",
) -> Optimizer:
    """Divide by the root of a mean of squares (T. Hinton, 2012).

    It is ``p - m`` with ``m = momentum * m + learning_rate * g / sqrt(rms + eps)``. It keeps `m` as ``momentum``, and
    ``rms``, the mean, which begins with `initial_scale` (TensorFlow's 1; PyTorch begins with 0). With `centered` a mean
    of gradients, ``mg``, is taken out: ``sqrt(rms - mg**2 + eps)``.
    """
    def step(p: Any, g: Any, _: Any, h: Any, rms: Any, m: Any, *mg: Any) -> tuple[Any, ...]:
        decay = h["decay"]
        rms, mg = decay * rms + (1.0 - decay) * g * g, tuple([decay * one + (1.0 - decay) * g for one in mg])
        spread = rms - mg[0] * mg[0] if centered else rms
        m = h["momentum"] * m + h["learning_rate"] * g / np.sqrt(spread + h["eps"])
        return p - m, rms, m, *mg

    kept = {"rms": initial_scale, "momentum": 0.0, **({"mg": 0.0} if centered else {})}
    return elementwise(step, kept, sparse, learning_rate=learning_rate, decay=decay, eps=eps, momentum=momentum)


def adam(
    learning_rate: Number = 0.001, b1: Number = 0.9, b2: Number = 0.999, eps: Number = 1e-8, eps_mode: str = "hat", *,
    sparse: str = "exact",
) -> Optimizer:
    """Divide a mean of gradients by the root of a mean of squares (D. Kingma, J. Ba, 2015).

    Args:
        learning_rate: about how much an element changes.
        b1: how fast the mean of gradients fades.
        b2: how fast the mean of squares fades.
        eps: what is added to the root.
        eps_mode: "hat" adds it to the root of ``v`` as it is kept, as TensorFlow does; "paper" after the correction of
            the bias, as the paper's first formula, PyTorch and optax.
        sparse: of a `RowSparse`, "exact" gives what the whole gradient gives, in which all rows change; "lazy" changes
            the rows of it alone, and what is kept of them.

    Returns:
        An optimizer that keeps ``m`` and ``v``.

    Raises:
        ArgumentValueError: another `eps_mode` or `sparse`.
    """
    if eps_mode not in {"hat", "paper"}:
        raise ArgumentValueError(f"adam(eps_mode={eps_mode!r})", instead='"hat" or "paper"')
    return _moments(_hat if eps_mode == "hat" else _paper, {}, sparse, learning_rate, b1, b2, eps)


def adamw(
    learning_rate: Number, weight_decay: Number, b1: Number = 0.9, b2: Number = 0.999, eps: Number = 1e-8, *,
    mask: Mask | None = None, sparse: str = "exact",
) -> Optimizer:
    """Shrink parameters, ``p * (1 - learning_rate * weight_decay)``, before a step of `adam` ("paper").

    I. Loshchilov, F. Hutter, Decoupled Weight Decay Regularization, 2019.

    Args:
        learning_rate: as of `adam`; and b1, b2, eps.
        weight_decay: how fast they shrink.
        b1: as of `adam`.
        b2: as of `adam`.
        eps: as of `adam`.
        mask: whether parameters shrink, by their path: ``lambda path: not path.endswith("/b")``. All if it is left out.

    >>> import numpy as np, symgrad as sg
    >>> opt = sg.optim.adamw(0.1, 0.5, mask=lambda path: path == "W")
    >>> params = {"W": np.ones(1), "b": np.ones(1)}
    >>> opt.update(params, {"W": np.zeros(1), "b": np.zeros(1)}, opt.init(params))[0]
    {'W': array([0.95]), 'b': array([1.])}
    """
    return _moments(_paper, {}, sparse, learning_rate, b1, b2, eps, weight_decay, mask=mask)


def nadam(
    learning_rate: Number = 0.001, b1: Number = 0.9, b2: Number = 0.999, eps: Number = 1e-8, *, sparse: str = "exact",
) -> Optimizer:
    """Take `adam` ("paper") with Nesterov's momentum (T. Dozat, 2016), without a schedule of `b1`, as optax does.

    The mean of gradients is ``b1 * m / (1 - b1**(n + 1)) + (1 - b1) * g / (1 - b1**n)``.
    """
    def step(p: Any, g: Any, n: Any, h: Any, m: Any, v: Any) -> tuple[Any, ...]:
        b1, b2 = h["b1"], h["b2"]
        ahead = b1 * m / (1.0 - b1 ** (n + 1)) + (1.0 - b1) * g / (1.0 - b1**n)
        return (p - h["learning_rate"] * ahead / (np.sqrt(v) / (1.0 - b2**n) ** 0.5 + h["eps"]),)

    return _moments(step, {}, sparse, learning_rate, b1, b2, eps)


def adamax(
    learning_rate: Number = 0.001, b1: Number = 0.9, b2: Number = 0.999, eps: Number = 1e-8, *, sparse: str = "exact",
) -> Optimizer:
    """Take `adam` with a largest size in the place of the root (section 7 of its paper).

    It keeps ``m`` and ``u = max(b2 * u, |g| + eps)``, and is ``p - learning_rate / (1 - b1**n) * m / u``, as in PyTorch
    and optax.
    """
    def step(p: Any, g: Any, t: Any, h: Any, m: Any, u: Any) -> tuple[Any, ...]:
        b1 = h["b1"]
        m, u = b1 * m + (1.0 - b1) * g, np.maximum(h["b2"] * u, np.abs(g) + h["eps"])
        return p - h["learning_rate"] / (1.0 - b1 ** (t + 1)) * m / u, m, u

    return elementwise(step, {"m": 0.0, "u": 0.0}, sparse, learning_rate=learning_rate, b1=b1, b2=b2, eps=eps)


def amsgrad(
    learning_rate: Number = 0.001, b1: Number = 0.9, b2: Number = 0.999, eps: Number = 1e-8, *, sparse: str = "exact",
) -> Optimizer:
    """Take `adam` ("paper") with the largest ``v`` so far (S. Reddi et al., 2018), as PyTorch does; it keeps ``v_max``.

    The bias is corrected behind the maximum; optax corrects it before.
    """
    def step(p: Any, g: Any, n: Any, h: Any, m: Any, v: Any, most: Any) -> tuple[Any, ...]:  # noqa: ARG001
        most = np.maximum(most, v)
        first, second = 1.0 - h["b1"] ** n, 1.0 - h["b2"] ** n
        return p - h["learning_rate"] / first * m / (np.sqrt(most) / second**0.5 + h["eps"]), most

    return _moments(step, {"v_max": 0.0}, sparse, learning_rate, b1, b2, eps)


def lion(
    learning_rate: Number = 1e-4, b1: Number = 0.9, b2: Number = 0.99, weight_decay: Number = 0.0, *,
    mask: Mask | None = None, sparse: str = "exact",
) -> Optimizer:
    """Descend by the sign of ``b1 * m + (1 - b1) * g`` (X. Chen et al., 2023); `weight_decay` and `mask` as of `adamw`.

    It keeps ``m``, a mean of gradients by `b2`.
    """
    def step(p: Any, g: Any, _: Any, h: Any, m: Any) -> tuple[Any, ...]:
        b1, b2 = h["b1"], h["b2"]
        return p - h["learning_rate"] * np.sign(b1 * m + (1.0 - b1) * g), b2 * m + (1.0 - b2) * g

    hyper: Any = {"learning_rate": learning_rate, "b1": b1, "b2": b2, "weight_decay": weight_decay}
    return elementwise(step, {"m": 0.0}, sparse, mask=mask, **hyper)


# -- what several share


def _like(params: Any, tree: Any, name: str) -> Any:
    """Return what is kept of the parameters, or refuse what is none of these."""
    wanted = dict(zip(tree_paths(params), map(np.shape, tree_flatten(params)[0]), strict=True))
    found = dict(zip(tree_paths(tree), map(np.shape, tree_flatten(tree)[0]), strict=True))
    for path in (*wanted, *found):
        if found.get(path) != wanted.get(path):
            at = f"{name}/{path}".rstrip("/")
            what = f"has the shape {found[path]}" if path in found else "is not there"
            theirs = f"the parameter has {wanted[path]}" if path in wanted else "there is no such parameter"
            raise ArgumentError(f"the state's {at} {what}, and {theirs}", instead="optimizer.init(params)")
    return tree


def _begun_like(p: Any, start: Any) -> Any:
    return (np.copy(p) if start is None else np.full_like(p, start))[()]  # of a number a number


def _proximal(p: Any, rate: Any, h: Any) -> Any:
    """Minimize ``l1 * |q| + l2 / 2 * q**2 + (q - p)**2 / (2 * rate)``."""
    return np.sign(p) * np.maximum(np.abs(p) - rate * h["l1"], 0.0) / (1.0 + h["l2"] * rate)


def _hat(p: Any, _: Any, n: Any, h: Any, m: Any, v: Any) -> tuple[Any, ...]:
    rate = h["learning_rate"] * (1.0 - h["b2"] ** n) ** 0.5 / (1.0 - h["b1"] ** n)
    return (p - rate * m / (np.sqrt(v) + h["eps"]),)


def _paper(p: Any, _: Any, n: Any, h: Any, m: Any, v: Any) -> tuple[Any, ...]:
    first, second = 1.0 - h["b1"] ** n, (1.0 - h["b2"] ** n) ** 0.5
    return (p - h["learning_rate"] / first * m / (np.sqrt(v) / second + h["eps"]),)


def _moments(
    step: Callable[..., tuple[Any, ...]], kept: dict[str, Any], sparse: str, *numbers: Number, mask: Mask | None = None,
) -> Optimizer:
    """Make an optimizer that keeps means of gradients and of squares; `step` counts updates from 1.

    The numbers are the learning rate, `b1`, `b2`, `eps`, and the decay of weights if there is one.
    """
    def stepped(p: Any, g: Any, t: Any, h: Any, m: Any, v: Any, *own: Any) -> tuple[Any, ...]:
        m, v = h["b1"] * m + (1.0 - h["b1"]) * g, h["b2"] * v + (1.0 - h["b2"]) * g * g
        p, *rest = step(p, g, t + 1, h, m, v, *own)
        return p, m, v, *rest

    hyper: Any = dict(zip(("learning_rate", "b1", "b2", "eps", "weight_decay"), numbers, strict=False))
    return elementwise(stepped, {"m": 0.0, "v": 0.0, **kept}, sparse, mask=mask, **hyper)


# -- links of a chain: gradients that are clipped, the moving average of parameters


def clip_by_value(limit: Number) -> Optimizer:
    """Bring every element of the gradients between ``-limit`` and ``limit``."""
    return _changing(lambda grads, h: _each(lambda g: np.clip(g, -h["limit"], h["limit"]), grads), limit=limit)


def clip_by_norm(max_norm: Number) -> Optimizer:
    """Shorten each gradient whose Euclidean norm is longer than `max_norm`."""
    return _changing(lambda grads, h: _each(lambda g: g * _norm_scale([g], h["max_norm"]), grads), max_norm=max_norm)


def clip_by_global_norm(max_norm: Number) -> Optimizer:
    """Shorten all gradients alike if the Euclidean norm of all together is longer than `max_norm`.

    Zeros stay zeros; where one is NaN, all are.

    >>> import numpy as np, symgrad as sg
    >>> opt = sg.optim.chain(sg.optim.clip_by_global_norm(6.5), sg.optim.sgd(1.0))
    >>> params = {"a": np.zeros(2), "b": np.zeros(1)}
    >>> opt.update(params, {"a": np.array([3.0, 4.0]), "b": np.array([12.0])}, opt.init(params))[0]
    {'a': array([-1.5, -2. ]), 'b': array([-6.])}
    """
    def clipped(grads: Any, h: Any) -> Any:
        leaves = [g.rows if isinstance(g, RowSparse) else g for g in tree_flatten(grads)[0]]
        scale = _norm_scale(leaves, h["max_norm"])
        return _each(lambda g: g * scale, grads)

    return _changing(clipped, max_norm=max_norm)


def ema(decay: Number, *, sparse: str = "exact") -> Optimizer:
    """Keep a moving average of the parameters, behind what changes them: ``decay * ema + (1 - decay) * p``.

    It begins with the parameters, and is in the state as ``ema``. With ``sparse="lazy"`` rows that are not in a
    `RowSparse` keep the average they had: behind an optimizer that is lazy too, a step costs the rows of the batch.
    """
    def step(p: Any, _g: Any, _t: Any, h: Any, mean: Any) -> tuple[Any, ...]:
        return p, h["decay"] * mean + (1.0 - h["decay"]) * p

    return elementwise(step, {"ema": None}, sparse, decay=decay)


def _changing(change: Callable[[Any, Any], Any], **hyper: Number) -> Optimizer:
    link = Link(lambda _: {}, lambda params, grads, state, _, h: (params, change(grads, h), state), hyper, rows=True)
    return Optimizer((link,))


def _each(function: Callable[[Any], Any], grads: Any) -> Any:
    """Apply a function that keeps zeros to each gradient, or to its rows."""
    return tree_map(lambda g: g.map(function) if isinstance(g, RowSparse) else function(g), grads)


def _norm_scale(grads: list[Any], most: Any) -> Any:
    """Return what brings the norm of some arrays down to `most`: in a unit in which no square overflows."""
    largest = reduce(np.maximum, [np.max(np.abs(g), initial=0.0) for g in grads], 1.0)
    unit = np.where(np.isfinite(largest), largest, 1.0)[()]
    scaled = [g / unit for g in grads]
    norm = sum([np.sum(g * g) for g in scaled]) ** 0.5
    return most / unit / np.maximum(np.maximum(norm, most / unit), np.finfo(norm.dtype).tiny)  # 0 of zeros
