"""The modes: Python on traced values."""
