"""What happens inside of a nest of loops: layouts, borders, lanes, interrupts, and functions of their own."""
