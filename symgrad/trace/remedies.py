"""What to write in the place of a function that has no answer: what gives the same, or another way."""

from __future__ import annotations

import sys
from itertools import takewhile
from types import CellType, FrameType, FunctionType
from typing import Any

import numpy as np

from symgrad.ops.declare.forms import ANSWERS, PARTS
from symgrad.trace.lines import ON_USERS_LINE, called, caller_of, installed, is_user_code, spelled, user_frame

_FOURIER = (
    "C @ x and -S @ x, the real and the imaginary part, with C, S = np.cos(k), np.sin(k) and "
    "k = 2 * np.pi * np.outer(np.arange(n), np.arange(n)) / n made outside: n * n operations"
)
_REAL = ("dct", "idct", "dst", "idst")
_COMPLEX = ("fft", "ifft", "rfft", "ihfft", "hilbert")
_OF_COLUMNS = "{}(np.eye(n), axis=0) made outside: n * n operations"
_SPECTRUM = "np.linalg.eigh or eigvalsh of a symmetric matrix, np.linalg.svd of another one, where these will do"
SPARSE = (
    "S @ x, S.T @ y, S.multiply(B) and the like, with S made outside; or the matrix's elements: C = S.tocoo() outside; "
    "y = np.zeros(S.shape[0]); np.add.at(y, C.row, C.data * x[C.col]) in the place of y = S @ x"
)
_DRAWN = "standard numbers drawn outside, as an argument: mean + scale * noise"
_WINDOWS = "np.lib.stride_tricks.sliding_window_view(np.pad(x, k // 2), k)"
OUTSIDE = "its result for plain arrays, made outside of the traced function and passed as an argument"
_AS_FUNCTION = "np.{}(array, ...), the function, which is traced, in place of a plain array's method"
_OTHER_SIGNS = ", where columns of Q and rows of R may have other signs"

def _table(text: str) -> dict[str, str]:
    """Read lines ``name, name -> what is said of them``, of which further lines are set in."""
    entries = [line.partition(" -> ") for line in text.strip().replace("\n    ", " ").splitlines()]
    return {name: said for names, _, said in entries for name in names.split(", ")}


