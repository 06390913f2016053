"""`Function`: what jit, grad and value_and_grad return; and `Lowered`, one that is not compiled yet."""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.api.call.arguments import Arguments, Leaves, refuse_valueless
from symgrad.api.call.captures import Captured, undrawn, unwritten
from symgrad.api.call.compilations import CacheInfo, Compilations, Entry
from symgrad.api.call.pickled import Absent, parts, reduced
from symgrad.api.call.results import handed_out
from symgrad.build.call.call import MISS, Call, as_inputs
from symgrad.errors import ArgumentError
from symgrad.ir.names import identifier
from symgrad.ir.shapes import is_static
from symgrad.options import Options
from symgrad.pipeline import Stages, build, optimized, uncollected
from symgrad.trace.signature import Spec, spec
from symgrad.trace.state import active, current
from symgrad.trace.trace import argument, returned, trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from symgrad.api.call.compilations import Sizes
    from symgrad.api.report.counts import Cost, Memory
    from symgrad.trace.signature import Signature
    from symgrad.trace.state import Trace
    from symgrad.trace.trace import Traced

    Short = Callable[[tuple[Any, ...]], Any]


_made: weakref.WeakSet[Function] = weakref.WeakSet()


def forget() -> None:
    """Have every function compiled anew."""
    for function in list(_made):
        function.forget()


