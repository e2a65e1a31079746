"""The request of /v1/responses."""

import json

import pytest

from headrace.v1 import constraint_pb2, prompt_pb2, tool_pb2
from headrace_gateway.openai.api_error import ApiError
from headrace_gateway.responses.fields import RESPONSE_IGNORED_FIELDS
from headrace_gateway.responses.response_request import parse_response_request

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
TOOL = {"type": "function", "name": "f", "description": "Does.", "parameters": SCHEMA}
LOGPROBS = "message.output_text.logprobs"


def parse(**fields):
    return parse_response_request({"input": "Hi", **fields})


def generate_request(**fields):
    return parse(**fields).to_generate_request()


def refusal(**fields):
    with pytest.raises(ApiError) as error:
        parse(**fields)
    assert error.value.status == 400
    return error.value


def test_a_short_request_leaves_all_to_the_server():
    """What is not given is not set."""
    request = generate_request()
    assert [message.content for message in request.chat.messages] == ["Hi"]
    assert request.output.chunking.whole
    assert not request.output.HasField("top_logprobs")
    assert not request.stopping.HasField("max_output_tokens")
    assert not request.HasField("constraint")
    assert request.sampling.ByteSize() == 0


def test_instructions_come_first():
    """They are a system message."""
    [first, second] = generate_request(instructions="Be brief.").chat.messages
    assert (first.role, first.content) == (prompt_pb2.ROLE_SYSTEM, "Be brief.")
    assert second.content == "Hi"


def test_options_are_those_of_chats():
    """They have the names of this API and of chats."""
    request = generate_request(
        model="m", max_output_tokens=5, temperature=0, top_p=0.5, seed=3, stop="x", priority=2
    )
    assert (request.model, request.stopping.max_output_tokens) == ("m", 5)
    assert (request.sampling.temperature, request.sampling.top_p) == (0, 0.5)
    assert (request.sampling.seed, list(request.stopping.stop_sequences)) == (3, ["x"])
    assert request.priority == -2


@pytest.mark.parametrize("skip", [True, False])
def test_control_tokens_are_shown_on_request(skip):
    """Clients of vLLM ask for them by the name that chats have, too."""
    request = generate_request(skip_special_tokens=skip)
    assert request.output.special_tokens is not skip


@pytest.mark.parametrize(("given", "expected"), [({}, 0), ({"top_logprobs": 3}, 3)])
def test_log_probabilities_are_included_on_request(given, expected):
    """Their rivals are told only with them."""
    request = generate_request(include=[LOGPROBS, "reasoning.encrypted_content"], **given)
    assert request.output.HasField("top_logprobs")
    assert request.output.top_logprobs == expected


def test_rivals_need_log_probabilities():
    """Otherwise they would not be told."""
    assert refusal(top_logprobs=2).param == "top_logprobs"


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("none", tool_pb2.ToolChoice(mode=tool_pb2.TOOL_CHOICE_MODE_NONE)),
        ("auto", tool_pb2.ToolChoice(mode=tool_pb2.TOOL_CHOICE_MODE_AUTO)),
        ("required", tool_pb2.ToolChoice(mode=tool_pb2.TOOL_CHOICE_MODE_REQUIRED)),
        ({"type": "function", "name": "f"}, tool_pb2.ToolChoice(tool_name="f")),
    ],
)
def test_tools_are_those_of_the_contract(choice, expected):
    """With tools the order of text and calls must be told, so that no answer is in one piece."""
    tools = [TOOL, {"type": "function", "name": "g", "strict": True}]
    request = generate_request(tools=tools, tool_choice=choice, parallel_tool_calls=False)
    assert [tool.name for tool in request.chat.tools] == ["f", "g"]
    assert request.chat.tools[0].description == "Does."
    assert json.loads(request.chat.tools[0].parameters_json) == SCHEMA
    assert request.chat.tools[1].parameters_json == ""
    assert request.chat.tool_choice == expected
    assert not request.chat.parallel_tool_calls
    assert not request.output.HasField("chunking")


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({"type": "text"}, None),
        (None, None),
        ({"type": "json_object"}, constraint_pb2.Constraint(json_object=True)),
        (
            {"type": "json_schema", "name": "n", "strict": False, "schema": SCHEMA},
            constraint_pb2.Constraint(json_schema=json.dumps(SCHEMA)),
        ),
    ],
)
def test_forms_are_constraints(form, expected):
    """A schema is followed with `strict` and without."""
    request = generate_request(text={"format": form, "verbosity": "low"})
    assert (request.constraint if request.HasField("constraint") else None) == expected


def test_what_was_set_is_kept_for_the_answer():
    """Tools, form and the rest as they were given."""
    settings = parse(
        instructions="Be brief.",
        metadata={"a": "b"},
        reasoning={"effort": "low"},
        tools=[TOOL],
        temperature=0.5,
    ).settings
    assert (settings.instructions, settings.metadata) == ("Be brief.", {"a": "b"})
    assert (settings.reasoning.effort, settings.reasoning.summary) == ("low", None)
    assert [tool.name for tool in settings.tools] == ["f"]
    assert (settings.temperature, settings.top_p, settings.tool_choice) == (0.5, None, "auto")


