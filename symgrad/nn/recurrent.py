"""Layers that go along time: LSTM and GRU, each a `scan`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from symgrad import scan, tree_map
from symgrad.errors import ArgumentValueError
from symgrad.nn.layers import check_shapes, parameters


def lstm(params: Mapping[str, Any], x: Any, state: tuple[Any, Any] | None = None) -> tuple[Any, tuple[Any, Any]]:
    """Run a long short-term memory along time (S. Hochreiter, J. Schmidhuber, 1997, with forget gates: F. Gers, 2000).

    ``i, f, g, o = x[t] @ Wx + h @ Wh + b``, cut into four; ``c = sigmoid(f) * c + sigmoid(i) * tanh(g)``;
    ``h = sigmoid(o) * tanh(c)``.

    Args:
        params: ``Wx`` of shape (in, 4 * units), ``Wh`` of shape (units, 4 * units), ``b`` of shape (4 * units,).
        x: of shape (time, batch, in).
        state: ``h`` and ``c``, of shape (batch, units) each; zeros unless they are given.

    Returns:
        All ``h``, of shape (time, batch, units), and the last state.

    Raises:
        ArgumentValueError: the extents do not fit, or the state has another form.
    """
    def step(state: tuple[Any, Any], ahead: Any) -> tuple[tuple[Any, Any], Any]:
        h, c = state
        i, f, g, o = np.split(ahead + h @ params["Wh"], 4, axis=-1)
        c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
        h = _sigmoid(o) * np.tanh(c)
        return (h, c), h

    return _along_time("lstm", 4, step, params, x, state, 2)


def gru(params: Mapping[str, Any], x: Any, state: Any = None) -> tuple[Any, Any]:
    """Run gated recurrent units along time (K. Cho et al., 2014; the reset gate behind the product, as cuDNN has it).

    ``z, r, n = x[t] @ Wx + b`` and ``hz, hr, hn = h @ Wh``, cut into three; ``z = sigmoid(z + hz)``;
    ``r = sigmoid(r + hr)``; ``h = z * h + (1 - z) * tanh(n + r * hn)``.

    Args:
        params: ``Wx`` of shape (in, 3 * units), ``Wh`` of shape (units, 3 * units), ``b`` of shape (3 * units,).
        x: of shape (time, batch, in).
        state: ``h`` of shape (batch, units); zeros unless it is given.

    Returns:
        All ``h``, of shape (time, batch, units), and the last one.

    Raises:
        ArgumentValueError: the extents do not fit, or the state has another form.
    """
    def step(h: Any, ahead: Any) -> tuple[Any, Any]:
        z, r, n = np.split(ahead, 3, axis=-1)
        hz, hr, hn = np.split(h @ params["Wh"], 3, axis=-1)
        z = _sigmoid(z + hz)
        h = z * h + (1.0 - z) * np.tanh(n + _sigmoid(r + hr) * hn)
        return h, h

    return _along_time("gru", 3, step, params, x, state, 1)


def _along_time(
    layer: str, gates: int, step: Callable[[Any, Any], Any], params: Mapping[str, Any], x: Any, state: Any, parts: int,
) -> tuple[Any, Any]:
    """Run a step along time, behind the product of all inputs at once."""
    Wx, Wh, b = parameters(layer, params, "Wx", "Wh", "b")
    units = np.shape(Wh)[0]
    check_shapes(layer, x, Wx, np.shape(x)[2:], np.shape(Wx)[:1])
    check_shapes(layer, Wx, Wh, np.shape(Wx)[1:], np.shape(Wh)[1:])
    check_shapes(layer, Wh, b, (gates * units,), np.shape(b))
    x = x if hasattr(x, "shape") else np.asarray(x)
    ahead, shape = x @ Wx + b, (np.shape(x)[1], units)
    if state is None:
        zeros = np.zeros(shape, np.result_type(ahead.dtype, Wh.dtype))
        state = zeros if parts == 1 else (zeros,) * parts
    state = tuple(state) if isinstance(state, list) else state
    if (found := tree_map(np.shape, state)) != (shape if parts == 1 else (shape,) * parts):
        raise ArgumentValueError(
            f"{layer}: a state of shape {found} meets x of shape {np.shape(x)} and Wh of shape {np.shape(Wh)}",
            instead=f"{'h' if parts == 1 else '(h, c)'}, of shape {shape}{' each' * (parts > 1)}",
        )
    last, along = scan(step, state, ahead)
    return along, last


def _sigmoid(x: Any) -> Any:
    return 0.5 * np.tanh(0.5 * x) + 0.5
