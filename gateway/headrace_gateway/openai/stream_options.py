"""The options of a stream."""

from __future__ import annotations

from dataclasses import dataclass

from headrace_gateway.openai import field_types
from headrace_gateway.openai.api_error import invalid_field


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """`include_usage` asks for a last chunk with the token counts."""

    include_usage: bool


def parse_stream_options(name: str, value: object) -> StreamOptions:
    """Read the options.

    Raises:
        ApiError: 400, they are malformed.
    """
    if not isinstance(value, dict):
        raise invalid_field(name, f"{name} must be an object.")
    include_usage = value.get("include_usage")
    if include_usage is None:
        return StreamOptions(include_usage=False)
    return StreamOptions(field_types.boolean(f"{name}.include_usage", include_usage))
