"""The stream of one sequence: a slot that merges what its reader has not taken yet."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace_server.backends.interface import BackendFinish, Started, Tokens

if TYPE_CHECKING:
    from headrace_server.errors import RequestError


class TokenStream:
    """An iterator for one reader, filled by the backend without waiting.

    What is not read yet is one list of token ids, so at most `max_output_tokens` of them.

    Args:
        sequence_id: the id between the processes.
        request_id: the id in the logs.
        num_prompt_tokens: what the sequence counts in the queue.
    """

    def __init__(self, sequence_id: int, request_id: str, num_prompt_tokens: int) -> None:
        self.sequence_id = sequence_id
        self.request_id = request_id
        self.num_prompt_tokens = num_prompt_tokens
        self.has_started = False
        self._is_start_unread = False
        self._unread_token_ids: list[int] = []
        self._finish: BackendFinish | None = None
        self._error: RequestError | None = None
        self._has_news = asyncio.Event()

    def start(self) -> None:
        """Tell the reader that the first step has begun."""
        self.has_started = self._is_start_unread = True
        self._has_news.set()

    def put(self, token_ids: list[int], finish: BackendFinish | None) -> None:
        """Add new tokens to what the reader has not taken yet."""
        self._unread_token_ids += token_ids
        self._finish = finish
        self._has_news.set()

    def fail(self, error: RequestError) -> None:
        """End the stream for the reader at once; what is unread is dropped."""
        self._error = error
        self._has_news.set()

    def __aiter__(self) -> TokenStream:
        return self

    async def __anext__(self) -> Started | Tokens:
        while True:
            if self._error is not None:
                raise self._error
            if self._is_start_unread:
                self._is_start_unread = False
                return Started()
            if self._unread_token_ids:
                token_ids, self._unread_token_ids = self._unread_token_ids, []
                return Tokens(token_ids, self._finish)
            if self._finish is not None:
                raise StopAsyncIteration
            self._has_news.clear()
            await self._has_news.wait()
