"""Generate, Tokenize and Detokenize over a real channel: the invariants of the contract."""

import grpc
import pytest
import pytest_asyncio
from google.protobuf.duration_pb2 import Duration

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import prompt_pb2, stopping_pb2
from tests.server.running_server import collect, failure, first, running_server, text_of

CHAT = {"messages": [{"role": prompt_pb2.ROLE_USER, "content": "Hi"}]}
SHORT = {"max_output_tokens": 40, "ignore_end_of_text": True}
GREEDY = {"temperature": 0}
WITH_IDS = {"token_ids": True}


def ids_of(responses):
    return [i for response in responses for delta in response.deltas for i in delta.token_ids]


def finishes_of(responses):
    return [
        delta.finish.reason
        for response in responses
        for delta in response.deltas
        if delta.HasField("finish")
    ]


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared():
    async with running_server() as under:
        yield under


@pytest_asyncio.fixture(loop_scope="module")
async def under(shared):
    yield shared
    await shared.all_returned()


PROMPTS = [{"text": "Once"}, {"token_ids": {"ids": [79, 110]}}, {"chat": CHAT}]
CHUNKINGS = [
    {},
    {"min_tokens": 7},
    {"min_tokens": 1000, "max_delay": Duration(nanos=1_000_000)},
    {"whole": True},
]


@pytest.mark.parametrize("prompt", PROMPTS, ids=["text", "token_ids", "chat"])
@pytest.mark.parametrize("chunking", CHUNKINGS, ids=str)
async def test_a_stream_keeps_the_contract(under, prompt, chunking):
    """Prompt first and once, one finish at the end, usage and timing last, and the sums agree."""
    responses = await collect(
        under.generate(stopping=SHORT, output={**WITH_IDS, "chunking": chunking}, **prompt)
    )
    assert [r.HasField("prompt") for r in responses] == [True] + [False] * (len(responses) - 1)
    assert [r.HasField("usage") for r in responses] == [False] * (len(responses) - 1) + [True]
    assert [r.HasField("timing") for r in responses] == [False] * (len(responses) - 1) + [True]
    assert finishes_of(responses) == [stopping_pb2.FINISH_REASON_MAX_OUTPUT_TOKENS]
    assert responses[-1].deltas[0].HasField("finish")
    last = responses[-1]
    assert last.usage.output_token_count == len(ids_of(responses)) == 40
    assert last.usage.prompt_token_count == responses[0].prompt.token_count > 0
    assert last.timing.queue.ToSeconds() <= last.timing.total.ToSeconds()
    if chunking.get("whole"):
        assert len(responses) == 1


@pytest.mark.parametrize("chunking", CHUNKINGS[1:], ids=str)
async def test_the_pieces_make_the_same_answer_however_it_is_cut(under, chunking):
    """Joined deltas are equal for every chunking, in text and in tokens."""
    wishes = {"stopping": SHORT, "sampling": {"seed": 5}}
    plain = await collect(under.generate(output=WITH_IDS, **wishes))
    cut = await collect(under.generate(output={**WITH_IDS, "chunking": chunking}, **wishes))
    assert (text_of(cut), ids_of(cut)) == (text_of(plain), ids_of(plain))


async def test_the_whole_text_is_the_text_of_all_tokens(under):
    """What the deltas say is what Detokenize makes of the ids."""
    responses = await collect(under.generate(stopping=SHORT, output=WITH_IDS))
    answer = await under.inference.Detokenize(pb.DetokenizeRequest(token_ids=ids_of(responses)))
    assert text_of(responses) == answer.text


async def test_text_can_be_left_out(under):
    """With output.text false the deltas have ids only."""
    responses = await collect(
        under.generate(stopping=SHORT, output={"text": False, "token_ids": True})
    )
    assert (text_of(responses), len(ids_of(responses))) == ("", 40)


async def test_headers_come_at_admission_before_any_token():
    """The response headers arrive while the first step is still running."""
    async with running_server("--simulated-step-seconds", 1.0) as under:
        call = under.generate(stopping={"max_output_tokens": 1})
        headers = dict(await call.initial_metadata())
        assert under.backend.load.num_steps == 0
        assert len(headers["x-request-id"]) == 32
        await collect(call)


@pytest.mark.parametrize(
    ("sent", "is_echoed"),
    [("my-id-1", True), ("x" * 128, True), ("x" * 129, False)],
)
async def test_a_sane_id_of_the_client_is_echoed(under, sent, is_echoed):
    """The x-request-id of the client comes back, in headers and in the trailers of an error."""
    metadata = (("x-request-id", sent),)
    call = under.generate(stopping=SHORT, metadata=metadata)
    headers = dict(await call.initial_metadata())
    await collect(call)
    error = await failure(under.generate(model="no", metadata=metadata))
    answer = under.inference.Tokenize(pb.TokenizeRequest(text="a"), metadata=metadata)
    for found in (headers, error.trailers, dict(await answer.initial_metadata())):
        assert (found["x-request-id"] == sent) == is_echoed


