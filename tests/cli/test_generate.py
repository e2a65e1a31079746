"""headrace generate: what goes in, what comes out, and how it is stopped."""

import json
import os
import pty
import signal
import subprocess

import grpc
import pytest

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1.stopping_pb2 import (
    FINISH_REASON_CONTEXT_LENGTH,
    FINISH_REASON_MAX_OUTPUT_TOKENS,
)
from tests.client.scripted_server import BOUND_SECONDS, Admit, Hold, Refusal, end, piece
from tests.client.test_stream import one_piece_then


@pytest.fixture
def generate(run, server):
    """Runs the command against the server."""

    def generate(*arguments, **options):
        return run("generate", "--target", server.target, *arguments, **options)

    return generate


def answer(*texts):
    return lambda request: iter([Admit(), *map(piece, texts), end()])


def test_the_output_is_the_answer(generate, server):
    """Into a pipe goes the answer and nothing else, to the last space and control character."""
    server.script = answer(" Hello", " 🌍\x1b[0m", "  \n ")
    result = generate("Hi")
    assert (result.returncode, result.stdout, result.stderr) == (0, " Hello 🌍\x1b[0m  \n ", "")


@pytest.mark.parametrize("arguments", [[], ["-"]])
def test_the_prompt_may_come_from_a_pipe(generate, server, arguments):
    """Without a prompt, or with -, standard input is the prompt, less one newline."""
    generate(*arguments, stdin="Once\nupon \n\n")
    assert server.calls[0].request.text == "Once\nupon \n"


def test_flags_become_fields(generate, server):
    """Each flag sets its field of the request."""
    flags = (
        "--model small --temperature 0 --top-p 0.5 --top-k 7 --min-p 0.25 --seed -3 --max-tokens 9 "
        "--min-tokens 2 --stop END --stop . --include-stop --ignore-end-of-text --timeout 60 "
        "--presence-penalty 0.5 --frequency-penalty -0.5 --repetition-penalty 1.5 --candidates 1 "
        "--regex a+ --logprobs 0 --priority -7 --cache-salt salt --suffix ?"
    )
    generate("Hi", *flags.split())
    expected = pb.GenerateRequest(model="small", text="Hi", suffix="?")
    sampling, stopping = expected.sampling, expected.stopping
    sampling.temperature, sampling.top_p, sampling.top_k = 0, 0.5, 7
    sampling.min_p, sampling.seed = 0.25, -3
    sampling.presence_penalty, sampling.frequency_penalty = 0.5, -0.5
    sampling.repetition_penalty, sampling.candidate_count = 1.5, 1
    expected.constraint.regex = "a+"
    expected.output.top_logprobs = 0
    expected.priority, expected.cache_salt = -7, "salt"
    stopping.max_output_tokens, stopping.min_output_tokens = 9, 2
    stopping.stop_sequences.extend(["END", "."])
    stopping.include_stop_in_output = stopping.ignore_end_of_text = True
    expected.output.token_ids = True
    assert server.calls[0].request == expected
    assert server.calls[0].time_remaining < 61


def test_flags_that_are_not_given_leave_the_defaults(generate, server):
    """Without flags everything is left to the server."""
    generate("Hi")
    expected = pb.GenerateRequest(text="Hi", output={"token_ids": True})
    assert server.calls[0].request == expected


def test_chat_asks_the_model(generate, server):
    """--chat sends the text as a question, after the system message."""
    generate("--chat", "Hi", "--system", "Be brief.")
    roles = [(message.role, message.content) for message in server.calls[0].request.chat.messages]
    assert roles == [(1, "Be brief."), (2, "Hi")]


def test_json_is_one_object(generate):
    """--json gives the whole answer with its facts on one line."""
    result = generate("Hi", "--json")
    assert result.stdout.count("\n") == 1
    assert json.loads(result.stdout) == {
        "text": "Hello 🌍",
        "token_ids": [1, 2, 0],
        "finish": {"reason": "end_of_text", "stop_sequence": None, "stop_token_id": None},
        "usage": {
            "prompt_token_count": 5,
            "output_token_count": 3,
            "cached_token_count": 0,
            "reasoning_token_count": 0,
        },
        "timing": {"queue_seconds": 0.01, "first_token_seconds": 0.25, "total_seconds": 1.5},
        "request_id": "0123456789abcdef",
    }


def test_stats_go_beside_the_answer(generate):
    """--stats tells counts and times on stderr."""
    result = generate("Hi", "--stats")
    assert result.stdout == "Hello 🌍"
    assert result.stderr == (
        "[5 tokens in, 3 tokens out in 1.50 s, first after 0.25 s, then 1.6 tokens/s]\n"
    )


def test_one_token_is_told_as_one(generate, server):
    """Counts of one are in the singular."""
    only = end("Hi")
    only.usage.prompt_token_count = only.usage.output_token_count = 1
    server.script = lambda request: iter([Admit(), only])
    assert generate("Hi", "--stats").stderr.startswith("[1 token in, 1 token out in 1.50 s, ")


def test_a_refusal_names_the_flag(generate, server):
    """A refused option is called by the name of its flag, and is a mistake on the command line."""
    server.script = lambda request: iter(
        [
            Refusal(
                grpc.StatusCode.INVALID_ARGUMENT,
                "stopping.max_output_tokens must be at least 0.",
                "INVALID_FIELD",
                "stopping.max_output_tokens",
            )
        ]
    )
    result = generate("Hi", "--max-tokens=-1")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "headrace: --max-tokens must be at least 0.\n"


