"""The request of /v1/completions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.v1 import inference_service_pb2
from headrace_gateway.openai.api_error import invalid_field
from headrace_gateway.openai.completion_choices import Shape
from headrace_gateway.openai.fields import COMPLETION_FIELDS, read_fields
from headrace_gateway.openai.options import Options, read_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace_gateway.openai.prompts import Prompt

DEFAULT_MAX_TOKENS = 16
"""The most output tokens where a completion sets none, as OpenAI has it."""


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A completion whose fields have the right types; the server checks their ranges.

    Args:
        options: model, sampling, stopping, streaming; `num_candidates` are returned.
        prompts: at least one; the choices of each follow each other.
        echo: whether the text of a choice starts with its prompt.
        logprobs: how many rivals are told for each token; None tells no log probabilities.
        best_of: how many answers are made for each prompt, to return the best.
        return_token_ids: whether the ids of the tokens are told.
        add_special_tokens: whether a text gets the tokens that the model has around one; None
            leaves it to the server.
        suffix: the text after each answer; empty for none.
    """

    options: Options
    prompts: tuple[Prompt, ...]
    echo: bool
    logprobs: int | None
    best_of: int
    return_token_ids: bool
    add_special_tokens: bool | None
    suffix: str

    @property
    def shape(self) -> Shape:
        """What the choices tell."""
        return Shape(self.best_of, self.logprobs is not None, self.return_token_ids)

    @property
    def is_ranked(self) -> bool:
        """Whether more answers are made than are returned."""
        return self.best_of > self.options.num_candidates

    def to_generate_requests(self) -> list[inference_service_pb2.GenerateRequest]:
        """Return a request of the contract for each prompt."""
        return [self._to_generate_request(index) for index in range(len(self.prompts))]

    def to_tokenize_request(self, prompt: str) -> inference_service_pb2.TokenizeRequest:
        """Return the request for the tokens of one of the prompts."""
        return inference_service_pb2.TokenizeRequest(
            model=self.options.model,
            text=prompt,
            add_special_tokens=self.add_special_tokens,
            suffix=self.suffix,
        )

    def json_path(self, path: str) -> str | None:
        """Return the JSON path of a field of the contract; None where there is none."""
        if path in ("output.top_logprobs", "output.prompt_logprobs"):
            return "logprobs"
        if path == "sampling.candidate_count" and self.is_ranked:
            return "best_of"
        return self.options.json_path(path)

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
        if self.add_special_tokens is not None:
            request.add_special_tokens = self.add_special_tokens
        request.suffix = self.suffix
        self._ask_for_more_than_text(request)
        return request

    def _ask_for_more_than_text(self, request: inference_service_pb2.GenerateRequest) -> None:
        if self.is_ranked:
            request.sampling.candidate_count = self.best_of
            request.output.top_logprobs = 0
        if self.logprobs is not None:
            request.output.top_logprobs = self.logprobs
            if self.echo:
                request.output.prompt_logprobs = self.logprobs
        if self.return_token_ids:
            request.output.token_ids = True


def parse_completion_request(body: Mapping[str, object]) -> CompletionRequest:
    """Read a completion from its JSON object.

    Raises:
        ApiError: 400, a field has the wrong type or is not supported.
    """
    values = read_fields(body, COMPLETION_FIELDS)
    if "prompt" not in values:
        raise invalid_field("prompt", "prompt is missing.")
    # In a chat it is a switch.
    logprobs = values.pop("logprobs", None)
    options = read_options(
        values, max_tokens_field="max_tokens", default_max_tokens=DEFAULT_MAX_TOKENS
    )
    return CompletionRequest(
        options,
        values["prompt"],
        values.get("echo", False),
        logprobs,
        _best_of(values, options),
        values.get("return_token_ids", False),
        values.get("add_special_tokens"),
        _suffix(values, logprobs),
    )


def _suffix(values: Mapping[str, Any], logprobs: int | None) -> str:
    suffix: str = values.get("suffix", "")
    if suffix and values.get("echo") and logprobs is not None:
        raise invalid_field(
            "suffix",
            "suffix cannot go with both echo and logprobs: the model does not read the prompt as "
            "the text that is repeated.",
        )
    return suffix


def _best_of(values: Mapping[str, Any], options: Options) -> int:
    best_of: int = values.get("best_of", options.num_candidates)
    if best_of < options.num_candidates:
        raise invalid_field("best_of", "best_of must be at least n.")
    if best_of > options.num_candidates and options.stream:
        raise invalid_field(
            "best_of", "best_of above n cannot go with stream: the best are known late."
        )
    return best_of
