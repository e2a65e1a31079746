"""Who a caller is: to the engine, to the cache, among labels and in the log."""

import asyncio
import logging

import grpc
import pytest
from grpc import aio

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import inference_service_pb2_grpc
from headrace_server.grammar.fair_slots import FairSlots
from tests.server.running_server import (
    ENDLESS,
    collect,
    eventually,
    failure,
    first,
    open_channel,
    running_server,
)

SHORT = {"max_output_tokens": 1}
PROMPT = "What callers send again and again is computed once."
# Steps that take their time, so that what is to keep the place does so.
ONE_AT_A_TIME = ("--max-num-seqs", 1, "--simulated-step-seconds", 0.005)
CROWD = 20
# Those whose answers end in the same step are told in any order.
FEW, NEARLY_ALL = 2, CROWD - 1
KEYS = "alice a-1\nalice a-2\nbob b-1\n"


@pytest.fixture
def key_file(tmp_path):
    file = tmp_path / "keys.txt"
    file.write_text(KEYS)
    return file


def bearer(key):
    return (("authorization", f"Bearer {key}"),)


def behind(caller):
    return (("x-headrace-caller", caller),)


async def cached(under, metadata=None, **fields):
    """Ask for an answer and return how many tokens of the prompt were in the cache."""
    responses = await collect(
        under.generate(text=PROMPT, stopping=SHORT, metadata=metadata, **fields)
    )
    return responses[0].prompt.cached_token_count


async def test_what_one_key_has_computed_is_no_hit_for_another(key_file):
    """Keys of one name share the cache; nobody else can find out what they have sent."""
    async with running_server("--api-key-file", key_file) as under:
        assert await cached(under, bearer("a-1")) == 0
        assert await cached(under, bearer("b-1")) == 0
        hit = await cached(under, bearer("a-1"))
        assert hit > 0
        assert await cached(under, bearer("a-2")) == hit
        assert await cached(under, bearer("b-1")) == hit


async def test_a_salt_cannot_stand_for_a_key(key_file):
    """It separates the callers of one name, and leads nowhere else."""
    async with running_server("--api-key-file", key_file) as under:
        await cached(under, bearer("a-1"), cache_salt="s")
        for salt in ("", "alice s", "alice", " s", "s "):
            assert await cached(under, bearer("b-1"), cache_salt=salt) == 0
        assert await cached(under, bearer("a-1")) == 0
        assert await cached(under, bearer("a-2"), cache_salt="s") > 0


async def test_without_keys_all_share_what_has_no_salt():
    """What a proxy tells of callers is no proof, and keeps nothing apart."""
    async with running_server() as under:
        assert await cached(under, behind("one")) == 0
        assert await cached(under, behind("two")) > 0


async def test_a_label_is_of_its_caller(key_file):
    """The same key has it once, on whatever connection; another name has its own."""
    async with running_server("--api-key-file", key_file) as under:
        running = under.generate(request_id="mine", metadata=bearer("a-1"))
        await first(running)
        for key in ("a-1", "a-2"):
            async with open_channel(under.address) as channel:
                stub = inference_service_pb2_grpc.InferenceServiceStub(channel)
                request = pb.GenerateRequest(text="a", request_id="mine")
                error = await failure(stub.Generate(request, metadata=bearer(key)))
            assert error.code is grpc.StatusCode.ALREADY_EXISTS
        other = under.generate(request_id="mine", stopping=SHORT, metadata=bearer("b-1"))
        assert await collect(other)
        running.cancel()
        await under.all_returned()


async def test_callers_behind_a_proxy_have_their_own_labels():
    """They come over one connection and are told apart by what the proxy says."""
    async with running_server() as under:
        running = under.generate(request_id="mine", metadata=behind("one"))
        await first(running)
        same = await failure(under.generate(request_id="mine", metadata=behind("one")))
        assert same.code is grpc.StatusCode.ALREADY_EXISTS
        for metadata in (behind("two"), None):
            assert await collect(
                under.generate(request_id="mine", stopping=SHORT, metadata=metadata)
            )
        running.cancel()
        await under.all_returned()


