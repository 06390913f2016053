"""`custom_vjp`, `custom_jvp`: functions with a derivative of the user's own."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np

from symgrad.api.modes.mode import decided, substituted
from symgrad.errors import ArgumentError, NoGradient, UnsupportedError
from symgrad.ir.graphs import reachable
from symgrad.ir.index import shapes
from symgrad.ir.names import identifier
from symgrad.ir.node import Node
from symgrad.ir.op import Composite
from symgrad.ir.program import Program
from symgrad.ops.declare.forms import is_traced, name_apart
from symgrad.trace import optree
from symgrad.trace.lines import user_line
from symgrad.trace.nested import settled
from symgrad.trace.numpy.replaced import installed
from symgrad.trace.overrides import checked, floating, override_of, words
from symgrad.trace.signature import Signature, flatten, leaf_spec
from symgrad.trace.state import Trace, current
from symgrad.trace.trace import trace
from symgrad.trace.tracer import Tracer, as_node
from symgrad.transforms.derive.jvp import broken, fresh, outputs_are_linear
from symgrad.transforms.derive.vjp import sweep


class Custom(ABC):
    """A function with a rule; called with plain arrays it is the function.

    Attributes:
        override: in words, that the rule stands in the place of the function's own; empty for a rule of its own.
        derived: whether the rule stands in a derivative.
        symgrad_rules: names of attributes with functions of the user's beside the function: their globals are noticed.
    """

    override = ""
    derived = False
    symgrad_rules: tuple[str, ...] = ()

    def __init__(self, fun: Callable[..., Any], nondiff_argnums: int | Iterable[int] = ()) -> None:
        """Keep the function; arguments at `nondiff_argnums` are handed to the rule as they are."""
        self.fun = fun
        self.name = getattr(fun, "__name__", "custom")
        self.nondiff = (nondiff_argnums,) if isinstance(nondiff_argnums, int) else tuple(nondiff_argnums)
        self.__name__, self.__doc__ = self.name, getattr(fun, "__doc__", None)
        self.__wrapped__ = fun

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it: recorded as one op with the rule where an argument is traced."""
        bound = inspect.signature(self.fun).bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            raise ArgumentError(f"{self.name}() has keyword-only arguments, which a rule has no place for")
        arguments = [settled(a) for a in bound.args]
        nondiff = {k % len(arguments): arguments[k] for k in self.nondiff}
        diff = [a for k, a in enumerate(arguments) if k not in nondiff]
        leaves, tree = flatten(tuple(diff))
        active = current()
        if active is None or not any(is_traced(leaf) for leaf in leaves):
            return self.fun(*arguments)
        return CustomCall(self, nondiff, tree, active, leaves).result()

    @abstractmethod
    def cotangents(self, call: CustomCall, g: Any, y: Any, x: list[Any]) -> tuple[Any, ...]:
        """Return a cotangent, or None, for each leaf of the arguments."""

    def _set(self) -> None:
        """Let nothing that was compiled have the rule there was before."""
        if self.derived:
            from symgrad.api.call.function import forget

            forget()
            self.derived = False

    def _missing(self, what: str) -> NoGradient:
        return NoGradient(f"{self.name} has no rule", instead=f"{self.name}.{what}")


