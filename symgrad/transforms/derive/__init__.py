"""Derivatives: reverse and forward mode, batches, and the guards of cotangents."""
