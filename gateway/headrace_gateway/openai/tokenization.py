"""The requests and responses of /tokenize and /detokenize, as vLLM and llama.cpp have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from headrace.v1 import inference_service_pb2 as pb
from headrace_gateway.openai.api_error import invalid_field
from headrace_gateway.openai.chat_request import parse_chat_request
from headrace_gateway.openai.fields import (
    DETOKENIZE_FIELDS,
    TOKENIZE_FIELDS,
    TOKENIZE_NEUTRAL_VALUES,
    read_fields,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_PROMPTS = ("prompt", "content", "messages")


@dataclass(frozen=True, slots=True)
class TokenizeRequest:
    """A prompt to turn into tokens.

    Args:
        message: as in the contract.
        json_path: finds the JSON path behind a field of the contract.
    """

    message: pb.TokenizeRequest
    json_path: Callable[[str], str | None]


class Tokenized(msgspec.Struct, frozen=True):
    """A prompt in tokens; `max_model_len` is vLLM's word for the context length."""

    count: int
    max_model_len: int
    tokens: list[int]


class Detokenized(msgspec.Struct, frozen=True):
    """The text of tokens, under vLLM's name and under llama.cpp's."""

    prompt: str
    content: str


def parse_tokenize_request(body: Mapping[str, object]) -> TokenizeRequest:
    """Read a prompt: a text, or all that a chat is rendered from.

    Raises:
        ApiError: 400, a field has the wrong type or is not supported, or there is not one prompt.
    """
    given = [name for name in _PROMPTS if body.get(name) is not None]
    if len(given) != 1:
        raise invalid_field(
            given[-1] if given else "prompt", "Give one of prompt, content and messages."
        )
    [name] = given
    if name == "messages":
        return _chat(body)
    values = read_fields(body, TOKENIZE_FIELDS, TOKENIZE_NEUTRAL_VALUES)
    message = pb.TokenizeRequest(
        model=values.get("model", ""),
        text=values[name],
        add_special_tokens=values.get("add_special_tokens", values.get("add_special")),
        suffix=values.get("suffix", ""),
    )
    paths = {"model": "model", "text": name, "suffix": "suffix"}
    return TokenizeRequest(message, paths.get)


def parse_detokenize_request(body: Mapping[str, object]) -> pb.DetokenizeRequest:
    """Read token ids; control tokens will be shown by their names.

    Raises:
        ApiError: 400, a field has the wrong type.
    """
    values = read_fields(body, DETOKENIZE_FIELDS, {})
    if "tokens" not in values:
        raise invalid_field("tokens", "tokens is missing.")
    return pb.DetokenizeRequest(
        model=values.get("model", ""), token_ids=values["tokens"], include_special_tokens=True
    )


def detokenize_json_path(path: str) -> str | None:
    """Return the JSON path of a field of the contract; None where there is none."""
    if path == "model":
        return path
    return path.replace("token_ids", "tokens", 1) if path.startswith("token_ids") else None


def _chat(body: Mapping[str, object]) -> TokenizeRequest:
    if body.get("add_special_tokens"):
        # The template has them.
        raise invalid_field("add_special_tokens", "add_special_tokens cannot go with messages.")
    chat = parse_chat_request(body)
    message = pb.TokenizeRequest(model=chat.options.model, chat=chat.chat)
    return TokenizeRequest(message, chat.options.json_path)
