"""The pipeline over the real engine process with the simulated model."""

import asyncio
import contextlib
import random
from contextlib import asynccontextmanager

import pytest

from headrace_server.backends.interface import BackendState
from headrace_server.engine.simulated_vocabulary import END_OF_TURN, FAULT_EXIT
from headrace_server.errors import EngineUnavailableError, QueueTimeoutError
from headrace_server.text.delta import Finish, FinishReason
from headrace_server.text.generation import (
    ChatMessage,
    ChatPrompt,
    Chunking,
    GenerationRequest,
    Sampling,
    Stopping,
    TextPrompt,
    TokenPrompt,
)
from headrace_server.text.pipeline import TextPipeline
from tests.server.backends.native.simulated_backend import running_backend, wait_until
from tests.server.text.only_candidate import flatten

GREEDY = Sampling(temperature=0.0)


@asynccontextmanager
async def running_pipeline(**options):
    """A pipeline over a ready engine; when it is left, all books of the engine must balance."""
    async with running_backend(**options) as backend, TextPipeline(backend) as pipeline:
        await pipeline.load_model(backend.model)
        yield pipeline, backend


def request(prompt="Once upon a time", *, max_output_tokens=40, **options):
    values = {
        "sampling": GREEDY,
        "stopping": Stopping(max_output_tokens=max_output_tokens, ignore_end_of_text=True),
    }
    prompt = TextPrompt(prompt) if isinstance(prompt, str) else prompt
    return GenerationRequest("id", prompt, **(values | options))


async def read(pipeline, request):
    async with pipeline.generate(request) as answer:
        return [flatten(delta) async for delta in answer]


async def read_whole(pipeline, request):
    deltas = await read(pipeline, request)
    return "".join(delta.text for delta in deltas), [i for d in deltas for i in d.token_ids]


async def test_a_chat_is_answered_until_its_end():
    """The text is that of the tokens, the end of the turn excluded, and all is counted."""
    prompt = ChatPrompt((ChatMessage("user", "Hi <|im_end|> é", None),), True, False)
    async with running_pipeline() as (pipeline, _):
        deltas = await read(pipeline, request(prompt, stopping=Stopping(), sampling=GREEDY))
        token_ids = [i for delta in deltas for i in delta.token_ids]
        text = await pipeline.detokenize(token_ids, include_special_tokens=True)

        assert token_ids[-1] == END_OF_TURN
        assert text == "".join(delta.text for delta in deltas) + "<|im_end|>"
        assert Finish(FinishReason.END_OF_TEXT) == deltas[-1].finish
        tokenized = await pipeline.tokenize(prompt)
        assert len(tokenized.token_ids) == deltas[-1].usage.prompt_token_count
        assert len(token_ids) == deltas[-1].usage.output_token_count


async def test_chunking_and_company_do_not_change_an_answer():
    """However it is cut, and whoever is answered or leaves beside it, an answer is the same."""
    choose = random.Random(7)
    chunkings = [Chunking(), Chunking(3), Chunking(9, 0.001), Chunking(whole=True)]
    async with running_pipeline(max_num_sequences=8) as (pipeline, _):
        prompts = [f"prompt {number}" for number in range(12)]
        alone = [await read_whole(pipeline, request(prompt)) for prompt in prompts]
        async with asyncio.TaskGroup() as tasks:
            answers = [
                tasks.create_task(
                    read_whole(pipeline, request(prompt, chunking=choose.choice(chunkings)))
                )
                for prompt in prompts
            ]
            for _ in range(12):
                leaver = tasks.create_task(read_one(pipeline, choose.choice(prompts)))
                asyncio.get_running_loop().call_later(choose.random() / 50, leaver.cancel)
        assert alone == [task.result() for task in answers]


async def read_one(pipeline, prompt):
    """Leave after the first delta, unless cancelled before."""
    async with pipeline.generate(request(prompt)) as answer:
        await anext(answer)


async def test_a_stop_sequence_ends_the_work_of_the_engine():
    """The engine computes no more than a step or two past a stop."""
    async with running_pipeline(step_seconds=0.005) as (pipeline, backend):
        text, _ = await read_whole(pipeline, request())
        stop = text[8:11]
        stopping = Stopping(stop_sequences=(stop,), ignore_end_of_text=True)
        num_steps = backend.load.num_steps
        deltas = await read(pipeline, request(stopping=stopping))

        assert text[: text.index(stop)] == "".join(delta.text for delta in deltas)
        assert Finish(FinishReason.STOP_SEQUENCE, stop_sequence=stop) == deltas[-1].finish
        await wait_until(lambda: backend.load.num_opened == backend.load.num_closed)
        assert backend.load.num_steps - num_steps <= deltas[-1].usage.output_token_count + 2


async def test_max_duration_ends_the_work_of_the_engine():
    """An answer whose time is over leaves the engine free."""
    async with running_pipeline(step_seconds=0.01) as (pipeline, backend):
        endless = Stopping(ignore_end_of_text=True)
        deltas = await read(pipeline, request(stopping=endless, max_seconds=0.1))
        assert Finish(FinishReason.TIME_LIMIT) == deltas[-1].finish
        assert 1 <= deltas[-1].usage.output_token_count <= 15
        await wait_until(lambda: backend.load.num_opened == backend.load.num_closed)


async def test_max_queue_duration_leaves_the_queue():
    """A request that does not get its turn in time fails, and the one before it goes on."""
    async with running_pipeline(step_seconds=0.002, max_num_sequences=1) as (pipeline, backend):
        async with pipeline.generate(request(max_output_tokens=200)) as first:
            await anext(first)
            with pytest.raises(QueueTimeoutError):
                await read(pipeline, request(max_queue_seconds=0.02))
            await wait_until(lambda: backend.load.num_waiting == 0)
            rest = [flatten(delta) async for delta in first]
        assert Finish(FinishReason.MAX_OUTPUT_TOKENS) == rest[-1].finish


async def test_the_death_of_the_engine_ends_an_answer():
    """A reader in the middle of an answer learns that the engine is gone, and may try again."""
    async with running_pipeline(step_seconds=0.005) as (pipeline, backend):
        async with pipeline.generate(request(max_output_tokens=2000)) as answer:
            await anext(answer)
            with contextlib.suppress(EngineUnavailableError):
                await read(pipeline, request(TokenPrompt((FAULT_EXIT,))))
            with pytest.raises(EngineUnavailableError):
                async for _ in answer:
                    pass
        while backend.status.state is not BackendState.READY:
            await backend.wait_for_status_change(backend.status)
        assert len((await read_whole(pipeline, request()))[1]) == 40
