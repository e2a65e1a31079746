"""Compares a fallback's steps with the model's own plain forward, before anybody is served."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from headrace_server.engine.model_runner import BatchRow, ModelLoadError, RowSampling
from headrace_server.models.fallback.attention import PAGED
from headrace_server.models.kv_cache import take_blocks
from headrace_server.models.step_inputs import build_step_inputs

if TYPE_CHECKING:
    from headrace_server.models.fallback.decoder import TransformersDecoder
    from headrace_server.models.fallback.trial import AttentionNeeds

_NUM_TOKENS = 24
_BLOCK_SIZE = 4
_BLOCKS_PER_SEQUENCE = _NUM_TOKENS // _BLOCK_SIZE

# How far logits may be from their like, as a share of their length. What is wrong in kind, such
# as a mask, a position or a neighbour's key, is off by several tenths or more in most rows.
_TOLERANCE = 1e-3
# Of fewer bits the median counts: where a model picks experts, a rounding may pick others.
_ROUNDED_TOLERANCE = 0.1

_SAMPLING = RowSampling(
    position=1, temperature=0.0, top_k=None, top_p=1.0, min_p=0.0, seed=0, banned_token_ids=()
)


def check_steps(decoder: TransformersDecoder, needs: AttentionNeeds, vocabulary_size: int) -> None:
    """Compute two prompts in parts, side by side, and plainly.

    Raises:
        ModelLoadError: the logits differ, so answers would be wrong.
    """
    device = decoder.precision.device
    generator = torch.Generator().manual_seed(0)
    prompts = torch.randint(vocabulary_size, (2, _NUM_TOKENS), generator=generator)
    cache = take_blocks(needs, decoder.precision, 2 * _BLOCKS_PER_SEQUENCE, _BLOCK_SIZE)
    for layer in cache.layers:  # what no row has written must not reach one
        layer.keys.fill_(torch.nan)
        layer.values.fill_(torch.nan)
    half, last = _NUM_TOKENS // 2, _NUM_TOKENS - 1
    steps = (
        [(0, 0, half)],
        [(0, half, last), (1, 0, half + 1)],
        [(0, last, _NUM_TOKENS), (1, half + 1, half + 2)],
    )
    errors: list[torch.Tensor] = []
    with torch.inference_mode():
        decoder.model.set_attn_implementation("eager")
        expected = [_plain_logits(decoder, prompt.to(device)) for prompt in prompts]
        decoder.model.set_attn_implementation(PAGED)
        for parts in steps:
            rows = [_row(prompts[index], index, start, end) for index, start, end in parts]
            step = build_step_inputs(rows, _BLOCK_SIZE, device)
            actual = decoder.logits(step, cache)
            wanted = [expected[parts[row][0]][parts[row][2] - 1] for row in step.sampled_rows]
            errors.append(_relative_errors(actual, torch.stack(wanted)))
    if not _is_alike(torch.cat(errors), decoder.precision.activations):
        raise ModelLoadError(
            f"{type(decoder.model).__name__} cannot be served: computed in steps it gives other "
            "answers than at once; see docs/models.md."
        )


def _row(prompt: torch.Tensor, index: int, start: int, end: int) -> BatchRow:
    first = index * _BLOCKS_PER_SEQUENCE
    return BatchRow(
        sequence_id=index,
        token_ids=prompt[start:end].tolist(),
        start=start,
        block_ids=range(first, first + _BLOCKS_PER_SEQUENCE),
        sampling=_SAMPLING,
    )


def _plain_logits(decoder: TransformersDecoder, prompt: torch.Tensor) -> torch.Tensor:
    logits: torch.Tensor = decoder.model(input_ids=prompt[None], use_cache=False).logits[0].float()
    return logits


def _relative_errors(actual: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Return how far each row is from its like, [rows]."""
    errors: torch.Tensor = (actual - expected).norm(dim=1) / expected.norm(dim=1)
    return errors


def _is_alike(errors: torch.Tensor, activations: torch.dtype) -> bool:
    if activations == torch.float32:
        return bool((errors <= _TOLERANCE).all())  # NaN is not
    return bool(errors.median() <= _ROUNDED_TOLERANCE)
