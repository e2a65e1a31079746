"""headrace serve: the two real programs, the simulated engine, and every way of ending."""

import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

import headrace
from headrace.cli.serve.supervisor import SAME_WISH_SECONDS
from tests.cli.conftest import COMMAND
from tests.cli.terminal import CTRL_C, terminal

# Two interpreters with their libraries start in this time even on a busy machine.
BOUND_SECONDS = 60.0
SERVE = [
    *("serve", "--backend", "simulated", "--port", "0", "--grpc-port", "0"),
    *("--log-level", "warning"),
]


@dataclass
class Service:
    """A service that is ready."""

    process: subprocess.Popen
    http: str
    grpc: str
    welcome: str

    def family(self):
        """The processes of the service: itself, the programs, the engine."""
        parent = psutil.Process(self.process.pid)
        return [parent, *parent.children(recursive=True)]

    def child(self, name):
        (process,) = [p for p in self.family() if f"headrace_{name}" in p.cmdline()]
        return process

    def terminate_again(self):
        """Send SIGTERM when it is a wish of its own."""
        time.sleep(2 * SAME_WISH_SECONDS)
        self.process.terminate()

    def end(self):
        """Wait for the end and return the exit status and what was said on stderr."""
        _, stderr = self.process.communicate(timeout=BOUND_SECONDS)
        return self.process.returncode, stderr.decode()


def are_gone(processes):
    """Whether the processes end within the bound."""
    _, alive = psutil.wait_procs(processes, timeout=BOUND_SECONDS)
    return not alive


def read_welcome(stdout):
    lines = []
    for line in iter(stdout.readline, b""):
        lines.append(line.decode())
        if line == b"Ctrl-C stops it.\n":
            break
    return "".join(lines)


@pytest.fixture
def serve(start):
    """Starts a service and waits until it is ready."""

    def serve(*arguments):
        process = start(*SERVE, *arguments)
        welcome = read_welcome(process.stdout)
        http = re.search(r"HTTP  (https?://\S+/v1)\n", welcome)
        grpc = re.search(r"gRPC  (\S+)(?: \(TLS\))?\n", welcome)
        assert http, process.communicate(timeout=BOUND_SECONDS)
        assert grpc
        return Service(process, http[1], grpc[1], welcome)

    return serve


