"""Attention over KV memory in blocks: a plan once per step, and a kernel once per layer."""
