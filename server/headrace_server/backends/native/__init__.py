"""The own engine, in a process of its own."""
