"""Ops on arrays: contractions, reductions, views, gathers and writes."""
