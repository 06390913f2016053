"""Random scans: what is carried, stacked, multiplied and written in place is what the same Python loop computes."""

from __future__ import annotations

import numpy as np

import symgrad as sg
from tests.control.loops import random_scan
from tests.control.programs import python_scan
from tests.table import INTERPRETED

SEEDS = range(12)


def test_random_scans(seeds):
    for seed in seeds:
        made = random_scan(seed)
        by = (0, 1, 2, 3, 5)
        ours = sg.value_and_grad(made.function(sg.scan), argnums=by)(*made.args)
        plain = sg.value_and_grad(made.function(python_scan), argnums=by, options=INTERPRETED)(*made.args)
        assert np.isclose(ours[0], made.function(python_scan)(*made.args), rtol=1e-9), made.text
        for one, other in zip(ours[1], plain[1], strict=True):
            least = 1e-9 * (1 + np.max(np.abs(other)))
            np.testing.assert_allclose(one, other, rtol=1e-8, atol=least, err_msg=made.text)
