"""The models: the only place with torch."""
