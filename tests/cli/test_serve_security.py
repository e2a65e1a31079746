"""headrace serve with keys and TLS, and the commands that call it: real programs, real files."""

import json
import os
import re
import signal
import ssl
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import headrace
from headrace import Client, Tls
from tests.cli.conftest import COMMAND
from tests.cli.test_serve import BOUND_SECONDS, SERVE, Service, are_gone, read_welcome
from tests.gateway.authorities import Authority

KEYS = ("sk-first-4711", "sk-second-0815")
SECURED = (*(word for key in KEYS for word in ("--api-key", key)), "--log-level", "debug")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def tls_flags(authority):
    """Those of a service on this machine."""
    return authority.issue("localhost", "127.0.0.1").flags()


@pytest.fixture(scope="module")
def alice(authority):
    """The certificate of a client."""
    return authority.issue("alice.example")


def started(folder, *arguments, **variables):
    """A service that is ready; what it writes to stderr goes to a file in the folder."""
    with (folder / "stderr").open("wb") as stderr:
        process = subprocess.Popen(
            [*COMMAND, *SERVE, *arguments],
            stdout=subprocess.PIPE,
            stderr=stderr,
            env={**os.environ, "TMPDIR": str(folder), **variables},
            cwd=folder,
        )
    welcome = read_welcome(process.stdout)
    http, grpc = re.search(r"HTTP  (\S+)\n", welcome), re.search(r"gRPC  (\S+)", welcome)
    assert http, (folder / "stderr").read_text()
    return Service(process, http[1], grpc[1], welcome)


def ended(service):
    """End a service; whether it ended well."""
    family = service.family()
    service.process.send_signal(signal.SIGINT)
    service.process.communicate(timeout=BOUND_SECONDS)
    return service.process.returncode == 0 and are_gone(family)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the service runs and puts its temporary files."""
    return tmp_path_factory.mktemp("service")


@pytest.fixture(scope="module")
def service(folder, tls_flags):
    """A service with keys and TLS."""
    service = started(folder, *SECURED, *tls_flags)
    yield service
    assert ended(service)


@pytest.fixture
def reach(service, authority):
    """The flags and variables by which a command reaches it."""
    return ["--target", service.grpc, "--ca-certs", str(authority.file)]


def complete(service, context, key=None):
    """The status of a completion over HTTPS."""
    request = urllib.request.Request(
        f"{service.http}/completions",
        data=json.dumps({"prompt": "Hi", "max_tokens": 2, "ignore_eos": True}).encode(),
        headers={"Content-Type": "application/json"},
    )
    if key is not None:
        request.add_header("Authorization", f"Bearer {key}")
    try:
        with urllib.request.urlopen(request, timeout=BOUND_SECONDS, context=context) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_both_ports_want_a_key_by_tls(service, authority):
    """With each key an answer comes over gRPC and HTTPS, without one none does."""
    assert service.http.startswith("https://127.0.0.1:")
    context, tls = authority.client_context(), Tls(authority.file)
    for key in KEYS:
        with Client(service.grpc, api_key=key, tls=tls) as client:
            answer = client.generate("Hi", max_output_tokens=2, ignore_end_of_text=True)
            assert answer.usage.output_token_count == 2
        status, answer = complete(service, context, key)
        assert (status, answer["usage"]["completion_tokens"]) == (200, 2)
    for key in (None, "sk-third"):
        with Client(service.grpc, api_key=key, tls=tls) as client:
            assert client.check_health()
            with pytest.raises(headrace.AuthenticationError) as caught:
                client.get_model()
        assert caught.value.reason == "UNAUTHENTICATED"
        status, answer = complete(service, context, key)
        assert (status, answer["error"]["code"]) == (401, "invalid_api_key")


def test_the_keys_are_nowhere_to_be_read(service, folder, authority):
    """No program, no log and no word of the command has a key; the flag was the caller's wish."""
    context, wrong = authority.client_context(), "sk-wrong-1234"
    with Client(service.grpc, api_key=KEYS[0], tls=Tls(authority.file)) as client:
        client.generate("Hi", max_output_tokens=2)
    assert complete(service, context, KEYS[1])[0] == 200
    assert complete(service, context, wrong)[0] == 401
    programs = [process for process in service.family() if process.pid != service.process.pid]
    log = (folder / "stderr").read_text()
    assert '"status": 401' in log
    texts = [service.welcome, log, *(" ".join(program.cmdline()) for program in programs)]
    assert len(programs) == 3
    for key in (*KEYS, wrong):
        assert [text for text in texts if key in text] == []


