"""The blocks of a conversation."""

import pytest

from headrace.v1.prompt_pb2 import ROLE_ASSISTANT, ROLE_SYSTEM, ROLE_USER
from headrace_gateway.anthropic.blocks import (
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    parse_messages,
    parse_system,
)
from headrace_gateway.openai.api_error import ApiError

TEXT = {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}
USE = {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": "é"}}
RESULT = {"type": "tool_result", "tool_use_id": "t1"}


def user(*blocks):
    return [{"role": "user", "content": [*blocks]}]


def assistant(*blocks):
    return [{"role": "assistant", "content": [*blocks]}]


def test_system_is_a_string_or_text_blocks():
    """Both forms are told; instructions of nothing are none, so that a model's own hold."""
    assert parse_system("system", "Be brief.") == (TextBlock("system", ROLE_SYSTEM, "Be brief."),)
    assert parse_system("system", [TEXT]) == (TextBlock("system[0]", ROLE_SYSTEM, "Hi"),)
    assert [parse_system("system", empty) for empty in ("", [], [{**TEXT, "text": ""}])] == [()] * 3


def test_each_kind_of_block_is_read_with_its_place():
    """Texts, calls and results are told; thinking of earlier turns is not."""
    thinking = {"type": "thinking", "thinking": "Hm", "signature": "s"}
    hidden = {"type": "redacted_thinking", "data": "x"}
    messages = [
        {"role": "user", "content": "Ho"},
        *assistant(thinking, hidden, TEXT, USE),
        *user({**RESULT, "content": "4"}, {**RESULT, "content": [TEXT, TEXT]}, RESULT),
        {"role": "system", "content": "New."},
    ]
    assert parse_messages("messages", messages) == (
        TextBlock("messages[0].content", ROLE_USER, "Ho"),
        TextBlock("messages[1].content[2]", ROLE_ASSISTANT, "Hi"),
        ToolUseBlock("messages[1].content[3]", "t1", "f", '{"a": "é"}'),
        ToolResultBlock("messages[2].content[0]", "t1", "4"),
        ToolResultBlock("messages[2].content[1]", "t1", "Hi\nHi"),
        ToolResultBlock("messages[2].content[2]", "t1", ""),
        TextBlock("messages[3].content", ROLE_SYSTEM, "New."),
    )


def test_the_model_is_told_that_a_tool_has_failed():
    """A failure is not taken for a success; the mark of none changes nothing."""
    failed, well, unmarked = parse_messages(
        "messages",
        user(*({**RESULT, "content": "no file", "is_error": mark} for mark in (True, False, None))),
    )
    assert [block.text for block in (failed, well, unmarked)] == [
        "Error: no file",
        "no file",
        "no file",
    ]


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ("Hi", "messages must be a list of one message or more."),
        ([], "messages must be a list of one message or more."),
        (["Hi"], "messages[0] must be an object with role and content."),
        ([{"role": "tool", "content": "a"}], "messages[0].role must be user, assistant or system."),
        ([{"role": [], "content": "a"}], "messages[0].role must be user, assistant or system."),
        ([{"role": "user"}], "messages[0].content must be a string or a list of blocks."),
        (user(), "messages[0].content must hold a block."),
        (user("a"), "messages[0].content[0] must be an object with a type."),
        (user(USE), "messages[0].content[0].type must be text or tool_result."),
        (user({"type": {}}), "messages[0].content[0].type must be text or tool_result."),
        (
            assistant(RESULT),
            "messages[0].content[0].type must be text, tool_use or thinking.",
        ),
        (
            [{"role": "system", "content": [RESULT]}],
            "messages[0].content[0].type must be text.",
        ),
        (
            user({"type": "image", "source": {}}),
            "messages[0].content[0] has the type image, and the model takes only text.",
        ),
        (
            user({**RESULT, "content": [TEXT, {"type": "document"}]}),
            "messages[0].content[0].content[1] has the type document, and the model takes only "
            "text.",
        ),
        (user({"type": "text"}), "messages[0].content[0].text must be a string."),
        (
            user({"type": "text", "text": "\ud800"}),
            "messages[0].content[0].text holds half of a surrogate pair, which is no character.",
        ),
        (assistant({**USE, "input": "{}"}), "messages[0].content[0].input must be an object."),
        (assistant({**USE, "id": 5}), "messages[0].content[0].id must be a string."),
        (user({"type": "tool_result"}), "messages[0].content[0].tool_use_id must be a string."),
        (
            user({**RESULT, "is_error": 1}),
            "messages[0].content[0].is_error must be true or false.",
        ),
    ],
)
def test_what_is_no_conversation_is_refused_at_its_place(messages, message):
    """The words name the block."""
    with pytest.raises(ApiError) as refusal:
        parse_messages("messages", messages)
    assert (refusal.value.status, refusal.value.message) == (400, message)
