"""The native backend as its users see it, over a real engine process."""

import asyncio
import os
import signal

import pytest

from headrace_server.backends.interface import (
    BackendFinish,
    BackendState,
    BackendStatus,
    Started,
    Tokens,
)
from headrace_server.backends.native import AdmissionLimits, EngineLoadError
from headrace_server.engine.messages import SequenceOutput, StepResult
from headrace_server.engine.simulated_runner import (
    FAULT_NAN,
    FAULT_RAISE,
    MODEL_DIRECTORY,
    VOCABULARY_SIZE,
)
from headrace_server.errors import EngineUnavailableError, OverloadedError, RequestFailedError
from tests.server.backends.native.simulated_backend import (
    answer,
    make_backend,
    make_request,
    remaining_candidates,
    remaining_tokens,
    running_backend,
    wait_for_start,
    wait_for_state,
    wait_until,
    wait_until_idle,
)
from tests.server.engine.stepped_engine import solo_answer


async def test_a_stream_starts_brings_tokens_and_finishes():
    """The events of an answer are a start, then tokens, the last of them with the finish."""
    async with running_backend() as backend, backend.submit(make_request()) as stream:
        start, *tokens = [event async for events in stream for event in events]

    assert start == Started()
    assert [event.finish for event in tokens[:-1]] == [None] * (len(tokens) - 1)
    assert tokens[-1].finish is BackendFinish.MAX_OUTPUT_TOKENS
    assert [i for event in tokens for i in event.token_ids] == solo_answer()


async def test_the_model_is_described_once_it_is_ready():
    """Directory, context and vocabulary come from the engine."""
    backend = make_backend(max_context_length=500)
    assert backend.model is None
    async with backend:
        await wait_for_state(backend, BackendState.READY)

        assert backend.model.directory == MODEL_DIRECTORY
        assert backend.model.context_length == 500
        assert backend.model.vocabulary_size == VOCABULARY_SIZE


async def test_while_loading_the_status_shows_progress_and_requests_are_refused():
    """A caller is told when to come back; a person is told how far it is."""
    async with make_backend(load_seconds=0.2) as backend:
        seen = [backend.status]
        with pytest.raises(EngineUnavailableError) as refusal:
            await answer(backend, make_request())
        while seen[-1].state is not BackendState.READY:
            seen.append(await backend.wait_for_status_change(seen[-1]))

    assert refusal.value.retry_after_seconds > 0
    assert seen[0] == BackendStatus(BackendState.LOADING, "starting the engine")
    assert "loading the simulated model, 50 %" in [status.detail for status in seen]
    assert backend.load.num_opened == 0


async def test_64_streams_get_their_solo_answers_under_preemption():
    """Batching, chunking and too little memory change no token."""
    requests = [
        {"prompt": b"prompt %d " % i * (i % 7 + 1), "temperature": i % 2, "seed": i}
        for i in range(64)
    ]
    async with running_backend(
        kv_cache_bytes=60 * 16 * 4, max_num_batched_tokens=100, max_prefill_chunk=24
    ) as backend:
        answers = await asyncio.gather(
            *(answer(backend, make_request(**each, max_output_tokens=60)) for each in requests)
        )

    assert answers == [solo_answer(**each, max_output_tokens=60) for each in requests]


async def test_tokens_merge_while_nobody_reads():
    """A reader that comes late gets all tokens in one event."""
    async with running_backend() as backend, backend.submit(make_request()) as stream:
        await wait_until(lambda: backend.load.num_closed == 1)
        events = [event async for events in stream for event in events]

    assert events == [Started(), Tokens(solo_answer(), BackendFinish.MAX_OUTPUT_TOKENS, [])]


@pytest.mark.parametrize("fault", [FAULT_NAN, FAULT_RAISE], ids=["nan", "exception"])
async def test_a_fault_of_one_request_ends_that_request_alone(fault):
    """15 neighbours of a request that breaks the step get their solo answers."""
    prompts = [b"prompt %d" % i for i in range(15)]
    async with running_backend(step_seconds=0.002) as backend, asyncio.TaskGroup() as tasks:
        answers = [tasks.create_task(answer(backend, make_request(prompt))) for prompt in prompts]
        with pytest.raises(RequestFailedError):
            await answer(backend, make_request([*b"bad", fault]))

    assert [task.result() for task in answers] == [solo_answer(prompt) for prompt in prompts]


