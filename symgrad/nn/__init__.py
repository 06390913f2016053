"""Layers, initializers and losses as plain functions of NumPy: parameters in a dict, nothing registered anywhere.

>>> import numpy as np, symgrad as sg
>>> from symgrad import nn
>>> params = {"hidden": nn.init.dense(0, 2, 8), "out": nn.init.dense(1, 8, 1)}
>>> def model(params, x):
...     return nn.dense(params["out"], np.tanh(nn.dense(params["hidden"], x)))[:, 0]
>>> x = np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]])
>>> grads = sg.grad(lambda p: np.mean(nn.sigmoid_cross_entropy(model(p, x), np.array([1.0, 0.0, 1.0]))))(params)
>>> grads["hidden"]["W"].shape
(2, 8)

A parameter's name is its path in the tree; it is shared where the same leaf is passed twice, and frozen where nobody
asks for its gradient. Layers are compiled as users' own code is, and run on plain arrays without being compiled.
"""

from __future__ import annotations

from symgrad.nn import init
from symgrad.nn.layers import attention, batch_norm, dense, dropout, embedding, layer_norm
from symgrad.nn.losses import sigmoid_cross_entropy, softmax_cross_entropy
from symgrad.nn.recurrent import gru, lstm
from symgrad.nn.windows import avg_pool, conv1d, conv2d, max_pool

__all__ = [
    "attention", "avg_pool", "batch_norm", "conv1d", "conv2d", "dense", "dropout", "embedding", "gru", "init",
    "layer_norm", "lstm", "max_pool", "sigmoid_cross_entropy", "softmax_cross_entropy",
]
