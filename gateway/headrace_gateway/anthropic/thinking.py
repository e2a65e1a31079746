"""Whether the model is asked to think before it answers."""

from __future__ import annotations

from headrace_gateway.openai import field_types
from headrace_gateway.openai.api_error import invalid_field

_SWITCHES = {
    "enabled": '{"enable_thinking": true}',
    "adaptive": '{"enable_thinking": true}',
    "disabled": '{"enable_thinking": false}',
}
"""The variable by which chat templates turn thinking on and off; others do not look at it."""


def parse_thinking(name: str, value: object) -> str:
    """Return the variables of the chat template as JSON text.

    Raises:
        ApiError: 400, it is malformed.
    """
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(kind, str) or kind not in _SWITCHES:
        raise invalid_field(
            name, f"{name} must be an object with the type enabled, adaptive or disabled."
        )
    if (budget := value.get("budget_tokens")) is not None:
        field_types.int32(f"{name}.budget_tokens", budget)
    return _SWITCHES[kind]
