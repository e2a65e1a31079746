"""Decides from a request and its model how the output is read."""

from __future__ import annotations

import secrets
import string
from typing import TYPE_CHECKING, Final

from headrace_server.errors import InvalidFieldError
from headrace_server.text.generation import ChatPrompt
from headrace_server.text.parsing.formats import ToolCallFormat
from headrace_server.text.parsing.output_parser import OutputForm
from headrace_server.text.parsing.reasoning import ReasoningStart, reasoning_start

if TYPE_CHECKING:
    from headrace_server.text.generation import GenerationRequest
    from headrace_server.text.model import TextModel

_LETTERS: Final = string.ascii_letters + string.digits
# Templates of Mistral refuse ids of other lengths.
_NUM_ID_LETTERS: Final = 9


def check_tool_use(model: TextModel, request: GenerationRequest) -> None:
    """Check that the calls that the model may make would be recognised.

    Raises:
        InvalidFieldError: nobody knows in which form the model calls tools.
    """
    if not isinstance(request.prompt, ChatPrompt) or model.chat_template is None:
        return
    tool_use = request.prompt.tool_use
    if tool_use.offered and not tool_use.is_forced and model.call_format is None:
        message = (
            "The form in which this model calls tools is not known; let tool_choice require "
            "calls or be none, or start the server with --tool-call-parser."
        )
        raise InvalidFieldError("chat.tool_choice", message)


def output_form(model: TextModel, request: GenerationRequest, text: str) -> OutputForm | None:
    """Return what an output may hold; None where it is text and nothing else.

    Args:
        model: that makes it.
        request: that asks for it.
        text: the rendered prompt.
    """
    prompt = request.prompt
    if not isinstance(prompt, ChatPrompt):
        return None
    tool_use = prompt.tool_use
    # What has a form has it from the first token on.
    tags = None if request.constraint is not None else model.reasoning_tags
    if tags is None and not tool_use.offered:
        return None
    final_content = prompt.messages[-1].content if prompt.continue_final_message else None
    return OutputForm(
        tool_names=frozenset(tool.name for tool in tool_use.callable_tools),
        call_format=None if tool_use.is_forced else model.call_format,
        max_calls=tool_use.max_calls,
        reasoning_tags=tags,
        reasoning_start=(
            ReasoningStart.NONE if tags is None else reasoning_start(tags, text, final_content)
        ),
        new_id=_short_id if model.call_format is ToolCallFormat.MISTRAL else _long_id,
    )


def shown_token_ids(model: TextModel) -> frozenset[int]:
    """Return the control tokens that are read as text where an output is parsed."""
    markers: list[str] = []
    if model.call_format is not None:
        markers += model.call_format.markers
    if model.reasoning_tags is not None:
        markers += (model.reasoning_tags.opening, model.reasoning_tags.closing)
    token_ids = (model.tokenizer.token_id(marker) for marker in markers)
    return frozenset(token_id for token_id in token_ids if token_id is not None)


def _short_id() -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(_NUM_ID_LETTERS))


def _long_id() -> str:
    return f"call_{secrets.token_hex(12)}"
