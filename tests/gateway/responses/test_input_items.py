"""The input of a response as messages."""

import pytest

from headrace.v1 import prompt_pb2, tool_pb2
from headrace_gateway.openai.api_error import ApiError
from headrace_gateway.responses.input_items import parse_input

CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
SECOND = {"type": "function_call", "call_id": "c2", "name": "g", "arguments": '{"a": 1}'}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "4"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "content": []}


def messages(value):
    return [turn.message for turn in parse_input("input", value)]


def message(role, content="", *calls, call_id=""):
    return prompt_pb2.ChatMessage(
        role=prompt_pb2.Role.Value(f"ROLE_{role}"),
        content=content,
        tool_calls=calls,
        tool_call_id=call_id,
    )


def test_a_string_is_what_the_user_says():
    """The shortest input is a text."""
    assert messages("Hi") == [message("USER", "Hi")]


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ("user", "USER"),
        ("system", "SYSTEM"),
        ("developer", "SYSTEM"),
        ("assistant", "ASSISTANT"),
    ],
)
def test_a_message_needs_no_type(role, expected):
    """With and without it a role has its words."""
    item = {"role": role, "content": "Hi"}
    assert messages([item]) == messages([item | {"type": "message"}]) == [message(expected, "Hi")]


def test_texts_of_a_content_are_joined():
    """All kinds of text are text."""
    parts = [
        {"type": "input_text", "text": "a"},
        {"type": "output_text", "text": "b", "annotations": []},
        {"type": "refusal", "refusal": "c"},
    ]
    assert messages([{"role": "user", "content": parts}]) == [message("USER", "a\nb\nc")]


def test_calls_belong_to_the_message_before_them():
    """What the model has said and called in one turn is one message."""
    said = {"role": "assistant", "content": "I look."}
    first, second = (
        tool_pb2.ToolCall(id=call["call_id"], name=call["name"], arguments_json=call["arguments"])
        for call in (CALL, SECOND)
    )
    assert messages([REASONING, said, CALL, REASONING, SECOND, RESULT]) == [
        message("ASSISTANT", "I look.", first, second),
        message("TOOL", "4", call_id="c1"),
    ]
    assert messages([{"role": "user", "content": "Hi"}, CALL])[1] == message("ASSISTANT", "", first)


def test_a_result_may_be_a_list_of_texts():
    """Its texts are joined as those of a message."""
    parts = [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]
    assert messages([RESULT | {"output": parts}]) == [message("TOOL", "a\nb", call_id="c1")]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (5, "input must be a string or a list of items."),
        ([], "input must have at least one message or call."),
        ([REASONING], "input must have at least one message or call."),
        (["Hi"], "input[0] must be an object with a type."),
        ("\ud800", "input holds half of a surrogate pair, which is no character."),
        ([{"role": "tool", "content": "a"}], "input[0] must have the role system, developer,"),
        ([{"role": "user"}], "input[0] must have a string or a list of texts as content."),
        ([{"role": "user", "content": [5]}], "input[0].content[0] must be an object with type"),
        (
            [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}],
            "input[0].content[0] must have the type input_text or output_text: the model takes",
        ),
        (
            [{"role": "user", "content": [{"type": "input_text"}]}],
            "input[0].content[0] must have a string as text.",
        ),
        ([CALL | {"name": None}], "input[0] must have a string as name."),
        ([CALL | {"arguments": {}}], "input[0] must have a string as arguments."),
        ([CALL | {"call_id": "\udfff"}], "input[0] holds half of a surrogate pair in call_id"),
        ([RESULT | {"call_id": 1}], "input[0] must have a string as call_id."),
        ([RESULT | {"output": None}], "input[0] must have a string or a list of texts as output."),
        (
            [{"type": "item_reference", "id": "msg_1"}],
            "input[0] refers to an item, and nothing is stored; send the item itself.",
        ),
        (
            [{"type": "web_search_call"}],
            "input[0] has the type web_search_call, which is not supported; there are message, ",
        ),
        ([{"type": "a b"}], "input[0] has the type that is no word, which is not supported"),
        ([{"type": False, "role": "user", "content": "a"}], "input[0] has the type"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_place(value, words):
    """The refusal says what is wrong with which item."""
    with pytest.raises(ApiError) as refusal:
        parse_input("input", value)
    assert refusal.value.message.startswith(words)
    assert (refusal.value.status, refusal.value.param) == (400, "input")
