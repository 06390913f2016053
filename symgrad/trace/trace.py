"""`trace`: run a user's function once on tracers and keep what it did."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from symgrad.errors import (
    ArgumentError,
    ArgumentValueError,
    AxisError,
    ConcretizationError,
    IndexOutOfBounds,
    LeakedTracerError,
    LinAlgError,
    MutationError,
    RangeError,
    Refusal,
    SymgradError,
    UnsupportedError,
    heard,
)
from symgrad.ir.index.shapes import is_static
from symgrad.ir.memory import refuse_huge
from symgrad.ir.node import Graph, Node
from symgrad.ir.program import Program
from symgrad.ops import load
from symgrad.ops.declare import leaves
from symgrad.ops.declare.forms import ALSO, answer_scipy
from symgrad.options import Options
from symgrad.trace import optree
from symgrad.trace.control.branches import Branches, level
from symgrad.trace.control.carried import Carrying
from symgrad.trace.control.forks import forks_of
from symgrad.trace.lines import (
    called_last,
    definition,
    entries,
    error_line,
    is_user_code,
    raised_by_statement,
    raised_in_library,
    raised_in_symgrad,
    spelled,
)
from symgrad.trace.nested import touches
from symgrad.trace.numpy.protocols import install
from symgrad.trace.outside import Reading, Reads
from symgrad.trace.remedies import module_of, public_name, remedy, within
from symgrad.trace.signature import Signature, Spec, flatten
from symgrad.trace.state import Trace, tracing
from symgrad.trace.tracer import Tracer, as_node, leaked, no_place

_ready: list[str] = []
_NUMPYS_WORDS = frozenset({"setting an array element with a sequence.", "Error setting single item of array."})

_NAMED: dict[type[Exception], type[SymgradError]] = {
    np.exceptions.AxisError: AxisError, np.linalg.LinAlgError: LinAlgError, OverflowError: RangeError,
    IndexError: IndexOutOfBounds, TypeError: ArgumentError, AttributeError: ArgumentError,
    ValueError: ArgumentValueError,
}
"""What an error of Python's or NumPy's becomes that comes out of symgrad, so that it has the user's line."""

_NUMPYS = "np.* functions, operators and methods of arrays"
_ARGUMENTS = re.compile(r"positional argument|keyword argument|missing .*argument|invalid number of arguments")
_OWN_CLASSES = re.compile(r"\b(?:Tracer|LocalArray|Selected|Extent)\b|^output must be an array$")


def prepare() -> None:
    """Declare the ops and put the operators on tracers, once, and what further rooms answer once they are there."""
    if len(_ready) > len(ALSO):
        return
    wanted = "symgrad.trace.numpy.own", *ALSO
    load()
    for module in wanted[len(_ready) :]:
        import_module(module)
    if not _ready:
        install()
    _ready[:] = wanted  # at last: other threads ask


class Traced(NamedTuple):
    """A traced function: its program and the structure of what it returned.

    Attributes:
        differentiated: the innermost program that it differentiates, as traced and stable, if there is one.
        outside: what became of the arrays it reads from outside.
    """

    program: Program
    tree: Any
    differentiated: tuple[Program, Program] | None = None
    outside: Reads | None = None


