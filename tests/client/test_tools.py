"""Tools of Python become those of the contract, and calls come back, the same for both clients."""

import inspect

import pytest
from google.protobuf.text_format import Parse

import headrace
from headrace import FinishReason, InternalError, InvalidRequestError, ToolCall, ToolCallDelta
from headrace.requests import generate_request, option_of_field, tokenize_request
from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import stopping_pb2, tool_pb2
from headrace.v1.prompt_pb2 import Chat
from tests.client.scripted_server import Admit

CALL = ToolCall("c1", "get_weather", '{"city": "é"}')
MESSAGES = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "content": "4", "tool_call_id": "c1"},
]
TOOLS = [
    {"name": "get_weather", "description": "d", "parameters": {"type": "object", "title": "é"}},
    {"name": "now", "parameters": '{"type": "object"}'},
    {"name": "then"},
]


def chat_of(**options):
    return generate_request(None, {"messages": MESSAGES, **options}).chat


def test_every_part_of_a_chat_with_tools_arrives():
    """Schemas may be dicts or JSON text; calls are sent back as they were returned."""
    options = {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False}
    options["template_arguments"] = {"enable_thinking": False}
    expected = Parse(
        """
        messages { role: ROLE_USER content: "Hi" }
        messages {
          role: ROLE_ASSISTANT
          tool_calls { id: "c1" name: "get_weather" arguments_json: "{\\"city\\": \\"é\\"}" }
        }
        messages { role: ROLE_TOOL content: "4" tool_call_id: "c1" }
        tools {
          name: "get_weather" description: "d"
          parameters_json: "{\\"type\\": \\"object\\", \\"title\\": \\"é\\"}"
        }
        tools { name: "now" parameters_json: "{\\"type\\": \\"object\\"}" }
        tools { name: "then" }
        tool_choice { mode: TOOL_CHOICE_MODE_REQUIRED }
        parallel_tool_calls: false
        template_arguments_json: "{\\"enable_thinking\\": false}"
        """,
        Chat(),
    )
    assert chat_of(**options) == expected
    assert tokenize_request(None, {"messages": MESSAGES, **options}).chat == expected


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", {"mode": tool_pb2.TOOL_CHOICE_MODE_AUTO}),
        ("none", {"mode": tool_pb2.TOOL_CHOICE_MODE_NONE}),
        ("now", {"tool_name": "now"}),
    ],
)
def test_a_choice_is_a_mode_or_a_name(choice, expected):
    """What is no mode is the name of a tool."""
    chat = chat_of(tools=TOOLS, tool_choice=choice)
    assert chat.tool_choice == tool_pb2.ToolChoice(**expected)
    assert not chat_of(tools=TOOLS).HasField("tool_choice")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tools": [{"name": "f", "strict": True}]}, r"tools\[0\] has an unknown key 'strict'"),
        ({"tools": [{"name": 5}]}, r"tools\[0\].name cannot be int"),
        ({"tools": [{"name": "f", "parameters": {1j}}]}, r"tools\[0\].parameters is no JSON"),
        ({"tool_choice": {"name": "f"}}, "tool_choice cannot be dict"),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"id": "1"}]}]},
            r"messages\[0\].tool_calls must hold ToolCall, not dict",
        ),
    ],
)
def test_what_has_the_wrong_type_is_refused_by_its_place(options, words):
    """As Python does, before anything is sent."""
    with pytest.raises(TypeError, match=words):
        chat_of(**options)


def test_tools_go_with_messages():
    """A prompt of another kind has no place for them."""
    with pytest.raises(TypeError, match="tools goes with messages"):
        generate_request("Hi", {"tools": TOOLS})


def test_what_json_does_not_have_cannot_be_sent():
    """The error is that of the server for bad fields."""
    with pytest.raises(InvalidRequestError) as caught:
        chat_of(tools=[{"name": "f", "parameters": {"a": float("nan")}}])
    assert caught.value.field == "tools[0].parameters"


@pytest.mark.parametrize(
    ("field", "option"),
    [
        ("chat.tools", "tools"),
        ("chat.tools[1].name", "tools[1].name"),
        ("chat.tool_choice.tool_name", "tool_choice"),
        ("chat.template_arguments_json", "template_arguments"),
    ],
)
def test_errors_of_the_server_name_the_option(field, option):
    """Callers know their own names."""
    assert option_of_field(field) == option


@pytest.fixture(params=["client", "async_client"])
def read(request):
    """Reads an answer by the one client or the other: its pieces and the whole."""
    client = request.getfixturevalue(request.param)

    async def read(**options):
        stream = client.stream(messages=MESSAGES, **options)
        if isinstance(stream, headrace.AsyncGenerationStream):
            deltas = [delta async for delta in stream]
        else:
            deltas = list(stream)
        whole = client.generate(messages=MESSAGES, **options)
        whole = await whole if inspect.isawaitable(whole) else whole
        assert whole == stream.generation
        return deltas, whole

    return read


def a_delta(*pieces, reason=None, **fields):
    message = pb.CandidateDelta(
        tool_calls=[tool_pb2.ToolCallDelta(**piece) for piece in pieces], **fields
    )
    if reason is not None:
        message.finish.reason = reason
    return pb.GenerateResponse(deltas=[message])


async def test_calls_and_reasoning_are_joined(server, read):
    """Pieces have what is new, the answer has whole calls with their arguments in Python."""
    begin = {"id": "c1", "name": "get_weather", "arguments_json": '{"city"'}
    rest, other = {"arguments_json": ': "é"}'}, {"index": 1, "id": "c2", "name": "now"}
    end = {"index": 1, "arguments_json": "{}"}
    server.script = lambda request: iter(
        [
            Admit(),
            a_delta(reasoning_text="h"),
            a_delta(begin, reasoning_text="m"),
            a_delta(rest, other, text="So"),
            a_delta(end, reason=stopping_pb2.FINISH_REASON_TOOL_CALLS),
        ]
    )
    deltas, whole = await read()
    assert [delta.reasoning for delta in deltas] == ["h", "m", "", ""]
    assert deltas[2].tool_calls == (
        ToolCallDelta(0, "", "", ': "é"}'),
        ToolCallDelta(1, "c2", "now", ""),
    )
    assert (whole.reasoning, whole.text) == ("hm", "So")
    assert whole.tool_calls == (CALL, ToolCall("c2", "now", "{}"))
    assert [call.arguments for call in whole.tool_calls] == [{"city": "é"}, {}]
    assert whole.finish_reason is FinishReason.TOOL_CALLS


async def test_a_piece_without_a_beginning_breaks_the_contract(server, read):
    """The fault is the server's."""
    piece = {"index": 1, "arguments_json": "{}"}
    server.script = lambda request: iter([Admit(), a_delta(piece)])
    with pytest.raises(InternalError):
        await read()


@pytest.mark.parametrize(
    ("arguments", "words"), [('{"a', "Unterminated"), ("[]", "not a JSON object")]
)
def test_arguments_that_are_not_whole_are_a_value_error(arguments, words):
    """As when the answer was cut."""
    with pytest.raises(ValueError, match=words):
        _ = ToolCall("c", "f", arguments).arguments
