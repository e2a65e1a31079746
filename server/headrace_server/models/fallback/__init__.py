"""Decoders of transformers over the engine's own KV cache, for what the own decoder is not."""
