"""What is whole of the input of a call."""

import json

import pytest

from headrace_gateway.anthropic.partial_json import complete_object

WHOLE = '{"a": [1, {"b": "}\\"é,"}], "c": null, "d": 2.5}'


def test_an_object_stays_as_it_is():
    """Not a character of what the model wrote is changed."""
    assert [complete_object(text) for text in (WHOLE, "{}", '{"a":  1}')] == [
        WHOLE,
        "{}",
        '{"a":  1}',
    ]


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("", {}),
        ("{", {}),
        ('{"a', {}),
        ('{"a": ', {}),
        ('{"a": "x', {}),
        ('{"a": "x"', {"a": "x"}),
        ('{"a": "x", "b', {"a": "x"}),
        ('{"a": [1, [2, 3], "', {"a": [1, [2, 3]]}),
        ('{"a": {"b": "\\"}', {"a": {}}),
        ('{"a": 1, "b": 12', {"a": 1}),
        ('{"a": 12 ', {"a": 12}),
        ("[1]", {}),
        ("no JSON", {}),
        ('{"a": nul', {}),
    ],
)
def test_of_a_beginning_what_is_whole_is_kept(text, whole):
    """Keys without values and strings without ends are left out."""
    assert json.loads(complete_object(text)) == whole


def test_every_beginning_is_an_object():
    """Wherever the maximum of tokens cuts, the answer is JSON, and is not less than before."""
    sizes = [len(json.dumps(json.loads(complete_object(WHOLE[:n])))) for n in range(len(WHOLE))]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) > 5
