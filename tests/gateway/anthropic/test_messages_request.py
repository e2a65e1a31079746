"""The requests of /v1/messages and /v1/messages/count_tokens."""

import pytest

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1.prompt_pb2 import ROLE_ASSISTANT, ROLE_SYSTEM, ROLE_USER, Chat, ChatMessage
from headrace.v1.tool_pb2 import (
    TOOL_CHOICE_MODE_AUTO,
    TOOL_CHOICE_MODE_NONE,
    TOOL_CHOICE_MODE_REQUIRED,
    Tool,
    ToolChoice,
)
from headrace_gateway.anthropic.messages_request import (
    parse_count_request,
    parse_messages_request,
)
from headrace_gateway.openai.api_error import ApiError

HI = ChatMessage(role=ROLE_USER, content="Hi")
BODY = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9}
TOOL = {"name": "f", "description": "Do.", "input_schema": {"type": "object"}}


def parse(**fields):
    return parse_messages_request(BODY | fields)


def refused(**fields):
    with pytest.raises(ApiError) as refusal:
        parse(**fields)
    assert refusal.value.status == 400
    return refusal.value.message


def test_a_short_request_asks_for_nothing_else():
    """What was not given is left to the server."""
    expected = pb.GenerateRequest(chat=Chat(messages=[HI]))
    expected.sampling.SetInParent()
    expected.stopping.max_output_tokens = 9
    assert parse().to_generate_request() == expected
    assert parse().stream is False


def test_every_field_reaches_the_contract():
    """Each has its place, and a null is as good as nothing."""
    schema = {"type": "object", "properties": {"a": {}}}
    request = parse(
        model="small",
        system="Be brief.",
        stream=True,
        stop_sequences=["END", "é"],
        temperature=0.5,
        top_p=1,
        top_k=40,
        metadata={"user_id": "ann"},
        output_config={"effort": "low", "format": {"type": "json_schema", "schema": schema}},
        thinking={"type": "enabled", "budget_tokens": 2048},
        tools=None,
        service_tier="auto",
        container=None,
        mcp_servers=[],
    )
    message = request.to_generate_request()
    assert (message.model, request.stream) == ("small", True)
    assert list(message.chat.messages) == [
        ChatMessage(role=ROLE_SYSTEM, content="Be brief."),
        HI,
    ]
    assert message.chat.template_arguments_json == '{"enable_thinking": true}'
    assert list(message.stopping.stop_sequences) == ["END", "é"]
    sampling = message.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (0.5, 1, 40)
    assert message.constraint.json_schema == '{"type": "object", "properties": {"a": {}}}'
    assert message.priority == 0
    assert message.cache_salt == ""


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"type": "auto"}, ToolChoice(mode=TOOL_CHOICE_MODE_AUTO)),
        ({"type": "any"}, ToolChoice(mode=TOOL_CHOICE_MODE_REQUIRED)),
        ({"type": "none"}, ToolChoice(mode=TOOL_CHOICE_MODE_NONE)),
        ({"type": "tool", "name": "f"}, ToolChoice(tool_name="f")),
    ],
)
def test_tools_and_their_choice(choice, expected):
    """Tools have their schemas; one call at most is a wish beside each choice."""
    chat = parse(tools=[TOOL], tool_choice=choice).chat
    assert list(chat.tools) == [
        Tool(name="f", description="Do.", parameters_json='{"type": "object"}')
    ]
    assert (chat.tool_choice, chat.parallel_tool_calls) == (expected, True)
    single = parse(tools=[TOOL], tool_choice=choice | {"disable_parallel_tool_use": True})
    assert single.chat.parallel_tool_calls is False


def test_thinking_sets_the_switch_of_the_template():
    """Without a word the model's own default holds."""
    told = [
        parse(thinking=wish).chat.template_arguments_json
        for wish in (None, {"type": "adaptive"}, {"type": "disabled"})
    ]
    assert told == ["", '{"enable_thinking": true}', '{"enable_thinking": false}']


def test_the_last_word_of_the_assistant_is_continued():
    """An answer that was begun is not begun again."""
    messages = [*BODY["messages"], {"role": "assistant", "content": "The answer is ("}]
    chat = parse(messages=messages).chat
    assert chat.messages[1] == ChatMessage(role=ROLE_ASSISTANT, content="The answer is (")
    assert chat.continue_final_message is True
    assert not parse().chat.HasField("continue_final_message")
    assert refused(messages=messages, tools=[TOOL], tool_choice={"type": "any"}) == (
        "tool_choice must not force a call where the last message is the assistant's."
    )


