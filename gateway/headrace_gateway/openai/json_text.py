"""JSON that goes on as text: schemas, arguments and variables."""

from __future__ import annotations

import json

from headrace_gateway.openai import field_types
from headrace_gateway.openai.api_error import invalid_field


def to_json_text(name: str, value: object) -> str:
    """Return a JSON value of a request as text.

    Raises:
        ApiError: 400, JSON or UTF-8 cannot hold it.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise invalid_field(name, f"{name} holds a number that JSON does not have.") from None
    except RecursionError:
        raise invalid_field(name, f"{name} is nested too deeply.") from None
    return field_types.text(name, text)
