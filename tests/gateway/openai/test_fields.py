"""The table of fields."""

import pytest

from headrace_gateway.openai.api_error import ApiError
from headrace_gateway.openai.fields import CHAT_FIELDS, COMPLETION_FIELDS, read_fields

REFUSED = {
    # What is supported and of the wrong type.
    "n": [True, "1", 1.5, 2**31],
    "logit_bias": [{"AI": 0}, {"5": "more"}, {"5": True}, {"4294967296": 1}, []],
    "presence_penalty": [float("nan"), "much", True],
    "repetition_penalty": [float("inf")],
    "priority": [0.5, 2**31],
    "cache_salt": [5, "\ud800"],
    "response_format": [1, {}, {"type": "sound"}, {"type": "json_schema"}],
    "structured_outputs": [[], {"json_schema": {}}, {"regex": "a", "choice": ["a"]}],
    "guided_json": [5, [], False, {"maximum": float("nan")}, {"title": "\ud800"}],
    "guided_regex": [5, ["a"]],
    "guided_choice": ["yes", [1]],
    "guided_grammar": [{}],
    # What is not supported.
    "top_logprobs": [True, 1.5],
    "prompt_logprobs": [True, 1.5],
    "tools": [[{"type": "function"}], {}],
    "tool_choice": ["always", 1, {"type": "function"}],
    "functions": [[{"name": "f"}]],
    "function_call": [{"name": "f"}],
    "modalities": [["text", "audio"]],
    "audio": [{"voice": "alloy"}],
    "suffix": [5, ["!"]],
    "bad_words": [["no"]],
    "skip_special_tokens": [0, "no"],
    "add_special_tokens": [0],
    "chat_template": ["{{ messages }}"],
    "chat_template_kwargs": [["enable_thinking"], "{}"],
    "use_beam_search": [True],
}

NEUTRAL = {
    "tools": [None],
    "tool_choice": [None],
    "modalities": [["text"]],
    "suffix": [None],
    # No effect on the text, whatever they say.
    "user": ["alice", 5],
    "metadata": [{"a": "b"}],
    "store": [True],
    "service_tier": ["flex"],
    "prompt_cache_key": ["k"],
    "verbosity": ["low"],
    "a_field_to_come": [{"a": [1]}, float("nan"), "\ude00"],
}


@pytest.mark.parametrize("supported", [CHAT_FIELDS, COMPLETION_FIELDS])
@pytest.mark.parametrize(("name", "value"), [(n, v) for n, vs in REFUSED.items() for v in vs])
def test_a_wish_that_cannot_be_met_is_refused_by_name(supported, name, value):
    """What would change the answer and is not supported is never ignored."""
    with pytest.raises(ApiError) as refusal:
        read_fields({name: value}, supported)
    assert refusal.value.status == 400
    assert refusal.value.param.partition("[")[0].partition(".")[0] == name


@pytest.mark.parametrize("supported", [CHAT_FIELDS, COMPLETION_FIELDS])
@pytest.mark.parametrize(("name", "value"), [(n, v) for n, vs in NEUTRAL.items() for v in vs])
def test_a_wish_for_nothing_is_taken(supported, name, value):
    """Neutral values, fields without effect on the text and unknown ones pass."""
    assert read_fields({name: value}, supported) == {}


@pytest.mark.parametrize("supported", [CHAT_FIELDS, COMPLETION_FIELDS])
def test_null_means_not_given(supported):
    """A null is as good as nothing in every field."""
    assert read_fields(dict.fromkeys(supported), supported) == {}


def test_log_probabilities_are_a_switch_in_chats_and_a_number_in_completions():
    """Of the other kind only false is taken, for nothing."""
    assert read_fields({"logprobs": True}, CHAT_FIELDS) == {"logprobs": True}
    assert read_fields({"logprobs": 5}, COMPLETION_FIELDS) == {"logprobs": 5}
    assert read_fields({"logprobs": False}, COMPLETION_FIELDS) == {"logprobs": None}
    for body, supported in (
        ({"logprobs": True}, COMPLETION_FIELDS),
        ({"logprobs": 1.5}, COMPLETION_FIELDS),
        ({"top_logprobs": 2}, COMPLETION_FIELDS),
        ({"logprobs": 5}, CHAT_FIELDS),
    ):
        with pytest.raises(ApiError) as refusal:
            read_fields(body, supported)
        assert [refusal.value.param] == list(body)


def test_a_completion_has_no_tools():
    """What asks for nothing is taken, and how many calls there may be is of no interest."""
    for body in (
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        {"tool_choice": "required"},
        {"chat_template_kwargs": {"enable_thinking": False}},
    ):
        with pytest.raises(ApiError) as refusal:
            read_fields(body, COMPLETION_FIELDS)
        assert [refusal.value.param] == list(body)
    neutral = {"tools": [], "chat_template_kwargs": {}, "parallel_tool_calls": False}
    for choice in ("none", "auto"):
        assert read_fields(neutral | {"tool_choice": choice}, COMPLETION_FIELDS) == {}


def test_fields_of_the_other_endpoint_are_refused_where_they_would_change_the_answer():
    """A chat cannot echo or rank answers, and a completion has one name for its length."""
    for body, supported in (
        ({"echo": True}, CHAT_FIELDS),
        ({"best_of": 2}, CHAT_FIELDS),
        ({"add_special_tokens": True}, CHAT_FIELDS),
        ({"suffix": "!"}, CHAT_FIELDS),
        ({"max_completion_tokens": 5}, COMPLETION_FIELDS),
        ({"prompt_logprobs": 1}, COMPLETION_FIELDS),
    ):
        with pytest.raises(ApiError) as refusal:
            read_fields(body, supported)
        assert [refusal.value.param] == list(body)


def test_an_empty_suffix_is_none():
    """A chat takes one that asks for nothing, as a completion does."""
    assert read_fields({"suffix": ""}, CHAT_FIELDS) == {}
    assert read_fields({"suffix": ""}, COMPLETION_FIELDS) == {"suffix": ""}