OTHERWISE = _table(f"""
quad, quad_vec, dblquad, tplquad, nquad -> scipy.integrate.fixed_quad(f, a, b, n=20)[0], which is traced: a rule of
    fixed nodes; to infinity of lambda t: f(a + t / (1 - t)) / (1 - t)**2 from 0 to 1
solve_bvp, ode -> scipy.integrate.solve_ivp with t_eval= and an explicit method, or odeint
brentq, brenth, bisect, ridder, toms748 -> scipy.optimize.newton(f, x0), which is traced, or sg.custom_vjp with the
    implicit function's rule
interp1d -> np.interp(x, points, values)
choice -> uniform numbers u drawn outside, as an argument: x[np.searchsorted(np.cumsum(p) / np.sum(p), u)], where it has
    no derivative by p
permutation, permuted, shuffle, sample -> an order drawn outside, rng.permutation(n), as an argument: x[order]
map_coordinates -> scipy.ndimage.map_coordinates(x, places, order=1), or 0: linear between the elements. Without order=
    it is 3, splines, which have no answer
nonzero -> np.where(mask, x, 0), or np.sum(x[mask]), np.mean(x[mask])
welch, stft, spectrogram, periodogram -> means and sums of what Fourier's matrices give of the windows: {_FOURIER}
fftshift -> np.roll(x, len(x) // 2)
ifftshift -> np.roll(x, -(len(x) // 2))
hankel1 -> scipy.special.jv(v, x), the real part, and scipy.special.yv(v, x), the imaginary one
hankel2 -> scipy.special.jv(v, x), the real part, and -scipy.special.yv(v, x), the imaginary one
wofz -> np.exp(-x * x), the real part of a real number's, and 2 / np.sqrt(np.pi) * scipy.special.dawsn(x), the imaginary
    one
CubicSpline, PchipInterpolator, Akima1DInterpolator, CubicHermiteSpline, PPoly -> np.polyval(np.take(s.c, k, 1), x -
    np.take(s.x, k)) with k = np.clip(np.searchsorted(s.x, x, "right") - 1, 0, len(s.x) - 2) and the spline s made
    outside of plain points
diags, diags_array, spdiags, dia_matrix, dia_array -> d * x in the place of scipy.sparse.diags(d) @ x, with slices for
    other diagonals
trapz -> np.trapezoid(y, x)
eig, eigvals, rsf2csf -> {_SPECTRUM}
schur -> w, v = np.linalg.eigh(a), of a symmetric matrix: T is np.diag(w) and Z is v, from the least w on
qz, ordqz -> scipy.linalg.eigh(a, b), of a symmetric matrix and a positive definite one, where this will do
poly -> np.poly(np.linalg.eigvalsh(a)), of a symmetric matrix
funm -> (v * f(w)) @ v.T with w, v = np.linalg.eigh(a), of a symmetric matrix; scipy.linalg.expm, logm, sqrtm, cosm,
    sinm, tanm and their like, which are traced
ldl -> of a positive definite matrix L = C / d and D = np.diag(d**2), with C = scipy.linalg.cholesky(a, lower=True) and
    d = np.diag(C); np.linalg.eigh of another symmetric one
cossin -> np.linalg.svd of the blocks x[:p, :q] and x[p:, :q], whose singular values are the cosines and the sines
qr_insert -> np.linalg.qr(np.insert(Q @ R, k, u, axis=0)){_OTHER_SIGNS}
qr_delete -> np.linalg.qr(np.delete(Q @ R, k, axis=0)){_OTHER_SIGNS}
qr_update -> np.linalg.qr(Q @ R + np.outer(u, v)){_OTHER_SIGNS}
matrix_balance -> np.linalg.solve(T, a @ T) with the scaling T found outside, of plain numbers
roots -> scipy.optimize.newton(lambda z: np.polyval(p, z), x0), which is traced, for one real root
perm -> scipy.special.gamma(n + 1) / scipy.special.gamma(n - k + 1)
softplus -> np.logaddexp(0, x)
jacobi -> scipy.special.eval_jacobi(n, ..., x)
sh_jacobi -> scipy.special.eval_sh_jacobi(n, ..., x)
gegenbauer -> scipy.special.eval_gegenbauer(n, ..., x)
genlaguerre -> scipy.special.eval_genlaguerre(n, ..., x)
mathieu_even_coef, mathieu_odd_coef -> 2 * np.mean(w * np.cos(k * np.deg2rad(t))), half of it for k = 0, of w =
    scipy.special.mathieu_cem(m, q, t)[0] with t = np.arange(64) * 360 / 64, and sines of mathieu_sem
packbits -> np.reshape(bits, (-1, 8)) @ 2 ** np.arange(8)[::-1]
vectorize -> sg.vmap(f)(x), or the function on arrays itself
fromiter -> np.stack([...])
nditer -> for value in x.ravel()
matrix -> the array itself, with a @ b for products
savetxt, save, savez, savez_compressed, write_array -> saving outside of the traced function
array2string, array_str, array_repr -> printing outside of the traced function
pearsonr -> np.corrcoef(x, y)[0, 1]
sigmaclip -> near = np.abs(x - np.mean(x)) < 4 * np.std(x) and x[near] of it, once for each round
f_oneway -> between / within with between = sum(len(x) * (np.mean(x) - mean)**2 for x in samples) / (k - 1) and within =
    sum(len(x) * np.var(x) for x in samples) / (n - k), for k samples of n numbers
upfirdn -> np.convolve(h, z)[::down] with z = np.zeros(up * (len(x) - 1) + 1); z[::up] = x
Normal, Uniform, Logistic, Binomial, make_distribution, CustomDistribution -> scipy.stats.norm(mu, sigma),
    scipy.stats.uniform(a, b - a) and their like, the distributions of before, which are traced
spline_filter, spline_filter1d -> order=1 in the place of splines: scipy.ndimage.map_coordinates(x, places, order=1) is
    traced
rankdata -> np.argsort(np.argsort(x)) + 1, of values that differ
gaussian_kde -> np.mean(scipy.stats.norm.pdf(q[:, None], x, h), axis=1), at the places q with the width h
fit -> the minimum of scipy.stats.norm.nnlf([loc, scale], x) or its like, found outside; it is traced, with a gradient
expect -> np.trapezoid(f(x) * scipy.stats.norm.pdf(x, loc, scale), x) or its like; a sum of f(k) * pmf(k) over integers
    k
gaussian_kde.pdf, gaussian_kde.logpdf -> np.mean(scipy.stats.norm.pdf(q[:, None], x, h), axis=1), at the places q with
    the width h
invwishart.pdf, invwishart.logpdf -> df / 2 * np.linalg.slogdet(scale / 2)[1] - scipy.special.multigammaln(df / 2, p) -
    (df + p + 1) / 2 * np.linalg.slogdet(x)[1] - np.trace(scale @ np.linalg.inv(x)) / 2, the logarithm
rv_histogram.pdf -> density[np.clip(np.searchsorted(edges, x, "right") - 1, 0, len(density) - 1)] with density, edges =
    np.histogram(data, bins, density=True), within the edges
rv_histogram.cdf -> np.interp(x, edges, np.append(0, np.cumsum(density * np.diff(edges)))) with density, edges =
    np.histogram(data, bins, density=True)
rv_histogram -> density, edges = np.histogram(x, bins, density=True), of which the density is constant in each bin
multivariate_normal.cdf, multivariate_normal.logcdf -> scipy.stats.norm.cdf of each variable where they are independent;
    np.mean(np.all(mean + z @ factor.T < x, axis=-1)) of standard numbers z has no slope
pdf, logpdf, pmf, logpmf, cdf, logcdf, sf, logsf, ppf, isf -> its formula of np.* and scipy.special functions;
    docs/scipy.md lists the distributions that have an answer
find_peaks, argrelextrema, argrelmax, argrelmin -> x[places] of places found outside
medfilt, median_filter -> np.median({_WINDOWS}, axis=-1)
maximum_filter, grey_dilation -> np.max({_WINDOWS}, axis=-1)
minimum_filter, grey_erosion -> np.min({_WINDOWS}, axis=-1)
resample, resample_poly -> np.interp(np.linspace(0, len(x) - 1, n), np.arange(len(x)), x)
zoom, rotate, shift, affine_transform, geometric_transform -> order=1, which is traced: linear between the elements
spsolve, spsolve_triangular, splu, cg, gmres, bicg, bicgstab, minres -> np.linalg.solve(A, b) with A = S.toarray() made
    outside; for a large one the steps of conjugate gradients in a loop, of products S @ p, which are traced
eigs, eigsh, svds -> {_SPECTRUM}, of S.toarray() for a small one
""")
"""What is written in the place of functions, by their names."""