@contextmanager
def taken_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def open_url(url, body=None):
    request = urllib.request.Request(
        url,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    return urllib.request.urlopen(request, timeout=BOUND_SECONDS)


def get_json(url, body=None):
    with open_url(url, body) as response:
        return json.load(response)


def test_it_serves_both_and_ends_with_ctrl_c(serve):
    """When it says that it is ready, both ports answer; Ctrl-C ends everything with 0."""
    service = serve("--served-model-name", "tiny", "small")
    assert "Serving tiny (also small) with 8192 tokens of context.\n" in service.welcome
    assert re.search(r"\nThe KV cache holds [1-9]\d+ tokens of all ", service.welcome)
    with urllib.request.urlopen(re.search(r"  Chat  (\S+)\n", service.welcome)[1]) as page:
        assert b"<title>Headrace</title>" in page.read()
    with headrace.Client(service.grpc) as client:
        answer = client.generate("Hi", max_output_tokens=3, ignore_end_of_text=True)
        assert answer.usage.output_token_count == 3
    body = {"model": "small", "prompt": "Hi", "max_tokens": 3, "ignore_eos": True}
    assert get_json(f"{service.http}/completions", body)["usage"]["completion_tokens"] == 3

    family = service.family()
    assert len(family) == 4
    service.process.send_signal(signal.SIGINT)
    status, stderr = service.end()
    assert (status, stderr) == (0, "")  # in a file there is what the level of the logs lets through
    assert are_gone(family)


def test_a_file_has_lines_of_the_log_alone(serve):
    """Where stderr is no terminal all is JSON, and each phase and the end are told once."""
    service = serve("--log-level", "info")
    service.process.terminate()
    status, stderr = service.end()
    assert status == 0
    lines = [json.loads(line) for line in stderr.splitlines()]
    assert [line["event"] for line in lines].count("stopping") == 1
    phases = [line["detail"].partition(",")[0] for line in lines if line["event"] == "engine"]
    assert len(phases) == len(set(phases))


def test_the_examples_work(serve, environment):
    """Every command of the welcome can be pasted into a shell and answers."""
    service = serve("--seed", "3")  # another may begin with the end of the text
    examples = re.findall(
        r"^  (.*headrace chat .*|(?:curl|grpcurl) (?:.*\\\n)*.*)$", service.welcome, re.MULTILINE
    )
    words = [re.search(r"headrace chat|\w*curl", example)[0] for example in examples]
    assert words == ["headrace chat", "curl", "grpcurl"]
    # grpcurl is among the programs of the environment, which may not be active.
    path = f"{environment['PATH']}:{Path(sys.executable).parent}"
    for example in examples:
        result = subprocess.run(
            ["bash", "-c", example],
            input="Hi\n",
            capture_output=True,
            text=True,
            env={**environment, "PATH": path},
            timeout=BOUND_SECONDS,
        )
        assert result.returncode == 0, result.stderr
        assert '"error"' not in result.stdout
        assert result.stdout


@pytest.mark.parametrize("whom", ["the command", "every process"])
def test_sigterm_lets_answers_finish(serve, whom):
    """SIGTERM ends with 0 when the answers that run on both ports are complete.

    Service managers send it to every process of a service.
    """
    service = serve("--simulated-step-seconds", "0.02")
    body = {"prompt": "Hi", "max_tokens": 50, "ignore_eos": True, "stream": True}
    with (
        headrace.Client(service.grpc) as client,
        open_url(f"{service.http}/completions", body) as answer,
    ):
        stream = client.stream("Hi", max_output_tokens=50, ignore_end_of_text=True)
        pieces = iter(stream)
        next(pieces)
        assert answer.readline().startswith(b'data: {"')
        family = service.family() if whom == "every process" else [service.process]
        for process in reversed(family):  # the command passes it on at once
            process.terminate()
        for _ in pieces:
            pass
        rest = answer.read()
    assert b'"finish_reason":"length"' in rest
    assert rest.endswith(b"data: [DONE]\n\n")
    assert stream.generation.finish_reason == "max_output_tokens"
    assert service.end()[0] == 0


def is_ready_over_http(service):
    try:
        with open_url(service.http.removesuffix("v1") + "readyz") as response:
            return response.status == 200
    except urllib.error.HTTPError as error:
        return error.code != 503


def test_both_refuse_at_once_while_answers_run(serve):
    """After the signal the health of both ports turns, although an answer runs on each."""
    service = serve("--simulated-step-seconds", "0.05")
    body = {"prompt": "Hi", "max_tokens": 5000, "ignore_eos": True, "stream": True}
    with (
        headrace.Client(service.grpc) as client,
        open_url(f"{service.http}/completions", body) as answer,
    ):
        pieces = iter(client.stream("Hi", max_output_tokens=5000, ignore_end_of_text=True))
        next(pieces)
        assert answer.readline().startswith(b'data: {"')
        assert client.check_health()
        assert is_ready_over_http(service)
        service.process.terminate()
        end = time.monotonic() + BOUND_SECONDS
        while client.check_health() or is_ready_over_http(service):
            assert time.monotonic() < end
        with pytest.raises(headrace.UnavailableError, match="about to stop"):
            client.generate("Hi", max_output_tokens=1)
        next(pieces)
        service.terminate_again()
    assert service.end()[0] == 0


def test_the_end_takes_one_shutdown_timeout(serve):
    """Answers that run too long on both ports end after one timeout and not one after another."""
    timeout_seconds = 5
    service = serve(
        *("--simulated-step-seconds", "0.05", "--shutdown-timeout", str(timeout_seconds))
    )
    body = {"prompt": "Hi", "max_tokens": 5000, "ignore_eos": True, "stream": True}
    with (
        headrace.Client(service.grpc) as client,
        open_url(f"{service.http}/completions", body) as answer,
    ):
        pieces = iter(client.stream("Hi", max_output_tokens=5000, ignore_end_of_text=True))
        next(pieces)
        assert answer.readline().startswith(b'data: {"')
        begin = time.monotonic()
        service.process.terminate()
        with pytest.raises(headrace.UnavailableError):
            list(pieces)
        assert b'"error"' in answer.read()
    assert service.end()[0] == 0
    assert timeout_seconds <= time.monotonic() - begin < 2 * timeout_seconds


def test_a_second_signal_does_not_wait(serve):
    """The second signal ends everything, although an answer is running."""
    service = serve("--simulated-step-seconds", "0.05", "--log-level", "info")
    family = service.family()
    with headrace.Client(service.grpc) as client:
        stream = client.stream("Hi", max_output_tokens=5000, ignore_end_of_text=True)
        pieces = iter(stream)
        next(pieces)
        service.process.terminate()
        while b'"event": "stopping"' not in service.process.stderr.readline():
            assert service.process.poll() is None
        service.terminate_again()
        with pytest.raises(headrace.UnavailableError):
            list(pieces)
    assert service.end()[0] == 0
    assert are_gone(family)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gateway", "The gateway was killed by SIGKILL, so the server was stopped; "),
        ("server", "The server was killed by SIGKILL, so the gateway was stopped; "),
    ],
)
def test_when_one_program_dies_the_other_is_stopped(serve, name, words):
    """A program that dies takes the other with it; the exit status is 1, with a sentence."""
    service = serve()
    family = service.family()
    service.child(name).kill()
    status, stderr = service.end()
    assert status == 1
    line = json.loads(stderr.splitlines()[-1])
    assert (line["level"], line["event"]) == ("error", "ended")
    assert line["detail"] == f"{words}start again with `headrace serve`."
    assert are_gone(family)


