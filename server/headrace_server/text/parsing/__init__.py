"""Sorts what a model says into reasoning, text and calls of tools, as it comes. Pure."""
