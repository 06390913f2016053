"""Libraries on disk."""
