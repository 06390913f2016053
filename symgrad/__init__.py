"""symgrad: write a loss in plain NumPy; get the C function that computes its value and gradient.

>>> import numpy as np, symgrad as sg
>>> sg.grad(lambda x: np.sum(np.sin(x)))(np.zeros(2))
array([1., 1.])
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from symgrad.api import linalg
from symgrad.api.call.function import Function
from symgrad.api.modes.control import checkpoint, cond, fori_loop, scan, switch, while_loop
from symgrad.api.modes.derivatives import grad, hessian, hvp, jacfwd, jacrev, jit, value_and_grad
from symgrad.api.modes.gradients import gradients, stop_gradient
from symgrad.api.modes.initial_values import odeint as _odeint  # noqa: F401 - what answers for SciPy
from symgrad.api.modes.linearize import jvp, linearize, vjp
from symgrad.api.modes.matrix_functions import signm as _signm  # noqa: F401 - likewise
from symgrad.api.modes.vmap import vmap
from symgrad.api.rules.custom import custom_jvp, custom_vjp
from symgrad.api.rules.override import override_gradient
from symgrad.api.sparse import matrices as _matrices  # noqa: F401 - what stands for SciPy's
from symgrad.api.sparse.rows import RowSparse
from symgrad.api.trees import ravel_pytree, tree_map, tree_paths
from symgrad.build.threads import get_num_threads, set_num_threads
from symgrad.emit.emit import emit
from symgrad.errors import NoGradient, SymgradError, SymgradWarning
from symgrad.options import Options
from symgrad.trace.overrides import named
from symgrad.trace.signature import Spec, spec
from symgrad.trace.tracer import Tracer
from symgrad.version import __version__ as __version__

if TYPE_CHECKING:
    from symgrad import dask, features, nn, optim
    from symgrad.api.check import check_grads
    from symgrad.api.formulas import from_sympy
    from symgrad.api.rules.define import define_op, extern
    from symgrad.api.sized import argwhere, flatnonzero, nonzero, unique
    from symgrad.api.step.step import compile_step
    from symgrad.emit.files import Package
    from symgrad.train.files import load, save
    from symgrad.train.fit import fit

__all__ = [
    "Function", "NoGradient", "Options", "Package", "RowSparse", "Spec", "SymgradError", "SymgradWarning", "Tracer",
    "argwhere", "check_grads", "checkpoint", "compile_step", "cond", "custom_jvp", "custom_vjp", "dask", "define_op",
    "emit", "extern", "features", "fit", "flatnonzero", "fori_loop", "from_sympy", "get_num_threads", "grad",
    "gradients", "hessian", "hvp", "jacfwd", "jacrev", "jit", "jvp", "linalg", "linearize", "load", "named", "nn",
    "nonzero", "optim", "override_gradient", "ravel_pytree", "save", "scan", "set_num_threads", "spec",
    "stop_gradient", "switch", "tree_map", "tree_paths", "unique", "value_and_grad", "vjp", "vmap", "while_loop",
]

_LATE = {
    "check_grads": "symgrad.api.check", "compile_step": "symgrad.api.step.step",
    "define_op": "symgrad.api.rules.define", "extern": "symgrad.api.rules.define",
    "from_sympy": "symgrad.api.formulas", "Package": "symgrad.emit.files",
    **dict.fromkeys(("argwhere", "flatnonzero", "nonzero", "unique"), "symgrad.api.sized"),
    "fit": "symgrad.train", "load": "symgrad.train", "save": "symgrad.train",
}


def __getattr__(name: str) -> Any:
    """Import when it is asked for what most programs do not ask for: the import takes long enough without it."""
    if name in {"dask", "features", "nn", "optim"}:
        return import_module(f"symgrad.{name}")
    if name in _LATE:
        found = globals()[name] = getattr(import_module(_LATE[name]), name)
        return found
    raise AttributeError(f"module 'symgrad' has no attribute {name!r}")
