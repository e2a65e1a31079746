"""The shape of errors."""

import json

from headrace_gateway.openai.api_error import ApiError


def test_the_body_has_the_four_keys():
    """OpenAI's clients read message, type, param and code; all of them are there."""
    error = ApiError(400, "temperature must be a number.", param="temperature")
    assert json.loads(error.body()) == {
        "error": {
            "message": "temperature must be a number.",
            "type": "invalid_request_error",
            "param": "temperature",
            "code": None,
        }
    }
    assert error.response_headers() == {}


def test_a_retry_time_is_told_in_whole_and_in_exact_seconds():
    """Retry-After is rounded up, so that nobody comes too early."""
    error = ApiError(429, "Later.", retry_after_seconds=0.25, headers={"Allow": "GET"})
    assert error.response_headers() == {
        "Allow": "GET",
        "Retry-After": "1",
        "retry-after-ms": "250",
    }


def test_a_message_with_half_a_character_can_be_sent():
    """A lone surrogate in a message does not turn an error into another."""
    assert json.loads(ApiError(400, "bad \ude00").body())["error"]["message"] == "bad ?"
