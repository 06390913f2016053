"""symgrad beside JAX, PyTorch, Dr.Jit and hand-written C, in one process: ``python -m benchmarks``."""
