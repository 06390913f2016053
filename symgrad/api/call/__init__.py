"""A call: which function, which arguments, which compilation."""