def test_the_programs_are_joined_in_private(service, folder):
    """The socket without TLS lies in a folder that nobody else can open."""
    (private,) = folder.glob("headrace-*")
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    (socket,) = private.iterdir()
    assert stat.S_IMODE(socket.stat().st_mode) == 0o600
    assert f"--upstream=unix:{socket}" in service.child("gateway").cmdline()


EXAMPLE = re.compile(
    r"^  ((?:\S.*)?headrace chat .*|(?:curl|grpcurl) (?:.*\\\n)*.*)$", re.MULTILINE
)


def outputs_of_examples(service, folder, **variables):
    """What the examples of the welcome print, pasted into a shell in the folder."""
    outputs = []
    for example in EXAMPLE.findall(service.welcome):
        result = subprocess.run(
            ["bash", "-c", example],
            input="Hi\n",
            capture_output=True,
            text=True,
            cwd=folder,
            env={
                **os.environ,
                "PATH": f"{os.environ['PATH']}:{Path(sys.executable).parent}",
                **variables,
            },
            timeout=BOUND_SECONDS,
        )
        assert result.returncode == 0, (example, result.stderr)
        outputs.append(result.stdout)
    return outputs


def test_the_examples_work_with_a_key(service, folder):
    """Every command of the welcome answers where the key is in the environment."""
    assert "\nTry it in another terminal, with a key in HEADRACE_API_KEY:\n" in service.welcome
    outputs = outputs_of_examples(service, folder, HEADRACE_API_KEY=KEYS[1])
    assert len(outputs) == 3
    assert all(outputs[1:])  # what is said in a chat may be nothing
    assert [output for output in outputs if '"error"' in output] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["health"],
        ["models"],
        ["generate", "Hi", "--max-tokens", "2", "--seed", "3"],
        ["generate", "Hi", "--max-tokens", "2", "--seed", "3", "--json"],
        ["chat", "--max-tokens", "2", "--seed", "3"],
        ["bench", "--requests", "2", "--output-tokens", "2"],
    ],
    ids=lambda arguments: "-".join(arguments[:1] + arguments[6:]),
)
def test_every_command_has_the_key_and_tls(run, reach, arguments):
    """The key by the flag or the variable, and the certificate that is trusted."""
    flag = run(*arguments, *reach, "--api-key", KEYS[1], stdin="Hi\n")
    variable = run(*arguments, *reach, stdin="Hi\n", HEADRACE_API_KEY=",".join(KEYS))
    for result in (flag, variable):
        assert result.returncode == 0, result.stderr
        assert "headrace: " not in result.stderr
        assert result.stdout


@pytest.mark.parametrize("command", [["models"], ["generate", "Hi"], ["chat"]], ids="-".join)
def test_without_a_key_there_is_one_sentence(run, reach, command):
    """The server's words, and what they mean on the command line."""
    result = run(*command, *reach, "--api-key", "sk-third", stdin="Hi\n")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1
    assert "authorization: Bearer KEY" in result.stderr
    assert result.stderr.endswith(" --api-key or HEADRACE_API_KEY gives it.\n")


def test_without_trust_there_is_one_sentence(run, service):
    """What gRPC itself writes about a handshake is not shown, its meaning is."""
    for flags, words in ((["--tls"], "is not trusted ("), ([], "as a port with TLS does.")):
        result = run("models", "--target", service.grpc, *flags)
        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr.startswith("headrace: ")
        assert words in result.stderr
        assert result.stderr.count("\n") == 1


