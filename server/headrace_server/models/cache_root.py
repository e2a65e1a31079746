"""Where what was made once for this user is kept: converted models and compiled kernels."""

from __future__ import annotations

import os
from pathlib import Path


def cache_root() -> Path:
    """Return ``HEADRACE_CACHE_DIR``, or `headrace` in the user's cache directory."""
    if own := os.environ.get("HEADRACE_CACHE_DIR"):
        return Path(own).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).expanduser().resolve() / "headrace"
