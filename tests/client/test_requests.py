"""Options of Python become the fields of the contract; what cannot be sent is refused."""

import pytest
from google.protobuf.text_format import Parse

from headrace import InvalidRequestError
from headrace.requests import (
    generate_request,
    option_of_field,
    stream_request,
    tokenize_request,
)
from headrace.v1.inference_service_pb2 import GenerateRequest, TokenizeRequest

ALL_OPTIONS = {
    "model": "tiny",
    "add_special_tokens": False,
    "suffix": " there",
    "temperature": 0.0,
    "top_p": 0.5,
    "top_k": 0,
    "min_p": 0.25,
    "seed": -(2**63),
    "presence_penalty": 0.0,
    "frequency_penalty": -0.5,
    "repetition_penalty": 1.5,
    "logit_bias": {5: -100, 0: 0.5},
    "candidate_count": 2,
    "max_output_tokens": 0,
    "min_output_tokens": 2,
    "stop": ["\n", "END"],
    "stop_token_ids": [3, 4],
    "ignore_end_of_text": False,
    "include_stop": True,
    "regex": "a+",
    "max_queue_seconds": 1.5,
    "max_seconds": 90,
    "output_text": False,
    "output_token_ids": False,
    "output_special_tokens": True,
    "top_logprobs": 0,
    "prompt_logprobs": 3,
    "priority": -7,
    "cache_salt": "salt",
    "request_id": "label",
    "chunk_min_tokens": 8,
    "chunk_max_delay_seconds": 0.0,
    "timeout": 5.0,
}
ALL_FIELDS = """
    model: "tiny"
    request_id: "label"
    text: "Hi"
    add_special_tokens: false
    suffix: " there"
    sampling {
      temperature: 0 top_p: 0.5 top_k: 0 min_p: 0.25 seed: -9223372036854775808
      presence_penalty: 0 frequency_penalty: -0.5 repetition_penalty: 1.5
      logit_bias { key: 5 value: -100 } logit_bias { key: 0 value: 0.5 } candidate_count: 2
    }
    stopping {
      max_output_tokens: 0 min_output_tokens: 2
      stop_sequences: "\\n" stop_sequences: "END" stop_token_ids: 3 stop_token_ids: 4
      ignore_end_of_text: false include_stop_in_output: true
    }
    constraint { regex: "a+" }
    output {
      text: false token_ids: false chunking { min_tokens: 8 max_delay { } }
      top_logprobs: 0 prompt_logprobs: 3 special_tokens: true
    }
    priority: -7
    cache_salt: "salt"
    max_queue_duration { seconds: 1 nanos: 500000000 }
    max_duration { seconds: 90 }
"""


def test_every_option_has_its_field():
    """Each option sets its field, zero and False included."""
    assert stream_request("Hi", ALL_OPTIONS) == Parse(ALL_FIELDS, GenerateRequest())


def test_options_that_are_not_given_leave_their_fields_unset():
    """None and absence leave a field unset, so that the server's default holds."""
    expected = Parse('text: "" output { token_ids: true }', GenerateRequest())
    assert stream_request("", {}) == expected
    assert stream_request("", dict.fromkeys(ALL_OPTIONS)) == expected


def test_a_whole_answer_is_asked_for_in_one_response():
    """Generate asks the server not to cut the answer into pieces."""
    expected = 'text: "Hi" output { token_ids: true chunking { whole: true } }'
    assert generate_request("Hi", {}) == Parse(expected, GenerateRequest())


def test_one_stop_is_one_stop():
    """A single text to stop at is not taken for a list of characters."""
    assert list(stream_request("Hi", {"stop": "END"}).stopping.stop_sequences) == ["END"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"json_schema": '{"type": "object"}'}, 'json_schema: "{\\"type\\": \\"object\\"}"'),
        ({"json_schema": {"enum": ["é", 1]}}, 'json_schema: "{\\"enum\\": [\\"é\\", 1]}"'),
        ({"json_schema": {}}, 'json_schema: "{}"'),
        ({"json_object": True}, "json_object: true"),
        ({"regex": ""}, 'regex: ""'),
        ({"grammar": "start: "}, 'grammar: "start: "'),
        ({"choices": ("b", "a")}, 'choices { texts: "b" texts: "a" }'),
        ({"choices": []}, "choices { }"),
    ],
)
def test_the_form_of_an_answer_is_a_constraint(options, expected):
    """A schema may be a dict, in whose order its properties come; nothing given is dropped."""
    request = stream_request("Hi", options)
    assert request.constraint == Parse(expected, type(request.constraint)())


def test_no_json_object_is_no_constraint():
    """False is the default and asks for nothing, also beside another form."""
    assert not stream_request("Hi", {"json_object": False}).HasField("constraint")
    request = stream_request("Hi", {"json_object": False, "regex": "a"})
    assert request.constraint.regex == "a"


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_schema_with_what_json_lacks_is_refused(number):
    """It is named as the option that it is."""
    with pytest.raises(InvalidRequestError) as caught:
        stream_request("Hi", {"json_schema": {"maximum": number}})
    assert caught.value.field == "json_schema"


