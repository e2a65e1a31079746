"""From JSON objects to requests of the contract."""

import pytest
from google.protobuf import text_format

from headrace.v1 import inference_service_pb2 as pb
from headrace_gateway.openai.api_error import ApiError
from headrace_gateway.openai.chat_request import parse_chat_request
from headrace_gateway.openai.completion_request import parse_completion_request

MESSAGES = [{"role": "user", "content": "Hi"}]
CHAT = 'chat { messages { role: ROLE_USER content: "Hi" } }'
WHOLE = "output { chunking { whole: true } }"


def request_of(text):
    return text_format.Parse(text, pb.GenerateRequest())


def test_the_smallest_chat_sets_nothing_but_the_conversation():
    """What the caller leaves out is left to the server's defaults."""
    request = parse_chat_request({"messages": MESSAGES}).to_generate_request()
    assert request == request_of(f"{CHAT} sampling {{}} stopping {{}} {WHOLE}")


def test_every_supported_field_of_a_chat_arrives():
    """Each field has its place in the contract; a stream is not held back to be whole."""
    chat = parse_chat_request(
        {
            "model": "m",
            "messages": MESSAGES,
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": 5,
            "max_completion_tokens": 7,
            "temperature": 0,
            "top_p": 0.5,
            "top_k": 40,
            "min_p": 0.25,
            "seed": -(2**63),
            "stop": ["a", "b"],
            "stop_token_ids": [3],
            "min_tokens": 2,
            "ignore_eos": True,
            "include_stop_str_in_output": True,
            "skip_special_tokens": False,
            "add_generation_prompt": False,
            "continue_final_message": True,
            "request_id": "r",
            "presence_penalty": 0,
            "frequency_penalty": -0.5,
            "repetition_penalty": 1.5,
            "logit_bias": {"5": -100, "0": 0.5},
            "n": 2,
            "regex": "a+",
            "priority": -3,
            "cache_salt": "salt",
            "logprobs": True,
            "top_logprobs": 3,
        }
    )
    assert (chat.options.stream, chat.options.include_usage) == (True, True)
    assert chat.to_generate_request() == request_of(
        """
        model: "m" request_id: "r"
        chat {
          messages { role: ROLE_USER content: "Hi" }
          add_generation_prompt: false continue_final_message: true
        }
        sampling {
          temperature: 0 top_p: 0.5 top_k: 40 min_p: 0.25 seed: -9223372036854775808
          presence_penalty: 0 frequency_penalty: -0.5 repetition_penalty: 1.5
          logit_bias { key: 5 value: -100 } logit_bias { key: 0 value: 0.5 } candidate_count: 2
        }
        stopping {
          max_output_tokens: 7 min_output_tokens: 2 stop_sequences: "a" stop_sequences: "b"
          stop_token_ids: 3 ignore_end_of_text: true include_stop_in_output: true
        }
        constraint { regex: "a+" }
        priority: 3
        cache_salt: "salt"
        output { top_logprobs: 3 special_tokens: true }
        """
    )


def test_minus_one_in_top_k_means_all_tokens():
    """The dialect's -1 is the contract's 0."""
    request = parse_chat_request({"messages": MESSAGES, "top_k": -1}).to_generate_request()
    assert (request.sampling.HasField("top_k"), request.sampling.top_k) == (True, 0)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"logprobs": True}, 0),
        ({"logprobs": True, "top_logprobs": 21}, 21),
        ({"logprobs": False, "top_logprobs": 0}, None),
        ({"top_logprobs": 0}, None),
        ({}, None),
    ],
)
def test_log_probabilities_are_told_on_request(fields, expected):
    """The switch asks for them, and the number says how many rivals come with each."""
    output = parse_chat_request({"messages": MESSAGES, **fields}).to_generate_request().output
    found = output.top_logprobs if output.HasField("top_logprobs") else None
    assert found == expected


