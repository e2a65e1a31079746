"""Several candidates of one answer: merged into deltas, ended one by one, and all at once."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace_server.backends.interface import BackendFinish, Started, Tokens
from headrace_server.text.delta import Finish, FinishReason, PromptInfo, Usage
from headrace_server.text.generation import Chunking, GenerationRequest, Stopping, TokenPrompt
from headrace_server.text.model import TextModel
from headrace_server.text.pipeline import TextPipeline
from tests.server.text.scripted_backend import ScriptedBackend
from tests.server.text.tokenizer_files import byte_level_tokenizer, write_model

TOKENIZER = byte_level_tokenizer()
END = TOKENIZER.token_to_id("<|im_end|>")
NUM_CANDIDATES = 3
MAXIMUM = BackendFinish.MAX_OUTPUT_TOKENS
NEVER_SECONDS = 30.0


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    facts = write_model(
        tmp_path_factory.mktemp("model"),
        TOKENIZER,
        generation_config={"eos_token_id": [END]},
        context_length=64,
    )
    return TextModel.load(facts)


@pytest.fixture
def read(model):
    """All deltas of an answer over a script, and the backend; every candidate is checked."""

    async def read(script, num_candidates=NUM_CANDIDATES, **options):
        backend = ScriptedBackend(script)
        async with TextPipeline(backend) as pipeline:
            pipeline._model = model  # read once
            request = GenerationRequest(
                "id", TokenPrompt((1, 2, 3)), num_candidates=num_candidates, **options
            )
            async with pipeline.generate(request) as answer:
                deltas = [delta async for delta in answer]
        assert backend.num_open == 0
        check_contract(deltas, num_candidates)
        return deltas, backend

    return read


def check_contract(deltas, num_candidates):
    """Prompt first, counts last, one finish for each candidate and nothing after it."""
    ended = set()
    for delta in deltas:
        indices = [candidate.candidate_index for candidate in delta.candidates]
        assert sorted(set(indices)) == indices
        assert ended.isdisjoint(indices)
        ended |= {each.candidate_index for each in delta.candidates if each.finish is not None}
    assert ended == set(range(num_candidates))
    assert [each.prompt is not None for each in deltas] == [True] + [False] * (len(deltas) - 1)
    for values in ([each.usage for each in deltas], [each.timing for each in deltas]):
        assert [value is not None for value in values] == [False] * (len(deltas) - 1) + [True]
    assert deltas[-1].candidates[-1].finish is not None


def encode(text):
    return TOKENIZER.encode(text).ids


def tokens(index, text, finish=None):
    return Tokens(encode(text), finish, (), index)


def joined(deltas, index):
    """The text and the ids of a candidate."""
    pieces = [
        each for delta in deltas for each in delta.candidates if each.candidate_index == index
    ]
    return "".join(each.text for each in pieces), [i for each in pieces for i in each.token_ids]


def finishes(deltas):
    return {
        each.candidate_index: each.finish
        for delta in deltas
        for each in delta.candidates
        if each.finish is not None
    }


async def test_what_a_step_makes_is_one_delta(read):
    """All candidates of a step come together, in order, with one count at the end."""
    script = [
        [Started(2), tokens(0, "hello"), tokens(1, "user"), tokens(2, "hello")],
        [tokens(0, " world"), tokens(1, "user", MAXIMUM), tokens(2, " world")],
        [tokens(0, "ing", MAXIMUM), tokens(2, "ing", MAXIMUM)],
    ]
    deltas, backend = await read(script)

    assert [[each.text for each in delta.candidates] for delta in deltas] == [
        ["hello", "user", "hello"],
        [" world", "user", " world"],
        ["ing", "ing"],
    ]
    assert deltas[0].prompt == PromptInfo(3, 2)
    assert deltas[-1].usage == Usage(3, 8)
    assert backend.requests[0].num_candidates == NUM_CANDIDATES


async def test_a_candidate_that_meets_its_stop_is_cancelled_and_the_others_go_on(read):
    """Each candidate looks for the stop by itself, and only one that met it is stopped."""
    script = [
        [Started(), tokens(0, "hello"), tokens(1, "user"), tokens(2, "user")],
        [tokens(0, " world"), tokens(1, "user"), tokens(2, "hello world")],
        [tokens(1, "user", MAXIMUM)],
    ]
    deltas, backend = await read(script, stopping=Stopping(9, stop_sequences=("lo w",)))

    stopped = Finish(FinishReason.STOP_SEQUENCE, stop_sequence="lo w")
    assert finishes(deltas) == {
        0: stopped,
        1: Finish(FinishReason.MAX_OUTPUT_TOKENS),
        2: stopped,
    }
    assert [joined(deltas, index)[0] for index in range(3)] == ["hel", "useruseruser", "userhel"]
    assert backend.cancelled[:2] == [0, 2]


async def test_text_that_is_held_back_holds_nobody_up(read):
    """A candidate with nothing to show is left out until it has something."""
    first, *rest = encode("🐟")
    script = [
        [Started(), Tokens([first], None, (), 0), tokens(1, "hello")],
        [Tokens(rest, MAXIMUM, (), 0), tokens(1, "hello", MAXIMUM)],
    ]
    deltas, _ = await read(script, num_candidates=2)

    assert [[(c.candidate_index, c.text) for c in delta.candidates] for delta in deltas] == [
        [(1, "hello")],
        [(0, "🐟"), (1, "hello")],
    ]
    assert joined(deltas, 0)[1] == encode("🐟")


async def test_the_tokens_of_a_delta_are_counted_together(read):
    """min_tokens is a rule for the response; the end of a candidate does not wait for it."""
    script = [
        [Started(), tokens(0, "hello"), tokens(1, "user")],
        [tokens(0, "hello"), tokens(1, "user")],
        [tokens(0, "hello"), tokens(1, "user")],
        [tokens(0, "hello", MAXIMUM)],
        [tokens(1, "user", MAXIMUM)],
    ]
    deltas, _ = await read(script, num_candidates=2, chunking=Chunking(min_tokens=4))

    assert [[each.text for each in delta.candidates] for delta in deltas] == [
        ["hellohello", "useruser"],
        ["hellohello", "user"],
        ["user"],
    ]


async def test_a_whole_answer_has_all_candidates_in_one_delta(read):
    """However their ends are spread over the steps."""
    script = [
        [Started(), tokens(0, "hello", MAXIMUM), tokens(1, "user"), tokens(2, "user")],
        [tokens(2, "user", MAXIMUM)],
        [tokens(1, "hello", MAXIMUM)],
    ]
    deltas, _ = await read(script, chunking=Chunking(whole=True))

    [delta] = deltas
    assert [each.text for each in delta.candidates] == ["hello", "userhello", "useruser"]


async def test_the_time_limit_ends_all_candidates(read):
    """Those that have ended keep their ends, the others end where they are."""
    script = [
        [Started(), tokens(0, "hello", MAXIMUM), tokens(1, "user")],
        asyncio.Event(),
    ]
    deltas, _ = await read(script, stopping=Stopping(9), max_seconds=0.3)

    assert finishes(deltas) == {
        0: Finish(FinishReason.MAX_OUTPUT_TOKENS),
        1: Finish(FinishReason.TIME_LIMIT),
        2: Finish(FinishReason.TIME_LIMIT),
    }
    assert deltas[-1].usage == Usage(3, 2)


async def test_no_output_ends_all_candidates(read):
    """max_output_tokens 0 is as many empty answers as were asked for."""
    [delta], backend = await read([], stopping=Stopping(0))

    assert [each.finish for each in delta.candidates] == (
        [Finish(FinishReason.MAX_OUTPUT_TOKENS)] * NUM_CANDIDATES
    )
    assert backend.requests == []


async def test_leaving_early_leaves_all_candidates(model):
    """A reader who breaks off after one candidate's end holds nothing."""
    script = [[Started(), tokens(0, "hello", MAXIMUM), tokens(1, "user")], asyncio.Event()]
    backend = ScriptedBackend(script)
    async with TextPipeline(backend) as pipeline:
        pipeline._model = model  # read once
        request = GenerationRequest("id", TokenPrompt((1,)), num_candidates=2)
        async with pipeline.generate(request) as answer:
            await anext(answer)
    assert (backend.num_open, backend.num_unread) == (0, 1)