class Function:
    """A compiled function: traced, derived, fused and compiled at its first call of each signature.

    Made by `jit`, `grad` and every other mode. Calling it gives NumPy arrays and numbers; called with traced arrays
    it is traced through, so modes compose.
    """

    __name__: str

    def __init__(self, fun: Callable[..., Any], arguments: Arguments, options: Options) -> None:
        """Wrap a function, or a mode of one; nothing is compiled yet."""
        self._fun, self._arguments, self._options = fun, arguments, options
        self._mode = getattr(fun, "symgrad_mode", "jit")
        self._captured = Captured(fun)
        self._compilations = Compilations(arguments, self._captured, self._compile)
        if isinstance(fun, Absent):
            self._compilations.saved = fun.opened
        self._last: Entry | None = None
        self._recent: dict[bool, Short | None] = {}
        self._shorts: tuple[Short, ...] = ()
        self.__name__ = arguments.name
        functools.update_wrapper(self, fun, updated=())  # not the attributes: fun may be a Function
        _made.add(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on arrays and numbers; compile first when the signature is new.

        Raises:
            ArgumentError: an argument is no array or number, naming it.
            IndexOutOfBounds: an array of indices points outside of its axis.
        """
        shorts = self._shorts
        if shorts and not kwargs and not active.entered:
            if (result := shorts[0](args)) is not MISS:
                return result
            if len(shorts) > 1 and (result := shorts[1](args)) is not MISS:
                self._shorts = shorts[::-1]
                return result
        call = self._arguments.split(args, kwargs)
        outer = current()
        if outer is not None:
            return self._inline(outer, call)
        for leaf in call.leaves:
            if type(leaf) is Spec:
                raise ArgumentError(
                    f"{self.__name__}() was called with the spec {leaf}, which has no values",
                    instead=".lower(...) of specs, to look at what is compiled; specs=(...) where "
                    f"{self.__name__} is made, to compile for them; arrays in calls",
                )
        self._last = entry = self._compilations.find(call)
        if not active.outside:
            # The next calls try this one first, then the last one that has open extents where it has none, or none
            # where it has: the first size has a compilation of its own, and all others share one.
            self._recent[entry.opened] = entry.short
            self._shorts = tuple(filter(None, (entry.short, self._recent.get(not entry.opened))))
        return entry.call.converted(call.leaves)

    def bind(self, *args: Any, out: Any = None, **kwargs: Any) -> Callable[[], Any]:
        """Bind the function to arrays: a function of nothing that runs it on what the arrays hold then.

        Nothing is checked or allocated at a call: it takes little longer than the C. Write into the arrays
        to change the arguments; numbers and static arguments are fixed. Globals are those of binding.

        Args:
            args: arguments as for a call; their arrays must need no conversion, and are kept alive.
            out: arrays to write into, in the structure of the result, an array of no axes for a number. Without it
                they are made once: every call writes into the same ones. (A parameter of the function that is
                called ``out`` itself is given by position.)
            kwargs: arguments by name.

        Returns:
            A function that writes and returns the arrays. Where it has a workspace, or threads, one thread at a time
            may call it.

        Raises:
            ArgumentError: an array would have to be converted, or `out` does not fit the result.
            ArgumentValueError: a shape of `out` differs, or its memory is shared.
            BusyError: by the function, when it is running already.

        >>> import numpy as np, symgrad as sg
        >>> x = np.array([3.0, 4.0])
        >>> step = sg.value_and_grad(lambda x: np.sum(x * x)).bind(x, out=(np.empty(()), np.empty(2)))
        >>> step()
        (array(25.), array([6., 8.]))
        >>> x[0] = 0.0
        >>> float(step()[0])
        16.0
        """
        from symgrad.build.call.bound import bound

        call = self._arguments.split(args, kwargs)
        refuse_valueless(call)
        return bound(self._find(call).call, call.leaves, out)

    def _find(self, call: Leaves) -> Entry:
        """Return the compilation for a call, making it once."""
        self._last = entry = self._compilations.find(call)
        return entry

    def forget(self) -> None:
        """Compile anew from now on: a rule that may stand in what was compiled is another one."""
        self._compilations.forget()
        self._recent, self._shorts = {}, ()

    # -- compiling

    def _compile(self, signature: Signature, sizes: Sizes | None) -> Entry:
        """Trace, derive, optimize, compile and load for one signature."""
        from symgrad.build.toolchain.find import find

        stages, program, unflatten, tree = self._staged(signature)
        built = build(stages, program, find(self._options))
        alone = () if sizes is None else sizes.alone
        call = Call(program, built.interface, built.library, signature, self._options, unflatten, alone)
        short = None if call.short is None else self._captured.watched(call.short, MISS)
        return Entry(signature, built, tree, call, short, not all(is_static(one.shape) for one in signature.specs))

    def _staged(self, signature: Signature) -> tuple[Stages, Any, Any, Any]:
        """Trace, derive and optimize: the stages, the program, how its results are handed out, what was traced."""
        if isinstance(self._fun, Absent):
            return self._fun.staged(signature, self._options)
        stages = Stages(self._options)
        with uncollected():
            traced = self._traced(signature)
            program = optimized(traced if self._mode != "jit" else traced._replace(differentiated=None), stages)
            unflatten = handed_out(traced.tree, program.outputs)
            if self._options.debug_nans:
                from symgrad.transforms.debug_nans import watched

                program, unflatten = watched(program, unflatten)
                stages.keep("optimized", program)
        return stages, program, unflatten, traced.tree

    def _traced(self, signature: Signature) -> Traced:
        name = identifier(getattr(self._fun, "__name__", type(self._fun).__name__))
        share = "cse" in self._options.passes

        def call(tracers: list[Any]) -> Any:
            args, kwargs = self._arguments.join(tracers, signature)
            return self._fun(*args, **kwargs)

        captured = self._captured.named()
        with unwritten(self._fun, captured), undrawn(self._fun, captured):
            return trace(self._fun, signature, call, name=name, share=share, creation=self._options.creation)

    # -- composing

    def _inline(self, outer: Trace, call: Leaves) -> Any:
        """Trace through, as a part of the caller's trace."""
        signature, _ = self._arguments.checked(call)
        leaves = [argument(outer, *each) for each in zip(call.leaves, signature.specs, signature.paths, strict=True)]
        args, kwargs = self._arguments.join(leaves, signature)
        with undrawn(self._fun, self._captured.named()):
            return returned(outer, self._fun(*args, **kwargs), self._fun)

    # -- looking at it

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Trace, derive and optimize for arguments or specs, without compiling.

        Returns:
            An object with ``as_text(stage)`` and ``compile()``.
        """
        signature = self._compilations.signature(self._arguments.split(args, kwargs))
        stages, program, _, tree = self._staged(signature)
        return Lowered(self, signature, stages, program, tree)

    def fixed(self, signature: Signature) -> Function:
        """Compile for one signature alone: every call must fit it."""
        made = Function(self._fun, self._arguments.fixed(signature), self._options)
        specs = list(signature.specs)
        made._find(Leaves(specs, signature.tree, tuple(specs), signature.statics))
        return made

    @property
    def c_source(self) -> str:
        """The C that ran last.

        Raises:
            ArgumentError: nothing was compiled yet.
        """
        return self._ran().built.stages.as_text("c")

    @property
    def c_path(self) -> Path | None:
        """The file the C that ran last was compiled from; None when it is interpreted."""
        library = self._ran().built.library
        return None if library is None else library.c_path

    def _ran(self) -> Entry:
        if self._last is None:
            raise ArgumentError(
                f"{self.__name__}() has not been compiled yet", instead="call it first, or use .lower(*args)"
            )
        return self._last

    @property
    def address(self) -> int:
        """The address of the C function that ran last, whose declaration is `prototype`. It stays for the process.

        Raises:
            ArgumentError: nothing was compiled yet, or NumPy interprets the function.
        """
        return self._compiled(self._ran()).library.address

    @property
    def prototype(self) -> str:
        """The declaration of the C function that ran last.

        >>> import numpy as np, symgrad as sg
        >>> f = sg.jit(np.exp)
        >>> _ = f(1.0)
        >>> f.prototype
        'int32_t sg_exp_(const double *x, double *out0, const int32_t threads, char *workspace)'

        Raises:
            ArgumentError: nothing was compiled yet, or NumPy interprets the function.
        """
        return self._compiled(self._ran()).interface.prototype

    def low_level_callable(self, *extra: Any, size: int | None = None, signature: str | None = None) -> Any:
        """Make a `scipy.LowLevelCallable`, which SciPy's integrators and filters call without Python.

        The function takes one number (``double (double)``) or several (``double (int, double *)``), or one array of
        `size` numbers, and returns one number. It runs in one thread; a failed check gives NaN.

        Args:
            extra: the function's arguments after those, arrays or numbers: they are passed as user data (``void *``),
                kept alive, and read at each call, so that new values can be written into the arrays.
            size: the numbers come as one array of so many.
            signature: another one of SciPy's; ``"int (double *, intptr_t, double *, void *)"`` is that of
                `scipy.ndimage.generic_filter`, with the footprint's number of elements as `size`.

        Raises:
            ArgumentError: there is no compiler, the function returns no float64 number, or an array of `extra` would
                have to be converted.
            ArgumentValueError: the signature does not fit the function, or it needs too much workspace.

        >>> import numpy as np, scipy.integrate, symgrad as sg
        >>> f = sg.jit(lambda x, a: np.exp(-a * x) * np.sin(x))
        >>> round(scipy.integrate.quad(f.low_level_callable(2.0), 0, np.inf)[0], 9)
        0.2
        """
        from symgrad.build.call.callback import callback

        leading = self._arguments.leading(len(extra)) if size is None else 1
        numbers = [spec("f64[]")] * leading if size is None else [spec(f"f64[{size}]")]
        arrays = [np.asarray(value) for value in extra]
        entry = self._find(self._arguments.split((*numbers, *arrays), {}))
        call, source = self._compiled(entry), entry.built.stages.of("c")
        return callback(call, source, self.__name__, arrays, signature, vector=size is not None)

    def _compiled(self, entry: Entry) -> Call:
        """Return the call of a compilation.

        Raises:
            ArgumentError: there is no C compiler, and NumPy interprets the function.
        """
        if not entry.call.is_compiled:
            raise ArgumentError(
                f"{self.__name__}() is interpreted by NumPy: there is no C function", instead="a C compiler"
            )
        return entry.call

    def cost(self, *args: Any, **sizes: int) -> Cost:
        """Count what a call does: flops by kind, calls, bytes, loops, lines of C; of the signature that ran last.

        Args:
            args: arguments of a call: counts for these, compiling first when their signature is new.
            sizes: numbers for open extents. Without either, counts are expressions of the open extents.

        Raises:
            ArgumentError: nothing was compiled yet and there are no arguments; or there is no such extent.

        >>> import numpy as np, symgrad as sg
        >>> f = sg.jit(lambda A, B: A @ B, specs=("f64[m,k]", "f64[k,n]"))
        >>> f.cost(np.ones((3, 4)), np.ones((4, 5))).flops
        120
        >>> f.cost().flops
        2*k*m*n
        """
        from symgrad.api.report.counts import cost_of

        return self._reported(cost_of, args, sizes)  # type: ignore[no-any-return]

    def memory(self, *args: Any, **sizes: int) -> Memory:
        """List what a call needs besides its arguments and results, buffer by buffer, and the peak of it.

        Args:
            args: arguments of a call, as for `cost`.
            sizes: numbers for open extents. Without either, bytes are expressions of the open extents.

        Raises:
            ArgumentError: nothing was compiled yet and there are no arguments; or there is no such extent.

        >>> import numpy as np, symgrad as sg
        >>> sg.jit(lambda x: np.sin(x[::-1])).memory(np.ones(1000)).peak
        0
        """
        from symgrad.api.report.counts import memory_of

        return self._reported(memory_of, args, sizes)  # type: ignore[no-any-return]

    def report(self) -> str:
        """Say in words what became of the signature that ran last.

        What each loop computes, what stands between loops and why, what is computed again, memory, threads,
        vectorized functions, where slopes are infinite and what guards them there, and why sizes are compiled one
        by one.

        Raises:
            ArgumentError: nothing was compiled yet.

        >>> import numpy as np, symgrad as sg
        >>> f = sg.grad(lambda x: np.sum(np.sqrt(x)))
        >>> _ = f(np.ones(3))
        >>> "infinite slope at 0, and nothing guards it" in f.report()
        True
        """
        from symgrad.api.report.words import report

        return report(self._ran().built.stages, self._compilations.refusals())

    def _reported(self, made: Callable[[Stages], Any], args: tuple[Any, ...], sizes: dict[str, int]) -> Any:
        """Make a report of a compilation, with numbers where arguments or sizes are given."""
        from symgrad.api.report.counts import numbered
        from symgrad.build.threads import threads

        call = self._arguments.split(args, {}) if args else None
        entry = self._ran() if call is None else self._find(call)
        arrays = [] if call is None else as_inputs(call.leaves, entry.signature)
        count = threads(self._options) if entry.built.stages.of("loops").threaded else 1
        return numbered(made(entry.built.stages), entry.built.program, arrays, sizes, count)

    def cache_info(self) -> CacheInfo:
        """Return for which signatures this function was compiled, why each was needed, and why extents stay numbers."""
        return self._compilations.info()

    def __repr__(self) -> str:
        """Print the mode and the function's name."""
        return f"<symgrad {self._mode} of {self.__name__}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickle by name where Python can import the function, else the printable programs; never code."""
        plain: Any = self._fun
        while type(plain) is Function or hasattr(plain, "symgrad_mode"):  # a function compiled, or a mode of one
            if isinstance(plain, Absent) or isinstance(plain.__wrapped__, Absent):
                break
            plain = plain.__wrapped__
        entries = self._compilations.current()
        found = reduced(self, self._fun, plain, self._arguments, self._options, entries)
        return found if isinstance(found, str) else (unpickled, found)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Bind as a method, so that a decorated method works."""
        return self if instance is None else functools.partial(self, instance)


def unpickled(*pickled: Any) -> Function:
    """Make the function that was pickled: traced where its Python is found by its name, else of its programs."""
    return Function(*parts(*pickled))


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
        from symgrad.api.report.words import report

        return report(self.stages)

    def compile(self) -> Function:
        """Compile for this signature alone: every call must fit it."""
        return self._function.fixed(self._signature)
