"""The way to the inference server: metadata, deadlines, cancellation."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeVar

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from headrace.v1 import (
    inference_service_pb2,
    inference_service_pb2_grpc,
    model_service_pb2,
    model_service_pb2_grpc,
)
from headrace_gateway import errors
from headrace_gateway.held_answer import HeldAnswer
from headrace_gateway.metrics.generations import GenerationMeter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence
    from types import TracebackType

    from headrace.v1 import model_pb2
    from headrace_gateway.callers import Caller
    from headrace_gateway.metrics.generations import GenerationMetrics
    from headrace_gateway.upstream_channel import UpstreamChannels

HEALTH_TIMEOUT_SECONDS = 1.0
"""How long a health check may take before the server counts as not serving."""

CONTROL_TIMEOUT_SECONDS = 10.0
"""How long the server may take to tell about its models."""

MAX_CALLS = 1000
"""The most calls under way. The server takes 1024 on one connection, which is far more
than it queues; what is over would be held back by gRPC without a word.
"""

_SERVICE = "headrace.v1.InferenceService"
_MODEL_HEADER = "x-headrace-model-bin"
_MODEL_PAGE_SIZE = 1000

_RequestT = TypeVar("_RequestT")
_ResponseT = TypeVar("_ResponseT")


@dataclass(frozen=True, slots=True)
class CallContext:
    """What goes with a call beside its request.

    Args:
        request_id: the id of the HTTP request, for the server's log.
        caller: who sent it; the server may ask for its key, and is told its name.
        deadline: when the time is up on the clock of `time.monotonic`; None is never.
        json_path: finds the JSON path behind a field of the contract, for errors.
        affinity: calls of the same word should meet the same replica, for whoever chooses
            between several on the way; None leaves it open.
    """

    request_id: str
    caller: Caller | None = None
    deadline: float | None = None
    json_path: Callable[[str], str | None] = lambda _: None
    affinity: str | None = None

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Return the metadata of the call."""
        metadata = [("x-request-id", self.request_id)]
        if self.caller is not None:
            if self.caller.key is not None:
                metadata.append(("authorization", f"Bearer {self.caller.key}"))
            if self.caller.name is not None:
                metadata.append(("x-headrace-caller", self.caller.name))
        if self.affinity is not None:
            metadata.append(("x-headrace-affinity", self.affinity))
        return tuple(metadata)

    def remaining_seconds(self) -> float | None:
        """Return the time that is left.

        Raises:
            ApiError: 504, there is none.
        """
        if self.deadline is None:
            return None
        remaining = self.deadline - time.monotonic()
        if remaining <= 0:
            raise errors.deadline_exceeded()
        return remaining


class Answer:
    """The responses of one Generate call. Iterating raises ApiError unless the call ends
    with a finished answer.

    Attributes:
        model: the name of the model that answers, known after `wait_for_admission`.
    """

    def __init__(
        self,
        call: grpc.aio.UnaryStreamCall[
            inference_service_pb2.GenerateRequest, inference_service_pb2.GenerateResponse
        ],
        context: CallContext,
        meter: GenerationMeter,
        held: HeldAnswer | None,
        num_candidates: int,
    ) -> None:
        self._call = call
        self._context = context
        self._meter = meter
        self._held = held
        self._num_candidates = num_candidates
        self._read_ahead: inference_service_pb2.GenerateResponse | None = None
        self._is_finished = False
        self.model = ""

    async def wait_for_admission(self) -> None:
        """Wait until the server has taken the request.

        Raises:
            ApiError: it has not.
        """
        headers = await self._call.initial_metadata()
        for key, value in headers:
            if key == _MODEL_HEADER and isinstance(value, bytes):
                self.model = value.decode("utf-8", "replace")
        if headers:
            self._meter.admit(self.model)
        else:
            # Either a refusal, whose status comes with the first read, or a server that
            # says nothing before its first response.
            self._read_ahead = await self._read()
            self._meter.admit(self.model)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> inference_service_pb2.GenerateResponse:
        response, self._read_ahead = self._read_ahead, None
        if response is None:
            response = await self._read()
        if response is None:
            raise StopAsyncIteration
        self._meter.take(response)
        if self._held is not None:
            self._held.add(response, self._num_candidates)
        return response

    async def _read(self) -> inference_service_pb2.GenerateResponse | None:
        try:
            response = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise errors.from_rpc_error(error, self._context.json_path) from error
        if response is grpc.aio.EOF:
            if not self._is_finished:
                raise errors.unfinished_answer()
            return None
        assert isinstance(response, inference_service_pb2.GenerateResponse)
        self._is_finished = response.HasField("usage")  # which the last response has
        return response


