"""The types of fields."""

import math

import pytest

from headrace_gateway.openai import field_types
from headrace_gateway.openai.api_error import ApiError


@pytest.mark.parametrize(
    ("read", "value", "expected"),
    [
        (field_types.text, "é🌍\x00", "é🌍\x00"),
        (field_types.boolean, True, True),
        (field_types.number, 1, 1.0),
        (field_types.number, 0.5, 0.5),
        (field_types.int32, -(2**31), -(2**31)),
        (field_types.int32, 16.0, 16),
        (field_types.int64, 2**63 - 1, 2**63 - 1),
        (field_types.int32_list, [], ()),
        (field_types.int32_list, [1, -2], (1, -2)),
        (field_types.text_or_list, "a", ("a",)),
        (field_types.text_or_list, ["a", ""], ("a", "")),
        (field_types.text_or_list, [], ()),
    ],
)
def test_a_value_of_the_type_is_taken(read, value, expected):
    """A value of the right type comes out as it went in."""
    assert read("field", value) == expected


@pytest.mark.parametrize(
    ("read", "value", "words"),
    [
        (field_types.text, 1, "field must be a string."),
        (field_types.text, "\ude00", "field holds half of a surrogate pair"),
        (field_types.boolean, 1, "field must be true or false."),
        (field_types.boolean, "true", "field must be true or false."),
        (field_types.number, "0.5", "field must be a number."),
        (field_types.number, True, "field must be a number."),
        (field_types.number, math.nan, "field must be a finite number."),
        (field_types.number, -math.inf, "field must be a finite number."),
        (field_types.number, 10**400, "field must be a finite number."),
        (field_types.int32, 2**31, "field is an integer that does not fit 32 bits."),
        (field_types.int32, 1.5, "field must be an integer."),
        (field_types.int32, math.nan, "field must be an integer."),
        (field_types.int32, math.inf, "field must be an integer."),
        (field_types.int32, True, "field must be an integer."),
        (field_types.int32, "1", "field must be an integer."),
        (field_types.int64, 2**63, "field is an integer that does not fit 64 bits."),
        (field_types.int64, -(2**63) - 1, "field is an integer that does not fit 64 bits."),
        (field_types.int32_list, 1, "field must be a list of integers."),
        (field_types.int32_list, [1, True], "field must be a list of integers."),
        (field_types.int32_list, [1, 2.0], "field must be a list of integers."),
        (field_types.int32_list, [2**31], "field holds an integer that does not fit 32 bits."),
        (field_types.text_or_list, 1, "field must be a string or a list of strings."),
        (field_types.text_or_list, ["a", 1], "field must be a string."),
        (field_types.text_or_list, ["\ud800"], "field holds half of a surrogate pair"),
    ],
)
def test_a_value_of_another_type_is_refused_by_name(read, value, words):
    """A value of another type is refused with 400, and the refusal names the field."""
    with pytest.raises(ApiError) as refusal:
        read("field", value)
    assert (refusal.value.status, refusal.value.param) == (400, "field")
    assert refusal.value.message.startswith(words)
