"""Attention over KV cache in blocks: a plan once per step, and a kernel once per layer."""
