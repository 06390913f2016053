"""From the arguments of a Python call to C and back."""
