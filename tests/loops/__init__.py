"""Tests of the room that makes loops."""
