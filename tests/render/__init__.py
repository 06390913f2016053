"""Tests of the room that prints C."""
