"""symgrad: write a loss in plain NumPy; get the C function that computes its value and gradient.

>>> import numpy as np, symgrad as sg
>>> sg.grad(lambda x: np.sum(np.sin(x)))(np.zeros(2))
array([1., 1.])
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from symgrad.errors import NoGradient, SymgradError, SymgradWarning
from symgrad.version import __version__ as __version__

if TYPE_CHECKING:
    from symgrad import dask, features, nn, optim
    from symgrad.api import linalg
    from symgrad.api.call.function import Function
    from symgrad.api.check import check_grads
    from symgrad.api.formulas import from_sympy
    from symgrad.api.modes.control import checkpoint, cond, fori_loop, scan, switch, while_loop
    from symgrad.api.modes.derivatives import grad, hessian, hvp, jacfwd, jacrev, jit, value_and_grad
    from symgrad.api.modes.gradients import gradients, stop_gradient
    from symgrad.api.modes.linearize import jvp, linearize, vjp
    from symgrad.api.modes.vmap import vmap
    from symgrad.api.rules.custom import custom_jvp, custom_vjp
    from symgrad.api.rules.define import define_op, extern
    from symgrad.api.rules.override import override_gradient
    from symgrad.api.sized import argwhere, flatnonzero, nonzero, unique
    from symgrad.api.sparse.rows import RowSparse
    from symgrad.api.step.step import Step, compile_step
    from symgrad.api.trees import ravel_pytree, tree_flatten, tree_map, tree_paths
    from symgrad.build.threads import get_num_threads, set_num_threads
    from symgrad.emit.emit import emit
    from symgrad.emit.files import Package
    from symgrad.options import Options
    from symgrad.trace.overrides import named
    from symgrad.trace.signature import Spec, spec
    from symgrad.trace.tracer import Tracer
    from symgrad.train.files import load, save
    from symgrad.train.fit import fit

__all__ = [
    "Function", "NoGradient", "Options", "Package", "RowSparse", "Spec", "Step", "SymgradError", "SymgradWarning",
    "Tracer", "argwhere", "check_grads", "checkpoint", "compile_step", "cond", "custom_jvp", "custom_vjp", "dask",
    "define_op", "emit", "extern", "features", "fit", "flatnonzero", "fori_loop", "from_sympy", "get_num_threads",
    "grad", "gradients", "hessian", "hvp", "jacfwd", "jacrev", "jit", "jvp", "linalg", "linearize", "load", "named",
    "nn", "nonzero", "optim", "override_gradient", "ravel_pytree", "save", "scan", "set_num_threads", "spec",
    "stop_gradient", "switch", "tree_flatten", "tree_map", "tree_paths", "unique", "value_and_grad", "vjp", "vmap",
    "while_loop",
]

_NAMES = {
    "api.call.function": "Function", "api.check": "check_grads", "api.formulas": "from_sympy",
    "api.modes.control": "checkpoint cond fori_loop scan switch while_loop",
    "api.modes.derivatives": "grad hessian hvp jacfwd jacrev jit value_and_grad",
    "api.modes.gradients": "gradients stop_gradient", "api.modes.linearize": "jvp linearize vjp",
    "api.modes.vmap": "vmap", "api.rules.custom": "custom_jvp custom_vjp", "api.rules.define": "define_op extern",
    "api.rules.override": "override_gradient", "api.sized": "argwhere flatnonzero nonzero unique",
    "api.sparse.rows": "RowSparse", "api.step.step": "Step compile_step",
    "api.trees": "ravel_pytree tree_flatten tree_map tree_paths", "build.threads": "get_num_threads set_num_threads",
    "emit.emit": "emit", "emit.files": "Package", "options": "Options", "trace.overrides": "named",
    "trace.signature": "Spec spec", "trace.tracer": "Tracer", "train": "fit load save",
}
_LATE = {name: f"symgrad.{module}" for module, names in _NAMES.items() for name in names.split()}
"""Where each name is: imported when it is asked for, so that ``import symgrad`` takes little more than NumPy's."""

import_module("symgrad.emit")
del globals()["emit"]  # the room of that name, which would hide the function when something in it is imported


def __getattr__(name: str) -> Any:
    """Import a name or a room when it is asked for."""
    if name in _LATE:
        found = getattr(import_module(_LATE[name]), name)
    elif name == "linalg":
        found = import_module("symgrad.api.linalg")
    elif not name.startswith("_") and find_spec(f"symgrad.{name}") is not None:
        return import_module(f"symgrad.{name}")
    else:
        raise AttributeError(f"module 'symgrad' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """List what there is, also what was not asked for yet."""
    return sorted({*globals(), *__all__})
