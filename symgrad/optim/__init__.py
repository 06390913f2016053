"""Optimizers in NumPy: compiled with the loss, or used as they are.

>>> import numpy as np, symgrad as sg
>>> opt = sg.optim.chain(sg.optim.clip_by_global_norm(1.0), sg.optim.adam(0.1))
>>> loss = sg.value_and_grad(lambda p: np.sum((p["w"] - 3.0) ** 2))
>>> params = {"w": np.zeros(2)}
>>> state = opt.init(params)
>>> for _ in range(200):
...     value, grads = loss(params)
...     params, state = opt.update(params, grads, state)
>>> np.round(params["w"], 3)
array([3., 3.])

A method that needs the value again and again, L-BFGS, is SciPy's:
``scipy.optimize.minimize(sg.value_and_grad(loss), x, jac=True, method="L-BFGS-B")``.
"""

from __future__ import annotations

from symgrad.optim.methods import (
    adadelta,
    adagrad,
    adagrad_da,
    adam,
    adamax,
    adamw,
    amsgrad,
    clip_by_global_norm,
    clip_by_norm,
    clip_by_value,
    ema,
    ftrl,
    lion,
    momentum,
    nadam,
    proximal_adagrad,
    proximal_sgd,
    rmsprop,
    sgd,
)
from symgrad.optim.optimizer import Optimizer, Schedule, chain, optimizer
from symgrad.optim.schedules import (
    constant,
    cosine_decay,
    cosine_restarts,
    exponential_decay,
    inverse_time_decay,
    linear_cosine_decay,
    natural_exp_decay,
    piecewise_constant,
    polynomial_decay,
    schedule,
    warmup,
)

__all__ = [
    "Optimizer", "Schedule", "adadelta", "adagrad", "adagrad_da", "adam", "adamax", "adamw", "amsgrad", "chain",
    "clip_by_global_norm", "clip_by_norm", "clip_by_value", "constant", "cosine_decay", "cosine_restarts", "ema",
    "exponential_decay", "ftrl", "inverse_time_decay", "linear_cosine_decay", "lion", "momentum", "nadam",
    "natural_exp_decay", "optimizer", "piecewise_constant", "polynomial_decay", "proximal_adagrad", "proximal_sgd",
    "rmsprop", "schedule", "sgd", "warmup",
]
