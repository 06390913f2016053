"""Random programs with linear algebra: NumPy's values, right gradients, every mode, batches, second order."""

from __future__ import annotations

import pytest

from tests.matrices import KINDS, NAMES, TEXT
from tests.programs import Written, random_program
from tests.test_random_modes import check_batches, check_both_ways
from tests.test_random_programs import check

pytestmark = pytest.mark.filterwarnings("ignore:.* reads what eval")  # random programs are texts

SEEDS = range(7007, 7021)
NIGHTLY = (7013, 7019, 7021)


def linear_program(seed: int) -> Written:
    return random_program(seed, more=KINDS, functions=(TEXT, NAMES))


def test_the_programs_have_matrices() -> None:
    texts = [linear_program(seed).text.split("def program")[1] for seed in SEEDS]
    for function in NAMES.keys() - {"np", "sg", "__builtins__", "apart", "definite", "square"}:
        assert any(function in text for text in texts), function


def test_programs(seeds: range) -> None:
    check([linear_program(seed) for seed in seeds])


def test_forward_and_reverse(seeds: range) -> None:
    check_both_ways([linear_program(seed) for seed in seeds])


def test_batches(seeds: range) -> None:
    check_batches([linear_program(seed) for seed in seeds])
