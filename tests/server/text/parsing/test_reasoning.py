"""Reasoning is parted from the answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_server.text.parsing.formats import ToolCallFormat
from headrace_server.text.parsing.reasoning import (
    ReasoningStart,
    ReasoningTags,
    close_reasoning,
    reasoning_start,
)
from tests.server.text.parsing.parsing import Read, parse

THINK = ReasoningTags("<think>", "</think>")
OPEN, POSSIBLE, NONE = ReasoningStart
CALL = '<tool_call>{"name": "now", "arguments": {}}</tool_call>'

OUTPUTS = [
    ("<think>\nLet me see.\n</think>\n\nIt is 5.", POSSIBLE, Read("It is 5.", (), "Let me see.")),
    ("\n<think>a < b</think>c", POSSIBLE, Read("c", (), "a < b")),
    ("<think>\n\n</think>\n\nHi", POSSIBLE, Read("Hi")),
    ("Let me see.\n</think>\n\nIt is 5.", OPEN, Read("It is 5.", (), "Let me see.")),
    ("Let me see. It", OPEN, Read("", (), "Let me see. It")),
    ("Cut </thi", OPEN, Read("", (), "Cut </thi")),
    ("No thoughts. <think>late</think>", POSSIBLE, Read("No thoughts. <think>late</think>")),
    ("\n <thin", POSSIBLE, Read("\n <thin")),
    ("<think>a</think>b", NONE, Read("<think>a</think>b")),
    ("", OPEN, Read()),
]


@pytest.mark.parametrize(("output", "start", "expected"), OUTPUTS)
@pytest.mark.parametrize("tools", [(), ("now",)])
def test_reasoning_comes_before_the_text(output, start, expected, tools):
    """Without its tags and the white space round it, with tools and without."""
    form = ToolCallFormat.HERMES
    assert expected == parse(output, form, tools=tools, tags=THINK, start=start)


def test_calls_come_after_reasoning():
    """What looks like a call in the reasoning is none."""
    output = f"<think>I could {CALL}.</think>\n{CALL}"
    read = parse(output, ToolCallFormat.HERMES, tags=THINK)
    assert Read("", (("now", "{}"),), f"I could {CALL}.", waits_for_results=True) == read


@given(
    st.lists(st.sampled_from(["<think>", "</think>", "\n", " ", "a", "<", CALL]), max_size=8),
    st.sampled_from(ReasoningStart),
    st.sampled_from([(), ("now",)]),
)
def test_any_output_is_read_alike_however_it_is_cut(parts, start, tools):
    """Each character by itself gives what the whole gives."""
    output = "".join(parts)
    options = {"tags": THINK, "start": start, "tools": tools}
    whole = parse(output, ToolCallFormat.HERMES, **options)
    assert whole == parse(output, ToolCallFormat.HERMES, cuts=range(len(output)), **options)


@pytest.mark.parametrize(
    ("prompt", "final_content", "expected"),
    [
        ("<|im_start|>assistant\n", None, POSSIBLE),
        ("<|im_start|>assistant\n<think>\n", None, OPEN),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", None, POSSIBLE),
        ("…", "So far", NONE),
        ("…", "<think>So far", OPEN),
        ("…", "<think>So far</think> I", NONE),
    ],
)
def test_the_prompt_tells_where_reasoning_is(prompt, final_content, expected):
    """A template may open it, and a message that is continued may be amid it."""
    assert expected == reasoning_start(THINK, prompt, final_content)


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("assistant\n<think>\n", "assistant\n<think>\n\n</think>\n\n"),
        ("assistant\n<think>\n\n</think>\n\n", "assistant\n<think>\n\n</think>\n\n"),
        ("assistant\n", "assistant\n"),
    ],
)
def test_reasoning_that_a_prompt_has_opened_can_be_closed(prompt, expected):
    """As templates do it that let callers switch it off."""
    assert expected == close_reasoning(THINK, prompt)