_EIGENVALUES = "values say whether its eigenvalues are complex"
REASONS = _table(f"""
eig, eigvals, schur, rsf2csf, qz, ordqz, funm -> {_EIGENVALUES}
ldl -> values say which rows change places, and where D has blocks of two
mathieu_even_coef, mathieu_odd_coef -> values say how many coefficients there are
cossin -> its signs are those of LAPACK's steps
qr_insert, qr_delete, qr_update -> its signs are those of LAPACK's rotations, which differ from version to version
sigmaclip -> values say how many elements are left
matrix_balance -> its scales are found by steps that values choose
""")
"""Why functions have no answer, where that is not for want of one."""

ROOMS = _table(f"""
scipy.sparse -> {SPARSE}
numpy.random -> {_DRAWN}
scipy.optimize -> optimizing outside of the traced function; inside, sg.custom_vjp with the implicit function's rule
numpy.fft, scipy.fft -> matrices along each axis, made outside, as for fft: {_FOURIER}
numpy.emath, numpy.lib.scimath -> np.sqrt, np.log and their like, of numbers for which these are real
numpy.ma -> np.where(mask, fill, data) with the plain data and mask
numpy.matrixlib -> np.ndarray, with a @ b for products
numpy.testing -> comparing outside of the traced function, what its compiled form returns
scipy.spatial.transform -> a rotation's matrix by its formula: eye(3) + sin(t) * K + (1 - cos(t)) * K @ K for the angle
    t = norm(w), where K is the matrix of the cross product with w / t
scipy.spatial -> the neighbours, hull or triangles of plain points, found outside: inside, x[places] of these and
    scipy.spatial.distance.cdist(x, y) are traced
scipy.interpolate -> a table's values outside, and piecewise linear inside: np.interp(x, xp, yp)
sympy -> sg.from_sympy(formula, ...), made outside, which is a function of arrays; of a number float(number)
mpmath -> np.* and scipy.special functions: a traced number has the digits of its dtype
pydantic, pydantic_core -> Model.model_construct(...), which does not look at values, or a plain dataclass
scipy.special -> sg.extern with C of it and its derivative; docs/scipy.md lists the functions that have an answer
scipy.stats -> np.mean, np.var, np.corrcoef or np.quantile for a statistic; ranks, tests and fits of plain arrays
    outside of the traced function
scipy.linalg -> scipy.linalg.cholesky, lu, qr, svd or eigh, which are traced
scipy.signal -> the filter's coefficients designed outside, of plain numbers; inside, scipy.signal.lfilter(b, a, x) or
    sosfilt(sos, x), which are traced
scipy.ndimage -> labels and distances of plain arrays outside; inside, scipy.ndimage.convolve, gaussian_filter and
    map_coordinates of order 0 and 1, which are traced
""")
"""What is written in the place of a module's other functions; a module stands before those that it is in."""

