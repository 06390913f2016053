"""`Lowered`: a function taken through the compiler's stages, not compiled yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from symgrad.api.function import Function
    from symgrad.pipeline import Stages
    from symgrad.trace.signature import Signature


class Lowered:
    """A function traced and derived for one signature, not compiled yet."""

    def __init__(self, function: Function, signature: Signature, stages: Stages, program: Any, tree: Any) -> None:
        """Hold the stages, and the structure of what the function returned while it was traced."""
        self._function, self._signature, self.stages, self.program = function, signature, stages, program
        self.tree = tree

    @property
    def signature(self) -> Signature:
        """What it was lowered for."""
        return self._signature

    def as_text(self, stage: str = "optimized") -> str:
        """Print a stage: ``traced``, ``stable``, ``derived``, ``optimized`` (Python), ``loops``, ``c``."""
        return self.stages.as_text(stage)

    def report(self) -> str:
        """Say in words what the program becomes; see `Function.report`."""
        from symgrad.api.words import report

        return report(self.stages)

    def compile(self) -> Function:
        """Compile for this signature alone: every call must fit it."""
        return self._function.fixed(self._signature)
