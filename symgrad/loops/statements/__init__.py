"""Statements in index notation: made of nodes, aligned, unrolled, rematerialized."""
