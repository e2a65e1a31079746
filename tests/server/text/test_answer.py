"""The deltas of an answer, whatever its tokens, its stops and the way it is cut."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace_server.backends.interface import BackendFinish, Started, Tokens
from headrace_server.errors import EngineUnavailableError, QueueTimeoutError, RequestFailedError
from headrace_server.text.delta import Finish, FinishReason, Usage
from headrace_server.text.generation import (
    Chunking,
    GenerationRequest,
    Stopping,
    TokenPrompt,
)
from headrace_server.text.pipeline import TextPipeline
from tests.server.text.only_candidate import flatten
from tests.server.text.scripted_backend import ScriptedBackend, one_by_one, tokens
from tests.server.text.tokenizer_files import byte_level_tokenizer, write_model

TOKENIZER = byte_level_tokenizer()
END = TOKENIZER.token_to_id("<|im_end|>")
OTHER_END = TOKENIZER.token_to_id("<|endoftext|>")
NEVER_SECONDS = 30.0


@pytest.fixture(scope="module")
def model_facts(tmp_path_factory):
    """The directory of a model with two ends of text and a context of 64 tokens."""
    return write_model(
        tmp_path_factory.mktemp("model"),
        TOKENIZER,
        generation_config={"eos_token_id": [END, OTHER_END]},
        context_length=64,
    )


@pytest.fixture
def answering(model_facts):
    """Opens an answer to a prompt of three tokens over a script."""

    @asynccontextmanager
    async def answering(script, **options):
        backend = ScriptedBackend(script)
        async with TextPipeline(backend) as pipeline:
            await pipeline.load_model(model_facts)
            request = GenerationRequest("id", TokenPrompt((1, 2, 3)), **options)
            async with pipeline.generate(request) as answer:
                yield answer, backend
        assert backend.num_open == 0

    return answering


@pytest.fixture
def read(answering):
    """All deltas of an answer."""

    async def read(script, **options):
        async with answering(script, **options) as (answer, _):
            return [flatten(delta) async for delta in answer]

    return read


def encode(text):
    return TOKENIZER.encode(text).ids


def texts(deltas):
    return [delta.text for delta in deltas]


async def test_each_step_is_a_delta(read):
    """Each step of the engine is sent as it comes, the last one with finish and usage."""
    token_ids = [*encode("hello"), *encode(" world"), END]
    deltas = await read(one_by_one(token_ids, BackendFinish.STOP_TOKEN))
    assert texts(deltas) == ["hello", " world", ""]
    assert [None, None, Finish(FinishReason.END_OF_TEXT)] == [d.finish for d in deltas]
    assert [None, None, Usage(3, 3)] == [d.usage for d in deltas]
    timing = deltas[-1].timing
    assert 0 <= timing.queue_seconds <= timing.first_token_seconds <= timing.total_seconds


async def test_nothing_comes_after_the_finish(answering):
    """An answer that has ended stays ended."""
    async with answering(one_by_one(encode("hello"))) as (answer, _):
        assert Finish(FinishReason.CONTEXT_LENGTH) == flatten(await anext(answer)).finish
        for _ in range(2):
            with pytest.raises(StopAsyncIteration):
                await anext(answer)


def reference(token_ids, stopping):
    """The text of a whole answer and the number of its tokens, found the slow way."""
    text = ""
    for count in range(1, len(token_ids) + 1):
        before = len(text)
        text = TOKENIZER.decode(token_ids[:count]).removesuffix("\ufffd")
        if count < stopping.min_output_tokens:
            continue
        for end in range(before + 1, len(text) + 1):
            for stop in stopping.stop_sequences:
                if text[:end].endswith(stop):
                    cut = end if stopping.include_stop_in_output else end - len(stop)
                    return text[:cut], count, stop
    return text, len(token_ids), None


WORDS = ["hello", " world", "the", "l", "o", " ", "🌊", "é", "ing", "\n"]
STOPS = st.lists(st.sampled_from(["o", "lo", " w", "hellol", "🌊", "\n", "d\n"]), max_size=3)
CHUNKINGS = st.one_of(
    st.just(Chunking(whole=True)),
    st.builds(Chunking, st.integers(1, 5), st.sampled_from([None, 0.0, NEVER_SECONDS])),
)


def draw_script(data, token_ids):
    """The tokens in steps of random sizes."""
    script = [Started()]
    while token_ids:
        size = data.draw(st.integers(1, len(token_ids)))
        finish = BackendFinish.MAX_OUTPUT_TOKENS if size == len(token_ids) else None
        script.append(Tokens(token_ids[:size], finish))
        token_ids = token_ids[size:]
    return script


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_deltas_joined_are_the_whole_answer(read, data):
    """For any tokens, steps, stops and chunking: text, ids, usage and finish are the same."""
    words = data.draw(st.lists(st.sampled_from(WORDS), min_size=1))
    token_ids = [token_id for word in words for token_id in encode(word)]
    stopping = Stopping(
        max_output_tokens=len(token_ids),
        min_output_tokens=data.draw(st.integers(0, len(token_ids))),
        stop_sequences=tuple(data.draw(STOPS)),
        include_stop_in_output=data.draw(st.booleans()),
    )
    want_text, want_token_ids = data.draw(st.booleans()), data.draw(st.booleans())
    chunking = data.draw(CHUNKINGS)
    script = draw_script(data, token_ids)

    deltas = asyncio.run(
        read(
            script,
            stopping=stopping,
            chunking=chunking,
            want_text=want_text,
            want_token_ids=want_token_ids,
        )
    )

    text, count, stop = reference(token_ids, stopping)
    assert (text if want_text else "") == "".join(texts(deltas))
    assert token_ids[:count] == [i for delta in deltas for i in delta.token_ids]
    assert Usage(3, count) == deltas[-1].usage
    reason = FinishReason.MAX_OUTPUT_TOKENS if stop is None else FinishReason.STOP_SEQUENCE
    assert Finish(reason, stop_sequence=stop) == deltas[-1].finish
    assert all(delta.finish is delta.usage is delta.timing is None for delta in deltas[:-1])
    if not want_token_ids:
        assert all(delta.text for delta in deltas[:-1])
    if chunking.whole or not (want_text or want_token_ids):
        assert len(deltas) == 1
    elif chunking.max_delay_seconds != 0.0:
        assert all(len(delta.token_ids) >= chunking.min_tokens for delta in deltas[:-1])


async def test_a_partial_character_waits_for_its_rest(read):
    """No delta has half a character; what never becomes one is U+FFFD at the end."""
    whole = await read(one_by_one([*encode("é"), *encode("🐟")]))
    assert [text for text in texts(whole) if text] == ["é", "🐟"]

    cut = await read(one_by_one(encode("🐟")[:2]))
    assert texts(cut) == ["\ufffd"]


async def test_a_possible_stop_waits_until_it_is_known(read):
    """Text that may begin a stop sequence is sent when it turns out not to, and no later."""
    stopping = Stopping(stop_sequences=("lot",))
    deltas = await read(one_by_one([*encode("l"), *encode("o"), *encode("o")]), stopping=stopping)
    assert texts(deltas)[:1] == ["loo"]
    deltas = await read(one_by_one([*encode("l"), *encode("o")]), stopping=stopping)
    assert texts(deltas) == ["lo"]


async def test_ids_do_not_wait_for_text(read):
    """Where ids are wanted they go at once, though their text is held back."""
    stopping = Stopping(stop_sequences=("lot",))
    script = one_by_one([*encode("l"), *encode("o"), *encode("o")])
    deltas = await read(script, stopping=stopping, want_token_ids=True)
    assert texts(deltas) == ["", "", "loo"]
    assert [len(delta.token_ids) for delta in deltas] == [1, 1, 1]


async def test_a_stop_sequence_stops_the_engine_at_once(answering):
    """Before the last delta is even read, the backend is left; later tokens count for nothing."""
    hello, world = encode("hello")[0], encode(" world")[0]
    script = [Started(), Tokens([hello, world, hello], None), tokens(hello)]
    async with answering(script, stopping=Stopping(stop_sequences=("lo w",))) as (answer, backend):
        delta = flatten(await anext(answer))
        assert (backend.num_open, backend.num_unread) == (0, 1)
        assert delta.text == "hel"
        assert Finish(FinishReason.STOP_SEQUENCE, stop_sequence="lo w") == delta.finish
        assert (hello, world) == delta.token_ids
        assert Usage(3, 2) == delta.usage


@pytest.mark.parametrize(
    ("stopping", "stop_id", "text", "finish"),
    [
        (Stopping(), END, "hello", Finish(FinishReason.END_OF_TEXT)),
        (Stopping(), OTHER_END, "hello", Finish(FinishReason.END_OF_TEXT)),
        (
            Stopping(include_stop_in_output=True),
            END,
            "hello<|im_end|>",
            Finish(FinishReason.END_OF_TEXT),
        ),
        (
            Stopping(stop_token_ids=(5,)),
            5,
            "hello",
            Finish(FinishReason.STOP_SEQUENCE, stop_token_id=5),
        ),
        (
            Stopping(stop_token_ids=(5,), include_stop_in_output=True),
            5,
            "hello" + TOKENIZER.decode([5]),
            Finish(FinishReason.STOP_SEQUENCE, stop_token_id=5),
        ),
        (
            Stopping(stop_token_ids=(END,), ignore_end_of_text=True),
            END,
            "hello",
            Finish(FinishReason.STOP_SEQUENCE, stop_token_id=END),
        ),
        (Stopping(stop_sequences=("lox",)), END, "hello", Finish(FinishReason.END_OF_TEXT)),
    ],
)
async def test_a_stop_token_ends_the_answer(read, stopping, stop_id, text, finish):
    """Its id is sent and counted, its text only on demand, and what was held back is sent."""
    token_ids = [*encode("hello"), stop_id]
    script = one_by_one(token_ids, BackendFinish.STOP_TOKEN)
    deltas = await read(script, stopping=stopping, want_token_ids=True)
    assert text == "".join(texts(deltas))
    assert token_ids == [i for delta in deltas for i in delta.token_ids]
    assert (finish, Usage(3, 2)) == (deltas[-1].finish, deltas[-1].usage)


async def test_a_stop_token_can_complete_a_character(read):
    """A stop token that is shown and is the last byte of a character makes it whole."""
    token_ids = encode("🐟")
    stopping = Stopping(stop_token_ids=(token_ids[-1],), include_stop_in_output=True)
    deltas = await read(one_by_one(token_ids, BackendFinish.STOP_TOKEN), stopping=stopping)
    assert texts(deltas) == ["🐟"]


@pytest.mark.parametrize(
    ("max_output_tokens", "reason"),
    [(1, FinishReason.MAX_OUTPUT_TOKENS), (None, FinishReason.CONTEXT_LENGTH)],
)
async def test_a_full_answer_says_what_was_full(read, max_output_tokens, reason):
    """The request's own limit and the end of the context are told apart."""
    stopping = Stopping(max_output_tokens=max_output_tokens)
    deltas = await read(one_by_one(encode("hello")), stopping=stopping)
    assert Finish(reason) == deltas[-1].finish


