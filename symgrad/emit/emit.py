"""`emit`: functions to a package of C, which needs no Python and no symgrad."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from symgrad.api.call.arguments import Argnums, Arguments, annotated_specs
from symgrad.api.trees import tree_map
from symgrad.errors import ArgumentError, ArgumentValueError
from symgrad.trace.signature import Spec, leaf_spec, specs_in
from symgrad.trace.state import public
from symgrad.trace.structures import flattened

if TYPE_CHECKING:
    from symgrad.api.step.step import Step
    from symgrad.emit.files import Package


@public
def emit(
    fun: Callable[..., Any] | Sequence[Callable[..., Any]] | Step, specs: Any, out: str | Path, *,
    what: str | Iterable[str] = "value_and_grad", wrt: Argnums | list[int | str] = 0, name: str | None = None,
    profile: str = "embedded", blas: bool = False, python: bool = False, line_directives: bool = False,
    cc: str | None = None, units: Mapping[str, str] | None = None, sizes: Mapping[str, int] | None = None,
    static_argnames: str | Iterable[str] = (), seed: int = 0, examples: Sequence[Any] = (),
    captured: str = "constants",
) -> Package:
    """Write a package of C that computes a function's derivatives: C99 with its tests, for make and for CMake.

    Args:
        fun: a NumPy function, or several that go into one package; or a step of `compile_step`, which becomes a
            function that reads parameters, state and batch, and writes new parameters, a new state and the value: with
            ``donate=True`` in the memory of the old ones, where it is given the same pointers for both.
        specs: shapes and dtypes of the arguments: a tuple, or a dict by name; ``"f64[n,d]"`` leaves extents open, and
            these become arguments of the C. Of several functions, each takes from a dict what it has arguments for;
            what is in no dict, or None, is read from annotations of jaxtyping's (``Float64[np.ndarray, "n d"]``).
            Of a step ``(params, state, *batch)``: specs, or arrays, whose call is recorded then.
        out: the folder, which is made, or holds an earlier package; its name is the module's.
        what: ``value``, ``grad``, ``value_and_grad``, ``jvp``, ``vjp``, ``hvp``, ``hessian``, ``jacobian``, or
            several of them.
        wrt: what to differentiate by: positions, names, or paths as ``"params['w']"``, as `grad` takes them.
        name: the module's name, where it is not the folder's.
        profile: ``embedded``, plain C99 in one thread, or ``fast``, with vectors and threads.
        blas: in the profile ``fast``, large products that stand alone call CBLAS where ``NAME_CBLAS`` is defined; they
            are in no threads of the module's then, for the BLAS has its own.
        python: add a Python package, which needs cffi and NumPy alone.
        line_directives: add ``#line``, so that debuggers and compilers name the lines of the Python file.
        cc: the compiler that the Makefile calls.
        units: a unit for each argument or result, for the header.
        sizes: extents of the recorded calls; else small ones.
        static_argnames: arguments that are settings; `specs` has their values.
        seed: of the recorded calls' arguments.
        examples: values for the arguments, each a tuple of them, or a dict by name: where conditions on values
            (``if x > 0``) decide what is computed, the package holds the paths that these take, and its functions
            return the status ``NAME_NO_PATH`` where a call takes none of them. They are recorded calls, too.
        captured: what arrays become that the function reads without taking them: ``constants``, of these names and with
            the values of the moment, or ``parameters``, by which `wrt` may differentiate, too.

    Returns:
        The `Package`.

    Raises:
        ArgumentValueError: `out` holds files that were not written by `emit`; a name, a profile or a unit is none;
            `blas` without the profile ``fast``; `captured` is another word.
        ArgumentError, NoGradient, ...: what tracing and deriving the function raises; an example fits no spec.

    >>> import numpy as np, symgrad as sg, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     package = sg.emit(lambda x: np.sum(x * x), {"x": "f64[n]"}, f"{folder}/square", what=("value", "grad"))
    >>> package.functions
    ('square_value', 'square_grad')
    """
    from symgrad.api.step.step import Step
    from symgrad.emit.derive import Specialization, examples_for
    from symgrad.emit.package import emit_calls, request

    in_place = 0
    if isinstance(fun, Step):
        in_place = len(flattened([*specs][:2])[0]) if fun.donate else 0
        examples = [*examples, *([] if any(isinstance(one, Spec) for one in flattened(specs)[0]) else [specs])]
        fun, what, specs = fun.as_function(), "value", tree_map(lambda one: leaf_spec(one, "of a step"), specs)
    funs: list[Any] = list(fun) if isinstance(fun, (list, tuple)) else [fun]
    static = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    given = {} if specs is None else specs_in(specs)
    calls = []
    _refuse_unknown(given, funs)
    for one in funs:
        parameters = Arguments(one).parameters
        args, own, settings = given if isinstance(given, tuple) else (given,), dict[str, Any](), static
        if isinstance(given, dict) and all(name in parameters for name in given if len(funs) == 1):
            args, own = (), {name: value for name, value in given.items() if name in parameters}
            own |= annotated_specs(one, own)
            settings = tuple([name for name in static if name in own])
        whole = Specialization(one, args, own, settings, in_place=in_place)
        calls.append(examples_for(whole, examples, several=len(funs) > 1))
    if captured not in {"constants", "parameters"}:
        raise ArgumentValueError(f"captured={captured!r}", instead='"constants" or "parameters"')
    calls = [call.taking_arrays() for call in calls] if captured == "parameters" else calls
    asked = request(
        out, name=name, profile=profile, blas=blas, python=python, line_directives=line_directives, cc=cc, units=units,
        sizes=sizes, seed=seed,
    )
    whats = (what,) if isinstance(what, str) else tuple(what)
    by = wrt if isinstance(wrt, (int, str)) else tuple(wrt)
    return emit_calls(calls, whats, [by] * len(calls), asked)


def _refuse_unknown(given: Any, funs: list[Any]) -> None:
    """Refuse a dict of specs with a name that no function has; of a function of one argument it may be that."""
    every = [Arguments(one).signature for one in funs]
    if not isinstance(given, dict) or any(one is None for one in every):
        return
    kinds = [p for one in every if one is not None for p in one.parameters.values()]
    if len([p for p in kinds if p.default is p.empty]) == 1 or any(p.kind is p.VAR_KEYWORD for p in kinds):
        return
    known = {p.name for p in kinds}
    for name in given:
        if name not in known:
            named = [f"{getattr(fun, '__name__', 'the function')}{one}" for fun, one in zip(funs, every, strict=True)]
            raise ArgumentError(f"the specs have {name!r}, which is no argument of {' or '.join(named)}")