@pytest.mark.parametrize(
    ("sent", "meant"), [(3, -3), (-(2**31), 2**31 - 1), (2**31 - 1, 1 - 2**31)]
)
def test_a_lower_priority_comes_first_over_http(sent, meant):
    """The dialect counts in the direction opposite to the contract's."""
    request = parse_chat_request({"messages": MESSAGES, "priority": sent}).to_generate_request()
    assert request.priority == meant


def test_ranges_are_left_to_the_server():
    """Numbers out of range but of the right type pass: the server refuses them for both fronts."""
    body = {"messages": [], "max_tokens": -24, "temperature": 1e300, "stop": "", "top_p": 7}
    request = parse_chat_request(body).to_generate_request()
    assert request.stopping.max_output_tokens == -24
    assert request.sampling.temperature == float("inf")
    assert request.stopping.stop_sequences == [""]
    assert request.WhichOneof("prompt") == "chat"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("chat.messages[2].role", "messages[2].role"),
        ("chat.messages[2].tool_call_id", "messages[2].tool_call_id"),
        ("chat.messages[2].tool_calls[1].id", "messages[2].tool_calls[1].id"),
        ("chat.messages[2].tool_calls[1].name", "messages[2].tool_calls[1].function.name"),
        (
            "chat.messages[2].tool_calls[1].arguments_json",
            "messages[2].tool_calls[1].function.arguments",
        ),
        ("chat.tools", "tools"),
        ("chat.tools[3].name", "tools[3].function.name"),
        ("chat.tools[3].description", "tools[3].function.description"),
        ("chat.tools[3].parameters_json", "tools[3].function.parameters"),
        ("chat.tool_choice", "tool_choice"),
        ("chat.tool_choice.mode", "tool_choice"),
        ("chat.tool_choice.tool_name", "tool_choice.function.name"),
        ("chat.template_arguments_json", "chat_template_kwargs"),
        ("chat.messages", "messages"),
        ("chat", "messages"),
        ("stopping.max_output_tokens", "max_completion_tokens"),
        ("stopping.stop_sequences[1]", "stop[1]"),
        ("sampling.temperature", "temperature"),
        ("sampling.candidate_count", "n"),
        ("sampling.logit_bias[5]", "logit_bias[5]"),
        ("output.top_logprobs", "top_logprobs"),
        ("priority", "priority"),
        ("cache_salt", "cache_salt"),
        ("constraint.regex", None),
        ("model", "model"),
        ("output.chunking.whole", None),
        ("chatter", None),
    ],
)
def test_a_field_of_the_contract_has_its_json_path(path, expected):
    """An error of the server is about the field that the caller has sent."""
    chat = parse_chat_request({"messages": MESSAGES, "max_completion_tokens": 5})
    assert chat.options.json_path(path) == expected


def test_the_length_of_a_chat_is_max_tokens_unless_the_newer_name_was_sent():
    """Errors about the length name the field that it came from."""
    options = parse_chat_request({"messages": MESSAGES, "max_tokens": 5}).options
    assert options.json_path("stopping.max_output_tokens") == "max_tokens"


def test_each_prompt_of_a_completion_becomes_a_request():
    """Prompts share everything but the label, which the server takes once at a time."""
    body = {"prompt": [[1, 2], []], "request_id": "r", "max_tokens": 3}
    completion = parse_completion_request(body)
    rest = f"sampling {{}} stopping {{ max_output_tokens: 3 }} {WHOLE}"
    assert completion.to_generate_requests() == [
        request_of(f'request_id: "r-0" token_ids {{ ids: 1 ids: 2 }} {rest}'),
        request_of(f'request_id: "r-1" token_ids {{}} {rest}'),
    ]
    assert completion.options.json_path("token_ids.ids[1]") == "prompt[1]"


