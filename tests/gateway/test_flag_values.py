"""Gateway and server read their flags alike."""

import inspect

import pytest

from headrace_gateway import api_keys, flag_values
from headrace_server import api_keys as server_api_keys
from headrace_server import flag_values as server_flag_values

SHARED = [
    "api_key",
    "config_file",
    "file",
    "host",
    "one_of",
    "seconds",
    "switch",
    "whole_number",
]


@pytest.mark.parametrize("name", SHARED)
def test_a_reader_of_both_is_the_same(name):
    """One file and one variable may be for both, and what is wrong with it is said in one way."""
    ours, theirs = (getattr(each, name) for each in (flag_values, server_flag_values))
    assert inspect.getsource(ours) == inspect.getsource(theirs)


def test_no_reader_has_the_name_of_another_one():
    """What both call by one name is in the list."""
    ours, theirs = (
        {name for name, _ in inspect.getmembers(each, inspect.isfunction)}
        for each in (flag_values, server_flag_values)
    )
    assert (ours & theirs) - {"to_api_key"} == set(SHARED)


def test_keys_are_read_by_the_same_words():
    """The module on keys is one, word for word."""
    assert inspect.getsource(api_keys) == inspect.getsource(server_api_keys)
