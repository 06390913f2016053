"""docs/numpy.md is what trying every public function gives."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy
import scipy.special

from tests import surface

PAGE = surface.PAGE.read_text(encoding="utf-8")
SAME = f"NumPy {np.__version__} and SciPy {scipy.__version__}" in PAGE
versions = pytest.mark.skipif(not SAME, reason="the page is about another version of NumPy or SciPy")


@versions
def test_every_public_function_has_its_row() -> None:
    rows = [(room, name) for room, name, *_ in surface.written(PAGE)]
    assert rows == [(room, name) for room, name, _ in surface.public()]


@versions
def test_the_page_says_what_came() -> None:
    """Each row is tried again by its call; the numbers above the tables are those of the rows."""
    found = [surface.row_of(room, name, call) for room, name, call, _ in surface.written(PAGE)]
    assert [row.line() for row in found] == [line for *_, line in surface.written(PAGE)]
    assert surface.page(found) == PAGE


def test_a_function_of_numbers_is_tried_by_each_of_them() -> None:
    """What a call fixes is an integer: of a number, the row would not say whether there is a derivative by it."""
    for room, name, call, _ in surface.written(PAGE):
        if room == "scipy.special" and isinstance(getattr(scipy.special, name), np.ufunc):
            assert not re.search(r"\d\.\d", call), call
