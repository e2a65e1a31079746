"""A server of the contract whose answers are written by the test; it tells how calls ended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import grpc
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc_health.v1 import health_pb2, health_pb2_grpc

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import inference_service_pb2_grpc, model_service_pb2, model_service_pb2_grpc
from headrace.v1.model_pb2 import CAPABILITY_CHAT, CAPABILITY_COMPLETION, Model
from headrace.v1.stopping_pb2 import FINISH_REASON_END_OF_TEXT, FinishReason

if TYPE_CHECKING:
    from google.protobuf.message import Message

BOUND_SECONDS = 30.0
REQUEST_ID = "0123456789abcdef"


class Hold:
    """A step of a script: wait until the call ends from the other side or is released."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.over = threading.Event()


@dataclass(frozen=True)
class Refusal:
    """A step of a script: end with a status, built as the server builds it."""

    code: grpc.StatusCode
    message: str
    reason: str | None = None
    field: str | None = None
    retry_after_seconds: float | None = None

    def trailers(self) -> tuple[tuple[str, str | bytes], ...]:
        if self.reason is None:
            return ()
        status = Status(code=self.code.value[0], message=self.message)
        details: list[Message] = [ErrorInfo(reason=self.reason, domain="headrace")]
        trailers: list[tuple[str, str | bytes]] = [("x-request-id", REQUEST_ID)]
        if self.field is not None:
            violation = BadRequest.FieldViolation(field=self.field, description=self.message)
            details.append(BadRequest(field_violations=[violation]))
        if self.retry_after_seconds is not None:
            retry = RetryInfo()
            retry.retry_delay.FromNanoseconds(round(self.retry_after_seconds * 1e9))
            details.append(retry)
            pushback = str(round(self.retry_after_seconds * 1000))
            trailers.append(("grpc-retry-pushback-ms", pushback))
        for detail in details:
            status.details.add().Pack(detail)
        return (*trailers, ("grpc-status-details-bin", status.SerializeToString()))


class Admit:
    """A step of a script: send the response headers."""


Step = pb.GenerateResponse | Hold | Refusal | Admit
Script = Callable[[pb.GenerateRequest], Iterator[Step]]


def piece(text: str, *token_ids: int) -> pb.GenerateResponse:
    """A response in the middle of an answer."""
    return pb.GenerateResponse(deltas=[pb.CandidateDelta(text=text, token_ids=token_ids)])


def end(
    text: str = "", *token_ids: int, reason: FinishReason.ValueType = FINISH_REASON_END_OF_TEXT
) -> pb.GenerateResponse:
    """The last response of an answer."""
    response = piece(text, *token_ids)
    response.deltas[0].finish.reason = reason
    response.usage.prompt_token_count = 5
    response.usage.output_token_count = 3
    response.timing.queue.FromMilliseconds(10)
    response.timing.first_token.FromMilliseconds(250)
    response.timing.total.FromMilliseconds(1500)
    return response


def hello(request: pb.GenerateRequest) -> Iterator[Step]:
    """A script: a short answer."""
    yield Admit()
    yield pb.GenerateResponse(prompt=pb.PromptInfo(token_count=5))
    yield piece("Hel", 1)
    yield end("lo 🌍", 2, 0)


@dataclass
class CallRecord:
    """What the server saw of a call of Generate."""

    request: pb.GenerateRequest
    metadata: dict[str, str | bytes]
    peer: str
    time_remaining: float | None
    ended: threading.Event = field(default_factory=threading.Event)
    was_cancelled: bool = False

    def wait_until_cancelled(self) -> bool:
        """Whether the call ends before its script does."""
        return self.ended.wait(BOUND_SECONDS) and self.was_cancelled


