"""The request of /v1/completions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace_gateway.openai.api_error import invalid_field
from headrace_gateway.openai.fields import COMPLETION_FIELDS, read_fields
from headrace_gateway.openai.options import Options, read_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.v1 import inference_service_pb2
    from headrace_gateway.openai.prompts import Prompt

DEFAULT_MAX_TOKENS = 16
"""The most output tokens where a completion sets none, as OpenAI has it."""


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A completion whose fields have the right types; the server checks their ranges.

    Args:
        options: model, sampling, stopping, streaming.
        prompts: at least one; each gets the choice with its index.
        echo: whether the text of a choice starts with its prompt.
    """

    options: Options
    prompts: tuple[Prompt, ...]
    echo: bool

    def to_generate_requests(self) -> list[inference_service_pb2.GenerateRequest]:
        """Return a request of the contract for each prompt."""
        return [self._to_generate_request(index) for index in range(len(self.prompts))]

    def _to_generate_request(self, index: int) -> inference_service_pb2.GenerateRequest:
        request = self.options.to_generate_request()
        if request.request_id and len(self.prompts) > 1:
            # The server takes a label once at a time.
            request.request_id = f"{request.request_id}-{index}"
        prompt = self.prompts[index]
        if isinstance(prompt, str):
            request.text = prompt
        else:
            request.token_ids.ids.extend(prompt)
            request.token_ids.SetInParent()
        return request


def parse_completion_request(body: Mapping[str, object]) -> CompletionRequest:
    """Read a completion from its JSON object.

    Raises:
        ApiError: 400, a field has the wrong type or is not supported.
    """
    values = read_fields(body, COMPLETION_FIELDS)
    if "prompt" not in values:
        raise invalid_field("prompt", "prompt is missing.")
    options = read_options(
        values, max_tokens_field="max_tokens", default_max_tokens=DEFAULT_MAX_TOKENS
    )
    return CompletionRequest(options, values["prompt"], values.get("echo", False))
