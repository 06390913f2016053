"""What is tried by day of a long table: a part of it, and all of it at night."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def some(cases: Iterable[Any], *, of: int = 2, turn: int = 0) -> list[Any]:
    """List the cases of parameters: one `of` so many, from the one of its `turn` on, by day, and the others at night.

    >>> [case.marks[0].name if getattr(case, "marks", ()) else case for case in some("abcd")]
    ['a', 'nightly', 'c', 'nightly']
    """
    def by_night(case: Any) -> Any:
        return pytest.param(*case if isinstance(case, tuple) else [case], marks=pytest.mark.nightly)

    return [case if place % of == turn else by_night(case) for place, case in enumerate(cases)]
