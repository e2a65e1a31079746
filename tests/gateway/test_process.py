"""The command headrace-gateway."""

import json
import socket
import subprocess
import sys
import urllib.request

import pytest

from tests.gateway.authorities import Authority
from tests.gateway.service import running

BOUND_SECONDS = 30


def run(*flags):
    command = [sys.executable, "-m", "headrace_gateway", *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=BOUND_SECONDS)


def test_the_port_is_open_before_there_is_a_server(tmp_path):
    """The gateway tells where it listens, and answers at once."""
    with running(tmp_path, "headrace_gateway", "--upstream", "127.0.0.1:1") as gateway:
        listening = gateway.wait_for_event("listening")
        assert listening["url"] == f"http://{listening['address']}"
        assert listening["page"] == f"{listening['url']}/"
        with urllib.request.urlopen(f"{listening['url']}/livez") as response:
            assert json.load(response) == {"status": "ok"}


OPEN, PLAIN = "open to the network", "not encrypted"
KEYS, TLS, CLIENTS = ("--api-key", "secret"), ("tls",), ("clients",)


@pytest.mark.parametrize(
    ("host", "flags", "risks"),
    [
        ("127.0.0.1", (), []),
        ("0.0.0.0", (), [OPEN, PLAIN]),
        ("0.0.0.0", KEYS, [PLAIN]),
        ("0.0.0.0", TLS, [OPEN]),
        ("0.0.0.0", KEYS + TLS, []),
        ("0.0.0.0", TLS + CLIENTS, []),
    ],
)
def test_the_log_tells_of_start_and_end(tmp_path, host, flags, risks):
    """It says where the gateway listens, warns of an open port, and tells of the drain."""
    authority = Authority(tmp_path / "authority")
    meant = {"tls": authority.issue("a").flags(), "clients": ("--ssl-ca-certs", authority.file)}
    flags = [str(text) for flag in flags for text in meant.get(flag, (flag,))]
    with running(tmp_path, "headrace_gateway", "--host", host, *flags) as gateway:
        address = gateway.wait_for_event("listening")["address"]
        gateway.popen.terminate()
        assert gateway.popen.wait(BOUND_SECONDS) == 0
    lines = gateway.log_lines()
    warnings = [line["event"].partition(":")[0] for line in lines if line["level"] == "warning"]
    assert warnings == risks
    assert "secret" not in gateway.log.read_text()
    told = [line["event"] for line in lines if line["level"] == "info"]
    assert told == ["listening", "draining", "stopped"]
    assert {line["address"] for line in lines if "address" in line} == {address}


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (
            ["--port", "x"],
            "headrace-gateway: --port: 'x' must be from 0 to 65535\n",
        ),
        (
            ["--prot", "1"],
            "headrace-gateway: there is no flag --prot 1; see --help\n",
        ),
    ],
)
def test_a_bad_setting_is_one_sentence_and_status_2(flags, sentence):
    """A user's mistake gives a sentence that says what to do, and no traceback."""
    result = run(*flags)
    assert (result.returncode, result.stdout, result.stderr) == (2, "", sentence)


def test_a_taken_port_is_one_sentence_and_status_1():
    """Whoever has the port keeps it."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        result = run("--port", str(port))
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        f"headrace-gateway: Cannot listen on 127.0.0.1 port {port}: Address already in use. "
        "Choose another with --host or --port.\n"
    )


def test_help_teaches():
    """Every flag is described with its default, and the twins in the environment are named."""
    result = run("--help")
    assert result.returncode == 0
    for word in ("--upstream", "--max-body-bytes", "(default: 1919)", "HEADRACE_GATEWAY_LOG_LEVEL"):
        assert word in result.stdout
