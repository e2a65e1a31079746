"""headrace chat at a terminal: prompts, Ctrl-C, Ctrl-D, history."""

import stat
from pathlib import Path

import grpc
import pytest

from headrace.v1 import inference_service_pb2 as pb
from tests.cli.conftest import COMMAND
from tests.cli.terminal import CTRL_C, CTRL_D, terminal
from tests.cli.test_chat import echo, sent
from tests.client.scripted_server import BOUND_SECONDS, Admit, Hold, Refusal, end
from tests.client.test_stream import one_piece_then

PROMPT = ">>> "


@pytest.fixture
def chat(server, environment):
    """The command at a terminal, at its first prompt."""
    server.script = echo
    command = [*COMMAND, "chat", "--target", server.target]
    with terminal(command, environment) as chat:
        chat.wait_for("tiny, 2048 tokens of context. /help for help.")
        chat.wait_for(PROMPT)
        yield chat


def test_ctrl_d_leaves(chat):
    """Ctrl-D at the prompt leaves with 0."""
    chat.type(CTRL_D)
    assert chat.wait_for_end() == 0


def test_ctrl_c_stops_the_answer_and_not_the_program(chat, server):
    """Ctrl-C cancels the call on the server; the program goes on with what was said."""
    hold = Hold()
    server.script = one_piece_then(hold)
    chat.type("Hi\n")
    chat.wait_for("Hel")
    assert hold.reached.wait(BOUND_SECONDS)
    chat.type(CTRL_C)
    chat.wait_for("[stopped]")
    assert server.calls[0].wait_until_cancelled()

    server.script = echo
    chat.wait_for(PROMPT)
    chat.type("Go on\n")
    chat.wait_for("You said: Go on")
    assert sent(server.calls[1]) == [("user", "Hi"), ("assistant", "Hel"), ("user", "Go on")]
    chat.wait_for(PROMPT)
    chat.type("/exit\n")
    assert chat.wait_for_end() == 0
    assert b"Traceback" not in chat.shown


def test_reasoning_is_shown_dimly_and_not_sent_back(chat, server):
    """It stands before the answer, of which it is no part."""
    thought, said = (
        pb.GenerateResponse(deltas=[pb.CandidateDelta(**fields)])
        for fields in ({"reasoning_text": "Let me see."}, {"text": "Yes."})
    )
    server.script = lambda request: iter([Admit(), thought, said, end()])
    chat.type("Hi\n")
    chat.wait_for("\x1b[2mLet me see.\x1b[0m\r\n\r\nYes.")
    server.script = echo
    chat.wait_for(PROMPT)
    chat.type("Again\n")
    chat.wait_for("You said: Again")
    assert sent(server.calls[1]) == [("user", "Hi"), ("assistant", "Yes."), ("user", "Again")]


def test_ctrl_c_before_the_first_word_takes_the_question_back(chat, server):
    """An answer that was stopped before it began leaves no trace in the conversation."""
    hold = Hold()
    server.script = lambda request: iter([hold])
    chat.type("Hi\n")
    assert hold.reached.wait(BOUND_SECONDS)
    chat.type(CTRL_C)
    chat.wait_for("[stopped]")
    server.script = echo
    chat.wait_for(PROMPT)
    chat.type("Again\n")
    chat.wait_for("You said: Again")
    assert sent(server.calls[1]) == [("user", "Again")]


def test_ctrl_c_at_the_prompt_drops_the_line(chat, server):
    """Ctrl-C drops what was typed, and the next line stands alone."""
    chat.type("half a quest")
    chat.wait_for("half a quest")
    chat.type(CTRL_C)
    chat.wait_for("[Ctrl-C again or Ctrl-D to leave]")
    chat.wait_for(PROMPT)
    chat.type("Hi\n")
    chat.wait_for("You said: Hi")
    assert sent(server.calls[0]) == [("user", "Hi")]


def test_ctrl_c_twice_leaves(chat):
    """The second Ctrl-C in a row leaves with 130 and without a traceback."""
    chat.type(CTRL_C)
    chat.wait_for(PROMPT)
    chat.type(CTRL_C)
    assert chat.wait_for_end() == 130
    assert b"Traceback" not in chat.shown


