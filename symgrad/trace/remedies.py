"""What to write in the place of a function that has no answer: what gives the same, or another way."""

from __future__ import annotations

import sys
from types import CellType, FrameType, FunctionType
from typing import Any

import numpy as np

from symgrad.trace.lines import called, is_user_code

_OPTIMUM = "optimizing outside of the traced function; inside, sg.custom_vjp with the implicit function's rule"
_ROOT = "scipy.optimize.newton(f, x0), which is traced, or sg.custom_vjp with the implicit function's rule"
_STEPS = "scipy.integrate.solve_ivp with t_eval= and an explicit method, or odeint"
_NODES = "scipy.integrate.fixed_quad(f, a, b, n=20)[0], which is traced: a rule of fixed nodes"
_CHOSEN = "np.where(mask, x, 0), or np.sum(x[mask]), np.mean(x[mask])"
_FOURIER = (
    "C @ x and -S @ x, the real and the imaginary part, with C, S = np.cos(k), np.sin(k) and "
    "k = 2 * np.pi * np.outer(np.arange(n), np.arange(n)) / n made outside"
)
_SPECTRUM = "np.linalg.eigh or eigvalsh of a symmetric matrix, np.linalg.svd of another one, where these will do"
SPARSE = (
    "S @ x, S.T @ y, S.multiply(B) and the like, with S made outside; or the matrix's elements: C = S.tocoo() outside; "
    "y = np.zeros(S.shape[0]); np.add.at(y, C.row, C.data * x[C.col]) in the place of y = S @ x"
)
_DRAWN = "standard numbers drawn outside, as an argument: mean + scale * noise"

OTHERWISE: dict[str, str] = {
    **dict.fromkeys(("quad", "quad_vec", "dblquad", "tplquad", "nquad"), _NODES),
    **dict.fromkeys(("solve_bvp", "ode"), _STEPS),
    **dict.fromkeys(("brentq", "brenth", "bisect", "ridder", "toms748"), _ROOT),
    "interp1d": "np.interp(x, points, values)",
    "nonzero": _CHOSEN,
    **dict.fromkeys(("fft", "rfft"), _FOURIER),
    **dict.fromkeys(("eig", "eigvals", "schur"), _SPECTRUM),
    "poly1d": "np.polyval(p, x)",
    "perm": "scipy.special.gamma(n + 1) / scipy.special.gamma(n - k + 1)",
    "softplus": "np.logaddexp(0, x)",
    "vectorize": "sg.vmap(f)(x), or the function on arrays itself",
    "fromiter": "np.stack([...])",
    "nditer": "for value in x.ravel()",
    "savetxt": "saving outside of the traced function", "save": "saving outside of the traced function",
}
"""What is written in the place of functions, by their names."""

ROOMS: dict[str, str] = {
    "scipy.sparse": SPARSE, "scipy.optimize": _OPTIMUM, "numpy.random": _DRAWN,
    "numpy.fft": f"matrices made outside, as for fft: {_FOURIER}",
    "scipy.fft": f"matrices made outside, as for fft: {_FOURIER}",
    "numpy.lib.scimath": "np.sqrt, np.log and their like, of numbers for which these are real",
    "numpy.ma": "np.where(mask, fill, data) with the plain data and mask",
    "numpy.matrixlib": "np.ndarray, with a @ b for products",
    "scipy.spatial.transform": "a rotation's matrix by its formula: eye(3) + sin(t) * K + (1 - cos(t)) * K @ K for the "
    "angle t = norm(w), where K is the matrix of the cross product with w / t",
    "scipy.interpolate": "a table's values outside, and piecewise linear inside: np.interp(x, xp, yp)",
    "scipy.special": "sg.extern with C of it and its derivative; docs/scipy.md lists the functions that have an answer",
}
"""What is written in the place of a module's other functions."""

MATHS = {"lgamma": "scipy.special.gammaln(x)", "fsum": "np.sum(x)", "dist": "np.linalg.norm(x - y)"}
"""What NumPy or SciPy call a function of `math`, where that is more than its name."""


def remedy(function: Any) -> str:
    """Say what to write in the place of a function; nothing, where nothing is known."""
    name, module, of = getattr(function, "__name__", ""), module_of(function), getattr(function, "__self__", None)
    if module == "math":
        own = getattr(np, name, None)
        same = f"np.{name}" if own is not None else f"scipy.special.{name}"
        return MATHS.get(name, f"{same}({'x, y' if getattr(own, 'nin', 1) == 2 else 'x'})")
    if type(of).__module__ == "numpy" and hasattr(of, "dtype"):
        return f"np.{name}(array, ...), the function, which is traced, in place of a plain array's method"
    if type(function) is np.ufunc and not module:
        return OTHERWISE["vectorize"]
    if isinstance(function, type) and issubclass(function, np.generic):
        return f"x.astype(np.{name}), or np.{name}(x) by the module's name where it is called"
    return OTHERWISE.get(name) or next((said for room, said in ROOMS.items() if module.startswith(room)), "")


def unreached(function: Any) -> str:
    """Say what to write where a function that has an answer was not asked for it, bound elsewhere or given a list."""
    if type(getattr(function, "__self__", None)) is np.ufunc:
        return "np.stack([x, y]), for a list of traced values"
    if type(function) is np.ufunc:
        return f"np.stack([x, y]) for a list of traced values, or {function.__name__} by its module's name"
    public = getattr(sys.modules.get(module_of(function)), getattr(function, "__name__", ""), None)
    if public != function:  # a method, by whose name a function is called too
        return ""
    return "" if hasattr(function, "when_traced") or not hasattr(public, "when_traced") else (
        "the function by its module's name where it is called (where it was bound it cannot be replaced), or "
        "np.stack([x, y]) for an array of values"
    )


def module_of(function: Any) -> str:
    """Return the public module of a function or a class; a ufunc of SciPy's does not say it."""
    own = getattr(function, "__self__", None)
    named = getattr(function, "__module__", None) or ("" if own is None else type(own).__module__)
    if type(function) is np.ufunc and getattr(sys.modules.get("scipy.special"), function.__name__, None) == function:
        named = "scipy.special"
    return ".".join([part for part in str(named).split(".") if part[:1] not in {"", "_"}])


def asked_by() -> tuple[str, Any]:
    """Return the library's call that the user's code runs, and what is called there; none for code of its own."""
    inner: FrameType | None = None
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - who asks, on behalf of the user's code
    while frame is not None and not is_user_code(frame.f_code.co_filename):
        inner, frame = frame, frame.f_back
    if frame is None:
        return "", None
    name, found = called(frame)
    if module_of(found).startswith(("numpy", "scipy")):
        of = getattr(getattr(found, "__self__", None), "__name__", "")  # np.add.reduce
        return f"{module_of(found)}.{of}{'.' * bool(of)}{getattr(found, '__name__', name)}(...)", found
    if inner is not None and "symgrad" not in str(inner.f_globals.get("__name__", "")):
        code = inner.f_code
        own = inner.f_locals.get("self") if code.co_varnames[:1] == ("self",) else None
        if own is None:
            found = inner.f_globals.get(code.co_name)
            cells = tuple([CellType() for _ in code.co_freevars])
            room = found if found is not None else FunctionType(code, inner.f_globals, closure=cells)
            return f"{module_of(room)}.{code.co_name}(...)", found
        found = type(own)
        shown = "" if code.co_name in {"__init__", "__call__"} else f".{code.co_name}"
        return f"{module_of(found)}.{found.__name__}{shown}(...)", found
    return name and f"{name}(...)", found