def test_a_conversation_has_no_suffix(generate, server):
    """The server is not asked what can only be refused."""
    result = generate("Hi", "--chat", "--suffix", "?")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "headrace: --suffix does not go with --chat.\n"
    assert server.calls == []


def test_a_model_that_cannot_fill_in_is_told_by_the_flag(generate, server):
    """The server's sentence begins with the flag."""
    message = "suffix needs a model that fills in the middle."
    refusal = Refusal(grpc.StatusCode.INVALID_ARGUMENT, message, "INVALID_FIELD", "suffix")
    server.script = lambda request: iter([refusal])
    result = generate("Hi", "--suffix", "?")
    assert result.returncode == 2
    assert result.stderr == f"headrace: --{message}\n"


def test_an_answer_that_breaks_off_is_a_failure(generate, server):
    """What came before an error is printed, and the error is the exit status."""
    refusal = Refusal(grpc.StatusCode.UNAVAILABLE, "The engine died.", "ENGINE_UNAVAILABLE")
    server.script = lambda request: iter([Admit(), piece("Hel"), refusal])
    result = generate("Hi")
    assert (result.returncode, result.stdout) == (1, "Hel")
    assert result.stderr == "headrace: The engine died.\n"


@pytest.mark.parametrize("stdin", [b"\xff\xfe", b"Hi \xed\xa0\x80"])
def test_a_pipe_that_is_not_utf8_is_refused(start, server, stdin):
    """Bytes that are no text are refused with a sentence."""
    process = start("generate", "--target", server.target)
    _, stderr = process.communicate(stdin, BOUND_SECONDS)
    assert process.returncode == 1
    assert stderr == b"headrace: The standard input is not text in UTF-8.\n"


def test_an_argument_that_is_not_utf8_is_refused(start, server):
    """Bytes that are no text are refused on the command line, too."""
    process = start("generate", "--target", server.target, b"Hi \xff")
    _, stderr = process.communicate(b"", BOUND_SECONDS)
    assert process.returncode == 1
    assert stderr.startswith(b"headrace: prompt holds a lone surrogate")


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_ctrl_c_stops_the_work(start, server, arguments):
    """Ctrl-C exits with 130 at once and quietly, and the server sees the cancel."""
    hold = Hold()
    server.script = one_piece_then(hold)
    process = start("generate", "--target", server.target, "Hi", *arguments)
    assert hold.reached.wait(BOUND_SECONDS)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=BOUND_SECONDS)
    assert (process.returncode, stderr) == (130, b"")
    assert server.calls[0].wait_until_cancelled()


def test_a_reader_who_leaves_stops_the_work(start, server):
    """A reader such as head that leaves ends the command quietly and cancels the call."""
    hold = Hold()

    def script(request):
        yield Admit()
        yield piece("Hel")
        yield hold
        yield piece("lo")
        yield Hold()

    server.script = script
    process = start("generate", "--target", server.target, "Hi")
    assert process.stdout.read(3) == b"Hel"
    process.stdout.close()
    hold.over.set()
    assert process.wait(BOUND_SECONDS) == 141
    assert process.stderr.read() == b""
    assert server.calls[0].wait_until_cancelled()


def test_a_terminal_gets_a_newline_and_no_control_characters(start, server):
    """On a terminal the answer ends with a newline and cannot control the terminal."""
    server.script = answer("Hel\x1b[31m", "lo\tyou\r\n", "!")
    controller, terminal = pty.openpty()
    try:
        process = start("generate", "--target", server.target, "Hi", stdout=terminal)
        assert process.wait(BOUND_SECONDS) == 0
        assert os.read(controller, 1000).decode() == "Hel\ufffd[31mlo\tyou\r\n!\r\n"
    finally:
        os.close(controller)
        os.close(terminal)


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (FINISH_REASON_MAX_OUTPUT_TOKENS, b"[cut after 3 tokens; --max-tokens allows more]\r\n"),
        (FINISH_REASON_CONTEXT_LENGTH, b"[cut because the context is full]\r\n"),
    ],
)
def test_a_terminal_is_told_that_an_answer_was_cut(start, server, reason, words):
    """An answer that was cut is a success, and the reason is told where a person reads stderr."""
    server.script = lambda request: iter([Admit(), end("Long", reason=reason)])
    controller, terminal = pty.openpty()
    try:
        process = start("generate", "--target", server.target, "Hi", stderr=terminal)
        stdout, _ = process.communicate(timeout=BOUND_SECONDS)
        assert (process.returncode, stdout) == (0, b"Long")
        assert os.read(controller, 1000) == words
    finally:
        os.close(controller)
        os.close(terminal)


def test_a_pipe_is_not_told_that_an_answer_was_cut(generate, server):
    """Where stderr is no terminal an answer that was cut leaves it empty."""
    server.script = lambda request: iter(
        [Admit(), end("Long", reason=FINISH_REASON_MAX_OUTPUT_TOKENS)]
    )
    result = generate("Hi")
    assert (result.returncode, result.stdout, result.stderr) == (0, "Long", "")


def test_a_terminal_without_a_prompt_is_told(start, server):
    """At a terminal a missing prompt is a mistake, and not a wait for input."""
    controller, terminal = pty.openpty()
    try:
        process = start("generate", stdin=terminal, stdout=subprocess.DEVNULL)
        assert process.wait(BOUND_SECONDS) == 2
        assert b"There is no prompt" in process.stderr.read()
    finally:
        os.close(controller)
        os.close(terminal)
