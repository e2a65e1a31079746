"""Measure what each weight format costs in quality, against fp32 arithmetic on the same weights.

    python benchmarks/quality.py [--model default] [--tokens 4096] [--text FILE ...]

Per format: perplexity of the text, the mean and the 99th percentile of the Kullback-Leibler
divergence of the next token's distribution from fp32's (in nats), and how often the most likely
token is the same. The text is the documentation of this repository unless files are named. It is
read in windows of 512 tokens.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

import torch
from tokenizers import Tokenizer

from headrace_server.engine.model_runner import BatchRow
from headrace_server.engine.settings import EngineSettings
from headrace_server.models.kv_cache import allocate
from headrace_server.models.load import load_model
from headrace_server.models.resolve import resolve_model
from headrace_server.models.step_inputs import build_step_inputs

FORMATS = {
    "fp32": {"quantization": "none", "dtype": "float32"},
    "fp16": {"quantization": "fp16"},
    "int8": {"quantization": "int8"},
    "q4": {"quantization": "q4"},
}
WINDOW_TOKENS = 512
CHUNK_TOKENS = 128


class Reader:
    """A model in one format, and how it goes through windows of tokens."""

    def __init__(self, directory, settings):
        settings = EngineSettings(model=str(directory), device="cpu", **settings)
        loaded = load_model(directory, settings, ignore_progress)
        context_length = min(loaded.context_length, WINDOW_TOKENS)
        self._decoder = loaded.decoder
        self._cache = allocate(loaded.kv_shape, loaded.precision, settings, context_length)

    def log_probabilities(self, windows):
        """Yield the log-softmax of each window, float32 [tokens, vocabulary]."""
        block_size = self._cache.block_size
        blocks = range(WINDOW_TOKENS // block_size)
        for window in windows:
            chunks = []
            for start in range(0, len(window), CHUNK_TOKENS):
                chunk = window[start : start + CHUNK_TOKENS]
                row = BatchRow(0, chunk, start, blocks, None)
                step = build_step_inputs([row], block_size, torch.device("cpu"))
                step = dataclasses.replace(step, logit_tokens=torch.arange(len(chunk)))
                chunks.append(self._decoder.logits(step, self._cache))
            yield torch.cat(chunks).log_softmax(-1)


def ignore_progress(phase, fraction=None):
    pass


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="default")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--text", nargs="*", type=Path, default=None)
    arguments = parser.parse_args()
    root = Path(__file__).parent.parent
    paths = arguments.text or [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    text = "\n\n".join(path.read_text(encoding="utf-8") for path in paths)
    directory = resolve_model(arguments.model, ignore_progress)
    reference = Reader(directory, FORMATS["fp32"])
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    ids = tokenizer.encode(text).ids[: arguments.tokens]
    windows = [ids[at : at + WINDOW_TOKENS] for at in range(0, len(ids), WINDOW_TOKENS)]
    print(f"{len(ids)} tokens in windows of {WINDOW_TOKENS}")
    print(f"{'format':8} {'perplexity':>10} {'mean KL':>10} {'p99 KL':>10} {'same top':>9}")
    for name, settings in FORMATS.items():
        reader = Reader(directory, settings)
        losses, divergences, same = [], [], []
        with torch.inference_mode():
            pairs = zip(
                windows,
                reference.log_probabilities(windows),
                reader.log_probabilities(windows),
                strict=True,
            )
            for window, expected, actual in pairs:
                targets = torch.tensor(window[1:])[:, None]
                losses.append(-actual[:-1].gather(1, targets).flatten())
                divergences.append((expected.exp() * (expected - actual)).sum(-1))
                same.append(expected.argmax(-1) == actual.argmax(-1))
        divergence = torch.cat(divergences)
        print(
            f"{name:8} {torch.cat(losses).mean().exp():10.4f} {divergence.mean():10.2e} "
            f"{divergence.quantile(0.99):10.2e} {torch.cat(same).float().mean():9.2%}"
        )


if __name__ == "__main__":
    main()
