"""Arrays of which a few rows or elements alone are there: row-sparse gradients, and SciPy's sparse matrices."""
