"""How an op is declared, and what follows from the declaration."""
