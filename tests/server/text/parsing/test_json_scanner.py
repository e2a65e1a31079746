"""The scanner of JSON agrees with Python's reader, which is strict but for constants."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_server.text.parsing.json_scanner import MAX_DEPTH, JsonScanner, Step

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def scan(text):
    """Return the last step, and how many characters were taken for it."""
    scanner = JsonScanner()
    for count, character in enumerate(text, 1):
        if (step := scanner.feed(character)) is not Step.MORE:
            return step, count
    return Step.MORE, len(text)


def is_json(text):
    try:
        json.loads(text, parse_constant=lambda _: 1 / 0)
    except (ValueError, ZeroDivisionError):
        return False
    return True


@given(VALUES, st.sampled_from([None, 1]), st.booleans())
def test_a_value_is_followed_to_its_end(value, indent, ensure_ascii):
    """It is over with its last character, or with the first behind a number."""
    text = json.dumps(value, indent=indent, ensure_ascii=ensure_ascii)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    expected = (Step.OVER, len(text) + 1) if is_number else (Step.LAST, len(text))
    assert expected == scan(text + ",")


@given(VALUES, st.data())
def test_one_wrong_character_is_told_from_a_right_one(value, data):
    """What the scanner takes for a whole object is JSON, and what it does not take is none."""
    text = json.dumps({"a": value})
    place = data.draw(st.integers(1, len(text) - 1))
    character = data.draw(st.sampled_from('{}[]":,\\ \n0.-eEtu\x01x'))
    changed = text[:place] + character + text[place + 1 :]
    step, count = scan(changed)
    assert is_json(changed[:count]) == (step is Step.LAST)
    if step is Step.BROKEN:
        assert not any(is_json(changed[:end]) for end in range(1, len(changed) + 1))


@pytest.mark.parametrize(
    "text",
    [
        *("[01]", "-", "1.", "1e", "+1", ".5", "NaN", "tru,", "nulk", "[1,]", "[1 2", "]", " 1"),
        *('{"a":}', '{"a",', "{,", "{1:", '{"a" 1', '{"a":1 "b"', '"\n', '"\\x', '"\\u12g'),
    ],
)
def test_what_is_no_json_is_broken(text):
    """At the latest with the character after it."""
    assert scan(text + ",")[0] is Step.BROKEN


def test_what_is_nested_too_deeply_is_broken():
    """Readers of JSON give up at some depth as well."""
    assert scan("[" * MAX_DEPTH)[0] is Step.MORE
    assert scan("[" * (MAX_DEPTH + 1)) == (Step.BROKEN, MAX_DEPTH + 1)
