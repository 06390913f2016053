"""What answers functions of SciPy's in terms of modes: loops, batches, derivatives of one's own."""
