"""One file per family of endpoints."""
