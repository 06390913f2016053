"""Values and gradients over Dask arrays: each chunk where it lies, and the same bits for any number of workers.

The function travels as the program that was made of it, never as code; see `value_and_grad`.
"""

from __future__ import annotations

from symgrad.dask.chunks import value_and_grad

__all__ = ["value_and_grad"]
