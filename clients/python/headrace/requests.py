"""Options of the client → requests of the contract; pure, and shared by both clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.conversations import CHAT_OPTIONS, OPTION_OF_FIELD, fill_chat
from headrace.options import GenerateOptions, PromptOptions, StreamOptions
from headrace.v1.inference_service_pb2 import DetokenizeRequest, GenerateRequest, TokenizeRequest
from headrace.wire import json_text, set_field

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_FIELD_OF_OPTION = {
    "model": "model",
    "add_special_tokens": "add_special_tokens",
    "suffix": "suffix",
    "temperature": "sampling.temperature",
    "top_p": "sampling.top_p",
    "top_k": "sampling.top_k",
    "min_p": "sampling.min_p",
    "seed": "sampling.seed",
    "presence_penalty": "sampling.presence_penalty",
    "frequency_penalty": "sampling.frequency_penalty",
    "repetition_penalty": "sampling.repetition_penalty",
    "logit_bias": "sampling.logit_bias",
    "candidate_count": "sampling.candidate_count",
    "max_output_tokens": "stopping.max_output_tokens",
    "min_output_tokens": "stopping.min_output_tokens",
    "stop": "stopping.stop_sequences",
    "stop_token_ids": "stopping.stop_token_ids",
    "ignore_end_of_text": "stopping.ignore_end_of_text",
    "include_stop": "stopping.include_stop_in_output",
    "json_schema": "constraint.json_schema",
    "json_object": "constraint.json_object",
    "regex": "constraint.regex",
    "grammar": "constraint.grammar",
    "choices": "constraint.choices.texts",
    "max_queue_seconds": "max_queue_duration",
    "max_seconds": "max_duration",
    "output_text": "output.text",
    "output_token_ids": "output.token_ids",
    "output_special_tokens": "output.special_tokens",
    "top_logprobs": "output.top_logprobs",
    "prompt_logprobs": "output.prompt_logprobs",
    "priority": "priority",
    "cache_salt": "cache_salt",
    "chunk_min_tokens": "output.chunking.min_tokens",
    "chunk_max_delay_seconds": "output.chunking.max_delay",
    "request_id": "request_id",
}
_FORM_OPTIONS = ("json_schema", "json_object", "regex", "grammar", "choices")
_OPTION_OF_FIELD = {
    "text": "prompt",
    "token_ids.ids": "token_ids",
    **OPTION_OF_FIELD,
    **{field: option for option, field in _FIELD_OF_OPTION.items()},
}


def generate_request(prompt: str | None, options: GenerateOptions) -> GenerateRequest:
    """Build the request for a whole answer in one response; raises as `stream_request`."""
    request = _generate_request(prompt, _given(options, GenerateOptions))
    request.output.chunking.whole = True
    return request


def stream_request(prompt: str | None, options: StreamOptions) -> GenerateRequest:
    """Build the request for an answer in pieces.

    Raises:
        TypeError: an option is unknown or of the wrong type, or there is not exactly
            one prompt.
        InvalidRequestError: a value cannot be put on the wire. All other limits are
            the server's.
    """
    return _generate_request(prompt, _given(options, StreamOptions))


def tokenize_request(prompt: str | None, options: PromptOptions) -> TokenizeRequest:
    """Build the request; raises as `stream_request`."""
    values = _given(options, PromptOptions)
    request = TokenizeRequest()
    _set_prompt(request, prompt, values)
    for option in ("model", "add_special_tokens", "suffix"):
        set_field(request, option, option, values.get(option))
    return request


def detokenize_request(
    token_ids: Iterable[int], include_special_tokens: bool, model: str | None
) -> DetokenizeRequest:
    """Build the request; raises as `stream_request`."""
    request = DetokenizeRequest(include_special_tokens=include_special_tokens)
    set_field(request, "model", "model", model)
    set_field(request, "token_ids", "token_ids", token_ids)
    return request


def num_candidates(request: GenerateRequest) -> int:
    """Return how many candidates a request asks for."""
    sampling = request.sampling
    return max(1, sampling.candidate_count) if sampling.HasField("candidate_count") else 1


def option_of_field(field: str) -> str:
    """Return the option that a caller of this client knows the field by, such as
    ``stop[2]`` for ``stopping.stop_sequences[2]``; an unknown field as it is.
    """
    path, bracket, rest = field.partition("[")
    return _OPTION_OF_FIELD.get(path, path) + bracket + rest


def _given(options: PromptOptions, known: type) -> dict[str, Any]:
    """Return the options that have a value.

    `TypedDict` is checked by type checkers only, so unknown names are refused here.
    """
    values = {name: value for name, value in options.items() if value is not None}
    unknown = options.keys() - known.__annotations__.keys()
    if unknown:
        raise TypeError(f"unknown option {min(unknown)!r}")
    return values


def _generate_request(prompt: str | None, values: dict[str, Any]) -> GenerateRequest:
    request = GenerateRequest()
    _set_prompt(request, prompt, values)
    if isinstance(values.get("stop"), str):
        values["stop"] = [values["stop"]]
    values.setdefault("output_token_ids", True)
    _prepare_form(request, values)
    for option, field in _FIELD_OF_OPTION.items():
        set_field(request, option, field, values.get(option))
    return request


def _prepare_form(request: GenerateRequest, values: dict[str, Any]) -> None:
    """Check that the answer has one form at most, and bring it into that of the contract."""
    if values.get("json_object") is False:
        del values["json_object"]  # the wish for no form
    given = [option for option in _FORM_OPTIONS if option in values]
    if len(given) > 1:
        raise TypeError(f"give at most one of {', '.join(_FORM_OPTIONS)}")
    if given == ["choices"]:
        # A single text is no list of characters, and an empty list is the server's to refuse.
        if isinstance(values["choices"], str):
            raise TypeError("choices cannot be str")
        request.constraint.choices.SetInParent()
    if given == ["json_schema"] and not isinstance(values["json_schema"], str):
        values["json_schema"] = json_text("json_schema", values["json_schema"])


def _set_prompt(
    request: GenerateRequest | TokenizeRequest, prompt: str | None, values: Mapping[str, Any]
) -> None:
    messages, token_ids = values.get("messages"), values.get("token_ids")
    if (prompt is not None) + (messages is not None) + (token_ids is not None) != 1:
        raise TypeError("give exactly one of prompt, messages and token_ids")
    if messages is None and (chat_options := values.keys() & set(CHAT_OPTIONS)):
        raise TypeError(f"{min(chat_options)} goes with messages")
    set_field(request, "prompt", "text", prompt)
    set_field(request, "token_ids", "token_ids.ids", token_ids)
    if token_ids is not None:
        request.token_ids.SetInParent()
    if messages is not None:
        request.chat.SetInParent()
        fill_chat(request.chat, values)
