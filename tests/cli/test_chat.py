"""headrace chat in a pipe: one turn per line, and the answers alone as output."""

import grpc
import pytest

from headrace.v1.model_pb2 import CAPABILITY_COMPLETION
from headrace.v1.stopping_pb2 import (
    FINISH_REASON_CONTEXT_LENGTH,
    FINISH_REASON_MAX_OUTPUT_TOKENS,
    FINISH_REASON_TIME_LIMIT,
)
from tests.client.scripted_server import BOUND_SECONDS, Admit, Refusal, end, piece

ROLES = {1: "system", 2: "user", 3: "assistant"}


def echo(request):
    """A script: repeats the question."""
    question = request.chat.messages[-1].content
    return iter([Admit(), piece("You said: "), end(question)])


@pytest.fixture
def chat(run, server):
    """Runs the command on lines of input."""
    server.script = echo

    def chat(*lines, arguments=()):
        stdin = "".join(f"{line}\n" for line in lines)
        return run("chat", "--target", server.target, *arguments, stdin=stdin)

    return chat


def sent(call):
    """What a call was given, as (role, content)."""
    return [(ROLES[message.role], message.content) for message in call.request.chat.messages]


def test_each_line_is_a_turn(chat):
    """Each line is answered on a line, and nothing else is printed."""
    result = chat("Hi", "", "How are you?")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "You said: Hi\nYou said: How are you?\n"


def test_the_conversation_is_kept(chat, server):
    """Each question is sent with everything that was said before."""
    chat("Hi", "Go on", arguments=["--system", "Be brief."])
    assert sent(server.calls[0]) == [("system", "Be brief."), ("user", "Hi")]
    assert sent(server.calls[1]) == [
        ("system", "Be brief."),
        ("user", "Hi"),
        ("assistant", "You said: Hi"),
        ("user", "Go on"),
    ]


def test_reset_forgets_and_system_is_replaced(chat, server):
    """/reset forgets the turns, /system replaces the system message, and /exit leaves."""
    result = chat(
        "Hi", "/reset", "/system", "/system Be kind.", "Again", "/system", "/exit", "Never"
    )
    assert sent(server.calls[1]) == [("system", "Be kind."), ("user", "Again")]
    assert len(server.calls) == 2
    assert result.stderr == "[the conversation is forgotten]\n[the model's own]\n[Be kind.]\n"


def test_help_lists_the_commands(chat):
    """/help names every command."""
    stdout = chat("/help").stdout
    for command in ("/help", "/reset", "/system TEXT", "/exit"):
        assert command in stdout


def test_flags_become_fields(chat, server):
    """Model, sampling and length are passed on with each turn."""
    chat("Hi", arguments=["--model", "small", "--temperature", "0", "--max-tokens", "9"])
    request = server.calls[0].request
    assert request.model == server.unary_request.name == "small"
    assert request.sampling.temperature == 0
    assert request.sampling.HasField("temperature")
    assert request.stopping.max_output_tokens == 9


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (FINISH_REASON_MAX_OUTPUT_TOKENS, "[cut after 3 tokens; --max-tokens allows more]\n"),
        (FINISH_REASON_CONTEXT_LENGTH, "[cut because the context is full; /reset makes room]\n"),
        (FINISH_REASON_TIME_LIMIT, "[cut: time_limit]\n"),
    ],
)
def test_an_answer_that_was_cut_says_so(chat, server, reason, words):
    """An answer that did not end by itself is followed by the reason, on stderr."""
    server.script = lambda request: iter([Admit(), end("Long", reason=reason)])
    result = chat("Hi")
    assert (result.stdout, result.stderr) == ("Long\n", words)


def test_stats_follow_each_answer(chat):
    """--stats tells counts and times after each answer, on stderr."""
    stderr = chat("Hi", "Ho", arguments=["--stats"]).stderr
    assert stderr.count("tokens/s]\n") == 2


@pytest.mark.parametrize(
    ("reason", "hint"), [("CONTEXT_LENGTH_EXCEEDED", " /reset makes room."), ("INVALID_FIELD", "")]
)
def test_an_error_ends_a_pipe(chat, server, reason, hint):
    """After an error the lines that follow make no sense, so the command fails."""
    refusal = Refusal(grpc.StatusCode.INVALID_ARGUMENT, "That is too much.", reason)
    server.script = lambda request: iter([refusal])
    result = chat("Hi", "Go on")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"headrace: That is too much.{hint}\n"
    assert len(server.calls) == 1


def test_a_refused_flag_ends_with_2(chat, server):
    """A value that the server refuses is called by its flag, as a mistake on the command line."""
    refusal = Refusal(
        grpc.StatusCode.INVALID_ARGUMENT,
        "sampling.temperature must be from 0 to 2.",
        "INVALID_FIELD",
        "sampling.temperature",
    )
    server.script = lambda request: iter([refusal])
    result = chat("Hi", arguments=["--temperature", "5"])
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "headrace: --temperature must be from 0 to 2.\n"


def test_a_pipe_that_is_not_utf8_is_refused(start, server):
    """Bytes that are no text are refused with a sentence."""
    process = start("chat", "--target", server.target)
    _, stderr = process.communicate(b"\xff\n", BOUND_SECONDS)
    assert process.returncode == 1
    assert stderr == b"headrace: The standard input is not text in UTF-8.\n"


def test_an_unknown_command_is_not_sent(chat, server):
    """A line with an unknown command is refused instead of being sent to the model."""
    result = chat("/rest", "Hi")
    assert (result.returncode, server.calls) == (1, [])
    assert result.stderr == "headrace: There is no command /rest; /help lists them.\n"


def test_a_model_that_cannot_converse_is_refused(chat, server):
    """A model without a chat template is named, with the command that suits it."""
    server.models[0].capabilities[:] = [CAPABILITY_COMPLETION]
    result = chat("Hi")
    assert (result.returncode, result.stdout) == (1, "")
    assert "tiny has no chat template" in result.stderr
    assert "headrace generate" in result.stderr