async def test_tokens_are_collected(read):
    """With min_tokens a delta has that many tokens, and the rest comes with the end."""
    deltas = await read(one_by_one(encode("hello") * 5), chunking=Chunking(min_tokens=2))
    assert texts(deltas) == ["hellohello", "hellohello", "hello"]


async def test_collected_tokens_do_not_wait_longer_than_max_delay(answering):
    """When max_delay has passed, what is there is sent though min_tokens are not complete."""
    go_on = asyncio.Event()
    script = [Started(), tokens(*encode("hello")), go_on, *one_by_one(encode(" world"))[1:]]
    chunking = Chunking(min_tokens=5, max_delay_seconds=0.01)
    async with answering(script, chunking=chunking) as (answer, _):
        assert flatten(await anext(answer)).text == "hello"
        go_on.set()
        assert flatten(await anext(answer)).text == " world"


async def test_max_delay_has_nothing_to_send_while_all_is_held_back(answering):
    """A delay that passes over a partial character sends it as soon as it is whole."""
    first, *rest = encode("🐟")
    go_on = asyncio.Event()
    script = [Started(), tokens(first), go_on, tokens(*rest), asyncio.Event()]
    chunking = Chunking(min_tokens=50, max_delay_seconds=0.01)
    async with answering(script, chunking=chunking) as (answer, _):
        waiting = asyncio.ensure_future(anext(answer))
        assert not (await asyncio.wait([waiting], timeout=0.05))[0]
        go_on.set()
        assert flatten(await waiting).text == "🐟"


