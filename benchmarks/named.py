"""``python -m benchmarks.named``: workloads with open extents beside the same compiled for their numbers."""

from __future__ import annotations

import functools
from typing import Any

import click
import numpy as np

import symgrad as sg
from benchmarks.measure import interleaved
from benchmarks.peers import leaves
from benchmarks.workloads import OTHERS, PROMISED

NAMES: dict[str, tuple[dict[Any, str], ...]] = {
    "rosenbrock n=2": ({0: "n"},),
    "rosenbrock n=100,000": ({0: "n"},),
    "logistic 200k x 50": ({1: "n,_", 2: "n"}, {0: "d", 1: "n,d", 2: "n"}),
    "black-scholes 1e6": ({0: "n", 1: "n"},),
    "gmm d10 K25": ({4: "n,_"}, {0: "k", 1: "k,d", 2: "k,d", 3: "k,d,d", 4: "n,d"}),
    "gmm d32 K50": ({4: "n,_"}, {0: "k", 1: "k,d", 2: "k,d", 3: "k,d,d", 4: "n,d"}),
    "mlp f64": ({1: "n,_", 2: "n"},),
    "mlp f32": ({1: "n,_", 2: "n"},),
    "softmax on digits": ({2: "n,_", 3: "n"}, {0: "d,k", 1: "k", 2: "n,d", 3: "n"}),
    "n-body 1,000": ({0: "n,_", 1: "n"},),
    "tanh loss 1e7": ({2: "n", 3: "n"},),
    "product 512^3": ({0: "m,k", 1: "k,n"},),
    "Cox, cumulative sums": ({1: "n,_", 2: "n"},),
    "layer norm": ({0: "n,_", 3: "n,_"}, {0: "n,d", 1: "d", 2: "d", 3: "n,d"}),
    "attention 256 x 32": (dict.fromkeys(range(4), "n,_"), dict.fromkeys(range(4), "n,d")),
    "kernel energy": ({0: "n", 2: "n,_"},),
    "small matrices": ({0: "n,_,_", 1: "n,_", 2: "n,_"},),
    "cross-entropy, labels": ({0: "n,_", 1: "n"}, {0: "n,k", 1: "n"}),
}
"""Axes by position: the samples' alone, and where it says something the features' and classes' too."""


def made(function: Any, by: Any, dynamic: Any) -> Any:
    """Compile a workload: with its gradient where it has one."""
    return sg.jit(function, dynamic=dynamic) if by is None else sg.value_and_grad(function, by, dynamic=dynamic)


@click.command()
@click.option("--only", default="", help="Workloads with this in their names.")
@click.option("--seconds", default=1.0, help="How long one workload is measured.")
def main(only: str, seconds: float) -> None:
    """Time calls with open extents beside calls of what was compiled for the numbers, in turn."""
    for work in (*PROMISED, *OTHERS):
        if work.name not in NAMES or only not in work.name:
            continue
        arguments = work.arguments()
        calls = {"": functools.partial(made(work.function, work.by, False), *arguments)}
        for names in NAMES[work.name]:
            words = " ".join(dict.fromkeys("".join(names.values()).replace("_", "").replace(",", "")))
            calls[words] = functools.partial(made(work.function, work.by, names), *arguments)
        results = [leaves(call()) for call in calls.values()]
        for result in results[1:]:
            for one, other in zip(results[0], result, strict=True):
                np.testing.assert_allclose(one, other, rtol=max(work.tolerance, 1e-9), atol=work.tolerance)
        times = interleaved(calls, seconds)
        shown = [f"{names}: {time * 1e6:10.1f}us x{time / times['']:.2f}" for names, time in times.items() if names]
        click.echo(f"{work.name:24} {times[''] * 1e6:10.1f}us | {' | '.join(shown)}")


if __name__ == "__main__":
    main()
