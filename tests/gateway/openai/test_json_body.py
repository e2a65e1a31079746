"""From bytes to a JSON object."""

import gc
import json
import math

import pytest

from headrace_gateway.openai.api_error import ApiError
from headrace_gateway.openai.json_body import parse_object


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "The body is empty; send a JSON object."),
        (b"\xef\xbb\xbf{}", "The body starts with a byte order mark; send plain UTF-8."),
        (b'{"a": "\xff"}', "The body is not UTF-8 at byte 7."),
        ('{"a": 1}'.encode("utf-16"), "The body is not UTF-8 at byte 0."),
        (b'{"a": "\xed\xb8\x80"}', "The body is not UTF-8 at byte 7."),
        (b"{", "The body is not JSON: Expecting property name enclosed in double quotes at"),
        (b'{"a": 1} x', "The body is not JSON: Extra data at line 1, column 10."),
        (b"[" * 100_000, "The body is nested too deeply."),
        (b'{"a":' * 100_000, "The body is nested too deeply."),
        (b'{"a": ' + b"9" * 5000 + b"}", "The body holds an integer with too many digits."),
        (b"[]", "The body must be a JSON object."),
        (b"null", "The body must be a JSON object."),
        (b'"text"', "The body must be a JSON object."),
    ],
)
def test_what_is_no_json_object_is_refused_in_words(body, words):
    """Each way of not being a JSON object has its own sentence and status 400."""
    with pytest.raises(ApiError) as refusal:
        parse_object(body)
    assert refusal.value.status == 400
    assert refusal.value.message.startswith(words)


def test_the_last_of_equal_keys_wins():
    """Duplicate keys are read the same way every time."""
    assert parse_object(b'{"a": 1, "b": 2, "a": 3}') == {"a": 3, "b": 2}


def test_what_json_forbids_in_values_passes_to_the_check_of_the_field():
    """NaN, infinity and lone surrogates get through, so that a field can be named."""
    parsed = parse_object(b'{"a": NaN, "b": 1e999, "c": "\\ude00", "d": "\\ud83c\\udf0d"}')
    assert math.isnan(parsed["a"])
    assert parsed["b"] == math.inf
    assert parsed["c"] == "\ude00"
    assert parsed["d"] == "🌍"


def test_the_garbage_collector_does_not_look_at_a_body_while_it_is_read():
    """It would do so hundreds of times, in which nothing else is answered, and find nothing."""
    phases = []

    def listen(phase, info):
        phases.append(phase)

    gc.collect()
    gc.callbacks.append(listen)
    try:
        parsed = parse_object(b'{"a": [' + b"[]," * 100_000 + b"[]]}")
        assert len(phases) <= 2  # one collection may follow
    finally:
        gc.callbacks.remove(listen)
    assert len(parsed["a"]) == 100_001
    assert gc.isenabled()


def test_the_garbage_collector_goes_on_after_a_body_that_is_no_json():
    """A refusal leaves it on."""
    with pytest.raises(ApiError):
        parse_object(b'{"a": [')
    assert gc.isenabled()


@pytest.mark.parametrize(
    "text", ["123456789012345678901234567890", "-0", "-0.0", "1.5e300", '"\\u00e9"']
)
def test_numbers_and_texts_are_those_of_pythons_parser(text):
    """The strict parser, which is tried first, makes the same of what both take."""
    assert repr(parse_object(f'{{"a": {text}}}'.encode())) == repr({"a": json.loads(text)})
