"""Calls of tools as the client returns them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the model asks for. Nothing is called: that is the caller's to do.

    Send it back in the `tool_calls` of a message of the assistant, and the result in one of
    the role ``tool`` with its id.

    Args:
        id: unique for ever.
        name: the name of the tool.
        arguments_json: the arguments as a JSON object in text.
    """

    id: str
    name: str
    arguments_json: str

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments by their names.

        Raises:
            ValueError: they are not whole, which `finish_reason` tells as well.
        """
        arguments = json.loads(self.arguments_json)
        if not isinstance(arguments, dict):
            raise ValueError("the arguments are not a JSON object")
        return arguments


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of one call.

    Args:
        index: that of the call in its candidate, from 0.
        id: with the first piece only; else empty.
        name: with the first piece only; else empty.
        arguments_json: the next characters of the arguments.
    """

    index: int
    id: str
    name: str
    arguments_json: str
