"""Tools over a real channel: forced calls are sound, and the contract of their pieces holds."""

import json

import grpc
import jsonschema
import pytest
import pytest_asyncio

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import model_pb2, prompt_pb2, stopping_pb2, tool_pb2
from headrace.v1.model_service_pb2 import GetModelRequest
from tests.server.running_server import collect, failure, running_server, text_of

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 6}, "metric": {"type": "boolean"}},
    "required": ["city"],
}
TOOLS = [
    {"name": "get_weather", "description": "Tells.", "parameters_json": json.dumps(SCHEMA)},
    {"name": "now"},
]
REQUIRED = {"mode": tool_pb2.TOOL_CHOICE_MODE_REQUIRED}
CHUNKINGS = [{}, {"min_tokens": 9}, {"whole": True}]

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared():
    async with running_server() as under:
        yield under


@pytest_asyncio.fixture(loop_scope="module")
async def under(shared):
    yield shared
    await shared.all_returned()


def chat(**fields):
    user = {"role": prompt_pb2.ROLE_USER, "content": "Weather in Paris?"}
    return {"messages": [user], "tools": TOOLS} | fields


def calls_of(responses, candidate_index=0):
    """Names and arguments of the calls of a candidate; what its pieces promise is checked."""
    pieces = [
        piece
        for response in responses
        for delta in response.deltas
        if delta.candidate_index == candidate_index
        for piece in delta.tool_calls
    ]
    calls = []
    for piece in pieces:
        if piece.index == len(calls):
            assert piece.id
            assert piece.name
            calls.append([piece.name, ""])
        else:
            assert piece.index == len(calls) - 1
            assert (piece.id, piece.name) == ("", "")
        calls[-1][1] += piece.arguments_json
    ids = [piece.id for piece in pieces if piece.id]
    assert len(set(ids)) == len(calls)
    return [(name, json.loads(arguments)) for name, arguments in calls]


def reasons_of(responses):
    return [d.finish.reason for r in responses for d in r.deltas if d.HasField("finish")]


@pytest.mark.parametrize("chunking", CHUNKINGS, ids=str)
@pytest.mark.parametrize(
    ("choice", "names"),
    [(REQUIRED, {"get_weather", "now"}), ({"tool_name": "get_weather"}, {"get_weather"})],
)
async def test_forced_calls_are_as_their_schemas_describe_them(under, chunking, choice, names):
    """In each candidate, which has no text; all tokens are told, with those of the frame."""
    sampling = {"temperature": 1, "seed": 3, "candidate_count": 3}
    responses = await collect(
        under.generate(
            chat=chat(tool_choice=choice, parallel_tool_calls=False),
            sampling=sampling,
            stopping={"max_output_tokens": 1000},
            output={"token_ids": True, "top_logprobs": 0, "chunking": chunking},
        )
    )
    assert reasons_of(responses) == [stopping_pb2.FINISH_REASON_TOOL_CALLS] * 3
    assert text_of(responses) == ""
    for index in range(3):
        [(name, arguments)] = calls_of(responses, index)
        assert name in names
        jsonschema.validate(arguments, SCHEMA if name == "get_weather" else {"maxProperties": 0})
    deltas = [delta for response in responses for delta in response.deltas]
    num_tokens = sum(len(delta.token_ids) for delta in deltas)
    assert responses[-1].usage.output_token_count == num_tokens
    assert num_tokens == sum(len(delta.logprobs) for delta in deltas)
    first = [delta for delta in deltas if delta.candidate_index == 0]
    raw = b"".join(each.token_bytes for delta in first for each in delta.logprobs)
    [call] = json.loads(raw + b"}]")  # an answer is over with its last call
    assert [(call["name"], call["arguments"])] == calls_of(responses)


async def test_a_stream_joins_to_the_whole_answer(under):
    """However it is cut, the names and arguments are the same."""
    asked = {"chat": chat(tool_choice=REQUIRED), "sampling": {"temperature": 1, "seed": 8}}
    asked["stopping"] = {"max_output_tokens": 2000}
    answers = [
        calls_of(await collect(under.generate(**asked, output={"chunking": chunking})))
        for chunking in CHUNKINGS
    ]
    assert answers[0]
    assert answers == [answers[0]] * len(CHUNKINGS)


