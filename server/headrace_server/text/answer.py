"""The stream of one answer: waits for tokens and cuts the candidates into deltas."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from headrace_server.backends.interface import PromptTokens, Started, Tokens
from headrace_server.errors import RequestFailedError
from headrace_server.text.delta import AnswerDelta, FinishReason, Timing, Usage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AsyncExitStack

    from headrace_server.backends.interface import BackendEvent, BackendStream
    from headrace_server.text.assembler import CandidateAssembler
    from headrace_server.text.deadlines import Deadlines
    from headrace_server.text.generation import GenerationRequest
    from headrace_server.text.prompt_report import PromptReport


# What fits into a response, by what a token and each log probability take in most texts: an answer
# that is wanted whole is not held beyond that.
MAX_HELD_BYTES: Final = 1024 * 1024
_TOKEN_BYTES: Final = 8
_LOGPROB_BYTES: Final = 28


class Answer:
    """An iterator over the deltas of an answer, for one reader.

    Each candidate has one `finish`, with its last delta. The last delta of all has `usage` and
    `timing`, and nothing comes after it. The iterator raises `EngineUnavailableError`,
    `RequestFailedError` or `QueueTimeoutError`.

    Args:
        request: says how the answer is cut.
        prompt: of this answer.
        candidates: of this answer; they may have ended already.
        deadlines: of the request.
        stream: of the backend; None where the answer has ended already.
        backend_stream: holds `stream`; left as soon as all candidates have ended.
    """

    def __init__(
        self,
        request: GenerationRequest,
        prompt: PromptReport,
        candidates: Sequence[CandidateAssembler],
        deadlines: Deadlines,
        stream: BackendStream | None,
        backend_stream: AsyncExitStack,
    ) -> None:
        self.prompt_token_count = prompt.token_count
        self._chunking = request.chunking
        self._bytes_per_token = _TOKEN_BYTES
        if request.num_top_logprobs is not None:
            self._bytes_per_token += _LOGPROB_BYTES * (1 + request.num_top_logprobs)
        self._wants_output = request.stopping.max_output_tokens != 0
        self._prompt = prompt
        self._candidates = candidates
        self._deadlines = deadlines
        self._stream = stream
        self._backend_stream = backend_stream
        self._queue_seconds: float | None = None
        self._first_token_seconds: float | None = None
        self._due_time: float | None = None  # when what is pending has waited long enough
        self._is_overdue = False
        self._num_running = sum(candidate.finish is None for candidate in candidates)
        self._must_tell = False
        self._is_complete = False

    def __aiter__(self) -> Answer:
        return self

    async def __anext__(self) -> AnswerDelta:
        if self._is_complete:
            raise StopAsyncIteration
        while not self._is_due():
            await self._advance()
        return self._take()

    def _is_due(self) -> bool:
        if self._num_running == 0 or self._prompt.has_news:
            return True
        if not self._prompt.is_complete:
            return False
        num_tokens = self._num_tokens_to_tell()
        if self._chunking.whole:
            return num_tokens * self._bytes_per_token >= MAX_HELD_BYTES
        if self._must_tell:
            return True
        return num_tokens > 0 and (self._is_overdue or num_tokens >= self._chunking.min_tokens)

    def _num_tokens_to_tell(self) -> int:
        """The number of new tokens of the candidates that have something to show."""
        num_tokens = 0
        for candidate in self._candidates:
            if candidate.has_news:
                num_tokens += candidate.num_pending_tokens
        return num_tokens

    async def _advance(self) -> None:
        """Take the next events, or act on the deadline that comes before them."""
        is_queued = self._queue_seconds is None
        limit = self._deadlines.start if is_queued else self._deadlines.end
        deadline = limit
        if self._due_time is not None and self._num_tokens_to_tell():
            deadline = self._due_time if limit is None else min(self._due_time, limit)
        events = await self._next_events(deadline)
        if events is not None:
            for event in events:
                self._take_event(event)
        elif deadline != limit:
            self._is_overdue = True
        else:
            if is_queued:
                self._deadlines.expire_start()
            self._end(FinishReason.TIME_LIMIT)
        if self._num_running == 0:
            await self._backend_stream.aclose()

    async def _next_events(self, deadline: float | None) -> Sequence[BackendEvent] | None:
        """Return the next events; None when `deadline` comes first."""
        assert self._stream is not None
        try:
            if deadline is None:
                return await anext(self._stream)
            if asyncio.get_running_loop().time() >= deadline:
                return None  # events may be so quick that waiting for them never times out
            async with asyncio.timeout_at(deadline):
                return await anext(self._stream)
        except TimeoutError:
            return None
        except StopAsyncIteration:
            raise RequestFailedError("The engine ended the answer without a reason.") from None

    def _take_event(self, event: BackendEvent) -> None:
        match event:
            case Tokens() if self._wants_output:
                self._take_tokens(event)
            case Tokens():  # the engine makes one also where only the prompt is of interest
                self._end(FinishReason.MAX_OUTPUT_TOKENS)
            case Started():
                self._queue_seconds = self._age_seconds()
                self._prompt.start(event.num_cached_tokens)
            case PromptTokens():
                self._prompt.add(event.logprobs)

    def _take_tokens(self, tokens: Tokens) -> None:
        assert self._stream is not None
        if self._first_token_seconds is None:
            self._first_token_seconds = self._age_seconds()
        max_delay_seconds = self._chunking.max_delay_seconds
        if max_delay_seconds is not None and self._due_time is None:
            self._due_time = asyncio.get_running_loop().time() + max_delay_seconds
        candidate = self._candidates[tokens.candidate_index]
        candidate.add(tokens)
        if candidate.finish is not None:
            self._num_running -= 1
            self._must_tell = True
            self._stream.cancel(tokens.candidate_index)

    def _end(self, reason: FinishReason) -> None:
        for candidate in self._candidates:
            candidate.end(reason)
        self._num_running = 0

    def _take(self) -> AnswerDelta:
        if self._prompt.has_news:
            logprobs = self._prompt.take_logprobs()
            return AnswerDelta(prompt=self._prompt.take_info(), prompt_logprobs=logprobs)
        self._due_time = None
        self._is_overdue = False
        candidates = [candidate.take() for candidate in self._candidates if candidate.has_news]
        # What comes behind a call is in a delta of its own.
        self._must_tell = any(candidate.has_news for candidate in self._candidates)
        if self._num_running > 0 or self._must_tell:
            return AnswerDelta(candidates, self._prompt.take_info())
        self._is_complete = True
        return AnswerDelta(
            candidates, self._prompt.take_info(), usage=self._usage(), timing=self._timing()
        )

    def _usage(self) -> Usage:
        num_output_tokens = sum(candidate.num_output_tokens for candidate in self._candidates)
        num_reasoning_tokens = sum(each.num_reasoning_tokens for each in self._candidates)
        return Usage(self.prompt_token_count, num_output_tokens, num_reasoning_tokens)

    def _timing(self) -> Timing:
        total_seconds = self._age_seconds()
        return Timing(
            queue_seconds=total_seconds if self._queue_seconds is None else self._queue_seconds,
            first_token_seconds=self._first_token_seconds,
            total_seconds=total_seconds,
        )

    def _age_seconds(self) -> float:
        return asyncio.get_running_loop().time() - self._deadlines.arrival
