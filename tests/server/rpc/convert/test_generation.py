"""The request of Generate: every rule of validation that needs no model, and the conversion."""

import contextlib
import math

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import prompt_pb2
from headrace_server.errors import InvalidFieldError
from headrace_server.grammar.spec import (
    ChoicesConstraint,
    GrammarConstraint,
    JsonObjectConstraint,
    JsonSchemaConstraint,
    RegexConstraint,
)
from headrace_server.rpc.convert.generation import to_generation_request
from headrace_server.rpc.convert.prompt import to_prompt
from headrace_server.text.constraint import constraint_field
from headrace_server.text.generation import (
    ChatMessage,
    ChatPrompt,
    Chunking,
    GenerationRequest,
    Sampling,
    Stopping,
    TextPrompt,
    TokenPrompt,
)

USER = prompt_pb2.ROLE_USER


def request(**fields) -> pb.GenerateRequest:
    if not {"text", "token_ids", "chat"} & fields.keys():
        fields["text"] = "Once"
    return pb.GenerateRequest(**fields)


def convert_request(**fields) -> GenerationRequest:
    return to_generation_request(request(**fields), "id-1", "peer")


BAD_FIELDS = [
    # sampling
    ({"sampling": {"temperature": -0.1}}, "sampling.temperature"),
    ({"sampling": {"temperature": 2.01}}, "sampling.temperature"),
    ({"sampling": {"temperature": math.nan}}, "sampling.temperature"),
    ({"sampling": {"temperature": math.inf}}, "sampling.temperature"),
    ({"sampling": {"temperature": -math.inf}}, "sampling.temperature"),
    ({"sampling": {"top_p": 0}}, "sampling.top_p"),
    ({"sampling": {"top_p": 1.01}}, "sampling.top_p"),
    ({"sampling": {"top_p": -0.5}}, "sampling.top_p"),
    ({"sampling": {"top_p": math.nan}}, "sampling.top_p"),
    ({"sampling": {"top_k": -1}}, "sampling.top_k"),
    ({"sampling": {"min_p": -0.01}}, "sampling.min_p"),
    ({"sampling": {"min_p": 1.01}}, "sampling.min_p"),
    ({"sampling": {"min_p": math.nan}}, "sampling.min_p"),
    ({"sampling": {"presence_penalty": -2.01}}, "sampling.presence_penalty"),
    ({"sampling": {"presence_penalty": 2.01}}, "sampling.presence_penalty"),
    ({"sampling": {"presence_penalty": math.nan}}, "sampling.presence_penalty"),
    ({"sampling": {"frequency_penalty": -2.01}}, "sampling.frequency_penalty"),
    ({"sampling": {"frequency_penalty": math.inf}}, "sampling.frequency_penalty"),
    ({"sampling": {"repetition_penalty": 0.0}}, "sampling.repetition_penalty"),
    ({"sampling": {"repetition_penalty": 0.099}}, "sampling.repetition_penalty"),
    ({"sampling": {"repetition_penalty": 10.01}}, "sampling.repetition_penalty"),
    ({"sampling": {"repetition_penalty": math.nan}}, "sampling.repetition_penalty"),
    ({"sampling": {"logit_bias": {5: 100.1}}}, "sampling.logit_bias[5]"),
    ({"sampling": {"logit_bias": {5: 1.0, 7: -100.1}}}, "sampling.logit_bias[7]"),
    ({"sampling": {"logit_bias": {5: math.nan}}}, "sampling.logit_bias[5]"),
    ({"sampling": {"logit_bias": {-1: 0.0}}}, "sampling.logit_bias[-1]"),
    ({"sampling": {"logit_bias": dict.fromkeys(range(1025), 1.0)}}, "sampling.logit_bias"),
    ({"sampling": {"candidate_count": 0}}, "sampling.candidate_count"),
    ({"sampling": {"candidate_count": -1}}, "sampling.candidate_count"),
    ({"sampling": {"candidate_count": 17}}, "sampling.candidate_count"),
    # stopping
    ({"stopping": {"max_output_tokens": -1}}, "stopping.max_output_tokens"),
    ({"stopping": {"min_output_tokens": -1}}, "stopping.min_output_tokens"),
    (
        {"stopping": {"max_output_tokens": 3, "min_output_tokens": 4}},
        "stopping.min_output_tokens",
    ),
    ({"stopping": {"stop_sequences": ["a"] * 17}}, "stopping.stop_sequences"),
    ({"stopping": {"stop_sequences": [""]}}, "stopping.stop_sequences[0]"),
    ({"stopping": {"stop_sequences": ["a", "b" * 257]}}, "stopping.stop_sequences[1]"),
    ({"stopping": {"stop_token_ids": [1] * 65}}, "stopping.stop_token_ids"),
    ({"stopping": {"stop_token_ids": [7, -3]}}, "stopping.stop_token_ids[1]"),
    # prompt
    ({"token_ids": {"ids": []}}, "token_ids.ids"),
    ({"token_ids": {"ids": [1]}, "add_special_tokens": False}, "add_special_tokens"),
    ({"chat": {}, "add_special_tokens": True}, "add_special_tokens"),
    ({"token_ids": {"ids": [5, 6, -1]}}, "token_ids.ids[2]"),
    ({"chat": {"messages": []}}, "chat.messages"),
    ({"chat": {"messages": [{"role": USER}] * 4097}}, "chat.messages"),
    ({"chat": {"messages": [{"content": "hi"}]}}, "chat.messages[0].role"),
    ({"chat": {"messages": [{"role": USER}, {"role": 77}]}}, "chat.messages[1].role"),
    ({"chat": {"messages": [{"role": USER, "name": "n" * 129}]}}, "chat.messages[0].name"),
    (
        {
            "chat": {
                "messages": [{"role": USER}],
                "add_generation_prompt": True,
                "continue_final_message": True,
            }
        },
        "chat.add_generation_prompt",
    ),
    # output
    ({"output": {"chunking": {"min_tokens": 0}}}, "output.chunking.min_tokens"),
    ({"output": {"chunking": {"min_tokens": 1025}}}, "output.chunking.min_tokens"),
    ({"output": {"chunking": {"max_delay": Duration(seconds=61)}}}, "output.chunking.max_delay"),
    ({"output": {"chunking": {"max_delay": Duration(seconds=-1)}}}, "output.chunking.max_delay"),
    (
        {"output": {"chunking": {"max_delay": Duration(nanos=1_000_000_000)}}},
        "output.chunking.max_delay",
    ),
    ({"output": {"chunking": {"whole": True, "min_tokens": 2}}}, "output.chunking.whole"),
    ({"output": {"chunking": {"whole": True, "max_delay": Duration()}}}, "output.chunking.whole"),
    ({"output": {"top_logprobs": -1}}, "output.top_logprobs"),
    ({"output": {"top_logprobs": 21}}, "output.top_logprobs"),
    ({"output": {"prompt_logprobs": -1}}, "output.prompt_logprobs"),
    ({"output": {"prompt_logprobs": 21}}, "output.prompt_logprobs"),
    # the form of the answer
    ({"constraint": {}}, "constraint"),
    ({"constraint": {"json_object": False}}, "constraint.json_object"),
    # the queue and the cache
    ({"priority": -101}, "priority"),
    ({"priority": 101}, "priority"),
    ({"cache_salt": "s" * 257}, "cache_salt"),
    # limits of time
    ({"max_queue_duration": Duration()}, "max_queue_duration"),
    ({"max_queue_duration": Duration(seconds=-1)}, "max_queue_duration"),
    ({"max_queue_duration": Duration(seconds=86_400, nanos=1)}, "max_queue_duration"),
    ({"max_queue_duration": Duration(seconds=1, nanos=-1)}, "max_queue_duration"),
    ({"max_queue_duration": Duration(seconds=2**62)}, "max_queue_duration"),
    ({"max_duration": Duration()}, "max_duration"),
    ({"max_duration": Duration(seconds=86_401)}, "max_duration"),
    ({"max_duration": Duration(nanos=2_000_000_000)}, "max_duration"),
    # names
    ({"model": "m" * 257}, "model"),
    ({"request_id": "r" * 129}, "request_id"),
    ({"request_id": "tab\there"}, "request_id"),
    ({"request_id": "naïve"}, "request_id"),
    ({"request_id": "line\nbreak"}, "request_id"),
]


