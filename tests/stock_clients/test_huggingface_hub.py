"""InferenceClient of huggingface_hub, with the service for its base URL."""

import pytest
from huggingface_hub import InferenceClient
from huggingface_hub.errors import BadRequestError

from tests.gateway.service import MODEL

ASKED = {"messages": [{"role": "user", "content": "Hey"}], "model": MODEL, "seed": 1}


@pytest.fixture
def client(service):
    return InferenceClient(base_url=f"{service.url}/v1", api_key="unused")


def test_a_streamed_chat(client):
    """A stream joins to the whole answer."""
    whole = client.chat_completion(**ASKED, max_tokens=30)
    stream = client.chat_completion(**ASKED, max_tokens=30, stream=True)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    assert text == whole.choices[0].message.content
    assert (whole.choices[0].finish_reason, whole.usage.completion_tokens) == ("length", 30)


def test_openais_name_for_it(client):
    """So do the names that it shares with OpenAI's library."""
    answer = client.chat.completions.create(**ASKED, max_tokens=3)
    assert answer.usage.completion_tokens == 3


def test_an_answer_in_a_form(client):
    """Its response_format is that of the service."""
    schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"]}
    schema["additionalProperties"] = False
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    answer = client.chat_completion(**ASKED, max_tokens=50, response_format=form)
    assert answer.choices[0].message.content in ('{"a": 1}', '{"a": 2}')


def test_a_refusal(client):
    """Its error has the status and the words of the service."""
    with pytest.raises(BadRequestError, match="temperature") as refusal:
        client.chat_completion(**ASKED, temperature=3)
    assert refusal.value.response.status_code == 400
