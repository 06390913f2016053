"""Broadcasting what is not traced to open extents is refused with what to write instead."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg


@pytest.mark.parametrize("value", [3.0, [3.0]])
def test_plain_arrays_to_open_extents(value):
    f = sg.jit(lambda y: np.broadcast_to(np.array(value), y.shape) * y, specs=("f64[n]",))
    with pytest.raises(sg.errors.UnsupportedError, match=r"plain array to \(n,\), which has open extents") as caught:
        f(np.ones(3))
    assert "np.full(shape, array)" in str(caught.value)
    full = sg.jit(lambda y: np.full(y.shape, value) * y, specs=("f64[n]",))
    np.testing.assert_array_equal(full(np.arange(3.0)), 3.0 * np.arange(3.0))