@pytest.mark.parametrize(("fields", "path"), BAD_FIELDS, ids=[p for _, p in BAD_FIELDS])
def test_a_bad_field_is_refused_by_its_path(fields, path):
    """A field out of its range is refused, and the error says which field and begins with it."""
    with pytest.raises(InvalidFieldError) as caught:
        convert_request(**fields)
    assert caught.value.field == path
    assert caught.value.message.startswith(path)


def test_a_request_without_a_prompt_is_refused():
    """A request in which no member of the oneof is set names the oneof."""
    with pytest.raises(InvalidFieldError) as caught:
        to_generation_request(pb.GenerateRequest(), "id-1", "peer")
    assert caught.value.field == "prompt"


@pytest.mark.parametrize(
    "fields",
    [
        {"sampling": {"temperature": 0}},
        {"sampling": {"temperature": 2}},
        {"sampling": {"temperature": 1e-7}},
        {"sampling": {"top_p": 1}},
        {"sampling": {"top_p": 1e-30}},
        {"sampling": {"top_k": 0}},
        {"sampling": {"top_k": 2**31 - 1}},
        {"sampling": {"min_p": 0}},
        {"sampling": {"min_p": 1}},
        {"sampling": {"seed": -(2**63)}},
        {"sampling": {"seed": 2**63 - 1}},
        {"sampling": {"presence_penalty": -2, "frequency_penalty": 2}},
        {"sampling": {"presence_penalty": 2, "frequency_penalty": -2}},
        {"sampling": {"repetition_penalty": 0.1}},
        {"sampling": {"repetition_penalty": 10}},
        {"sampling": {"logit_bias": {0: -100, 2**31 - 1: 100}}},
        {"sampling": {"logit_bias": dict.fromkeys(range(1024), 1.0)}},
        {"sampling": {"candidate_count": 1}},
        {"sampling": {"candidate_count": 16}},
        {"output": {"top_logprobs": 0, "prompt_logprobs": 20}},
        {"output": {"top_logprobs": 20, "prompt_logprobs": 0}},
        {"constraint": {"json_object": True}},
        {"constraint": {"regex": ""}},
        {"priority": -100},
        {"priority": 100, "cache_salt": "é" * 256},
        {"stopping": {"max_output_tokens": 0}},
        {"stopping": {"max_output_tokens": 4, "min_output_tokens": 4}},
        {"stopping": {"stop_sequences": ["é" * 256] * 16}},
        {"stopping": {"stop_token_ids": [0] * 64}},
        {"chat": {"messages": [{"role": USER}] * 4096}},
        {"output": {"chunking": {"min_tokens": 1024, "max_delay": Duration(seconds=60)}}},
        {"output": {"chunking": {"whole": False, "min_tokens": 2}}},
        {"output": {"text": False, "token_ids": False}},
        {"max_queue_duration": Duration(seconds=86_400)},
        {"max_duration": Duration(nanos=1)},
        {"model": "m" * 256, "request_id": "~" * 128},
        {"text": "\x00\x07"},
    ],
    ids=str,
)
def test_the_edges_of_each_range_are_taken(fields):
    """The first and the last value of a range are in it."""
    convert_request(**fields)


