"""symgrad: write a loss in plain NumPy; get the C function that computes its value and gradient.

>>> import numpy as np, symgrad as sg
>>> sg.grad(lambda x: np.sum(np.sin(x)))(np.zeros(2))
array([1., 1.])
"""

from __future__ import annotations

from symgrad.api import linalg
from symgrad.api.call.function import Function
from symgrad.api.check import check_grads
from symgrad.api.modes.control import checkpoint, cond, fori_loop, scan, switch, while_loop
from symgrad.api.modes.derivatives import grad, hessian, hvp, jacfwd, jacrev, jit, value_and_grad
from symgrad.api.modes.gradients import gradients, stop_gradient
from symgrad.api.modes.linearize import jvp, linearize, vjp
from symgrad.api.modes.vmap import vmap
from symgrad.api.rules.custom import custom_jvp, custom_vjp
from symgrad.api.rules.define import define_op, extern
from symgrad.api.rules.override import override_gradient
from symgrad.api.trees import ravel_pytree
from symgrad.build.threads import get_num_threads, set_num_threads
from symgrad.emit.emit import emit
from symgrad.emit.files import Package
from symgrad.errors import NoGradient, SymgradError, SymgradWarning
from symgrad.options import Options
from symgrad.trace.overrides import named
from symgrad.trace.signature import Spec, spec
from symgrad.trace.tracer import Tracer

__version__ = "0.1.0"

__all__ = [
    "Function", "NoGradient", "Options", "Package", "Spec", "SymgradError", "SymgradWarning", "Tracer", "check_grads",
    "checkpoint", "cond", "custom_jvp", "custom_vjp", "define_op", "emit", "extern", "fori_loop", "get_num_threads",
    "grad", "gradients", "hessian", "hvp", "jacfwd", "jacrev", "jit", "jvp", "linalg", "linearize", "named",
    "override_gradient", "ravel_pytree", "scan", "set_num_threads", "spec", "stop_gradient", "switch", "value_and_grad",
    "vjp", "vmap", "while_loop",
]
