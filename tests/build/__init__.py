"""Tests of the room that compiles, caches and loads."""