def test_an_empty_request_takes_the_defaults_of_the_contract():
    """What is not set is left to the model, or has the default that the contract names."""
    assert convert_request(text="Once") == GenerationRequest(
        request_id="id-1",
        prompt=TextPrompt("Once"),
        sampling=Sampling(),
        stopping=Stopping(),
        want_text=True,
        want_token_ids=False,
        chunking=Chunking(),
        max_queue_seconds=None,
        max_seconds=None,
        num_candidates=1,
        constraint=None,
        num_top_logprobs=None,
        num_prompt_top_logprobs=None,
        priority=0,
        caller="peer",
        cache_salt="",
    )


def test_every_field_reaches_its_place():
    """A full request is converted without loss; floats are the nearest float32."""
    assert convert_request(
        chat={
            "messages": [
                {"role": prompt_pb2.ROLE_SYSTEM, "content": "Be brief."},
                {"role": USER, "content": "Hi", "name": "Ada"},
                {"role": prompt_pb2.ROLE_ASSISTANT, "content": "He"},
            ],
            "continue_final_message": True,
        },
        sampling={
            "temperature": 0.5,
            "top_p": 0.25,
            "top_k": 40,
            "min_p": 0.125,
            "seed": 7,
            "presence_penalty": 0.5,
            "frequency_penalty": -0.5,
            "repetition_penalty": 1.25,
            "logit_bias": {3: -100.0, 4: 0.5},
            "candidate_count": 2,
        },
        stopping={
            "max_output_tokens": 9,
            "min_output_tokens": 2,
            "stop_sequences": ["\n", "END"],
            "stop_token_ids": [3, 4],
            "ignore_end_of_text": True,
            "include_stop_in_output": True,
        },
        output={
            "text": False,
            "token_ids": True,
            "chunking": {"min_tokens": 4, "max_delay": Duration(nanos=500_000_000)},
            "top_logprobs": 3,
            "prompt_logprobs": 0,
            "special_tokens": True,
        },
        max_queue_duration=Duration(seconds=2),
        max_duration=Duration(seconds=3, nanos=250_000_000),
        constraint={"regex": "a+"},
        priority=-5,
        cache_salt="salt",
    ) == GenerationRequest(
        request_id="id-1",
        prompt=ChatPrompt(
            (
                ChatMessage("system", "Be brief.", None),
                ChatMessage("user", "Hi", "Ada"),
                ChatMessage("assistant", "He", None),
            ),
            add_generation_prompt=False,
            continue_final_message=True,
        ),
        sampling=Sampling(0.5, 0.25, 40, 0.125, 7, 0.5, -0.5, 1.25, {3: -100.0, 4: 0.5}),
        stopping=Stopping(9, 2, ("\n", "END"), (3, 4), True, True),
        want_text=False,
        want_token_ids=True,
        show_special_tokens=True,
        chunking=Chunking(4, 0.5, False),
        max_queue_seconds=2.0,
        max_seconds=3.25,
        num_candidates=2,
        constraint=RegexConstraint("a+"),
        num_top_logprobs=3,
        num_prompt_top_logprobs=0,
        priority=-5,
        caller="peer",
        cache_salt="salt",
    )


