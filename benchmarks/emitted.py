"""Times emitted modules against the compiled functions they come from: ``python -m benchmarks.emitted``.

A module is built by its own Makefile's flags; both are called on the same arrays and by the same number of threads.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
from cffi import FFI

import symgrad as sg
from benchmarks.measure import interleaved
from benchmarks.programs.classics import black_scholes

THREADS = 2


def logistic(w, X, y):
    return np.mean(np.logaddexp(0.0, -y * (X @ w))) + 1e-3 * np.sum(w**2)


def workloads() -> dict[str, tuple[Callable[..., Any], dict[str, str], Any, dict[str, np.ndarray]]]:
    """Return functions, specs, what to differentiate by, and arguments."""
    rng = np.random.default_rng(0)
    million = {"spot": rng.uniform(50, 150, 1_000_000), "sigma": rng.uniform(0.1, 0.5, 1_000_000)}
    points = {"w": 0.1 * rng.normal(size=50), "X": rng.normal(size=(200_000, 50))}
    points["y"] = np.sign(points["X"][:, 0] + rng.normal(size=200_000))
    return {
        "Black-Scholes, 1,000,000": (black_scholes, dict.fromkeys(million, "f64[n]"), (0, 1), million),
        "logistic regression, 200,000 x 50": (logistic, {"w": "f64[d]", "X": "f64[n,d]", "y": "f64[n]"}, 0, points),
        "the same, 50 known": (logistic, {"w": "f64[50]", "X": "f64[n,50]", "y": "f64[n]"}, 0, points),
    }


def emitted(fun: Callable[..., Any], specs: Any, wrt: Any, arguments: dict[str, np.ndarray], folder: Path) -> Any:
    """Emit, build as a shared library by the Makefile's own flags, load, and bind to arrays."""
    package = sg.emit(fun, specs, folder / "module", wrt=wrt, profile="fast")
    subprocess.run(["make", "-s", "check"], cwd=package.folder, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(
        ["make", "-s", "-B", "module.o", "CC=cc -fPIC"], cwd=package.folder, check=True, stdout=subprocess.DEVNULL
    )
    library = package.folder / "module.so"
    subprocess.run(["cc", "-shared", "-fopenmp", "module.o", "-lm", "-o", library.name], cwd=package.folder, check=True)
    header = (package.folder / "module.h").read_text()
    ffi = FFI()
    ffi.cdef("\n".join(re.findall(r"^int(?:32|64)_t \w+\([^)]*\);", header, re.MULTILINE)))
    c = ffi.dlopen(str(library))
    shapes = {name: a.shape for name, a in arguments.items()}
    bars = [np.empty(shapes[name]) for name in [*arguments][: len(wrt) if isinstance(wrt, tuple) else 1]]
    outputs = [np.empty(()), *bars]
    pairs = [pair for name, spec in specs.items() for pair in zip(spec[4:-1].split(","), shapes[name], strict=True)]
    extents = {dim: size for dim, size in pairs if dim.isidentifier()}
    numbers = [*extents.values(), THREADS]
    workspace = np.empty(c.module_workspace_bytes(*numbers) + 1, np.uint8)
    pointers = [ffi.from_buffer("double[]", a) for a in [*arguments.values(), *outputs]]
    given = [*pointers, *numbers, ffi.from_buffer(workspace)]

    def call() -> Any:
        assert c.module(*given) == 0  # noqa: S101 - a status
        return outputs

    return call


@click.command()
@click.option("--seconds", type=float, default=4.0, show_default=True, help="For each workload.")
def main(seconds: float) -> None:
    """Print milliseconds of both, of the same extents open, and their ratio."""
    for name, (fun, specs, wrt, arguments) in workloads().items():
        options = sg.Options(threads=THREADS)
        same = sg.value_and_grad(fun, wrt, specs=tuple(specs.values()), options=options).bind(*arguments.values())
        with tempfile.TemporaryDirectory() as folder:
            module = emitted(fun, specs, wrt, arguments, Path(folder))
            for mine, theirs in zip(module(), [*_flat(same())], strict=True):
                np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12)
            times = interleaved({"emitted": module, "compiled": same}, seconds)
        told = ", ".join(f"{k} {1e3 * t:.3f} ms" for k, t in times.items())
        click.echo(f"{name}: {told}; {times['emitted'] / times['compiled']:.2f}")


def _flat(result: Any) -> list[Any]:
    value, gradient = result
    return [value, *(gradient if isinstance(gradient, tuple) else (gradient,))]


if __name__ == "__main__":
    main()
