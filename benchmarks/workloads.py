"""The two lists: workloads with a promise each, and the same classes of program in other formulations."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.programs import classics, mechanics, mixtures, networks, regressions
from benchmarks.workload import Workload


def samples(rng: Any, n: int, d: int) -> tuple[Any, Any, Any]:
    """Draw weights, samples and labels of two classes."""
    return rng.normal(size=d) / 10, rng.normal(size=(n, d)), np.sign(rng.normal(size=n))


def single(arguments: Any) -> tuple[Any, ...]:
    return tuple(a.astype(np.float32) if a.dtype == np.float64 else a for a in arguments)


def digits(rng: Any) -> tuple[Any, ...]:
    """Draw the shape of scikit-learn's digits."""
    X = rng.integers(0, 17, size=(1797, 64)) / 16.0
    return rng.normal(scale=0.1, size=(64, 10)), np.zeros(10), X, rng.integers(0, 10, size=1797)


def mixture(d: int, k: int) -> Any:
    def draw(rng: Any) -> tuple[Any, ...]:
        return (
            rng.normal(size=k), rng.normal(size=(k, d)), rng.normal(scale=0.1, size=(k, d)),
            rng.normal(scale=0.1, size=(k, d, d)), rng.normal(size=(1000, d)),
        )

    return draw


def perceptron(dtype: Any) -> Any:
    def draw(rng: Any) -> tuple[Any, ...]:
        params = {
            "W1": rng.normal(scale=0.03, size=(784, 128)).astype(dtype), "b1": np.zeros(128, dtype),
            "W2": rng.normal(scale=0.1, size=(128, 10)).astype(dtype), "b2": np.zeros(10, dtype),
        }
        return params, rng.uniform(size=(128, 784)).astype(dtype), rng.integers(0, 10, size=128)

    return draw


def queries(n: int, d: int) -> Any:
    return lambda rng: tuple(rng.normal(size=(4, n, d)))


def process(n: int) -> Any:
    return lambda rng: (np.array([0.1, 0.2, -1.0]), rng.normal(size=(n, 3)), rng.normal(size=n))


SCHOOLS = (
    np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0]), np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0]),
)

PROMISED = (
    Workload("rosenbrock n=2", classics.rosenbrock, lambda rng: (rng.normal(size=2),),
             least=4, limit="rosenbrock", small=True),
    Workload("rosenbrock n=100,000", classics.rosenbrock, lambda rng: (rng.normal(size=100_000),),
             least=3, limit="rosenbrock", drjit=True, small=True),
    Workload("logistic 200k x 50", classics.logistic, lambda rng: samples(rng, 200_000, 50),
             least=2.5, limit="logistic"),
    Workload("black-scholes 1e6", classics.black_scholes,
             lambda rng: (rng.uniform(80, 120, 1_000_000), rng.uniform(0.1, 0.5, 1_000_000)),
             by=(0, 1), least=5, limit="black_scholes", drjit=True),
    Workload("gmm d10 K25", mixtures.gmm, mixture(10, 25), by=(0, 1, 2, 3), least=2, limit="gmm"),
    Workload("gmm d32 K50", mixtures.gmm, mixture(32, 50), by=(0, 1, 2, 3), least=4, limit="gmm"),
    Workload("gmm d64 K100", mixtures.gmm, mixture(64, 100), by=(0, 1, 2, 3), least=4, limit="gmm"),
    Workload("mlp f64", networks.mlp, perceptron(np.float64), least=1),
    Workload("mlp f32", networks.mlp, perceptron(np.float32), least=1, tolerance=1e-4),
    Workload("softmax on digits", networks.softmax_regression, digits, by=(0, 1), least=1.5, limit="softmax"),
    Workload("n-body 1,000", mechanics.n_body, lambda rng: (rng.normal(size=(1000, 3)), rng.uniform(size=1000)),
             least=5, limit="n_body", drjit=True),
    Workload("embedding bag 100k x 16", networks.embedding_bag,
             lambda rng: (rng.normal(size=(100_000, 16)), rng.normal(size=16),
                          rng.integers(0, 100_000, size=(4096, 20)), rng.normal(size=4096)),
             by=(0, 1)),
    Workload("eight schools", mixtures.eight_schools,
             lambda rng: (np.array(1.0), np.array(0.5), rng.normal(size=8), *SCHOOLS),
             by=(0, 1, 2), least=4, small=True),
    Workload("arm of 7 joints", mechanics.arm, lambda rng: (rng.normal(size=7), rng.normal(size=3)),
             least=8, small=True),
    Workload("tanh loss 1e7", classics.tanh_loss,
             lambda rng: (np.array(0.7), np.array(0.1), rng.normal(size=10_000_000), rng.normal(size=10_000_000)),
             by=(0, 1), limit="tanh_loss", drjit=True),
    Workload("Gaussian process n=50", regressions.gaussian_process, process(50), least=1, small=True),
    Workload("Gaussian process n=300", regressions.gaussian_process, process(300), least=1),
    Workload("product 512^3", classics.product, lambda rng: tuple(rng.normal(size=(2, 512, 512))),
             by=None, limit="product"),
)


