"""What NumPy's functions, operators and indices mean for traced arrays."""