def test_messages_become_a_chat():
    """Messages in the shape of OpenAI's become a chat with the options of the template."""
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi", "name": "Ann"},
        {"role": "assistant", "content": ""},
    ]
    request = stream_request(None, {"messages": messages, "continue_final_message": True})
    expected = """
        messages { role: ROLE_SYSTEM content: "Be brief." }
        messages { role: ROLE_USER content: "Hi" name: "Ann" }
        messages { role: ROLE_ASSISTANT }
        continue_final_message: true
    """
    assert request.chat == Parse(expected, type(request.chat)())


def test_a_suffix_is_tokenized_with_its_prompt():
    """Both requests have it, since the tokens are those that the model is given."""
    assert tokenize_request("a", {"suffix": "b"}) == TokenizeRequest(text="a", suffix="b")
    assert generate_request("", {"suffix": "b"}).WhichOneof("prompt") == "text"


@pytest.mark.parametrize("kind", ["messages", "token_ids"])
def test_an_empty_prompt_reaches_the_server(kind):
    """An empty conversation or list is sent as such, for the server to judge."""
    request = tokenize_request(None, {kind: []})
    assert request.WhichOneof("prompt") == {"messages": "chat", "token_ids": "token_ids"}[kind]


@pytest.mark.parametrize(
    ("prompt", "options"),
    [
        (None, {}),
        ("Hi", {"token_ids": [1]}),
        (None, {"messages": [], "token_ids": []}),
        ("Hi", {"add_generation_prompt": True}),
        ("Hi", {"temprature": 1}),
        ("Hi", {"temperature": "hot"}),
        ("Hi", {"top_k": 1.5}),
        ("Hi", {"stop": 5}),
        ("Hi", {"stop": [5]}),
        ("Hi", {"logit_bias": {"5": 1.0}}),
        ("Hi", {"logit_bias": {5: "more"}}),
        ("Hi", {"logit_bias": [5]}),
        ("Hi", {"candidate_count": 1.5}),
        ("Hi", {"regex": "a", "grammar": "start: "}),
        ("Hi", {"json_object": True, "choices": ["a"]}),
        ("Hi", {"choices": "ab"}),
        ("Hi", {"choices": [5]}),
        ("Hi", {"json_schema": {"enum": [object()]}}),
        ("Hi", {"json_object": "yes"}),
        ("Hi", {"max_seconds": "long"}),
        (7, {}),
        (None, {"token_ids": "abc"}),
        (None, {"messages": [{"role": "user", "content": "Hi", "tool": 1}]}),
        (None, {"messages": [{"role": "user", "content": 7}]}),
    ],
)
def test_a_wrong_call_is_a_type_error(prompt, options):
    """A call that no server could answer is the caller's mistake, and says which."""
    with pytest.raises(TypeError):
        stream_request(prompt, options)


def test_generate_has_no_pieces():
    """The options for pieces are refused where there are none."""
    with pytest.raises(TypeError, match="unknown option 'chunk_min_tokens'"):
        generate_request("Hi", {"chunk_min_tokens": 2})


@pytest.mark.parametrize(
    ("prompt", "options", "field"),
    [
        ("\ud800", {}, "prompt"),
        ("Hi", {"top_k": 2**31}, "top_k"),
        ("Hi", {"seed": 2**63}, "seed"),
        ("Hi", {"stop": ["ok", "\udfff"]}, "stop"),
        ("Hi", {"max_seconds": float("nan")}, "max_seconds"),
        ("Hi", {"max_seconds": float("inf")}, "max_seconds"),
        (None, {"token_ids": [1, 2**40]}, "token_ids"),
        (None, {"messages": [{"role": "wizard", "content": "Hi"}]}, "messages[0].role"),
        (None, {"messages": [{"content": "Hi"}]}, "messages[0].role"),
        (None, {"messages": [{"role": "user", "content": "\ud800"}]}, "messages[0].content"),
    ],
)
def test_a_value_that_cannot_be_sent_is_an_invalid_request(prompt, options, field):
    """A value that the wire cannot carry is refused as the server would, by its name."""
    with pytest.raises(InvalidRequestError) as caught:
        stream_request(prompt, options)
    assert caught.value.field == field
    assert caught.value.message.startswith(field)


@pytest.mark.parametrize(
    ("field", "option"),
    [
        ("sampling.temperature", "temperature"),
        ("stopping.stop_sequences[2]", "stop[2]"),
        ("chat.messages[1].role", "messages[1].role"),
        ("token_ids.ids[3]", "token_ids[3]"),
        ("text", "prompt"),
        ("output.chunking.max_delay", "chunk_max_delay_seconds"),
        ("chat.add_generation_prompt", "add_generation_prompt"),
        ("sampling.newer", "sampling.newer"),
    ],
)
def test_fields_are_called_by_their_options(field, option):
    """A field of the contract is called by the name of the option that sets it."""
    assert option_of_field(field) == option
