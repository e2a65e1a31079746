"""Headrace: the client of the streaming inference service."""
