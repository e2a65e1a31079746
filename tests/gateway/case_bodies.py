"""Bodies of cases that are too long or too odd to be written down."""

from __future__ import annotations

import json


def long_chat():
    return {"messages": [{"role": "user", "content": "word " * 20_000}], "max_tokens": 5}


def long_prompt():
    return {"prompt": "word " * 20_000, "max_tokens": 5}


def prompt_of_three_megabytes():
    return {"prompt": "a word " * 430_000}


def prompt_of_five_megabytes():
    return {"prompt": "a word " * 720_000}


def long_label():
    return {"prompt": "hey", "request_id": "x" * 129}


def not_utf8():
    return b'{"prompt": "\xff\xfe"}'


def byte_order_mark():
    return b'\xef\xbb\xbf{"prompt": "hey"}'


def deep_array():
    return b'{"messages": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"


_MAKERS = (
    long_chat,
    long_prompt,
    prompt_of_three_megabytes,
    prompt_of_five_megabytes,
    long_label,
    not_utf8,
    byte_order_mark,
    deep_array,
)


def make(name: str) -> bytes:
    """Return the body of this name."""
    [made] = [maker() for maker in _MAKERS if maker.__name__ == name]
    return made if isinstance(made, bytes) else json.dumps(made).encode()