def test_ctrl_c_counts_in_a_row_only(chat):
    """A line between two Ctrl-C makes the second one the first again."""
    for _ in range(2):
        chat.type(CTRL_C)
        chat.wait_for("[Ctrl-C again or Ctrl-D to leave]")
        chat.wait_for(PROMPT)
        chat.type("Hi\n")
        chat.wait_for("You said: Hi")
        chat.wait_for(PROMPT)
    assert chat.process.poll() is None


@pytest.mark.parametrize("keys", ["half a quest", '"""half a\n'])
def test_ctrl_c_with_a_line_begun_does_not_leave(chat, keys):
    """A second Ctrl-C drops what was typed after the first; the third in a row leaves."""
    chat.type(CTRL_C)
    chat.wait_for(PROMPT)
    chat.type(keys)
    chat.wait_for("half a")
    if keys.endswith("\n"):
        chat.wait_for("... ")
    chat.type(CTRL_C)
    chat.wait_for("[Ctrl-C again or Ctrl-D to leave]")
    chat.wait_for(PROMPT)
    chat.type(CTRL_C)
    assert chat.wait_for_end() == 130
    assert b"Traceback" not in chat.shown


def test_an_error_leaves_the_program_running(chat, server):
    """After an error a person can go on, and the failed question is not kept."""
    refusal = Refusal(grpc.StatusCode.INTERNAL, "Something broke.", "INTERNAL")
    server.script = lambda request: iter([refusal])
    chat.type("Hi\n")
    chat.wait_for("headrace: Something broke.")
    server.script = echo
    chat.wait_for(PROMPT)
    chat.type("Again\n")
    chat.wait_for("You said: Again")
    assert sent(server.calls[1]) == [("user", "Again")]


def test_a_refused_flag_ends_the_program(chat, server):
    """Where the server refuses the value of a flag no turn can be answered, so the chat ends."""
    server.script = lambda request: iter(
        [
            Refusal(
                grpc.StatusCode.INVALID_ARGUMENT,
                "sampling.top_k must be at least 0.",
                "INVALID_FIELD",
                "sampling.top_k",
            )
        ]
    )
    chat.type("Hi\n")
    chat.wait_for("headrace: --top-k must be at least 0.")
    assert chat.wait_for_end() == 2


def test_triple_quotes_hold_several_lines(chat, server):
    """A text between triple quotes is one turn with its lines."""
    chat.type('"""one\n')
    chat.wait_for("... ")
    chat.type("  two\n")
    chat.wait_for("... ")
    chat.type('three"""\n')
    chat.wait_for("You said: one")
    assert sent(server.calls[0]) == [("user", "one\n  two\nthree")]


def test_a_paste_of_several_lines_is_one_turn(chat, server):
    """Pasted lines are one question, which is sent when Enter is typed."""
    chat.type("\x1b[200~one\rtwo\x1b[201~")
    chat.wait_for("two")
    chat.type("\n")
    chat.wait_for("You said: one")
    assert sent(server.calls[0]) == [("user", "one\ntwo")]


def test_history_is_kept_for_the_next_time(chat, server, environment):
    """What was typed can be recalled the next time, and is readable by its owner only."""
    chat.type("Something memorable\n")
    chat.wait_for("You said: Something memorable")
    chat.wait_for(PROMPT)
    chat.type(CTRL_D)
    assert chat.wait_for_end() == 0
    path = Path(environment["XDG_STATE_HOME"]) / "headrace" / "chat_history"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

    with terminal([*COMMAND, "chat", "--target", server.target], environment) as again:
        again.wait_for(PROMPT)
        again.type("\x1b[A")
        again.wait_for("Something memorable")
        again.type("\n")
        again.wait_for("You said: Something memorable")


def test_a_history_that_cannot_be_written_is_no_obstacle(server, environment, tmp_path):
    """Where the state directory is not usable there is a note and the chat goes on."""
    (tmp_path / "file").touch()
    environment["XDG_STATE_HOME"] = str(tmp_path / "file")
    server.script = echo
    with terminal([*COMMAND, "chat", "--target", server.target], environment) as chat:
        chat.wait_for("cannot be used: Not a directory")
        chat.wait_for(PROMPT)
        chat.type("Hi\n")
        chat.wait_for("You said: Hi")
        chat.wait_for(PROMPT)
        chat.type(CTRL_D)
        assert chat.wait_for_end() == 0
