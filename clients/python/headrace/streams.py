"""The answer that is being made, for each of the two clients."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Protocol, Self

from grpc import StatusCode

from headrace.errors import CallCancelledError
from headrace.interrupts import HeldInterrupt
from headrace.responses import Transcript
from headrace.status import raising_own_errors, request_id_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator
    from types import TracebackType

    from headrace.channel import Address
    from headrace.results import Delta, Generation
    from headrace.status import Metadata
    from headrace.v1.inference_service_pb2 import GenerateResponse

_READ_TWICE = "a stream can be read once: make another call"


class ResponseCall(Protocol):
    """A blocking call of gRPC."""

    def initial_metadata(self) -> Metadata:
        """Wait for the response headers; empty when the call failed before them."""

    def __next__(self) -> GenerateResponse: ...

    def cancel(self) -> bool:
        """Cancel the call; False when it had ended."""


class AsyncResponseCall(Protocol):
    """A call of grpc.aio."""

    async def initial_metadata(self) -> Metadata:
        """Wait for the response headers; empty when the call failed before them."""

    def __aiter__(self) -> AsyncIterator[GenerateResponse]: ...

    def cancel(self) -> bool:
        """Cancel the call; False when it had ended."""


class GenerationStream:
    """An answer that is being made. It can be read once.

        with client.stream("Once upon a time", max_output_tokens=60) as stream:
            for delta in stream:
                print(delta.text, end="", flush=True)
        print(stream.generation.usage)

    Entering makes the call, waits until the server has taken the request, and raises
    its refusal. Leaving the loop or the ``with`` block in any way stops the work on
    the server. The ``with`` block may be left out; the loop then makes the call.
    """

    def __init__(
        self, start: Callable[[], ResponseCall], address: Address, *, num_candidates: int = 1
    ) -> None:
        self._start = start
        self._address = address
        self._call: ResponseCall | None = None
        self._is_cancelled = False
        self._responses: Iterable[GenerateResponse] | None = None
        self._transcript = Transcript(num_candidates)

    @property
    def text(self) -> str:
        """The text of the first candidate so far."""
        return self._transcript.text

    @property
    def generation(self) -> Generation:
        """The whole answer.

        Raises:
            RuntimeError: it is not complete.
        """
        return self._transcript.generation

    def cancel(self) -> None:
        """Stop the work on the server, from any thread. A loop that waits for the
        stream then raises `CallCancelledError`, and so does one that begins later.
        """
        # The flag comes first: a call that is just being made in another thread sees it.
        self._is_cancelled = True
        if self._call is not None:
            with HeldInterrupt():
                self._call.cancel()

    def __enter__(self) -> Self:
        """Make the call and wait until it is taken.

        Raises:
            HeadraceError: the server refused it; a subclass tells what to do.
        """
        if self._call is not None:
            raise RuntimeError(_READ_TWICE)
        try:
            with HeldInterrupt():
                self._call = self._start()
            if self._is_cancelled:
                self.cancel()
            with raising_own_errors(self._address):
                self._responses = self._admitted(self._call)
        except BaseException:
            self.cancel()
            raise
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.cancel()

    def __iter__(self) -> Iterator[Delta]:
        """Read the pieces of the answer; those of several candidates are mixed.

        Raises:
            HeadraceError: the answer broke off; a subclass tells what to do.
        """
        if self._call is None:
            self.__enter__()
        responses, self._responses = self._responses, None
        if responses is None:
            raise RuntimeError(_READ_TWICE)
        try:
            with raising_own_errors(self._address):
                for response in responses:
                    yield from self._transcript.add(response)
            self._transcript.close()
        finally:
            self.cancel()

    def _admitted(self, call: ResponseCall) -> Iterable[GenerateResponse]:
        with HeldInterrupt(call.cancel):
            headers = call.initial_metadata()
        self._transcript.request_id = request_id_of(headers)
        responses = _read(call)
        if self._transcript.request_id is not None:
            return responses
        # A refusal has no headers, and the first response tells it from a proxy without.
        first = next(responses, None)
        return responses if first is None else chain([first], responses)


def _read(call: ResponseCall) -> Iterator[GenerateResponse]:
    while True:
        with HeldInterrupt(call.cancel):
            response = next(call, None)
        if response is None:
            return
        yield response


class AsyncGenerationStream:
    """An answer that is being made. It can be read once.

        async with client.stream("Once upon a time", max_output_tokens=60) as stream:
            async for delta in stream:
                print(delta.text, end="", flush=True)
        print(stream.generation.usage)

    Entering makes the call, waits until the server has taken the request, and raises
    its refusal. Leaving the loop or the ``async with`` block in any way, by cancellation
    too, stops the work on the server. The ``async with`` block may be left out; the
    loop then makes the call.
    """

    def __init__(
        self, start: Callable[[], AsyncResponseCall], address: Address, *, num_candidates: int = 1
    ) -> None:
        self._start = start
        self._address = address
        self._call: AsyncResponseCall | None = None
        self._is_cancelled = False
        self._responses: AsyncIterator[GenerateResponse] | None = None
        self._transcript = Transcript(num_candidates)

    @property
    def text(self) -> str:
        """The text of the first candidate so far."""
        return self._transcript.text

    @property
    def generation(self) -> Generation:
        """The whole answer.

        Raises:
            RuntimeError: it is not complete.
        """
        return self._transcript.generation

    def cancel(self) -> None:
        """Stop the work on the server. A loop that waits for the stream then raises
        `CallCancelledError`, and so does one that begins later.
        """
        self._is_cancelled = True
        if self._call is not None:
            self._call.cancel()

    async def __aenter__(self) -> Self:
        """Make the call and wait until it is taken.

        Raises:
            HeadraceError: the server refused it; a subclass tells what to do.
        """
        if self._call is not None:
            raise RuntimeError(_READ_TWICE)
        self._call = self._start()
        if self._is_cancelled:
            self._call.cancel()
        try:
            with raising_own_async_errors(self._address):
                self._responses = await self._admitted(self._call)
        except BaseException:
            self.cancel()
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.cancel()

    async def __aiter__(self) -> AsyncIterator[Delta]:
        """Read the pieces of the answer; those of several candidates are mixed.

        Raises:
            HeadraceError: the answer broke off; a subclass tells what to do.
        """
        if self._call is None:
            await self.__aenter__()
        responses, self._responses = self._responses, None
        if responses is None:
            raise RuntimeError(_READ_TWICE)
        try:
            with raising_own_async_errors(self._address):
                async for response in responses:
                    for delta in self._transcript.add(response):
                        yield delta
            self._transcript.close()
        finally:
            self.cancel()

    async def _admitted(self, call: AsyncResponseCall) -> AsyncIterator[GenerateResponse]:
        self._transcript.request_id = request_id_of(await call.initial_metadata())
        responses = aiter(call)
        if self._transcript.request_id is not None:
            return responses
        # A refusal has no headers, and the first response tells it from a proxy without.
        return _chain(await anext(responses, None), responses)


@contextmanager
def raising_own_async_errors(address: Address) -> Iterator[None]:
    """Turn an error of grpc.aio into one of this package."""
    try:
        with raising_own_errors(address):
            yield
    except asyncio.CancelledError as error:
        # grpc.aio raises it, too, when the call was cancelled and the task was not.
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise CallCancelledError(
            f"The call to {address} was cancelled, or its client closed.",
            code=StatusCode.CANCELLED,
        ) from error


async def _chain(
    first: GenerateResponse | None, rest: AsyncIterator[GenerateResponse]
) -> AsyncIterator[GenerateResponse]:
    if first is not None:
        yield first
    async for response in rest:
        yield response