def poisson(rng: Any) -> tuple[Any, ...]:
    w, X, _ = samples(rng, 100_000, 30)
    return w, X, rng.poisson(2.0, 100_000).astype(float), rng.uniform(size=100_000)


def normalized(n: int, d: int) -> Any:
    return lambda rng: (rng.normal(size=(n, d)), rng.normal(size=d), rng.normal(size=d), rng.normal(size=(n, d)))


def labels(rng: Any) -> tuple[Any, ...]:
    return rng.normal(size=(10_000, 100)), rng.integers(0, 100, size=10_000)


def targets(rng: Any) -> tuple[Any, ...]:
    w, X, _ = samples(rng, 100_000, 30)
    return w, X, X @ w + rng.normal(size=100_000)


def ratings(rng: Any) -> tuple[Any, ...]:
    return (
        rng.normal(size=(5000, 16)), rng.normal(size=(2000, 16)), rng.integers(0, 5000, size=100_000),
        rng.integers(0, 2000, size=100_000), rng.normal(size=100_000),
    )


def transposed(rng: Any) -> tuple[Any, ...]:
    w, X, y = samples(rng, 100_000, 50)
    return w, np.ascontiguousarray(X.T), y


def fortran(rng: Any) -> tuple[Any, ...]:
    w, X, y = samples(rng, 100_000, 50)
    return w, np.asfortranarray(X), y


def batch_of_rows(rng: Any) -> tuple[Any, ...]:
    """Draw 256 of 20,000 rows."""
    return (
        rng.normal(size=(784, 10)) * 0.01, np.zeros(10), rng.uniform(size=(20_000, 784)),
        rng.integers(0, 10, size=20_000), rng.integers(0, 20_000, size=256),
    )


OTHERS = (
    Workload("masked logistic", regressions.masked_logistic,
             lambda rng: (*samples(rng, 100_000, 30), rng.uniform(size=100_000) < 0.8)),
    Workload("weighted Poisson", regressions.weighted_poisson, poisson),
    Workload("logistic f32", classics.logistic, lambda rng: single(samples(rng, 200_000, 50)), tolerance=1e-4),
    Workload("logistic, Fortran order", classics.logistic, fortran),
    Workload("linear, features first", regressions.features_first, transposed),
    Workload("Huber", regressions.huber, targets),
    Workload("quantile", regressions.quantile, targets),
    Workload("Cox, cumulative sums", regressions.cox,
             lambda rng: (*samples(rng, 50_000, 20)[:2], (rng.uniform(size=50_000) < 0.7).astype(float))),
    Workload("matrix factorization", regressions.factorization, ratings, by=(0, 1)),
    Workload("kernel energy", regressions.kernel_energy,
             lambda rng: (rng.normal(size=800), np.array(0.1), rng.normal(size=(800, 5))), by=(0, 1)),
    Workload("batch norm", networks.batch_norm, normalized(4096, 64), by=(0, 1, 2)),
    Workload("layer norm", networks.layer_norm, normalized(4096, 64), by=(0, 1, 2)),
    Workload("attention 256 x 32", networks.attention, queries(256, 32), by=(0, 1, 2)),
    Workload("attention 512 x 64", networks.attention, queries(512, 64), by=(0, 1, 2)),
    Workload("cross-entropy, labels", networks.cross_entropy, labels),
    Workload("softmax, rows by number", networks.rows_by_number, batch_of_rows, by=(0, 1)),
    Workload("Gaussian divergence", networks.divergence,
             lambda rng: tuple(rng.normal(size=(2, 20_000, 10))), by=(0, 1)),
    Workload("softmax over axis 0", networks.softmax_over_rows, lambda rng: tuple(rng.normal(size=(2, 10, 50_000)))),
    Workload("heat, 4 steps", mechanics.heat,
             lambda rng: (rng.normal(size=100_000), np.array(0.2), rng.normal(size=100_000)), by=(0, 1)),
    Workload("Laplace 2-D", mechanics.laplace,
             lambda rng: (rng.normal(size=(1000, 1000)), rng.normal(size=(998, 998)))),
    Workload("small matrices", mechanics.turned,
             lambda rng: (rng.normal(size=(50_000, 3, 3)), rng.normal(size=(50_000, 3)), rng.normal(size=(50_000, 3))),
             by=(0, 1)),
    Workload("filter, step by step", mechanics.filtered,
             lambda rng: (np.array([0.5, 0.2]), rng.normal(size=60), rng.normal(size=60)), small=True),
    Workload("repulsion, no diagonal", mechanics.repulsion, lambda rng: (rng.normal(size=(800, 3)),)),
    Workload("logistic, two branches", regressions.branches, lambda rng: samples(rng, 100_000, 20)),
)