def test_a_null_is_as_good_as_nothing():
    """Also of what would be refused."""
    nothing = ("instructions", "previous_response_id", "conversation", "tools", "text", "messages")
    assert generate_request(**dict.fromkeys(nothing)) == generate_request()


def test_ignored_fields_may_be_anything():
    """So may those that nobody knows."""
    ignored = (*RESPONSE_IGNORED_FIELDS, "new_field")
    assert generate_request(**{name: ["\ud800"] for name in ignored}) == generate_request()
    assert generate_request(background=False) == generate_request()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"input": None}, "input is missing."),
        (
            {"previous_response_id": "resp_1"},
            "previous_response_id is not supported, since nothing is stored; send the items of "
            "the conversation as input.",
        ),
        ({"conversation": "conv_1"}, "conversation is not supported, since nothing is stored; "),
        ({"background": True}, "background is not supported, since nothing is stored; wait for"),
        ({"prompt": {"id": "p"}}, "prompt is not supported, since nothing is stored; send its"),
        ({"truncation": "auto"}, "truncation must be disabled: what does not fit the context"),
        ({"response_format": {"type": "text"}}, "response_format is not supported; leave it"),
        ({"max_tokens": 5}, "max_tokens is not supported; leave it out."),
        ({"temperature": "hot"}, "temperature must be a number."),
        ({"metadata": {"a": 1}}, "metadata.a must be a string."),
        ({"metadata": []}, "metadata must be an object of strings."),
        ({"include": "a"}, "include must be a list of strings."),
        ({"reasoning": "low"}, "reasoning must be an object."),
        ({"reasoning": {"effort": 1}}, "reasoning.effort must be a string."),
        ({"tools": {}}, "tools must be a list of tools."),
        ({"tools": [5]}, "tools[0] must be an object with type and name."),
        (
            {"tools": [TOOL, {"type": "web_search"}]},
            "tools[1].type is web_search, which is not supported; it must be function.",
        ),
        ({"tools": [{"type": 5}]}, "tools[0].type is no word, which is not supported"),
        ({"tools": [{"type": "function"}]}, "tools[0].name must be a string."),
        ({"tools": [TOOL | {"parameters": "{}"}]}, "tools[0].parameters must be a JSON schema"),
        (
            {"tools": [TOOL | {"parameters": {"a": float("nan")}}]},
            "tools[0].parameters holds a number that JSON does not have.",
        ),
        ({"tools": [TOOL | {"strict": "yes"}]}, "tools[0].strict must be true or false."),
        ({"tool_choice": "any"}, "tool_choice must be auto, none, required or a function"),
        ({"tool_choice": {"type": "web_search"}}, "tool_choice must be auto, none, required or"),
        ({"tool_choice": {"type": "function"}}, "tool_choice.name must be a string."),
        ({"text": "json"}, "text must be an object."),
        ({"text": {"format": {"type": "xml"}}}, "text.format must be an object with the type"),
        ({"text": {"format": {"type": "json_schema", "name": "n"}}}, "text.format.schema must be"),
        (
            {"text": {"format": {"type": "json_schema", "schema": {}}}},
            "text.format.name must be a string.",
        ),
    ],
)
def test_what_is_wrong_is_refused_by_its_name(fields, words):
    """The refusal names the field and says what to do."""
    error = refusal(**fields)
    assert error.message.startswith(words)
    assert error.param.partition(".")[0].partition("[")[0] == next(iter(fields))


ITEMS = [
    {"role": "user", "content": "a"},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
    {"type": "function_call", "call_id": "d", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "1"},
]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("chat", "input"),
        ("chat.messages", "input"),
        ("chat.messages[0]", "instructions"),
        ("chat.messages[0].content", "instructions"),
        ("chat.messages[1].content", "input[0].content"),
        ("chat.messages[2].tool_calls[1].arguments_json", "input[2].arguments"),
        ("chat.messages[2].tool_calls[0].name", "input[1].name"),
        ("chat.messages[2].tool_calls[0].id", "input[1].call_id"),
        ("chat.messages[3].content", "input[3].output"),
        ("chat.messages[3].tool_call_id", "input[3].call_id"),
        ("chat.tools", "tools"),
        ("chat.tools[0].name", "tools[0].name"),
        ("chat.tools[0].parameters_json", "tools[0].parameters"),
        ("chat.tool_choice.tool_name", "tool_choice.name"),
        ("chat.tool_choice.mode", "tool_choice"),
        ("chat.parallel_tool_calls", "parallel_tool_calls"),
        ("chat.template_arguments_json", "chat_template_kwargs"),
        ("chat.nothing", None),
        ("stopping.max_output_tokens", "max_output_tokens"),
        ("sampling.top_p", "top_p"),
        ("constraint.json_schema", "text.format.schema"),
        ("nothing", None),
    ],
)
def test_the_servers_fields_have_their_places_in_the_body(path, expected):
    """A refusal of the server names the item that it is about."""
    form = {"type": "json_schema", "name": "n", "schema": {}}
    request = parse(input=ITEMS, instructions="b", text={"format": form})
    assert request.json_path(path) == expected


def test_a_text_as_input_has_one_place():
    """There is no item to be named."""
    assert parse().json_path("chat.messages[0].content") == "input"