WORDS = ["hello", " world", "user", "l", "o", " ", "🌊", "é"]
STOPS = st.lists(st.sampled_from(["o", "lo", " w", "🌊"]), max_size=2)
CHUNKINGS = st.one_of(
    st.just(Chunking(whole=True)),
    st.builds(Chunking, st.integers(1, 5), st.sampled_from([None, 0.0, NEVER_SECONDS])),
)


def draw_script(data, candidates):
    """The tokens of all candidates in steps of random sizes, each beginning at one of its own."""
    steps = {}
    for index, token_ids in enumerate(candidates):
        step = data.draw(st.integers(0, 3))
        done = 0
        while done < len(token_ids):
            size = data.draw(st.integers(1, len(token_ids)))
            finish = MAXIMUM if done + size >= len(token_ids) else None
            events = steps.setdefault(step, [])
            events.append(Tokens(token_ids[done : done + size], finish, (), index))
            step, done = step + 1, done + size
    return [[Started()], *(steps[step] for step in sorted(steps))]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_each_candidate_is_what_it_would_be_alone(read, data):
    """For any tokens, steps, stops and chunking each candidate is the answer with its tokens."""
    num_candidates = data.draw(st.integers(1, 4))
    candidates = [
        [
            i
            for word in data.draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12))
            for i in encode(word)
        ]
        for _ in range(num_candidates)
    ]
    options = {
        "stopping": Stopping(60, stop_sequences=tuple(data.draw(STOPS))),
        "want_text": data.draw(st.booleans()),
        "want_token_ids": data.draw(st.booleans()),
        "chunking": data.draw(CHUNKINGS),
    }
    deltas, _ = asyncio.run(read(draw_script(data, candidates), num_candidates, **options))

    counts = 0
    for index, token_ids in enumerate(candidates):
        script = [Started(), Tokens(token_ids, MAXIMUM)]
        alone, _ = asyncio.run(read(script, 1, **options))
        assert joined(deltas, index) == joined(alone, 0)
        assert finishes(deltas)[index] == finishes(alone)[0]
        counts += alone[-1].usage.output_token_count
    assert deltas[-1].usage == Usage(3, counts)
    assert sum(len(each.token_ids) for d in deltas for each in d.candidates) == counts
