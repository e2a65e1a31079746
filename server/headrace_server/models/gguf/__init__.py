"""GGUF files: read once, and written as a model directory in the layout of transformers."""
