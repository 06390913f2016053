"""The passes are listed, each says what it is for, and each but the necessary ones can be left out, by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ArgumentValueError
from symgrad.options import Purpose
from symgrad.pipeline import passes

X = np.linspace(0.5, 2.0, 1000)


def test_all_are_listed_once():
    names = [one.name for one in passes()]
    assert len(names) == len({*names})
    assert {"safer", "cheaper", "symmetric_sums", "unroll", "versioning", "fuse", "vectorize"} <= {*names}
    assert {one.name for one in passes() if one.purpose is Purpose.NECESSITY} == {
        "inline", "fuse", "embed", "interrupts", "order", "donate", "allocate",
    }


def softplus(x):
    return np.sum(np.log(1 + np.exp(x)))


SHOWN: dict[str, tuple[str, str]] = {  # what shows it: a stage, and a word
    "safer": ("optimized", "expit"), "cheaper": ("optimized", "np.broadcast_to"), "vectorize": ("loops", "lanes("),
}
WAYS: dict[str, Callable[[sg.Options], Any]] = {
    "top": lambda options: sg.grad(softplus, options=options),
    "inside jit": lambda options: sg.jit(sg.grad(softplus), options=options),
    "gradients": lambda options: sg.jit(lambda x: sg.gradients(softplus(x), x), options=options),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SHOWN)
def test_one_is_left_out_wherever_the_derivative_stands(name, way):
    stage, word = SHOWN[name]
    whole, less = [WAYS[way](sg.Options(without=without)) for without in ((), (name,))]
    texts = [each.lower(X).as_text(stage) for each in (whole, less)]
    assert (word in texts[0]) != (word in texts[1]), texts
    np.testing.assert_allclose(less(X), whole(X), rtol=1e-12)


def test_a_name_of_no_pass():
    f = sg.jit(np.sin, options=sg.Options(without=("sin",)))
    with pytest.raises(ArgumentValueError, match=r"no pass 'sin'(?s:.*)some of forks, .*safer, .*unroll"):
        f(1.0)


def test_a_pass_of_necessity():
    f = sg.jit(np.sin, options=sg.Options(without=("safer", "allocate")))
    with pytest.raises(ArgumentValueError, match=r"no C without the pass 'allocate'(?s:.*)some of (?!.*allocate)"):
        f.lower(1.0)