@pytest.mark.parametrize(
    ("fields", "opens_answer"),
    [
        ({}, True),
        ({"add_generation_prompt": False}, False),
        ({"continue_final_message": True}, False),
        ({"continue_final_message": True, "add_generation_prompt": False}, False),
        ({"continue_final_message": False}, True),
    ],
    ids=str,
)
def test_an_answer_is_opened_unless_the_last_message_goes_on(fields, opens_answer):
    """add_generation_prompt defaults to true, and to false beside continue_final_message."""
    prompt = convert_request(chat={"messages": [{"role": USER}], **fields}).prompt
    assert prompt.add_generation_prompt == opens_answer


@pytest.mark.parametrize(
    ("fields", "spec"),
    [
        ({"json_schema": "{}"}, JsonSchemaConstraint("{}")),
        ({"json_object": True}, JsonObjectConstraint()),
        ({"regex": "a"}, RegexConstraint("a")),
        ({"grammar": "start: "}, GrammarConstraint("start: ")),
        ({"choices": {"texts": ["b", "a"]}}, ChoicesConstraint(("b", "a"))),
        ({"choices": {}}, ChoicesConstraint(())),
    ],
    ids=str,
)
def test_each_form_is_a_constraint_of_its_own(fields, spec):
    """Whether it can be followed is found out by others; the path of its field is known here."""
    assert convert_request(constraint=fields).constraint == spec
    [name] = fields
    assert constraint_field(spec).startswith(f"constraint.{name}")


def test_token_ids_are_given_on_as_they_are():
    """A prompt in tokens is a tuple of the same ids."""
    assert convert_request(token_ids={"ids": [3, 0, 2]}).prompt == TokenPrompt((3, 0, 2))


@given(st.binary(max_size=200))
def test_no_message_that_parses_raises_anything_but_an_invalid_field(data):
    """Whatever bytes are a protobuf message, converting them succeeds or names a field."""
    with contextlib.suppress(DecodeError, InvalidFieldError):
        to_generation_request(pb.GenerateRequest.FromString(data), "id-1", "peer")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [({}, True), ({"add_special_tokens": True}, True), ({"add_special_tokens": False}, False)],
)
def test_a_text_gets_the_tokens_around_it_unless_it_must_not(fields, expected):
    """The default is what the model was trained on, for an answer and for its tokens alone."""
    for message in (pb.GenerateRequest, pb.TokenizeRequest):
        assert to_prompt(message(text="a", **fields)) == TextPrompt("a", expected)


def test_a_suffix_goes_with_a_text_only():
    """Both requests take it, an empty one is none, and other prompts refuse it by its name."""
    for message in (pb.GenerateRequest, pb.TokenizeRequest):
        assert to_prompt(message(text="a", suffix="b")) == TextPrompt("a", suffix="b")
        assert to_prompt(message(text="", suffix="b")) == TextPrompt("", suffix="b")
        assert to_prompt(message(text="a", suffix="")) == TextPrompt("a")
        for prompt in (
            {"token_ids": {"ids": [1]}},
            {"chat": {"messages": [{"role": USER, "content": "a"}]}},
        ):
            with pytest.raises(InvalidFieldError) as caught:
                to_prompt(message(**prompt, suffix="b"))
            assert caught.value.field == "suffix"