class ScriptedServer(
    inference_service_pb2_grpc.InferenceServiceServicer,
    model_service_pb2_grpc.ModelServiceServicer,
    health_pb2_grpc.HealthServicer,
):
    """The services; set the attributes before the call that they are for."""

    def __init__(self) -> None:
        self.target = ""
        self.script: Script = hello
        self.calls: list[CallRecord] = []
        self.is_serving = True
        self.health_was_asked = threading.Event()
        self.model_refusal: Refusal | None = None
        self.models = [a_model()]
        self.page_size = 100
        self.unary_request: Message | None = None
        self.text_time_remaining: float | None = None

    def Generate(
        self, request: pb.GenerateRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.GenerateResponse]:
        record = CallRecord(
            request, dict(context.invocation_metadata()), context.peer(), context.time_remaining()
        )
        self.calls.append(record)
        holds: list[Hold] = []
        is_complete = threading.Event()

        def on_end() -> None:
            record.was_cancelled = not is_complete.is_set()
            record.ended.set()
            for hold in holds:
                hold.over.set()

        context.add_callback(on_end)
        for step in self.script(request):
            match step:
                case Admit():
                    model = self.models[0].name.encode()
                    context.send_initial_metadata(
                        (("x-request-id", REQUEST_ID), ("x-headrace-model-bin", model))
                    )
                case Hold():
                    holds.append(step)
                    step.reached.set()
                    if not record.ended.is_set():
                        step.over.wait(BOUND_SECONDS)
                case Refusal():
                    is_complete.set()
                    refuse(context, step)
                case _:
                    yield step
        is_complete.set()

    def Tokenize(
        self, request: pb.TokenizeRequest, context: grpc.ServicerContext
    ) -> pb.TokenizeResponse:
        self.text_time_remaining = context.time_remaining()
        self.unary_request = request
        text = "" if request.HasField("token_ids") else f"<{request.text}>"
        return pb.TokenizeResponse(token_ids=[7, 8, 9], token_count=3, text=text)

    def Detokenize(
        self, request: pb.DetokenizeRequest, context: grpc.ServicerContext
    ) -> pb.DetokenizeResponse:
        self.text_time_remaining = context.time_remaining()
        self.unary_request = request
        return pb.DetokenizeResponse(text=" ".join(str(i) for i in request.token_ids))

    def ListModels(
        self, request: model_service_pb2.ListModelsRequest, context: grpc.ServicerContext
    ) -> model_service_pb2.ListModelsResponse:
        if self.model_refusal is not None:
            refuse(context, self.model_refusal)
        start = int(request.page_token or 0)
        end = start + self.page_size
        return model_service_pb2.ListModelsResponse(
            models=self.models[start:end],
            next_page_token=str(end) if end < len(self.models) else "",
        )

    def GetModel(
        self, request: model_service_pb2.GetModelRequest, context: grpc.ServicerContext
    ) -> model_service_pb2.GetModelResponse:
        if self.model_refusal is not None:
            refuse(context, self.model_refusal)
        self.unary_request = request
        return model_service_pb2.GetModelResponse(model=self.models[0])

    def Check(
        self, request: health_pb2.HealthCheckRequest, context: grpc.ServicerContext
    ) -> health_pb2.HealthCheckResponse:
        self.unary_request = request
        self.health_was_asked.set()
        status = health_pb2.HealthCheckResponse
        return status(status=status.SERVING if self.is_serving else status.NOT_SERVING)


def refuse(context: grpc.ServicerContext, refusal: Refusal) -> None:
    context.set_trailing_metadata(refusal.trailers())
    context.abort(refusal.code, refusal.message)


def a_model(name: str = "tiny") -> Model:
    """The description of a model."""
    model = Model(
        name=name,
        aliases=["small"],
        context_length=2048,
        vocabulary_size=500,
        end_of_text_token_ids=[0],
        capabilities=[CAPABILITY_COMPLETION, CAPABILITY_CHAT],
        tokenizer_fingerprint="f00d",
    )
    model.default_sampling.temperature = 0.5
    model.default_sampling.top_p = 1.0
    model.default_sampling.frequency_penalty = 0.25
    model.ready_time.FromJsonString("2026-01-02T03:04:05Z")
    return model


@contextmanager
def running_server(
    port: int = 0, credentials: grpc.ServerCredentials | None = None
) -> Iterator[ScriptedServer]:
    """Serve on a port of the loopback, by default on a free one, with credentials by TLS."""
    servicer = ScriptedServer()
    server = grpc.server(ThreadPoolExecutor(16), options=[("grpc.so_reuseport", 0)])
    inference_service_pb2_grpc.add_InferenceServiceServicer_to_server(servicer, server)
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(servicer, server)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    address = f"127.0.0.1:{port}"
    chosen = (
        server.add_insecure_port(address)
        if credentials is None
        else server.add_secure_port(address, credentials)
    )
    servicer.target = f"127.0.0.1:{chosen}"
    server.start()
    try:
        yield servicer
    finally:
        server.stop(grace=None).wait(BOUND_SECONDS)
