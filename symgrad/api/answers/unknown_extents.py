"""What NumPy does for each element or row along an axis of unknown extent: a loop in C, or a batch."""

from __future__ import annotations

from symgrad.api.modes.control import cond, scan
from symgrad.api.modes.vmap import vmap
from symgrad.ops.declare.forms import LOOPS

LOOPS.update(cond=cond, scan=scan, vmap=vmap)
