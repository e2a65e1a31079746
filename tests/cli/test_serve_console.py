"""What headrace serve shows: addresses, the welcome, and what is missing."""

import re
from dataclasses import replace
from importlib.metadata import PackageNotFoundError

import pytest

from headrace.cli import main
from headrace.cli.serve import command
from headrace.cli.serve.certificate import Certificate
from headrace.cli.serve.console import Security, Service, program, reachable, welcome


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1:1919", "127.0.0.1:1919"),
        ("0.0.0.0:1919", "127.0.0.1:1919"),
        ("[::]:1919", "[::1]:1919"),
        ("10.1.2.3:80", "10.1.2.3:80"),
    ],
)
def test_all_addresses_are_reached_on_the_loopback(address, expected):
    """A port that is open on all addresses is shown with one that works on this machine."""
    assert reachable(address) == expected


@pytest.mark.parametrize(
    ("argument", "directory", "expected"),
    [
        ("env/bin/headrace", ".", "env/bin/headrace"),
        ("../env/bin/headrace", "sub", "../env/bin/headrace"),
        ("./headrace", "env/bin", "{root}/env/bin/headrace"),
        ("../../../../env/bin/headrace", "a/b/c/d", "../../../../env/bin/headrace"),
        ("env/bin/__main__.py", ".", "'my env/python3' -m headrace"),
    ],
)
def test_the_program_is_named_so_that_it_can_be_started(
    monkeypatch, tmp_path, argument, directory, expected
):
    """Without headrace on the PATH the examples name the file, as short as it can be."""
    (tmp_path / directory).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(tmp_path / directory)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.argv", [argument])
    monkeypatch.setattr("sys.executable", str(tmp_path / "my env" / "python3"))
    assert program() == expected.format(root=tmp_path)


def test_a_program_on_the_path_is_named_without_it(monkeypatch, tmp_path):
    """With headrace on the PATH its name is enough."""
    (tmp_path / "headrace").touch(mode=0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program() == "headrace"


SERVICE = Service(
    model="tiny",
    aliases=(),
    context_length=2048,
    can_chat=True,
    num_kv_tokens=64,
    http_url="http://127.0.0.1:1919",
    has_page=False,
    grpc_address="0.0.0.0:1920",
)


def test_a_model_without_a_chat_template_gets_other_examples():
    """The examples suit the model: a text to continue where there is no conversation."""
    text = welcome(replace(SERVICE, can_chat=False), Security())
    assert 'generate "Once upon a time" --max-tokens 60\n' in text
    assert "/v1/completions" in text
    assert '{"text": "Once upon a time", "stopping": {"max_output_tokens": 60}}' in text


@pytest.mark.parametrize(
    ("has_page", "lines"), [(True, ["  Chat  http://127.0.0.1:1919/"]), (False, [])]
)
def test_the_chat_page_is_named_where_there_is_one(has_page, lines):
    """A person is shown the address to open in a browser."""
    service = replace(SERVICE, http_url="http://0.0.0.0:1919", has_page=has_page)
    text = welcome(service, Security())
    assert [line for line in text.splitlines() if line.startswith("  Chat")] == lines


def commands_of(service, security):
    """The three commands of a welcome, as far as they differ by security."""
    text = welcome(service, security)
    return [
        re.search(pattern, text)[0] for pattern in (r"\S+ chat.*", r"curl .*?/v1", r"grpcurl .*-d")
    ]


def test_without_security_the_examples_are_short(monkeypatch):
    """Nobody is shown what they do not need."""
    monkeypatch.setattr("headrace.cli.serve.console.program", lambda: "headrace")
    assert commands_of(SERVICE, Security()) == [
        "headrace chat",
        "curl http://127.0.0.1:1919/v1",
        "grpcurl -plaintext -d",
    ]


def test_the_examples_trust_a_certificate_that_the_system_does_not(monkeypatch, tmp_path):
    """They name its file and a host that it has, and what the client is to show."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("headrace.cli.serve.console.program", lambda: "headrace")
    service = replace(SERVICE, http_url="https://0.0.0.0:1919")
    own = Certificate(("*.models.example", "localhost"), is_trusted=False)
    security = Security(True, own, str(tmp_path / "my cert.pem"), wants_certificates=True)
    assert commands_of(service, security) == [
        "headrace chat --ca-certs 'my cert.pem' --certfile CLIENT.pem --keyfile CLIENT.key",
        "curl --cacert 'my cert.pem' --cert CLIENT.pem --key CLIENT.key https://localhost:1919/v1",
        "grpcurl -cacert 'my cert.pem' -cert CLIENT.pem -key CLIENT.key "
        '-H "authorization: Bearer $HEADRACE_API_KEY" -d',
    ]
    assert "\nTry it in another terminal, with a key in HEADRACE_API_KEY:\n" in welcome(
        service, security
    )


def test_the_examples_go_to_the_name_of_a_certificate(monkeypatch):
    """A certificate that the system trusts is for a name of the network; no file is needed."""
    monkeypatch.setattr("headrace.cli.serve.console.program", lambda: "headrace")
    service = replace(SERVICE, http_url="https://0.0.0.0:1919")
    public = Certificate(("*.example", "models.example"), is_trusted=True)
    assert commands_of(service, Security(False, public, "cert.pem")) == [
        "headrace chat --target models.example:1920 --tls",
        "curl https://models.example:1919/v1",
        "grpcurl -d",
    ]


@pytest.mark.parametrize(
    ("names", "host"),
    [
        (("127.0.0.1", "localhost"), "127.0.0.1:80"),
        (("models.example", "localhost"), "localhost:80"),
        (("*.models.example",), "127.0.0.1:80"),
        (("2001:db8::1",), "[2001:db8::1]:80"),
        ((), "127.0.0.1:80"),
    ],
)
def test_the_host_is_one_of_the_certificate(names, host):
    """The address that is listened on is shown where the certificate has it or nothing better."""
    assert Security(False, Certificate(names, is_trusted=False)).host("0.0.0.0:80") == host


def test_missing_packages_are_named_with_the_command_that_installs_them(monkeypatch, capsys):
    """Without an extra, serve names what is missing and how to install it."""

    def distribution(name):
        if name in ("torch", "aiohttp"):
            raise PackageNotFoundError(name)

    monkeypatch.setattr(command, "distribution", distribution)
    assert main(["serve"]) == 1
    assert capsys.readouterr().err == (
        "headrace: Serving needs packages that are not installed (aiohttp, torch). "
        "Install them, in a checkout of Headrace, with: pip install '.[server,gateway]'\n"
    )
