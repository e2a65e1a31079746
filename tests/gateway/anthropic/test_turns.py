"""The messages of the contract that blocks become."""

import pytest

from headrace.v1.prompt_pb2 import ROLE_ASSISTANT, ROLE_SYSTEM, ROLE_TOOL, ROLE_USER, ChatMessage
from headrace.v1.tool_pb2 import ToolCall
from headrace_gateway.anthropic.blocks import TextBlock, ToolResultBlock, ToolUseBlock
from headrace_gateway.anthropic.turns import to_turns, turn_json_path
from headrace_gateway.openai.api_error import ApiError

SYSTEM = TextBlock("system", ROLE_SYSTEM, "Be brief.")
ASKED = TextBlock("messages[0].content", ROLE_USER, "Two cities?")
SAID = TextBlock("messages[1].content[0]", ROLE_ASSISTANT, "I look.")
USES = [ToolUseBlock(f"messages[1].content[{i}]", f"t{i}", "f", "{}") for i in (1, 2)]
RESULTS = [ToolResultBlock(f"messages[2].content[{i}]", f"t{i + 1}", f"{i}°") for i in (0, 1)]
ADDED = TextBlock("messages[2].content[2]", ROLE_USER, "Well?")


def test_each_result_is_a_message_and_what_else_one_says_at_a_time():
    """Calls go with the words before them, results one by one with their ids."""
    turns = to_turns([SYSTEM, ASKED, SAID, *USES, *RESULTS, ADDED])
    calls = [ToolCall(id=f"t{i}", name="f", arguments_json="{}") for i in (1, 2)]
    assert [turn.message for turn in turns] == [
        ChatMessage(role=ROLE_SYSTEM, content="Be brief."),
        ChatMessage(role=ROLE_USER, content="Two cities?"),
        ChatMessage(role=ROLE_ASSISTANT, content="I look.", tool_calls=calls),
        ChatMessage(role=ROLE_TOOL, content="0°", tool_call_id="t1"),
        ChatMessage(role=ROLE_TOOL, content="1°", tool_call_id="t2"),
        ChatMessage(role=ROLE_USER, content="Well?"),
    ]


def test_turns_of_one_role_are_one_turn():
    """Most templates want the roles to take turns; texts of nothing add no line."""
    empty = TextBlock("", ROLE_USER, "")
    [turn] = to_turns([ASKED, empty, ADDED])
    assert (turn.message.content, turn.path) == ("Two cities?\nWell?", "messages[0].content")


def test_a_result_needs_its_call():
    """A result of nothing is refused by its place."""
    with pytest.raises(ApiError) as refusal:
        to_turns([ASKED, SAID, USES[0], RESULTS[1]])
    assert refusal.value.message == (
        "messages[2].content[1].tool_use_id must be the id of a tool_use before it."
    )


def test_calls_at_the_end_need_results():
    """The model cannot go on from a call that has not been answered."""
    with pytest.raises(ApiError) as refusal:
        to_turns([ASKED, SAID, *USES])
    assert refusal.value.message == (
        "messages[1].content[2] needs a tool_result in a message after it."
    )


@pytest.mark.parametrize(
    ("path", "json_path"),
    [
        ("chat.messages[0].content", "system"),
        ("chat.messages[2]", "messages[1].content[0]"),
        ("chat.messages[2].tool_calls[1].name", "messages[1].content[2].name"),
        ("chat.messages[2].tool_calls[0].arguments_json", "messages[1].content[1].input"),
        ("chat.messages[4].tool_call_id", "messages[2].content[1].tool_use_id"),
        ("chat.messages", None),
        ("chat.tools[0].name", None),
    ],
)
def test_a_field_of_the_contract_is_found_in_the_json(path, json_path):
    """Errors of the server name the block that they are about."""
    turns = to_turns([SYSTEM, ASKED, SAID, *USES, *RESULTS, ADDED])
    assert turn_json_path(turns, path) == json_path
