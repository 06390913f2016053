"""SciPy's functions that are written in Python, traced."""