@pytest.mark.parametrize("num_tokens", [1, 12, 50])
async def test_a_forced_call_that_is_cut_says_so(under, num_tokens):
    """The reason is that of the cut, and what came before the name is no text."""
    responses = await collect(
        under.generate(
            chat=chat(tool_choice={"tool_name": "get_weather"}),
            stopping={"max_output_tokens": num_tokens},
        )
    )
    assert reasons_of(responses) == [stopping_pb2.FINISH_REASON_MAX_OUTPUT_TOKENS]
    assert text_of(responses) == ""


async def test_an_answer_without_calls_is_text(under):
    """A model that calls nothing answers as ever; hidden tools change nothing at all."""
    limits = {"max_output_tokens": 30, "ignore_end_of_text": True}
    sampling = {"temperature": 0}
    answer = await collect(under.generate(chat=chat(), stopping=limits, sampling=sampling))
    assert text_of(answer)
    assert calls_of(answer) == []
    hidden = chat(tool_choice={"mode": tool_pb2.TOOL_CHOICE_MODE_NONE})
    texts = [
        text_of(await collect(under.generate(chat=each, stopping=limits, sampling=sampling)))
        for each in (hidden, chat(tools=[]))
    ]
    assert texts[0] == texts[1]


async def test_tokenize_shows_the_tools(under):
    """The rendered chat has their schemas."""
    response = await under.inference.Tokenize(pb.TokenizeRequest(chat=chat()))
    assert '"maxLength": 6' in response.text


@pytest.mark.parametrize(
    ("fields", "field", "reason", "words"),
    [
        (
            {"tools": [{"name": "f", "parameters_json": '{"not": {}}'}], "tool_choice": REQUIRED},
            "chat.tools",
            "INVALID_CONSTRAINT",
            'Tool "f": The JSON schema uses "not" at #',
        ),
        (
            {"tools": [{"name": "f", "parameters_json": "{"}]},
            "chat.tools[0].parameters_json",
            "INVALID_FIELD",
            "must be a JSON object",
        ),
        ({"tools": [], "tool_choice": REQUIRED}, "chat.tool_choice", "INVALID_FIELD", "without"),
    ],
)
async def test_what_cannot_be_called_is_refused(under, fields, field, reason, words):
    """With the field, the tool and the place."""
    error = await failure(under.generate(chat=chat(**fields)))
    assert (error.code, error.reason) == (grpc.StatusCode.INVALID_ARGUMENT, reason)
    assert error.field == field
    assert words in error.message


async def test_a_model_whose_calls_nobody_knows_can_be_forced_only(tmp_path):
    """What it calls by itself would be text; the flag names the form where it is known."""
    template = tmp_path / "template.jinja"
    template.write_text("{{ tools }}{{ messages[0].content }}")
    limits = {"max_output_tokens": 500}
    async with running_server("--chat-template", template) as under:
        error = await failure(under.generate(chat=chat(), stopping=limits))
        assert error.field == "chat.tool_choice"
        assert "--tool-call-parser" in error.message
        forced = chat(tool_choice={"tool_name": "now"})
        assert calls_of(await collect(under.generate(chat=forced, stopping=limits)))
    async with running_server(
        "--chat-template", template, "--tool-call-parser", "mistral"
    ) as under:
        await collect(under.generate(chat=chat(), stopping={"max_output_tokens": 1}))


async def test_reasoning_is_told_apart(tmp_path):
    """A template that opens it makes all of it reasoning, unless the answer has a form."""
    template = tmp_path / "template.jinja"
    template.write_text(
        "{{ messages[0].content }}{% if enable_thinking is not defined %}<think>\n"
        "{% else %}<think></think>{% endif %}"
    )
    limits = {"max_output_tokens": 20, "ignore_end_of_text": True}
    async with running_server("--chat-template", template) as under:
        model = (await under.models.GetModel(GetModelRequest())).model
        assert model_pb2.CAPABILITY_REASONING in model.capabilities
        for fields, is_reasoning in (
            ({}, True),
            ({"template_arguments_json": '{"enable_thinking": false}'}, False),
        ):
            asked = {"chat": chat(tools=[]) | fields, "stopping": limits}
            responses = await collect(under.generate(**asked, sampling={"temperature": 0}))
            thought = "".join(d.reasoning_text for r in responses for d in r.deltas)
            assert (bool(thought), bool(text_of(responses))) == (is_reasoning, not is_reasoning)
        formed = await collect(
            under.generate(chat=chat(tools=[]), constraint={"choices": {"texts": ["yes"]}})
        )
        assert text_of(formed) == "yes"
