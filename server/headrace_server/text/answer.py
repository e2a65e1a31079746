"""The stream of one answer: waits for tokens and cuts their text into deltas."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace_server.backends.interface import Started
from headrace_server.errors import RequestFailedError
from headrace_server.text.generation import FinishReason, TextDelta, Timing, Usage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AsyncExitStack

    from headrace_server.backends.interface import Tokens
    from headrace_server.text.assembler import AnswerAssembler
    from headrace_server.text.deadlines import Deadlines
    from headrace_server.text.generation import GenerationRequest


class Answer:
    """An iterator over the deltas of an answer, for one reader.

    The last delta has `finish`, `usage` and `timing`, and nothing comes after it. The
    iterator raises `EngineUnavailableError`, `RequestFailedError` or `QueueTimeoutError`.

    Args:
        request: says how the answer is cut.
        prompt_token_count: tokens of the prompt; 0 where they were not counted in time.
        assembler: of this answer; it may have ended already.
        deadlines: of the request.
        events: of the backend; None where the answer has ended already.
        backend_stream: holds the backend's stream; left as soon as the answer ends.
    """

    def __init__(
        self,
        request: GenerationRequest,
        prompt_token_count: int,
        assembler: AnswerAssembler,
        deadlines: Deadlines,
        events: AsyncIterator[Started | Tokens] | None,
        backend_stream: AsyncExitStack,
    ) -> None:
        self.prompt_token_count = prompt_token_count
        self._chunking = request.chunking
        self._want_token_ids = request.want_token_ids
        self._assembler = assembler
        self._deadlines = deadlines
        self._events = events
        self._backend_stream = backend_stream
        self._queue_seconds: float | None = None
        self._first_token_seconds: float | None = None
        self._due_time: float | None = None  # when what is pending has waited long enough
        self._is_overdue = False
        self._is_complete = False

    def __aiter__(self) -> Answer:
        return self

    async def __anext__(self) -> TextDelta:
        if self._is_complete:
            raise StopAsyncIteration
        while not self._is_due():
            await self._advance()
        return self._take()

    def _is_due(self) -> bool:
        if self._assembler.finish is not None:
            return True
        if self._chunking.whole or not self._has_content():
            return False
        return self._is_overdue or self._assembler.num_pending_tokens >= self._chunking.min_tokens

    def _has_content(self) -> bool:
        return self._assembler.has_pending_text or (
            self._want_token_ids and self._assembler.num_pending_tokens > 0
        )

    async def _advance(self) -> None:
        """Take the next event, or act on the deadline that comes before it."""
        is_queued = self._queue_seconds is None
        limit = self._deadlines.start if is_queued else self._deadlines.end
        due_time = self._due_time if self._has_content() else None
        deadline = min((time for time in (limit, due_time) if time is not None), default=None)
        event = await self._next_event(deadline)
        if event is not None:
            self._take_event(event)
        elif deadline != limit:
            self._is_overdue = True
        else:
            if is_queued:
                self._deadlines.expire_start()
            self._assembler.end(FinishReason.TIME_LIMIT)
        if self._assembler.finish is not None:
            await self._backend_stream.aclose()

    async def _next_event(self, deadline: float | None) -> Started | Tokens | None:
        """Return the next event; None when `deadline` comes first."""
        assert self._events is not None
        if deadline is not None and asyncio.get_running_loop().time() >= deadline:
            return None  # events may be so quick that waiting for them never times out
        try:
            async with asyncio.timeout_at(deadline):
                return await anext(self._events)
        except TimeoutError:
            return None
        except StopAsyncIteration:
            raise RequestFailedError("The engine ended the answer without a reason.") from None

    def _take_event(self, event: Started | Tokens) -> None:
        if isinstance(event, Started):
            self._queue_seconds = self._age_seconds()
            return
        if self._first_token_seconds is None:
            self._first_token_seconds = self._age_seconds()
        max_delay_seconds = self._chunking.max_delay_seconds
        if max_delay_seconds is not None and self._due_time is None:
            self._due_time = asyncio.get_running_loop().time() + max_delay_seconds
        self._assembler.add(event)

    def _take(self) -> TextDelta:
        self._due_time = None
        self._is_overdue = False
        text, token_ids = self._assembler.take()
        if self._assembler.finish is None:
            return TextDelta(text, token_ids)
        self._is_complete = True
        total_seconds = self._age_seconds()
        return TextDelta(
            text=text,
            token_ids=token_ids,
            finish=self._assembler.finish,
            usage=Usage(self.prompt_token_count, self._assembler.num_output_tokens),
            timing=Timing(
                queue_seconds=(
                    total_seconds if self._queue_seconds is None else self._queue_seconds
                ),
                first_token_seconds=self._first_token_seconds,
                total_seconds=total_seconds,
            ),
        )

    def _age_seconds(self) -> float:
        return asyncio.get_running_loop().time() - self._deadlines.arrival
