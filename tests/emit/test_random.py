"""Random programs, emitted: clean C that gives Python's numbers, to the last bit where it is plain C99."""

from __future__ import annotations

import shutil
import warnings
from typing import Any

import numpy as np
import optree
import pytest

import symgrad as sg
from tests.emit.conftest import make
from tests.night import some
from tests.programs import random_program


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("make") is None or shutil.which("gcc") is None, reason="needs make and gcc")
@pytest.mark.parametrize("seed", some(range(100, 108)))
def test_a_random_program(tmp_path, seed):
    written = random_program(seed)
    args: Any = tuple(written.args)
    specs = optree.tree_map(lambda a: sg.Spec(np.shape(a), np.asarray(a).dtype), args)
    profile = "fast" if seed % 2 else "embedded"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.SymgradWarning)  # a program may jump where finite differences look
        package = sg.emit(
            written.functions()[1], specs, tmp_path / "module", wrt=written.argnums, profile=profile
        )
    ran = make(package.folder, "check", "EXACT=" if seed % 2 else "EXACT=1")
    assert ran.returncode == 0, ran.stdout + ran.stderr
