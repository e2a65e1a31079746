"""What a run is to be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """The size of a run.

    Args:
        num_streams: requests at the same time, at least 1.
        num_requests: that are measured, at least 1.
        num_warmup_requests: before those, not measured.
        num_prompt_tokens: of each prompt, at least 1.
        num_output_tokens: of each answer, at least 1.
        seed: of the prompts; None makes others each time.
    """

    num_streams: int
    num_requests: int
    num_warmup_requests: int
    num_prompt_tokens: int
    num_output_tokens: int
    seed: int | None
