"""The request of /v1/responses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.v1 import inference_service_pb2, prompt_pb2
from headrace_gateway.openai.api_error import invalid_field
from headrace_gateway.openai.options import Options, read_options
from headrace_gateway.responses.fields import read_response_fields
from headrace_gateway.responses.input_items import Turn
from headrace_gateway.responses.json_paths import chat_json_path
from headrace_gateway.responses.text_config import TextConfig
from headrace_gateway.responses.tools import FunctionTool, NamedFunction, to_tool_choice
from headrace_gateway.responses.wishes import LOGPROBS, Reasoning

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Settings:
    """What a request has set and its response repeats; None is what was not given."""

    instructions: str | None
    max_output_tokens: int | None
    temperature: float | None
    top_p: float | None
    top_logprobs: int
    parallel_tool_calls: bool
    tool_choice: str | NamedFunction
    tools: tuple[FunctionTool, ...]
    text: TextConfig
    reasoning: Reasoning
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ResponseRequest:
    """A request whose fields have the right types; the server checks their ranges.

    Args:
        options: model, sampling, stopping, streaming.
        settings: what the response repeats.
        turns: the messages, with that of the instructions.
        template_arguments_json: as in the contract.
    """

    options: Options
    settings: Settings
    turns: tuple[Turn, ...]
    template_arguments_json: str

    def to_generate_request(self) -> inference_service_pb2.GenerateRequest:
        """Return the request of the contract."""
        request = self.options.to_generate_request()
        settings = self.settings
        chat = prompt_pb2.Chat(
            messages=[turn.message for turn in self.turns],
            tools=[tool.to_message() for tool in settings.tools],
            tool_choice=to_tool_choice(settings.tool_choice),
            parallel_tool_calls=settings.parallel_tool_calls,
            template_arguments_json=self.template_arguments_json,
        )
        request.chat.CopyFrom(chat)
        if settings.tools:
            # In one piece it would not tell whether text was before a call or after it.
            request.output.ClearField("chunking")
        return request

    def json_path(self, path: str) -> str | None:
        """Return the JSON path of a field of the contract; None where there is none."""
        if path.partition(".")[0] == "chat":
            return chat_json_path(path, self.turns)
        return self.options.json_path(path)


def parse_response_request(body: Mapping[str, object]) -> ResponseRequest:
    """Read a request from its JSON object.

    Raises:
        ApiError: 400, a field has the wrong type or is not supported.
    """
    values = read_response_fields(body)
    if "input" not in values:
        raise invalid_field("input", "input is missing.")
    options = read_options(
        _chat_values(values), max_tokens_field="max_output_tokens", default_max_tokens=None
    )
    return ResponseRequest(
        options, _settings(values), _turns(values), values.get("chat_template_kwargs", "")
    )


def _chat_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options under the names that chats have for them."""
    has_logprobs = LOGPROBS in values.get("include", ())
    if values.get("top_logprobs") and not has_logprobs:
        raise invalid_field("top_logprobs", f"top_logprobs needs {LOGPROBS} in include.")
    form = values.get("text", TextConfig()).form()
    return {**values, "logprobs": has_logprobs, "response_format": form}


def _settings(values: Mapping[str, Any]) -> Settings:
    return Settings(
        instructions=values.get("instructions"),
        max_output_tokens=values.get("max_output_tokens"),
        temperature=values.get("temperature"),
        top_p=values.get("top_p"),
        top_logprobs=values.get("top_logprobs", 0),
        parallel_tool_calls=values.get("parallel_tool_calls", True),
        tool_choice=values.get("tool_choice", "auto"),
        tools=values.get("tools", ()),
        text=values.get("text", TextConfig()),
        reasoning=values.get("reasoning", Reasoning()),
        metadata=values.get("metadata", {}),
    )


def _turns(values: Mapping[str, Any]) -> tuple[Turn, ...]:
    turns: tuple[Turn, ...] = values["input"]
    if (instructions := values.get("instructions")) is None:
        return turns
    message = prompt_pb2.ChatMessage(role=prompt_pb2.ROLE_SYSTEM, content=instructions)
    return (Turn(message, "instructions"), *turns)
