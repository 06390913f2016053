"""What is derived: the function itself, its gradient, or both, with the structure of the results."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import optree

from symgrad.api.argnums import Argnums, chosen
from symgrad.errors import ArgumentError
from symgrad.transforms.vjp import value_and_grad

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from symgrad.ir.program import Program
    from symgrad.trace.signature import Signature
    from symgrad.trace.trace import Traced


@dataclass(frozen=True)
class Transform:
    """One derivation and how its results are handed out.

    Attributes:
        kind: ``jit``, ``grad``, ``value_and_grad``, or the name of a `Mode`.
        argnums: the arguments to differentiate by; one that is no tuple gives a bare gradient.
        has_aux: the function returns ``(loss, extras)``.
    """

    kind: str
    argnums: Argnums = 0
    has_aux: bool = False

    @property
    def derives(self) -> bool:
        """Whether there is something to derive; a `Mode` has derived itself when it was traced."""
        return self.kind in {"grad", "value_and_grad"}

    def check(self, traced: Traced, signature: Signature) -> tuple[int, ...]:
        """Find the inputs to differentiate by.

        Raises:
            ArgumentError: the function does not return what the transform needs.
            ArgumentValueError: there is no argument that `argnums` names.
        """
        if not self.derives:
            return ()
        children = traced.tree.children()
        if self.has_aux:
            if traced.tree.type is not tuple or len(children) != 2 or children[0].num_leaves != 1:
                raise ArgumentError("has_aux=True needs a function that returns a pair (loss, extras)")
        elif traced.tree.num_leaves != 1 or children:
            raise ArgumentError(
                f"grad needs a function that returns one floating-point number; {traced.program.name}() returns a "
                f"structure of {traced.tree.num_leaves} arrays",
                instead="return the loss alone, or (loss, extras) with has_aux=True",
            )
        return tuple([k for one in chosen(self.argnums, signature) for k in one.leaves])

    def derive(self, wrt: tuple[int, ...], program: Program) -> Program:
        """Derive a program: its outputs, or value, extras and gradients."""
        if not self.derives:
            return program
        derived = value_and_grad(program, wrt)
        return derived if self.kind == "value_and_grad" or self.has_aux else replace(
            derived, outputs=derived.outputs[1:], labels=derived.labels[1:]
        )

    def unflatten(
        self, traced: Traced, signature: Signature, *, traced_results: bool = False,
    ) -> Callable[[list[Any]], Any]:
        """Return how a list of results becomes what the user gets."""
        finish = _unchanged if traced_results else _finish
        if not self.derives:
            tree = traced.tree
            if tree.is_leaf():
                return lambda results: finish(results[0])
            return lambda results: optree.tree_unflatten(tree, [finish(r) for r in results])
        wanted = chosen(self.argnums, signature)
        trees = [one.tree for one in wanted]
        if not isinstance(self.argnums, tuple) and trees[0].is_leaf() and not self.has_aux and traced.tree.is_leaf():
            if self.kind == "grad":
                return lambda results: finish(results[0])
            if not traced_results and signature.specs[wanted[0].leaves[0]].shape:
                return value_and_array
            return lambda results: (finish(results[0]), finish(results[1]))
        return self._structured(traced, trees, finish)

    def _structured(self, traced: Traced, trees: list[Any], finish: Callable[[Any], Any]) -> Callable[[list[Any]], Any]:
        """Return how results become gradients of the arguments' structures, with the value or the extras."""
        has_value = self.kind == "value_and_grad" or self.has_aux
        leaves = all(tree.is_leaf() for tree in (traced.tree, *trees))
        if finish is _finish and not self.has_aux and has_value and leaves:
            return _numbers_of
        first = len(traced.program.outputs) if has_value else 0

        def unflatten(results: list[Any]) -> Any:
            done = [finish(r) for r in results]
            grads, position = [], first
            for tree in trees:
                grads.append(optree.tree_unflatten(tree, done[position : position + tree.num_leaves]))
                position += tree.num_leaves
            gradient = tuple(grads) if isinstance(self.argnums, tuple) else grads[0]
            if not has_value:
                return gradient
            value = optree.tree_unflatten(traced.tree, done[:first])
            if self.kind == "grad":
                return gradient, value[1]
            return value, gradient

        return unflatten


def _numbers_of(results: list[Any]) -> Any:
    """Give a value and the gradients by several arguments."""
    value, *gradients = [r if r.ndim else r[()] for r in results]
    return value, tuple(gradients)


def value_and_array(results: Sequence[Any]) -> tuple[Any, Any]:
    """Give a number and an array: how a loss and its gradient are returned."""
    return results[0][()], results[1]


def _unchanged(result: Any) -> Any:
    """Give what was traced as it is."""
    return result


def _finish(result: Any) -> Any:
    """Give numbers as NumPy's scalars, as NumPy's functions do."""
    return result if result.ndim else result[()]