def test_nothing_outlives_a_killed_parent(serve):
    """Kill -9 of the command ends the programs and the engine, too."""
    service = serve()
    family = service.family()
    service.process.kill()
    assert are_gone(family)


@pytest.mark.parametrize(
    ("flag", "program"), [("--port", "headrace-gateway"), ("--grpc-port", "headrace-server")]
)
def test_a_taken_port_is_one_sentence(start, flag, program):
    """A taken port ends the command with 1 and the sentence of the program that wanted it."""
    with taken_port() as port:
        process = start(*SERVE, flag, str(port))
        family = [psutil.Process(process.pid)]
        _, stderr = process.communicate(timeout=BOUND_SECONDS)
    lines = [line for line in stderr.decode().splitlines() if not line.startswith("headrace: ")]
    assert process.returncode == 1
    assert len(lines) == 1
    assert lines[0].startswith(f"{program}: ")
    assert str(port) in lines[0]
    assert re.search(rf"[Cc]hoose another with .*{flag}\b", lines[0])
    assert are_gone(family)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--max-num-seqs", "0"], "headrace-server: --max-num-seqs: '0' must be"),
        (["--max-body-bytes", "few"], "headrace-gateway: --max-body-bytes: 'few' must"),
        (["--model", "/no/such/model"], "headrace-server: --model: there is no directory"),
        (["/no/such/model"], "headrace-server: --model: there is no directory"),
        (["a", "--model", "b"], "headrace serve: a and --model are two models; give one of"),
        (["--grpc-port", "many"], "headrace serve: --grpc-port: 'many' must be a port"),
        (["--max-num-seq", "4"], "headrace serve: there is no flag or argument --max-num-seq"),
    ],
)
def test_a_wrong_flag_is_one_sentence(run, arguments, words):
    """A wrong flag or model ends the command with 2 and the sentence of who reads it."""
    ports = ["--port", "0", "--grpc-port", "0"]
    result = run("serve", *ports, "--log-level", "warning", *arguments)
    lines = [line for line in result.stderr.splitlines() if not line.startswith("headrace: ")]
    assert (result.returncode, result.stdout) == (2, "")
    assert len(lines) == 1
    assert lines[0].startswith(words)


def test_a_signal_while_the_model_loads_ends_it(start):
    """Ctrl-C does not wait for the model."""
    process = start(*SERVE, "--log-level", "info", "--simulated-load-seconds", "600")
    while b"loading the simulated model" not in process.stderr.readline():
        assert process.poll() is None
    family = [psutil.Process(process.pid)]
    family += family[0].children(recursive=True)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=BOUND_SECONDS)
    assert process.returncode == 0
    assert are_gone(family)


def test_while_the_model_loads_http_tells_how_far(start):
    """The port is open at once; until the model is there /readyz says 503, phase and per cent."""
    process = start(*SERVE, "--log-level", "info", "--simulated-load-seconds", "600")
    addresses, is_loading = [], False
    while not (is_loading and len(addresses) == 2):
        news = json.loads(process.stderr.readline())
        if news["event"] == "listening":
            addresses.append(news["address"])
        is_loading |= news.get("detail", "").startswith("loading the simulated model")
    with pytest.raises(urllib.error.HTTPError) as caught:  # the gateway listens after the server
        open_url(f"http://{addresses[1]}/readyz")
    assert caught.value.code == 503
    message = json.load(caught.value)["error"]["message"]
    assert re.search(r"\(loading the simulated model, \d+ %\)", message)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=BOUND_SECONDS)
    assert process.returncode == 0


def test_a_terminal_shows_progress_and_ctrl_c_stops(environment):
    """At a terminal loading is a bar in one line, and Ctrl-C is for this program alone."""
    command = [*COMMAND, *SERVE, "--simulated-load-seconds", "1"]
    with terminal(command, environment) as screen:
        screen.wait_for(" % loading the simulated model")
        screen.wait_for("Ctrl-C stops it.")
        screen.type(CTRL_C)
        screen.wait_for("Stopping when the running answers are complete")
        assert screen.wait_for_end() == 0
    assert b"Traceback" not in screen.shown
