"""Compare Headrace with other servers on this machine; see README.md beside this file."""

from __future__ import annotations

import sys

from comparison.command import main

if __name__ == "__main__":
    sys.exit(main())
