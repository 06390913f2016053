"""The C compiler: which one, what it can do, and how it is run."""
