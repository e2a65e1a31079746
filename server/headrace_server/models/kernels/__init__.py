"""Compiled kernels: their sources, the build, and the bindings."""
