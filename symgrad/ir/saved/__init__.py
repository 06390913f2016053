"""Programs as JSON."""