def trace(
    fun: Callable[..., Any], signature: Signature, call: Callable[[list[Any]], Any], *, name: str,
    options: Options = Options(), creation: bool = True, outer: Trace | None = None,  # noqa: B008 - frozen
    branches: Branches | None = None, known: Sequence[Node | None] = (),
    outside: Sequence[Reading] = (),
) -> Traced:
    """Run a function on tracers: its program has an input for each leaf, and an output for each leaf of the result.

    Args:
        fun: the user's function, for messages.
        signature: what the arguments are.
        call: calls the function, given the leaves.
        name: the program's name.
        options: of the function that is compiled; those of `outer` hold where it is nested.
        creation: replace NumPy's creation functions meanwhile.
        outer: the trace this one is nested in: its nodes are constants here.
        branches: what Python's conditions are computed at; without it they are refused.
        known: where it is nested, what stands for its inputs around it; None where nothing does.
        outside: what stands for arrays that the function reads from outside; those it reads are inputs, the last ones.
    """
    from symgrad.trace.numpy.replaced import SITES, installed, note_constructor

    prepare()
    waited, refused = (answer_scipy(), len(SITES)), len(heard.refusals or ())
    try:
        with (
            tracing(outer or Trace(Graph(), name, options, branches), ends=outer is None) as now,
            level(now.branches) as guards,
        ):
            graph = now.graph
            start = len(graph) + 1
            tracers = []
            for called, spec, path in zip(signature.names, signature.specs, signature.paths, strict=True):
                node = leaves.make_input(graph, called, spec.shape, spec.dtype)
                tracers.append(argument(now, node, spec, path))
            inputs = tuple([t.node for t in tracers])
            asked = now.branches
            first = None if outer else asked  # those of the outermost program
            begun = 0 if asked is None else asked.loops
            if outside:
                graph.outside = Reads(graph, outside)
            watching: Callable[[], Any] = nullcontext
            if first is not None:
                first.begin(inputs, graph.outside.values() if outside else {})
                if (lengths := first.lengths) is not None:
                    carried = lengths.carried - lengths.idle - lengths.resting
                    first.carrying = Carrying(carried, lengths.differing, lengths.broken)
                    watching = first.carrying.watching
            elif asked is not None and known:
                asked.stand(inputs, known)
            opened = not all(is_static(spec.shape) for spec in signature.specs)
            with installed(fun) if creation else nullcontext(), nothing_caught(opened=opened):
                try:
                    with watching():
                        result = call(tracers)
                except Exception as error:
                    # No variable is left with what is raised: its traceback has this frame, which has the whole trace.
                    explained = [explain(error, (heard.refusals or [])[refused:])]
                    if explained[0] is error:
                        explained.clear()
                        raise
                    raise explained.pop() from None
            values, tree = flatten(result)
            outputs = tuple([output(now, value, fun) for value in values])
            labels = () if outer else now.labels.get(outputs, ())
            if first is not None:
                first.outputs = outputs
            if first is not None and first.lost is not None:
                raise ConcretizationError(
                    "an exception left a function that sg.grad or its like derive, after a condition on a traced value "
                    "in it, and was caught around: the condition cannot be looked at there", line=first.lost,
                    instead="the try and except statements inside of that function",
                )
            found: list[Any] = []
            if asked is not None and guards and asked.policy is None:
                more = [argument(now, t.node, s, t.origin) for t, s in zip(tracers, signature.specs, strict=True)]
                with installed() if creation else nullcontext(), watching():
                    found = forks_of(now, asked, guards, lambda: call(more), begun)
            numbers = [node.param("number") for node in guards]
            labels = labels and (*labels, *[f"guard{k}" for k in range(len(guards))])
            outputs = (*outputs, *guards)
            columns = frozenset([n for n, s in zip(signature.names, signature.specs, strict=True) if s.fortran])
            program = Program(
                inputs, outputs, name, tuple(graph.requirements), graph if outer else None, start if outer else 0,
                labels=labels, fortran=columns, rules=tuple(graph.rules), again=graph.again,
                moments={} if asked is None else {n: asked.moments[n] for n in numbers if n in asked.moments},
                forks=tuple(found),
            )
            if outside:
                program = graph.outside.read_by(program)
            _refuse_strays(program)
            refuse_huge(program)
        return Traced(program, tree, now.differentiated, graph.outside)
    except SymgradError as error:
        if isinstance(error, MutationError):
            note_constructor(error)
        if waited == (answer_scipy(), len(SITES)):
            raise
        if outer is not None and outer.branches is not None:
            outer.branches.lost = None
    del (heard.refusals or [])[refused:]  # modules of SciPy were imported, or calls met, that are answered now
    if branches is not None:
        branches.clear()
    return trace(
        fun, signature, call, name=name, options=options, creation=creation, outer=outer, branches=branches,
        known=known, outside=outside,
    )


def _refuse_strays(program: Program) -> None:
    """Refuse what reads an argument of a function that was traced inside of this one, outside of that."""
    if leaves.input_ not in program.ops:
        return
    inputs, start = {*program.inputs}, program.start
    for node in program.nodes():
        if not node.inputs and node.is_input and node not in inputs and node.number >= start:
            reader = next((user for user in program.nodes() if node in user.inputs), node)
            raise LeakedTracerError(
                f"{node.param('name')!r}, an argument of a function that is traced by itself (for sg.scan, sg.cond, "
                "sg.grad, sg.vmap or their like), is read outside of it: what that function makes was stored, or was "
                "written into an array that was made outside", line=reader.line,
                instead="return it from the function: of a loop, what is carried on or stacked",
            )


@contextmanager
def nothing_caught(*, opened: bool = False) -> Iterator[None]:
    """Raise what the trace, maybe of open extents, refused meanwhile, when the function returns in spite of it."""
    outermost, before_it = heard.refusals is None, heard.opened
    heard.opened = before_it or opened
    refusals = heard.refusals = heard.refusals if heard.refusals is not None else []
    before = len(refusals)
    try:
        yield
        if len(refusals) > before:
            first = refusals[before]
            error = type(first)(
                f"{first.what}; the error was caught, by an except clause or by a library, and what the function "
                "did then it would not do with plain arrays",
                line=first.line, instead=first.instead,
            )
            if isinstance(first, ConcretizationError) and isinstance(error, ConcretizationError):
                error.extents = first.extents
            raise error from first
    finally:
        heard.opened = before_it
        if outermost:
            heard.refusals = None


def _how_called(function: Any) -> str:
    """Show how a library's function is called: its signature, or what its docstring begins with."""
    try:
        return f"{function.__name__}{inspect.signature(function)}"
    except (TypeError, ValueError):
        return (getattr(function, "__doc__", None) or _NUMPYS).strip().partition("\n")[0]


