"""Rewriting by example: `engine` applies tables of pairs of NumPy functions; `safer` and `cheaper` are the two."""
