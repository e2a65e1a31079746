"""A server with keys lets nobody in without one, over real channels."""

import asyncio
import hashlib
import logging

import grpc
import hpack
import psutil
import pytest
import pytest_asyncio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import model_service_pb2
from headrace_server.api_keys import ApiKeys
from headrace_server.rpc.boundary import Boundary
from headrace_server.rpc.callers import Callers
from headrace_server.rpc.calls import Calls
from tests.server.rpc import raw_http2 as h2
from tests.server.running_server import (
    BOUND_SECONDS,
    collect,
    eventually,
    failure,
    running_server,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEY = "k-one"
NAME = f"key-{hashlib.sha256(KEY.encode()).hexdigest()[:8]}"
MESSAGE = (
    "There is no valid API key; send one as the metadata authorization: Bearer KEY, and no other."
)
SHORT = {"max_output_tokens": 1}
TOKENIZE = "/headrace.v1.InferenceService/Tokenize"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared():
    async with running_server("--api-key", KEY, "--api-key", "k-two") as under:
        yield under


@pytest_asyncio.fixture(loop_scope="module")
async def under(shared):
    yield shared
    await shared.all_returned()


def bearer(key, scheme="Bearer"):
    return (("authorization", f"{scheme} {key}"),)


async def tokenize(under, metadata=None):
    return await under.inference.Tokenize(pb.TokenizeRequest(text="ab"), metadata=metadata)


async def refusal(under, metadata):
    error = await failure(
        under.inference.Tokenize(pb.TokenizeRequest(text="ab"), metadata=metadata)
    )
    return error.code, error.reason, error.message


async def reflect(under, version, metadata=None):
    call = under.channel.stream_stream(
        f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
        reflection_pb2.ServerReflectionRequest.SerializeToString,
        reflection_pb2.ServerReflectionResponse.FromString,
    )(metadata=metadata)
    await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
    await call.done_writing()
    return call


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_a_right_key_is_let_in(under, scheme):
    """Each key of the flag, however the scheme is written."""
    for key in (KEY, "k-two"):
        assert (await tokenize(under, bearer(key, scheme))).token_count == 2


@pytest.mark.parametrize(
    "metadata",
    [
        (),
        bearer("k-three"),
        bearer(""),
        bearer(KEY + "x"),
        bearer(KEY[:-1]),
        bearer(KEY.upper()),
        bearer(f"{KEY},k-two"),
        bearer(f"{KEY} k-two"),
        bearer("x" * 7000),
        bearer(hashlib.sha256(KEY.encode()).hexdigest()),
        bearer(NAME),
        (("authorization", KEY),),
        (("authorization", f"Basic {KEY}"),),
        (("x-api-key", KEY),),
        (("authorization-bin", f"Bearer {KEY}".encode()),),
        (*bearer(KEY), *bearer("k-three")),
        (*bearer("k-three"), *bearer(KEY)),
        (*bearer(KEY), *bearer(KEY)),
    ],
    ids=lambda metadata: str(metadata)[:60],
)
async def test_all_else_is_refused_in_the_same_words(under, metadata):
    """Who tries keys learns nothing but that they are wrong."""
    assert await refusal(under, metadata) == (
        grpc.StatusCode.UNAUTHENTICATED,
        "UNAUTHENTICATED",
        MESSAGE,
    )


async def test_every_rpc_needs_a_key_but_health(under):
    """Reflection, too, and what does not exist; with a key all of them answer."""
    models = under.models
    for call in [
        under.generate(),
        under.inference.Detokenize(pb.DetokenizeRequest(token_ids=[1])),
        models.ListModels(model_service_pb2.ListModelsRequest()),
        models.GetModel(model_service_pb2.GetModelRequest()),
        await reflect(under, "v1"),
        await reflect(under, "v1alpha"),
        under.channel.unary_unary("/headrace.v1.InferenceService/Nothing")(b""),
        under.channel.unary_unary("/no.Service/Nothing")(b""),
    ]:
        assert (await failure(call)).code is grpc.StatusCode.UNAUTHENTICATED
    metadata = bearer(KEY)
    assert await collect(under.generate(stopping=SHORT, metadata=metadata))
    assert await models.ListModels(model_service_pb2.ListModelsRequest(), metadata=metadata)
    assert len((await (await reflect(under, "v1", metadata)).read()).list_services_response.service)
    unknown = under.channel.unary_unary("/no.Service/Nothing")(b"", metadata=metadata)
    assert (await failure(unknown)).code is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("metadata", [None, bearer("wrong")])
async def test_health_is_open(under, metadata):
    """Whoever watches a server from outside has no key of its callers."""
    stub = health_pb2_grpc.HealthStub(under.channel)
    serving = health_pb2.HealthCheckResponse.SERVING
    request = health_pb2.HealthCheckRequest()
    assert (await stub.Check(request, metadata=metadata)).status == serving
    assert (await stub.List(health_pb2.HealthListRequest(), metadata=metadata)).statuses
    watch = stub.Watch(request, metadata=metadata)
    assert (await watch.read()).status == serving
    watch.cancel()


async def test_a_service_that_says_nothing_of_keys_needs_one():
    """To forget it closes a door and opens none."""

    class NoKeys:
        def find(self, key):
            return None

    async def must_not_run(call, message):
        raise AssertionError

    class Details(grpc.HandlerCallDetails):
        method = TOKENIZE
        invocation_metadata = ()

    service = pb.DESCRIPTOR.services_by_name["InferenceService"]
    handlers = dict.fromkeys([method.name for method in service.methods], must_not_run)
    for needs_key, is_refused in [({}, True), ({"needs_key": False}, False)]:
        boundary = Boundary(Calls(), 1.0, Callers(NoKeys(), have_certificates=False))
        boundary.register(service, handlers, **needs_key)
        handler = boundary.service(Details())
        # Whoever needs no key is not waited for by gRPC, either: the request may never come.
        assert handler.request_streaming
        # What refuses has no response to write.
        assert (handler.response_serializer is None) is is_refused


async def next_headers(connection, stream_id):
    async with asyncio.timeout(BOUND_SECONDS):
        while True:
            frame = await connection.receive()
            assert frame is not None
            if frame.stream_id == stream_id and frame.kind == h2.HEADERS:
                return frame, dict(hpack.Decoder().decode(frame.payload))


async def test_a_refusal_does_not_wait_for_the_request(under):
    """Who has no key cannot make the server hold what it sends, nor make it parse anything."""
    async with h2.connect(under.address) as connection:
        connection.send_headers(1, "/headrace.v1.InferenceService/Generate")
        await connection.flush()
        frame, headers = await next_headers(connection, 1)
        assert frame.flags & h2.END_STREAM
        assert headers["grpc-status"] == str(grpc.StatusCode.UNAUTHENTICATED.value[0])


@pytest.mark.parametrize("value", [b"Bearer \xe4", b"Bearer \xff\xfe", b"Bearer k\x00", b"\xc3"])
async def test_bytes_that_are_no_text_are_no_key(under, value):
    """No client sends them, but somebody may."""
    async with h2.connect(under.address) as connection:
        connection.send_headers(1, TOKENIZE, (b"authorization", value))
        await connection.flush()
        _, headers = await next_headers(connection, 1)
        assert headers["grpc-status"] == str(grpc.StatusCode.UNAUTHENTICATED.value[0])


async def test_a_malformed_request_without_a_key_is_refused_for_the_key(under):
    """What is wrong with it is told to those only who may call."""
    call = under.channel.unary_unary(TOKENIZE)
    assert (await failure(call(b"\xff"))).code is grpc.StatusCode.UNAUTHENTICATED
    error = await failure(call(b"\xff", metadata=bearer(KEY)))
    assert error.code is grpc.StatusCode.INVALID_ARGUMENT


async def test_the_log_names_the_key_and_never_shows_it(under, caplog):
    """A call has the name of its key; a refusal has the address of who tried, and no key."""
    caplog.set_level(logging.DEBUG)
    await tokenize(under, bearer(KEY))
    await refusal(under, bearer("k-wrong"))
    lines = [record.fields for record in caplog.records if record.message == "call"]
    assert [(line["method"], line["code"], line["caller"]) for line in lines] == [
        ("InferenceService/Tokenize", "OK", NAME),
        ("InferenceService/Tokenize", "UNAUTHENTICATED", lines[1]["peer"]),
    ]
    assert KEY not in caplog.text
    assert "k-wrong" not in str([vars(record) for record in caplog.records])


async def test_a_path_that_does_not_exist_is_cut_in_the_log(under, caplog):
    """Nobody fills the log by long names."""
    caplog.set_level(logging.INFO)
    await failure(under.channel.unary_unary("/" + "x" * 3000)(b""))
    (line,) = [record.fields for record in caplog.records if record.message == "call"]
    assert line["method"] == "/" + "x" * 127


async def test_a_fault_in_the_check_of_a_key_is_internal(under, monkeypatch):
    """Whoever calls learns nothing of it, and is not let in."""

    def fail(*_):
        raise ValueError("secret /etc/passwd")

    monkeypatch.setattr(ApiKeys, "find", fail)
    error = await failure(
        under.inference.Tokenize(pb.TokenizeRequest(text="a"), metadata=bearer(KEY))
    )
    assert (error.code, error.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL")
    assert "secret" not in str(error)


async def test_a_refused_call_leaves_nothing(under):
    """Thousands of them are no calls in progress."""
    calls = [
        under.inference.Tokenize(pb.TokenizeRequest(text="a"), metadata=bearer("wrong"))
        for _ in range(500)
    ]
    for call in calls:
        assert (await failure(call)).code is grpc.StatusCode.UNAUTHENTICATED
    assert under.server.calls.num_live == 0


async def test_the_processes_of_the_server_are_not_told_the_keys(monkeypatch):
    """What runs models and grammars has no use for them, and their environment can be read."""
    monkeypatch.setenv("HEADRACE_API_KEY", KEY)
    monkeypatch.setenv("HEADRACE_GATEWAY_API_KEY", KEY)
    monkeypatch.setenv("OTHER_SETTING", "kept")
    async with running_server("--api-key", KEY) as under:
        environment = psutil.Process(under.backend.engine_pid).environ()
    assert environment["OTHER_SETTING"] == "kept"
    assert not environment.keys() & {"HEADRACE_API_KEY", "HEADRACE_GATEWAY_API_KEY"}


async def test_a_changed_file_of_keys_holds_from_the_next_second(tmp_path, caplog):
    """New keys are let in and old ones refused, without a new start; a bad file changes nothing."""
    file = tmp_path / "keys.txt"

    def replace(text):
        (tmp_path / "new").write_text(text)
        (tmp_path / "new").rename(file)

    replace("alice one\n")
    async with running_server("--api-key-file", file) as under:
        assert (await tokenize(under, bearer("one"))).token_count == 2
        replace("alice two\n")
        await until(under, "two", is_valid=True)
        await until(under, "one", is_valid=False)
        replace("alice\n")
        await told(caplog, "bad file of keys, the old keys stay valid", under)
        assert (await tokenize(under, bearer("two"))).token_count == 2
        replace("bob three\n")
        await until(under, "three", is_valid=True)
        await until(under, "two", is_valid=False)


async def told(caplog, event, under):
    """Wait until the log tells of an event, while calls come in."""
    async with asyncio.timeout(BOUND_SECONDS):
        while event not in [record.message for record in caplog.records]:
            await refusal(under, bearer("wrong"))


async def until(under, key, *, is_valid):
    """Wait until a key is valid, or invalid."""
    async with asyncio.timeout(BOUND_SECONDS):
        while True:
            call = under.inference.Tokenize(pb.TokenizeRequest(text="a"), metadata=bearer(key))
            if (await call.code() is grpc.StatusCode.OK) == is_valid:
                return


async def test_a_stream_goes_on_when_its_key_is_taken_away(tmp_path):
    """What was let in is served to its end; what comes next is refused."""
    file = tmp_path / "keys.txt"
    file.write_text("alice one\n")
    async with running_server("--api-key-file", file) as under:
        call = under.generate(metadata=bearer("one"))
        assert await call.read()
        (tmp_path / "new").write_text("alice two\n")
        (tmp_path / "new").rename(file)
        await until(under, "one", is_valid=False)
        assert await call.read()
        call.cancel()
        await eventually(lambda: under.server.calls.num_live == 0)