MATHS = _table("""
lgamma -> scipy.special.gammaln(x)
fsum -> np.sum(x)
dist -> np.linalg.norm(x - y)
factorial -> scipy.special.gamma(n + 1)
comb -> scipy.special.binom(n, k)
perm -> scipy.special.gamma(n + 1) / scipy.special.gamma(n - k + 1)
isclose -> np.isclose(x, y)
""")
"""What NumPy or SciPy call a function of `math`, where that is more than its name."""


def remedy(function: Any) -> str:
    """Say what to write in the place of a function; nothing, where it is none of a library's."""
    name, module, of = name_of(function), module_of(function), getattr(function, "__self__", None)
    if module == "math":
        own: Any = getattr(np, name, None)
        same = f"np.{name}" if own in ANSWERS else f"scipy.special.{name}"
        known = own in ANSWERS or own is None
        return MATHS.get(name) or (f"{same}({'x, y' if getattr(own, 'nin', 1) == 2 else 'x'})" if known else OUTSIDE)
    if type(of).__module__ == "numpy" and hasattr(of, "dtype"):
        return _AS_FUNCTION.format(name)
    if type(function) is np.ufunc and not module:
        return OTHERWISE["vectorize"]
    if isinstance(function, type) and issubclass(function, np.number):
        return f"x.astype(np.{name}), or np.{name}(x) by the module's name where it is called"
    if name in _REAL or name in _COMPLEX:
        columns = _OF_COLUMNS.format(public_name(function))
        return f"M @ x with M = {columns}" if name in _REAL else (
            f"C @ x and S @ x, the real and the imaginary part, with C = np.real(F), S = np.imag(F) and F = {columns}")
    said = OTHERWISE.get(name) or (PARTS if _is_complex(function) else in_place_of(module))
    known = module.partition(".")[0] in {"numpy", "scipy"}
    return said or (f"{OUTSIDE}; for its derivative, sg.extern with C of both" if known else "")


def _is_complex(function: Any) -> bool:
    """Whether a ufunc gives complex numbers alone."""
    return type(function) is np.ufunc and all(loop[-1] in "FDG" for loop in function.types)


