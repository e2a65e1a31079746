"""The OpenAPI document: every endpoint with its bodies and answers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from headrace_gateway.anthropic.api_error import MessagesErrorBody
from headrace_gateway.anthropic.message import MessagesAnswer, TokenCount
from headrace_gateway.openai.api_error import ErrorBody
from headrace_gateway.openai.chat_response import ChatCompletion
from headrace_gateway.openai.completion_response import Completion
from headrace_gateway.openai.health_response import Load, Status, Version
from headrace_gateway.openai.model_response import Model, ModelList
from headrace_gateway.openai.tokenization import Detokenized, Tokenized
from headrace_gateway.openapi.message_schemas import message_schemas
from headrace_gateway.openapi.request_schemas import request_schemas
from headrace_gateway.openapi.response_schemas import response_schemas
from headrace_gateway.responses.response import Response

if TYPE_CHECKING:
    from collections.abc import Mapping

_REF = "#/components/schemas/{name}"
_ANSWERS = (
    ChatCompletion,
    Completion,
    Detokenized,
    ErrorBody,
    Load,
    MessagesAnswer,
    MessagesErrorBody,
    Model,
    ModelList,
    Response,
    Status,
    TokenCount,
    Tokenized,
    Version,
)
_DESCRIPTION = (
    "Generation of text in OpenAI's dialect, and Anthropic's for messages. Paths below /v1 also "
    "work without it. Streams are server-sent events, which end with [DONE] in OpenAI's. Fields "
    "that are not listed are ignored."
)


@dataclass(frozen=True, slots=True)
class Operation:
    """One endpoint.

    Args:
        method: in capitals.
        path: with its parameters in braces.
        name: unique, in the words of OpenAI's own document where it has the endpoint.
        summary: what it does.
        tag: the group that it is shown in.
        answer: the structure of its answer; None for any object.
        bodies: the names of the schemas of which its body has one; none for no body.
        example: a body.
        streams: whether the answer may be a stream of events.
        media_type: that of the answer.
        error: the name of the answer that an error is.
        is_open: whether it asks for no key where others do.
    """

    method: str
    path: str
    name: str
    summary: str
    tag: str
    answer: type[msgspec.Struct] | None
    bodies: tuple[str, ...] = ()
    example: Mapping[str, object] | None = None
    streams: bool = False
    media_type: str = "application/json"
    error: str = "Error"
    is_open: bool = False


OPERATIONS = (
    Operation(
        "POST",
        "/v1/chat/completions",
        "createChatCompletion",
        "Answer a conversation.",
        "Generation",
        ChatCompletion,
        ("ChatCompletionRequest",),
        {"messages": [{"role": "user", "content": "What is a headrace?"}], "max_tokens": 64},
        streams=True,
    ),
    Operation(
        "POST",
        "/v1/completions",
        "createCompletion",
        "Continue one or more prompts.",
        "Generation",
        Completion,
        ("CompletionRequest",),
        {"prompt": "Once upon a time", "max_tokens": 64},
        streams=True,
    ),
    Operation(
        "POST",
        "/v1/messages",
        "createMessage",
        "Answer a conversation in Anthropic's dialect.",
        "Generation",
        MessagesAnswer,
        ("MessagesRequest",),
        {"messages": [{"role": "user", "content": "What is a headrace?"}], "max_tokens": 64},
        streams=True,
        error="MessagesError",
    ),
    Operation(
        "POST",
        "/v1/messages/count_tokens",
        "countMessageTokens",
        "Count the tokens of such a conversation.",
        "Tokens",
        TokenCount,
        ("CountTokensRequest",),
        {"messages": [{"role": "user", "content": "What is a headrace?"}]},
        error="MessagesError",
    ),
    Operation(
        "POST",
        "/v1/responses",
        "createResponse",
        "Answer a conversation in the form of OpenAI's newer API.",
        "Generation",
        Response,
        ("ResponseRequest",),
        {"input": "What is a headrace?", "max_output_tokens": 64},
        streams=True,
    ),
    Operation(
        "GET",
        "/v1/responses/{id}",
        "getResponse",
        "Say that nothing is stored: always 404.",
        "Generation",
        None,
    ),
    Operation("DELETE", "/v1/responses/{id}", "deleteResponse", "The same.", "Generation", None),
    Operation(
        "POST",
        "/v1/tokenize",
        "tokenize",
        "Turn a text or a chat into tokens.",
        "Tokens",
        Tokenized,
        ("TokenizeTextRequest", "ChatCompletionRequest"),
        {"prompt": "Once upon a time"},
    ),
    Operation(
        "POST",
        "/v1/detokenize",
        "detokenize",
        "Turn tokens into text.",
        "Tokens",
        Detokenized,
        ("DetokenizeRequest",),
        {"tokens": [1, 2, 3]},
    ),
    Operation("GET", "/v1/models", "listModels", "List the names of models.", "Models", ModelList),
    Operation(
        "GET",
        "/v1/models/{name}",
        "retrieveModel",
        "Describe the model of a name.",
        "Models",
        Model,
    ),
    Operation(
        "GET",
        "/health",
        "health",
        "Tell whether requests would be answered.",
        "State",
        Status,
        is_open=True,
    ),
    Operation(
        "GET", "/readyz", "readyz", "The same, for orchestrators.", "State", Status, is_open=True
    ),
    Operation(
        "GET", "/ping", "ping", "The same, for platforms that ping.", "State", Status, is_open=True
    ),
    Operation("POST", "/ping", "postPing", "The same.", "State", Status, is_open=True),
    Operation(
        "GET", "/livez", "livez", "Tell that the gateway answers.", "State", Status, is_open=True
    ),
    Operation("GET", "/load", "load", "Count the generations under way.", "State", Load),
    Operation(
        "GET",
        "/version",
        "version",
        "Tell the version of Headrace.",
        "State",
        Version,
        is_open=True,
    ),
    Operation(
        "GET",
        "/metrics",
        "metrics",
        "Tell Prometheus what the gateway has counted, as text.",
        "State",
        None,
        media_type="text/plain",
    ),
    Operation(
        "GET", "/openapi.json", "openapi", "Return this document.", "State", None, is_open=True
    ),
)


_KEYS: Mapping[str, object] = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
}
"""The two ways to send a key."""


def openapi_document(version: str, *, has_keys: bool = False) -> dict[str, object]:
    """Return the document in OpenAPI 3.1.

    Args:
        version: of Headrace.
        has_keys: whether the gateway asks for a key. Where it does not, the server may.
    """
    paths: dict[str, dict[str, object]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    _, answers = msgspec.json.schema_components(_ANSWERS, ref_template=_REF)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Headrace",
            "version": version,
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [*({name: []} for name in _KEYS), *([] if has_keys else [{}])],
        "paths": paths,
        "components": {
            "securitySchemes": _KEYS,
            "schemas": {
                **request_schemas(),
                **message_schemas(),
                **response_schemas(),
                **answers,
            },
            "responses": {
                "Error": _answer("An error.", _ref("ErrorBody")),
                "MessagesError": _answer("An error.", _ref("MessagesErrorBody")),
            },
        },
    }


def _operation(operation: Operation) -> dict[str, object]:
    schema = _ref(operation.answer.__name__) if operation.answer else {"type": "object"}
    answer = _answer("The answer.", schema)
    if operation.media_type != "application/json":
        answer["content"] = {operation.media_type: {"schema": {"type": "string"}}}
    if operation.streams:
        answer["content"] = {
            **_json(schema),
            # With `stream`: lines of JSON, of which 3.1 has no words for a schema.
            "text/event-stream": {},
        }
    described: dict[str, object] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.tag],
        "responses": {
            "200": answer,
            "default": {"$ref": f"#/components/responses/{operation.error}"},
        },
    }
    if operation.is_open:
        described["security"] = []
    if operation.bodies:
        refs = [_ref(name) for name in operation.bodies]
        body = refs[0] if len(refs) == 1 else {"anyOf": refs}
        content = {"application/json": {"schema": body, "example": operation.example}}
        described["requestBody"] = {"required": True, "content": content}
    if names := re.findall(r"\{(\w+)\}", operation.path):
        described["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in names
        ]
    return described


def _answer(description: str, schema: Mapping[str, object]) -> dict[str, object]:
    header = {"description": "The id for all logs.", "schema": {"type": "string"}}
    return {
        "description": description,
        "headers": {"x-request-id": header},
        "content": _json(schema),
    }


def _json(schema: Mapping[str, object]) -> dict[str, object]:
    return {"application/json": {"schema": schema}}


def _ref(name: str) -> dict[str, object]:
    return {"$ref": _REF.format(name=name)}
