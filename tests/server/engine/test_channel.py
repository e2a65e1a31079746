"""The engine's end of the socket."""

import socket
import threading

import pytest

from headrace_server.engine.channel import FrontChannel, FrontGoneError
from headrace_server.engine.frames import FrameBuffer, encode_frame
from headrace_server.engine.messages import AbortSequence, Loading
from tests.server.engine.stepped_engine import add_sequence


@pytest.fixture
def sockets():
    front, engine = socket.socketpair()
    with front, engine:
        front.settimeout(10)
        yield front, engine


def test_messages_that_lie_ready_come_together_and_in_order(sockets):
    """One read takes all that has come."""
    front, engine = sockets
    messages = [add_sequence(1, b"hi"), AbortSequence(1)]
    front.sendall(b"".join(map(encode_frame, messages)))

    assert FrontChannel(engine).receive(timeout_seconds=10) == messages


def test_waiting_ends_with_the_timeout(sockets):
    """An idle engine wakes up by itself."""
    assert FrontChannel(sockets[1]).receive(timeout_seconds=0.01) == []


def test_two_full_sockets_do_not_wait_for_each_other(sockets):
    """A front that only sends while the engine only sends stops neither."""
    front, engine = sockets
    channel = FrontChannel(engine)
    prompt = list(range(200)) * 5000
    num_messages = 4

    def send_prompts():
        for sequence_id in range(num_messages):
            front.sendall(encode_frame(add_sequence(sequence_id, prompt)))

    def engine_sends():
        for _ in range(num_messages):
            channel.send(Loading(1, "x" * 1_000_000))

    threads = [threading.Thread(target=target) for target in (send_prompts, engine_sends)]
    threads[1].start()
    threads[0].start()
    threads[0].join(timeout=20)  # done before the front has read a byte
    assert not threads[0].is_alive()
    buffer, bodies = FrameBuffer(), []
    while len(bodies) < num_messages:
        bodies += buffer.feed(front.recv(1 << 20))
    threads[1].join(timeout=20)

    assert [message.sequence_id for message in channel.receive(10)] == list(range(num_messages))


def test_a_front_that_is_gone_is_noticed_by_reading_and_by_writing(sockets):
    """Neither waiting nor sending outlives the front."""
    front, engine = sockets
    channel = FrontChannel(engine)
    front.close()

    with pytest.raises(FrontGoneError):
        channel.receive(timeout_seconds=10)
    with pytest.raises(FrontGoneError):
        channel.send(Loading(1, "x" * 1_000_000))
