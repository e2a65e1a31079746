"""What happens before an answer begins: loading, tokenizing, limits, admission, cancels."""

import asyncio
import threading

import pytest

from headrace_server.backends.interface import BackendState, BackendStatus, SamplingParams
from headrace_server.errors import (
    ContextLengthExceededError,
    EngineUnavailableError,
    InvalidFieldError,
    OverloadedError,
    QueueTimeoutError,
)
from headrace_server.text import pipeline as pipeline_module
from headrace_server.text.delta import Finish, FinishReason, Usage
from headrace_server.text.generation import (
    ChatMessage,
    ChatPrompt,
    GenerationRequest,
    Sampling,
    Stopping,
    TextPrompt,
    TokenPrompt,
)
from headrace_server.text.model_files import ModelFileError
from headrace_server.text.pipeline import TextPipeline
from tests.server.text.only_candidate import flatten
from tests.server.text.scripted_backend import ScriptedBackend, one_by_one
from tests.server.text.tokenizer_files import CHATML, byte_level_tokenizer, write_model

CONTEXT_LENGTH = 64
END = byte_level_tokenizer().token_to_id("<|im_end|>")
NEVER_SECONDS = 30.0


@pytest.fixture
def backend():
    return ScriptedBackend(one_by_one([1, 2]))


@pytest.fixture
async def pipeline(tmp_path, backend):
    model = write_model(
        tmp_path,
        byte_level_tokenizer(),
        chat_template=CHATML,
        generation_config={"eos_token_id": END, "temperature": 0.5, "top_k": 7},
        context_length=CONTEXT_LENGTH,
    )
    async with TextPipeline(backend) as pipeline:
        await pipeline.load_model(model)
        yield pipeline


@pytest.fixture
def blocked_tokenizer(monkeypatch):
    """Tokenizing waits until the event is set; what is yielded tells that it has begun."""
    begun, go_on = threading.Event(), threading.Event()
    real = pipeline_module.tokenize

    def tokenize(*args, **kwargs):
        begun.set()
        assert go_on.wait(NEVER_SECONDS)
        return real(*args, **kwargs)

    monkeypatch.setattr(pipeline_module, "tokenize", tokenize)
    yield begun
    go_on.set()


PROMPT = TokenPrompt((1, 2, 3))


def request(prompt=PROMPT, **options):
    return GenerationRequest("id", prompt, **options)


async def read(pipeline, request):
    async with pipeline.generate(request) as answer:
        return [flatten(delta) async for delta in answer]


async def submitted(pipeline, backend, request):
    """What the backend was asked."""
    await read(pipeline, request)
    return backend.requests[-1]


async def test_the_defaults_of_the_model_are_filled_in(pipeline, backend):
    """The backend gets the model's sampling, its ends of text, and all the room there is."""
    asked = await submitted(pipeline, backend, request(sampling=Sampling(seed=9)))
    assert SamplingParams(0.5, 7, 1.0, 0.0, 9) == asked.sampling
    assert (frozenset({END}), CONTEXT_LENGTH - 3) == (asked.stop_token_ids, asked.max_output_tokens)
    assert (asked.request_id, asked.prompt_token_ids) == ("id", (1, 2, 3))


async def test_wishes_come_before_defaults(pipeline, backend):
    """What the request says counts, zeros included."""
    asked = await submitted(
        pipeline,
        backend,
        request(
            sampling=Sampling(temperature=0.0, top_p=0.5, top_k=0, min_p=0.25, seed=-1),
            stopping=Stopping(
                max_output_tokens=2,
                min_output_tokens=1,
                stop_token_ids=(4,),
                ignore_end_of_text=True,
            ),
        ),
    )
    assert SamplingParams(0.0, None, 0.5, 0.25, -1) == asked.sampling
    assert (asked.max_output_tokens, asked.min_output_tokens) == (2, 1)
    assert frozenset({4}) == asked.stop_token_ids


async def test_stop_token_ids_join_the_ends_of_text(pipeline, backend):
    """The model still ends its text when the request has stop ids of its own."""
    asked = await submitted(pipeline, backend, request(stopping=Stopping(stop_token_ids=(4,))))
    assert frozenset({4, END}) == asked.stop_token_ids


async def test_each_call_has_a_seed_of_its_own(pipeline, backend):
    """Without a seed every call gets another signed 64-bit number."""
    seeds = {(await submitted(pipeline, backend, request())).sampling.seed for _ in range(20)}
    assert len(seeds) == 20
    assert all(-(2**63) <= seed < 2**63 for seed in seeds)
    assert {True, False} == {seed < 0 for seed in seeds}