def test_what_is_counted_is_what_is_answered():
    """The two requests have the same chat; only counting needs no maximum."""
    fields = {"system": "Be brief.", "tools": [TOOL], "tool_choice": {"type": "any"}}
    request = parse(**fields, thinking={"type": "disabled"}, model="small")
    count = {name: value for name, value in BODY.items() if name != "max_tokens"} | fields
    counted = parse_count_request(count | {"thinking": {"type": "disabled"}, "model": "small"})
    assert counted.to_tokenize_request() == request.to_tokenize_request()
    assert request.to_tokenize_request().chat == request.to_generate_request().chat
    assert request.to_tokenize_request().model == "small"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_tokens": None}, "max_tokens is missing."),
        ({"max_tokens": "9"}, "max_tokens must be an integer."),
        ({"messages": None}, "messages is missing."),
        ({"system": 5}, "system must be a string or a list of blocks."),
        (
            {"system": [{"type": "image"}]},
            "system[0] has the type image, and the model takes only text.",
        ),
        ({"stop_sequences": "END"}, "stop_sequences must be a list of strings."),
        ({"stop_sequences": ["a", 5]}, "stop_sequences[1] must be a string."),
        ({"metadata": "ann"}, "metadata must be an object."),
        ({"metadata": {"user_id": 5}}, "metadata.user_id must be a string."),
        ({"tools": {}}, "tools must be a list of tools."),
        ({"tools": ["f"]}, "tools[0] must be an object with name and input_schema."),
        ({"tools": [{"name": "f"}]}, "tools[0].input_schema must be a JSON schema as an object."),
        ({"tools": [TOOL | {"name": None}]}, "tools[0].name must be a string."),
        (
            {"tools": [TOOL | {"type": "web_search_20250305"}]},
            "tools[0].type must be custom: tools that Anthropic runs are not supported.",
        ),
        (
            {"tool_choice": "auto"},
            "tool_choice must be an object with the type auto, any, tool or none.",
        ),
        (
            {"tool_choice": {"type": ["any"]}},
            "tool_choice must be an object with the type auto, any, tool or none.",
        ),
        ({"tool_choice": {"type": "tool"}}, "tool_choice.name must be a string."),
        (
            {"tool_choice": {"type": "any", "disable_parallel_tool_use": "yes"}},
            "tool_choice.disable_parallel_tool_use must be true or false.",
        ),
        (
            {"thinking": True},
            "thinking must be an object with the type enabled, adaptive or disabled.",
        ),
        (
            {"thinking": {"type": "enabled", "budget_tokens": "many"}},
            "thinking.budget_tokens must be an integer.",
        ),
        ({"output_config": []}, "output_config must be an object."),
        (
            {"output_config": {"format": {"type": "json_object"}}},
            "output_config.format must be an object with the type json_schema.",
        ),
        (
            {"output_config": {"format": {"type": "json_schema"}}},
            "output_config.format.schema must be a JSON schema as an object.",
        ),
        ({"container": "c1"}, "container is not supported; leave it out."),
        ({"mcp_servers": [{}]}, "mcp_servers is not supported; leave it out."),
    ],
)
def test_what_cannot_be_followed_is_refused_by_its_name(fields, message):
    """A field that would change the answer is never ignored."""
    assert refused(**fields) == message


@pytest.mark.parametrize(
    ("path", "json_path"),
    [
        ("model", "model"),
        ("sampling.top_k", "top_k"),
        ("stopping.max_output_tokens", "max_tokens"),
        ("stopping.stop_sequences[1]", "stop_sequences[1]"),
        ("chat.messages[1]", "messages[0].content"),
        ("chat.messages", "messages"),
        ("chat.continue_final_message", "messages"),
        ("chat", "messages"),
        ("chat.tools[0].parameters_json", "tools[0].input_schema"),
        ("chat.tools[0].description", "tools[0].description"),
        ("chat.tools", "tools"),
        ("chat.tool_choice.tool_name", "tool_choice.name"),
        ("chat.tool_choice.mode", "tool_choice"),
        ("chat.template_arguments_json", "thinking"),
        ("constraint.json_schema", "output_config.format.schema"),
        ("max_queue_duration", None),
    ],
)
def test_a_field_of_the_contract_is_found_in_the_json(path, json_path):
    """Errors of the server name the field that the caller has sent."""
    form = {"format": {"type": "json_schema", "schema": {}}}
    assert parse(system="a", output_config=form).json_path(path) == json_path
