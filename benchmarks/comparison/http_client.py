"""Asks a server for a streamed completion over its OpenAI-style HTTP API."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import msgspec

from comparison.answer import Answer
from comparison.load import RequestFailedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

_PREFIX = b"data:"
_SHOWN_CHARACTERS = 300


class _Usage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int


class _Choice(msgspec.Struct):
    text: str | None = None


class _Event(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: Any = None


class HttpClient:
    """Streams /v1/completions.

    Args:
        session: with the server's address.
        fields: what this server wants in every request besides prompt and length.
    """

    def __init__(self, session: aiohttp.ClientSession, fields: Mapping[str, Any]) -> None:
        self._session = session
        self._fields = fields
        self._decode = msgspec.json.Decoder(_Event).decode

    async def ask(self, prompt: str, num_output_tokens: int) -> Answer:
        """See `Asker`."""
        body = {"prompt": prompt, "max_tokens": num_output_tokens, "stream": True, **self._fields}
        begin = time.perf_counter()
        try:
            return await self._read(body, begin)
        except (aiohttp.ClientError, msgspec.DecodeError) as error:
            raise RequestFailedError(f"{type(error).__name__}: {error}") from error

    async def _read(self, body: Mapping[str, Any], begin: float) -> Answer:
        pieces: list[float] = []
        usage: _Usage | None = None
        async with self._session.post("/v1/completions", json=body) as response:
            if response.status != 200:
                text = " ".join((await response.text()).split())
                raise RequestFailedError(f"HTTP {response.status}: {text[:_SHOWN_CHARACTERS]}")
            async for line in response.content:
                now = time.perf_counter()
                data = line.removeprefix(_PREFIX).strip()
                if data == b"[DONE]" or not line.startswith(_PREFIX):
                    continue
                event = self._decode(data)
                if event.error is not None:
                    raise RequestFailedError(str(event.error)[:_SHOWN_CHARACTERS])
                pieces.extend(now for choice in event.choices if choice.text)
                usage = event.usage or usage
        end = time.perf_counter()
        if usage is None:
            raise RequestFailedError("the answer ended without its usage")
        return Answer(begin, tuple(pieces), end, usage.prompt_tokens, usage.completion_tokens)


@asynccontextmanager
async def http_client(url: str, fields: Mapping[str, Any]) -> AsyncIterator[HttpClient]:
    """Open a client for as many concurrent requests as there are."""
    # A connection for each request: some servers close an idle one while it is taken again.
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    # The time limit of the cell is the only one.
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(url, connector=connector, timeout=timeout) as session:
        yield HttpClient(session, fields)
