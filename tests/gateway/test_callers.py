"""Who sends a request."""

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from headrace_gateway.api_keys import ApiKeys, to_api_key
from headrace_gateway.callers import Caller, identify
from headrace_gateway.openai.api_error import ApiError

ADDRESS = "192.0.2.7"
KEYS = ApiKeys([to_api_key("good"), to_api_key("other")])
GOOD = to_api_key("good").name
GOOD_WAYS = [
    [("Authorization", "Bearer good")],
    [("authorization", "bearer  good ")],
    [("X-Api-Key", "good")],
    [("X-API-KEY", " good ")],
    [("Authorization", "Bearer good"), ("X-Api-Key", "good")],
    [("Authorization", "Basic dTpw"), ("X-Api-Key", "good")],
    [("Authorization", "Bearer "), ("X-Api-Key", "good")],
]
BAD_WAYS = [
    [],
    [("Authorization", "Bearer bad")],
    [("Authorization", "good")],
    [("Authorization", "Basic good")],
    [("Authorization", "Bearer")],
    [("X-Api-Key", "")],
    [("X-Api-Key", "Bearer good")],
    [("X-Api-Key", "GOOD")],
    [("X-Api-Key", "g\u00f6od")],
    [("X-Api-Key", "\udcff")],
    [("X-Api-Key", "x" * 8000)],
    [("Cookie", "good")],
]
SEVERAL = [
    [("Authorization", "Bearer good"), ("X-Api-Key", "other")],
    [("Authorization", "Bearer good"), ("Authorization", "Bearer bad")],
    [("X-Api-Key", "bad"), ("X-Api-Key", "good")],
]


def who(headers, keys, *, is_open=False):
    return identify(CIMultiDictProxy(CIMultiDict(headers)), ADDRESS, keys, is_open=is_open)


@pytest.mark.parametrize("headers", GOOD_WAYS)
def test_a_key_is_sent_in_either_header(headers):
    """It tells the name, and goes on to the server."""
    assert who(headers, KEYS) == Caller(GOOD, "good")
    assert who(headers, KEYS, is_open=True) == Caller(GOOD, "good")


@pytest.mark.parametrize("headers", BAD_WAYS)
def test_who_has_no_good_key_is_refused(headers):
    """Whether it is missing or wrong is not told; who needs none is known by the address."""
    with pytest.raises(ApiError) as refusal:
        who(headers, KEYS)
    error = refusal.value
    assert (error.status, error.code) == (401, "invalid_api_key")
    assert error.message == (
        "The API key is missing or wrong; send yours as the header Authorization: Bearer KEY or "
        "X-Api-Key: KEY."
    )
    assert error.response_headers() == {"WWW-Authenticate": "Bearer"}
    assert who(headers, KEYS, is_open=True).name == ADDRESS


@pytest.mark.parametrize("headers", SEVERAL)
def test_several_keys_are_refused(headers):
    """One may be good, but it is not for the gateway to choose; the server gets none of them."""
    with pytest.raises(ApiError) as refusal:
        who(headers, KEYS)
    assert refusal.value.status == 401
    assert "several" in refusal.value.message
    assert who(headers, KEYS, is_open=True) == Caller(ADDRESS)
    assert who(headers, None) == Caller(ADDRESS)


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ([("Authorization", "Bearer anything")], "anything"),
        ([("X-Api-Key", "anything")], "anything"),
        ([("X-Api-Key", "g\u00f6od")], None),
        ([("X-Api-Key", "a b")], None),
        ([("X-Api-Key", "x" * 513)], None),
        ([], None),
    ],
)
def test_without_keys_of_its_own_the_gateway_hands_keys_on(headers, key):
    """The server may ask for one; what could be none is not sent."""
    assert who(headers, None) == Caller(ADDRESS, key)


def test_nothing_shows_the_key():
    """What is printed by mistake is no loss."""
    assert "secret" not in repr(Caller("alice", "secret"))
