"""Requests to turn text into tokens and back."""

import pytest
from google.protobuf import text_format

from headrace.v1 import inference_service_pb2 as pb
from headrace_gateway.openai.api_error import ApiError
from headrace_gateway.openai.tokenization import (
    detokenize_json_path,
    parse_detokenize_request,
    parse_tokenize_request,
)

CHAT = {"messages": [{"role": "user", "content": "Hi"}]}


def message_of(kind, text):
    return text_format.Parse(text, kind())


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"prompt": "Hi", "model": "m"}, 'model: "m" text: "Hi"'),
        ({"content": "Hi", "with_pieces": False}, 'text: "Hi"'),
        ({"prompt": "Hi", "add_special_tokens": True}, 'text: "Hi" add_special_tokens: true'),
        ({"content": "Hi", "add_special": False}, 'text: "Hi" add_special_tokens: false'),
        ({"prompt": "Hi", "suffix": "!"}, 'text: "Hi" suffix: "!"'),
        ({"prompt": "Hi", "suffix": ""}, 'text: "Hi"'),
        (
            {"content": "Hi", "add_special": False, "add_special_tokens": True},
            'text: "Hi" add_special_tokens: true',
        ),
        (CHAT, 'chat { messages { role: ROLE_USER content: "Hi" } }'),
        (
            {**CHAT, "add_generation_prompt": False, "max_tokens": 5, "stream": True},
            'chat { messages { role: ROLE_USER content: "Hi" } add_generation_prompt: false }',
        ),
    ],
)
def test_the_names_of_a_prompt(body, expected):
    """VLLM's and llama.cpp's are the same, and a chat is what a request for its answer has."""
    message = parse_tokenize_request(body).message
    assert message == message_of(pb.TokenizeRequest, expected)


@pytest.mark.parametrize(
    ("body", "path", "expected"),
    [
        ({"prompt": "Hi"}, "text", "prompt"),
        ({"content": "Hi"}, "text", "content"),
        (CHAT, "chat.messages[0].role", "messages[0].role"),
        ({"prompt": "Hi"}, "model", "model"),
    ],
)
def test_a_field_of_the_contract_has_its_json_path(body, path, expected):
    """An error of the server is about the field that the caller has sent."""
    assert parse_tokenize_request(body).json_path(path) == expected


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"prompt": "a", "content": "b"}, "content"),
        ({"prompt": "a", **CHAT}, "messages"),
        ({"prompt": ["a"]}, "prompt"),
        ({"prompt": "\ud800"}, "prompt"),
        ({"prompt": "a", "add_special_tokens": 0}, "add_special_tokens"),
        ({"content": "a", "add_special": "no"}, "add_special"),
        ({"content": "a", "with_pieces": True}, "with_pieces"),
        ({**CHAT, "add_special_tokens": True}, "add_special_tokens"),
        ({"messages": "a"}, "messages"),
    ],
)
def test_what_cannot_be_tokenized_as_asked_is_refused(body, param):
    """There is one prompt, and it is read as the model reads it."""
    with pytest.raises(ApiError) as refusal:
        parse_tokenize_request(body)
    assert (refusal.value.status, refusal.value.param) == (400, param)


def test_tokens_become_text_with_the_names_of_control_tokens():
    """Nothing of the tokens is left out."""
    message = parse_detokenize_request({"model": "m", "tokens": [1, 2]})
    assert message == message_of(
        pb.DetokenizeRequest, 'model: "m" token_ids: [1, 2] include_special_tokens: true'
    )
    assert detokenize_json_path("token_ids[1]") == "tokens[1]"
    assert detokenize_json_path("model") == "model"
    assert detokenize_json_path("else") is None


@pytest.mark.parametrize("tokens", [None, "1 2", [1.5], ["1"], [2**31], 5])
def test_tokens_are_a_list_of_integers(tokens):
    """Anything else is refused by its name."""
    with pytest.raises(ApiError) as refusal:
        parse_detokenize_request({"tokens": tokens})
    assert (refusal.value.status, refusal.value.param) == (400, "tokens")