async def starts_of(under, crowd, single):
    """How many of a crowd begin before a single one that comes behind it.

    One request runs at a time, and all but it wait.
    """
    running = under.generate(stopping=ENDLESS, metadata=crowd)
    await first(running)
    order = []

    async def ask(name, metadata):
        await collect(under.generate(text="next", stopping=SHORT, metadata=metadata))
        order.append(name)

    async with asyncio.TaskGroup() as tasks:
        for number in range(CROWD):
            tasks.create_task(ask("crowd", crowd))
            await eventually(lambda: under.backend.load.num_waiting == number + 1)  # noqa: B023
        tasks.create_task(ask("single", single))
        await eventually(lambda: under.backend.load.num_waiting == CROWD + 1)
        running.cancel()
    return order.index("single")


@pytest.mark.parametrize(
    ("crowd", "single"),
    [(bearer("a-1"), bearer("b-1")), (bearer("a-2"), bearer("b-1"))],
)
async def test_two_names_take_turns_at_the_engine(key_file, crowd, single):
    """A crowd of one key holds up another by about one request, over the same connection."""
    async with running_server("--api-key-file", key_file, *ONE_AT_A_TIME) as under:
        assert await starts_of(under, crowd, single) <= FEW


async def test_keys_of_one_name_wait_in_one_line(key_file):
    """More keys give a caller no more of the engine."""
    async with running_server("--api-key-file", key_file, *ONE_AT_A_TIME) as under:
        assert await starts_of(under, bearer("a-1"), bearer("a-2")) >= NEARLY_ALL


async def test_callers_behind_a_proxy_take_turns(key_file):
    """Where there are no keys, they are who the proxy says; with keys, its word has no weight."""
    async with running_server(*ONE_AT_A_TIME) as under:
        assert await starts_of(under, behind("one"), behind("two")) <= FEW
    async with running_server("--api-key-file", key_file, *ONE_AT_A_TIME) as under:
        key = bearer("a-1")
        assert await starts_of(under, (*key, *behind("one")), (*key, *behind("two"))) >= NEARLY_ALL


async def test_the_places_for_checks_of_grammars_go_by_the_caller(key_file, monkeypatch):
    """Whoever keeps them busy holds up those with the same name."""
    taken = []
    take = FairSlots.take

    def recording_take(slots, caller):
        taken.append(caller)
        return take(slots, caller)

    monkeypatch.setattr(FairSlots, "take", recording_take)
    async with running_server("--api-key-file", key_file) as under:
        for key, regex in [("a-1", "[ab]"), ("b-1", "[bc]"), ("a-2", "[cd]")]:
            call = under.generate(constraint={"regex": regex}, stopping=SHORT, metadata=bearer(key))
            assert await collect(call)
    assert taken == ["alice", "bob", "alice"]


async def callers_in_log(caplog, under, *metadatas):
    caplog.clear()
    caplog.set_level(logging.INFO)
    for metadata in metadatas:
        await under.inference.Tokenize(pb.TokenizeRequest(text="a"), metadata=metadata)
    lines = [record.fields for record in caplog.records if record.message == "call"]
    return [(line["caller"].replace(line["peer"], "PEER")) for line in lines]


async def test_the_log_says_who_called(key_file, caplog):
    """The name of the key; without keys the connection and who is behind it."""
    async with running_server("--api-key-file", key_file) as under:
        found = await callers_in_log(
            caplog, under, bearer("a-1"), (*bearer("b-1"), *behind("mallory"))
        )
        assert found == ["alice", "bob"]
    async with running_server() as under:
        found = await callers_in_log(
            caplog,
            under,
            None,
            behind("10.0.0.7"),
            bearer("unread"),
            behind("x" * 128),
            behind("x" * 129),
            behind(""),
        )
        assert found == ["PEER", "PEER/10.0.0.7", "PEER", "PEER/" + "x" * 128, "PEER", "PEER"]
    assert "unread" not in str([vars(record) for record in caplog.records])


async def test_two_connections_are_two_callers_without_keys(caplog):
    """The address has the port of the connection."""
    async with running_server() as under:
        running = under.generate(request_id="mine")
        await first(running)
        async with aio.insecure_channel(
            under.address, options=(("grpc.use_local_subchannel_pool", 1),)
        ) as channel:
            stub = inference_service_pb2_grpc.InferenceServiceStub(channel)
            request = pb.GenerateRequest(text="a", request_id="mine", stopping=SHORT)
            assert await collect(stub.Generate(request))
        running.cancel()
        await under.all_returned()