async def test_max_duration_ends_an_answer_where_it_is(read):
    """The time limit is a good end: the text so far, the usage, and status OK."""
    script = [Started(), tokens(*encode("hello")), tokens(encode("🐟")[0]), asyncio.Event()]
    deltas = await read(script, max_seconds=0.3, stopping=Stopping(stop_sequences=("lox",)))
    assert "".join(texts(deltas)) == "hello\ufffd"
    assert Finish(FinishReason.TIME_LIMIT) == deltas[-1].finish
    assert Usage(3, 2) == deltas[-1].usage
    assert deltas[-1].timing.total_seconds >= 0.3


async def test_max_duration_holds_when_tokens_never_pause(model_facts):
    """An engine that always has a token ready does not outrun the limit."""

    class Endless(ScriptedBackend):
        @asynccontextmanager
        async def submit(self, request):
            async def endless():
                yield [Started()]
                while True:
                    yield [tokens(*encode("hello"))]

            yield endless()

    async with TextPipeline(Endless()) as pipeline:
        await pipeline.load_model(model_facts)
        request = GenerationRequest("id", TokenPrompt((1,)), max_seconds=0.02)
        async with asyncio.timeout(NEVER_SECONDS), pipeline.generate(request) as answer:
            deltas = [flatten(delta) async for delta in answer]
    assert Finish(FinishReason.TIME_LIMIT) == deltas[-1].finish