async def test_the_headers_name_the_model_that_answers():
    """Whatever name the request used, the headers hold the first one, in UTF-8."""
    async with running_server("--served-model-name", "petit/modèle", "alias") as under:
        for asked in ("", "alias"):
            call = under.generate(model=asked, stopping=SHORT)
            headers = dict(await call.initial_metadata())
            await collect(call)
            assert headers["x-headrace-model-bin"].decode() == "petit/modèle"


async def test_a_stop_sequence_ends_the_answer_and_is_named(under):
    """The text ends before the stop, and Finish tells which one it was."""
    whole = text_of(await collect(under.generate(stopping=SHORT, sampling=GREEDY)))
    stop = whole[5:8]
    stopping = {"stop_sequences": ["\x00", stop], "ignore_end_of_text": True}
    responses = await collect(under.generate(stopping=stopping, sampling=GREEDY))
    assert text_of(responses) == whole[: whole.index(stop)]
    finish = responses[-1].deltas[0].finish
    assert finish.reason == stopping_pb2.FINISH_REASON_STOP_SEQUENCE
    assert finish.stop_sequence == stop


async def test_no_output_wanted_is_an_answer_too(under):
    """max_output_tokens 0 gives one response with an empty delta and the counts."""
    (response,) = await collect(under.generate(stopping={"max_output_tokens": 0}))
    assert response.prompt.token_count == response.usage.prompt_token_count > 0
    assert response.usage.output_token_count == 0
    assert response.deltas[0].finish.reason == stopping_pb2.FINISH_REASON_MAX_OUTPUT_TOKENS


async def test_a_full_context_ends_an_answer_without_a_limit_of_its_own():
    """An answer that nobody limits ends with FINISH_REASON_CONTEXT_LENGTH."""
    async with running_server("--max-model-len", 64) as under:
        responses = await collect(under.generate(output=WITH_IDS))
        assert finishes_of(responses) == [stopping_pb2.FINISH_REASON_CONTEXT_LENGTH]
        assert len(ids_of(responses)) + responses[0].prompt.token_count == 64


async def test_the_time_limit_ends_an_answer_where_it_is():
    """Past max_duration the answer ends with status OK, its own reason and its usage."""
    async with running_server("--simulated-step-seconds", 0.005) as under:
        responses = await collect(under.generate(max_duration=Duration(nanos=100_000_000)))
        assert finishes_of(responses) == [stopping_pb2.FINISH_REASON_TIME_LIMIT]
        assert responses[-1].usage.output_token_count > 0
        await under.all_returned()


async def test_a_single_candidate_is_number_0(under):
    """Without candidate_count there is one."""
    responses = await collect(under.generate(stopping=SHORT))
    assert {d.candidate_index for r in responses for d in r.deltas} == {0}


async def test_tokenize_and_detokenize_are_inverse(under):
    """Text to ids and back is the same text."""
    text = "Ein Fluß, 河, 🌊"
    tokens = await under.inference.Tokenize(pb.TokenizeRequest(text=text))
    back = await under.inference.Detokenize(pb.DetokenizeRequest(token_ids=tokens.token_ids))
    assert (tokens.text, tokens.token_count) == (text, len(tokens.token_ids))
    assert back.text == text


async def test_tokenize_renders_a_chat(under):
    """With a chat Tokenize shows what the model would be given, and Generate counts the same."""
    tokens = await under.inference.Tokenize(pb.TokenizeRequest(chat=CHAT))
    assert tokens.text == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    answer = await first(under.generate(chat=CHAT, stopping=SHORT))
    assert answer.prompt.token_count == tokens.token_count


async def test_tokenize_counts_ids_and_shows_no_text(under):
    """Token ids are checked and counted."""
    tokens = await under.inference.Tokenize(pb.TokenizeRequest(token_ids={"ids": [1, 2, 3]}))
    assert (tokens.token_count, tokens.text) == (3, "")


async def test_special_tokens_are_shown_on_request(under):
    """Detokenize leaves control tokens out unless it is told to show them."""
    ids = [72, 105, 258]
    plain = await under.inference.Detokenize(pb.DetokenizeRequest(token_ids=ids))
    shown = await under.inference.Detokenize(
        pb.DetokenizeRequest(token_ids=ids, include_special_tokens=True)
    )
    assert (plain.text, shown.text) == ("Hi", "Hi<|im_end|>")


async def test_a_label_in_use_is_refused_on_the_same_connection_only(under):
    """The same request_id twice at once is refused; afterwards, and for others, it is free."""
    running = under.generate(request_id="mine")
    await first(running)
    error = await failure(under.generate(request_id="mine"))
    assert (error.code, error.reason) == (
        grpc.StatusCode.ALREADY_EXISTS,
        "DUPLICATE_REQUEST_ID",
    )
    options = (("grpc.use_local_subchannel_pool", 1),)
    async with grpc.aio.insecure_channel(under.address, options=options) as other:
        call = other.unary_stream(
            "/headrace.v1.InferenceService/Generate",
            pb.GenerateRequest.SerializeToString,
            pb.GenerateResponse.FromString,
        )(pb.GenerateRequest(text="a", request_id="mine", stopping={"max_output_tokens": 1}))
        assert len(await collect(call)) == 1
    running.cancel()
    await under.all_returned()
    assert await collect(under.generate(request_id="mine", stopping=SHORT))
