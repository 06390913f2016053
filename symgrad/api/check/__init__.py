"""Derivatives compared with numerical ones."""