def in_place_of(module: str) -> str:
    """Say what to write in the place of a module's functions and objects; nothing where that is not known."""
    return next((said for room, said in ROOMS.items() if within(module, room)), "")


def of_another_library() -> tuple[str, str]:
    """Return which library's code runs that the user's line calls, as the line says it, and what to write instead.

    Nothing where the user's own code runs.
    """
    frame = user_frame()
    caller = caller_of(frame) if frame is not None and installed(frame.f_code.co_filename) else None
    if frame is None or caller is None:
        return "", ""
    module = str(frame.f_globals.get("__name__", ""))
    name = spelled(caller)
    return f"{name}(...): " if name else f"{module.partition('.')[0]}: ", in_place_of(module)


def unanswered(name: str, function: Any) -> str:
    """Say that a function has no answer, and why, where there is a reason."""
    reason = REASONS.get(getattr(function, "__name__", ""))
    if reason is None and _is_complex(function):
        reason = "its result is complex, and symgrad compiles real numbers"
    return f"{name} has no answer for traced arrays{f': {reason}' if reason else ''}"


def within(module: str, room: str) -> bool:
    """Whether a module is another one, or in it."""
    return module == room or module.startswith(f"{room}.")


def method_remedy(name: str) -> str:
    """Say what to write in the place of a method of an object that nobody knows, as ``np.ones(3).dot`` is one."""
    if hasattr(np.ndarray, name):
        return _AS_FUNCTION.format(name) if getattr(np, name, None) in ANSWERS else ""
    return OTHERWISE.get(name, _DRAWN if hasattr(np.random.Generator, name) else "")


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


def name_of(function: Any) -> str:
    """Return the name of a function, or of the class of an object that is called."""
    return str(getattr(function, "__name__", "") or ("" if function is None else type(function).__name__))


def module_of(function: Any) -> str:
    """Return the public module of a function or a class; a ufunc of SciPy's does not say it."""
    own = getattr(function, "__self__", None)
    named = str(getattr(function, "__module__", None) or ("" if own is None else type(own).__module__))
    if type(function) is np.ufunc and getattr(sys.modules.get("scipy.special"), function.__name__, None) == function:
        return "scipy.special"
    package, *rooms = named.split(".")
    return ".".join([package.lstrip("_"), *takewhile(lambda room: room[:1] != "_", rooms)])


def public_name(function: Any) -> str:
    """Return the name of a function of a library's by which users know it: ``scipy.stats.qmc.discrepancy``.

    Of an object that is called it is the name of its class.
    """
    if not hasattr(function, "__name__"):
        function = type(function)
    name, module, of = getattr(function, "__name__", ""), module_of(function), getattr(function, "__self__", None)
    if type(of) is np.ufunc:  # np.add.reduce
        return f"{module}.{of.__name__}.{name}"
    if of is not None and not isinstance(of, type) and type(of).__module__.startswith(("numpy", "scipy")):
        kind = getattr(of, "name", None) if module.startswith("scipy.stats") else None
        return f"{module_of(type(of))}.{kind or type(of).__name__}.{name}"
    rooms = [room for room in list(sys.modules) if within(room, module) and "._" not in room]
    for room in sorted(rooms, key=lambda room: (room.count("."), room)):
        if getattr(vars(sys.modules[room]).get(name), "original", vars(sys.modules[room]).get(name)) is function:
            return f"{room}.{name}"
    return f"{module}.{name}"


def asked_by() -> tuple[str, Any]:
    """Return the library's call that the user's code runs, and what is called there; none for code of its own."""
    inner: FrameType | None = None
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - who asks, on behalf of the user's code
    while frame is not None and (
            not is_user_code(frame.f_code.co_filename) or frame.f_code.co_name == ON_USERS_LINE):
        inner, frame = frame, frame.f_back
    if frame is None:
        return "", None
    name, found = called(frame)
    if module_of(found).startswith(("numpy", "scipy")):
        return f"{spelled(frame) or public_name(found)}(...)", found
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
