"""What leaves the server when something goes wrong, over a real channel."""

import asyncio
import json
import logging
import re

import grpc
import pytest
import pytest_asyncio
from grpc import aio

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import model_service_pb2
from headrace_server import errors
from headrace_server.engine.simulated_runner import FAULT_NAN, FAULT_RAISE
from headrace_server.rpc.boundary import Boundary
from headrace_server.rpc.callers import Callers
from headrace_server.rpc.calls import Calls
from headrace_server.telemetry import JsonFormatter
from headrace_server.text.pipeline import TextPipeline
from tests.server.rpc.convert.test_generation import BAD_FIELDS, request
from tests.server.running_server import BOUND_SECONDS, collect, failure, first, running_server

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVERYBODY = Callers(None, have_certificates=False)
INVALID = grpc.StatusCode.INVALID_ARGUMENT


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared():
    async with running_server("--simulated-faults") as under:
        yield under


@pytest_asyncio.fixture(loop_scope="module")
async def under(shared):
    yield shared
    await shared.all_returned()


async def test_every_bad_field_is_refused_with_its_path(under):
    """Each rule of validation ends the call with INVALID_ARGUMENT and a violation of the field."""
    for fields, path in BAD_FIELDS:
        error = await failure(under.inference.Generate(request(**fields)))
        assert (error.code, error.reason, error.field) == (INVALID, "INVALID_FIELD", path)
        assert error.message.startswith(path)


