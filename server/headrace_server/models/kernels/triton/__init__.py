"""Kernels in Triton for GPUs. Imported only where a model runs on one.

Sums, norms and softmax are in float32 whatever the format of the tensors; products of matrices
are left to cuBLAS, those inside of attention excepted.
"""
