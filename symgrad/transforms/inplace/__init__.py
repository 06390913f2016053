"""Writes into arrays as nodes that share and fuse."""
