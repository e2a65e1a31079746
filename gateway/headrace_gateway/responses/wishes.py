"""The smaller fields of a response's request."""

from __future__ import annotations

import msgspec

from headrace_gateway.openai import field_types
from headrace_gateway.openai.api_error import invalid_field

LOGPROBS = "message.output_text.logprobs"
"""What `include` holds where log probabilities are to be told."""


class Reasoning(msgspec.Struct, frozen=True):
    """How hard and how loud the model should think; repeated, and without effect."""

    effort: str | None = None
    summary: str | None = None


def parse_reasoning(name: str, value: object) -> Reasoning:
    """Read the wishes for the reasoning.

    Raises:
        ApiError: 400, they are malformed.
    """
    if not isinstance(value, dict):
        raise invalid_field(name, f"{name} must be an object.")
    effort, summary = (
        None if (text := value.get(key)) is None else field_types.text(f"{name}.{key}", text)
        for key in ("effort", "summary")
    )
    return Reasoning(effort, summary)


def parse_include(name: str, value: object) -> tuple[str, ...]:
    """Read what else is to be told; what does not exist here is never told.

    Raises:
        ApiError: 400, it is no list of strings.
    """
    if not isinstance(value, list):
        raise invalid_field(name, f"{name} must be a list of strings.")
    return tuple(field_types.text(name, item) for item in value)


def parse_metadata(name: str, value: object) -> dict[str, str]:
    """Read the caller's notes, which the answer repeats.

    Raises:
        ApiError: 400, they are no object of strings.
    """
    if not isinstance(value, dict):
        raise invalid_field(name, f"{name} must be an object of strings.")
    return {
        field_types.text(name, key): field_types.text(f"{name}.{key}", text)
        for key, text in value.items()
    }


def parse_truncation(name: str, value: object) -> str:
    """Read what is to be done with an input that is too long.

    Raises:
        ApiError: 400, it is something else than to refuse it.
    """
    if value != "disabled":
        message = f"{name} must be disabled: what does not fit the context is refused, not cut."
        raise invalid_field(name, message)
    return "disabled"
