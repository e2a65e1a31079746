"""headrace generate: forms of the answer, several candidates, and how likely tokens were."""

import json
import math

import grpc
import pytest

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import logprobs_pb2
from headrace.v1.stopping_pb2 import FINISH_REASON_END_OF_TEXT, Finish
from tests.client.scripted_server import Admit, Refusal, end

END = Finish(reason=FINISH_REASON_END_OF_TEXT)


@pytest.fixture
def generate(run, server):
    """Runs the command against the server."""

    def generate(*arguments, **options):
        return run("generate", "--target", server.target, *arguments, **options)

    return generate


@pytest.mark.parametrize(
    ("flag", "field"), [("--json-schema", "json_schema"), ("--grammar", "grammar")]
)
def test_a_form_may_come_from_a_file(generate, server, tmp_path, flag, field):
    """A schema or grammar is sent as it stands in the file."""
    path = tmp_path / "form"
    path.write_text('{"é": 1}\n', encoding="utf-8")
    assert generate("Hi", flag, str(path)).returncode == 0
    assert getattr(server.calls[0].request.constraint, field) == '{"é": 1}\n'


@pytest.mark.parametrize(
    ("flags", "form"),
    [
        (["--json-object"], pb.GenerateRequest(constraint={"json_object": True})),
        (
            ["--choice", "yes", "--choice", "no"],
            pb.GenerateRequest(constraint={"choices": {"texts": ["yes", "no"]}}),
        ),
    ],
)
def test_other_forms_are_flags(generate, server, flags, form):
    """An object of any content, and texts to choose from."""
    generate("Hi", *flags)
    assert server.calls[0].request.constraint == form.constraint


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--json-schema", "missing.json"], "--json-schema: cannot read 'missing.json': No such"),
        (["--regex", "a", "--json-object"], "--json-object: not allowed with argument --regex"),
        (["--candidates", "many"], "--candidates: invalid int value: 'many'"),
    ],
)
def test_a_wrong_form_is_a_mistake_on_the_command_line(generate, server, flags, words):
    """It is told before the server is asked."""
    result = generate("Hi", *flags)
    assert (result.returncode, result.stdout) == (2, "")
    assert words in result.stderr
    assert server.calls == []


def test_a_refused_form_names_the_flag(generate, server):
    """The words of the server stay as they are, and the exit status is that of a wrong flag."""
    server.script = lambda request: iter(
        [
            Refusal(
                grpc.StatusCode.INVALID_ARGUMENT,
                "The regular expression cannot be used: unclosed group.",
                "INVALID_CONSTRAINT",
                "constraint.regex",
            )
        ]
    )
    result = generate("Hi", "--regex", "(")
    assert result.returncode == 2
    assert result.stderr == "headrace: The regular expression cannot be used: unclosed group.\n"


def two_candidates(request):
    yield Admit()
    yield pb.GenerateResponse(
        prompt=pb.PromptInfo(token_count=9, cached_token_count=8),
        deltas=[
            pb.CandidateDelta(text="One\n", token_ids=[1], finish=END),
            pb.CandidateDelta(candidate_index=1, text="Two", token_ids=[2, 3], finish=END),
        ],
        usage=pb.Usage(prompt_token_count=9, output_token_count=3),
    )


def test_candidates_are_printed_below_their_numbers(generate, server):
    """One after the other, each from the beginning of a line."""
    server.script = two_candidates
    result = generate("Hi", "--candidates", "2")
    assert (result.stdout, result.stderr) == ("[1]\nOne\n\n[2]\nTwo\n", "")
    assert server.calls[0].request.sampling.candidate_count == 2


def test_candidates_are_a_list_in_json(generate, server):
    """With the facts that they share beside it."""
    server.script = two_candidates
    answer = json.loads(generate("Hi", "--candidates", "2", "--json").stdout)
    assert [each["text"] for each in answer["candidates"]] == ["One\n", "Two"]
    assert [each["token_ids"] for each in answer["candidates"]] == [[1], [2, 3]]
    assert answer["usage"]["cached_token_count"] == 8
    assert "text" not in answer


def test_cached_tokens_are_told(generate, server):
    """The statistics say how much of the prompt needed no computing."""
    server.script = two_candidates
    result = generate("Hi", "--candidates", "2", "--stats")
    assert result.stderr.startswith("[9 tokens in (8 cached), 3 tokens out")


def told(token_id, token_bytes, chance, *top):
    return logprobs_pb2.TokenLogprobs(
        token_id=token_id,
        token_bytes=token_bytes,
        logprob=math.log(chance),
        top=[
            logprobs_pb2.TopLogprob(
                token_id=i, token_bytes=b, logprob=math.log(c) if c else -math.inf
            )
            for i, b, c in top
        ],
    )


def likely_answer(request):
    yield Admit()
    response = end("a\x1b🌍", 1, 2, 0)
    response.deltas[0].logprobs.extend(
        [
            told(1, b"a", 0.755, (1, b"a", 0.755), (5, b" b", 0.2)),
            told(2, b"\x1b\xf0\x9f\x8c\x8d", 0.0001, (6, b"\xf0", 0.5), (7, b"c", 0)),
            told(0, b"", 0.25, (0, b"<end>", 0.25)),
        ]
    )
    yield response


def test_likelihoods_are_a_table_beside_the_answer(generate, server):
    """Each token with its chance and its rivals; nothing in it can control a terminal."""
    server.script = likely_answer
    result = generate("Hi", "--logprobs", "2")
    assert result.stdout == "a\x1b🌍"
    assert result.stderr == (
        "TOKEN      CHANCE  INSTEAD\n"
        '"a"        75.5 %  " b" 20.0 %\n'
        '"\\u001b🌍"  <0.1 %  "\ufffd" 50.0 %, "c" <0.1 %\n'
        '"<end>"    25.0 %\n'
    )


def test_likelihoods_are_a_part_of_the_json(generate, server):
    """With the bytes that text cannot show; what JSON cannot say is null."""
    server.script = likely_answer
    result = generate("Hi", "--logprobs", "2", "--json")
    first, second, last = json.loads(result.stdout)["logprobs"]
    assert (first["token_id"], first["text"], first["bytes"]) == (1, "a", [97])
    assert math.isclose(first["logprob"], math.log(0.755), rel_tol=1e-6)
    assert second["top"][0]["bytes"] == [0xF0]
    assert second["top"][1]["logprob"] is None
    assert last["bytes"] == []
    assert result.stderr == ""
