"""NumPy's functions in terms of ops."""
