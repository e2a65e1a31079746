"""Encrypted connections that go wrong."""

import asyncio
import contextlib
import json
import os
import ssl

import pytest

from headrace_gateway import https
from headrace_gateway.certificates import KeyPair
from headrace_gateway.config import ListeningTls
from tests.client.scripted_server import BOUND_SECONDS, Admit, Hold, piece
from tests.gateway.authorities import Authority

PATH = "/v1/completions"


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "authority")


@pytest.fixture
async def start_encrypted(start_gateway, authority):
    """Start a gateway with a certificate of the authority."""
    pair = authority.issue("localhost")

    async def start(**settings):
        settings |= {"ssl_certfile": pair.certfile, "ssl_keyfile": pair.keyfile}
        return await start_gateway(**settings)

    return start


async def connect(gateway, authority, **options):
    return await asyncio.open_connection(
        "127.0.0.1",
        gateway.port,
        ssl=authority.client_context(),
        server_hostname="localhost",
        **options,
    )


def post(body):
    data = json.dumps(body).encode()
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


@pytest.mark.parametrize(
    "sent", [b"", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n"], ids=["0", "half", "http"]
)
async def test_a_handshake_has_its_time(start_encrypted, authority, monkeypatch, caplog, sent):
    """A client that does not go on with it is cut off; the log is not filled by it."""
    monkeypatch.setattr("headrace_gateway.handshakes.HANDSHAKE_SECONDS", 0.2)
    gateway = await start_encrypted()
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    async with asyncio.timeout(BOUND_SECONDS):
        writer.write(sent)
        try:
            assert not (await reader.read()).startswith(b"HTTP/")
        except ConnectionResetError:
            pass
        finally:
            writer.close()
        reader, writer = await connect(gateway, authority)
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
        writer.close()
    assert [record for record in caplog.records if record.exc_info] == []


async def test_handshakes_are_bounded_and_the_oldest_makes_way(start_encrypted, authority):
    """Clients who only begin them take neither memory without end nor the place of others."""
    gateway = await start_encrypted(max_connections=4)
    begun = [await asyncio.open_connection("127.0.0.1", gateway.port) for _ in range(6)]
    async with asyncio.timeout(BOUND_SECONDS):
        assert [await end_of(reader) for reader, _ in begun[:2]] == [b"", b""]
        assert await get_livez(gateway, authority) == 200
        assert await end_of(begun[2][0]) == b""
    waiting = [asyncio.ensure_future(reader.read()) for reader, _ in begun[3:]]
    # They have all the time of a handshake: as long as another client takes is not enough.
    assert await get_livez(gateway, authority) == 200
    assert [task.done() for task in waiting] == [False, False, False]
    for _, writer in begun:
        writer.close()
    await asyncio.gather(*waiting)


async def end_of(reader):
    with contextlib.suppress(ConnectionResetError):
        return await reader.read()
    return b""


async def get_livez(gateway, authority):
    reader, writer = await connect(gateway, authority)
    # At once with the end of the handshake.
    writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    head = await reader.read()
    writer.close()
    return int(head.split(b" ", 2)[1])


@pytest.mark.parametrize("abort", [False, True])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_caller_who_leaves_cancels_the_call(
    start_encrypted, authority, server, abort, stream
):
    """With a farewell and without, the work in the server ends."""
    gateway, hold = await start_encrypted(), Hold()

    def script(request):
        yield Admit()
        yield piece("Hel")
        yield hold

    server.script = script
    _, writer = await connect(gateway, authority)
    writer.write(post({"prompt": "a", "stream": stream}))
    assert await asyncio.to_thread(hold.reached.wait, BOUND_SECONDS)
    if abort:
        writer.transport.abort()
    else:
        writer.close()
    assert await asyncio.to_thread(server.calls[0].wait_until_cancelled)


async def test_a_reader_who_stalls_is_cut_off(start_encrypted, authority, server):
    """Encryption has buffers of its own, which are bounded, too."""
    gateway = await start_encrypted(write_timeout_seconds=0.1)

    def script(request):
        yield Admit()
        while True:
            yield piece("x" * 100_000)

    server.script = script
    reader, writer = await connect(gateway, authority, limit=1024)
    writer.write(post({"prompt": "a", "stream": True}))
    await reader.readuntil(b"\r\n\r\n")
    writer.transport.pause_reading()
    assert await asyncio.to_thread(server.calls[0].wait_until_cancelled)
    writer.transport.abort()


async def test_the_files_are_looked_at_once_a_second(authority, tmp_path):
    """Not with each handshake; what has changed is in use with the first one after that."""
    pair, successor = authority.issue("localhost"), Authority(tmp_path / "next").issue("localhost")
    now = [0.0]
    context = https.Https(https_files(pair), clock=lambda: now[0]).context
    first = certificate_from(context)
    successor.keyfile.replace(pair.keyfile)
    successor.certfile.replace(pair.certfile)
    now[0] = https.LOOK_SECONDS / 2
    assert certificate_from(context) == first
    now[0] = https.LOOK_SECONDS
    assert certificate_from(context) != first


async def test_a_pipe_is_an_error_and_no_handshake_waits_for_it(authority, caplog):
    """It has no end before somebody writes to it, and the old certificate stays in use."""
    pair, now = authority.issue("localhost"), [0.0]
    context = https.Https(https_files(pair), clock=lambda: now[0]).context
    first = certificate_from(context)
    pair.certfile.unlink()
    os.mkfifo(pair.certfile)
    now[0] = https.LOOK_SECONDS
    assert certificate_from(context) == first
    [record] = caplog.records
    assert record.fields["cause"] == f"{pair.certfile} is no regular file."


async def test_a_session_of_a_client_with_a_certificate_is_not_resumed(authority):
    """It would be let in again when its authority is no longer trusted."""
    pair = authority.issue("localhost")
    files = ListeningTls(KeyPair(pair.certfile, pair.keyfile), authority.file)
    for tls, has_session in ((https_files(pair), True), (files, False)):
        client = shake_hands(https.Https(tls).context, authority.client_context(pair))
        assert (client.session is not None and client.session.has_ticket) is has_session


def https_files(pair):

    return ListeningTls(KeyPair(pair.certfile, pair.keyfile))


def certificate_from(context):
    """Shake hands in memory, without a name, and return the certificate that was shown."""
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.check_hostname, client_context.verify_mode = False, ssl.CERT_NONE
    return shake_hands(context, client_context).getpeercert(binary_form=True)


def shake_hands(context, client_context):
    """Return the end of the client, which has read what came behind the handshake."""
    client_context.check_hostname = False
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    for step in (client.do_handshake, server.do_handshake, client.do_handshake):
        with contextlib.suppress(ssl.SSLWantReadError):
            step()
    server.do_handshake()
    with pytest.raises(ssl.SSLWantReadError):
        client.read()
    return client
