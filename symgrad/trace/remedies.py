"""What to write in the place of a function that has no answer: the nearest one that has, or another way."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.ops.declare.forms import ANSWERS, SCIPYS
from symgrad.trace.lines import callee, is_user_code

if TYPE_CHECKING:
    from types import FrameType

_OPTIMUM = "optimizing outside of the traced function; inside, sg.custom_vjp with the implicit function's rule"
_STEPS = "steps of a method of fixed step, as of Runge and Kutta, in a loop over the times"
_NODES = "a rule of fixed nodes: nodes and weights of np.polynomial.legendre.leggauss, made outside, and a sum"
_TABLE = "k = np.searchsorted(places, x), and weights of the table's elements k - 1 and k"

OTHERWISE: dict[str, str] = {
    **dict.fromkeys(("quad", "quad_vec", "dblquad", "tplquad", "nquad", "fixed_quad"), _NODES),
    **dict.fromkeys(("odeint", "solve_ivp", "solve_bvp"), _STEPS),
    **dict.fromkeys(("minimize", "minimize_scalar", "root", "root_scalar", "fsolve", "brentq", "newton",
                     "least_squares", "curve_fit", "linprog", "milp"), _OPTIMUM),
    **dict.fromkeys(("interp", "interp1d", "CubicSpline", "PchipInterpolator", "make_interp_spline"), _TABLE),
    **dict.fromkeys(("lstsq", "pinv"), "np.linalg.solve(A.T @ A, A.T @ b), for a matrix of full column rank"),
    "vectorize": "sg.vmap(f)(x), or the function on arrays itself",
    "float64": "x.astype(np.float64)", "float32": "x.astype(np.float32)", "int64": "x.astype(np.int64)",
    "savetxt": "saving outside of the traced function", "save": "saving outside of the traced function",
}
"""What is written in the place of functions, by their names."""


def remedy(function: Any) -> str:
    """Say what to write in the place of a function: another way, or the nearest function that has an answer."""
    name = getattr(function, "__name__", "")
    if name in OTHERWISE:
        return OTHERWISE[name]
    import difflib

    known = {f.__name__: f for f in [*ANSWERS, *SCIPYS] if getattr(f, "__name__", "_")[0] != "_"}
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    return f"{_shown(known[near[0]])}, which has an answer" if near and near[0] != name else ""


def _shown(function: Any) -> str:
    ufuncs = "numpy" if hasattr(np, function.__name__) else "scipy.special"
    module = str(getattr(function, "__module__", None) or ufuncs)
    public = [part for part in module.split(".") if part[0] != "_"]
    return ".".join(["np" if public[0] == "numpy" else public[0], *public[1:], function.__name__])


def asked_by() -> tuple[str, Any]:
    """Return the name of the library's function that the user's code runs, and what it is; none for code of its own."""
    inner: FrameType | None = None
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - who asks, on behalf of the user's code
    while frame is not None and not is_user_code(frame.f_code.co_filename):
        inner, frame = frame, frame.f_back
    if frame is None:
        return "", None
    if inner is not None and "symgrad" not in (module := str(inner.f_globals.get("__name__", ""))):
        called = inner.f_code.co_name
        if called == "__init__" and inner.f_code.co_argcount:
            called = type(inner.f_locals.get(inner.f_code.co_varnames[0])).__name__
        public = [part for part in module.split(".") if part[0] != "_"]
        return ".".join([*public, called]), inner.f_globals.get(called)
    name = callee(frame.f_code, frame.f_lasti) or ""
    found: Any = frame.f_locals.get(name, frame.f_globals.get(name))
    known = str(getattr(found, "__module__", "")).startswith(("numpy", "scipy"))
    return str(getattr(found, "__name__", name)) if known else name, found
