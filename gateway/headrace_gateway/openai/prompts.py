"""The four forms of a completion's prompt."""

from __future__ import annotations

from headrace_gateway.openai import field_types
from headrace_gateway.openai.api_error import invalid_field

Prompt = str | tuple[int, ...]

MAX_PROMPTS = 128
"""The most prompts of one request, in prompts: all of them are generated at once, so
that one request cannot fill the server's queue.
"""

MAX_TOKEN_IDS = 1_048_576
"""The most items of a list, in token ids: no context is longer, and looking at each takes time
in which nothing else is answered.
"""


def parse_prompts(name: str, value: object) -> tuple[Prompt, ...]:
    """Read a string, token ids, or a list of either.

    Raises:
        ApiError: 400, the value has none of these forms, or there are too many prompts.
    """
    if isinstance(value, str):
        return (field_types.text(name, value),)
    if not isinstance(value, list) or not value:
        raise _wrong_form(name)
    if len(value) > MAX_TOKEN_IDS:
        raise invalid_field(name, f"{name} holds more than {MAX_TOKEN_IDS} token ids.")
    if field_types.is_integer_list(value):
        return (field_types.int32_list(name, value),)
    if len(value) > MAX_PROMPTS:
        raise invalid_field(name, f"{name} holds more than {MAX_PROMPTS} prompts.")
    if all(isinstance(item, str) for item in value):
        return tuple(field_types.text(name, item) for item in value)
    if all(isinstance(item, list) for item in value):
        return tuple(field_types.int32_list(name, item) for item in value)
    raise _wrong_form(name)


def _wrong_form(name: str) -> Exception:
    return invalid_field(
        name, f"{name} must be a string, a list of token ids, or a list of one of these."
    )
