"""Logistic regression on ten million rows that stay on the disk: Dask's chunks, symgrad's gradient, SciPy's BFGS.

The rows are written to two files first (360 MB). A gradient maps them chunk by chunk; what is in memory at a time are
the chunks under way. The program ends with an error when the weights are not found, or when it needs half of the data's
memory of its own. With a file name it draws how the weights come to those that the signs were drawn with (matplotlib).
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from pathlib import Path

import dask.array as da
import numpy as np
from scipy.optimize import minimize

import symgrad.dask

ROWS, CHUNK = 10_000_000, 500_000
TRUE = np.array([0.5, -1.0, 0.25, 2.0, 0.0, -0.5, 1.0, -2.0])


def loss(w, X, y):
    """Mean logistic loss: log(1 + exp(-sign * score))."""
    return np.mean(np.logaddexp(0.0, -y * (X @ w)))


def write(folder):
    """Write rows and their signs to files, a chunk at a time."""
    rng = np.random.default_rng(0)
    X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float32, (ROWS, len(TRUE)))
    y = np.lib.format.open_memmap(folder / "y.npy", "w+", np.float32, (ROWS,))
    for k in range(0, ROWS, CHUNK):
        X[k : k + CHUNK] = drawn = rng.standard_normal((CHUNK, len(TRUE)), np.float32)
        y[k : k + CHUNK] = np.where(rng.random(CHUNK) < 1.0 / (1.0 + np.exp(-drawn @ TRUE)), 1.0, -1.0)


def own_memory():
    """Return the megabytes of this process that are no file's; 0 where the system does not tell."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1e3


def watch(used, over):
    """Note the memory that is used, a hundred times a second."""
    while not over.wait(0.01):
        used.append(own_memory())


def plot(path, ways):
    """Draw the weights after each step of BFGS, and those that the signs were drawn with."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
    axes.plot(ways, marker=".")
    axes.hlines(TRUE, 0, len(ways) - 1, colors="0.7", linestyles="dotted")
    axes.set(xlabel="step of BFGS", ylabel="weights")
    figure.savefig(path, dpi=100)


def main(path=None) -> int:
    """Write, fit; 0 when the weights are those that the rows were drawn with."""
    with tempfile.TemporaryDirectory() as name:
        folder, since = Path(name), time.perf_counter()
        write(folder)
        size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
        print(f"{ROWS} rows, {size:.0f} MB, written in {time.perf_counter() - since:.1f} s")

        X, y = [da.from_array(np.load(folder / f"{one}.npy", mmap_mode="r"), chunks=(CHUNK, -1)[:k])
                for one, k in (("X", 2), ("y", 1))]
        value_and_grad = symgrad.dask.value_and_grad(loss, chunked=("X", "y"))
        used, over, since = [own_memory()], threading.Event(), time.perf_counter()
        threading.Thread(target=watch, args=(used, over), daemon=True).start()
        ways = [np.zeros(len(TRUE))]
        fit = minimize(
            value_and_grad, ways[0], (X, y), jac=True, method="BFGS", options={"gtol": 1e-6}, callback=ways.append,
        )
        seconds = time.perf_counter() - since
        over.set()
    far, more = np.max(np.abs(fit.x - TRUE)), max(used) - used[0]
    print(f"{fit.nfev} gradients in {seconds:.1f} s, with at most {more:.0f} MB of the process's own memory")
    print(f"weights {' '.join([f'{w:.3f}' for w in fit.x])}, at most {far:.4f} from those that made the signs")
    if path:
        plot(path, ways)
    return 0 if far < 0.01 and more < size / 2 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
