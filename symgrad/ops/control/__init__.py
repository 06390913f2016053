"""Ops that run programs: loops and branches."""