@pytest.mark.parametrize(
    ("fields", "path", "reason"),
    [
        ({"text": ""}, "text", "INVALID_FIELD"),
        ({"token_ids": {"ids": [1, 263]}}, "token_ids.ids", "INVALID_FIELD"),
        (
            {"stopping": {"stop_token_ids": [99_999_999]}},
            "stopping.stop_token_ids",
            "INVALID_FIELD",
        ),
        ({"stopping": {"min_output_tokens": 8192}}, "stopping.min_output_tokens", "INVALID_FIELD"),
        ({"text": "a" * 9000}, "text", "CONTEXT_LENGTH_EXCEEDED"),
        ({"text": "a" * 4_000_000}, "text", "CONTEXT_LENGTH_EXCEEDED"),
        (
            {"text": "a", "stopping": {"max_output_tokens": 8192}},
            "stopping.max_output_tokens",
            "CONTEXT_LENGTH_EXCEEDED",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_what_only_the_model_can_refuse_has_the_same_shape(under, fields, path, reason):
    """Limits of the model are told as a violation of a field too, before any header."""
    call = under.generate(**fields)
    error = await failure(call)
    assert (error.code, error.reason, error.field) == (INVALID, reason, path)
    assert not await call.initial_metadata()


async def test_another_model_is_not_found_and_the_served_one_is_named(under):
    """Every RPC that takes a name refuses an unknown one and says which is served."""
    calls = [
        under.generate(model="gpt-4"),
        under.inference.Tokenize(pb.TokenizeRequest(model="gpt-4", text="a")),
        under.inference.Detokenize(pb.DetokenizeRequest(model="gpt-4", token_ids=[1])),
        under.models.GetModel(model_service_pb2.GetModelRequest(name="gpt-4")),
    ]
    for call in calls:
        error = await failure(call)
        assert (error.code, error.reason) == (grpc.StatusCode.NOT_FOUND, "MODEL_NOT_FOUND")
        assert "simulated" in error.message


@pytest.mark.parametrize("fault", [FAULT_NAN, FAULT_RAISE])
async def test_a_fault_of_one_request_ends_it_alone_as_internal(under, fault, caplog):
    """The caller sees a fixed text and an id that stands in the log; a neighbour goes on."""
    neighbour = under.generate(stopping={"max_output_tokens": 200, "ignore_end_of_text": True})
    await first(neighbour)
    error = await failure(under.generate(token_ids={"ids": [65, fault]}))
    assert (error.code, error.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL")
    (found,) = re.findall(r"[0-9a-f]{32}", error.message)
    assert found in [
        record.fields.get("request_id") for record in caplog.records if record.levelname == "ERROR"
    ]
    while await neighbour.read() is not aio.EOF:
        pass
    assert await neighbour.code() is grpc.StatusCode.OK


async def test_an_exception_tells_the_caller_nothing_but_an_id(under, monkeypatch, caplog):
    """The text of an unexpected exception stays in the log."""

    async def fail(*_):
        raise ValueError("secret /etc/passwd")

    monkeypatch.setattr(TextPipeline, "tokenize", fail)
    error = await failure(under.inference.Tokenize(pb.TokenizeRequest(text="a")))
    assert (error.code, error.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL")
    assert "secret" not in str(error)
    (record,) = [record for record in caplog.records if record.exc_info]
    assert record.fields["request_id"] in error.message
    assert "secret" in JsonFormatter().format(record)


async def test_a_cancellation_that_the_caller_did_not_make_is_unavailable(under, monkeypatch):
    """A future that is cancelled inside the server does not leave the caller without a status."""

    async def fail(*_):
        raise asyncio.CancelledError

    monkeypatch.setattr(TextPipeline, "tokenize", fail)
    async with asyncio.timeout(BOUND_SECONDS):
        error = await failure(under.inference.Tokenize(pb.TokenizeRequest(text="a")))
    assert (error.code, error.reason) == (grpc.StatusCode.UNAVAILABLE, "ENGINE_UNAVAILABLE")
    assert error.retry_seconds == 1


@pytest.mark.parametrize("text", ["a\ud800b", "x" * 100_000, "\r\n\x00\x1b", "é" * 50_000])
async def test_no_text_of_an_error_can_hang_or_hide_its_status(under, monkeypatch, text):
    """Whatever an error says, the caller gets its code, its reason and at most 1 KiB of it."""

    async def fail(*_):
        raise errors.OverloadedError(text, 3.0)

    monkeypatch.setattr(TextPipeline, "tokenize", fail)
    async with asyncio.timeout(BOUND_SECONDS):
        error = await failure(under.inference.Tokenize(pb.TokenizeRequest(text="a")))
    assert (error.code, error.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
    assert error.retry_seconds == 3
    assert len(error.message.encode()) <= 1024


# The fields 1 to 4 as strings; each message has one among them.
NOT_UTF8 = b"".join(bytes([number << 3 | 2, 2, 0xFF, 0xFE]) for number in (1, 2, 3, 4))
METHODS = [
    "headrace.v1.InferenceService/Generate",
    "headrace.v1.InferenceService/Tokenize",
    "headrace.v1.InferenceService/Detokenize",
    "headrace.v1.ModelService/GetModel",
    "headrace.v1.ModelService/ListModels",
    "grpc.health.v1.Health/Check",
    "grpc.health.v1.Health/Watch",
    "grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("data", [b"\xff\xff\xff", NOT_UTF8], ids=["torn", "not UTF-8"])
async def test_bytes_that_are_no_message_are_an_invalid_argument(under, method, data):
    """Malformed protobuf and text that is not UTF-8 are refused and not repeated."""
    call = under.channel.stream_stream(f"/{method}")()
    await call.write(data)
    await call.done_writing()
    error = await failure(call)
    assert (error.code, error.reason) == (INVALID, "INVALID_FIELD")
    assert "xff" not in error.message


async def test_an_unknown_method_is_unimplemented(under):
    """What is not in the contract is told so."""
    error = await failure(under.channel.unary_unary("/headrace.v1.InferenceService/Embed")(b""))
    assert error.code is grpc.StatusCode.UNIMPLEMENTED


async def test_a_message_over_the_limit_is_refused(under):
    """A request of more than 4 MiB does not get in, and the connection lives on."""
    error = await failure(under.generate(text="a" * (4 * 1024 * 1024)))
    assert error.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert await collect(under.generate(stopping={"max_output_tokens": 1}))


async def test_metadata_over_the_limit_is_refused(under):
    """A request with more than 8 KiB of metadata does not get in."""
    error = await failure(under.generate(metadata=(("x-large", "a" * 20_000),)))
    assert error.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert await collect(under.generate(stopping={"max_output_tokens": 1}))


async def test_each_call_is_one_line_of_the_log_without_any_text(under, caplog):
    """The access log has ids, code, reason, counts and times, and no prompt, answer or forgery."""
    caplog.set_level(logging.INFO)
    await collect(
        under.generate(
            text="CANARY",
            request_id="label-1",
            stopping={"max_output_tokens": 3, "ignore_end_of_text": True},
            metadata=(("x-request-id", "client-1"),),
        )
    )
    await failure(under.generate(chat={"messages": [{"content": "CANARY"}]}))
    running = under.generate(text="CANARY")
    await first(running)
    running.cancel()
    await under.all_returned()
    records = [record for record in caplog.records if record.message == "call"]
    lines = [JsonFormatter().format(record) for record in records]
    good, bad, left = map(json.loads, lines)
    assert not [line for line in lines if "CANARY" in line or "\n" in line]
    assert good["method"] == "InferenceService/Generate"
    assert (good["code"], good["label"], good["client_id"]) == ("OK", "label-1", "client-1")
    assert (good["prompt_tokens"], good["output_tokens"]) == (6, 3)
    assert 0 <= good["queue_ms"] <= good["first_token_ms"] <= good["total_ms"]
    assert (bad["code"], bad["reason"]) == ("INVALID_ARGUMENT", "INVALID_FIELD")
    assert bad["stage"] == "admission"
    assert (left["code"], left["stage"]) in [
        ("CANCELLED", "streaming"),
        ("CANCELLED", "blocked in write"),
    ]
    assert len({line["request_id"] for line in (good, bad, left)}) == 3


async def test_questions_about_the_server_are_logged_for_debugging_only(under, caplog):
    """Calls that programs repeat while they wait do not bury those of callers, good or bad."""
    caplog.set_level(logging.DEBUG)
    await under.models.ListModels(model_service_pb2.ListModelsRequest())
    await failure(under.models.GetModel(model_service_pb2.GetModelRequest(name="gpt-4")))
    await under.inference.Tokenize(pb.TokenizeRequest(text="a"))
    assert [
        (record.fields["method"], record.levelno)
        for record in caplog.records
        if record.message == "call"
    ] == [
        ("ModelService/ListModels", logging.DEBUG),
        ("ModelService/GetModel", logging.DEBUG),
        ("InferenceService/Tokenize", logging.INFO),
    ]


class LateContext:
    """A call whose deadline was over before its handler ran."""

    def __init__(self):
        self.status = None

    def peer(self):
        return "ipv4:127.0.0.1:1"

    def invocation_metadata(self):
        return ()

    def time_remaining(self):
        return 0.0

    async def abort(self, code, details, trailing_metadata):
        self.status = code, details, dict(trailing_metadata)
        raise aio.AbortError


async def test_a_call_that_arrives_after_its_deadline_costs_nothing():
    """Its handler does not run, and the status says why."""
    boundary, context = Boundary(Calls(), 1.0, EVERYBODY), LateContext()
    service = pb.DESCRIPTOR.services_by_name["InferenceService"]

    async def must_not_run(call, message):
        raise AssertionError

    names = [method.name for method in service.methods]
    boundary.register(service, dict.fromkeys(names, must_not_run))
    with pytest.raises(aio.AbortError):
        await boundary.service(GenerateDetails()).stream_stream(None, context)
    code, _, trailers = context.status
    assert code is grpc.StatusCode.DEADLINE_EXCEEDED
    assert b"DEADLINE_EXCEEDED" in trailers["grpc-status-details-bin"]


class GenerateDetails(grpc.HandlerCallDetails):
    method = "/headrace.v1.InferenceService/Generate"
    invocation_metadata = ()


async def test_a_service_with_an_rpc_that_nobody_implements_is_not_served():
    """Registering a service without a handler for each of its RPCs fails at once."""
    service = pb.DESCRIPTOR.services_by_name["InferenceService"]
    with pytest.raises(KeyError):
        Boundary(Calls(), 1.0, EVERYBODY).register(service, {})


async def test_the_words_of_a_chat_template_are_for_the_caller_alone(tmp_path, caplog):
    """A template may quote the messages that it refuses: the log does not repeat it."""
    caplog.set_level(logging.INFO)
    template = tmp_path / "template.jinja"
    template.write_text("{{ raise_exception('No ' ~ messages[0].content) }}")
    chat = {"messages": [{"role": "ROLE_USER", "content": "secret"}]}
    async with running_server("--chat-template", template) as under:
        error = await failure(under.generate(chat=chat))
    assert (error.code, error.field) == (INVALID, "chat.messages")
    assert error.message.endswith("No secret")
    assert "secret" not in "".join(JsonFormatter().format(record) for record in caplog.records)
