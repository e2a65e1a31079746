"""Answers pass Envoy as they are made, and what ends them passes as well."""

import asyncio
import contextlib
import statistics
import time
import uuid

import aiohttp
import grpc
from grpc import aio

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import inference_service_pb2_grpc
from tests.deploy.envoy_process import BOUND_SECONDS
from tests.deploy.service import ENDLESS, running_service
from tests.server.running_server import Failure, collect, failure, first

STEP = ("--simulated-step-seconds", 0.01)
NUM_TRIES = 20
# Envoy adds about 1 ms to the first message and to a cancel; the rest is for busy machines.
MOST_ADDED_SECONDS = 0.25
MOST_CANCEL_SECONDS = 1.0
# Of which the client itself takes 4 MiB by default, and each socket on the way some more.
MOST_HELD_BYTES = 6 * 1024 * 1024


async def median_first_message_seconds(address):
    """Measure answers that never end by themselves, so that no one could hold their messages."""
    seconds = []
    async with aio.insecure_channel(address) as channel:
        await channel.channel_ready()
        stub = inference_service_pb2_grpc.InferenceServiceStub(channel)
        for _ in range(NUM_TRIES):
            begin = time.perf_counter()
            call = stub.Generate(pb.GenerateRequest(text="Once", stopping=ENDLESS))
            await first(call)
            seconds.append(time.perf_counter() - begin)
            call.cancel()
    return statistics.median(seconds)


async def test_the_first_message_comes_while_the_stream_runs():
    """It is not held back, and hardly later than from the replica itself."""
    async with running_service(*STEP, num_replicas=1) as service:
        direct = await median_first_message_seconds(service.replicas[0].address)
        through = await median_first_message_seconds(service.envoy.public)
    print(f"first message: {direct * 1000:.1f} ms direct, {through * 1000:.1f} ms through Envoy")
    assert through <= direct + MOST_ADDED_SECONDS


async def test_every_message_comes_by_itself():
    """Envoy joins none: each step of the engine is a message at the client as well."""
    stopping = {"max_output_tokens": 20, "ignore_end_of_text": True}
    async with running_service("--simulated-step-seconds", 0.05, num_replicas=1) as service:
        call = service.generate(stopping=stopping, output={"token_ids": True})
        times = [time.monotonic() async for _ in call]
        assert await call.code() is grpc.StatusCode.OK
    # Half of the stream's time lies between the first quarter of its messages and the last.
    assert len(times) >= 10
    assert times[-1] - times[len(times) // 4] >= 0.05 * 20 / 2


async def test_a_cancel_reaches_the_engine(unused_tcp_port):
    """What a caller who leaves has held is free at once. Prints the median of 20 times."""
    flags = (*STEP, "--metrics-port", unused_tcp_port)
    async with (
        running_service(*flags, num_replicas=1) as service,
        aiohttp.ClientSession(f"http://127.0.0.1:{unused_tcp_port}") as metrics,
    ):
        seconds = []
        for number in range(NUM_TRIES):
            call = service.generate()
            await first(call)
            begin = time.perf_counter()
            call.cancel()
            await closed(metrics, number + 1)
            seconds.append(time.perf_counter() - begin)
    median = statistics.median(seconds)
    print(f"cancel to engine: median {median * 1000:.1f} ms, longest {max(seconds) * 1000:.1f} ms")
    assert median <= MOST_CANCEL_SECONDS


async def closed(metrics, wanted):
    """Wait until the engine has closed so many sequences."""
    async with asyncio.timeout(BOUND_SECONDS):
        while True:
            async with metrics.get("/metrics") as response:
                lines = (await response.text()).splitlines()
            name = "headrace_sequences_closed_total "
            if any(line.startswith(name) and float(line.split()[1]) == wanted for line in lines):
                return


async def test_errors_come_with_their_details():
    """Envoy passes the status of a refusal as it is, with its field and its reason."""
    async with running_service(num_replicas=1) as service:
        error = await failure(service.generate(sampling={"temperature": -1}))
        assert error.code is grpc.StatusCode.INVALID_ARGUMENT
        assert (error.reason, error.field) == ("INVALID_FIELD", "sampling.temperature")


async def test_request_ids_pass_unchanged():
    """A caller finds its own id in the answer; without one it is that of Envoy's log."""
    async with running_service(num_replicas=1) as service:
        stopping = {"max_output_tokens": 1}
        for request_id in (str(uuid.uuid4()), "mine"):
            call = service.generate(stopping=stopping, metadata=[("x-request-id", request_id)])
            await collect(call)
            assert dict(await call.initial_metadata())["x-request-id"] == request_id
        call = service.generate(stopping=stopping)
        await collect(call)
        made_up = dict(await call.initial_metadata())["x-request-id"]
        await service.envoy.wait_for_log(lambda line: line.get("request_id") == made_up)


async def test_a_prompt_of_megabytes_passes():
    """Nothing on the way is smaller than the contract's limit for a request."""
    async with running_service(num_replicas=1) as service:
        error = await failure(service.generate(text="a" * 4_000_000))
        assert error.reason == "CONTEXT_LENGTH_EXCEEDED"


async def test_a_client_that_does_not_read_is_dropped(unused_tcp_port):
    """Envoy holds little for it, so that the replica notices, and frees what it has held."""
    flags = ("--stall-timeout", 1, "--metrics-port", unused_tcp_port)
    async with (
        running_service(*flags, num_replicas=1) as service,
        aiohttp.ClientSession(f"http://127.0.0.1:{unused_tcp_port}") as metrics,
    ):
        # Some KiB a step, without an end.
        call = service.generate(sampling={"candidate_count": 8}, output={"top_logprobs": 20})
        await first(call)
        await closed(metrics, 8)
        received = 0
        with contextlib.suppress(aio.AioRpcError):
            while (response := await call.read()) is not aio.EOF:
                received += response.ByteSize()
        error = Failure.of(await call.code(), await call.details(), await call.trailing_metadata())
        assert (error.code, error.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "CLIENT_STALLED")
    print(f"held for a client that does not read: {received / 1024:.0f} KiB")
    assert received < MOST_HELD_BYTES
