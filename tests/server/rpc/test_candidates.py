"""Several candidates over a real channel: each keeps the contract, and all of them end."""

import grpc
import pytest
import pytest_asyncio
from google.protobuf.duration_pb2 import Duration

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import stopping_pb2
from tests.server.running_server import collect, failure, first, running_server

SHORT = {"max_output_tokens": 30, "ignore_end_of_text": True}
CHUNKINGS = [
    {},
    {"min_tokens": 7},
    {"min_tokens": 1000, "max_delay": Duration(nanos=1_000_000)},
    {"whole": True},
]

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared():
    async with running_server("--max-num-seqs", 8, "--max-queued-requests", 16) as under:
        yield under


@pytest_asyncio.fixture(loop_scope="module")
async def under(shared):
    yield shared
    await shared.all_returned()


def candidates_of(responses, num_candidates):
    """Text and ids of each candidate; what the contract says of their order is checked."""
    assert [r.HasField("prompt") for r in responses] == [True] + [False] * (len(responses) - 1)
    assert [r.HasField("usage") for r in responses] == [False] * (len(responses) - 1) + [True]
    assert [r.HasField("timing") for r in responses] == [False] * (len(responses) - 1) + [True]
    texts, ids, ended = [""] * num_candidates, [[] for _ in range(num_candidates)], set()
    for response in responses:
        indices = [delta.candidate_index for delta in response.deltas]
        assert len(set(indices)) == len(indices)
        assert ended.isdisjoint(indices)
        for delta in response.deltas:
            texts[delta.candidate_index] += delta.text
            ids[delta.candidate_index] += delta.token_ids
        ended |= {d.candidate_index for d in response.deltas if d.HasField("finish")}
    assert ended == set(range(num_candidates))
    assert responses[-1].usage.output_token_count == sum(map(len, ids))
    return texts, ids


@pytest.mark.parametrize("chunking", CHUNKINGS, ids=str)
@pytest.mark.parametrize("num_candidates", [1, 3, 16])
async def test_every_candidate_keeps_the_contract(under, num_candidates, chunking):
    """One finish each and nothing after it, sums that agree, and the text of its own tokens."""
    sampling = {"candidate_count": num_candidates, "seed": 5, "temperature": 1}
    output = {"token_ids": True, "chunking": chunking}
    responses = await collect(under.generate(stopping=SHORT, sampling=sampling, output=output))

    texts, ids = candidates_of(responses, num_candidates)
    assert [len(each) for each in ids] == [30] * num_candidates
    for text, token_ids in zip(texts, ids, strict=True):
        answer = await under.inference.Detokenize(pb.DetokenizeRequest(token_ids=token_ids))
        assert text == answer.text
    if chunking.get("whole"):
        assert len(responses) == 1


async def test_candidate_i_is_the_answer_to_seed_plus_i(under):
    """Each can be had alone."""
    sampling = {"candidate_count": 3, "seed": 5, "temperature": 1}
    together = await collect(
        under.generate(stopping=SHORT, sampling=sampling, output={"token_ids": True})
    )
    alone = [
        await collect(
            under.generate(
                stopping=SHORT,
                sampling={"seed": seed, "temperature": 1},
                output={"token_ids": True},
            )
        )
        for seed in (5, 6, 7)
    ]
    texts, ids = candidates_of(together, 3)
    assert texts == [candidates_of(responses, 1)[0][0] for responses in alone]
    assert ids == [candidates_of(responses, 1)[1][0] for responses in alone]


async def test_a_stop_sequence_ends_only_the_candidates_that_meet_it(under):
    """The others run to their maximum, and the counts are those that were delivered."""
    sampling = {"candidate_count": 4, "seed": 5, "temperature": 1}
    wishes = {"sampling": sampling, "output": {"token_ids": True}}
    texts, _ = candidates_of(await collect(under.generate(stopping=SHORT, **wishes)), 4)
    stop = texts[2][9:12]
    meet = [stop in text for text in texts]
    assert not all(meet)

    stopping = {**SHORT, "stop_sequences": [stop]}
    responses = await collect(under.generate(stopping=stopping, **wishes))
    found, _ = candidates_of(responses, 4)
    assert found == [text.partition(stop)[0] for text in texts]
    reasons = {
        d.candidate_index: d.finish.reason
        for r in responses
        for d in r.deltas
        if d.HasField("finish")
    }
    assert [reasons[i] == stopping_pb2.FINISH_REASON_STOP_SEQUENCE for i in range(4)] == meet


async def test_the_time_limit_ends_all_candidates():
    """Every one of them, running or waiting, with status OK."""
    async with running_server("--simulated-step-seconds", 0.005, "--max-num-seqs", 2) as under:
        responses = await collect(
            under.generate(
                max_duration=Duration(nanos=100_000_000),
                sampling={"candidate_count": 3},
                output={"token_ids": True},
            )
        )
        candidates_of(responses, 3)
        reasons = [d.finish.reason for r in responses for d in r.deltas if d.HasField("finish")]
        assert reasons == [stopping_pb2.FINISH_REASON_TIME_LIMIT] * 3
        await under.all_returned()


async def test_leaving_frees_every_candidate(under):
    """A call of 16, of which some run and some wait, leaves nothing behind."""
    call = under.generate(sampling={"candidate_count": 16})
    await first(call)
    load = under.backend.load
    assert load.num_opened - load.num_closed == 16
    call.cancel()
    await under.all_returned()


async def test_candidates_that_do_not_fit_the_queue_are_refused_together(under):
    """The call fails with OVERLOADED and holds no place."""
    running = under.generate(sampling={"candidate_count": 16})
    await first(running)
    error = await failure(under.generate(sampling={"candidate_count": 9}))
    assert (error.code, error.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
    load = under.backend.load
    assert load.num_opened - load.num_closed == 16
    running.cancel()
    await under.all_returned()


async def test_the_deadline_of_the_call_frees_every_candidate(under):
    """Whatever they were doing."""
    error = await failure(under.generate(sampling={"candidate_count": 16}, timeout=0.3))
    assert error.code is grpc.StatusCode.DEADLINE_EXCEEDED
