"""The tests; their folders mirror the rooms of symgrad/."""
