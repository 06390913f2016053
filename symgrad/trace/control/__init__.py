"""Python's own control flow: branches, loops by traced numbers, what a loop carries."""
