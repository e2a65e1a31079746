"""How likely tokens are by the model's own distribution."""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING

import torch

from headrace_server.engine.logprobs import TokenLogprobs
from headrace_server.engine.model_runner import RowFault, RowOutput
from headrace_server.models.sampling.blocks import Blocks, exp_, sum_blocks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace_server.engine.model_runner import PromptLogprobs

# So many are always looked for, so that the choice between equals does not depend on what the
# neighbours want; no request may ask for more.
_NUM_TOP = 20

# Rows whose exponentials are in memory at once; they stay in the cache of a CPU.
_NUM_ROWS = 16


def token_logprobs(
    logits: torch.Tensor, token_ids: Sequence[int], num_tops: Sequence[int]
) -> list[TokenLogprobs | RowFault]:
    """Return the log probability of a token of each row, and those of the most likely.

    Args:
        logits: float32 [rows, vocabulary], as the model made them.
        token_ids: the token of each row.
        num_tops: how many of the most likely are wanted for each row; tokens that are impossible
            are not among them.

    Returns:
        One for each row; the fault where the logits hold NaN or infinity.
    """
    blocks = Blocks.of(logits)
    targets = torch.tensor(token_ids, device=logits.device)[:, None]
    found, top_ids = blocks.logits_of(targets), targets[:, :0]
    if max(num_tops) > 0:
        top_logits, top_ids = blocks.most_likely(max(_NUM_TOP, *num_tops))
        found = torch.cat((found, top_logits), dim=1)
    logprobs = (found - blocks.largest).double() - _log_mass(blocks)
    table, top_table = logprobs.tolist(), top_ids.tolist()
    return [_record(*row) for row in zip(table, top_table, num_tops, strict=True)]


def prompt_logprobs(
    logits: torch.Tensor, prompts: Sequence[PromptLogprobs]
) -> list[RowOutput | RowFault]:
    """Return an output without a token for each prompt.

    Args:
        logits: float32 [targets of all prompts, vocabulary], in the order of `prompts`.
        prompts: what is wanted.
    """
    targets = [target for prompt in prompts for target in prompt.target_token_ids]
    num_tops = [prompt.num_top for prompt in prompts for _ in prompt.target_token_ids]
    told = iter(token_logprobs(logits, targets, num_tops) if targets else ())
    return [_output(list(islice(told, len(prompt.target_token_ids)))) for prompt in prompts]


def _output(told: Sequence[TokenLogprobs | RowFault]) -> RowOutput | RowFault:
    logprobs = []
    for record in told:
        if isinstance(record, RowFault):
            return record
        logprobs.append(record)
    return RowOutput(None, prompt_logprobs=logprobs)


def _record(logprobs: list[float], top_ids: list[int], num_top: int) -> TokenLogprobs | RowFault:
    """Make the record of a row from the log probabilities of its token and of the most likely."""
    logprob, *top_logprobs = logprobs
    if math.isnan(logprob):
        return RowFault.NOT_A_NUMBER
    num_possible = sum(top > -math.inf for top in top_logprobs[:num_top])
    return TokenLogprobs(logprob, top_ids[:num_possible], top_logprobs[:num_possible])


def _log_mass(blocks: Blocks) -> torch.Tensor:
    """Return the log of the sum of all exponentials, where the largest is 1, [rows, 1]."""
    masses = [
        sum_blocks(exp_(logits - largest.unsqueeze(-1)))
        for logits, largest in zip(
            torch.split(blocks.logits, _NUM_ROWS),
            torch.split(blocks.largest, _NUM_ROWS),
            strict=True,
        )
    ]
    return torch.cat(masses).log_()
