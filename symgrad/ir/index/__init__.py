"""Extents, shapes and indices: what an array operation means, element by element, and which elements it touches."""