class CustomCall:
    """One call of a custom function in a trace: what it was called with, and what it made."""

    def __init__(self, custom: Custom, nondiff: dict[int, Any], tree: Any, active: Trace, leaves: list[Any]) -> None:
        self.custom, self.nondiff, self.tree, self.leaves, self.active = custom, nondiff, tree, leaves, active
        specs = tuple([leaf_spec(leaf, f"a{k}") for k, leaf in enumerate(leaves)])
        names = tuple([f"a{k}" for k in range(len(specs))])
        signature = Signature(tree, specs, names, names, (), tuple(range(len(specs))))
        made = trace(
            custom.fun, signature, lambda tracers: custom.fun(*self.arguments(tracers)),
            name=identifier(custom.name), outer=active, known=[as_node(active, leaf) for leaf in leaves],
        )
        self.program, self.results = decided(active, made.program, leaves), made.tree
        # Values of the caller's that the function closes over its rule would not see.
        reads = [i for node in self.program.nodes() for i in node.inputs] + [*self.program.outputs]
        if outer_input([read for read in reads if read.number < self.program.start]) is not None:
            raise UnsupportedError(
                f"{custom.name} uses a traced value that is none of its arguments: its rule could give it no cotangent",
                line=user_line(), instead="an argument more",
            )

    def arguments(self, leaves: Any) -> list[Any]:
        """Put leaves and what is not differentiated by in the function's order."""
        rest = iter(optree.tree_unflatten(self.tree, list(leaves)))
        count = len(self.tree.children()) + len(self.nondiff)
        return [self.nondiff[k] if k in self.nondiff else next(rest) for k in range(count)]

    def result(self) -> Any:
        """Record the op, and take its result apart."""
        outputs = self.program.outputs
        if len({o.dtype for o in outputs}) != 1:
            raise UnsupportedError(
                f"{self.custom.name} returns arrays of different dtypes", line=user_line(), instead="one dtype",
            )
        rule = override_of(self.custom)
        vjp = checked(self.custom.name, rule, exact=True, labels=self.labels()) if rule else self.rule
        shape = outputs[0].shape if len(outputs) == 1 else (sum(self._size(o) for o in outputs),)
        op = Composite(
            name_apart(self.custom.name), (), evaluate=self.custom.fun, vjp=vjp,
            infer=lambda *_: (shape, outputs[0].dtype), body=self.body,
            override=words(rule, self.custom.name) if rule else self.custom.override,
        )
        nodes = tuple([as_node(self.active, leaf) for leaf in self.leaves])
        node = self.active.graph.node(op, nodes, (), shape, outputs[0].dtype, user_line())
        return self.results.unflatten([Tracer(p.node, p.owner) for p in self.parts(Tracer(node, self.active))])

    def body(self, *x: Any) -> Any:
        """Put the function's program in the place of its call, on whatever table the values are."""
        active = current()
        assert active is not None  # noqa: S101 - a body is inlined in a trace
        return self.packed(substituted(active, self.program.closed(), x))

    def labels(self) -> list[str]:
        """Name the leaves of the arguments as the user would: ``argument params['w']``."""
        parameters = list(inspect.signature(self.custom.fun).parameters)
        places = [k for k in range(len(self.tree.children()) + len(self.nondiff)) if k not in self.nondiff]
        words = [parameters[k] if k < len(parameters) else str(k) for k in places]
        return [
            f"argument {words[path[0]]}{''.join(f'[{entry!r}]' for entry in path[1:])}" for path in self.tree.paths()
        ]

    def flat(self, rule: str, found: Any) -> tuple[Any, ...]:
        """List, leaf by leaf, what a rule gives for each argument that is differentiated by."""
        children = self.tree.children()
        if not isinstance(found, (tuple, list)) or len(found) != len(children):
            given = f"{len(found)} cotangents" if isinstance(found, (tuple, list)) else f"a {type(found).__name__}"
            raise ArgumentError(
                f"{rule} gives {given} for {len(children)} arguments",
                instead="a tuple with one for each argument, None where there is none",
            )
        flat: list[Any] = []
        labels = self.labels()
        try:
            for part, child in zip(found, children, strict=True):
                flat += [None] * child.num_leaves if part is None else child.flatten_up_to(part)
        except ValueError as error:
            word = labels[len(flat)].partition("[")[0]
            raise ArgumentError(
                f"{rule} gives for {word} another structure than that has: {error}", instead="its own one, or None",
            ) from None
        return tuple([settled(item) for item in flat])

    def check(self, active: Trace, said: str, value: Any) -> None:
        """Check that what a rule returns in the place of the result, or of its tangent, is as the result is."""
        leaves, tree = flatten(value)
        found = [as_node(active, settled(leaf)).shape for leaf in leaves]
        wanted = [o.shape for o in self.program.outputs]
        if found != wanted:
            given, meant = [" and ".join(map(shapes.show, part)) or "nothing" for part in (found, wanted)]
            raise ArgumentError(f"{said} of shape {given}; {self.custom.name} returns {meant}", line=active.graph.line)
        if tree != self.results:
            raise ArgumentError(
                f"{said} of another structure than {self.custom.name} returns", line=active.graph.line,
                instead=f"what {self.custom.name} returns, in the same tuples, lists and dicts",
            )

    def _size(self, node: Node) -> int:
        if not all(type(d) is int for d in node.shape):
            raise UnsupportedError(
                f"{self.custom.name} returns several arrays of unknown extents", line=user_line(),
                instead="one array, or known extents",
            )
        return int(np.prod(node.shape, dtype=int))

    def packed(self, values: list[Any]) -> Any:
        """Make one vector of several results."""
        return values[0] if len(values) == 1 else np.concatenate([np.reshape(v, (-1,)) for v in values])

    def parts(self, whole: Any) -> list[Any]:
        """Take the vector apart again."""
        outputs = self.program.outputs
        if len(outputs) == 1:
            return [whole]
        found, start = [], 0
        for output in outputs:
            size = self._size(output)
            found.append(np.reshape(whole[start : start + size], output.shape))
            start += size
        return found

    def rule(self, g: Any, y: Any, *x: Any) -> tuple[Any, ...]:
        """Run the user's rule."""
        self.custom.derived = True

        def cotangents(g: Any, y: Any, *x: Any) -> tuple[Any, ...]:
            return self.custom.cotangents(self, g, y, list(x))

        with installed():
            made: tuple[Any, ...] = checked(self.custom.name, cotangents, exact=True, labels=self.labels())(g, y, *x)
        return made


