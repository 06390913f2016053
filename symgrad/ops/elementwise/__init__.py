"""Ops that are a formula for each element."""
