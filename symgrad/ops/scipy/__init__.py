"""Answers for SciPy's functions, and for those inside of SciPy that its own Python asks."""
