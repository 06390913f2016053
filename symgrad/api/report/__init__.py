"""What became of a program: counts, and words."""
