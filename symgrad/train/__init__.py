"""Training: files of parameters and state that are whole or not there, and a loop that goes on where it was killed."""

from __future__ import annotations

from symgrad.train.files import load, save
from symgrad.train.fit import fit

__all__ = ["fit", "load", "save"]
