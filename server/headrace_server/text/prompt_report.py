"""What an answer tells of its prompt: the counts, and how likely its tokens were. Never waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace_server.text.delta import PromptInfo
from headrace_server.text.logprobs import TextLogprobs, add_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace_server.engine.logprobs import TokenLogprobs
    from headrace_server.text.detokenizer import TokenDecoder


class PromptReport:
    """Collects what the next delta of an answer tells of the prompt.

    Args:
        token_ids: of the prompt; empty where they were not counted in time.
        decoder: of the model.
        wants_logprobs: whether log probabilities are told.
    """

    def __init__(
        self, token_ids: Sequence[int], decoder: TokenDecoder, *, wants_logprobs: bool
    ) -> None:
        self.token_count = len(token_ids)
        self._decoder = decoder
        self._missing = list(reversed(token_ids)) if wants_logprobs else []
        self._logprobs: list[TextLogprobs] = []
        self._info: PromptInfo | None = PromptInfo(self.token_count)

    @property
    def is_complete(self) -> bool:
        """Whether there are no more log probabilities to come."""
        return not self._missing

    @property
    def has_news(self) -> bool:
        """Whether there are log probabilities since the last `take_logprobs`."""
        return bool(self._logprobs)

    def start(self, num_cached_tokens: int) -> None:
        """Take note of the first step; the first token has no log probability to wait for."""
        self._info = PromptInfo(self.token_count, num_cached_tokens)
        if self._missing:
            token_id = self._missing.pop()
            self._logprobs.append(TextLogprobs(token_id, self._decoder.bytes_of(token_id), None))

    def add(self, logprobs: Iterable[TokenLogprobs]) -> None:
        """Add the log probabilities of the next tokens."""
        for each in logprobs:
            token_id = self._missing.pop()
            token_bytes = self._decoder.bytes_of(token_id)
            self._logprobs.append(add_bytes(each, token_id, token_bytes, self._decoder))

    def take_info(self) -> PromptInfo | None:
        """Return the counts, once."""
        info, self._info = self._info, None
        return info

    def take_logprobs(self) -> list[TextLogprobs]:
        """Return the log probabilities since the last time."""
        logprobs, self._logprobs = self._logprobs, []
        return logprobs