async def test_a_chat_is_answered(pipeline, backend):
    """A chat goes through template and tokenizer; its tokens are counted."""
    prompt = ChatPrompt((ChatMessage("user", "hello", None),), True, False)
    tokenized = await pipeline.tokenize(prompt)
    deltas = await read(pipeline, request(prompt))
    assert tokenized.token_ids == backend.requests[-1].prompt_token_ids
    assert Usage(len(tokenized.token_ids), 2) == deltas[-1].usage
    assert tokenized.text.endswith("hello<|im_end|>\n<|im_start|>assistant\n")


@pytest.mark.parametrize(
    ("prompt", "stopping", "field", "counts"),
    [
        (TokenPrompt((1,) * 64), Stopping(), "token_ids.ids", ["token count is 64"]),
        (TextPrompt("x" * 70), Stopping(), "text", ["token count is 70", "length is 64"]),
        (
            TextPrompt("x" * 70),
            Stopping(max_output_tokens=0),
            "text",
            ["token count is 70", "length is 64"],
        ),
        (
            TokenPrompt((1,) * 60),
            Stopping(max_output_tokens=5),
            "stopping.max_output_tokens",
            ["prompt is 60", "is 5", "64", "at most 4"],
        ),
    ],
)
async def test_what_does_not_fit_the_context_is_refused(pipeline, prompt, stopping, field, counts):
    """The error names both counts and the limit, and the backend is not asked."""
    with pytest.raises(ContextLengthExceededError) as caught:
        await read(pipeline, request(prompt, stopping=stopping))
    assert field == caught.value.field
    assert all(count in caught.value.message for count in counts)


async def test_the_context_can_be_filled_to_the_last_token(pipeline, backend):
    """Prompt and output may take the context exactly."""
    prompt = TokenPrompt((1,) * 60)
    asked = await submitted(pipeline, backend, request(prompt, stopping=Stopping(4)))
    assert asked.max_output_tokens == 4
    asked = await submitted(pipeline, backend, request(TokenPrompt((1,) * 63)))
    assert asked.max_output_tokens == 1


@pytest.mark.parametrize(
    ("stopping", "field"),
    [
        (Stopping(stop_token_ids=(1, 10_000)), "stopping.stop_token_ids"),
        (Stopping(stop_token_ids=(-1,)), "stopping.stop_token_ids"),
        (Stopping(min_output_tokens=62), "stopping.min_output_tokens"),
    ],
)
async def test_what_the_model_cannot_do_is_refused(pipeline, backend, stopping, field):
    """Checks that need the model name the field of the request."""
    with pytest.raises(InvalidFieldError) as caught:
        await read(pipeline, request(stopping=stopping))
    assert field == caught.value.field
    assert backend.requests == []


@pytest.mark.parametrize("prompt", [TokenPrompt((1, 2, 3)), TokenPrompt((1,) * 64)])
async def test_no_output_is_an_answer_without_the_backend(pipeline, backend, prompt):
    """max_output_tokens 0 gives one empty delta with the prompt counted."""
    [delta] = await read(pipeline, request(prompt, stopping=Stopping(max_output_tokens=0)))
    assert ("", Finish(FinishReason.MAX_OUTPUT_TOKENS)) == (delta.text, delta.finish)
    assert Usage(len(prompt.token_ids), 0) == delta.usage
    assert backend.requests == []


async def test_no_output_needs_an_engine_all_the_same(pipeline, backend):
    """While the engine is away such a call fails as any other."""
    backend.status = BackendStatus(BackendState.UNAVAILABLE, "restarting")
    with pytest.raises(EngineUnavailableError):
        await read(pipeline, request(stopping=Stopping(max_output_tokens=0)))


async def test_a_refusal_of_the_backend_comes_before_the_answer(pipeline, backend):
    """An overload is raised on entering."""
    backend.refusal = OverloadedError("full", 2.0)
    with pytest.raises(OverloadedError):
        async with pipeline.generate(request()):
            pytest.fail("the request was not admitted")


async def test_without_a_model_everything_is_unavailable():
    """Until the model is loaded each call says to try again."""
    async with TextPipeline(ScriptedBackend()) as pipeline:
        assert pipeline.model is None
        with pytest.raises(EngineUnavailableError):
            await read(pipeline, request())
        with pytest.raises(EngineUnavailableError):
            await pipeline.tokenize(TextPrompt("x"))
        with pytest.raises(EngineUnavailableError):
            await pipeline.detokenize([1], include_special_tokens=False)


async def test_a_broken_model_is_an_error_of_the_load(tmp_path):
    """Loading from a directory without a tokenizer says what is missing."""
    facts = write_model(tmp_path, byte_level_tokenizer())
    (tmp_path / "tokenizer.json").unlink()
    async with TextPipeline(ScriptedBackend()) as pipeline:
        with pytest.raises(ModelFileError, match="needs this file"):
            await pipeline.load_model(facts)
        assert pipeline.model is None


