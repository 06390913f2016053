"""``python -m symgrad``."""

from __future__ import annotations

from symgrad.cli.run import run

if __name__ == "__main__":
    run()
