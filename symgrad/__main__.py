"""``python -m symgrad``."""

from __future__ import annotations

import sys

from symgrad.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