async def test_overload_is_told_at_once():
    """Beyond batch and queue a request is refused without waiting; a free place is taken again."""
    limits = AdmissionLimits(max_queued_requests=2)
    request = make_request(max_output_tokens=1000)
    async with (
        running_backend(step_seconds=0.005, max_num_sequences=1, admission=limits) as backend,
        backend.submit(request) as running,
        backend.submit(request),
    ):
        await wait_for_start(running)
        async with backend.submit(request):
            with pytest.raises(OverloadedError) as refusal:
                await answer(backend, request)
            assert backend.load.num_opened == 3
        with pytest.raises(OverloadedError):
            await answer(backend, request)  # left, but the engine has not said so yet
        await wait_until(lambda: backend.load.num_closed == 1)
        async with backend.submit(request):
            pass

    assert refusal.value.retry_after_seconds > 0


async def test_long_prompts_are_refused_by_their_tokens():
    """The queue is bounded in tokens too."""
    limits = AdmissionLimits(max_queued_tokens=500)
    async with (
        running_backend(step_seconds=0.005, max_num_sequences=1, admission=limits) as backend,
        backend.submit(make_request(max_output_tokens=1000)) as running,
    ):
        await wait_for_start(running)
        async with backend.submit(make_request(b"x" * 400)):
            with pytest.raises(OverloadedError):
                await answer(backend, make_request(b"x" * 101))
            async with backend.submit(make_request(b"x" * 100)):
                pass
        await wait_until(lambda: backend.load.num_closed == 2)
        async with backend.submit(make_request(b"x" * 400)):
            pass


async def test_a_stream_that_was_left_cannot_be_read():
    """A read after leaving raises instead of waiting for ever."""
    async with running_backend(step_seconds=0.005) as backend:
        async with backend.submit(make_request(max_output_tokens=5000)) as stream:
            await wait_for_start(stream)
        with pytest.raises(RequestFailedError):
            await remaining_tokens(stream)


async def test_an_exception_of_the_reader_passes_and_aborts():
    """Whatever ends the block, the sequence ends with it."""
    async with running_backend(step_seconds=0.005) as backend:
        with pytest.raises(ZeroDivisionError):
            async with backend.submit(make_request(max_output_tokens=1000)):
                raise ZeroDivisionError
        await wait_until_idle(backend)

        assert backend.load.num_closed == 1


async def test_outputs_of_strangers_are_ignored_and_counted():
    """An id that is not live changes nothing but the counters."""
    async with running_backend() as backend:
        stats = backend._stats
        backend.on_step(StepResult(1, [SequenceOutput(77, [1], finish="aborted")], stats))

        assert backend.num_ignored_outputs == 1
        assert await answer(backend, make_request()) == solo_answer()


async def test_a_model_that_cannot_be_loaded_is_one_sentence():
    """The first failure to load ends the body and leaves as one exception, not a group."""
    with pytest.raises(EngineLoadError, match="does not hold one block; give it at least 64 bytes"):
        async with make_backend(kv_cache_bytes=1):
            await asyncio.Event().wait()


async def test_an_exception_of_the_body_leaves_as_it_is():
    """The backend wraps nothing that its user raises."""

    async def fail_inside():
        async with running_backend():
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as raised:
        await fail_inside()
    assert raised.value.__cause__ is None


async def test_leaving_the_backend_fails_open_streams_and_ends_the_engine():
    """Nobody is left waiting for an engine that was stopped."""
    async with make_backend(step_seconds=0.005) as backend:
        await wait_for_state(backend, BackendState.READY)
        submission = backend.submit(make_request(max_output_tokens=5000))
        stream = await submission.__aenter__()
        await wait_for_start(stream)

    with pytest.raises(EngineUnavailableError):
        await remaining_tokens(stream)
    await submission.__aexit__(None, None, None)
    assert backend.engine_pid is None
    assert backend.load.num_opened == backend.load.num_closed == 1
    assert backend.status.state is BackendState.UNAVAILABLE