def explain(error: Exception, refused: Sequence[Refusal] = ()) -> Exception:
    """Return the error a user should see: with the line, and symgrad's where a library put another in its place.

    `refused` is what the trace has refused so far, which a library may have turned into an error of its own.
    """
    line = error_line(error)
    if isinstance(error, SymgradError):
        return error if error.line is not None else type(error)(error.what, line=line, instead=error.instead)
    name, function = called_last(error)
    library = module_of(function).startswith(("numpy", "scipy"))
    compiled = name and not hasattr(function, "__code__")  # the line called it, and it is not written in Python
    if refused and (library or compiled or raised_in_library(error)):
        return refused[0]
    no_number = isinstance(function, type) and issubclass(function, np.generic)  # np.datetime64(x)
    if library and isinstance(error, (TypeError, *[ValueError] * no_number)):  # of compiled code, of a traced array
        said = " has no answer for traced arrays" if _OWN_CLASSES.search(str(error)) or no_number else f": {error}"
        return UnsupportedError(
            f"{public_name(function)}{said}", line=line,
            instead=_how_called(function) if _ARGUMENTS.search(said) else remedy(function) or _NUMPYS,
        )
    if library and compiled and isinstance(error, ValueError):  # np.nditer(x, flags=...)
        return ArgumentValueError(f"{public_name(function)}: {error}", line=line)
    foreign = called_of_traced(error)
    names_it = isinstance(error, (TypeError, ValueError)) and _OWN_CLASSES.search(str(error))
    if foreign or (names_it and not raised_by_statement(error)):
        said = _OWN_CLASSES.sub("ndarray", str(error))  # the user knows an array
        return UnsupportedError(
            f"{foreign}{': ' * bool(foreign)}{said}: a traced array, of which there are no values while tracing",
            line=line, instead=f"{_NUMPYS} inside; this of what its compiled form returns, outside",
        )
    own = next((named for kind, named in _NAMED.items() if isinstance(error, kind)), None)
    missing = hasattr(type(getattr(error, "obj", None)), "__array_function__")  # an attribute no array has
    if own is not None and not missing and raised_in_symgrad(error):
        return own(str(error), line=line)
    cause = error.__cause__ or error.__context__
    if str(error) in _NUMPYS_WORDS and isinstance(cause, (SymgradError, type(None))):
        return no_place(line)
    if isinstance(error, ValueError) and str(error) == "assignment destination is read-only":
        return MutationError(
            "an array that may not be written, or one from outside while a function is traced that reads its memory, "
            "is written", line=line, instead="a copy, np.copy(array), written inside of the function",
        )
    return cause if isinstance(cause, SymgradError) and raised_in_library(error) else error


def called_of_traced(error: Exception) -> str:
    """Name the function of Python's own library that refused a traced value, as ``json.dumps`` does; else nothing."""
    found = entries(error)
    own = [k for k, one in enumerate(found) if is_user_code(one.tb_frame.f_code.co_filename)]
    if not isinstance(error, (TypeError, ValueError)) or not own or own[-1] + 1 == len(found):
        return ""
    if not touches([*found[-1].tb_frame.f_locals.values()]) or raised_in_symgrad(error):
        return ""
    caller, inner = found[own[-1]], found[own[-1] + 1]
    return f"{spelled(caller.tb_frame, caller.tb_lasti) or inner.tb_frame.f_code.co_name}(...)"


def argument(active: Trace, value: Any, spec: Spec, path: str) -> Tracer:
    """Return what a function that is traced through sees of an argument: an array or number of the caller's, traced."""
    made = Tracer(as_node(active, value), active, weak=spec.weak, origin=path)
    made.is_array = spec.array
    return made


def returned(active: Trace, result: Any, fun: Callable[..., Any]) -> Any:
    """Return what a function that was traced through gives its caller: traced values in its result's structure."""
    values, tree = flatten(result)
    return optree.tree_unflatten(tree, [Tracer(output(active, value, fun), active) for value in values])


def output(active: Trace, value: Any, fun: Callable[..., Any]) -> Any:
    """Return the node of one leaf of a function's result."""
    if isinstance(value, Tracer):
        if value.owner is not active:
            raise leaked(value)
        try:
            return value.node
        except SymgradError as error:  # a view that cannot be followed: its line is where it was made
            raise type(error)(error.what, line=error.line or value._node.line, instead=error.instead) from None  # noqa: SLF001
    if hasattr(value, "__symgrad_bind__") or isinstance(value, (bool, int, float, np.generic, np.ndarray)):
        return as_node(active, value)
    raise ArgumentError(
        f"{active.function}() returned {type(value).__module__}.{type(value).__qualname__}, not an array or a number",
        line=definition(fun),
        instead=(remedy(type(value)) if within(module_of(type(value)), "scipy.sparse") else "") or
        "arrays and numbers in tuples, lists and dicts, of another object its attributes; has_aux=True passes traced "
        "extras through",
    )
