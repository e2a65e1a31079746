"""Starting and stopping the servers that are measured."""

import sys

import psutil
import pytest

from comparison.peer import Launch, Peer, Sizing
from comparison.server import ServerFailedError, running

SERVE = """
import http.server, sys
handler = http.server.SimpleHTTPRequestHandler
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), handler).serve_forever()
"""


def make_peer(program, *arguments):
    def launch(_, ports):
        command = (sys.executable, "-c", program, str(ports.http), *arguments)
        return Launch((command,), ready_path="/")

    return Peer("peer", "1.0", "fp32", {}, launch)


def start(peer, tmp_path, timeout_seconds=30.0):
    return running(peer, Sizing(1, 64), tmp_path / "log", timeout_seconds)


async def test_a_server_is_ready_when_it_answers_and_ends_with_the_block(tmp_path):
    """Nothing of it stays behind."""
    async with start(make_peer(SERVE), tmp_path) as server:
        [pid] = server.pids
        assert psutil.pid_exists(pid)
        assert server.start_seconds > 0
    assert not psutil.pid_exists(pid)


async def test_a_server_that_ends_while_it_starts_is_told_with_its_log(tmp_path):
    """The reason is in there."""
    with pytest.raises(ServerFailedError, match="ended while it started: no such model"):
        async with start(make_peer("import sys; sys.exit('no such model')"), tmp_path):
            pass


async def test_a_server_that_is_never_ready_is_stopped(tmp_path):
    """After the time that it is given."""
    program = "print('loading', flush=True); input_ = __import__('signal').pause()"
    with pytest.raises(ServerFailedError, match="not ready after 1 s"):
        async with start(make_peer(program), tmp_path, timeout_seconds=1.0):
            pass


async def test_a_program_that_is_not_there_is_told(tmp_path):
    """By its name."""
    peer = Peer("peer", "1", "", {}, lambda _, __: Launch((("/no/such/server",),), "/"))
    with pytest.raises(ServerFailedError, match=r"/no/such/server could not be started: No such"):
        async with start(peer, tmp_path):
            pass
