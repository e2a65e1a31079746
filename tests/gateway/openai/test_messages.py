"""The messages of a chat."""

import pytest

from headrace.v1.prompt_pb2 import ROLE_ASSISTANT, ROLE_SYSTEM, ROLE_TOOL, ROLE_USER
from headrace.v1.tool_pb2 import ToolCall
from headrace_gateway.openai.api_error import ApiError
from headrace_gateway.openai.messages import parse_messages


def test_messages_become_those_of_the_contract():
    """Roles, names and both forms of content are translated; further keys are ignored."""
    messages = parse_messages(
        "messages",
        [
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": "Be kind."},
            {"role": "user", "content": "Hi", "name": "Ann", "extra": {"a": 1}},
            {"role": "assistant", "content": "Hello!", "tool_calls": [], "refusal": None},
            {
                "role": "user",
                "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}],
            },
            {"role": "user", "content": [], "name": None},
        ],
    )
    assert [(m.role, m.content, m.name) for m in messages] == [
        (ROLE_SYSTEM, "Be brief.", ""),
        (ROLE_SYSTEM, "Be kind.", ""),
        (ROLE_USER, "Hi", "Ann"),
        (ROLE_ASSISTANT, "Hello!", ""),
        (ROLE_USER, "one\ntwo", ""),
        (ROLE_USER, "", ""),
    ]


def test_calls_and_results_become_those_of_the_contract():
    """Content may be null beside calls; what a call leaves out is the server's to judge."""
    function = {"name": "f", "arguments": '{"a": 1}'}
    call = {"id": "c1", "type": "function", "function": function}
    asked, bare, told = parse_messages(
        "messages",
        [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "assistant", "content": "Hm", "tool_calls": [{"function": {"name": "g"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "4"}]},
        ],
    )
    assert (asked.content, bare.content) == ("", "Hm")
    assert list(asked.tool_calls) == [ToolCall(id="c1", name="f", arguments_json='{"a": 1}')]
    assert list(bare.tool_calls) == [ToolCall(name="g")]
    assert (told.role, told.content, told.tool_call_id) == (ROLE_TOOL, "4", "c1")


def test_no_messages_are_left_to_the_server():
    """An empty list has the right type; that it is too short is the server's to say."""
    assert parse_messages("messages", []) == ()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("hi", "messages must be a list of messages."),
        ({}, "messages must be a list of messages."),
        (["hi"], "messages[0] must be an object with role and content."),
        ([{"content": "hi"}], "messages[0] must have the role system, developer, user,"),
        ([{"role": "wizard", "content": "hi"}], "messages[0] must have the role system,"),
        ([{"role": ["user"], "content": "hi"}], "messages[0] must have the role system,"),
        (
            [{"role": "function", "content": "4", "name": "f"}],
            "messages[0] has the role function, which is not supported.",
        ),
        ([{"role": "user"}], "messages[0] has no content."),
        ([{"role": "assistant", "content": None}], "messages[0] has no content."),
        ([{"role": "assistant", "content": None, "tool_calls": []}], "messages[0] has no content."),
        ([{"role": "tool", "content": None}], "messages[0] has no content."),
        (
            [{"role": "assistant", "content": "", "function_call": {"name": "f"}}],
            "messages[0] holds function_call, which is not supported.",
        ),
        (
            [{"role": "assistant", "tool_calls": {}}],
            "messages[0] must have a list of calls as t",
        ),
        (
            [{"role": "assistant", "tool_calls": ["f"]}],
            "messages[0] holds a call that is not an ",
        ),
        (
            [{"role": "assistant", "tool_calls": [{"id": "1"}]}],
            "messages[0] holds a call that is not an object with a function.",
        ),
        (
            [{"role": "assistant", "tool_calls": [{"type": "custom", "function": {}}]}],
            "messages[0] holds a call of something else than a function.",
        ),
        (
            [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}],
            "messages[0] must have a string as function.arguments.",
        ),
        (
            [{"role": "assistant", "tool_calls": [{"function": {"name": None}}]}],
            "messages[0] must have a string as function.name.",
        ),
        (
            [{"role": "tool", "content": "4", "tool_call_id": 1}],
            "messages[0] must have a string as",
        ),
        ([{"role": "user", "content": 5}], "messages[0] must have a string or a list of text"),
        ([{"role": "user", "content": "\ud800"}], "messages[0] holds half of a surrogate pair"),
        ([{"role": "user", "content": ["hi"]}], "messages[0] holds a content part that is not"),
        (
            [
                {
                    "role": "user",
                    "content": [{"type": "image_url", "image_url": {"url": "file:///"}}],
                }
            ],
            "messages[0] holds a content part other than text, and the model takes only text.",
        ),
        ([{"role": "user", "content": [{"type": "text"}]}], "messages[0] must have a string as t"),
        ([{"role": "user", "content": "hi", "name": 5}], "messages[0] must have a string as name"),
    ],
)
def test_a_bad_message_is_refused_with_its_index(value, words):
    """The refusal is about messages and says which message is wrong and how."""
    with pytest.raises(ApiError) as refusal:
        parse_messages("messages", value)
    assert (refusal.value.status, refusal.value.param) == (400, "messages")
    assert refusal.value.message.startswith(words)