def test_a_single_prompt_keeps_its_label_and_the_length_is_16():
    """A completion without a length gets OpenAI's 16 tokens."""
    completion = parse_completion_request({"prompt": "", "request_id": "r", "echo": True})
    assert completion.echo
    assert completion.to_generate_requests() == [
        request_of(
            f'request_id: "r" text: "" sampling {{}} stopping {{ max_output_tokens: 16 }} {WHOLE}'
        )
    ]


@pytest.mark.parametrize(
    ("fields", "output"),
    [
        ({}, ""),
        ({"echo": True}, ""),
        ({"logprobs": False, "echo": True}, ""),
        ({"logprobs": 0}, "top_logprobs: 0"),
        ({"logprobs": 21}, "top_logprobs: 21"),
        ({"logprobs": 5, "echo": True}, "top_logprobs: 5 prompt_logprobs: 5"),
        ({"return_token_ids": True}, "token_ids: true"),
    ],
)
def test_a_completion_tells_what_it_is_asked_for(fields, output):
    """With an echo the log probabilities are those of the prompt, too."""
    [request] = parse_completion_request({"prompt": "x", **fields}).to_generate_requests()
    assert request.output == request_of(f"output {{ chunking {{ whole: true }} {output} }}").output


def test_more_answers_are_made_than_are_returned():
    """To know the best, their log probabilities are asked for, whoever is told of them."""
    body = {"prompt": "x", "n": 2, "best_of": 3}
    completion = parse_completion_request(body)
    [request] = completion.to_generate_requests()
    assert (completion.shape.num_choices, completion.options.num_candidates) == (3, 2)
    assert not completion.shape.logprobs
    assert request.sampling.candidate_count == 3
    assert request.output.HasField("top_logprobs")
    assert completion.json_path("sampling.candidate_count") == "best_of"
    [request] = parse_completion_request({**body, "logprobs": 4}).to_generate_requests()
    assert request.output.top_logprobs == 4


def test_as_many_answers_as_are_returned_need_no_ranking():
    """The best of n are all of them; an error about their number is about n."""
    completion = parse_completion_request({"prompt": "x", "n": 2, "best_of": 2, "stream": True})
    [request] = completion.to_generate_requests()
    assert request.sampling.candidate_count == 2
    assert not request.output.HasField("top_logprobs")
    assert completion.json_path("sampling.candidate_count") == "n"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("output.top_logprobs", "logprobs"),
        ("output.prompt_logprobs", "logprobs"),
        ("token_ids.ids[1]", "prompt[1]"),
        ("output.chunking", None),
    ],
)
def test_a_field_of_the_contract_has_its_json_path_in_a_completion(path, expected):
    """The number of rivals has another name than in a chat."""
    completion = parse_completion_request({"prompt": "x", "logprobs": 5})
    assert completion.json_path(path) == expected


@pytest.mark.parametrize(
    ("parse", "body", "param"),
    [
        (parse_completion_request, {"prompt": "x", "best_of": 1, "n": 2}, "best_of"),
        (parse_completion_request, {"prompt": "x", "best_of": 0}, "best_of"),
        (parse_completion_request, {"prompt": "x", "best_of": 2, "stream": True}, "best_of"),
        (parse_chat_request, {}, "messages"),
        (parse_chat_request, {"messages": None}, "messages"),
        (parse_completion_request, {}, "prompt"),
        (parse_chat_request, {"messages": MESSAGES, "stream_options": {}}, "stream_options"),
        (parse_chat_request, {"messages": MESSAGES, "top_logprobs": 2}, "top_logprobs"),
        (
            parse_completion_request,
            {"prompt": "x", "stream": False, "stream_options": {"include_usage": True}},
            "stream_options",
        ),
        (
            parse_chat_request,
            {"messages": MESSAGES, "stream": True, "stream_options": []},
            "stream_options",
        ),
        (
            parse_chat_request,
            {"messages": MESSAGES, "stream": True, "stream_options": {"include_usage": 1}},
            "stream_options.include_usage",
        ),
    ],
)
def test_what_is_missing_or_contradicts_is_refused(parse, body, param):
    """The prompt must be there, and fields that need each other together."""
    with pytest.raises(ApiError) as refusal:
        parse(body)
    assert (refusal.value.status, refusal.value.param) == (400, param)