def outer_input(values: Iterable[Node], known: Collection[Node] = ()) -> Node | None:
    """Return an input that values depend on, otherwise than by the known ones; None where all is made of constants."""
    behind = reachable([v for v in values if v not in known], lambda node: [i for i in node.inputs if i not in known])
    return next((node for node in behind if node.is_input), None)


class custom_vjp(Custom):  # noqa: N801 - a decorator, and JAX's name
    """Give a function a reverse rule of one's own.

    ``f.defvjp(fwd, bwd)``: ``fwd(*args)`` returns the result and whatever the backward pass needs, and
    ``bwd(residuals, g)`` a tuple with one cotangent for each argument (None where there is none); what
    `nondiff_argnums` names comes first in `bwd`, as it was given. The rule need not be linear in `g` (a gradient may
    be clipped); forward mode refuses one that is not.

    >>> import numpy as np, symgrad as sg
    >>> @sg.custom_vjp
    ... def clipped(x):
    ...     return x
    >>> clipped.defvjp(lambda x: (x, None), lambda _, g: (np.clip(g, -1, 1),))
    >>> sg.grad(lambda x: np.sum(5 * clipped(x) ** 2))(np.array([0.01, 3.0]))
    array([0.1, 1. ])
    """

    symgrad_rules = ("fwd", "bwd")
    fwd: Callable[..., Any] | None = None
    bwd: Callable[..., Any] | None = None

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Set the rule; what was derived with one before is compiled anew."""
        self.fwd, self.bwd = fwd, bwd
        self._set()

    def cotangents(self, call: CustomCall, g: Any, y: Any, x: list[Any]) -> tuple[Any, ...]:  # noqa: ARG002 - of a rule
        """Run the forward pass for its residuals (what it shares with the function is one), then the backward pass."""
        if self.fwd is None or self.bwd is None:
            raise self._missing("defvjp(fwd, bwd)")
        pair = self.fwd(*call.arguments(x))
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ArgumentError(f"the forward rule of {self.name} must return a pair (result, residuals)")
        call.check(g.owner, f"the forward rule of {self.name} returns a result", pair[0])
        found = self.bwd(*call.nondiff.values(), pair[1], call.results.unflatten(call.parts(g)))
        return call.flat(f"the backward rule of {self.name}", found)


class custom_jvp(Custom):  # noqa: N801 - a decorator, and JAX's name
    """Give a function a forward rule of one's own; reverse mode is its transpose.

    ``f.defjvp(rule)``: ``rule(primals, tangents)`` returns the result and its tangent, which must be linear in the
    tangents; what `nondiff_argnums` names comes first, as it was given.

    >>> import numpy as np, symgrad as sg
    >>> @sg.custom_jvp
    ... def log1pexp(x):
    ...     return np.log(1 + np.exp(x))
    >>> @log1pexp.defjvp
    ... def _(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return log1pexp(x), (1 - 1 / (1 + np.exp(x))) * t
    >>> float(sg.grad(log1pexp)(100.0))
    1.0
    """

    symgrad_rules = ("jvp",)
    jvp: Callable[..., Any] | None = None

    def defjvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule; what was derived with one before is compiled anew."""
        self.jvp = rule
        self._set()
        return rule

    def cotangents(self, call: CustomCall, g: Any, y: Any, x: list[Any]) -> tuple[Any, ...]:  # noqa: ARG002 - of a rule
        """Transpose the rule: run it on fresh tangents, and go back from the result's to theirs."""
        if self.jvp is None:
            raise self._missing("defjvp(rule)")
        active = g.owner
        tangents = [Tracer(fresh(active, f"t{k}", v.node), active) for k, v in enumerate(x)]
        trees = [tuple(optree.tree_unflatten(call.tree, leaves)) for leaves in (x, tangents)]
        pair = self.jvp(*call.nondiff.values(), *trees)
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ArgumentError(f"the rule of {self.name} must return a pair (result, tangent)")
        call.check(active, f"the rule of {self.name} returns a tangent", pair[1])
        said, dtype = f"the rule of {self.name} gives {{}} as the tangent of the result", call.program.outputs[0].dtype
        out = call.packed([floating(said, settled(v), dtype, active) for v in flatten(pair[1])[0]]).node
        ts = [t.node for t in tangents]
        cut = Program(tuple(ts), (out,), scope=active.graph, start=ts[0].number)
        by = [t for t in ts if t.dtype.kind == "f"]
        found = sweep(active, cut, {out: g}, by)
        if not outputs_are_linear(found, ts, [out]):
            raise NoGradient(f"the rule of {self.name} is not linear in the tangents")
        op = broken(active, [out], ts)
        if op is not None:
            raise NoGradient(f"the rule of {self.name} is not linear in the tangents, which go through {op.name} in it")
        places = dict(zip(by, found, strict=True))
        return tuple([Tracer(places[t], active) if t in places else None for t in ts])
