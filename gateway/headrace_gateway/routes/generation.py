"""What chats and completions have in common on their way from the server to the client."""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import msgspec

from headrace_gateway import sse
from headrace_gateway.concurrency import all_of, first_error
from headrace_gateway.event_stream import EventStream, encode_error
from headrace_gateway.openai.answer import (
    Identity,
    TokenCounts,
    WholeAnswer,
    join_responses,
    token_counts,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aiohttp import web

    from headrace.v1 import inference_service_pb2
    from headrace_gateway.config import GatewayConfig
    from headrace_gateway.openai.api_error import ApiError
    from headrace_gateway.openai.options import Options
    from headrace_gateway.upstream import Answer


class Chunks(Protocol):
    """Makes the events of a stream; each method returns those that are due."""

    def opening(self, prompt_index: int) -> Sequence[msgspec.Struct]:
        """Begin the answers to a prompt."""

    def chunks(
        self, prompt_index: int, response: inference_service_pb2.GenerateResponse
    ) -> Sequence[msgspec.Struct]:
        """Continue the answers to a prompt."""

    def closing(self, counts: TokenCounts) -> Sequence[msgspec.Struct]:
        """End all answers."""


def _encode_event(event: msgspec.Struct) -> bytes:
    return sse.encode(msgspec.json.encode(event))


@dataclass(frozen=True, slots=True)
class Framing:
    """How a stream is written; without arguments as OpenAI's chats are.

    Args:
        encode: makes an event into bytes.
        encode_error: makes what ends a stream in which an error comes.
        ending: what ends a complete one.
        keep_alive: what is sent after a silence.
    """

    encode: Callable[[msgspec.Struct], bytes] = _encode_event
    encode_error: Callable[[ApiError], bytes] = encode_error
    ending: bytes = sse.DONE
    keep_alive: bytes = sse.KEEP_ALIVE

    def join(self, events: Sequence[msgspec.Struct]) -> bytes:
        """Return the bytes of some events."""
        return b"".join(self.encode(event) for event in events)


_CHAT_FRAMING = Framing()


def event_stream(request: web.Request, config: GatewayConfig) -> EventStream:
    """Return the stream of a request, not started yet."""
    return EventStream(
        request,
        write_timeout_seconds=config.write_timeout_seconds,
        keep_alive_interval_seconds=config.keep_alive_interval_seconds,
    )


def identify(prefix: str, options: Options, answer: Answer) -> Identity:
    """Return a new identity with the name asked for, or that of the model that answers."""
    model = options.model or answer.model
    return Identity(f"{prefix}-{uuid.uuid4().hex}", int(time.time()), model)


async def collect(answers: Sequence[Answer], options: Options) -> list[WholeAnswer]:
    """Read all answers to their ends.

    Raises:
        ApiError: one of them ends with an error.
    """
    return await all_of(_collect_one(answer, options.num_candidates) for answer in answers)


async def relay(
    events: EventStream, answers: Sequence[Answer], chunks: Chunks, framing: Framing = _CHAT_FRAMING
) -> TokenCounts:
    """Send the answers as they are made, and what closes the stream.

    Raises:
        ApiError: an answer ends with an error.
        ClientGoneError: nobody reads.
    """
    await events.start(framing.encode_error, framing.keep_alive)
    with first_error():
        async with asyncio.TaskGroup() as tasks:
            keeper = tasks.create_task(events.keep_alive())
            counts = await all_of(
                _relay_one(events, index, answer, chunks, framing)
                for index, answer in enumerate(answers)
            )
            keeper.cancel()
    total = sum(counts, TokenCounts())
    await events.send(framing.join(chunks.closing(total)) + framing.ending)
    return total


async def _collect_one(answer: Answer, num_candidates: int) -> WholeAnswer:
    return join_responses([response async for response in answer], num_candidates)


async def _relay_one(
    events: EventStream, index: int, answer: Answer, chunks: Chunks, framing: Framing
) -> TokenCounts:
    counts = TokenCounts()
    if opening := chunks.opening(index):
        await events.send(framing.join(opening))
    async for response in answer:
        if pieces := chunks.chunks(index, response):
            await events.send(framing.join(pieces))
        counts += token_counts(response)
    return counts
