"""The client against the real server with keys and certificates, and the simulated engine."""

import inspect
import json
import subprocess
import sys
import time

import pytest

import headrace
from headrace import AsyncClient, Client, Tls
from tests.gateway.authorities import Authority

BOUND_SECONDS = 60.0
KEY = "sk-alice-4711"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="module")
def authority(folder):
    return Authority(folder / "authority")


@pytest.fixture(scope="module")
def keys(folder):
    """The file of keys."""
    file = folder / "keys.txt"
    file.write_text(f"alice {KEY}\n")
    return file


@pytest.fixture(scope="module")
def address(folder, authority, keys):
    """Of a server that wants a key and a certificate."""
    pair = authority.issue("localhost", "127.0.0.1")
    command = [
        *(sys.executable, "-m", "headrace_server", "--backend", "simulated", "--port", "0"),
        *("--api-key-file", str(keys), "--unix-socket", str(folder / "grpc.sock")),
        *(*pair.flags(), "--ssl-ca-certs", str(authority.file), "--log-level", "warning"),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        for line in process.stdout:
            news = json.loads(line)
            if news["event"] == "ready":
                break
        yield news["address"]
    finally:
        process.terminate()
        process.communicate(timeout=BOUND_SECONDS)
    assert process.returncode == 0


@pytest.fixture(scope="module")
def tls(authority):
    """What a client has that may connect."""
    pair = authority.issue("alice.example")
    return Tls(authority.file, pair.certfile, pair.keyfile)


CALLS = {
    "generate": lambda client: client.generate("Hi", max_output_tokens=2),
    "tokenize": lambda client: client.tokenize("Hi"),
    "detokenize": lambda client: client.detokenize([1]),
    "list_models": lambda client: client.list_models(),
    "get_model": lambda client: client.get_model(),
    "check_health": lambda client: client.check_health(),
}


async def outcomes(client):
    """The name of the error of each call, or its words if they have a key; None if it has none."""
    outcomes = {}
    for name, call in CALLS.items():
        try:
            result = call(client)
            if inspect.isawaitable(result):
                await result
            outcomes[name] = None
        except headrace.HeadraceError as error:
            outcomes[name] = type(error).__name__ if "sk-" not in error.message else error.message
    closing = client.close()
    if closing is not None:
        await closing
    return outcomes


@pytest.mark.parametrize("client_class", [Client, AsyncClient])
async def test_a_key_and_a_certificate_open_every_call(address, tls, client_class):
    """With both, every call has a result, by the name of the host as by its address."""
    port = address.rpartition(":")[2]
    for target in (address, f"localhost:{port}"):
        results = await outcomes(client_class(target, api_key=KEY, tls=tls))
        assert results == dict.fromkeys(CALLS)


@pytest.mark.parametrize("api_key", [None, "sk-mallory"])
@pytest.mark.parametrize("client_class", [Client, AsyncClient])
async def test_without_a_key_only_health_is_told(address, tls, client_class, api_key):
    """A missing key is as good as a wrong one."""
    results = await outcomes(client_class(address, api_key=api_key, tls=tls))
    assert results == {**dict.fromkeys(CALLS, "AuthenticationError"), "check_health": None}


async def test_without_a_certificate_nothing_is_told(address, authority):
    """The key alone does not open a server that wants a certificate, nor its health."""
    client = AsyncClient(address, api_key=KEY, tls=Tls(authority.file), max_attempts=1)
    assert await outcomes(client) == dict.fromkeys(CALLS, "UnavailableError")


async def test_the_socket_wants_the_key_alone(address, folder):
    """Beside the port there is the socket, without TLS."""
    target = f"unix:{folder / 'grpc.sock'}"
    assert await outcomes(Client(target, api_key=KEY)) == dict.fromkeys(CALLS)
    with Client(target) as client, pytest.raises(headrace.AuthenticationError):
        client.get_model()


def test_a_new_key_opens_without_a_restart(address, tls, keys):
    """A client that was refused is let in when its key has come into the file."""
    with Client(address, api_key="sk-bob-0815", tls=tls) as client:
        with pytest.raises(headrace.AuthenticationError):
            client.get_model()
        keys.write_text(f"alice {KEY}\nbob sk-bob-0815\n")
        end = time.monotonic() + BOUND_SECONDS
        while True:
            try:
                assert client.get_model().name == "simulated"
                break
            except headrace.AuthenticationError:
                assert time.monotonic() < end
