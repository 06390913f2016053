"""The losses that are timed, in plain NumPy, each as a person writes it."""
