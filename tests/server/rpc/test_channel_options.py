"""The options of the channels by what they do: gRPC ignores a key that it does not know."""

import asyncio
import os
import signal
import struct
import sys

import pytest

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1.model_service_pb2 import GetModelRequest
from headrace_server.rpc.channel_options import MAX_STREAMS_PER_CONNECTION, ConnectionConfig
from tests.server.rpc import raw_http2 as h2
from tests.server.running_server import BOUND_SECONDS, ENDLESS, eventually, running_server

GENERATE = "/headrace.v1.InferenceService/Generate"


def request(**stopping):
    return pb.GenerateRequest(text="a", stopping=stopping).SerializeToString()


async def test_the_number_of_streams_on_a_connection_is_bounded():
    """The server's first frame tells how many streams may be open."""
    async with running_server() as under, h2.connect(under.address) as connection:
        frame = await connection.receive()
        assert frame.kind == h2.SETTINGS
        settings = dict(struct.iter_unpack(">HI", frame.payload))
        assert settings[h2.MAX_CONCURRENT_STREAMS] == MAX_STREAMS_PER_CONNECTION


@pytest.mark.parametrize(
    ("least_seconds", "is_cut_off"),
    [(0.1, False), (5.0, True)],
    ids=["as often as allowed", "too often"],
)
async def test_a_silent_stream_survives_the_pings_that_are_allowed(least_seconds, is_cut_off):
    """A client that pings every 0.2 s through a silent stream is cut off only if that is too often.

    The server allows a ping every 5 s; the times here are the same in small.
    """
    config = ConnectionConfig(min_client_ping_seconds=least_seconds)
    async with (
        running_server("--simulated-step-seconds", 1.5, connection=config) as under,
        h2.connect(under.address) as connection,
        asyncio.TaskGroup() as tasks,
    ):
        connection.open_stream(1, GENERATE, request(max_output_tokens=1))

        async def ping_for_ever():
            while True:
                connection.send(h2.PING, payload=b"headrace")
                await asyncio.sleep(0.2)

        pings = tasks.create_task(ping_for_ever())
        kinds = set()
        while not kinds & {h2.DATA, h2.GOAWAY}:
            kinds.add((await connection.receive()).kind)
        assert (h2.GOAWAY in kinds) == is_cut_off
        pings.cancel()


async def test_a_connection_that_stays_silent_is_closed():
    """Who connects and says nothing is sent away."""
    async with running_server(connection=ConnectionConfig(handshake_seconds=0.3)) as under:
        host, _, port = under.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        async with asyncio.timeout(BOUND_SECONDS):
            while await reader.read(1000):
                pass
        writer.close()


async def test_the_number_of_connections_is_bounded():
    """A connection over the limit is closed; there is room again when another goes."""
    async with running_server(connection=ConnectionConfig(max_connections=2)) as under:
        await under.models.GetModel(GetModelRequest())
        async with h2.connect(under.address) as second:
            assert (await second.receive()).kind == h2.SETTINGS
            async with h2.connect(under.address) as third:
                assert await third.receive() is None

        async def is_let_in():
            async with h2.connect(under.address) as connection:
                return await connection.receive() is not None

        async with asyncio.timeout(BOUND_SECONDS):
            while not await is_let_in():
                pass


FROZEN_CLIENT = """
import sys, grpc
from headrace.v1 import inference_service_pb2 as pb, inference_service_pb2_grpc as services
channel = grpc.insecure_channel(sys.argv[1])
stream = services.InferenceServiceStub(channel).Generate(
    pb.GenerateRequest(text="a", stopping={"ignore_end_of_text": True})
)
next(stream)
print("reading", flush=True)
for _ in stream:
    pass
"""


async def test_a_frozen_client_is_noticed():
    """What a stopped process had asked for is freed after a ping without an answer."""
    config = ConnectionConfig(ping_seconds=0.5, ping_timeout_seconds=0.5)
    async with running_server("--simulated-step-seconds", 0.01, connection=config) as under:
        client = await asyncio.create_subprocess_exec(
            sys.executable, "-c", FROZEN_CLIENT, under.address, stdout=asyncio.subprocess.PIPE
        )
        assert await client.stdout.readline() == b"reading\n"
        os.kill(client.pid, signal.SIGSTOP)
        await under.all_returned()
        client.kill()
        await client.wait()


async def test_streams_that_are_opened_and_reset_harm_nobody_else():
    """Thousands of rapid resets on one connection fail no call on another."""
    async with (
        running_server("--log-level", "error") as under,
        h2.connect(under.address) as connection,
        asyncio.TaskGroup() as tasks,
    ):

        async def read_for_ever():
            while await connection.receive():
                pass

        reading = tasks.create_task(read_for_ever())
        for number in range(3000):
            connection.open_stream(2 * number + 1, GENERATE, request(**ENDLESS))
            connection.reset(2 * number + 1)
            if number % 100 == 0:
                await connection.flush()
                await under.models.GetModel(GetModelRequest(), timeout=BOUND_SECONDS)
        reading.cancel()
        await under.all_returned()


async def test_two_servers_do_not_share_a_port():
    """A second server on the same port does not start."""
    from headrace_server.app import StartError

    async with running_server() as under:
        port = under.address.rpartition(":")[2]
        with pytest.raises(StartError, match=f"Port {port} on 127.0.0.1 is taken"):
            async with running_server("--port", port):
                pass
        await eventually(lambda: under.server.availability.is_serving)
