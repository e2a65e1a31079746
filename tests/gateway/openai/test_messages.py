"""The messages of a chat."""

import pytest

from headrace.v1.prompt_pb2 import ROLE_ASSISTANT, ROLE_SYSTEM, ROLE_USER
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


def test_no_messages_are_left_to_the_server():
    """An empty list has the right type; that it is too short is the server's to say."""
    assert parse_messages("messages", []) == ()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("hi", "messages must be a list of messages."),
        ({}, "messages must be a list of messages."),
        (["hi"], "messages[0] must be an object with role and content."),
        ([{"content": "hi"}], "messages[0] must have the role system, developer, user or"),
        ([{"role": "wizard", "content": "hi"}], "messages[0] must have the role system,"),
        ([{"role": ["user"], "content": "hi"}], "messages[0] must have the role system,"),
        ([{"role": "tool", "content": "4"}], "messages[0] has the role tool, which is not supp"),
        ([{"role": "user"}], "messages[0] has no content."),
        ([{"role": "assistant", "content": None}], "messages[0] has no content."),
        (
            [{"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}],
            "messages[0] holds tool_calls, which is not supported.",
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
