"""Passes and derivatives: functions from program to program."""

from __future__ import annotations
