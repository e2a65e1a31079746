"""The fused operations of a decoder's step: the interface, plain torch, and compiled kernels."""
