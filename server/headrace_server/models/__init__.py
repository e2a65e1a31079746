"""Models: weights, the decoder, KV cache and sampling. The only place with torch."""

import os

# MKL picks its kernels by the alignment of the operands, so that the same row of a batch could
# round differently from step to step. This makes a product depend on its numbers alone; it costs
# nothing measurable. MKL reads it once, at the first product of the process.
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
