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
    "best_of": [2],
    "logprobs": [0, 5, -1],
    "top_logprobs": [True, 1.5],
    "prompt_logprobs": [1],
    "tools": [[{"type": "function"}], {}],
    "tool_choice": ["required", {"type": "function"}],
    "functions": [[{"name": "f"}]],
    "function_call": [{"name": "f"}],
    "modalities": [["text", "audio"]],
    "audio": [{"voice": "alloy"}],
    "suffix": ["!"],
    "bad_words": [["no"]],
    "skip_special_tokens": [False],
    "chat_template": ["{{ messages }}"],
    "chat_template_kwargs": [{"enable_thinking": False}],
    "return_token_ids": [True],
    "use_beam_search": [True],
}

NEUTRAL = {
    "best_of": [1],
    "tools": [[], None],
    "tool_choice": ["none", "auto", None],
    "modalities": [["text"]],
    "skip_special_tokens": [True],
    "suffix": ["", None],
    # No effect on the text, whatever they say.
    "user": ["alice", 5],
    "metadata": [{"a": "b"}],
    "store": [True],
    "service_tier": ["flex"],
    "prompt_cache_key": ["k"],
    "verbosity": ["low"],
    "parallel_tool_calls": [True, False],
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


def test_a_completion_tells_no_log_probabilities():
    """Of logprobs and top_logprobs the latter is named: it says what was wanted."""
    assert read_fields({"logprobs": False, "top_logprobs": 0}, COMPLETION_FIELDS) == {}
    for body, param in (
        ({"logprobs": True}, "logprobs"),
        ({"logprobs": True, "top_logprobs": 2}, "top_logprobs"),
    ):
        with pytest.raises(ApiError) as refusal:
            read_fields(body, COMPLETION_FIELDS)
        assert refusal.value.param == param


def test_a_chat_cannot_echo_and_a_completion_has_one_name_for_its_length():
    """Fields of the other endpoint are refused where they would change the answer."""
    for body, supported in (
        ({"echo": True}, CHAT_FIELDS),
        ({"max_completion_tokens": 5}, COMPLETION_FIELDS),
    ):
        with pytest.raises(ApiError) as refusal:
            read_fields(body, supported)
        assert [refusal.value.param] == list(body)
