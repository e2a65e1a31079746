"""The prompts of a completion."""

import pytest

from headrace_gateway.openai.api_error import ApiError
from headrace_gateway.openai.prompts import MAX_PROMPTS, MAX_TOKEN_IDS, parse_prompts


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Hi", ("Hi",)),
        ("", ("",)),
        (["Hi"], ("Hi",)),
        (["a", "b"], ("a", "b")),
        ([1, 2], ((1, 2),)),
        ([[1, 2]], ((1, 2),)),
        ([[1], [2, 3], []], ((1,), (2, 3), ())),
    ],
)
def test_the_four_forms_of_a_prompt(value, expected):
    """A string, token ids, a list of strings and a list of token ids."""
    assert parse_prompts("prompt", value) == expected


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([], "prompt must be a string, a list of token ids, or a list of one of these."),
        (5, "prompt must be a string, a list of token ids, or"),
        ({"a": 1}, "prompt must be a string, a list of token ids, or"),
        ([1, "a"], "prompt must be a string, a list of token ids, or"),
        ([[1], "a"], "prompt must be a string, a list of token ids, or"),
        ([True], "prompt must be a string, a list of token ids, or"),
        ([1.0], "prompt must be a string, a list of token ids, or"),
        ([["a"]], "prompt must be a list of integers."),
        ("\ude00", "prompt holds half of a surrogate pair"),
        ([1, 2, 4294967295], "prompt holds an integer that does not fit 32 bits."),
        (["a"] * (MAX_PROMPTS + 1), "prompt holds more than 128 prompts."),
        ([7] * (MAX_TOKEN_IDS + 1), "prompt holds more than 1048576 token ids."),
    ],
)
def test_another_form_is_refused(value, words):
    """Everything else is refused by name."""
    with pytest.raises(ApiError) as refusal:
        parse_prompts("prompt", value)
    assert (refusal.value.status, refusal.value.param) == (400, "prompt")
    assert refusal.value.message.startswith(words)
