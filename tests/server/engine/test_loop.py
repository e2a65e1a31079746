"""The loop of the engine over a real socket, in a thread."""

import socket
import threading
from contextlib import contextmanager

import msgspec

from headrace_server.engine.block_pool import BlockPool, BlockPoolError
from headrace_server.engine.channel import FrontChannel, FrontGoneError
from headrace_server.engine.frames import FrameBuffer, encode_frame
from headrace_server.engine.loop import EngineLoop
from headrace_server.engine.messages import AbortSequence, Constraint, EngineMessage, Stop
from headrace_server.engine.pipeline import MAX_CONSECUTIVE_FAILURES
from headrace_server.engine.simulated_vocabulary import FAULT_RAISE
from tests.server.engine.fake_constraints import FakeCompiler
from tests.server.engine.stepped_engine import SteppedEngine, add_sequence, solo_answer

# Many times what a step or a heartbeat takes where other programs want the cores too.
PATIENCE_SECONDS = 60


class Front:
    """The other end of the socket, without asyncio; keeps what it has read."""

    def __init__(self, connection):
        self._socket = connection
        self._buffer = FrameBuffer()
        self.results = []

    def send(self, *messages):
        self._socket.sendall(b"".join(map(encode_frame, messages)))

    def read(self):
        """Wait for the next frames and return them."""
        data = self._socket.recv(1 << 20)
        results = [
            msgspec.msgpack.decode(body, type=EngineMessage) for body in self._buffer.feed(data)
        ]
        self.results += results
        return results

    def read_until_finished(self, *sequence_ids):
        while not set(sequence_ids) <= self.finishes.keys():
            self.read()

    @property
    def outputs(self):
        return [output for result in self.results for output in result.outputs]

    @property
    def finishes(self):
        return {each.sequence_id: each.finish for each in self.outputs if each.finish}

    def answer(self, sequence_id):
        outputs = [each for each in self.outputs if each.sequence_id == sequence_id]
        return [token_id for output in outputs for token_id in output.token_ids]


@contextmanager
def running_loop(runner=None, scheduler=None):
    """A loop in a thread; leaving closes the front and gives the loop's last exception."""
    engine = SteppedEngine()
    front, back = socket.socketpair()
    front.settimeout(PATIENCE_SECONDS)
    loop = EngineLoop(
        FrontChannel(back), scheduler or engine.scheduler, runner or engine.runner, epoch=3
    )
    errors = []

    def run():
        try:
            loop.run()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    with front, back:
        thread.start()
        try:
            yield Front(front), errors, thread
        finally:
            front.close()
            thread.join(timeout=PATIENCE_SECONDS)
    assert not thread.is_alive()


def test_every_step_is_one_frame_with_the_epoch():
    """A start is told before the step; after that each token has its frame."""
    with running_loop() as (front, _, _):
        front.send(add_sequence(0, b"hi", max_output_tokens=3))
        front.read_until_finished(0)

    assert [len(result.outputs) for result in front.results] == [1, 1, 1, 1]
    assert front.outputs[0].started
    assert front.answer(0) == solo_answer(b"hi", max_output_tokens=3)
    assert {result.epoch for result in front.results} == {3}


def test_an_idle_engine_gives_signs_of_life():
    """Heartbeats come without work and carry the counters."""
    with running_loop() as (front, _, _):
        beats = [*front.read(), *front.read()]

    assert [beat.outputs for beat in beats] == [[], []]
    assert beats[0].stats.num_free_blocks == 64


def test_an_engine_that_waits_for_a_constraint_is_alive_and_goes_on_by_itself():
    """Without a message there are signs of life, and the sequence runs once it is compiled."""
    compiler = FakeCompiler(is_ready=False)
    engine = SteppedEngine(compiler=compiler)
    with running_loop(engine.runner, engine.scheduler) as (front, _, _):
        front.send(add_sequence(0, b"hi", constraint=Constraint("spelt")))
        beats = [*front.read(), *front.read()]
        compiler.is_ready = True
        front.read_until_finished(0)

    assert [beat.outputs for beat in beats] == [[], []]
    assert bytes(front.answer(0)[:-1]) == b"spelt"


def test_a_row_that_raises_fails_alone():
    """The neighbours of a row that makes the whole step raise get their solo answers."""
    with running_loop() as (front, _, _):
        front.send(
            add_sequence(0, b"first"),
            add_sequence(1, [*b"bad", FAULT_RAISE]),
            add_sequence(2, b"third"),
        )
        front.read_until_finished(0, 1, 2)

    assert front.finishes == {0: "max_output_tokens", 1: "failed", 2: "max_output_tokens"}
    assert front.answer(0) == solo_answer(b"first")
    assert front.answer(2) == solo_answer(b"third")


class BrokenRunner:
    """A model that raises whatever it is given."""

    def forward(self, batch):
        raise RuntimeError("device lost")


def test_a_model_that_only_raises_ends_the_engine():
    """After too many failures in a row the process is of no use."""
    with running_loop(BrokenRunner()) as (front, errors, thread):
        front.send(*(add_sequence(i, b"x") for i in range(MAX_CONSECUTIVE_FAILURES)))
        front.send(*(add_sequence(i + 100, b"x") for i in range(MAX_CONSECUTIVE_FAILURES)))
        thread.join(timeout=PATIENCE_SECONDS)

    assert [str(error) for error in errors] == ["device lost"]


class AbortingRunner:
    """A simulated runner during whose step an abort arrives."""

    def __init__(self, runner):
        self._runner = runner
        self.front = None
        self.num_steps = 0

    def forward(self, batch):
        self.num_steps += 1
        self.front.send(AbortSequence(0))
        return self._runner.forward(batch)


def test_an_abort_that_comes_during_a_step_ends_with_that_step():
    """The inbox is read between forward and commit: the token of that step is not delivered."""
    runner = AbortingRunner(SteppedEngine().runner)
    with running_loop(runner) as (front, _, _):
        runner.front = front
        front.send(add_sequence(0, b"hi"))
        front.read_until_finished(0)

    assert front.finishes == {0: "aborted"}
    assert front.answer(0) == []
    assert runner.num_steps == 1


def test_stop_ends_the_loop():
    """The front's word ends the engine without an error."""
    with running_loop() as (front, errors, thread):
        front.send(add_sequence(0, b"hi", max_output_tokens=1000), Stop())
        thread.join(timeout=PATIENCE_SECONDS)

    assert errors == []


def test_the_end_of_the_front_ends_the_loop():
    """A closed socket is noticed while idle."""
    with running_loop() as (_, errors, _):
        pass

    assert [type(error) for error in errors] == [FrontGoneError]


class LeakyBlockPool(BlockPool):
    """A pool that forgets a block now and then."""

    def give_back(self, block_ids):
        super().give_back(list(block_ids)[1:])


def test_an_idle_engine_that_has_lost_a_block_ends():
    """A leak is noticed as soon as nothing runs, and a restart is the cure."""
    leaky = SteppedEngine(pool_type=LeakyBlockPool)
    with running_loop(leaky.runner, leaky.scheduler) as (front, errors, thread):
        front.send(add_sequence(0, b"hi"))
        thread.join(timeout=PATIENCE_SECONDS)

    assert [type(error) for error in errors] == [BlockPoolError]
