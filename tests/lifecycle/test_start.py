"""A server that cannot start says why in one sentence, and says nothing else wrong."""

import socket

import pytest

from tests.server.server_process import SIMULATED, outcome, server_process


@pytest.mark.parametrize(
    ("arguments", "environment", "status", "words"),
    [
        (("--prot", "1"), {}, 2, "there is no flag --prot"),
        (("--port", "99999"), {}, 2, "--port: '99999' must be from 0 to 65535"),
        ((), {"HEADRACE_GRPC_PORT": "tcp://1"}, 2, "HEADRACE_GRPC_PORT: 'tcp://1' must be"),
        (("--model", "/nowhere"), {}, 2, "there is no directory or file '/nowhere'"),
        (("--backend", "simulated", "--device", "cpu"), {}, 2, "--device has no effect"),
        ((*SIMULATED, "--host", "192.0.2.1"), {}, 1, "192.0.2.1 is no address of this machine"),
        ((*SIMULATED, "--host", "no.such.invalid"), {}, 1, "is no address of this machine"),
        ((*SIMULATED, "--kv-cache-bytes", "1"), {}, 1, "does not hold one block"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_a_mistake_is_one_sentence(arguments, environment, status, words):
    """The status is 2 for a wrong flag and 1 for a server that cannot start; no traceback."""
    found, out, err = await outcome("--log-level", "error", *arguments, **environment)
    assert found == status
    assert words in err
    assert err.startswith("headrace-server: ")
    assert err.count("\n") == 1
    assert "Traceback" not in out + err


async def test_a_broken_chat_template_is_one_sentence(tmp_path):
    """What is wrong with the model's text side is told as what is wrong with its weights."""
    template = tmp_path / "template.jinja"
    template.write_text("{% for %}")
    status, _, err = await outcome(*SIMULATED, "--log-level", "error", "--chat-template", template)
    assert (status, err.count("\n")) == (1, 1)
    assert str(template) in err


async def test_a_taken_port_is_one_sentence():
    """A port that another program has is named."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        status, _, err = await outcome("--backend", "simulated", "--port", port)
        assert status == 1
        assert f"Port {port} on 127.0.0.1 is taken" in err
        assert "choose another with --port (--grpc-port of headrace serve)." in err
        assert err.count("\n") == 1


async def test_the_help_teaches():
    """--help shows every flag with its default, and the variables."""
    status, out, err = await outcome("--help")
    assert (status, err) == (0, "")
    for words in ("--model MODEL", "(default: 1920)", "HEADRACE_", "Exit status"):
        assert words in out


async def test_the_version_is_told():
    """--version prints the version of the package."""
    status, out, _ = await outcome("--version")
    assert status == 0
    assert out.startswith("headrace ")


async def test_nothing_is_written_to_stderr_but_the_log():
    """At level error a healthy server is silent."""
    async with server_process() as server:
        server.process.terminate()
        _, err = await server.process.communicate()
        assert err == b""
