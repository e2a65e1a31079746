"""The socket beside the port: for this user alone, never stolen from a live server."""

import os
import socket
import stat

import grpc
import pytest

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import inference_service_pb2_grpc
from headrace_server.app import StartError
from tests.server.running_server import failure, open_channel, running_server
from tests.server.server_process import server_process


@pytest.fixture
def path(tmp_path):
    return tmp_path / "server.sock"


async def tokenize(address, metadata=None):
    async with open_channel(address) as channel:
        stub = inference_service_pb2_grpc.InferenceServiceStub(channel)
        return (await stub.Tokenize(pb.TokenizeRequest(text="ab"), metadata=metadata)).token_count


async def refusal(path):
    with pytest.raises(StartError) as caught:
        async with running_server("--unix-socket", path):
            pass
    return str(caught.value)


async def test_the_socket_serves_beside_the_port_and_goes_with_the_server(path):
    """Only this user may connect, and nothing is left."""
    mask = os.umask(0)
    try:
        async with running_server("--unix-socket", path) as under:
            assert await tokenize(f"unix:{path}") == 2
            assert await tokenize(under.address) == 2
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert os.umask(0) == 0
        assert not path.exists()
    finally:
        os.umask(mask)


async def test_keys_are_asked_for_there_too(path):
    """The socket is a way in like any other."""
    async with running_server("--unix-socket", path, "--api-key", "one"):
        async with open_channel(f"unix:{path}") as channel:
            stub = inference_service_pb2_grpc.InferenceServiceStub(channel)
            error = await failure(stub.Tokenize(pb.TokenizeRequest(text="a")))
            assert error.code is grpc.StatusCode.UNAUTHENTICATED
        assert await tokenize(f"unix:{path}", (("authorization", "Bearer one"),)) == 2


async def test_the_socket_of_a_dead_server_is_replaced(path):
    """It stays when a server is killed, and is in nobody's way."""
    async with server_process("--unix-socket", path) as server:
        assert await tokenize(f"unix:{path}") == 2
        server.process.kill()
        await server.process.wait()
    assert path.is_socket()
    async with running_server("--unix-socket", path):
        assert await tokenize(f"unix:{path}") == 2


async def test_the_socket_of_a_live_server_is_left_to_it(path):
    """The second one does not start, and the first one serves on."""
    async with running_server("--unix-socket", path):
        assert await refusal(path) == (
            f"Another program listens on {path}; stop it or give --unix-socket another path."
        )
        assert await tokenize(f"unix:{path}") == 2


async def test_the_socket_of_a_busy_program_is_left_to_it(path):
    """One that is too busy to answer is no dead one."""
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(str(path))
        busy.listen(0)
        with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as two:
            for waiting in (one, two):
                waiting.setblocking(False)
                waiting.connect_ex(str(path))
            assert "Another program listens on" in await refusal(path)
        assert path.is_socket()


async def test_what_is_no_socket_stays(path):
    """A path that was meant for something else loses nothing."""
    path.write_text("mine")
    assert await refusal(path) == f"{path} is there and no socket; give --unix-socket another path."
    assert path.read_text() == "mine"


async def test_a_path_that_no_socket_can_have_is_one_sentence(tmp_path):
    """Too long a one, and one in a directory that is not there."""
    long = tmp_path / ("x" * 107)
    assert await refusal(long) == (
        f"{long} is too long for a socket; give --unix-socket a path of at most 107 bytes."
    )
    lost = tmp_path / "no" / "s"
    assert await refusal(lost) == (
        f"Cannot make the socket {lost}; give --unix-socket a path in a directory that exists "
        "and that this user may write to."
    )
