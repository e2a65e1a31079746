"""Tiny models of each family, loaded runners, and batches with interleaved blocks."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import headrace_server.models  # noqa: F401  # first, for it settles how products are computed
from headrace_server.engine.model_runner import BatchRow, RowSampling
from headrace_server.engine.settings import EngineSettings
from headrace_server.models.runner import TorchRunner, load_plain, start_runner
from headrace_server.models.step_inputs import build_step_inputs

GREEDY = {"temperature": 0.0, "top_k": None, "top_p": 1.0, "min_p": 0.0}


class Sequences:
    """Rows for a runner, whose blocks are taken in random order from the whole KV cache."""

    def __init__(self, runner: TorchRunner, seed: int = 0) -> None:
        self.runner = runner
        self._block_size = runner.description.block_size
        self._free = list(range(runner.description.num_blocks))
        random.Random(seed).shuffle(self._free)
        self.tokens: list[list[int]] = []
        self.num_computed: list[int] = []
        self._blocks: list[list[int]] = []

    def add(self, tokens: Sequence[int]) -> int:
        self.tokens.append(list(tokens))
        self.num_computed.append(0)
        self._blocks.append([])
        return len(self.tokens) - 1

    def row(self, sequence: int, num_tokens: int | None = None, **sampling) -> BatchRow:
        """Compute the next `num_tokens` of a sequence, by default all that are left."""
        start = self.num_computed[sequence]
        end = len(self.tokens[sequence]) if num_tokens is None else start + num_tokens
        self.num_computed[sequence] = end
        blocks = self._blocks[sequence]
        while len(blocks) * self._block_size < end:
            blocks.append(self._free.pop())
        return BatchRow(
            sequence_id=sequence,
            token_ids=self.tokens[sequence][start:end],
            start=start,
            block_ids=list(blocks),
            sampling=RowSampling(
                position=end, **({"seed": 0, "banned_token_ids": ()} | GREEDY | sampling)
            ),
        )

    def logits(self, rows: Sequence[BatchRow]):
        """Compute a step: the logits of each row, in the order of `rows`."""
        import torch

        runner = self.runner
        with torch.inference_mode():
            step = build_step_inputs(rows, self._block_size, runner._precision.device)
            logits = runner._decoder.logits(step, runner._cache)
        return logits[torch.tensor(step.sampled_rows).argsort()]

    def step(self, rows: Sequence[BatchRow]) -> list[object]:
        """Compute a step and append what it chooses."""
        chosen = self.runner.forward(rows)
        for row, output in zip(rows, chosen, strict=True):
            if getattr(output, "token_id", None) is not None:
                self.tokens[row.sequence_id].append(output.token_id)
        return chosen


@pytest.fixture(scope="session", autouse=True)
def cache_directory(tmp_path_factory):
    """Conversions of the whole session go to one temporary cache."""
    with pytest.MonkeyPatch.context() as patch:
        directory = tmp_path_factory.mktemp("cache")
        patch.setenv("HEADRACE_CACHE_DIR", str(directory))
        yield directory


@pytest.fixture(scope="session")
def load_runner() -> Callable[..., TorchRunner]:
    def load_model(model: object, **settings) -> TorchRunner:
        return load_plain(EngineSettings(model=str(model), **settings), silent)

    return load_model


@pytest.fixture(scope="session")
def load_fallback_runner() -> Callable[..., TorchRunner]:
    """Load a model into the fallback, whether or not the own decoder computes it."""
    from headrace_server.models.fallback.load import load_fallback

    def load_model(model: Path, **settings) -> TorchRunner:
        engine = EngineSettings(model=str(model), **settings)
        loaded = load_fallback(model, engine, "Of no interest.", silent)
        return start_runner(loaded, model, engine, silent)

    return load_model


def silent(phase: str, fraction: float | None = None) -> None:
    """Tell nobody of the progress."""


@pytest.fixture(scope="session")
def make_sequences() -> type[Sequences]:
    return Sequences


@pytest.fixture(scope="session")
def default_runner(load_runner) -> TorchRunner:
    """The embedded default model."""
    return load_runner("default")


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    """Make a random model of an architecture and save it; returns the model and its directory."""
    import torch
    import transformers

    def make(architecture: str, **config):
        torch.manual_seed(0)
        model_class = getattr(transformers, architecture)
        shape = {
            "vocab_size": 97,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 8,
            "max_position_embeddings": 128,
            "initializer_range": 0.2,
            "pad_token_id": None,
        }
        model = model_class(model_class.config_class(**(shape | config))).eval()
        for parameter in model.parameters():  # biases and norms too, so that none goes unseen
            parameter.data.add_(torch.randn_like(parameter) * 0.05)
            parameter.data.copy_(parameter.data.half())  # so that fp16 weights are exact
        directory = tmp_path_factory.mktemp(architecture)
        model.save_pretrained(directory)
        return model, directory

    return make