def test_both_names_of_the_label():
    """Each is the label of the contract, the longer one wins, and errors name the one given."""
    messages = [{"role": "user", "content": "a"}]
    for body, label, field in (
        ({"rid": "r"}, "r", "rid"),
        ({"rid": "r", "request_id": "q"}, "q", "request_id"),
        ({"request_id": "q"}, "q", "request_id"),
    ):
        options = parse_chat_request({"messages": messages, **body}).options
        assert options.to_generate_request().request_id == label
        assert options.json_path("request_id") == field


def test_what_is_told_of_the_prompt_of_a_chat():
    """Its tokens are asked of the tokenizer, how likely they were with the answer."""
    body = {"messages": [{"role": "user", "content": "a"}], "model": "m"}
    chat = parse_chat_request({**body, "return_token_ids": True, "prompt_logprobs": 3})
    output = chat.to_generate_request().output
    assert (output.token_ids, output.prompt_logprobs) == (True, 3)
    asked = chat.to_tokenize_request()
    assert (asked.model, asked.chat) == ("m", chat.chat)
    assert not parse_chat_request(body).to_generate_request().output.HasField("prompt_logprobs")
    with pytest.raises(ApiError) as refusal:
        parse_chat_request({**body, "prompt_logprobs": 0, "stream": True})
    assert (refusal.value.status, refusal.value.param) == (400, "prompt_logprobs")


def test_special_tokens_are_left_to_the_server_unless_asked_for():
    """A text gets those of the model, and they have no text of their own."""
    [request] = parse_completion_request({"prompt": "a"}).to_generate_requests()
    assert not request.HasField("add_special_tokens")
    assert not request.output.HasField("special_tokens")
    body = {"prompt": ["a", "b"], "add_special_tokens": False, "skip_special_tokens": True}
    completion = parse_completion_request(body)
    assert [it.add_special_tokens for it in completion.to_generate_requests()] == [False, False]
    assert not completion.to_tokenize_request("a").add_special_tokens
    assert completion.to_tokenize_request("a").HasField("add_special_tokens")


def test_token_ids_have_all_their_tokens_already():
    """The server refuses the switch beside them, and it has the name that was sent."""
    completion = parse_completion_request({"prompt": [1], "add_special_tokens": False})
    [request] = completion.to_generate_requests()
    assert request.HasField("add_special_tokens")
    assert completion.json_path("add_special_tokens") == "add_special_tokens"


def test_a_suffix_is_that_of_every_prompt():
    """It goes with each text, also where only its tokens are asked for, and none is empty."""
    completion = parse_completion_request({"prompt": ["a", "b"], "suffix": "c", "echo": True})
    assert [it.suffix for it in completion.to_generate_requests()] == ["c", "c"]
    assert completion.to_tokenize_request("a").suffix == "c"
    assert completion.json_path("suffix") == "suffix"
    for none in (None, ""):
        completion = parse_completion_request({"prompt": "a", "suffix": none, "logprobs": 1})
        [request] = completion.to_generate_requests()
        assert request.suffix == completion.to_tokenize_request("a").suffix == ""


@pytest.mark.parametrize("logprobs", [0, 3])
def test_the_arrays_of_a_repeated_prompt_have_no_suffix(logprobs):
    """The tokens that the model reads are not those of the text that is repeated."""
    body = {"prompt": "a", "suffix": "b", "echo": True, "logprobs": logprobs}
    with pytest.raises(ApiError) as refusal:
        parse_completion_request(body)
    assert (refusal.value.status, refusal.value.param) == (400, "suffix")
    for allowed in ({"echo": False}, {"logprobs": None}, {"suffix": ""}):
        parse_completion_request(body | allowed)
