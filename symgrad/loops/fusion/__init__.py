"""Which statements share a loop, in which tiles it runs, and which threads take them."""