class Upstream:
    """The inference server. All errors leave as ApiError.

    Args:
        channels: opens connections to it.
        metrics: count its answers.
    """

    def __init__(self, channels: UpstreamChannels, metrics: GenerationMetrics) -> None:
        self._channels = channels
        self._metrics = metrics
        self._num_calls = 0

    async def __aenter__(self) -> Self:
        self._channel = self._channels.open()
        self._inference = inference_service_pb2_grpc.InferenceServiceStub(self._channel)
        # A connection of its own, so that health is known whatever the load is.
        self._control_channel = self._channels.open()
        self._models = model_service_pb2_grpc.ModelServiceStub(self._control_channel)
        self._health = health_pb2_grpc.HealthStub(self._control_channel)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._channel.close()
        await self._control_channel.close()

    @asynccontextmanager
    async def _generate(
        self,
        request: inference_service_pb2.GenerateRequest,
        context: CallContext,
        held: HeldAnswer | None,
    ) -> AsyncIterator[Answer]:
        """Start a call; leaving cancels it where it is not over."""
        meter = GenerationMeter(self._metrics, is_streamed=not request.output.chunking.whole)
        with self._counted():
            call = self._inference.Generate(
                request, timeout=context.remaining_seconds(), metadata=context.metadata()
            )
            try:
                num_candidates = request.sampling.candidate_count or 1
                yield Answer(call, context, meter, held, num_candidates)
            finally:
                # A call that is merely dropped runs on in the server.
                call.cancel()
                meter.end()

    @asynccontextmanager
    async def generate_all(
        self,
        requests: Sequence[inference_service_pb2.GenerateRequest],
        context: CallContext,
        *,
        is_held: bool,
    ) -> AsyncIterator[list[Answer]]:
        """Start a call for each request and wait until all are admitted; leaving cancels them.

        Args:
            requests: of one HTTP request.
            context: of the calls.
            is_held: whether the answers are held until their ends, which has a bound.

        Raises:
            ApiError: one is not, so that the others are cancelled; 429, too many calls are under
                way; 504, the time is up.
        """
        held = HeldAnswer() if is_held else None
        async with AsyncExitStack() as stack:
            answers = [
                await stack.enter_async_context(self._generate(request, context, held))
                for request in requests
            ]
            for answer in answers:
                await answer.wait_for_admission()
            yield answers

    async def tokenize(
        self, request: inference_service_pb2.TokenizeRequest, context: CallContext
    ) -> inference_service_pb2.TokenizeResponse:
        """Return a prompt in tokens.

        Raises:
            ApiError: the server refuses it or cannot be reached.
        """
        with self._counted():
            return await _unary(self._inference.Tokenize, request, context)

    async def detokenize(
        self, request: inference_service_pb2.DetokenizeRequest, context: CallContext
    ) -> str:
        """Return the text of token ids.

        Raises:
            ApiError: the server refuses them or cannot be reached.
        """
        with self._counted():
            return (await _unary(self._inference.Detokenize, request, context)).text

    async def get_model(self, name: str, context: CallContext) -> model_pb2.Model:
        """Return a model by its name or an alias.

        Raises:
            ApiError: 404, there is none; 503, it is not loaded yet.
        """
        request = model_service_pb2.GetModelRequest(name=name)
        return (await _control(self._models.GetModel, request, context)).model

    async def list_models(self, context: CallContext) -> list[model_pb2.Model]:
        """Return all served models.

        Raises:
            ApiError: the server cannot be reached.
        """
        request = model_service_pb2.ListModelsRequest(page_size=_MODEL_PAGE_SIZE)
        models: list[model_pb2.Model] = []
        while True:
            response = await _control(self._models.ListModels, request, context)
            models.extend(response.models)
            if not response.next_page_token:
                return models
            request.page_token = response.next_page_token

    async def check_readiness(self, context: CallContext) -> None:
        """Return when the server takes requests.

        Args:
            context: of the question; its deadline does not count.

        Raises:
            ApiError: 503, it does not; the message says what it is doing.
        """
        check = health_pb2.HealthCheckRequest(service=_SERVICE)
        try:
            response = await self._health.Check(
                check, timeout=HEALTH_TIMEOUT_SECONDS, metadata=context.metadata()
            )
            if response.status == health_pb2.HealthCheckResponse.SERVING:
                await self._wait_for_connection()
                return
            # Health has no words, but a refusal has.
            model = model_service_pb2.GetModelRequest()
            await self._models.GetModel(
                model, timeout=HEALTH_TIMEOUT_SECONDS, metadata=context.metadata()
            )
        except grpc.aio.AioRpcError as error:
            raise errors.not_ready(error) from error
        raise errors.not_ready(None)

    async def _wait_for_connection(self) -> None:
        # After a restart of the server the one channel finds it before the other does, whose
        # calls fail until then.
        try:
            async with asyncio.timeout(HEALTH_TIMEOUT_SECONDS):
                await self._channel.channel_ready()
        except TimeoutError as error:
            raise errors.no_answer() from error

    @contextmanager
    def _counted(self) -> Iterator[None]:
        if self._num_calls == MAX_CALLS:
            raise errors.too_many_calls()
        self._num_calls += 1
        try:
            yield
        finally:
            self._num_calls -= 1


async def _control(
    method: grpc.aio.UnaryUnaryMultiCallable[_RequestT, _ResponseT],
    request: _RequestT,
    context: CallContext,
) -> _ResponseT:
    """Call what a server answers at once, within a limit of our own where there is no other."""
    if context.deadline is not None:
        return await _unary(method, request, context)
    try:
        async with asyncio.timeout(CONTROL_TIMEOUT_SECONDS):
            return await _unary(method, request, context)
    except TimeoutError:
        raise errors.no_answer() from None


async def _unary(
    method: grpc.aio.UnaryUnaryMultiCallable[_RequestT, _ResponseT],
    request: _RequestT,
    context: CallContext,
) -> _ResponseT:
    call = method(request, timeout=context.remaining_seconds(), metadata=context.metadata())
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        raise errors.from_rpc_error(error, context.json_path) from error
    finally:
        call.cancel()
