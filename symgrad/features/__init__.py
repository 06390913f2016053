"""Columns of tables as inputs of models: numbers, buckets, words, hashes, crosses, indicators and embeddings.

>>> import numpy as np, symgrad as sg
>>> from symgrad import features as ft
>>> columns = [ft.numeric("price"), ft.embedding(ft.hashed("words", 1000), 4)]
>>> params = ft.init(columns, seed=0) | {"w": np.ones(5)}
>>> batch = ft.encode(columns, {"price": [1.0, 2.5], "words": [["a", "small", "car"], ["boat"]]})
>>> grads = sg.grad(lambda params, batch: np.sum(ft.dense(columns, params, batch) @ params["w"]))(params, batch)
>>> grads["words_embedding"].shape
(1000, 4)

A column is a frozen value: it says what becomes of a field, and holds no state; tables stand in the parameters, by the
column's name. Strings become ids on the host (`encode`); what comes after (`dense`) is compiled with the model.
"""

from __future__ import annotations

from symgrad.features.columns import (
    bucketized,
    crossed,
    embedding,
    hashed,
    identity,
    indicator,
    numeric,
    vocabulary,
    vocabulary_file,
    weighted,
)
from symgrad.features.fingerprint import fingerprint64
from symgrad.features.tables import dense, encode, init

__all__ = [
    "bucketized", "crossed", "dense", "embedding", "encode", "fingerprint64", "hashed", "identity", "indicator", "init",
    "numeric", "vocabulary", "vocabulary_file", "weighted",
]
