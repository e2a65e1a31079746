"""Constraints of requests: checked and turned into grammars that the engine follows."""