async def test_max_duration_counts_in_the_queue(read):
    """An answer whose time is over before it starts is empty and ends well."""
    [delta] = await read([asyncio.Event()], max_seconds=0.3)
    finish, usage = Finish(FinishReason.TIME_LIMIT), Usage(3, 0)
    assert ("", finish, usage) == (delta.text, delta.finish, delta.usage)
    assert None is delta.timing.first_token_seconds
    assert delta.timing.queue_seconds == delta.timing.total_seconds


@pytest.mark.parametrize("max_seconds", [None, NEVER_SECONDS])
async def test_max_queue_duration_fails_a_request_that_does_not_start(answering, max_seconds):
    """Too long a wait is an error, and the backend is left."""
    async with answering([asyncio.Event()], max_queue_seconds=0.01, max_seconds=max_seconds) as (
        answer,
        _,
    ):
        with pytest.raises(QueueTimeoutError):
            await anext(answer)


async def test_the_earlier_of_two_limits_counts_in_the_queue(read):
    """A request whose whole time ends before its time in the queue does not fail."""
    [delta] = await read([asyncio.Event()], max_queue_seconds=NEVER_SECONDS, max_seconds=0.01)
    assert Finish(FinishReason.TIME_LIMIT) == delta.finish


async def test_max_queue_duration_ends_with_the_queue(answering):
    """Once a request has started, it may take longer than it might have waited."""
    go_on = asyncio.Event()
    script = [Started(), go_on, *one_by_one(encode("hello"))[1:]]
    async with answering(script, max_queue_seconds=0.3) as (answer, _):
        waiting = asyncio.ensure_future(anext(answer))
        assert not (await asyncio.wait([waiting], timeout=0.4))[0]
        go_on.set()
        assert flatten(await waiting).text == "hello"


@pytest.mark.parametrize(
    "error", [EngineUnavailableError("dead", 1.0), RequestFailedError("not a number")]
)
async def test_errors_of_the_backend_reach_the_reader(answering, error):
    """What was sent stays sent, then the error is raised."""
    script = [Started(), tokens(*encode("hello")), error]
    async with answering(script) as (answer, _):
        assert flatten(await anext(answer)).text == "hello"
        with pytest.raises(type(error)) as caught:
            await anext(answer)
        assert error is caught.value


async def test_an_engine_that_just_ends_is_an_error(answering):
    """A stream without a finish never looks like a complete answer."""
    async with answering([Started(), tokens(*encode("hello"))]) as (answer, _):
        await anext(answer)
        with pytest.raises(RequestFailedError):
            await anext(answer)


async def test_leaving_early_leaves_the_backend(answering):
    """A reader who breaks off in the middle holds nothing."""
    async with answering(one_by_one(encode("hello") * 9)) as (answer, backend):
        await anext(answer)
    assert (backend.num_open, backend.num_unread) == (0, 8)


async def test_control_tokens_have_their_names_where_that_is_wanted(read):
    """All but the one that ends the answer; without the wish none has a text."""
    start = TOKENIZER.token_to_id("<|im_start|>")
    script = one_by_one([start, *encode("hello"), END], BackendFinish.STOP_TOKEN)
    shown = await read(script, show_special_tokens=True)
    assert "".join(texts(shown)) == "<|im_start|>hello"
    assert shown[-1].finish == Finish(FinishReason.END_OF_TEXT)
    assert "".join(texts(await read(script))) == "hello"


async def test_a_control_token_that_is_shown_can_be_a_stop(read):
    """A stop sequence is looked for in the text as it is."""
    start = TOKENIZER.token_to_id("<|im_start|>")
    script = one_by_one([*encode("hello"), start, *encode("hello")])
    stopping = Stopping(stop_sequences=("<|im_start|>",))
    stopped = await read(script, show_special_tokens=True, stopping=stopping)
    assert "".join(texts(stopped)) == "hello"
    assert stopped[-1].finish.stop_sequence == "<|im_start|>"