async def test_the_operators_template_is_used(tmp_path, backend):
    """A template file given to the pipeline renders the chats."""
    template = tmp_path / "own.jinja"
    template.write_text("own: {{ messages[0].content }}")
    facts = write_model(tmp_path, byte_level_tokenizer(), chat_template=CHATML)
    async with TextPipeline(backend, chat_template_file=template) as pipeline:
        await pipeline.load_model(facts)
        prompt = ChatPrompt((ChatMessage("user", "hello", None),), True, False)
        assert (await pipeline.tokenize(prompt)).text == "own: hello"


async def test_tokenizing_is_not_bound_by_the_context(pipeline):
    """Tokenize counts what would not fit."""
    assert len((await pipeline.tokenize(TextPrompt("x" * 5000))).token_ids) == 5000


async def test_detokenizing_gives_text(pipeline):
    """The text of tokens, with special tokens on demand."""
    hello = byte_level_tokenizer().token_to_id("hello")
    assert await pipeline.detokenize([hello, END], include_special_tokens=False) == "hello"
    assert await pipeline.detokenize([hello, END], include_special_tokens=True) == "hello<|im_end|>"


async def test_the_loop_goes_on_while_a_text_is_tokenized(pipeline, blocked_tokenizer):
    """Tokenizing does not hold up anything else."""
    task = asyncio.ensure_future(read(pipeline, request()))
    assert await asyncio.to_thread(blocked_tokenizer.wait, NEVER_SECONDS)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_tokenizer_does_not_hold_the_interpreter(pipeline):
    """While the library works on a long text, the event loop gets its turns."""
    prompt = TextPrompt("the quick brown fox jumps over 13 lazy dogs é\n" * 20_000)
    loop = asyncio.get_running_loop()
    start = turn = loop.time()
    work = asyncio.ensure_future(pipeline.tokenize(prompt))
    pauses = []
    while not work.done():
        await asyncio.sleep(0)
        pauses.append(loop.time() - turn)
        turn = loop.time()
    assert max(pauses) < (turn - start) / 2


async def test_max_duration_counts_while_a_text_is_tokenized(pipeline, backend, blocked_tokenizer):
    """When the time is over before the tokens are known, the answer is empty and ends well."""
    [delta] = await read(pipeline, request(max_seconds=0.01))
    assert ("", Finish(FinishReason.TIME_LIMIT)) == (delta.text, delta.finish)
    assert Usage(0, 0) == delta.usage
    assert backend.requests == []


async def test_max_queue_duration_counts_while_a_text_is_tokenized(pipeline, blocked_tokenizer):
    """The wait for the tokenizer is part of the wait for the first step."""
    with pytest.raises(QueueTimeoutError):
        await read(pipeline, request(max_queue_seconds=0.01, max_seconds=NEVER_SECONDS))


class Reader:
    """A task that reads an answer, and the answer once it is admitted."""

    def __init__(self, pipeline, request):
        self.answer = asyncio.get_running_loop().create_future()
        self.task = asyncio.ensure_future(self._read(pipeline, request))

    async def _read(self, pipeline, request):
        async with pipeline.generate(request) as answer:
            self.answer.set_result(answer)
            return [delta async for delta in answer]


@pytest.mark.parametrize("limit", [{}, {"max_queue_seconds": 9.0}, {"max_seconds": 9.0}])
async def test_a_cancel_passes_through_a_wait_for_the_engine(pipeline, backend, limit):
    """Cancelled while it waits, with a limit or not, a reader ends and the backend is left."""
    backend.script = [asyncio.Event()]
    reader = Reader(pipeline, request(**limit))
    await reader.answer
    assert backend.num_open == 1
    reader.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader.task
    assert backend.num_open == 0


@pytest.mark.parametrize("cancels_first", [True, False])
async def test_a_cancel_at_the_deadline_is_still_a_cancel(pipeline, backend, cancels_first):
    """When both come in the same turn of the loop, the reader is cancelled."""
    backend.script = [asyncio.Event()]
    reader = Reader(pipeline, request(max_seconds=0.5))
    deadline = (await reader.answer)._deadlines.end
    cancel_time = deadline - 1e-6 if cancels_first else deadline + 1e-6
    loop = asyncio.get_running_loop()
    loop.call_at(cancel_time, reader.task.cancel)
    while loop.time() < deadline + 1e-5:
        pass  # the loop has no turn until both are due
    with pytest.raises(asyncio.CancelledError):
        await reader.task
    assert backend.num_open == 0