def test_bench_over_https(run, service, authority):
    """The load client has the key and trusts over HTTP as over gRPC."""
    bench = ["bench", "--url", service.http, "--requests", "2", "--output-tokens", "2"]
    trusting = ["--ca-certs", str(authority.file)]
    assert run(*bench, *trusting, "--api-key", KEYS[0]).returncode == 0
    for arguments, words in (
        (trusting, "headrace: The API key is missing or wrong"),
        (["--tls"], f"headrace: The certificate of {service.http} is not trusted (unable to get"),
    ):
        result = run(*bench, *arguments)
        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr.startswith(words)
    grpc = run("bench", "--url", f"https://{service.grpc}/v1", "--ca-certs", str(authority.file))
    assert grpc.returncode == 1
    assert "Traceback" not in grpc.stderr


def test_clients_may_need_certificates(tmp_path, tls_flags, authority, alice, run):
    """With --ssl-ca-certs both ports ask for a certificate, and the examples show where it goes.

    The keys of a file have names; those of variables and the socket come from there.
    """
    keys, socket = tmp_path / "keys.txt", tmp_path / "own.sock"
    keys.write_text(f"alice {KEYS[0]}\n")
    variables = {"HEADRACE_API_KEY_FILE": str(keys), "HEADRACE_UNIX_SOCKET": str(socket)}
    service = started(
        tmp_path,
        *(*tls_flags, "--ssl-ca-certs", str(authority.file), "--log-level", "debug"),
        **variables,
    )
    try:
        assert list(tmp_path.glob("headrace-*")) == []
        assert socket.is_socket()
        (tmp_path / "CLIENT.pem").write_bytes(alice.certfile.read_bytes())
        (tmp_path / "CLIENT.key").write_bytes(alice.keyfile.read_bytes())
        outputs = outputs_of_examples(service, tmp_path, HEADRACE_API_KEY=KEYS[0])
        assert len(outputs) == 3
        assert [output for output in outputs if '"error"' in output] == []
        trust = ["--ca-certs", str(authority.file)]
        bench = ["bench", "--url", service.http, "--requests", "2", *trust]
        own = ["--certfile", str(alice.certfile), "--keyfile", str(alice.keyfile)]
        assert run(*bench, *own, "--api-key", KEYS[0]).returncode == 0
        result = run(*bench, "--api-key", KEYS[0])
        assert (result.returncode, result.stdout) == (1, "")
        assert "broke off. A server that wants a certificate of its client does" in result.stderr
        with pytest.raises((urllib.error.URLError, ssl.SSLError, ConnectionError)):
            complete(service, authority.client_context(), KEYS[0])
        result = run("models", "--target", service.grpc, *trust)
        assert "wants a certificate of its client" in result.stderr
    finally:
        assert ended(service)
    assert not socket.exists()
    assert '"caller": "alice"' in (tmp_path / "stderr").read_text()


def test_nothing_is_left_in_the_end(tmp_path, tls_flags):
    """The private folder goes with the service; keys of the environment are in no command line."""
    service = started(tmp_path, *tls_flags, HEADRACE_API_KEY=KEYS[0])
    lines = [" ".join(process.cmdline()) for process in service.family()]
    assert len(list(tmp_path.glob("headrace-*"))) == 1
    assert ended(service)
    assert list(tmp_path.glob("headrace-*")) == []
    assert [line for line in lines if KEYS[0] in line] == []
    assert (tmp_path / "stderr").read_text() == ""


def test_a_bad_key_is_refused_without_telling_it(run):
    """A key that no caller could send stops the start; the sentence does not have it."""
    result = run("serve", "--api-key", "my,secret")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("headrace serve: --api-key: a key must be 1 to 512 visible")
    assert "secret" not in result.stderr