async def test_leaving_while_loading_does_not_wait():
    """An engine that is still loading is killed at once."""
    async with asyncio.timeout(20), make_backend(load_seconds=600) as backend:
        await wait_until(lambda: backend.engine_pid is not None)


async def test_each_candidate_is_the_answer_to_the_seed_after():
    """Candidate i is what the request alone would give with seed + i."""
    request = make_request(temperature=1.0, seed=7, num_candidates=3)
    async with running_backend() as backend, backend.submit(request) as stream:
        answers = await remaining_candidates(stream, 3)

    assert answers == [solo_answer(temperature=1.0, seed=seed) for seed in (7, 8, 9)]
    assert backend.load.num_opened == 3


async def test_the_seed_after_the_last_is_the_first():
    """Seeds stay signed integers of 64 bits."""
    request = make_request(temperature=1.0, seed=2**63 - 1, num_candidates=2)
    async with running_backend() as backend, backend.submit(request) as stream:
        answers = await remaining_candidates(stream, 2)

    assert answers[1] == solo_answer(temperature=1.0, seed=-(2**63))


async def test_a_candidate_is_cancelled_and_the_others_go_on():
    """The engine ends it within a step, and the rest of the stream is whole."""
    request = make_request(max_output_tokens=200, temperature=1.0, num_candidates=3)
    async with (
        running_backend(step_seconds=0.002) as backend,
        backend.submit(request) as stream,
    ):
        await wait_until(lambda: backend.load.num_running == 3)
        stream.cancel(1)
        await wait_until(lambda: backend.load.num_closed == 1)
        assert backend.load.num_running == 2
        answers = await remaining_candidates(stream, 3)

    whole = [solo_answer(max_output_tokens=200, temperature=1.0, seed=seed) for seed in (0, 2)]
    assert answers == [whole[0], [], whole[1]]


async def test_leaving_frees_all_candidates():
    """Those in the batch and those in the queue."""
    request = make_request(max_output_tokens=5000, num_candidates=5)
    async with running_backend(step_seconds=0.002, max_num_sequences=2) as backend:
        async with backend.submit(request) as stream:
            await wait_for_start(stream)
        await wait_until_idle(backend)

        assert (backend.load.num_opened, backend.load.num_closed) == (5, 5)


async def test_candidates_that_do_not_all_fit_are_refused_together():
    """Nothing of such a request reaches the engine."""
    limits = AdmissionLimits(max_queued_requests=2)
    async with (
        running_backend(step_seconds=0.005, max_num_sequences=1, admission=limits) as backend,
        backend.submit(make_request(max_output_tokens=1000)) as running,
    ):
        await wait_for_start(running)
        with pytest.raises(OverloadedError):
            await answer(backend, make_request(num_candidates=3))
        assert backend.load.num_opened == 1
        async with backend.submit(make_request(num_candidates=2)):
            assert backend.load.num_opened == 3


async def test_the_fault_of_a_candidate_fails_the_request_and_frees_the_others():
    """There is no answer with a hole in it."""
    async with running_backend(step_seconds=0.002) as backend:
        with pytest.raises(RequestFailedError):
            await answer(backend, make_request([*b"bad", FAULT_NAN], num_candidates=3))
        await wait_until_idle(backend)

        assert backend.load.num_closed == 3


async def test_the_death_of_the_engine_fails_a_request_with_all_its_candidates():
    """Running and waiting ones alike are closed, and the next request is answered."""
    async with running_backend(step_seconds=0.005, max_num_sequences=2) as backend:
        async with backend.submit(make_request(max_output_tokens=5000, num_candidates=5)) as stream:
            await wait_for_start(stream)
            os.kill(backend.engine_pid, signal.SIGKILL)
            with pytest.raises(EngineUnavailableError):
                await remaining_candidates(stream, 5)
        assert (backend.load.num_opened, backend.load.num_closed) == (5, 5)
        await wait_for_state(backend, BackendState.READY)
        assert await answer(backend, make_request()) == solo_answer()
