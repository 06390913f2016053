"""The training step: value, gradient and update of parameters as one compiled function."""
