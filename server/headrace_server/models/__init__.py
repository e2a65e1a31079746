"""Models: weights, the decoder, KV cache and sampling. The only place with torch."""

import os

# MKL picks its kernels by the alignment of the operands, so that the same row of a batch could
# round differently from step to step. This makes a product depend on its numbers alone; it costs
# nothing measurable. MKL reads it once, at the first product of the process.
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")

# OpenMP reads it when torch is loaded. Threads that sleep at once between two operations double the
# time of a step of one row; threads that spin for long, as they do by default, take the cores from
# the front, so that a step of a busy machine takes three times as long. This is about 0.1 ms.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")
