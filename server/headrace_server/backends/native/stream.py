"""The stream of one request: a slot that merges what its reader has not taken yet."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace_server.backends.interface import PromptTokens, Started, Tokens
from headrace_server.errors import RequestFailedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace_server.backends.interface import BackendEvent, BackendFinish
    from headrace_server.engine.logprobs import TokenLogprobs
    from headrace_server.engine.messages import SequenceOutput
    from headrace_server.errors import RequestError


class TokenStream:
    """Implements `BackendStream`; the backend fills it without waiting.

    What is not read yet is bounded: at most `max_output_tokens` ids for each candidate and the
    log probabilities of these and of the prompt.

    Args:
        sequence_ids: the ids between the processes, one for each candidate.
        request_id: the id in the logs.
        num_prompt_tokens: what the prompt counts in the queue.
        abort: tells the engine to stop a sequence.
    """

    def __init__(
        self,
        sequence_ids: range,
        request_id: str,
        num_prompt_tokens: int,
        abort: Callable[[int], None],
    ) -> None:
        self.sequence_ids = sequence_ids
        self.request_id = request_id
        self._num_prompt_tokens = num_prompt_tokens
        self._abort = abort
        self._candidates = [_Candidate() for _ in sequence_ids]
        self._has_started = False
        self._unread_start: Started | None = None
        self._unread_prompt_logprobs: list[TokenLogprobs] = []
        self._error: RequestError | None = None
        self._has_news = asyncio.Event()

    def num_queued_tokens(self, sequence_id: int) -> int:
        """What a sequence counts in the queue: the prompt is computed once for all candidates."""
        return self._num_prompt_tokens if sequence_id == self.sequence_ids[0] else 0

    def start(self, num_cached_tokens: int) -> None:
        """Tell the reader, once, that the first step has begun."""
        if not self._has_started:
            self._has_started = True
            self._unread_start = Started(num_cached_tokens)
            self._has_news.set()

    def put(self, output: SequenceOutput, finish: BackendFinish | None) -> None:
        """Add what a step made to what the reader has not taken yet."""
        self._unread_prompt_logprobs += output.prompt_logprobs
        candidate = self._candidate(output.sequence_id)
        if not candidate.is_cancelled:
            candidate.unread_token_ids += output.token_ids
            candidate.unread_logprobs += output.logprobs
            candidate.finish = finish
        self._has_news.set()

    def fail_candidate(self, sequence_id: int, error: RequestError) -> None:
        """Fail the whole stream for the fault of one candidate, unless that has been cancelled."""
        if not self._candidate(sequence_id).is_cancelled:
            self.fail(error)

    def fail(self, error: RequestError) -> None:
        """End the stream for the reader at once; what is unread is dropped."""
        self._error = error
        self._has_news.set()

    def cancel(self, candidate_index: int) -> None:
        """Stop one candidate; see `BackendStream`."""
        candidate = self._candidates[candidate_index]
        if not candidate.is_cancelled:
            candidate.is_cancelled = True
            if candidate.finish is None:
                self._abort(self.sequence_ids[candidate_index])
            self._has_news.set()

    def leave(self) -> None:
        """Stop all candidates that have not ended; who still reads then gets an error."""
        if not all(candidate.is_over for candidate in self._candidates):
            self.fail(self._error or RequestFailedError("The stream was left before its end."))
        for index in range(len(self._candidates)):
            self.cancel(index)

    def __aiter__(self) -> TokenStream:
        return self

    async def __anext__(self) -> list[BackendEvent]:
        while True:
            if self._error is not None:
                raise self._error
            if events := self._take():
                return events
            if all(candidate.is_over for candidate in self._candidates):
                raise StopAsyncIteration
            self._has_news.clear()
            await self._has_news.wait()

    def _candidate(self, sequence_id: int) -> _Candidate:
        return self._candidates[sequence_id - self.sequence_ids[0]]

    def _take(self) -> list[BackendEvent]:
        events: list[BackendEvent] = []
        if self._unread_start is not None:
            events.append(self._unread_start)
            self._unread_start = None
        if self._unread_prompt_logprobs:
            events.append(PromptTokens(self._unread_prompt_logprobs))
            self._unread_prompt_logprobs = []
        for index, candidate in enumerate(self._candidates):
            if (tokens := candidate.take(index)) is not None:
                events.append(tokens)
        return events


class _Candidate:
    """What the reader has not taken of one candidate; `finish` stays once it is known."""

    __slots__ = ("finish", "is_cancelled", "unread_logprobs", "unread_token_ids")

    def __init__(self) -> None:
        self.unread_token_ids: list[int] = []
        self.unread_logprobs: list[TokenLogprobs] = []
        self.finish: BackendFinish | None = None
        self.is_cancelled = False

    @property
    def is_over(self) -> bool:
        """Whether it has no more events."""
        return self.is_cancelled or (self.finish is not None and not self.unread_token_ids)

    def take(self, index: int) -> Tokens | None:
        if self.is_cancelled or not self.unread_token_ids:
            return None
        tokens = Tokens(self.unread_token_ids, self.finish, self.unread_logprobs, index)
        self.unread_token_ids, self.unread_logprobs = [], []
        return tokens
