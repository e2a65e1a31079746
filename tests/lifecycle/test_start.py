"""A server that cannot start says why in one sentence, and says nothing else wrong."""

import asyncio
import json
import socket

import pytest
import trustme

from tests.server.server_process import BOUND_SECONDS, SIMULATED, outcome, server_process, start


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


async def test_a_bad_file_of_keys_is_one_sentence(tmp_path):
    """It names the line, and shows nothing of it."""
    file = tmp_path / "keys.txt"
    file.write_text("alice one\nSECRET\n")
    status, out, err = await outcome(*SIMULATED, "--log-level", "error", "--api-key-file", file)
    assert (status, out) == (1, "")
    assert err == (
        f"headrace-server: {file}, line 2: there must be a name and a key, such as: alice KEY.\n"
    )


async def test_a_certificate_with_another_key_is_one_sentence(tmp_path):
    """Otherwise the server would start, and every handshake would fail without a word."""
    authority = trustme.CA()
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert.write_bytes(authority.issue_cert("localhost").cert_chain_pems[0].bytes())
    key.write_bytes(authority.issue_cert("localhost").private_key_pem.bytes())
    flags = ("--ssl-certfile", cert, "--ssl-keyfile", key)
    status, out, err = await outcome(*SIMULATED, "--log-level", "error", *flags)
    assert (status, out) == (1, "")
    assert err == (f"headrace-server: {key} is not the private key of the certificate in {cert}.\n")


async def test_a_socket_that_another_server_has_is_one_sentence(tmp_path):
    """The second of two servers does not take it away."""
    path = tmp_path / "s"
    async with server_process("--unix-socket", path):
        status, _, err = await outcome(*SIMULATED, "--log-level", "error", "--unix-socket", path)
    assert (status, err) == (
        1,
        f"headrace-server: Another program listens on {path}; stop it or give --unix-socket "
        "another path.\n",
    )


async def warnings_of(*arguments):
    """What a server says at its start that is no news but a warning."""
    process = await start(*SIMULATED, "--log-level", "warning", "--log-format", "json", *arguments)
    async with asyncio.timeout(BOUND_SECONDS):
        while json.loads(await process.stdout.readline())["event"] != "ready":
            pass
        process.terminate()
        _, err = await process.communicate()
    return [json.loads(line)["event"] for line in err.splitlines()]


async def test_a_server_that_is_open_to_the_network_says_so(tmp_path):
    """To all who reach it without keys, to all who listen on the way without TLS."""
    authority = trustme.CA()
    pem, ca = tmp_path / "all.pem", tmp_path / "ca.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(pem)
    authority.cert_pem.write_to_path(ca)
    tls = ("--ssl-certfile", pem, "--ssl-keyfile", pem)
    network = ("--host", "0.0.0.0")
    is_open = "open to the network: whoever reaches the port may use it; give it keys"
    is_plain = "not encrypted: whoever is on the way can read texts and keys; give it TLS"
    for arguments, expected in [
        ((), []),
        (network, [is_open, is_plain]),
        ((*network, "--api-key", "one"), [is_plain]),
        ((*network, *tls), [is_open]),
        ((*network, *tls, "--api-key", "one"), []),
        ((*network, *tls, "--ssl-ca-certs", ca), []),
    ]:
        assert await warnings_of(*arguments) == expected


async def test_a_program_is_told_all_that_it_needs_of_the_model():
    """The names, the context and what it can do, so that nobody has to ask."""
    process = await start(
        *SIMULATED, "--log-level", "error", "--served-model-name", "tiny", "small", "least"
    )
    async with asyncio.timeout(BOUND_SECONDS):
        while (line := json.loads(await process.stdout.readline()))["event"] != "ready":
            pass
        process.terminate()
        await process.communicate()
    assert line.pop("address").startswith("127.0.0.1:")
    assert line.pop("kv_cache_tokens") > 0
    assert line == {
        "event": "ready",
        "model": "tiny",
        "aliases": ["small", "least"],
        "context_length": 8192,
        "capabilities": ["completion", "chat", "constraint", "tools"],
    }


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


async def test_a_caller_who_fails_to_shake_hands_writes_nothing_of_grpcs_own(tmp_path):
    """Such as one who speaks no TLS: the log stays one of lines of JSON."""
    pem = tmp_path / "all.pem"
    trustme.CA().issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(pem)
    async with server_process("--ssl-certfile", pem, "--ssl-keyfile", pem) as server:
        host, _, port = server.address.rpartition(":")
        async with asyncio.timeout(BOUND_SECONDS):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            await reader.read()
        writer.close()
        server.process.terminate()
        _, err = await server.process.communicate()
        assert err == b""
