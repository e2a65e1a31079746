"""The request of /v1/chat/completions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.v1 import inference_service_pb2, prompt_pb2
from headrace_gateway.openai.api_error import invalid_field
from headrace_gateway.openai.fields import CHAT_FIELDS, read_fields
from headrace_gateway.openai.options import Options, read_options

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class ChatCompletionRequest:
    """A chat whose fields have the right types; the server checks their ranges.

    Args:
        options: model, sampling, stopping, streaming.
        chat: the conversation as in the contract.
        return_token_ids: whether the ids of the tokens are told, also of the prompt.
        num_prompt_logprobs: how many rivals are told for each token of the prompt; None tells no
            log probabilities of it.
    """

    options: Options
    chat: prompt_pb2.Chat
    return_token_ids: bool = False
    num_prompt_logprobs: int | None = None

    def to_generate_request(self) -> inference_service_pb2.GenerateRequest:
        """Return the request of the contract."""
        request = self.options.to_generate_request()
        request.chat.CopyFrom(self.chat)
        if self.return_token_ids:
            request.output.token_ids = True
        if self.num_prompt_logprobs is not None:
            request.output.prompt_logprobs = self.num_prompt_logprobs
        return request

    def to_tokenize_request(self) -> inference_service_pb2.TokenizeRequest:
        """Return the request for the tokens of the prompt."""
        return inference_service_pb2.TokenizeRequest(model=self.options.model, chat=self.chat)


def parse_chat_request(body: Mapping[str, object]) -> ChatCompletionRequest:
    """Read a chat from its JSON object.

    Raises:
        ApiError: 400, a field has the wrong type or is not supported.
    """
    values = read_fields(body, CHAT_FIELDS)
    if "messages" not in values:
        raise invalid_field("messages", "messages is missing.")
    limit = "max_completion_tokens" if "max_completion_tokens" in values else "max_tokens"
    chat = prompt_pb2.Chat(
        messages=values["messages"],
        add_generation_prompt=values.get("add_generation_prompt"),
        continue_final_message=values.get("continue_final_message"),
        tools=values.get("tools", ()),
        tool_choice=values.get("tool_choice"),
        parallel_tool_calls=values.get("parallel_tool_calls"),
        template_arguments_json=values.get("chat_template_kwargs", ""),
    )
    options = read_options(values, max_tokens_field=limit, default_max_tokens=None)
    num_prompt_logprobs = values.get("prompt_logprobs")
    if num_prompt_logprobs is not None and options.stream:
        raise invalid_field(
            "prompt_logprobs",
            "prompt_logprobs cannot go with stream: no chunk has a place for them.",
        )
    return ChatCompletionRequest(
        options, chat, values.get("return_token_ids", False), num_prompt_logprobs
    )
